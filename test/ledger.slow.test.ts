// The ledger in the living product: trees, daemons, orphans, crashes of each actor, and what is refused.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { afterEach, beforeEach, test } from 'node:test';
import { identify } from '../ledger.ts';
import { World, body, held, inWindows, kill, root, waitFor, type Json, type McpClient } from './lib.ts';

let world: World;
let mcp: McpClient;

async function server(env: Record<string, string> = {}): Promise<McpClient> {
  const client = world.mcp({ env: { HOME: world.home, ...env } }); // nobody's rc file starts processes of its own
  await client.initialize();
  return client;
}

beforeEach(async () => {
  world = new World('p');
  mcp = await server();
});
afterEach(() => world.end());

/** As the user of the tests; and, if that is root, once more as an unprivileged one, who may look at less of /proc. */
function everyone(name: string, check: () => Promise<void>): void {
  test(name, check);
  if (process.getuid?.() !== 0 || inWindows) return;
  test(`${name} (as an unprivileged user)`, async () => {
    await world.end();
    world = new World('p', { uid: 65534, gid: 65534 });
    mcp = await server();
    await check();
  });
}

const run = (command: string, more: Json = {}): Promise<Json> => mcp.call('terminal_run', { command, ...more });
const list = (of: Json, key: string): Json[] => (Array.isArray(of[key]) ? of[key] : assert.fail(`no ${key} in ${JSON.stringify(of).slice(0, 500)}`));
const write = (name: string, text: string): void => fs.writeFileSync(path.join(world.workspace, name), text);
const files = (name: string): string => path.join(world.workspace, '.devtools', name);
const events = (): Json[] => fs.readFileSync(files('process-log.jsonl'), 'utf8').trimEnd().split('\n').map((line) => JSON.parse(line));
const pidsOf = (role: string): number[] => world.processes().filter((one) => one.role === role).map(({ pid }) => pid);

/** Every living process that carries a tag of a terminal of this world. */
function tagged(): number[] {
  return world.processes().filter(({ pid, role }) => {
    try {
      return role === 'other' && /\0VSCODE_DEVTOOLS_TAG=t-[0-9a-f]+-(?!window-)/.test(`\0${fs.readFileSync(`/proc/${pid}/environ`, 'latin1')}`);
    } catch {
      return false; // gone in between
    }
  }).map(({ pid }) => pid);
}

/** The processes that process_list names, orphans too. */
async function known(client = mcp): Promise<{ active: Json[]; orphaned: Json[] }> {
  const all = await client.call('process_list');
  return { active: list(all, 'active').filter((one) => one.window === undefined), orphaned: list(all, 'orphaned') };
}

// A daemon as daemons are made: two forks and a session of its own, no parent, no terminal.
const DAEMON = `python3 -c "
import os, time
if os.fork(): os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
for fd in (0, 1, 2): os.close(fd)
time.sleep(300)
"`;

// ------------------------------------------------------------------------------------------------ the seed's phase 2

everyone('npm run dev: Node and the processes that it spawned are tracked, and end with it', async () => {
  write('package.json', '{"scripts":{"dev":"node dev.js"}}');
  write('dev.js', 'const c = require("node:child_process"); c.spawn("sleep", ["301"]); c.spawn(process.execPath, ["-e", "setInterval(() => {}, 1000)"]); console.log("ready"); setInterval(() => {}, 1000);');
  const started = await run('npm run dev', { waitMode: 'background', name: 'dev' });
  assert.equal(started.status, 'running');
  await waitFor(async () => String((await mcp.call('terminal_read', { name: 'dev' })).output).includes('ready'), 'the server');
  let active: Json[] = [];
  const isComplete = (): boolean => [/npm run dev/, /node dev\.js/, /^sleep 301$/, /setInterval/].every((wanted) => active.some(({ commandLine }) => wanted.test(String(commandLine))));
  await waitFor(async () => (({ active } = await known()), isComplete()), 'all four');
  const [entry] = held(await mcp.call('devtools_status'))[0];
  assert.equal(entry?.command, 'npm run dev');
  assert.ok(Number(body(entry, 'children').count) >= 4);
  const npm = active.find(({ commandLine }) => String(commandLine).startsWith('npm run dev'));
  const killed = await mcp.call('process_kill', { pid: npm?.pid });
  assert.deepEqual(killed.failed, []);
  const ended = await mcp.call('terminal_wait', { name: 'dev' });
  assert.equal(ended.status, 'completed');
  await waitFor(async () => (await known()).active.length === 2, 'only script and shell to be left');
});

everyone('Multi-process build: all child processes are detected', async () => {
  write('build.sh', 'for i in 1 2 3 4 5; do sh -c "sleep 30$i" & done; wait\n');
  await run('sh build.sh', { waitMode: 'background' });
  await waitFor(async () => (await known()).active.filter(({ name }) => name === 'sleep').length === 5, 'five sleeps');
  const [entry] = held(await mcp.call('terminal_list'))[0];
  assert.deepEqual([...(body(entry, 'children').names as string[])].sort(), ['sh', 'sleep']);
});

everyone('Nested spawning: a script that spawns scripts, and threads that spawn', async () => {
  write('deep.sh', 'n=$1; if [ $n -gt 0 ]; then sh deep.sh $((n-1)); else sleep 302; fi; true\n');
  write('worker.js', 'const { Worker } = require("node:worker_threads"); new Worker("require(\'node:child_process\').spawn(\'sleep\', [\'303\'])", { eval: true });');
  await run('sh deep.sh 20', { waitMode: 'background', name: 'deep' });
  await run('node worker.js', { waitMode: 'background', name: 'worker' });
  await waitFor(async () => {
    const { active } = await known();
    return ['sleep 302', 'sleep 303'].every((wanted) => active.some(({ commandLine }) => commandLine === wanted));
  }, 'both sleeps');
  assert.ok((await known()).active.length >= 25);
});

// ------------------------------------------------------------------------------------------------ the seed's phase 3

everyone('Session persistence: what a crashed predecessor left is found as orphaned, and ended', async () => {
  await run('sleep 304', { waitMode: 'background', name: 'lost' });
  const [sleep] = (await known()).active.filter(({ commandLine }) => commandLine === 'sleep 304');
  for (const role of ['client', 'host']) for (const pid of pidsOf(role)) kill(pid, 'SIGKILL');
  await mcp.close();
  mcp = await server();
  const orphaned = list(body(await mcp.call('devtools_status'), 'ledger'), 'orphaned');
  assert.ok(orphaned.some(({ pid, terminal }) => (pid === sleep?.pid || terminal === 'lost')), JSON.stringify(orphaned));
  const ended = await mcp.call('process_kill_orphans');
  assert.deepEqual(ended.failed, []);
  assert.ok(list(ended, 'killed').includes(sleep?.pid as unknown as Json));
  assert.deepEqual(list(body(ended, 'ledger'), 'orphaned'), []);
  assert.equal(await identify(Number(sleep?.pid)), undefined);
  assert.ok(events().some(({ event, pid }) => event === 'orphaned' && pid === sleep?.pid));
  assert.ok(events().some(({ event, pid }) => event === 'killed' && pid === sleep?.pid));
});

test('what a crashed predecessor left is ended at once where VSCODE_DEVTOOLS_ORPHANS says so', async () => {
  await run('sleep 314', { waitMode: 'background', name: 'lost' });
  const [sleep] = (await known()).active.filter(({ commandLine }) => commandLine === 'sleep 314');
  await mcp.close(); // first: it would start another Host, with its own setting
  for (const role of ['client', 'host']) for (const pid of pidsOf(role)) kill(pid, 'SIGKILL');
  mcp = await server({ VSCODE_DEVTOOLS_ORPHANS: 'end' });
  await waitFor(async () => (await known()).orphaned.length === 0 && (await identify(Number(sleep?.pid))) === undefined, 'the orphan to be ended');
  assert.ok(events().some(({ event, pid }) => event === 'killed' && pid === sleep?.pid));
  assert.deepEqual(tagged(), []);
});

test('workspace_analyze says what the workspace is made of, and which scripts are servers', async () => {
  write('package.json', '{"scripts":{"dev":"vite","build":"tsc"},"devDependencies":{"vite":"1"}}');
  const found = await mcp.call('workspace_analyze');
  assert.equal(found.projectRoot, world.workspace);
  assert.ok(list(found, 'detectedStacks').map(String).some((stack) => /node/i.test(stack)), JSON.stringify(found));
  assert.ok(list(found, 'expectedProcesses').length > 0);
  assert.match(JSON.stringify(found.devServers), /npm run dev/);
  assert.doesNotMatch(JSON.stringify(found.devServers), /npm run build/);
});

everyone('Clean shutdown: closing a terminal ends all that was started there, daemons and deaf ones too', async () => {
  await run(`${DAEMON}; trap '' HUP TERM; (trap '' HUP TERM; sleep 305) & nohup setsid sleep 306 >/dev/null 2>&1 & sleep 0.1`, { name: 'messy' });
  assert.ok((await known()).active.length >= 5);
  const closed = await mcp.call('terminal_close', { name: 'messy' });
  assert.equal(closed.closed, 'messy');
  assert.deepEqual([held(closed)[0], list(body(closed, 'ledger'), 'orphaned'), tagged()], [[], [], []]);
});

everyone('Log integrity: events are in the log in order, with pid, start time and session; the summaries agree', async () => {
  await run('sleep 0.2; (exit 7)', { name: 'one' });
  await run('sleep 307', { name: 'one', waitMode: 'background' });
  await waitFor(async () => (await known(), events().some(({ event, name, parentPid }) => event === 'spawned' && name === 'sleep' && typeof parentPid === 'number')), 'sleep under its own name'); // it may be seen before its exec
  const { active } = await known();
  const all = events();
  const mine = all.filter(({ kind, terminal }) => kind === 'command' && terminal === 'one').map(({ event, cmd, exitCode }) => [event, cmd ?? exitCode]);
  assert.deepEqual(mine, [['started', 'sleep 0.2; (exit 7)'], ['completed', 7], ['started', 'sleep 307']]);
  assert.ok(all.every(({ pid, startTime, sessionId, ts }) => typeof pid === 'number' && typeof startTime === 'string' && typeof sessionId === 'string' && typeof ts === 'string'));
  await waitFor(() => {
    const saved = JSON.parse(fs.readFileSync(files('active-processes.json'), 'utf8'));
    return saved.processes.length === active.length;
  }, 'active-processes.json');
  const [summary] = fs.readdirSync(files('sessions'));
  const session = JSON.parse(fs.readFileSync(path.join(files('sessions'), summary ?? ''), 'utf8'));
  assert.deepEqual(session.commands.map(({ command, exitCode }: Json) => [command, exitCode]), [['sleep 0.2; (exit 7)', 7], ['sleep 307', undefined]]);
  for (const file of ['process-log.jsonl', 'active-processes.json', `sessions/${summary}`]) assert.equal(fs.statSync(files(file)).mode & 0o777, 0o600);
});

// -------------------------------------------------------------------------------------------------- escapees and ends

everyone('a daemon that double-forks and calls setsid is in the ledger, can be killed, and outlives its shell as an orphan', async () => {
  const result = await run(DAEMON, { name: 'd' });
  assert.deepEqual([result.status, result.exitCode], ['completed', 0]);
  const [entry] = held(result)[0];
  assert.deepEqual(body(entry, 'children').count, 1, JSON.stringify(entry)); // in the very answer of the run
  const daemon = (await known()).active.find(({ name }) => String(name).startsWith('python'));
  assert.equal(daemon?.parentPid, 1);
  assert.deepEqual((await mcp.call('process_kill', { pid: daemon?.pid })).killed, [daemon?.pid]);
  await run(`${DAEMON}; exit 0`, { name: 'd' });
  await waitFor(async () => (await known()).orphaned.length === 1, 'the daemon to be an orphan');
  assert.deepEqual(list(await mcp.call('process_kill_orphans'), 'killed').length, 1);
  assert.deepEqual(tagged(), []);
});

everyone('a daemon that drops its environment is found by the terminal that it still has open', async () => {
  await run('env -i /usr/bin/setsid -f /bin/sleep 312; (unset VSCODE_DEVTOOLS_TAG; setsid -f sleep 313)', { name: 'bare' });
  const { active } = await known();
  const daemons = active.filter(({ commandLine }) => /sleep 31[23]$/.test(String(commandLine)));
  assert.equal(daemons.length, 2, JSON.stringify(active));
  await mcp.call('terminal_close', { name: 'bare' });
  for (const { pid } of daemons) assert.equal(await identify(Number(pid)), undefined);
});

everyone('process_kill of a shell ends its terminal; a signal of choice is only sent', async () => {
  write('usr.js', 'process.on("SIGUSR1", () => console.log("heard")); setInterval(() => {}, 1000); console.log("ready")');
  const started = await run('node usr.js', { waitMode: 'background' });
  await waitFor(async () => String((await mcp.call('terminal_read')).output).includes('ready'), 'the program');
  const program = (await known()).active.find(({ commandLine }) => commandLine === 'node usr.js');
  const signalled = await mcp.call('process_kill', { pid: program?.pid, signal: 'SIGUSR1' });
  assert.deepEqual([signalled.signalled, signalled.killed], [[program?.pid], []]);
  await waitFor(async () => String((await mcp.call('terminal_read')).output).includes('heard'), 'the signal');
  await mcp.call('process_kill', { pid: started.pid });
  const over = await mcp.call('terminal_wait');
  assert.deepEqual([over.status, over.exitCode === 0], ['completed', false]);
  assert.deepEqual(tagged(), []);
});

everyone('kill of pid 1, of our own processes, of a stranger: refused, nothing is signalled', async () => {
  const status = await mcp.call('devtools_status');
  await run('sleep 308', { waitMode: 'background' });
  for (const pid of [1, process.pid, Number(body(status, 'mcp').pid), Number(body(status, 'host').pid), Number(body(status, 'client').pid)]) {
    const error = body(await mcp.call('process_kill', { pid }), 'error');
    assert.equal(error.code, 'E_REFUSED');
    assert.match(String(error.message), /Nothing was signalled; process_list/);
  }
  const after = await mcp.call('devtools_status');
  assert.deepEqual([body(after, 'host').pid, body(after, 'client').pid], [body(status, 'host').pid, body(status, 'client').pid]);
});

test('bad input is told with the next step, and nothing is lost', async () => {
  await run('kept=1');
  const cases: Array<[string, Json, string, RegExp]> = [
    ['terminal_wait', { name: 'nobody' }, 'E_NO_TERMINAL', /"default".*terminal_run/],
    ['terminal_read', { name: 'nobody' }, 'E_NO_TERMINAL', /terminal_run/],
    ['terminal_close', { name: 'nobody' }, 'E_NO_TERMINAL', /terminal_run/],
    ['terminal_input', { name: 'default', text: 'x' }, 'E_IDLE', /terminal_run/],
    ['terminal_interrupt', {}, 'E_IDLE', /nothing runs/],
    ['terminal_interrupt', { signal: 'SIGNOSE' }, 'E_ARGUMENTS', /must be one of/],
    ['terminal_run', { command: '' }, 'E_ARGUMENTS', /at least 1/],
    ['terminal_run', { command: '  \n ' }, 'E_ARGUMENTS', /empty/],
    ['terminal_run', { command: 'echo a\0b' }, 'E_ARGUMENTS', /NUL/],
    ['terminal_run', { command: 'echo', cwd: 'no/such/dir' }, 'E_ARGUMENTS', /not a directory.*leave cwd out/],
    ['terminal_run', { command: 'echo', cwd: 'a\0b' }, 'E_ARGUMENTS', /not a directory/],
    ['terminal_run', { command: 'echo', cwd: '/etc/passwd' }, 'E_ARGUMENTS', /not a directory/],
    ['terminal_run', { command: 'echo', timeout: -1 }, 'E_ARGUMENTS', /at least 0/],
    ['terminal_run', { command: 'echo', timeout: 1e12 }, 'E_ARGUMENTS', /at most/],
    ['terminal_run', { command: 'echo', env: { 'A B': 'x' } }, 'E_ARGUMENTS', /no variable/],
    ['terminal_run', { command: 'echo', env: { A: 1 } }, 'E_ARGUMENTS', /no variable/],
    ['terminal_run', { command: 'echo', name: '' }, 'E_ARGUMENTS', /at least 1/],
    ['process_kill', { pid: 0 }, 'E_ARGUMENTS', /at least 1/],
    ['process_kill', { pid: 2 ** 31 }, 'E_REFUSED', /not in the ledger/],
  ];
  for (const [tool, args, code, words] of cases) {
    const error = body(await mcp.call(tool, args), 'error');
    assert.equal(error.code, code, `${tool} ${JSON.stringify(args)}: ${JSON.stringify(error)}`);
    assert.match(String(error.message), words);
  }
  assert.equal((await run('echo kept $kept')).output, 'kept 1\n');
  const long = `: ${'x'.repeat(1024 * 1024)}; echo long`;
  assert.equal((await run(long)).output, 'long\n');
  const crowd = await Promise.all(Array.from({ length: 40 }, (_, i) => run('echo hi', { name: `n${i}` })));
  assert.equal(crowd.filter(({ output }) => output === 'hi\n').length, 31); // with the first there are 32
  assert.ok(crowd.filter(({ error }) => error).every(({ error }) => /32 terminals: close one/.test(JSON.stringify(error))));
});

// ---------------------------------------------------------------------------------------------------------- restarts

everyone('MCP restarted while `sleep 5; echo done` runs: the next terminal_wait has its output and exit code', async () => {
  mcp.send({ jsonrpc: '2.0', id: 'long', method: 'tools/call', params: { name: 'terminal_run', arguments: { command: 'echo begun; sleep 5; echo done; (exit 3)' } } });
  await waitFor(() => tagged().some((pid) => spawnSync('ps', ['-o', 'args=', '-p', String(pid)], { encoding: 'utf8' }).stdout.trim() === 'sleep 5'), 'the sleep');
  mcp.child.kill('SIGKILL');
  await mcp.exit();
  mcp = await server();
  const result = await mcp.call('terminal_wait');
  assert.deepEqual([result.status, result.output, result.exitCode], ['completed', 'begun\ndone\n', 3]);
});

test('the Host dies: the Client keeps its terminals, the next Host knows them, nothing is orphaned', async () => {
  const before = await run('sleep 6; echo survived', { waitMode: 'background', name: 'long' });
  for (const pid of pidsOf('host')) kill(pid, 'SIGKILL');
  const result = await mcp.call('terminal_wait', { name: 'long' });
  assert.deepEqual([result.status, result.output, result.pid], ['completed', 'survived\n', before.pid]);
  const { active, orphaned } = await known();
  assert.deepEqual([active.length, orphaned], [2, []]);
  assert.equal((await run('echo on', { name: 'long' })).output, 'on\n');
});

test('the Host dies while a terminal is being opened: it is held, not orphaned, and its run goes on', async () => {
  const home = path.join(world.home, 'slow');
  fs.mkdirSync(home);
  fs.writeFileSync(path.join(home, '.bashrc'), 'sleep 2\n');
  await mcp.close();
  mcp = await server({ HOME: home, VSCODE_DEVTOOLS_SHELL: '/bin/bash' });
  const running = run('echo opened');
  await waitFor(() => tagged().length >= 3, 'the rc file to be at work');
  for (const pid of pidsOf('host')) kill(pid, 'SIGKILL');
  const result = await running;
  if (result.error) assert.match(JSON.stringify(result.error), /E_CLOSED|E_NO_HOST/); // its report was under way
  await waitFor(async () => (await known()).orphaned.length === 0, 'no orphans');
  assert.equal((await run('echo again')).output, 'again\n');
});

test('ended terminals do not use up the room for new ones, and a killed Client leaves no rc files behind', async () => {
  for (let i = 0; i < 40; i++) assert.equal((await run('exit 0', { name: `x${i}` })).status, 'completed');
  await run('sleep 311', { waitMode: 'background', env: { TOKEN: 's3cr3t' } });
  for (const pid of pidsOf('client')) kill(pid, 'SIGKILL');
  await waitFor(async () => (await run('echo new')).output === 'new\n', 'the next Client');
  const left = fs.readdirSync(world.dir).filter((name) => name.startsWith('terminal-'));
  assert.equal(left.length, 1); // the new one's
  assert.equal(spawnSync('grep', ['-rl', 's3cr3t', world.dir, path.join(world.workspace, '.devtools')], { encoding: 'utf8' }).stdout, '');
  await mcp.call('process_kill_orphans');
});

const RECORDS = ['starting.terminal', 'started.terminal', 'started.command', 'completed.command', 'completed.terminal', 'completed.child', 'killed.terminal', 'killed.child', 'orphaned.terminal', 'orphaned.child', 'spawned.child'];
const WRITES = [...RECORDS.flatMap((record) => [`ledger.append.${record}`, `ledger.appended.${record}`]), 'ledger.active', 'ledger.saved', 'ledger.session', 'ledger.compacted'];

test('the steps of a ledger write are those that the source names', () => {
  const source = fs.readFileSync(path.join(root, 'ledger.ts'), 'utf8');
  const [, kinds = ''] = /^type Member = .*\bkind: ([^;]+);/m.exec(source) ?? [];
  const [, ...ends] = /const event = \S+ \? '(\w+)' : '(\w+)';/.exec(source) ?? [];
  const words = (text: string): string[] => [...text.matchAll(/'(\w+)'/g)].map(([, word = '']) => word);
  const records = [...source.matchAll(/this\.append\((\S+), .*?, ('\w+'|member\.kind), \{/g)].flatMap(([, event = '', kind = '']) => (event === 'event' ? ends : words(event)).flatMap((one) => words(kind.startsWith("'") ? kind : kinds).map((of) => `${one}.${of}`)));
  assert.equal(source.match(/this\.append\(/g)?.length, source.match(/this\.append\((\S+), .*?, ('\w+'|member\.kind), \{/g)?.length);
  const named = [...source.matchAll(/step\(['`](ledger\.[\w.]+)(\$\{event\}\.\$\{kind\})?['`]/g)].flatMap(([, name = '', isRecord]) => (isRecord ? records.map((record) => name + record) : [name]));
  assert.deepEqual([...new Set(named)].sort(), [...WRITES].sort());
});

for (const step of WRITES) {
  test(`kill -9 of the Host at ${step}: the next start knows every living process`, async () => {
    await mcp.close();
    spawnSync(process.execPath, [path.join(root, 'dist/mcp.js'), 'host', 'stop'], { env: world.env() });
    fs.mkdirSync(files('.'), { recursive: true, mode: 0o700 });
    if (step === 'ledger.compacted') fs.writeFileSync(files('process-log.jsonl'), `${JSON.stringify({ event: 'completed', pid: 9, startTime: 'x', kind: 'child', pad: 'x'.repeat(200) })}\n`.repeat(20_000), { mode: 0o600 });
    const reached = path.join(world.home, 'reached');
    const victim = await server({ VSCODE_DEVTOOLS_FAULT: `once:host.${step}:${reached}` });
    const shell = await victim.call('terminal_run', { command: `${DAEMON}; sleep 0.1`, name: 'a' });
    await victim.call('terminal_run', { command: 'sleep 309', name: 'b', waitMode: 'background' });
    const sleeps = async (): Promise<Json | undefined> => (await known(victim).catch(() => ({ active: [] }))).active.find(({ commandLine }) => commandLine === 'sleep 309');
    await sleeps();
    if (step.includes('killed.child')) {
      await waitFor(sleeps, 'the sleep');
      await victim.call('process_kill', { pid: (await sleeps())?.pid });
    }
    if (step.includes('killed.terminal')) await victim.call('process_kill', { pid: shell.pid }).catch(() => {}); // its Host dies meanwhile
    if (step.includes('completed.terminal')) await victim.call('terminal_run', { command: 'exit 0', name: 'a' }).catch(() => {}); // the same
    if (step.includes('completed.child')) {
      await waitFor(sleeps, 'the sleep');
      kill(Number((await sleeps())?.pid), 'SIGKILL'); // not through us
      await waitFor(async () => fs.existsSync(reached) || !(await sleeps()), 'its end to be seen');
    }
    if (step.includes('orphaned')) for (const pid of pidsOf('client')) kill(pid, 'SIGKILL');
    await waitFor(() => fs.existsSync(reached), `${step} to be reached`);
    await victim.close();
    mcp = await server();
    const { active, orphaned } = await known();
    const pids = [...active, ...orphaned].map(({ pid }) => Number(pid));
    await waitFor(() => tagged().every((pid) => pids.includes(pid)), `every one of ${tagged().join(' ')} to be among ${pids.join(' ')}`);
    assert.ok(events().length > 0); // every line is whole
    const status = await mcp.call('devtools_status');
    assert.deepEqual(list(status, 'warnings').filter((text) => /ledger|process-log/.test(String(text))), []); // a torn record would be said
    await mcp.call('process_kill_orphans');
  });
}
