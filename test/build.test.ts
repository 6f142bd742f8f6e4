// The repository itself: what the build lets in, that it can be repeated, what is published, and the tour.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { afterEach, beforeEach, test } from 'node:test';
import zlib from 'node:zlib';
import { World, root } from './lib.ts';

let world: World;
beforeEach(() => {
  world = new World('b');
});
afterEach(() => world.end());

const ROLES = ['cdp', 'client', 'debug', 'gui', 'host', 'mcp', 'node-adapter']; // one bundle each
const SOURCES = ['package.json', 'tsconfig.json', 'build.mjs', 'bootstrap.js', 'README.md', 'CHANGELOG.md', 'LICENSE', ...fs.readdirSync(root).filter((file) => file.endsWith('.ts'))];
const BUILT = ROLES.flatMap((role) => [`dist/${role}.js`, `dist/${role}.js.map`]);

/** The sources in another folder, with one of them changed. */
function checkout(name: string, change: Record<string, (text: string) => string> = {}): string {
  const copy = path.join(world.home, name);
  fs.mkdirSync(copy);
  for (const file of SOURCES) fs.writeFileSync(path.join(copy, file), (change[file] ?? ((text: string) => text))(fs.readFileSync(path.join(root, file), 'utf8')));
  fs.symlinkSync(path.join(root, 'node_modules'), path.join(copy, 'node_modules'));
  return copy;
}

const build = (copy: string): { status: number | null; stderr: string } => spawnSync(process.execPath, ['build.mjs'], { cwd: copy, encoding: 'utf8' });

test('two builds in two folders give identical bytes, and they are those that are tested', () => {
  const folders = [checkout('one'), checkout('two')];
  for (const folder of folders) assert.equal(build(folder).status, 0);
  for (const file of BUILT) {
    const [one, two] = folders.map((folder) => fs.readFileSync(path.join(folder, file)));
    assert.ok(one && two?.equals(one), `${file} differs`);
    assert.ok(fs.readFileSync(path.join(root, file)).equals(one), `${file} is not what the sources give`);
  }
});

/** The files of a zip, by its directory. */
function unzip(bytes: Buffer): Map<string, Buffer> {
  const end = bytes.lastIndexOf('PK\x05\x06');
  const files = new Map<string, Buffer>();
  let at = bytes.readUInt32LE(end + 16);
  for (let left = bytes.readUInt16LE(end + 10); left > 0; left--) {
    const [packed, size, nameLength, offset] = [bytes.readUInt32LE(at + 20), bytes.readUInt32LE(at + 24), bytes.readUInt16LE(at + 28), bytes.readUInt32LE(at + 42)];
    const name = bytes.toString('utf8', at + 46, at + 46 + nameLength);
    const begin = offset + 30 + bytes.readUInt16LE(offset + 26) + bytes.readUInt16LE(offset + 28);
    const contents = zlib.inflateRawSync(bytes.subarray(begin, begin + packed));
    assert.equal(contents.length, size);
    files.set(name, contents);
    at += 46 + nameLength + bytes.readUInt16LE(at + 30) + bytes.readUInt16LE(at + 32);
  }
  return files;
}

test('the VSIX is a zip of what is published, and the same bytes in two folders', () => {
  const folders = [checkout('vsix-one'), checkout('vsix-two')];
  const files = folders.map((folder) => {
    assert.equal(spawnSync(process.execPath, ['build.mjs', '--vsix'], { cwd: folder }).status, 0);
    return path.join(folder, 'dist', fs.readdirSync(path.join(folder, 'dist')).find((name) => name.endsWith('.vsix')) ?? '');
  });
  const [one, two] = files.map((file) => fs.readFileSync(file));
  assert.ok(one && two?.equals(one));
  const entries = unzip(one);
  const listed = [...entries.keys()];
  for (const [name, contents] of entries) if (name.startsWith('extension/')) assert.ok(contents.equals(fs.readFileSync(path.join(String(folders[0]), name.slice('extension/'.length)))), name);
  assert.deepEqual(listed.slice(0, 2), ['extension.vsixmanifest', '[Content_Types].xml']);
  for (const name of ['package.json', 'README.md', 'LICENSE', 'bootstrap.js', ...BUILT.filter((file) => file.endsWith('.js'))]) assert.ok(listed.includes(`extension/${name}`), name);
});

test('an import that is not on the list fails the build', () => {
  for (const [file, line, message] of [
    ['client.ts', "import WebSocket from 'ws'; console.log(WebSocket);", /dist\/client\.js: \S*node_modules\/ws\/.* is not on the allow-list/],
    ['client.ts', "import { identify } from './ledger.ts'; console.log(identify);", /dist\/client\.js: ledger\.ts is not on the allow-list/],
    ['mcp.ts', "import vscode from 'vscode'; console.log(vscode);", /dist\/mcp\.js: requires vscode/],
  ] as const) {
    const copy = checkout(`bad-${Math.random().toString(36).slice(2)}`, { [file]: (text) => `${line}\n${text}` });
    const { status, stderr } = build(copy);
    assert.equal(status, 1, line);
    assert.match(stderr, message);
  }
});

test('bootstrap.js requires nothing but node: modules, vscode and what stands beside it', () => {
  const text = fs.readFileSync(path.join(root, 'bootstrap.js'), 'utf8');
  const required = [...text.matchAll(/require\(([^)]*)\)/g)].map(([, what]) => what);
  for (const what of required) assert.match(String(what), /^'(node:\w+|vscode|\.\/package\.json)'$|^file$/);
});

test('what is published is the list in package.json and nothing else', () => {
  const { stdout } = spawnSync('npm', ['pack', '--dry-run', '--json', '--ignore-scripts'], { cwd: root, encoding: 'utf8', timeout: 60_000 });
  const [{ files }] = JSON.parse(stdout);
  assert.deepEqual(files.map((file: { path: string }) => file.path).sort(), [
    'CHANGELOG.md', 'LICENSE', 'README.md', 'bootstrap.js', ...BUILT, 'package.json',
  ]);
});

test('no file of ours names the host of a registry', () => {
  const skipped = new Set(['node_modules', 'dist', '.cache', '.git', '.devtools']);
  const files = fs.readdirSync(root, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile()).map((entry) => path.join(entry.parentPath, entry.name));
  const ours = files.filter((file) => !path.relative(root, file).split(path.sep).some((part) => skipped.has(part)));
  assert.ok(ours.length > 20);
  const host = new RegExp(`registry\\.${'npmjs'}|deb\\.${'debian'}`);
  assert.deepEqual(ours.filter((file) => host.test(fs.readFileSync(file, 'latin1'))), []);
});

test('the tour runs to its end and leaves nothing', () => {
  const { stdout, stderr, status } = spawnSync(process.execPath, [path.join(root, 'test', 'tour.mjs')], { encoding: 'utf8', timeout: 60_000, env: { ...process.env, TMPDIR: world.home } });
  assert.equal(status, 0, stderr);
  for (const shown of [/\[exit code 3/, /waits for input: Delete everything/, /ledger: web node server/, /ORPHANED \d+ sleep 1000/, /pack\.ts/, /bill\.ts/]) assert.match(stdout, shown);
  assert.match(stdout, /"servers": \{\n {4}"vscode-devtools"/);
  assert.match(stdout, /Nothing is left running: stopped the Host/);
  assert.deepEqual(fs.readdirSync(world.home).filter((file) => file.startsWith('vdt-')), []);
});

test('every script that is only run by hand, or by the benchmark, is JavaScript', () => {
  for (const dir of ['.', 'test']) for (const name of fs.readdirSync(path.join(root, dir)).filter((one) => one.endsWith('.mjs'))) {
    const { status, stderr } = spawnSync(process.execPath, ['--check', path.join(root, dir, name)], { encoding: 'utf8' });
    assert.equal(status, 0, stderr);
  }
});
