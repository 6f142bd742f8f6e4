// In a real VS Code (the server that code-server carries, shown in headless Chromium): the extension as Host and as Client.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { connect, pipeName, pipePath, readKey } from '../bootstrap.js';
import { McpClient, Page, UserWindow, World, body, changedCopy, drive, held, kill, rendererOf, root, serverFile, vscode, vsixFile, waitFor, windowOptions, writeDriver, type Json } from './lib.ts';

const isHere = process.platform === 'linux' && process.arch === 'x64';
if (!isHere) console.log('# the VS Code of these suites runs on Linux x64 alone: skipped');
else assert.ok(fs.existsSync(vscode.server), 'the VS Code server is not installed: node test/setup.mjs');

const JS_DEBUG = path.join(root, '.cache', 'peers', 'node_modules', '@debugmcp', 'mcp-debugger', 'dist', 'vendor', 'js-debug', 'vsDebugServer.js');

const EXTENSION = {
  'package.json': JSON.stringify({ name: 'form', publisher: 'test', version: '0.0.1', main: './main.js', engines: { vscode: '^1.90.0' }, activationEvents: ['onStartupFinished'], contributes: { commands: [{ command: 'form.greet', title: 'Form: Greet' }] } }),
  'main.js': `const vscode = require('vscode');
const fs = require('fs');
exports.activate = (context) => {
  const problems = vscode.languages.createDiagnosticCollection('form');
  const where = vscode.Uri.file(__dirname + '/main.js');
  problems.set(where, [new vscode.Diagnostic(new vscode.Range(1, 2, 1, 7), 'this is odd', vscode.DiagnosticSeverity.Warning), Object.assign(new vscode.Diagnostic(new vscode.Range(3, 0, 3, 4), 'this is wrong', vscode.DiagnosticSeverity.Error), { source: 'form-lint', code: 'E1' })]);
  context.subscriptions.push(problems, vscode.commands.registerCommand('form.greet', (name, effect) => {
    const greeting = 'hello ' + name;
    if (effect) fs.writeFileSync(effect, greeting); // @greet
    if (name === 'nobody') throw new Error('nobody is there');
    return { greeting, length: greeting.length };
  }));
};
`,
};

function writeExtension(dir: string): string {
  fs.mkdirSync(dir, { recursive: true });
  for (const [name, text] of Object.entries(EXTENSION)) fs.writeFileSync(path.join(dir, name), text);
  return dir;
}

type WindowFile = { cdpPort: number; processes: Array<{ pid: number }> };

/** What the Host says of the window in a runtime directory. */
function windowIn(dir: string): WindowFile {
  const names = fs.readdirSync(dir).filter((name) => name.startsWith('window-'));
  assert.equal(names.length, 1, `one window: ${names.join(', ')}`);
  return JSON.parse(fs.readFileSync(path.join(dir, String(names[0]), 'window.json'), 'utf8'));
}

const isOpen = (port: number): Promise<boolean> => new Promise((resolve) => {
  const socket = net.connect(port, '127.0.0.1', () => (socket.destroy(), resolve(true))).on('error', () => resolve(false));
});

const clientOf = async (mcp: McpClient): Promise<Json> => body(await mcp.call('devtools_status'), 'client');
const lines = (result: Json): string[] => (Array.isArray(result.lines) ? result.lines.map(String) : []);

describe('a window of a headless Host', { skip: !isHere }, () => {
  let world: World;
  let folder: string; // with whatever a path may have
  let extension: string;
  let page: Page;
  let mcp: McpClient;
  const settings = (allow: boolean): Record<string, string> => {
    const home = path.join(world.home, 'config');
    fs.mkdirSync(path.join(home, 'vscode-devtools'), { recursive: true });
    fs.writeFileSync(path.join(home, 'vscode-devtools', 'settings.json'), JSON.stringify({ allowExec: allow }), { mode: 0o600 });
    return { XDG_CONFIG_HOME: home };
  };
  const start = async (more: string[] = []): Promise<McpClient> => {
    const { args, env } = windowOptions();
    const client = new McpClient([serverFile, '--workspace', folder, ...args, '--extension', extension, ...more], world.env({ ...env, ...settings(true), VSCODE_DEVTOOLS_JS_DEBUG: JS_DEBUG }));
    world.clients.push(client);
    await client.initialize();
    return client;
  };

  before(async () => {
    world = new World('v');
    folder = path.join(world.workspace, `a 'quoted' "föld%er" #1`);
    extension = writeExtension(path.join(folder, 'ext ä'));
    fs.writeFileSync(path.join(folder, 'readme.txt'), 'hello\n');
    spawnSync('git', ['init', '-q'], { cwd: folder });
    mcp = await start();
  });
  after(async () => {
    page?.close();
    await world.end();
  });

  test('the first tool opens an Extension Development Host, which is the Client; a command there shows in its panel', async () => {
    const run = await mcp.call('terminal_run', { command: 'echo "seen by a person"; (exit 7)' });
    assert.deepEqual([run.status, run.output, run.exitCode], ['completed', 'seen by a person\n', 7]);
    const client = await clientOf(mcp);
    assert.deepEqual([client.mode, client.state, client.workspace], ['vscode', 'connected', folder]);
    const { cdpPort } = windowIn(world.dir);
    page = await Page.open(cdpPort);
    assert.match(String(await page.evaluate('document.title')), /^\[Extension Development Host\] /);
    await waitFor(async () => /\nseen by a person/.test(String(await page.evaluate(`window.driver.getTerminalBuffer('.terminal-wrapper.active').then((rows) => rows.join('\\n'))`))), 'the panel to show the output');
    const shown = String(await page.evaluate(`window.driver.getTerminalBuffer('.terminal-wrapper.active').then((rows) => rows.join('\\n'))`));
    assert.match(shown, /^\$ echo "seen by a person"; \(exit 7\)\s*\nseen by a person/m);
    assert.doesNotMatch(shown, /__vdt/); // what we type to have it run is not for people
    assert.match(String(await page.evaluate('document.querySelector(".statusbar").innerText')), /Devtools: Client/);
    assert.ok((await page.picture('client')).length > 10_000);
  });

  test('a restarted MCP server finds the same window within 500 ms; two at once share it', async () => {
    const before = await clientOf(mcp);
    await mcp.close();
    const started = performance.now();
    mcp = await start();
    const client = await clientOf(mcp);
    assert.ok(performance.now() - started < 500 + 1000, 'it took long'); // 500 ms is the promise; the rest is the machine's
    assert.equal(client.pid, before.pid);
    const others = await Promise.all([start(), start()]);
    for (const other of others) assert.equal((await clientOf(other)).pid, before.pid);
    await Promise.all(others.map((other) => other.close()));
    windowIn(world.dir);
  });

  test('commands run by their id with arguments, and say what they return; unknown, failing and waiting ones say so', async () => {
    const effect = path.join(folder, 'effect');
    const greeted = await mcp.call('window_command', { command: 'form.greet', args: ['bob', effect] });
    assert.deepEqual([greeted.pending, greeted.value], [false, { greeting: 'hello bob', length: 9 }]);
    assert.equal(fs.readFileSync(effect, 'utf8'), 'hello bob');
    await mcp.call('window_command', { command: 'vscode.open', args: [{ $uri: `file://${encodeURI(path.join(folder, 'readme.txt')).replaceAll('#', '%23')}` }] });
    await waitFor(async () => /readme\.txt/.test(String(await page.evaluate('document.title'))), 'the file to be open');
    const unknown = body(await mcp.call('window_command', { command: 'form.greeet' }), 'error');
    assert.equal(unknown.code, 'E_NO_COMMAND');
    assert.match(String(unknown.message), /form\.greet/);
    const pipe = await connect(pipePath(world.dir, pipeName('client', folder)), { as: 'test', key: readKey(world.dir) });
    assert.deepEqual(await pipe.call('command.list', { filter: 'form.gr' }), { commands: ['form.greet'] });
    pipe.close('asked');
    const failed = body(await mcp.call('window_command', { command: 'form.greet', args: ['nobody'] }), 'error');
    assert.deepEqual([failed.code, /nobody is there/.test(String(failed.message))], ['E_COMMAND', true]);
  });

  test('problems have file, range, severity, source and message, and are picked by file and severity', async () => {
    await waitFor(async () => Number(body(await mcp.call('workspace_problems'), 'counts').error) > 0, 'the problems');
    const all = await mcp.call('workspace_problems');
    const file = path.join(extension, 'main.js');
    assert.deepEqual(all.problems, [
      { file, line: 4, column: 1, endLine: 4, endColumn: 5, severity: 'error', source: 'form-lint', code: 'E1', message: 'this is wrong' },
      { file, line: 2, column: 3, endLine: 2, endColumn: 8, severity: 'warning', source: null, code: null, message: 'this is odd' },
    ]);
    assert.deepEqual(body(all, 'counts'), { error: 1, warning: 1, information: 0, hint: 0 });
    const { problems: errors } = await mcp.call('workspace_problems', { severity: 'error', file: path.join(path.basename(extension), 'main.js') });
    assert.ok(Array.isArray(errors) && errors.length === 1);
    assert.deepEqual((await mcp.call('workspace_problems', { file: 'readme.txt' })).problems, []);
  });

  test("output channels are listed and read, another extension's too, with a limit and a pattern", async () => {
    const { channels } = await mcp.call('output_list_channels');
    assert.ok(Array.isArray(channels));
    assert.ok(channels.some((one: Json) => one.name === 'Git' && one.extension === 'vscode.git'), JSON.stringify(channels));
    await waitFor(async () => lines(await mcp.call('output_read', { channel: 'Git' })).length > 2, 'Git to say something');
    const git = await mcp.call('output_read', { channel: 'Git', pattern: '\\[info\\].*git', limit: 1 });
    assert.equal(lines(git).length, 1);
    assert.match(String(lines(git)[0]), /\[info\].*git/);
    assert.ok(Number(git.more) > 0);
    // VS Code writes a channel down behind what was said: the second line may come a moment later.
    const own = async (): Promise<string[]> => lines(await mcp.call('output_read', { channel: 'vscode-devtools', pattern: 'spawned for|serves' }));
    await waitFor(async () => (await own()).length === 2, 'both lines of our own channel');
    assert.match((await own()).join('\n'), /spawned for[^\n]*\n[^\n]*serves/);
    assert.equal(body(await mcp.call('output_read', { channel: 'nope' }), 'error').code, 'E_NO_CHANNEL');
    assert.equal(body(await mcp.call('output_read', { channel: 'Git', pattern: '(' }), 'error').code, 'E_ARGUMENTS');
    assert.equal(body(await mcp.call('output_read', { channel: 'Git', pattern: '(x+x+)+y|(\\w+\\s?)*$z' }), 'error').code ?? 'E_ARGUMENTS', 'E_ARGUMENTS'); // one that never ends is cut
  });

  test('what a person types runs beside us: a command there keeps ours out, a closed tab ends its terminal', async () => {
    await mcp.call('terminal_run', { command: 'echo ready', name: 'shared' });
    await page.evaluate(`window.driver.writeInTerminal('.terminal-wrapper.active', 'sleep 300\\n')`);
    let refused: Json = {};
    await waitFor(async () => {
      const answer = await mcp.call('terminal_run', { command: 'echo ours', name: 'shared' });
      refused = answer.error === undefined ? {} : body(answer, 'error');
      return refused.code === 'E_BUSY';
    }, 'the typed command to be seen');
    assert.match(String(refused.message), /a person has typed/);
    await page.evaluate(`window.driver.writeInTerminal('.terminal-wrapper.active', '\\x03')`);
    await waitFor(async () => (await mcp.call('terminal_run', { command: 'echo ours', name: 'shared' })).output === 'ours\n', 'the terminal to be free again');
    await mcp.call('window_command', { command: 'workbench.action.terminal.kill' });
    await waitFor(async () => {
      const { terminals } = await mcp.call('terminal_list');
      return Array.isArray(terminals) && !terminals.some((one: Json) => one.name === 'shared');
    }, 'the terminal to be closed');
  });

  test('a breakpoint in the extension: stopped, looked at, continued, and its effect seen, while the others say why they wait', async () => {
    const main = path.join(extension, 'main.js');
    const line = EXTENSION['main.js'].split('\n').findIndex((text) => text.includes('@greet')) + 1;
    const effect = path.join(folder, 'debugged');
    const attached = await mcp.call('debug_attach', { language: 'nodejs', target: 'extension', session: 'ext', breakpoints: [{ file: main, line }] });
    assert.equal(attached.state, 'RUNNING');
    const called = mcp.call('window_command', { command: 'form.greet', args: ['ann', effect] });
    const stopped = await mcp.call('debug_wait_for_stop', { session: 'ext', timeout: 20 });
    const place = body(body(stopped, 'stopReason'), 'location');
    assert.deepEqual([stopped.state, body(stopped, 'stopReason').type, place.file, place.line], ['STOPPED', 'BREAKPOINT_HIT', main, line]);
    const { variables } = await mcp.call('debug_variables', { session: 'ext', filter: 'name' });
    assert.ok(Array.isArray(variables) && variables.some((one: Json) => one.name === 'name' && one.value === "'ann'"), JSON.stringify(variables));
    assert.equal(body(await called, 'error').code, 'E_CLIENT_PAUSED'); // the one that was under way
    const refused = body(await mcp.call('terminal_run', { command: 'echo no' }), 'error');
    assert.equal(refused.code, 'E_CLIENT_PAUSED');
    assert.match(String(refused.message), /debug_continue \{"session":"ext"\}/);
    assert.equal((await clientOf(mcp)).state, 'paused');
    const another = await start(); // a server that comes now is told too
    assert.equal(body(await another.call('workspace_problems'), 'error').code, 'E_CLIENT_PAUSED');
    assert.ok(!fs.existsSync(effect));
    await mcp.call('debug_continue', { session: 'ext' });
    await waitFor(() => fs.existsSync(effect), 'the command to go on');
    assert.equal((await mcp.call('terminal_run', { command: 'echo yes' })).output, 'yes\n');
    await mcp.call('debug_stop', { session: 'ext' });
    assert.equal(body(await another.call('window_command', { command: 'form.greet', args: ['eve'] }), 'value').greeting, 'hello eve');
    await another.close();
    assert.ok(Number(JSON.parse(fs.readFileSync(path.join(folder, '.devtools', 'host-session.json'), 'utf8')).inspectorPort) > 0);
  });

  test('code runs in the window only where server and user allow it, is cut when it does not pause, and is in the audit log', async () => {
    const unlisted = await mcp.request('tools/call', { name: 'devtools_exec', arguments: { code: 'return 1' } });
    assert.match(JSON.stringify(unlisted.error), /Unknown tool/);
    const allowed = await start(['--allow-exec']);
    const value = await allowed.call('devtools_exec', { code: 'return { folder: vscode.workspace.workspaceFolders[0].uri.fsPath, payload, map: new Map([["a", 1n]]), loop: (() => { const x = {}; x.x = x; return x; })() }', payload: [1, 'two'] });
    assert.deepEqual(value.value, { folder, payload: [1, 'two'], map: { a: '1' }, loop: { x: '[seen above]' } });
    const cut = body(await allowed.call('devtools_exec', { code: 'for (;;);' }), 'error');
    assert.equal(cut.code, 'E_TIMEOUT');
    const pending = await allowed.call('devtools_exec', { code: 'await new Promise(() => {})' });
    assert.deepEqual([pending.pending, /goes on running/.test(String(pending.message))], [true, true]);
    assert.match(String(body(await allowed.call('devtools_exec', { code: 'throw new Error("told")' }), 'error').message), /told/);
    assert.match(String(body(await allowed.call('devtools_exec', { code: 'return (' }), 'error').message), /SyntaxError/);
    assert.equal((await allowed.call('devtools_exec', { code: 'return "x".repeat(1e6)' })).truncated, true);
    const audited = spawnSync(process.execPath, [serverFile, 'audit', '--workspace', folder], { encoding: 'utf8', env: world.env() });
    assert.match(audited.stdout, /devtools_exec \{"code":"for \(;;\);"\}/);
    settings(false);
    await allowed.close();
    const { dir } = world;
    const other = new World('x');
    try {
      fs.writeFileSync(path.join(other.home, 'none'), '');
      const refused = other.mcp({ args: ['--allow-exec'], env: { XDG_CONFIG_HOME: path.join(other.home, 'none') } });
      await refused.initialize();
      assert.equal(body(await refused.call('devtools_exec', { code: 'return 1' }), 'error').code, 'E_REFUSED'); // nobody has allowed it
    } finally {
      await other.end();
      process.env.VSCODE_DEVTOOLS_DIR = dir;
    }
  });

  test('a window that reloads is the same window, and the next call waits for it', async () => {
    const before = await clientOf(mcp);
    const { processes } = windowIn(world.dir);
    await page.send('Page.reload');
    await waitFor(() => !fs.existsSync(`/proc/${String(before.pid)}`), 'the old extension host to end', 20_000);
    const run = await mcp.call('terminal_run', { command: 'echo back' });
    assert.deepEqual([run.output, run.exitCode], ['back\n', 0], JSON.stringify(run.error));
    assert.deepEqual(windowIn(world.dir).processes, processes);
    assert.notEqual((await clientOf(mcp)).pid, before.pid);
  });

  test('the Host is killed: the next one holds the same window, and its terminals go on', async () => {
    const before = await clientOf(mcp);
    const run = mcp.call('terminal_run', { command: 'sleep 2; echo over', name: 'long' });
    await waitFor(async () => JSON.stringify(await mcp.call('terminal_list', { runningOnly: true })).includes('long'), 'the command to run');
    for (const { pid, role } of world.processes()) if (role === 'host') kill(pid, 'SIGKILL');
    assert.equal((await run).output, 'over\n');
    const client = await clientOf(mcp);
    assert.equal(client.pid, before.pid);
    const { orphaned, active } = body(await mcp.call('process_list'), 'ledger');
    assert.deepEqual(orphaned, []);
    assert.ok(Array.isArray(active) && active.some((one: Json) => one.window !== undefined), JSON.stringify(active));
  });

  test('a window whose browser is gone is replaced, and nothing of it stays', async () => {
    const { processes, cdpPort } = windowIn(world.dir);
    page.close();
    kill(Number(processes.at(-1)?.pid), 'SIGKILL');
    const isAnother = (): boolean => fs.readdirSync(world.dir).filter((name) => name.startsWith('window-')).length === 1 && windowIn(world.dir).cdpPort !== cdpPort;
    await waitFor(async () => (await mcp.call('terminal_run', { command: 'echo new' })).output === 'new\n' && isAnother(), 'another window', 60_000);
    for (const { pid } of processes) assert.ok(!fs.existsSync(`/proc/${pid}`) || /^State:\s+Z/m.test(fs.readFileSync(`/proc/${pid}/status`, 'utf8')), `${pid} is alive`);
  });

  test('a page that has crashed, and that nobody looks at: its Client ends, and the next call has another window', async () => {
    const { processes, cdpPort } = windowIn(world.dir);
    const before = await clientOf(mcp);
    kill(rendererOf(Number(processes.at(-1)?.pid)), 'SIGKILL'); // Chromium was started last
    await waitFor(() => !fs.existsSync(`/proc/${String(before.pid)}`), 'the Client to end', 20_000);
    const run = await mcp.call('terminal_run', { command: 'echo elsewhere' }); // joins the Host's wait for the window's return, which is in vain
    assert.equal(run.output, 'elsewhere\n', JSON.stringify(run.error));
    assert.notEqual(windowIn(world.dir).cdpPort, cdpPort);
    for (const { pid } of processes) assert.ok(!fs.existsSync(`/proc/${pid}`) || /^State:\s+Z/m.test(fs.readFileSync(`/proc/${pid}/status`, 'utf8')), `${pid} is alive`);
  });

  test('at the end of the Host nothing stays: no process, no port, no directory', async () => {
    const { cdpPort } = windowIn(world.dir);
    assert.ok(await isOpen(cdpPort));
    await mcp.close();
    const { stdout } = spawnSync(process.execPath, [serverFile, 'host', 'stop'], { env: world.env(), encoding: 'utf8' });
    assert.match(stdout, /stopped the Host/);
    await waitFor(() => world.processes().length === 0, 'everything to end');
    assert.equal(await isOpen(cdpPort), false);
    assert.deepEqual(fs.readdirSync(world.dir).filter((name) => !/\.log(\.1)?$|^key$/.test(name)), []);
  });
});

// What Windows has: VS Code's own terminals. On Linux they are tried in bash and zsh; what VS Code hands on of a quick
// command's output is often nothing, which is why terminals here are our own and only shown by VS Code.
for (const shell of ['bash', 'zsh']) describe(`${shell} in a terminal of VS Code's own`, { skip: !isHere }, () => {
  test('several lines, subshells and quick commands lose its end event, and still have their true exit code; what was lost is said', async () => {
    const world = new World('i');
    try {
      const { args, env } = windowOptions();
      const mcp = world.mcp({ args, env: { ...env, VSCODE_DEVTOOLS_TERMINALS: 'integration', VSCODE_DEVTOOLS_SHELL: `/bin/${shell}` } });
      await mcp.initialize();
      const cases: Array<[string, string, number]> = [
        ['echo one; (exit 3)', 'one\n', 3], ['echo a\necho b\n(exit 4)', 'a\nb\n', 4], ['(cd /; pwd; exit 7)', '/\n', 7], ["cat <<'END'\nhere $x\nEND\nfalse", 'here $x\n', 1],
        ['for i in 1 2 3\ndo\n  echo "n $i"\ndone', 'n 1\nn 2\nn 3\n', 0], ["sh -c 'exit 143'", '', 143], ['true', '', 0], ['sleep 1; echo slow; (exit 9)', 'slow\n', 9],
      ];
      let whole = 0;
      for (const [command, output, exitCode] of cases) {
        const result = await mcp.call('terminal_run', { command });
        assert.deepEqual([result.status, result.exitCode], ['completed', exitCode], JSON.stringify(result));
        if (result.advice === undefined) assert.equal(result.output, output, command); // the mark came among the output, so nothing is missing
        else assert.match(String(result.advice), /did not hand on all/);
        if (result.advice === undefined) whole++;
      }
      assert.ok(whole >= 1, 'of nothing was the output whole');
      const asked = await mcp.call('terminal_run', { command: 'read answer; echo "got $answer"', timeout: 20_000 });
      assert.equal(asked.status, 'waiting_for_input');
      assert.equal((await mcp.call('terminal_input', { name: 'default', text: 'yes' })).exitCode, 0);
      await mcp.call('terminal_run', { command: 'sleep 300', waitMode: 'background' });
      const interrupted = await mcp.call('terminal_interrupt', {});
      assert.deepEqual([interrupted.status, interrupted.exitCode], ['completed', 130]);
      assert.equal((await mcp.call('terminal_run', { command: 'exit 5' })).exitCode, 5);
      await mcp.call('terminal_run', { command: 'true' });
      await mcp.call('terminal_close', { name: 'default' });
      assert.deepEqual(held(await mcp.call('process_list')), [[], []]);
    } finally {
      await world.end();
    }
  });
});

describe('windows that cannot be', { skip: !isHere }, () => {
  let world: World;
  before(() => {
    world = new World('n');
  });
  after(() => world.end());

  const ask = async (args: string[], env: Record<string, string> = {}, file = serverFile): Promise<Json> => {
    const mcp = world.mcp({ args, env, file });
    await mcp.initialize();
    const error = body(await mcp.call('terminal_run', { command: 'echo no' }), 'error');
    await mcp.close();
    assert.deepEqual(fs.readdirSync(world.dir).filter((name) => name.startsWith('window-')), []); // nothing was left
    return error;
  };
  /** A directory that looks like a VS Code server. */
  const fake = (name: string, version: string, program: string): string => {
    const dir = path.join(world.home, name);
    fs.mkdirSync(path.join(dir, 'out'), { recursive: true });
    fs.writeFileSync(path.join(dir, 'package.json'), JSON.stringify({ version, engines: { node: '20' } }));
    fs.writeFileSync(path.join(dir, 'out', 'server-main.js'), program);
    return dir;
  };

  test('no VS Code, one too old, no browser, a node too old: each says what was looked for or is needed', async () => {
    const none = await ask(['--vscode', path.join(world.home, 'nowhere')]);
    assert.deepEqual([none.code, /Looked for a server .*nowhere\/out\/server-main\.js/.test(String(none.message))], ['E_NO_VSCODE', true]);
    const old = await ask(['--vscode', fake('old', '1.50.0', '')]);
    assert.deepEqual([old.code, /is 1\.50\.0: 1\.101\.0 or newer is needed/.test(String(old.message))], ['E_VERSION', true]);
    const blind = await ask(['--vscode', vscode.dir], { VSCODE_DEVTOOLS_NODE: vscode.node, VSCODE_DEVTOOLS_CHROMIUM: '/nowhere/chromium' });
    assert.deepEqual([blind.code, /\/nowhere\/chromium/.test(String(blind.message))], ['E_NO_BROWSER', true]);
    const slow = await ask(['--vscode', vscode.dir], { VSCODE_DEVTOOLS_NODE: process.execPath });
    const isOld = Number(process.versions.node.split('.')[0]) < 24;
    assert.ok(!isOld || (slow.code === 'E_NO_NODE' && /needs Node 24/.test(String(slow.message))), JSON.stringify(slow));
    const wrong = await ask(['--vscode', vscode.dir, '--extension', world.workspace], { VSCODE_DEVTOOLS_NODE: vscode.node });
    assert.deepEqual([wrong.code, /no VS Code extension/.test(String(wrong.message))], ['E_ARGUMENTS', true]);
  });

  test('a server that ends at its start is told with the end of its log', async () => {
    const error = await ask(['--vscode', fake('dying', '1.120.0', 'console.error("this is why"); process.exit(3);')], { VSCODE_DEVTOOLS_NODE: process.execPath });
    assert.equal(error.code, 'E_WINDOW');
    assert.match(String(error.message), /server ended at once.*this is why/s);
  });

  test('a window whose Client never comes is told with the end of its log and a picture', async () => {
    const silent = JSON.stringify({ ...JSON.parse(fs.readFileSync(path.join(root, 'package.json'), 'utf8')), activationEvents: [] });
    await world.end();
    world = new World('n');
    const file = changedCopy(world, 'silent', { files: { 'package.json': silent } });
    const error = await ask(['--vscode', vscode.dir], { VSCODE_DEVTOOLS_NODE: vscode.node, VSCODE_DEVTOOLS_WINDOW_MS: '8000' }, file);
    assert.equal(error.code, 'E_WINDOW');
    const [, picture = ''] = /What it showed: (\S+\.png)/.exec(String(error.message)) ?? [];
    assert.deepEqual([...fs.readFileSync(picture).subarray(0, 4)], [0x89, 0x50, 0x4e, 0x47]);
    assert.match(String(error.message), /The end of its log: .*Launched Extension Host Process/s);
    assert.deepEqual(world.processes().filter((one) => one.role === 'other' || one.role === 'window'), []);
  });

  test('a Client that crashes at its activation is in Safe Mode, and the window says so', async () => {
    await world.end();
    world = new World('n');
    const file = changedCopy(world, 'broken', { files: { 'dist/client.js': 'throw new Error("broken on purpose");' } });
    const mcp = world.mcp({ file, ...windowOptions() });
    await mcp.initialize();
    const client = await clientOf(mcp);
    assert.deepEqual([client.state, client.safeMode, /broken on purpose/.test(String(client.reason))], ['safe mode', true, true]);
  });
});

describe('a broken user interface', { skip: !isHere }, () => {
  test('leaves the Client as it is, and the context key says so', async () => {
    const world = new World('g');
    try {
      const file = changedCopy(world, 'gui', { files: { 'dist/gui.js': 'throw new Error("no interface today");' } });
      const { args, env } = windowOptions();
      const mcp = world.mcp({ file, args: [...args, '--extension', writeDriver(path.join(world.home, 'driver'))], env: { ...env, VDT_DRIVER_DIR: world.home } });
      await mcp.initialize();
      assert.equal((await mcp.call('terminal_run', { command: 'echo works' })).output, 'works\n');
      assert.match(JSON.stringify((await mcp.call('output_read', { channel: 'vscode-devtools' })).lines), /safe mode of the user interface: no interface today/);
      const page = await Page.open(windowIn(world.dir).cdpPort);
      await waitFor(async () => {
        await page.press('9');
        return JSON.stringify(await drive(world.home, 'return seen')).includes('failed'); // each press counts
      }, 'the key that is bound where it is not loaded', 20_000);
      assert.deepEqual(await drive(world.home, 'return seen.filter((name) => name !== "failed")'), []);
      page.close();
    } finally {
      await world.end();
    }
  });
});

describe('VS Code as the Host', { skip: !isHere }, () => {
  let world: World;
  let user: UserWindow;
  let page: Page;
  let mcp: McpClient;

  before(async () => {
    spawnSync(process.execPath, ['build.mjs', '--vsix'], { cwd: root });
    world = new World('h');
    user = new UserWindow(world, 'user');
    assert.match(user.install(vsixFile()), /successfully installed/);
    user.installDriver();
  });
  after(async () => {
    await user.close();
    await world.end();
  });

  test('an idle headless Host gives way to the window; the window is the Host, and says so', async () => {
    const headless = world.mcp();
    await headless.initialize();
    assert.equal(body(await headless.call('devtools_status'), 'host').mode, 'headless');
    await headless.close();
    page = await user.open();
    await waitFor(() => /user interface: host/.test(user.log()), 'the window to be the Host', 30_000);
    assert.match(user.log(), /the headless Host \d+ made room/);
    await waitFor(async () => /Devtools: Host/.test(String(await page.evaluate('document.querySelector(".statusbar").innerText'))), 'the status bar');
    mcp = world.mcp();
    await mcp.initialize();
    const status = await mcp.call('devtools_status');
    assert.deepEqual([body(status, 'host').mode, body(status, 'host').state], ['vscode', 'connected']);
  });

  test('the first tool opens the Client beside it: its own window, with VS Code\'s debugger attached to it', async () => {
    const run = await mcp.call('terminal_run', { command: 'echo from the client; (exit 7)' });
    assert.deepEqual([run.output, run.exitCode], ['from the client\n', 7]);
    const client = await Page.open(windowIn(world.dir).cdpPort);
    assert.match(String(await client.evaluate('document.title')), /^\[Extension Development Host\] /);
    await waitFor(async () => /\nfrom the client/.test(String(await client.evaluate(`window.driver.getTerminalBuffer('.terminal-wrapper.active').then((rows) => rows.join('\\n'))`))), 'the output to be shown');
    await client.picture('client-of-vscode');
    client.close();
    assert.equal((await clientOf(mcp)).mode, 'vscode');
    await waitFor(() => /VS Code's debugger is attached to port \d+/.test(user.log()), 'the debugger', 20_000);
    await waitFor(async () => (await page.evaluate('(() => { const bar = document.querySelector(".part.statusbar"), probe = bar.appendChild(document.createElement("div")); probe.style.background = "var(--vscode-statusBar-debuggingBackground)"; const wanted = getComputedStyle(probe).backgroundColor; probe.remove(); return getComputedStyle(bar).backgroundColor === wanted; })()')) === true, 'the bar of a debugging window');
    await page.picture('host');
  });

  test('a server of another folder is told whose the Host is', async () => {
    const elsewhere = path.join(world.home, 'elsewhere');
    fs.mkdirSync(elsewhere);
    const other = new McpClient([serverFile, '--workspace', elsewhere], world.env());
    await other.initialize();
    const error = body(await other.call('terminal_run', { command: 'echo no' }), 'error');
    await other.close();
    assert.deepEqual([error.code, error.owner], ['E_OTHER_WORKSPACE', world.workspace]);
  });

  test('a second window of the user stands by, and the first stays the Host', async () => {
    const second = new UserWindow(world, 'second');
    try {
      second.install(vsixFile());
      const other = await second.open();
      await waitFor(() => /this window stands by: another Host answers/.test(second.log()), 'the second window to stand by', 30_000);
      await waitFor(async () => /Devtools: standing by/.test(String(await other.evaluate('document.querySelector(".statusbar").innerText'))), 'its status bar');
      await other.picture('bystander');
      assert.equal(body(await mcp.call('devtools_status'), 'host').mode, 'vscode');
      assert.equal((await mcp.call('terminal_run', { command: 'echo undisturbed' })).output, 'undisturbed\n');
    } finally {
      await second.close();
    }
  });

  test("a program is debugged on the user's own node, not on VS Code's", async () => {
    fs.writeFileSync(path.join(world.workspace, 'who.js'), 'console.log(process.execPath);\n');
    const debugging = world.mcp({ env: { VSCODE_DEVTOOLS_JS_DEBUG: JS_DEBUG } });
    await debugging.initialize();
    const ended = await debugging.call('debug_start', { program: 'who.js' });
    assert.deepEqual([ended.state, ended.exitCode], ['TERMINATED', 0], JSON.stringify(ended));
    const mine = spawnSync('node', ['-p', 'process.execPath'], { encoding: 'utf8' }).stdout.trim();
    assert.ok(String(ended.output).includes(mine) && mine !== vscode.node, `${String(ended.output)} ${mine}`);
    await debugging.close();
  });

  test('VS Code starts the MCP server by itself: no mcp.json, no node on PATH', async () => {
    const before = new Set(world.processes().map(({ pid }) => pid));
    await user.drive(`await vscode.commands.executeCommand('workbench.mcp.startServer', 'vscode-devtools.vscode-devtools/vscode-devtools', { autoTrustChanges: true })`);
    await waitFor(() => world.processes().some(({ pid, role }) => role === 'mcp' && !before.has(pid)), 'the MCP server that VS Code starts', 20_000);
    const [server] = world.processes().filter(({ pid, role }) => role === 'mcp' && !before.has(pid));
    const words = fs.readFileSync(`/proc/${server?.pid}/cmdline`, 'utf8').split('\0');
    assert.equal(words[0], vscode.node); // VS Code's own runtime
    assert.ok(words.includes('--workspace') && words.includes(world.workspace));
    assert.match(fs.readFileSync(`/proc/${server?.pid}/environ`, 'utf8'), /VSCODE_DEVTOOLS_LAUNCHED_BY=vscode/);
  });

  test('the Host\'s window reloads: the Client is held again, by the same process, and the debugger attached again', async () => {
    const before = await clientOf(mcp);
    const attached = user.log().split('debugger is attached').length;
    await page.send('Page.reload');
    await waitFor(() => user.log().split('user interface: host').length > 2, 'the Host to be back', 30_000);
    const status = await mcp.call('devtools_status');
    assert.deepEqual([body(status, 'host').mode, body(status, 'client').pid], ['vscode', before.pid]);
    await waitFor(() => user.log().split('debugger is attached').length > attached, 'the debugger to be attached again', 20_000);
    assert.equal((await mcp.call('terminal_run', { command: 'echo still here' })).output, 'still here\n');
  });

  test('the context key says that the core is loaded', async () => {
    await waitFor(async () => {
      await page.press('9');
      return JSON.stringify(await user.drive('return seen')).includes('loaded');
    }, 'the key that is bound where the core is loaded', 20_000);
    assert.deepEqual(await user.drive('return seen.filter((name) => name !== "loaded")'), []);
  });

  test('the Host\'s window closes: the Client that nobody holds ends itself with its window', async () => {
    await mcp.close();
    const { processes, cdpPort } = windowIn(world.dir);
    await user.close();
    await waitFor(() => processes.every(({ pid }) => !fs.existsSync(`/proc/${pid}`)), 'the window to end itself', 40_000);
    assert.equal(await isOpen(cdpPort), false);
    await waitFor(() => fs.readdirSync(world.dir).every((name) => !name.startsWith('window-')), 'its directory to go');
  });
});
