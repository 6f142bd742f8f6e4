// test/tour.mjs: what `npm start` shows. It starts the MCP server as a client would, calls the tools, prints each call and
// its answer, restarts the server in the middle, and leaves nothing running. `--svg FILE` also draws README's picture.

import { spawn, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import { createRequire } from 'node:module';
import os from 'node:os';
import path from 'node:path';
import readline from 'node:readline';
import { fileURLToPath } from 'node:url';

const ANSWER_MS = 30_000;
const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const server = path.join(root, 'dist', 'mcp.js');

// A place of its own, so that the tour neither sees nor disturbs a Host that is in use.
const home = fs.mkdtempSync(path.join(os.tmpdir(), 'vdt-tour-'));
const workspace = path.join(home, 'workspace');
fs.mkdirSync(workspace);
const jsDebug = path.join(root, '.cache', 'peers', 'node_modules', '@debugmcp', 'mcp-debugger', 'dist', 'vendor', 'js-debug', 'vsDebugServer.js'); // if the tests have installed it
const env = { ...process.env, HOME: home, VSCODE_DEVTOOLS_DIR: path.join(home, 'run'), ...(fs.existsSync(jsDebug) && !process.env.VSCODE_DEVTOOLS_JS_DEBUG && { VSCODE_DEVTOOLS_JS_DEBUG: jsDebug }) }; // no rc file: the same everywhere
const servers = new Set();

const DIM = 2;
const [BOLD, RED, GREEN, YELLOW, CYAN] = [1, 31, 32, 33, 36];
const drawing = process.argv.includes('--svg');
const drawn = []; // [color, text] a line
const color = (code, text) => (process.stdout.isTTY ? `\x1b[${code}m${text}\x1b[0m` : text);
function print(code, text) {
  drawn.push(...text.split('\n').map((line) => [code, line]));
  console.log(color(code, text));
}
const say = (text) => print(BOLD, `\n${text}`);
const show = (arrow, code, text) => print(code, `  ${arrow} ${text.replaceAll(home, '~').replaceAll('\n', '\n    ')}`);

/** Starts an MCP server and connects to it. */
async function startServer() {
  const child = spawn(process.execPath, [server, '--workspace', workspace], { env, stdio: ['pipe', 'pipe', 'inherit'] });
  servers.add(child);
  const waiting = new Map();
  readline.createInterface({ input: child.stdout }).on('line', (line) => {
    const message = JSON.parse(line);
    waiting.get(message.id)?.(message);
    waiting.delete(message.id);
  });
  let nextId = 1;
  const request = (method, params) => new Promise((resolve, reject) => {
    const id = nextId++;
    const late = setTimeout(() => reject(new Error(`${method} was not answered in ${ANSWER_MS} ms`)), ANSWER_MS);
    waiting.set(id, (message) => {
      clearTimeout(late);
      if (message.error) reject(new Error(message.error.message));
      else resolve(message.result);
    });
    child.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', id, method, params })}\n`);
  });
  const { protocolVersion, serverInfo } = await request('initialize', { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'tour', version: '1' } });
  show('<', GREEN, `${serverInfo.name} ${serverInfo.version} speaks MCP ${protocolVersion}, pid ${child.pid}`);
  return { child, request };
}

/** Calls a tool and prints call and answer. */
async function call(connection, name, args = {}) {
  show('>', CYAN, `${name} ${JSON.stringify(args)}`);
  const started = performance.now();
  const { content, structuredContent, isError } = await connection.request('tools/call', { name, arguments: args });
  show('<', isError ? RED : GREEN, content[0].text);
  const { active, orphaned } = structuredContent.ledger;
  const shown = active.map((one) => `${one.terminal ?? one.session} ${one.command}${one.children.count ? ` + ${one.children.count}` : ''}`).concat(orphaned.map((one) => `ORPHANED ${one.pid} ${one.command}`));
  show(' ', DIM, `${(performance.now() - started).toFixed(1)} ms; ledger: ${shown.join(', ') || 'nothing'}`);
  return structuredContent;
}

/** Calls a tool without a word. */
async function quietly(connection, name, args = {}) {
  return (await connection.request('tools/call', { name, arguments: args })).structuredContent;
}

/** Looks again until there is something, up to a deadline. */
async function until(look) {
  const giveUpAt = performance.now() + ANSWER_MS;
  for (;;) {
    const found = await look();
    if (found) return found;
    if (performance.now() > giveUpAt) throw new Error('waited in vain');
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

function expect(isTrue, what) {
  if (!isTrue) throw new Error(`not as it should be: ${what}`);
}

async function end({ child }) {
  child.stdin.end();
  await new Promise((resolve) => child.once('exit', resolve));
  servers.delete(child);
}

function cli(...args) {
  show('$', CYAN, `vscode-devtools ${args.join(' ')}`);
  const { stdout, stderr } = spawnSync(process.execPath, [server, ...args, '--workspace', workspace], { env, encoding: 'utf8', timeout: ANSWER_MS });
  show(' ', DIM, (stdout + stderr).trimEnd());
}

const SHOPS = {
  nodejs: { name: 'shop.js', text: "const cart = [{ item: 'tea', price: 5 }, { item: 'cup', price: '7' }, { item: 'pot', price: 9 }];\nlet total = 0;\nfor (const { item, price } of cart) {\n  total += price;\n}\nconsole.log('total:', total);\n", condition: "typeof price !== 'number'", wonder: 'total + price' },
  python: { name: 'shop.py', text: "cart = [('tea', 5), ('cup', '7'), ('pot', 9)]\ntotal = 0\nfor item, price in cart:\n    total += len(price) if isinstance(price, str) else price\nprint('total:', total)\n", condition: 'not isinstance(price, int)', wonder: 'len(price), int(price)' },
};

/** Debugs in the first language whose adapter is here; the language, or '' if there is none. */
async function debugBuggy(connection) {
  for (const [language, { name, text, condition, wonder }] of Object.entries(SHOPS)) {
    fs.writeFileSync(path.join(workspace, name), text);
    const started = await call(connection, 'debug_start', { language, program: name, session: 'shop', breakpoints: [{ file: name, line: 4, condition }] });
    if (started.error?.code === 'E_NO_ADAPTER') continue; // the answer says how to get it
    expect(started.state === 'STOPPED', 'a stop at the breakpoint');
    await call(connection, 'debug_variables', { scope: language === 'nodejs' ? 'block' : 'local' });
    await call(connection, 'debug_evaluate', { expression: wonder });
    return language;
  }
  show(' ', YELLOW, 'no debug adapter is on this machine: the answers above say what was looked for and how to get one');
  return '';
}

const FAMILY = {
  'orders.ts': "import { fork } from 'node:child_process';\nimport { Worker } from 'node:worker_threads';\n\ntype Order = { id: number; total: number };\nconst orders: Order[] = [{ id: 1, total: 30 }, { id: 2, total: 12 }];\nnew Worker(`${__dirname}/pack.js`, { workerData: orders[0] });\nfork(`${__dirname}/bill.js`, ['12']);\n",
  'pack.ts': "import { workerData } from 'node:worker_threads';\n\nconst order: { id: number } = workerData;\nconsole.log('packed', order.id);\n",
  'bill.ts': "const total: number = Number(process.argv[2]);\nconsole.log('billed', total);\n",
};

/** TypeScript by its source maps, a worker and a forked process, with our own adapter: js-debug need not be here. */
async function debugFamily(connection) {
  for (const [name, text] of Object.entries(FAMILY)) {
    fs.writeFileSync(path.join(workspace, name), text);
    const { code, map } = createRequire(import.meta.url)('esbuild').transformSync(text, { loader: 'ts', format: 'cjs', sourcemap: true, sourcefile: `../${name}` });
    fs.mkdirSync(path.join(workspace, 'out'), { recursive: true });
    const script = name.replace('.ts', '.js');
    fs.writeFileSync(path.join(workspace, 'out', script), `${code}//# sourceMappingURL=${script}.map\n`);
    fs.writeFileSync(path.join(workspace, 'out', `${script}.map`), map);
  }
  let state = await call(connection, 'debug_start', { adapter: 'node', program: 'out/orders.js', session: 'orders', breakpoints: [{ file: 'pack.ts', line: 4 }, { file: 'bill.ts', line: 2 }] });
  const seen = [];
  while (state.state === 'STOPPED') {
    seen.push(path.basename(state.stopReason.location.file));
    await call(connection, 'debug_evaluate', { expression: seen.at(-1) === 'pack.ts' ? 'order' : 'total' });
    state = await call(connection, 'debug_continue', { session: 'orders', wait: true });
  }
  expect(seen.sort().join() === 'bill.ts,pack.ts' && state.exitCode === 0, `a stop in the worker and one in the fork, not ${seen.join()}`);
}

async function tour() {
  say('1. An MCP client starts the server and asks for its tools');
  const first = await startServer();
  const { tools } = await first.request('tools/list');
  show('<', GREEN, tools.map(({ name }) => name).join(', ').replace(/(.{80,110}?) /g, '$1\n'));

  say('2. A command that fails: one call, one answer, the true exit code');
  const failing = await call(first, 'terminal_run', { command: 'echo checking; ls /nowhere; (exit 3)' });
  expect(failing.status === 'completed' && failing.exitCode === 3, 'exit code 3');

  say('3. A command that asks is not waited for in vain: it is answered');
  const asking = await call(first, 'terminal_run', { command: 'printf "Delete everything? [y/N] "; read answer; echo "you said $answer"' });
  expect(asking.status === 'waiting_for_input', 'a question');
  await call(first, 'terminal_input', { name: 'default', text: 'n' });

  say('4. A server runs in the background; the ledger of every answer names it until it is ended');
  fs.writeFileSync(path.join(workspace, 'server.js'), "require('node:http').createServer().listen(0, '127.0.0.1')");
  const web = await call(first, 'terminal_run', { command: 'node server.js', name: 'web', waitMode: 'background' });
  const inTree = await until(async () => (await quietly(first, 'process_list')).active.find((one) => one.commandLine === 'node server.js'));
  await call(first, 'process_kill', { pid: inTree.pid });

  say('5. A program that adds up wrongly: the debugger stops where a price is no number, and shows why');
  const language = await debugBuggy(first);

  say('6. A TypeScript program with a worker and a fork, debugged with nothing but Node');
  await debugFamily(first);

  say('7. The MCP server dies while a command runs and a program is stopped; the next one finds both');
  await call(first, 'terminal_run', { command: 'echo begun; sleep 1; echo done', waitMode: 'background' });
  first.child.kill('SIGKILL');
  servers.delete(first.child);
  const second = await startServer();
  const survived = await call(second, 'terminal_wait');
  expect(survived.output === 'begun\ndone\n' && survived.pid === failing.pid, 'the same terminal, with all its output');
  if (language) {
    const stopped = await call(second, 'debug_status', { session: 'shop' });
    expect(stopped.state === 'STOPPED', 'still stopped');
    const ended = await call(second, 'debug_continue', { session: 'shop', wait: true });
    expect(ended.state === 'TERMINATED', 'the end of the program');
  }

  say('8. Even Host and Client are killed; what they left is found, and ended');
  await call(second, 'terminal_run', { command: 'sleep 1000', name: 'web', waitMode: 'background' });
  const { host, client } = await quietly(second, 'devtools_status');
  for (const { pid } of [client, host]) process.kill(pid, 'SIGKILL'); // the tour's own
  await end(second);
  const third = await startServer();
  const found = await call(third, 'process_list');
  expect(found.orphaned.some((one) => one.commandLine === 'sleep 1000'), 'the orphan');
  const ended = await call(third, 'process_kill_orphans');
  expect(ended.failed.length === 0 && web.status === 'running', 'its end');
  await end(third);

  say('9. Every call was written down before it ran');
  cli('audit', '--verify');

  say('10. To use it in VS Code, put this into .vscode/mcp.json of your workspace');
  print(GREEN, createRequire(import.meta.url)(server).mcpJson().replaceAll(root, drawing ? '/path/to/vscode-devtools' : root));
}

/** The tour as a picture of a terminal. */
function svg() {
  const fill = { [BOLD]: '#ffffff', [DIM]: '#8b949e', [RED]: '#ff7b72', [GREEN]: '#7ee787', [YELLOW]: '#f2cc60', [CYAN]: '#79c0ff' };
  const escape = (text) => (text.length > 126 ? `${text.slice(0, 125)}…` : text).replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
  const rows = drawn.slice(1).map(([code, text], row) => `<text x="16" y="${30 + row * 18}" fill="${fill[code]}"${code === BOLD ? ' font-weight="bold"' : ''}>${escape(text)}</text>`);
  const height = 30 + drawn.length * 18;
  return `<svg xmlns="http://www.w3.org/2000/svg" width="1020" height="${height}" font-family="ui-monospace, Menlo, Consolas, monospace" font-size="13" xml:space="preserve">
<rect width="1020" height="${height}" rx="8" fill="#0d1117"/>
${rows.join('\n')}
</svg>
`;
}

/** Ends all that the tour started, whatever happened. */
function cleanUp() {
  for (const child of servers) child.kill();
  const { stdout } = spawnSync(process.execPath, [server, 'host', 'stop'], { env, encoding: 'utf8', timeout: ANSWER_MS });
  fs.rmSync(home, { recursive: true, force: true });
  return stdout.trim();
}

process.stdout.on('error', () => {}); // `npm start | head`: the tour still ends what it started
for (const [signal, code] of [['SIGINT', 130], ['SIGTERM', 143], ['SIGHUP', 129]]) {
  process.on(signal, () => {
    cleanUp();
    process.exit(code);
  });
}
try {
  await tour();
  say(`11. Nothing is left running: ${cleanUp()}`);
  if (drawing) fs.writeFileSync(process.argv[process.argv.indexOf('--svg') + 1], svg());
} catch (error) {
  console.error(`the tour failed: ${error.message}`);
  cleanUp();
  process.exitCode = 1;
}
