// Storms and sudden deaths: many servers at once, and kill -9 at every step that the code names.

import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { isListening, pipePath } from '../bootstrap.js';
import { World, body, changedCopy, kill, root, serverFile, waitFor, type Json, type McpClient } from './lib.ts';

const SERVERS = 32;
const ROUNDS = 20;

/** Every socket in the world is held by a living process, and each name by exactly one. */
async function assertNoStray(world: World): Promise<void> {
  for (const file of world.sockets()) assert.equal(await isListening(path.join(world.dir, file)), true, `stray socket ${file}`);
  assert.deepEqual(world.processes().filter(({ role }) => role === 'host').length <= 1, true, 'more than one Host');
}

/** A server's view of who is there. */
async function statusOf(client: McpClient): Promise<{ host: unknown; client: unknown; states: unknown[] }> {
  const status = await client.call('devtools_status');
  const [host, own] = [body(status, 'host'), body(status, 'client')];
  return { host: host.pid, client: own.pid, states: [host.state, own.state] };
}

for (const stale of [false, true]) {
  test(`${SERVERS} servers started at once against ${stale ? 'a stale name' : 'no Host'}, ${ROUNDS} rounds: one Host, one Client, all connected`, async () => {
    for (let round = 0; round < ROUNDS; round++) {
      const world = new World('s');
      try {
        if (stale) {
          const dead = spawn(process.execPath, [path.join(root, 'bootstrap.js'), 'host'], { env: world.env(), stdio: ['ignore', 'pipe', 'inherit'] });
          await new Promise((resolve) => dead.stdout.once('data', resolve));
          dead.kill('SIGKILL');
          await new Promise((resolve) => dead.once('exit', resolve));
          assert.equal(fs.existsSync(pipePath(world.dir, 'host')), true);
        }
        const servers = Array.from({ length: SERVERS }, () => world.mcp());
        const seen = await Promise.all(servers.map(async (server) => (await server.initialize(), statusOf(server))));
        for (const { states } of seen) assert.deepEqual(states, ['connected', 'connected'], `round ${round}`);
        assert.equal(new Set(seen.map(({ host }) => host)).size, 1, `round ${round}: one Host`);
        assert.equal(new Set(seen.map(({ client }) => client)).size, 1, `round ${round}: one Client`);
        await waitFor(() => world.processes().filter(({ role }) => role !== 'mcp').length === 2, 'the losers of the race to end');
        await waitFor(() => world.sockets().length === 4, `two names, two generations; there are ${world.sockets().join(' ')}`);
        await assertNoStray(world);
      } finally {
        await world.end();
      }
    }
  });
}

// ----------------------------------------------------------------------------------------------- kill -9, step by step

/** Every step that the sources name, by the actor that passes it. */
function namedSteps(): string[] {
  const steps: string[] = [];
  const shared = /step\((['`])([\w.]+(?:\$\{roleName\})?)\1\)/g;
  const read = (file: string): string => fs.readFileSync(path.join(root, file), 'utf8');
  for (const [, , name = ''] of read('mcp.ts').matchAll(shared)) steps.push(`mcp.${name}`);
  for (const [, , name = ''] of read('host.ts').matchAll(shared)) steps.push(`host.${name}`);
  for (const [, , name = ''] of read('bootstrap.js').matchAll(shared)) {
    if (name.endsWith('${roleName}')) steps.push(`mcp.${name.replace('${roleName}', 'host')}`, `host.${name.replace('${roleName}', 'client')}`);
    else steps.push(`host.${name}`, `client.${name}`);
  }
  return [...new Set(steps)].sort();
}

// What is told to a Client's own status shows which source it runs.
const BUILD = "import fs from 'node:fs'; fs.copyFileSync('client.ts', 'dist/client.js');";
const sourceOf = (said: string): string => `${fs.readFileSync(path.join(root, 'dist', 'client.js'), 'utf8')}\nexports.said = ${JSON.stringify(said)};\n`;

/** A checkout of ours in a world of its own: its sources count, so that there is something to reload. */
function checkout(world: World): { file: string; edit: (said: string) => void } {
  const file = changedCopy(world, 'checkout', { files: { 'host.ts': '', 'client.ts': sourceOf('one'), 'build.mjs': BUILD } });
  return { file, edit: (said) => fs.writeFileSync(path.join(path.dirname(path.dirname(file)), 'client.ts'), sourceOf(said)) };
}

/** One life of the product: a server starts, calls, reloads, is taken over, ends; then the Host is stopped. Failures are what it is about. */
async function oneLife(world: World, fault: string): Promise<void> {
  const env = { VSCODE_DEVTOOLS_FAULT: fault };
  const { file, edit } = checkout(world);
  const command = (word: string): Promise<unknown> => new Promise((resolve) => spawn(process.execPath, [file, 'host', word], { env: world.env(env), stdio: 'ignore' }).on('exit', resolve));
  const server = world.mcp({ file, env });
  const attempt = (work: () => Promise<unknown>): Promise<unknown> => (server.exited ? Promise.resolve() : work().catch(() => {})); // killed, or its answer lost
  await attempt(() => server.initialize());
  await attempt(() => server.call('terminal_run', { command: 'true' }));
  edit('two');
  await attempt(() => server.call('terminal_run', { command: 'true' }));
  await command('takeover');
  await attempt(() => server.call('devtools_status'));
  server.child.stdin.end();
  await server.exit();
  await command('stop');
}

/** Lets a stopped process go on after a while in which the others had to do without it. */
async function letGoOn(world: World, reached: string, isOver: () => boolean): Promise<void> {
  const isStopped = (pid: number): boolean => {
    try {
      return /^State:\s+T/m.test(fs.readFileSync(`/proc/${pid}/status`, 'utf8'));
    } catch {
      return false; // gone
    }
  };
  while (!isOver()) {
    await waitFor(() => isOver() || (fs.existsSync(reached) && world.processes().some(({ pid }) => isStopped(pid))), 'a process to stop', 120_000);
    await Promise.race([waitFor(isOver, 'the rest', STALL_MS).catch(() => {})]); // for so long it does not answer
    for (const { pid } of world.processes()) if (isStopped(pid)) kill(pid, 'SIGCONT');
  }
}

/** One Host, one Client, a session file that tells the truth, nothing outside the ledger, and the next start without help. */
async function checkInvariants(world: World, what: string): Promise<void> {
  const next = world.mcp({ file: path.join(world.home, 'copy-checkout', 'dist', 'mcp.js') });
  await next.initialize();
  const { states, host, client } = await statusOf(next);
  assert.deepEqual(states, ['connected', 'connected'], what);
  const run = await next.call('terminal_run', { command: 'echo works; (exit 3)' });
  assert.deepEqual([run.output, run.exitCode], ['works\n', 3], `${what}: ${JSON.stringify(run)}`);
  const now = await statusOf(next); // the Client may have been swapped for the sources that were edited
  // A Client whose Host died is adopted by the next Host; one that nobody knows of ends by itself.
  await waitFor(() => world.processes().filter(({ role }) => role === 'host' || role === 'client').length === 2, `${what}: only Host ${String(host)} and Client ${String(client)} to be left`, 20_000);
  assert.equal(JSON.parse(fs.readFileSync(path.join(world.workspace, '.devtools', 'host-session.json'), 'utf8')).clientPid, now.client, what);
  await waitFor(async () => {
    const known = JSON.stringify(await next.call('process_list'));
    return world.processes().every(({ pid, role }) => role !== 'other' || known.includes(`"pid":${pid},`)); // a shell's prompt starts some for an instant
  }, `${what}: every process to be in the ledger`);
  await assertNoStray(world);
  await next.close();
  const stopped = spawnSync(process.execPath, [serverFile, 'host', 'stop'], { env: world.env(), encoding: 'utf8', timeout: 20_000 });
  assert.match(stopped.stdout, /stopped the Host/, what);
  await waitFor(() => world.processes().length === 0, `${what}: everything to end`);
  assert.deepEqual(world.sockets(), [], what);
  const verified = spawnSync(process.execPath, [serverFile, 'audit', '--verify', '--workspace', world.workspace], { env: world.env(), encoding: 'utf8' });
  assert.equal(verified.status, 0, verified.stdout);
}

const STALL_MS = 5000; // longer than it takes to be noticed
const AT_ONCE = 3;

for (const [kind, what] of [['kill', 'kill -9'], ['error', 'an error'], ['stop', 'a hang of five seconds']] as const) {
  test(`${what} at every named step of start, call, reload, takeover and stop: the next start works by itself and nothing is left`, async (context) => {
    const steps = namedSteps();
    assert.ok(steps.length > 30, `only ${steps.length} steps: ${steps.join(' ')}`);
    const rest = [...steps];
    let runs = 0;
    const worker = async (): Promise<void> => {
      for (let step = rest.shift(); step; step = rest.shift()) {
        const world = new World('k');
        const name = `${kind} at ${step}`;
        let problem = '';
        try {
          const reached = path.join(world.home, 'reached');
          let isOver = false;
          const going = kind === 'stop' ? letGoOn(world, reached, () => isOver) : Promise.resolve();
          await oneLife(world, `${kind}:${step}:${reached}`).finally(() => (isOver = true));
          await going;
          assert.equal(fs.existsSync(reached), true, `${step} was not reached`);
          await checkInvariants(world, name);
          runs++;
        } catch (error) {
          problem = error instanceof Error ? String(error.stack) : String(error);
        }
        await world.end().catch((error) => (problem += `\nat the end: ${String(error)}`));
        if (problem) throw new Error(`${name}: ${problem}`);
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, worker));
    context.diagnostic(`${steps.length} steps, ${runs} runs`);
    assert.equal(runs, steps.length);
  });
}

test('kill -9 of Host or Client under 50 calls: every call is answered with a status, and the next finds both', async () => {
  const world = new World('m');
  try {
    for (let round = 0; round < 20; round++) {
      const server = world.mcp();
      await server.initialize();
      const { host, client } = await statusOf(server);
      const victim = [host, client][round % 2];
      const calls = Array.from({ length: 50 }, () => server.call('devtools_status'));
      kill(Number(victim), 'SIGKILL');
      for (const result of await Promise.all(calls)) assert.ok(isStatus(result), JSON.stringify(result));
      assert.deepEqual((await statusOf(server)).states, ['connected', 'connected']);
      server.child.kill('SIGKILL');
      await server.exit();
    }
    await assertNoStray(world);
  } finally {
    await world.end();
  }
});

test('a Client that no Host holds for 10 s ends itself and leaves no socket', async () => {
  const world = new World('l');
  try {
    const server = world.mcp();
    await server.initialize();
    const { host, client } = await statusOf(server);
    server.child.kill('SIGKILL'); // it would start another Host
    await server.exit();
    kill(Number(host), 'SIGKILL');
    const alone = performance.now();
    await waitFor(() => !world.processes().some(({ pid }) => pid === client), 'the Client to end', 20_000);
    assert.ok(performance.now() - alone > 9000, 'not before a next Host had its chance');
    assert.deepEqual(world.sockets().filter((file) => file.startsWith('client')), []);
  } finally {
    await world.end();
  }
});

const isStatus = (result: Json): boolean => 'host' in result && 'client' in result;

test('the audit log rotates at its cap, keeps the chain over its files, and verifies', async () => {
  const world = new World('a');
  try {
    const server = world.mcp();
    await server.initialize();
    const dir = path.join(world.workspace, '.devtools', 'audit');
    const files = (): string[] => fs.readdirSync(dir);
    await server.call('devtools_status');
    while (files().length < 2) await Promise.all(Array.from({ length: 500 }, () => server.call('devtools_status')));
    await server.close();
    for (const file of files()) assert.ok(fs.statSync(path.join(dir, file)).size < 9 * 1024 * 1024);
    const { stdout, status } = spawnSync(process.execPath, [serverFile, 'audit', '--verify', '--workspace', world.workspace], { env: world.env(), encoding: 'utf8' });
    assert.equal(status, 0);
    assert.match(stdout, /^\S+: \d+ records, chain intact, 0 calls with unknown outcome\n$/);
  } finally {
    await world.end();
  }
});
