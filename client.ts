// client.ts: the puppet. Terminals, output channels and commands of a workspace live in this process.
//
// Runs in    plain node (`node bootstrap.js client <workspace>`), one process a workspace, or the extension host of a VS Code
//            window that a Host has opened: there its terminals are in the panel, and channels, problems and commands work.
// Started by its Host. It ends when the Host says so, or when no Host has held it for 10 s (bootstrap.js).
// Touches    its own pipe; shells on pseudo terminals made by `script`; /proc to see who waits for input;
//            <workspace>/.devtools/logs/ for output that is too long to answer with.
// Refuses    to be stopped by anybody but a Host, and to start a process that the Host has not put into its ledger.
//
// Sections   limits · clean text · output of a run · terminals · waiting for input · shells · methods · in a window · the panel

import { execFile, spawn, type ChildProcessByStdio } from 'node:child_process';
import crypto from 'node:crypto';
import fs from 'node:fs';
import inspector from 'node:inspector';
import os from 'node:os';
import path from 'node:path';
import type { Readable, Writable } from 'node:stream';
import { StringDecoder } from 'node:string_decoder';
import vm from 'node:vm';
import type * as Vscode from 'vscode';
import {
  PROTOCOL, VERSION, deadline, devtoolsDir, failure, isObject, matchingLines, messageOf, openPrivate, plainEnv, privateDir, tagPrefix, writePrivate, type IncomingCall, type Role,
} from './bootstrap.js';

// ---------------------------------------------------------------------------------------------------------- limits

const TERMINALS_CAP = 32;
const COMMAND_CAP = 4 * 1024 * 1024;
const HEAD_CAP = 12 * 1024; // characters of a run's output that a result shows from its beginning,
const TAIL_CAP = 20 * 1024; // and from its end
const LOG_CAP = 512 * 1024 * 1024; // characters of one run's log
const LOGS_KEPT = 20;
const BUFFER_CAP = 128 * 1024; // characters that a terminal remembers of all its runs
const HISTORY_CAP = 50;
const ENDED_KEPT = 16; // terminals whose shell has ended, for terminal_wait and terminal_read
const SHELL_READY_MS = 15_000; // the user's own rc file runs in this time
const HOST_MS = 5000; // the Host acknowledges what is reported to it
const END_REPORT_MS = 500; // and the end of a run within this, or the answer does not wait for it
const HOST_CLOSE_MS = 10_000; // it ends what a closed terminal left within this
const STARTING_MS = 300; // a shell starts the command that it has taken within this
const GRACE_MS = 3000; // a shell that does not tell is believed to be idle when it has shown a prompt for so long
const CLOSE_MS = 1000; // a hung-up shell ends within this
const STREAM_MS = 1500; // what VS Code hands on of a command that is over comes within this, or not at all
const TYPED_MS = 500; // what a person has sent off with Enter is running within this, or over
const INTERRUPT_MS = 2000; // what was interrupted may take this long to end before the answer
const TIMEOUT_MS = 120_000;
const TIMEOUT_CAP = 24 * 3_600_000;
const COMMAND_MS = 10_000; // a VS Code command comes back within this, or is said to be under way
const EXEC_MS = 10_000; // the same for code,
const EXEC_SYNC_MS = 2500; // of which no more without a pause: meanwhile the extension host hears nothing
const CHANNEL_TAIL = 4 * 1024 * 1024; // bytes of a channel that are looked at
const LISTED_CAP = 500;
const ANSWER_CAP = 32 * 1024; // characters of an answer's lists and values
const VALUE_DEPTH = 8;
const VALUE_ITEMS = 500;
const TAG = 'VSCODE_DEVTOOLS_TAG'; // by which the ledger finds what was started here: ledger.ts

type Json = Record<string, unknown>;

// ------------------------------------------------------------------------------------------------------ clean text
// What a program writes to a terminal, as the text a person would have read. Carriage returns, backspaces and cursor
// movement are applied to the last rows, colours and titles go, an alternate screen shows only while it is up. Text is
// handed on when its row can no longer change; nothing that was shown is lost to a cleared screen.

const ROWS = 50; // of the terminal: as many rows can still change
const COLUMNS = 200;
const ROW_CAP = 4096; // characters of a row that can still change; of a longer one only the end can
const HELD_CAP = 64 * 1024; // an unfinished escape sequence; a longer one is not kept, only skipped

// One token: a control sequence, an operating system command, another string, a short escape, a control character, or text.
const TOKEN = /\x1b\[([0-?]*)[ -/]*([@-~])|\x1b\]([^\x07\x18\x1a\x1b]*)(?:\x07|\x1b\\|(?=[\x18\x1a]|\x1b[^\\]))|\x1b[PX^_][^\x18\x1a\x1b]*(?:\x1b\\|(?=[\x18\x1a]|\x1b[^\\]))|\x1b[ -/]*[0-OQ-WYZ`-~\\]|[\x00-\x08\x0a-\x1a\x1c-\x1f\x7f]|[^\x00-\x08\x0a-\x1f\x7f]+/y;
const UNFINISHED = /^\x1b(?:\[[0-?]*[ -/]*|\][^\x07\x18\x1a\x1b]*\x1b?|[PX^_][^\x18\x1a\x1b]*\x1b?|[ -/]*)$/;
const PLAIN = /^[^\x00-\x08\x0b-\x1f\x7f]*$/; // text, tabs and newlines

export class Cleaner {
  private rows: string[] = [''];
  private row = 0;
  private column = 0;
  private saved: { row: number; column: number } = { row: 0, column: 0 };
  private main: { rows: string[]; row: number; column: number } | undefined; // while the alternate screen is up
  private held = ''; // the beginning of an escape sequence, or a \r whose \n may follow
  private skipping = false; // inside a string that was too long to hold

  readonly onText: (text: string) => void; // rows that cannot change any more, each with its newline
  readonly onMark: (body: string) => void; // the body of an OSC 633
  readonly onQuestion: (answer: string) => void; // what a terminal answers when it is asked where the cursor is, or how it is

  constructor(onText: (text: string) => void, onMark: (body: string) => void = () => {}, onQuestion: (answer: string) => void = () => {}) {
    this.onText = onText;
    this.onMark = onMark;
    this.onQuestion = onQuestion;
  }

  write(chunk: string): void {
    let text = this.held + chunk;
    this.held = '';
    if (this.skipping) {
      const end = text.search(/[\x07\x18\x1a]|\x1b[^]/); // another escape ends it too: it may be a mark
      if (end < 0) return void (this.held = text.endsWith('\x1b') ? '\x1b' : '');
      text = text.slice(end + (text[end] !== '\x1b' ? 1 : text[end + 1] === '\\' ? 2 : 0));
      this.skipping = false;
    }
    if (text.endsWith('\r')) {
      this.held = '\r';
      text = text.slice(0, -1);
    }
    if (text.includes('\r\n')) text = text.replaceAll('\r\n', '\n');
    if (!this.main && this.isAtEnd() && PLAIN.test(text)) return this.append(text);
    this.interpret(text);
  }

  /** What is not yet handed on: rows that may still change. */
  pending(): string {
    const own = this.rows.join('\n');
    return this.main ? [...this.main.rows, own.trimEnd()].join('\n') : own;
  }

  /** The row that the cursor is on: the question, if there is one. */
  currentRow(): string {
    return this.rows[this.row] ?? '';
  }

  get inAlternateScreen(): boolean {
    return this.main !== undefined;
  }

  /** Takes back the last row with text if it is one that nobody was meant to see. */
  dropLast(pattern: RegExp): void {
    const last = this.rows.length - (this.rows.at(-1) === '' ? 2 : 1);
    if (last < 0 || this.main || !pattern.test(this.rows[last] ?? '')) return;
    this.rows.length = last + 1;
    this.rows[last] = '';
    this.row = last;
    this.column = 0;
  }

  /** Takes back the row that the cursor is on: it was a prompt. */
  dropRow(): void {
    this.rows[this.row] = '';
    this.column = 0;
  }

  /** Hands on everything as it stands: what comes next begins at the left of a new screen. */
  flush(): void {
    if (this.main) this.leaveAlternateScreen();
    const last = this.rows.pop() ?? '';
    if (this.rows.length || last) this.onText([...this.rows, last].join('\n'));
    this.rows = [''];
    this.row = this.column = 0;
  }

  private isAtEnd(): boolean {
    return this.row === this.rows.length - 1 && this.column === length(this.rows[this.row] ?? '');
  }

  /** The quick way, for most of what is ever printed. */
  private append(text: string): void {
    const all = (this.rows.pop() ?? '') + text;
    let cut = all.length;
    for (let left = ROWS; left > 0 && cut >= 0; left--) cut = cut === 0 ? -1 : all.lastIndexOf('\n', cut - 1);
    const ready = this.rows.length ? `${this.rows.join('\n')}\n` : '';
    if (cut < 0) {
      this.rows.push(...all.split('\n'));
      this.commit(this.rows.length - ROWS);
    } else {
      this.onText(ready + all.slice(0, cut + 1));
      this.rows = all.slice(cut + 1).split('\n');
    }
    this.row = this.rows.length - 1;
    this.column = length(this.rows[this.row] ?? '');
    this.shorten();
  }

  /** Hands on the beginning of a row that has become too long. */
  private shorten(): void {
    const row = this.rows[this.row] ?? '';
    if (row.length <= ROW_CAP || this.main) return void (this.main && row.length > ROW_CAP && (this.rows[this.row] = row.slice(0, ROW_CAP)));
    this.commit(this.row);
    const cut = safeCut(row, row.length - ROW_CAP / 2);
    this.onText(row.slice(0, cut));
    this.rows[0] = row.slice(cut);
    this.column = Math.max(0, this.column - length(row.slice(0, cut)));
  }

  private interpret(text: string): void {
    for (let at = 0; at < text.length; ) {
      TOKEN.lastIndex = at;
      const token = TOKEN.exec(text);
      if (!token) {
        const rest = text.slice(at);
        if (UNFINISHED.test(rest)) return this.hold(rest);
        at++; // an escape that begins nothing
        continue;
      }
      const [all, parameters, final, command] = token;
      at += all.length;
      if (command !== undefined && !all.endsWith('\x07') && !all.endsWith('\x1b\\')) continue; // cut short: it says nothing
      if (final !== undefined) this.control(parameters ?? '', final);
      else if (command !== undefined) this.operatingSystemCommand(command);
      else if (all.charCodeAt(0) > 0x1f || all[0] === '\t') this.print(all);
      else this.character(all);
    }
  }

  /** No token fits: an escape sequence that has not ended. */
  private hold(rest: string): void {
    if (rest.length <= HELD_CAP) this.held = rest + this.held;
    else this.skipping = !rest.startsWith('\x1b['); // no control sequence is so long: what follows is text
  }

  private print(text: string): void {
    for (let at = 0; at < text.length; ) {
      const end = Math.min(text.length, safeCut(text, at + ROW_CAP)); // a piece at a time, so that no row grows without bound
      this.printPiece(text.slice(at, end));
      at = end;
    }
  }

  private printPiece(text: string): void {
    const row = this.rows[this.row] ?? '';
    const size = length(text);
    if (this.column === length(row)) this.rows[this.row] = row + text;
    else if (text.includes('\t')) return this.printOverTabs(text);
    else this.edit((cells) => {
      while (cells.length < this.column) cells.push(' ');
      cells.splice(this.column, size, ...text);
    });
    this.column += size;
    this.shorten();
  }

  /** Over what is there a tab only moves. */
  private printOverTabs(text: string): void {
    for (const part of text.split(/(\t)/)) {
      if (part === '\t' && this.column !== length(this.rows[this.row] ?? '')) this.column = Math.min(this.column + 8 - (this.column % 8), 10 * COLUMNS);
      else if (part) this.printPiece(part);
    }
  }

  private edit(change: (cells: string[]) => void): void {
    const cells = Array.from(this.rows[this.row] ?? '');
    change(cells);
    this.rows[this.row] = cells.slice(0, 2 * ROW_CAP).join('');
  }

  private character(all: string): void {
    if (all === '\n') this.newline();
    else if (all === '\r') this.column = 0;
    else if (all === '\b') this.column = Math.max(0, this.column - 1);
    else if (all === '\x1b7') this.saved = { row: this.row, column: this.column };
    else if (all === '\x1b8') this.moveTo(this.saved.row, this.saved.column);
    else if (all === '\x1bM') this.moveTo(this.row - 1, this.column);
    else if (all === '\x1bc') this.clear();
  }

  private newline(): void {
    this.column = 0; // the terminal's \r was before it, or the program meant it
    this.row++;
    if (this.row === this.rows.length) this.rows.push('');
    if (this.rows.length > ROWS) this.commit(1);
  }

  private moveTo(row: number, column: number): void {
    this.row = Math.max(0, Math.min(row, ROWS - 1));
    this.column = Math.max(0, Math.min(column, 10 * COLUMNS));
    while (this.rows.length <= this.row) this.rows.push('');
  }

  private control(parameters: string, final: string): void {
    if (parameters.startsWith('?')) return this.setMode(parameters.slice(1), final);
    const [first = 0, second = 0] = parameters.split(';').map((digits) => Number.parseInt(digits, 10) || 0);
    const count = Math.min(first || 1, 10 * COLUMNS);
    if (final === 'A' || final === 'F') this.moveTo(this.row - count, final === 'F' ? 0 : this.column);
    else if (final === 'B' || final === 'E') this.moveTo(this.row + count, final === 'E' ? 0 : this.column);
    else if (final === 'C') this.column = Math.min(this.column + count, 10 * COLUMNS);
    else if (final === 'D') this.column = Math.max(0, this.column - count);
    else if (final === 'G' || final === '`') this.column = count - 1;
    else if (final === 'd') this.moveTo(count - 1, this.column);
    else if (final === 'H' || final === 'f') this.home(count - 1, (second || 1) - 1);
    else if (final === 'K') this.eraseInRow(first);
    else if (final === 'J') this.eraseInScreen(first);
    else if (final === 'P') this.edit((cells) => cells.splice(this.column, count));
    else if (final === 'X') this.edit((cells) => cells.splice(this.column, count, ...' '.repeat(Math.max(0, Math.min(count, cells.length - this.column)))));
    else if (final === '@') this.edit((cells) => cells.splice(this.column, 0, ...' '.repeat(count)));
    else if (final === 's') this.saved = { row: this.row, column: this.column };
    else if (final === 'u') this.moveTo(this.saved.row, this.saved.column);
    else if (final === 'n' && first === 6) this.onQuestion(`\x1b[${this.row + 1};${Math.min(this.column + 1, COLUMNS)}R`);
    else if (final === 'n' && first === 5) this.onQuestion('\x1b[0n');
  }

  /** On the main screen the rows above have scrolled by: what is addressed is the screen that begins now. */
  private home(row: number, column: number): void {
    if (!this.main && row === 0 && column === 0) this.clear();
    else this.moveTo(row, column);
  }

  private eraseInRow(how: number): void {
    if (how === 0) this.edit((cells) => cells.splice(this.column));
    else if (how === 1) this.edit((cells) => cells.fill(' ', 0, this.column + 1));
    else this.rows[this.row] = '';
  }

  private eraseInScreen(how: number): void {
    if (how >= 2) return this.clear();
    if (how === 1) return void this.rows.fill('', 0, this.row);
    this.eraseInRow(0);
    this.rows.length = this.row + 1;
  }

  /** A cleared screen begins anew. What was on the main one was shown, so it is handed on. */
  private clear(): void {
    if (this.main) this.rows = [''];
    else this.commit(this.rows.length);
    this.row = this.column = 0;
  }

  private setMode(modes: string, final: string): void {
    if (!modes.split(';').some((mode) => ['47', '1047', '1049'].includes(mode))) return;
    if (final === 'h' && !this.main) {
      this.main = { rows: this.rows, row: this.row, column: this.column };
      this.rows = [''];
      this.row = this.column = 0;
    } else if (final === 'l' && this.main) this.leaveAlternateScreen();
  }

  private leaveAlternateScreen(): void {
    if (this.main) ({ rows: this.rows, row: this.row, column: this.column } = this.main);
    this.main = undefined;
  }

  private operatingSystemCommand(command: string): void {
    if (command.startsWith('633;')) this.onMark(command.slice(4));
    else if (command.startsWith('9633;')) this.onMark(command.slice(5)); // where 633 is VS Code's own
  }

  /** Hands on the first rows, each with a newline; an empty last row is none. */
  private commit(count: number): void {
    if (count <= 0) return;
    const ready = this.rows.splice(0, count);
    if (!this.rows.length) {
      this.rows.push('');
      this.column = 0;
      if (ready.at(-1) === '') ready.pop();
    }
    this.row = Math.max(0, this.row - count);
    if (ready.length) this.onText(`${ready.join('\n')}\n`);
  }
}

/** In characters as a person counts them, nearly: code points. */
function length(text: string): number {
  return /[\ud800-\udbff]/.test(text) ? Array.from(text).length : text.length;
}

// ------------------------------------------------------------------------------------------------- output of a run
// Bounded in memory whatever a command prints: its beginning, its end, an exact count of what is between, and the whole
// of it in a log file as soon as it does not fit.

export class Output {
  private head = '';
  private isHeadFull = false; // its last character may have needed two units where there was room for one
  private tail = '';
  private characters = 0;
  private newlines = 0;
  private logged = 0;
  private log: number | undefined; // file descriptor
  private bytes = 0; // of the log that stand
  private unsettled = 0; // and behind them, of rows that may still change
  private isLogCut = false; // the disk or the cap did not take all
  logFile: string | undefined;
  private readonly openLog: () => { file: string; fd: number } | undefined;

  constructor(openLog: () => { file: string; fd: number } | undefined) {
    this.openLog = openLog;
  }

  append(text: string): void {
    this.characters += text.length;
    for (let at = text.indexOf('\n'); at >= 0; at = text.indexOf('\n', at + 1)) this.newlines++;
    if (this.log === undefined && this.logFile === undefined && this.characters > HEAD_CAP + TAIL_CAP) this.startLog();
    this.writeLog(text);
    if (!this.isHeadFull) {
      const room = safeCut(text, HEAD_CAP - this.head.length);
      this.head += text.slice(0, room);
      text = text.slice(room);
      if (text === '') return;
      this.isHeadFull = true;
    }
    this.tail = text.length >= TAIL_CAP ? text.slice(-2 * TAIL_CAP) : this.tail + text;
    if (this.tail.length > 4 * TAIL_CAP) this.tail = this.tail.slice(-2 * TAIL_CAP);
  }

  private startLog(): void {
    const opened = this.openLog();
    this.logFile = opened?.file ?? '';
    this.log = opened?.fd;
    this.writeLog(this.head + this.tail); // all there is so far
  }

  private writeLog(text: string): void {
    if (this.log === undefined || this.logged > LOG_CAP) return;
    try {
      this.dropUnsettled();
      this.bytes += this.writeAtEnd(text);
      this.logged += text.length;
      if (this.logged <= LOG_CAP) return;
      this.isLogCut = true;
      this.writeAtEnd(`\n[the log ends here: it has its ${LOG_CAP} characters]\n`);
    } catch {
      this.isLogCut = true; // a full disk: the result still has beginning and end
      this.close();
    }
  }

  private writeAtEnd(text: string): number {
    const bytes = Buffer.from(text);
    if (this.log !== undefined && fs.writeSync(this.log, bytes, 0, bytes.length, this.bytes) < bytes.length) throw new Error('the disk is full');
    return bytes.length;
  }

  /** Rows that may still change are in the log as they stand, until more is written: it is complete whenever it is named. */
  private writeUnsettled(pending: string): void {
    if (this.log === undefined || this.logged > LOG_CAP) return;
    try {
      this.dropUnsettled();
      this.unsettled = Buffer.byteLength(pending); // before the write: a part may be written
      this.writeAtEnd(pending);
    } catch {
      this.isLogCut = true; // a full disk, as above
      this.close();
    }
  }

  private dropUnsettled(): void {
    if (this.log !== undefined && this.unsettled) fs.ftruncateSync(this.log, this.bytes);
    this.unsettled = 0;
  }

  close(): void {
    if (this.log === undefined) return;
    try {
      this.dropUnsettled();
    } catch {
      // what may still have changed stays as it was
    }
    fs.closeSync(this.log);
    this.log = undefined;
  }

  /** Beginning and end, with what may still change (`pending`), and the exact count of what is left out. */
  show(pending = ''): { output: string; truncated?: { lines: number; characters: number } } {
    const end = this.tail + pending;
    if (this.head.length + end.length <= HEAD_CAP + TAIL_CAP && this.characters === this.head.length + this.tail.length) return { output: this.head + end };
    if (this.logFile === undefined) this.startLog(); // only what is pending made it too long: what is left out must be somewhere
    this.writeUnsettled(pending);
    const firstWhole = end.indexOf('\n', end.length - TAIL_CAP) + 1;
    const shown = end.slice(firstWhole > 0 && firstWhole < end.length ? firstWhole : safeCut(end, end.length - TAIL_CAP));
    const characters = this.characters + pending.length - this.head.length - shown.length;
    const lines = this.newlines + count(pending) - count(this.head) - count(shown);
    const where = this.logFile ? `; ${this.isLogCut ? 'the beginning' : 'all'} of it is in ${this.logFile}` : '';
    return { output: `${this.head}\n[... ${lines} lines, ${characters} characters left out${where} ...]\n${shown}`, truncated: { lines, characters } };
  }
}

const count = (text: string): number => text.split('\n').length - 1;

/** A place to cut at or just before `at` that does not part a surrogate pair. */
function safeCut(text: string, at: number): number {
  const code = text.charCodeAt(at);
  return at > 0 && code >= 0xdc00 && code <= 0xdfff ? at - 1 : at;
}

// ------------------------------------------------------------------------------------------------------- terminals
// A run is over when the shell says so in its output: a mark with a nonce that only the shell knows. The mark stands behind
// the last byte of the command's output, so nothing is waited for and nothing is missed. Where the bytes come from is
// the backend's matter (a pseudo terminal here, VS Code's terminal in a window).

/** What a terminal is made of. */
export type Backend = {
  pid: number; // of the shell
  shell: string;
  tells: boolean; // whether the shell marks the start and the end of a command
  /** Has the shell take a command: it must then report `onStart` and `onEnd`. */
  run: (id: number, command: string) => void;
  write: (text: string) => void;
  signal: (signal: NodeJS.Signals) => boolean; // to what runs in the foreground
  isTaken: () => boolean; // by a command that a person has typed
  /** What the kernel knows of who waits for input. */
  evidence: () => Evidence;
  isSecret: () => Promise<boolean>;
  cwd: () => string | undefined;
  enter: (dir: string, command: string) => string;
  assign: (name: string, value: string) => string;
  close: () => Promise<void>;
};

type Run = {
  id: number;
  command: string;
  output: Output;
  startedAt: number; // performance.now()
  at: string; // wall clock
  begun: boolean; // the shell has taken it
  graceMs: number;
  endedAt?: number;
  exitCode: number | null;
  exitReason?: string;
  neverRan?: string; // why
  reported?: Promise<void>; // its end, to the ledger
  note?: string; // for the agent
};

type Asking = { prompt: string; secret: boolean };

export class Terminal {
  readonly name: string;
  readonly id: string;
  backend: Backend | undefined;
  current: Run | undefined; // under way
  last: Run | undefined;
  closed = '';
  asking: Asking | undefined;
  readonly history: Array<{ at: string; kind: 'command' | 'input'; text: string }> = [];
  private buffer = '';
  private quietSince = performance.now();
  private waiters = new Set<() => void>();
  private watching: NodeJS.Timeout | undefined;
  private readonly cleaner: Cleaner;
  private readonly openLog: (run: number) => { file: string; fd: number } | undefined;
  private readonly patterns: readonly RegExp[];
  onRunEnd: (run: Run) => Promise<void> = async () => {};
  onExit: () => void = () => {};
  onTaken: (id: number) => void = () => {}; // the shell has read the command
  wasTaken: (id: number) => boolean = () => false; // whether it has, where its mark did not come through
  onRaw: (text: string) => void = () => {}; // for who shows it to a person
  onLaunch: (command: string) => void = () => {};
  sentOffAt = -Infinity; // when a person has last pressed Enter in it
  onMiss: (row: string) => void = () => {}; // an unfinished line that no pattern knows, where nothing but patterns tells
  closing = false;
  private missed = '';
  private redraws: number[] = []; // when the row that the cursor is on was last written over
  private echo = '';
  private trigger = ''; // what we typed and the terminal echoes: not for anybody's eyes
  private runs = 0;

  constructor(name: string, id: string, onMark: (mark: string) => void, openLog: (run: number) => { file: string; fd: number } | undefined, patterns: readonly RegExp[]) {
    this.name = name;
    this.id = id;
    this.openLog = openLog;
    this.patterns = patterns;
    // Ruby's line editor, and others, show nothing before they have that answer.
    this.cleaner = new Cleaner((text) => this.onText(text), onMark, (answer) => void (this.current?.begun && this.backend?.write(answer)));
  }

  /** Takes the terminal for a command that is about to start. The caller has made sure that it is idle. */
  reserve(command: string, graceMs = GRACE_MS): Run {
    const id = ++this.runs;
    const run: Run = { id, command, output: new Output(() => this.openLog(id)), startedAt: performance.now(), at: new Date().toISOString(), begun: false, graceMs, exitCode: null };
    this.current = run;
    this.asking = undefined;
    return run;
  }

  /** The run was not started after all: whoever waits for it is told. */
  abandon(run: Run): void {
    if (this.current !== run) return;
    this.current = undefined;
    Object.assign(run, { endedAt: performance.now(), neverRan: 'it was not started' });
    this.wake();
  }

  /** Gives the shell what it is to run. */
  launch(run: Run, text: string): void {
    if (!this.backend) throw failure('E_CLOSED', `terminal ${this.name} has ended: ${this.closed}`);
    this.takeIdleText();
    this.remember('command', run.command);
    this.addToBuffer(`$ ${run.command}\n`);
    run.startedAt = performance.now();
    this.onLaunch(run.command);
    this.backend.run(run.id, text);
  }

  /** What the backend typed to start a run. */
  echoes(trigger: string): void {
    this.trigger = trigger;
  }

  onData(text: string): void {
    const before = this.cleaner.currentRow();
    this.quietSince = performance.now();
    this.asking = undefined;
    this.onRaw(text);
    this.cleaner.write(text);
    this.noteRedraw(before, text);
    if (this.current && this.waiters.size) this.watch();
  }

  /** A row that is written over again and again is progress: when that was last done, and when before. */
  private noteRedraw(before: string, text: string): void {
    const after = this.cleaner.currentRow();
    if (text.includes('\n')) this.redraws = [];
    else if (before.trim() !== '' && !after.startsWith(before.trimEnd())) this.redraws = [...this.redraws.slice(1 - REDRAWS), this.quietSince];
  }

  private isRedrawing(): boolean {
    const [first = 0] = this.redraws;
    return this.redraws.length === REDRAWS && performance.now() - first < REDRAWN_MS;
  }

  /** The shell has taken the command. One that does not tell echoes it. */
  onStart(id: number, echo = ''): void {
    if (this.current?.id !== id || this.current.begun) return;
    this.takeIdleText();
    this.echo = echo;
    this.current.begun = true;
    this.onTaken(id);
    this.wake();
  }

  showsPrompt(): boolean {
    return SHELL_PROMPTS.some((pattern) => pattern.test(this.cleaner.currentRow()));
  }

  onEnd(id: number, exitCode: number | null, exitReason?: string): void {
    const run = this.current;
    if (run?.id !== id) return; // told twice: by the command line and by the prompt
    this.cleaner.dropLast(END_TRACE);
    this.cleaner.flush();
    run.endedAt = performance.now();
    run.exitCode = exitCode;
    run.exitReason = exitReason ?? signalOf(exitCode);
    run.output.close();
    this.last = run;
    this.current = undefined;
    this.asking = undefined;
    clearTimeout(this.watching);
    run.reported = this.onRunEnd(run);
    this.wake();
  }

  /** The shell itself is gone. */
  onClosed(reason: string, exitCode: number | null): void {
    if (this.closed) return;
    this.closed = reason;
    const run = this.current;
    if (run && (run.begun || this.wasTaken(run.id))) this.onEnd(run.id, exitCode, signalOf(exitCode) ?? reason);
    else if (run) {
      run.neverRan = `${reason}, before it took the command`;
      this.onEnd(run.id, null, reason);
    }
    this.backend = undefined;
    this.onExit();
    this.wake();
  }

  private onText(text: string): void {
    const run = this.current;
    if (this.echo) text = text.startsWith(`${this.echo}\n`) ? text.slice(this.echo.length + 1) : text;
    this.echo = '';
    if (run?.begun) run.output.append(text);
    this.addToBuffer(text);
  }

  /** Text that belongs to no run: a background job's, kept; our own trigger's echo, not. */
  private takeIdleText(): void {
    const before = this.buffer.length;
    this.cleaner.flush();
    if (this.trigger) this.buffer = this.buffer.slice(0, before) + this.buffer.slice(before).replace(this.trigger, '').replace(/^\n/, '');
  }

  private addToBuffer(text: string): void {
    this.buffer += text.length > BUFFER_CAP ? text.slice(-BUFFER_CAP) : text;
    if (this.buffer.length > 2 * BUFFER_CAP) this.buffer = this.buffer.slice(-BUFFER_CAP);
  }

  private remember(kind: 'command' | 'input', text: string): void {
    this.history.push({ at: new Date().toISOString(), kind, text: text.length > 1000 ? `${text.slice(0, 1000)}…` : text });
    if (this.history.length > HISTORY_CAP) this.history.shift();
  }

  /** Answers a question. What is said is not kept: whether it is a secret is known only while the question stands. */
  input(text: string, addNewline: boolean): void {
    this.remember('input', `(${text.length} characters)`);
    this.asking = undefined;
    this.redraws = []; // what is redrawn now shows what was typed
    this.quietSince = performance.now();
    this.backend?.write(addNewline ? `${text}\r` : text);
  }

  /** The last lines that were shown. */
  read(lastN?: number): string {
    const text = this.buffer + this.cleaner.pending();
    return lastN === undefined ? text : text.trimEnd().split('\n').slice(-lastN).join('\n');
  }

  private wake(): void {
    for (const waiter of [...this.waiters]) waiter();
  }

  /** Waits until a run is over, asks for input, or the time is up. Several may wait. */
  async wait(run: Run, timeoutMs: number, call: IncomingCall, background: boolean): Promise<Json> {
    // A question that was seen before may have been given up since: the kernel is asked again.
    if (this.asking && this.current === run && this.question(performance.now() - this.quietSince) === undefined) this.asking = undefined;
    const isSettled = (): boolean => run.endedAt !== undefined || (background ? run.begun : this.asking !== undefined);
    if (!isSettled()) {
      await new Promise<void>((resolve) => {
        const done = (): void => {
          inTime();
          this.waiters.delete(waiter);
          call.signal.removeEventListener('abort', done);
          if (!this.waiters.size) clearTimeout(this.watching);
          resolve();
        };
        const waiter = (): void => void (isSettled() && done());
        const inTime = deadline(timeoutMs, done);
        this.waiters.add(waiter);
        call.signal.addEventListener('abort', done);
        if (!background) this.watch();
      });
    }
    await run.reported; // so that the ledger in the same answer knows of it
    if (run.neverRan) throw failure('E_CLOSED', `the command did not run, not even in part: ${run.neverRan}. Call again: where a shell has ended, terminal_run makes a new one, without the directory and variables of the one before`);
    return this.result(run, background);
  }

  result(run: Run, background = false): Json {
    const over = run.endedAt !== undefined;
    const status = over ? 'completed' : this.asking ? 'waiting_for_input' : background ? 'running' : 'timeout';
    const { output, truncated } = run.output.show(over || !run.begun ? '' : this.cleaner.pending());
    return {
      status, output, exitCode: run.exitCode, ...(run.exitReason !== undefined && { exitReason: run.exitReason }),
      ...(status === 'waiting_for_input' && this.asking), pid: this.backend?.pid ?? null, name: this.name, terminalId: this.id,
      durationMs: Math.round((run.endedAt ?? performance.now()) - run.startedAt), ...(truncated && { truncated }), ...(run.output.logFile && { logFile: run.output.logFile }), ...(run.note && { advice: run.note }),
    };
  }

  // While somebody waits and nothing is printed, the kernel is asked who waits for input: soon, then less and less often.
  private watch(after = QUIET_MS): void {
    clearTimeout(this.watching);
    this.watching = setTimeout(async () => {
      const run = this.current;
      if (!run?.begun || !this.waiters.size || this.asking) return;
      const quietFor = performance.now() - this.quietSince;
      if (this.backend?.tells === false && quietFor >= run.graceMs && this.showsPrompt()) return this.onPromptShown(run);
      const question = this.question(quietFor);
      if (question === undefined) return this.watch(quietFor < UNKNOWN_QUIET_MS ? QUIET_MS : Math.min(2 * after, WATCH_MS));
      const secret = (await this.backend?.isSecret()) ?? false;
      if (this.current !== run || performance.now() - this.quietSince < quietFor) return; // it went on meanwhile
      this.asking = { prompt: question, secret };
      this.wake();
    }, after);
  }

  /** The question that the run waits with, or undefined. */
  private question(quietFor: number): string | undefined {
    const row = this.cleaner.currentRow().slice(-PROMPT_CAP).trimEnd();
    const evidence = this.backend?.evidence() ?? 'unknown';
    if (evidence === 'busy' || (evidence === 'shell reading' && quietFor < SHELL_QUIET_MS)) return undefined; // its mark may still be on the way
    const shown = row || lastLine(this.cleaner.pending()).slice(-PROMPT_CAP).trimEnd();
    if (evidence === 'reading' || evidence === 'shell reading') return shown;
    if (evidence === 'polling' && this.cleaner.inAlternateScreen && quietFor >= POLLING_QUIET_MS) return shown; // an editor
    if (HINTS.some((pattern) => pattern.test(shown)) || this.isRedrawing()) return undefined;
    if (evidence === 'reading beside sleepers') return this.isKnown(shown) || !PROGRESS.some((pattern) => pattern.test(shown)) ? shown : undefined;
    if (evidence === 'reading beside workers') return this.asks(row) ? row : undefined;
    if (evidence === 'polling' && quietFor >= POLLING_QUIET_MS) return this.asks(row) ? row : (menuOf(this.cleaner.pending()) ?? this.miss(row, quietFor));
    if (evidence === 'polling' || row === '' || quietFor < UNKNOWN_QUIET_MS) return undefined;
    return this.isKnown(row) ? row : this.miss(row, quietFor);
  }

  /** Whether an unfinished row has the form of a question. */
  private asks(row: string): boolean {
    return this.isKnown(row) || (QUESTIONS.some((pattern) => pattern.test(row)) && !PROGRESS.some((pattern) => pattern.test(row)));
  }

  private isKnown(row: string): boolean {
    return this.patterns.some((pattern) => pattern.test(row));
  }

  private miss(row: string, quietFor: number): undefined {
    if (row !== '' && quietFor >= MISS_MS && this.missed !== row) this.onMiss((this.missed = row));
  }

  /** A shell that does not tell shows a prompt, and nothing more: the command is over, as far as one can see. */
  private onPromptShown(run: Run): void {
    this.cleaner.dropRow();
    this.onEnd(run.id, null, 'this shell does not tell exit codes');
  }
}

const lastLine = (text: string): string => text.trimEnd().split('\n').at(-1) ?? '';

/** What `set -x` shows of the end of a run, before that can hide it. */
const END_TRACE = /^\+\S* ?__vdt_(end|prompt)\b/;

/** The signal that a shell's exit code stands for. */
function signalOf(exitCode: number | null): string | undefined {
  if (exitCode === null || exitCode <= 128) return undefined;
  return Object.entries(os.constants.signals).find(([, number]) => number === exitCode - 128)?.[0];
}

// ----------------------------------------------------------------------------------------------- waiting for input
// The kernel knows: where a process of the foreground group is blocked in a read of the terminal and nothing else of the
// group can go on, input is waited for. A reader beside others may only listen for keys: what works beside it must rest,
// or the row must be a question. The same for one that waits for events, the terminal's among them: a quiet, unfinished
// row that looks like a question is the second witness. Where the kernel does not tell (other systems, setuid programs),
// a pattern must match.

export type Evidence = 'reading' | 'shell reading' | 'reading beside sleepers' | 'reading beside workers' | 'polling' | 'busy' | 'unknown';

const QUIET_MS = 100;
const WATCH_MS = 1000;
const SHELL_QUIET_MS = 350;
const POLLING_QUIET_MS = 300;
const UNKNOWN_QUIET_MS = 500;
const MISS_MS = 3000;
const REDRAWS = 2; // a row that was written over so often
const REDRAWN_MS = 2000; // within this is progress
const MENU_CAP = 8000; // characters in which a menu is looked for
const PROMPT_CAP = 1000; // characters of an unfinished line that are looked at

export const PROMPTS: readonly RegExp[] = [
  /\[[yYnN]\/[yYnN]\]\s*\??:?$/, /\(y(es)?\/no?\)\??:?$/i, /pass(word|phrase)[^:]*:$/i, /press (any key|enter|return)\b.*$/i, /^\(END\)$/, /^--More--/, /^\? .*[?:>›]/, /\b(continue|proceed|overwrite|sure)\b.*\?$/i,
];

// Unfinished lines that are no questions: what a server says of its keys, and a bar that has come to a stop.
export const HINTS: readonly RegExp[] = [/\bpress\s+['"`]?[a-z]['"`]?\s+(\+\s*enter\s+)?(for|to)\b/i, /\bctrl[-+]c\s+to\b/i, /^(?!--More--).*\d\s*%/, /\[[=#>.\-\s█░▒▓]{3,}\]?/];

// How unfinished rows end that are questions or the prompts of REPLs: `Name:`, `name: (x)`, `>>>`, `mysql>`, `(gdb)`, `$`, `?-`.
export const QUESTIONS: readonly RegExp[] = [
  /[?:>›❯»]$/, /[?:]\s*(\([^()]*\)|\[[^[\]]*\])$/, /^\([\w .:-]+\)$/, /\b(enter|type|choose|select|pick|input|which|answer)\b.*[)\]]$/i, /#$/, /(^|[^\d\s])\s?[$%]$/, /^\S*sh-[\d.]+\$$/, /^([*]|\?-)$/,
];

// And what ends the same way and is none: a tag, an arrow, an address, a count, dots, a spinner.
export const PROGRESS: readonly RegExp[] = [/<\/?[a-z!][^<>]*>$/i, /[-=~]{3,}>$/, /\b\w+:\/\/\S*$/, /\b\d+\s*(of|\/)\s*\d+\W*$/i, /(\.\.+|…)$/, /^[|/\\\u2800-\u28ff]\s+\w/, /\s[|/\\\u2800-\u28ff]$/];

/** A menu at the end of what is shown: a question, and below it nothing but what can be chosen. */
export function menuOf(shown: string): string | undefined {
  const rows = shown.slice(-MENU_CAP).trimEnd().split('\n');
  const at = rows.findLastIndex((row) => /^\s*(\?|◆) \s*\S/.test(row));
  const choices = rows.slice(at + 1);
  const isOpen = choices.length > 0 && /^\s*◆/.test(rows[at] ?? ''); // there the question that stands is marked so, whatever is below
  return at >= 0 && (isOpen || choices.some((row) => /[❯›>●◉○◯◻◼]/.test(row))) && choices.every((row) => /^[\s│└❯›>●◉○◯◻◼]/.test(row) || row === '') ? rows[at]?.trim() : undefined;
}

// What shells show when they are idle: only for those that do not tell.
export const SHELL_PROMPTS: readonly RegExp[] = [/^PS [A-Z]:\\.*>\s*$/, /^PS>\s*$/, /^[A-Z]:\\[^>]*>\s*$/, /^[\w.-]+@[^:]+:[^$#]*[$#]\s*$/, /^(\S+ )?[$#%❯»]\s*$/, /^\S*sh-[\d.]+[$#]\s*$/];

/** The patterns that a user has added, one a line; those that are no patterns are told. */
export function userPatterns(text: string, tell: (problem: string) => void): RegExp[] {
  return text.split('\n').map((line) => line.trim()).filter(Boolean).flatMap((line) => {
    try {
      return [new RegExp(line)];
    } catch (error) {
      tell(`VSCODE_DEVTOOLS_PROMPTS: ${messageOf(error)}`);
      return [];
    }
  });
}

// System calls by architecture: their numbers, and in what form those that wait for many descriptors name them. `other`
// waits for another process: for its end, or for a pipe's other side.
const CALLS: Record<string, Record<number, 'read' | 'epoll' | 'poll' | 'select' | 'other'>> = {
  x64: { 0: 'read', 19: 'read', 232: 'epoll', 281: 'epoll', 441: 'epoll', 7: 'poll', 271: 'poll', 23: 'select', 270: 'select', 1: 'other', 20: 'other', 34: 'other', 61: 'other', 130: 'other', 247: 'other' },
  arm64: { 63: 'read', 65: 'read', 22: 'epoll', 441: 'epoll', 73: 'poll', 72: 'select', 64: 'other', 66: 'other', 95: 'other', 133: 'other', 260: 'other' },
};
const MEMBERS_CAP = 256;
const TASKS_CAP = 64;
const DESCRIPTORS_CAP = 256;
const LOOK_MS = 50; // two looks are at least so far apart
const LOOKS_MS = 5000; // and at most, to be compared
const WORK_TICKS = 1; // more than this between them is work

/** What the foreground group had used of the processor at the last look. */
export type Look = { at: number; ticks: number };

/** Who of the foreground group of a shell's terminal waits for input. */
export function linuxEvidence(shell: number, last: Look): Evidence {
  const calls = CALLS[process.arch];
  if (!calls) return 'unknown';
  let [isReading, isShellReading, isPolling, isDenied, hasWorkers, hasOthers] = [false, false, false, false, false, false];
  const members = foreground(shell);
  for (const { pid, names } of members) {
    const isTerminal = (descriptor: number): boolean => names.includes(linkOf(`/proc/${pid}/fd/${descriptor}`) || 'none');
    for (const task of list(`/proc/${pid}/task`).slice(0, TASKS_CAP)) {
      const line = slurp(`/proc/${pid}/task/${task}/syscall`);
      if (line === undefined) isDenied = true;
      if (line?.startsWith('running')) hasWorkers = true;
      const [number = -1, first = -1, second = 0] = (line ?? '').split(' ').map(Number);
      const call = calls[number];
      const waitsFor = call === 'read' ? [first] : call === 'epoll' ? epolled(pid, first) : call === 'poll' ? polled(pid, first, second) : call === 'select' ? selected(pid, first, second) : [];
      if (!waitsFor.some(isTerminal)) hasOthers ||= call !== 'read' && call !== 'other';
      else if (call !== 'read') isPolling = true;
      else if (pid === shell) isShellReading = true;
      else isReading = true;
    }
  }
  const isWorking = hasWorked(members, last) || hasWorkers;
  if (isShellReading && !hasOthers) return 'shell reading';
  if (isReading && !hasOthers) return 'reading';
  if (isReading || isShellReading) return isWorking ? 'reading beside workers' : 'reading beside sleepers';
  if (isPolling) return 'polling';
  return isDenied || !members.length ? 'unknown' : 'busy';
}

/** Whether a group has used the processor since the last look; without one that can be compared, it may have. */
function hasWorked(members: Member[], last: Look): boolean {
  const now = { at: performance.now(), ticks: members.reduce((sum, { pid }) => sum + ticksOf(pid), 0) };
  const { at, ticks } = last;
  if (now.at - at < LOOK_MS) return true;
  Object.assign(last, now);
  return now.at - at > LOOKS_MS || now.ticks < ticks || now.ticks - ticks > WORK_TICKS;
}

/** User and system time of a process, in ticks of 10 ms. */
function ticksOf(pid: number): number {
  const fields = statFields(pid);
  return (Number(fields[11]) || 0) + (Number(fields[12]) || 0);
}

/** The descriptors that a poll waits to read from: an array of {int fd; short events; short revents}. */
function polled(pid: number, address: number, count: number): number[] {
  const memory = readMemory(pid, address, 8 * Math.min(count, DESCRIPTORS_CAP));
  if (!memory) return [0]; // who can be seen waiting, but not for what: the second witness decides
  return Array.from({ length: memory.length / 8 }, (_, i) => i).filter((i) => memory.readUInt16LE(8 * i + 4) & 1).map((i) => memory.readInt32LE(8 * i));
}

/** The descriptors in the set that a select waits to read from: one bit each. */
function selected(pid: number, count: number, address: number): number[] {
  const memory = readMemory(pid, address, Math.ceil(Math.min(count, DESCRIPTORS_CAP) / 8));
  if (!memory) return [0];
  return Array.from({ length: Math.min(count, DESCRIPTORS_CAP) }, (_, i) => i).filter((i) => (memory[i >> 3] ?? 0) & (1 << (i & 7)));
}

function readMemory(pid: number, address: number, size: number): Buffer | undefined {
  if (address === 0 || size === 0) return Buffer.alloc(0);
  let fd;
  try {
    fd = fs.openSync(`/proc/${pid}/mem`, 'r');
    const memory = Buffer.alloc(size);
    return fs.readSync(fd, memory, 0, size, address) === size ? memory : undefined;
  } catch {
    return undefined; // not ours to read, or gone
  } finally {
    if (fd !== undefined) fs.closeSync(fd);
  }
}

type Member = { pid: number; names: string[] }; // by which it has the shell's terminal open

/** The processes of the foreground group: the shell or its descendants. A descendant of theirs in another session (of su, of
 * setsid) counts too: it may read the terminal, but /dev/tty is another one there. */
function foreground(shell: number): Member[] {
  const [, , , session, , group] = statFields(shell);
  const tty = linkOf(`/proc/${shell}/fd/0`);
  const members: Member[] = [];
  const queue = [{ pid: shell, ofForeground: false }];
  for (let next = queue.shift(); next !== undefined && members.length < MEMBERS_CAP; next = queue.shift()) {
    const { pid } = next;
    const [, , ownGroup, ownSession] = statFields(pid);
    const isForeground = ownGroup === group || (next.ofForeground && ownSession !== session);
    if (isForeground) members.push({ pid, names: ownSession === session ? ['/dev/tty', tty] : [tty] });
    for (const task of list(`/proc/${pid}/task`)) {
      queue.push(...(slurp(`/proc/${pid}/task/${task}/children`) ?? '').split(' ').filter(Boolean).map((child) => ({ pid: Number(child), ofForeground: isForeground })));
    }
  }
  return members;
}

/** The fields of /proc/PID/stat after the name: state, ppid, pgrp, session, tty, tpgid, ... */
const statFields = (pid: number): string[] => (slurp(`/proc/${pid}/stat`) ?? '').replace(/^.*\) /s, '').split(' ');

function linkOf(file: string): string {
  try {
    return fs.readlinkSync(file);
  } catch {
    return ''; // closed, gone, or not ours to see
  }
}

/** The descriptors in an epoll set. */
function epolled(pid: number, epoll: number): number[] {
  return [...(slurp(`/proc/${pid}/fdinfo/${epoll}`) ?? '').matchAll(/^tfd:\s*(\d+)/gm)].map(([, descriptor]) => Number(descriptor));
}

function slurp(file: string): string | undefined {
  try {
    return fs.readFileSync(file, 'latin1');
  } catch {
    return undefined; // ended meanwhile, or not ours to see
  }
}

function list(dir: string): string[] {
  try {
    return fs.readdirSync(dir);
  } catch {
    return [];
  }
}

// ---------------------------------------------------------------------------------------------------------- shells
// One row a shell: how to start it so that it runs the user's own rc file and then ours. Ours defines two functions:
// one takes a command from a file and marks its start (so that no line editor, history expansion or line length of a
// terminal comes between), one marks its end when the prompt is back. The command itself runs at the top level, where
// declarations last. Names and marks carry a nonce.

type Shell = {
  args: (rc: string) => string[];
  env: (rc: string) => Record<string, string>;
  rc: (nonce: string, dir: string) => Record<string, string>; // files to write
  trigger: (nonce: string, id: number, dir: string) => string; // what is typed to have the command of that number run
  enter: (dir: string, command: string) => string; // a command in a directory; nothing runs if that cannot be entered
  assign: (name: string, value: string) => string;
};

/** What a shell must run to be a terminal is found here, whatever PATH is or becomes. */
const programFile = (name: string): string => ['/usr/bin', '/bin', ...(process.env.PATH ?? '').split(':')].map((dir) => `${dir}/${name}`).find((file) => fs.existsSync(file)) ?? name;

const KILL_LINE = '\x15'; // what was typed and not taken must not come before a command

const quote = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;

const posix = {
  trigger: (nonce: string, id: number): string => ` __vdt_${nonce} ${id} 2>/dev/null && :; \\eval "$__vdt_c"; __vdt_end "$?" 2>/dev/null && :`,
  enter: (dir: string, command: string): string => `cd -- ${quote(dir)} && eval ${quote(command)}`,
  assign: (name: string, value: string): string => `export ${name}=${quote(value)}`,
};

/** What the three have in common. `load` reads a file into $__vdt_c, `builtin` runs what the shell has itself, not a function
 * or program of that name. Marks go to the terminal whatever `exec` made of the shell's output, and a trace (set -x) does not
 * show them. The nonce is in no variable, so that no program gets it, and `&& :` keeps a status from setting off a trap (ERR)
 * or the end (set -e) again. What was left raw is found at no cost: there the character that has the terminal kill its line reaches the shell,
 * as a word before our trigger, and that word is an alias (anew at each end, for who drops all) for what brings back the modes of
 * the beginning. */
const common = (nonce: string, dir: string, builtin: string, load: (file: string) => string): string => `
__vdt_r=
__vdt_c=
__vdt_${nonce}() { __vdt_s=$?; __vdt_r=$1; ${load(`${quote(dir)}/"$1"`)} || __vdt_c='echo "the command could not be read" >&2; (exit 126)'; ${builtin} printf '' >|${quote(dir)}/"$1"; __vdt_mark C "$1"; return "$__vdt_s"; }
__vdt_end() { __vdt_c=; ${builtin} alias '${KILL_LINE}=__vdt_sane && :;'; __vdt_mark D "$__vdt_r;$1"; __vdt_arm; return "$1"; }
__vdt_mark() { ${builtin} printf '\\033]633;%s;${nonce};%s\\007' "$1" "$2" >/dev/tty; }
${quote(programFile('stty'))} rows ${ROWS} cols ${COLUMNS} 2>/dev/null
eval "__vdt_sane() { set -- \\$?; ${quote(programFile('stty'))} $(${quote(programFile('stty'))} -g </dev/tty 2>/dev/null || echo sane) </dev/tty 2>/dev/null; return \\$1; }"
__vdt_mark P "$$"
`;

export const SHELLS: Record<string, Shell> = {
  bash: {
    ...posix,
    args: (rc) => ['--noprofile', '--rcfile', `${rc}/rc`, '--noediting', '-i'],
    env: (rc) => ({ ENV: `${rc}/rc`, VSCODE_DEVTOOLS_ENV: process.env.ENV ?? '' }), // which it reads instead where POSIXLY_CORRECT is set
    rc: (nonce, dir) => ({
      rc: `ENV=$VSCODE_DEVTOOLS_ENV; unset VSCODE_DEVTOOLS_ENV; [ -n "$ENV" ] || unset ENV
[ -f ~/.bashrc ] && . ~/.bashrc
HISTCONTROL=\${HISTCONTROL:+$HISTCONTROL:}ignorespace
${common(nonce, dir, '\\builtin', (file) => `__vdt_c=$(<${file})`)}
__vdt_user_prompt=("\${PROMPT_COMMAND[@]}")
__vdt_prompt() {
  local status=$? command
  [ -n "$__vdt_r" ] && __vdt_end "$status" 2>/dev/null
  __vdt_r=
  for command in "\${__vdt_user_prompt[@]}"; do __vdt_status "$status"; \\eval "$command"; done
  \\unset PS1 # and that it is exported: another bash would show no prompt
  PS1=
  return "$status"
}
__vdt_status() { return "$1"; }
__vdt_arm() {
  case \${PROMPT_COMMAND[*]-} in
    __vdt_prompt*) return ;;
    *__vdt_prompt*) ;; # theirs stands before ours, and would have its exit code told
    *) __vdt_user_prompt=() ;;
  esac
  [ -z "\${PROMPT_COMMAND[*]-}" ] || __vdt_user_prompt+=("\${PROMPT_COMMAND[@]//__vdt_prompt/:}")
  \\unset PROMPT_COMMAND # and with it that it is exported: another bash does not know ours
  PROMPT_COMMAND=__vdt_prompt
}
\\unset PROMPT_COMMAND
PROMPT_COMMAND=__vdt_prompt
`,
    }),
  },
  zsh: {
    ...posix,
    args: () => ['-i'],
    env: (rc) => ({ ZDOTDIR: rc, VSCODE_DEVTOOLS_ZDOTDIR: process.env.ZDOTDIR ?? os.homedir() }),
    rc: (nonce, dir) => ({
      '.zshenv': `__vdt_rc=$ZDOTDIR; ZDOTDIR=$VSCODE_DEVTOOLS_ZDOTDIR; [ -f "$ZDOTDIR/.zshenv" ] && . "$ZDOTDIR/.zshenv"; VSCODE_DEVTOOLS_ZDOTDIR=$ZDOTDIR; ZDOTDIR=$__vdt_rc\n`,
      '.zshrc': `ZDOTDIR=$VSCODE_DEVTOOLS_ZDOTDIR; unset VSCODE_DEVTOOLS_ZDOTDIR; [ -f $ZDOTDIR/.zshrc ] && . $ZDOTDIR/.zshrc
[ "$ZDOTDIR" = "$HOME" ] && unset ZDOTDIR
unsetopt zle prompt_cr prompt_sp 2>/dev/null
setopt hist_ignore_space interactive_comments
${common(nonce, dir, '\\builtin', (file) => `__vdt_c=$(<${file})`)}
__vdt_prompt() { local code=$?; [ -n "$__vdt_r" ] && __vdt_end "$code" 2>/dev/null; __vdt_r=; return "$code"; }
__vdt_bare() { PROMPT= RPROMPT=; }
__vdt_arm() { case \${precmd_functions[*]-} in __vdt_prompt*__vdt_bare) ;; *) precmd_functions=(__vdt_prompt \${\${precmd_functions[@]-}:#__vdt_*} __vdt_bare) ;; esac; }
precmd_functions=(__vdt_prompt $precmd_functions __vdt_bare)
`,
    }),
  },
  sh: { // dash has no `builtin`, and takes a function named `command` for it: that one goes
    ...posix,
    args: () => ['-i'],
    env: (rc) => ({ ENV: `${rc}/rc`, VSCODE_DEVTOOLS_ENV: process.env.ENV ?? '' }),
    rc: (nonce, dir) => ({
      rc: `ENV=$VSCODE_DEVTOOLS_ENV; unset VSCODE_DEVTOOLS_ENV; [ -n "$ENV" ] && [ -f "$ENV" ] && . "$ENV"
${common(nonce, dir, '\\unset -f command; \\command', (file) => `__vdt_c=$(\\unset -f command; ${quote(programFile('cat'))} ${file} && \\command echo .) && __vdt_c=\${__vdt_c%.}`)}
__vdt_arm() { case \${PS1-} in *__vdt_end*) ;; *) PS1='$(__vdt_end "$?" 2>/dev/null)' ;; esac; }
PS1='$(__vdt_end "$?" 2>/dev/null)'
`,
    }),
  },
  // Windows, on pipes: there the prompt function is called after every command, as on a screen.
  powershell: {
    args: (rc) => ['-NoLogo', '-NoExit', '-ExecutionPolicy', 'Bypass', '-File', `${rc}\\rc.ps1`],
    env: () => ({}),
    rc: (nonce) => ({
      'rc.ps1': `[Console]::OutputEncoding = [Text.Encoding]::UTF8
$global:__vdt_r = ''
function global:__vdt_mark($body) { [Console]::Out.Write("$([char]27)]633;$body$([char]7)") }
function global:prompt {
  $ok = $?; $code = $global:LASTEXITCODE
  if ($global:__vdt_r) { __vdt_mark "D;${nonce};$($global:__vdt_r);$(if ($ok) { 0 } elseif ($code) { $code } else { 1 })" }
  $global:__vdt_r = ''
  return ' '
}
__vdt_mark "P;${nonce};$PID"
`,
    }),
    trigger: (nonce, id, dir) => `$global:LASTEXITCODE = 0; $global:__vdt_r = '${id}'; __vdt_mark 'C;${nonce};${id}'; Invoke-Expression (Get-Content -Raw -Encoding UTF8 -LiteralPath '${dir.replaceAll("'", "''")}\\${id}')`,
    enter: (dir, command) => `Set-Location -LiteralPath '${dir.replaceAll("'", "''")}' -ErrorAction Stop\n${command}`,
    assign: (name, value) => `$env:${name} = '${value.replaceAll("'", "''")}'`,
  },
};

/** The same inside a shell of VS Code's own, with VS Code's integration beside it: 633 is taken there, and what VS Code lets an
 * extension read is lost for some commands, so each mark also goes into a file. Read by the shell once, at its first prompt. */
export const HOOKS: Record<string, (nonce: string, dir: string) => string> = {
  bash: (nonce, dir) => `${hook(nonce, dir)}
HISTCONTROL=\${HISTCONTROL:+$HISTCONTROL:}ignorespace
__vdt_prompt() { local status=$?; [ -n "$__vdt_r" ] && __vdt_end "$status" 2>/dev/null; __vdt_r=; return "$status"; }
PROMPT_COMMAND=(__vdt_prompt "\${PROMPT_COMMAND[@]}")
__vdt_mark P "$$"
`,
  zsh: (nonce, dir) => `${hook(nonce, dir)}
setopt hist_ignore_space interactive_comments
__vdt_prompt() { local code=$?; [ -n "$__vdt_r" ] && __vdt_end "$code" 2>/dev/null; __vdt_r=; return "$code"; }
precmd_functions=(__vdt_prompt $precmd_functions)
__vdt_mark P "$$"
`,
  powershell: (nonce, dir) => `$global:__vdt_r = ''
$global:__vdt_inner = $function:prompt
function global:__vdt_mark($body) { [IO.File]::AppendAllText('${dir.replaceAll("'", "''")}\\marks', "$body\`n"); [Console]::Out.Write("$([char]27)]9633;$body$([char]7)") }
function global:prompt {
  $ok = $?; $code = $global:LASTEXITCODE
  if ($global:__vdt_r) { __vdt_mark "D;${nonce};$($global:__vdt_r);$(if ($ok) { 0 } elseif ($code) { $code } else { 1 })" }
  $global:__vdt_r = ''
  $global:LASTEXITCODE = $code
  & $global:__vdt_inner
}
__vdt_mark "P;${nonce};$PID"
`,
};

const hook = (nonce: string, dir: string): string => `__vdt_r=
__vdt_c=
__vdt_${nonce}() { __vdt_s=$?; __vdt_r=$1; __vdt_c=$(<${quote(dir)}/"$1") || __vdt_c='echo "the command could not be read" >&2; (exit 126)'; \\builtin printf '' >|${quote(dir)}/"$1"; __vdt_mark C "$1"; return "$__vdt_s"; }
__vdt_end() { __vdt_c=; __vdt_mark D "$__vdt_r;$1"; return "$1"; }
__vdt_mark() { \\builtin printf '%s;${nonce};%s\\n' "$1" "$2" >>${quote(dir)}/marks; \\builtin printf '\\033]9633;%s;${nonce};%s\\007' "$1" "$2" >/dev/tty; }`;

/** Any other shell that a user names: it is typed to, and its prompt is all there is to go by. */
const PLAIN_SHELL: Shell = { ...posix, args: () => ['-i'], env: () => ({}), rc: () => ({}) };

/** The shell that was asked for; else the user's, if it is one that tells; else the best there is. */
function chooseShell(): { file: string; kind: string; shell: Shell } {
  if (process.platform === 'win32') return found('powershell.exe', 'powershell');
  const wanted = process.env.VSCODE_DEVTOOLS_SHELL;
  if (wanted && !fs.existsSync(wanted)) throw failure('E_SPAWN', `VSCODE_DEVTOOLS_SHELL names ${wanted}, which does not exist`);
  for (const file of [wanted, process.env.SHELL, '/bin/bash', '/usr/bin/bash', '/bin/zsh', '/bin/sh']) {
    if (!file || !fs.existsSync(file)) continue;
    const kind = path.basename(file).replace(/^dash$/, 'sh');
    if (kind !== 'powershell' && Object.hasOwn(SHELLS, kind)) return found(file, kind);
    if (file === wanted) return { file, kind: 'plain', shell: PLAIN_SHELL };
  }
  throw failure('E_SPAWN', 'no shell was found: looked for $VSCODE_DEVTOOLS_SHELL, $SHELL, bash, zsh and sh');
}

function found(file: string, kind: string): { file: string; kind: string; shell: Shell } {
  return { file, kind, shell: SHELLS[kind] ?? PLAIN_SHELL };
}

/** How to start a shell on a pseudo terminal: `script` makes one, so that no native module is needed. Windows has pipes. */
function launchOf(file: string, args: string[]): { file: string; args: string[] } {
  if (process.platform === 'win32') return { file, args };
  if (process.platform === 'darwin') return { file: 'script', args: ['-q', '/dev/null', file, ...args] };
  return { file: 'script', args: ['-qfec', `SHELL=${quote(process.env.SHELL ?? file)} exec ${[file, ...args].map(quote).join(' ')}`, '/dev/null'] };
}

/** The environment of a shell: without what a window was started with for itself. */
function shellEnv(): NodeJS.ProcessEnv {
  const env = plainEnv();
  const outer: unknown = JSON.parse(env.VSCODE_DEVTOOLS_OUTER || '{}'); // our own Host wrote it
  delete env.VSCODE_DEVTOOLS_OUTER;
  if (!isObject(outer) || !process.env.VSCODE_DEVTOOLS_OUTER) return env;
  for (const name of ['TMPDIR', 'XDG_RUNTIME_DIR']) {
    if (typeof outer[name] === 'string') env[name] = outer[name];
    else delete env[name];
  }
  const cli = process.env.VSCODE_IPC_HOOK_CLI; // so that `code file` opens it in this window
  return cli ? { ...env, VSCODE_IPC_HOOK_CLI: cli } : env;
}

/** Starts a shell; `report` puts each process into the ledger before anything goes on. */
async function openPty(terminal: Terminal, marks: Marks, dir: string, cwd: string, report: (pid: number, isShell: boolean) => Promise<void>): Promise<Backend> {
  const { file, kind, shell } = chooseShell();
  const tells = kind !== 'plain';
  const nonce = marks.nonce;
  const look: Look = { at: -Infinity, ticks: 0 };
  const rc = privateDir(path.join(dir, `terminal-${terminal.id}`));
  for (const [name, text] of Object.entries(shell.rc(nonce, rc))) writePrivate(path.join(rc, name), text);
  const launch = launchOf(file, shell.args(rc));
  // script runs its command line with $SHELL, which may be one that refuses to; the shell itself gets the user's again.
  const env: NodeJS.ProcessEnv = { ...shellEnv(), SHELL: '/bin/sh', TERM: 'xterm-256color', ...shell.env(rc), [TAG]: [process.env[TAG], terminal.id].filter(Boolean).join(':') };
  if (tells) delete env.PS1; // dash would export what we make of it: another shell does not know that
  const child: ChildProcessByStdio<Writable, Readable, null> = spawn(launch.file, launch.args, { cwd, env, detached: process.platform !== 'win32', stdio: ['pipe', 'pipe', 'ignore'] });
  const decoder = new StringDecoder('utf8');
  child.stdout.on('data', (chunk: Buffer) => terminal.onData(decoder.write(chunk)));
  child.stdin.on('error', () => {}); // the shell has ended: 'close' tells
  let problem = '';
  const gone = new Promise<void>((resolve) => child.once('close', () => resolve()));
  child.on('error', (error) => (problem = `${launch.file} could not be started: ${error.message}${launch.file === 'script' ? ' (Debian has it in bsdutils, others in util-linux)' : ''}`));
  child.on('close', (code, signal) => terminal.onClosed(problem || (signal ? `its terminal was ended by ${signal}` : `the shell has ended with code ${code}`), problem ? null : code));
  void gone.then(() => fs.rmSync(rc, { recursive: true, force: true }));
  let pid: number;
  try {
    if (child.pid !== undefined) await report(child.pid, false);
    pid = tells ? await marks.ready(gone, () => problem || `it has shown: ${terminal.read(20).slice(-1000)}`) : await untilPrompt(terminal, child.pid ?? 0);
    await report(pid, true);
  } catch (error) {
    child.kill('SIGKILL'); // not in the ledger, so it must not be
    throw error;
  }
  return {
    pid, shell: file, tells,
    run: (id, command) => {
      if (!tells) return void (terminal.onStart(id, command), child.stdin.write(`${command}\n`));
      privateDir(rc); // somebody may have cleaned up
      writePrivate(path.join(rc, String(id)), command);
      const trigger = shell.trigger(nonce, id, rc);
      terminal.echoes(trigger);
      child.stdin.write(`${kind === 'powershell' ? '' : KILL_LINE}${trigger}\n`);
    },
    write: (text) => void child.stdin.write(text),
    signal: (signal) => {
      if (signal === 'SIGCONT') for (const stopped of [child.pid ?? pid, pid]) trySignal(stopped, signal); // a shell that stopped itself stops script, too
      const early = { run: terminal.current, group: foregroundGroup(pid), told: new Set(programsOf(pid)) };
      const isSent = signalForeground(pid, signal);
      signalLate(terminal, pid, signal, early);
      return isSent;
    },
    isTaken: () => foregroundGroup(pid) !== ownGroup(pid),
    evidence: () => (process.platform === 'linux' ? linuxEvidence(pid, look) : 'unknown'),
    isSecret: () => isSecret(pid),
    cwd: () => linkOf(`/proc/${pid}/cwd`) || undefined,
    enter: shell.enter,
    assign: shell.assign,
    close: async () => {
      // The terminal hangs up, as it does when a person closes its window; who ignores that is the ledger's matter.
      for (const target of [-pid, pid, child.pid ?? pid]) trySignal(target, 'SIGHUP');
      child.stdin.destroy();
      let late: NodeJS.Timeout | undefined;
      await Promise.race([gone, new Promise((resolve) => (late = setTimeout(resolve, CLOSE_MS)))]);
      clearTimeout(late);
      if (child.exitCode === null && child.signalCode === null) child.kill('SIGKILL');
    },
  };
}

/** A terminal of VS Code's own, through its shell integration: for Windows, where there is no pseudo terminal of ours. What it
 * prints comes from VS Code's executions; how it ended from our marks among that, or, where VS Code has lost it, from the file. */
async function openIntegrated(vscode: typeof Vscode, terminal: Terminal, marks: Marks, dir: string, cwd: string, report: (pid: number, isShell: boolean) => Promise<void>, onClose: () => void): Promise<Backend> {
  const { file, kind, shell } = chooseShell();
  const hookOf = HOOKS[kind];
  if (!hookOf) throw failure('E_UNSUPPORTED', `VS Code has no shell integration for ${file}: set VSCODE_DEVTOOLS_SHELL to bash or zsh, or leave VSCODE_DEVTOOLS_TERMINALS unset`);
  const { nonce } = marks;
  const look: Look = { at: -Infinity, ticks: 0 };
  const rc = privateDir(path.join(dir, `terminal-${terminal.id}`));
  const isWindows = process.platform === 'win32';
  const script = path.join(rc, isWindows ? 'hook.ps1' : 'hook');
  writePrivate(script, hookOf(nonce, rc));
  writePrivate(path.join(rc, 'marks'), '');
  const outer = shellEnv();
  const shown = vscode.window.createTerminal({ name: terminal.name, shellPath: file, cwd, isTransient: true, env: { [TAG]: terminal.id, TMPDIR: outer.TMPDIR ?? null, XDG_RUNTIME_DIR: outer.XDG_RUNTIME_DIR ?? null, VSCODE_DEVTOOLS_OUTER: null } });
  const disposables: Vscode.Disposable[] = [];
  let pid = 0;
  let readTo = 0; // of the marks
  let wakeClosed = (): void => {};
  const gone = new Promise<void>((resolve) => (wakeClosed = resolve));
  let streams = 0; // executions of this run that VS Code has told of,
  let reading = 0; // and of those the ones it still reads from
  const handedOn = async (): Promise<void> => {
    const giveUpAt = performance.now() + STREAM_MS;
    while (performance.now() < giveUpAt && (!streams || reading) && terminal.current) await new Promise((resolve) => setTimeout(resolve, 10));
  };
  const readMarks = (): void => {
    const text = (slurp(path.join(rc, 'marks')) ?? '').slice(readTo);
    const whole = text.slice(0, text.lastIndexOf('\n') + 1);
    readTo += whole.length;
    // The same mark comes among the output, behind the last of it: the file is believed only where that does not come.
    for (const mark of whole.split('\n').filter(Boolean)) {
      if (mark.startsWith('P;')) marks.read(mark);
      else if (mark.startsWith('C;')) setTimeout(() => marks.read(mark), STREAM_MS / 2); // what is before it among the output is no output
      else void handedOn().then(() => {
        const run = terminal.current;
        marks.read(mark.replace(/^D/, 'C'));
        marks.read(mark);
        if (run && run.endedAt !== undefined) run.note = 'VS Code did not hand on all that this command printed; its exit code is true. The terminal in the window shows the rest.'; // else the mark came among the output, with all before it
      });
    }
  };
  const watcher = fs.watch(rc, () => readMarks());
  watcher.on('error', () => {}); // the directory goes with the terminal
  disposables.push(
    { dispose: () => watcher.close() },
    vscode.window.onDidStartTerminalShellExecution(({ terminal: one, execution }) => {
      if (one !== shown) return;
      const stream = execution.read(); // in this turn: later it would miss what was printed
      streams++;
      reading++;
      void (async () => {
        for await (const text of stream) terminal.onData(text);
      })().finally(() => reading--);
    }),
    vscode.window.onDidCloseTerminal((one) => {
      if (one !== shown) return;
      const code = one.exitStatus?.code ?? null;
      terminal.onClosed(code === null ? 'its terminal was closed' : `the shell has ended with code ${code}`, code);
      wakeClosed();
      if (code === null || code === undefined) onClose();
    }),
  );
  void gone.then(() => {
    for (const one of disposables) one.dispose();
    fs.rmSync(rc, { recursive: true, force: true });
  });
  try {
    pid = (await shown.processId) ?? 0;
    if (pid) await report(pid, true);
    await integrated(vscode, shown, gone);
    const ready = marks.ready(gone, () => 'VS Code has its shell integration, and our own has not come up in it');
    shown.sendText(isWindows ? `. '${script.replaceAll("'", "''")}'` : ` . ${quote(script)}`);
    pid = await ready;
    shown.show(true);
  } catch (error) {
    shown.dispose();
    throw error;
  }
  return {
    pid, shell: file, tells: true,
    run: (id, command) => {
      writePrivate(path.join(rc, String(id)), command);
      const trigger = shell.trigger(nonce, id, rc);
      terminal.echoes(trigger);
      streams = 0;
      shown.sendText(`${isWindows ? '' : KILL_LINE}${trigger}`);
    },
    write: (text) => shown.sendText(text.replace(/\r$/, ''), text.endsWith('\r')),
    signal: (signal) => {
      if (!isWindows) return signalForeground(pid, signal);
      if (signal !== 'SIGINT') return false;
      shown.sendText('\x03', false);
      return true;
    },
    isTaken: () => !isWindows && foregroundGroup(pid) !== ownGroup(pid),
    evidence: () => (process.platform === 'linux' ? linuxEvidence(pid, look) : 'unknown'),
    isSecret: () => isSecret(pid),
    cwd: () => (isWindows ? shown.shellIntegration?.cwd?.fsPath : linkOf(`/proc/${pid}/cwd`)) || undefined,
    enter: shell.enter,
    assign: shell.assign,
    close: async () => {
      shown.dispose();
      let late: NodeJS.Timeout | undefined;
      await Promise.race([gone, new Promise((resolve) => (late = setTimeout(resolve, CLOSE_MS)))]);
      clearTimeout(late);
    },
  };
}

/** VS Code's shell integration is there when the shell has shown its first prompt. */
function integrated(vscode: typeof Vscode, shown: Vscode.Terminal, gone: Promise<void>): Promise<void> {
  return new Promise((resolve, reject) => {
    const done = (error?: Error): void => {
      inTime();
      watching.dispose();
      if (error) reject(error);
      else resolve();
    };
    const inTime = deadline(SHELL_READY_MS, () => done(failure('E_SPAWN', `VS Code's shell integration has not come up in ${SHELL_READY_MS / 1000} s: is terminal.integrated.shellIntegration.enabled switched off?`)));
    const watching = vscode.window.onDidChangeTerminalShellIntegration((event) => event.terminal === shown && done());
    void gone.then(() => done(failure('E_SPAWN', 'the shell ended at once')));
    if (shown.shellIntegration) done();
  });
}

/** Waits for the first prompt of a shell that does not tell; its pid is that of script's only child. */
async function untilPrompt(terminal: Terminal, script: number): Promise<number> {
  const giveUpAt = performance.now() + SHELL_READY_MS;
  for (;;) {
    const [child] = (slurp(`/proc/${script}/task/${script}/children`) ?? '').split(' ').filter(Boolean);
    if (terminal.showsPrompt()) return child ? Number(child) : script;
    if (terminal.closed || performance.now() > giveUpAt) throw failure('E_SPAWN', `the shell shows no prompt that is known: ${terminal.closed || terminal.read(5)}. Use bash, zsh or sh, or leave VSCODE_DEVTOOLS_SHELL unset`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

function trySignal(target: number, signal: NodeJS.Signals | 0): boolean {
  try {
    process.kill(target, signal);
    return true;
  } catch {
    return false; // gone
  }
}

/** The shell is our own child's child and alive while its terminal is: its foreground group is what it says it is. */
function signalForeground(shell: number, signal: NodeJS.Signals): boolean {
  const group = foregroundGroup(shell);
  return trySignal(group > 1 ? -group : -shell, signal);
}

/** What the shell has started in the foreground: not what it has forked and not yet made a program of. */
function programsOf(shell: number): number[] {
  const image = linkOf(`/proc/${shell}/exe`);
  return foreground(shell).map(({ pid }) => pid).filter((pid) => Number(statFields(pid)[1]) === shell && ![image, ''].includes(linkOf(`/proc/${pid}/exe`)));
}

/** A shell that is just about to start its command takes a signal in its place and does not mind, and so does what it has only
 * just forked. So who of that job becomes a program in a moment gets it then: `told` are those that have got it. */
function signalLate(terminal: Terminal, shell: number, signal: NodeJS.Signals, { run, group, told }: { run: Run | undefined; group: number; told: Set<number> }): void {
  const own = ownGroup(shell);
  const giveUpAt = performance.now() + STARTING_MS;
  let job = group;
  const look = setInterval(() => {
    if (terminal.current !== run || performance.now() > giveUpAt) return clearInterval(look);
    if (job === own) job = foregroundGroup(shell);
    for (const pid of job !== own && job === foregroundGroup(shell) ? programsOf(shell) : []) {
      if (!told.has(pid)) trySignal(pid, signal);
      told.add(pid);
    }
  }, 10);
}

const ownGroup = (pid: number): number => Number(statFields(pid)[2]) || 0;

/** The process group that the shell's terminal belongs to at present; 0 where the system does not tell. */
const foregroundGroup = (shell: number): number => Number(statFields(shell)[5]) || 0;

/** Whether the terminal hides what is typed, as for a password. A program that edits lines itself has echo off too. */
function isSecret(shell: number): Promise<boolean> {
  return new Promise((resolve) => {
    const tty = linkOf(`/proc/${shell}/fd/0`);
    if (tty === '') return resolve(false); // not on this system, or gone
    execFile(programFile('stty'), ['-F', tty, '-a'], { timeout: 1000 }, (error, stdout) => resolve(!error && /(^|\s)-echo\b/.test(stdout) && /(^|\s)icanon\b/.test(stdout)));
  });
}

/** Reads the marks of one shell: OSC 633 with our nonce. Anybody else's are ignored. */
export class Marks {
  readonly nonce = crypto.randomBytes(6).toString('hex');
  private shellPid: (pid: number) => void = () => {};
  private readonly shell = new Promise<number>((resolve) => (this.shellPid = resolve));
  terminal: Terminal | undefined;

  read(mark: string): void {
    const [kind, nonce, first, second] = mark.split(';');
    if (nonce !== this.nonce) return;
    if (kind === 'P') this.shellPid(Number(first));
    else if (kind === 'C') this.terminal?.onStart(Number(first));
    else if (kind === 'D' && first) this.terminal?.onEnd(Number(first), /^\d+$/.test(second ?? '') ? Number(second) : null, /^\d+$/.test(second ?? '') ? undefined : 'the shell told no exit code');
  }

  /** The shell's pid, as soon as its rc files have run. */
  ready(gone: Promise<void>, shown: () => string): Promise<number> {
    return new Promise((resolve, reject) => {
      const fail = (what: string) => (): void => reject(failure('E_SPAWN', `${what}: ${shown()}. Its rc file may be the cause; VSCODE_DEVTOOLS_SHELL names another shell`));
      const inTime = deadline(SHELL_READY_MS, fail(`the shell was not ready in ${SHELL_READY_MS} ms`));
      void this.shell.then((pid) => (inTime(), resolve(pid)));
      void gone.then(fail('the shell ended at once')).finally(inTime);
    });
  }
}

// --------------------------------------------------------------------------------------------------------- methods

export function register(role: Role): void {
  const startedAt = Date.now();
  const terminals = new Map<string, Terminal>();
  const opening = new Map<string, Promise<Terminal>>();
  const beingOpened = new Set<Terminal>();
  const patterns = [...userPatterns(process.env.VSCODE_DEVTOOLS_PROMPTS ?? '', role.log), ...PROMPTS];

  const editor = role.vscode as typeof Vscode | undefined; // bootstrap.js cannot name that type
  const panels = new Map<Terminal, Panel>();
  if (role.order) delete process.env[TAG]; // the window's own: what is started in its terminals is theirs

  const prefix = tagPrefix(role.dir, role.workspace);
  for (const name of list(role.dir)) if (name.startsWith(`terminal-${prefix}`)) fs.rmSync(path.join(role.dir, name), { recursive: true, force: true }); // of a predecessor that was killed

  /** Tells the Host what was started or has ended, before anything goes on. */
  async function report(terminal: Terminal, entry: Json, timeoutMs = HOST_MS): Promise<void> {
    const giveUpAt = performance.now() + timeoutMs;
    for (;;) {
      const host = [...role.peers].findLast((peer) => peer.hello.as === 'host'); // the newest: an older one is on its way out
      if (host) return void (await host.call('ledger.record', { terminal: terminal.name, terminalId: terminal.id, ...entry }, { timeoutMs }));
      if (performance.now() > giveUpAt) throw failure('E_NO_HOST', 'no Host holds this Client, so what it starts would be in no ledger: call again, the MCP server starts one');
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }

  function openLog(terminal: string, run: number): { file: string; fd: number } | undefined {
    try {
      const dir = privateDir(path.join(devtoolsDir(role.workspace, role.dir), 'logs'), 0);
      const old = fs.readdirSync(dir).filter((name) => name.endsWith('.log')).map((name) => path.join(dir, name));
      const byAge = old.map((file) => ({ file, at: fs.lstatSync(file).mtimeMs })).sort((a, b) => b.at - a.at);
      const inUse = new Set([...terminals.values(), ...beingOpened].flatMap(({ current, last }) => [current?.output.logFile, last?.output.logFile]));
      for (const { file } of byAge.slice(LOGS_KEPT - 1)) if (!inUse.has(file)) fs.rmSync(file, { force: true }); // an answer may name it again
      const { O_WRONLY, O_CREAT, O_TRUNC } = fs.constants;
      const file = path.join(dir, `${terminal}-${run}.log`);
      return { file, fd: openPrivate(file, O_WRONLY | O_CREAT | O_TRUNC) };
    } catch (error) {
      role.log(`no log: ${messageOf(error)}`); // the result has beginning and end all the same
      return undefined;
    }
  }

  /** Concurrent callers share one start. */
  function open(name: string, cwd: string): Promise<Terminal> {
    let starting = opening.get(name);
    if (!starting) {
      starting = openTerminal(name, cwd).finally(() => opening.delete(name));
      opening.set(name, starting);
    }
    return starting;
  }

  async function openTerminal(name: string, cwd: string): Promise<Terminal> {
    const ended = [...terminals.values()].filter((one) => !one.backend);
    for (const one of ended.slice(0, Math.max(0, ended.length - ENDED_KEPT))) terminals.delete(one.name);
    if (terminals.size - ended.length + opening.size >= TERMINALS_CAP) throw failure('E_BUSY', `there are ${TERMINALS_CAP} terminals: close one with terminal_close`);
    const marks = new Marks();
    const id = `${prefix}${crypto.randomBytes(4).toString('hex')}`;
    const terminal = new Terminal(name, id, (mark) => marks.read(mark), (run) => openLog(id, run), patterns);
    marks.terminal = terminal;
    terminal.onTaken = (run) => fs.rmSync(path.join(role.dir, `terminal-${id}`, String(run)), { force: true }); // it may hold secrets
    terminal.wasTaken = (run) => fs.statSync(path.join(role.dir, `terminal-${id}`, String(run)), { throwIfNoEntry: false })?.size === 0; // the shell empties it
    terminal.onRunEnd = (run) => {
      return report(terminal, { event: 'completed', exitCode: run.exitCode, exitReason: run.exitReason }, END_REPORT_MS).catch(() => {}); // no Host: its next look finds out
    };
    terminal.onExit = () => {
      panels.get(terminal)?.dispose();
      panels.delete(terminal);
      if (!terminal.closing) report(terminal, { event: 'exited' }).catch(() => {}); // the same
    };
    terminal.onMiss = (row) => role.log(`no prompt pattern matches ${JSON.stringify(row.slice(0, 200))}: if this is a question, add one to VSCODE_DEVTOOLS_PROMPTS`);
    beingOpened.add(terminal);
    const isIntegrated = editor !== undefined && (process.platform === 'win32' || process.env.VSCODE_DEVTOOLS_TERMINALS === 'integration');
    if (editor && !isIntegrated) panels.set(terminal, new Panel(editor, terminal, () => void close(terminal)));
    try {
      await report(terminal, { event: 'opening' });
      const reportStart = (pid: number, shell: boolean): Promise<void> => report(terminal, { event: 'started', pid, shell });
      terminal.backend = isIntegrated && editor ? await openIntegrated(editor, terminal, marks, role.dir, cwd, reportStart, () => void close(terminal)) : await openPty(terminal, marks, role.dir, cwd, reportStart);
    } catch (error) {
      await close(terminal);
      throw error;
    } finally {
      beingOpened.delete(terminal);
    }
    terminals.set(name, terminal);
    return terminal;
  }

  /** The terminal of a name that is there, or is just being opened. */
  async function get(params: Json): Promise<Terminal> {
    const name = String(params.name ?? 'default');
    await opening.get(name)?.catch(() => {}); // whoever opens it is told
    const terminal = terminals.get(name);
    if (!terminal) throw failure('E_NO_TERMINAL', `there is no terminal ${JSON.stringify(name)}: ${[...terminals.keys()].map((one) => JSON.stringify(one)).join(', ') || 'none'} exist; terminal_run makes one`);
    return terminal;
  }

  role.handle('terminal.create', async (params) => {
    const name = nameOf(params);
    if (terminals.get(name)?.backend) throw failure('E_BUSY', `there is a terminal ${JSON.stringify(name)} already: use it, or another name`);
    return describe(await open(name, directoryOf(params.cwd, role.workspace) ?? role.workspace));
  });

  role.handle('terminal.run', async (params, call) => {
    const name = nameOf(params);
    const command = checkCommand(params.command);
    const shown = typeof params.shown === 'string' ? params.shown : command; // the debugger's has variables in it, which are nobody's to read
    const timeoutMs = timeoutOf(params.timeout, TIMEOUT_MS);
    const graceMs = timeoutOf(params.graceMs, GRACE_MS);
    const cwd = directoryOf(params.cwd, role.workspace);
    const env = variablesOf(params.env);
    const there = terminals.get(name);
    const terminal = there?.backend ? there : await open(name, cwd ?? role.workspace);
    if (terminal.current) throw busy(terminal, terminal.current);
    const run = terminal.reserve(shown, graceMs);
    try {
      await report(terminal, { event: 'command', command: shorten(shown) });
      await personIsDone(terminal); // last, so that nothing typed meanwhile comes before ours
      const { backend } = terminal;
      if (call.ended?.data?.code === 'E_CANCELLED') throw call.ended; // before it began: then it does not
      if (!backend) throw failure('E_CLOSED', `terminal ${JSON.stringify(name)} has just ended: ${terminal.closed}. Call again: a new one is made`);
      const assignments = env.map(([variable, value]) => backend.assign(variable, value));
      terminal.launch(run, [...assignments, cwd === undefined ? command : backend.enter(cwd, command)].join('\n'));
    } catch (error) {
      terminal.abandon(run);
      await terminal.onRunEnd(run); // the ledger has it as running
      throw error;
    }
    const result = await terminal.wait(run, timeoutMs, call, params.waitMode === 'background');
    return there && there !== terminal ? { ...result, advice: `This is a new shell: the one before ended (${there.closed}), and its directory and variables with it.` } : result;
  });

  /** Until the shell has begun with what a person has just sent off it looks idle, and ours would wait behind that. */
  async function personIsDone(terminal: Terminal): Promise<void> {
    const { name, backend } = terminal;
    if (!editor || !backend) return;
    while (!backend.isTaken() && performance.now() - terminal.sentOffAt < TYPED_MS) await new Promise((resolve) => setTimeout(resolve, 10));
    if (backend.isTaken()) throw failure('E_BUSY', `in terminal ${JSON.stringify(name)} a command runs that a person has typed: use another name, or ask the person; terminal_read shows it`);
  }

  role.handle('terminal.sendText', async (params) => {
    const terminal = await get(params);
    if (!terminal.backend) throw failure('E_CLOSED', `terminal ${JSON.stringify(terminal.name)} has ended: ${terminal.closed}`);
    terminal.input(textOf(params.text), params.addNewline !== false);
    return { sent: true };
  });

  role.handle('terminal.input', async (params, call) => {
    const terminal = await get(params);
    const run = terminal.current;
    if (!run) throw failure('E_IDLE', `nothing runs in terminal ${JSON.stringify(terminal.name)}: terminal_run starts a command`);
    terminal.input(textOf(params.text), params.addNewline !== false);
    return terminal.wait(run, timeoutOf(params.timeout, TIMEOUT_MS), call, params.waitMode === 'background');
  });

  role.handle('terminal.wait', async (params, call) => {
    const terminal = await get(params);
    const run = terminal.current ?? terminal.last;
    if (!run) throw failure('E_IDLE', `nothing has run in terminal ${JSON.stringify(terminal.name)} yet: terminal_run starts a command`);
    return terminal.wait(run, timeoutOf(params.timeout, TIMEOUT_MS), call, false);
  });

  role.handle('terminal.interrupt', async (params, call) => {
    const terminal = await get(params);
    const { ifCommand } = params; // for who started something and does not know whether it is still what runs
    const run = ifCommand === undefined || terminal.current?.command === ifCommand ? terminal.current : undefined;
    const signal = String(params.signal ?? 'SIGINT');
    if (!isSignal(signal)) throw failure('E_ARGUMENTS', `${signal} is no signal`);
    if (!run) throw failure('E_IDLE', `${ifCommand === undefined ? 'nothing' : 'that command no longer'} runs in terminal ${JSON.stringify(terminal.name)}: terminal_list shows where something does`);
    terminal.asking = undefined; // what it asked before may be over now
    if (!terminal.backend?.signal(signal)) throw failure('E_REFUSED', `${signal} could not be sent: what ran there has just ended, or this system has no signals (process_kill ends it)`);
    return terminal.wait(run, INTERRUPT_MS, call, false);
  });

  role.handle('terminal.getBuffer', async (params) => {
    const terminal = await get(params);
    const lastN = params.lastN === undefined ? undefined : Number(params.lastN);
    return { name: terminal.name, terminalId: terminal.id, output: terminal.read(lastN), ...(params.includeMetadata === true && describe(terminal)) };
  });

  role.handle('terminal.list', (params) => {
    const shown = [...terminals.values()].filter((terminal) => params.runningOnly !== true || terminal.current);
    return { terminals: shown.map((terminal) => ({ ...describe(terminal), lastLines: terminal.read(5) })) };
  });

  role.handle('terminal.close', async (params) => {
    const terminal = await get(params);
    await close(terminal);
    return { closed: terminal.name, terminalId: terminal.id };
  });

  async function close(terminal: Terminal): Promise<void> {
    if (terminal.closing) return;
    terminal.closing = true;
    panels.get(terminal)?.dispose();
    panels.delete(terminal);
    await terminal.backend?.close();
    await report(terminal, { event: 'closed' }, HOST_CLOSE_MS).catch((error) => role.log(`terminal ${terminal.id}: ${messageOf(error)}`)); // no Host: its next one finds what is left
    if (terminals.get(terminal.name) === terminal) terminals.delete(terminal.name);
  }

  role.onStop = async () => {
    await Promise.allSettled([...terminals.values()].map(close));
  };

  /** For a Host that has just come: which terminals are ours. */
  role.handle('client.held', () => ({
    calls: [...role.peers].filter((peer) => peer.hello.as === 'mcp').reduce((sum, peer) => sum + peer.running.size, 0), // before it swaps this Client for another
    terminals: [...terminals.values(), ...beingOpened].filter((one) => !one.closed).map(({ id, name, current, backend }) => ({ id, name, command: shorten(current?.command ?? ''), pid: backend?.pid ?? 0 })),
  }));

  role.handle('client.status', () => ({
    pid: process.pid, version: VERSION, protocol: PROTOCOL, mode: role.vscode ? 'vscode' : 'headless', safeMode: false,
    pipe: role.pipe, workspace: role.workspace, startedAt, terminals: terminals.size, ...(editor && { vscode: editor.version, app: editor.env.appName }),
  }));

  /** What this user lets agents do; the Host says it when it comes, and when it changes. */
  role.handle('client.allow', (params, call) => {
    if (call.peer.hello.as !== 'host') throw failure('E_REFUSED', 'only the Host says what is allowed');
    role.handle('exec', params.exec === true ? (asked) => execute(role, asked) : undefined);
    return { window: role.order?.id ?? null, inspectorPort: inspectorPort() ?? null };
  });

  role.handle('client.inspect', (_params, call) => {
    if (call.peer.hello.as !== 'host') throw failure('E_REFUSED', 'only the Host opens the inspector');
    if (editor && inspectorPort() === undefined) inspector.open(0, '127.0.0.1');
    return { inspectorPort: inspectorPort() ?? null };
  });

  registerWindow(role, editor);

  role.handle('client.stop', (params, call) => {
    if (call.peer.hello.as !== 'host') throw failure('E_REFUSED', 'only the Host ends its Client: use `vscode-devtools host stop`');
    role.leave = () => {}; // the Host closes the window itself
    setImmediate(() => void role.stop(String(params.reason ?? 'the Host says so'))); // after the answer
    return { stopping: true };
  });
}

// ------------------------------------------------------------------------------------------------------ in a window
// What only a VS Code can answer: commands, problems, output channels, and code. Headless, each says so.

const inspectorPort = (): number | undefined => Number(/:(\d+)\//.exec(inspector.url() ?? '')?.[1]) || undefined;

function registerWindow(role: Role, editor: typeof Vscode | undefined): void {
  const inWindow = (): typeof Vscode => {
    if (editor) return editor;
    throw failure('E_NO_WINDOW', 'this Client is headless: there is no VS Code window. Start the server with --vscode PATH (the binary of VS Code, or the directory of a VS Code server), or from VS Code');
  };
  role.leave = () => void leaveWindow(role, editor);

  role.handle('command.list', async (params) => {
    const filter = String(params.filter ?? '').toLowerCase();
    const all = (await inWindow().commands.getCommands(true)).filter((one) => one.toLowerCase().includes(filter)).sort();
    return { commands: all.slice(0, LISTED_CAP), ...(all.length > LISTED_CAP && { more: all.length - LISTED_CAP }) };
  });

  role.handle('command.execute', async (params) => {
    const vscode = inWindow();
    const { command, args = [] } = params;
    if (typeof command !== 'string' || command === '') throw failure('E_ARGUMENTS', 'command must be the id of a VS Code command');
    if (!Array.isArray(args)) throw failure('E_ARGUMENTS', 'args must be a list');
    const given = args.map((arg) => (isObject(arg) && typeof arg.$uri === 'string' ? vscode.Uri.parse(arg.$uri, true) : arg));
    const done = await settled(Promise.resolve(vscode.commands.executeCommand(command, ...given)), COMMAND_MS);
    if (done === undefined) return { command, pending: true, message: `the command has not come back in ${COMMAND_MS / 1000} s: it goes on, or waits for somebody in the window (window_snapshot shows what)` };
    if ('error' in done && messageOf(done.error) === `command '${command}' not found`) throw failure('E_NO_COMMAND', `VS Code has no command ${JSON.stringify(command)}.${near(command, await vscode.commands.getCommands(true))} Nothing was done`);
    if ('error' in done) throw failure('E_COMMAND', `${command} failed: ${messageOf(done.error)}`);
    return { command, pending: false, ...valueOf(done.value) };
  });

  role.handle('workspace.problems', (params) => {
    const vscode = inWindow();
    const wanted = typeof params.file === 'string' ? path.resolve(role.workspace, params.file) : undefined;
    const level = params.severity === undefined ? SEVERITIES.length - 1 : SEVERITIES.indexOf(String(params.severity));
    if (level < 0) throw failure('E_ARGUMENTS', `severity must be one of ${SEVERITIES.join(', ')}`);
    const counts = Object.fromEntries(SEVERITIES.map((name) => [name, 0]));
    const problems: Json[] = [];
    for (const [uri, diagnostics] of vscode.languages.getDiagnostics()) {
      const file = uri.scheme === 'file' || uri.scheme === 'vscode-remote' ? uri.fsPath : uri.toString();
      if (wanted !== undefined && file !== wanted && !file.startsWith(`${wanted}${path.sep}`)) continue;
      for (const { message, range, severity, source, code } of diagnostics) {
        const name = SEVERITIES[severity] ?? 'error';
        counts[name] = (counts[name] ?? 0) + 1;
        if (severity > level) continue;
        problems.push({ file, line: range.start.line + 1, column: range.start.character + 1, endLine: range.end.line + 1, endColumn: range.end.character + 1, severity: name, source: source ?? null, code: (typeof code === 'object' ? code.value : code) ?? null, message: message.slice(0, 2000) });
      }
    }
    problems.sort((a, b) => SEVERITIES.indexOf(String(a.severity)) - SEVERITIES.indexOf(String(b.severity)) || String(a.file).localeCompare(String(b.file)) || Number(a.line) - Number(b.line));
    const shown = within(problems);
    return { problems: shown, counts, ...(problems.length > shown.length && { more: problems.length - shown.length }) };
  });

  role.handle('output.listChannels', () => {
    inWindow();
    const all = channels(role).map(({ name, extension, size }) => ({ name, ...(extension && { extension }), bytes: size }));
    return { channels: all.slice(0, LISTED_CAP) };
  });

  role.handle('output.read', (params) => {
    inWindow();
    const all = channels(role);
    const wanted = String(params.channel ?? '');
    const channel = all.find((one) => one.name === wanted) ?? all.find((one) => one.name.toLowerCase() === wanted.toLowerCase()) ?? all.find((one) => one.extension?.toLowerCase() === wanted.toLowerCase());
    if (!channel) throw failure('E_NO_CHANNEL', `there is no output channel ${JSON.stringify(wanted)}: there are ${all.map((one) => one.name).join(', ') || 'none yet'}. A channel is there once something was written to it`);
    const limit = Number(params.limit ?? 200);
    const text = readEnd(channel.file);
    const matching = matchingLines(text.split('\n').slice(0, text.endsWith('\n') ? -1 : undefined), params.pattern);
    const lines = within(matching.slice(-limit).reverse().map((line) => line.slice(0, 4000))).reverse();
    return { channel: channel.name, ...(channel.extension && { extension: channel.extension }), lines, ...(matching.length > lines.length && { more: matching.length - lines.length }), file: channel.file };
  });
}

const SEVERITIES = ['error', 'warning', 'information', 'hint']; // VS Code's numbers are the indexes

/** What comes of a promise within a time; undefined if nothing has. */
async function settled<T>(promise: Promise<T>, withinMs: number): Promise<{ value: T } | { error: unknown } | undefined> {
  let inTime = (): void => {};
  const late = new Promise<undefined>((resolve) => (inTime = deadline(withinMs, () => resolve(undefined))));
  return Promise.race([promise.then((value) => ({ value }), (error: unknown) => ({ error })), late]).finally(inTime);
}

/** Names like one that is not there. */
function near(wanted: string, known: readonly string[]): string {
  const words = wanted.toLowerCase().split(/[^a-z0-9]+/).filter((word) => word.length > 2);
  const scored = known.map((name) => ({ name, score: words.filter((word) => name.toLowerCase().includes(word)).length })).filter((one) => one.score > 0).sort((a, b) => b.score - a.score || a.name.length - b.name.length);
  return scored.length ? ` Near it are ${scored.slice(0, 5).map((one) => one.name).join(', ')}.` : '';
}

/** As many entries as an answer has room for. */
function within<T>(entries: readonly T[]): T[] {
  let room = ANSWER_CAP;
  const cut = entries.findIndex((one) => (room -= (typeof one === 'string' ? one.length : JSON.stringify(one).length) + 4) < 0);
  return cut < 0 ? [...entries] : entries.slice(0, cut);
}

/** A value as JSON can have it: bounded, without cycles, and with a word for what JSON has not. */
export function valueOf(value: unknown): { value: unknown; truncated?: boolean } {
  let room = ANSWER_CAP;
  let isCut = false;
  const seen = new Set<object>();
  const plain = (one: unknown, depth: number): unknown => {
    room -= 8;
    if (room < 0) {
      isCut = true;
      return '…';
    }
    if (typeof one === 'string') {
      const text = one.length > room ? `${one.slice(0, safeCut(one, Math.max(0, room)))}… (${one.length} characters)` : one;
      isCut ||= text !== one;
      room -= text.length;
      return text;
    }
    if (one === null || typeof one === 'boolean' || (typeof one === 'number' && Number.isFinite(one))) return one;
    if (typeof one !== 'object') return one === undefined ? null : typeof one === 'function' ? `[function ${one.name || 'anonymous'}]` : String(one);
    if (seen.has(one)) return '[seen above]';
    if (depth > VALUE_DEPTH) {
      isCut = true;
      return `[${one.constructor?.name ?? 'object'}]`;
    }
    seen.add(one);
    if (one instanceof Error) return { name: one.name, message: one.message, stack: plain(one.stack?.split('\n').slice(0, 10).join('\n'), depth + 1) };
    if (one instanceof Date || one instanceof RegExp) return String(one instanceof Date ? one.toJSON() : one);
    if (ArrayBuffer.isView(one) && !(one instanceof DataView)) return plain(Buffer.from(one.buffer, one.byteOffset, Math.min(one.byteLength, VALUE_ITEMS)).toString('base64'), depth + 1);
    const isList = Array.isArray(one) || one instanceof Set;
    const entries: Array<[string, unknown]> = isList ? [...one].map((item, index) => [String(index), item]) : one instanceof Map ? [...one].map(([key, item]) => [typeof key === 'string' ? key : JSON.stringify(valueOf(key).value), item]) : namesOf(one).map((name) => [name, memberOf(one, name)]);
    isCut ||= entries.length > VALUE_ITEMS;
    const kept = entries.slice(0, VALUE_ITEMS).map(([name, item]) => [name.slice(0, 200), plain(item, depth + 1)] as const);
    return isList ? kept.map(([, item]) => item) : Object.fromEntries(kept);
  };
  const result = plain(value, 0);
  return isCut ? { value: result, truncated: true } : { value: result };
}

/** What JSON would show of an object, by its own toJSON if it has one. */
function namesOf(one: object): string[] {
  try {
    return Object.keys(one);
  } catch {
    return []; // a revoked proxy
  }
}

function memberOf(one: object, name: string): unknown {
  try {
    return (one as Record<string, unknown>)[name]; // its own key
  } catch (error) {
    return `[${messageOf(error)}]`;
  }
}

/** Runs code in this process, as a fallback for what no tool does. Its synchronous part is cut at the deadline; what it
 * leaves pending cannot be, and is said to go on. */
async function execute(role: Role, params: Json): Promise<Json> {
  const { code, payload } = params;
  if (typeof code !== 'string' || code.trim() === '') throw failure('E_ARGUMENTS', 'code must be JavaScript: the body of an async function with vscode, payload and require');
  const scope = { vscode: role.vscode, payload, require };
  const holder = globalThis as Record<string, unknown>; // where a script that is cut can find its arguments
  const name = `__vdt_exec_${crypto.randomBytes(4).toString('hex')}`;
  holder[name] = scope;
  let running: unknown;
  try {
    const script = new vm.Script(`(async ({ vscode, payload, require }) => {\n${code}\n})(globalThis[${JSON.stringify(name)}])`, { filename: 'devtools_exec.js', lineOffset: -1 });
    running = script.runInThisContext({ timeout: EXEC_SYNC_MS, breakOnSigint: false });
  } catch (error) {
    const isCut = error instanceof Error && 'code' in error && error.code === 'ERR_SCRIPT_EXECUTION_TIMEOUT';
    throw isCut ? failure('E_TIMEOUT', `the code computed for ${EXEC_SYNC_MS} ms without a pause and was cut: it held everything else in the window. What it did until then stays done; let it pause (await) now and then, or run it in a terminal`) : failure('E_EXEC', `the code failed: ${error instanceof Error ? (error.stack ?? error.message).split('\n').slice(0, 6).join('\n') : String(error)}`);
  } finally {
    delete holder[name];
  }
  const done = await settled(Promise.resolve(running), EXEC_MS);
  if (done === undefined) return { pending: true, value: null, message: `the code has not come back in ${EXEC_MS / 1000} s: it goes on running, and its value is lost` };
  if ('error' in done) throw failure('E_EXEC', `the code failed: ${done.error instanceof Error ? (done.error.stack ?? done.error.message).split('\n').slice(0, 6).join('\n') : String(done.error)}`);
  return { pending: false, ...valueOf(done.value) };
}

type Channel = { name: string; extension?: string; file: string; size: number };

/** Output channels by their log files: VS Code's API knows only one's own. Those of this extension host, and the window's. */
function channels(role: Role): Channel[] {
  const host = path.dirname((role.context as Vscode.ExtensionContext).logUri.fsPath); // what VS Code gave to activate()
  const found: Channel[] = [];
  const add = (dir: string, name: string, extension?: string): void => {
    const file = path.join(dir, name);
    const stat = fs.statSync(file, { throwIfNoEntry: false });
    if (!stat?.isFile() || !name.endsWith('.log')) return;
    const shown = name.slice(0, -'.log'.length).replace(/^\d+-/, '');
    found.push({ name: found.some((one) => one.name === shown) ? `${shown} (${extension ?? path.basename(dir)})` : shown, ...(extension && { extension }), file, size: stat.size });
  };
  for (const name of list(host)) {
    const dir = path.join(host, name);
    if (name.startsWith('output_logging_')) for (const one of list(dir)) add(dir, one);
    else if (name.includes('.') && !name.endsWith('.log')) for (const one of list(dir)) add(dir, one, name);
  }
  for (const dir of [host, path.dirname(host)]) {
    for (const name of list(dir)) {
      add(dir, name);
      if (/^output_/.test(name)) for (const one of list(path.join(dir, name))) add(path.join(dir, name), one);
    }
  }
  return found;
}

/** The end of a log file, from a whole line on. */
function readEnd(file: string): string {
  let fd;
  try {
    fd = fs.openSync(file, 'r');
    const { size } = fs.fstatSync(fd);
    const from = Math.max(0, size - CHANNEL_TAIL);
    const bytes = Buffer.alloc(size - from);
    const got = fs.readSync(fd, bytes, 0, bytes.length, from);
    const text = bytes.toString('utf8', 0, got);
    return from === 0 ? text : text.slice(text.indexOf('\n') + 1);
  } catch (error) {
    throw failure('E_NO_CHANNEL', `${file} cannot be read: ${messageOf(error)}`);
  } finally {
    if (fd !== undefined) fs.closeSync(fd);
  }
}

/** The role has ended for good, and no Host is there to close its window: it closes itself, the process that it runs in last. */
async function leaveWindow(role: Role, editor: typeof Vscode | undefined): Promise<void> {
  if (!editor || !role.order || role.isReloading) return;
  const dir = path.join(role.dir, `window-${role.order.id}`);
  const record: unknown = JSON.parse(slurp(path.join(dir, 'window.json')) ?? '{}'); // in our private directory: our Host wrote it
  if (!isObject(record) || !Array.isArray(record.processes)) return;
  if (record.kind === 'desktop') void Promise.resolve(editor.commands.executeCommand('workbench.action.closeWindow')).catch(() => {}); // it is ended below all the same
  const isAlive = ({ pid, startTime }: Json): boolean => trySignal(Number(pid), 0) && (process.platform !== 'linux' || String(startTime).endsWith(`/${statFields(Number(pid))[19]}`));
  const processes = record.processes.filter(isObject).filter((one) => Number(one.pid) > 1).reverse();
  for (const [index, one] of processes.entries()) {
    const isOurs = index === processes.length - 1; // this extension host is its child
    if (isAlive(one)) trySignal(Number(one.pid), isOurs && record.kind !== 'desktop' ? 'SIGKILL' : 'SIGTERM');
    const giveUpAt = performance.now() + CLOSE_MS;
    while (!isOurs && isAlive(one) && performance.now() < giveUpAt) await new Promise((resolve) => setTimeout(resolve, 20));
  }
  try {
    for (const one of [dir, record.temporary]) if (typeof one === 'string' && one.includes(role.order.id)) fs.rmSync(one, { recursive: true, force: true });
  } catch {
    // what has just been killed is still writing there: the next Host removes it
  }
}

// -------------------------------------------------------------------------------------------------------- the panel
// A terminal of ours in VS Code's panel: the same bytes, for a person, who may type. What we type to have a command run is
// not shown; the command is.

const NOT_SHOWN = /\x1b\]633;[^\x07]*\x07|\x1b\[[56]n/g; // our marks, and what only one terminal may answer
const SHOWN_CAP = 64 * 1024; // characters of a flood that are shown
const SHOW_MS = 16;
const MARK_BEGUN = /\x1b(?:\[[56]?|\](?:6(?:3(?:3(?:;[^\x07]{0,200})?)?)?)?)?$/;

export class Panel {
  private readonly terminal: Vscode.Terminal;
  private readonly written: Vscode.EventEmitter<string>;
  private readonly ended: Vscode.EventEmitter<void>;
  private pending = '';
  private leftOut = 0; // characters of a flood
  private flushing: NodeJS.Timeout | undefined;
  private isClosed = true; // until VS Code opens it
  private held = ''; // the beginning of what is not shown
  private isHiding = false; // from what we type to the start of the command
  private isAtLineStart = true;
  private isShown = false;
  private isDisposed = false;

  constructor(vscode: typeof Vscode, terminal: Terminal, onClose: () => void) {
    this.written = new vscode.EventEmitter<string>();
    this.ended = new vscode.EventEmitter<void>();
    terminal.onRaw = (text) => this.write(text);
    terminal.onLaunch = (command) => this.launch(command);
    this.terminal = vscode.window.createTerminal({
      name: terminal.name,
      pty: {
        onDidWrite: this.written.event,
        onDidClose: this.ended.event,
        open: () => {
          this.isClosed = false;
          this.flush();
        },
        close: () => this.isDisposed || onClose(),
        handleInput: (text: string) => {
          if (/[\r\n]/.test(text)) terminal.sentOffAt = performance.now();
          terminal.backend?.write(text);
        },
      },
    });
  }

  private launch(command: string): void {
    this.put(`${this.isAtLineStart ? '' : '\r\n'}\x1b[1m$ ${command.replaceAll('\n', '\r\n')}\x1b[0m\r\n`);
    this.isHiding = true;
    if (!this.isShown) this.terminal.show(true);
    this.isShown = true;
  }

  private write(chunk: string): void {
    let text = this.held + chunk;
    this.held = MARK_BEGUN.exec(text)?.[0] ?? '';
    text = text.slice(0, text.length - this.held.length);
    if (this.isHiding) {
      const start = /\x1b\]633;C;[^\x07]*\x07/.exec(text);
      if (!start) return;
      this.isHiding = false;
      text = text.slice(start.index + start[0].length);
    }
    this.put(text.replace(NOT_SHOWN, ''));
  }

  /** VS Code takes whatever it is given and asks nobody to wait: of a flood a person is shown the end. */
  private put(text: string): void {
    if (!text) return;
    this.isAtLineStart = text.endsWith('\n');
    this.pending += text;
    if (this.pending.length > 2 * SHOWN_CAP) {
      const cut = this.pending.indexOf('\n', this.pending.length - SHOWN_CAP) + 1 || safeCut(this.pending, this.pending.length - SHOWN_CAP);
      this.leftOut += cut;
      this.pending = this.pending.slice(cut);
    }
    this.flushing ??= setTimeout(() => this.flush(), SHOW_MS);
  }

  private flush(): void {
    clearTimeout(this.flushing);
    this.flushing = undefined;
    if (this.isClosed) return; // VS Code drops what is written before it has opened the terminal, and after its end
    const note = this.leftOut ? `\r\n\x1b[2m[... ${this.leftOut} characters are not shown here; the agent's log has them ...]\x1b[0m\r\n` : '';
    const text = note + this.pending;
    this.pending = '';
    this.leftOut = 0;
    if (text) this.written.fire(text);
  }

  dispose(): void {
    if (this.isDisposed) return;
    this.flush();
    this.isDisposed = this.isClosed = true;
    this.ended.fire();
    this.terminal.dispose();
    this.written.dispose();
    this.ended.dispose();
  }
}

const seconds = (since: number): string => `${((performance.now() - since) / 1000).toFixed(1)} s`;
const shorten = (command: string): string => (command.length > 200 ? `${command.slice(0, 200)}…` : command);
const isSignal = (name: string): name is NodeJS.Signals => Object.hasOwn(os.constants.signals, name);

function busy(terminal: Terminal, run: Run): Error {
  return failure('E_BUSY', `terminal ${JSON.stringify(terminal.name)} is busy: ${shorten(run.command)} has run there for ${seconds(run.startedAt)}. terminal_wait waits for it, terminal_input answers it, terminal_interrupt ends it; or use another name`, { command: shorten(run.command), pid: terminal.backend?.pid });
}

function describe(terminal: Terminal): Json {
  const { name, id, backend, current, last, history } = terminal;
  return {
    name, terminalId: id, pid: backend?.pid ?? null, shell: backend?.shell ?? null, cwd: backend?.cwd() ?? null,
    state: terminal.closed ? 'closed' : terminal.asking ? 'waiting_for_input' : current ? (current.begun ? 'running' : 'starting') : 'idle', ...(terminal.closed && { closed: terminal.closed }),
    ...(current && { command: shorten(current.command), runningForMs: Math.round(performance.now() - current.startedAt) }),
    ...(last && { lastCommand: shorten(last.command), lastExitCode: last.exitCode }), history,
  };
}

function nameOf(params: Json): string {
  const name = params.name ?? 'default';
  if (typeof name === 'string' && name !== '' && name.length <= 64) return name;
  throw failure('E_ARGUMENTS', 'the name of a terminal has 1 to 64 characters');
}

function checkCommand(command: unknown): string {
  if (typeof command !== 'string' || command.trim() === '') throw failure('E_ARGUMENTS', 'the command is empty');
  if (command.includes('\0')) throw failure('E_ARGUMENTS', 'the command has a NUL character: no shell can take that');
  if (command.length > COMMAND_CAP) throw failure('E_ARGUMENTS', `the command has over ${COMMAND_CAP} characters: write it to a file and run that`);
  return command;
}

function timeoutOf(value: unknown, otherwise: number): number {
  const timeout = value ?? otherwise;
  if (typeof timeout !== 'number' || !(timeout >= 0 && timeout <= TIMEOUT_CAP)) throw failure('E_ARGUMENTS', `a time is in milliseconds, 0 to ${TIMEOUT_CAP}`);
  return timeout;
}

function textOf(value: unknown): string {
  if (typeof value !== 'string' || value.includes('\0') || value.length > COMMAND_CAP) throw failure('E_ARGUMENTS', `text must be a string without NUL characters, of at most ${COMMAND_CAP} characters`);
  return value;
}

/** Variables to set; they last, as everything that is done in a terminal. */
function variablesOf(env: unknown): Array<[string, string]> {
  if (env === undefined) return [];
  if (!isObject(env)) throw failure('E_ARGUMENTS', 'env must be an object');
  return Object.entries(env).map(([name, value]) => {
    if (!/^[A-Za-z_][A-Za-z0-9_]*$/.test(name) || typeof value !== 'string' || value.includes('\0')) throw failure('E_ARGUMENTS', `env: ${JSON.stringify(name)} is no variable with a text: use letters, digits and _ for the name, and a string for the value`);
    return [name, value];
  });
}

function directoryOf(cwd: unknown, workspace: string): string | undefined {
  if (cwd === undefined) return undefined;
  const dir = path.resolve(workspace, String(cwd));
  try {
    if (fs.statSync(dir).isDirectory()) return dir;
  } catch {
    // not there, or nothing that could be
  }
  throw failure('E_ARGUMENTS', `${dir} is not a directory that can be entered: leave cwd out to stay where the terminal is`);
}
