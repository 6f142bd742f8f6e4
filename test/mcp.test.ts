// The MCP server from outside: what a client sends, and the exact answer.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { afterEach, beforeEach, test } from 'node:test';
import { VERSION, isObject } from '../bootstrap.js';
import { TOOLS, auditedArguments, checkArguments, createLocks, isNewer, listed, verifyAudit, type Tool } from '../mcp.ts';
import { World, body, changedCopy, checkFrames, modern, root, serverFile, slowClient, waitFor, type Json, type McpClient } from './lib.ts';

let world: World;
beforeEach(() => {
  world = new World();
});
afterEach(() => world.end());

const LEGACY = ['2024-11-05', '2025-03-26', '2025-06-18', '2025-11-25'];
const errorOf = (answer: Json): Json => body(answer, 'error');
const META = 'io.modelcontextprotocol/';

/** Writes raw text, waits for as many messages as it should give, then pings: every message but the ping's answer. */
async function answersTo(client: McpClient, text: string | Buffer, expected = 1): Promise<Json[]> {
  const from = client.messages.length;
  client.write(text);
  await waitFor(() => client.messages.length >= from + expected, `an answer to ${String(text).slice(0, 100)}`);
  const ping = await client.request('ping', undefined, `after-${from}`);
  return client.messages.slice(from).filter((message) => message !== ping);
}

// ------------------------------------------------------------------------------------------------------- both eras

test('initialize answers each legacy version with itself and an unknown one with the newest, and touches no pipe', async () => {
  for (const version of LEGACY) {
    const client = world.mcp();
    const result = await client.initialize(version);
    assert.equal(result.protocolVersion, version);
    assert.deepEqual(result.serverInfo, { name: 'vscode-devtools', title: 'vscode-devtools', version: VERSION });
    assert.deepEqual(result.capabilities, { tools: {}, logging: {} });
    await client.close();
  }
  assert.equal((await world.mcp().initialize('1999-01-01')).protocolVersion, '2025-11-25');
  assert.deepEqual(world.sockets(), []);
  assert.deepEqual(world.processes().map(({ role }) => role), ['mcp']);
});

test('before initialize only ping is answered, and the error says what to send', async () => {
  const client = world.mcp();
  assert.deepEqual((await client.request('ping')).result, {});
  const error = errorOf(await client.request('tools/list'));
  assert.equal(error.code, -32602);
  assert.match(String(error.message), /initialize first/);
});

test('one process serves both eras: each modern request stands alone', async () => {
  const client = world.mcp();
  const discovered = body(await client.request('server/discover', modern()), 'result');
  assert.deepEqual(discovered.supportedVersions, ['2026-07-28']);
  assert.deepEqual([discovered.resultType, typeof discovered.ttlMs, discovered.cacheScope], ['complete', 'number', 'private']);
  const list = body(await client.request('tools/list', modern()), 'result');
  assert.deepEqual([list.resultType, typeof list.ttlMs, list.cacheScope], ['complete', 'number', 'private']);
  await client.initialize();
  const legacy = body(await client.request('tools/list'), 'result');
  assert.deepEqual(legacy.tools, list.tools);
  assert.equal('resultType' in legacy || 'ttlMs' in legacy, false);
  const called = body(await client.request('tools/call', modern({ name: 'devtools_status' })), 'result');
  assert.equal(called.resultType, 'complete');
  assert.equal(body(body(called, 'structuredContent'), 'client').state, 'connected');
});

test('a modern request without its version, capabilities or a known version is refused every time', async () => {
  const client = world.mcp();
  await client.request('server/discover', modern());
  for (const [params, code] of [
    [{ _meta: { [`${META}protocolVersion`]: '2026-07-28' } }, -32602],
    [{ _meta: { [`${META}protocolVersion`]: 7, [`${META}clientCapabilities`]: {} } }, -32602],
    [{ _meta: { [`${META}protocolVersion`]: '2026-07-28', [`${META}clientCapabilities`]: [] } }, -32602],
    [{}, -32602],
    [undefined, -32602],
  ] as const) assert.equal(errorOf(await client.request('tools/list', params)).code, code, JSON.stringify(params));
  const refused = errorOf(await client.request('tools/list', modern({}, { [`${META}protocolVersion`]: '2099-01-01' })));
  assert.equal(refused.code, -32022);
  assert.deepEqual(refused.data, { supported: ['2026-07-28'], requested: '2099-01-01' });
  for (const method of ['initialize', 'ping', 'logging/setLevel']) assert.equal(errorOf(await client.request(method, modern())).code, -32601, method);
  await client.initialize();
  assert.equal(errorOf(await client.request('server/discover', {})).code, -32601);
});

test('clients older than structured content get all of it as text', async () => {
  for (const version of LEGACY) {
    const client = world.mcp();
    await client.initialize(version);
    const result = body(await client.request('tools/call', { name: 'devtools_status' }), 'result');
    const [block] = Array.isArray(result.content) ? result.content : [];
    const text = String(isObject(block) ? block.text : '');
    if (version < '2025-06-18') assert.deepEqual(Object.keys(JSON.parse(text)).sort(), Object.keys(body(result, 'structuredContent')).sort());
    else assert.match(text, /^Host: connected .*\nClient: connected /);
    await client.close();
  }
});

// ------------------------------------------------------------------------------------------------------- bad input

test('malformed input gets the specified error, with the id where it can be read, and the server goes on', async () => {
  const client = world.mcp();
  await client.initialize();
  const deep = `{"jsonrpc":"2.0","id":1,"method":"ping","params":${'{"a":'.repeat(70)}1${'}'.repeat(70)}}`;
  for (const [line, code, id] of [
    ['nonsense', -32700, undefined],
    ['{"jsonrpc":"2.0","id":1,"method":"ping"', -32700, undefined],
    ['{"jsonrpc":"1.0","id":5,"method":"ping"}', -32600, 5],
    ['{"id":6,"method":"ping"}', -32600, 6],
    ['{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600, undefined],
    ['{"jsonrpc":"2.0","id":true,"method":"ping"}', -32600, undefined],
    ['{"jsonrpc":"2.0","id":{},"method":"ping"}', -32600, undefined],
    ['{"jsonrpc":"2.0","id":[1],"method":"ping"}', -32600, undefined],
    ['{"jsonrpc":"2.0","id":1.5,"method":"ping"}', -32600, undefined],
    ['{"jsonrpc":"2.0","id":7,"method":3}', -32600, 7],
    ['{"jsonrpc":"2.0","id":8}', -32600, 8],
    ['{"jsonrpc":"2.0","id":9,"method":"ping","params":[1]}', -32600, 9],
    ['{"jsonrpc":"2.0","id":"x","method":"no/such"}', -32601, 'x'],
    ['{"jsonrpc":"2.0","id":"p","method":"__proto__"}', -32601, 'p'],
    ['{"jsonrpc":"2.0","id":"c","method":"constructor"}', -32601, 'c'],
    ['{"jsonrpc":"2.0","id":10,"method":"tools/call"}', -32602, 10],
    ['{"jsonrpc":"2.0","id":11,"method":"tools/call","params":{"name":"nope"}}', -32602, 11],
    ['{"jsonrpc":"2.0","id":12,"method":"tools/call","params":{"name":["devtools_status"]}}', -32602, 12],
    ['{"jsonrpc":"2.0","id":13,"method":"tools/list","params":{"cursor":"x"}}', -32602, 13],
    ['{"jsonrpc":"2.0","id":14,"method":"logging/setLevel","params":{"level":"loud"}}', -32602, 14],
    ['[{"jsonrpc":"2.0","id":1,"method":"ping"}]', -32600, undefined],
    ['[]', -32600, undefined],
    ['"text"', -32600, undefined],
    ['null', -32600, undefined],
    [deep, -32600, undefined],
  ] as const) {
    const [answer, ...more] = await answersTo(client, `${line}\n`);
    assert.deepEqual([more, errorOf(answer ?? {}).code, answer?.id, answer !== undefined && 'id' in answer], [[], code, id, id !== undefined], line.slice(0, 100));
  }
  const silent = ['', '\r', '{"jsonrpc":"2.0","method":"notifications/whatever"}', '{"jsonrpc":"2.0","method":"tools/call","params":{"name":"devtools_status"}}', '{"jsonrpc":"2.0","id":99,"result":{}}', '{"jsonrpc":"2.0","id":99,"error":{"code":1,"message":"x"}}', '{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":{}}}', '{"jsonrpc":"2.0","method":"notifications/cancelled"}'];
  silent.push('{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"x"}}', '{"jsonrpc":"2.0","error":{"code":1,"message":"x"}}', '{"jsonrpc":"2.0","result":1}');
  for (const line of silent) assert.deepEqual(await answersTo(client, `${line}\n`, 0), [], line);
});

test('17 MiB lines, invalid UTF-8, lone surrogates and __proto__ keys are each one error or none, and nothing is lost', async () => {
  const client = world.mcp();
  await client.initialize();
  const [tooLong] = await answersTo(client, Buffer.from(`{"jsonrpc":"2.0","id":1,"method":"${'x'.repeat(17 * 1024 * 1024)}"}\n`));
  assert.equal(errorOf(tooLong ?? {}).code, -32600);
  const [notUtf8] = await answersTo(client, Buffer.concat([Buffer.from('{"jsonrpc":"2.0","id":1,"method":"'), Buffer.from([0xff, 0xfe]), Buffer.from('"}\n')]));
  assert.equal(errorOf(notUtf8 ?? {}).code, -32700);
  const [surrogate] = await answersTo(client, '{"jsonrpc":"2.0","id":"\\ud800","method":"ping"}\n');
  assert.deepEqual([surrogate?.id, surrogate?.result], ['\ud800', {}]);
  const proto = body(await client.request('tools/call', JSON.parse('{"name":"devtools_status","arguments":{"__proto__":{"x":1},"constructor":2}}')), 'result');
  assert.equal(proto.isError, true);
  assert.match(String(body(body(proto, 'structuredContent'), 'error').message), /unknown argument "__proto__"; unknown argument "constructor"/);
});

test('each message of a corpus, cut at every byte, gives the same answers', async () => {
  const client = world.mcp();
  await client.initialize();
  for (const line of ['{"jsonrpc":"2.0","id":"é𝄞","method":"ping"}', '{"jsonrpc":"2.0","id":2,"method":"none","params":{"a":"\\"}{"}}', '{"jsonrpc":', '[1]']) {
    const bytes = Buffer.from(`${line}\n`);
    const whole = await answersTo(client, bytes);
    for (let cut = 1; cut < bytes.length; cut++) {
      client.write(bytes.subarray(0, cut));
      await new Promise((resolve) => setImmediate(resolve));
      assert.deepEqual(await answersTo(client, bytes.subarray(cut)), whole, `${line} cut at ${cut}`);
    }
  }
});

test('generated frames never crash the server, and it answers after each hundred', async () => {
  const client = world.mcp();
  await client.initialize('2025-03-26'); // with arrays
  await checkFrames(async (frames) => {
    for (const bytes of frames) client.write(bytes);
    assert.deepEqual((await client.request('ping', undefined, `frames-${client.lines.length}`)).result, {});
    client.messages.length = 0;
  });
});

test('batches are part of 2025-03-26 alone: answered together, notifications unanswered, bad members reported', async () => {
  const client = world.mcp();
  await client.initialize('2025-03-26');
  const from = client.lines.length;
  client.send([
    { jsonrpc: '2.0', id: 'a', method: 'ping' }, { jsonrpc: '2.0', method: 'notifications/x' }, 5, { jsonrpc: '2.0', id: 'b', method: 'nope' },
    { jsonrpc: '2.0', id: 'c', method: 'tools/call', params: { name: 'devtools_status' } },
  ]);
  await client.until((message) => message.id === 'c', 'the answer to the batch');
  const batch: unknown = JSON.parse(String(client.lines[from]));
  assert.ok(Array.isArray(batch));
  assert.deepEqual(batch.map((answer: Json) => [answer.id, isObject(answer.error) ? answer.error.code : 0]), [['a', 0], [undefined, -32600], ['b', -32601], ['c', 0]]);
  assert.deepEqual(await answersTo(client, '[{"jsonrpc":"2.0","method":"notifications/x"}]\n', 0), []);
  assert.equal(errorOf((await answersTo(client, '[]\n'))[0] ?? {}).code, -32600);
  const [tooMany, ...more] = await answersTo(client, `[${Array.from({ length: 1001 }, () => 1).join(',')}]\n`);
  assert.deepEqual([errorOf(tooMany ?? {}).code, more], [-32600, []]);
});

test('an id that is in use is refused and the first call is still answered', async () => {
  const slow = slowClient(world);
  const client = world.mcp({ file: slow.file });
  await client.initialize();
  const call = { jsonrpc: '2.0', id: 'same', method: 'tools/call', params: { name: 'devtools_status' } };
  client.send(call);
  await waitFor(() => fs.existsSync(slow.started), 'the call to reach the Client');
  client.send(call);
  assert.equal(errorOf(await client.until((message) => message.id === 'same', 'the refusal')).code, -32600);
  fs.writeFileSync(slow.release, '');
  await client.until((message) => message.id === 'same' && 'result' in message, 'the answer');
});

test('NODE_OPTIONS of the server is not passed on to what outlives it', async () => {
  const client = world.mcp({ env: { NODE_OPTIONS: '--inspect=127.0.0.1:0' } });
  await client.initialize();
  await client.call('devtools_status');
  for (const { pid, role } of world.processes()) {
    const environment = fs.readFileSync(`/proc/${pid}/environ`, 'latin1').split('\0');
    assert.equal(environment.some((line) => line.startsWith('NODE_OPTIONS=')), role === 'mcp', role);
  }
});

test('a client that writes a byte at a time is answered, and stdin closed in the middle of a line ends it cleanly', async () => {
  const client = world.mcp();
  const line = '{"jsonrpc":"2.0","id":1,"method":"ping"}\n';
  for (const byte of line) {
    client.write(byte);
    await new Promise((resolve) => setImmediate(resolve));
  }
  await client.until((message) => message.id === 1, 'the answer');
  client.write('{"jsonrpc":"2.0","id":2,"meth');
  await client.close();
  assert.deepEqual([client.exited, client.messages.length, client.stderr], [{ code: 0, signal: null }, 1, '']);
});

// ------------------------------------------------------------------------------------------- ending, stdout, logging

test('SIGTERM and SIGINT end the server with code 0; Host and Client stay', async () => {
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) {
    const client = world.mcp();
    await client.initialize();
    await client.call('devtools_status');
    client.child.kill(signal);
    await client.exit();
    assert.deepEqual(client.exited, { code: 0, signal: null });
    assert.deepEqual(world.processes().map(({ role }) => role).sort(), ['client', 'host']);
  }
});

test('nothing but the protocol reaches stdout, whatever is printed', async () => {
  const preload = path.join(world.home, 'noisy.cjs');
  fs.writeFileSync(preload, `if ((process.argv[1] ?? '').endsWith('mcp.js')) setInterval(() => { console.log('noise'); console.info('noise'); console.table([1]); process.stdout.write('noise'); console.dir({}); }, 1);`);
  const client = world.mcp({ env: { NODE_OPTIONS: `--require ${preload}` } });
  await client.initialize();
  await client.call('devtools_status');
  await waitFor(() => client.stderr.split('noise').length > 50, 'the noise on stderr');
  await client.request('ping');
  for (const line of client.lines) assert.equal(JSON.parse(line).jsonrpc, '2.0');
});

test('log messages follow the level that was set, and in the modern era the request', async () => {
  const client = world.mcp();
  await client.initialize();
  await client.request('logging/setLevel', { level: 'debug' });
  await client.call('devtools_status');
  const logged = client.messages.filter(({ method }) => method === 'notifications/message').map((message) => body(message, 'params'));
  assert.ok(logged.some(({ level, data }) => level === 'info' && data === 'started a headless Host'), JSON.stringify(logged));
  await client.close();
  spawnSync(process.execPath, [serverFile, 'host', 'stop'], { env: world.env() });
  const quiet = world.mcp();
  await quiet.request('tools/call', modern({ name: 'devtools_status' }));
  assert.deepEqual(quiet.messages.filter(({ method }) => method !== undefined), []);
  await quiet.close();
  spawnSync(process.execPath, [serverFile, 'host', 'stop'], { env: world.env() });
  const asking = world.mcp();
  await asking.request('tools/call', modern({ name: 'devtools_status' }, { [`${META}logLevel`]: 'info' }));
  assert.deepEqual(asking.messages.filter(({ method }) => method !== undefined).map((message) => body(message, 'params').data), ['started a headless Host']);
});

// ------------------------------------------------------------------------------------------------------ tool calls

test('devtools_status tells of server, Host, Client, powers and paths, and carries the ledger', async () => {
  const client = world.mcp();
  await client.initialize();
  const status = await client.call('devtools_status');
  const [mcp, host, own, powers, paths, ledger] = ['mcp', 'host', 'client', 'powers', 'paths', 'ledger'].map((key) => body(status, key));
  assert.deepEqual([mcp?.pid, mcp?.workspace, mcp?.client], [client.child.pid, world.workspace, 'test 1']);
  assert.deepEqual([host?.state, host?.mode, host?.safeMode, host?.pipe], ['connected', 'headless', false, path.join(world.dir, 'host.sock')]);
  assert.deepEqual([own?.state, own?.mode, own?.safeMode, own?.workspace], ['connected', 'headless', false, world.workspace]);
  assert.deepEqual(powers, { exec: false });
  assert.deepEqual([paths?.runtime, paths?.devtools], [world.dir, path.join(world.workspace, '.devtools')]);
  assert.deepEqual(ledger, { active: [], orphaned: [] });
  assert.deepEqual(new Set(world.processes().map(({ pid }) => pid)), new Set([client.child.pid, host?.pid, own?.pid]));
});

test('a broken Client or Host is shown in Safe Mode with the reason, never as an exception', async () => {
  const broken = 'exports.register = () => { throw new Error("deliberately broken"); };';
  const client = world.mcp({ file: changedCopy(world, 'broken-client', { files: { 'dist/client.js': broken } }) });
  await client.initialize();
  const status = await client.call('devtools_status');
  assert.equal(body(status, 'host').state, 'connected');
  assert.deepEqual([body(status, 'client').state, body(status, 'client').safeMode], ['safe mode', true]);
  assert.match(String(body(status, 'client').reason), /deliberately broken/);
  await client.close();
  spawnSync(process.execPath, [serverFile, 'host', 'stop'], { env: world.env() });
  const other = world.mcp({ file: changedCopy(world, 'broken-host', { files: { 'dist/host.js': broken } }) });
  await other.initialize();
  const second = await other.call('devtools_status');
  assert.equal(body(second, 'host').state, 'safe mode');
  assert.match(String(body(second, 'host').reason), /deliberately broken/);
  assert.equal(body(second, 'client').state, 'unreachable');
  const stop = spawnSync(process.execPath, [serverFile, 'host', 'stop'], { env: world.env(), encoding: 'utf8' });
  assert.match(stop.stdout, /stopped the Host/);
});

test('cancelling reaches the Client, nothing more is said of the call, and the audit log says so', async () => {
  const slow = slowClient(world);
  const client = world.mcp({ file: slow.file });
  await client.initialize();
  client.send({ jsonrpc: '2.0', id: 'x', method: 'tools/call', params: { name: 'devtools_status', _meta: { progressToken: 1 } } });
  await waitFor(() => fs.existsSync(slow.started), 'the call to reach the Client');
  client.send({ jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 'x', reason: 'test' } });
  await waitFor(() => fs.existsSync(slow.aborted) && fs.readFileSync(slow.aborted, 'utf8') !== '', 'the cancellation to reach the Client');
  assert.equal(fs.readFileSync(slow.aborted, 'utf8'), 'E_CANCELLED');
  await client.request('ping');
  assert.deepEqual(client.messages.filter((message) => message.id === 'x' || message.method === 'notifications/progress'), []);
  await client.close();
  assert.match(cli('audit').out, /#1 <- devtools_status failed E_CANCELLED/);
});

test('whatever takes over a second reports progress that rises and stops with the answer', async () => {
  const slow = slowClient(world);
  const client = world.mcp({ file: slow.file });
  await client.initialize();
  client.send({ jsonrpc: '2.0', id: 'x', method: 'tools/call', params: { name: 'devtools_status', _meta: { progressToken: 'token' } } });
  const progress = (): Json[] => client.messages.filter(({ method }) => method === 'notifications/progress').map((message) => body(message, 'params'));
  await waitFor(() => progress().length === 2, 'two reports');
  fs.writeFileSync(slow.release, '');
  await client.until((message) => message.id === 'x', 'the answer');
  assert.deepEqual(progress().map(({ progressToken, progress: value }) => [progressToken, value]), [['token', 1], ['token', 2]]);
  assert.match(String(progress()[1]?.message), /\(\d+ s\)$/);
});

const sample: Tool = {
  name: 'sample_tool', title: 'Sample', description: 'x', effect: 'write', via: 'client',
  input: {
    type: 'object', additionalProperties: false, required: ['command'],
    properties: {
      command: { type: 'string', minLength: 1, maxLength: 10 }, timeout: { type: 'integer', minimum: 1, maximum: 100, default: 30 },
      mode: { type: 'string', enum: ['a', 'b'] }, list: { type: 'array', maxItems: 2, items: { type: 'object', required: ['line'], properties: { line: { type: 'integer' } }, additionalProperties: false } },
      env: { type: 'object' }, either: { type: ['string', 'boolean'] },
    },
  },
  output: { type: 'object' }, run: async () => ({}), text: () => '',
};

test('arguments are checked against the schema: every problem at once, with what is expected', () => {
  assert.deepEqual(checkArguments(sample, { command: 'ls', env: { A: '1' }, either: false }), { timeout: 30, command: 'ls', env: { A: '1' }, either: false });
  const problems = (args: unknown): unknown => {
    try {
      checkArguments(sample, args);
    } catch (error) {
      assert.match(String(error), /It takes: command \(string, required\), timeout \(integer, default 30\), mode \("a"\|"b", optional\)/);
      return isObject(error) && isObject(error.data) ? error.data.problems : error;
    }
    return [];
  };
  assert.deepEqual(problems({ comand: 'x', timeout: 0, mode: 'c', list: [{ line: 1.5, x: 1 }, {}, {}] }), [
    'missing argument "command"', 'unknown argument "comand"', '"timeout" must be at least 1, not 0', '"mode" must be one of "a", "b", not "c"',
    '"list" must have at most 2 items, not 3', '"list"[0].line must be an integer, not 1.5', 'unknown argument "list"[0].x', 'missing argument "list"[1].line', 'missing argument "list"[2].line',
  ]);
  assert.deepEqual(problems({ command: 5, timeout: '7', either: 1 }), ['"command" must be a string, not 5', '"timeout" must be an integer, not "7"', '"either" must be a string or a boolean, not 1']);
  assert.deepEqual(problems({ command: '', timeout: 101 }), ['"command" must have at least 1 characters', '"timeout" must be at most 100, not 101']);
  assert.deepEqual(problems([]), ['arguments must be an object, not an array']);
  assert.deepEqual(problems({ command: null }), ['"command" must be a string, not null']);
});

test('every tool has a name VS Code keeps, a closed input schema and all four annotations', () => {
  for (const tool of TOOLS) {
    assert.match(tool.name, /^[a-z]+(_[a-z]+)+$/);
    assert.ok(tool.name.length <= 46);
    assert.equal(tool.input.additionalProperties, false);
    assert.deepEqual(Object.keys(body(listed(tool), 'annotations')).sort(), ['destructiveHint', 'idempotentHint', 'openWorldHint', 'readOnlyHint', 'title']);
  }
  assert.equal(new Set(TOOLS.map(({ name }) => name)).size, TOOLS.length);
});

test('locks are first in first out per key, and who is cancelled while waiting holds nobody up', async () => {
  const lock = createLocks();
  const order: string[] = [];
  const never = new AbortController().signal;
  const first = await lock('a', never);
  const cancel = new AbortController();
  const waiting = [lock('a', never), lock('a', cancel.signal), lock('a', never)].map((promise, index) => promise.then((release) => (order.push(`a${index}`), release())).catch((error) => order.push(`${index} ${String(error)}`)));
  (await lock('b', never))();
  order.push('b');
  cancel.abort();
  await waiting[1];
  assert.deepEqual(order, ['b', '1 Error: cancelled while waiting for a']);
  first();
  await Promise.all(waiting);
  assert.deepEqual(order.slice(2), ['a0', 'a2']);
  await assert.rejects(lock('a', cancel.signal), /cancelled/);
  (await lock('a', never))();
});

test('versions compare by number', () => {
  for (const [a, b, newer] of [['0.2.0', '0.1.9', true], ['0.10.0', '0.9.0', true], ['1.0.0', '1.0.0', false], ['0.1.0', '0.2.0', false], ['1.0', '1.0.0', false], ['1.0.1', 'undefined', true]] as const) assert.equal(isNewer(a, b), newer, `${a} ${b}`);
});

// ------------------------------------------------------------------------------------------------------- audit log

const auditFiles = (): string[] => fs.readdirSync(path.join(world.workspace, '.devtools', 'audit')).sort().map((file) => path.join(world.workspace, '.devtools', 'audit', file));
const cli = (...args: string[]): { out: string; code: number | null } => {
  const { stdout, stderr, status } = spawnSync(process.execPath, [serverFile, ...args], { env: world.env(), cwd: world.workspace, encoding: 'utf8', timeout: 20_000 });
  return { out: stdout + stderr, code: status };
};

test('each call leaves intent and result in a chain of its process, private and verifiable', async () => {
  for (let round = 0; round < 2; round++) {
    const client = world.mcp();
    await client.initialize();
    await client.call('devtools_status');
    await client.call('devtools_status', { wrong: 1 });
    await client.close();
  }
  const files = auditFiles();
  assert.equal(files.length, 2);
  for (const file of files) {
    assert.equal(fs.statSync(file).mode & 0o777, 0o600);
    const entries = fs.readFileSync(file, 'utf8').trimEnd().split('\n').map((line): Json => JSON.parse(line));
    assert.deepEqual(entries.map(({ kind, call, ok, error }) => [kind, call, ok, error]), [['intent', 1, undefined, undefined], ['result', 1, true, undefined], ['result', 2, false, 'E_ARGUMENTS']]);
  }
  const verified = cli('audit', '--verify');
  assert.deepEqual([verified.code, verified.out.match(/3 records, chain intact, 0 calls with unknown outcome/g)?.length], [0, 2], verified.out);
  assert.match(cli('audit').out, /#1 -> devtools_status \{\}\n.*#1 <- devtools_status ok after \d+ ms\n.*#2 <- devtools_status failed E_ARGUMENTS/);
});

test('a changed, removed, added or torn record is found, and a call without result is unknown', async () => {
  const client = world.mcp();
  await client.initialize();
  for (let i = 0; i < 3; i++) await client.call('devtools_status');
  await client.request('ping'); // the last result is written by now
  client.child.kill('SIGKILL');
  await client.exit();
  const [file = ''] = auditFiles();
  const text = fs.readFileSync(file, 'utf8');
  const lines = text.trimEnd().split('\n');
  const check = (changed: string[]): unknown[] => verifyAudit([`${changed.join('\n')}\n`]).problems;
  assert.deepEqual(check(lines), []);
  for (let at = 0; at < lines.length - 1; at++) {
    assert.notDeepEqual(check(lines.with(at, String(lines[at]).replace('devtools_status', 'devtools_statuz'))), [], `changed ${at}`);
    if (at > 0) assert.notDeepEqual(check(lines.toSpliced(at, 1)), [], `removed ${at}`);
    assert.notDeepEqual(check(lines.toSpliced(at, 0, String(lines[at]))), [], `added ${at}`);
  }
  assert.match(String(verifyAudit([text + '{"seq":99,"half'])?.problems), /torn/);
  assert.match(String(verifyAudit([`${lines.slice(0, -1).join('\n')}\n`]).unknown), /call 3 of devtools_status/);
  assert.deepEqual(verifyAudit([lines.slice(0, 2).join('\n') + '\n', lines.slice(2).join('\n') + '\n']).problems, [], 'the chain goes on over a rotation');
  assert.match(String(verifyAudit([`${lines.slice(2).join('\n')}\n`], 2).problems), /first 2 records are not there any more/, 'older files may go');
  assert.match(String(verifyAudit([`${lines.slice(2).join('\n')}\n`]).problems), /chain is broken/, 'the beginning of the first may not');
  fs.writeFileSync(file, text.replace('"ok":true', '"ok":false'));
  const verified = cli('audit', '--verify');
  assert.equal(verified.code, 1);
  assert.match(verified.out, /BROKEN/);
});

test('audit does not wait for a FIFO, follow a link, or print control characters', () => {
  const dir = path.join(world.workspace, '.devtools', 'audit');
  fs.mkdirSync(dir, { recursive: true, mode: 0o700 });
  spawnSync('mkfifo', ['-m', '600', path.join(dir, 'a-1.jsonl')]);
  fs.symlinkSync('/etc/passwd', path.join(dir, 'b-1.jsonl'));
  fs.writeFileSync(path.join(dir, 'c-1.jsonl'), '{"seq":1,"prev":"","kind":"intent","call":"\\u001b[2J","tool":"x\\nfake","at":"y"}\n', { mode: 0o600 });
  const { out, code } = cli('audit');
  assert.equal(code, 0);
  assert.ok(!/root:|\x1b|^fake/m.test(out), out);
  assert.match(out, /\\x1b\[2J -> x\\x0afake/);
  assert.equal(cli('audit', '--verify').code, 1);
});

test('long arguments are cut in the log, with their length and hash', () => {
  assert.deepEqual(auditedArguments({ a: 1 }), { a: 1 });
  const kept = auditedArguments({ text: 'x'.repeat(100_000) });
  assert.ok(isObject(kept) && JSON.stringify(kept).length < 5000);
  assert.deepEqual([kept.length, String(kept.sha256).length], [100_011, 64]);
});

test('an audit directory that cannot be written does not stop the work, and status says so', async () => {
  fs.mkdirSync(path.join(world.workspace, '.devtools'), { mode: 0o700 });
  fs.writeFileSync(path.join(world.workspace, '.devtools', 'audit'), 'in the way');
  const client = world.mcp();
  await client.initialize();
  const status = await client.call('devtools_status');
  assert.match(String(status.warnings), /the audit log is incomplete/);
  assert.deepEqual(cli('audit').code, 0);
});

// ---------------------------------------------------------------------------------------------------- command line

test('the command line explains itself and refuses what it does not know', async () => {
  assert.deepEqual(cli('--version'), { out: `${VERSION}\n`, code: 0 });
  const help = cli('--help');
  assert.equal(help.code, 0);
  for (const word of ['--workspace', '--tools', 'host stop', 'audit', '.vscode/mcp.json', '${workspaceFolder}']) assert.ok(help.out.includes(word), word);
  for (const [args, message] of [[['--wrong'], /unknown option --wrong/], [['dance'], /unknown command dance/], [['--workspace'], /needs a value/], [['--workspace', ''], /needs a value/], [['--tools', ''], /needs a value/], [['--verify'], /belongs to audit/], [['--workspace', '/no/such'], /cannot be used/], [['--workspace', serverFile], /not a directory/], [['--tools', 'nope'], /no tools in the area nope/]] as const) {
    const { out, code } = cli(...args);
    assert.equal(code, 2);
    assert.match(out, message);
    assert.match(out, /--help/);
  }
  assert.deepEqual(cli('host', 'stop'), { out: 'no Host is running\n', code: 0 });
  assert.match(cli('audit').out, /no audit log in/);
  assert.equal(fs.existsSync(path.join(world.workspace, '.devtools')), false, 'looking makes nothing');
  const client = world.mcp({ args: ['--tools=devtools'] });
  await client.initialize();
  const { tools } = body(await client.request('tools/list'), 'result');
  assert.deepEqual(Array.isArray(tools) && tools.map(({ name }: Json) => name), ['devtools_status', 'devtools_reload']);
  await client.call('devtools_status');
  await client.close();
  assert.match(cli('host', 'stop').out, /^stopped the Host \(pid \d+\)\n$/);
  await waitFor(() => world.processes().length === 0, 'Host and Client to end');
  assert.deepEqual(world.sockets(), []);
});

test('started on a terminal by a person it says what it is', () => {
  const { stdout, status } = spawnSync('script', ['-qec', `${process.execPath} ${serverFile}`, '/dev/null'], { env: world.env(), encoding: 'utf8', timeout: 20_000, input: '' });
  assert.equal(status, 0);
  assert.match(stdout, /This is an MCP server: a client starts it/);
  assert.match(stdout, /mcp\.json/);
});

test('the installed command works through a link, as npm makes it', () => {
  const linked = path.join(world.home, 'vscode-devtools');
  fs.symlinkSync(serverFile, linked);
  const { stdout } = spawnSync(linked, ['--version'], { env: world.env(), encoding: 'utf8' });
  assert.equal(stdout, `${VERSION}\n`);
  assert.ok(fs.existsSync(path.join(root, 'bootstrap.js')));
});
