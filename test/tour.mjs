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
const env = { ...process.env, VSCODE_DEVTOOLS_DIR: path.join(home, 'run') };
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
  show(' ', DIM, `${(performance.now() - started).toFixed(1)} ms; ledger: ${active.length} active, ${orphaned.length} orphaned`);
  return structuredContent;
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

async function tour() {
  say('1. An MCP client starts the server and asks for its tools');
  const first = await startServer();
  const { tools } = await first.request('tools/list');
  for (const { name, title } of tools) show('<', GREEN, `${name}: ${title}`);

  say('2. The first call starts a Host and a Client that live on their own');
  const before = await call(first, 'devtools_status');

  say('3. A wrong call is answered with what to do');
  await call(first, 'devtools_status', { verbose: true });

  say('4. The server ends; another one finds the same Host and Client');
  await end(first);
  const second = await startServer();
  const after = await call(second, 'devtools_status');
  const same = before.host.pid === after.host.pid && before.client.pid === after.client.pid;
  if (!same) throw new Error('Host or Client did not survive the restart of the MCP server');
  show('=', YELLOW, `Host ${after.host.pid} and Client ${after.client.pid} are the same processes as before`);
  await end(second);

  say('5. Every call that ran was written down before; a refused one is noted');
  cli('audit');
  cli('audit', '--verify');

  say('6. To use it in VS Code, put this into .vscode/mcp.json of your workspace');
  print(GREEN, createRequire(import.meta.url)(server).mcpJson().replaceAll(root, drawing ? '/path/to/vscode-devtools' : root));
}

/** The tour as a picture of a terminal. */
function svg() {
  const fill = { [BOLD]: '#ffffff', [DIM]: '#8b949e', [RED]: '#ff7b72', [GREEN]: '#7ee787', [YELLOW]: '#f2cc60', [CYAN]: '#79c0ff' };
  const escape = (text) => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
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
  say(`7. Nothing is left running: ${cleanUp()}`);
  if (drawing) fs.writeFileSync(process.argv[process.argv.indexOf('--svg') + 1], svg());
} catch (error) {
  console.error(`the tour failed: ${error.message}`);
  cleanUp();
  process.exitCode = 1;
}
