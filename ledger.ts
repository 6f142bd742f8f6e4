// ledger.ts: who a process is. Part of the Host's bundle: one writer, and it outlives Clients.
//
// Runs in    the Host (host.ts imports it).
// Touches    /proc on Linux, `ps` on macOS, CIM through PowerShell on Windows. It reads; it signals only through kill().
// Refuses    to signal a process whose start time is not the one that was recorded: a pid alone is no identity, it
//            comes round again within a minute on a busy machine.
//
// Sections   identity · signals

import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';

// -------------------------------------------------------------------------------------------------------- identity
// A process is its pid and when it started. The start time is an opaque string per system: compare it, never parse it.

export type Identity = { pid: number; startTime: string };

const PS_MS = 5000;
const LOOK_AGAIN_MS = 10;

/** The start time and state in the text of /proc/PID/stat. The name may hold spaces and brackets: cut after the last one. */
export function parseProcStat(text: string): { startTime: string; state: string; ppid: number } | undefined {
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  const [state, ppid] = fields;
  const startTime = fields[19]; // field 22 of the file; the first two are before the cut
  if (!state || !startTime) return undefined;
  return { state, startTime, ppid: Number(ppid) };
}

let bootId = '';

function linuxStartTime(pid: number): string | undefined {
  try {
    const stat = parseProcStat(readFileSync(`/proc/${pid}/stat`, 'latin1'));
    if (!stat || stat.state === 'Z' || stat.state === 'X') return undefined; // a zombie is dead
    bootId ||= readFileSync('/proc/sys/kernel/random/boot_id', 'latin1').trim();
    return `${bootId}/${stat.startTime}`;
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : '';
    if (code === 'ENOENT' || code === 'ESRCH') return undefined; // no such process
    throw error; // out of file descriptors, say: that does not mean that it has ended
  }
}

/** What a command prints, or undefined if it fails: a process that is not there makes `ps` fail. */
function output(command: string, args: string[]): Promise<string | undefined> {
  return new Promise((resolve) => {
    execFile(command, args, { timeout: PS_MS, env: { ...process.env, TZ: 'UTC', LC_ALL: 'C' } }, (error, stdout) => {
      resolve(error ? undefined : stdout.trim() || undefined);
    });
  });
}

/** `ps -o stat=,lstart=` of one process on macOS: "S+   Mon Nov  2 10:00:00 2026". */
export function parsePs(text: string): string | undefined {
  const [, state, started] = /^(\S+)\s+(\S.*)$/.exec(text.trim()) ?? [];
  return state === undefined || state.startsWith('Z') ? undefined : started;
}

// One row a system: how to ask when a process started.
const START_TIME: Record<string, (pid: number) => string | undefined | Promise<string | undefined>> = {
  linux: linuxStartTime,
  darwin: async (pid) => parsePs((await output('ps', ['-o', 'stat=,lstart=', '-p', String(pid)])) ?? ''),
  win32: (pid) => output('powershell.exe', ['-NoProfile', '-NonInteractive', '-Command',
    `(Get-CimInstance Win32_Process -Filter 'ProcessId=${pid}').CreationDate.ToUniversalTime().ToString('o')`]),
};

/** Who has this pid now; undefined if nobody (alive) has. */
export async function identify(pid: number): Promise<Identity | undefined> {
  if (!Number.isSafeInteger(pid) || pid <= 0) return undefined;
  const startTime = await (START_TIME[process.platform] ?? linuxStartTime)(pid);
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

// --------------------------------------------------------------------------------------------------------- signals

/** Signals a process if it is still the one that was recorded. Returns whether a signal was sent. */
export async function kill(who: Identity, signal: NodeJS.Signals): Promise<boolean> {
  if (!(await isAlive(who).catch(() => false))) return false; // who cannot be looked at is not signalled
  try {
    process.kill(who.pid, signal);
    return true;
  } catch {
    return false; // it ended in between
  }
}
