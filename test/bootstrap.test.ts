// The wire and the claim: raw bytes, split anywhere, hostile or cut short.

import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import fs from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import { after, afterEach, before, test } from 'node:test';
import {
  LINE_CAP, LineReader, RpcError, accept, claim, connect, devtoolsDir, errorName, failure, isListening, isObject, messageProblem, openPrivate,
  parseLine, pipePath, privateDir, readKey, runtimeDir, writePrivate, type Connection, type Handler,
} from '../bootstrap.js';
import { World, checkFrames, root, waitFor } from './lib.ts';

let world: World;
before(() => {
  world = new World();
});
after(() => world.end());
afterEach(() => {
  for (const { server, peer } of open.splice(0)) {
    peer.close('test over');
    server.close();
  }
});

type Pair = { server: net.Server; peer: Connection; accepted: Connection[]; pipe: string };
const open: Pair[] = []; // closed after each test

/** A listening end with some methods, and a connected one. */
async function pair(handlers: Record<string, Handler>): Promise<Pair> {
  const pipe = path.join(world.dir, `t${Math.random().toString(36).slice(2, 8)}.sock`);
  const key = readKey(world.dir);
  const accepted: Connection[] = [];
  const server = net.createServer((socket) => accept(socket, key, new Map(Object.entries(handlers)), (peer) => accepted.push(peer)));
  await new Promise<void>((resolve) => server.listen(pipe, resolve));
  const peer = await connect(pipe, { as: 'test', key });
  await waitFor(() => accepted.length === 1, 'the connection to be accepted');
  open.push({ server, peer, accepted, pipe });
  return { server, peer, accepted, pipe };
}

const codeOf = (error: unknown): unknown => (error instanceof RpcError ? (error.data?.code ?? error.code) : error);
const rejects = (promise: Promise<unknown>, code: string | number): Promise<void> => assert.rejects(promise, (error) => codeOf(error) === code);

test('a line reader gives the same lines wherever the bytes are cut', () => {
  const text = '{"a":"é𝄞"}\n\r\n\n{"b":[1,2]}\nlast\n';
  const bytes = Buffer.from(text);
  const whole: string[] = [];
  new LineReader(100, (line) => whole.push(line), assert.fail).push(bytes);
  assert.deepEqual(whole, ['{"a":"é𝄞"}', '{"b":[1,2]}', 'last']);
  for (let first = 0; first <= bytes.length; first++) {
    for (let second = first; second <= bytes.length; second++) {
      const lines: string[] = [];
      const reader = new LineReader(100, (line) => lines.push(line), assert.fail);
      for (const part of [bytes.subarray(0, first), bytes.subarray(first, second), bytes.subarray(second)]) reader.push(part);
      assert.deepEqual(lines, whole);
    }
  }
});

test('a line over the cap is reported once and dropped to its end, whether it comes whole or in pieces', () => {
  for (const size of [1, 3, 1000]) {
    const lines: string[] = [];
    let bad = 0;
    const reader = new LineReader(10, (line) => lines.push(line), () => bad++);
    const bytes = Buffer.from('ok\n' + 'x'.repeat(25) + '\nfine\n0123456789\n');
    for (let i = 0; i < bytes.length; i += size) reader.push(bytes.subarray(i, i + size));
    assert.deepEqual([lines, bad], [['ok', 'fine', '0123456789'], 1]);
  }
});

test('invalid UTF-8 is a parse error of its line alone', () => {
  const lines: string[] = [];
  const problems: number[] = [];
  new LineReader(100, (line) => lines.push(line), (problem) => problems.push(problem.code)).push(Buffer.concat([Buffer.from('a\n'), Buffer.from([0xff, 0xc0, 10]), Buffer.from([0xed, 0xa0, 0x80, 10]), Buffer.from('b\n')]));
  assert.deepEqual([lines, problems], [['a', 'b'], [-32700, -32700]]);
});

test('nesting is capped at 64, brackets in strings do not count', () => {
  assert.doesNotThrow(() => parseLine('['.repeat(64) + ']'.repeat(64)));
  assert.throws(() => parseLine('['.repeat(65) + ']'.repeat(65)), { code: -32600 });
  assert.throws(() => parseLine('{"a":'.repeat(100_000)), { code: -32600 });
  assert.doesNotThrow(() => parseLine(JSON.stringify({ text: '[{'.repeat(500) + '\\"' })));
  assert.throws(() => parseLine('{'), { code: -32700 });
});

test('a message must be JSON-RPC 2.0 with a string or integer id', () => {
  const good = [{ jsonrpc: '2.0', id: 1, method: 'm' }, { jsonrpc: '2.0', id: 'a', method: 'm', params: {} }, { jsonrpc: '2.0', method: 'm' }, { jsonrpc: '2.0', id: 1, result: null }];
  for (const message of good) assert.equal(messageProblem(message), '', JSON.stringify(message));
  const bad = [
    null, 1, 'x', [], [good[0]], {}, { jsonrpc: '1.0', id: 1, method: 'm' }, { jsonrpc: '2.0', id: null, method: 'm' }, { jsonrpc: '2.0', id: true, method: 'm' },
    { jsonrpc: '2.0', id: {}, method: 'm' }, { jsonrpc: '2.0', id: 1.5, method: 'm' }, { jsonrpc: '2.0', id: 1, method: 7 }, { jsonrpc: '2.0', id: 1 },
    { jsonrpc: '2.0', result: 1 }, { jsonrpc: '2.0', id: 1, method: 'm', params: [] }, { jsonrpc: '2.0', id: 1, method: 'm', params: 'x' },
  ];
  for (const message of bad) assert.notEqual(messageProblem(message), '', JSON.stringify(message));
});

test('a call is answered, fails with the code and data of its handler, and 10,000 at once are not mixed up', async () => {
  const both = await pair({
    echo: (params) => params,
    later: async ({ n }) => (await new Promise((resolve) => setImmediate(resolve)), { n }),
    fails: () => {
      throw failure('E_BUSY', 'something runs', { what: 'sleep' });
    },
    crashes: () => {
      throw new TypeError('oops');
    },
    cyclic: () => {
      const loop: Record<string, unknown> = {};
      return (loop.loop = loop);
    },
    nothing: () => undefined,
  });
  assert.deepEqual(await both.peer.call('echo', { text: 'é\ud800\n', ['__proto__']: 1 }), { text: 'é\ud800\n', ['__proto__']: 1 });
  await assert.rejects(both.peer.call('fails'), { code: 1, message: 'something runs', data: { code: 'E_BUSY', what: 'sleep' } });
  await assert.rejects(both.peer.call('crashes'), { code: -32603, message: 'oops' });
  await rejects(both.peer.call('toString'), -32601);
  await rejects(both.peer.call('__proto__'), -32601);
  await rejects(both.peer.call('cyclic'), -32603);
  assert.equal(await both.peer.call('nothing'), null);
  const answers = await Promise.all(Array.from({ length: 10_000 }, (_, n) => both.peer.call(n % 2 ? 'later' : 'echo', { n })));
  answers.forEach((answer, n) => assert.deepEqual(answer, { n }));
});

test('deadline, cancellation and close settle what waits, and the handler hears of each', async () => {
  const reasons: unknown[] = [];
  const both = await pair({
    hangs: (_params, call) => new Promise((resolve) => call.signal.addEventListener('abort', () => resolve(reasons.push(codeOf(call.signal.reason))))),
    slow: async (_params, call) => {
      call.progress('half');
      await new Promise((resolve) => setImmediate(resolve));
      return 'whole';
    },
  });
  await rejects(both.peer.call('hangs', {}, { timeoutMs: 30 }), 'E_TIMEOUT');
  const abort = new AbortController();
  const cancelled = both.peer.call('hangs', {}, { signal: abort.signal });
  abort.abort();
  await rejects(cancelled, 'E_CANCELLED');
  const heard: string[] = [];
  assert.equal(await both.peer.call('slow', {}, { onProgress: (text) => heard.push(text) }), 'whole');
  assert.deepEqual(heard, ['half']);
  const pending = Array.from({ length: 100 }, () => both.peer.call('hangs'));
  both.peer.close('we leave');
  both.peer.close('again');
  for (const call of pending) await assert.rejects(call, { message: 'we leave' });
  await rejects(both.peer.call('slow'), 'E_CLOSED');
  await waitFor(() => reasons.length === 102, 'every handler to hear of it');
  assert.deepEqual(new Set(reasons), new Set(['E_CANCELLED', 'E_CLOSED']));
});

test('a duplicate id in flight is refused and the first call still answers', async () => {
  let answer: (value: string) => void = () => {};
  const both = await pair({ wait: () => new Promise((resolve) => (answer = resolve)) });
  const answers: string[] = [];
  both.peer.reader.onLine = (line) => answers.push(line);
  for (let i = 0; i < 2; i++) both.peer.send('{"jsonrpc":"2.0","id":"same","method":"wait"}');
  await waitFor(() => answers.length === 1, 'the refusal');
  answer('first');
  await waitFor(() => answers.length === 2, 'the answer');
  assert.deepEqual(answers.map((line) => JSON.parse(line)), [{ jsonrpc: '2.0', id: 'same', error: { code: -32600, message: 'Invalid Request: this id is still in use' } }, { jsonrpc: '2.0', id: 'same', result: 'first' }]);
});

test('malformed lines get the specified error and the connection lives', async () => {
  const both = await pair({ echo: (params) => params });
  const errors: unknown[] = [];
  both.peer.reader.onLine = ((onLine) => (line: string) => {
    const message: unknown = JSON.parse(line);
    if (isObject(message) && isObject(message.error) && message.id === null) errors.push(message.error.code);
    onLine(line);
  })(both.peer.reader.onLine);
  for (const line of ['nonsense', '[]', '5', '{"jsonrpc":"1.0","method":"x"}', '{"jsonrpc":"2.0","id":null,"method":"x"}', '['.repeat(70) + ']'.repeat(70), '[{"jsonrpc":"2.0","id":1,"method":"echo"}]']) both.peer.socket.write(`${line}\n`);
  both.peer.socket.write(Buffer.from([0xc0, 10]));
  assert.deepEqual(await both.peer.call('echo', { a: 1 }), { a: 1 });
  assert.deepEqual(errors, [-32700, -32600, -32600, -32600, -32600, -32600, -32600, -32700]);
});

test('a line of 17 MiB is refused both ways and the connection lives', async () => {
  const both = await pair({ echo: (params) => params, big: () => 'x'.repeat(17 * 1024 * 1024) });
  await rejects(both.peer.call('echo', { text: 'x'.repeat(LINE_CAP + 1) }), 'E_TOO_LARGE');
  await rejects(both.peer.call('big'), 'E_TOO_LARGE');
  await rejects(both.peer.call('echo', { text: 'é'.repeat(9 * 1024 * 1024) }), 'E_TOO_LARGE'); // counted in bytes
  const [nine, small] = await Promise.all([both.peer.call('echo', { text: 'x'.repeat(9 * 1024 * 1024) }), both.peer.call('echo', { a: 1 })]);
  assert.deepEqual([JSON.stringify(nine).length, small], [9 * 1024 * 1024 + 11, { a: 1 }]);
  const fives = await Promise.allSettled([1, 2].map(() => both.peer.call('echo', { text: 'x'.repeat(5 * 1024 * 1024) })));
  assert.deepEqual(fives.map(({ status }) => status), ['fulfilled', 'fulfilled']);
  for (let i = 0; i < 17; i++) both.peer.socket.write('x'.repeat(1024 * 1024));
  await new Promise((resolve) => both.peer.socket.write('\n', resolve));
  assert.deepEqual(await both.peer.call('echo', { a: 1 }), { a: 1 });
});

test('a caller that never reads is cut off at 8 MiB with the reason, and others go on', async () => {
  const both = await pair({ echo: (params) => params });
  const [server] = both.accepted;
  both.peer.socket.pause();
  let most = 0;
  for (let i = 0; i < 40_000 && server && server.closedBecause === undefined; i++) {
    server.notify('flood', { text: 'x'.repeat(10_000) });
    most = Math.max(most, server.socket.writableLength);
    if (i % 100 === 0) await new Promise((resolve) => setImmediate(resolve));
  }
  assert.match(String(server?.closedBecause), /does not read/);
  assert.ok(most <= 8 * 1024 * 1024 + 1024 * 1024, `${most} bytes were held`);
  const other = await connect(both.pipe, { as: 'test', key: readKey(world.dir) });
  assert.deepEqual(await other.call('echo', { a: 1 }), { a: 1 });
  other.close('test over');
});

test('requests of a caller that does not take its answers are left unread', async () => {
  const both = await pair({ big: () => 'x'.repeat(100_000) });
  both.peer.socket.pause();
  const [server] = both.accepted;
  const calls = Array.from({ length: 500 }, () => both.peer.call('big', {}, { timeoutMs: 20_000 }));
  await waitFor(() => server?.socket.isPaused(), 'the server to stop reading');
  assert.ok(Number(server?.socket.writableLength) < 8 * 1024 * 1024);
  both.peer.socket.resume();
  assert.equal((await Promise.all(calls)).length, 500);
});

test('a fake Host without the key receives no method', async () => {
  const pipe = path.join(world.dir, 'fake.sock');
  for (const answer of ['{"nonce":"00","mac":"00"}\n', `{"nonce":"00","mac":"${'0'.repeat(64)}"}\n`, '{}\n', 'nonsense\n', 'x'.repeat(5000), '{"jsonrpc":"2.0","id":1,"result":{}}\n']) {
    let received = '';
    const server = net.createServer((socket) => {
      socket.on('error', () => {});
      socket.on('data', (chunk) => {
        received += chunk.toString();
        socket.write(answer);
      });
    });
    await new Promise<void>((resolve) => server.listen(pipe, resolve));
    await rejects(connect(pipe, { as: 'mcp', key: readKey(world.dir) }), 'E_UNRESPONSIVE');
    server.close();
    assert.match(received, /^\{"hello":"vscode-devtools","as":"mcp","pid":\d+,"nonce":"[0-9a-f]{32}"\}\n$/);
  }
});

test('a caller without the key is cut off before any method, and learns nothing', async () => {
  let called = 0;
  const both = await pair({ secret: () => called++ });
  const hello = '{"hello":"vscode-devtools","as":"mcp","pid":1,"nonce":"00"}\n';
  const call = '{"jsonrpc":"2.0","id":1,"method":"secret"}\n';
  for (const text of [call, hello + call, `${hello}{"mac":"${'0'.repeat(64)}"}\n${call}`, 'x'.repeat(5000), '\n\n{}\n', Buffer.from([0xff, 10])]) {
    const socket = net.connect(both.pipe);
    let received = '';
    socket.on('data', (chunk) => (received += chunk.toString()));
    socket.write(text);
    await new Promise((resolve) => socket.once('close', resolve));
    assert.ok(!received.includes('jsonrpc'), received);
  }
  assert.equal(called, 0);
});

test('a caller that says nothing, or a byte a second, is closed at the deadline', async () => {
  const both = await pair({});
  const started = performance.now();
  const [silent, slow] = [net.connect(both.pipe), net.connect(both.pipe)];
  const drip = setInterval(() => slow.write('{'), 500);
  await Promise.all([silent, slow].map((socket) => new Promise((resolve) => socket.once('close', resolve))));
  clearInterval(drip);
  assert.ok(performance.now() - started > 2500, 'not before its deadline');
});

test('generated frames never crash an end of the wire', async () => {
  const both = await pair({ echo: (params) => params });
  await checkFrames(async (frames) => {
    for (const bytes of frames) both.peer.socket.write(bytes);
    assert.deepEqual(await both.peer.call('echo', { a: 1 }), { a: 1 });
  });
});

test('each message of a corpus, cut at every byte, gives the same answer', async () => {
  const corpus = ['{"jsonrpc":"2.0","id":"c","method":"echo","params":{"t":"é𝄞\\n"}}', '{"jsonrpc":"2.0","id":"c","method":"none"}', '{"jsonrpc":"2.0","id":true,"method":"echo"}', '[1]', '{"a":'];
  const both = await pair({ echo: (params) => params });
  const answers: string[] = [];
  both.peer.reader.onLine = (line) => answers.push(line);
  for (const line of corpus) {
    const bytes = Buffer.from(`${line}\n`);
    const whole = answers.length;
    both.peer.socket.write(bytes);
    await waitFor(() => answers.length === whole + 1, 'an answer');
    for (let cut = 1; cut < bytes.length; cut++) {
      both.peer.socket.write(bytes.subarray(0, cut));
      await new Promise((resolve) => setImmediate(resolve));
      both.peer.socket.write(bytes.subarray(cut));
      await waitFor(() => answers.length === whole + 1 + cut, 'an answer');
      assert.equal(answers.at(-1), answers[whole]);
    }
  }
});

test('two messages in one write and one in three writes are all answered', async () => {
  const both = await pair({ echo: (params) => params });
  const answers: string[] = [];
  both.peer.reader.onLine = (line) => answers.push(line);
  both.peer.socket.write('{"jsonrpc":"2.0","id":"a","method":"echo"}\n{"jsonrpc":"2.0","id":"b","method":"echo"}\n');
  for (const part of ['{"jsonrpc":"2.0",', '"id":"c","method"', ':"echo"}\n']) {
    both.peer.socket.write(part);
    await new Promise((resolve) => setImmediate(resolve));
  }
  await waitFor(() => answers.length === 3, 'three answers');
  assert.deepEqual(answers.map((line) => JSON.parse(line).id), ['a', 'b', 'c']);
});

test('a peer that stops is reported within 5 s, nothing else happens, and its return is reported too', async () => {
  const child = spawn(process.execPath, [path.join(root, 'bootstrap.js'), 'host'], { env: world.env(), stdio: ['ignore', 'pipe', 'inherit'] });
  await new Promise((resolve) => child.stdout.once('data', resolve));
  const peer = await world.connectHost();
  const reports: Array<[boolean, number]> = [];
  await peer.call('system.ping');
  const stopped = performance.now();
  peer.onResponsive = (responsive) => reports.push([responsive, performance.now() - stopped]);
  child.kill('SIGSTOP');
  await waitFor(() => reports.length === 1, 'the report', 6000);
  assert.equal(reports[0]?.[0], false);
  assert.ok(Number(reports[0]?.[1]) < 5000, `after ${reports[0]?.[1]} ms`);
  assert.equal(peer.closedBecause, undefined);
  await rejects(connect(pipePath(world.dir, 'host'), { as: 'test', key: readKey(world.dir) }), 'E_UNRESPONSIVE');
  assert.equal(await claim(world.dir, 'host'), undefined, 'a stopped Host still holds its name');
  child.kill('SIGCONT');
  await waitFor(() => reports.length === 2, 'the second report');
  assert.equal(reports[1]?.[0], true);
  peer.close('test over');
  child.kill('SIGTERM');
  await new Promise((resolve) => child.once('exit', resolve));
});

test('a peer stopped in the middle of the handshake goes on where it was: what arrived is read before deadlines are judged', async () => {
  const child = spawn(process.execPath, [path.join(root, 'bootstrap.js'), 'host'], { env: world.env(), stdio: ['ignore', 'pipe', 'inherit'] });
  await new Promise((resolve) => child.stdout.once('data', resolve));
  const peer = await world.connectHost();
  child.kill('SIGSTOP'); // most likely before it has read the last line of the handshake
  const answer = peer.call('system.ping', {}, { timeoutMs: 20_000 });
  await rejects(world.connectHost(), 'E_UNRESPONSIVE'); // takes as long as the handshake's own deadline
  child.kill('SIGCONT');
  assert.ok(isObject(await answer));
  peer.close('test over');
  child.kill('SIGTERM');
  await new Promise((resolve) => child.once('exit', resolve));
});

test('many processes that make the same missing directories at once all succeed', async () => {
  const dir = path.join(world.home, 'deep', 'er', 'still');
  const script = `require(${JSON.stringify(path.join(root, 'bootstrap.js'))}).privateDir(${JSON.stringify(dir)})`;
  const codes = await Promise.all(Array.from({ length: 8 }, () => new Promise((resolve) => spawn(process.execPath, ['-e', script], { stdio: 'inherit' }).once('exit', resolve))));
  assert.deepEqual(new Set(codes), new Set([0]));
});

test('the runtime directory and the key are refused when others can reach them or a link stands there', () => {
  const dir = path.join(world.home, 'unsafe');
  fs.mkdirSync(dir, { mode: 0o755 });
  assert.throws(() => privateDir(dir), /open to other users: chmod 700/);
  fs.chmodSync(dir, 0o700);
  privateDir(dir);
  fs.symlinkSync(dir, path.join(world.home, 'linked'));
  assert.throws(() => privateDir(path.join(world.home, 'linked')), /not a directory/);
  assert.match(readKey(dir), /^[0-9a-f]{64}$/);
  assert.equal(fs.statSync(path.join(dir, 'key')).mode & 0o777, 0o600);
  fs.chmodSync(path.join(dir, 'key'), 0o644);
  assert.throws(() => readKey(dir), /not a private file/);
  fs.rmSync(path.join(dir, 'key'));
  const target = path.join(world.home, 'target');
  fs.writeFileSync(target, 'untouched', { mode: 0o600 });
  fs.symlinkSync(target, path.join(dir, 'key'));
  assert.throws(() => readKey(dir), { code: 'ELOOP' });
  assert.throws(() => openPrivate(path.join(dir, 'key'), fs.constants.O_WRONLY), { code: 'ELOOP' });
  writePrivate(path.join(dir, 'key'), 'replaced');
  assert.equal(fs.readFileSync(target, 'utf8'), 'untouched');
  if (process.getuid?.() === 0) {
    fs.chownSync(dir, 1, 1);
    assert.throws(() => privateDir(dir), /belongs to uid 1/);
  }
});

test('a workspace that is a root, read-only or has a link for .devtools uses the runtime directory', () => {
  const own = devtoolsDir(world.workspace, world.dir);
  assert.equal(own, path.join(world.workspace, '.devtools'));
  assert.equal(fs.readFileSync(path.join(own, '.gitignore'), 'utf8'), '*\n');
  const linked = path.join(world.home, 'linked-workspace');
  fs.mkdirSync(linked);
  fs.symlinkSync(world.home, path.join(linked, '.devtools'));
  for (const workspace of ['/', '/proc', linked]) assert.ok(devtoolsDir(workspace, world.dir).startsWith(world.dir), workspace);
});

test('an XDG_RUNTIME_DIR that is relative, missing or not ours is not used', () => {
  const { VSCODE_DEVTOOLS_DIR: own, XDG_RUNTIME_DIR: before } = process.env;
  delete process.env.VSCODE_DEVTOOLS_DIR;
  const xdg = path.join(world.home, 'xdg');
  fs.mkdirSync(xdg);
  for (const [value, used] of [[xdg, true], ['relative', false], ['/no/such', false], ['', false]] as const) {
    process.env.XDG_RUNTIME_DIR = value;
    assert.equal(runtimeDir() === path.join(xdg, 'vscode-devtools'), used, value);
  }
  if (process.getuid?.() === 0) {
    process.env.XDG_RUNTIME_DIR = xdg;
    fs.chownSync(xdg, 1, 1);
    assert.match(runtimeDir(), /vscode-devtools-0$/);
  }
  process.env.VSCODE_DEVTOOLS_DIR = own;
  if (before === undefined) delete process.env.XDG_RUNTIME_DIR;
  else process.env.XDG_RUNTIME_DIR = before;
});

test('socket paths over 103 bytes are refused with what to set', () => {
  assert.throws(() => pipePath(`/tmp/${'x'.repeat(90)}`, 'host'), /over 103: set VSCODE_DEVTOOLS_DIR/);
});

test('a claimed name is exclusive, 0600, survives no release, and a file or link in its place is refused', async () => {
  const dir = privateDir(path.join(world.home, 'claims'));
  const first = await claim(dir, 'host');
  assert.ok(first);
  assert.equal(fs.statSync(first.pipe).mode & 0o777, 0o600);
  assert.equal(await claim(dir, 'host'), undefined);
  assert.deepEqual(fs.readdirSync(dir).sort(), ['host.1.sock', 'host.sock']);
  first.release();
  assert.deepEqual(fs.readdirSync(dir), []);
  fs.writeFileSync(path.join(dir, 'host.sock'), '');
  await rejects(claim(dir, 'host'), 'E_UNSAFE');
  fs.rmSync(path.join(dir, 'host.sock'));
  fs.symlinkSync('/nowhere', path.join(dir, 'host.sock'));
  await rejects(claim(dir, 'host'), 'E_UNSAFE');
});

test('a name whose holder was killed is taken over, and nothing of it is left', async () => {
  const dir = privateDir(path.join(world.home, 'stale'));
  for (let round = 1; round <= 3; round++) {
    const script = `require(${JSON.stringify(path.join(root, 'bootstrap.js'))}).claim(${JSON.stringify(dir)}, 'host').then((c) => { console.log(c ? 'won' : 'lost'); setInterval(() => {}, 1000); })`;
    const child = spawn(process.execPath, ['-e', script], { stdio: ['ignore', 'pipe', 'inherit'] });
    const said = await new Promise<string>((resolve) => child.stdout.once('data', (chunk: Buffer) => resolve(chunk.toString())));
    assert.equal(said, 'won\n');
    child.kill('SIGKILL');
    await new Promise((resolve) => child.once('exit', resolve));
    assert.equal(await isListening(path.join(dir, 'host.sock')), false);
    assert.equal(fs.readdirSync(dir).filter((file) => file.endsWith('.sock')).length, 2);
  }
  const mine = await claim(dir, 'host');
  assert.deepEqual(fs.readdirSync(dir).sort(), ['host.4.sock', 'host.sock']);
  mine?.release();
});

test('a Host whose name was taken away stands down', async () => {
  const child = spawn(process.execPath, [path.join(root, 'bootstrap.js'), 'host'], { env: world.env(), stdio: ['ignore', 'pipe', 'inherit'] });
  await new Promise((resolve) => child.stdout.once('data', resolve));
  fs.rmSync(path.join(world.dir, 'host.sock'));
  await new Promise((resolve) => child.once('exit', resolve));
  assert.deepEqual(world.sockets().filter((file) => file.startsWith('host')), []);
});

test('another user cannot connect: the directory keeps him out, and so does the socket alone', { skip: process.getuid?.() === 0 ? false : 'needs root to become another user' }, async () => {
  const child = spawn(process.execPath, [path.join(root, 'bootstrap.js'), 'host'], { env: world.env(), stdio: ['ignore', 'pipe', 'inherit'] });
  await new Promise((resolve) => child.stdout.once('data', resolve));
  for (let dir = path.dirname(world.dir); dir !== '/tmp' && dir !== '/'; dir = path.dirname(dir)) fs.chmodSync(dir, 0o711);
  const script = `require('net').connect(${JSON.stringify(pipePath(world.dir, 'host'))}).on('connect', () => { console.log('connected'); process.exit(); }).on('error', (e) => console.log(e.code))`;
  const tryAs = (uid: number): string => execFileSync(process.execPath, ['-e', script], { uid, gid: uid, encoding: 'utf8', cwd: '/' }).trim();
  assert.equal(tryAs(0), 'connected');
  assert.equal(tryAs(65534), 'EACCES');
  fs.chmodSync(world.dir, 0o755);
  assert.equal(tryAs(65534), 'EACCES');
  fs.chmodSync(pipePath(world.dir, 'host'), 0o666);
  assert.equal(tryAs(65534), 'connected', 'the modes are what keeps him out');
  fs.chmodSync(world.dir, 0o700);
  child.kill('SIGTERM');
  await new Promise((resolve) => child.once('exit', resolve));
});

test('a bundle that is missing, throws at load or throws while registering leaves a pipe that says so', async () => {
  for (const [name, code, reason] of [['missing', undefined, /Cannot find module/], ['load', 'throw new Error("broken at load")', /broken at load.*host\.js:1/s], ['syntax', 'function (', /SyntaxError|host\.js:1/], ['register', 'exports.register = (role) => { role.handle("half", () => 1); throw new Error("broken while registering"); }', /broken while registering/]] as const) {
    const copy = path.join(world.home, `copy-${name}`);
    fs.mkdirSync(path.join(copy, 'dist'), { recursive: true });
    for (const file of ['bootstrap.js', 'package.json']) fs.copyFileSync(path.join(root, file), path.join(copy, file));
    if (code !== undefined) fs.writeFileSync(path.join(copy, 'dist', 'host.js'), code);
    const child = spawn(process.execPath, [path.join(copy, 'bootstrap.js'), 'host'], { env: world.env(), stdio: ['ignore', 'pipe', 'inherit'] });
    await new Promise((resolve) => child.stdout.once('data', resolve));
    const peer = await world.connectHost();
    const ping = await peer.call('system.ping');
    assert.ok(isObject(ping));
    assert.deepEqual([ping.alive, ping.role, ping.safeMode, ping.pid, ping.registeredMethods], [true, 'host', true, child.pid, ['system.ping']]);
    assert.match(String(ping.reason), reason);
    await rejects(peer.call('half'), -32601);
    await rejects(peer.call('mcpReady', { workspace: world.workspace }), -32601);
    peer.close('test over');
    child.kill('SIGTERM');
    await new Promise((resolve) => child.once('exit', resolve));
  }
});

test('errors carry their names', () => {
  assert.equal(errorName(failure('E_BUSY', 'x')), 'E_BUSY');
  assert.equal(errorName(new RpcError(-32601, 'x')), '');
  assert.equal(errorName('x'), '');
});
