// changes.ts: whether the sources of an extension under development are newer than the window that runs them.
//
// Runs in    the Host, which takes the state of the sources before it builds them, and in the MCP server, which compares
//            before each tool that starts new work. Both must mean the same by "the sources", hence one file.
// Touches    the metadata of files. The only contents that it reads are those of .devtoolsignore; the only file that it
//            makes (when the Host asks for it) is a new one of these.
// Refuses    to follow a link to a directory, and to look into node_modules, dist, .git and .devtools, whatever is asked.
//
// A state is what the file system said of each directory and file: changed and modified times, and size. So an addition
// with an old date, a deletion, a renaming and a date that was put back are changes as well; and no two clocks are
// compared. What is equal was not changed, with one exception, which settle() is for.
//
// Sections   limits · patterns · what is ignored · taking a state · comparing

import fs from 'node:fs';
import path from 'node:path';
import { errorName, isObject } from './bootstrap.js';

// ---------------------------------------------------------------------------------------------------------- limits

const FILES_CAP = 300_000;
const RULES_CAP = 10_000;
const IGNORE_CAP = 1024 * 1024; // of a .devtoolsignore
const SLICE = 2000; // files that are looked at in one go, while nobody else's turn comes
const FINE_MS = 20; // two writes within this may bear the same time: the kernel's clock ticks
const COARSE_MS = 2000; // the same on file systems that count in seconds
const IGNORE_FILE = '.devtoolsignore';
const ALWAYS = new Set(['node_modules', 'dist', '.git', '.devtools']);
const NEW_IGNORE = `# What of this extension is not its source: a change to it reloads nothing. The syntax is that of .gitignore.
# node_modules, dist, .git, .devtools and *.vsix never count.
package.json
.vscode/
.vscode-test/
coverage/
`;

// -------------------------------------------------------------------------------------------------------- patterns
// One pattern against one path, as git's wildmatch.c does it, with its three ways to fail: a tail that has run out ends
// the search for all stars (ABORT), one that has met a slash that of the nearest (ABORT_TO_STARSTAR). So no pattern takes
// exponential time. Both are strings of bytes, as `?` is one byte to git.

const MATCH = 0;
const NO_MATCH = 1;
const ABORT = 2;
const ABORT_TO_STARSTAR = 3;
const CLASSES: Record<string, RegExp> = {
  alnum: /[A-Za-z0-9]/, alpha: /[A-Za-z]/, blank: /[ \t]/, cntrl: /[\x00-\x1f\x7f]/, digit: /[0-9]/, graph: /[!-~]/, lower: /[a-z]/, print: /[ -~]/, punct: /[!-/:-@[-`{-~]/, space: /[\t-\r ]/, upper: /[A-Z]/, xdigit: /[0-9A-Fa-f]/,
};

const bytes = (text: string): string => Buffer.from(text, 'utf8').toString('latin1');

/** Whether `text` is what `pattern` says; a slash is met by a slash or two stars alone. */
export function matches(pattern: string, text: string): boolean {
  return wild(pattern, 0, text, 0) === MATCH;
}

function wild(pattern: string, p: number, text: string, t: number): number {
  for (; p < pattern.length; p++, t++) {
    const want = pattern.charAt(p);
    if (t >= text.length && want !== '*') return ABORT;
    const is = text.charAt(t);
    if (want === '\\') {
      if (is !== pattern.charAt(++p)) return NO_MATCH;
    } else if (want === '?') {
      if (is === '/') return NO_MATCH;
    } else if (want === '*') return stars(pattern, p, text, t);
    else if (want === '[') {
      const found = bracket(pattern, p, is);
      if (!found) return ABORT;
      if (!found.isIn || is === '/') return NO_MATCH;
      p = found.end;
    } else if (is !== want) return NO_MATCH;
  }
  return t < text.length ? NO_MATCH : MATCH;
}

function stars(pattern: string, first: number, text: string, t: number): number {
  let p = first;
  while (pattern.charAt(p) === '*') p++;
  const next = pattern.charAt(p);
  const isAny = p - first > 1 && (first === 0 || pattern.charAt(first - 1) === '/') && (next === '' || next === '/' || pattern.startsWith('\\/', p));
  if (isAny && next === '/' && wild(pattern, p + 1, text, t) === MATCH) return MATCH; // no directory at all
  if (next === '') return !isAny && text.includes('/', t) ? ABORT_TO_STARSTAR : MATCH;
  if (!isAny && next === '/') { // the one star takes what is left of this name
    const slash = text.indexOf('/', t);
    return slash < 0 ? ABORT_TO_STARSTAR : wild(pattern, p + 1, text, slash + 1);
  }
  for (; t < text.length; t++) {
    const found = wild(pattern, p, text, t);
    if (found !== NO_MATCH && (!isAny || found !== ABORT_TO_STARSTAR)) return found;
    if (!isAny && text.charAt(t) === '/') return ABORT_TO_STARSTAR;
  }
  return ABORT;
}

/** Whether a character is in the set that begins at `p`, and where that ends; undefined if it does not end. */
function bracket(pattern: string, p: number, is: string): { isIn: boolean; end: number } | undefined {
  let at = p + 1;
  const isNegated = pattern.charAt(at) === '!' || pattern.charAt(at) === '^';
  if (isNegated) at++;
  let isIn = false;
  let before = ''; // what a range may begin with
  for (let isFirst = true; isFirst || pattern.charAt(at) !== ']'; isFirst = false, at++) {
    let one = pattern.charAt(at);
    if (one === '') return undefined;
    if (one === '\\') {
      one = pattern.charAt(++at);
      if (one === '') return undefined;
      isIn ||= is === one;
      before = one;
    } else if (one === '-' && before && pattern.charAt(at + 1) !== '' && pattern.charAt(at + 1) !== ']') {
      one = pattern.charAt(++at);
      if (one === '\\') one = pattern.charAt(++at);
      if (one === '') return undefined;
      isIn ||= is >= before && is <= one;
      before = '';
    } else if (one === '[' && pattern.charAt(at + 1) === ':') {
      const close = pattern.indexOf(']', at + 2);
      if (close < 0) return undefined;
      if (pattern.charAt(close - 1) !== ':' || close - 1 < at + 2) { // no class after all
        isIn ||= is === '[';
        before = '[';
        continue;
      }
      const named = Object.hasOwn(CLASSES, pattern.slice(at + 2, close - 1)) ? CLASSES[pattern.slice(at + 2, close - 1)] : undefined;
      if (!named) return undefined;
      isIn ||= named.test(is);
      at = close;
      before = '';
    } else {
      isIn ||= is === one;
      before = one;
    }
  }
  return { isIn: isIn !== isNegated, end: at };
}

// ------------------------------------------------------------------------------------------------- what is ignored
// Rules as in .gitignore: the last one that matches decides, those of a directory further down come later, and nothing
// in an ignored directory comes back.

export type Rule = { pattern: string; literal: number; isNegated: boolean; isDirOnly: boolean; isAnchored: boolean; base: string };

/** The rules of an ignore file in the directory `base` ('' or 'a/b/'). */
export function parseRules(text: string, base: string): Rule[] {
  const rules: Rule[] = [];
  for (const line of text.replace(/^\ufeff/, '').split('\n').slice(0, RULES_CAP)) {
    const rule = parseRule(line.endsWith('\r') ? line.slice(0, -1) : line, base);
    if (rule) rules.push(rule);
  }
  return rules;
}

function parseRule(line: string, base: string): Rule | undefined {
  let pattern = bytes(withoutTrailingSpaces(line));
  if (pattern === '' || pattern.startsWith('#')) return undefined;
  const isNegated = pattern.startsWith('!');
  if (isNegated) pattern = pattern.slice(1);
  const isDirOnly = pattern.endsWith('/');
  if (isDirOnly) pattern = pattern.slice(0, -1);
  const isAnchored = pattern.includes('/');
  if (pattern.startsWith('/')) pattern = pattern.slice(1);
  if (pattern === '' && !isAnchored) return undefined;
  // Up to its first special character it must be there literally; what follows is looked at as if it began there.
  const special = pattern.search(/[*?[\\]/);
  return { pattern, literal: special < 0 ? pattern.length : special, isNegated, isDirOnly, isAnchored, base: bytes(base) };
}

/** Spaces at the end do not count, unless a backslash stands before them. */
function withoutTrailingSpaces(line: string): string {
  let end = -1; // where the run of spaces begins that reaches the end
  for (let i = 0; i < line.length; i++) {
    if (line[i] === ' ') end = end < 0 ? i : end;
    else {
      if (line[i] === '\\') i++;
      end = -1;
    }
  }
  return end < 0 ? line : line.slice(0, end);
}

/** Whether an entry is ignored by these rules alone, not by a directory above it. `file` is relative to where they begin. */
export function isIgnoredBy(rules: readonly Rule[], file: string, isDir: boolean): boolean {
  const whole = bytes(file);
  const name = whole.slice(whole.lastIndexOf('/') + 1);
  for (let i = rules.length - 1; i >= 0; i--) {
    const rule = rules[i];
    if (!rule || (rule.isDirOnly && !isDir) || !whole.startsWith(rule.base)) continue;
    if (rule.isAnchored ? meets(rule, whole.slice(rule.base.length)) : meetsName(rule, name)) return !rule.isNegated;
  }
  return false;
}

function meets({ pattern, literal }: Rule, text: string): boolean {
  return text.startsWith(pattern.slice(0, literal)) && (literal === pattern.length ? text.length === literal : matches(pattern.slice(literal), text.slice(literal)));
}

/** A name has no slash, so two stars are as one there; a pattern without special characters is compared as it stands. */
function meetsName({ pattern, literal }: Rule, name: string): boolean {
  if (literal === pattern.length) return pattern === name;
  if (pattern.startsWith('*') && !/[*?[\\]/.test(pattern.slice(1))) return name.endsWith(pattern.slice(1)); // so git reads *.[ext]
  return matches(pattern, name);
}

/** Whether git would ignore a file of `dir`: what it does is most often made by a build. */
export function isIgnoredByGit(dir: string, file: string): boolean {
  const parts = path.relative(dir, file).split(path.sep);
  let rules: readonly Rule[] = [];
  let rel = '';
  for (const [index, part] of parts.entries()) {
    rules = [...rules, ...readRules(path.join(dir, rel, '.gitignore'), rel)];
    rel += part;
    const isDir = index < parts.length - 1;
    if (isIgnoredBy(rules, rel, isDir)) return true; // with all that is in it
    if (isDir) rel += '/';
  }
  return false;
}

const isAlwaysIgnored = (name: string): boolean => ALWAYS.has(name) || name.endsWith('.vsix');

// -------------------------------------------------------------------------------------------------- taking a state

/** What the file system says of one entry. */
type Stamp = [modified: number, changed: number, size: number];
const UNKNOWN: Stamp = [0, 0, 0]; // it is there, but cannot be asked
/** The sources of one extension. Names are relative; a directory's ends in a slash. `entries` of a directory are not kept:
 * its own times tell whether it has others now. */
export type Root = { dir: string; isCoarse: boolean; dirs: Map<string, Stamp>; files: Map<string, Stamp>; isCut?: boolean };
export type State = { roots: Root[]; takenAt: number };

type Look = { root: Root; slice: () => Promise<void> };

/** The state of these directories now. Others get their turn in between. */
export async function takeState(dirs: readonly string[]): Promise<State> {
  const roots: Root[] = [];
  for (const dir of dirs) {
    const root: Root = { dir, isCoarse: true, dirs: new Map(), files: new Map() };
    await visit({ root, slice: slicer() }, '', []);
    root.isCoarse = [...root.files.values(), ...root.dirs.values()].every(([, changed]) => changed % 1000 === 0); // nobody can set that one
    roots.push(root);
  }
  return { roots, takenAt: Date.now() };
}

/** Waits long enough that whoever writes after a state was taken leaves another time: first measure the file system's own
 * clock with a file that was just written in `where`, as ours may be another. */
export async function settle(state: State, where: string): Promise<void> {
  let newest = 0;
  for (const { files, dirs } of state.roots) for (const stamps of [files, dirs]) for (const [modified, changed] of stamps.values()) newest = Math.max(newest, modified, changed);
  const isCoarse = state.roots.some((root) => root.isCoarse);
  const left = newest + (isCoarse ? COARSE_MS : FINE_MS) - clockOf(where);
  if (left > 0) await new Promise((resolve) => setTimeout(resolve, Math.min(left, isCoarse ? COARSE_MS : FINE_MS))); // one in the future is not waited for
}

/** What time the file system believes it is. */
function clockOf(where: string): number {
  const file = path.join(where, `.clock-${process.pid}`);
  try {
    fs.writeFileSync(file, '', { flag: 'wx', mode: 0o600 });
    return fs.statSync(file).mtimeMs;
  } catch {
    return Date.now(); // it cannot be asked: both are most often the same
  } finally {
    fs.rmSync(file, { force: true });
  }
}

function slicer(): () => Promise<void> {
  let seen = 0;
  return async () => {
    if (++seen % SLICE === 0) await new Promise((resolve) => setImmediate(resolve));
  };
}

async function visit(look: Look, rel: string, above: readonly Rule[]): Promise<void> {
  const { root } = look;
  const own = stampOf(path.join(root.dir, rel));
  if (!own) return;
  root.dirs.set(rel, own);
  const { rules, entries } = entriesOf(root.dir, rel, above);
  for (const { name, isDir } of entries) {
    await look.slice();
    if (root.files.size + root.dirs.size > FILES_CAP) root.isCut = true;
    if (root.isCut) return;
    if (isDir) await visit(look, `${rel}${name}/`, rules);
    else {
      const stamp = fileStamp(path.join(root.dir, rel, name));
      if (stamp) root.files.set(rel + name, stamp);
    }
  }
}

/** What of a directory counts, and the rules that hold in it. */
function entriesOf(dir: string, rel: string, above: readonly Rule[]): { rules: readonly Rule[]; entries: Array<{ name: string; isDir: boolean }> } {
  let found: fs.Dirent[];
  try {
    found = fs.readdirSync(path.join(dir, rel), { withFileTypes: true });
  } catch {
    return { rules: above, entries: [] }; // not readable, or gone in between: it counts with its own times
  }
  const rules = found.some((one) => one.name === IGNORE_FILE) ? [...above, ...readRules(path.join(dir, rel, IGNORE_FILE), rel)] : above;
  const entries = found.map((one) => ({ name: one.name, isDir: one.isDirectory() })).filter(({ name, isDir }) => !isAlwaysIgnored(name) && !isIgnoredBy(rules, rel + name, isDir));
  return { rules, entries };
}

function readRules(file: string, rel: string): Rule[] {
  try {
    if (fs.statSync(file).size > IGNORE_CAP) return [];
    return parseRules(fs.readFileSync(file, 'utf8'), rel);
  } catch {
    return []; // gone in between, or not readable
  }
}

/** A link to a file counts as that file, any other as itself. */
function fileStamp(file: string): Stamp | undefined {
  try {
    const stat = fs.statSync(file);
    return stat.isDirectory() ? linkStamp(file) : [stat.mtimeMs, stat.ctimeMs, stat.size];
  } catch (error) {
    return errorName(error) === 'ENOENT' ? linkStamp(file) : UNKNOWN;
  }
}

function stampOf(file: string): Stamp | undefined {
  try {
    const { mtimeMs, ctimeMs, size } = fs.statSync(file);
    return [mtimeMs, ctimeMs, size];
  } catch (error) {
    return errorName(error) === 'ENOENT' ? undefined : UNKNOWN;
  }
}

function linkStamp(file: string): Stamp | undefined {
  try {
    const { mtimeMs, ctimeMs, size } = fs.lstatSync(file);
    return [mtimeMs, ctimeMs, size];
  } catch (error) {
    return errorName(error) === 'ENOENT' ? undefined : UNKNOWN;
  }
}

/** Gives an extension an ignore file if it has none. */
export function startIgnoreFile(dir: string): void {
  try {
    fs.writeFileSync(path.join(dir, IGNORE_FILE), NEW_IGNORE, { flag: 'wx' });
  } catch {
    // There is one, or nobody may write here: it is optional.
  }
}

// ------------------------------------------------------------------------------------------------------- comparing

/** What of a state is not as it was: the first thing found, or '' if nothing is. Files first: most changes are theirs. */
export async function changeSince(state: State): Promise<string> {
  for (const root of state.roots) {
    const change = (await changedFile(root)) || (await changedDir(root));
    if (change) return path.join(root.dir, change);
  }
  return '';
}

async function changedFile({ dir, files }: Root): Promise<string> {
  let seen = 0;
  for (const [name, was] of files) {
    const is = fileStamp(`${dir}/${name}`);
    if (!is || was[0] !== is[0] || was[1] !== is[1] || was[2] !== is[2]) return name;
    if (++seen % SLICE === 0) await new Promise((resolve) => setImmediate(resolve));
  }
  return '';
}

/** A directory whose times have not changed has the entries that it had (where times are coarse it is read all the same).
 * Where they have, and it is only what does not count that came or went, the new times are kept. */
async function changedDir(root: Root): Promise<string> {
  const { dir, dirs, files } = root;
  let isStale = root.isCoarse;
  let seen = 0;
  for (const [rel, was] of dirs) {
    const is = stampOf(`${dir}/${rel}`);
    isStale ||= !is || was[0] !== is[0] || was[1] !== is[1];
    if (isStale) break;
    if (++seen % SLICE === 0) await new Promise((resolve) => setImmediate(resolve));
  }
  if (!isStale) return '';
  const { roots: [now] } = await takeState([dir]);
  if (!now) return '';
  for (const name of now.files.keys()) if (!files.has(name)) return name;
  for (const name of files.keys()) if (!now.files.has(name)) return name;
  root.dirs = now.dirs; // an empty one is no source, but what comes into it will be
  return '';
}

/** Which files two states of the same directories tell apart. */
export function differences(before: State, now: State): string[] {
  const changed: string[] = [];
  for (const [index, { dir, files }] of before.roots.entries()) {
    const other = now.roots[index]?.files ?? new Map<string, Stamp>();
    for (const name of new Set([...files.keys(), ...other.keys()])) {
      const [was, is] = [files.get(name), other.get(name)];
      if (!was || !is || was.some((value, at) => value !== is[at])) changed.push(path.join(dir, name));
    }
  }
  return changed;
}

/** Takes files that a build has made from a later state into the one before it: products are no sources. The directories
 * keep their old times, so that they are read once more: a source may have come beside a product. */
export function adopt(before: State, now: State, products: ReadonlySet<string>): void {
  for (const [index, { dir, files }] of before.roots.entries()) {
    const other = now.roots[index]?.files;
    for (const name of new Set([...files.keys(), ...(other?.keys() ?? [])])) {
      if (!products.has(path.join(dir, name))) continue;
      const is = other?.get(name);
      if (is) files.set(name, is);
      else files.delete(name);
    }
  }
}

// A state travels from Host to MCP server, and from one Host to the next, in a file: whose it is, then the state.

export const writeState = ({ roots, takenAt }: State, owner: string): string => `${owner}\n${JSON.stringify({ takenAt, roots: roots.map(({ dir, isCoarse, dirs, files }) => ({ dir, isCoarse, dirs: flat(dirs), files: flat(files) })) })}`;

const flat = (stamps: Map<string, Stamp>): unknown[] => [...stamps].map(([name, stamp]) => [name, ...stamp]);

/** A state as it was written down; undefined if it is none. */
export function readState(text: string): (State & { owner: string }) | undefined {
  let value: unknown;
  const end = text.indexOf('\n');
  try {
    value = JSON.parse(text.slice(end + 1));
  } catch {
    return undefined;
  }
  if (!isObject(value) || !Array.isArray(value.roots) || typeof value.takenAt !== 'number') return undefined;
  const roots: Root[] = [];
  for (const one of value.roots) {
    if (!isObject(one) || typeof one.dir !== 'string' || !Array.isArray(one.dirs) || !Array.isArray(one.files)) return undefined;
    roots.push({ dir: one.dir, isCoarse: one.isCoarse === true, dirs: stamps(one.dirs), files: stamps(one.files) });
  }
  return { roots, takenAt: value.takenAt, owner: text.slice(0, Math.max(0, end)) };
}

function stamps(list: unknown[]): Map<string, Stamp> {
  return new Map(list.filter(Array.isArray).map(([name, modified, changed, size]) => [String(name), [Number(modified), Number(changed), Number(size)]]));
}
