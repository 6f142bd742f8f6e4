// The MCP server under pressure: clients that do not read, do not wait, or leave; a Host that stops.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import { afterEach, beforeEach, test } from 'node:test';
import { isObject } from '../bootstrap.js';
import { World, body, kill, modern, serverFile, slowClient, waitFor } from './lib.ts';

let world: World;
beforeEach(() => {
  world = new World();
});
afterEach(() => world.end());

test('a client that never reads is not listened to until it does, and gets every answer then', async () => {
  const child = spawn(process.execPath, [serverFile, '--workspace', world.workspace, '--tools', 'devtools'], { env: world.env(), stdio: ['pipe', 'pipe', 'inherit'] });
  child.stdin.write('{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}\n');
  await new Promise((resolve) => child.stdout.once('data', resolve));
  child.stdout.pause();
  let sent = 0;
  const request = (): string => `{"jsonrpc":"2.0","id":${++sent},"method":"tools/list"}\n`;
  // Until our own end is full too: the server has stopped reading.
  while (child.stdin.write(Array.from({ length: 1000 }, request).join(''))) await new Promise((resolve) => setImmediate(resolve));
  while (child.stdin.writableLength < 1024 * 1024) child.stdin.write(Array.from({ length: 1000 }, request).join(''));
  await waitFor(() => {
    const before = child.stdin.writableLength;
    return new Promise((resolve) => setTimeout(() => resolve(child.stdin.writableLength === before), 100));
  }, 'the server to stop reading');
  const rss = Number(/VmRSS:\s+(\d+)/.exec(fs.readFileSync(`/proc/${child.pid}/status`, 'utf8'))?.[1]) / 1024;
  assert.ok(rss < 250, `${rss} MB resident while nobody reads`);
  let text = '';
  child.stdout.setEncoding('utf8').on('data', (chunk: string) => (text += chunk)).resume();
  child.stdin.end();
  const code = await new Promise((resolve) => child.once('close', resolve));
  assert.equal(code, 0);
  const ids = text.trimEnd().split('\n').map((line) => JSON.parse(line).id);
  assert.deepEqual(ids, [...Array.from({ length: sent }, (_, index) => index + 1)]);
});

test('a client that closes stdin and reads nothing does not keep the server', async () => {
  const child = spawn(process.execPath, [serverFile, '--workspace', world.workspace, '--tools', 'devtools'], { env: world.env(), stdio: ['pipe', 'pipe', 'inherit'] });
  child.stdin.end(Array.from({ length: 1500 }, (_, id) => `${JSON.stringify({ jsonrpc: '2.0', id, method: 'tools/list', params: modern() })}\n`).join(''));
  const [code] = await once(child, 'exit', { signal: AbortSignal.timeout(20_000) });
  assert.equal(code, 0);
});

test('a burst of calls is answered whole, and beyond the cap each with E_BUSY', async () => {
  const slow = slowClient(world);
  const client = world.mcp({ file: slow.file });
  await client.initialize();
  const calls = Array.from({ length: 5000 }, () => client.request('tools/call', { name: 'devtools_status' }));
  await waitFor(() => client.messages.filter((message) => 'error' in message).length === 5000 - 4096, 'the refusals');
  fs.writeFileSync(slow.release, '');
  const answers = await Promise.all(calls);
  assert.equal(answers.filter((answer) => 'result' in answer).length, 4096);
  for (const { error } of answers) assert.ok(error === undefined || (isObject(error) && isObject(error.data) && error.data.code === 'E_BUSY'));
});

test('the end of stdin ends the server within 100 ms and loses no answer that is computed', async () => {
  const took: number[] = [];
  for (let round = 0; round < 5; round++) {
    const client = world.mcp();
    await client.initialize();
    await client.call('devtools_status');
    for (let id = 0; id < 500; id++) client.send({ jsonrpc: '2.0', id: `p${id}`, method: 'ping' });
    const started = performance.now();
    client.child.stdin.end();
    await new Promise((resolve) => client.child.once('close', resolve));
    took.push(performance.now() - started);
    assert.equal(client.messages.filter(({ id }) => String(id).startsWith('p')).length, 500);
    assert.deepEqual(client.exited, { code: 0, signal: null });
  }
  assert.ok(Math.min(...took) < 100, `took ${took.map(Math.round).join(', ')} ms`); // the best of five: the machine is shared
});

test('a client that takes its answers slowly gets all of them after it has closed stdin', async () => {
  const child = spawn(process.execPath, [serverFile, '--workspace', world.workspace], { env: world.env(), stdio: ['pipe', 'pipe', 'inherit'] });
  child.stdin.end(Array.from({ length: 100 }, (_, id) => `${JSON.stringify({ jsonrpc: '2.0', id, method: 'tools/list', params: modern() })}\n`).join(''));
  let text = '';
  child.stdout.setEncoding('utf8').on('data', (chunk: string) => {
    text += chunk;
    child.stdout.pause();
    setTimeout(() => child.stdout.resume(), 20);
  });
  await new Promise((resolve) => child.once('close', resolve));
  assert.equal(text.split('\n').length, 101);
});

test('a Host that stops is noticed: status says so and starts no other', async () => {
  const client = world.mcp();
  await client.initialize();
  const before = body(await client.call('devtools_status'), 'host');
  kill(Number(before.pid), 'SIGSTOP');
  await client.until(({ method, params }) => method === 'notifications/message' && /the Host does not answer/.test(String(isObject(params) && params.data)), 'the warning', 10_000);
  const status = await client.call('devtools_status');
  assert.equal(body(status, 'host').state, 'unresponsive');
  assert.deepEqual(world.processes().filter(({ role }) => role === 'host').map(({ pid }) => pid), [before.pid]);
  kill(Number(before.pid), 'SIGCONT');
  await client.until(({ params }) => /answers again/.test(String(isObject(params) && params.data)), 'the good news');
  assert.equal(body(await client.call('devtools_status'), 'host').pid, before.pid);
});
