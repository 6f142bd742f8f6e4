// Eyes and hands in a real VS Code window (the server that code-server carries, in headless Chromium), as an agent uses them:
// by what it reads there, without a selector. What came of it is asserted from the file system or the vscode API.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { isObject } from '../bootstrap.js';
import { McpClient, Page, World, body, kill, rendererOf, root, serverFile, vscode, waitFor, windowOptions, type Json } from './lib.ts';

const isHere = process.platform === 'linux' && process.arch === 'x64';
if (!isHere) console.log('# the VS Code of these suites runs on Linux x64 alone: skipped');
else assert.ok(fs.existsSync(vscode.server), 'the VS Code server is not installed: node test/setup.mjs');

// A webview with what forms have; whatever is done there is written to a file.
const EXTENSION = {
  'package.json': JSON.stringify({ name: 'form', publisher: 'test', version: '0.0.1', main: './main.js', engines: { vscode: '^1.90.0' }, activationEvents: ['onStartupFinished'], contributes: { commands: [{ command: 'form.open', title: 'Form: Open' }] } }),
  'main.js': `const vscode = require('vscode');
const fs = require('fs');
exports.activate = (context) => context.subscriptions.push(vscode.commands.registerCommand('form.open', (title, html, effect) => {
  const panel = vscode.window.createWebviewPanel('form', title, vscode.ViewColumn.One, { enableScripts: true, retainContextWhenHidden: true });
  panel.webview.onDidReceiveMessage((message) => fs.appendFileSync(effect, JSON.stringify(message) + '\\n'));
  panel.webview.html = html;
}));
`,
};

const form = (port: number): string => `<!doctype html><html><head><title>A form</title></head><body>
<h1>Order</h1><p>Fill in <em>everything</em>, please.</p>
<label>Name <input id="name"></label>
<label>Size <select id="size"><option>Small</option><option>Large</option><option disabled>Huge</option></select></label>
<label><input type="checkbox" id="gift"> A gift</label>
<input type="password" aria-label="Secret" id="secret" value="abc">
<textarea aria-label="Remarks" id="remarks"></textarea>
<button id="send" onclick="send()">Send it</button>
<button id="off" disabled>Switched off</button>
<div id="covered" style="position:relative;width:200px;height:40px"><button>Beneath</button><div role="dialog" aria-label="The lid" style="position:absolute;inset:0;background:#ccc"></div></div>
<div onclick="say({ clicked: 'a bare div' })" style="cursor:pointer">Press this</div>
<ul><li>one</li><li>two</li></ul>
<iframe title="Inner" srcdoc="<button onclick='parent.say({ inner: 1 })'>Deep inside</button>"></iframe>
<iframe title="Elsewhere" src="http://localhost:${port}/page"></iframe>
<div id="far" style="margin-top:3000px"><button onclick="say({ far: 1 })">Far below</button></div>
<script>
const api = acquireVsCodeApi();
function say(what) { api.postMessage(what); }
function send() { const of = (id) => document.getElementById(id); say({ name: of('name').value, size: of('size').value, gift: of('gift').checked, remarks: of('remarks').value }); }
console.log('the form speaks %d', 42, { a: 1 });
console.error('the form complains');
fetch('http://127.0.0.1:${port}/data?from=form').then((answer) => answer.text()).then((text) => say({ fetched: text }));
</script></body></html>`;

describe('eyes and hands in a window', { skip: !isHere }, () => {
  let world: World;
  let mcp: McpClient;
  let page: Page;
  let pageServer: http.Server;
  let port: number;
  let effect: string;
  const file = (name: string): string => path.join(world.workspace, name);

  const start = async (): Promise<McpClient> => {
    const { args, env } = windowOptions();
    const home = path.join(world.home, 'config');
    fs.mkdirSync(path.join(home, 'vscode-devtools'), { recursive: true });
    fs.writeFileSync(path.join(home, 'vscode-devtools', 'settings.json'), JSON.stringify({ allowExec: true }), { mode: 0o600 });
    const client = new McpClient([serverFile, '--workspace', world.workspace, ...args, '--extension', path.join(world.home, 'form'), '--allow-exec'], world.env({ ...env, XDG_CONFIG_HOME: home }));
    world.clients.push(client);
    await client.initialize();
    return client;
  };

  /** A call that must not fail. */
  const ok = async (name: string, args: Json = {}): Promise<Json> => {
    const answer = await mcp.call(name, args);
    assert.equal(answer.error, undefined, `${name} ${JSON.stringify(args).slice(0, 200)}: ${JSON.stringify(answer.error)}`);
    return answer;
  };
  const refused = async (name: string, args: Json): Promise<Json> => body(await mcp.call(name, args), 'error');
  const snapshot = async (args: Json = {}): Promise<string> => String((await ok('window_snapshot', args)).snapshot);
  /** The uid of the line that fits, when it is there. */
  const uid = async (line: RegExp, withinMs = 10_000): Promise<string> => {
    let found: string | undefined;
    let text = '';
    await waitFor(async () => (found = (text = await snapshot()).split('\n').find((one) => line.test(one))?.trim().split(' ')[0]), `${line}`, withinMs).catch((error) => {
      throw new Error(`${error.message} in\n${text}`);
    });
    return found ?? '';
  };
  const exec = async (code: string): Promise<unknown> => (await ok('devtools_exec', { code })).value;
  const effects = (): string => (fs.existsSync(effect) ? fs.readFileSync(effect, 'utf8') : '');
  const show = (name: string): Promise<Buffer> => page.picture(`hands-${name}`);
  const openForm = async (title: string, html: string): Promise<void> => void (await ok('window_command', { command: 'form.open', args: [title, html, effect] }));
  const closeEditors = async (): Promise<void> => void (await ok('window_command', { command: 'workbench.action.closeAllEditors' }));

  /** The browser, from what the Host has written down. */
  const chromiumPid = (): number => {
    const list = fs.readdirSync(world.dir).find((name) => name.startsWith('window-')) ?? '';
    const { processes } = JSON.parse(fs.readFileSync(path.join(world.dir, list, 'window.json'), 'utf8'));
    return Number((processes as Json[]).find((one) => one.name === 'chromium')?.pid);
  };

  before(async () => {
    world = new World('w');
    effect = path.join(world.home, 'effect');
    fs.mkdirSync(path.join(world.home, 'form'));
    for (const [name, text] of Object.entries(EXTENSION)) fs.writeFileSync(path.join(world.home, 'form', name), text);
    fs.writeFileSync(file('readme.md'), '# A title\n\nWith a [link](#there) and **bold** words.\n');
    fs.writeFileSync(file('other.txt'), 'another file\n');
    pageServer = http.createServer((request, response) => {
      response.setHeader('Access-Control-Allow-Origin', '*');
      response.setHeader('Content-Type', request.url?.startsWith('/page') ? 'text/html' : 'text/plain');
      response.end(request.url?.startsWith('/page') ? '<!doctype html><title>Elsewhere</title><p>From another site</p><button onclick="document.title = this.textContent = \'Pressed elsewhere\'; console.warn(\'elsewhere was pressed\')">Press elsewhere</button>' : 'some data');
    }).listen(0, '127.0.0.1');
    await new Promise((resolve) => pageServer.once('listening', resolve));
    port = (pageServer.address() as AddressInfo).port; // it listens on a port
    mcp = await start();
    await ok('window_list');
    page = await Page.open(Number(JSON.parse(fs.readFileSync(path.join(world.workspace, '.devtools', 'host-session.json'), 'utf8')).cdpPort));
  });
  after(async () => {
    page?.close();
    await world.end();
    pageServer.close();
    pageServer.closeAllConnections();
  });

  test("an agent's walk: a program is written and saved by palette and dialog", async () => {
    const opened = await ok('window_press_key', { keys: 'Control+Shift+P' });
    assert.match(String(opened.changes), /\+ .*textbox "Type the name of a command to run\." focused = ">"/);
    assert.match(String(opened.focus), /Type the name of a command/);
    await ok('window_type', { text: 'Create: New File' });
    await ok('window_click', { text: 'Create: New File..., Control+Alt+Super+N' });
    await ok('window_wait_for', { text: 'Text File' });
    await ok('window_press_key', { keys: 'Enter' });
    const editor = await uid(/textbox "Untitled-1"/);
    const program = 'function add(a, b) {\n  return [a, b].reduce((x, y) => x + y);\n}\n\nconsole.log(add(1, 2)); // "done" {';
    const typed = await ok('window_type', { text: program, uid: editor });
    assert.match(String(typed.changes), /2\| {3}return \[a, b\]/);
    await ok('window_press_key', { keys: 'Control+S' });
    await uid(/textbox "Folder path.*" focused/);
    await show('save');
    await ok('window_type', { text: file('add.js'), clear: true, submit: true });
    await waitFor(() => fs.existsSync(file('add.js')), 'the file to be saved');
    await ok('window_wait_for', { text: 'add.js' });
    assert.equal(fs.readFileSync(file('add.js'), 'utf8'), program);
    await show('saved');
  });

  test("an agent's walk: a setting is changed in the settings editor, and is in settings.json", async () => {
    await ok('window_press_key', { keys: 'Control+,' });
    await ok('window_type', { text: 'editor.fontSize', uid: await uid(/textbox "Search settings/), clear: true });
    await waitFor(async () => {
      const answer = await mcp.call('window_type', { uid: await uid(/spinbutton "editor\.fontSize"/), text: '19', clear: true, submit: true });
      if (answer.error !== undefined) assert.equal(body(answer, 'error').code, 'E_UID', JSON.stringify(answer)); // the search goes on, and draws its rows anew
      return answer.error === undefined;
    }, 'the setting to be typed');
    await waitFor(async () => (await exec("return vscode.workspace.getConfiguration('editor').get('fontSize')")) === 19, 'the setting to be 19');
    await show('settings');
    await ok('window_press_key', { keys: 'Control+Shift+P' });
    await ok('window_type', { text: 'Preferences: Open User Settings (JSON)', submit: true });
    await ok('window_wait_for', { text: '"editor.fontSize": 19' });
    await uid(/textbox "settings\.json/);
    await closeEditors();
  });

  test("an agent's walk: what is in a Markdown preview is read and pressed", async () => {
    await ok('window_click', { text: 'readme.md', count: 2 });
    await uid(/textbox "readme\.md/);
    await ok('window_press_key', { keys: 'Control+Shift+V' });
    await uid(/heading "A title" level=1/);
    const shown = await snapshot();
    assert.match(shown, /\S+ frame[^\n]*\n +\S+ heading "A title" level=1\n +"With a"\n +\S+ link "link"\n +"and bold words\."/);
    await ok('window_click', { text: 'link' });
    await show('preview');
    await closeEditors();
  });

  test('a webview form: all of it is in the snapshot, and what is typed, chosen and pressed there arrives', async () => {
    await openForm('Order form', form(port));
    await uid(/button "Send it"/);
    await ok('window_wait_for', { text: 'Press elsewhere' });
    const shown = await snapshot();
    for (const line of [/heading "Order" level=1/, /"Fill in everything, please\."/, /textbox "Name"/, /combobox "Size" = "Small"/, /checkbox "A gift" unchecked/, /textbox "Secret" = "•••"/, /button "Switched off" disabled/, /clickable "Press this"/, /listitem "one"/, /frame "Inner"\n +\S+ button "Deep inside"/, /frame "Elsewhere"\n +"From another site"\n +\S+ button "Press elsewhere"/, /button "Far below"/]) assert.match(shown, line);
    await ok('window_type', { uid: await uid(/textbox "Name"/), text: 'Ann "Ä" 漢字' });
    await ok('window_type', { uid: await uid(/combobox "Size"/), text: 'large' });
    const checked = await ok('window_type', { uid: await uid(/checkbox "A gift"/), text: 'true' });
    assert.match(String(checked.changes), /checkbox "A gift" (focused )?checked/);
    await ok('window_type', { uid: await uid(/checkbox "A gift"/), text: 'true' }); // it is: nothing is pressed
    await ok('window_type', { uid: await uid(/textbox "Remarks"/), text: 'two\nlines' });
    const pressed = await ok('window_click', { text: 'Send it' });
    await show('form');
    assert.match(String(pressed.done), /clicked \S+ button "Send it"/);
    await waitFor(() => effects().includes('"remarks"'), 'the form to be sent');
    assert.ok(effects().includes(JSON.stringify({ name: 'Ann "Ä" 漢字', size: 'Large', gift: true, remarks: 'two\nlines' })), effects());
    await ok('window_click', { text: 'Press this' });
    await ok('window_click', { text: 'Deep inside' });
    await ok('window_click', { text: 'Far below' });
    await waitFor(() => /a bare div[^]*inner[^]*far/.test(effects()), 'all clicks to land');
  });

  test('a frame of another site, with a process of its own, is seen, pressed and heard like the others', async () => {
    await ok('window_click', { text: 'Press elsewhere' });
    await ok('window_wait_for', { text: 'Pressed elsewhere' });
    const told = await ok('window_console', { pattern: 'elsewhere was pressed' });
    assert.equal((Array.isArray(told.lines) ? told.lines : []).length, 1, JSON.stringify(told.lines));
    // Each time it has to be scrolled to, and the browser to learn where it is now.
    for (let round = 2; round <= 8; round++) {
      await ok('window_click', { text: 'Far below' });
      await ok('window_click', { text: 'Pressed elsewhere' });
      const heard = await ok('window_console', { pattern: 'elsewhere was pressed' });
      assert.equal((Array.isArray(heard.lines) ? heard.lines : []).length, round, `press ${round}`);
    }
  });

  test('console and network of a webview are there, by cursor, level and pattern, with bodies', async () => {
    const said = await ok('window_console', { pattern: 'the form speaks' });
    assert.match(String(said.lines), /info \[frame \w+\] the form speaks 42 Object \{a: 1\}/);
    const wrong = await ok('window_console', { level: 'error', pattern: 'the form' });
    assert.match(String(wrong.lines), /error .*the form complains/);
    assert.equal((Array.isArray(wrong.lines) ? wrong.lines : []).length, 1);
    assert.deepEqual((await ok('window_console', { cursor: said.cursor, pattern: 'the form' })).lines, []);
    const requests = await ok('window_network', { pattern: 'from=form' });
    const [line = ''] = Array.isArray(requests.lines) ? requests.lines.map(String) : [];
    assert.match(line, /^r\d+ GET 200 http:\/\/127\.0\.0\.1:\d+\/data\?from=form/);
    const one = body(await ok('window_network', { id: line.split(' ')[0] ?? '' }), 'request');
    assert.deepEqual([one.body, one.status, body(one, 'responseHeaders')['Content-Type'] ?? body(one, 'responseHeaders')['content-type']], ['some data', 200, 'text/plain']);
    assert.equal((await refused('window_network', { id: 'r999999' })).code, 'E_NO_MATCH');
    assert.equal((await refused('window_console', { pattern: '(' })).code, 'E_ARGUMENTS');
  });

  test('uids stay with their nodes over an unrelated change and a restart of the server; each names one node', async () => {
    const send = await uid(/button "Send it"/);
    const explorer = await uid(/tab "Explorer"/);
    await ok('window_command', { command: 'workbench.action.toggleZenMode' });
    await ok('window_command', { command: 'workbench.action.toggleZenMode' });
    await mcp.close();
    mcp = await start();
    assert.equal(await uid(/button "Send it"/), send);
    assert.equal(await uid(/tab "Explorer"/), explorer);
    fs.rmSync(effect);
    await ok('window_click', { uid: send });
    await waitFor(() => effects().includes('Ann'), 'the same button to be pressed');
    const ids = (await snapshot({ verbose: true })).split('\n').map((line) => line.trim()).filter((line) => !/^\w+ text /.test(line)).map((line) => line.split(' ')[0] ?? '').filter((word) => /^[a-z]+\d+$/.test(word));
    assert.equal(new Set(ids).size, ids.length);
  });

  test('what cannot be clicked is an error that says why and what to do; nothing is done', async () => {
    fs.rmSync(effect, { force: true });
    const covered = await refused('window_click', { text: 'Beneath' });
    assert.deepEqual([covered.code, /covered by \S+ dialog "The lid"/.test(String(covered.message))], ['E_COVERED', true], String(covered.message));
    assert.deepEqual([(await refused('window_click', { text: 'Switched off' })).code, (await refused('window_click', { uid: 'zz1' })).code, (await refused('window_click', { uid: 'a999999' })).code, (await refused('window_click', { uid: 'x y' })).code, (await refused('window_click', {})).code], ['E_NOT_READY', 'E_UID', 'E_UID', 'E_UID', 'E_ARGUMENTS']);
    const none = await refused('window_click', { text: 'Send this' });
    assert.deepEqual([none.code, /button "Send it"/.test(String(none.message))], ['E_NO_MATCH', true], String(none.message));
    const two = await refused('window_click', { text: 'Toggle' });
    assert.deepEqual([two.code, /\d nodes say "Toggle": \w+ button "Toggle/.test(String(two.message))], ['E_AMBIGUOUS', true], String(two.message));
    const option = await refused('window_type', { uid: await uid(/combobox "Size"/), text: 'Huge' });
    assert.deepEqual([option.code, /"Small", "Large"/.test(String(option.message))], ['E_NO_MATCH', true]);
    assert.equal((await refused('window_type', { uid: await uid(/button "Send it"/), text: 'x' })).code, 'E_NO_FOCUS');
    assert.equal((await refused('window_type', { uid: await uid(/textbox "Name"/), text: 'a\nb' })).code, 'E_ARGUMENTS');
    assert.equal((await refused('window_press_key', { keys: 'Hyper+X' })).code, 'E_ARGUMENTS');
    assert.equal((await refused('window_press_key', { keys: 'Control+Nope' })).code, 'E_ARGUMENTS');
    assert.equal((await refused('window_snapshot', { within: 'zz9' })).code, 'E_UID');
    assert.equal((await refused('window_evaluate', { expression: 'nope()' })).code, 'E_EVALUATE');
    const late = await ok('window_wait_for', { text: 'never to be seen', timeout: 0.3 });
    assert.deepEqual([late.found, Number(late.waitedMs) >= 300], [false, true]);
    assert.equal(effects(), '');
  });

  test('nothing that can be used is missing: the accessibility tree has the same nodes, roles and names', async () => {
    const ROLES = new Set(['button', 'link', 'textbox', 'searchbox', 'combobox', 'checkbox', 'radio', 'switch', 'slider', 'spinbutton', 'tab', 'menuitem', 'menuitemcheckbox', 'menuitemradio', 'option', 'treeitem', 'listbox']);
    const SAME: Record<string, string> = { comboBoxSelect: 'combobox', comboBoxMenuButton: 'combobox', PopUpButton: 'button', DisclosureTriangle: 'button', ToggleButton: 'button', TextField: 'textbox', Menu: 'menu', MenuListOption: 'option' };
    const plain = (text: string): string => text.replace(/[\ue000-\uf8ff\s\u{f0000}-\u{fffff}]/gu, '');
    const compare = async (where: string): Promise<number> => {
      const ours = new Map((await snapshot({ verbose: true })).split('\n').flatMap((line) => {
        const [, id = '', role = '', name = '""'] = /^ *([a-z]+\d+) ([a-z]+)(?: ("(?:[^"\\]|\\.)*"))?/.exec(line) ?? [];
        return id && role !== 'text' ? [[id, { role, name: String(JSON.parse(name)) }]] : [];
      }));
      const problems: string[] = [];
      let count = 0;
      for (const { id: frameId, context } of await page.frames('vscode-devtools')) {
        const { nodes } = await page.send('Accessibility.getFullAXTree', { frameId });
        for (const node of (nodes as Json[]).filter((one) => one.ignored !== true)) { // the protocol says so
          const role = String(isObject(node.role) ? node.role.value : '');
          const name = String(isObject(node.name) ? node.name.value : '');
          const same = SAME[role] ?? role;
          if (!ROLES.has(same)) continue;
          count++;
          const { object } = await page.send('DOM.resolveNode', { backendNodeId: node.backendDOMNodeId, executionContextId: context });
          const { result } = await page.send('Runtime.callFunctionOn', { objectId: isObject(object) ? object.objectId : '', returnByValue: true, functionDeclaration: `function () {
            const ids = [];
            for (let one = this; one; one = one.parentNode ?? one.host) if (vscodeDevtools.ids.has(one)) ids.push(vscodeDevtools.prefix + vscodeDevtools.ids.get(one));
            return { own: vscodeDevtools.ids.has(this) ? ids[0] : '', above: ids, isDrawn: this.getBoundingClientRect().width * this.getBoundingClientRect().height > 0 };
          }` });
          const { own = '', above = [], isDrawn } = (isObject(result) && isObject(result.value) ? result.value : {}) as { own?: string; above?: string[]; isDrawn?: boolean };
          const found = ours.get(own);
          const echo = above.map((one) => ours.get(one)).find((one) => one && plain(one.name) === plain(name) && one.role === same); // a button that holds nothing but itself once more
          if (!found && !echo) {
            if (isDrawn) problems.push(`missing: ${role} ${JSON.stringify(name)}`);
          } else if (found && found.role !== same) problems.push(`role: ${role} ${JSON.stringify(name)} is ${found.role}`);
          else if (found && plain(found.name) !== plain(name) && !plain(name).startsWith(plain(found.name))) problems.push(`name: ${role} ${JSON.stringify(name)} is ${JSON.stringify(found.name)}`);
        }
      }
      assert.deepEqual(problems, [], where);
      console.log(`# ${where}: ${count} nodes that can be used`);
      return count;
    };
    assert.ok((await compare('a form')) > 40);
    await ok('window_press_key', { keys: 'Control+Shift+P' });
    assert.ok((await compare('the palette')) > 40);
    await ok('window_press_key', { keys: 'Escape' });
    await closeEditors();
    await ok('window_press_key', { keys: 'Control+,' });
    await uid(/textbox "Search settings/);
    assert.ok((await compare('the settings')) > 60);
    await ok('window_click', { uid: await uid(/treeitem "readme\.md/), button: 'right' });
    assert.ok((await compare('a menu')) > 60);
    await ok('window_press_key', { keys: 'Escape' });
  });

  test('a tab is dragged to a second group, a context menu opens and is used, a mouse over a tab shows its path', async () => {
    await closeEditors();
    for (const name of ['other.txt', 'readme.md']) await ok('window_command', { command: 'vscode.open', args: [{ $uri: `file://${file(name)}` }, { preview: false }] });
    await uid(/tab "readme\.md" selected/);
    await ok('window_command', { command: 'workbench.action.moveEditorToRightGroup' });
    await uid(/tab "readme\.md, Editor Group 2"/);
    await ok('window_command', { command: 'vscode.open', args: [{ $uri: `file://${file('add.js')}` }, { preview: false, viewColumn: 1 }] });
    const groups = "return vscode.window.tabGroups.all.map((group) => group.tabs.map((tab) => tab.label).join())";
    await waitFor(async () => String(await exec(groups)) === 'other.txt,add.js,readme.md' || JSON.stringify(await exec(groups)) === '["other.txt,add.js","readme.md"]', 'the groups');
    const dragged = await ok('window_drag', { from: await uid(/tab "other\.txt/), to: await uid(/tab "readme\.md/) });
    assert.match(String(dragged.done), /dragged \S+ tab "other\.txt/);
    await waitFor(async () => /^add\.js$/.test(String((await exec(groups) as string[])[0])), 'the tab to be in the second group'); // a list of strings
    await show('dragged');
    const menu = await ok('window_click', { uid: await uid(/treeitem "other\.txt/), button: 'right' });
    assert.match(String(menu.changes), /menuitem "Rename\.\.\./);
    await show('menu');
    await ok('window_click', { text: 'Rename...' });
    await ok('window_type', { text: 'renamed.txt', clear: true, submit: true });
    await waitFor(() => fs.existsSync(file('renamed.txt')), 'the file to be renamed');
    const over = await ok('window_hover', { uid: await uid(/tab "add\.js/) });
    assert.match(String(over.changes), /add\.js/);
    await show('hover');
  });

  test('an editor shows its visible text, a terminal its lines, a list its selection; scrolling shows more', async () => {
    fs.writeFileSync(file('long.txt'), Array.from({ length: 500 }, (_, i) => `row ${i + 1}\n`).join(''));
    await ok('window_command', { command: 'vscode.open', args: [{ $uri: `file://${file('long.txt')}` }] });
    const editor = await uid(/textbox "long\.txt/);
    assert.match(await snapshot({ within: editor }), /\n 1\| row 1\n 2\| row 2\n/);
    assert.doesNotMatch(await snapshot(), /row 400/);
    await ok('window_command', { command: 'workbench.view.explorer' }); // the focus is elsewhere
    const clicked = await ok('window_click', { uid: editor });
    assert.match(String(clicked.focus), /textbox "long\.txt/);
    assert.equal(await exec('return vscode.window.activeTextEditor.visibleRanges[0].start.line'), 0); // a click is no reason to scroll
    await ok('window_scroll', { uid: editor, dy: 4000 });
    await waitFor(async () => !/ 1\| row 1\n/.test(await snapshot({ within: editor })), 'the editor to scroll');
    await ok('terminal_run', { command: 'echo "in the panel"' });
    await waitFor(async () => /textbox "Terminal \d+[^"]*"[^\n]*\n(?: *\|[^\n]*\n)* *\| in the panel/.test(await snapshot()), "the command's output below the terminal, not only the command"); // it is drawn a moment after the answer
    await ok('window_click', { text: 'readme.md', count: 1 }).catch(() => ok('window_command', { command: 'workbench.files.action.showActiveFileInExplorer' }));
    assert.match(await snapshot(), /treeitem "[^"]+"[^\n]*selected/);
  });

  test('a uid is never given to another node: VS Code shows one file after the other in the same rows and tabs', async () => {
    await closeEditors();
    const many = file('many');
    fs.mkdirSync(many);
    for (let i = 10; i < 70; i++) fs.writeFileSync(path.join(many, `part-${i}.txt`), `${i}\n`);
    const folder = await uid(/treeitem "many"/);
    const readme = await uid(/treeitem "readme\.md"/);
    await ok('window_click', { uid: folder }); // what was the row of readme.md shows another file, or is gone
    const named = async (id: string): Promise<string> => (await snapshot({ verbose: true })).split('\n').find((line) => line.trim().startsWith(`${id} `))?.trim() ?? '';
    assert.match(await named(folder), /treeitem "many"/); // it has stayed where it was
    assert.ok(/^$|"readme\.md"/.test(await named(readme)), await named(readme));
    const asked = await mcp.call('window_click', { uid: readme, button: 'right' });
    assert.ok(asked.error === undefined ? /readme\.md/.test(String(asked.done)) : body(asked, 'error').code === 'E_UID', JSON.stringify(asked));
    await ok('window_press_key', { keys: 'Escape' });
    for (const name of ['part-10.txt', 'part-11.txt', 'part-12.txt']) await ok('window_command', { command: 'vscode.open', args: [{ $uri: `file://${path.join(many, name)}` }, { preview: false }] });
    const second = await uid(/tab "part-11\.txt/);
    await ok('window_command', { command: 'workbench.action.openEditorAtIndex1' });
    await ok('window_command', { command: 'workbench.action.closeActiveEditor' }); // the tabs behind it move up
    await waitFor(async () => !/tab "part-10/.test(await snapshot()), 'the first to be closed');
    assert.ok(/^$|"part-11\.txt/.test(await named(second)), await named(second));
    const wrong = await mcp.call('window_click', { uid: second });
    assert.ok(wrong.error === undefined ? /part-11/.test(String(wrong.done)) : body(wrong, 'error').code === 'E_UID', JSON.stringify(wrong));
    await closeEditors();
    await ok('window_click', { uid: folder });
    fs.rmSync(many, { recursive: true });
  });

  test('modifiers, double clicks, a drag by the mouse, what moves at first, what others draw as a field: all arrive as they are meant', async () => {
    fs.rmSync(effect, { force: true });
    await openForm('Hands form', `<style>@keyframes go { from { transform: translateX(0) } to { transform: translateX(400px) } } #moving { animation: go 1.2s linear forwards }</style>
      <button id="m">Tell modifiers</button>
      <div id="knob" role="slider" aria-label="Knob" aria-valuenow="0" tabindex="0" style="width:40px;height:40px;background:#888"></div>
      <div id="goal" role="img" aria-label="Goal" style="margin-left:300px;width:40px;height:40px;background:#ccc"></div>
      <div contenteditable="true" role="textbox" aria-label="Rich">old</div>
      <div id="slot"></div><button id="later" disabled>Soon</button>
      <div style="overflow:auto;width:200px;height:60px" tabindex="0" role="group" aria-label="Wide"><div style="width:2000px;height:1000px">wide</div></div>
      <script>const api = acquireVsCodeApi(), say = (what) => api.postMessage(what);
      addEventListener('keydown', (e) => say({ down: e.key })); addEventListener('keyup', (e) => say({ up: e.key }));
      for (const type of ['click', 'dblclick', 'auxclick']) m.addEventListener(type, (e) => say({ [type]: [e.ctrlKey, e.shiftKey, e.altKey, e.detail, e.button] }));
      knob.onmousedown = (down) => { onmousemove = (e) => { knob.ariaValueNow = e.clientX - down.clientX; }; onmouseup = (e) => { onmousemove = null; say({ dropped: document.elementFromPoint(e.clientX, e.clientY).id, buttons: e.buttons }); onmouseup = null; }; };
      document.querySelector('[role=group]').onscroll = (e) => say({ scrolled: [e.target.scrollLeft, e.target.scrollTop] });
      setTimeout(() => { later.disabled = false; later.onclick = () => say({ later: 1 }); }, 1500);
      function start() { slot.innerHTML = '<button id="moving">Catch me</button>'; slot.firstChild.onclick = (e) => say({ caught: Math.round(slot.firstChild.getBoundingClientRect().left - slot.getBoundingClientRect().left) }); }
      </script><button onclick="start()">Start moving</button>`);
    const told = async (what: RegExp): Promise<void> => waitFor(() => what.test(effects()), `${what} in ${effects()}`);
    const soon = await uid(/button "Soon" disabled/);
    assert.equal((await ok('window_wait_for', { uid: soon })).found, true); // until it can be used
    await ok('window_click', { uid: soon });
    await told(/"later":1/);
    await ok('window_click', { text: 'Tell modifiers', modifiers: ['Control', 'Shift'] });
    await told(/"click":\[true,true,false,1,0\]/);
    await ok('window_click', { text: 'Tell modifiers', count: 2 });
    await told(/"click":\[false,false,false,1,0\][^]*"click":\[false,false,false,2,0\][^]*"dblclick":\[false,false,false,2,0\]/);
    await ok('window_click', { text: 'Tell modifiers', button: 'middle', modifiers: ['Alt'] });
    await told(/"auxclick":\[false,false,true,1,1\]/);
    const dragged = await ok('window_drag', { from: 'Knob', to: 'Goal' });
    await told(/"dropped":"goal","buttons":0/);
    assert.match(String(dragged.changes), /slider "Knob".* = "3\d\d"/);
    await ok('window_type', { uid: await uid(/textbox "Rich"/), text: 'new & bold', clear: true });
    await uid(/textbox "Rich"[^\n]* = "new & bold"/);
    await ok('window_scroll', { uid: await uid(/group "Wide"/), dx: 120, dy: 300 });
    await told(/"scrolled":\[120,300\]/);
    await ok('window_click', { text: 'Start moving' });
    await ok('window_click', { text: 'Catch me' });
    await told(/"caught":400/); // it was at rest by then
    await ok('window_press_key', { keys: 'Control+Shift+Alt a Shift+Tab' });
    const keys = effects().split('\n').flatMap((line) => /"(down|up)":"([^"]+)"/.exec(line)?.slice(1, 3).join(' ') ?? []);
    for (const key of new Set(keys.map((one) => one.split(' ')[1]))) assert.equal(keys.findLast((one) => one.split(' ')[1] === key), `up ${key}`, keys.join());
    const { targets } = await ok('window_list');
    assert.ok((Array.isArray(targets) ? targets.filter(isObject) : []).some(({ kind, title }) => kind === 'frame' && title === 'Hands form'), JSON.stringify(targets));
    assert.equal((await ok('window_evaluate', { expression: 'document.getElementById("goal").ariaLabel', target: 'Hands form' })).value, 'Goal');
    assert.equal((await refused('window_evaluate', { expression: '1', target: 'No such form' })).code, 'E_NO_MATCH');
    const waiting = ok('window_wait_for', { gone: 'Catch me', timeout: 20 });
    await closeEditors();
    assert.equal((await waiting).found, true);
    assert.equal((await ok('window_wait_for', { uid: soon, gone: true })).found, true);
    assert.equal((await ok('window_wait_for', { text: 'Explorer', gone: true, timeout: 0.2 })).found, false);
    assert.equal((await refused('window_wait_for', {})).code, 'E_ARGUMENTS');
  });

  test('a chord of two strokes reaches VS Code', async () => {
    await ok('window_press_key', { keys: 'Control+K Control+S' });
    await uid(/dialog "Keyboard Shortcuts"/);
    await ok('window_click', { text: 'Close Modal Editor' });
    await ok('window_wait_for', { gone: 'Keyboard Shortcuts' });
  });

  test('pictures: the window, a node, a node inside a webview, in both formats, and kept in full', async () => {
    await openForm('Picture form', '<body style="margin:0"><button id="b" style="position:absolute;left:20px;top:30px;width:120px;height:50px;background:rgb(255,0,0)">Red</button></body>');
    const red = await uid(/button "Red"/);
    const answer = await mcp.request('tools/call', { name: 'window_screenshot', arguments: { uid: red } });
    const { content, structuredContent } = body(answer, 'result');
    const image = (Array.isArray(content) ? content.filter(isObject) : []).find((one) => one.type === 'image');
    const bytes = Buffer.from(String(image?.data), 'base64');
    assert.deepEqual([bytes.subarray(1, 4).toString('latin1'), bytes.readUInt32BE(16), bytes.readUInt32BE(20)], ['PNG', 120, 50]);
    assert.ok(isObject(structuredContent) && structuredContent.image === undefined);
    const { file: kept } = body(body(answer, 'result'), 'structuredContent');
    assert.deepEqual(fs.readFileSync(String(kept)), bytes);
    assert.equal(fs.statSync(String(kept)).mode & 0o777, 0o600);
    const jpeg = await ok('window_screenshot', { format: 'jpeg' });
    assert.equal(fs.readFileSync(String(jpeg.file)).subarray(0, 2).toString('hex'), 'ffd8');
    await page.send('Emulation.setDeviceMetricsOverride', { width: 3000, height: 2000, deviceScaleFactor: 1, mobile: false });
    const large = body(await mcp.request('tools/call', { name: 'window_screenshot', arguments: {} }), 'result');
    const sent = Buffer.from(String((Array.isArray(large.content) ? large.content.filter(isObject) : []).find((one) => one.type === 'image')?.data), 'base64');
    const [wide, high] = [sent.readUInt32BE(16), sent.readUInt32BE(20)];
    const whole = fs.readFileSync(String(body(large, 'structuredContent').file));
    assert.deepEqual([whole.readUInt32BE(16), whole.readUInt32BE(20), wide <= 1568 && wide * high <= 1_160_000, Math.abs(wide / high - 1.5) < 0.01], [3000, 2000, true, true], `${wide}x${high}`);
    await page.send('Emulation.clearDeviceMetricsOverride');
    fs.copyFileSync(String(kept), path.join(root, '.cache', 'pictures', 'hands-node.png'));
    await closeEditors();
  });

  test('a dialog is told, holds everything else with a clear error, and is answered by a key', async () => {
    await ok('window_evaluate', { expression: 'setTimeout(() => { globalThis.answer = confirm("Really?"); }, 0); 1' });
    let shown: Json = {};
    await waitFor(async () => body(shown = await ok('window_snapshot'), 'ledger') && isObject(shown.dialog), 'the dialog');
    assert.deepEqual([shown.dialog, /window_press_key/.test(String(shown.message))], [{ type: 'confirm', message: 'Really?' }, true]);
    assert.equal((await refused('window_click', { text: 'Explorer' })).code, 'E_DIALOG');
    assert.equal((await refused('window_press_key', { keys: 'F1' })).code, 'E_DIALOG');
    await ok('window_press_key', { keys: 'Enter' });
    assert.equal((await ok('window_evaluate', { expression: 'answer' })).value, true);
    await ok('window_evaluate', { expression: 'setTimeout(() => { globalThis.answer = prompt("Your name?", "x"); }, 0); 1' });
    await waitFor(async () => isObject((await ok('window_list')).dialog), 'the prompt');
    await ok('window_type', { text: 'Bob' });
    assert.equal((await ok('window_evaluate', { expression: 'answer' })).value, 'Bob');
    await ok('window_evaluate', { expression: 'setTimeout(() => { globalThis.answer = confirm("Who sees this?"); }, 0); 1' });
    await waitFor(async () => isObject((await ok('window_list')).dialog), 'the dialog');
    await mcp.close(); // a server that ends leaves no dialog behind: no other could answer it
    mcp = await start();
    assert.match(await snapshot(), /tab "Explorer"/);
    assert.equal((await ok('window_evaluate', { expression: 'answer' })).value, false);
  });

  test('a dialog that a killed server had seen open holds the window no longer than the next server needs to notice', async () => {
    const { pid } = body(await ok('devtools_status'), 'client');
    await ok('window_evaluate', { expression: 'setTimeout(() => confirm("Nobody can answer"), 0); 1' });
    await waitFor(async () => isObject((await ok('window_list')).dialog), 'the dialog');
    kill(Number(mcp.child.pid), 'SIGKILL');
    await mcp.exit();
    mcp = await start();
    const started = performance.now();
    assert.match(await snapshot(), /\S/);
    assert.ok(performance.now() - started < 25_000);
    await waitFor(() => !fs.existsSync(`/proc/${String(pid)}`), 'the Client of before the reload to end');
    await uid(/tab "Explorer"/, 30_000);
    assert.equal((await ok('terminal_run', { command: 'echo free' })).output, 'free\n');
  });

  test('a page that never rests, and one of 50,000 nodes: bounded time and text, and the next call works', async () => {
    await openForm('Restless form', '<p id="p">0</p><button onclick="this.textContent = \'Pressed\'">Press me</button><script>setInterval(() => { p.textContent = Number(p.textContent) + 1; }, 5)</script>');
    const restless = await uid(/button "Press me"/);
    const pressed = await ok('window_click', { uid: restless });
    assert.deepEqual([pressed.settled, /still changes/.test(String(pressed.message)), /button "Pressed"/.test(String(pressed.changes))], [false, true, true]);
    await closeEditors();
    await openForm('Large form', '<h1>Large</h1><ul id="u"></ul><script>for (let i = 0; i < 50000; i++) { const li = document.createElement("li"); li.innerHTML = "<a href=#>item " + i + "</a>"; u.append(li); }</script>');
    await uid(/heading "Large"/, 40_000); // the page itself takes seconds to make them, and holds the window meanwhile
    const { snapshot: text, left, notes } = await ok('window_snapshot');
    assert.ok(String(text).length <= 25 * 1024, `${String(text).length}`);
    assert.match(String(text), /… \d+ more below/);
    assert.match(String(notes), /beyond the first 20000/);
    assert.ok(Number(left) > 15_000);
    assert.match(await snapshot({ find: 'item 4321' }), /link "item 4321"/);
    await closeEditors();
    assert.match(await snapshot(), /tab "Explorer"/);
  });

  test('20,000 characters are typed as they are, into an editor and into a field', async () => {
    const text = Array.from({ length: 400 }, (_, i) => `  if (a[${i}]) { "quoted"; } // ${'x'.repeat(20)}`).join('\n').slice(0, 20_000);
    fs.writeFileSync(file('typed.js'), '');
    await ok('window_command', { command: 'vscode.open', args: [{ $uri: `file://${file('typed.js')}` }] });
    await ok('window_type', { uid: await uid(/textbox "typed\.js/), text });
    await ok('window_command', { command: 'workbench.action.files.save' });
    await waitFor(() => fs.readFileSync(file('typed.js'), 'utf8') === text, 'the file to have it all');
    await openForm('Text form', '<textarea aria-label="Much" onchange="acquireVsCodeApi().postMessage(this.value.length + (this.value.startsWith(`  if (a[0])`) ? ` right` : ` wrong`))"></textarea><button>Elsewhere</button>');
    await ok('window_type', { uid: await uid(/textbox "Much"/), text });
    await ok('window_click', { text: 'Elsewhere' });
    await waitFor(() => effects().includes(`"${text.length} right"`), 'the field to have it all');
    await closeEditors();
  });

  test('the window is reloaded in the middle: the old uids are gone, the next look shows the new window', async () => {
    const old = await uid(/tab "Explorer"/);
    const waiting = mcp.call('window_wait_for', { text: 'never to be seen', timeout: 3 });
    await page.send('Page.reload');
    const answer = await waiting;
    assert.ok(answer.found === false || answer.error !== undefined);
    await ok('terminal_run', { command: 'echo back' });
    const now = await uid(/tab "Explorer"/);
    assert.notEqual(now, old);
    assert.equal((await refused('window_click', { uid: old })).code, 'E_UID');
    const command = await ok('window_press_key', { keys: 'Control+Shift+P' });
    assert.match(String(command.changes), /Type the name of a command/);
    await ok('window_type', { text: 'Developer: Reload Window' });
    await ok('window_wait_for', { text: 'Developer: Reload Window' });
    const { pid } = body(await ok('devtools_status'), 'client');
    const reloaded = await ok('window_press_key', { keys: 'Enter' });
    assert.ok(reloaded.reloaded === true || reloaded.settled !== undefined);
    await waitFor(() => !fs.existsSync(`/proc/${String(pid)}`), 'the old Client to end'); // until then a call may still reach it, and be lost with it
    await ok('terminal_run', { command: 'echo back again' });
    await uid(/tab "Explorer"/);
  });

  test('200 random actions, with the window reloaded in between: none hangs, no key stays down, memory stays flat', async () => {
    let seed = 12345;
    const random = (below: number): number => (seed = (seed * 1103515245 + 12345) % 2147483648) % below;
    const pick = <T>(list: readonly T[]): T => list[random(list.length)] as T; // it is not empty
    const KEYS = ['Escape', 'Control+P', 'Control+Shift+P', 'F1', 'Tab', 'Shift+Tab', 'ArrowDown', 'Enter', 'Control+B', 'Control+J', 'Control+K Control+C', 'Alt+F1', 'Control+Alt+Shift+Meta', 'x'];
    const NOT = /Sign|Restart|Reload|Close Window|Trust|Copilot|Accounts|Chat|Manage|Menu|Remote|remote|Terminal/; // what leaves the window, or asks another machine
    const memory = (): number => Number(/VmRSS:\s+(\d+)/.exec(fs.readFileSync(`/proc/${mcp.child.pid}/status`, 'utf8'))?.[1]);
    const watch = `globalThis.held = new Set(); addEventListener('keydown', (e) => held.add(e.code), true); addEventListener('keyup', (e) => held.delete(e.code), true)`;
    await page.send('Page.enable');
    await page.send('Page.addScriptToEvaluateOnNewDocument', { source: watch }); // also after each reload
    await page.evaluate(watch);
    let early = 0;
    let failed = 0;
    for (let turn = 0; turn < 200; turn++) {
      const started = performance.now();
      const lines = String((await mcp.call('window_snapshot')).snapshot ?? '').split('\n').filter((line) => /^ *[a-z]+\d+ (button|tab|treeitem|checkbox|link|textbox|listitem)/.test(line) && !NOT.test(line));
      const id = lines.length ? (pick(lines).trim().split(' ')[0] ?? '') : 'a1';
      const [tool, args]: [string, Json] = pick([
        ['window_click', { uid: id }], ['window_click', { uid: id }], ['window_click', { uid: id, button: 'right' }], ['window_click', { uid: id, modifiers: ['Control', 'Shift'] }], ['window_hover', { uid: id }], ['window_press_key', { keys: pick(KEYS) }], ['window_press_key', { keys: pick(KEYS) }],
        ['window_type', { text: 'abc' }], ['window_scroll', { dy: 200 }], ['window_screenshot', {}], ['window_drag', { from: id, to: id }], ['window_snapshot', { find: 'e' }],
      ]);
      const answer = await mcp.call(tool, args);
      if (answer.error !== undefined) failed++;
      assert.ok(performance.now() - started < 30_000, `${tool} ${JSON.stringify(args)} took ${performance.now() - started} ms`);
      if (turn % 50 === 20) {
        assert.deepEqual(await page.evaluate('[...held]'), []);
        await page.send('Page.reload');
      }
      if (turn % 5 === 0) await mcp.call('window_press_key', { keys: 'Escape' });
      if (turn === 60) early = memory();
    }
    console.log(`# ${failed} of 200 random actions were refused`);
    assert.ok(failed < 150, `${failed} of 200 failed`);
    assert.deepEqual(await page.evaluate('[...held]'), []);
    assert.ok(memory() - early < 40 * 1024, `${early} to ${memory()} KB`);
    await waitFor(async () => (await mcp.call('window_press_key', { keys: 'Escape' })).error === undefined, 'the window to answer');
    await ok('terminal_run', { command: 'echo still there', name: 'after' });
  });

  test('a page that crashes in the middle: the call says so at once, and the next one has it loaded again', async () => {
    const before = await uid(/tab "Explorer"/);
    page.close();
    const waiting = mcp.call('window_wait_for', { text: 'never to be seen', timeout: 20 });
    await ok('window_list'); // reads go beside each other: it waits by now
    const started = performance.now();
    kill(rendererOf(chromiumPid()), 'SIGKILL');
    const told = body(await waiting, 'error');
    assert.deepEqual([told.code, /crashed/.test(String(told.message)), performance.now() - started < 5000], ['E_WINDOW', true, true], JSON.stringify(told));
    const after = await uid(/tab "Explorer"/, 30_000);
    assert.notEqual(after, before);
    assert.equal((await refused('window_click', { uid: before })).code, 'E_UID');
    await waitFor(async () => (await mcp.call('terminal_run', { command: 'echo after the crash', name: 'crashed' })).output === 'after the crash\n', 'the new Client'); // the old one ends in these seconds
    assert.match(String((await ok('window_click', { text: 'Search' })).changes), /tab "Search" selected/);
  });

  test('a reload in the middle of a click is told, in bounded time', async () => {
    const id = await uid(/tab "Explorer"/);
    const started = performance.now();
    await ok('window_evaluate', { expression: "addEventListener('mousedown', () => location.reload(), true); 1" });
    const answer = await mcp.call('window_click', { uid: id });
    assert.ok(answer.reloaded === true || (answer.error !== undefined && /E_RELOADED|E_TIMEOUT/.test(String(body(answer, 'error').code))), JSON.stringify(answer));
    assert.ok(performance.now() - started < 20_000);
    assert.notEqual(await uid(/tab "Explorer"/, 30_000), id);
    await ok('window_press_key', { keys: 'Escape' });
  });

  test('a browser that is killed: the call says so in bounded time, and the next one has a window again, where old uids mean nothing', async () => {
    const old = await uid(/tab "Explorer"/);
    page.close();
    const waiting = mcp.call('window_wait_for', { text: 'never to be seen', timeout: 20 });
    await ok('window_list'); // reads go beside each other: it waits by now
    kill(chromiumPid(), 'SIGKILL');
    const answer = await waiting;
    assert.ok(answer.error !== undefined, JSON.stringify(answer));
    assert.match(await snapshot(), /\S/); // the next call
    assert.notEqual(await uid(/tab "Explorer"/), old);
    assert.equal((await refused('window_click', { uid: old })).code, 'E_UID');
    page = await Page.open(Number(JSON.parse(fs.readFileSync(path.join(world.workspace, '.devtools', 'host-session.json'), 'utf8')).cdpPort));
  });
});
