// Our debug adapter for Node: its own parts, and what it does for any DAP client, with nothing but Node. The scenarios of
// the debugger run over it in debug.slow.test.ts, and Microsoft's test client drives it in node-adapter.slow.test.ts.

import assert from 'node:assert/strict';
import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import fs from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import { after, afterEach, before, describe, test } from 'node:test';
import fc from 'fast-check';
import { DapReader } from '../dap.ts';
import { FrameReader, Noise, SourceMap, blackboxOf, decodeMappings, logParts, show, sourceFile } from '../node-adapter.ts';
import { World, root, waitFor, type Json } from './lib.ts';

type Segment = [line: number, column: number, source: number, sourceLine: number, sourceColumn: number];

const DIGITS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';

/** Base64 VLQ, as the format says it. */
function encode(value: number): string {
  let rest = value < 0 ? -value * 2 + 1 : value * 2;
  let text = '';
  do {
    const digit = rest % 32;
    rest = Math.floor(rest / 32);
    text += DIGITS[rest > 0 ? digit + 32 : digit];
  } while (rest > 0);
  return text;
}

/** Mappings of segments that are sorted by generated place. */
function encodeMappings(segments: Segment[]): string {
  let text = '';
  let [line, column, source, sourceLine, sourceColumn] = [0, 0, 0, 0, 0];
  let isFirst = true;
  for (const segment of segments) {
    if (segment[0] > line) [text, line, column, isFirst] = [text + ';'.repeat(segment[0] - line), segment[0], 0, true];
    text += (isFirst ? '' : ',') + encode(segment[1] - column) + (segment[2] < 0 ? '' : encode(segment[2] - source) + encode(segment[3] - sourceLine) + encode(segment[4] - sourceColumn));
    column = segment[1];
    if (segment[2] >= 0) [source, sourceLine, sourceColumn] = [segment[2], segment[3], segment[4]];
    isFirst = false;
  }
  return text;
}

const map = (json: unknown): SourceMap => new SourceMap(json, (source, base) => sourceFile(source, base, '/app/out', '/app'));

test('mappings that are written as the format says are read as they were', () => {
  const segment = fc.tuple(fc.nat(20), fc.nat(300), fc.constantFrom(-1, 0, 1, 2), fc.nat(2 ** 31 - 1), fc.nat(300));
  fc.assert(fc.property(fc.uniqueArray(segment, { maxLength: 60, selector: ([line, column]) => `${line} ${column}` }), (segments) => {
    const sorted = segments.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
    const seen: Segment[] = [];
    for (const _ of decodeMappings(encodeMappings(sorted), (...one) => seen.push(one))); // it yields now and then, for others
    assert.deepEqual(seen.map((one) => (one[2] < 0 ? one.slice(0, 3) : one)), sorted.map((one) => (one[2] < 0 ? one.slice(0, 3) : one)));
  }));
});

test('mappings that are none are refused with the place', () => {
  for (const [text, words] of [['AA!A', /"!" in the mappings at 2/], ['AAAg', /break off in a number at 4/], ['gggggggggA', /more than 32 bits/], ['AA', /a segment of 2 fields/], ['é', /"é"/]] as const) {
    assert.throws(() => [...decodeMappings(text, () => {})], words, text);
  }
  for (const json of [null, [], 'text', {}, { mappings: 'A' }, { sections: [{ map: {} }] }]) assert.throws(() => map(json), /source map|mappings/);
});

test('a place is looked up in both directions, a line without code is the next one that has some', async () => {
  const one = map({ version: 3, sourceRoot: '../src', sources: ['a.ts', 'b.ts'], sourcesContent: ['let a', null], mappings: encodeMappings([[0, 0, 0, 0, 0], [0, 10, 0, 2, 4], [1, 4, 1, 7, 2], [1, 9, -1, 0, 0], [3, 0, 0, 2, 4]]) });
  await one.ready();
  assert.deepEqual([one.sources, one.contents], [['/app/src/a.ts', '/app/src/b.ts'], ['let a', undefined]]);
  assert.deepEqual([one.original(0, 3), one.original(0, 12), one.original(1, 5), one.original(1, 20), one.original(1, 0), one.original(2, 0), one.original(9, 0)], [{ source: 0, line: 0, column: 0 }, { source: 0, line: 2, column: 4 }, { source: 1, line: 7, column: 2 }, undefined, undefined, undefined, undefined]);
  assert.deepEqual(one.generated(0, 1), [{ line: 0, column: 10 }, { line: 3, column: 0 }]); // its code is in two places
  assert.deepEqual([one.generated(1, 0), one.generated(1, 8), one.generated(0, 0, 1)], [[{ line: 1, column: 4 }], [], [{ line: 0, column: 0 }]]);
});

test('sections are put together with their offsets, and columns in any order are sorted', async () => {
  const part = (source: string, segments: Segment[]): Json => ({ version: 3, sources: [source], mappings: encodeMappings(segments) });
  const one = map({ version: 3, sections: [{ offset: { line: 0, column: 5 }, map: part('a.ts', [[0, 0, 0, 0, 0], [1, 2, 0, 1, 0]]) }, { offset: { line: 10, column: 3 }, map: part('b.ts', [[0, 1, 0, 4, 0], [2, 0, 0, 6, 0]]) }] });
  await one.ready();
  assert.deepEqual([one.original(0, 5), one.original(0, 4), one.original(1, 2), one.original(10, 4), one.original(12, 0)], [{ source: 0, line: 0, column: 0 }, undefined, { source: 0, line: 1, column: 0 }, { source: 1, line: 4, column: 0 }, { source: 1, line: 6, column: 0 }]);
  assert.deepEqual(one.generated(1, 5), [{ line: 12, column: 0 }]);
  const unsorted = map({ version: 3, sources: ['a.ts'], mappings: `${encode(8)}AAA,${encode(-6)}ACA` });
  await unsorted.ready();
  assert.deepEqual([unsorted.original(0, 3)?.line, unsorted.original(0, 9)?.line], [1, 0]);
});

test('five megabytes of mappings hold up nobody for 200 ms', async () => {
  const segments: Segment[] = [];
  for (let line = 0; line < 80_000; line++) for (let at = 0; at < 14; at++) segments.push([line, at * 9, 0, line, at * 7]);
  const mappings = encodeMappings(segments);
  assert.ok(mappings.length > 5 * 1024 * 1024, `${mappings.length}`);
  const one = map({ version: 3, sources: ['a.ts'], mappings });
  const busy = (): number => process.cpuUsage().user / 1000; // on a machine that does other things as well time passes all the same
  let [longest, last] = [0, busy()];
  const timer = setInterval(() => ([longest, last] = [Math.max(longest, busy() - last), busy()]), 1);
  await one.ready();
  const before = busy();
  assert.deepEqual([one.original(40_000, 20)?.line, one.generated(0, 79_999)[0]], [40_000, { line: 79_999, column: 0 }]);
  longest = Math.max(longest, busy() - before);
  clearInterval(timer);
  assert.ok(longest < 200, `${longest} ms`);
});

test('what a map calls its source is a file beside it, below the root, or below the program for a bundler', () => {
  for (const [source, base, file] of [['../src/a.ts', '', '/app/src/a.ts'], ['a.ts', '/lib', '/lib/a.ts'], ['a.ts', '/lib/', '/lib/a.ts'], ['/abs/a.ts', '/lib', '/abs/a.ts'], ['file:///x/a%20b.ts', '', '/x/a b.ts'], ['webpack://shop/./src/a.ts', '', '/app/src/a.ts'], ['webpack:///src/a.ts?6b1c', '', '/app/src/a.ts'], ['https://host/a.ts', '', 'https://host/a.ts'], ['a%20b.ts', '', '/app/out/a b.ts']] as const) {
    assert.equal(sourceFile(source, base, '/app/out', '/app'), file, source);
  }
});

test('frames of the inspector are read wherever the bytes are cut; any other frame ends the connection', () => {
  const frame = (text: string, first = 0x81): Buffer => {
    const body = Buffer.from(text);
    const head = body.length < 126 ? Buffer.from([first, body.length]) : body.length < 65536 ? Buffer.from([first, 126, body.length >> 8, body.length & 255]) : Buffer.from([first, 127, 0, 0, 0, 0, body.length >>> 24, (body.length >>> 16) & 255, (body.length >>> 8) & 255, body.length & 255]);
    return Buffer.concat([head, body]);
  };
  fc.assert(fc.property(fc.array(fc.constantFrom('', '{}', 'ä'.repeat(70), 'x'.repeat(300), 'y'.repeat(70_000)), { maxLength: 6 }), fc.array(fc.integer({ min: 1, max: 400 }), { maxLength: 30 }), (texts, cuts) => {
    const bytes = Buffer.concat(texts.map((text) => frame(text)));
    const seen: string[] = [];
    const reader = new FrameReader((text) => seen.push(text), (reason) => assert.fail(reason));
    let from = 0;
    for (const cut of [...cuts, bytes.length]) {
      reader.push(bytes.subarray(from, from + cut));
      from += cut;
    }
    assert.deepEqual(seen, texts);
  }));
  for (const [bytes, reason] of [[frame('bye', 0x88), /has ended/], [Buffer.from([0x01, 0x00]), /begins with 1/], [Buffer.from('HTTP/1.1 400'), /begins with 72/], [Buffer.from([0x81, 127, 0, 0, 1, 0, 0, 0, 0, 0]), /over/]] as const) {
    let said = '';
    new FrameReader(() => assert.fail('a text'), (why) => (said = why)).push(bytes);
    assert.match(said, reason);
  }
});

test("node's own lines leave stderr, as many as there are connections; the program's stay, in whatever pieces", () => {
  const text = 'Debugger listening on ws://127.0.0.1:4711/a-b\nFor help, see: https://nodejs.org/x\nDebugger attached.\nmine\nDebugger attached.\nFor help, see: https://mine\nno newline, Waiting for the debugger to disconnect...\nWaiting for the debugger to disconnect...\nDebugger ending on ws://127.0.0.1:4711/a-b\nFor help, see: https://nodejs.org/x\n';
  for (const size of [1, 3, 7, 1000]) {
    const noise = new Noise();
    noise.allow('ws://127.0.0.1:4711/a-b');
    let out = '';
    for (let at = 0; at < text.length; at += size) out += noise.push(text.slice(at, at + size));
    out += noise.rest();
    assert.deepEqual([noise.url, out], ['ws://127.0.0.1:4711/a-b', 'mine\nDebugger attached.\nFor help, see: https://mine\nno newline, Waiting for the debugger to disconnect...\n'], `pieces of ${size}`);
  }
});

test('a log message is texts and expressions, with braces in them', () => {
  assert.deepEqual(logParts('a {b} {({c: 1}).c}!'), [{ text: 'a ' }, { expression: 'b' }, { text: ' ' }, { expression: '({c: 1}).c' }, { text: '!' }]);
  assert.deepEqual([logParts(''), logParts('100% {}'), logParts('{open'), logParts('{a}')], [[{ text: '' }], [{ text: '100% {}' }], [{ text: '{open' }], [{ expression: 'a' }]]);
});

test('what is stepped over is an expression on URLs', () => {
  const skips = (patterns: string[], url: string): boolean => blackboxOf(patterns).some((one) => new RegExp(one).test(url));
  assert.deepEqual(['node:fs', 'node:internal/x', 'file:///a/node_modules/b/c.js', 'file:///a/b.js'].map((url) => skips(['<node_internals>/**', '**/node_modules/**'], url)), [true, true, true, false]);
  assert.deepEqual(['file:///a/node_modules/b/c.js', 'file:///a/node_modules/mine/c.js'].map((url) => skips(['**/node_modules/**', '!**/node_modules/mine/**'], url)), [true, false]);
  assert.deepEqual(['file:///a/b c.js'.replace(' ', '%20'), 'file:///a/sub/b%20c.js'].map((url) => skips(['/a/b c.js'], url)), [true, false]);
});

test('values are shown as a person writes them', () => {
  assert.deepEqual([show({ type: 'string', value: "it's\n\"x\"" }), show({ type: 'undefined' }), show({ type: 'object', subtype: 'null', value: null }), show({ type: 'number', value: -0, unserializableValue: '-0', description: '-0' }), show({ type: 'bigint', unserializableValue: '3n', description: '3n' }), show({ type: 'boolean', value: false })], ["'it\\'s\\n\"x\"'", 'undefined', 'null', '-0', '3n', 'false']);
  assert.equal(show({ type: 'function', description: 'async function add(a, b) {\n}' }), 'ƒ add(a, b)');
  assert.equal(show({ type: 'function', description: 'class A extends B { }' }), 'class A extends B');
});

// ---- the adapter itself

/** A DAP client of a few lines, on the pipes of an adapter or a connection of its own. */
class Client {
  readonly events: Json[] = [];
  readonly requests: Json[] = [];
  readonly answers: Json[] = [];
  private seq = 0;
  private readonly output: NodeJS.WritableStream;
  constructor(input: NodeJS.ReadableStream, output: NodeJS.WritableStream) {
    this.output = output;
    const reader = new DapReader((message) => (message.type === 'event' ? this.events : message.type === 'request' ? this.requests : this.answers).push(message), (problem) => assert.fail(problem));
    input.on('data', (chunk: Buffer) => reader.push(chunk));
    output.on('error', () => {}); // it has ended: what is waited for does not come then
  }
  send(message: Json): void {
    const text = JSON.stringify(message);
    this.output.write(`Content-Length: ${Buffer.byteLength(text)}\r\n\r\n${text}`);
  }
  async ask(command: string, args: Json = {}): Promise<Json> {
    const seq = ++this.seq;
    this.send({ seq, type: 'request', command, arguments: args });
    await waitFor(() => this.answers.some((one) => one.request_seq === seq), `the answer to ${command}`);
    return this.answers.find((one) => one.request_seq === seq) ?? {};
  }
  async ok(command: string, args: Json = {}): Promise<Json> {
    const answer = await this.ask(command, args);
    assert.equal(answer.success, true, `${command}: ${JSON.stringify(answer)}`);
    return (answer.body ?? {}) as Json; // an object, by the protocol
  }
  async refused(command: string, args: Json = {}): Promise<string> {
    const answer = await this.ask(command, args);
    assert.equal(answer.success, false, `${command}: ${JSON.stringify(answer)}`);
    return String(answer.message);
  }
  async event(name: string, from = 0): Promise<Json> {
    const find = (): Json | undefined => this.events.slice(from).find((one) => one.event === name);
    await waitFor(() => find() !== undefined, `the event ${name}`).catch((error) => assert.fail(`${String(error)}: ${JSON.stringify(this.events.slice(-5))}`));
    return (find()?.body ?? {}) as Json; // as above
  }
  /** Does something, and waits for the stop behind it. */
  async stopAfter(work: () => Promise<unknown>): Promise<Json> {
    const from = this.events.length;
    await work();
    return this.event('stopped', from);
  }
  output_(category: string): string {
    return this.events.filter((one) => one.event === 'output' && (one.body as Json).category === category).map((one) => String((one.body as Json).output)).join('');
  }
}

describe('the adapter on its own', () => {
  let world: World;
  const started: ChildProcess[] = [];
  const running: ChildProcess[] = []; // programs that are no adapter's
  before(() => {
    world = new World('n');
    for (const [name, text] of Object.entries(PROGRAMS)) fs.writeFileSync(file(name), text);
  });
  afterEach(async () => {
    for (const child of started.splice(0)) child.stdin?.end();
    for (const child of running.splice(0)) child.kill('SIGKILL');
    await waitFor(() => world.processes().length === 0, 'every process to end').catch((error) => assert.fail(`${String(error)}: ${world.processes().map(({ pid }) => fs.readFileSync(`/proc/${pid}/cmdline`, 'latin1').replaceAll('\0', ' ')).join('; ')}`));
    assert.deepEqual(fs.readdirSync(world.dir).concat(fs.readdirSync(tmp())), []); // sockets and directories too
  });
  after(() => world.end());

  const file = (name: string): string => path.join(world.workspace, name);
  const tmp = (): string => {
    const dir = path.join(world.home, 'tmp');
    fs.mkdirSync(dir, { recursive: true });
    return dir;
  };
  const adapter = (...args: string[]): ChildProcess => {
    const child = spawn(process.execPath, [path.join(root, 'dist', 'mcp.js'), 'node-adapter', ...args], { cwd: world.workspace, env: world.env({ TMPDIR: tmp(), NODE_OPTIONS: '' }), stdio: ['pipe', 'pipe', 'inherit'] });
    started.push(child);
    return child;
  };
  const stdio = async (): Promise<Client> => {
    const { stdin, stdout } = adapter();
    assert.ok(stdin && stdout);
    const client = new Client(stdout, stdin);
    await client.ok('initialize', { adapterID: 'node', supportsVariablePaging: true });
    return client;
  };
  const begin = async (client: Client, program: string, breakpoints: Json[] = [], more: Json = {}): Promise<void> => {
    const launched = client.ok('launch', { program: file(program), ...more });
    await client.event('initialized');
    if (breakpoints.length) await client.ok('setBreakpoints', { source: { path: file(program) }, breakpoints });
    await client.ok('configurationDone');
    await launched;
  };
  const thread = (stop: Json): Json => ({ threadId: stop.threadId });
  const frames = async (client: Client, stop: Json): Promise<Json[]> => (await client.ok('stackTrace', thread(stop))).stackFrames as Json[];
  const top = async (client: Client, stop: Json): Promise<Json> => (await frames(client, stop))[0] ?? {};

  test('a client that knows nothing of children sees a worker and a fork as threads, each with its breakpoint', async () => {
    const client = await stdio();
    await client.ok('setBreakpoints', { source: { path: file('worker.js') }, breakpoints: [{ line: 1 }] });
    await client.ok('setBreakpoints', { source: { path: file('fork.js') }, breakpoints: [{ line: 1 }] });
    await begin(client, 'family.js');
    await waitFor(() => client.events.filter((one) => one.event === 'stopped').length === 2, 'two stops');
    const stops = client.events.filter((one) => one.event === 'stopped').map((one) => one.body as Json);
    const names = await Promise.all(stops.map(async (stop) => ((await top(client, stop)).source as Json).name));
    assert.deepEqual(names.sort(), ['fork.js', 'worker.js']);
    assert.equal(((await client.ok('threads')).threads as Json[]).length, 3);
    for (const stop of stops) await client.ok('continue', thread(stop));
    assert.deepEqual(await client.event('exited'), { exitCode: 4 });
    await client.event('terminated');
    assert.match(client.output_('stdout'), /worker\n/);
    assert.match(client.output_('stdout'), /fork\n/);
    assert.equal(client.output_('stderr'), 'to stderr\n');
  });

  test('conditions, hit counts, log messages and what is wrong with them', async () => {
    const client = await stdio();
    await begin(client, 'loop.js', [{ line: 2, hitCondition: '% 3' }, { line: 3, condition: 'i === 7' }, { line: 4, logMessage: 'i is {i}, {({ a: [i] })}' }, { line: 4, condition: 'x' }, { line: 5, hitCondition: 'often' }]);
    const [, , , second, often] = (client.answers.find((one) => one.command === 'setBreakpoints')?.body as Json).breakpoints as Json[];
    assert.match(String(second?.message), /another breakpoint/);
    assert.match(String(often?.message), /"often" is no number/);
    const seen = [];
    for (let stop = await client.event('stopped'), from = client.events.length; seen.length < 4; from = client.events.length) {
      const frame = await top(client, stop);
      seen.push([frame.line, (await client.ok('evaluate', { expression: 'i', frameId: frame.id })).result]);
      await client.ok('continue', thread(stop));
      if (seen.length < 4) stop = await client.event('stopped', from);
    }
    assert.deepEqual(seen, [[2, '2'], [2, '5'], [3, '7'], [2, '8']]);
    await client.event('terminated');
    assert.equal(client.output_('console').split('\n').slice(0, 2).join('|'), 'i is 0, {a: [0]}|i is 1, {a: [1]}');
    assert.equal(client.output_('stdout'), 'sum 45\n');
  });

  test('a step over a log point, and one past an exception that is passed over, is still a step', async () => {
    const client = await stdio();
    await begin(client, 'loop.js', [{ line: 10 }, { line: 2, logMessage: 'in the loop' }]);
    const stop = await client.event('stopped');
    const next = await client.stopAfter(() => client.ok('next', thread(stop)));
    assert.deepEqual([next.reason, (await top(client, next)).line], ['step', 11]);
    assert.equal(client.output_('console').match(/in the loop/g)?.length, 10);
  });

  test('exceptions: all, caught and uncaught, with conditions, and what they are', async () => {
    const client = await stdio();
    await client.ok('setExceptionBreakpoints', { filters: ['uncaught'], filterOptions: [{ filterId: 'caught', condition: "error.message === 'second'" }] });
    await begin(client, 'throws.js');
    const caught = await client.event('stopped');
    const info = await client.ok('exceptionInfo', thread(caught));
    assert.deepEqual([caught.reason, caught.text, info.exceptionId, info.description, info.breakMode], ['exception', 'Broken: second', 'Broken', 'second', 'always']);
    const uncaught = await client.stopAfter(() => client.ok('continue', thread(caught)));
    const last = await client.ok('exceptionInfo', thread(uncaught));
    assert.deepEqual([last.exceptionId, last.description, last.breakMode], ['TypeError', 'third', 'unhandled']);
    assert.match(String((last.details as Json).stackTrace), /throws\.js/);
    await client.ok('continue', thread(uncaught));
    assert.deepEqual(await client.event('exited'), { exitCode: 1 });
    assert.match(client.output_('stderr'), /TypeError: third/);
    assert.match(await (await stdio()).refused('setExceptionBreakpoints', { filters: ['some'] }), /"all", "caught" and "uncaught"/);
  });

  test('values: paged, with getters that are called when asked for, Map, Set, Buffer, a class, and set', async () => {
    const client = await stdio();
    await begin(client, 'values.js', [{ line: 5 }]);
    const stop = await client.event('stopped');
    const { scopes } = await client.ok('scopes', { frameId: (await top(client, stop)).id });
    const [scope] = scopes as Json[];
    const all = (await client.ok('variables', { variablesReference: scope?.variablesReference })).variables as Json[];
    const of = (name: string): Json => all.find((one) => one.name === name) ?? assert.fail(`no ${name} in ${JSON.stringify(all)}`);
    assert.deepEqual(['map', 'set', 'bytes', 'user', 'text'].map((name) => of(name).value), ["Map(2) {'a' => 1, {k: 1} => 2}", "Set(2) {1, 'x'}", "Buffer(5) <68 65 6c 6c 6f> 'hello'", "User {#secret: 5, name: 'ada'}", "'it\\'s'"]);
    assert.deepEqual([of('list').indexedVariables, of('list').type], [10_000, 'Array']);
    const page = (await client.ok('variables', { variablesReference: of('list').variablesReference, filter: 'indexed', start: 9998, count: 100 })).variables as Json[];
    assert.deepEqual(page.map((one) => [one.name, one.value]), [['9998', '9998'], ['9999', '9999']]);
    const user = (await client.ok('variables', { variablesReference: of('user').variablesReference })).variables as Json[];
    assert.deepEqual(user.map((one) => [one.name, one.value]).slice(0, 3), [['name', "'ada'"], ['full', '(...)'], ['#secret', '5']]);
    const [called] = (await client.ok('variables', { variablesReference: user[1]?.variablesReference })).variables as Json[];
    assert.equal(called?.value, "'ada!'");
    assert.equal((await client.ok('setVariable', { variablesReference: scope?.variablesReference, name: 'text', value: '[1, 2]' })).value, '(2) [1, 2]');
    assert.equal((await client.ok('setVariable', { variablesReference: of('user').variablesReference, name: 'name', value: "'eve'" })).value, "'eve'");
    const frame = (await top(client, stop)).id;
    assert.equal((await client.ok('evaluate', { expression: 'text.length + user.full', frameId: frame, context: 'watch' })).result, "'2eve!'");
    assert.match(await client.refused('evaluate', { expression: "user.name = 'x'", frameId: frame, context: 'hover' }), /side-effect/);
    assert.match(await client.refused('evaluate', { expression: 'nosuch', frameId: frame }), /nosuch is not defined/);
    assert.match(await client.refused('setVariable', { variablesReference: scope?.variablesReference, name: 'map', value: 'a b' }), /SyntaxError/);
    await client.ok('continue', thread(stop));
    await client.event('terminated');
    assert.equal(client.output_('stdout'), '2 eve!\n');
    assert.match(await client.refused('variables', { variablesReference: scope?.variablesReference }), /earlier stop/);
  });

  test('stepping, a pause, a restarted frame, parents of an asynchronous function, and a page of the stack', async () => {
    const client = await stdio();
    await begin(client, 'async.js', [{ line: 3 }]);
    const stop = await client.event('stopped');
    const all = await frames(client, stop);
    const labels = all.filter((one) => one.presentationHint === 'label').map((one) => one.name);
    assert.deepEqual([all[0]?.name, labels[0], all.some((one) => one.name === 'outer')], ['inner', 'await', true]);
    const page = await client.ok('stackTrace', { ...thread(stop), startFrame: 1, levels: 1 });
    assert.deepEqual([(page.stackFrames as Json[]).length, (page.stackFrames as Json[])[0]?.name, page.totalFrames], [1, all[1]?.name, all.length]);
    const into = await client.stopAfter(() => client.ok('stepIn', thread(stop)));
    assert.equal((await top(client, into)).name, 'deep');
    const over = await client.stopAfter(() => client.ok('next', thread(into)));
    const again = await client.stopAfter(async () => client.ok('restartFrame', { frameId: (await top(client, over)).id }));
    assert.deepEqual([again.reason, (await top(client, again)).line], ['step', 8]);
    const out = await client.stopAfter(() => client.ok('stepOut', thread(again)));
    assert.equal((await top(client, out)).name, 'inner');
    await client.ok('setBreakpoints', { source: { path: file('async.js') }, breakpoints: [] });
    await client.ok('continue', thread(out));
    const paused = await client.stopAfter(() => client.ok('pause', thread(out)));
    assert.equal(paused.reason, 'pause');
    assert.match(JSON.stringify(await client.ok('loadedSources')), /async\.js/);
    const [inside] = (await frames(client, paused)).filter((one) => Number((one.source as Json | undefined)?.sourceReference) > 0);
    assert.match(String((await client.ok('source', { sourceReference: (inside?.source as Json).sourceReference })).content), /'use strict'/);
    await client.ok('terminate');
    assert.deepEqual(await client.event('exited'), { exitCode: -15 });
  });

  test('a program is started again with its breakpoints, and stops on entry when asked to', async () => {
    const client = await stdio();
    await begin(client, 'loop.js', [{ line: 3 }], { stopOnEntry: true });
    const entry = await client.event('stopped');
    assert.deepEqual([entry.reason, (await top(client, entry)).line], ['entry', 6]);
    const hit = await client.stopAfter(() => client.ok('continue', thread(entry)));
    assert.equal(hit.reason, 'breakpoint');
    const entered = await client.stopAfter(() => client.ok('restart'));
    assert.equal(entered.reason, 'entry');
    assert.equal((await client.stopAfter(() => client.ok('continue', thread(entered)))).reason, 'breakpoint');
    assert.equal(client.events.some((one) => one.event === 'terminated'), false);
  });

  test('a program that runs is attached to by its pid, stopped at a column, and goes on when it is left', async () => {
    const child = spawn(process.execPath, ['--inspect-port=0', file('ready.js')], { env: world.env({ NODE_OPTIONS: '' }), stdio: ['pipe', 'pipe', 'ignore'] });
    let text = '';
    running.push(child);
    child.stdout.setEncoding('utf8').on('data', (piece: string) => (text += piece));
    await waitFor(() => text.includes('ready'), 'the program');
    const client = await stdio();
    await client.ok('attach', { processId: child.pid });
    const { breakpoints } = await client.ok('setBreakpoints', { source: { path: file('ready.js') }, breakpoints: [{ line: 3, column: 26 }] });
    assert.deepEqual((breakpoints as Json[]).map((one) => [one.verified, one.line, one.column]), [[true, 3, 26]]);
    const stop = await client.stopAfter(() => client.ok('configurationDone'));
    const frame = await top(client, stop);
    assert.deepEqual([stop.reason, frame.line, frame.column], ['breakpoint', 3, 26]);
    assert.equal((await client.ok('evaluate', { expression: 'process.pid', frameId: frame.id })).result, String(child.pid));
    await client.ok('disconnect');
    text = '';
    await waitFor(() => text.includes('tick'), 'it to go on');
    assert.deepEqual([child.exitCode, child.signalCode], [null, null]);
  });

  test('bad input is refused with words, and the next request works', async () => {
    const client = await stdio();
    assert.match(await client.refused('launch', {}), /launch needs `program`/);
    assert.match(await client.refused('launch', { program: '/nowhere/x.js' }), /no program \/nowhere\/x\.js/);
    assert.match(await client.refused('launch', { program: file('loop.js'), cwd: '/nowhere' }), /no directory \/nowhere/);
    assert.match(await client.refused('launch', { program: file('loop.js'), runtimeExecutable: '/nowhere/node' }), /could not be started/);
    assert.match(await client.refused('launch', { __pendingTargetId: 'wrong' }), /no target "wrong"/);
    assert.match(await client.refused('attach', { port: 1 }), /node --inspect/);
    assert.match(await client.refused('attach', { processId: 2 ** 30 }), /has just ended/);
    assert.match(await client.refused('dance'), /does not know the request dance/);
    assert.match(await client.refused('stackTrace', { threadId: 1 }), /has ended/);
    assert.match(await client.refused('setBreakpoints', { source: { path: 'relative.js' }, breakpoints: [] }), /absolute path/);
    assert.match(await client.refused('scopes', { frameId: 99 }), /nothing of the number 99/);
    await begin(client, 'forever.js');
    assert.match(await client.refused('continue', { threadId: 77 }), /no thread 77|is running/);
    assert.match(await client.refused('next', {}), /is running/);
    assert.match(await client.refused('restartFrame', { frameId: 5 }), /nothing of the number|earlier stop/);
    assert.match(await client.refused('launch', { program: file('loop.js') }), /has its program already/);
    const paused = await client.stopAfter(() => client.ok('pause', {}));
    assert.equal((await client.ok('evaluate', { expression: '1 + 1', frameId: (await top(client, paused)).id })).result, '2');
    assert.match(await client.refused('variables', { variablesReference: (await top(client, paused)).id }), /is a frame/);
  });

  test('a program that does not compile, one that is killed, and one whose adapter is killed, leave nothing', async () => {
    const broken = await stdio();
    await begin(broken, 'broken.js');
    assert.deepEqual(await broken.event('exited'), { exitCode: 1 });
    assert.match(broken.output_('stderr'), /SyntaxError/);
    const client = await stdio();
    await begin(client, 'forever.js', [{ line: 2 }]);
    await client.event('stopped');
    const { systemProcessId } = await client.event('process');
    process.kill(Number(systemProcessId), 'SIGKILL');
    assert.deepEqual(await client.event('exited'), { exitCode: -9 });
    const orphan = await stdio();
    await begin(orphan, 'forever.js');
    await orphan.event('process');
    const parent = started.at(-1)?.pid; // the adapter before has a guard as well
    await waitFor(() => world.processes().some(({ pid }) => fs.readFileSync(`/proc/${pid}/cmdline`, 'latin1').includes('while read -r pids') && fs.readFileSync(`/proc/${pid}/stat`, 'latin1').split(') ')[1]?.split(' ')[1] === String(parent)), 'the guard');
    started.at(-1)?.kill('SIGKILL'); // what it started ends too: the check after each test
    await waitFor(() => world.processes().length === 0 || started.every((one) => one.signalCode || one.exitCode !== null || one.stdin?.writable), 'its end');
    for (const dir of fs.readdirSync(tmp())) fs.rmSync(path.join(tmp(), dir), { recursive: true }); // nobody was left to tidy up
  });

  test('on a port: a tree of connections for clients that take startDebugging, and an end with the first of them', async () => {
    const child = adapter('--port', '0');
    let text = '';
    child.stdout?.setEncoding('utf8').on('data', (piece: string) => (text += piece));
    await waitFor(() => /listening at 127\.0\.0\.1:\d+\n/.test(text), 'the port');
    const port = Number(/:(\d+)\n/.exec(text)?.[1]);
    const open = async (): Promise<{ client: Client; socket: net.Socket }> => {
      const socket = net.connect(port, '127.0.0.1');
      const client = new Client(socket, socket);
      await client.ok('initialize', { adapterID: 'node', supportsStartDebuggingRequest: true });
      return { client, socket };
    };
    const rootOf = await open();
    await begin(rootOf.client, 'loop.js');
    await waitFor(() => rootOf.client.requests.length > 0, 'startDebugging');
    const [asked] = rootOf.client.requests;
    const { configuration, request } = asked?.arguments as Json;
    rootOf.client.send({ seq: 100, type: 'response', request_seq: asked?.seq, command: 'startDebugging', success: true });
    const main = await open();
    const launched = main.client.ok(String(request), configuration as Json);
    await main.client.event('initialized');
    await main.client.ok('setBreakpoints', { source: { path: file('loop.js') }, breakpoints: [{ line: 3 }] });
    await main.client.ok('configurationDone');
    await launched;
    const stop = await main.client.event('stopped');
    assert.equal((await top(main.client, stop)).line, 3);
    assert.match(await rootOf.client.refused('continue', {}), /only coordinates/);
    rootOf.socket.destroy();
    await main.client.event('terminated');
    child.kill('SIGTERM');
  });

  test('its command line says what is wrong', () => {
    for (const [args, words] of [[['--what'], /unknown option --what/], [['--port', 'x'], /needs a number/]] as const) {
      const { status, stderr } = spawnSync(process.execPath, [path.join(root, 'dist', 'mcp.js'), 'node-adapter', ...args], { encoding: 'utf8' });
      assert.deepEqual([status, words.test(stderr)], [2, true]);
    }
    assert.match(spawnSync(process.execPath, [path.join(root, 'dist', 'mcp.js'), 'node-adapter', '--help'], { encoding: 'utf8' }).stdout, /--socket PATH/);
  });
});

const PROGRAMS: Record<string, string> = {
  'family.js': "const { Worker } = require('node:worker_threads');\nconst { fork } = require('node:child_process');\nnew Worker(__dirname + '/worker.js');\nfork(__dirname + '/fork.js');\nconsole.error('to stderr');\nprocess.exitCode = 4;\n",
  'worker.js': "console.log('worker');\n",
  'fork.js': "console.log('fork');\n",
  'loop.js': "function add(sum, i) {\n  const next = sum + i;\n  if (next < 0) throw new Error('no');\n  return next;\n}\nlet total = 0;\nfunction all() {\n  for (let i = 0; i < 10; i++) total = add(total, i);\n}\nall();\nconsole.log('sum ' + total);\n",
  'throws.js': "class Broken extends Error { get name() { return 'Broken'; } }\ntry { throw new Broken('first'); } catch {}\ntry { throw new Broken('second'); } catch {}\nthrow new TypeError('third');\n",
  'values.js': "class User { #secret = 5; constructor(name) { this.name = name; } get full() { return this.name + '!'; } }\n(() => {\n  let text = \"it's\", list = Array.from({ length: 10000 }, (_, i) => i);\n  const map = new Map([['a', 1], [{ k: 1 }, 2]]), set = new Set([1, 'x']), bytes = Buffer.from('hello'), user = new User('ada');\n  console.log(text.length, user.full, list && map && set && bytes ? '' : 'x');\n})();\n".replace("list && map && set && bytes ? '' : 'x'", '').replace('user.full, )', 'user.full)'),
  'async.js': "async function inner() {\n  await null;\n  return deep(1);\n}\nasync function outer() {\n  return (await inner()) + 1;\n}\nfunction deep(n) { const m = n + 1;\n  return m;\n}\nouter().then(() => setInterval(() => {}, 5));\n",
  'forever.js': "let n = 0;\nsetInterval(() => { n++; }, 10);\n",
  'broken.js': 'let a = ;\n',
  'ready.js': "console.log('ready');\nlet n = 0;\nsetInterval(() => { n++; n += 0; if (n % 20 === 0) console.log('tick'); }, 10);\n",
};
