// Storms and sudden deaths: many servers at once, and kill -9 at every step that the code names.

import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { isListening, pipePath } from '../bootstrap.js';
import { World, body, kill, root, serverFile, waitFor, type Json, type McpClient } from './lib.ts';

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

/** One life of the product: a server starts, calls, ends; then the Host is stopped. Failures are what it is about. */
async function oneLife(world: World, fault: string): Promise<void> {
  const env = { VSCODE_DEVTOOLS_FAULT: fault };
  const server = world.mcp({ env });
  await server.initialize().then(() => server.call('devtools_status')).catch(() => {}); // killed, or its answer lost
  server.child.stdin.end();
  await server.exit();
  spawnSync(process.execPath, [serverFile, 'host', 'stop'], { env: world.env(), timeout: 20_000 });
}

test('kill -9 at every named step of start, call and stop: the next start works by itself and nothing is left', async () => {
  const steps = namedSteps();
  assert.ok(steps.length > 25, `only ${steps.length} steps: ${steps.join(' ')}`);
  for (const step of steps) {
    const world = new World('k');
    try {
      const reached = path.join(world.home, 'reached');
      await oneLife(world, `kill:${step}:${reached}`);
      assert.equal(fs.existsSync(reached), true, `${step} was not reached`);
      const next = world.mcp();
      await next.initialize();
      const { states, host, client } = await statusOf(next);
      assert.deepEqual(states, ['connected', 'connected'], step);
      // A Client whose Host died is adopted by the next Host; one that nobody knows of ends by itself.
      await waitFor(() => world.processes().filter(({ role }) => role !== 'mcp').length === 2, `${step}: only Host ${String(host)} and Client ${String(client)} to be left`, 15_000);
      await assertNoStray(world);
      await next.close();
      const stopped = spawnSync(process.execPath, [serverFile, 'host', 'stop'], { env: world.env(), encoding: 'utf8', timeout: 20_000 });
      assert.match(stopped.stdout, /stopped the Host/, step);
      await waitFor(() => world.processes().length === 0, `${step}: everything to end`);
      assert.deepEqual(world.sockets(), [], step);
      const verified = spawnSync(process.execPath, [serverFile, 'audit', '--verify', '--workspace', world.workspace], { env: world.env(), encoding: 'utf8' });
      assert.equal(verified.status, 0, verified.stdout);
    } finally {
      await world.end();
    }
  }
});

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
