// The debugger's own parts, and what it does with adapters that die, hang, talk nonsense or are old: those are played by
// small scripts here, since no real adapter misbehaves on demand. The real ones are in debug.slow.test.ts.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { PassThrough } from 'node:stream';
import { after, afterEach, before, describe, test } from 'node:test';
import fc from 'fast-check';
import { errorName } from '../bootstrap.js';
import { Dap, DapReader, hitCountOf, matchesHits, pathWords } from '../debug.ts';
import { World, body, type Json, type McpClient } from './lib.ts';

const frame = (message: unknown): Buffer => {
  const text = JSON.stringify(message);
  return Buffer.from(`Content-Length: ${Buffer.byteLength(text)}\r\n\r\n${text}`);
};

test('framing gives the same messages wherever the bytes are cut', () => {
  fc.assert(fc.property(fc.array(fc.record({ seq: fc.nat(), text: fc.string({ unit: 'grapheme' }) }, { noNullPrototype: true }), { maxLength: 8 }), fc.array(fc.nat({ max: 200 })), (messages, cuts) => {
    const bytes = Buffer.concat(messages.map(frame));
    const seen: Json[] = [];
    const reader = new DapReader((message) => seen.push(message), (problem) => assert.fail(problem));
    let from = 0;
    for (const cut of [...cuts, bytes.length]) {
      const to = Math.min(bytes.length, from + cut);
      reader.push(bytes.subarray(from, to));
      from = to;
    }
    if (from < bytes.length) reader.push(bytes.subarray(from));
    assert.deepEqual(seen, messages);
  }));
});

test('what is not framed ends the connection, what is no JSON is left out alone, what is too long fails its request', () => {
  const read = (bytes: Buffer[]): { messages: Json[]; problems: Array<[string, boolean, number | undefined]> } => {
    const messages: Json[] = [];
    const problems: Array<[string, boolean, number | undefined]> = [];
    const reader = new DapReader((message) => messages.push(message), (problem, isFatal, seq) => problems.push([problem, isFatal, seq]));
    for (const chunk of bytes) reader.push(chunk);
    return { messages, problems };
  };
  const last = frame({ last: true });
  assert.deepEqual(read([Buffer.from('HTTP/1.1 400 Bad\r\n\r\n'), last]).problems.map(([, isFatal]) => isFatal), [true]);
  assert.deepEqual(read([Buffer.from('I am no adapter\n')]).problems.map(([, isFatal]) => isFatal), [true]);
  assert.deepEqual(read([Buffer.alloc(5000, 'x')]).problems.map(([, isFatal]) => isFatal), [true]);
  assert.deepEqual(read([Buffer.from('Content-Length: 99999999999999\r\n\r\n')]).problems.map(([, isFatal]) => isFatal), [true]);
  const bad = read([Buffer.from('Content-Length: 3\r\n\r\n{a}'), Buffer.from('Content-Length: 1\r\n\r\n1'), last]);
  assert.deepEqual([bad.messages, bad.problems.map(([, isFatal]) => isFatal)], [[{ last: true }], [false, false]]);
  const long = frame({ request_seq: 7, type: 'response', body: 'x'.repeat(17 * 1024 * 1024) });
  for (const size of [1, 100, 70_000]) {
    const head = size === 1 ? Array.from({ length: 400 }, (_, at) => long.subarray(at, at + 1)).concat(long.subarray(400)) : Array.from({ length: Math.ceil(long.length / size) }, (_, at) => long.subarray(at * size, at * size + size));
    const result = read([...head, last]);
    assert.deepEqual([result.messages, result.problems.map(([, isFatal, seq]) => [isFatal, seq])], [[{ last: true }], [[false, 7]]]);
  }
});

test('a connection answers, fails with the words of the adapter, refuses what it does not know, and its close rejects all', async () => {
  const [toUs, fromUs] = [new PassThrough(), new PassThrough()];
  const sent: Json[] = [];
  const reader = new DapReader((message) => sent.push(message), (problem) => assert.fail(problem));
  fromUs.on('data', (chunk: Buffer) => reader.push(chunk));
  let closed = '';
  const dap = new Dap(toUs, fromUs, { label: 'test', trace: () => {}, onEvent: () => {}, onResponse: () => {}, onRequest: (command) => (command === 'known' ? { fine: true } : Promise.reject(new Error(`no ${command}`))), onClose: (reason) => (closed = reason) });
  const first = dap.request('one');
  const second = dap.request('two');
  const third = dap.request('three');
  toUs.write(frame({ type: 'response', request_seq: 2, success: false, body: { error: { format: 'cannot {what}', variables: { what: 'fly' } } } }));
  toUs.write(frame({ type: 'response', request_seq: 1, success: true, body: { a: 1 } }));
  toUs.write(frame({ type: 'request', seq: 5, command: 'known' }));
  toUs.write(frame({ type: 'request', seq: 6, command: 'strange' }));
  assert.deepEqual(await first, { a: 1 });
  await assert.rejects(second, /cannot fly/);
  const late = dap.request('late', {}, 20).catch((error) => error);
  assert.equal(errorName(await late), 'E_TIMEOUT');
  assert.deepEqual(sent.filter((one) => one.type === 'response').map((one) => [one.request_seq, one.success]), [[5, true], [6, false]]);
  toUs.end();
  await assert.rejects(third, (error) => errorName(error) === 'E_DISCONNECTED' && /three/.test(String(error)));
  assert.match(closed, /closed/);
  await assert.rejects(dap.request('after'), (error) => errorName(error) === 'E_DISCONNECTED');
});

test('hit conditions, and which hit a stop was', () => {
  fc.assert(fc.property(fc.constantFrom('', '==', '>=', '>', '<', '<=', '%'), fc.integer({ min: 1, max: 20 }), (operator, number) => {
    const condition = `${operator} ${number}`;
    const hits = Array.from({ length: 60 }, (_, at) => at + 1).filter((hit) => matchesHits(condition, hit));
    hits.forEach((hit, index) => assert.equal(hitCountOf({ hitCondition: condition, hits: 0 }, index + 1, false), hit));
    assert.ok(hits.length > 0 || (operator === '<' && number === 1));
  }));
});

test('a path is names, indexes and quoted keys; anything else is an expression', () => {
  assert.deepEqual(pathWords("user.items[3]['full name'][\"a.b\"].x"), ['user', 'items', '3', 'full name', 'a.b', 'x']);
  for (const text of ['o[i]', 'a + b', 'f()', 'a..b', '', '3', 'a[', "a['it\\'s']"]) assert.deepEqual(pathWords(text), [], text);
});

// What every played adapter begins with: a server on the socket that it is given, and framing.
const PLAYED = `
const net = require('node:net');
const connections = [];
const serve = (onMessage) => net.createServer((socket) => {
  let text = '';
  let seq = 0;
  const index = connections.push(socket) - 1;
  const send = (message) => { const body = JSON.stringify({ seq: ++seq, ...message }); socket.write('Content-Length: ' + Buffer.byteLength(body) + '\\r\\n\\r\\n' + body); };
  const api = { index, socket, send, event: (event, body) => send({ type: 'event', event, body }), answer: (request, body, more) => send({ type: 'response', request_seq: request.seq, command: request.command, success: true, body, ...more }) };
  socket.on('error', () => {});
  socket.on('data', (chunk) => {
    text += chunk;
    for (;;) {
      const [head, length] = /^Content-Length: (\\d+)\\r\\n\\r\\n/.exec(text) || [];
      if (!head || text.length < head.length + Number(length)) return;
      const message = JSON.parse(text.slice(head.length, head.length + Number(length)));
      text = text.slice(head.length + Number(length));
      onMessage(message, api);
    }
  });
}).listen(process.argv[2], () => console.log('Debug server listening at ' + process.argv[2]));
`;

const ADAPTERS: Record<string, string> = {
  'dies.js': 'process.exit(3)',
  'dies-late.js': "require('node:net').createServer().listen(process.argv[2], () => process.kill(process.pid, 'SIGKILL'));", // its socket stays behind, and it never said where
  'nonsense.js': `${PLAYED} serve((message, { socket }) => socket.write('Hello, I am not a debugger\\r\\n\\r\\n'));`,
  'refuses.js': `${PLAYED} serve((message, { answer, event }) => {
    if (message.command === 'initialize') { answer(message, {}); return event('initialized'); }
    if (message.command === 'launch') return answer(message, { error: { id: 1, format: 'no {thing} today', variables: { thing: 'launch' } } }, { success: false });
    answer(message, {});
  });`,
  // One that can do nothing beyond the least, and dies of whatever it was not asked whether it can, as rdbg does.
  'bare.js': `${PLAYED}
  const OPTIONAL = ['configurationDone', 'setFunctionBreakpoints', 'setDataBreakpoints', 'dataBreakpointInfo', 'setExceptionBreakpoints', 'exceptionInfo', 'setVariable', 'setExpression', 'terminate', 'restart', 'loadedSources', 'modules', 'cancel', 'source', 'completions'];
  let stops = 0;
  serve((message, { answer, event, socket }) => {
    const { command, arguments: args } = message;
    if (OPTIONAL.includes(command)) process.exit(9);
    if (command === 'initialize') { answer(message, {}); return event('initialized'); }
    if (command === 'setBreakpoints') { if (args.breakpoints.some((one) => one.condition || one.hitCondition || one.logMessage)) process.exit(8); return answer(message, { breakpoints: args.breakpoints.map(({ line }, at) => ({ id: at + 1, verified: true, line })) }); }
    if (command === 'evaluate') return answer(message, { result: args.expression === 'yes' ? 'true' : 'is ' + args.expression, variablesReference: 0 });
    if (command === 'threads') return answer(message, { threads: [{ id: 1, name: 'main' }] });
    if (command === 'stackTrace') return answer(message, { stackFrames: [{ id: 1, name: 'main', line: 1, column: 1, source: { path: process.env.PROGRAM } }], totalFrames: 1 });
    if (command === 'scopes') return answer(message, { scopes: [{ name: 'Local', variablesReference: 1, expensive: false }] });
    if (command === 'variables') return answer(message, { variables: [{ name: 'x', value: '1', variablesReference: 0 }] });
    answer(message, {});
    if (command === 'launch' || command === 'continue') setTimeout(() => event('stopped', ++stops < 3 ? { reason: 'breakpoint', threadId: 1, allThreadsStopped: true } : { reason: 'exception', text: 'boom', threadId: 1, allThreadsStopped: true }), 50);
    if (command === 'disconnect') { event('terminated'); socket.end(); }
  });`,
  // A js-debug of the time of the seed: no answer to a child's launch, no entry stop of its own, a wrong target closes.
  'old.js': `${PLAYED}
  let lines = [];
  let start;
  serve((message, { index, socket, answer, event, send }) => {
    const { command } = message;
    if (command === 'initialize') { answer(message, { supportsConfigurationDoneRequest: true }); if (index === 0) event('initialized'); return; }
    if (command === 'launch' && index === 0) return answer(message, {});
    if (command === 'launch') { if (message.arguments.__pendingTargetId !== 'right') { setTimeout(start, 100, 'right'); return socket.destroy(); } return event('initialized'); }
    if (command === 'setBreakpoints') { if (index > 0) lines = message.arguments.breakpoints.map((one) => one.line); return answer(message, { breakpoints: message.arguments.breakpoints.map((one, at) => ({ id: at + 1, verified: index > 0, line: one.line })) }); }
    if (command === 'configurationDone') {
      answer(message, {});
      if (index === 0) { start = (id) => send({ type: 'request', command: 'startDebugging', arguments: { request: 'launch', configuration: { name: id, __pendingTargetId: id } } }); return start('wrong'); }
      if (lines.includes(1)) event('stopped', { reason: 'breakpoint', threadId: 0, hitBreakpointIds: [lines.indexOf(1) + 1], allThreadsStopped: false });
      return;
    }
    if (command === 'threads') return answer(message, { threads: [{ id: 0, name: 'main' }] });
    if (command === 'stackTrace') return answer(message, { stackFrames: [{ id: 0, name: 'main', line: 1, column: 1, source: { path: process.env.PROGRAM } }], totalFrames: 1 });
    if (command === 'continue') { answer(message, { allThreadsContinued: false }); event('continued', { threadId: 0 }); event('terminated'); return; }
    if (command === 'evaluate') return; // never
    answer(message, {});
  });`,
};

describe('with adapters that misbehave', () => {
  let world: World;
  let mcp: McpClient;
  before(async () => {
    world = new World('a');
    for (const [name, text] of Object.entries(ADAPTERS)) fs.writeFileSync(path.join(world.workspace, name), text);
    fs.writeFileSync(path.join(world.workspace, 'program.js'), 'console.log(1);\n');
    mcp = world.mcp();
    await mcp.initialize();
  });
  afterEach(async () => {
    const { active, orphaned } = body(await mcp.call('process_list'), 'ledger');
    assert.deepEqual([active, orphaned, fs.readdirSync(world.dir).filter((file) => file.startsWith('dap-'))], [[], [], []]);
  });
  after(() => world.end());
  const start = (adapter: string, more: Json = {}): Promise<Json> => mcp.call('debug_start', { program: 'program.js', adapter: path.join(world.workspace, adapter), ...more });

  test('one that dies, or refuses, is an error with its words, and nothing of it stays', async () => {
    const dead = body(await start('dies.js'), 'error');
    assert.deepEqual([dead.code, /ended at once \(exit code 3\)/.test(String(dead.message))], ['E_SPAWN', true]);
    const late = body(await start('dies-late.js'), 'error');
    assert.deepEqual([late.code, /ended at once \(SIGKILL\)/.test(String(late.message))], ['E_SPAWN', true]);
    const refused = body(await start('refuses.js'), 'error');
    assert.deepEqual([refused.code, /no launch today/.test(String(refused.message))], ['E_LAUNCH', true]);
    const nonsense = body(await start('nonsense.js'), 'error');
    assert.match(String(nonsense.message), /does not speak the debug adapter protocol/);
    const missing = body(await mcp.call('debug_start', { program: 'program.js', adapter: '/nowhere/adapter.js' }), 'error');
    assert.deepEqual([missing.code, /Looked for: \/nowhere\/adapter\.js.*To install it: /s.test(String(missing.message))], ['E_NO_ADAPTER', true]);
    assert.deepEqual((await mcp.call('debug_status')).sessions, []);
  });

  test('an old js-debug: a child whose launch is never answered stops on entry by our breakpoint; a wrong target is a child that ended', async () => {
    const program = path.join(world.workspace, 'program.js');
    fs.writeFileSync(path.join(world.workspace, 'old-here.js'), `process.env.PROGRAM = ${JSON.stringify(program)};\n${ADAPTERS['old.js']}`);
    const entry = await start('old-here.js', { session: 'old', stopOnEntry: true, timeout: 5 });
    assert.deepEqual([entry.state, body(entry, 'stopReason').type], ['STOPPED', 'VM_START'], JSON.stringify(entry));
    assert.deepEqual((entry.children as Json[]).map((one) => one.name), ['right']);
    const unanswered = body(await mcp.call('debug_evaluate', { session: 'old', expression: '1 + 1' }), 'error');
    assert.deepEqual([unanswered.code, /1 \+ 1 has not been answered in 10 s/.test(String(unanswered.message))], ['E_TIMEOUT', true]);
    assert.equal(body(await mcp.call('debug_evaluate', { session: 'old', expression: '2' }), 'error').code, 'E_BUSY');
    await mcp.call('debug_stop', { session: 'old' });
  });

  test('an adapter is asked for nothing that it does not say it can; what it cannot, we do, or refuse', async () => {
    const program = path.join(world.workspace, 'program.js');
    fs.writeFileSync(path.join(world.workspace, 'bare-here.js'), `process.env.PROGRAM = ${JSON.stringify(program)};\n${ADAPTERS['bare.js']}`);
    const second = await start('bare-here.js', { session: 'bare', exceptions: 'uncaught', breakpoints: [{ file: 'program.js', line: 1, condition: 'yes', hitCondition: '2' }], timeout: 10 });
    const { type, details } = body(second, 'stopReason');
    assert.deepEqual([second.state, type, (details as Json).hitCount], ['STOPPED', 'BREAKPOINT_HIT', 2], JSON.stringify(second));
    for (const args of [{ function: 'f' }, { variable: 'x' }]) assert.equal(body(await mcp.call('debug_breakpoint_set', args), 'error').code, 'E_UNSUPPORTED');
    assert.equal((await mcp.call('debug_exception_break_on', { filter: 'all' })).error, undefined);
    assert.equal((await mcp.call('debug_set_variable', { name: 'x', value: '2' })).value, 'is x');
    for (const [tool, args] of [['debug_stack', {}], ['debug_variables', {}], ['debug_evaluate', { expression: 'x' }]] as Array<[string, Json]>) assert.equal((await mcp.call(tool, args)).error, undefined, tool);
    const thrown = body(await mcp.call('debug_continue', { wait: true, timeout: 10 }), 'stopReason');
    assert.deepEqual([thrown.type, (thrown.details as Json).message], ['EXCEPTION', 'boom']);
    await mcp.call('debug_breakpoint_remove', { id: 'bp-1' });
    assert.equal((await mcp.call('debug_stop')).state, 'TERMINATED');
  });

  test('arguments that make no sense are refused before anything starts', async () => {
    const cases: Array<[string, Json, RegExp]> = [
      ['debug_start', { program: 'nowhere.js' }, /there is no program/],
      ['debug_start', { program: 'program.js', language: 'cobol' }, /no adapter is known for "cobol"/],
      ['debug_start', { program: 'program.js', breakpoints: [{ file: 'program.js', line: 99 }] }, /has 2 lines/],
      ['debug_start', { program: 'program.js', breakpoints: [{ file: 'gone.js', line: 1 }] }, /there is no file/],
      ['debug_start', { program: 'program.js', breakpoints: [{ file: 'program.js', line: 1, hitCondition: 'often' }] }, /hitCondition/],
      ['debug_start', { program: 'program.js', exceptions: 'some' }, /must be one of/],
      ['debug_start', { program: 'program.js', session: 'a/b' }, /without \//],
      ['debug_attach', { language: 'nodejs' }, /give one of port and pid/],
      ['debug_attach', { language: 'ruby', pid: 1 }, /rdbg cannot attach to a process id/],
      ['debug_attach', { language: 'cobol', pid: 1 }, /no adapter is known/],
      ['debug_attach', { language: 'nodejs', target: 'extension' }, /no VS Code window/],
      ['debug_continue', {}, /no debug session is alive.*debug_start/],
      ['debug_evaluate', { expression: '1', session: 'nobody' }, /there is no debug session "nobody"/],
    ];
    for (const [tool, args, message] of cases) assert.match(String(body(await mcp.call(tool, args), 'error').message), message, `${tool} ${JSON.stringify(args)}`);
  });
});
