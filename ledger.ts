// ledger.ts: the process ledger. Who a process is, what it started, what became of it, and how it is ended.
//
// Runs in    the Host (host.ts imports it): one writer, and it outlives Clients.
// Touches    /proc on Linux, `ps` on macOS, CIM through PowerShell on Windows; in <workspace>/.devtools/
//            process-log.jsonl, active-processes.json and sessions/; signals, to processes in the ledger alone.
// Refuses    to signal a pid that it does not know, or one whose start time is not the one that was recorded: a pid alone
//            is no identity, it comes round again within a minute on a busy machine. It does not believe its own files:
//            what they name counts only if the living process is the same.
//
// A process is found by its parents, and, since daemons leave those, by a tag in its environment that everything started
// in a terminal inherits. What was seen once stays known by its identity, wherever it moves.
//
// Sections   limits · identity · families · files · the ledger · ending processes · stacks

import { execFile } from 'node:child_process';
import crypto from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { errorName, failure, isObject, messageOf, openPrivate, privateDir, step, tagPrefix, writePrivate } from './bootstrap.js';

// ---------------------------------------------------------------------------------------------------------- limits

const PS_MS = 5000; // `ps` and PowerShell answer within this
const WINDOWS_CACHE_MS = 5000; // a CIM query takes a second or so
const LOOK_AGAIN_MS = 10;
const LOOK_MS = 2000; // how often the tree is looked at while something runs,
const LOOK_SHARE = 20; // and at most one part in so many of the time
const YOUNG_MS = 5000; // a process may still turn into another program
const DEPTH_CAP = 64;
const COUNT_CAP = 4000; // processes of a workspace
const SECTION_CAP = 2048; // bytes of the ledger in a result
const LIST_CAP = 500; // processes that process_list names
const NAMES_CAP = 8;
const IDLE_SHOWN = 3; // terminals in which nothing runs
const COMMAND_CAP = 400; // characters of a command that are kept
const LOG_CAP = 4 * 1024 * 1024; // bytes of process-log.jsonl, before it is compacted
const LOG_KEPT = 1024 * 1024; // and what is kept of its end then
const CHUNK = 4 * 1024 * 1024;
const FILE_CAP = 16 * 1024 * 1024;
const SESSIONS_KEPT = 50;
const SESSION_COMMANDS = 200;
const ENDED_KEPT = 20;
const TERM_MS = 1500; // a process may take this long to end by itself
const SIGNAL_MS = 200; // what a signal of the caller's choice ends may take this long
const KILL_MS = 1000; // and a killed one this long to be gone
const KILL_ROUNDS = 3; // what is killed may have just started another

type Json = Record<string, unknown>;

// -------------------------------------------------------------------------------------------------------- identity
// A process is its pid and when it started. The start time is an opaque string per system: compare it, never parse it.

export type Identity = { pid: number; startTime: string };

type Stat = { state: string; ppid: number; pgrp: number; threads: number; startTime: string; name: string };

/** What /proc/PID/stat says. The name may hold spaces and brackets: cut after the last one. */
export function parseProcStat(text: string): Stat | undefined {
  const bracket = text.lastIndexOf(')');
  const fields = text.slice(bracket + 2).split(' ', 20);
  const [state, ppid, pgrp] = fields;
  const startTime = fields[19]; // field 22 of the file; the first two are before the cut
  if (!state || !startTime) return undefined;
  return { state, ppid: Number(ppid), pgrp: Number(pgrp), threads: Number(fields[17]), startTime, name: text.slice(text.indexOf('(') + 1, bracket) };
}

const buffer = Buffer.allocUnsafe(256 * 1024); // one for all reads of /proc: they are synchronous

/** A file of /proc; undefined if the process is gone, or not ours to look at. */
function slurp(file: string): string | undefined {
  let fd;
  try {
    fd = fs.openSync(file, 'r');
    let size = 0;
    for (let got = -1; got !== 0 && size < buffer.length; size += got) {
      got = fs.readSync(fd, buffer, size, buffer.length - size, null);
      if (got > 0 && got < 2048) return buffer.toString('latin1', 0, size + got); // the kernel gives a page at a time: less is the end
    }
    return buffer.toString('latin1', 0, size);
  } catch (error) {
    if (['ENOENT', 'ESRCH', 'EACCES', 'EPERM'].includes(errorName(error))) return undefined;
    throw error; // out of file descriptors, say: that does not mean that it has ended
  } finally {
    if (fd !== undefined) fs.closeSync(fd);
  }
}

let bootId = '';

/** A living process: a zombie is dead. */
function linuxStat(pid: number): Stat | undefined {
  const stat = parseProcStat(slurp(`/proc/${pid}/stat`) ?? '');
  if (!stat || stat.state === 'Z' || stat.state === 'X') return undefined;
  bootId ||= (slurp('/proc/sys/kernel/random/boot_id') ?? '').trim();
  stat.startTime = `${bootId}/${stat.startTime}`;
  return stat;
}

/** What a command prints, or undefined if it fails: a process that is not there makes `ps` fail. */
function output(command: string, args: string[]): Promise<string | undefined> {
  return new Promise((resolve, reject) => {
    execFile(command, args, { timeout: PS_MS, maxBuffer: FILE_CAP, env: { ...process.env, TZ: 'UTC', LC_ALL: 'C' } }, (error, stdout) => {
      const isMissing = error && error.code === 1 && stdout.trim() === '' && !error.killed; // `ps -p` says so
      if (error && !isMissing) reject(error); // too slow, or it could not be started: that does not mean that anybody has ended
      else resolve(stdout.trim() || undefined);
    });
  });
}

/** `ps -o stat=,lstart=` of one process on macOS: "S+   Mon Nov  2 10:00:00 2026". */
export function parsePs(text: string): string | undefined {
  const [, state, started] = /^(\S+)\s+(\S.*)$/.exec(text.trim()) ?? [];
  return state === undefined || state.startsWith('Z') ? undefined : started;
}

/** Who has this pid now; undefined if nobody (alive) has. */
export async function identify(pid: number): Promise<Identity | undefined> {
  if (!Number.isSafeInteger(pid) || pid <= 0) return undefined;
  const startTime = await system.startTime(pid);
  return startTime === undefined ? undefined : { pid, startTime };
}

export async function isAlive(who: Identity): Promise<boolean> {
  return (await identify(who.pid))?.startTime === who.startTime;
}

/** Waits for the end of a process. Its sockets close a moment before it is gone, so their close alone is no proof. */
export async function hasEnded(who: Identity, withinMs: number): Promise<boolean> {
  const giveUpAt = performance.now() + withinMs;
  while (await isAlive(who).catch(() => true)) {
    if (performance.now() > giveUpAt) return false;
    await new Promise((resolve) => setTimeout(resolve, LOOK_AGAIN_MS));
  }
  return true;
}

/** Signals a process if it is still the one that was recorded. Returns whether a signal was sent. */
export async function kill(who: Identity, signal: NodeJS.Signals): Promise<boolean> {
  if (!(await isAlive(who).catch(() => false))) return false; // who cannot be looked at is not signalled
  try {
    return system.signal(who.pid, signal);
  } catch {
    return false; // it ended in between, or belongs to another user
  }
}

// -------------------------------------------------------------------------------------------------------- families
// One row a system: how to see who is there. On Linux only our own processes are looked at, one by one; elsewhere one
// listing of everything is asked for and searched.

export const TAG = 'VSCODE_DEVTOOLS_TAG'; // colon-separated, outermost first: a terminal may be opened in another

export type Row = Identity & { ppid: number; pgrp: number; name: string; owner: string };
type Root = Identity & { owner: string };
type OwnerOf = (tag: string) => string | undefined;
type Terminals = ReadonlyMap<string, string>; // owners by the path of their terminal
/** A line of a listing of all processes. `tag` is there where the system shows other processes' environment. */
export type Listed = Identity & { ppid: number; pgrp: number; name: string; command: string; tag?: string };

type System = {
  startTime: (pid: number) => string | undefined | Promise<string | undefined>;
  /** The living: roots that are still who they were, all they descend to, who carries a tag that has an owner, and who
   * has dropped its environment but still has an owner's terminal open. */
  family: (roots: readonly Root[], ownerOf?: OwnerOf, terminals?: Terminals) => Row[] | Promise<Row[]>;
  terminal: (pid: number) => string; // the path of the terminal that a shell runs on; '' if that cannot be seen
  command: (pid: number) => string;
  signal: (pid: number, signal: NodeJS.Signals) => boolean; // a negative pid is a process group
};

function linuxFamily(roots: readonly Root[], ownerOf?: OwnerOf, terminals?: Terminals): Row[] {
  const rows = new Map<number, Row>();
  const visit = (pid: number, owner: string, depth: number, expected?: string): void => {
    if (rows.has(pid) || rows.size >= COUNT_CAP || depth > DEPTH_CAP) return;
    const stat = linuxStat(pid);
    if (!stat || (expected !== undefined && stat.startTime !== expected)) return;
    const { ppid, pgrp, name, startTime, threads } = stat;
    rows.set(pid, { pid, ppid, pgrp, name, startTime, owner });
    for (const child of linuxChildren(pid, threads)) visit(child, owner, depth + 1);
  };
  for (const { pid, startTime, owner } of roots) visit(pid, owner, 0, startTime);
  if (!ownerOf) return [...rows.values()];
  for (const entry of fs.readdirSync('/proc')) {
    const pid = Number(entry);
    if (!(pid > 1) || rows.has(pid)) continue;
    const tag = tagIn(slurp(`/proc/${entry}/environ`) ?? '');
    const owner = tag === undefined ? ownerByTerminal(pid, terminals) : ownerAmong(tag, ownerOf);
    if (owner !== undefined) visit(pid, owner, 0);
  }
  return [...rows.values()];
}

/** The tag in the text of /proc/PID/environ. */
function tagIn(environment: string): string | undefined {
  const at = environment.startsWith(`${TAG}=`) ? 0 : environment.indexOf(`\0${TAG}=`) + 1;
  if (at === 0 && !environment.startsWith(`${TAG}=`)) return undefined;
  return environment.slice(at + TAG.length + 1, environment.indexOf('\0', at));
}

function ownerByTerminal(pid: number, terminals: Terminals | undefined): string | undefined {
  if (!terminals?.size) return undefined;
  return [0, 1, 2].map((descriptor) => terminals.get(linkOf(`/proc/${pid}/fd/${descriptor}`))).find((owner) => owner !== undefined);
}

function linkOf(file: string): string {
  try {
    return fs.readlinkSync(file);
  } catch {
    return ''; // closed, gone, or not ours to see
  }
}

/** A child belongs to the thread that forked it. */
function linuxChildren(pid: number, threads: number): number[] {
  const text = threads === 1 ? slurp(`/proc/${pid}/task/${pid}/children`) : listDir(`/proc/${pid}/task`).map((task) => slurp(`/proc/${pid}/task/${task}/children`) ?? '').join(' ');
  return text ? text.split(' ').filter(Boolean).map(Number) : [];
}

const ownerAmong = (tag: string, ownerOf: OwnerOf): string | undefined => tag.split(':').map(ownerOf).find((owner) => owner !== undefined);

function listDir(dir: string): string[] {
  try {
    return fs.readdirSync(dir);
  } catch {
    return []; // gone
  }
}

/** The same from a listing of everything: what is there, who descends from whom, who is tagged. */
export function familyIn(all: readonly Listed[], roots: readonly Root[], ownerOf?: OwnerOf): Row[] {
  const byPid = new Map(all.map((one) => [one.pid, one]));
  const byParent = new Map<number, Listed[]>();
  for (const one of all) byParent.set(one.ppid, [...(byParent.get(one.ppid) ?? []), one]);
  const rows = new Map<number, Row>();
  const visit = (one: Listed | undefined, owner: string, depth: number): void => {
    if (!one || rows.has(one.pid) || rows.size >= COUNT_CAP || depth > DEPTH_CAP) return;
    const { pid, ppid, pgrp, name, startTime } = one;
    rows.set(pid, { pid, ppid, pgrp, name, startTime, owner });
    // Windows keeps the pid of a parent that is gone: one that started after its child is somebody else.
    for (const child of byParent.get(pid) ?? []) if (child.startTime >= startTime || process.platform !== 'win32') visit(child, owner, depth + 1);
  };
  for (const root of roots) if (byPid.get(root.pid)?.startTime === root.startTime) visit(byPid.get(root.pid), root.owner, 0);
  for (const one of ownerOf ? all : []) {
    const owner = one.tag === undefined || !ownerOf ? undefined : ownerAmong(one.tag, ownerOf);
    if (owner !== undefined) visit(one, owner, 0);
  }
  return [...rows.values()];
}

const PS_COLUMNS = ['-axwwE', '-o', 'pid=,ppid=,pgid=,stat=,lstart=,command='];

/** macOS: `ps -axwwE -o pid=,ppid=,pgid=,stat=,lstart=,command=`; E appends the environment of the user's own processes. */
export function parsePsList(text: string): Listed[] {
  const rows: Listed[] = [];
  for (const line of text.split('\n')) {
    const [, pid, ppid, pgrp, state, startTime, command] = /^\s*(\d+)\s+(\d+)\s+(\d+)\s+(\S+)\s+(\w{3} \w{3} [ \d]\d [\d:]{8} \d{4})\s+(.*)$/.exec(line) ?? [];
    if (pid === undefined || startTime === undefined || command === undefined || state?.startsWith('Z')) continue;
    const tag = new RegExp(`(?:^|\\s)${TAG}=(\\S+)`).exec(command)?.[1];
    // The environment stands behind the command, and is not for anybody's eyes.
    const shown = command.replace(/\s+[A-Za-z_][A-Za-z0-9_]*=.*$/s, '');
    rows.push({ pid: Number(pid), ppid: Number(ppid), pgrp: Number(pgrp), startTime, name: path.basename(command.split(' ')[0] ?? ''), command: shown, ...(tag && { tag }) });
  }
  return rows;
}

const CIM_SCRIPT = `$ProgressPreference='SilentlyContinue'; [Console]::OutputEncoding=[Text.Encoding]::UTF8; Get-CimInstance Win32_Process -Property ProcessId,ParentProcessId,Name,CommandLine,CreationDate | ForEach-Object { [PSCustomObject]@{ p=$_.ProcessId; q=$_.ParentProcessId; n=$_.Name; c=$_.CommandLine; t=if ($_.CreationDate) { $_.CreationDate.ToUniversalTime().ToString('o') } else { '' } } } | ConvertTo-Json -Compress`;
const WINDOWS_OWN = new Set(['system idle process', 'system', 'registry', 'smss.exe', 'csrss.exe', 'wininit.exe', 'services.exe', 'lsass.exe', 'winlogon.exe', 'svchost.exe', 'dwm.exe', 'memory compression']);

/** Windows: what the script above prints, an array, or one object where there is one process. The system's own are left out. */
export function parseCim(text: string): Listed[] {
  const value: unknown = JSON.parse(text);
  const rows: Listed[] = [];
  for (const one of Array.isArray(value) ? value : [value]) {
    if (!isObject(one)) continue;
    const { p, q, n, c, t } = one;
    if (typeof p !== 'number' || typeof q !== 'number' || typeof n !== 'string' || typeof t !== 'string' || t === '' || WINDOWS_OWN.has(n.toLowerCase())) continue;
    rows.push({ pid: p, ppid: q, pgrp: 0, startTime: t, name: n, command: typeof c === 'string' ? c : n });
  }
  return rows;
}

let listed: { at: number; rows: Listed[] } = { at: -Infinity, rows: [] };

async function windowsListing(): Promise<Listed[]> {
  if (performance.now() - listed.at < WINDOWS_CACHE_MS) return listed.rows;
  const encoded = Buffer.from(CIM_SCRIPT, 'utf16le').toString('base64');
  const rows = parseCim((await output('powershell.exe', ['-NoProfile', '-NonInteractive', '-EncodedCommand', encoded])) ?? '[]');
  listed = { at: performance.now(), rows };
  return rows;
}

async function macListing(): Promise<Listed[]> {
  const rows = parsePsList((await output('ps', PS_COLUMNS)) ?? '');
  listed = { at: performance.now(), rows };
  return rows;
}

const listedCommand = (pid: number): string => listed.rows.find((row) => row.pid === pid)?.command ?? '';

const SYSTEMS: Record<string, System> = {
  linux: {
    startTime: (pid) => linuxStat(pid)?.startTime,
    family: linuxFamily,
    terminal: (pid) => [linkOf(`/proc/${pid}/fd/0`)].find((file) => file.startsWith('/dev/pts/')) ?? '',
    command: (pid) => Buffer.from(slurp(`/proc/${pid}/cmdline`) ?? '', 'latin1').toString('utf8').replace(/\0+$/, '').replaceAll('\0', ' '),
    signal: (pid, signal) => process.kill(pid, signal),
  },
  darwin: {
    startTime: async (pid) => parsePs((await output('ps', ['-o', 'stat=,lstart=', '-p', String(pid)])) ?? ''),
    family: async (roots, ownerOf) => familyIn(await macListing(), roots, ownerOf),
    terminal: () => '',
    command: listedCommand,
    signal: (pid, signal) => process.kill(pid, signal),
  },
  win32: {
    startTime: (pid) => output('powershell.exe', ['-NoProfile', '-NonInteractive', '-Command', `(Get-CimInstance Win32_Process -Filter 'ProcessId=${pid}').CreationDate.ToUniversalTime().ToString('o')`]),
    family: async (roots) => familyIn(await windowsListing(), roots),
    terminal: () => '',
    command: listedCommand,
    signal: (pid, signal) => {
      if (pid < 0 || (signal !== 'SIGKILL' && signal !== 'SIGTERM')) return false; // there are no groups (taskkill takes the tree), and no other signals
      listed.at = -Infinity;
      execFile('taskkill.exe', ['/PID', String(pid), '/T', ...(signal === 'SIGKILL' ? ['/F'] : [])], { timeout: PS_MS }, () => {}); // whether it ended is looked at, not believed
      return true;
    },
  },
};

/** This system. The tests count what goes through `signal`. */
export const system: System = { ...(SYSTEMS[process.platform] ?? SYSTEMS.linux ?? failWithoutSystem()) };

function failWithoutSystem(): never {
  throw failure('E_UNSUPPORTED', `no process table for ${process.platform}`);
}

// ----------------------------------------------------------------------------------------------------------- files
// process-log.jsonl is the memory: one event a line, appended before anything goes on. A torn end is dropped and said.
// What may still live is what was started or seen and never ended, the last holder of each pid.

/** A line begins with these four, so that a million of them are read without parsing. */
const RECORD = /^\{"event":"(\w+)","pid":(\d+),"startTime":"([^"\\]*)","kind":"(\w+)"/gm;

export type Remembered = Identity & { kind: string; terminal: string; terminalId: string; command: string; parentPid: number; startedAt: string };
export type LoadedLog = { living: Remembered[]; size: number; torn: number };

/** Reads the log: who was started and not seen to end, and where its last whole line ends. */
export function readLog(fd: number): LoadedLog {
  const last = new Map<number, { startTime: string; at: number }>(); // by pid: where its record begins
  const chunk = Buffer.allocUnsafe(CHUNK);
  let base = 0; // of the chunk, in the file
  let held = 0; // of the chunk, the beginning of a line
  for (;;) {
    const got = fs.readSync(fd, chunk, held, CHUNK - held, base + held);
    const size = held + got;
    const end = chunk.lastIndexOf(10, size - 1) + 1;
    const text = chunk.toString('latin1', 0, Math.min(end, size));
    RECORD.lastIndex = 0;
    for (let match = RECORD.exec(text); match; match = RECORD.exec(text)) {
      const [, event, digits, startTime = '', kind] = match;
      if (kind === 'command') continue; // of a shell: its end is not the shell's
      const pid = Number(digits);
      if (event !== 'completed' && event !== 'killed') last.set(pid, { startTime, at: base + match.index });
      else if (last.get(pid)?.startTime === startTime) last.delete(pid);
    }
    if (got === 0) {
      const living = [...last.values()].map(({ at }) => parseRecord(readLine(fd, at))).filter((one) => one !== undefined);
      return { living, size: base, torn: held };
    }
    const keep = end > size ? 0 : size - end;
    held = keep === CHUNK ? 0 : keep; // a line longer than the chunk is none of ours: skipped
    base += size - held;
    chunk.copy(chunk, 0, size - held, size);
  }
}

function readLine(fd: number, at: number): string {
  const line = Buffer.allocUnsafe(8 * COMMAND_CAP);
  const got = fs.readSync(fd, line, 0, line.length, at);
  const end = line.subarray(0, got).indexOf(10);
  return line.toString('utf8', 0, end < 0 ? got : end);
}

/** A record of a file that anybody may have written: checked, never cast. */
function parseRecord(line: string): Remembered | undefined {
  try {
    return checkRecord(JSON.parse(line));
  } catch {
    return undefined; // damaged
  }
}

function checkRecord(value: unknown): Remembered | undefined {
  if (!isObject(value)) return undefined;
  const { pid, startTime, kind, terminal, terminalId, cmd, parentPid, ts } = value;
  if (typeof pid !== 'number' || !Number.isSafeInteger(pid) || pid <= 1 || typeof startTime !== 'string' || typeof terminalId !== 'string') return undefined;
  return { pid, startTime, kind: String(kind), terminal: String(terminal ?? ''), terminalId, command: String(cmd ?? ''), parentPid: Number(parentPid ?? 0), startedAt: String(ts ?? '') };
}

/** The processes of active-processes.json; none if it is damaged: the log knows them too. */
function readActive(file: string): Remembered[] {
  try {
    const fd = openPrivate(file, fs.constants.O_RDONLY);
    try {
      const value: unknown = fs.fstatSync(fd).size > FILE_CAP ? {} : JSON.parse(fs.readFileSync(fd, 'utf8'));
      return isObject(value) && Array.isArray(value.processes) ? value.processes.map(checkRecord).filter((one) => one !== undefined) : [];
    } finally {
      fs.closeSync(fd);
    }
  } catch {
    return []; // none yet, or damaged
  }
}

// ------------------------------------------------------------------------------------------------------ the ledger

/** A living process that somebody we know of started. */
type Member = Row & { command: string; startedAt: string; kind: 'terminal' | 'child'; isBeingKilled?: boolean };

/** A terminal (a debug session, a window): what its processes are listed under, and tagged with. */
type Owner = {
  id: string; // the tag
  name: string;
  command: string; // that runs there; '' while it is idle
  since: number; // Date.now() of its start
  shell?: Identity; // or debug adapter
  state: 'held' | 'orphaned'; // whether a Client (or debug process) still has it
};

export type OwnerKind = 'terminal' | 'session' | 'window';

/** What an owner is: the tag of a debug session, or of a window, says so. */
const kindOf = (id: string): OwnerKind => (/^t-[0-9a-f]+-debug-/.test(id) ? 'session' : /^t-[0-9a-f]+-window-/.test(id) ? 'window' : 'terminal');

/** A terminal that a Client has. */
export type Held = { id: string; name: string; command: string; pid: number };

export type LedgerOptions = {
  dir: string; // of the workspace's files
  runtime: string;
  workspace: string;
  onOrphans: string; // what to do with those of a predecessor: report, ask or end
  isOurs: (pid: number) => string; // what of ours a pid is, or ''
  warn: (text: string) => void;
  changed: () => void; // something is tracked now, or nothing any more
};

export class Ledger {
  readonly sessionId = `${Date.now().toString(36)}-${crypto.randomBytes(3).toString('hex')}`;
  private readonly startedAt = new Date().toISOString();
  private readonly owners = new Map<string, Owner>();
  private readonly members = new Map<number, Member>();
  private readonly ended: Json[] = []; // the last ones, for process_list
  private readonly commands: Json[] = []; // of this session
  private readonly counts: Record<string, number> = { started: 0, spawned: 0, completed: 0, killed: 0, orphaned: 0 };
  private readonly options: LedgerOptions;
  private readonly prefix: string;
  private fd = -1;
  private size = 0;
  private problem = '';
  private looking: Promise<void> | undefined;
  private timer: NodeJS.Timeout | undefined;
  private fullLookAt = -Infinity;
  private isDirty = false; // something ended or began: the next look is a full one
  private isSaving = false;
  private isClosed = false;
  private wasTracking = false;
  private readonly spokenOf = new Set<string>(); // terminals of which a Client has reported since it was asked what it holds
  settled = false; // whether it is known which terminals a Client still holds

  constructor(options: LedgerOptions) {
    this.options = options;
    this.prefix = tagPrefix(options.runtime, options.workspace);
    this.open();
  }

  private file(name: string): string {
    return path.join(this.options.dir, name);
  }

  /** Opens the log and remembers what a predecessor left. */
  private open(): void {
    try {
      for (const name of fs.readdirSync(this.options.dir)) if (/^(active-processes\.json|process-log\.jsonl)\.\d+\./.test(name)) fs.rmSync(this.file(name), { force: true }); // of one that died while writing
      const { O_RDWR, O_CREAT, O_APPEND } = fs.constants;
      this.fd = openPrivate(this.file('process-log.jsonl'), O_RDWR | O_CREAT | O_APPEND);
      const { living, size, torn } = readLog(this.fd);
      this.size = size;
      if (torn) {
        fs.ftruncateSync(this.fd, size);
        this.options.warn(`the last record of ${this.file('process-log.jsonl')} was torn (${torn} bytes) and is lost: its writer was killed`);
      }
      for (const one of [...readActive(this.file('active-processes.json')), ...living]) this.remember(one);
      if (size > LOG_CAP) this.compact();
    } catch (error) {
      this.complain(error);
    }
  }

  private complain(error: unknown): void {
    if (this.problem) return; // said once: a full disk does not stop the work
    this.problem = `the process ledger cannot be written: ${messageOf(error)}`;
    this.options.warn(this.problem);
  }

  private remember(one: Remembered): void {
    if (!one.terminalId.startsWith(this.prefix)) return; // another Host's
    const { pid, startTime, terminalId, terminal, command, parentPid, startedAt } = one;
    if (!this.owners.has(terminalId)) this.owners.set(terminalId, { id: terminalId, name: terminal, command: '', since: Date.parse(startedAt) || Date.now(), state: 'held' });
    const kind = one.kind === 'terminal' ? 'terminal' : 'child';
    this.members.set(pid, { pid, startTime, ppid: parentPid, pgrp: 0, name: path.basename(command.split(' ')[0] ?? ''), owner: terminalId, command, startedAt, kind });
  }

  /** Appends an event before anything goes on. */
  private append(event: string, who: Identity, kind: string, more: Json): void {
    this.counts[event] = (this.counts[event] ?? 0) + 1;
    const line = Buffer.from(`${JSON.stringify({ event, pid: who.pid, startTime: who.startTime, kind, ...more, ts: new Date().toISOString(), sessionId: this.sessionId })}\n`);
    try {
      step(`ledger.append.${event}.${kind}`);
      if (this.fd < 0 || fs.fstatSync(this.fd).nlink === 0) this.reopen();
      if (fs.writeSync(this.fd, line) < line.length) {
        fs.ftruncateSync(this.fd, this.size);
        throw new Error('the disk is full');
      }
      this.size += line.length;
      step(`ledger.appended.${event}.${kind}`);
      if (this.size > 2 * LOG_CAP) this.compact();
    } catch (error) {
      this.complain(error);
    }
  }

  /** Somebody removed the directory. */
  private reopen(): void {
    if (this.fd >= 0) fs.closeSync(this.fd);
    const { O_RDWR, O_CREAT, O_APPEND } = fs.constants;
    privateDir(this.options.dir, 0);
    this.fd = openPrivate(this.file('process-log.jsonl'), O_RDWR | O_CREAT | O_APPEND);
    this.size = fs.fstatSync(this.fd).size;
  }

  /** Replaces the log by its end and by the records of those who live. */
  private compact(): void {
    const from = Math.max(0, this.size - LOG_KEPT);
    const tail = Buffer.allocUnsafe(this.size - from);
    fs.readSync(this.fd, tail, 0, tail.length, from);
    const kept = from === 0 ? tail : tail.subarray(tail.indexOf(10) + 1);
    const living = [...this.members.values()].map((member) => `${JSON.stringify(this.activeRecord(member))}\n`);
    writePrivate(this.file('process-log.jsonl'), living.join('') + kept.toString('utf8'));
    step('ledger.compacted');
    this.reopen();
  }

  private activeRecord(member: Member): Json {
    const { pid, startTime, kind, ppid, name, command, owner, startedAt } = member;
    const { name: terminal = '', state = 'orphaned' } = this.owners.get(owner) ?? {};
    return { event: kind === 'child' ? 'spawned' : 'started', pid, startTime, kind, name, cmd: command, parentPid: ppid, terminal, terminalId: owner, status: state === 'held' ? 'running' : 'orphaned', ts: startedAt };
  }

  /** Writes the summary files soon, once for all that changes in this tick. */
  private save(): void {
    this.tellIfTracking();
    if (this.isClosed) return;
    this.watch();
    if (this.isSaving) return;
    this.isSaving = true;
    setImmediate(() => {
      this.isSaving = false;
      if (!this.isClosed) this.saveNow();
    });
  }

  private saveNow(endedAt?: string): void {
    try {
      step('ledger.active');
      writePrivate(this.file('active-processes.json'), `${JSON.stringify({ sessionId: this.sessionId, processes: [...this.members.values()].map((member) => this.activeRecord(member)) }, null, 1)}\n`);
      step('ledger.saved');
      if (this.counts.started === 0 && this.counts.orphaned === 0) return; // a session in which nothing happened leaves no file
      const dir = privateDir(this.file('sessions'), 0);
      const file = path.join(dir, `${this.sessionId}.json`);
      if (!fs.existsSync(file)) for (const old of fs.readdirSync(dir).sort().slice(0, -SESSIONS_KEPT)) fs.rmSync(path.join(dir, old), { force: true });
      const { workspace } = this.options;
      writePrivate(file, `${JSON.stringify({ sessionId: this.sessionId, hostPid: process.pid, workspace, startedAt: this.startedAt, endedAt: endedAt ?? null, counts: this.counts, commands: this.commands.slice(-SESSION_COMMANDS) }, null, 1)}\n`);
      step('ledger.session');
    } catch (error) {
      this.complain(error);
    }
  }

  get isTracking(): boolean {
    return this.members.size > 0 || this.owners.size > 0;
  }

  /** What runs in terminals that are held, in words; '' if nothing. An idle shell is nothing. */
  busyWith(): string {
    const busy = new Set([...this.owners.values()].filter((owner) => owner.command && owner.state === 'held' && kindOf(owner.id) !== 'window').map((owner) => owner.name)); // an open window is no work
    for (const member of this.members.values()) if (member.kind === 'child' && kindOf(member.owner) !== 'window' && this.owners.get(member.owner)?.state === 'held') busy.add(this.owners.get(member.owner)?.name ?? '');
    return busy.size ? `work in ${busy.size} terminal${busy.size > 1 ? 's' : ''} or debug session${busy.size > 1 ? 's' : ''} of ${this.options.workspace} (${[...busy].slice(0, 5).join(', ')})` : '';
  }

  private tellIfTracking(): void {
    if (this.isTracking === this.wasTracking) return;
    this.wasTracking = this.isTracking;
    this.options.changed();
  }

  // ---- what a Client reports

  async record(params: Json): Promise<Json> {
    const { event, terminalId, terminal, pid } = params;
    if (typeof terminalId !== 'string' || !terminalId.startsWith(this.prefix)) throw failure('E_ARGUMENTS', 'terminalId is not one of this workspace');
    const name = String(terminal ?? '');
    if (event === 'opening') {
      this.owners.set(terminalId, { id: terminalId, name, command: '', since: Date.now(), state: 'held' });
      this.spokenOf.add(terminalId);
      this.append('starting', { pid: 0, startTime: '' }, 'terminal', { terminal: name, terminalId }); // the intent: whoever carries this tag is ours
      this.tellIfTracking();
      return {};
    }
    // One that a Client speaks of is held by it, also if it was opened under another Host.
    const owner = this.owners.get(terminalId) ?? { id: terminalId, name, command: '', since: Date.now(), state: 'held' as const };
    if (event !== 'closed' && event !== 'exited') this.owners.set(terminalId, Object.assign(owner, { state: 'held' as const }));
    this.spokenOf.add(terminalId);
    if (event === 'started') return this.onStarted(owner, Number(pid), params.shell === true);
    if (event === 'command') this.onCommand(owner, String(params.command ?? ''));
    else if (event === 'completed') this.onCompleted(owner, params.exitCode, params.exitReason);
    else if (event === 'exited') await this.onExited(owner);
    else if (event === 'closed') return this.onClosed(owner);
    else throw failure('E_ARGUMENTS', `unknown event ${String(event)}`);
    return {};
  }

  private async onStarted(owner: Owner, pid: number, isShell: boolean): Promise<Json> {
    const who = await identify(pid);
    if (!who) throw failure('E_SPAWN', `process ${pid} has ended already: call again`);
    listed.at = -Infinity; // a listing from before does not have it
    const command = clip(system.command(pid));
    const known = this.members.get(pid);
    if (known?.startTime === who.startTime) Object.assign(known, { kind: 'terminal', owner: owner.id }); // a look was quicker
    else this.members.set(pid, { ...who, ppid: 0, pgrp: 0, name: nameIn(command), owner: owner.id, command, startedAt: new Date().toISOString(), kind: 'terminal' });
    if (isShell) owner.shell = who;
    this.append('started', who, 'terminal', { name: nameIn(command), cmd: command, terminal: owner.name, terminalId: owner.id });
    this.save();
    return who;
  }

  private onCommand(owner: Owner, command: string): void {
    owner.command = clip(command);
    owner.since = Date.now();
    this.commands.push({ command: owner.command, terminal: owner.name, startedAt: new Date().toISOString() });
    if (this.commands.length > 2 * SESSION_COMMANDS) this.commands.splice(0, SESSION_COMMANDS);
    this.append('started', owner.shell ?? { pid: 0, startTime: '' }, 'command', { cmd: owner.command, terminal: owner.name, terminalId: owner.id });
    this.isDirty = true;
    this.save();
  }

  private onCompleted(owner: Owner, exitCode: unknown, exitReason: unknown): void {
    const mine = this.commands.findLast((one) => one.terminal === owner.name && one.endedAt === undefined);
    if (mine) Object.assign(mine, { endedAt: new Date().toISOString(), exitCode: exitCode ?? null });
    this.noteEnded({ pid: owner.shell?.pid ?? null, command: owner.command, terminal: owner.name, status: 'completed', exitCode: exitCode ?? null });
    this.append('completed', owner.shell ?? { pid: 0, startTime: '' }, 'command', { exitCode: exitCode ?? null, ...(exitReason !== undefined && { exitReason }), terminal: owner.name, terminalId: owner.id });
    owner.command = '';
    owner.since = Date.now();
    this.isDirty = true; // the look at its end: at once where an answer shows it, else in a moment
    this.save();
    setImmediate(() => void (this.isDirty && this.look().catch((error) => this.complain(error))));
  }

  /** The shell has ended by itself. What it left is without a terminal. */
  private async onExited(owner: Owner): Promise<void> {
    this.isDirty = true;
    await this.look();
    this.markOrphaned(owner, 'its shell has ended');
  }

  /** The terminal is being closed: nothing of it stays. */
  private async onClosed(owner: Owner): Promise<Json> {
    const result = await this.end(() => this.of(owner), undefined);
    if (!this.of(owner).length) this.owners.delete(owner.id);
    else this.markOrphaned(owner, 'its terminal was closed');
    this.save();
    return result;
  }

  private markOrphaned(owner: Owner, why: string): void {
    const left = this.of(owner);
    if (owner.state === 'orphaned') return;
    owner.state = 'orphaned';
    owner.command = '';
    delete owner.shell;
    if (!left.length) this.owners.delete(owner.id);
    for (const member of left) this.append('orphaned', member, member.kind, { name: member.name, cmd: member.command, parentPid: member.ppid, terminal: owner.name, terminalId: owner.id, reason: why });
    this.save();
  }

  /** A Client (or debug process) was adopted, or is gone (it holds nothing): whatever it does not hold is without one. */
  async settle(kind: OwnerKind, ask: () => Promise<Held[]>, why: string): Promise<void> {
    for (const id of this.spokenOf) if (kindOf(id) === kind) this.spokenOf.delete(id);
    const held = await ask();
    for (const { id, name, command, pid } of held) {
      const shell = await identify(pid);
      const owner = this.owners.get(id) ?? { id, name, command: '', since: Date.now(), state: 'held' as const };
      this.owners.set(id, Object.assign(owner, { name, command: clip(command), ...(shell && { shell }), state: 'held' as const })); // the same object: a report may be under way with it
    }
    const isFirst = kind === 'terminal' && !this.settled; // before it is known which terminals a Client holds nothing is called orphaned
    this.settled ||= kind === 'terminal';
    this.isDirty = true;
    await this.look(isFirst && this.size > 0); // the first one also finds what a predecessor started and never recorded
    const lost = [...this.owners.values()].filter((owner) => kindOf(owner.id) === kind && owner.state === 'held' && !this.spokenOf.has(owner.id) && !held.some(({ id }) => id === owner.id));
    // What ran in a terminal may go on alone; a program without its debugger stands where it stopped, for ever, and a window
    // without its Client is nobody's.
    if (kind !== 'terminal' && lost.length) await this.end(() => lost.flatMap((owner) => this.of(owner)), undefined);
    for (const owner of lost) this.markOrphaned(owner, why);
    if (isFirst && this.options.onOrphans === 'end' && this.orphans().length) await this.killOrphans();
    this.save();
  }

  /** `isTheirs`: another Host is the writer now, so that nothing is written any more. */
  close(isTheirs = false): void {
    this.isClosed = true;
    clearTimeout(this.timer);
    if (!isTheirs) this.saveNow(new Date().toISOString());
    if (this.fd >= 0) fs.closeSync(this.fd);
    this.fd = -1;
  }

  // ---- looking

  private of(owner: Owner): Member[] {
    return [...this.members.values()].filter((member) => member.owner === owner.id);
  }

  private orphans(): Owner[] {
    return [...this.owners.values()].filter((owner) => owner.state === 'orphaned');
  }

  /** Looks at the processes: whom we know, whom they have started; and, where something may have escaped, at all tags. */
  look(everyTag = false): Promise<void> {
    if (!this.isTracking && !everyTag) return Promise.resolve();
    if (this.looking && (this.isDirty || everyTag)) return this.looking.then(() => this.look(everyTag)); // what happened since it began is not in it
    this.looking ??= this.lookNow(everyTag).finally(() => (this.looking = undefined));
    return this.looking;
  }

  private async lookNow(everyTag: boolean): Promise<void> {
    const started = performance.now();
    const isFull = everyTag || this.isDirty || started - this.fullLookAt >= LOOK_MS;
    const ownerOf = (tag: string): string | undefined => (this.owners.has(tag) || (everyTag && tag.startsWith(this.prefix)) ? tag : undefined);
    this.isDirty = false;
    const terminals = new Map<string, string>();
    if (isFull) for (const { id, shell, state } of this.owners.values()) if (shell && state === 'held' && (await isAlive(shell))) terminals.set(system.terminal(shell.pid), id);
    terminals.delete('');
    const found = await Promise.resolve(system.family(this.roots(), isFull ? ownerOf : undefined, terminals)).catch((error) => {
      this.isDirty = true; // nothing was seen: the next one looks again
      throw error;
    });
    if (isFull) this.fullLookAt = started;
    const alive = new Map(found.map((row) => [row.pid, row]));
    for (const member of this.members.values()) if (alive.get(member.pid)?.startTime !== member.startTime) this.onGone(member);
    for (const row of found) this.onSeen(row);
    this.watch(performance.now() - started);
  }

  /** Those who are known, a window's last: a terminal in it is a thing of its own. */
  private roots(): Member[] {
    const all = [...this.members.values()];
    return all.some((one) => kindOf(one.owner) === 'window') ? [...all.filter((one) => kindOf(one.owner) !== 'window'), ...all.filter((one) => kindOf(one.owner) === 'window')] : all;
  }

  private onSeen(row: Row): void {
    const known = this.members.get(row.pid);
    if (known?.startTime === row.startTime) {
      const isRenamed = known.name !== row.name && known.pgrp !== 0; // it called exec since
      const isYoung = Date.now() - Date.parse(known.startedAt) < YOUNG_MS; // it may have been seen before its exec, under the same name
      Object.assign(known, { pgrp: row.pgrp, ppid: known.ppid || row.ppid });
      const wasSeenAs = known.name;
      if (isRenamed || isYoung || known.command === '') Object.assign(known, { command: clip(system.command(row.pid)) || row.name, name: row.name });
      if (!isYoung || known.kind !== 'child' || known.name === wasSeenAs) return;
      this.recordSpawned(known); // first seen before its exec: in the log it has its own name too
      this.counts.spawned = (this.counts.spawned ?? 1) - 1; // it is the same one
      return;
    }
    const ours = row.pid === process.pid ? 'the Host' : this.options.isOurs(row.pid);
    if (ours && !(ours === 'a Client' && kindOf(row.owner) === 'window')) return; // one of our own that was started from a terminal of ours; a window's Client ends with it
    if (!this.owners.has(row.owner)) this.owners.set(row.owner, { id: row.owner, name: row.owner, command: '', since: Date.now(), state: 'held' }); // tagged and never recorded
    const command = clip(system.command(row.pid)) || row.name;
    this.members.set(row.pid, { ...row, command, startedAt: new Date().toISOString(), kind: 'child' });
    this.recordSpawned({ ...row, command });
    this.save();
  }

  private recordSpawned({ ppid, name, command, owner, ...who }: Row & { command: string }): void {
    this.append('spawned', who, 'child', { parentPid: ppid, name, cmd: command, terminal: this.owners.get(owner)?.name ?? '', terminalId: owner });
  }

  private onGone(member: Member): void {
    if (this.members.get(member.pid) !== member) return;
    const event = member.isBeingKilled ? 'killed' : 'completed';
    this.members.delete(member.pid);
    this.append(event, member, member.kind, { exitCode: null, terminalId: member.owner });
    if (member.kind === 'child') this.noteEnded({ pid: member.pid, command: member.command, terminal: this.owners.get(member.owner)?.name ?? '', status: event });
    const owner = this.owners.get(member.owner);
    if (owner?.state === 'orphaned' && !this.of(owner).length) this.owners.delete(owner.id);
    this.save();
  }

  private noteEnded(entry: Json): void {
    this.ended.push({ ...entry, endedAt: new Date().toISOString() });
    if (this.ended.length > ENDED_KEPT) this.ended.shift();
  }

  /** While something runs, the tree is looked at now and then. */
  private watch(lastTook = 0): void {
    const isBusy = !this.isClosed && (this.busyWith() !== '' || this.orphans().length > 0);
    if (isBusy && this.timer) return;
    clearTimeout(this.timer);
    this.timer = undefined;
    if (!isBusy) return;
    this.timer = setTimeout(() => {
      this.timer = undefined;
      this.isDirty = true;
      this.look().catch((error) => this.complain(error));
    }, Math.max(LOOK_MS, LOOK_SHARE * lastTook));
  }

  // ---- what is shown

  /** The section of every result: fresh, and at most 2 KB. */
  async section(): Promise<Json> {
    await this.look();
    const held = [...this.owners.values()].filter((owner) => owner.state === 'held' && owner.shell);
    const isIdle = (owner: Owner): boolean => owner.command === '' && !this.of(owner).some((member) => member.kind === 'child');
    const active = [...held.filter((owner) => !isIdle(owner)), ...held.filter(isIdle).sort((a, b) => b.since - a.since).slice(0, IDLE_SHOWN)].map((owner) => this.summary(owner));
    const orphaned = this.orphans().flatMap((owner) => this.tops(owner).map((top) => this.orphanSummary(owner, top)));
    return { ...fit(active, orphaned, held.length - active.length), ...(orphaned.length > 0 && this.options.onOrphans === 'ask' && { ask: 'Ask the user whether the orphaned processes should be ended; process_kill_orphans ends them.' }), tracked: this.isTracking };
  }

  private summary(owner: Owner): Json {
    const children = this.of(owner).filter((member) => member.kind === 'child');
    const shell = this.members.get(owner.shell?.pid ?? 0);
    return {
      name: shell?.name ?? 'shell', pid: owner.shell?.pid ?? null, command: clip(owner.command, 120) || '(idle)', [kindOf(owner.id)]: owner.name,
      age: Math.round((Date.now() - owner.since) / 1000), children: familyNames(children),
    };
  }

  private orphanSummary(owner: Owner, top: Member): Json {
    const below = this.below(top);
    const { command } = (top.kind === 'terminal' && below.find((member) => member.kind === 'child')) || top; // what runs in a shell says more than the shell
    return { name: top.name, pid: top.pid, command: clip(command, 120), [kindOf(owner.id)]: owner.name, age: Math.max(0, Math.round((Date.now() - Date.parse(top.startedAt)) / 1000)), children: familyNames(below) };
  }

  /** Members that were started by none of the others. */
  private tops(owner: Owner): Member[] {
    return this.of(owner).filter((member) => this.members.get(member.ppid)?.owner !== owner.id || member.ppid === member.pid);
  }

  /** All that descends from a member, by what was recorded when each was first seen: those who lost their parents too. */
  private below(top: Member): Member[] {
    const found = new Set<Member>([top]);
    for (let grew = true; grew; ) {
      grew = false;
      for (const member of this.members.values()) {
        const parent = this.members.get(member.ppid);
        if (!parent || !found.has(parent) || found.has(member)) continue;
        found.add(member);
        grew = true;
      }
    }
    found.delete(top);
    return [...found];
  }

  /** Every process, for process_list. */
  async list(): Promise<Json> {
    this.isDirty = true;
    await this.look();
    const rows = [...this.members.values()].map((member) => {
      const owner = this.owners.get(member.owner);
      return {
        pid: member.pid, name: member.name, commandLine: member.command, parentPid: member.ppid, terminalName: owner?.name ?? '', ...(kindOf(member.owner) !== 'terminal' && { [kindOf(member.owner)]: owner?.name ?? '' }), terminalId: member.owner, startedAt: member.startedAt,
        status: owner?.state === 'orphaned' ? 'orphaned' : 'running', ...(owner?.shell?.pid === member.pid && { running: owner.command || null }),
      };
    });
    const [active, orphaned] = [rows.filter((row) => row.status === 'running'), rows.filter((row) => row.status === 'orphaned')];
    const more = Math.max(0, active.length - LIST_CAP) + Math.max(0, orphaned.length - LIST_CAP);
    return { active: active.slice(0, LIST_CAP), orphaned: orphaned.slice(0, LIST_CAP), ended: this.ended, ...(more && { more }), log: this.file('process-log.jsonl') };
  }

  // ------------------------------------------------------------------------------------------------ ending processes
  // The group, then the tree, then whoever carries the tag: TERM, and KILL for those who stay. Who a process is, is
  // looked at again right before each signal.

  async kill(pid: unknown, signal: unknown): Promise<Json> {
    if (typeof pid !== 'number' || !Number.isSafeInteger(pid) || pid <= 0) throw failure('E_ARGUMENTS', `pid must be a process id, not ${String(pid)}`);
    this.isDirty = true;
    await this.look();
    const target = this.members.get(pid);
    const ours = this.options.isOurs(pid);
    if (!target || ours) {
      const known = [...this.members.keys()].slice(0, 20).join(', ');
      throw failure('E_REFUSED', `process ${pid} is ${ours ? `${ours}, one of our own` : 'not in the ledger'}: only what was started through these tools is ended (${known || 'nothing is alive'}). Nothing was signalled; process_list shows what can be`);
    }
    const owner = this.owners.get(target.owner);
    const isWhole = target.kind === 'terminal' && owner !== undefined;
    const result = await this.end(() => (isWhole ? this.of(owner) : this.members.get(pid) === target ? [target, ...this.below(target)] : this.leftOf(target)), signal === undefined ? undefined : (String(signal) as NodeJS.Signals)); // the schema lists the signals
    return { pid, ...result };
  }

  /** What a member that is gone by now had started. */
  private leftOf(target: Member): Member[] {
    return [...this.members.values()].filter((member) => member.ppid === target.pid || member.pgrp === target.pid).flatMap((member) => [member, ...this.below(member)]);
  }

  async killOrphans(): Promise<Json> {
    this.isDirty = true;
    await this.look();
    return this.end(() => this.orphans().flatMap((owner) => this.of(owner)), undefined);
  }

  /** Ends what `pick` names, looking again after each round. With a signal of the caller's, that one is sent once. */
  private async end(pick: () => Member[], signal: NodeJS.Signals | undefined): Promise<Json> {
    const all = new Map<number, Member>();
    const failed = new Set<number>();
    const round = async (signals: NodeJS.Signals[], patience: number): Promise<Member[]> => {
      this.isDirty = true;
      await this.look();
      const targets = [...new Map(pick().map((member) => [member.pid, member])).values()];
      for (const member of targets) {
        all.set(member.pid, member);
        member.isBeingKilled = true;
      }
      for (const one of signals) await this.send(targets, one);
      const left = await this.untilGone(targets, patience);
      for (const member of left) member.isBeingKilled = false; // when it ends later, that is its own doing
      return left;
    };
    if (signal !== undefined && signal !== 'SIGKILL') {
      const left = await round([signal], SIGNAL_MS);
      return { signalled: [...all.keys()], signal, killed: [...all.keys()].filter((pid) => !left.some((member) => member.pid === pid)), failed: [] };
    }
    // A shell at its prompt ignores TERM; a stopped process hears nothing but CONT and KILL.
    let left = signal === 'SIGKILL' ? await round(['SIGKILL'], KILL_MS) : await round(['SIGTERM', 'SIGHUP', 'SIGCONT'], TERM_MS);
    for (let rounds = 0; rounds < KILL_ROUNDS && (left.length || pick().length); rounds++) left = await round(['SIGKILL'], KILL_MS);
    for (const member of left) failed.add(member.pid);
    return { killed: [...all.keys()].filter((pid) => !failed.has(pid)), failed: [...failed] };
  }

  /** Signals groups whose leader is among the targets, then every target; each only if it is who it was. */
  private async send(targets: readonly Member[], signal: NodeJS.Signals): Promise<void> {
    for (const member of targets) {
      if (member.pgrp === member.pid && member.pid !== process.pid && (await isAlive(member).catch(() => false))) {
        try {
          system.signal(-member.pid, signal);
        } catch {
          // it ended in between
        }
      }
    }
    for (const member of targets) await kill(member, signal);
  }

  private async untilGone(targets: readonly Member[], patience: number): Promise<Member[]> {
    const giveUpAt = performance.now() + patience;
    let left = [...targets];
    for (;;) {
      const alive = await Promise.all(left.map((member) => isAlive(member).catch(() => true)));
      for (const [index, member] of left.entries()) if (!alive[index]) this.onGone(member);
      left = left.filter((_member, index) => alive[index]);
      if (!left.length || performance.now() > giveUpAt) return left;
      await new Promise((resolve) => setTimeout(resolve, LOOK_AGAIN_MS));
    }
  }
}

const clip = (text: string, cap = COMMAND_CAP): string => (text.length > cap ? `${text.slice(0, cap - 1)}…` : text);
const nameIn = (command: string): string => path.basename(command.split(' ')[0] ?? '') || '?';
const familyNames = (members: readonly Member[]): Json => ({ count: members.length, names: [...new Set(members.map((member) => member.name))].slice(0, NAMES_CAP) });

/** Both lists cut to what a result has room for: the idle go first, then the rest from the end. */
export function fit(active: readonly Json[], orphaned: readonly Json[], others = 0): Json {
  const kept = { active: [...active], orphaned: [...orphaned] };
  const total = active.length + orphaned.length + others;
  for (;;) {
    const more = total - kept.active.length - kept.orphaned.length;
    const section = { ...kept, ...(more && { more }) };
    if (Buffer.byteLength(JSON.stringify(section)) <= SECTION_CAP - 200) return section; // room for a note
    if (!kept.active.length || (kept.active.length <= 4 && kept.orphaned.length > 4)) kept.orphaned.pop();
    else kept.active.pop();
  }
}

// ---------------------------------------------------------------------------------------------------------- stacks
// What a workspace is made of, from its files alone: which processes are to be expected, and which commands start a
// server that does not end by itself.

type Stack = { name: string; files: RegExp; processes: readonly string[]; servers?: RegExp };

// The first that matches a lock file names the package manager.
export const STACKS: readonly Stack[] = [
  { name: 'Node.js', files: /^package\.json$/, processes: ['node', 'npm', 'npx'], servers: /\b(vite|parcel)\s*($|\s-)|\b(vite|next|nuxt|nuxi|remix|astro|gatsby|ng|vue-cli-service|react-scripts|expo|wrangler|parcel|storybook)\s+(dev|develop|serve|start|preview|watch)\b|\bwebpack(-cli)?\s+(\S+\s+)*(serve|--watch|-w)\b|\b(nodemon|ts-node-dev|webpack-dev-server|json-server|http-server|live-server|browser-sync|concurrently)\b|\btsx\s+watch\b|\bnode\s+(\S+\s+)*--watch\b/ },
  { name: 'npm', files: /^(package-lock|npm-shrinkwrap)\.json$/, processes: ['npm', 'node'] },
  { name: 'pnpm', files: /^pnpm-(lock|workspace)\.yaml$/, processes: ['pnpm', 'node'] },
  { name: 'Yarn', files: /^(yarn\.lock|\.yarnrc(\.yml)?)$/, processes: ['yarn', 'node'] },
  { name: 'Bun', files: /^bun\.lockb?$|^bunfig\.toml$/, processes: ['bun'], servers: /\bbun\s+(--hot|--watch|dev)\b/ },
  { name: 'Deno', files: /^deno\.(jsonc?|lock)$/, processes: ['deno'], servers: /\bdeno\s+(serve\b|run\s+(\S+\s+)*--watch\b|task\s+(dev|start|serve|watch)\b)/ },
  { name: 'TypeScript', files: /^tsconfig(\.[\w-]+)?\.json$/, processes: ['tsc', 'ts-node', 'tsx'], servers: /\btsc\s+(\S+\s+)*(-w|--watch)\b/ },
  { name: 'Rust', files: /^Cargo\.(toml|lock)$/, processes: ['cargo', 'rustc'], servers: /\bcargo\s+watch\b|\btrunk\s+serve\b/ },
  { name: 'Python', files: /^(pyproject\.toml|setup\.(py|cfg)|requirements(-[\w-]+)?\.txt|Pipfile|\.python-version)$/, processes: ['python', 'python3', 'pip'], servers: /\b(uvicorn|gunicorn|hypercorn|daphne|watchmedo|jupyter)\b|\bmanage\.py\s+runserver\b|\bflask\s+(\S+\s+)*run\b|\bpython[\d.]*\s+(\S+\s+)*-m\s+(http\.server|uvicorn|flask\s+run)\b|\b(streamlit|fastapi)\s+(run|dev)\b|\bmkdocs\s+serve\b/ },
  { name: 'Poetry', files: /^poetry\.lock$/, processes: ['poetry', 'python'] },
  { name: 'uv', files: /^uv\.lock$/, processes: ['uv', 'python'] },
  { name: 'Go', files: /^go\.(mod|work)$/, processes: ['go', 'gopls'], servers: /^\s*air\s*$|\breflex\b/ },
  { name: 'Maven', files: /^pom\.xml$/, processes: ['mvn', 'java'], servers: /\bmvnw?\b.*\b(spring-boot:run|jetty:run|quarkus:dev)\b/ },
  { name: 'Gradle', files: /^(build|settings)\.gradle(\.kts)?$/, processes: ['gradle', 'java'], servers: /\bgradlew?\b.*\b(bootRun|run|-t|--continuous|quarkusDev)\b/ },
  { name: '.NET', files: /\.(csproj|fsproj|vbproj|sln|slnx)$|^global\.json$/, processes: ['dotnet'], servers: /\bdotnet\s+watch\b/ },
  { name: 'Ruby', files: /^(Gemfile(\.lock)?|.*\.gemspec)$/, processes: ['ruby', 'bundle', 'rake'], servers: /\brails\s+(s|server)\b|\b(rackup|puma|foreman\s+start|jekyll\s+serve|guard)\b/ },
  { name: 'PHP', files: /^composer\.(json|lock)$/, processes: ['php', 'composer'], servers: /\bphp\s+(\S+\s+)*-S\b|\bartisan\s+serve\b|\bsymfony\s+(server:start|serve)\b/ },
  { name: 'Docker', files: /^(Dockerfile|(docker-)?compose\.ya?ml)$/, processes: ['docker'], servers: /\bdocker(-|\s+)compose\s+up\b(?!.*\s(-d|--detach)\b)/ },
];

const MANIFEST_CAP = 1024 * 1024; // bytes of a package.json
const PART_CAP = 1000; // characters of a command's part that are looked at
const DIRS_CAP = 1000; // that are looked into
const PROJECT_DEPTH = 4;
const PROJECTS_CAP = 100;
const SKIPPED = new Set(['node_modules', 'dist', 'build', 'out', 'target', 'vendor', 'bin', 'obj', '__pycache__', 'venv', 'coverage', 'bower_components']);
const SERVER_SCRIPT = /^(?:.*:)?(dev|develop|watch|serve|server|start|preview)(?:[:.-].*)?$/;
const INSTALLS = /\b(npm|pnpm|yarn|bun|pip3?|gem|cargo|go|composer|uv|poetry)\s+(i|ci|install|add|remove|get|require)\b/; // names packages, runs none
const RUNNERS = /\b(?:npm|pnpm|yarn|bun)\s+(?:run(?:-script)?\s+|--silent\s+|-s\s+)*([\w:.-]+)/;

export type Analysis = { detectedStacks: string[]; projectRoot: string; expectedProcesses: string[]; packageManager: string | null; projects: Array<{ path: string; stacks: string[] }>; devServers: Array<{ command: string; runs: string }>; more?: number };

/** Reads names of files, and package.json's scripts; runs nothing. */
export function analyzeWorkspace(root: string): Analysis {
  const projects: Analysis['projects'] = [];
  const queue: Array<{ dir: string; depth: number }> = [{ dir: root, depth: 0 }];
  let looked = 0;
  for (let next = queue.shift(); next && looked < DIRS_CAP; next = queue.shift(), looked++) {
    const { dir, depth } = next;
    let entries: fs.Dirent[] = [];
    try {
      entries = fs.readdirSync(dir, { withFileTypes: true });
    } catch {
      continue; // gone, or not ours to read
    }
    const names = entries.filter((entry) => !entry.isDirectory()).map((entry) => entry.name);
    const stacks = STACKS.filter((stack) => names.some((name) => stack.files.test(name)));
    if (stacks.length) projects.push({ path: path.relative(root, dir) || '.', stacks: stacks.map((stack) => stack.name) });
    if (depth < PROJECT_DEPTH) for (const entry of entries) if (entry.isDirectory() && !entry.name.startsWith('.') && !SKIPPED.has(entry.name)) queue.push({ dir: path.join(dir, entry.name), depth: depth + 1 });
  }
  const detected = STACKS.filter((stack) => projects.some((project) => project.stacks.includes(stack.name)));
  const manager = ['pnpm', 'Yarn', 'Bun', 'npm'].find((name) => projects[0]?.path === '.' && projects[0].stacks.includes(name)) ?? (detected.some((stack) => stack.name === 'Node.js') ? 'npm' : undefined);
  const more = Math.max(0, projects.length - PROJECTS_CAP) + queue.length;
  return {
    detectedStacks: detected.map((stack) => stack.name), projectRoot: root, expectedProcesses: [...new Set(detected.flatMap((stack) => stack.processes))],
    packageManager: manager?.toLowerCase() ?? null, projects: projects.slice(0, PROJECTS_CAP),
    devServers: Object.entries(scriptsIn(root)).filter(([name, text]) => devServerIn(`npm run ${name}`, { [name]: text })).map(([name, text]) => ({ command: `${manager?.toLowerCase() ?? 'npm'} run ${name}`, runs: clip(text, 200) })),
    ...(more && { more }),
  };
}

/** A file of the workspace: not a device, a FIFO or a link to one, and not without end. */
function readForeign(file: string): string {
  const fd = fs.openSync(file, fs.constants.O_RDONLY | (fs.constants.O_NONBLOCK ?? 0) | (fs.constants.O_NOFOLLOW ?? 0));
  try {
    const stat = fs.fstatSync(fd);
    if (!stat.isFile() || stat.size > MANIFEST_CAP) throw failure('E_UNSAFE', `${file} is not a file of at most ${MANIFEST_CAP} bytes`);
    return fs.readFileSync(fd, 'utf8');
  } finally {
    fs.closeSync(fd);
  }
}

function scriptsIn(dir: string): Record<string, string> {
  try {
    const value: unknown = JSON.parse(readForeign(path.join(dir, 'package.json')));
    const scripts = isObject(value) && isObject(value.scripts) ? value.scripts : {};
    return Object.fromEntries(Object.entries(scripts).filter((pair): pair is [string, string] => typeof pair[1] === 'string'));
  } catch {
    return {}; // none, or not JSON
  }
}

/** The part of a command that starts a server or watcher, as far as names tell; undefined if none does. */
export function devServerIn(command: string, scripts: Record<string, string> = {}): string | undefined {
  for (const part of command.slice(0, 16 * PART_CAP).split(/&&|\|\||[;\n|&]/).map((text) => text.trim().slice(0, PART_CAP))) {
    if (INSTALLS.test(part)) continue;
    if (STACKS.some((stack) => stack.servers?.test(part))) return part;
    const script = RUNNERS.exec(part)?.[1];
    const text = script === undefined ? undefined : Object.hasOwn(scripts, script) ? scripts[script] : undefined;
    if (text !== undefined && !RUNNERS.test(text) && STACKS.some((stack) => stack.servers?.test(text))) return `${part} (${clip(text, 100)})`;
    if (script !== undefined && SERVER_SCRIPT.test(script)) return text === undefined ? part : `${part} (${clip(text, 100)})`;
  }
  return undefined;
}

/** The same, with the scripts of the workspace, or of the directory that the command changes to. */
export function devServerOf(command: string, workspace: string, cwd?: string): string | undefined {
  return devServerIn(command, scriptsIn(cwd === undefined ? workspace : path.resolve(workspace, cwd)));
}
