// dap.ts: what the debugger (debug.ts) and our own adapter for Node (node-adapter.ts) share: the framing of the debug adapter
// protocol, the hit conditions of breakpoints, and where the inspector of a Node process is.
//
// Runs in    both of these processes, as a part of their bundles.
// Touches    /proc, loopback ports of the process that is asked for, and that process by SIGUSR1 (see inspectorOf).
// Refuses    to signal anything that is not sure to be a Node program that waits for the signal.
//
// Sections   limits · framing · hit conditions · the inspector of a process

import { execFile } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import type * as Bootstrap from './bootstrap.js';

// ---------------------------------------------------------------------------------------------------------- limits

export const MESSAGE_CAP = 16 * 1024 * 1024; // a longer one is dropped, and the request that it answers fails
const HEADER_CAP = 4096;
export const PROBE_MS = 10_000;
const INSPECTOR_MS = 5000; // a busy program opens it when it comes to it
const INSPECTOR_CAP = 1024 * 1024;

type Json = Record<string, unknown>;

// These few are bootstrap.js's too. To load all of that would cost the adapter, which needs no pipe, a tenth of its start: it is
// loaded when there is something to refuse.
export const isObject = (value: unknown): value is Json => typeof value === 'object' && value !== null && !Array.isArray(value);
export const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));
const failure = (code: string, message: string): Error => (require('./bootstrap.js') as typeof Bootstrap).failure(code, message);

/** Calls `onLate` unless it is called off in time; what is in the event loop already comes first. */
export function deadline(ms: number, onLate: () => void): () => void {
  let isOff = false;
  const timer = setTimeout(() => setImmediate(() => isOff || onLate()), ms);
  return () => {
    isOff = true;
    clearTimeout(timer);
  };
}

// --------------------------------------------------------------------------------------------------------- framing
// Content-Length, a blank line, JSON. What is not framed so cannot be followed any further and ends the connection; a
// message that is too long, or no JSON, is left out alone.

export class DapReader {
  private chunks: Buffer[] = [];
  private size = 0;
  private wanted = -1; // bytes of the body that comes; -1: a header
  private skip = 0; // bytes of a body that was too long
  private isBroken = false;
  private readonly onMessage: (message: Json) => void;
  private readonly onProblem: (problem: string, isFatal: boolean, requestSeq?: number) => void;

  constructor(onMessage: (message: Json) => void, onProblem: (problem: string, isFatal: boolean, requestSeq?: number) => void) {
    this.onMessage = onMessage;
    this.onProblem = onProblem;
  }

  push(chunk: Buffer): void {
    if (this.isBroken) return;
    if (this.skip > 0) {
      const dropped = Math.min(this.skip, chunk.length);
      this.skip -= dropped;
      chunk = chunk.subarray(dropped);
    }
    if (!chunk.length) return;
    this.chunks.push(chunk);
    this.size += chunk.length;
    while (!this.isBroken && this.size > 0 && (this.wanted < 0 ? this.header() : this.body()));
  }

  private all(): Buffer {
    if (this.chunks.length !== 1) this.chunks = [Buffer.concat(this.chunks)];
    return this.chunks[0] ?? Buffer.alloc(0);
  }

  private take(count: number): Buffer {
    const all = this.all();
    this.chunks = [all.subarray(count)];
    this.size -= count;
    return all.subarray(0, count);
  }

  private header(): boolean {
    const all = this.all();
    const end = all.indexOf('\r\n\r\n');
    if (end < 0 || end > HEADER_CAP) {
      const newline = all.indexOf(10);
      if (all.length > HEADER_CAP || (newline >= 0 && !/^[\w-]+: ?[^\r\n]*\r?$/.test(all.toString('latin1', 0, newline)))) this.fail(`no header but ${JSON.stringify(all.toString('latin1', 0, 60))}`);
      return false;
    }
    const text = this.take(end + 4).toString('latin1', 0, end);
    const length = /^Content-Length:[ \t]*(\d{1,12})[ \t]*$/im.exec(text)?.[1];
    if (length === undefined) {
      this.fail(`a header without Content-Length: ${JSON.stringify(text.slice(0, 60))}`);
      return false;
    }
    this.wanted = Number(length);
    if (this.wanted <= MESSAGE_CAP) return true;
    // What it answers is at its beginning, in every adapter that writes such messages; if not, the request times out.
    if (this.size < Math.min(this.wanted, 256)) return false;
    return this.tooLong();
  }

  private tooLong(): boolean {
    const head = this.all().toString('latin1', 0, 1024);
    const requestSeq = /"request_seq"\s*:\s*(\d+)/.exec(head)?.[1];
    this.onProblem(`a message of ${this.wanted} bytes was left out (the cap is ${MESSAGE_CAP})`, false, requestSeq === undefined ? undefined : Number(requestSeq));
    const here = Math.min(this.size, this.wanted);
    this.skip = this.wanted - here;
    this.take(here);
    this.wanted = -1;
    return true;
  }

  private body(): boolean {
    if (this.wanted > MESSAGE_CAP) return this.size >= Math.min(this.wanted, 256) && this.tooLong();
    if (this.size < this.wanted) return false;
    const text = this.take(this.wanted).toString('utf8');
    this.wanted = -1;
    let message: unknown;
    try {
      message = JSON.parse(text);
    } catch {
      this.onProblem(`a message that is no JSON was left out: ${JSON.stringify(text.slice(0, 60))}`, false);
      return true;
    }
    if (isObject(message)) this.onMessage(message);
    else this.onProblem('a message that is no object was left out', false);
    return true;
  }

  private fail(problem: string): void {
    this.isBroken = true;
    this.chunks = [];
    this.onProblem(problem, true);
  }
}

// -------------------------------------------------------------------------------------------------- hit conditions

export const HITS = /^\s*(==|=|>=|>|<=|<|%)?\s*(\d{1,9})\s*$/;

/** Whether a hit, counted from 1, is one to stop at. A bare number means that hit alone. */
export function matchesHits(condition: string, hit: number): boolean {
  const [, operator = '==', number = ''] = HITS.exec(condition) ?? [];
  const n = Number(number);
  if (operator === '%') return n > 0 && hit % n === 0;
  return { '>=': hit >= n, '>': hit > n, '<=': hit <= n, '<': hit < n }[operator] ?? hit === n;
}

// ------------------------------------------------------------------------------------- the inspector of a process

export function list(dir: string): string[] {
  try {
    return fs.readdirSync(dir);
  } catch {
    return [];
  }
}

// A Node process has an inspector, or opens one when it is told by SIGUSR1. That signal ends any other program, so who
// gets it must be a Node that waits for it, and be the same process that was looked at.

const NODE_NAME = /^(?:node|nodejs|node-?\d[\d.]*)$/;

/** Where the inspector of a process listens; it is opened if it is not yet. */
export async function inspectorOf(pid: number): Promise<{ host: string; port: number }> {
  const otherwise = `Start the program with node --inspect=PORT and give port. Nothing was signalled`;
  if (!fs.existsSync('/proc/self/net/tcp')) return inspectorWithoutProc(pid, otherwise);
  const startTime = startTimeOf(pid);
  const executable = link(`/proc/${pid}/exe`);
  if (!startTime || !executable) throw failure('E_ARGUMENTS', `process ${pid} has just ended, or belongs to another user. ${otherwise}`);
  if (link(`/proc/${pid}/ns/net`) !== link('/proc/self/ns/net')) throw failure('E_UNSUPPORTED', `process ${pid} has a network of its own (a container), so its inspector cannot be reached from here. Start the program there with node --inspect=0.0.0.0:PORT, publish that port, and give port. Nothing was signalled`);
  const found = await listeningInspector(pid, new Set());
  if (found) return found;
  const name = path.basename(executable.replace(/ \(deleted\)$/, ''));
  if (!NODE_NAME.test(name) && executable !== process.execPath && !/\/libnode\.so/.test(textIn(`/proc/${pid}/maps`))) throw failure('E_ARGUMENTS', `process ${pid} is ${name}, no Node program: give the language it is written in, or the pid of the node process itself. Nothing was signalled`);
  const caught = /^SigCgt:\s*([0-9a-f]+)$/m.exec(textIn(`/proc/${pid}/status`))?.[1] ?? '0';
  if (!((BigInt(`0x${caught}`) >> BigInt(os.constants.signals.SIGUSR1 - 1)) & 1n)) throw failure('E_UNSUPPORTED', `process ${pid} is a Node that does not wait for SIGUSR1, which would end it. ${otherwise}`);
  if (startTimeOf(pid) !== startTime) throw failure('E_ARGUMENTS', `process ${pid} has just ended. ${otherwise}`);
  const refused = new Set<string>(); // sockets of the program itself: each is asked once
  process.kill(pid, 'SIGUSR1');
  for (const giveUpAt = performance.now() + INSPECTOR_MS; performance.now() < giveUpAt; await new Promise((resolve) => setTimeout(resolve, 10))) {
    if (startTimeOf(pid) !== startTime) throw failure('E_LAUNCH', `process ${pid} ended when it was asked to open its inspector`);
    const opened = await listeningInspector(pid, refused);
    if (opened) return opened;
  }
  throw failure('E_LAUNCH', `process ${pid} got SIGUSR1 once and has opened no inspector in ${INSPECTOR_MS / 1000} s: it uses the signal for something else, hangs, is stopped, or its port (9229, if it names none) is taken by another program. Start it with node --inspect=PORT and give port`);
}

/** Of the sockets on which a process listens, the one where a Node inspector answers. */
async function listeningInspector(pid: number, refused: Set<string>): Promise<{ host: string; port: number } | undefined> {
  const own = new Set(list(`/proc/${pid}/fd`).map((fd) => /^socket:\[(\d+)\]$/.exec(link(`/proc/${pid}/fd/${fd}`))?.[1]));
  for (const row of ['tcp', 'tcp6'].flatMap((table) => textIn(`/proc/${pid}/net/${table}`).split('\n'))) {
    const [, local = '', , state, , , , , , inode = ''] = row.trim().split(/\s+/);
    const [address = '', port = ''] = local.split(':');
    if (state !== '0A' || !own.has(inode) || refused.has(inode)) continue;
    const isLoopback4 = address.length === 8 || /^0{32}$/.test(address); // an address of any kind is reached by it too
    const place = { host: isLoopback4 ? hostOf(address) : '::1', port: parseInt(port, 16) };
    const version = await askInspector(place.host, place.port, '/json/version', 1000).catch(() => undefined);
    if (isObject(version) && /^node\.js\//.test(String(version.Browser))) return place;
    refused.add(inode);
  }
  return undefined;
}

/** An IPv4 address as the kernel shows it: bytes from the last to the first. Any address is loopback too. */
function hostOf(hex: string): string {
  return hex.length !== 8 || hex === '00000000' ? '127.0.0.1' : (hex.match(/../g) ?? []).reverse().map((byte) => parseInt(byte, 16)).join('.');
}

/** No /proc to look into: only what stands on the usual port and names the process can be taken for its inspector. */
async function inspectorWithoutProc(pid: number, otherwise: string): Promise<{ host: string; port: number }> {
  const place = { host: '127.0.0.1', port: 9229 };
  const isThere = async (): Promise<boolean> => (await targetsOf(place.host, place.port).catch(() => [])).some((one) => String(one.title).includes(`[${pid}]`));
  if (await isThere()) return place;
  const { _debugProcess: debugProcess } = process as unknown as { _debugProcess?: (pid: number) => void }; // undocumented, and in no types; Windows has no other way
  const name = process.platform === 'win32' ? 'node' : await new Promise<string>((resolve) => execFile('ps', ['-o', 'comm=', '-p', String(pid)], { timeout: PROBE_MS }, (_error, stdout) => resolve(path.basename(stdout.trim())))); // on Windows it refuses others itself
  if (!NODE_NAME.test(name)) throw failure('E_ARGUMENTS', `process ${pid} is ${name || 'gone'}, no Node program. ${otherwise}`);
  try {
    debugProcess?.(pid);
  } catch (error) {
    throw failure('E_ARGUMENTS', `process ${pid} cannot be asked for its inspector (${messageOf(error)}). ${otherwise}`);
  }
  for (const giveUpAt = performance.now() + INSPECTOR_MS; performance.now() < giveUpAt; await new Promise((resolve) => setTimeout(resolve, 50))) if (await isThere()) return place;
  throw failure('E_UNSUPPORTED', `process ${pid} was asked to open its inspector, but nothing on port 9229 names it, and this system does not tell whose port that is. Start the program with node --inspect=PORT and give port`);
}

function link(file: string): string {
  try {
    return fs.readlinkSync(file);
  } catch {
    return ''; // gone, or another user's
  }
}

function textIn(file: string): string {
  try {
    return fs.readFileSync(file, 'latin1');
  } catch {
    return ''; // the same
  }
}

/** With the pid it is an identity: numbers come round. '' for one that has ended. */
function startTimeOf(pid: number): string {
  const text = textIn(`/proc/${pid}/stat`);
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  return fields[0] === 'Z' ? '' : (fields[19] ?? '');
}

/** What an inspector answers, as JSON. Fails if nobody listens, or it is none. */
export async function askInspector(host: string, port: number, what: string, timeoutMs: number): Promise<unknown> {
  const http = await import('node:http'); // only an attach needs it
  return new Promise((resolve, reject) => {
    const inTime = deadline(timeoutMs, () => request.destroy(new Error('no answer')));
    const request = http.get({ host, port, path: what, agent: false }, (response) => {
      let text = '';
      response.setEncoding('utf8').on('data', (chunk: string) => (text = (text + chunk).slice(0, INSPECTOR_CAP)));
      response.on('error', reject);
      response.on('end', () => {
        inTime();
        try {
          resolve(response.statusCode === 200 ? JSON.parse(text) : undefined);
        } catch {
          resolve(undefined); // a server of another kind
        }
      });
    });
    request.on('error', (error) => {
      inTime();
      reject(error);
    });
  });
}

/** An inspector answers HTTP; anything else on that port would cost the adapter's whole patience. */
export async function checkInspector(host: string, port: number): Promise<void> {
  const say = (what: string): Error => failure('E_LAUNCH', `${host}:${port}: ${what}. Start the program with node --inspect=${port}, or give the pid of a running node process: its inspector is found, or opened. Nothing was started`);
  const version = await askInspector(host, port, '/json/version', 3000).catch((error) => {
    throw say(error instanceof Error && 'code' in error && error.code === 'ECONNREFUSED' ? 'nobody listens there' : `this is no Node inspector (${messageOf(error)})`);
  });
  if (!isObject(version)) throw say('this is no Node inspector');
}

/** What can be debugged behind an inspector's port. */
export async function targetsOf(host: string, port: number): Promise<Json[]> {
  const targets = await askInspector(host, port, '/json/list', 3000);
  return Array.isArray(targets) ? targets.filter(isObject) : [];
}
