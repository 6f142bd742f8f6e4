// Sources that are newer than what runs: noticed, built, and swapped in. Here with a headless Client, whose own sources count.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { describe, test } from 'node:test';
import { changeSince, differences, readState, settle, takeState, writeState } from '../changes.ts';
import { buildCommand, bothEnds, copying } from '../host.ts';
import { World, body, changedCopy, root, waitFor, type Json, type McpClient } from './lib.ts';
import { spawnSync } from 'node:child_process';

/** A tree of sources in a world of its own. */
function tree(files: Record<string, string>): { dir: string; put: (file: string, text: string) => void; end: () => void } {
  const world = new World('c');
  const put = (file: string, text: string): void => {
    fs.mkdirSync(path.dirname(path.join(world.workspace, file)), { recursive: true });
    fs.writeFileSync(path.join(world.workspace, file), text);
  };
  for (const [file, text] of Object.entries(files)) put(file, text);
  return { dir: world.workspace, put, end: () => fs.rmSync(world.home, { recursive: true, force: true }) };
}

describe('what counts as a change', () => {
  const cases: Array<[string, (dir: string, put: (file: string, text: string) => void) => void, string]> = [
    ['nothing', () => {}, ''],
    ['an edit', (_dir, put) => put('src/a.ts', 'longer than it was'), 'src/a.ts'],
    ['an edit of the same length', (_dir, put) => put('src/a.ts', 'B'), 'src/a.ts'],
    ['an edit whose date was put back', (dir, put) => {
      const { atime, mtime } = fs.statSync(path.join(dir, 'src/a.ts'));
      put('src/a.ts', 'B');
      fs.utimesSync(path.join(dir, 'src/a.ts'), atime, mtime);
    }, 'src/a.ts'],
    ['an addition with an old date', (dir, put) => {
      put('src/old.ts', '');
      fs.utimesSync(path.join(dir, 'src/old.ts'), 1, 1);
    }, 'src/old.ts'],
    ['a date in the future', (dir) => fs.utimesSync(path.join(dir, 'src/b.ts'), 4e9, 4e9), 'src/b.ts'],
    ['a deletion', (dir) => fs.rmSync(path.join(dir, 'src/b.ts')), 'src/b.ts'],
    ['a renaming', (dir) => fs.renameSync(path.join(dir, 'src/b.ts'), path.join(dir, 'src/c.ts')), 'src/b.ts'],
    ['a file of another directory', (_dir, put) => put('other/new/x.ts', ''), 'other/new/x.ts'],
    ['what is never a source', (_dir, put) => ['node_modules/x/i.js', 'dist/a.js', '.git/HEAD', '.devtools/log', 'a.vsix'].forEach((file) => put(file, 'x')), ''],
    ['what .devtoolsignore names', (_dir, put) => ['out/a.js', 'src/a.log'].forEach((file) => put(file, 'x')), ''],
    ['what it names again', (_dir, put) => put('src/keep.log', 'x'), 'src/keep.log'],
    ['the ignore file itself', (_dir, put) => put('.devtoolsignore', 'out/\n'), '.devtoolsignore'],
  ];
  for (const [what, change, expected] of cases) test(what, async () => {
    const { dir, put, end } = tree({ 'src/a.ts': 'A', 'src/b.ts': 'b', 'src/deep/er/c.ts': '', 'out/a.js': '', '.devtoolsignore': 'out/\n*.log\n!keep.log\n', 'node_modules/x/i.js': '' });
    try {
      const state = await takeState([dir]);
      await settle(state, dir);
      const text = writeState(state, 'somebody');
      change(dir, put);
      const read = readState(text);
      assert.ok(read);
      assert.equal(read.owner, 'somebody');
      assert.equal(await changeSince(read), expected && path.join(dir, expected));
      assert.deepEqual(differences(state, await takeState([dir])).length > 0, expected !== '');
      if (!expected) assert.equal(await changeSince(read), '', 'and again');
    } finally {
      end();
    }
  });

  test('a source beside a product, a link, and a directory that cannot be read', async () => {
    const { dir, put, end } = tree({ 'a.js': '', 'sub/b.js': '' });
    try {
      fs.symlinkSync('/nowhere', path.join(dir, 'broken'));
      fs.symlinkSync(dir, path.join(dir, 'sub', 'loop')); // not followed
      const state = await takeState([dir]);
      put('dist/x.js', '');
      assert.equal(await changeSince(state), '');
      put('sub/c.js', '');
      assert.equal(await changeSince(state), path.join(dir, 'sub/c.js'));
      fs.rmSync(path.join(dir, 'sub/c.js'));
      fs.rmSync(path.join(dir, 'broken'));
      assert.equal(await changeSince(state), path.join(dir, 'broken'));
      fs.rmSync(dir, { recursive: true });
      assert.notEqual(await changeSince(state), '');
    } finally {
      end();
    }
  });

  test('where times are coarse, or another clock makes them, nothing is missed', async () => {
    const { dir, put, end } = tree({ 'a.js': 'A', 'sub/b.js': '' });
    try {
      const state = await takeState([dir]);
      const [sources] = state.roots;
      assert.ok(sources);
      sources.isCoarse = true;
      const before = performance.now();
      await settle(state, dir);
      assert.ok(performance.now() - before > 1500, 'whoever writes from now on leaves another time');
      put('sub/new.js', '');
      const { mtimeMs, ctimeMs, size } = fs.statSync(path.join(dir, 'sub'));
      sources.dirs.set('sub/', [mtimeMs, ctimeMs, size]); // as a clock of two seconds would have it
      assert.equal(await changeSince(state), path.join(dir, 'sub/new.js'));
      fs.utimesSync(path.join(dir, 'a.js'), 4e9, 4e9); // one in the future is not waited for
      const ahead = await takeState([dir]);
      const again = performance.now();
      await settle(ahead, dir);
      assert.ok(performance.now() - again < 1500);
    } finally {
      end();
    }
  });

  test('a state that is damaged is none', () => {
    for (const text of ['', 'x', 'x\n', 'x\n{}', 'x\n{"roots":1,"takenAt":1}', 'x\n{"roots":[{}],"takenAt":1}']) assert.equal(readState(text), undefined, text);
  });
});

describe('a build', () => {
  test('is the command that was set, else the script of the extension, else none', () => {
    const { dir, put, end } = tree({ 'package.json': '{"scripts":{"build":"tsc"}}' });
    assert.equal(buildCommand(dir, 'make'), 'make');
    assert.equal(buildCommand(dir, undefined), 'npm run build');
    put('package.json', '{"scripts":{"test":"x"}}');
    assert.equal(buildCommand(dir, undefined), '');
    put('package.json', '{');
    assert.equal(buildCommand(dir, undefined), '');
    end();
  });

  test('long words of a compiler are shown from both ends', () => {
    assert.equal(bothEnds('\x1b[31merror\x1b[0m\r\n'), 'error');
    const shown = bothEnds(`first error${'x'.repeat(10_000)}the sum`);
    assert.match(shown, /^first errorx+\n\[\d+ characters left out\]\nx+the sum$/);
    assert.ok(shown.length < 4100);
  });

  for (const shell of ['sh', 'bash', 'zsh', 'dash']) test(`what a task prints is copied, and its exit code kept, in ${shell}`, { skip: ['/usr/bin', '/bin'].some((bin) => fs.existsSync(`${bin}/${shell}`)) ? false : `no ${shell} here` }, () => {
    const { dir, end } = tree({});
    const file = path.join(dir, "it's.log");
    fs.writeFileSync(file, '');
    const { stdout, status } = spawnSync(shell, ['-c', copying('echo out; echo err >&2; (exit 7)', file)], { encoding: 'utf8' });
    assert.deepEqual([stdout, status, fs.readFileSync(file, 'utf8')], ['out\nerr\n', 7, 'out\nerr\n']);
    end();
  });
});

// A checkout of ours: its build copies the role's source to where it is run from, if the source is in order.
const BUILD = `import fs from 'node:fs';
fs.appendFileSync('built.count', 'x');
const source = fs.readFileSync('client.ts', 'utf8');
if (source.includes('BROKEN')) { console.error('client.ts:1:7: error: this is not TypeScript'); process.exit(2); }
fs.writeFileSync('dist/client.js', source);
fs.writeFileSync('product.js', String(Date.now()));
`;

type Checkout = { world: World; dir: string; mcp: McpClient; start: (env?: Record<string, string>) => Promise<McpClient>; edit: (said: string) => void; builds: () => number; said: (mcp?: McpClient) => Promise<unknown> };

async function checkout(extra: Record<string, string> = {}): Promise<Checkout> {
  const world = new World('r');
  const real = fs.readFileSync(path.join(root, 'dist', 'client.js'), 'utf8');
  const sourceOf = (said: string): string => `${real}\nconst registerReal = module.exports.register;\nmodule.exports = { register: (role) => { registerReal(role); const status = role.peers; role.handle('client.status', () => ({ said: ${JSON.stringify(said)}, pid: process.pid })); } };\n`;
  const file = changedCopy(world, 'checkout', { files: { 'host.ts': '', 'client.ts': sourceOf('one'), 'dist/client.js': sourceOf('one'), 'build.mjs': BUILD, '.devtoolsignore': 'built.count\n', ...extra } });
  const dir = path.dirname(path.dirname(file));
  const start = async (env: Record<string, string> = {}): Promise<McpClient> => {
    const mcp = world.mcp({ file, env });
    await mcp.initialize();
    return mcp;
  };
  const mcp = await start();
  return {
    world, dir, mcp, start,
    edit: (said) => fs.writeFileSync(path.join(dir, 'client.ts'), said === 'BROKEN' ? 'BROKEN' : sourceOf(said)),
    builds: () => (fs.existsSync(path.join(dir, 'built.count')) ? fs.statSync(path.join(dir, 'built.count')).size : 0),
    said: async (one = mcp) => body(await one.call('devtools_status'), 'client').said,
  };
}

const clientPid = async (mcp: McpClient): Promise<unknown> => body(await mcp.call('devtools_status'), 'client').pid;

describe('hot reload of a headless Client', () => {
  test('an edit is built and swapped in before the next command, once; a product is no source; what broke is told, and what was mended runs', async () => {
    const { world, mcp, edit, builds, said } = await checkout();
    try {
      const first = await mcp.call('terminal_run', { command: 'echo one' });
      assert.deepEqual([first.output, first.reload, first.reloadPending], ['one\n', undefined, undefined]);
      assert.deepEqual([await said(), builds()], ['one', 0]);
      edit('two');
      const second = await mcp.call('terminal_run', { command: 'echo two' });
      assert.deepEqual([second.output, body(second, 'reload').done, second.reloadPending], ['two\n', true, undefined], JSON.stringify(second));
      assert.equal(await said(), 'two');
      assert.equal(builds(), 2); // product.js is not ignored by anything: that it is a product shows when the second build writes it again
      const pid = await clientPid(mcp);
      for (let i = 0; i < 3; i++) assert.equal((await mcp.call('terminal_run', { command: 'echo again' })).reload, undefined);
      assert.deepEqual([await clientPid(mcp), builds()], [pid, 2]);
      edit('three');
      await mcp.call('terminal_run', { command: 'true' });
      assert.deepEqual([await said(), builds()], ['three', 3]); // known by now
      edit('BROKEN');
      const broken = await mcp.call('terminal_run', { command: 'echo still' });
      assert.equal(broken.output, 'still\n');
      assert.match(String(body(body(broken, 'reload'), 'build').output), /client\.ts:1:7: error: this is not TypeScript[\s\S]*exit code 2/);
      assert.match(String(broken.reloadPending), /the build failed, so the old code still runs/);
      assert.equal(await said(), 'three');
      const again = await mcp.call('terminal_run', { command: 'true' });
      assert.match(JSON.stringify(again.reload), /not TypeScript/); // told again,
      assert.equal(builds(), 4); // not built again
      const forced = body(await mcp.call('devtools_reload'), 'error');
      assert.deepEqual([forced.code, /not TypeScript/.test(String(forced.message))], ['E_BUILD', true]);
      edit('four');
      assert.equal(body(await mcp.call('terminal_run', { command: 'true' }), 'reload').done, true);
      assert.equal(await said(), 'four');
      const ledger = fs.readFileSync(path.join(world.workspace, '.devtools', 'process-log.jsonl'), 'utf8');
      assert.match(ledger, /"cmd":"npm run build"/);
      assert.deepEqual(body(await mcp.call('process_list'), 'ledger').orphaned, []);
    } finally {
      await world.end();
    }
  });

  test('nothing is swapped while a command runs there; force does it, and what it ended is in the log', async () => {
    const { world, mcp, edit, said } = await checkout();
    try {
      await mcp.call('terminal_run', { command: 'sleep 300', name: 'long', waitMode: 'background' });
      const pid = await clientPid(mcp);
      edit('two');
      const pending = await mcp.call('terminal_run', { command: 'echo beside' });
      assert.equal(pending.output, 'beside\n');
      assert.match(String(pending.reloadPending), /client\.ts is newer than what runs, but a command runs there: sleep 300 \(terminal "long"\)/);
      assert.deepEqual([await clientPid(mcp), await said()], [pid, 'one']);
      const asked = await mcp.call('devtools_reload');
      assert.deepEqual([asked.reloaded, /sleep 300/.test(String(asked.reloadPending))], [false, true]);
      const forced = await mcp.call('devtools_reload', { force: true });
      assert.equal(forced.reloaded, true, JSON.stringify(forced));
      assert.equal(await said(), 'two');
      const log = fs.readFileSync(path.join(world.workspace, '.devtools', 'process-log.jsonl'), 'utf8');
      assert.match(log, /"event":"completed"[^\n]*"kind":"command","exitCode":null,"exitReason":"its terminal was ended by SIGHUP","terminal":"long"/);
      assert.deepEqual((await mcp.call('terminal_list')).terminals, []);
      assert.equal(world.processes().filter(({ role }) => role === 'client').length, 1);
    } finally {
      await world.end();
    }
  });

  test('callers at once, of several servers, wait for one reload', async () => {
    const { world, mcp, start, edit, builds, said } = await checkout({ '.devtoolsignore': 'built.count\nproduct.js\n' });
    try {
      const others = await Promise.all([start(), start()]);
      for (const one of [mcp, ...others]) await one.call('terminal_run', { command: 'true', name: 'x' });
      edit('two');
      const answers = await Promise.all([mcp, ...others].flatMap((one, server) => Array.from({ length: 4 }, (_, i) => one.call('terminal_run', { command: `echo ${server} ${i}`, name: `t${server}${i}` }))));
      answers.forEach((answer: Json, i) => assert.equal(answer.output, `${Math.floor(i / 4)} ${i % 4}\n`, JSON.stringify(answer)));
      assert.deepEqual([await said(), await said(others[0]), builds()], ['two', 'two', 1]);
      assert.equal(world.processes().filter(({ role }) => role === 'client').length, 1);
    } finally {
      await world.end();
    }
  });

  test('a next Host knows the state that the one before had taken', async () => {
    const { world, mcp, start, edit, said } = await checkout();
    try {
      await mcp.call('terminal_run', { command: 'true' });
      const pid = await clientPid(mcp);
      mcp.child.kill('SIGKILL');
      for (const one of world.processes()) if (one.role === 'host') process.kill(one.pid, 'SIGKILL');
      edit('two');
      const next = await start();
      assert.deepEqual([await clientPid(next), await said(next)], [pid, 'one']);
      assert.equal(body(await next.call('terminal_run', { command: 'true' }), 'reload').done, true);
      assert.equal(await said(next), 'two');
    } finally {
      await world.end();
    }
  });

  test('a Client in Safe Mode is got out of it by devtools_reload once its source is mended', async () => {
    const { world, mcp, dir, edit, said } = await checkout();
    try {
      fs.writeFileSync(path.join(dir, 'dist', 'client.js'), 'const broken = ;\n');
      fs.writeFileSync(path.join(dir, 'client.ts'), 'const broken = ;\n');
      const status = body(await mcp.call('devtools_status'), 'client');
      assert.deepEqual([status.state, /client\.js:1/.test(String(status.reason)), /SyntaxError: Unexpected token/.test(String(status.reason))], ['safe mode', true, true], JSON.stringify(status));
      const refused = body(await mcp.call('devtools_reload'), 'error');
      assert.equal(refused.code, 'E_SAFE_MODE');
      assert.match(String(refused.message), /SyntaxError[^)]*client\.js:1/);
      edit('mended');
      const reloaded = await mcp.call('devtools_reload');
      assert.equal(reloaded.reloaded, true, JSON.stringify(reloaded));
      assert.equal(await said(), 'mended');
      assert.equal((await mcp.call('terminal_run', { command: 'echo works' })).output, 'works\n');
    } finally {
      await world.end();
    }
  });

  test('a Host in Safe Mode says where it fails, and loads what was mended', async () => {
    const { world, mcp, dir } = await checkout({ 'dist/host.js': 'throw new Error("no Host today");\n' });
    try {
      const status = body(await mcp.call('devtools_status'), 'host');
      assert.deepEqual([status.state, /no Host today/.test(String(status.reason)), /host\.js:1/.test(String(status.reason))], ['safe mode', true, true]);
      const { pid } = status;
      const refused = body(await mcp.call('devtools_reload'), 'error');
      assert.deepEqual([refused.code, /no Host today/.test(String(refused.message))], ['E_SAFE_MODE', true]);
      fs.copyFileSync(path.join(root, 'dist', 'host.js'), path.join(dir, 'dist', 'host.js'));
      assert.equal((await mcp.call('devtools_reload')).reloaded, true);
      const mended = body(await mcp.call('devtools_status'), 'host');
      assert.deepEqual([mended.state, mended.pid], ['connected', pid]);
      assert.equal((await mcp.call('terminal_run', { command: 'echo works' })).output, 'works\n');
    } finally {
      await world.end();
    }
  });

  test('a build that never ends, or floods, is not waited for by the others, and ends with its Host', async () => {
    const { world, mcp, dir, edit } = await checkout({ 'build.mjs': `console.log('building for ever'); setInterval(() => {}, 1000);` });
    try {
      await mcp.call('terminal_run', { command: 'true' });
      edit('two');
      mcp.send({ jsonrpc: '2.0', id: 'stuck', method: 'tools/call', params: { name: 'terminal_run', arguments: { command: 'true' } } });
      await waitFor(() => fs.existsSync(path.join(world.workspace, '.devtools', 'logs', 'build.log')) && fs.readFileSync(path.join(world.workspace, '.devtools', 'logs', 'build.log'), 'utf8').includes('for ever'), 'the build to run');
      const { ledger } = await mcp.call('devtools_status');
      assert.match(JSON.stringify(ledger), /npm run build/);
      mcp.send({ jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 'stuck' } });
      assert.equal((await mcp.call('terminal_list')).error, undefined);
      assert.ok(dir);
    } finally {
      await world.end();
    }
  });
});
