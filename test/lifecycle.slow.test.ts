// Neither side harms the other, whatever changes, closes, restarts or takes over: in a real VS Code where a window is involved.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { McpClient, Page, UserWindow, World, body, root, serverFile, vscode, vsixFile, waitFor, windowOptions, type Json } from './lib.ts';

const isHere = process.platform === 'linux' && process.arch === 'x64';
if (!isHere) console.log('# the VS Code of these suites runs on Linux x64 alone: skipped');
else assert.ok(fs.existsSync(vscode.server), 'the VS Code server is not installed: node test/setup.mjs');

const JS_DEBUG = path.join(root, '.cache', 'peers', 'node_modules', '@debugmcp', 'mcp-debugger', 'dist', 'vendor', 'js-debug', 'vsDebugServer.js');

/** An extension with a build: what it says is in src/, what runs is in out/. */
const sourceOf = (text: string): string => `export const text = ${JSON.stringify(text)};\n`;
function writeExtension(dir: string, scripts: Json = { build: 'node build.mjs' }): string {
  const files: Record<string, string> = {
    'package.json': JSON.stringify({ name: 'say', publisher: 'test', version: '0.0.1', main: './out/main.js', engines: { vscode: '^1.90.0' }, activationEvents: ['onStartupFinished'], contributes: { commands: [{ command: 'say.it', title: 'Say it' }] }, scripts }),
    'src/text.mjs': sourceOf('one'),
    'build.mjs': `import fs from 'node:fs';
const source = fs.readFileSync('src/text.mjs', 'utf8');
const found = /^export const text = (".*");$/m.exec(source);
if (!found) { console.error('src/text.mjs:1:21: error: expected a string'); process.exit(1); }
fs.mkdirSync('out', { recursive: true });
fs.writeFileSync('out/main.js', \`const vscode = require('vscode'); exports.activate = (context) => context.subscriptions.push(vscode.commands.registerCommand('say.it', () => \${found[1]}));\`);
console.log('built');
`,
    '.gitignore': 'out/\n',
  };
  for (const [name, text] of Object.entries(files)) {
    fs.mkdirSync(path.dirname(path.join(dir, name)), { recursive: true });
    fs.writeFileSync(path.join(dir, name), text);
  }
  if (scripts.build) assert.equal(spawnSync('node', ['build.mjs'], { cwd: dir }).status, 0);
  return dir;
}

const clientOf = async (mcp: McpClient): Promise<Json> => body(await mcp.call('devtools_status'), 'client');
const windows = (world: World): string[] => fs.readdirSync(world.dir).filter((name) => name.startsWith('window-'));
const windowIn = (world: World): { cdpPort: number; processes: Array<{ name: string; pid: number }> } => {
  const [name, ...more] = windows(world);
  assert.ok(name && !more.length, `one window: ${windows(world).join(', ')}`);
  return JSON.parse(fs.readFileSync(path.join(world.dir, name, 'window.json'), 'utf8'));
};
const isAlive = (pid: number): boolean => fs.existsSync(`/proc/${pid}`) && !/^State:\s+Z/m.test(fs.readFileSync(`/proc/${pid}/status`, 'utf8')); // a zombie is not
const isOpen = (port: number): Promise<boolean> => new Promise((resolve) => {
  const socket = net.connect(port, '127.0.0.1', () => (socket.destroy(), resolve(true))).on('error', () => resolve(false));
});
/** As a person does who closes the tab: in a browser VS Code has no command for that, its page has. */
async function closeWindow(page: Page): Promise<void> {
  await page.evaluate('window.close()').catch(() => {}); // it may be gone before it answers
  page.close();
}
const sessionFile = (world: World): string => path.join(world.workspace, '.devtools', 'host-session.json');

describe('hot reload of a window', { skip: !isHere }, () => {
  let world: World;
  let extension: string;
  let second: string;
  let mcp: McpClient;
  const say = (text: string): void => fs.writeFileSync(path.join(extension, 'src', 'text.mjs'), sourceOf(text));

  before(async () => {
    world = new World('l');
    extension = writeExtension(path.join(world.workspace, 'ext'));
    second = path.join(world.workspace, 'plain');
    fs.mkdirSync(second);
    fs.writeFileSync(path.join(second, 'package.json'), JSON.stringify({ name: 'plain', publisher: 'test', version: '0.0.1', main: './main.js', engines: { vscode: '^1.90.0' }, activationEvents: ['onStartupFinished'] }));
    fs.writeFileSync(path.join(second, 'main.js'), `exports.activate = () => require('vscode').commands.registerCommand('plain.it', () => 'plain one');\n`);
    const { args, env } = windowOptions();
    mcp = world.mcp({ args: [...args, '--extension', extension, '--extension', second], env });
    await mcp.initialize();
  });
  after(() => world.end());

  test('an edit: the next call is answered by a new window with the new text, once, without any other step', async () => {
    const first = await mcp.call('window_command', { command: 'say.it' });
    assert.deepEqual([first.value, first.reload], ['one', undefined], JSON.stringify(first));
    const before = await clientOf(mcp);
    const { processes } = windowIn(world);
    assert.match(fs.readFileSync(path.join(extension, '.devtoolsignore'), 'utf8'), /^package\.json$/m); // a new one starts so
    say('two');
    const changed = await mcp.call('window_command', { command: 'say.it' });
    assert.deepEqual([changed.value, body(changed, 'reload').done, body(changed, 'reload').changed], ['two', true, path.join(extension, 'src', 'text.mjs')], JSON.stringify(changed));
    assert.notEqual((await clientOf(mcp)).pid, before.pid);
    for (const { name, pid } of processes) assert.ok(!isAlive(pid), `the old window's ${name} is alive`);
    const again = await mcp.call('window_command', { command: 'say.it' });
    assert.deepEqual([again.value, again.reload], ['two', undefined]);
    fs.writeFileSync(path.join(extension, 'package.json'), `${fs.readFileSync(path.join(extension, 'package.json'), 'utf8')}\n`); // ignored
    assert.equal((await mcp.call('window_command', { command: 'say.it' })).reload, undefined);
  });

  test('a syntax error: the compiler\'s line, and the old window answers; mended: the new one', async () => {
    const { pid } = await clientOf(mcp);
    fs.writeFileSync(path.join(extension, 'src', 'text.mjs'), 'export const text = oops\n');
    const broken = await mcp.call('window_command', { command: 'say.it' });
    assert.equal(broken.value, 'two');
    assert.match(String(body(body(broken, 'reload'), 'build').output), /src\/text\.mjs:1:21: error: expected a string/);
    assert.equal((await clientOf(mcp)).pid, pid);
    say('three');
    assert.equal((await mcp.call('window_command', { command: 'say.it' })).value, 'three');
  });

  test('an extension without a build: what is no JavaScript is told, what is mended runs', async () => {
    const main = path.join(second, 'main.js');
    fs.writeFileSync(main, `exports.activate = () => {\n  const x = ;\n};\n`);
    const broken = await mcp.call('window_command', { command: 'plain.it' });
    assert.equal(broken.value, 'plain one');
    assert.match(String(body(body(broken, 'reload'), 'build').output), /main\.js:2[\s\S]*SyntaxError/);
    fs.writeFileSync(main, `exports.activate = () => require('vscode').commands.registerCommand('plain.it', () => {\n  const said = 'plain two';\n  return said;\n});\n`);
    assert.equal((await mcp.call('window_command', { command: 'plain.it' })).value, 'plain two');
  });

  test('while a command runs there nothing is swapped; when it is over the next call does it; an action goes on where it was planned', async () => {
    await mcp.call('terminal_run', { command: `until [ -e ${world.home}/go ]; do sleep 0.05; done`, name: 'long', waitMode: 'background' });
    const { pid } = await clientOf(mcp);
    say('four');
    const pending = await mcp.call('window_command', { command: 'say.it' });
    assert.equal(pending.value, 'three');
    assert.match(String(pending.reloadPending), /a command runs there: until/);
    fs.writeFileSync(path.join(world.home, 'go'), '');
    await mcp.call('terminal_wait', { name: 'long' });
    const pressed = await mcp.call('window_press_key', { keys: 'Escape' });
    assert.match(String(pressed.reloadPending), /text\.mjs is newer than what runs in the window/);
    assert.equal((await clientOf(mcp)).pid, pid);
    assert.equal((await mcp.call('window_command', { command: 'say.it' })).value, 'four');
    assert.notEqual((await clientOf(mcp)).pid, pid);
  });

  test('while a program is stopped there nothing is swapped; force does it, and the log has what ended', async () => {
    const line = 3;
    await mcp.close();
    const { args, env } = windowOptions();
    mcp = world.mcp({ args: [...args, '--extension', extension, '--extension', second], env: { ...env, VSCODE_DEVTOOLS_JS_DEBUG: JS_DEBUG, VSCODE_DEVTOOLS_BUILD: '[ ! -e build.mjs ] || node build.mjs # as it was set' } });
    await mcp.initialize();
    await mcp.call('debug_attach', { language: 'nodejs', target: 'extension', session: 'ext', breakpoints: [{ file: path.join(second, 'main.js'), line }] });
    await mcp.call('terminal_run', { command: 'true' });
    const called = mcp.call('window_command', { command: 'plain.it' });
    const stopped = await mcp.call('debug_wait_for_stop', { session: 'ext', timeout: 20 });
    assert.equal(stopped.state, 'STOPPED', JSON.stringify(stopped));
    assert.equal(body(await called, 'error').code, 'E_CLIENT_PAUSED');
    say('five');
    const asked = await mcp.call('devtools_reload');
    assert.deepEqual([asked.reloaded, /a program is stopped there/.test(String(asked.reloadPending))], [false, true], JSON.stringify(asked));
    assert.equal((await mcp.call('debug_status', { session: 'ext' })).state, 'STOPPED');
    const forced = await mcp.call('devtools_reload', { force: true });
    assert.equal(forced.reloaded, true, JSON.stringify(forced));
    assert.match(String(body(forced, 'build').command), /as it was set/);
    assert.equal((await mcp.call('window_command', { command: 'say.it' })).value, 'five');
    assert.notEqual((await mcp.call('debug_status', { session: 'ext' })).state, 'STOPPED');
    const log = fs.readFileSync(path.join(world.workspace, '.devtools', 'process-log.jsonl'), 'utf8');
    assert.match(log, /"event":"(killed|completed)"[^\n]*-window-/);
    await mcp.call('debug_stop', { session: 'ext' });
  });

  test('the window closes itself: after the grace the session is over; what a next call needs is opened', async () => {
    const { cdpPort, processes } = windowIn(world);
    assert.ok(fs.existsSync(sessionFile(world)));
    const page = await Page.open(cdpPort);
    await closeWindow(page);
    await waitFor(() => !fs.existsSync(sessionFile(world)), 'the session to be cleared', 30_000);
    await waitFor(() => windows(world).length === 0, 'the directory of the window to go');
    for (const { name, pid } of processes) assert.ok(!isAlive(pid), `${name} is alive`);
    assert.equal(await isOpen(cdpPort), false);
    assert.equal(mcp.exited, undefined); // it was started by another client: it stays,
    assert.equal((await mcp.call('window_command', { command: 'say.it' })).value, 'five'); // and is served again
  });
});

describe('an MCP server that is killed', { skip: !isHere }, () => {
  test('50 times in the middle of a terminal run and of a debug stop: 50 of 50 go on', async () => {
    const world = new World('f');
    try {
      fs.writeFileSync(path.join(world.workspace, 'loop.js'), 'let n = 0;\nfor (;;) {\n  n++;\n}\n');
      const start = async (): Promise<McpClient> => {
        const one = world.mcp({ env: { VSCODE_DEVTOOLS_JS_DEBUG: JS_DEBUG } });
        await one.initialize();
        return one;
      };
      let mcp = await start();
      const stopped = await mcp.call('debug_start', { program: 'loop.js', session: 'loop', breakpoints: [{ file: 'loop.js', line: 3 }] });
      assert.equal(stopped.state, 'STOPPED', JSON.stringify(stopped));
      let goneOn = 0;
      for (let round = 0; round < 50; round++) {
        const go = path.join(world.home, `go${round}`);
        mcp.send({ jsonrpc: '2.0', id: `run${round}`, method: 'tools/call', params: { name: 'terminal_run', arguments: { command: `until [ -e ${go} ]; do sleep 0.02; done; echo round ${round}; (exit ${round})` } } });
        mcp.send({ jsonrpc: '2.0', id: `step${round}`, method: 'tools/call', params: { name: 'debug_wait_for_stop', arguments: { session: 'loop' } } });
        await waitFor(async () => JSON.stringify(await mcp.call('terminal_list', { runningOnly: true })).includes(`round ${round}`), 'the command to run');
        mcp.child.kill('SIGKILL');
        await mcp.exit();
        mcp = await start();
        const waiting = mcp.call('terminal_wait', {});
        fs.writeFileSync(go, '');
        const over = await waiting;
        assert.deepEqual([over.status, over.output, over.exitCode], ['completed', `round ${round}\n`, round], `round ${round}`);
        const status = await mcp.call('debug_status', { session: 'loop' });
        assert.deepEqual([status.state, body(body(status, 'stopReason'), 'location').line], ['STOPPED', 3], `round ${round}`);
        const next = await mcp.call('debug_continue', { session: 'loop', wait: true });
        assert.equal(body(body(next, 'stopReason'), 'details').hitCount, round + 2, `round ${round}`);
        goneOn++;
      }
      assert.equal(goneOn, 50);
      await mcp.call('debug_stop', { session: 'loop' });
    } finally {
      await world.end();
    }
  });
});

describe('takeover', () => {
  test('100 requests at once have one winner, and 99 are told who; the Host ends with its Client', async () => {
    const world = new World('t');
    try {
      const mcp = world.mcp();
      await mcp.initialize();
      await mcp.call('terminal_run', { command: 'sleep 300', waitMode: 'background' });
      const peers = await Promise.all(Array.from({ length: 100 }, () => world.connectHost()));
      const answers = await Promise.all(peers.map((peer, i) => peer.call('takeover', { reason: 'all at once', by: `number ${i}` })));
      const won = answers.filter((one) => (one as Json).acknowledged === true); // what the handler answers
      assert.equal(won.length, 1);
      const winner = `number ${answers.indexOf(won[0])}`;
      for (const one of answers) if (one !== won[0]) assert.deepEqual(one, { acknowledged: false, winner });
      await waitFor(() => !world.processes().some(({ role }) => role === 'host' || role === 'client'), 'Host and Client to end');
      peers.forEach((peer) => peer.close('done'));
    } finally {
      await world.end();
    }
  });

  test('`host takeover` puts a headless Host in the place of another; servers find it', async () => {
    const world = new World('t');
    try {
      const mcp = world.mcp();
      await mcp.initialize();
      const { pid } = body(await mcp.call('devtools_status'), 'host');
      const { stdout } = spawnSync(process.execPath, [serverFile, 'host', 'takeover'], { env: world.env(), encoding: 'utf8' });
      const [, next] = /^the Host is headless now \(pid (\d+)\); the one before \(pid (\d+), headless\)/.exec(stdout) ?? [];
      assert.ok(next && Number(next) !== pid, stdout);
      const status = await mcp.call('devtools_status');
      assert.equal(body(status, 'host').pid, Number(next));
      assert.equal(world.processes().filter(({ role }) => role === 'host').length, 1);
    } finally {
      await world.end();
    }
  });
});

describe('two VS Code Hosts', { skip: !isHere }, () => {
  let world: World;
  let first: UserWindow;
  let other: UserWindow;
  let mcp: McpClient;
  // A notification that nobody presses goes behind the bell after 10 s: then that is clicked, as a person would.
  const toasts = (page: Page): Promise<string> => page.evaluate(`(() => {
    const shown = [...document.querySelectorAll('.notifications-toasts .notification-list-item, .notifications-center .notification-list-item')].map((one) => one.innerText).join('\\n---\\n');
    if (!shown) document.querySelector('[id="status.notifications"] a')?.click();
    return shown;
  })()`).then(String);
  const press = (page: Page, label: string): Promise<unknown> => page.evaluate(`(() => { const button = [...document.querySelectorAll('.notification-list-item .monaco-button')].find((one) => one.innerText.trim() === ${JSON.stringify(label)}); if (!button) throw new Error('no button ${label}'); button.click(); return true; })()`);
  const statusBar = (page: Page): Promise<string> => page.evaluate('document.querySelector(".statusbar").innerText').then(String);
  const pageOf = (window: UserWindow): Page => {
    assert.ok(window.page);
    return window.page;
  };

  before(async () => {
    spawnSync(process.execPath, ['build.mjs', '--vsix'], { cwd: root });
    world = new World('o');
    fs.mkdirSync(path.join(world.home, 'elsewhere'));
    first = new UserWindow(world, 'first');
    other = new UserWindow(world, 'other', path.join(world.home, 'elsewhere'));
    for (const window of [first, other]) window.install(vsixFile());
    first.installDriver();
    // An extension under development in the first window's folder, built by a task that its owner has.
    writeExtension(world.workspace, {});
    fs.mkdirSync(path.join(world.workspace, '.vscode'));
    fs.writeFileSync(path.join(world.workspace, '.vscode', 'tasks.json'), JSON.stringify({ version: '2.0.0', tasks: [{ label: 'ext:build', type: 'shell', command: 'node', args: ['build.mjs'], problemMatcher: [] }] }));
    fs.writeFileSync(path.join(world.workspace, '.devtoolsignore'), '.vscode/\nout/\n');
    assert.equal(spawnSync('node', ['build.mjs'], { cwd: world.workspace }).status, 0);
    await first.open({ driver: false });
    await waitFor(() => /user interface: host/.test(first.log()), 'the first window to be the Host', 30_000);
    mcp = world.mcp();
    await mcp.initialize();
  });
  after(async () => {
    await first.close();
    await other.close();
    await world.end();
  });

  test('the task ext:build builds in a VS Code Host, where its owner sees it; its words are told when it fails', async () => {
    assert.equal((await mcp.call('window_command', { command: 'say.it' })).value, 'one');
    fs.writeFileSync(path.join(world.workspace, 'src', 'text.mjs'), sourceOf('by the task'));
    const built = await mcp.call('window_command', { command: 'say.it' });
    assert.equal(built.value, 'by the task', JSON.stringify(built));
    assert.match(String(body(body(built, 'reload'), 'build').command), /^task ext:build: node build\.mjs/);
    fs.writeFileSync(path.join(world.workspace, 'src', 'text.mjs'), 'export const text = oops\n');
    const broken = await mcp.call('window_command', { command: 'say.it' });
    assert.equal(broken.value, 'by the task');
    assert.match(String(body(body(broken, 'reload'), 'build').output), /src\/text\.mjs:1:21: error: expected a string[\s\S]*exit code 1/);
    await waitFor(async () => /expected a string/.test(String(await pageOf(first).evaluate('document.querySelector(".part.panel")?.innerText ?? ""'))) || /ext:build/.test(String(await pageOf(first).evaluate('document.body.innerText'))), 'the task in the panel');
    fs.writeFileSync(path.join(world.workspace, 'src', 'text.mjs'), sourceOf('mended'));
    assert.equal((await mcp.call('window_command', { command: 'say.it' })).value, 'mended');
  });

  test('the window reloads: no close; it closes itself: after the grace the server that VS Code runs is stopped, and the session cleared', async () => {
    const before = new Set(world.processes().map(({ pid }) => pid));
    const isNew = ({ pid, role }: { pid: number; role: string }): boolean => role === 'mcp' && !before.has(pid);
    await first.drive(`await vscode.commands.executeCommand('workbench.mcp.startServer', 'vscode-devtools.vscode-devtools/vscode-devtools', { autoTrustChanges: true })`);
    await waitFor(() => world.processes().some(isNew), 'the MCP server that VS Code starts', 20_000);
    const { cdpPort } = windowIn(world);
    const { pid } = await clientOf(mcp);
    const page = await Page.open(cdpPort);
    await page.send('Page.reload');
    page.close();
    await waitFor(() => !fs.existsSync(`/proc/${String(pid)}`), 'the old extension host to end', 20_000);
    assert.equal((await mcp.call('terminal_run', { command: 'echo back' })).output, 'back\n');
    assert.ok(world.processes().some(isNew), 'a reload is no close');
    assert.doesNotMatch(first.log(), /session of .* is over/);
    // The server that VS Code runs connects at its first call: it is asked for its status by an agent there.
    await first.drive(`const tool = vscode.lm.tools.find((one) => /devtools_status/.test(one.name)); return tool && vscode.lm.invokeTool(tool.name, { input: {}, toolInvocationToken: undefined }).then(() => true, (error) => String(error))`);
    await closeWindow(await Page.open(windowIn(world).cdpPort));
    await waitFor(() => !fs.existsSync(sessionFile(world)), 'the session to be cleared', 30_000);
    await waitFor(() => !world.processes().some(isNew), 'the server of VS Code to be stopped', 20_000);
    await waitFor(() => /the session of .* has ended/.test(first.log()), 'the log');
    assert.match(first.log(), /workbench\.mcp\.stopServer vscode-devtools\.vscode-devtools\/vscode-devtools \(its window was closed\): done/);
    assert.equal(mcp.exited, undefined);
    assert.deepEqual(windows(world), []);
  });

  test('a server of .vscode/mcp.json is stopped by its id as well', async () => {
    const before = new Set(world.processes().map(({ pid }) => pid));
    const isNew = ({ pid, role }: { pid: number; role: string }): boolean => role === 'mcp' && !before.has(pid);
    fs.writeFileSync(path.join(world.workspace, '.vscode', 'mcp.json'), `{ // of the workspace\n "servers": { "my tools": { "type": "stdio", "command": ${JSON.stringify(process.execPath)}, "args": [${JSON.stringify(serverFile)}, "--workspace", "\${workspaceFolder}"] } } }`);
    await waitFor(async () => {
      await first.drive(`await vscode.commands.executeCommand('workbench.mcp.startServer', 'mcp.config.ws0.my tools', { autoTrustChanges: true })`);
      return world.processes().some(isNew);
    }, 'the MCP server of mcp.json', 30_000);
    assert.equal((await mcp.call('terminal_run', { command: 'echo again' })).output, 'again\n');
    await closeWindow(await Page.open(windowIn(world).cdpPort));
    await waitFor(() => !world.processes().some(isNew), 'the server of mcp.json to be stopped', 30_000);
    await waitFor(() => /workbench\.mcp\.stopServer mcp\.config\.ws0\.my tools \(its window was closed\): done/.test(first.log()), 'the log');
    fs.rmSync(path.join(world.workspace, '.vscode', 'mcp.json'));
  });

  test('Override, then Reclaim: each window says who it lost to, the old Host ends what it had, and there is always one', async () => {
    assert.equal((await mcp.call('terminal_run', { command: 'echo of the first' })).output, 'of the first\n');
    const { processes } = windowIn(world);
    const page = await other.open({ driver: false });
    await waitFor(async () => /Shall this window take over\?/.test(await toasts(page)), 'the question', 30_000).catch(async (error) => {
      await page.picture('no-question');
      throw new Error(`${String(error)}; ${await toasts(page)}; ${other.log()}`);
    });
    await waitFor(async () => /Devtools: standing by/.test(await statusBar(page)), 'the status bar');
    await page.picture('override');
    await press(page, 'Override');
    await waitFor(async () => /Devtools: Host/.test(await statusBar(page)), 'the second window to be the Host', 30_000);
    await waitFor(async () => /Devtools: standing by/.test(await statusBar(pageOf(first))), 'the first to stand by');
    await waitFor(async () => /elsewhere \(pid \d+\) has taken over/.test(await toasts(pageOf(first))), 'the first to be told who took over');
    await pageOf(first).picture('overridden');
    for (const { name, pid } of processes) assert.ok(!isAlive(pid), `the ${name} of the old window is alive`);
    assert.deepEqual(windows(world), []);
    assert.equal(world.processes().filter(({ role }) => role === 'host').length, 0); // no headless one came in between
    const refused = body(await mcp.call('terminal_run', { command: 'echo no' }), 'error');
    assert.equal(refused.code, 'E_OTHER_WORKSPACE');
    await press(pageOf(first), 'Reclaim');
    await waitFor(async () => /Devtools: Host/.test(await statusBar(pageOf(first))), 'the first window to be the Host again', 30_000);
    await waitFor(async () => /workspace \(pid \d+\) has taken over/.test(await toasts(page)), 'the second to be told');
    await page.picture('reclaimed');
    assert.equal((await mcp.call('terminal_run', { command: 'echo mine again' })).output, 'mine again\n');
    assert.equal(body(await mcp.call('devtools_status'), 'host').mode, 'vscode');
  });

  test('`host takeover` takes it from a window, which is told and takes it back', async () => {
    const { stdout } = spawnSync(process.execPath, [serverFile, 'host', 'takeover'], { env: world.env(), encoding: 'utf8' });
    assert.match(stdout, /^the Host is headless now \(pid \d+\); the one before \(pid \d+, vscode\)/);
    await waitFor(async () => /a person on the command line \(pid \d+\) has taken over/.test(await toasts(pageOf(first))), 'the window to be told');
    assert.equal(body(await mcp.call('devtools_status'), 'host').mode, 'headless');
    await press(pageOf(first), 'Reclaim');
    await waitFor(async () => /Devtools: Host/.test(await statusBar(pageOf(first))), 'the window to be the Host again', 30_000);
    assert.equal(body(await mcp.call('devtools_status'), 'host').mode, 'vscode');
  });

  test('a Host whose name another process has taken notices, and stands down', async () => {
    const shown = first.log().length;
    fs.rmSync(path.join(world.dir, 'host.sock'));
    await waitFor(() => /this window stands by: the name is not ours any more/.test(first.log().slice(shown)), 'the window to notice', 20_000);
    await waitFor(async () => /another process has taken over/.test(await toasts(pageOf(first))), 'its person to be told');
    await mcp.close();
    await waitFor(() => windows(world).length === 0, 'the window that nobody holds to end itself', 40_000);
  });
});

describe('Safe Mode in VS Code', { skip: !isHere }, () => {
  test('a Host without its bundle, then with a broken one, says what fails and where; mended it works. The same for its Client', async () => {
    spawnSync(process.execPath, ['build.mjs', '--vsix'], { cwd: root });
    const world = new World('s');
    const user = new UserWindow(world, 'user');
    try {
      user.install(vsixFile());
      const extensions = path.join(user.dir, 'extensions');
      const dist = path.join(extensions, String(fs.readdirSync(extensions).find((name) => name.startsWith('vscode-devtools'))), 'dist');
      const [host, client] = ['host.js', 'client.js'].map((name) => fs.readFileSync(path.join(dist, name), 'utf8'));
      fs.rmSync(path.join(dist, 'host.js'));
      await user.open();
      await waitFor(() => /user interface: host/.test(user.log()), 'the window to be the Host all the same', 30_000);
      const mcp = world.mcp();
      await mcp.initialize();
      const status = body(await mcp.call('devtools_status'), 'host');
      assert.deepEqual([status.state, status.mode, /Cannot find module .*dist\/host\.js/.test(String(status.reason))], ['safe mode', 'vscode', true], JSON.stringify(status));
      fs.writeFileSync(path.join(dist, 'host.js'), 'const fine = 1;\nconst broken = ;\n');
      const refused = body(await mcp.call('devtools_reload'), 'error');
      assert.deepEqual([refused.code, /SyntaxError.*host\.js:2/.test(String(refused.message))], ['E_SAFE_MODE', true], String(refused.message));
      fs.writeFileSync(path.join(dist, 'host.js'), String(host));
      fs.writeFileSync(path.join(dist, 'client.js'), 'throw new Error("no Client today");\n');
      const still = body(await mcp.call('devtools_reload'), 'error');
      assert.deepEqual([still.code, /no Client today.*client\.js:1/.test(String(still.message))], ['E_SAFE_MODE', true], String(still.message));
      assert.equal(body(await mcp.call('devtools_status'), 'host').state, 'connected');
      fs.writeFileSync(path.join(dist, 'client.js'), String(client));
      assert.equal((await mcp.call('devtools_reload')).reloaded, true);
      assert.equal((await mcp.call('terminal_run', { command: 'echo works' })).output, 'works\n');
    } finally {
      await user.close();
      await world.end();
    }
  });
});
