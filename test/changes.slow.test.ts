// What counts as a source is what git would say, on generated trees; git itself is the judge.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import fc from 'fast-check';
import { isIgnoredBy, parseRules } from '../changes.ts';
import { World } from './lib.ts';

const NAMES = ['a', 'b', 'ab', 'abc', 'a.b', 'A', '.x', 'ä', 'a b', 'a]', '[a]', '-', 'x!', '#c', '!d', 'a\\b', '*', '?', 'dir', 'foo.js', 'b.ts', 'z '];
const PIECES = ['*', '**', '?', '[ab]', '[!a]', '[^a-c]', '[a-', '[]a]', '[[:alpha:]]', '[[:space:]x]', '[a\\]]', '\\*', '\\?', '\\a', '\\', '!', '#', '/', '/', '/', ' ', '\\ ', '.', 'a', 'b', 'ab', 'c', 'dir', 'foo', '.js', '*.js', '*.ts', 'ä', '-', '[z-a]', '[[:nope:]]', '[--0]', '[!]', '**/', '/**', '/**/'];

const line = fc.oneof(
  { weight: 6, arbitrary: fc.array(fc.constantFrom(...PIECES), { minLength: 1, maxLength: 5 }).map((parts) => parts.join('')) },
  { weight: 2, arbitrary: fc.tuple(fc.constantFrom('', '!', '/', '!/'), fc.constantFrom(...NAMES), fc.constantFrom('', '/', '/**', '/*', ' ', '\t', '\r')).map((parts) => parts.join('')) },
  { weight: 1, arbitrary: fc.constantFrom('', '#', '# a', '!', '/', '//', '*', '!*', '**', '/*', '!/*/', '*/', 'a//b') },
);
const ignoreFile = fc.array(line, { maxLength: 8 }).map((lines) => lines.join('\n') + (lines.length % 2 ? '\n' : ''));
const tree = fc.record({
  files: fc.uniqueArray(fc.array(fc.constantFrom(...NAMES), { minLength: 1, maxLength: 4 }).map((parts) => parts.join('/')), { minLength: 1, maxLength: 25 }),
  root: ignoreFile,
  nested: fc.array(fc.tuple(fc.array(fc.constantFrom(...NAMES), { minLength: 1, maxLength: 2 }).map((parts) => parts.join('/')), ignoreFile), { maxLength: 2 }),
});

/** Every entry below a directory, as git names them. */
function entries(dir: string, rel = ''): Array<{ name: string; isDir: boolean }> {
  return fs.readdirSync(path.join(dir, rel), { withFileTypes: true }).filter((one) => one.name !== '.git').flatMap((one) => [{ name: rel + one.name, isDir: one.isDirectory() }, ...(one.isDirectory() ? entries(dir, `${rel}${one.name}/`) : [])]);
}

/** What changes.ts ignores of a tree whose ignore files are called .gitignore here. */
function ours(dir: string): string[] {
  const ignored: string[] = [];
  const walk = (rel: string, above: readonly ReturnType<typeof parseRules>[number][], isInside: boolean): void => {
    const file = path.join(dir, rel, '.gitignore');
    const rules = fs.statSync(file, { throwIfNoEntry: false })?.isFile() ? [...above, ...parseRules(fs.readFileSync(file, 'utf8'), rel)] : above;
    for (const one of fs.readdirSync(path.join(dir, rel), { withFileTypes: true })) {
      if (one.name === '.git') continue;
      const isIgnored = isInside || isIgnoredBy(rules, rel + one.name, one.isDirectory());
      if (isIgnored) ignored.push(rel + one.name);
      if (one.isDirectory()) walk(`${rel}${one.name}/`, rules, isIgnored);
    }
  };
  walk('', [], false);
  return ignored.sort();
}

test('what is ignored is what git check-ignore says, on generated trees', () => {
  const world = new World('i');
  try {
    let round = 0;
    let seen = 0;
    fc.assert(fc.property(tree, ({ files, root, nested }) => {
      const dir = path.join(world.workspace, String(++round));
      fs.mkdirSync(path.join(dir, '.git', 'objects'), { recursive: true });
      fs.mkdirSync(path.join(dir, '.git', 'refs'));
      fs.writeFileSync(path.join(dir, '.git', 'HEAD'), 'ref: refs/heads/main\n');
      const put = (file: string, text: string): void => {
        try {
          fs.mkdirSync(path.dirname(path.join(dir, file)), { recursive: true });
          fs.writeFileSync(path.join(dir, file), text, { flag: 'wx' });
        } catch {
          // a file and a directory of the same name: one of them is enough
        }
      };
      for (const file of files) put(file, '');
      put('.gitignore', root);
      for (const [where, text] of nested) put(`${where}/.gitignore`, text);
      const all = entries(dir).map(({ name }) => name);
      const asked = spawnSync('git', ['-c', 'core.excludesFile=', 'check-ignore', '-z', '--stdin', '--no-index'], { cwd: dir, input: all.map((name) => `${name}\0`).join(''), encoding: 'utf8', env: { ...process.env, GIT_CONFIG_NOSYSTEM: '1', HOME: world.home } });
      assert.ok(asked.status === 0 || asked.status === 1, asked.stderr);
      const theirs = asked.stdout.split('\0').filter(Boolean).sort();
      seen += theirs.length;
      assert.deepEqual(ours(dir), theirs, JSON.stringify({ root, nested }));
      fs.rmSync(dir, { recursive: true });
    }), { numRuns: Number(process.env.TREES ?? 600) });
    assert.ok(seen > 500, `only ${seen} entries were ignored: the trees say nothing`);
  } finally {
    fs.rmSync(world.home, { recursive: true, force: true });
  }
});
