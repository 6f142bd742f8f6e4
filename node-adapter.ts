// node-adapter.ts: a debug adapter for Node with nothing installed. The debug adapter protocol (DAP) to whoever debugs, the
// inspector's own protocol (CDP) over a WebSocket to the program.
//
// Runs in    plain node, a process of its own: `vscode-devtools node-adapter` on stdio, `--port N` or `--socket PATH`.
// Started by the debug process (debug.ts), or any other DAP client.
// Touches    the program that it starts, or attaches to, and that program's inspector on a loopback port that the system
//            chooses; a private directory in which forked children leave where theirs is; source maps and sources on disk.
// Refuses    to fetch source maps from a network, requests that it does not know (each gets an answer), and to outlive
//            whom it works for: with the adapter the program ends, however the adapter ends.
//
// A client that takes `startDebugging` gets a tree as js-debug's: the first connection only coordinates, every process and
// worker is a connection of its own (`__pendingTargetId`) to the same port. For any other they are threads of one session.
//
// Sections   limits · types · source maps · the inspector's protocol · a debuggee · breakpoints · stops · values · a program ·
//            a session · requests · the server

import { spawn, type ChildProcess } from 'node:child_process';
import fs from 'node:fs';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import type { Readable, Writable } from 'node:stream';
import { fileURLToPath, pathToFileURL } from 'node:url';
import vm from 'node:vm';
import { DapReader, HITS, deadline, inspectorOf, isObject, messageOf, targetsOf } from './dap.ts';

// ---------------------------------------------------------------------------------------------------------- limits

const REQUEST_MS = 10_000; // to the inspector; a program that is blocked in a system call answers nothing
const EVALUATE_MS = 9000; // then V8 ends the expression; less than what a client waits
const START_MS = 20_000; // from the spawn to the inspector's address
const CHILD_MS = 20_000; // a client that has taken startDebugging has connected
const REVERSE_MS = 20_000;
const END_MS = 1500; // a program that was killed is gone
const LAST_OUTPUT_MS = 300; // behind its end, while somebody holds its pipes
const GUARD_MS = 250; // behind the start, so that it costs the start nothing
const HEAD_CAP = 4096; // of an HTTP answer
const REQUEST_CAP = 4 * 1024 * 1024; // in a frame whose length has three bytes that matter
const INSPECTOR_CAP = 256 * 1024 * 1024; // one message of the inspector
const UNSENT_CAP = 8 * 1024 * 1024; // output that the client has not read: the program waits then
const MAP_CAP = 128 * 1024 * 1024; // a source map
const MAPS_KEPT = 64;
const DECODE_STEP = 50_000; // segments that are decoded in one go
const TEXT_CAP = 64 * 1024; // characters of a string
const LISTED_CAP = 1000; // of one among many
const NAMES_CAP = 1000; // properties that are listed of one object
const PAGE = 100; // elements in a group, for clients that do not page
const PLACING_MS = 100; // of many breakpoints those that V8 has not set by then are answered as pending
const PLACING_FEW_MS = 2000; // of a few: a program that is blocked outside JavaScript sets none
const PLACING_AT_ONCE = 16;
const FRAMES_CAP = 1000;
const ASYNC_DEPTH = 32;
const SMART_STEPS = 50; // through code that no source stands for
const CHILDREN_CAP = 500;
const LINE_CAP = 64 * 1024; // of stderr, while it may be a line of node's own

// ----------------------------------------------------------------------------------------------------------- types

type Json = Record<string, unknown>;
type Remote = { type: string; subtype?: string; className?: string; value?: unknown; unserializableValue?: string; description?: string; objectId?: string; preview?: Preview };
type Preview = { overflow?: boolean; properties: Array<{ name: string; type: string; subtype?: string; value?: string }>; entries?: Array<{ key?: Preview & Remote; value: Preview & Remote }> };
type Location = { scriptId: string; lineNumber: number; columnNumber?: number };
type CdpFrame = { callFrameId: string; functionName: string; location: Location; scopeChain: Array<{ type: string; name?: string; object: Remote }>; this: Remote; returnValue?: Remote };
type AsyncTrace = { description?: string; callFrames: Array<{ functionName: string; scriptId: string; url: string; lineNumber: number; columnNumber: number }>; parent?: AsyncTrace };
type Pause = { frames: CdpFrame[]; async: AsyncTrace | undefined; reason: string; data: Json; isReported: boolean; stopped?: Json; numbers: number[] };
type Script = { id: string; url: string; file: string; mapUrl: string; map?: Promise<SourceMap | undefined> };
type Place = { file: string; name: string; line: number; column: number; script: Script | undefined; map?: SourceMap; source?: number; isUnmapped?: boolean };

/** A breakpoint that is wanted, in all that a session debugs. */
type Wanted = { id: number; key: string; file: string; line: number; column: number | undefined; condition: string | undefined; hitCondition: string | undefined; logMessage: string | undefined; problem?: string };
/** What one debuggee made of it. */
type Placed = { ids: Set<string>; direct: string; at: Map<string, Location>; line?: number; column?: number; mapped: Set<string> };

type Handle = { debuggee: Debuggee; kind: 'frame'; frame: CdpFrame } | { debuggee: Debuggee; kind: 'scope'; frame: CdpFrame; scope: number } | { debuggee: Debuggee; kind: 'object'; object: Remote; frame: CdpFrame | undefined; evaluateName: string | undefined } |
  { debuggee: Debuggee; kind: 'getter'; object: Remote; name: string; frame: CdpFrame | undefined; evaluateName: string | undefined } | { debuggee: Debuggee; kind: 'range'; of: Handle; start: number; count: number };

const numberOf = (value: unknown): number | undefined => (typeof value === 'number' && Number.isFinite(value) ? value : undefined);
const textOf = (value: unknown): string | undefined => (typeof value === 'string' ? value : undefined);
const listOf = (value: unknown): Json[] => (Array.isArray(value) ? value.filter(isObject) : []);
const stringsOf = (value: unknown): string[] => (Array.isArray(value) ? value.filter((one) => typeof one === 'string') : []);
const clip = (text: string, cap: number): string => (text.length > cap ? `${text.slice(0, cap)}… (${text.length - cap} more characters)` : text);
const locationOf = (value: Json): Location => ({ scriptId: String(value.scriptId), lineNumber: Number(value.lineNumber), columnNumber: numberOf(value.columnNumber) });
const remoteOf = (value: unknown): Remote => (isObject(value) ? (value as Remote) : { type: 'undefined' }); // CDP's own shape, which V8 keeps

// ----------------------------------------------------------------------------------------------------- source maps
// A map is read when somebody asks for it, decoded when somebody asks for a place in it, and indexed by source line when a
// breakpoint is set. Decoding goes in steps: five megabytes of it would hold up everything else.

const DIGITS = new Int8Array(128).fill(-1);
for (const [at, character] of [...'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/'].entries()) DIGITS[character.charCodeAt(0)] = at;

/** Decodes the `mappings` of a map: each segment is put; a source of -1 is a place without one. Yields now and then. */
export function* decodeMappings(text: string, put: (line: number, column: number, source: number, sourceLine: number, sourceColumn: number) => void): Generator<undefined, void> {
  let [line, column, source, sourceLine, sourceColumn] = [0, 0, 0, 0, 0];
  let field = 0; // of this segment
  let [value, shift] = [0, 0];
  let segments = 0;
  for (let at = 0; at <= text.length; at++) {
    const code = at < text.length ? text.charCodeAt(at) : 59;
    if (code === 44 || code === 59) { // , ;
      if (shift > 0) throw new Error(`the mappings break off in a number at ${at}`);
      if (field === 2 || field === 3) throw new Error(`a segment of ${field} fields at ${at}`);
      if (field > 0) {
        put(line, column, field > 1 ? source : -1, sourceLine, sourceColumn);
        if (++segments % DECODE_STEP === 0) yield;
      }
      field = 0;
      if (code === 44) continue;
      line++;
      column = 0;
      continue;
    }
    const digit = code < 128 ? (DIGITS[code] ?? -1) : -1;
    if (digit < 0) throw new Error(`${JSON.stringify(text[at])} in the mappings at ${at}`);
    if (shift > 30) throw new Error(`a number of more than 32 bits at ${at}`);
    value += (digit & 31) * 2 ** shift; // a shift of 30 would overflow what << can do
    shift += 5;
    if (digit & 32) continue;
    const delta = value % 2 ? -((value - 1) / 2) : value / 2;
    if (field === 0) column += delta;
    else if (field === 1) source += delta;
    else if (field === 2) sourceLine += delta;
    else if (field === 3) sourceColumn += delta;
    field++; // the fifth is a name, which nobody needs here
    [value, shift] = [0, 0];
  }
}

export class SourceMap {
  readonly sources: string[] = []; // files, absolute where they are on a disk
  readonly contents: Array<string | undefined> = [];
  private readonly parts: Array<{ line: number; column: number; base: number; mappings: string }> = [];
  private columns = new Uint32Array(0); // by segment, in the order of the generated code
  private sourceOf = new Int32Array(0);
  private sourceLines = new Int32Array(0);
  private sourceColumns = new Int32Array(0);
  private starts = new Uint32Array(1); // by generated line: its first segment
  private count = 0;
  private decoding: Promise<void> | undefined;
  private readonly byLine = new Map<number, { starts: Uint32Array; segments: Uint32Array }>(); // by source

  /** `resolve` makes a file of what a map calls its source. */
  constructor(json: unknown, resolve: (source: string, root: string) => string) {
    const add = (map: unknown, line: number, column: number, depth: number): void => {
      if (!isObject(map) || depth > 4) throw new Error('it is no source map');
      if (Array.isArray(map.sections)) {
        for (const section of listOf(map.sections)) {
          const offset = isObject(section.offset) ? section.offset : {};
          const at = numberOf(offset.line) ?? 0;
          add(section.map, line + at, (at === 0 ? column : 0) + (numberOf(offset.column) ?? 0), depth + 1);
        }
        return;
      }
      if (typeof map.mappings !== 'string' || !Array.isArray(map.sources)) throw new Error('it has no mappings');
      const base = this.sources.length;
      const contents: unknown[] = Array.isArray(map.sourcesContent) ? map.sourcesContent : [];
      for (const [index, source] of map.sources.entries()) {
        this.sources.push(resolve(textOf(source) ?? '', textOf(map.sourceRoot) ?? ''));
        this.contents.push(textOf(contents[index]));
      }
      this.parts.push({ line, column, base, mappings: map.mappings });
    };
    add(json, 0, 0, 0);
  }

  /** Decodes it, once; others go on meanwhile. */
  ready(): Promise<void> {
    this.decoding ??= (async () => {
      for (const _ of this.decode()) await new Promise((resolve) => setImmediate(resolve));
    })();
    return this.decoding;
  }

  private *decode(): Generator<undefined, void> {
    let room = 1;
    for (const { mappings } of this.parts) {
      room++;
      for (let at = 0; at < mappings.length; at++) if (mappings.charCodeAt(at) < 60 && (mappings.charCodeAt(at) === 44 || mappings.charCodeAt(at) === 59)) room++;
    }
    this.columns = new Uint32Array(room);
    this.sourceOf = new Int32Array(room);
    this.sourceLines = new Int32Array(room);
    this.sourceColumns = new Int32Array(room);
    const starts = [0];
    let isSorted = true;
    for (const { line, column, base, mappings } of this.parts) {
      yield* decodeMappings(mappings, (at, atColumn, source, sourceLine, sourceColumn) => {
        const generated = at + line;
        while (starts.length <= generated) starts.push(this.count);
        if (generated + 1 < starts.length || source + base >= this.sources.length) return; // sections that overlap, a source that is not there
        const index = this.count++;
        this.columns[index] = at === 0 ? atColumn + column : atColumn;
        this.sourceOf[index] = source < 0 ? -1 : source + base;
        this.sourceLines[index] = sourceLine;
        this.sourceColumns[index] = sourceColumn;
        if (index > (starts[generated] ?? 0) && (this.columns[index - 1] ?? 0) > (this.columns[index] ?? 0)) isSorted = false;
      });
    }
    starts.push(this.count);
    this.starts = Uint32Array.from(starts);
    if (!isSorted) this.sort();
    this.parts.length = 0;
  }

  /** A line may list its columns in any order, though no compiler does. */
  private sort(): void {
    for (let line = 0; line + 1 < this.starts.length; line++) {
      const [from = 0, to = 0] = [this.starts[line], this.starts[line + 1]];
      const order = Array.from({ length: to - from }, (_, at) => from + at).sort((a, b) => (this.columns[a] ?? 0) - (this.columns[b] ?? 0));
      for (const array of [this.columns, this.sourceOf, this.sourceLines, this.sourceColumns]) array.set(order.map((index) => array[index] ?? 0), from);
    }
  }

  /** Where a place in the generated code comes from; lines and columns from 0. */
  original(line: number, column: number): { source: number; line: number; column: number } | undefined {
    const from = this.starts[line] ?? 0;
    let [low, high] = [from, this.starts[line + 1] ?? 0];
    if (line + 1 >= this.starts.length) return undefined;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.columns[middle] ?? 0) <= column) low = middle + 1;
      else high = middle;
    }
    const index = low - 1;
    if (index < from || (this.sourceOf[index] ?? -1) < 0) return undefined;
    return { source: this.sourceOf[index] ?? 0, line: this.sourceLines[index] ?? 0, column: this.sourceColumns[index] ?? 0 };
  }

  /** Where the code of a source line is, or of the next line that has some. */
  generated(source: number, line: number, column?: number): Array<{ line: number; column: number }> {
    const { starts, segments } = this.linesOf(source);
    let at = Math.max(0, line);
    while (at + 1 < starts.length && starts[at] === starts[at + 1]) at++;
    if (at + 1 >= starts.length) return [];
    const here = segments.subarray(starts[at], starts[at + 1]); // may be a million
    const from = at === line ? (column ?? 0) : 0;
    let [next, last] = [Infinity, 0];
    for (const index of here) {
      const one = this.sourceColumns[index] ?? 0;
      if (one >= from) next = Math.min(next, one);
      last = Math.max(last, one);
    }
    const first = Number.isFinite(next) ? next : last;
    const found = new Map<number, { line: number; column: number }>(); // once a generated line
    for (const index of here) {
      if (this.sourceColumns[index] !== first) continue;
      const generated = this.lineOf(index);
      if (!found.has(generated) && found.size < 10) found.set(generated, { line: generated, column: this.columns[index] ?? 0 });
    }
    return [...found.values()];
  }

  private lineOf(segment: number): number {
    let [low, high] = [0, this.starts.length - 1];
    while (low < high) {
      const middle = (low + high + 1) >>> 1;
      if ((this.starts[middle] ?? 0) <= segment) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  /** The segments of a source, by its lines: counted, then filled in. */
  private linesOf(source: number): { starts: Uint32Array; segments: Uint32Array } {
    const known = this.byLine.get(source);
    if (known) return known;
    let last = -1;
    for (let at = 0; at < this.count; at++) if (this.sourceOf[at] === source) last = Math.max(last, this.sourceLines[at] ?? 0);
    const starts = new Uint32Array(last + 2);
    for (let at = 0; at < this.count; at++) if (this.sourceOf[at] === source) starts[(this.sourceLines[at] ?? 0) + 1] = (starts[(this.sourceLines[at] ?? 0) + 1] ?? 0) + 1;
    for (let line = 1; line < starts.length; line++) starts[line] = (starts[line] ?? 0) + (starts[line - 1] ?? 0);
    const next = starts.slice();
    const segments = new Uint32Array(starts[last + 1] ?? 0);
    for (let at = 0; at < this.count; at++) {
      if (this.sourceOf[at] !== source) continue;
      const line = this.sourceLines[at] ?? 0;
      segments[next[line] ?? 0] = at;
      next[line] = (next[line] ?? 0) + 1;
    }
    const index = { starts, segments };
    this.byLine.set(source, index);
    return index;
  }
}

/** The file that a map means by a source: beside the map, or of a bundler's own scheme, which begins at the program's directory. */
export function sourceFile(source: string, root: string, dir: string, cwd: string): string {
  const whole = /^[a-z][\w+.-]+:/i.test(source) || path.isAbsolute(source) ? source : root ? `${root.replace(/\/$/, '')}/${source}` : source;
  if (whole.startsWith('file:')) return fileOf(whole) || whole;
  const bundled = /^(?:webpack|rspack|turbopack|ng|vite|meteor)[\w-]*:\/\/(?:[^/]*)\/(?:\.\/)?(.*)$/.exec(whole)?.[1];
  const at = bundled !== undefined ? (path.isAbsolute(`/${bundled}`) && fs.existsSync(`/${bundled}`) ? `/${bundled}` : path.resolve(cwd, bundled.replace(/\?\w*$/, ''))) : /^[a-z][\w+.-]+:/i.test(whole) && !path.isAbsolute(whole) ? whole : path.resolve(dir, whole);
  if (!at.includes('%') || fs.existsSync(at)) return at;
  try {
    return decodeURIComponent(at);
  } catch {
    return at; // a percent sign that is one
  }
}

const maps = new Map<string, Promise<SourceMap>>(); // by where they are and what they are: workers share their scripts

/** Reads the map of a script: in its URL, or in a file beside it. */
async function readMap(url: string, script: string, cwd: string): Promise<SourceMap> {
  const dir = script ? path.dirname(script) : cwd;
  const inline = /^data:[^,]*?(;base64)?,([^]*)$/.exec(url);
  if (/^https?:/.test(url)) throw new Error('it is on a network, and is not fetched');
  const file = inline ? '' : url.startsWith('file:') ? fileOf(url) : path.resolve(dir, decodePath(url.replace(/[?#].*$/, '')));
  const stat = inline ? undefined : await fs.promises.stat(file);
  if ((stat?.size ?? url.length) > MAP_CAP) throw new Error(`it has over ${MAP_CAP} bytes`);
  const key = stat ? `${file} ${stat.mtimeMs} ${stat.size}` : `${script} ${url.length} ${url.slice(-200)}`;
  const known = maps.get(key);
  if (known) return known;
  const reading = (async () => {
    const text = inline ? (inline[1] ? Buffer.from(inline[2] ?? '', 'base64').toString('utf8') : decodeURIComponent(inline[2] ?? '')) : await fs.promises.readFile(file, 'utf8');
    return new SourceMap(JSON.parse(text.replace(/^\)\]\}'[^\n]*\n/, '')), (source, root) => sourceFile(source, root, inline ? dir : path.dirname(file), cwd));
  })();
  maps.set(key, reading);
  if (maps.size > MAPS_KEPT) maps.delete([...maps.keys()][0] ?? '');
  reading.catch(() => maps.delete(key)); // the next may find it whole
  return reading;
}

function decodePath(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** The file behind a script's URL; '' if there is none. */
function fileOf(url: string): string {
  if (path.isAbsolute(url)) return url;
  if (!url.startsWith('file:')) return '';
  try {
    return fileURLToPath(url);
  } catch {
    return ''; // another host's
  }
}

function realPath(file: string): string {
  try {
    return fs.realpathSync(file);
  } catch {
    return path.resolve(file); // it need not exist yet
  }
}

// ------------------------------------------------------------------------------------------ the inspector's protocol

/** Requests over something that carries texts: a socket, or a worker's place in another one's session. */
class Cdp {
  closedBecause: string | undefined;
  private nextId = 1;
  private readonly pending = new Map<number, { method: string; resolve: (result: Json) => void; reject: (error: Error) => void; inTime: () => void; atOnce: (result: Json) => void }>();
  private readonly write: (text: string) => void;
  private readonly shut: () => void;
  private readonly onEvent: (method: string, params: Json) => void;
  private readonly onClose: (reason: string) => void;

  constructor(write: (text: string) => void, shut: () => void, onEvent: (method: string, params: Json) => void, onClose: (reason: string) => void) {
    this.write = write;
    this.shut = shut;
    this.onEvent = onEvent;
    this.onClose = onClose;
  }

  /** `atOnce` sees the result before the next message is looked at, which may come in the same breath; a promise would not. */
  request(method: string, params: Json = {}, timeoutMs = REQUEST_MS, atOnce: (result: Json) => void = () => {}): Promise<Json> {
    if (this.closedBecause !== undefined) return Promise.reject(new Error(this.closedBecause));
    const id = this.nextId++;
    return new Promise((resolve, reject) => {
      this.write(JSON.stringify({ id, method, params })); // it is answered later, never at once
      const inTime = deadline(timeoutMs, () => {
        this.pending.delete(id);
        reject(new Error(`the program has not answered ${method} in ${timeoutMs / 1000} s: it is blocked outside JavaScript, or hangs`));
      });
      this.pending.set(id, { method, resolve, reject, inTime, atOnce });
    });
  }

  /** For what nobody waits for; a failure is the end of the program, which is told otherwise, or of no use to anybody. */
  tell(method: string, params: Json = {}): void {
    this.request(method, params).catch(() => {});
  }

  onText(text: string): void {
    let message: unknown;
    try {
      message = JSON.parse(text);
    } catch {
      return this.close('its inspector does not speak JSON');
    }
    if (!isObject(message)) return;
    const { id, method, params, result, error } = message;
    if (typeof method === 'string') return this.onEvent(method, isObject(params) ? params : {});
    const one = typeof id === 'number' ? this.pending.get(id) : undefined;
    if (!one) return;
    this.pending.delete(Number(id));
    one.inTime();
    if (isObject(error)) one.reject(new Error(`${textOf(error.message) ?? 'the inspector refused'}${textOf(error.data) ? ` (${String(error.data)})` : ''}`));
    else {
      const body = isObject(result) ? result : {};
      one.atOnce(body);
      one.resolve(body);
    }
  }

  close(reason: string): void {
    if (this.closedBecause !== undefined) return;
    this.closedBecause = reason;
    this.shut();
    for (const one of this.pending.values()) {
      one.inTime();
      one.reject(new Error(reason));
    }
    this.pending.clear();
    this.onClose(reason);
  }
}

export const GONE = 'the program has ended'; // what is answered to whom it left in the middle

// A WebSocket to Node's inspector, as much of one as that speaks: whole text frames. It is written here for one reason. The
// inspector's socket has Nagle's algorithm on, and ours delays acknowledgements: of a result and the stop behind it the second
// would wait for 40 ms, at each step. Data sent back acknowledges at once, and there is always some: a frame of ours begins with
// bytes that are the same for all (text, masked, a length of eight bytes of which five are zero), so they can go ahead of it.

const WEBSOCKET_KEY = 'dnNjb2RlLWRldnRvb2xzIQ=='; // sixteen bytes; it guards against caches between two ends, and there is none
const FRAME_START = Buffer.from([0x81, 0xff, 0, 0, 0, 0, 0]);
const FRAME_HEADER = 14; // that, three more bytes of length, and a mask of zeros, under which a text is itself

/** Reads frames. What is none of what the inspector sends ends the connection. */
export class FrameReader {
  private chunks: Buffer[] = [];
  private size = 0;
  private wanted = 2;
  private readonly onText: (text: string) => void;
  private readonly onEnd: (reason: string) => void;

  constructor(onText: (text: string) => void, onEnd: (reason: string) => void) {
    this.onText = onText;
    this.onEnd = onEnd;
  }

  push(chunk: Buffer): void {
    this.chunks.push(chunk);
    this.size += chunk.length;
    while (this.size >= this.wanted && this.frame());
  }

  private frame(): boolean {
    const all = this.chunks.length === 1 ? (this.chunks[0] ?? Buffer.alloc(0)) : Buffer.concat(this.chunks);
    this.chunks = [all];
    const [first = 0, second = 0] = all;
    if (first !== 0x81 && first !== 0x88) return this.fail(`a frame that begins with ${first}`);
    const short = second & 0x7f;
    const header = short === 127 ? 10 : short === 126 ? 4 : 2;
    this.wanted = header;
    if (this.size < header) return false;
    const length = short === 127 ? Number(all.readBigUInt64BE(2)) : short === 126 ? all.readUInt16BE(2) : short;
    if (length > INSPECTOR_CAP) return this.fail(`a message of ${length} bytes, over ${INSPECTOR_CAP}`);
    this.wanted = header + length;
    if (this.size < this.wanted) return false;
    const body = all.subarray(header, this.wanted);
    this.chunks = [all.subarray(this.wanted)];
    this.size -= this.wanted;
    this.wanted = 2;
    if (first === 0x88) return this.fail(GONE);
    this.onText(body.toString('utf8'));
    return true;
  }

  private fail(reason: string): boolean {
    this.wanted = Infinity;
    this.chunks = [];
    this.size = 0;
    this.onEnd(reason);
    return false;
  }
}

/** Connects to an inspector. */
function openInspector(url: string, onEvent: (method: string, params: Json) => void, onClose: (reason: string) => void): Promise<Cdp> {
  const { hostname, port, pathname, host } = new URL(url);
  return new Promise((resolve, reject) => {
    const socket = net.connect({ host: hostname.replace(/^\[|\]$/g, ''), port: Number(port), noDelay: true });
    let ahead = 0; // bytes of the next frame that are sent already
    const cdp = new Cdp((text) => {
      if (text.length > REQUEST_CAP) throw new Error(`a request of ${text.length} characters is more than the inspector is asked (${REQUEST_CAP})`);
      const frame = Buffer.alloc(FRAME_HEADER + Buffer.byteLength(text));
      FRAME_START.copy(frame);
      frame.writeUIntBE(frame.length - FRAME_HEADER, FRAME_START.length, 3);
      frame.write(text, FRAME_HEADER);
      socket.write(frame.subarray(ahead));
      ahead = 0;
    }, () => socket.destroy(), onEvent, onClose);
    const fail = (reason: string): void => {
      reject(new Error(reason));
      cdp.close(reason);
    };
    const inTime = deadline(REQUEST_MS, () => fail('it does not answer'));
    const reader = new FrameReader((text) => cdp.onText(text), (reason) => cdp.close(reason));
    let head = Buffer.alloc(0);
    let isOpen = false;
    socket.on('connect', () => socket.write(`GET ${pathname} HTTP/1.1\r\nHost: ${host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: ${WEBSOCKET_KEY}\r\nSec-WebSocket-Version: 13\r\n\r\n`));
    socket.on('data', (chunk) => {
      if (isOpen) {
        if (ahead < FRAME_START.length) socket.write(FRAME_START.subarray(ahead, ++ahead));
        return reader.push(chunk);
      }
      head = Buffer.concat([head, chunk]);
      const end = head.indexOf('\r\n\r\n');
      if (end < 0) return void (head.length > HEAD_CAP && fail('it is no inspector'));
      if (!/^HTTP\/1\.1 101 /.test(head.toString('latin1', 0, 13))) return fail(`it refused: ${head.toString('latin1', 0, head.indexOf('\r\n'))}`);
      inTime();
      isOpen = true;
      resolve(cdp);
      if (end + 4 < head.length) reader.push(head.subarray(end + 4));
    });
    socket.on('error', (error) => fail(`the connection to the inspector broke: ${error.message}`));
    socket.on('close', () => {
      inTime();
      fail(GONE);
    });
  });
}

// ------------------------------------------------------------------------------------------------------ a debuggee
// One thread of JavaScript: a process's own, or a worker's. It knows nothing of who looks; its session does.

let debuggees = 0;

class Debuggee {
  readonly id = ++debuggees; // its thread, for the client
  readonly program: Program;
  readonly parent: Debuggee | undefined; // a worker's process
  readonly scripts = new Map<string, Script>();
  label: string;
  pid: number | undefined;
  cdp: Cdp | undefined;
  session: Session | undefined;
  pause: Pause | undefined;
  onBound: () => void = () => {};
  isPauseAsked = false;
  isEnded = false;
  private motion = ''; // the step that it does
  private smartSteps = 0;
  private isReleased = false; // the client has said all it wants before it runs
  private isBegun = false; // it was let go
  private isAtStart = true; // until its first pause
  private hasEntered = false; // it was stopped on entry
  private readonly workers = new Map<string, Debuggee>(); // by the inspector's name for them
  private readonly placed = new Map<Wanted, Placed>();
  private readonly byId = new Map<string, Wanted>(); // by V8's name
  private gate = ''; // the breakpoint that stops before each script, while a source is looked for
  private isGateDue = false;
  private gateWork: Promise<void> = Promise.resolve();
  private hasHelper = false;
  private readonly sourceRefs = new Map<string, number>();

  constructor(program: Program, label: string, parent?: Debuggee) {
    this.program = program;
    this.label = label;
    this.parent = parent;
  }

  /** The inspector is there. Everything is sent in one go, in order: nothing waits for an answer. */
  connect(cdp: Cdp): void {
    this.cdp = cdp;
    if (this.isEnded) return cdp.close(GONE);
    cdp.tell('Debugger.enable');
    cdp.tell('Debugger.setAsyncCallStackDepth', { maxDepth: ASYNC_DEPTH });
    if (!this.parent) {
      cdp.tell('NodeWorker.enable', { waitForDebuggerOnStart: true });
      cdp.tell('NodeRuntime.enable');
      cdp.tell('NodeRuntime.notifyWhenWaitingForDisconnect', { enabled: true });
    }
    if (this.session) this.equip(this.session);
    if (this.isReleased) this.begin();
  }

  /** A session looks at it from here on. */
  bind(session: Session): void {
    this.onBound();
    this.session = session;
    session.debuggees.push(this);
    if (this.cdp) this.equip(session);
    session.event('thread', { reason: 'started', threadId: this.id });
    if (session.isConfigured) this.release();
  }

  private equip(session: Session): void {
    const { cdp } = this;
    if (!cdp) return;
    if (this.program.blackbox.length) cdp.tell('Debugger.setBlackboxPatterns', { patterns: this.program.blackbox });
    this.sendExceptions(session);
    for (const one of session.wanted()) void this.place(one).catch((error) => session.say(messageOf(error)));
    this.setGate();
  }

  sendExceptions(session: Session): void {
    const filters = session.filters.map((one) => one.filter);
    const state = filters.includes('all') || (filters.includes('caught') && filters.includes('uncaught')) ? 'all' : (filters[0] ?? 'none');
    if (state !== 'none' || this.isBegun) this.cdp?.tell('Debugger.setPauseOnExceptions', { state });
  }

  /** The client has set all that it wants: it may run. */
  release(): void {
    this.isReleased = true;
    if (this.cdp) this.begin();
    if (this.pause?.stopped && !this.pause.isReported) this.report(this.pause);
  }

  private begin(): void {
    if (this.isBegun) return;
    this.isBegun = true;
    this.cdp?.tell('Runtime.runIfWaitingForDebugger');
    this.program.onBegun();
  }

  onEvent(method: string, params: Json): void {
    if (method === 'Debugger.scriptParsed') return this.onScriptParsed(params);
    if (method === 'Debugger.paused') return void this.onPaused(params).catch((error) => this.session?.say(messageOf(error)));
    if (method === 'Debugger.resumed') return this.onResumed();
    if (method === 'Debugger.breakpointResolved') return this.onBreakpointResolved(params);
    if (method === 'Runtime.bindingCalled') return this.onSaid(textOf(params.payload) ?? '');
    if (method === 'NodeRuntime.waitingForDebugger') return this.isBegun ? this.cdp?.tell('Runtime.runIfWaitingForDebugger') : undefined; // it was told before it came to wait, and has not heard it
    if (method === 'NodeRuntime.waitingForDisconnect') return this.end(); // it has run to its end, and waits for us to go
    if (method === 'NodeWorker.attachedToWorker') return this.onWorker(params);
    const worker = this.workers.get(String(params.sessionId));
    if (method === 'NodeWorker.receivedMessageFromWorker') worker?.cdp?.onText(textOf(params.message) ?? '');
    if (method === 'NodeWorker.detachedFromWorker') worker?.end();
  }

  private onWorker({ sessionId, workerInfo }: Json): void {
    const { cdp, program } = this;
    const info = isObject(workerInfo) ? workerInfo : {};
    if (!cdp || typeof sessionId !== 'string') return;
    const worker = new Debuggee(program, `${path.basename(fileOf(textOf(info.url) ?? '')) || 'worker'} ${textOf(info.title) ?? '[worker]'}`.replace(/ WorkerThread$/, ''), this);
    this.workers.set(sessionId, worker);
    worker.connect(new Cdp((message) => cdp.tell('NodeWorker.sendMessageToWorker', { sessionId, message }), () => {
      this.workers.delete(sessionId);
      cdp.tell('NodeWorker.detach', { sessionId });
    }, (method, params) => worker.onEvent(method, params), () => worker.end()));
    program.adopt(worker, this.session);
  }

  /** Nobody debugs it: it goes on alone. */
  leave(): void {
    if (this.hasHelper && this.cdp) this.cdp.tell('Runtime.evaluate', { expression: `delete globalThis[Symbol.for(${JSON.stringify(this.helperName)})]` });
    if (!this.isBegun) this.begin();
    this.end();
  }

  /** It has ended, or we have left it. */
  end(): void {
    if (this.isEnded) return;
    this.isEnded = true;
    for (const worker of [...this.workers.values()]) worker.end();
    this.cdp?.close(GONE);
    const { session } = this;
    this.dropHandles();
    this.pause = undefined;
    this.program.onEnded(this);
    if (!session) return;
    session.debuggees.splice(session.debuggees.indexOf(this), 1);
    session.event('thread', { reason: 'exited', threadId: this.id });
    if (session.isChild) session.event('terminated');
  }

  private dropHandles(): void {
    for (const [number, handle] of this.session?.handles ?? []) if (handle.debuggee === this) this.session?.handles.delete(number);
    this.cdp?.tell('Runtime.releaseObjectGroup', { objectGroup: 'stop' });
  }

  request(method: string, params: Json = {}, timeoutMs?: number): Promise<Json> {
    return this.cdp ? this.cdp.request(method, params, timeoutMs) : Promise.reject(new Error('the program has not started yet'));
  }

  // ---- scripts and their sources

  private onScriptParsed(params: Json): void {
    const url = textOf(params.url) ?? '';
    const script: Script = { id: String(params.scriptId), url, file: url.startsWith('node:') ? '' : fileOf(url), mapUrl: textOf(params.sourceMapURL) ?? '' };
    this.scripts.set(script.id, script);
    if (!script.file || !this.session) return;
    this.session.event('loadedSource', { reason: 'new', source: { name: path.basename(script.file), path: script.file } });
    if (script.mapUrl && this.program.hasMaps && this.session.wanted().some((one) => !this.isPlaced(one) || one.file === script.file)) this.look(script);
  }

  /** Looks for wanted sources in the map of a script that has just come, one script after the other. */
  private look(script: Script): void {
    this.gateWork = this.gateWork.then(() => this.placeIn(script, this.session?.wanted() ?? [])).catch((error) => this.session?.say(messageOf(error)));
  }

  mapOf(script: Script): Promise<SourceMap | undefined> {
    if (!script.mapUrl || !this.program.hasMaps) return Promise.resolve(undefined);
    script.map ??= readMap(script.mapUrl, script.file, this.program.cwd).catch((error) => {
      if (!/node_modules/.test(script.file)) this.session?.say(`the source map of ${script.file || script.url} cannot be used: ${messageOf(error)}`);
      return undefined;
    });
    return script.map;
  }

  /** Where a place in V8's scripts is for a person. */
  async placeOf({ scriptId, lineNumber, columnNumber = 0 }: Location): Promise<Place> {
    const script = this.scripts.get(scriptId);
    const map = script && (await this.mapOf(script));
    const plain: Place = { file: script?.file ?? '', name: script?.file ? path.basename(script.file) : script?.url || `VM${scriptId}`, line: lineNumber + 1, column: columnNumber + 1, script };
    if (!map) return plain;
    await map.ready();
    const found = map.original(lineNumber, columnNumber);
    const file = found && map.sources[found.source];
    if (!found || file === undefined) return { ...plain, isUnmapped: true };
    return { file, name: path.basename(file), line: found.line + 1, column: found.column + 1, script, map, source: found.source };
  }

  /** A DAP source: a file where there is one, else something to ask for by number. */
  sourceOf(place: Place): Json {
    const { script, map, source } = place;
    const isInternal = script?.url.startsWith('node:') === true;
    const file = isInternal ? `<node_internals>/${script.url.slice(5)}` : place.file;
    if (file && !isInternal && isFileKnown(file)) return { name: place.name, path: file };
    const key = map ? `${script?.id} ${source}` : `${script?.id}`;
    let number = this.sourceRefs.get(key);
    if (number === undefined) this.sourceRefs.set(key, (number = this.session?.addSource({ debuggee: this, script, content: map && source !== undefined ? map.contents[source] : undefined }) ?? 0));
    return { name: isInternal ? `${file}` : place.name, ...(file && { path: file }), sourceReference: number, ...(isInternal && { presentationHint: 'deemphasize', origin: 'skipped by skipFiles' }) };
  }

  // ---------------------------------------------------------------------------------------------------- breakpoints
  // A breakpoint in a file is set by the file's URL, before or after it is loaded: V8 keeps it. One in a source that a map
  // stands for is set in the script, when the script is there and before it runs: for that a gate (a breakpoint on the first
  // statement of every script) is open as long as a source is looked for. Conditions, counting and log messages are done
  // by V8 in the condition, so that a step over a breakpoint that does not hold is still a step.

  private isPlaced(one: Wanted): boolean {
    return (this.placed.get(one)?.at.size ?? 0) > 0;
  }

  /** Many at once. While the program can be asked for other things they are sent a few at a time, so that nothing waits behind all. */
  async placeAll(all: Wanted[]): Promise<void> {
    const step = this.isBegun ? PLACING_AT_ONCE : Infinity;
    for (let from = 0; from < all.length; from += step) {
      const some = all.slice(from, from + step).filter((one) => this.session?.isWanted(one)).map((one) => this.place(one));
      this.setGate();
      await Promise.all(some);
    }
  }

  async place(one: Wanted): Promise<void> {
    const { cdp, session } = this;
    if (!cdp || !session || one.problem !== undefined) return;
    const placed: Placed = { ids: new Set(), direct: '', at: new Map(), mapped: new Set() };
    this.placed.set(one, placed);
    const condition = this.conditionOf(one);
    const own = [...this.scripts.values()].filter((script) => script.file === one.file);
    const hasOwnMap = this.program.hasMaps && own.some((script) => script.mapUrl);
    const direct = hasOwnMap ? undefined : cdp.request('Debugger.setBreakpointByUrl', { url: pathToFileURL(one.file).href, lineNumber: one.line - 1, ...(one.column !== undefined && { columnNumber: one.column - 1 }), ...(condition && { condition }) }, undefined, ({ breakpointId }) => {
      if (this.placed.get(one) !== placed) return;
      placed.direct = String(breakpointId);
      this.note(one, placed.direct);
    });
    if (condition) void this.checkSyntax(one).catch(() => {}); // it has ended
    if (direct) {
      const { breakpointId, locations } = await direct;
      if (this.placed.get(one) !== placed) return void (typeof breakpointId === 'string' && cdp.tell('Debugger.removeBreakpoint', { breakpointId })); // it was removed meanwhile
      for (const location of listOf(locations)) await this.bound(one, locationOf(location));
    }
    if (placed.at.size || !this.program.hasMaps) return;
    for (const script of this.scripts.values()) if (script.mapUrl) await this.placeIn(script, [one]);
  }

  private note(one: Wanted, id: string): void {
    const placed = this.placed.get(one);
    if (placed) this.byId.set(id, one);
    placed?.ids.add(id);
  }

  /** Sets what is wanted of the sources of one script. */
  private async placeIn(script: Script, all: Wanted[]): Promise<void> {
    const map = await this.mapOf(script);
    const { cdp } = this;
    if (!map || !cdp) return;
    for (const one of all) {
      const placed = this.placed.get(one);
      if (!placed || placed.mapped.has(script.id)) continue;
      const source = map.sources.findIndex((file) => file === one.file || (path.basename(file) === path.basename(one.file) && realPath(file) === one.file));
      if (source < 0) continue;
      placed.mapped.add(script.id);
      await map.ready();
      if (script.file === one.file && placed.direct) { // its lines are not those of the file
        cdp.tell('Debugger.removeBreakpoint', { breakpointId: placed.direct });
        placed.ids.delete(placed.direct);
        placed.direct = '';
        placed.at.clear();
      }
      const condition = this.conditionOf(one);
      for (const place of map.generated(source, one.line - 1, one.column === undefined ? undefined : one.column - 1)) {
        const answer = await cdp.request('Debugger.setBreakpoint', { location: { scriptId: script.id, lineNumber: place.line, columnNumber: place.column }, ...(condition && { condition }) }, undefined, ({ breakpointId }) => this.note(one, String(breakpointId))).catch((error) => {
          if (!/already exists|Could not resolve/.test(messageOf(error))) throw error; // another source line begins there, or V8 has no code there
          return undefined;
        });
        if (answer === undefined) continue;
        if (this.placed.get(one) !== placed) return cdp.tell('Debugger.removeBreakpoint', { breakpointId: answer.breakpointId });
        if (isObject(answer.actualLocation)) await this.bound(one, locationOf(answer.actualLocation));
      }
    }
    this.setGateSoon();
  }

  private onBreakpointResolved({ breakpointId, location }: Json): void {
    const one = this.byId.get(String(breakpointId));
    if (one && isObject(location)) void this.bound(one, locationOf(location)).catch(() => {}); // it was removed
  }

  /** V8 has found the place of a breakpoint. */
  private async bound(one: Wanted, location: Location): Promise<void> {
    const placed = this.placed.get(one);
    if (!placed) return;
    const key = `${location.scriptId}:${location.lineNumber}:${location.columnNumber ?? 0}`;
    if (placed.at.has(key)) return;
    const script = this.scripts.get(location.scriptId);
    if (script?.file === one.file && script.mapUrl && placed.direct && this.program.hasMaps) return; // look() sets it by the map
    placed.at.set(key, location);
    const place = await this.placeOf(location);
    const isNews = placed.line === undefined;
    placed.line = place.line;
    placed.column = place.column;
    if (isNews) this.session?.event('breakpoint', { reason: 'changed', breakpoint: this.session.describe(one) });
    this.setGateSoon();
  }

  boundAt(one: Wanted): { line: number; column: number } | undefined {
    const placed = this.placed.get(one);
    return placed?.line === undefined ? undefined : { line: placed.line, column: placed.column ?? 1 };
  }

  remove(one: Wanted): void {
    for (const id of this.placed.get(one)?.ids ?? []) {
      this.byId.delete(id);
      this.cdp?.tell('Debugger.removeBreakpoint', { breakpointId: id });
    }
    this.placed.delete(one);
  }

  /** Once for all that happens in this turn: there may be a thousand. */
  private setGateSoon(): void {
    if (this.isGateDue) return;
    this.isGateDue = true;
    setImmediate(() => {
      this.isGateDue = false;
      this.setGate();
    });
  }

  /** The gate is open while a source is wanted that no script has brought yet. What node runs itself needs none. */
  setGate(): void {
    const { cdp, session } = this;
    if (!cdp || !session) return;
    const open = this.program.hasMaps ? session.wanted().filter((one) => !/\.[cm]?js$/.test(one.file) && one.problem === undefined && !this.isPlaced(one)) : [];
    let wanted = !open.length ? '' : open.some((one) => one.file.includes('/node_modules/')) ? '^file:///' : '^file:///(?!.*/node_modules/)';
    if (this.isAtStart && this.program.entry && this.program.main === this && !wanted) wanted = '^file:///(?!.*/node_modules/)';
    if (wanted === this.gate || (!wanted && !this.pause && this.isBegun)) return; // it is not taken away while it may just be hit: nobody would know then why the program stands
    if (this.gate) cdp.tell('Debugger.removeBreakpoint', { breakpointId: `2:0:0:${this.gate}` }); // V8's name for it: kind, line, column, expression
    this.gate = wanted;
    if (wanted) cdp.tell('Debugger.setBreakpointByUrl', { urlRegex: wanted, lineNumber: 0, columnNumber: 0 });
  }

  private get helperName(): string {
    return `vscode-devtools.${process.pid}.${this.id}`;
  }

  /** What V8 evaluates at a breakpoint, in the frame; '' if it just stops. */
  private conditionOf(one: Wanted): string {
    if (one.condition === undefined && one.hitCondition === undefined && one.logMessage === undefined) return '';
    this.sendHelper();
    const [, operator = '==', count = '0'] = HITS.exec(one.hitCondition ?? '') ?? [];
    const passes = `${one.condition !== undefined ? `(${one.condition}\n)&&` : ''}${one.hitCondition !== undefined ? `$vd.hit(${one.id},${JSON.stringify(operator)},${count})` : 'true'}`;
    const then = one.logMessage === undefined ? 'true' : `$vd.log(${one.id},[${logParts(one.logMessage).map((part) => ('text' in part ? `()=>${JSON.stringify(part.text)}` : `()=>(${part.expression}\n)`)).join(',')}])`;
    return `(()=>{const $vd=globalThis[Symbol.for(${JSON.stringify(this.helperName)})];try{return !!(${passes})&&${then}}catch($ve){return $vd.fail(${one.id},$ve)}})()`;
  }

  /** The part of it that is in the program: under a symbol that nobody meets by accident. */
  private sendHelper(): void {
    if (this.hasHelper || !this.cdp) return;
    this.hasHelper = true;
    const name = `__vscode_devtools_${process.pid}_${this.id}`;
    this.cdp.tell('Runtime.addBinding', { name });
    this.cdp.tell('Runtime.evaluate', { expression: `(${String(helper)})(globalThis[${JSON.stringify(name)}],${JSON.stringify(this.helperName)},${10_000});delete globalThis[${JSON.stringify(name)}]`, silent: true });
  }

  private async checkSyntax(one: Wanted): Promise<void> {
    for (const text of [one.condition, ...(one.logMessage === undefined ? [] : logParts(one.logMessage).map((part) => ('text' in part ? undefined : part.expression)))]) {
      if (text === undefined) continue;
      const { exceptionDetails } = await this.request('Runtime.evaluate', { expression: `void new Function(${JSON.stringify(`return (${text}\n)`)})`, silent: true }); // compiled there, never run
      if (!isObject(exceptionDetails) || remoteOf(exceptionDetails.exception).className !== 'SyntaxError') continue;
      this.onFailed(one, firstLine(remoteOf(exceptionDetails.exception)));
      this.remove(one);
      return;
    }
  }

  /** A breakpoint has something to say: a log message, or that its condition fails. */
  private onSaid(payload: string): void {
    const { session } = this;
    let said: unknown;
    try {
      said = JSON.parse(payload);
    } catch {
      return; // not ours
    }
    if (!session || !isObject(said)) return;
    const one = session.wanted().find((each) => isObject(said) && each.id === said.id);
    if (one && typeof said.failed === 'string') return this.onFailed(one, said.failed);
    if (one && typeof said.log === 'string') session.event('output', { category: 'console', output: `${said.log}\n`, source: { name: path.basename(one.file), path: one.file }, line: one.line });
  }

  private onFailed(one: Wanted, problem: string): void {
    this.session?.event('output', { category: 'console', output: `breakpoint condition ${JSON.stringify(one.condition ?? one.logMessage ?? '')} failed: ${problem}` });
  }

  // ---------------------------------------------------------------------------------------------------------- stops

  private onResumed(): void {
    if (!this.pause) return; // we did it
    const { isReported } = this.pause;
    this.pause = undefined;
    this.dropHandles();
    if (isReported) this.session?.event('continued', { threadId: this.id, allThreadsContinued: false });
  }

  private async onPaused(params: Json): Promise<void> {
    const frames = listOf(params.callFrames) as unknown as CdpFrame[]; // CDP's own shape, which V8 keeps
    // and so its other parts:
    const pause: Pause = { frames, async: isObject(params.asyncStackTrace) ? (params.asyncStackTrace as unknown as AsyncTrace) : undefined, reason: String(params.reason), data: isObject(params.data) ? params.data : {}, isReported: false, numbers: [] };
    this.pause = pause;
    const ids = stringsOf(params.hitBreakpoints);
    const thrown = listOf(pause.data.reasons).find((one) => one.reason === 'exception' || one.reason === 'promiseRejection'); // of several at once it is what matters
    if (thrown) Object.assign(pause, { reason: thrown.reason, data: isObject(thrown.auxData) ? thrown.auxData : {} });
    const isStart = pause.reason === 'Break on start' || (this.isAtStart && pause.reason === 'ambiguous'); // with a gate at the same place it may come twice
    const isGate = ids.some((id) => id.startsWith('2:0:0:^'));
    this.isAtStart = false;
    let hits = ids.map((id) => this.byId.get(id)).filter((one) => one !== undefined);
    const isException = pause.reason === 'exception' || pause.reason === 'promiseRejection';
    if ((isStart || isGate) && !isException) {
      const script = this.scripts.get(frames[0]?.location.scriptId ?? '');
      if (script?.mapUrl) this.look(script);
      await this.gateWork; // of scripts that came before as well
      if (!hits.length) hits = await this.hitsAt(frames[0]);
      if (this.pause !== pause) return;
      this.setGate();
      const isEntry = !this.hasEntered && (isStart || script?.file === this.program.entry) && this.program.stopsOnEntry(this);
      if (!hits.length && !isEntry && !this.isPauseAsked) return this.go(this.motion || 'resume');
      if (isEntry) this.hasEntered = true;
      if (isEntry) return this.stop(pause, { reason: 'entry', description: 'Paused on entry', ...(hits.length > 0 && { hitBreakpointIds: hits.map((one) => one.id) }) });
    }
    if (isException) return this.onException(pause);
    if (hits.length) return this.stop(pause, { reason: 'breakpoint', description: 'Paused on a breakpoint', hitBreakpointIds: [...new Set(hits.map((one) => one.id))] });
    if (this.isPauseAsked) return this.stop(pause, { reason: 'pause', description: 'Paused' });
    if (this.motion === 'restartFrame') return this.stop(pause, { reason: 'step', description: 'Paused at the beginning of the restarted frame' });
    if (this.motion) {
      if (frames[0] && this.smartSteps++ < SMART_STEPS && this.program.hasMaps && this.scripts.get(frames[0].location.scriptId)?.mapUrl && (await this.placeOf(frames[0].location)).isUnmapped) return this.go(this.motion);
      return this.stop(pause, { reason: 'step', description: 'Paused behind a step' });
    }
    if (pause.reason === 'OOM') return this.stop(pause, { reason: 'exception', description: 'Paused before it runs out of memory', text: 'out of memory' });
    if (pause.reason === 'other' && !(await this.isStatement(frames[0]))) return this.pause === pause ? this.go('resume') : undefined; // a breakpoint that was removed while it was hit
    this.stop(pause, { reason: 'breakpoint', description: 'Paused on a debugger statement' });
  }

  private async isStatement(frame: CdpFrame | undefined): Promise<boolean> {
    if (!frame) return true;
    const { scriptId, lineNumber, columnNumber = 0 } = frame.location;
    const { locations } = await this.request('Debugger.getPossibleBreakpoints', { start: frame.location, end: { scriptId, lineNumber, columnNumber: columnNumber + 1 } }).catch(() => ({ locations: [{ type: 'debuggerStatement' }] }) as Json);
    return !listOf(locations).length || listOf(locations).some((one) => one.type === 'debuggerStatement');
  }

  /** Breakpoints that were set in this very place only now: V8 stands on them already, and will not stop again. */
  private async hitsAt(frame: CdpFrame | undefined): Promise<Wanted[]> {
    const { scriptId, lineNumber, columnNumber = 0 } = frame?.location ?? { scriptId: '', lineNumber: 0 };
    const here = [...this.placed].filter(([, placed]) => placed.at.has(`${scriptId}:${lineNumber}:${columnNumber}`)).map(([one]) => one);
    const hits: Wanted[] = [];
    for (const one of here) {
      const condition = this.conditionOf(one);
      const { result } = condition ? await this.request('Debugger.evaluateOnCallFrame', { callFrameId: frame?.callFrameId, expression: condition, silent: true }) : {};
      if (!condition || remoteOf(result).value === true) hits.push(one);
    }
    return hits;
  }

  private async onException(pause: Pause): Promise<void> {
    const { session } = this;
    const isUncaught = pause.data.uncaught === true;
    const matching = (session?.filters ?? []).filter(({ filter }) => filter === 'all' || (filter === 'uncaught') === isUncaught);
    let holds = false;
    for (const { condition } of matching) {
      holds ||= condition === undefined || (await this.exceptionHolds(pause, condition));
      if (this.pause !== pause) return;
    }
    if (!holds && !this.isPauseAsked) return this.go(this.motion || 'resume');
    const thrown = pause.data as unknown as Remote; // for these reasons the data are the value that was thrown
    this.stop(pause, holds ? { reason: 'exception', description: isUncaught ? 'Paused on an uncaught exception' : 'Paused on an exception', text: clip(firstLine(thrown), LISTED_CAP) } : { reason: 'pause', description: 'Paused' });
  }

  private async exceptionHolds(pause: Pause, condition: string): Promise<boolean> {
    const thrown = pause.data as unknown as Remote; // as above
    const { result, exceptionDetails } = await this.request('Runtime.callFunctionOn', {
      functionDeclaration: `function(error){return !!(${condition}\n)}`, arguments: [argumentOf(thrown)], ...(thrown.objectId ? { objectId: thrown.objectId } : { executionContextId: 1 }), silent: true,
    }).catch((error) => ({ result: undefined, exceptionDetails: { exception: { type: 'string', description: messageOf(error) } } }) as Json);
    if (isObject(exceptionDetails)) this.session?.say(`the condition ${JSON.stringify(condition)} of an exception filter failed: ${firstLine(remoteOf(exceptionDetails.exception))}`);
    return remoteOf(result).value === true;
  }

  private stop(pause: Pause, stopped: Json): void {
    if (this.pause !== pause) return;
    pause.stopped = { ...stopped, threadId: this.id, allThreadsStopped: false };
    this.isPauseAsked = false;
    this.motion = '';
    if (this.isReleased) this.report(pause);
  }

  private report(pause: Pause): void {
    pause.isReported = true;
    this.session?.event('stopped', pause.stopped ?? {});
  }

  /** Lets it go on. The next stop may come before anything else does. */
  go(motion: string, params: Json = {}): void {
    this.pause = undefined;
    this.dropHandles();
    this.motion = motion === 'resume' ? '' : motion;
    this.cdp?.tell({ resume: 'Debugger.resume', next: 'Debugger.stepOver', stepIn: 'Debugger.stepInto', stepOut: 'Debugger.stepOut', restartFrame: 'Debugger.restartFrame' }[motion] ?? 'Debugger.resume', params);
  }

  move(motion: string, params: Json = {}): void {
    this.smartSteps = 0;
    this.go(motion, params);
  }
}

/** Runs in the program, once: what breakpoints need there. */
function helper(say: (text: string) => void, name: string, cap: number): void {
  const counts = new Map<number, number>();
  const show = (value: unknown, depth: number): string => {
    if (typeof value === 'string') return depth ? JSON.stringify(value) : value;
    if (typeof value === 'bigint') return `${value}n`;
    if (typeof value === 'function') return `ƒ ${value.name}`;
    if (value === null || typeof value !== 'object' || value instanceof Error || value instanceof Date || value instanceof RegExp) return String(value);
    if (depth > 2) return Array.isArray(value) ? '[…]' : '{…}';
    const rest = (size: number): string => (size > 100 ? ', …' : '');
    if (Array.isArray(value)) return `[${value.slice(0, 100).map((one) => show(one, depth + 1)).join(', ')}${rest(value.length)}]`;
    if (value instanceof Map) return `Map(${value.size}) {${[...value].slice(0, 100).map(([key, one]) => `${show(key, depth + 1)} => ${show(one, depth + 1)}`).join(', ')}${rest(value.size)}}`;
    if (value instanceof Set) return `Set(${value.size}) {${[...value].slice(0, 100).map((one) => show(one, depth + 1)).join(', ')}${rest(value.size)}}`;
    const type = value.constructor?.name;
    return `${type && type !== 'Object' ? `${type} ` : ''}{${Object.entries(Object.getOwnPropertyDescriptors(value)).slice(0, 100).map(([key, one]) => `${key}: ${'value' in one ? show(one.value, depth + 1) : '(...)'}`).join(', ')}}`;
  };
  const short = (text: string): string => (text.length > cap ? `${text.slice(0, cap)}…` : text);
  Object.defineProperty(globalThis, Symbol.for(name), {
    configurable: true,
    value: {
      hit: (id: number, operator: string, n: number) => {
        const hit = (counts.get(id) ?? 0) + 1;
        counts.set(id, hit);
        return operator === '%' ? n > 0 && hit % n === 0 : operator === '>=' ? hit >= n : operator === '>' ? hit > n : operator === '<=' ? hit <= n : operator === '<' ? hit < n : hit === n;
      },
      fail: (id: number, error: unknown) => {
        say(JSON.stringify({ id, failed: short(String(error instanceof Error ? error.message : error)) }));
        return false;
      },
      log: (id: number, parts: Array<() => unknown>) => {
        const text = parts.map((part) => {
          try {
            return short(show(part(), 0));
          } catch (error) {
            return `(${short(String(error instanceof Error ? error.message : error))})`;
          }
        });
        say(JSON.stringify({ id, log: text.join('') }));
        return false;
      },
    },
  });
}

/** A log message: its texts, and the expressions in its braces. */
export function logParts(message: string): Array<{ text: string } | { expression: string }> {
  const parts: Array<{ text: string } | { expression: string }> = [];
  let text = '';
  for (let at = 0; at < message.length; at++) {
    const end = message[at] === '{' ? closingBrace(message, at) : -1;
    if (end < 0) {
      text += message[at];
      continue;
    }
    if (text) parts.push({ text });
    text = '';
    parts.push({ expression: message.slice(at + 1, end) });
    at = end;
  }
  if (text || !parts.length) parts.push({ text });
  return parts;
}

function closingBrace(text: string, from: number): number {
  let depth = 0;
  for (let at = from; at < text.length; at++) {
    if (text[at] === '{') depth++;
    else if (text[at] === '}' && --depth === 0) return text.slice(from + 1, at).trim() ? at : -1;
  }
  return -1;
}

const known = new Map<string, boolean>();

/** Whether a file is there. Stacks ask for the same ones again and again. */
function isFileKnown(file: string): boolean {
  const before = known.get(file);
  if (before !== undefined) return before;
  if (known.size > 5000) known.clear();
  const isThere = fs.existsSync(file);
  known.set(file, isThere);
  return isThere;
}

// --------------------------------------------------------------------------------------------------------- values
// Values are read by a function that runs in the program: a page of an array, a text that is cut, properties without
// calling a getter. What it gives is shown from V8's previews, which call nothing either.

type Row = { name: string; value: Remote; isGetter: boolean; evaluateName: string | undefined };

/** Runs in the program: rows of an object, as one list of values behind a text that says what they are. */
function read(this: unknown, filter: string, start: number, count: number, cap: number, names: number, isScope: boolean): unknown[] {
  const rows: Array<[name: string, kind: string, more: number]> = [];
  const values: unknown[] = [];
  const put = (name: string, kind: string, value: unknown): void => {
    const more = typeof value === 'string' && value.length > cap ? value.length - cap : 0;
    rows.push([name, kind, more]);
    values.push(more ? String(value).slice(0, cap) : value);
  };
  const self = this as object; // an object, since it has an id
  const bytes = self instanceof ArrayBuffer ? new Uint8Array(self) : self instanceof DataView ? new Uint8Array(self.buffer, self.byteOffset, self.byteLength) : undefined;
  const list = bytes ?? (Array.isArray(self) || (ArrayBuffer.isView(self) && !(self instanceof DataView)) ? (self as ArrayLike<unknown>) : undefined);
  if (filter !== 'named' && list) {
    for (let at = start; at < Math.min(list.length, start + count); at++) {
      const own = Object.getOwnPropertyDescriptor(list, at);
      if (own && 'value' in own) put(String(at), 'index', own.value);
      else if (own) put(String(at), 'getter', undefined);
    }
  }
  if (filter !== 'named' && (self instanceof Map || self instanceof Set)) {
    let at = 0;
    for (const one of Map.prototype.entries.call(self instanceof Map ? self : new Map([...Set.prototype.values.call(self)].entries()))) {
      if (at++ < start) continue;
      if (at > start + count) break;
      const [key, value] = one;
      if (self instanceof Set) put(String(key), 'element', value);
      else if (typeof key === 'string') put(`'${key.slice(0, 200)}'`, 'entry', value);
      else if ((typeof key !== 'object' && typeof key !== 'function') || key === null) put(String(key), 'entry', value);
      else put(String(at - 1), 'element', { key, value });
    }
  }
  if (filter === 'indexed') return [JSON.stringify({ rows, left: 0 }), ...values];
  const keys = Reflect.ownKeys(self).filter((key) => !list || typeof key === 'symbol' || (!/^\d+$/.test(key) && key !== 'length'));
  for (const key of keys.slice(0, names)) {
    const own = Object.getOwnPropertyDescriptor(self, key);
    if (!own) continue;
    const name = typeof key === 'symbol' ? `[${String(key)}]` : key;
    if ('value' in own) put(name, typeof key === 'symbol' ? 'symbol' : 'own', own.value);
    else if (own.get && typeof key !== 'symbol') put(name, 'getter', undefined);
  }
  if (!isScope) {
    for (let proto: unknown = Object.getPrototypeOf(self); proto && typeof proto === 'object' && typeof proto.constructor === 'function' && /^class\b/.test(Function.prototype.toString.call(proto.constructor)); proto = Object.getPrototypeOf(proto)) {
      for (const [name, own] of Object.entries(Object.getOwnPropertyDescriptors(proto))) if (own.get && !rows.some((row) => row[0] === name)) put(name, 'getter', undefined);
    }
    const proto: unknown = Object.getPrototypeOf(self);
    if (proto) put('[[Prototype]]', 'internal', proto);
  }
  return [JSON.stringify({ rows, left: Math.max(0, keys.length - names) }), ...values];
}

/** Runs in the program: the first of a list, a long text cut. */
function first(this: unknown[], cap: number): unknown {
  const value = this[0];
  return typeof value === 'string' && value.length > cap ? `${value.slice(0, cap)}… (${value.length - cap} more characters)` : value;
}

const firstLine = (value: Remote): string => (value.type === 'string' ? String(value.value ?? value.description) : (value.description ?? String(value.value)).split(/\n\s+at /)[0] ?? '').trim();
const quote = (text: string): string => `'${JSON.stringify(text).slice(1, -1).replaceAll('\\"', '"').replaceAll("'", "\\'")}'`;

function argumentOf(value: Remote): Json {
  return value.objectId ? { objectId: value.objectId } : value.unserializableValue !== undefined ? { unserializableValue: value.unserializableValue } : { value: value.value };
}

/** A value in one line, as a person would write it. */
export function show(value: Remote): string {
  const { type, subtype, description = '', preview, className } = value;
  if (type === 'string') return quote(String(value.value ?? description));
  if (type === 'function') return /^class\b/.test(description) ? (/^class[^{]*/.exec(description)?.[0].trim() ?? 'class') : `ƒ ${/^(?:async\s+)?(?:function\s*)?(\*?\s*[^\s(]*\s*\([^)]{0,200}\))/.exec(description)?.[1]?.trim() ?? clip(description.split('\n')[0] ?? '', 80)}`;
  if (type !== 'object' || subtype === 'null') return description || value.unserializableValue || String(value.value === null ? 'null' : (value.value ?? type));
  if (subtype === 'error') return firstLine(value);
  if (!preview || ['regexp', 'date', 'node', 'proxy', 'weakmap', 'weakset', 'promise', 'generator', 'arraybuffer', 'dataview'].includes(subtype ?? '')) return description;
  const rest = preview.overflow ? ', …' : '';
  const inner = ({ type: kind, subtype: sub, value: text = '' }: { type: string; subtype?: string; value?: string }): string => (kind === 'string' ? quote(text) : kind === 'function' ? 'ƒ' : kind === 'accessor' ? '(...)' : kind !== 'object' || sub === 'null' || sub === 'regexp' || sub === 'date' || sub === 'error' ? text : /^Array\(\d+\)$/.test(text) ? `${text.slice(5)} […]` : text === 'Object' ? '{…}' : `${text} {…}`);
  const entry = (one: Preview & Remote): string => (one.type === 'object' && one.subtype !== 'null' ? show({ ...one, preview: one }) : one.type === 'string' ? quote(one.description ?? '') : (one.description ?? ''));
  if (className === 'Buffer') return showBuffer(description, preview);
  if (subtype === 'array' || subtype === 'typedarray') return `${description.replace(/^Array/, '')} [${preview.properties.filter(({ name }) => /^\d+$/.test(name)).map(inner).join(', ')}${rest}]`;
  if (subtype === 'map' || subtype === 'set') return `${description} {${(preview.entries ?? []).map(({ key, value: one }) => (key ? `${entry(key)} => ${entry(one)}` : entry(one))).join(', ')}${rest}}`;
  return `${description === 'Object' ? '' : `${description} `}{${preview.properties.map((one) => `${one.name}: ${inner(one)}`).join(', ')}${rest}}`;
}

/** Bytes, and the text that they are, if they are one. */
function showBuffer(description: string, { properties, overflow }: Preview): string {
  const bytes = Buffer.from(properties.filter(({ name }) => /^\d+$/.test(name)).map(({ value }) => Number(value)));
  const text = bytes.toString('utf8');
  const shown = bytes.length > 0 && !/[\x00-\x08\x0e-\x1f\x7f\ufffd]/.test(text) ? ` ${quote(text)}${overflow ? '…' : ''}` : '';
  return `${description} <${bytes.toString('hex').replace(/(..)(?=.)/g, '$1 ')}${overflow ? ' …' : ''}>${shown}`;
}

function sizeOf({ subtype, description = '' }: Remote): number {
  return ['array', 'typedarray', 'map', 'set', 'arraybuffer', 'dataview'].includes(subtype ?? '') ? Number(/\((\d+)\)$/.exec(description)?.[1] ?? 0) : 0;
}

/** The rows of an object. */
async function rowsOf(debuggee: Debuggee, object: Remote, how: { filter: string; start: number; count: number; isScope?: boolean; evaluateName?: string | undefined }): Promise<Row[]> {
  const { objectId, subtype = '', className = '' } = object;
  if (!objectId) return [];
  const rows: Row[] = [];
  const nameIn = (name: string, kind: string): string | undefined => {
    const base = how.evaluateName;
    if (how.isScope) return name;
    if (base === undefined || kind === 'element' || kind === 'internal' || kind === 'symbol') return undefined;
    if (kind === 'entry') return `${base}.get(${name})`;
    return /^[\p{L}_$][\p{L}\p{N}_$]*$/u.test(name) ? `${base}.${name}` : `${base}[${kind === 'index' ? name : JSON.stringify(name)}]`;
  };
  const isOpaque = ['proxy', 'promise', 'generator', 'weakmap', 'weakset', 'iterator'].includes(subtype); // only V8 knows what is in them, or code would run
  if (!isOpaque) {
    const { result, exceptionDetails } = await debuggee.request('Runtime.callFunctionOn', { objectId, functionDeclaration: String(read), arguments: [how.filter, how.start, how.count, TEXT_CAP, NAMES_CAP, how.isScope === true].map((value) => ({ value })), objectGroup: 'stop', silent: true });
    const list = remoteOf(result).objectId;
    if (exceptionDetails || !list) throw new Error(`it cannot be looked into: ${firstLine(remoteOf(isObject(exceptionDetails) ? exceptionDetails.exception : undefined))}`);
    const { result: items } = await debuggee.request('Runtime.getProperties', { objectId: list, ownProperties: true, generatePreview: true });
    const values = new Map(listOf(items).map((one) => [String(one.name), remoteOf(one.value)]));
    const head: unknown = JSON.parse(String(values.get('0')?.value ?? '{}'));
    for (const [index, row] of (isObject(head) && Array.isArray(head.rows) ? head.rows : []).entries()) {
      const [name, kind, more]: unknown[] = row;
      const value = values.get(String(index + 1)) ?? { type: 'undefined' };
      rows.push({ name: String(name), value: Number(more) > 0 ? { ...value, value: `${String(value.value)}… (${String(more)} more characters)` } : value, isGetter: kind === 'getter', evaluateName: nameIn(String(name), String(kind)) });
    }
    if (isObject(head) && Number(head.left) > 0) rows.push({ name: '…', value: { type: 'object', description: `${String(head.left)} more: ask for one by its name` }, isGetter: false, evaluateName: undefined });
  }
  if (how.filter === 'indexed' || how.isScope || (!isOpaque && (subtype || className === 'Object'))) return rows;
  const { result, internalProperties, privateProperties } = await debuggee.request('Runtime.getProperties', { objectId, ownProperties: true, generatePreview: true });
  if (isOpaque) for (const one of listOf(result)) rows.push({ name: String(one.name), value: remoteOf(one.value), isGetter: false, evaluateName: nameIn(String(one.name), 'own') });
  const hidden = [...listOf(privateProperties), ...(isOpaque || object.type === 'function' ? listOf(internalProperties).filter((one) => one.name !== '[[Prototype]]' && one.name !== '[[Scopes]]') : [])].filter((one) => one.value !== undefined);
  const at = rows.at(-1)?.name === '[[Prototype]]' ? -1 : rows.length;
  rows.splice(at, 0, ...hidden.map((one) => ({ name: String(one.name), value: remoteOf(one.value), isGetter: false, evaluateName: undefined })));
  return rows;
}

/** A text that can stand in parentheses is an expression; anything else is statements. An object literal is a value. */
function isExpression(text: string): boolean {
  try {
    new vm.Script(`[(${text}\n)]`); // compiled, never run
    return true;
  } catch {
    return false;
  }
}

// ------------------------------------------------------------------------------------------------------ a program
// What one root session has started or attached to: its processes, their output and their end.

/** In the program before its own code. A forked process opens an inspector, says where, and waits to be debugged. */
const BOOT = `'use strict';
(() => {
  const own = process.execArgv.findIndex((one) => one === '--inspect-brk=127.0.0.1:0');
  if (own >= 0) return void process.execArgv.splice(own, 2); // else what it forks would wait for a debugger of its own
  const { VSCODE_DEVTOOLS_NODE_ADAPTER: order } = process.env;
  if (!order || !require('node:worker_threads').isMainThread) return;
  const fs = require('node:fs');
  const at = JSON.parse(order);
  const inspector = require('node:inspector');
  if (inspector.url()) return;
  try {
    process.kill(at.adapter, 0);
    fs.accessSync(at.dir);
  } catch {
    return; // nobody debugs any more
  }
  if (at.isMain) { // in a terminal: nobody else can tell its exit code
    process.env.VSCODE_DEVTOOLS_NODE_ADAPTER = JSON.stringify({ ...at, isMain: undefined });
    process.once('exit', (code) => { try { fs.writeFileSync(at.dir + '/exit', String(code)); } catch {} });
  }
  inspector.open(0, '127.0.0.1', false);
  const file = at.dir + '/' + process.pid;
  fs.writeFileSync(file, JSON.stringify({ pid: process.pid, ppid: process.ppid, url: inspector.url(), name: process.argv[1] || '', isMain: at.isMain }), { mode: 0o600 });
  fs.renameSync(file, file + '.json');
  inspector.waitForDebugger();
})();
`;

/** Waits for the end of its stdin, which is the adapter's end, and then ends what it was last told of (first by its argument: one that is
 * there knows what it guards). */
const GUARD = 'all=$1; while read -r pids; do all=$pids; done; [ -n "$all" ] && kill -9 $all 2>/dev/null';

const NOISE = ['Debugger attached.', 'Waiting for the debugger to disconnect...'];

/** Takes node's own lines about its inspector out of stderr: as many as there are connections, so that the program's own stay. */
export class Noise {
  url = ''; // of the inspector, when it has said it
  private held = '';
  private isLineStart = true;
  private readonly allowed = new Map<string, number>();
  private isHelpDue = false;

  /** There is one more connection. */
  allow(url: string): void {
    this.allowed.set(`Debugger ending on ${url}`, 1);
    for (const line of NOISE) this.allowed.set(line, (this.allowed.get(line) ?? 0) + 1);
  }

  /** What of it is the program's. */
  push(piece: string): string {
    const lines = (this.held + piece).split(/(?<=\n)/);
    this.held = '';
    let out = '';
    for (const line of lines) {
      const bare = line.replace(/\r?\n$/, '');
      const isWhole = line.endsWith('\n');
      if (!isWhole && this.isLineStart && line.length < LINE_CAP && this.mayBeNoise(line)) {
        this.held = line;
        return out;
      }
      const isDropped = isWhole && this.isLineStart && this.isNoise(bare);
      this.isLineStart = isWhole;
      if (!isDropped) out += line;
    }
    return out;
  }

  /** What is left at the end. */
  rest(): string {
    const { held } = this;
    this.held = '';
    return held;
  }

  private mayBeNoise(line: string): boolean {
    return (!this.url && 'Debugger listening on ws://'.startsWith(line.slice(0, 27))) || (this.isHelpDue && 'For help, see: https://'.startsWith(line.slice(0, 23))) || [...this.allowed].some(([one, left]) => left > 0 && one.startsWith(line));
  }

  private isNoise(line: string): boolean {
    const [, url] = (!this.url && /^Debugger listening on (ws:\/\/\S+)$/.exec(line)) || [];
    if (url) this.isHelpDue = true;
    if (url) this.url = url;
    if (url) return true;
    if (this.isHelpDue && /^For help, see: https:\/\/\S+$/.test(line)) return !(this.isHelpDue = false);
    const left = this.allowed.get(line) ?? 0;
    if (left > 0) this.allowed.set(line, left - 1);
    if (left > 0 && line.startsWith('Debugger ending on ')) this.isHelpDue = true;
    return left > 0;
  }
}

const pendingTargets = new Map<string, Debuggee>(); // announced to a client, which has not come yet
const programs = new Set<Program>();
let announced = 0;

class Program {
  readonly root: Session;
  readonly config: Json;
  readonly cwd: string;
  readonly isLaunch: boolean;
  readonly hasMaps: boolean;
  readonly blackbox: string[];
  main: Debuggee | undefined;
  private readonly all = new Set<Debuggee>();
  private child: ChildProcess | undefined;
  private dir = '';
  private isOwnDir = false;
  private watcher: fs.FSWatcher | undefined;
  private guard: ChildProcess | undefined;
  private isGuarded = false;
  private readonly noise = new Noise();
  private isEnding = false; // asked for, by us
  private isRestarting = false;
  private isOver = false;
  private readonly onGone = new Set<() => void>();

  constructor(root: Session, config: Json, isLaunch: boolean) {
    this.root = root;
    this.config = config;
    this.isLaunch = isLaunch;
    this.cwd = path.resolve(textOf(config.cwd) ?? textOf(config.__workspaceFolder) ?? (isLaunch && textOf(config.program) ? path.dirname(String(config.program)) : '.'));
    this.hasMaps = config.sourceMaps !== false;
    this.blackbox = blackboxOf(config.skipFiles === undefined ? ['<node_internals>/**'] : stringsOf(config.skipFiles));
    programs.add(this);
  }

  get name(): string {
    return path.basename(textOf(this.config.program) ?? textOf(this.config.name) ?? 'node');
  }

  /** Where a program in a terminal is stopped on entry: there nothing stops it by itself. */
  get entry(): string {
    return this.isLaunch && this.config.stopOnEntry === true && !this.child ? realPath(path.resolve(this.cwd, String(this.config.program))) : '';
  }

  stopsOnEntry(debuggee: Debuggee): boolean {
    if (debuggee !== this.main) return false;
    return this.isLaunch ? this.config.stopOnEntry === true : this.config.continueOnAttach !== true;
  }

  // ---- its start

  async launch(): Promise<void> {
    const { config, cwd, root } = this;
    const program = textOf(config.program);
    if (!program) throw new Error('launch needs `program`, the path of a JavaScript or TypeScript file');
    const file = path.resolve(cwd, program);
    if (!fs.existsSync(file)) throw new Error(`there is no program ${file}. Nothing was started`);
    if (!fs.statSync(cwd, { throwIfNoEntry: false })?.isDirectory()) throw new Error(`cwd: there is no directory ${cwd}. Nothing was started`);
    const given = isObject(config.env) ? config.env : {};
    const env: NodeJS.ProcessEnv = { ...process.env };
    for (const [name, value] of Object.entries(given)) if (value === null) delete env[name]; else env[name] = String(value);
    if (given.VSCODE_INSPECTOR_OPTIONS === undefined) delete env.VSCODE_INSPECTOR_OPTIONS; // of a debugger that runs us
    const runtime = textOf(config.runtimeExecutable) ?? nodeIn(env);
    const runtimeArgs = stringsOf(config.runtimeArgs);
    const args = stringsOf(config.args);
    const isTerminal = config.console === 'integratedTerminal' || config.console === 'externalTerminal';
    const isDebugged = config.noDebug !== true;
    if (isDebugged) this.prepare(env, isTerminal);
    if (isTerminal && isDebugged) this.watch();
    if (isTerminal) return this.launchInTerminal([runtime, ...runtimeArgs, file, ...args], env, given);
    const flags = isDebugged ? ['--inspect-brk=127.0.0.1:0', '--inspect-publish-uid=stderr'] : [];
    const child = spawn(runtime, [...flags, ...runtimeArgs, file, ...args], { cwd, env, stdio: ['ignore', 'pipe', 'pipe'], windowsHide: true });
    this.child = child;
    if (isDebugged) this.watch(); // it forks nothing before it is let go
    if (child.pid !== undefined && isDebugged) {
      this.main = new Debuggee(this, `${this.name} [${child.pid}]`);
      this.main.pid = child.pid;
      this.adopt(this.main, root); // at once: the client comes while the program starts
    }
    this.listen(child, isDebugged);
    await new Promise<void>((resolve, reject) => {
      child.once('spawn', resolve);
      child.once('error', (error) => {
        this.over();
        reject(new Error(`${runtime} could not be started: ${error.message}. Set runtimeExecutable to the path of a node`));
      });
    });
    root.event('process', { name: file, systemProcessId: child.pid, isLocalProcess: true, startMethod: 'launch' });
  }

  /** The private directory, what every process of the program loads first, and where that says that it is there. */
  private prepare(env: NodeJS.ProcessEnv, isTerminal: boolean): void {
    const given = server.dir && !fs.existsSync(path.join(server.dir, 'boot.cjs'));
    this.dir = given ? server.dir : fs.mkdtempSync(path.join(os.tmpdir(), 'vscode-devtools-node-'));
    this.isOwnDir = !given;
    fs.mkdirSync(this.dir, { recursive: true, mode: 0o700 });
    const boot = path.join(this.dir, 'boot.cjs');
    fs.writeFileSync(boot, BOOT, { mode: 0o600 });
    if (this.config.autoAttachChildProcesses === false && !isTerminal) return;
    env.NODE_OPTIONS = `${env.NODE_OPTIONS ? `${env.NODE_OPTIONS} ` : ''}--inspect-publish-uid=http --require "${boot.replaceAll('\\', '\\\\').replaceAll('"', '\\"')}"`;
    env.VSCODE_DEVTOOLS_NODE_ADAPTER = JSON.stringify({ dir: this.dir, adapter: process.pid, ...(isTerminal && { isMain: true }) });
  }

  private watch(): void {
    this.watcher = fs.watch(this.dir, () => this.lookForForks());
    this.watcher.on('error', () => {}); // the directory goes with the session
  }

  private async launchInTerminal(args: string[], env: NodeJS.ProcessEnv, given: Json): Promise<void> {
    const { root, config } = this;
    if (!root.can('supportsRunInTerminalRequest')) throw new Error('the client does not offer a terminal: use console "internalConsole"');
    this.main = new Debuggee(this, this.name);
    this.adopt(this.main, root);
    const variables = { ...given, NODE_OPTIONS: env.NODE_OPTIONS, VSCODE_DEVTOOLS_NODE_ADAPTER: env.VSCODE_DEVTOOLS_NODE_ADAPTER };
    await root.reverse('runInTerminal', { kind: config.console === 'externalTerminal' ? 'external' : 'integrated', title: this.name, cwd: this.cwd, args, env: variables });
    this.expectStart();
  }

  private expectStart(): void {
    const inTime = deadline(START_MS, () => {
      if (this.main?.cdp || this.isOver) return;
      this.root.say(`the program has not opened its inspector in ${START_MS / 1000} s: it is ended. Is ${textOf(this.config.runtimeExecutable) ?? 'node'} a Node of version 20 or newer?`);
      void this.kill();
    });
    this.onGone.add(inTime);
  }

  private listen(child: ChildProcess, isDebugged: boolean): void {
    const { root, noise } = this;
    const print = (category: string, text: string): void => {
      if (!text) return;
      root.event('output', { category, output: text });
      if (root.unsent < UNSENT_CAP) return;
      for (const stream of [child.stdout, child.stderr]) stream?.pause();
      root.onDrained(() => {
        for (const stream of [child.stdout, child.stderr]) stream?.resume();
      });
    };
    child.stdout?.setEncoding('utf8').on('data', (text: string) => print('stdout', text));
    child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      const wasKnown = noise.url !== '';
      print('stderr', isDebugged ? noise.push(text) : text);
      if (!wasKnown && noise.url && this.main) this.open(this.main, noise.url);
    });
    if (isDebugged) this.expectStart();
    const closed = new Promise<void>((resolve) => child.once('close', () => resolve()));
    child.once('exit', async (code, signal) => {
      let inTime = (): void => {};
      await Promise.race([closed, new Promise<void>((resolve) => (inTime = deadline(LAST_OUTPUT_MS, resolve)))]); // its pipes may be held open by what it started
      inTime();
      print('stderr', noise.rest());
      this.over(signal ? -(os.constants.signals[signal] ?? 1) : (code ?? 0));
    });
  }

  private open(debuggee: Debuggee, url: string): void {
    this.noise.allow(url);
    openInspector(url, (method, params) => debuggee.onEvent(method, params), () => debuggee.end()).then((cdp) => debuggee.connect(cdp), (error) => {
      if (!this.isOver && !debuggee.isEnded) this.root.say(`the inspector of ${debuggee.label} cannot be reached: ${messageOf(error)}`);
      debuggee.end();
    });
  }

  /** A forked process has left word, or a program in a terminal. */
  private lookForForks(): void {
    for (const name of fs.existsSync(this.dir) ? fs.readdirSync(this.dir) : []) {
      if (!/^\d+\.json$/.test(name) || this.isOver) continue;
      let said: unknown;
      try {
        said = JSON.parse(fs.readFileSync(path.join(this.dir, name), 'utf8'));
        fs.rmSync(path.join(this.dir, name));
      } catch {
        continue; // seen twice
      }
      if (!isObject(said) || typeof said.url !== 'string' || typeof said.pid !== 'number') continue;
      const isMain = said.isMain === true && this.main && !this.main.cdp;
      const debuggee = isMain && this.main ? this.main : new Debuggee(this, `${path.basename(String(said.name)) || 'node'} [${said.pid}]`);
      debuggee.pid = said.pid;
      const parent = [...this.all].find((one) => one.pid === said.ppid && !one.parent);
      if (!isMain) this.adopt(debuggee, parent?.session);
      else this.root.event('process', { name: this.name, systemProcessId: said.pid, isLocalProcess: true, startMethod: 'launch' });
      this.open(debuggee, said.url);
    }
  }

  async attach(): Promise<void> {
    const { config } = this;
    const pid = numberOf(config.processId) ?? numberOf(config.pid) ?? (/^\d+$/.test(textOf(config.processId) ?? '') ? Number(config.processId) : undefined);
    let place = { host: textOf(config.address) ?? textOf(config.host) ?? '127.0.0.1', port: numberOf(config.port) ?? 9229 };
    if (pid !== undefined) place = await inspectorOf(pid);
    const targets = await targetsOf(place.host, place.port).catch((error) => {
      throw new Error(`nothing that can be debugged answers on ${place.host}:${place.port} (${messageOf(error)}). Start the program with node --inspect=${place.port}, or attach by its pid`);
    });
    const [target] = targets;
    const id = /\/([^/]+)$/.exec(textOf(target?.webSocketDebuggerUrl) ?? '')?.[1];
    if (!id) throw new Error(`${place.host}:${place.port} is no Node inspector`);
    const title = textOf(target?.title) ?? '';
    this.main = new Debuggee(this, `${title || `port ${place.port}`}`);
    this.main.pid = pid ?? numberOf(Number(/\[(\d+)\]$/.exec(title)?.[1]));
    const { main } = this;
    const cdp = await openInspector(`ws://${place.host.includes(':') ? `[${place.host}]` : place.host}:${place.port}/${id}`, (method, params) => main.onEvent(method, params), () => main.end());
    this.adopt(main, this.root);
    main.connect(cdp);
  }

  /** A debuggee that has come: a thread of this session, or a session of its own. */
  adopt(debuggee: Debuggee, via: Session | undefined): void {
    const { root } = this;
    this.all.add(debuggee);
    this.tellGuard();
    if (this.all.size > CHILDREN_CAP || (this.isEnding && debuggee !== this.main)) return debuggee.leave();
    if (!root.isTree) return debuggee.bind(root);
    const target = `${process.pid}-${++announced}`;
    pendingTargets.set(target, debuggee);
    const forget = (): void => {
      if (pendingTargets.delete(target)) debuggee.leave();
    };
    const inTime = deadline(CHILD_MS, forget);
    debuggee.onBound = inTime;
    const from = via && !via.isClosed ? via : root;
    from.reverse('startDebugging', { request: this.isLaunch ? 'launch' : 'attach', configuration: { type: root.type, request: this.isLaunch ? 'launch' : 'attach', name: debuggee.label, __pendingTargetId: target } }).catch(forget);
  }

  /** The guard is started when the program runs: it is not to cost the start anything. */
  onBegun(): void {
    if (this.isGuarded || !this.isLaunch || process.platform === 'win32') return;
    this.isGuarded = true;
    this.onGone.add(deadline(GUARD_MS, () => {
      if (this.isOver) return;
      const guard = spawn('sh', ['-c', GUARD, 'guard', this.pids().join(' ')], { stdio: ['pipe', 'ignore', 'ignore'] });
      guard.on('error', () => {}); // no sh: the program then ends with its pipes
      guard.stdin.on('error', () => {}); // it was ended
      this.guard = guard;
    }));
  }

  private pids(): number[] {
    return [...this.all].filter((one) => !one.parent && !one.isEnded && one.pid !== undefined).map((one) => Number(one.pid));
  }

  private tellGuard(): void {
    if (this.guard?.stdin?.writable) this.guard.stdin.write(`${this.pids().join(' ')}\n`);
  }

  // ---- its end

  onEnded(debuggee: Debuggee): void {
    this.all.delete(debuggee);
    this.tellGuard();
    if (debuggee !== this.main || this.child || this.isOver) return;
    let code: number | undefined;
    try {
      code = this.isLaunch ? Number(fs.readFileSync(path.join(this.dir, 'exit'), 'utf8')) : undefined;
    } catch {
      // a signal ended it, and its terminal alone knows which
    }
    this.over(code);
  }

  /** The program has ended: everything of it is told, and tidied up. Negative codes are signals. */
  private over(code?: number): void {
    if (this.isOver) return;
    for (const one of [...this.all]) one.end();
    this.watcher?.close();
    this.guard?.kill('SIGKILL');
    this.guard = undefined;
    if (this.dir) fs.rmSync(this.isOwnDir ? this.dir : path.join(this.dir, 'boot.cjs'), { recursive: true, force: true });
    for (const tell of [...this.onGone]) tell();
    this.onGone.clear();
    if (this.isRestarting) return;
    this.isOver = true;
    programs.delete(this);
    if (code !== undefined) this.root.event('exited', { exitCode: code });
    this.root.event('terminated');
  }

  /** Kills all its processes, and waits for the end. What has no inspector open any more may be somebody else's number. */
  async kill(): Promise<void> {
    this.isEnding = true;
    const pids = this.isLaunch ? this.pids() : [];
    const gone = this.isOver || (!this.child && !this.main?.cdp) ? Promise.resolve() : new Promise<void>((resolve) => {
      const inTime = deadline(END_MS, resolve);
      this.onGone.add(() => {
        inTime();
        resolve();
      });
    });
    if (this.child && this.child.exitCode === null && this.child.signalCode === null) this.child.kill('SIGKILL');
    for (const pid of pids) if (pid !== this.child?.pid) signal(pid, 'SIGKILL');
    if (!this.isLaunch) for (const one of [...this.all]) one.leave();
    await gone;
  }

  /** Asks it to end, as a person would. */
  terminate(debuggee?: Debuggee): void {
    const process = debuggee ?? this.main;
    if (process?.parent) return process.cdp?.tell('Runtime.evaluate', { expression: 'process.exit()' });
    for (const one of [...this.all].filter((each) => each === process || each.parent === process)) {
      one.cdp?.tell('Debugger.setBreakpointsActive', { active: false });
      one.cdp?.tell('Debugger.setPauseOnExceptions', { state: 'none' });
      if (one.pause) one.go('resume');
    }
    if (!process && this.child) this.child.kill('SIGTERM');
    else if (process?.pid !== undefined && !process.isEnded) signal(process.pid, 'SIGTERM');
  }

  /** Leaves it, running. */
  detach(): void {
    this.isEnding = true;
    this.guard?.kill('SIGKILL');
    for (const one of [...this.all]) one.leave();
    this.child?.unref();
    this.over();
  }

  async restart(config: Json | undefined): Promise<void> {
    if (!this.isLaunch) throw new Error('a program that was attached to cannot be started again: only what was launched');
    if (this.isRestarting || this.isOver) throw new Error('it is ending');
    this.isRestarting = true;
    await this.kill();
    const next = new Program(this.root, config ?? this.config, true);
    programs.delete(this);
    this.isOver = true;
    this.root.program = next;
    await next.launch();
  }

  /** The adapter's own end: nothing may wait. */
  endNow(): void {
    if (this.isLaunch) {
      this.child?.kill('SIGKILL');
      for (const pid of this.pids()) if (pid !== this.child?.pid) signal(pid, 'SIGKILL');
    }
    this.guard?.kill('SIGKILL');
    if (this.dir) fs.rmSync(this.isOwnDir ? this.dir : path.join(this.dir, 'boot.cjs'), { recursive: true, force: true });
  }
}

function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name);
  } catch {
    // it has just ended
  }
}

/** The node that a shell would find; ours, if there is none. */
function nodeIn(env: NodeJS.ProcessEnv): string {
  const name = process.platform === 'win32' ? 'node.exe' : 'node';
  return (env.PATH ?? env.Path ?? '').split(path.delimiter).filter(Boolean).map((dir) => path.join(dir, name)).find((file) => fs.existsSync(file)) ?? process.execPath;
}

/** What is stepped over: patterns of files, as expressions for V8, which knows scripts by their URLs. */
export function blackboxOf(patterns: string[]): string[] {
  const expression = (glob: string): string => {
    if (/^<node_internals>/.test(glob)) return `node:${glob === '<node_internals>/**' ? '' : globText(glob.slice('<node_internals>/'.length))}`;
    const file = glob.replaceAll('\\', '/');
    return `file://${path.isAbsolute(file) ? globText(encodeURI(file)) : `/(?:.*/)?${globText(encodeURI(file.replace(/^(?:\.\/|\*\*\/)+/, '')))}$`}`;
  };
  const not = patterns.filter((one) => one.startsWith('!')).map((one) => expression(one.slice(1)));
  return patterns.filter((one) => !one.startsWith('!')).map((one) => `^${not.length ? `(?!${not.join('|')})` : ''}${expression(one)}`);
}

function globText(glob: string): string {
  return glob.replace(/\*\*\/|\*\*|\*|\?|[.+^${}()|[\]\\]/g, (all) => ({ '**/': '(?:.*/)?', '**': '.*', '*': '[^/]*', '?': '[^/]' })[all] ?? `\\${all}`);
}

// -------------------------------------------------------------------------------------------------------- a session
// One DAP connection: a root, which launches or attaches, or a child, which takes over what a root has announced.

type Source = { debuggee: Debuggee; script: Script | undefined; content: string | undefined };

class Session {
  readonly debuggees: Debuggee[] = [];
  readonly handles = new Map<number, Handle>();
  readonly sources = new Map<number, Source>();
  filters: Array<{ filter: string; condition: string | undefined }> = [];
  program: Program | undefined;
  type = 'node';
  isTree = false; // its children are connections of their own
  isChild = false;
  isConfigured = false;
  isClosed = false;
  isOnBase1 = { lines: true, columns: true };
  private client: Json = {};
  private readonly canConnect: boolean;
  private readonly output: Writable;
  private readonly input: Readable;
  private seq = 0;
  private nextHandle = 1;
  private nextSource = 1;
  private nextBreakpoint = 1;
  private readonly breakpoints = new Map<string, Wanted[]>(); // by file
  private readonly pending = new Map<number, { resolve: (body: Json) => void; reject: (error: Error) => void; inTime: () => void }>();
  private readonly drained: Array<() => void> = [];
  private after: Array<() => void> = []; // what is to happen behind the answer
  private readonly onClosed: () => void;

  constructor(input: Readable, output: Writable, canConnect: boolean, onClosed: () => void) {
    this.input = input;
    this.output = output;
    this.canConnect = canConnect;
    this.onClosed = onClosed;
    if (input instanceof net.Socket) input.setNoDelay(true);
    const reader = new DapReader((message) => this.onMessage(message), (problem, isFatal) => {
      process.stderr.write(`node-adapter: ${problem}\n`);
      if (isFatal) this.close();
    });
    input.on('data', (chunk: Buffer) => reader.push(chunk));
    for (const stream of new Set<Readable | Writable>([input, output])) {
      stream.on('error', () => this.close());
      stream.on('close', () => this.close());
    }
    input.on('end', () => this.close());
    output.on('drain', () => {
      for (const tell of this.drained.splice(0)) tell();
    });
  }

  // ---- the wire

  private send(message: Json): void {
    if (this.isClosed) return;
    const text = JSON.stringify({ seq: ++this.seq, ...message });
    this.output.write(`Content-Length: ${Buffer.byteLength(text)}\r\n\r\n${text}`);
  }

  get unsent(): number {
    return this.output.writableLength;
  }

  onDrained(tell: () => void): void {
    if (this.isClosed || !this.output.writableNeedDrain) setImmediate(tell);
    else this.drained.push(tell);
  }

  event(event: string, body: Json = {}): void {
    this.send({ type: 'event', event, body });
  }

  /** A word to the person who debugs. */
  say(text: string): void {
    this.event('output', { category: 'console', output: `${text}\n` });
  }

  reverse(command: string, args: Json): Promise<Json> {
    const seq = this.seq + 1; // send() takes it
    return new Promise((resolve, reject) => {
      const inTime = deadline(REVERSE_MS, () => {
        this.pending.delete(seq);
        reject(new Error(`the client has not answered ${command} in ${REVERSE_MS / 1000} s`));
      });
      this.pending.set(seq, { resolve, reject, inTime });
      this.send({ type: 'request', command, arguments: args });
    });
  }

  private onMessage(message: Json): void {
    const { type, command, seq } = message;
    if (type === 'request' && typeof command === 'string') return void this.onRequest(message, command);
    const one = type === 'response' ? this.pending.get(Number(message.request_seq)) : undefined;
    if (!one) return void (type !== 'response' && process.stderr.write(`node-adapter: message ${String(seq)} is neither request nor response\n`));
    this.pending.delete(Number(message.request_seq));
    one.inTime();
    if (message.success === true) one.resolve(isObject(message.body) ? message.body : {});
    else one.reject(new Error(textOf(message.message) ?? 'the client refused'));
  }

  private async onRequest({ seq, arguments: args }: Json, command: string): Promise<void> {
    const answer: Json = { type: 'response', request_seq: seq, command, success: true };
    let after: Array<() => void> = [];
    try {
      const handler = Object.hasOwn(REQUESTS, command) ? REQUESTS[command] : undefined;
      if (!handler) throw new Error(`the Node adapter does not know the request ${command}`);
      this.after = after; // of the part that runs at once; those behind a wait have none
      const given = handler(this, isObject(args) ? args : {});
      after = this.after;
      this.after = [];
      const body = given instanceof Promise ? await given : given;
      if (body) answer.body = typeof body === 'function' ? body() : body;
    } catch (error) {
      Object.assign(answer, { success: false, message: messageOf(error), body: { error: { id: 1, format: messageOf(error), showUser: false } } });
      after = [];
    }
    this.send(answer);
    for (const then of after) then();
  }

  /** Behind the answer to the request that is handled: an event that follows from it must not overtake it. */
  behind(then: () => void): void {
    this.after.push(then);
  }

  close(): void {
    if (this.isClosed) return;
    this.isClosed = true;
    for (const one of this.pending.values()) {
      one.inTime();
      one.reject(new Error('the client has gone'));
    }
    this.pending.clear();
    for (const tell of this.drained.splice(0)) tell();
    this.input.destroy();
    this.output.destroy();
    const { program } = this;
    if (this.isChild) for (const one of [...this.debuggees]) one.leave();
    else if (program?.isLaunch) void program.kill();
    else program?.detach();
    this.onClosed();
  }

  can(capability: string): boolean {
    return this.client[capability] === true;
  }

  // ---- its start and end

  initialize(args: Json): Json {
    this.client = args;
    this.type = textOf(args.adapterID) ?? 'node';
    this.isOnBase1 = { lines: args.linesStartAt1 !== false, columns: args.columnsStartAt1 !== false };
    this.isTree = this.canConnect && args.supportsStartDebuggingRequest === true;
    if (args.pathFormat !== undefined && args.pathFormat !== 'path') throw new Error('only pathFormat "path" is known');
    return CAPABILITIES;
  }

  async begin(args: Json, isLaunch: boolean): Promise<void> {
    if (this.program) throw new Error('this session has its program already: disconnect, and use another connection');
    const target = args.__pendingTargetId;
    if (target !== undefined) {
      const debuggee = pendingTargets.get(String(target));
      if (!debuggee) throw new Error(`there is no target ${JSON.stringify(target)}: it was taken by another connection, or has ended`);
      pendingTargets.delete(String(target));
      this.isChild = true;
      this.program = debuggee.program;
      if (debuggee.pid !== undefined) this.event('process', { name: debuggee.label, systemProcessId: debuggee.pid, isLocalProcess: true, startMethod: 'attachForSuspendedLaunch' });
      debuggee.bind(this);
      this.behind(() => this.event('initialized'));
      return;
    }
    const program = new Program(this, args, isLaunch);
    this.program = program;
    try {
      if (isLaunch) this.event('initialized');
      await (isLaunch ? program.launch() : program.attach());
      if (!isLaunch) this.event('initialized');
    } catch (error) {
      programs.delete(program);
      this.program = undefined;
      await program.kill();
      throw error;
    }
  }

  configurationDone(): void {
    this.isConfigured = true;
    this.behind(() => {
      for (const one of this.debuggees) one.release();
    });
  }

  async disconnect(args: Json): Promise<void> {
    const { program } = this;
    const isTerminating = args.terminateDebuggee ?? program?.isLaunch;
    if (this.isChild) {
      for (const one of [...this.debuggees]) {
        if (isTerminating !== true || !program?.isLaunch) one.leave();
        else if (one === program.main) await program.kill();
        else if (one.parent) one.leave();
        else if (one.pid !== undefined) signal(one.pid, 'SIGKILL');
      }
    } else if (program?.isLaunch && isTerminating !== false) await program.kill();
    else if (isTerminating === true) program?.terminate();
    else program?.detach();
    setImmediate(() => this.output.end(() => this.close())); // behind the answer
  }

  // ---- breakpoints

  wanted(): Wanted[] {
    return [...this.breakpoints.values()].flat();
  }

  isWanted(one: Wanted): boolean {
    return this.breakpoints.get(one.file)?.includes(one) === true;
  }

  /** What is wanted in a file from now on. What was wanted before stays as it is: nothing is set twice. */
  async setBreakpoints(args: Json): Promise<() => Json> {
    const source = isObject(args.source) ? args.source : {};
    const named = textOf(source.path);
    if (!named || !path.isAbsolute(named)) throw new Error('setBreakpoints needs the absolute path of a source');
    const file = realPath(named);
    const before = this.breakpoints.get(file) ?? [];
    const asked = Array.isArray(args.breakpoints) ? listOf(args.breakpoints) : (Array.isArray(args.lines) ? args.lines : []).map((line) => ({ line }) as Json);
    const all: Wanted[] = [];
    const places = new Set<string>();
    for (const one of asked) {
      const line = (numberOf(one.line) ?? 0) + (this.isOnBase1.lines ? 0 : 1);
      const column = one.column === undefined ? undefined : (numberOf(one.column) ?? 1) + (this.isOnBase1.columns ? 0 : 1);
      const [condition, hitCondition, logMessage] = [textOf(one.condition)?.trim() || undefined, textOf(one.hitCondition)?.trim() || undefined, textOf(one.logMessage) || undefined];
      const key = JSON.stringify([line, column, condition, hitCondition, logMessage]);
      const problem = line < 1 ? 'lines begin at 1' : places.has(`${line}:${column}`) ? 'another breakpoint is at this place' : hitCondition !== undefined && !HITS.test(hitCondition) ? `hit condition ${JSON.stringify(hitCondition)} is no number, nor one with an operator: >= 3, > 3, == 3, < 3, <= 3, % 3` : undefined;
      places.add(`${line}:${column}`);
      const known = problem === undefined ? before.find((each) => each.key === key && each.problem === undefined && !all.includes(each)) : undefined;
      all.push(known ?? { id: this.nextBreakpoint++, key, file, line, column, condition, hitCondition, logMessage, ...(problem !== undefined && { problem }) });
    }
    for (const one of before) if (!all.includes(one)) for (const debuggee of this.debuggees) debuggee.remove(one);
    this.breakpoints.set(file, all);
    const fresh = all.filter((one) => !before.includes(one));
    const placing = Promise.all(this.debuggees.filter((one) => one.cdp).map((debuggee) => debuggee.placeAll(fresh))).catch((error) => this.say(messageOf(error))); // it has ended: its breakpoints are what they are
    let inTime = (): void => {};
    await Promise.race([placing, new Promise<void>((resolve) => (inTime = deadline(fresh.length > PLACING_AT_ONCE ? PLACING_MS : PLACING_FEW_MS, resolve)))]); // V8 takes milliseconds for each: the rest is told by events
    inTime();
    return () => ({ breakpoints: all.map((one) => this.describe(one)) });
  }

  describe(one: Wanted): Json {
    const bound = this.debuggees.map((debuggee) => debuggee.boundAt(one)).find((at) => at !== undefined);
    const source = { name: path.basename(one.file), path: one.file };
    if (one.problem !== undefined) return { id: one.id, verified: false, line: this.lineOut(one.line), message: one.problem, source };
    return bound ? { id: one.id, verified: true, line: this.lineOut(bound.line), column: this.columnOut(bound.column), source } : { id: one.id, verified: false, line: this.lineOut(one.line), message: 'it is set when its code is loaded', source };
  }

  lineOut(line: number): number {
    return this.isOnBase1.lines ? line : line - 1;
  }

  columnOut(column: number): number {
    return this.isOnBase1.columns ? column : column - 1;
  }

  setExceptions(args: Json): Json {
    const options = listOf(args.filterOptions).map((one) => ({ filter: String(one.filterId), condition: textOf(one.condition)?.trim() || undefined }));
    const all = [...stringsOf(args.filters).map((filter) => ({ filter, condition: undefined })), ...options];
    const unknown = all.find(({ filter }) => !['all', 'caught', 'uncaught'].includes(filter));
    if (unknown) throw new Error(`there is no exception filter ${JSON.stringify(unknown.filter)}: there are "all", "caught" and "uncaught"`);
    this.filters = all;
    for (const one of this.debuggees) one.sendExceptions(this);
    return { breakpoints: all.map(() => ({ verified: true })) };
  }

  // ---- looking

  debuggeeOf(threadId: unknown): Debuggee {
    const found = this.debuggees.find((one) => one.id === threadId) ?? (this.debuggees.length === 1 && (threadId === undefined || threadId === 0) ? this.debuggees[0] : undefined);
    if (found) return found;
    if (!this.debuggees.length) throw new Error(this.isTree ? 'this session only coordinates: ask the session of the process or worker' : GONE);
    throw new Error(`there is no thread ${String(threadId)}: there are ${this.debuggees.map((one) => one.id).join(', ')}`);
  }

  stopped(threadId: unknown): { debuggee: Debuggee; pause: Pause } {
    const debuggee = this.debuggeeOf(threadId);
    if (!debuggee.pause?.isReported) throw new Error('the program is running: pause it first');
    return { debuggee, pause: debuggee.pause };
  }

  addHandle(handle: Handle): number {
    this.handles.set(this.nextHandle, handle);
    return this.nextHandle++;
  }

  handle(number: unknown): Handle {
    const handle = this.handles.get(Number(number));
    if (!handle) throw new Error(Number(number) < this.nextHandle && Number(number) > 0 ? 'this is of an earlier stop: the program has gone on since' : `there is nothing of the number ${String(number)}`);
    return handle;
  }

  addSource(source: Source): number {
    this.sources.set(this.nextSource, source);
    return this.nextSource++;
  }

  async stackTrace(args: Json): Promise<Json> {
    const { debuggee, pause } = this.stopped(args.threadId);
    const start = numberOf(args.startFrame) ?? 0;
    const levels = Math.min(numberOf(args.levels) || FRAMES_CAP, FRAMES_CAP);
    const asynchronous: Array<{ label: string } | AsyncTrace['callFrames'][number]> = [];
    for (let trace = pause.async; trace && asynchronous.length < FRAMES_CAP; trace = trace.parent) asynchronous.push({ label: trace.description || 'async' }, ...trace.callFrames);
    const total = pause.frames.length + asynchronous.length;
    const stackFrames: Json[] = [];
    for (let at = start; at < Math.min(total, start + levels); at++) {
      const frame = pause.frames[at];
      const below = asynchronous[at - pause.frames.length];
      const number = (pause.numbers[at] ??= frame ? this.addHandle({ debuggee, kind: 'frame', frame }) : this.nextHandle++);
      if (below && 'label' in below) stackFrames.push({ id: number, name: below.label, line: 0, column: 0, presentationHint: 'label' });
      else {
        const place = await debuggee.placeOf(frame?.location ?? below ?? { scriptId: '', lineNumber: 0 });
        const source = debuggee.sourceOf(place);
        stackFrames.push({ id: number, name: frame?.functionName || below?.functionName || '<anonymous>', line: this.lineOut(place.line), column: this.columnOut(place.column), source, canRestart: frame !== undefined && !debuggee.parent, ...(source.presentationHint !== undefined && { presentationHint: 'subtle' }) });
      }
    }
    return { stackFrames, totalFrames: total };
  }

  async scopes(args: Json): Promise<Json> {
    const handle = this.handle(args.frameId);
    if (handle.kind !== 'frame') throw new Error('this number is no frame');
    const { debuggee, frame } = handle;
    const names: Record<string, string> = { local: 'Local', block: 'Block', closure: 'Closure', catch: 'Catch', with: 'With', script: 'Script', module: 'Module', eval: 'Eval', global: 'Global', 'wasm-expression-stack': 'Stack' };
    const scopes = frame.scopeChain.map((scope, index) => ({
      name: `${names[scope.type] ?? scope.type}${scope.type === 'closure' && scope.name ? ` (${scope.name})` : ''}`, presentationHint: scope.type === 'local' ? 'locals' : undefined,
      variablesReference: this.addHandle({ debuggee, kind: 'scope', frame, scope: index }), expensive: scope.type === 'global',
    }));
    return { scopes };
  }

  async variables(args: Json): Promise<Json> {
    const handle = this.handle(args.variablesReference);
    return { variables: await this.variablesOf(handle, textOf(args.filter) ?? '', numberOf(args.start) ?? 0, numberOf(args.count) || LISTED_CAP) };
  }

  private async variablesOf(handle: Handle, filter: string, start: number, count: number): Promise<Json[]> {
    const { debuggee } = handle;
    if (handle.kind === 'range') return this.variablesOf(handle.of, 'indexed', handle.start, handle.count);
    if (handle.kind === 'frame') throw new Error('this number is a frame: ask for its scopes');
    if (handle.kind === 'getter') {
      const { result, exceptionDetails } = await debuggee.request('Runtime.callFunctionOn', { objectId: handle.object.objectId, functionDeclaration: 'function(name){return this[name]}', arguments: [{ value: handle.name }], objectGroup: 'stop', generatePreview: true, silent: true });
      const value = isObject(exceptionDetails) ? remoteOf(exceptionDetails.exception) : remoteOf(result);
      return [{ ...this.variable(debuggee, { name: '', value, isGetter: false, evaluateName: handle.evaluateName }, handle.frame), name: isObject(exceptionDetails) ? 'threw' : 'value' }];
    }
    if (handle.kind === 'scope') {
      const { frame, scope: index } = handle;
      const scope = frame.scopeChain[index];
      if (!scope) return [];
      const rows = await rowsOf(debuggee, scope.object, { filter: '', start: 0, count: LISTED_CAP, isScope: true });
      const isTop = index === frame.scopeChain.findIndex((one) => one.type === 'local' || one.type === 'module');
      if (isTop && frame.returnValue) rows.unshift({ name: 'Return value', value: frame.returnValue, isGetter: false, evaluateName: undefined });
      if (isTop && frame.this.type !== 'undefined') rows.push({ name: 'this', value: frame.this, isGetter: false, evaluateName: 'this' });
      return rows.map((row) => this.variable(debuggee, row, frame, scope.object));
    }
    const size = sizeOf(handle.object);
    if (filter === '' && size > PAGE && !this.can('supportsVariablePaging')) {
      const step = Math.max(PAGE, 10 ** (Math.ceil(Math.log10(size)) - 2));
      const groups = Array.from({ length: Math.ceil(size / step) }, (_, at) => ({ name: `[${at * step}…${Math.min(size, (at + 1) * step) - 1}]`, value: '', variablesReference: this.addHandle({ debuggee, kind: 'range', of: handle, start: at * step, count: Math.min(step, size - at * step) }) }));
      return [...groups, ...(await this.variablesOf(handle, 'named', 0, 0))];
    }
    const rows = await rowsOf(debuggee, handle.object, { filter, start, count: Math.min(count, LISTED_CAP), evaluateName: handle.evaluateName });
    return rows.map((row) => this.variable(debuggee, row, handle.frame, handle.object));
  }

  private variable(debuggee: Debuggee, row: Row, frame: CdpFrame | undefined, holder?: Remote): Json {
    const { name, evaluateName } = row;
    if (row.isGetter && holder) {
      return { name, value: '(...)', type: 'getter', ...(evaluateName !== undefined && { evaluateName }), presentationHint: { kind: 'property', lazy: true }, variablesReference: this.addHandle({ debuggee, kind: 'getter', object: holder, name, frame, evaluateName }) };
    }
    return { name, ...this.present(debuggee, row.value, frame, evaluateName), ...(evaluateName !== undefined && { evaluateName }), ...(name.startsWith('[[') && { presentationHint: { visibility: 'internal' } }) };
  }

  /** A value, for a person, with a number to look deeper. */
  private present(debuggee: Debuggee, value: Remote, frame: CdpFrame | undefined, evaluateName: string | undefined): Json {
    const size = this.can('supportsVariablePaging') ? sizeOf(value) : 0;
    return {
      value: show(value), type: value.className ?? value.subtype ?? value.type, variablesReference: value.objectId && value.type !== 'symbol' ? this.addHandle({ debuggee, kind: 'object', object: value, frame, evaluateName }) : 0, ...(size > 0 && { indexedVariables: size, namedVariables: 1 }),
    };
  }

  /** The frame that is meant, or undefined: the program as a whole, which then runs. */
  private frameOf(frameId: unknown): { debuggee: Debuggee; frame: CdpFrame | undefined } {
    if (frameId === undefined) return { debuggee: this.debuggeeOf(this.debuggees[0]?.id), frame: undefined };
    const handle = this.handle(frameId);
    if (handle.kind !== 'frame') throw new Error('this number is no frame');
    return handle;
  }

  async evaluate(args: Json): Promise<Json> {
    const expression = textOf(args.expression) ?? '';
    const { debuggee, frame } = this.frameOf(args.frameId);
    const context = textOf(args.context) ?? 'repl';
    const value = await this.evaluateIn(debuggee, frame, expression, { throwOnSideEffect: context === 'hover' });
    const { value: shown, ...rest } = this.present(debuggee, value, frame, expression);
    return { result: context === 'clipboard' && value.type === 'string' ? String(value.value) : shown, ...rest };
  }

  private async evaluateIn(debuggee: Debuggee, frame: CdpFrame | undefined, expression: string, more: Json = {}): Promise<Remote> {
    const isWrapped = isExpression(expression); // in a list, so that a long text stays where it is until it is cut
    const params = { expression: isWrapped ? `[(${expression}\n)]` : expression, objectGroup: 'stop', silent: true, generatePreview: !isWrapped, timeout: EVALUATE_MS, ...more };
    const answer = await (frame ? debuggee.request('Debugger.evaluateOnCallFrame', { callFrameId: frame.callFrameId, ...params }, EVALUATE_MS + REQUEST_MS) : debuggee.request('Runtime.evaluate', { ...params, ...(!isWrapped && { replMode: true, awaitPromise: true }), includeCommandLineAPI: true }, EVALUATE_MS + REQUEST_MS));
    if (isObject(answer.exceptionDetails)) throw new Error(clip(firstLine(remoteOf(answer.exceptionDetails.exception)) || String(answer.exceptionDetails.text), LISTED_CAP));
    const value = remoteOf(answer.result);
    if (!isWrapped || !value.objectId) return value;
    const { result } = await debuggee.request('Runtime.callFunctionOn', { objectId: value.objectId, functionDeclaration: String(first), arguments: [{ value: TEXT_CAP }], objectGroup: 'stop', generatePreview: true, silent: true });
    return remoteOf(result);
  }

  async setVariable(args: Json): Promise<Json> {
    const handle = this.handle(args.variablesReference);
    const [name, text] = [textOf(args.name) ?? '', textOf(args.value) ?? ''];
    const { debuggee } = handle;
    if (handle.kind === 'frame' || handle.kind === 'getter') throw new Error(`${name} cannot be set there`);
    if (handle.kind === 'range') return this.setVariable({ ...args, variablesReference: this.addHandle(handle.of) });
    const value = await this.evaluateIn(debuggee, handle.frame, text);
    if (handle.kind === 'scope') {
      const scope = handle.frame.scopeChain[handle.scope];
      if (scope?.type !== 'global' && scope?.type !== 'with') await debuggee.request('Debugger.setVariableValue', { scopeNumber: handle.scope, variableName: name, newValue: argumentOf(value), callFrameId: handle.frame.callFrameId });
      else await this.setProperty(debuggee, scope.object, name, value);
    } else await this.setProperty(debuggee, handle.object, name, value);
    return this.present(debuggee, value, handle.frame, undefined);
  }

  private async setProperty(debuggee: Debuggee, object: Remote, name: string, value: Remote): Promise<void> {
    if (object.subtype === 'set' || (object.subtype === 'map' && !/^'.*'$|^-?\d+$/.test(name))) throw new Error(`an element of a ${object.subtype} cannot be set by its name: evaluate an expression that changes it`);
    const { exceptionDetails } = await debuggee.request('Runtime.callFunctionOn', {
      objectId: object.objectId, functionDeclaration: `function(name,value){'use strict';if(this instanceof Map)this.set(/^'/.test(name)?name.slice(1,-1):Number(name),value);else this[name]=value}`, arguments: [{ value: name }, argumentOf(value)], silent: true,
    });
    if (isObject(exceptionDetails)) throw new Error(firstLine(remoteOf(exceptionDetails.exception)));
  }

  async exceptionInfo(args: Json): Promise<Json> {
    const { debuggee, pause } = this.stopped(args.threadId);
    if (pause.reason !== 'exception' && pause.reason !== 'promiseRejection') throw new Error('the thread does not stand at an exception');
    const thrown = pause.data as unknown as Remote; // for these reasons the data are the value that was thrown
    const properties = thrown.objectId ? listOf((await debuggee.request('Runtime.getProperties', { objectId: thrown.objectId, ownProperties: true })).result) : [];
    const own = (name: string): string | undefined => textOf(remoteOf(properties.find((one) => one.name === name)?.value).value);
    const head = firstLine(thrown);
    const typeName = own('name') ?? (thrown.subtype === 'error' ? (/^([\w$.]+)(?:: |$| \[)/.exec(head)?.[1] ?? thrown.className) : (thrown.className ?? thrown.type)) ?? 'Error';
    const isPlainName = thrown.className && thrown.className !== 'Error' && typeName === 'Error'; // a class of its own that does not name itself
    const type = isPlainName ? String(thrown.className) : typeName;
    const message = clip(own('message') ?? (thrown.subtype === 'error' ? head.replace(/^[\w$.]+: /, '') : show(thrown)), TEXT_CAP);
    return {
      exceptionId: type, description: message, breakMode: pause.data.uncaught === true ? 'unhandled' : 'always',
      details: { message, typeName: type, fullTypeName: type, stackTrace: clip(own('stack') ?? thrown.description ?? '', TEXT_CAP) },
    };
  }

  async source(args: Json): Promise<Json> {
    const number = numberOf(args.sourceReference) || numberOf(isObject(args.source) ? args.source.sourceReference : undefined);
    const source = number === undefined ? undefined : this.sources.get(number);
    const file = isObject(args.source) ? textOf(args.source.path) : undefined;
    if (!source && file && path.isAbsolute(file)) return { content: await fs.promises.readFile(file, 'utf8') };
    if (!source) throw new Error(`there is no source ${String(number)}`);
    if (source.content !== undefined) return { content: source.content, mimeType: 'text/javascript' };
    const { scriptSource } = await source.debuggee.request('Debugger.getScriptSource', { scriptId: source.script?.id });
    return { content: String(scriptSource), mimeType: 'text/javascript' };
  }

  async loadedSources(): Promise<Json> {
    const sources = new Map<string, Json>();
    for (const debuggee of this.debuggees) {
      for (const script of debuggee.scripts.values()) {
        if (!script.url) continue;
        const place: Place = { file: script.file, name: path.basename(script.file || script.url), line: 1, column: 1, script };
        sources.set(script.url, debuggee.sourceOf(place));
        const map = script.mapUrl && !/node_modules/.test(script.file) ? await debuggee.mapOf(script) : undefined;
        for (const [source, of] of map?.sources.entries() ?? []) sources.set(of, debuggee.sourceOf({ ...place, file: of, name: path.basename(of), map, source }));
      }
    }
    return { sources: [...sources.values()] };
  }
}

// --------------------------------------------------------------------------------------------------------- requests

const CAPABILITIES: Json = {
  supportsConfigurationDoneRequest: true, supportsConditionalBreakpoints: true, supportsHitConditionalBreakpoints: true, supportsLogPoints: true, supportsEvaluateForHovers: true, supportsClipboardContext: true,
  supportsSetVariable: true, supportsExceptionInfoRequest: true, supportsExceptionFilterOptions: true, supportsDelayedStackTraceLoading: true, supportsLoadedSourcesRequest: true, supportsRestartFrame: true,
  supportsRestartRequest: true, supportsTerminateRequest: true, supportTerminateDebuggee: true,
  exceptionBreakpointFilters: [['all', 'All exceptions'], ['caught', 'Caught exceptions'], ['uncaught', 'Uncaught exceptions']].map(([filter, label]) => ({ filter, label, default: false, supportsCondition: true, conditionDescription: "error instanceof TypeError && error.message !== 'fine'" })),
};

type Body = Json | (() => Json) | void; // a function: as things are at the moment of the answer, since events told before it are lost on who does not know their numbers yet
type Handler = (session: Session, args: Json) => Promise<Body> | Body;

const moves = (motion: string): Handler => (session, { threadId }) => {
  const { debuggee } = session.stopped(threadId);
  session.behind(() => debuggee.move(motion));
  return motion === 'resume' ? { allThreadsContinued: false } : undefined;
};

const REQUESTS: Record<string, Handler> = {
  initialize: (session, args) => session.initialize(args),
  launch: (session, args) => session.begin(args, true),
  attach: (session, args) => session.begin(args, false),
  configurationDone: (session) => session.configurationDone(),
  setBreakpoints: (session, args) => session.setBreakpoints(args),
  setExceptionBreakpoints: (session, args) => session.setExceptions(args),
  threads: (session) => ({ threads: session.debuggees.map((one) => ({ id: one.id, name: one.label })) }),
  stackTrace: (session, args) => session.stackTrace(args),
  scopes: (session, args) => session.scopes(args),
  variables: (session, args) => session.variables(args),
  evaluate: (session, args) => session.evaluate(args),
  setVariable: (session, args) => session.setVariable(args),
  continue: moves('resume'),
  next: moves('next'),
  stepIn: moves('stepIn'),
  stepOut: moves('stepOut'),
  pause: (session, { threadId }) => {
    const [main] = [session.isTree ? session.program?.main : session.debuggeeOf(threadId)];
    if (!main || main.pause?.isReported) return;
    main.isPauseAsked = true;
    main.cdp?.tell('Debugger.pause');
  },
  restartFrame: (session, { frameId }) => {
    const handle = session.handle(frameId);
    if (handle.kind !== 'frame') throw new Error('this number is no frame that can be restarted');
    session.behind(() => handle.debuggee.move('restartFrame', { callFrameId: handle.frame.callFrameId, mode: 'StepInto' }));
  },
  restart: async (session, args) => {
    if (!session.program) throw new Error('nothing was launched yet');
    await session.program.restart(isObject(args.arguments) ? args.arguments : undefined);
  },
  source: (session, args) => session.source(args),
  exceptionInfo: (session, args) => session.exceptionInfo(args),
  loadedSources: (session) => session.loadedSources(),
  terminate: (session) => session.program?.terminate(session.isChild ? session.debuggees[0] : undefined),
  disconnect: (session, args) => session.disconnect(args),
};

// ------------------------------------------------------------------------------------------------------- the server

const server = { dir: '' }; // the private directory that our starter has made, and removes

/** Ends everything at once, and itself. */
function exit(code: number): never {
  for (const program of [...programs]) program.endNow();
  process.exit(code);
}

const USAGE = `usage: vscode-devtools node-adapter                    DAP on stdin and stdout
       vscode-devtools node-adapter --port N           on a loopback port (0: any), for any number of sessions
       vscode-devtools node-adapter --socket PATH      on a unix socket, or a named pipe
  --dir DIR     a private directory for what forked children leave
  --attended    end with stdin, and behind the last connection
`;

export function main(argv: string[]): void {
  const options: Record<string, string> = {};
  for (let at = 0; at < argv.length; at++) {
    const [word = '', inline] = (argv[at] ?? '').split(/=(.*)/s);
    if (!['--port', '--socket', '--dir', '--attended'].includes(word)) {
      const isHelp = word === '--help' || word === '-h';
      (isHelp ? process.stdout : process.stderr).write(isHelp ? USAGE : `vscode-devtools node-adapter: unknown option ${word}\n${USAGE}`);
      process.exit(isHelp ? 0 : 2);
    }
    options[word.slice(2)] = word === '--attended' ? 'yes' : (inline ?? argv[++at] ?? '');
  }
  const { port, socket, dir, attended } = options;
  server.dir = dir ?? '';
  process.on('uncaughtException', (error) => {
    process.stderr.write(`node-adapter: ${error.stack ?? messageOf(error)}\n`);
    exit(1);
  });
  for (const [name, code] of [['SIGINT', 130], ['SIGTERM', 143], ['SIGHUP', 129]] as const) process.on(name, () => exit(code));
  if (port === undefined && socket === undefined) {
    new Session(process.stdin, process.stdout, false, () => void Promise.all([...programs].map((one) => one.kill())).then(() => exit(0)));
    return;
  }
  if (port !== undefined && !/^\d{1,5}$/.test(port)) {
    process.stderr.write(`vscode-devtools node-adapter: --port needs a number\n`);
    process.exit(2);
  }
  let connections = 0;
  const listener = net.createServer((connection) => {
    connections++;
    new Session(connection, connection, true, () => {
      connections--;
      if (attended && !connections) void Promise.all([...programs].map((one) => one.kill())).then(() => !connections && exit(0));
    });
  });
  listener.on('error', (error) => {
    process.stderr.write(`vscode-devtools node-adapter: cannot listen on ${socket ?? port}: ${error.message}\n`);
    exit(1);
  });
  const ready = (): void => {
    const address = listener.address();
    process.stdout.write(`listening at ${typeof address === 'string' ? address : `127.0.0.1:${address?.port}`}\n`);
  };
  if (socket !== undefined) listener.listen(socket, ready);
  else listener.listen(Number(port), '127.0.0.1', ready);
  if (attended) process.stdin.on('end', () => exit(0)).on('error', () => exit(0)).resume();
}

if (require.main === module) main(process.argv.slice(2));
