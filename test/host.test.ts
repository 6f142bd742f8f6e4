// Host, Client and session file: what survives what, and what is never believed.

import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { afterEach, beforeEach, test } from 'node:test';
import { VERSION, connect, errorName, isObject, readKey, type Connection, type Role } from '../bootstrap.js';
import { LAUNCH_ARGUMENTS, compareVersions, findVscode, nodeFor, parseSession, readWindow, register, serversIn, windowUrl } from '../host.ts';
import { identify, isAlive, kill as killIdentity, parseProcStat, parsePs } from '../ledger.ts';
import { World, body, changedCopy, kill, root, waitFor, type Json, type McpClient } from './lib.ts';

let world: World;
beforeEach(() => {
  world = new World();
});
afterEach(() => world.end());

const rejects = (promise: Promise<unknown>, name: string): Promise<void> => assert.rejects(promise, (error) => errorName(error) === name || assert.fail(`${String(error)} is not ${name}`));
const sessionFile = (): string => path.join(world.workspace, '.devtools', 'host-session.json');
const session = (): Json => JSON.parse(fs.readFileSync(sessionFile(), 'utf8'));
const pids = (role: string): number[] => world.processes().filter((one) => one.role === role).map(({ pid }) => pid);
const gone = (pid: unknown): Promise<void> => waitFor(async () => (await identify(Number(pid))) === undefined, `process ${String(pid)} to end`);

/** A Host started by hand, and a connection to it. */
async function startHost(env: Record<string, string> = {}, file = path.join(root, 'bootstrap.js')): Promise<Connection> {
  const child = spawn(process.execPath, [file, 'host'], { env: world.env(env), stdio: ['ignore', 'pipe', 'inherit'], detached: true });
  await new Promise((resolve) => child.stdout.once('data', resolve));
  child.stdout.destroy();
  child.unref();
  return world.connectHost();
}

async function ready(host: Connection, workspace = world.workspace): Promise<Json> {
  const answer = await host.call('mcpReady', { workspace }, { timeoutMs: 20_000 });
  assert.ok(isObject(answer));
  return answer;
}

async function status(host: Connection): Promise<Json> {
  const answer = await host.call('getStatus');
  assert.ok(isObject(answer));
  return answer;
}

async function server(file?: string): Promise<McpClient> {
  const client = world.mcp(file === undefined ? {} : { file });
  await client.initialize();
  return client;
}

test('mcpReady starts one Client however many ask, and finds it again', async () => {
  const host = await startHost();
  const answers = await Promise.all(Array.from({ length: 10 }, () => ready(host)));
  const again = await ready(host);
  assert.equal(new Set([...answers, again].map(({ clientPid }) => clientPid)).size, 1);
  assert.deepEqual([answers[0]?.reused, again.reused, again.cdpPort], [false, true, null]);
  assert.deepEqual(pids('client'), [again.clientPid]);
  const client = await connect(String(again.clientPipePath), { as: 'test', key: readKey(world.dir) });
  const ping = await client.call('system.ping');
  assert.ok(isObject(ping));
  assert.deepEqual([ping.alive, ping.role, ping.pid, ping.version, ping.protocol, ping.safeMode], [true, 'client', again.clientPid, VERSION, 1, false]);
  await rejects(client.call('client.stop'), 'E_REFUSED');
  client.close('test over');
});

test('each workspace has a Client of its own, however it is spelled', async () => {
  const host = await startHost();
  const other = path.join(world.home, 'other');
  fs.mkdirSync(other);
  fs.symlinkSync(world.workspace, path.join(world.home, 'spelled'));
  const first = await ready(host);
  const second = await ready(host, other);
  assert.notEqual(first.clientPid, second.clientPid);
  assert.equal((await ready(host, path.join(world.home, 'spelled'))).clientPid, first.clientPid);
  assert.equal((await ready(host, `${world.workspace}/../workspace/`)).clientPid, first.clientPid);
  const { clients } = await status(host);
  assert.deepEqual(Array.isArray(clients) && clients.map((client: Json) => client.workspace), [world.workspace, other]);
});

test('mcpReady refuses what it cannot do, and says why', async () => {
  const host = await startHost();
  for (const workspace of ['relative', '', 7, undefined, '/no/such', path.join(root, 'package.json')]) await rejects(host.call('mcpReady', { workspace }), 'E_ARGUMENTS');
  await rejects(host.call('mcpReady', { workspace: world.workspace, roles: ['cdp'] }), 'E_UNSUPPORTED');
  assert.deepEqual(pids('client'), []);
});

test('an MCP server that ends, in whatever way, leaves Host and Client; the next one is served by the same', async () => {
  const first = await server();
  const before = await first.call('devtools_status');
  await first.close();
  for (const signal of ['SIGKILL', 'SIGTERM'] as const) {
    const next = await server();
    const after = await next.call('devtools_status');
    for (const role of ['host', 'client']) assert.equal(body(after, role).pid, body(before, role).pid);
    next.child.kill(signal);
    await next.exit();
  }
});

test('a Client that was killed is replaced at the next call, and the session names the new one', async () => {
  const client = await server();
  const before = body(await client.call('devtools_status'), 'client');
  kill(Number(before.pid), 'SIGKILL');
  await waitFor(async () => body(await client.call('devtools_status'), 'client').state === 'connected', 'a new Client');
  const after = body(await client.call('devtools_status'), 'client');
  assert.notEqual(after.pid, before.pid);
  assert.equal(session().clientPid, after.pid);
  assert.deepEqual(pids('client'), [after.pid]);
});

test('a Host that was killed is replaced by a connected MCP server by itself, and the Client lives on', async () => {
  const client = await server();
  for (let round = 0; round < 6; round++) {
    const before = await client.call('devtools_status');
    const { pid } = body(before, 'host');
    kill(Number(pid), 'SIGKILL');
    await waitFor(() => pids('host').length === 1 && pids('host')[0] !== pid, `a new Host in round ${round}`);
    let after = before;
    await waitFor(async () => {
      after = await client.call('devtools_status'); // it may not yet have read that its Host is gone
      return body(after, 'host').pid === pids('host')[0];
    }, 'the server to be with the new Host');
    assert.equal(body(after, 'client').pid, body(before, 'client').pid);
    const [known] = [body(after, 'host').clients].flat();
    assert.equal(isObject(known) && known.startedAt, session().startedAt);
  }
});

test('a headless Host that nobody uses ends with its Client, session and sockets', async () => {
  const host = await startHost({ VSCODE_DEVTOOLS_IDLE_MS: '1000' });
  await ready(host);
  assert.equal(fs.existsSync(sessionFile()), true);
  host.close('test over');
  await waitFor(() => world.processes().length === 0, 'everything to end');
  assert.deepEqual([world.sockets(), fs.existsSync(sessionFile())], [[], false]);
  assert.match(fs.readFileSync(path.join(world.dir, 'host.log'), 'utf8'), /unused for 1000 ms/);
});

test('takeover ends Host and Client, tells the MCP servers, and their next call starts another', async () => {
  const client = await server();
  const before = await client.call('devtools_status');
  await client.request('logging/setLevel', { level: 'notice' });
  const host = await world.connectHost();
  assert.deepEqual(await host.call('takeover', { reason: 'test', by: 'a test' }), { acknowledged: true });
  for (const role of ['host', 'client']) await gone(body(before, role).pid);
  await client.until(({ method, params }) => method === 'notifications/message' && /the session ended/.test(String(isObject(params) && params.data)), 'the notice');
  assert.deepEqual([world.sockets(), pids('host')], [[], []]);
  assert.match(fs.readFileSync(path.join(world.dir, 'host.log'), 'utf8'), /taken over by a test: test/);
  const after = await client.call('devtools_status');
  assert.notEqual(body(after, 'host').pid, body(before, 'host').pid);
});

test('a stopped Client is reported, not replaced', async () => {
  const host = await startHost();
  const { clientPid } = await ready(host);
  kill(Number(clientPid), 'SIGSTOP');
  await rejects(ready(host), 'E_UNRESPONSIVE');
  assert.deepEqual(pids('client'), [clientPid]);
  kill(Number(clientPid), 'SIGCONT');
  assert.equal((await ready(host)).clientPid, clientPid);
});

test('a Client that ignores being asked is killed when its Host ends', async () => {
  const host = await startHost();
  const { clientPid } = await ready(host);
  kill(Number(clientPid), 'SIGSTOP');
  await host.call('takeover', { reason: 'test', by: 'test' });
  await gone(clientPid);
});

// ------------------------------------------------------------------------------------------------ the session file

test('a session is read with guards: anything else is named for what is wrong', () => {
  assert.deepEqual(parseSession('{"clientPid":5,"clientStartTime":"x","startedAt":1,"workspace":"/w","more":true}'), { clientPid: 5, clientStartTime: 'x', startedAt: 1, workspace: '/w' });
  for (const text of ['', '{', 'null', '[]', '5', '{}', '{"clientPid":"5","clientStartTime":"x","startedAt":1}', '{"clientPid":-1,"clientStartTime":"x","startedAt":1}', '{"clientPid":1.5,"clientStartTime":"x","startedAt":1}', '{"clientPid":5,"clientStartTime":"","startedAt":1}', '{"clientPid":5,"clientStartTime":"x"}', '{"clientPid":5,"clientStartTime":"x","startedAt":1}']) assert.equal(typeof parseSession(text), 'string', text);
});

test('a damaged session file is set aside with a warning, and the work goes on', async () => {
  const host = await startHost();
  const dir = path.join(world.workspace, '.devtools');
  fs.mkdirSync(dir, { mode: 0o700 });
  for (const [text, mode] of [['{"half', 0o600], ['x'.repeat(100_000), 0o600], ['{}', 0o600], ['{"clientPid":1,"clientStartTime":"x","startedAt":1,"workspace":"/copied/from"}', 0o600], ['{"clientPid":1,"clientStartTime":"x","startedAt":1}', 0o666]] as const) {
    fs.writeFileSync(sessionFile(), text);
    fs.chmodSync(sessionFile(), mode);
    const { clientPid } = await ready(host);
    assert.equal(fs.readFileSync(`${sessionFile()}.damaged`, 'utf8'), text);
    assert.equal(session().clientPid, clientPid);
    assert.equal(fs.statSync(sessionFile()).mode & 0o777, 0o600);
    kill(Number(clientPid), 'SIGKILL');
    await waitFor(() => !fs.existsSync(sessionFile()), 'the session to be cleared');
  }
  const { warnings } = await status(host);
  assert.equal(Array.isArray(warnings) && warnings.filter((text) => /set aside/.test(String(text))).length, 5);
});

test('a FIFO in place of the session file does not hold the Host up', async () => {
  const host = await startHost();
  fs.mkdirSync(path.join(world.workspace, '.devtools'), { mode: 0o700 });
  execFileSync('mkfifo', ['-m', '600', sessionFile()]);
  await ready(host);
  assert.equal(fs.lstatSync(sessionFile()).isFile(), true);
});

test('a Host that is told to end while a Client starts ends that one too, and one that was killed leaves no socket', async () => {
  const host = await startHost();
  const starting = host.call('mcpReady', { workspace: world.workspace }).catch(() => {}); // it may be cut off
  await waitFor(() => pids('client').length === 1, 'the Client to be started');
  await host.call('takeover', { reason: 'test', by: 'test' });
  await starting;
  await waitFor(() => world.processes().length === 0, 'both to end', 5000); // before the Client would end by itself
  assert.deepEqual(world.sockets(), []);
  const second = await startHost();
  const { clientPid } = await ready(second);
  kill(Number(clientPid), 'SIGKILL');
  await second.call('takeover', { reason: 'test', by: 'test' });
  await waitFor(() => world.processes().length === 0, 'all to end');
  assert.deepEqual(world.sockets(), []);
});

test('a workspace that was removed is not made again', async () => {
  const host = await startHost({ VSCODE_DEVTOOLS_IDLE_MS: '1000' });
  await ready(host);
  fs.rmSync(world.workspace, { recursive: true });
  host.close('test over');
  await waitFor(() => world.processes().length === 0, 'all to end');
  assert.equal(fs.existsSync(world.workspace), false);
});

test('a link in place of the session file is not followed', async () => {
  const host = await startHost();
  fs.mkdirSync(path.join(world.workspace, '.devtools'), { mode: 0o700 });
  const target = path.join(world.home, 'target');
  fs.writeFileSync(target, 'untouched', { mode: 0o600 });
  fs.symlinkSync(target, sessionFile());
  await ready(host);
  assert.equal(fs.readFileSync(target, 'utf8'), 'untouched');
  assert.equal(fs.lstatSync(sessionFile()).isFile(), true);
});

test('a session that names a stranger is not believed: the stranger is neither used nor signalled', async () => {
  const stranger = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)'], { stdio: 'ignore' });
  const who = await identify(stranger.pid ?? 0);
  assert.ok(who);
  fs.mkdirSync(path.join(world.workspace, '.devtools'), { mode: 0o700 });
  fs.writeFileSync(sessionFile(), JSON.stringify({ clientPid: who.pid, clientStartTime: who.startTime, startedAt: 1, workspace: world.workspace }), { mode: 0o600 });
  const host = await startHost();
  const answer = await ready(host);
  assert.notEqual(answer.clientPid, who.pid);
  assert.notEqual(answer.startedAt, 1);
  assert.match(String((await status(host)).warnings), new RegExp(`process ${who.pid} was the Client`));
  await host.call('takeover', { reason: 'test', by: 'test' });
  await gone(answer.clientPid);
  assert.equal(await isAlive(who), true);
  stranger.kill('SIGKILL');
});

test('sockets of Clients that were killed and never came back are swept by the next Host', async () => {
  const host = await startHost();
  await ready(host);
  for (const { pid } of world.processes()) kill(pid, 'SIGKILL');
  await waitFor(() => world.processes().length === 0, 'all to be dead');
  assert.equal(world.sockets().length, 4);
  const next = await startHost();
  await waitFor(() => world.sockets().length === 2, 'the sweep');
  assert.deepEqual((await status(next)).clients, []);
});

test('a displaced Host leaves its Client and the name to its successor', async () => {
  const client = await server();
  const before = await client.call('devtools_status');
  await client.close();
  for (const file of world.sockets()) if (file.startsWith('host')) fs.rmSync(path.join(world.dir, file));
  const next = await server();
  const during = await next.call('devtools_status');
  assert.notEqual(body(during, 'host').pid, body(before, 'host').pid);
  await gone(body(before, 'host').pid);
  const after = await next.call('devtools_status');
  for (const status of [during, after]) assert.deepEqual([body(status, 'client').pid, body(status, 'host').pid], [body(before, 'client').pid, body(during, 'host').pid]);
  assert.deepEqual(world.sockets().filter((file) => file.startsWith('host')), ['host.1.sock', 'host.sock']);
  assert.equal(session().clientPid, body(before, 'client').pid);
});

test('a key that was removed is put back; where it is another, Host and Client stand down', async () => {
  const host = await startHost();
  await ready(host);
  const file = path.join(world.dir, 'key');
  const key = fs.readFileSync(file, 'utf8');
  fs.rmSync(file);
  await waitFor(() => fs.existsSync(file), 'the key to be back');
  assert.equal(fs.readFileSync(file, 'utf8'), key);
  fs.writeFileSync(file, 'f'.repeat(64));
  await waitFor(() => world.processes().length === 0, 'both to end');
  assert.deepEqual(world.sockets(), []);
});

// ---------------------------------------------------------------------------------------------------- version rule

test('a newer server replaces an older idle Host; an older server works with a newer Host of the same protocol', async () => {
  const old = await server(changedCopy(world, 'old', { version: '0.0.9' }));
  const before = body(await old.call('devtools_status'), 'host');
  assert.equal(before.version, '0.0.9');
  await old.close();
  const current = await server();
  const after = body(await current.call('devtools_status'), 'host');
  assert.equal(after.version, VERSION);
  await gone(before.pid);
  const older = await server(changedCopy(world, 'older', { version: '0.0.8' }));
  assert.equal(body(await older.call('devtools_status'), 'host').pid, after.pid);
});

test('a Host of another protocol is named with what to close, and nothing is taken over', async () => {
  const newer = await server(changedCopy(world, 'newer', { version: '9.0.0', protocol: 99 }));
  const before = body(await newer.call('devtools_status'), 'host');
  const current = await server();
  const host = body(await current.call('devtools_status'), 'host');
  assert.deepEqual([host.state, host.code], ['unreachable', 'E_VERSION']);
  assert.match(String(host.error), /version 9\.0\.0 and speaks protocol 99; .*vscode-devtools host stop/);
  assert.deepEqual(pids('host'), [before.pid]);
});

// ------------------------------------------------------------------------------------------------------- launchers
// What cannot run here (desktops, macOS, Windows) is tried on trees of files as they have them.

const tree = (files: Record<string, string>): string => {
  const dir = path.join(world.home, `tree-${Math.random().toString(36).slice(2)}`);
  for (const [name, text] of Object.entries(files)) {
    fs.mkdirSync(path.dirname(path.join(dir, name)), { recursive: true });
    fs.writeFileSync(path.join(dir, name), text);
  }
  return dir;
};
const version = (text: string): string => JSON.stringify({ version: text });

test('a VS Code is found by its binary, its directory, its script or its app, on each system', () => {
  const app = { 'resources/app/product.json': '{}', 'resources/app/package.json': version('1.139.1') };
  const linux = tree({ code: '', 'bin/code': '', ...app });
  const windows = tree({ 'Code.exe': '', 'bin/code.cmd': '', ...app });
  const hashed = tree({ 'Code.exe': '', '0123456789abcdef/resources/app/product.json': '{}', '0123456789abcdef/resources/app/package.json': version('1.140.0') });
  const mac = tree({ 'Visual Studio Code.app/Contents/MacOS/Electron': '', 'Visual Studio Code.app/Contents/Resources/app/product.json': '{}', 'Visual Studio Code.app/Contents/Resources/app/package.json': version('1.139.1') });
  const server = tree({ 'lib/vscode/out/server-main.js': '', 'lib/vscode/package.json': version('1.139.1'), 'bin/code-server': '' });
  for (const [named, file] of [
    [path.join(linux, 'code'), path.join(linux, 'code')], [linux, path.join(linux, 'code')], [path.join(linux, 'bin/code'), path.join(linux, 'code')],
    [path.join(windows, 'Code.exe'), path.join(windows, 'Code.exe')], [path.join(windows, 'bin/code.cmd'), path.join(windows, 'Code.exe')],
    [path.join(mac, 'Visual Studio Code.app'), path.join(mac, 'Visual Studio Code.app/Contents/MacOS/Electron')],
  ] as const) assert.deepEqual(findVscode(named), { kind: 'desktop', file, version: '1.139.1' }, named);
  assert.equal(findVscode(path.join(hashed, 'Code.exe')).version, '1.140.0'); // its files are beside it, under the name of a commit
  for (const named of [server, path.join(server, 'lib/vscode'), path.join(server, 'bin/code-server')]) assert.deepEqual(findVscode(named), { kind: 'server', file: path.join(server, 'lib/vscode/out/server-main.js'), version: '1.139.1' });
  assert.throws(() => findVscode(tree({ 'readme.txt': '' })), (error) => errorName(error) === 'E_NO_VSCODE');
  assert.throws(() => findVscode(tree({ code: '', 'resources/app/product.json': '{}', 'resources/app/package.json': version('1.99.3') })), (error) => errorName(error) === 'E_VERSION');
});

test('a window is opened with a profile of its own, one development flag an extension, and nothing that others could read', () => {
  const opening = { dir: '/run/w', workspace: '/a b/ü', own: '/ours', extensions: ['/one', '/two'], port: 4711, token: 'secret', asRoot: false };
  const desktop = LAUNCH_ARGUMENTS.desktop(opening);
  assert.deepEqual(desktop.filter((word) => word.startsWith('--extensionDevelopmentPath')), ['--extensionDevelopmentPath=/ours', '--extensionDevelopmentPath=/one', '--extensionDevelopmentPath=/two']);
  for (const word of ['--remote-debugging-port=4711', '--user-data-dir=/run/w/data', '--extensions-dir=/run/w/extensions', '--new-window', '--disable-workspace-trust']) assert.ok(desktop.includes(word), word);
  assert.equal(desktop.at(-1), '/a b/ü');
  const server = LAUNCH_ARGUMENTS.server(opening);
  for (const word of ['127.0.0.1', '--enable-smoke-test-driver', '--connection-token-file', '--reconnection-grace-time']) assert.ok(server.includes(word), word);
  const chromium = LAUNCH_ARGUMENTS.chromium(opening);
  for (const words of [desktop, server, chromium]) assert.ok(!words.join(' ').includes('secret') && !words.join(' ').includes('remote-allow-origins'));
  assert.ok(chromium.includes('--remote-debugging-port=0') && !chromium.includes('--no-sandbox'));
  const url = new URL(windowUrl(opening, "/it's/#1 ö"));
  assert.deepEqual([url.host, url.searchParams.get('folder'), url.searchParams.get('tkn')], ['127.0.0.1:4711', '/a b/ü', 'secret']);
  assert.deepEqual(JSON.parse(url.searchParams.get('payload') ?? '')[0], ['extensionDevelopmentPath', "vscode-remote://127.0.0.1:4711/it's/%231%20%C3%B6"]);
});

test("a server runs on its own node, or on one that is named, and says which it needs", async () => {
  const own = tree({ 'out/server-main.js': '', node: '' });
  assert.equal(await nodeFor(path.join(own, 'out/server-main.js')), path.join(own, 'node'));
  const other = tree({ 'out/server-main.js': '', 'package.json': JSON.stringify({ engines: { node: '>=18' } }) });
  assert.equal(await nodeFor(path.join(other, 'out/server-main.js'), process.execPath), process.execPath);
  const demanding = tree({ 'out/server-main.js': '', 'package.json': JSON.stringify({ engines: { node: '99' } }) });
  await assert.rejects(nodeFor(path.join(demanding, 'out/server-main.js')), (error) => errorName(error) === 'E_NO_NODE' && /needs Node 99/.test(String(error)));
  assert.deepEqual([['1.2.3', '1.2.3'], ['1.10.0', '1.9.9'], ['v22.1.0', '24.0.0'], ['1.101.0-insider', '1.101.0']].map(([a = '', b = '']) => Math.sign(compareVersions(a, b))), [0, 1, -1, 0]);
});

test('a window.json that is damaged, or open to others, is none', () => {
  const dir = tree({ 'window.json': '{"id":"1","processes":[' });
  assert.equal(readWindow(dir), undefined);
  fs.writeFileSync(path.join(dir, 'window.json'), JSON.stringify({ id: '1', token: 't', workspace: '/', kind: 'server', cdpPort: 1, extensions: [], processes: [{ name: 'server', pid: 1, startTime: 'x' }], temporary: '' }), { mode: 0o644 });
  fs.chmodSync(path.join(dir, 'window.json'), 0o644);
  assert.equal(readWindow(dir), undefined);
  fs.chmodSync(path.join(dir, 'window.json'), 0o600);
  assert.equal(readWindow(dir)?.processes[0]?.name, 'server');
});

// -------------------------------------------------------------------------------------------------------- identity

test('the kernel line of a process is read after the last bracket of its name', () => {
  const rest = `S 42 ${Array.from({ length: 17 }, (_, i) => i).join(' ')} 123456 0`;
  for (const name of ['node', 'a) S 1 (b', ') R 1 1 1', 'x y']) assert.deepEqual(parseProcStat(`7 (${name}) ${rest}`), { state: 'S', ppid: 42, pgrp: 0, threads: 15, startTime: '123456', name });
  assert.equal(parseProcStat(''), undefined);
  assert.equal(parseProcStat('7 (x) S'), undefined);
});

test('recorded `ps` lines of macOS give the start time, and none for a zombie', () => {
  assert.equal(parsePs('S+   Mon Nov  2 10:00:00 2026    \n'), 'Mon Nov  2 10:00:00 2026');
  assert.equal(parsePs('Z    Mon Nov  2 10:00:00 2026'), undefined);
  assert.equal(parsePs(''), undefined);
});

test('a process is signalled only if it is the one that was recorded', async () => {
  const child = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)'], { stdio: 'ignore' });
  const who = await identify(child.pid ?? 0);
  assert.ok(who);
  assert.equal(await killIdentity({ ...who, startTime: 'another' }, 'SIGKILL'), false);
  assert.equal(await isAlive(who), true);
  assert.equal(await killIdentity(who, 'SIGKILL'), true);
  await waitFor(async () => !(await isAlive(who)), 'its end');
  for (const pid of [0, -1, 1.5, Number.NaN, 2 ** 30]) assert.equal(await identify(pid), undefined);
});

// A window that F5 opens needs a desktop (in a browser VS Code asks a person to allow its popup, and waits), so what VS Code says of one
// is written down here: the events and calls of its debug, tasks and mcp services, nothing else.
test('F5: a session that is replaced in three seconds goes on; after the true end the servers of VS Code are stopped, by all their ids', async () => {
  const world = new World('f');
  const listeners: Record<string, Array<(session: Json) => void>> = { start: [], end: [] };
  const called: string[] = [];
  const on = (kind: string) => (listener: (session: Json) => void) => {
    listeners[kind]?.push(listener);
    return { dispose: () => {} };
  };
  const none = { event: () => ({ dispose: () => {} }), fire: () => {} };
  const vscode = {
    EventEmitter: class { event = none.event; fire = none.fire; }, UIKind: { Web: 2 }, env: { appRoot: '/nowhere', uiKind: 1 }, lm: {},
    workspace: { workspaceFolders: [{ uri: { fsPath: world.workspace }, index: 0 }], getConfiguration: () => ({ inspect: () => undefined, get: () => undefined }) },
    debug: { onDidStartDebugSession: on('start'), onDidTerminateDebugSession: on('end') },
    commands: { executeCommand: async (command: string, id: string) => void called.push(`${command} ${id}`) },
  };
  const logged: string[] = [];
  const role: Role = {
    role: 'host', dir: world.dir, key: 'none', pipe: '', workspace: '', vscode, context: {}, order: undefined, peers: new Set(), handle: () => {}, log: (text) => void logged.push(text),
    stop: async () => {}, busyWith: () => '', displaced: false, takenBy: '', isReloading: false, leave: () => {}, onStop: () => {}, onPeers: () => {},
  };
  fs.mkdirSync(path.join(world.workspace, '.vscode'));
  fs.writeFileSync(path.join(world.workspace, '.vscode', 'mcp.json'), '{ "servers": { "mine": { "args": ["/x/dist/mcp.js"] }, "another": { "command": "y" } } } // a comment');
  register(role);
  const fire = (kind: string, session: Json): void => listeners[kind]?.forEach((listener) => listener({ name: 'F5', ...session }));
  try {
    fire('start', { id: 'a', type: 'pwa-extensionHost' });
    fire('end', { id: 'a', type: 'pwa-extensionHost' });
    fire('start', { id: 'b', type: 'extensionHost' }); // the same window, restarted
    fire('start', { id: 'c', type: 'node' });
    fire('end', { id: 'c', type: 'node' }); // no extension host
    await waitFor(() => logged.some((text) => text.includes('the session goes on')), 'the grace to be over');
    assert.deepEqual(called, []);
    fire('end', { id: 'b', type: 'extensionHost' });
    await waitFor(() => logged.some((text) => text.endsWith('has ended') && text.startsWith('the session of')), 'the session to end');
    assert.deepEqual(called.slice(0, 5), ['vscode-devtools.vscode-devtools/vscode-devtools', 'mcp.config.ws0.mine', 'mcp.config.workspace.mine', 'mcp.config.usrlocal.mine', 'mcp.config.usrremote.mine'].map((id) => `workbench.mcp.stopServer ${id}`));
    assert.deepEqual(serversIn(path.join(world.home, 'nothing')), []);
  } finally {
    await role.onStop();
    await world.end();
  }
});
