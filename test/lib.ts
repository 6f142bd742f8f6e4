// What the suites share: a private world for each test, an MCP client of a few lines, and waiting without sleeping.

import { spawn, spawnSync, type ChildProcessByStdio } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import type { Readable, Writable } from 'node:stream';
import fc from 'fast-check';
import { connect, errorName, isObject, pipePath, readKey, type Connection } from '../bootstrap.js';

export type Json = Record<string, unknown>;

export const root = path.resolve(__dirname, '..', '..');
export const serverFile = path.join(root, 'dist', 'mcp.js');
const scratch = process.env.VSCODE_DEVTOOLS_TEST_SCRATCH ?? fs.mkdtempSync('/tmp/vdt-');
let worlds = 0;

export type User = { uid: number; gid: number };

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
    const client = new McpClient([options.file ?? serverFile, '--workspace', this.workspace, ...(options.args ?? [])], this.env(options.env), this.user);
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
        if (!fs.readFileSync(`/proc/${name}/environ`, 'latin1').includes(mine)) continue;
        const words = fs.readFileSync(`/proc/${name}/cmdline`, 'latin1').split('\0');
        const at = words.findIndex((word) => word.endsWith('bootstrap.js'));
        if (words[0]) found.push({ pid: Number(name), role: at >= 0 ? String(words[at + 1]) : words.some((word) => word.endsWith('mcp.js')) ? 'mcp' : 'other' });
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

/** Waits until something is true: looks again every few milliseconds, up to a deadline. */
export async function waitFor(isTrue: () => unknown, what: string, ms = 10_000): Promise<void> {
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
  for (const file of ['bootstrap.js', 'package.json', 'dist/mcp.js', 'dist/host.js', 'dist/client.js', 'dist/debug.js']) fs.copyFileSync(path.join(root, file), path.join(copy, file));
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
