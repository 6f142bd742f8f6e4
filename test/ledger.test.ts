// The process ledger without a product around it: its files, what other systems print, identities, stacks.

import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { afterEach, beforeEach, test } from 'node:test';
import { errorName, tagPrefix } from '../bootstrap.js';
import { Ledger, STACKS, analyzeWorkspace, devServerIn, familyIn, fit, identify, parseCim, parsePsList, readLog, system, type Listed } from '../ledger.ts';
import { World, waitFor, type Json } from './lib.ts';

let world: World;
let warnings: string[];
const ledgers: Ledger[] = [];
const real = { ...system };
beforeEach(() => {
  world = new World('l');
  warnings = [];
});
afterEach(async () => {
  Object.assign(system, real);
  for (const ledger of ledgers.splice(0)) ledger.close();
  await world.end();
});

const prefix = (): string => tagPrefix(world.dir, world.workspace);
const files = (): string => path.join(world.workspace, '.devtools');
const log = (): string => path.join(files(), 'process-log.jsonl');

function open(onOrphans = 'report'): Ledger {
  fs.mkdirSync(files(), { recursive: true, mode: 0o700 });
  const ledger = new Ledger({ dir: files(), runtime: world.dir, workspace: world.workspace, onOrphans, isOurs: (pid) => (pid === process.pid ? 'the Host' : ''), warn: (text) => warnings.push(text), changed: () => {} });
  ledgers.push(ledger);
  return ledger;
}

function sleeper(tag?: string): { pid: number; ended: Promise<unknown> } {
  const child = spawn('sleep', ['300'], { stdio: 'ignore', detached: true, env: { ...world.env(), ...(tag && { VSCODE_DEVTOOLS_TAG: tag }) } });
  return { pid: child.pid ?? 0, ended: new Promise((resolve) => child.once('exit', resolve)) };
}

const record = (event: string, pid: number, startTime: string, kind = 'child'): string =>
  `${JSON.stringify({ event, pid, startTime, kind, name: 'x', cmd: `x "é" ${pid}`, terminal: 'dev', terminalId: `${prefix()}abc`, ts: '2026-11-18T10:00:00.000Z', sessionId: 's' })}\n`;
const rejects = (promise: Promise<unknown>, name: string, words: RegExp): Promise<void> => assert.rejects(promise, (error) => (errorName(error) === name && words.test(String(error))) || assert.fail(String(error)));

// ----------------------------------------------------------------------------------------------------------- files

test('every truncation of the log loads: whole records count, a torn end is measured', () => {
  const events: Array<[string, number]> = [['started', 10], ['spawned', 11], ['completed', 11], ['spawned', 12], ['killed', 10], ['orphaned', 12], ['spawned', 11]];
  const lines = events.map(([event, pid]) => Buffer.from(record(event, pid, 't')));
  const whole = Buffer.concat(lines);
  const file = path.join(world.home, 'log');
  fs.writeFileSync(file, whole);
  const fd = fs.openSync(file, 'r+');
  for (let size = whole.length; size >= 0; size--) {
    fs.ftruncateSync(fd, size);
    let complete = 0;
    let at = 0;
    while (complete < lines.length && at + (lines[complete]?.length ?? 0) <= size) at += lines[complete++]?.length ?? 0;
    const living = new Set<number>();
    for (const [event, pid] of events.slice(0, complete)) if (event === 'completed' || event === 'killed') living.delete(pid);
      else living.add(pid);
    const loaded = readLog(fd);
    assert.deepEqual([loaded.living.map(({ pid }) => pid).sort(), loaded.size, loaded.torn], [[...living].sort(), at, size - at], `cut at ${size}`);
    assert.ok(loaded.living.every(({ command, pid }) => command === `x "é" ${pid}`));
  }
  fs.closeSync(fd);
});

test('a damaged log is read as far as it makes sense', () => {
  const file = path.join(world.home, 'log');
  fs.writeFileSync(file, `\n{}\nnot json\n${record('started', 7, 't')}{"event":"started","pid":8,"startTime":"t","kind":"child",broken\n${'x'.repeat(5 * 1024 * 1024)}\n${record('started', 9, 't')}${record('started', 1, 't')}`);
  const fd = fs.openSync(file, 'r');
  assert.deepEqual(readLog(fd).living.map(({ pid }) => pid), [7, 9]);
  fs.closeSync(fd);
});

test('a torn end is cut off, said, and the log goes on behind it', async () => {
  fs.mkdirSync(files(), { mode: 0o700 });
  fs.writeFileSync(log(), `${record('started', 2 ** 22 - 1, 't')}{"event":"started","pi`, { mode: 0o600 });
  const ledger = open();
  await ledger.settle('terminal', async () => [], 'test');
  assert.equal(warnings.length, 1);
  assert.match(warnings[0] ?? '', /torn \(22 bytes\) and is lost/);
  await ledger.record({ event: 'opening', terminal: 'a', terminalId: `${prefix()}1` });
  assert.ok(fs.readFileSync(log(), 'utf8').trimEnd().split('\n').every((line) => JSON.parse(line)));
});

test('a long log is compacted to its end and to those who live', async () => {
  fs.mkdirSync(files(), { mode: 0o700 });
  const { pid, ended } = sleeper();
  const who = await identify(pid);
  assert.ok(who);
  const noise = Array.from({ length: 30_000 }, (_, i) => record('spawned', 100_000 + i, 'old') + record('completed', 100_000 + i, 'old')).join('');
  fs.writeFileSync(log(), record('started', pid, who.startTime) + noise, { mode: 0o600 });
  assert.ok(fs.statSync(log()).size > 8 * 1024 * 1024);
  const ledger = open();
  assert.ok(fs.statSync(log()).size < 1.2 * 1024 * 1024);
  assert.equal(fs.statSync(log()).mode & 0o777, 0o600);
  await ledger.settle('terminal', async () => [], 'test');
  const { orphaned } = await ledger.list();
  assert.ok(Array.isArray(orphaned));
  assert.deepEqual(orphaned.map((one: Json) => one.pid), [pid]);
  const next = open(); // what was compacted is read again
  await next.settle('terminal', async () => [], 'test');
  assert.deepEqual(await next.killOrphans(), { killed: [pid], failed: [] });
  await ended;
});

test('files that are links, foreign or gone do not stop the work', async () => {
  fs.mkdirSync(files(), { mode: 0o700 });
  fs.writeFileSync(path.join(world.home, 'target'), 'mine');
  fs.symlinkSync(path.join(world.home, 'target'), log());
  fs.writeFileSync(path.join(files(), 'active-processes.json'), '{"processes":[{"pid":"1"},null,7]}', { mode: 0o600 });
  const ledger = open();
  await ledger.settle('terminal', async () => [], 'test');
  await ledger.record({ event: 'opening', terminal: 'a', terminalId: `${prefix()}1` });
  assert.equal(fs.readFileSync(path.join(world.home, 'target'), 'utf8'), 'mine');
  assert.match(warnings.join(), /cannot be written/);
});

// ------------------------------------------------------------------------------------------------------ identities

test('records with a wrong start time are nobody: 1,000 of them are refused, and no signal is sent', async () => {
  fs.mkdirSync(files(), { mode: 0o700 });
  const living = fs.readdirSync('/proc').map(Number).filter((pid) => pid > 1);
  const forged = Array.from({ length: 1000 }, (_, i) => living[i % living.length] ?? 2);
  fs.writeFileSync(log(), forged.map((pid, i) => record('started', pid, `forged/${i}`, 'terminal')).join(''), { mode: 0o600 });
  const sent: unknown[] = [];
  system.signal = (...args) => sent.push(args) > 0;
  const ledger = open('end'); // and not at start either
  await ledger.settle('terminal', async () => [], 'test');
  for (const pid of forged) await rejects(ledger.kill(pid, undefined), 'E_REFUSED', /not in the ledger|one of our own/);
  assert.deepEqual(await ledger.killOrphans(), { killed: [], failed: [] });
  assert.deepEqual(sent, []);
});

test('a pid that is another process at the moment of the signal is not signalled, 1,000 times', async () => {
  const sent: unknown[] = [];
  const { pid, ended } = sleeper(); // it leads a group, which is not signalled either
  const ledger = open();
  await ledger.settle('terminal', async () => [], 'test');
  const who = await identify(pid);
  const started = async (round: number): Promise<void> => {
    Object.assign(system, real, { signal: (...args: unknown[]) => sent.push(args) > 0 });
    await ledger.record({ event: 'opening', terminal: 'a', terminalId: `${prefix()}${round}` });
    await ledger.record({ event: 'started', terminal: 'a', terminalId: `${prefix()}${round}`, pid, shell: true });
  };
  for (let round = 0; round < 1000; round++) {
    await started(round);
    system.startTime = () => `${who?.startTime}9`; // the look has just seen it: now it ended, and its number went to somebody else
    const result = await ledger.kill(pid, [undefined, 'SIGKILL', 'SIGUSR1'][round % 3]);
    assert.deepEqual(result.failed, []);
  }
  assert.deepEqual(sent, []);
  await started(1000);
  await ledger.kill(pid, 'SIGUSR1');
  assert.deepEqual(sent, [[-pid, 'SIGUSR1'], [pid, 'SIGUSR1']]); // who it is, is signalled
  Object.assign(system, real);
  process.kill(pid, 'SIGKILL');
  await ended;
});

test('pid 1, our own processes, strangers and nonsense are refused with what can be done', async () => {
  const ledger = open();
  await ledger.settle('terminal', async () => [], 'test');
  const sent: unknown[] = [];
  system.signal = (...args) => sent.push(args) > 0;
  await rejects(ledger.kill(1, undefined), 'E_REFUSED', /not in the ledger.*process_list/);
  await rejects(ledger.kill(process.pid, undefined), 'E_REFUSED', /the Host, one of our own/);
  for (const pid of [0, -1, 1.5, '7', null, Number.NaN]) await rejects(ledger.kill(pid, undefined), 'E_ARGUMENTS', /process id/);
  assert.deepEqual(sent, []);
});

test('what carries a tag of ours and was never recorded is found at the start; other tags are not ours', async () => {
  fs.mkdirSync(files(), { mode: 0o700 });
  fs.writeFileSync(log(), record('starting', 0, '', 'terminal'), { mode: 0o600 });
  const mine = sleeper(`outer:${prefix()}lost`);
  const foreign = sleeper(`${tagPrefix('/elsewhere', world.workspace)}x`);
  const ledger = open('ask');
  await ledger.settle('terminal', async () => [], 'test');
  const { orphaned, ask } = await ledger.section();
  assert.ok(Array.isArray(orphaned));
  assert.deepEqual(orphaned.map(({ pid }: Json) => pid), [mine.pid]);
  assert.match(String(ask), /Ask the user/);
  assert.deepEqual(await ledger.killOrphans(), { killed: [mine.pid], failed: [] });
  await mine.ended;
  process.kill(foreign.pid, 'SIGKILL');
  await foreign.ended;
  assert.match(fs.readFileSync(log(), 'utf8'), /"event":"orphaned".*\n(.*\n)*.*"event":"killed"/);
});

test('orphans are ended at the start where the setting says so', async () => {
  const first = open();
  await first.settle('terminal', async () => [], 'test');
  const { pid, ended } = sleeper(`${prefix()}1`);
  await first.record({ event: 'opening', terminal: 'a', terminalId: `${prefix()}1` });
  await first.record({ event: 'started', terminal: 'a', terminalId: `${prefix()}1`, pid, shell: true });
  const next = open('end');
  await next.settle('terminal', async () => [], 'a crash');
  await ended;
  const { active, orphaned } = await next.section();
  assert.deepEqual([active, orphaned], [[], []]);
});

test('nothing is scanned when nothing is tracked', async () => {
  const ledger = open();
  await ledger.settle('terminal', async () => [], 'test');
  system.family = () => assert.fail('looked');
  assert.deepEqual(await ledger.section(), { active: [], orphaned: [], tracked: false });
});

test('the section of a result has at most 2 KB, orphans among them, and counts the rest', () => {
  const entry = (pid: number): Json => ({ name: 'node', pid, command: 'é'.repeat(120), terminal: 'dev', age: 1, children: { count: 3, names: ['a', 'b'] } });
  const many = Array.from({ length: 50 }, (_, i) => entry(i));
  for (const [active, orphaned] of [[many, []], [[], many], [many, many], [[entry(1)], []]] as const) {
    const section = fit(active, orphaned);
    assert.ok(Buffer.byteLength(JSON.stringify(section)) <= 2048);
    assert.ok(Array.isArray(section.active) && Array.isArray(section.orphaned));
    assert.equal(section.active.length + section.orphaned.length + Number(section.more ?? 0), active.length + orphaned.length);
    if (orphaned.length) assert.ok(section.orphaned.length > 0);
  }
});

// ---------------------------------------------------------------------------------------------------- other systems

// As `ps -axwwE -o pid=,ppid=,pgid=,stat=,lstart=,command=` prints it on macOS 14 with TZ=UTC LC_ALL=C.
const PS = `    1     0     1 Ss   Mon Nov  2 09:00:00 2026     /sbin/launchd
  501     1   501 Ss   Mon Nov  2 09:10:00 2026     /usr/bin/script -q /dev/null /bin/zsh -i VSCODE_DEVTOOLS_TAG=T1 HOME=/Users/a b
  502   501   502 Ss+  Mon Nov  2 09:10:01 2026     /bin/zsh -i HOME=/Users/a VSCODE_DEVTOOLS_TAG=T0:T1
  510   502   510 S+   Mon Nov 12 10:00:00 2026     node server.js
  511     1   511 S    Mon Nov 12 10:00:00 2026     node daemon.js VSCODE_DEVTOOLS_TAG=T1 LANG=C
  512   502   512 Z    Mon Nov 12 10:00:00 2026     (node)
  600     1   600 S    Mon Nov 12 10:00:00 2026     /bin/zsh -i VSCODE_DEVTOOLS_TAG=OTHER
garbage
`;

test('a listing of macOS: descendants, the tagged daemon, no zombie, nobody else', () => {
  const all = parsePsList(PS);
  assert.deepEqual(all.map(({ pid }) => pid), [1, 501, 502, 510, 511, 600]);
  const rows = familyIn(all, [{ pid: 502, startTime: 'Mon Nov  2 09:10:01 2026', owner: 'T1' }], (tag) => (tag === 'T1' ? tag : undefined));
  assert.deepEqual(rows.map(({ pid }) => pid).sort(), [501, 502, 510, 511]);
  assert.deepEqual(familyIn(all, [{ pid: 502, startTime: 'Mon Nov  2 09:10:02 2026', owner: 'T1' }]), []); // another process by now
  assert.ok(all.every(({ command }) => !/TAG|HOME/.test(command))); // an environment is not for anybody's eyes
  assert.deepEqual(rows.find(({ pid }) => pid === 510), { pid: 510, ppid: 502, pgrp: 510, name: 'node', startTime: 'Mon Nov 12 10:00:00 2026', owner: 'T1' });
});

test('a tree is followed to a depth and a count, and a circle of parents (pids come round) once', () => {
  const one = (pid: number, ppid: number): Listed => ({ pid, ppid, pgrp: 0, startTime: 't', name: 'x', command: 'x' });
  const root = { pid: 1000, startTime: 't', owner: 'T' };
  const deep = Array.from({ length: 500 }, (_, i) => one(1000 + i, 999 + i));
  assert.deepEqual(familyIn(deep, [root]).map(({ pid }) => pid), Array.from({ length: 65 }, (_, i) => 1000 + i));
  const wide = [one(1000, 1), ...Array.from({ length: 9000 }, (_, i) => one(2000 + i, 1000))];
  assert.equal(familyIn(wide, [root]).length, 4000);
  assert.deepEqual(familyIn([one(1000, 1002), one(1001, 1000), one(1002, 1001)], [root]).map(({ pid }) => pid), [1000, 1001, 1002]);
});

// As the CIM script prints it in Windows PowerShell 5.1.
const CIM = JSON.stringify([
  { p: 0, q: 0, n: 'System Idle Process', c: null, t: '' },
  { p: 4, q: 0, n: 'System', c: null, t: '2026-11-02T08:00:00.0000000Z' },
  { p: 900, q: 600, n: 'svchost.exe', c: null, t: '2026-11-02T08:00:01.0000000Z' },
  { p: 5000, q: 4000, n: 'powershell.exe', c: 'powershell.exe -NoLogo -NoExit', t: '2026-11-02T09:00:00.1234567Z' },
  { p: 5001, q: 5000, n: 'node.exe', c: '"C:\\Program Files\\nodejs\\node.exe" server.js', t: '2026-11-02T09:00:01.0000000Z' },
  { p: 5002, q: 5001, n: 'esbuild.exe', c: 'esbuild.exe --service', t: '2026-11-02T09:00:02.0000000Z' },
  { p: 5003, q: 1, n: 'other.exe', c: 'other.exe', t: '2026-11-02T09:00:02.0000000Z' },
]);

test('a listing of Windows: the tree under a shell, the system left out; one process is an object', () => {
  const all = parseCim(CIM);
  assert.deepEqual(all.map(({ name }) => name), ['powershell.exe', 'node.exe', 'esbuild.exe', 'other.exe']);
  assert.deepEqual(familyIn(all, [{ pid: 5000, startTime: '2026-11-02T09:00:00.1234567Z', owner: 'T' }]).map(({ pid, ppid }) => [pid, ppid]), [[5000, 4000], [5001, 5000], [5002, 5001]]);
  assert.equal(parseCim('{"p":7,"q":1,"n":"a.exe","c":null,"t":"x"}').length, 1);
  assert.throws(() => parseCim('not json'));
});

// ---------------------------------------------------------------------------------------------------------- stacks

test('every stack is known by its files', () => {
  const cases: Record<string, [string, string]> = {
    'package.json': ['Node.js', 'node'], 'pnpm-lock.yaml': ['pnpm', 'pnpm'], 'bun.lockb': ['Bun', 'bun'], 'bun.lock': ['Bun', 'bun'], 'deno.json': ['Deno', 'deno'], 'deno.jsonc': ['Deno', 'deno'],
    'Cargo.toml': ['Rust', 'cargo'], 'pyproject.toml': ['Python', 'python'], 'go.mod': ['Go', 'go'], 'tsconfig.json': ['TypeScript', 'tsc'], 'yarn.lock': ['Yarn', 'yarn'], 'uv.lock': ['uv', 'uv'],
    'build.gradle.kts': ['Gradle', 'gradle'], 'pom.xml': ['Maven', 'mvn'], 'App.csproj': ['.NET', 'dotnet'], 'Gemfile': ['Ruby', 'ruby'], 'composer.json': ['PHP', 'php'], 'poetry.lock': ['Poetry', 'poetry'],
  };
  for (const [file, [stack, expected]] of Object.entries(cases)) {
    const dir = fs.mkdtempSync(path.join(world.home, 'stack'));
    fs.writeFileSync(path.join(dir, file), '');
    const { detectedStacks, projectRoot, expectedProcesses } = analyzeWorkspace(dir);
    assert.deepEqual([detectedStacks, projectRoot, expectedProcesses.includes(expected)], [[stack], dir, true], file);
  }
  assert.ok(STACKS.every(({ processes }) => processes.length > 0));
});

test('nested projects are found, installed packages are not', () => {
  const write = (file: string, text = '{}'): void => {
    fs.mkdirSync(path.dirname(path.join(world.workspace, file)), { recursive: true });
    fs.writeFileSync(path.join(world.workspace, file), text);
  };
  write('package.json', '{"workspaces":["packages/*"],"scripts":{"dev":"vite","build":"tsc","lint:watch":"eslint --watch","test":"node --test"}}');
  write('pnpm-lock.yaml');
  write('packages/a/package.json');
  write('packages/b/Cargo.toml');
  write('node_modules/x/go.mod');
  write('.hidden/pom.xml');
  const analysis = analyzeWorkspace(world.workspace);
  assert.deepEqual(analysis.projects, [{ path: '.', stacks: ['Node.js', 'pnpm'] }, { path: 'packages/a', stacks: ['Node.js'] }, { path: 'packages/b', stacks: ['Rust'] }]);
  assert.deepEqual([analysis.packageManager, analysis.detectedStacks], ['pnpm', ['Node.js', 'pnpm', 'Rust']]);
  assert.deepEqual(analysis.devServers.map(({ command }) => command), ['pnpm run dev', 'pnpm run lint:watch']);
  assert.deepEqual(analyzeWorkspace(path.join(world.workspace, 'nowhere')).detectedStacks, []);
});

test('a package.json that is a device, a FIFO or a link is not read', () => {
  for (const target of ['/dev/zero', '/etc/passwd']) {
    fs.rmSync(path.join(world.workspace, 'package.json'), { force: true });
    fs.symlinkSync(target, path.join(world.workspace, 'package.json'));
    assert.deepEqual(analyzeWorkspace(world.workspace).devServers, []);
  }
  fs.rmSync(path.join(world.workspace, 'package.json'));
  spawnSync('mkfifo', [path.join(world.workspace, 'package.json')]);
  assert.deepEqual(analyzeWorkspace(world.workspace).devServers, []);
});

test('a command that starts a server is told from one that ends', () => {
  const servers = ['npm run dev', 'npm start', 'pnpm dev', 'yarn serve', 'bun run watch', 'npx vite', 'vite --port 3000', 'npx vite --host', 'next dev', 'tsc -w', 'tsc --noEmit --watch', 'nodemon app.js', 'node --watch a.js', 'cd app && npm run start:dev', 'python3 -m http.server 8000', 'flask --app x run', 'uvicorn main:app', 'python manage.py runserver', 'cargo watch', 'rails s', 'php -S localhost:80', 'dotnet watch run', './gradlew bootRun', 'mvn spring-boot:run', 'docker compose up', 'deno task dev', 'FOO=1 npm run dev:server'];
  const others = ['npm test', 'npm run build', 'npm ci', 'vite build', 'next build', 'tsc -p .', 'cargo build', 'git log', 'echo dev', 'python3 x.py', 'docker compose up -d', 'go test ./...', 'ls dist/server', 'npm install nodemon vite', 'cat start.txt'];
  for (const command of servers) assert.notEqual(devServerIn(command), undefined, command);
  for (const command of others) assert.equal(devServerIn(command), undefined, command);
  assert.equal(devServerIn('npm run go', { go: 'vite' }), 'npm run go (vite)');
  assert.equal(devServerIn('npm run go', { go: 'vite build' }), undefined);
});

test('a ledger that is being watched notices by itself what was started and what has ended', async () => {
  const ledger = open();
  await ledger.settle('terminal', async () => [], 'test');
  const terminalId = `${prefix()}1`;
  const shell = spawn('sh', ['-c', 'sleep 1; sleep 301 & wait'], { stdio: 'ignore', env: { ...world.env(), VSCODE_DEVTOOLS_TAG: terminalId } });
  await ledger.record({ event: 'opening', terminal: 'a', terminalId });
  await ledger.record({ event: 'started', terminal: 'a', terminalId, pid: shell.pid, shell: true });
  await ledger.record({ event: 'command', terminal: 'a', terminalId, command: 'x' });
  await waitFor(() => /"event":"spawned".*"cmd":"sleep 301"/.test(fs.readFileSync(log(), 'utf8')), 'the look of its own accord');
  assert.match(ledger.busyWith(), /work in 1 terminal/);
  await ledger.record({ event: 'closed', terminal: 'a', terminalId });
  assert.deepEqual([ledger.busyWith(), ledger.isTracking], ['', false]);
});
