// What cdp.ts makes of what a window tells: the tree as text, which node a text means, what has changed, which keys are
// meant; and what the tools of a window say where there is none. The window itself is in window.slow.test.ts.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { errorName } from '../bootstrap.js';
import { changesOf, innermost, lineOf, matching, parseKeys, plainName, treeText, type Row } from '../cdp.ts';
import { World, body } from './lib.ts';

/** Rows from lines such as ` a2 button "Go" focused`. */
const rowsOf = (text: string): Row[] => text.split('\n').filter(Boolean).map((line) => {
  const [, indent = '', uid = '', role = '', name = '""', states = '', value = '""'] = /^( *)(\w*) ?(\w+)(?: ("[^"]*"))?(?: ([\w ]+?))?(?: = ("[^"]*"))?$/.exec(line) ?? [];
  return { depth: indent.length, uid, role, name: String(JSON.parse(name)), states, value: String(JSON.parse(value)) };
});

describe('the tree as text', () => {
  const tree = rowsOf('a1 list "Files"\n a2 listitem "one"\n  a3 button "Open"\n a4 listitem "two" selected\na5 textbox "Name" focused = "Ann"');

  test('a line a node: uid, role, name, states, value', () => {
    assert.equal(treeText(tree).text, 'a1 list "Files"\n a2 listitem "one"\n  a3 button "Open"\n a4 listitem "two" selected\na5 textbox "Name" focused = "Ann"');
    assert.equal(lineOf({ depth: 0, uid: '', role: 'line', name: '12', states: '', value: '  return x;' }), '12|   return x;');
    assert.equal(lineOf({ depth: 0, uid: 'a1', role: 'text', name: 'some "words"', states: '', value: '' }), '"some \\"words\\""');
    assert.ok(lineOf({ depth: 0, uid: 'a1', role: 'button', name: 'x'.repeat(500), states: '', value: '' }).length < 200);
  });

  test('a depth leaves out what is deeper, and says how much and where', () => {
    assert.deepEqual(treeText(tree, { depth: 0 }), { text: 'a1 list "Files"\n … 3 more below a1\na5 textbox "Name" focused = "Ann"', left: 3 });
    assert.deepEqual(treeText(tree, { depth: 1 }), { text: 'a1 list "Files"\n a2 listitem "one"\n  … 1 more below a2\n a4 listitem "two" selected\na5 textbox "Name" focused = "Ann"', left: 1 });
  });

  test('whatever the tree, its text is bounded, and what is shown and what is left are all of it', () => {
    const node = fc.record({ depth: fc.nat(6), name: fc.string({ maxLength: 300 }) });
    fc.assert(fc.property(fc.array(node, { maxLength: 1500, size: 'max' }), fc.integer({ min: 20, max: 500 }), fc.integer({ min: 500, max: 30_000 }), (nodes, lines, characters) => {
      let depth = -1;
      const rows = nodes.map((one, at): Row => ({ depth: (depth = Math.min(one.depth, depth + 1)), uid: `a${at}`, role: 'button', name: one.name, states: '', value: '' })); // none is deeper than one below the row above
      const { text, left } = treeText(rows, { lines, characters });
      assert.ok(text.length <= characters + 60, `${text.length} > ${characters}`);
      const shown = text.split('\n').filter((line) => /^ *a\d+ button/.test(line)).length;
      if (!text.endsWith('`within`')) assert.equal(shown + left, rows.length);
      assert.ok(shown > 0 || !rows.length);
    }), { numRuns: 60 });
  });

  test('the key that does the same is no part of a name; other parentheses are', () => {
    assert.equal(plainName('Explorer (Ctrl+Shift+E)'), 'Explorer');
    assert.equal(plainName('Split Editor Right (Ctrl+\\) [Alt] Split Editor Down'), 'Split Editor Right');
    assert.equal(plainName('Run (F5)'), 'Run');
    assert.equal(plainName('Problems (3)'), 'Problems (3)');
    assert.equal(plainName('(Ctrl+K)'), '(Ctrl+K)'); // it would have none
  });
});

describe('which node a text means', () => {
  const rows = rowsOf('a1 tab "Explorer"\na2 button "Save As"\na3 button "Save"\na4 button "save"\na5 list "Things"\n a6 listitem "Save"\n  a7 button "Remove"');

  test('the exact name comes before another case, and that before a part of a name', () => {
    assert.deepEqual(matching(rows, 'Save').map((at) => rows[at]?.uid), ['a3', 'a6']);
    assert.deepEqual(matching(rows, 'EXPLORER').map((at) => rows[at]?.uid), ['a1']);
    assert.deepEqual(matching(rows, 'emov').map((at) => rows[at]?.uid), ['a7']);
    assert.deepEqual(matching(rows, 'Save', true).map((at) => rows[at]?.uid), ['a2', 'a3', 'a4', 'a6']);
    assert.deepEqual(matching(rows, 'nothing of it'), []);
  });

  test('of nodes in one another the innermost is meant; of several apart those that can be used', () => {
    const nested = rowsOf('a1 listitem "Go"\n a2 button "Go"\na3 heading "Go"');
    assert.deepEqual(innermost(nested, matching(nested, 'Go')).map((at) => nested[at]?.uid), ['a2']);
    const apart = rowsOf('a1 heading "Go"\na2 button "Go"\na3 button "Go"');
    assert.deepEqual(innermost(apart, matching(apart, 'Go')).map((at) => apart[at]?.uid), ['a2', 'a3']);
  });
});

describe('what has changed', () => {
  test('new, gone and otherwise, a subtree as one', () => {
    const before = rowsOf('a1 button "Run"\na2 list "Old"\n a3 listitem "x"\na4 checkbox "Gift" unchecked\na5 textbox "Name"');
    const after = rowsOf('a1 button "Run" disabled\na4 checkbox "Gift" checked\na5 textbox "Name" = "Ann"\na6 menu "More"\n a7 menuitem "Copy"');
    assert.equal(changesOf(before, after), '~ a1 button "Run" disabled (was: none of it)\n~ a4 checkbox "Gift" checked (was: unchecked)\n~ a5 textbox "Name" = "Ann" (was: "")\n+ a6 menu "More"\n+  a7 menuitem "Copy"\n- a2 list "Old" and 1 below it');
    assert.equal(changesOf(before, before), '');
  });

  test('what was only drawn anew is told by its uids alone', () => {
    assert.equal(changesOf(rowsOf('a1 button "Run"\na2 button "Stop"'), rowsOf('a8 button "Run"\na2 button "Stop"')), '(drawn anew, with other uids: a1 is a8)');
  });

  test('a thousand changes are a few lines and a count', () => {
    const many = (from: number): Row[] => rowsOf(Array.from({ length: 1000 }, (_, i) => `a${from + i} button "b${from + i}"`).join('\n'));
    const text = changesOf(many(1), many(5001));
    assert.ok(text.length < 3200, `${text.length}`);
    assert.match(text, /\n… 19\d\d more changes: window_snapshot shows all$/);
  });
});

describe('keys', () => {
  const short = (keys: string): string => parseKeys(keys).map(({ modifiers, key, code, number, text }) => `${[...modifiers, key].join('+')} ${code} ${number} ${JSON.stringify(text ?? null)}`).join(' | ');

  test('chords in the words of VS Code and of the web', () => {
    assert.equal(short('Control+K Control+S'), 'Control+k KeyK 75 null | Control+s KeyS 83 null');
    assert.equal(short('ctrl+shift+p'), 'Control+Shift+P KeyP 80 null');
    assert.equal(short('cmd+alt+ArrowLeft'), 'Meta+Alt+ArrowLeft ArrowLeft 37 null');
    assert.equal(short('Enter'), 'Enter Enter 13 "\\r"');
    assert.equal(short('esc F12 space'), 'Escape Escape 27 null | F12 F12 123 null |   Space 32 " "');
    assert.equal(short('a A ?'), 'a KeyA 65 "a" | Shift+A KeyA 65 "A" | Shift+? Slash 191 "?"');
    assert.equal(short('Control++'), 'Control+Shift++ Equal 187 null');
    assert.equal(short('Control+,'), 'Control+, Comma 188 null');
    assert.equal(short('Control+Control+x'), 'Control+x KeyX 88 null');
    assert.equal(short('Shift'), 'Shift+  0 null');
  });

  test('what is no key is refused before anything is pressed', () => {
    for (const keys of ['Hyper+X', 'Control+Nope', 'ab', 'x Control+Nope']) {
      assert.throws(() => parseKeys(keys), (error: Error) => errorName(error) === 'E_ARGUMENTS' && /Nothing was pressed/.test(error.message), keys);
    }
  });
});

describe('without a window', () => {
  test('the tools of a window say that there is none and how to get one; code is refused before that', async () => {
    const world = new World('c');
    try {
      fs.mkdirSync(path.join(world.home, 'none'));
      const mcp = world.mcp({ args: ['--allow-exec'], env: { XDG_CONFIG_HOME: path.join(world.home, 'none') } });
      await mcp.initialize();
      const { code, message } = body(await mcp.call('window_snapshot'), 'error');
      assert.deepEqual([code, /--vscode/.test(String(message))], ['E_NO_WINDOW', true]);
      assert.equal(body(await mcp.call('window_evaluate', { expression: '1' }), 'error').code, 'E_REFUSED');
    } finally {
      await world.end();
    }
  });
});
