// Our Node adapter as others drive it: Microsoft's own test client for debug adapters (@vscode/debugadapter-testsupport)
// through launch, breakpoints, steps, variables, exceptions and source maps; TypeScript by Node 24's own type stripping.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { after, afterEach, before, beforeEach, describe, test } from 'node:test';
import { World, body, root, vscode, waitFor, type Json, type McpClient } from './lib.ts';

const SUPPORT = path.join(root, '.cache', 'peers', 'node_modules', '@vscode', 'debugadapter-testsupport', 'lib', 'debugClient.js');

type Answer = { body: Json };
/** What is used of the test client; its own types are a peer's. */
type DebugClient = {
  start: () => Promise<void>;
  stop: () => Promise<void>;
  launch: (args: Json) => Promise<Answer>;
  configurationSequence: () => Promise<unknown>;
  hitBreakpoint: (launch: Json, location: Json, stop?: Json) => Promise<unknown>;
  assertStoppedLocation: (reason: string, place: Json) => Promise<Answer>;
  assertOutput: (category: string, text: string, timeout?: number) => Promise<unknown>;
  waitForEvent: (event: string, timeout?: number) => Promise<Answer>;
  customRequest: (command: string, args?: Json) => Promise<Answer>;
  on: (event: string, listener: (event: Answer) => void) => void;
  defaultTimeout: number;
};

const PROGRAM = `function add(a, b) {
  const sum = a + b;
  return sum;
}
let total = 0;
for (let i = 0; i < 3; i++) {
  total = add(total, i);
}
console.log('total', total);
console.error('to stderr');
try { throw new RangeError('caught one'); } catch {}
throw new TypeError('uncaught one');
`;

const SHOP = `import { tax } from './tax.ts';

interface Item { name: string; price: number }

function sum(items: Item[]): number {
  let total: number = 0;
  for (const item of items) {
    total += tax(item.price);
  }
  return total;
}
console.log(sum([{ name: 'tea', price: 5 }, { name: 'cup', price: 7 }]));
`;
const TAX = `type Money = number;

export function tax(price: Money): Money {
  const rate: number = 0.2;
  return price * (1 + rate);
}
`;

describe('the Node adapter', () => {
  let world: World;
  let client: DebugClient;
  before(() => {
    world = new World('s');
    fs.writeFileSync(file('program.js'), PROGRAM);
    fs.writeFileSync(file('shop.ts'), SHOP);
    fs.writeFileSync(file('tax.ts'), TAX);
    fs.writeFileSync(file('package.json'), '{"type":"module"}\n');
    fs.mkdirSync(file('cjs'));
    fs.writeFileSync(path.join(file('cjs'), 'package.json'), '{"type":"commonjs"}\n');
    fs.copyFileSync(file('program.js'), path.join(file('cjs'), 'program.js'));
  });
  beforeEach(async () => {
    const { DebugClient } = createRequire(SUPPORT)(SUPPORT) as { DebugClient: new (runtime: string, file: string, type: string, options: object) => DebugClient };
    client = new DebugClient(process.execPath, path.join(root, 'dist', 'node-adapter.js'), 'node', { cwd: world.workspace, env: world.env({ NODE_OPTIONS: '' }) });
    client.defaultTimeout = 20_000;
    await client.start();
  });
  afterEach(async () => {
    await client.stop();
    await waitFor(() => world.processes().length === 0, 'every process to end');
  });
  after(() => world.end());

  const file = (name: string): string => path.join(world.workspace, name);
  const program = (): string => path.join(file('cjs'), 'program.js');
  const locals = async (): Promise<Record<string, unknown>> => {
    const { threads } = (await client.customRequest('threads')).body as { threads: Json[] };
    const { stackFrames } = (await client.customRequest('stackTrace', { threadId: threads[0]?.id })).body as { stackFrames: Json[] };
    const { scopes } = (await client.customRequest('scopes', { frameId: stackFrames[0]?.id })).body as { scopes: Json[] };
    const { variables } = (await client.customRequest('variables', { variablesReference: scopes[0]?.variablesReference })).body as { variables: Json[] };
    return Object.fromEntries(variables.map((one) => [one.name, one.value]));
  };
  const go = async (command: string): Promise<void> => {
    const { threads } = (await client.customRequest('threads')).body as { threads: Json[] };
    await client.customRequest(command, { threadId: threads[0]?.id });
  };

  test('launch: the program runs to its end, with both streams and the exit code', async () => {
    await Promise.all([client.configurationSequence(), client.launch({ program: program() }), client.assertOutput('stdout', 'total 3\n'), client.assertOutput('stderr', 'to stderr\n'), client.waitForEvent('terminated'), client.waitForEvent('exited').then((event) => assert.deepEqual(event.body, { exitCode: 1 }))]);
  });

  test('stop on entry, breakpoint, steps and variables', async () => {
    await Promise.all([client.configurationSequence(), client.launch({ program: program(), stopOnEntry: true }), client.assertStoppedLocation('entry', { path: program(), line: 5 })]);
    await client.customRequest('setBreakpoints', { source: { path: program() }, breakpoints: [{ line: 2, condition: 'b === 2' }] });
    await Promise.all([go('continue'), client.assertStoppedLocation('breakpoint', { path: program(), line: 2 })]);
    const { a, b, sum } = await locals();
    assert.deepEqual([a, b, sum], ['1', '2', 'undefined']);
    await Promise.all([go('next'), client.assertStoppedLocation('step', { path: program(), line: 3 })]);
    assert.equal((await locals()).sum, '3');
    await Promise.all([go('stepOut'), client.assertStoppedLocation('step', { path: program(), line: 6 })]);
    await Promise.all([go('continue'), client.waitForEvent('terminated')]);
  });

  test('a breakpoint before the program runs, as the test client sets one', async () => {
    await client.hitBreakpoint({ program: program() }, { path: program(), line: 9, verified: false });
  });

  test('exceptions: caught, then uncaught', async () => {
    await Promise.all([client.waitForEvent('initialized').then(() => client.customRequest('setExceptionBreakpoints', { filters: ['all'] })).then(() => client.customRequest('configurationDone')), client.launch({ program: program() }), client.assertStoppedLocation('exception', { path: program(), line: 11 })]);
    const info = async (): Promise<unknown[]> => {
      const { threads } = (await client.customRequest('threads')).body as { threads: Json[] };
      const { exceptionId, description, breakMode } = (await client.customRequest('exceptionInfo', { threadId: threads[0]?.id })).body;
      return [exceptionId, description, breakMode];
    };
    assert.deepEqual(await info(), ['RangeError', 'caught one', 'always']);
    await Promise.all([go('continue'), client.assertStoppedLocation('exception', { path: program(), line: 12 })]);
    assert.deepEqual(await info(), ['TypeError', 'uncaught one', 'unhandled']);
  });

  for (const [name, flags, format] of [['a map beside the script, CommonJS', ['--sourcemap'], 'cjs'], ['a map in the script, ES modules', ['--sourcemap=inline'], 'esm'], ['a bundle', ['--sourcemap', '--bundle', '--platform=node'], 'cjs']] as const) {
    test(`TypeScript by source maps: ${name}`, async () => {
      const out = file(`out-${format}${flags.length}`);
      const entries = flags.length > 1 ? ['shop.ts'] : ['shop.ts', 'tax.ts'];
      execFileSync(path.join(root, 'node_modules', '.bin', 'esbuild'), [...entries, `--outdir=${out}`, `--format=${format}`, '--log-level=error', ...flags], { cwd: world.workspace });
      fs.writeFileSync(path.join(out, 'package.json'), JSON.stringify({ type: format === 'esm' ? 'module' : 'commonjs' }));
      for (const script of fs.readdirSync(out).filter((one) => one.endsWith('.js'))) fs.writeFileSync(path.join(out, script), fs.readFileSync(path.join(out, script), 'utf8').replace('./tax.ts', './tax.js'));
      await client.hitBreakpoint({ program: path.join(out, 'shop.js') }, { path: file('tax.ts'), line: 5, verified: false }, { path: file('tax.ts'), line: 5 });
      const { price, rate } = await locals();
      assert.deepEqual([price, rate], ['5', '0.2']);
      const { threads } = (await client.customRequest('threads')).body as { threads: Json[] };
      const { stackFrames } = (await client.customRequest('stackTrace', { threadId: threads[0]?.id })).body as { stackFrames: Json[] };
      assert.deepEqual([body(stackFrames[1], 'source').path, stackFrames[1]?.line], [file('shop.ts'), 8]);
      await Promise.all([go('stepOut'), client.assertStoppedLocation('step', { path: file('shop.ts'), line: 7 })]);
    });
  }

  test('TypeScript by the type stripping of Node 24, without a map', async () => {
    assert.ok(fs.existsSync(vscode.node), 'Node 24 is not installed: node test/setup.mjs');
    await client.hitBreakpoint({ program: file('shop.ts'), runtimeExecutable: vscode.node }, { path: file('tax.ts'), line: 5, verified: false }, { path: file('tax.ts'), line: 5 });
    assert.equal((await locals()).price, '5');
    await Promise.all([go('stepOut'), client.assertStoppedLocation('step', { path: file('shop.ts'), line: 7 })]);
    await Promise.all([go('continue'), client.assertStoppedLocation('breakpoint', { path: file('tax.ts'), line: 5 })]);
  });

  test('a thousand breakpoints in one file, ten thousand elements and five megabytes of a source map: no answer takes 200 ms', async () => {
    const lines = Array.from({ length: 20_000 }, (_, at) => `out.push(${at} as number);`);
    fs.writeFileSync(file('large.ts'), `const out: number[] = []; ${lines.join("\n")}\nconst list: number[] = Array.from({ length: 10000 }, (_: unknown, i: number) => i);\nconsole.log(list.length);\n`);
    execFileSync(path.join(root, 'node_modules', '.bin', 'esbuild'), ['large.ts', '--outfile=large/large.js', '--sourcemap', '--format=cjs', '--log-level=error'], { cwd: world.workspace });
    fs.writeFileSync(path.join(file('large'), 'package.json'), '{"type":"commonjs"}\n');
    const mapFile = path.join(file('large'), 'large.js.map');
    const map: Json = JSON.parse(fs.readFileSync(mapFile, 'utf8'));
    fs.writeFileSync(mapFile, JSON.stringify({ ...map, mappings: `${String(map.mappings)};${`AACA${';AAAA'.repeat(2)}${`${'AAAA,'.repeat(60)}AAAA;`.repeat(20_000)}`}` })); // lines behind the end, which cost as much as others
    assert.ok(fs.statSync(mapFile).size > 5 * 1024 * 1024);
    let slowest = 0;
    const timed = async (command: string, args: Json): Promise<Json> => {
      const before = performance.now();
      const answer = await client.customRequest(command, args);
      slowest = Math.max(slowest, performance.now() - before);
      return answer.body;
    };
    await client.hitBreakpoint({ program: path.join(file('large'), 'large.js') }, { path: file('large.ts'), line: 20_002, verified: false }, { path: file('large.ts'), line: 20_002 });
    const { threads } = await timed('threads', {}) as { threads: Json[] };
    const { stackFrames } = await timed('stackTrace', { threadId: threads[0]?.id }) as { stackFrames: Json[] };
    const { scopes } = await timed('scopes', { frameId: stackFrames[0]?.id }) as { scopes: Json[] };
    const { result, variablesReference } = await timed('evaluate', { expression: 'list', frameId: stackFrames[0]?.id });
    assert.match(String(result), /^\(10000\) \[0, 1, 2/);
    const groups = (await timed('variables', { variablesReference })).variables as Json[];
    assert.deepEqual([groups[0]?.name, groups.length], ['[0…99]', 101]);
    assert.equal(((await timed('variables', { variablesReference: groups[99]?.variablesReference })).variables as Json[])[99]?.value, '9999');
    assert.ok(scopes.length > 0);
    const plain = path.join(file('cjs'), 'plain.js');
    fs.writeFileSync(plain, `${Array.from({ length: 1000 }, (_, at) => `exports.f${at} = () => ${at};`).join('\n')}\n`);
    await timed('evaluate', { expression: `process.mainModule.require(${JSON.stringify(plain)})`, frameId: stackFrames[0]?.id });
    const bound = new Set<unknown>();
    client.on('breakpoint', (event) => bound.add(body(event.body, 'breakpoint').id));
    const { breakpoints } = await timed('setBreakpoints', { source: { path: plain }, breakpoints: Array.from({ length: 1000 }, (_, at) => ({ line: at + 1 })) }) as { breakpoints: Json[] };
    assert.equal(breakpoints.length, 1000);
    await timed('evaluate', { expression: 'list', frameId: stackFrames[0]?.id }); // while V8 is at it
    await waitFor(() => breakpoints.every((one) => one.verified || bound.has(one.id)), 'all to be bound');
    await timed('setBreakpoints', { source: { path: plain }, breakpoints: Array.from({ length: 999 }, (_, at) => ({ line: at + 1 })) });
    console.log(`the slowest answer: ${slowest.toFixed(0)} ms`);
    assert.ok(slowest < 200, `${slowest} ms`);
  });
});

describe('debug_start without js-debug', () => {
  let world: World;
  let mcp: McpClient;
  before(async () => {
    world = new World('t');
    mcp = world.mcp();
    await mcp.initialize();
  });
  after(() => world.end());

  test('a TypeScript program with a worker and a fork: each breakpoint is hit on its .ts line, in its own child', async () => {
    const sources: Record<string, string> = {
      'main.ts': "import { fork } from 'node:child_process';\nimport { Worker } from 'node:worker_threads';\n\nconst dir: string = __dirname;\nnew Worker(`${dir}/worker.js`);\nfork(`${dir}/fork.js`);\nconsole.log('main');\n",
      'worker.ts': "interface Job { id: number }\n\nconst job: Job = { id: 1 };\nconsole.log('worker', job.id);\n",
      'fork.ts': "type Name = string;\n\nconst name: Name = 'fork';\nconsole.log(name);\n",
    };
    for (const [name, text] of Object.entries(sources)) fs.writeFileSync(path.join(world.workspace, name), text);
    execFileSync(path.join(root, 'node_modules', '.bin', 'esbuild'), [...Object.keys(sources), '--outdir=out', '--sourcemap', '--format=cjs', '--log-level=error'], { cwd: world.workspace });
    let state = await mcp.call('debug_start', { program: 'out/main.js', session: 'ts', breakpoints: [{ file: 'main.ts', line: 7 }, { file: 'worker.ts', line: 4 }, { file: 'fork.ts', line: 4 }] });
    assert.equal(state.state, 'STOPPED', JSON.stringify(state));
    assert.equal((await mcp.call('debug_status', { session: 'ts' })).adapter, 'node');
    const seen = new Map<string, unknown>();
    while (state.state === 'STOPPED') {
      const stop = body(state, 'stopReason');
      const { file, line } = body(stop, 'location');
      seen.set(`${path.basename(String(file))}:${String(line)}`, stop.session);
      state = await mcp.call('debug_continue', { session: 'ts', wait: true });
    }
    assert.deepEqual([[...seen.keys()].sort(), new Set(seen.values()).size], [['fork.ts:4', 'main.ts:7', 'worker.ts:4'], 3]);
    assert.deepEqual([state.state, state.exitCode], ['TERMINATED', 0], JSON.stringify(state));
  });

  test("adapter 'node' is asked for by name, and doctor shows it", async () => {
    fs.writeFileSync(path.join(world.workspace, 'one.js'), "try { throw new Error('a'); } catch {}\n");
    const stopped = await mcp.call('debug_start', { program: 'one.js', adapter: 'node', exceptions: 'caught' });
    assert.deepEqual([body(stopped, 'stopReason').type, body(body(stopped, 'stopReason'), 'details').message], ['EXCEPTION', 'a']);
    await mcp.call('debug_stop');
    const doctor = execFileSync(process.execPath, [path.join(root, 'dist', 'mcp.js'), 'doctor', '--workspace', world.workspace], { encoding: 'utf8', env: world.env({ VSCODE_DEVTOOLS_JS_DEBUG: '' }) });
    assert.match(doctor, /^node \(nodejs, .*\): .*dist\/node-adapter\.js$/m);
  });
});
