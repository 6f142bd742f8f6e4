// mcp.ts: the MCP server on stdio, its tools table, the audit log, and the command line.
//
// Runs in    a process that an MCP client (VS Code, or any other) starts and may end at any time: nothing is lost with it.
// Started by the MCP client, or a person (`vscode-devtools --help`).
// Touches    stdin and stdout, the pipes of Host and Client, <workspace>/.devtools/audit/. It starts nothing but a
//            missing Host.
// Refuses    arguments that a tool's schema does not name, a second call under an id in use, and to print anything but
//            the protocol on stdout, whatever a handler prints.
//
// Two eras of MCP in one process: a request whose _meta names a protocol version is served by that alone (2026-07-28);
// `initialize` selects a legacy version for the rest (2024-11-05 to 2025-11-25).
//
// Sections   limits · types · tools · arguments · locks · links to Host and Client · audit log · tool calls ·
//            the protocol · command line · main

import crypto from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import {
  LINE_CAP, LineReader, PROTOCOL, RpcError, VERSION, connect, deadline, devtoolsDir, errorName, failure, isId, isObject, isTooLong, messageOf,
  messageProblem, openPrivate, parseLine, pipePath, privateDir, readKey, runtimeDir, shortHash, startRole, step, type Cancellation, type Connection, type Handler,
} from './bootstrap.js';
import type * as Cdp from './cdp.ts';
import { changeSince, readState, type State } from './changes.ts';
import type * as NodeAdapter from './node-adapter.ts';

// ---------------------------------------------------------------------------------------------------------- limits

const MODERN = ['2026-07-28'];
const LEGACY = ['2025-11-25', '2025-06-18', '2025-03-26', '2024-11-05']; // the first is what an unknown client is offered
const BATCHES = '2025-03-26'; // the one version with arrays
const STRUCTURED_SINCE = '2025-06-18'; // older clients read only text
const BATCH_CAP = 1000;
const META = 'io.modelcontextprotocol/';
const LEVELS = ['debug', 'info', 'notice', 'warning', 'error', 'critical', 'alert', 'emergency'];
const LIST_TTL_MS = 3_600_000; // the tools do not change while the process lives
const PROGRESS_MS = 1000;
const UNREAD_EXIT_MS = 2000; // at stdin's end we leave at once; only answers that the client has not yet taken are waited for so long
const UNREAD_PAUSE = 1024 * 1024; // unread answers before stdin is read no further, and what of stdin may wait then
const UNREAD_CAP = 64 * 1024 * 1024; // unread answers of calls that were under way already
const RUNNING_CAP = 4096;
const READY_MS = 120_000; // a Host finds or starts a Client, or opens a window, within this
const RELOAD_MS = READY_MS + 300_000; // and builds before that
const STATUS_MS = 3000;
const CLIENT_MS = 20_000; // beyond what a call itself may wait: a shell starts, or a tree ends, within this
const DEBUG_MS = 45_000; // the same for the debugger: an adapter starts, a tree of programs ends
const LEDGER_MS = 2000; // an answer waits no longer for its ledger
const HOST_END_MS = 10_000;
const HOST_TRIES = 4;
const WINDOW_HOST_MS = 10_000; // a Host that is a VS Code window is waited for so long
const LOOK_AGAIN_MS = 50;
const AUDIT_FILE_CAP = 8 * 1024 * 1024;
const AUDIT_FILES = 8; // of one chain
const AUDIT_DIR_FILES = 200; // of all chains of a workspace
const AUDIT_ARGS_CAP = 4096;
const AUDIT_CODE_CAP = 1024 * 1024; // of code that was run nothing is left out

// ----------------------------------------------------------------------------------------------------------- types

type Json = Record<string, unknown>;

/** The subset of JSON Schema draft-07 that our tools use and checkValue() understands. */
export type Schema = {
  type?: 'string' | 'integer' | 'number' | 'boolean' | 'object' | 'array' | 'null' | readonly string[];
  description?: string;
  enum?: readonly unknown[];
  default?: unknown;
  minimum?: number;
  maximum?: number;
  minLength?: number;
  maxLength?: number;
  items?: Schema;
  maxItems?: number;
  properties?: Record<string, Schema>;
  required?: readonly string[];
  additionalProperties?: boolean;
  anyOf?: readonly Schema[];
};

/** What runs while a tool call runs. */
type Run = {
  signal: Cancellation; // aborts when the client cancels
  progress: (message: string) => void;
  log: (level: string, text: string) => void;
};

/** What of an AbortSignal our own code uses. A real one costs several microseconds a call, cancelled or not. */
class Cancel {
  aborted = false;
  private readonly listeners = new Set<() => void>();
  addEventListener(_abort: 'abort', listener: () => void): void {
    this.listeners.add(listener);
  }
  removeEventListener(_abort: 'abort', listener: () => void): void {
    this.listeners.delete(listener);
  }
  abort(): void {
    if (this.aborted) return;
    this.aborted = true;
    for (const listener of [...this.listeners]) listener();
    this.listeners.clear();
  }
}

/** A tool is one row. The MCP annotations follow from `effect`, README's table from the whole row. */
export type Tool = {
  name: string; // area_verb
  title: string;
  description: string; // one or two sentences, for a model
  effect: 'read' | 'write' | 'exec' | 'spawn';
  via: 'host' | 'client' | 'debug' | 'cdp';
  input: Schema;
  output: Schema;
  starts?: (args: Json) => boolean; // new work: sources that are newer than the window are built and swapped in before it
  lock?: (args: Json) => string; // calls with the same key run one after the other; '' waits for nobody
  auditArgs?: (args: Json) => Json; // what of the arguments may be written down
  run: (args: Json, run: Run) => Promise<Json>;
  text: (result: Json) => string; // the short readable form
};

// ----------------------------------------------------------------------------------------------------------- tools

const LEDGER_SCHEMA: Schema = {
  type: 'object',
  description: 'Processes that were started through these tools and have not ended.',
  properties: { active: { type: 'array' }, orphaned: { type: 'array' }, more: { type: 'integer' }, unavailable: { type: 'string' } },
  required: ['active', 'orphaned'],
};

const ERROR_SCHEMA: Schema = {
  type: 'object',
  properties: { code: { type: 'string' }, message: { type: 'string' } },
  required: ['code', 'message'],
};

const RELOAD_SCHEMA: Schema = {
  type: 'object',
  description: 'Sources were newer than the window: what came of it.',
  properties: { done: { type: 'boolean' }, changed: { type: 'string' }, build: { type: 'object', properties: { ok: { type: 'boolean' }, durationMs: { type: 'integer' }, output: { type: 'string' } } } },
};

/** The schema of a result: what the tool promises, or an error; the ledger in both. */
function result(properties: Record<string, Schema>, required: string[]): Schema {
  return {
    type: 'object',
    properties: { ...properties, reload: RELOAD_SCHEMA, reloadPending: { type: 'string' }, error: ERROR_SCHEMA, ledger: LEDGER_SCHEMA },
    required: ['ledger'],
    anyOf: [{ required }, { required: ['error'] }],
  };
}

const NAME: Schema = { type: 'string', minLength: 1, maxLength: 64, default: 'default', description: 'The terminal.' };
const TIMEOUT: Schema = { type: 'integer', minimum: 0, maximum: 86_400_000, default: 120_000, description: 'Milliseconds. At the timeout the command goes on running.' };
const WAIT_MODE: Schema = { type: 'string', enum: ['completion', 'background'], default: 'completion', description: '"background" answers as soon as the command has started.' };
const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGKILL', 'SIGHUP', 'SIGQUIT', 'SIGUSR1', 'SIGUSR2', 'SIGSTOP', 'SIGCONT', 'SIGTSTP'];
const NULLABLE: Schema = { anyOf: [{ type: 'integer' }, { type: 'null' }] };
const RUN_RESULT: Schema = result(
  {
    status: { type: 'string', enum: ['completed', 'running', 'waiting_for_input', 'timeout'] },
    output: { type: 'string' }, exitCode: NULLABLE, exitReason: { type: 'string' }, prompt: { type: 'string' }, secret: { type: 'boolean' },
    pid: NULLABLE, name: { type: 'string' }, terminalId: { type: 'string' }, durationMs: { type: 'integer' },
    truncated: { type: 'object', properties: { lines: { type: 'integer' }, characters: { type: 'integer' } } }, logFile: { type: 'string' }, advice: { type: 'string' },
  },
  ['status', 'output', 'exitCode', 'pid', 'name', 'terminalId', 'durationMs'],
);
const SESSION: Schema = { type: 'string', minLength: 1, maxLength: 80, description: 'Default: the newest that lives. "name/c2" is a child.' };
const THREAD: Schema = { type: 'integer' };
const FRAME: Schema = { type: 'integer', description: 'From debug_stack; default the top.' };
const SECONDS: Schema = { type: 'number', minimum: 0, maximum: 86_400, default: 30, description: 'Seconds.' };
const EXCEPTIONS: Schema = { type: 'string', enum: ['uncaught', 'caught', 'all', 'none'] };
const BREAKPOINT: Record<string, Schema> = {
  file: { type: 'string' }, line: { type: 'integer', minimum: 1 }, condition: { type: 'string' }, hitCondition: { type: 'string', description: 'Such as "3" (the third hit alone), ">= 3", "% 2".' },
  logMessage: { type: 'string', description: 'Prints this, with {expressions}, and does not stop.' },
};
const BREAKPOINTS: Schema = { type: 'array', maxItems: 1000, items: { type: 'object', properties: BREAKPOINT, required: ['file', 'line'], additionalProperties: false } };
const LANGUAGE: Schema = { type: 'string', minLength: 1, maxLength: 32, description: 'nodejs, python, ruby, go, c, c++, rust.' };
const STATE: Schema = { type: 'string', enum: ['STOPPED', 'RUNNING', 'TERMINATED', 'DISCONNECTED'] };
const STATE_RESULT: Schema = result(
  {
    session: { type: 'string' }, state: STATE, exitCode: NULLABLE, exitReason: { type: 'string' }, stopReason: { type: 'object', properties: { type: { type: 'string' } }, required: ['type'] },
    threads: { type: 'object', properties: { stopped: { type: 'array' }, running: { type: 'array' } } }, children: { type: 'array', items: { type: 'object' } }, output: { type: 'string' }, message: { type: 'string' },
    bound: { type: 'array', items: { type: 'string' } },
  },
  ['state'],
);
/** What most debug results begin with. */
const ofSession = (properties: Record<string, Schema>, required: string[]): Schema => result({ session: { type: 'string' }, state: STATE, ...properties }, required);
const takes = (properties: Record<string, Schema>, required: string[] = []): Schema => ({ type: 'object', properties, ...(required.length && { required }), additionalProperties: false });
const KILL_RESULT: Schema = result({ killed: { type: 'array', items: { type: 'integer' } }, failed: { type: 'array', items: { type: 'integer' } }, signalled: { type: 'array' } }, ['killed', 'failed']);

const VALUE: Schema = { anyOf: (['string', 'number', 'boolean', 'object', 'array', 'null'] as const).map((type) => ({ type })) };

const UID: Schema = { type: 'string', minLength: 2, maxLength: 16, description: 'A node, from window_snapshot.' };
const NODE_TEXT: Schema = { type: 'string', minLength: 1, maxLength: 500, description: 'A node by what it says, instead of uid.' };
const CURSOR: Schema = { type: 'integer', minimum: 0, description: 'Of the last answer.' };
const PATTERN: Schema = { type: 'string', minLength: 1, maxLength: 1000, description: 'A regular expression.' };
const DIALOG: Schema = { type: 'object', properties: { type: { type: 'string' }, message: { type: 'string' } } };
const ACTION_RESULT: Schema = result({ done: { type: 'string' }, changes: { type: 'string' }, settled: { type: 'boolean' }, focus: { type: 'string' }, reloaded: { type: 'boolean' }, dialog: DIALOG, value: { type: 'string' }, message: { type: 'string' } }, ['done', 'changes', 'settled']);
const ENTRIES_RESULT: Schema = result({ lines: { type: 'array', items: { type: 'string' } }, cursor: { type: 'integer' }, more: { type: 'integer' }, request: { type: 'object' } }, ['lines', 'cursor']);

const DEBUG_QUEUED = ['continue', 'step', 'restart', 'breakpoint_set', 'breakpoint_remove', 'exception_break_on', 'evaluate', 'set_variable'];
const DEBUG_SETTINGS = /^VSCODE_DEVTOOLS_(?:JS_DEBUG|DEBUGPY|RDBG|DLV|LLDB_DAP|DAP_LOG)$/;

/** Who looks at the whole window wants to see what the sources make of it now. An action, or a look at a node, goes on in the
 * window that it was planned for. */
const LOOKS: Record<string, (args: Json) => boolean> = { snapshot: ({ within }) => within === undefined, screenshot: ({ uid }) => uid === undefined, evaluate: () => true };

/** Tokens are put into variables. */
const hideEnv = (args: Json): Json => (isObject(args.env) ? { ...args, env: Object.fromEntries(Object.entries(args.env).map(([name, value]) => [name, `(${String(value).length} characters)`])) } : args);

export const TOOLS: readonly Tool[] = [
  {
    name: 'devtools_status',
    title: 'Status of vscode-devtools',
    description: 'Shows what is connected: MCP server, Host and Client with versions, modes, paths and Safe Mode, and which powers are switched on. Call it when another tool reports a connection problem.',
    effect: 'read',
    via: 'client',
    input: { type: 'object', properties: {}, additionalProperties: false },
    output: result(
      {
        mcp: { type: 'object' },
        host: { type: 'object', properties: { state: { type: 'string' } }, required: ['state'] },
        client: { type: 'object', properties: { state: { type: 'string' } }, required: ['state'] },
        powers: { type: 'object', properties: { exec: { type: 'boolean' } } },
        paths: { type: 'object' },
        warnings: { type: 'array', items: { type: 'string' } },
      },
      ['mcp', 'host', 'client', 'powers', 'paths', 'warnings'],
    ),
    run: devtoolsStatus,
    text: statusText,
  },
  {
    name: 'devtools_reload',
    title: 'Reload the window',
    description: 'Builds the extension under development and swaps the window (headless: the Client) for a new one, also out of Safe Mode. Newer sources are noticed by themselves; while something runs there nothing is swapped unless `force` is given.',
    effect: 'spawn',
    via: 'host',
    input: takes({ force: { type: 'boolean', default: false, description: 'Also while a command runs or a program is stopped there: it is ended.' } }),
    output: result({ reloaded: { type: 'boolean' }, clientPid: NULLABLE, cdpPort: NULLABLE, build: { type: 'object' }, message: { type: 'string' } }, ['reloaded', 'clientPid']),
    lock: () => 'the reload',
    run: devtoolsReload,
    text: (body) => String(body.message),
  },
  {
    name: 'devtools_exec',
    title: 'Run code inside the Client',
    description: 'Fallback where no tool helps: runs JavaScript in the Client (in a window: in the extension host), as the body of an async function with `vscode`, `payload` and `require`, and returns its value.',
    effect: 'exec',
    via: 'client',
    input: takes({ code: { type: 'string', minLength: 1, maxLength: 1_000_000 }, payload: VALUE }, ['code']),
    output: result({ pending: { type: 'boolean' }, value: VALUE, message: { type: 'string' } }, ['pending']),
    starts: () => true,
    run: (args, run) => askClient('exec', args, run).catch((error) => {
      if (!(error instanceof RpcError) || error.code !== -32601) throw error;
      throw refusedExec();
    }),
    text: (body) => (body.message ? String(body.message) : JSON.stringify(body.value)),
  },
  {
    name: 'terminal_run',
    title: 'Run a command in a terminal',
    description: 'Runs a shell command in a named terminal that keeps its directory and variables, and answers once: when the command has ended (with its exit code and output), asks for input, or the timeout (milliseconds) is up. Use waitMode "background" for servers and watchers.',
    effect: 'spawn',
    via: 'client',
    input: {
      type: 'object',
      properties: {
        command: { type: 'string', minLength: 1, description: 'Any shell text; several lines and here-documents too.' },
        name: NAME, cwd: { type: 'string', description: 'Directory to change to first (it stays).' },
        env: { type: 'object', description: 'Variables to set first, each a string (they stay).' },
        timeout: TIMEOUT, waitMode: WAIT_MODE,
        graceMs: { type: 'integer', minimum: 0, maximum: 86_400_000, description: 'Only for shells that do not tell when a command ends.' },
      },
      required: ['command'],
      additionalProperties: false,
    },
    output: RUN_RESULT,
    starts: () => true,
    lock: (args) => `terminal ${String(args.name)}`,
    auditArgs: (args) => hideEnv(args),
    run: terminalRun,
    text: runText,
  },
  {
    name: 'terminal_input',
    title: 'Answer a prompt',
    description: 'Types text into what runs in a terminal (Enter follows unless addNewline is false), then waits as terminal_run does. What is typed is not logged.',
    effect: 'write',
    via: 'client',
    input: { type: 'object', properties: { name: { type: 'string', minLength: 1, maxLength: 64 }, text: { type: 'string' }, addNewline: { type: 'boolean', default: true }, timeout: TIMEOUT, waitMode: WAIT_MODE }, required: ['name', 'text'], additionalProperties: false },
    output: RUN_RESULT,
    auditArgs: (args) => ({ ...args, text: `(${String(args.text).length} characters)` }),
    run: (args, run) => askClient('terminal.input', args, run),
    text: runText,
  },
  {
    name: 'terminal_wait',
    title: 'Wait for a terminal',
    description: 'Goes on waiting for the command in a terminal, up to the timeout (milliseconds). In an idle terminal it returns the result of the last command at once.',
    effect: 'read',
    via: 'client',
    input: { type: 'object', properties: { name: NAME, timeout: TIMEOUT }, additionalProperties: false },
    output: RUN_RESULT,
    run: async (args, run) => {
      const body = await askClient('terminal.wait', args, run);
      return body.status === 'timeout' ? { ...body, advice: STILL_RUNNING } : body;
    },
    text: runText,
  },
  {
    name: 'terminal_read',
    title: 'Read a terminal',
    description: 'Shows what a terminal has printed, over all its commands: the last N lines, or all that is kept. includeMetadata adds its state and input history.',
    effect: 'read',
    via: 'client',
    input: { type: 'object', properties: { name: NAME, lastN: { type: 'integer', minimum: 1, maximum: 100_000 }, includeMetadata: { type: 'boolean' } }, additionalProperties: false },
    output: result({ name: { type: 'string' }, output: { type: 'string' } }, ['name', 'output']),
    run: (args, run) => askClient('terminal.getBuffer', args, run),
    text: (body) => String(body.output),
  },
  {
    name: 'terminal_interrupt',
    title: 'Interrupt a command',
    description: 'Sends a signal to the command in the foreground of a terminal, as Ctrl+C does, and waits up to 2 seconds for its end.',
    effect: 'write',
    via: 'client',
    input: { type: 'object', properties: { name: NAME, signal: { type: 'string', enum: SIGNALS, default: 'SIGINT' } }, additionalProperties: false },
    output: RUN_RESULT,
    run: (args, run) => askClient('terminal.interrupt', args, run),
    text: runText,
  },
  {
    name: 'terminal_list',
    title: 'List terminals',
    description: 'Lists the terminals: state, what runs there, directory, input history and last lines.',
    effect: 'read',
    via: 'client',
    input: { type: 'object', properties: { runningOnly: { type: 'boolean', default: false } }, additionalProperties: false },
    output: result({ terminals: { type: 'array', items: { type: 'object' } } }, ['terminals']),
    run: (args, run) => askClient('terminal.list', args, run),
    text: (body) => rows(body.terminals, (one) => `${String(one.name)}: ${String(one.state)}${one.command ? ` ${String(one.command)}` : ''} (pid ${String(one.pid)}, ${String(one.cwd)})`) || 'no terminals',
  },
  {
    name: 'terminal_close',
    title: 'Close a terminal',
    description: 'Closes a terminal and ends everything that was started in it.',
    effect: 'write',
    via: 'client',
    input: { type: 'object', properties: { name: { type: 'string', minLength: 1, maxLength: 64 } }, required: ['name'], additionalProperties: false },
    output: result({ closed: { type: 'string' } }, ['closed']),
    run: (args, run) => askClient('terminal.close', args, run),
    text: (body) => `closed ${String(body.closed)}`,
  },
  {
    name: 'process_list',
    title: 'List processes',
    description: 'Lists every living process that was started through these tools, with parents and terminals, those left by a crashed predecessor (orphaned), and the last that ended.',
    effect: 'read',
    via: 'host',
    input: { type: 'object', properties: {}, additionalProperties: false },
    output: result({ active: { type: 'array', items: { type: 'object' } }, orphaned: { type: 'array', items: { type: 'object' } }, ended: { type: 'array' }, more: { type: 'integer' } }, ['active', 'orphaned']),
    run: (_args, run) => askHost('system.getProcessLedger', { full: true }, run),
    text: (body) => ['active', 'orphaned'].map((state) => rows(body[state], (one) => `${state} ${String(one.pid)} ${String(one.commandLine)} (${String(one.terminalName)}, parent ${String(one.parentPid)})`)).filter(Boolean).join('\n') || 'no processes',
  },
  {
    name: 'process_kill',
    title: 'End a process',
    description: 'Ends a process of the ledger with all that it started: TERM, then KILL for those who stay. Any other pid is refused. With `signal`, only that signal is sent.',
    effect: 'write',
    via: 'host',
    input: { type: 'object', properties: { pid: { type: 'integer', minimum: 1 }, signal: { type: 'string', enum: SIGNALS } }, required: ['pid'], additionalProperties: false },
    output: KILL_RESULT,
    run: (args, run) => askHost('process.kill', args, run),
    text: killText,
  },
  {
    name: 'process_kill_orphans',
    title: 'End all orphaned processes',
    description: 'Ends every process that the ledger shows as orphaned: alive, started through these tools, and without a terminal.',
    effect: 'write',
    via: 'host',
    input: { type: 'object', properties: {}, additionalProperties: false },
    output: KILL_RESULT,
    run: (_args, run) => askHost('process.killOrphans', {}, run),
    text: killText,
  },
  {
    name: 'workspace_analyze',
    title: 'Analyze the workspace',
    description: 'Says what the workspace is made of (stacks, nested projects, package manager), which processes to expect, and which scripts start servers that do not end by themselves. Runs nothing.',
    effect: 'read',
    via: 'host',
    input: { type: 'object', properties: {}, additionalProperties: false },
    output: result({ detectedStacks: { type: 'array', items: { type: 'string' } }, projectRoot: { type: 'string' }, expectedProcesses: { type: 'array', items: { type: 'string' } } }, ['detectedStacks', 'projectRoot', 'expectedProcesses']),
    run: (_args, run) => askHost('workspace.analyze', {}, run),
    text: (body) => `${String(body.projectRoot)}: ${Array.isArray(body.detectedStacks) && body.detectedStacks.length ? body.detectedStacks.join(', ') : 'no stack that is known'}\n${rows(body.devServers, (one) => `server: ${String(one.command)} (${String(one.runs)})`)}`.trimEnd(),
  },
  {
    name: 'output_list_channels',
    title: 'List output channels',
    description: "Lists the output channels of the window, other extensions' too (those that something was written to).",
    effect: 'read',
    via: 'client',
    input: takes({}),
    output: result({ channels: { type: 'array', items: { type: 'object' } } }, ['channels']),
    run: (_args, run) => askClient('output.listChannels', {}, run),
    text: (body) => rows(body.channels, (one) => `${String(one.name)}${one.extension ? ` (${String(one.extension)})` : ''}, ${String(one.bytes)} bytes`),
  },
  {
    name: 'output_read',
    title: 'Read an output channel',
    description: 'Shows the last lines of an output channel; `pattern` (a regular expression) picks lines.',
    effect: 'read',
    via: 'client',
    input: takes({ channel: { type: 'string', minLength: 1, maxLength: 200 }, limit: { type: 'integer', minimum: 1, maximum: 10_000, default: 200 }, pattern: { type: 'string', minLength: 1, maxLength: 1000 } }, ['channel']),
    output: result({ channel: { type: 'string' }, lines: { type: 'array', items: { type: 'string' } }, more: { type: 'integer' } }, ['channel', 'lines']),
    run: (args, run) => askClient('output.read', args, run),
    text: (body) => `${Array.isArray(body.lines) ? body.lines.join('\n') : ''}${body.more ? `\n[${String(body.more)} earlier lines: raise limit, or use pattern]` : ''}`,
  },
  {
    name: 'workspace_problems',
    title: 'Problems of the workspace',
    description: 'Shows what the Problems panel of the window shows: file, range, severity, source and message. `file` picks a file or folder, `severity` the least severe that counts.',
    effect: 'read',
    via: 'client',
    input: takes({ file: { type: 'string', minLength: 1 }, severity: { type: 'string', enum: ['error', 'warning', 'information', 'hint'] } }),
    output: result({ problems: { type: 'array', items: { type: 'object' } }, counts: { type: 'object' }, more: { type: 'integer' } }, ['problems', 'counts']),
    run: (args, run) => askClient('workspace.problems', args, run),
    text: (body) => rows(body.problems, (one) => `${String(one.file)}:${String(one.line)}:${String(one.column)} ${String(one.severity)}${one.source ? ` [${String(one.source)}]` : ''} ${String(one.message)}`) || 'no problems',
  },
  {
    name: 'window_command',
    title: 'Run a VS Code command',
    description: 'Runs a command of VS Code or of an extension by its id, in the window, without a click. `args` are its arguments ({"$uri":"file:///..."} stands for a URI).',
    effect: 'write',
    via: 'client',
    input: takes({ command: { type: 'string', minLength: 1, maxLength: 500 }, args: { type: 'array', maxItems: 20 } }, ['command']),
    output: result({ command: { type: 'string' }, pending: { type: 'boolean' }, value: VALUE, message: { type: 'string' } }, ['command', 'pending']),
    starts: () => true,
    lock: () => 'the window',
    run: (args, run) => askClient('command.execute', args, run),
    text: (body) => (body.message ? String(body.message) : body.value === null ? 'done' : JSON.stringify(body.value)),
  },
  windowTool('list', 'Targets of the window', 'Lists what is in the window: workbench, webviews (by title), workers, with ids for `target`.', 'read', takes({}), result({ targets: { type: 'array', items: { type: 'object' } }, dialog: DIALOG }, ['targets']), (body) => rows(body.targets, (one) => `${String(one.id)} ${String(one.kind)} ${JSON.stringify(one.title)} ${String(one.url)}`)),
  windowTool('snapshot', 'Look at the window', 'Shows the window as text, webviews, editors and terminals too: a line a node, `uid role "name" states = "value"`. Uids stay valid while a node lives. `within` shows a part (uid or text), `find` only what says a text.', 'read', takes({ within: { type: 'string', minLength: 1, maxLength: 500 }, find: { type: 'string', minLength: 1, maxLength: 500 }, depth: { type: 'integer', minimum: 0, maximum: 100 }, verbose: { type: 'boolean', description: 'Everything, unshortened.' } }), result({ snapshot: { type: 'string' }, title: { type: 'string' }, found: { type: 'integer' }, left: { type: 'integer' }, notes: { type: 'array', items: { type: 'string' } }, dialog: DIALOG, message: { type: 'string' } }, ['snapshot']), (body) => [body.snapshot, body.message].filter(Boolean).join('\n')),
  windowTool('click', 'Click', 'Clicks a node when it is in view, enabled and not covered, waits until the window has settled, and says what has changed.', 'write', takes({ uid: UID, text: NODE_TEXT, button: { type: 'string', enum: ['left', 'right', 'middle'], default: 'left' }, count: { type: 'integer', minimum: 1, maximum: 3, default: 1, description: '2: a double click.' }, modifiers: { type: 'array', maxItems: 4, items: { type: 'string', enum: ['Control', 'Shift', 'Alt', 'Meta'] } } }), ACTION_RESULT),
  windowTool('hover', 'Hover', 'Rests the mouse on a node, and says what shows itself.', 'write', takes({ uid: UID, text: NODE_TEXT }), ACTION_RESULT),
  windowTool('drag', 'Drag', 'Drags a node onto another (uids, or texts).', 'write', takes({ from: { type: 'string', minLength: 1, maxLength: 500 }, to: { type: 'string', minLength: 1, maxLength: 500 } }, ['from', 'to']), ACTION_RESULT),
  windowTool('scroll', 'Scroll', 'Scrolls at a node, or in the middle, by pixels; a uid alone is brought into view.', 'write', takes({ uid: UID, dx: { type: 'number', minimum: -100_000, maximum: 100_000 }, dy: { type: 'number', minimum: -100_000, maximum: 100_000 } }), ACTION_RESULT),
  windowTool('type', 'Type', 'Types text into a node (or where the focus is): fields, editors; a combo box takes an option, a check box "true" or "false". `clear` empties it first, `submit` presses Enter.', 'write', takes({ text: { type: 'string', maxLength: 100_000 }, uid: UID, clear: { type: 'boolean', default: false }, submit: { type: 'boolean', default: false } }, ['text']), ACTION_RESULT),
  windowTool('press_key', 'Press keys', 'Presses keys or chords, such as "Enter", "Control+Shift+P", "Control+K Control+S".', 'write', takes({ keys: { type: 'string', minLength: 1, maxLength: 500 } }, ['keys']), ACTION_RESULT),
  windowTool('screenshot', 'Picture of the window', 'Takes a picture of the window or of a node; the full size is in `file`.', 'read', takes({ uid: UID, format: { type: 'string', enum: ['png', 'jpeg'], default: 'png' }, full: { type: 'boolean', default: false, description: 'Not scaled down.' } }), result({ file: { type: 'string' }, width: { type: 'integer' }, height: { type: 'integer' }, scale: { type: 'number' } }, ['file', 'width', 'height']), (body) => `${String(body.file)} (${String(body.width)} x ${String(body.height)})`),
  windowTool('wait_for', 'Wait for the window', 'Waits until a text appears, a node (uid) can be used, or, with `gone` (a text, or true with text or uid), until it is not there any more; timeout in seconds.', 'read', takes({ text: { type: 'string', minLength: 1, maxLength: 500 }, gone: { anyOf: [{ type: 'string' }, { type: 'boolean' }] }, uid: UID, timeout: { ...SECONDS, default: 10 } }), result({ found: { type: 'boolean' }, waitedMs: { type: 'integer' }, node: { type: 'string' }, message: { type: 'string' } }, ['found', 'waitedMs']), (body) => (body.found === true ? `there after ${String(body.waitedMs)} ms ${String(body.node ?? '')}`.trim() : String(body.message))),
  windowTool('console', 'Console of the window', 'Shows what workbench, webviews and workers have written to their consoles.', 'read', takes({ cursor: CURSOR, level: { type: 'string', enum: ['debug', 'info', 'warning', 'error'], description: 'The least that counts.' }, pattern: PATTERN }), ENTRIES_RESULT, entriesText),
  windowTool('network', 'Network of the window', 'Lists what the window has requested since the first window tool; with `id` one request with its headers and body.', 'read', takes({ cursor: CURSOR, pattern: PATTERN, id: { type: 'string', minLength: 1, maxLength: 20 } }), ENTRIES_RESULT, entriesText),
  windowTool('evaluate', 'Evaluate in the window', "Evaluates JavaScript in the page of the workbench, or of a `target` of window_list (id or a webview's title).", 'exec', takes({ expression: { type: 'string', minLength: 1, maxLength: 1_000_000 }, target: { type: 'string', minLength: 1, maxLength: 200 } }, ['expression']), result({ value: VALUE, truncated: { type: 'boolean' }, message: { type: 'string' } }, ['value']), (body) => String(body.message ?? JSON.stringify(body.value))),
  debugTool('start', 'Debug a program', 'Starts a program under a debugger and answers once: when it is stopped (where and why), has ended (exit code and output), or still runs after the timeout (seconds). Node children, workers and forks become children of the session.', 'spawn', takes({
    language: { ...LANGUAGE, default: 'nodejs' }, adapter: { type: 'string', description: 'An adapter by name or path, instead of the one that is found.' }, program: { type: 'string', minLength: 1 }, args: { type: 'array', items: { type: 'string' }, maxItems: 1000 },
    cwd: { type: 'string' }, env: { type: 'object' }, stopOnEntry: { type: 'boolean' }, breakpoints: BREAKPOINTS, exceptions: EXCEPTIONS, session: { type: 'string', minLength: 1, maxLength: 64, description: 'A name for it.' },
    terminal: { type: 'string', minLength: 1, maxLength: 64, description: 'Runs it in this terminal, for programs that read input.' }, timeout: SECONDS,
  }, ['program']), STATE_RESULT),
  debugTool('attach', 'Attach to a program', 'Attaches to a running program: Node (--inspect port, or pid), Python (debugpy --listen), Ruby (rdbg --open), Go, C (pid), or any DAP server by its port. debug_stop leaves it running.', 'spawn', takes({
    language: LANGUAGE, host: { type: 'string', default: '127.0.0.1' }, port: { type: 'integer', minimum: 1, maximum: 65_535 }, pid: { type: 'integer', minimum: 1 }, target: { type: 'string', enum: ['extension'] }, breakpoints: BREAKPOINTS, exceptions: EXCEPTIONS,
    session: { type: 'string', minLength: 1, maxLength: 64 }, timeout: SECONDS,
  }, ['language']), STATE_RESULT),
  debugTool('status', 'State of debug sessions', 'Shows where and why a session is stopped, its threads, children and breakpoints; without `session`, of all sessions.', 'read', takes({ session: SESSION }), STATE_RESULT),
  debugTool('wait_for_stop', 'Wait for a stop', 'Waits until the program stops or ends, up to the timeout (seconds); at once if it is stopped.', 'read', takes({ session: SESSION, timeout: SECONDS }), STATE_RESULT),
  debugTool('continue', 'Continue', 'Lets the reported stop go on. With `wait`, answers at the next stop or end. Other stops that wait are reported next.', 'write', takes({ session: SESSION, thread: THREAD, wait: { type: 'boolean', default: false }, timeout: SECONDS }), STATE_RESULT),
  debugTool('step', 'Step', 'Steps the stopped thread over, into or out, `count` times, and answers where it is then.', 'write', takes({ kind: { type: 'string', enum: ['over', 'into', 'out'], default: 'over' }, session: SESSION, thread: THREAD, count: { type: 'integer', minimum: 1, maximum: 10_000, default: 1 }, timeout: SECONDS }), STATE_RESULT),
  debugTool('pause', 'Pause', 'Stops a running program where it is.', 'write', takes({ session: SESSION, thread: THREAD }), STATE_RESULT),
  debugTool('restart', 'Restart', 'Ends a session and starts it again with its breakpoints.', 'spawn', takes({ session: SESSION }), STATE_RESULT),
  debugTool('stop', 'End a debug session', 'Ends a session with its program and all its children (one that was attached to goes on).', 'write', takes({ session: SESSION }), STATE_RESULT),
  debugTool('breakpoint_set', 'Set a breakpoint', 'Sets a breakpoint by file and line, on the entry of a function, or on a variable (a watchpoint, where the adapter has them). Says whether and where it is bound.', 'write', takes({
    ...BREAKPOINT, function: { type: 'string', minLength: 1 }, variable: { type: 'string', minLength: 1 }, access: { type: 'string', enum: ['read', 'write'], default: 'write' }, session: SESSION,
  }), ofSession({ breakpoint: { type: 'object' } }, ['breakpoint'])),
  debugTool('breakpoint_remove', 'Remove breakpoints', 'Removes a breakpoint by id, or those of a file (or of one line of it).', 'write', takes({ id: { type: 'string' }, file: { type: 'string' }, line: { type: 'integer', minimum: 1 }, session: SESSION }), ofSession({ removed: { type: 'array', items: { type: 'string' } }, breakpoints: { type: 'array', items: { type: 'object' } } }, ['removed'])),
  debugTool('exception_break_on', 'Stop at exceptions', 'Stops at uncaught, caught or all exceptions, or those of one class; "none" ends that.', 'write', takes({ filter: EXCEPTIONS, exceptionClass: { type: 'string', minLength: 1 }, session: SESSION }, ['filter']), ofSession({ filter: { type: 'string' } }, ['filter'])),
  debugTool('stack', 'Call stack', 'Shows the frames of the stopped thread; `source` adds that many lines around each.', 'read', takes({ session: SESSION, thread: THREAD, levels: { type: 'integer', minimum: 1, maximum: 200, default: 20 }, source: { type: 'integer', minimum: 0, maximum: 50, default: 0 } }), ofSession({ frames: { type: 'array', items: { type: 'object' } } }, ['frames'])),
  debugTool('variables', 'Variables', 'Shows the variables of a frame, bounded. `path` ("user.items[3]", or an expression) and `depth` go deeper; `filter` picks names.', 'read', takes({
    session: SESSION, frame: FRAME, scope: { type: 'string', default: 'local', description: 'local, closure, global, or a name that the frame has.' }, path: { type: 'string' }, depth: { type: 'integer', minimum: 1, maximum: 8, default: 1 }, filter: { type: 'string' },
  }), ofSession({ variables: { type: 'array', items: { type: 'object' } }, more: { type: 'integer' } }, ['variables'])),
  debugTool('evaluate', 'Evaluate an expression', 'Evaluates an expression in a stopped frame; it may have side effects.', 'write', takes({ expression: { type: 'string', minLength: 1 }, session: SESSION, frame: FRAME }, ['expression']), ofSession({ result: { type: 'string' }, type: { type: 'string' } }, ['result'])),
  debugTool('set_variable', 'Set a variable', 'Sets a variable (or a path such as "user.name") of a stopped frame to the value of an expression.', 'write', takes({ name: { type: 'string', minLength: 1 }, value: { type: 'string', minLength: 1 }, session: SESSION, frame: FRAME }, ['name', 'value']), ofSession({ value: { type: 'string' } }, ['value'])),
  debugTool('events', 'Debug events', 'Lists what happened without a stop: modules, threads, children, breakpoints that were bound. `cursor` of the last answer goes on from there.', 'read', takes({ session: SESSION, cursor: { type: 'integer', minimum: 0 }, kinds: { type: 'array', items: { type: 'string', enum: ['thread', 'module', 'process', 'child', 'breakpoint', 'stopped'] } } }), ofSession({ events: { type: 'array', items: { type: 'object' } }, cursor: { type: 'integer' } }, ['events', 'cursor'])),
  debugTool('output', 'Output of a debugged program', 'Shows what the program printed, from `cursor` on; stream "console" has the messages of debugger and log breakpoints.', 'read', takes({ session: SESSION, cursor: { type: 'integer', minimum: 0 }, stream: { type: 'string', enum: ['stdout', 'stderr', 'console'] } }), ofSession({ output: { type: 'string' }, cursor: { type: 'integer' } }, ['output', 'cursor'])),
];

// ---- the window

/** A row of the window: cdp.ts does it, and is loaded when the first is called. */
function windowTool(verb: string, title: string, description: string, effect: Tool['effect'], input: Schema, output: Schema, text: Tool['text'] = actionText): Tool {
  return { name: `window_${verb}`, title, description, effect, via: 'cdp', input, output, run: (args, run) => askWindow(verb, args, run), text, ...(LOOKS[verb] && { starts: LOOKS[verb] }), ...(effect === 'write' && { lock: () => 'the window' }), ...(verb === 'type' && { auditArgs: (args: Json) => ({ ...args, text: `(${String(args.text).length} characters)` }) }) };
}

async function askWindow(verb: string, args: Json, run: Run): Promise<Json> {
  link.inWindow++;
  try {
    return await workInWindow(verb, args, run);
  } finally {
    link.inWindow--;
  }
}

async function workInWindow(verb: string, args: Json, run: Run): Promise<Json> {
  if (verb === 'evaluate') await checkExec(run);
  const window = await windowLink(run);
  const { VERBS } = windowBundle();
  const work = VERBS[verb];
  if (!work) throw failure('E_INTERNAL', `cdp.ts has no ${verb}`);
  return work({ window, args, signal: run.signal, pictures: path.join(workspaceFiles(), 'logs'), progress: run.progress });
}

/** cdp.ts, in a bundle of its own: a server that is asked for no window need not load a WebSocket. */
const windowBundle = (): typeof Cdp => require(path.join(__dirname, 'cdp.js')) as typeof Cdp; // what build.mjs makes of it

/** Code runs in the window only where the user has allowed it: the Host knows. */
async function checkExec(run: Run): Promise<void> {
  const { powers } = await hostStatus(run);
  if (!isObject(powers) || powers.exec !== true) throw refusedExec();
}

const refusedExec = (): Error => failure('E_REFUSED', 'code is not run here: this user has not allowed it. In VS Code: the user setting vscode-devtools.allowExec; for a headless Host: {"allowExec":true} in ~/.config/vscode-devtools/settings.json (mode 0600). Nothing was run');

/** What an action did and what came of it. */
function actionText({ done, changes, focus, message, value }: Json): string {
  return [done, value === undefined ? '' : `its value: ${String(value)}`, changes || 'nothing else has changed', focus && `focus: ${String(focus)}`, message].filter(Boolean).join('\n');
}

function entriesText({ lines, more, request }: Json): string {
  if (isObject(request)) return JSON.stringify(request, null, 1);
  return `${more ? `[${String(more)} earlier ones: use pattern]\n` : ''}${Array.isArray(lines) && lines.length ? lines.join('\n') : 'nothing'}`;
}

// ---- debugging

/** A row of the debugger: all of them are questions to the debug process under the same name. */
function debugTool(verb: string, title: string, description: string, effect: Tool['effect'], input: Schema, output: Schema): Tool {
  return {
    name: `debug_${verb}`, title, description, effect, via: 'debug', input, output, run: (args, run) => askDebug(verb, args, run), text: debugText,
    ...(DEBUG_QUEUED.includes(verb) && { lock: (args: Json) => (args.wait === true ? '' : `debug session ${String(args.session ?? '').split('/')[0]}`) }),
    ...(verb === 'start' && { auditArgs: hideEnv }),
    ...((verb === 'start' || verb === 'attach') && { starts: () => true }),
  };
}

async function askDebug(verb: string, args: Json, run: Run): Promise<Json> {
  const peer = await debugLink(run);
  const waits = typeof args.timeout === 'number' ? args.timeout * 1000 : verb === 'restart' ? 30_000 : 0;
  const settings = verb === 'start' || verb === 'attach' ? { settings: Object.fromEntries(Object.entries(process.env).filter(([name]) => DEBUG_SETTINGS.test(name))) } : {};
  const said = await peer.call(`debug.${verb}`, { ...args, ...settings }, { timeoutMs: waits + DEBUG_MS, signal: run.signal, onProgress: run.progress }).catch((error) => {
    if (errorName(error) !== 'E_NO_SESSION' || !link.debugLost) throw error;
    throw failure('E_NO_SESSION', `${messageOf(error)}. The debug process ended at ${link.debugLost}, and its sessions and programs with it`);
  });
  const body = isObject(said) ? said : {};
  // The Host says it too; this answer may be quicker.
  if (link.paused && String(body.session).split('/')[0] === link.paused && typeof body.state === 'string' && body.state !== 'STOPPED') delete link.paused;
  return body;
}

/** A debug result in a few lines: state and place, then whatever the tool is about. */
function debugText(body: Json): string {
  const { state, exitCode, exitReason, message, output, breakpoint, result: value, frames, variables, events, bound, name } = body;
  const stop = isObject(body.stopReason) ? body.stopReason : {};
  const place = (one: unknown): string => (isObject(one) ? `${String(one.file)}:${String(one.line)}${one.function ? ` in ${String(one.function)}` : ''}${one.source ? `: ${String(one.source)}` : ''}` : '');
  const details = isObject(stop.details) ? stop.details : {};
  const why = details.exceptionType ? ` ${String(details.exceptionType)}: ${String(details.message)}` : details.variable ? ` ${String(details.variable)}` : details.hitCount ? ` (hit ${String(details.hitCount)})` : '';
  const others = listIn(body.threads, 'stopped').length - 1;
  return [
    body.session && `${String(body.session)}: ${String(state)}${state === 'TERMINATED' ? `, exit code ${String(exitCode)}${exitReason ? ` (${String(exitReason)})` : ''}` : ''}`,
    stop.location ? `${String(stop.type)}${why} at ${place(stop.location)}${others > 0 ? `, and ${others} more stopped` : ''}` : '',
    rows(body.children, (one) => `child ${String(one.session)} ${String(one.name)}: ${String(one.state)}`),
    isObject(breakpoint) ? `${String(breakpoint.id)} ${breakpoint.verified === true ? 'verified' : 'not verified'}${breakpoint.message ? `: ${String(breakpoint.message)}` : ''}` : '',
    value !== undefined ? String(value) : name !== undefined && body.value !== undefined ? `${String(name)} = ${String(body.value)}` : body.value !== undefined ? String(body.value) : '',
    Array.isArray(frames) ? rows(frames, (one) => `#${String(one.frame)} ${place(one)}${Array.isArray(one.lines) ? `\n${one.lines.join('\n')}` : ''}`) : '',
    Array.isArray(variables) ? valueLines(variables, '') : '',
    rows(events, (one) => `${String(one.kind)} ${JSON.stringify(Object.fromEntries(Object.entries(one).filter(([key]) => !['kind', 'cursor', 'at'].includes(key))))}`),
    output ? String(output).trimEnd() : '',
    Array.isArray(bound) ? bound.join('\n') : '',
    message ?? body.error,
  ].filter(Boolean).join('\n');
}

const listIn = (value: unknown, key: string): unknown[] => (isObject(value) && Array.isArray(value[key]) ? value[key] : []);

function valueLines(variables: unknown[], indent: string): string {
  return variables.filter(isObject).map((one) => `${indent}${String(one.name)} = ${String(one.value)}${Array.isArray(one.children) ? `\n${valueLines(one.children, `${indent}  `)}` : ''}`).join('\n');
}

// ---- terminals and processes

/** A line an entry of a list. */
const rows = (list: unknown, line: (one: Json) => string): string => (Array.isArray(list) ? list.filter(isObject).map(line).join('\n') : '');

async function askClient(method: string, args: Json, run: Run): Promise<Json> {
  const peer = await clientLink(run);
  if (link.paused) throw pausedError(link.paused, false);
  const waits = typeof args.timeout === 'number' ? args.timeout : 0;
  // A breakpoint may stop the Client in the middle of the call: then it does not answer until somebody lets it go on.
  const cancel = new Cancel();
  const abort = (): void => cancel.abort();
  run.signal.addEventListener('abort', abort);
  link.onPaused.add(abort);
  try {
    const said = await peer.call(method, args, { timeoutMs: waits + CLIENT_MS, signal: cancel, onProgress: run.progress });
    return isObject(said) ? said : {};
  } catch (error) {
    throw link.paused && !run.signal.aborted && errorName(error) === 'E_CANCELLED' ? pausedError(link.paused, true) : error;
  } finally {
    run.signal.removeEventListener('abort', abort);
    link.onPaused.delete(abort);
  }
}

/** The extension host stands at a breakpoint of ours. */
function pausedError(session: string, isSent: boolean): Error {
  return failure('E_CLIENT_PAUSED', `the Client stands at a breakpoint of debug session ${JSON.stringify(session)}, so ${isSent ? 'this call was begun and goes on with it; its answer is lost' : 'it cannot be asked anything: nothing was done'}. debug_status says where it stands, debug_continue {"session":${JSON.stringify(session)}} lets it go on, debug_stop ends the debugging; debug_* and process_* tools work meanwhile`, { session });
}

/** The Client is there; it may stand at a breakpoint. */
async function clientOrPaused(run: Run): Promise<void> {
  await clientLink(run).catch((error) => {
    if (errorName(error) !== 'E_CLIENT_PAUSED') throw error;
  });
}

async function askHost(method: string, args: Json, run: Run): Promise<Json> {
  await clientOrPaused(run); // the Host knows the workspace, and its ledger, by its Client
  const peer = await hostLink(run);
  const said = await peer.call(method, { ...args, workspace: options.workspace }, { timeoutMs: CLIENT_MS, signal: run.signal });
  return isObject(said) ? said : {};
}

const STILL_RUNNING = 'It goes on running: terminal_wait waits on, terminal_interrupt ends it.';

async function terminalRun(args: Json, run: Run): Promise<Json> {
  const body = await askClient('terminal.run', args, run);
  if (body.status !== 'timeout') return body;
  const { devServer } = await askHost('workspace.devServer', { command: args.command, cwd: args.cwd }, run).catch((): Json => ({}));
  const advice = devServer ? `${String(devServer)} starts a server or watcher, which does not end by itself: it goes on running. Next time use waitMode "background"; terminal_read shows its output, terminal_interrupt ends it.` : STILL_RUNNING;
  return { ...body, advice };
}

function runText(body: Json): string {
  const { status, output, exitCode, exitReason, prompt, secret, advice, durationMs } = body;
  const state = status === 'completed' ? `exit code ${String(exitCode)}${exitReason ? ` (${String(exitReason)})` : ''}, ${String(durationMs)} ms` : status === 'waiting_for_input' ? `waits for input${secret === true ? ' (hidden)' : ''}: ${String(prompt)}` : String(status);
  return [String(output).trimEnd(), `[${state}]`, advice].filter(Boolean).join('\n');
}

function killText(body: Json): string {
  const parts = [['ended', body.killed], ['signalled', body.signalled], ['still alive', body.failed]];
  return parts.map(([what, pids]) => (Array.isArray(pids) && pids.length ? `${String(what)}: ${pids.join(', ')}` : '')).filter(Boolean).join('; ') || 'nothing to end';
}

// ---- hot reload

/** Before new work begins: if sources are newer than the window that runs them, the Host builds them and swaps it. What came of
 * that is part of the result. */
async function freshen(tool: Tool, args: Json, run: Run): Promise<Json> {
  const starts = tool.starts?.(args) === true;
  if ((!starts && tool.via !== 'cdp') || (await clientLink(run).then(() => false, () => true))) return {}; // what is wrong with the Client the tool says itself
  const changed = link.sources ? await changeSince(link.sources) : '';
  if (!changed) return {};
  if (!starts) return { reloadPending: `${changed} is newer than what runs in the window: window_snapshot, window_command or devtools_reload load it` };
  if (link.inWindow) return { reloadPending: `${changed} is newer than what runs in the window, where ${link.inWindow} window tools are under way: the next call loads it` };
  const said = await askReload({}, run);
  const build = isObject(said.build) ? said.build : {};
  if (said.pending) return { reloadPending: `${changed} is newer than what runs, but ${String(said.pending)}: it is loaded when that has ended, or now by devtools_reload {"force":true}` };
  if (build.ok === false) return { reload: { done: false, changed, build }, reloadPending: `${changed} was changed, but the build failed, so the old code still runs. Mend it and call again` };
  return { reload: { done: said.reused === false, changed, ...(said.build !== undefined && { build: { ...build, output: '' } }) } };
}

async function askReload(wish: Json, run: Run): Promise<Json> {
  const host = await hostLink(run);
  const said = await host.call('hotReloadRequired', { ...asked(), ...wish }, { timeoutMs: RELOAD_MS, signal: run.signal, onProgress: run.progress });
  if (!isObject(said)) return {};
  if (link.clientPid !== said.clientPid) link.client?.close('it was swapped for a newer one'); // it may not have been noticed yet
  learnSources(said);
  return said;
}

/** What the Client runs: the state of its sources before they were built. */
function learnSources({ sources, clientPid }: Json): void {
  link.clientPid = clientPid;
  if (!isObject(sources)) return void delete link.sources;
  if (link.sources?.takenAt === sources.takenAt) return;
  delete link.sources;
  try {
    const fd = openPrivate(String(sources.file), fs.constants.O_RDONLY);
    try {
      link.sources = readState(fs.readFileSync(fd, 'utf8'));
    } finally {
      fs.closeSync(fd);
    }
  } catch (error) {
    log('warning', `changes of sources cannot be noticed: ${messageOf(error)}`);
  }
}

async function devtoolsReload({ force }: Json, run: Run): Promise<Json> {
  const host = await hostLink(run);
  const { safeMode, reason, mode } = await host.call('system.ping').then((ping) => (isObject(ping) ? ping : {})); // in Safe Mode it tries again if its file is another
  if (safeMode === true) throw failure('E_SAFE_MODE', `the Host (${String(mode)}) cannot load its own code: ${String(reason)}. Mend and build it (npm run build in the folder of vscode-devtools), then call devtools_reload again`);
  const said = await askReload({ always: true, force }, run);
  const { build, pending, changed } = said;
  if (pending) return { reloaded: false, clientPid: said.clientPid, cdpPort: said.cdpPort, reloadPending: String(pending), message: `nothing was reloaded: ${String(pending)}. Wait for it, or call devtools_reload {"force":true}` };
  if (isObject(build) && build.ok === false) throw failure('E_BUILD', `the build failed, so the old window was kept:\n${String(build.output)}\nMend it and call again`, { build });
  const client = await clientLink(run).then((peer) => peer.call('system.ping', {}, { timeoutMs: STATUS_MS })); // it answers
  if (isObject(client) && client.safeMode === true) throw failure('E_SAFE_MODE', `a new Client is there (pid ${String(client.pid)}), but cannot load its code: ${String(client.reason)}. Mend and build it, then call devtools_reload again`);
  return { reloaded: true, clientPid: said.clientPid, cdpPort: said.cdpPort, ...(build !== undefined && { build }), message: `reloaded${changed ? ` (${String(changed)} had changed)` : ''}: the Client is process ${String(said.clientPid)} now. Terminals and uids of before are gone` };
}

/** What a reader of text must know of a reload. */
function reloadText({ reload, reloadPending }: Json): string {
  const { done, changed, build } = isObject(reload) ? reload : {};
  const words = isObject(build) && build.ok === false ? `[the build failed]\n${String(build.output)}` : '';
  return [done === true ? `[reloaded first: ${String(changed)} had changed]` : '', words, reloadPending ? `[${String(reloadPending)}]` : ''].filter(Boolean).join('\n');
}

// ---- status

async function devtoolsStatus(_args: Json, run: Run): Promise<Json> {
  const warnings: string[] = [];
  if (!link.client || !link.host || link.toClient) await clientLink(run).catch(() => {}); // what fails here is found again, and told, below
  const asked = link.paused ? Promise.resolve({ state: 'paused', session: link.paused, error: 'it stands at a breakpoint: debug_continue lets it go on' }) : inspect(() => clientLink(run), 'client.status', run); // both at once
  const { warnings: ofHost, ...host } = link.hostStatus && link.host?.responsive ? link.hostStatus : await hostStatus(run);
  const client = await asked;
  if (Array.isArray(ofHost)) warnings.push(...ofHost.map(String));
  if (auditProblem) warnings.push(auditProblem);
  let devtools: string | null = null;
  try {
    devtools = workspaceFiles();
    if (path.dirname(devtools) !== options.workspace) warnings.push(`${options.workspace}/.devtools cannot be used (read-only, foreign or a link): files of this workspace are in ${devtools}`);
  } catch (error) {
    warnings.push(`there is no place for files: ${messageOf(error)}`);
  }
  return {
    mcp: { pid: process.pid, version: VERSION, protocol: PROTOCOL, node: process.version, workspace: options.workspace, client: caller },
    host,
    client,
    powers: { exec: options.allowExec && isObject(host.powers) && host.powers.exec === true },
    paths: { runtime: runtimeDir(), devtools, audit: audit?.file ?? null },
    warnings,
  };
}

/** The Host's status: asked for once, then kept until the Host says that it changed, or stops answering. */
async function hostStatus(run: Run): Promise<Json> {
  if (link.hostStatus && link.host?.responsive) return link.hostStatus;
  const asked = statusChanges;
  const status = await inspect(() => hostLink(run), 'getStatus', run);
  if (status.state === 'connected' && asked === statusChanges) link.hostStatus = status; // else it is old already
  return status;
}

let statusChanges = 0;

function forgetHostStatus(): void {
  statusChanges++;
  delete link.hostStatus;
}

/** What a role says of itself, or in which way it cannot. */
async function inspect(reach: () => Promise<Connection>, method: string, run: Run): Promise<Json> {
  try {
    const peer = await reach();
    if (!peer.responsive) return { state: 'unresponsive', error: 'it holds its pipe but has not answered for some seconds: stopped, or busy' };
    try {
      const said = await peer.call(method, {}, { timeoutMs: STATUS_MS, signal: run.signal });
      return { state: 'connected', ...(isObject(said) ? said : {}) };
    } catch (error) {
      if (!(error instanceof RpcError) || error.code !== -32601) throw error;
      const ping = await peer.call('system.ping', {}, { timeoutMs: STATUS_MS, signal: run.signal });
      return { state: 'safe mode', ...(isObject(ping) ? ping : {}) };
    }
  } catch (error) {
    const name = errorName(error);
    return { state: name === 'E_UNRESPONSIVE' || name === 'E_TIMEOUT' ? 'unresponsive' : 'unreachable', code: name, error: messageOf(error) };
  }
}

function statusText(status: Json): string {
  const line = (name: string, role: unknown): string => {
    if (!isObject(role)) return `${name}: unknown`;
    const { state, mode, pid, version, safeMode, reason, error } = role;
    const problem = safeMode === true ? `, SAFE MODE: ${String(reason)}` : error ? `: ${String(error)}` : '';
    return `${name}: ${String(state)}${mode ? ` (${String(mode)}, pid ${String(pid)}, ${String(version)})` : ''}${problem}`;
  };
  const warnings = Array.isArray(status.warnings) ? status.warnings.map((text) => `warning: ${String(text)}`) : [];
  const exec = isObject(status.powers) && status.powers.exec === true ? 'on' : 'off';
  return [line('Host', status.host), line('Client', status.client), `exec: ${exec}`, ...warnings].join('\n');
}

// ------------------------------------------------------------------------------------------------------- arguments

/** Every problem of a value with its schema, in words. */
export function checkValue(schema: Schema, value: unknown, where: string): string[] {
  const types = typeof schema.type === 'string' ? [schema.type] : schema.type;
  if (types && !types.some((type) => hasType(value, type))) {
    return [`${where} must be ${types.map((type) => `${'aeio'.includes(type.charAt(0)) ? 'an' : 'a'} ${type}`).join(' or ')}, not ${describe(value)}`];
  }
  if (schema.enum && !schema.enum.includes(value)) return [`${where} must be one of ${schema.enum.map((one) => JSON.stringify(one)).join(', ')}, not ${describe(value)}`];
  const problems: string[] = [];
  if (typeof value === 'number') {
    if (schema.minimum !== undefined && value < schema.minimum) problems.push(`${where} must be at least ${schema.minimum}, not ${value}`);
    if (schema.maximum !== undefined && value > schema.maximum) problems.push(`${where} must be at most ${schema.maximum}, not ${value}`);
  } else if (typeof value === 'string') {
    if (schema.minLength !== undefined && value.length < schema.minLength) problems.push(`${where} must have at least ${schema.minLength} characters`);
    if (schema.maxLength !== undefined && value.length > schema.maxLength) problems.push(`${where} must have at most ${schema.maxLength} characters, not ${value.length}`);
  } else if (Array.isArray(value)) {
    if (schema.maxItems !== undefined && value.length > schema.maxItems) problems.push(`${where} must have at most ${schema.maxItems} items, not ${value.length}`);
    const { items } = schema;
    if (items) value.forEach((item, index) => problems.push(...checkValue(items, item, `${where}[${index}]`)));
  } else if (isObject(value)) problems.push(...checkObject(schema, value, where));
  return problems;
}

function checkObject(schema: Schema, value: Json, where: string): string[] {
  const problems: string[] = [];
  const name = (key: string): string => (where === '' ? `"${key.slice(0, 60)}"` : `${where}.${key.slice(0, 60)}`);
  for (const key of schema.required ?? []) if (!Object.hasOwn(value, key)) problems.push(`missing argument ${name(key)}`);
  for (const [key, item] of Object.entries(value)) {
    const property = schema.properties && Object.hasOwn(schema.properties, key) ? schema.properties[key] : undefined;
    if (property) problems.push(...checkValue(property, item, name(key)));
    else if (schema.additionalProperties === false) problems.push(`unknown argument ${name(key)}`);
  }
  return problems;
}

function hasType(value: unknown, type: string): boolean {
  if (type === 'integer') return Number.isSafeInteger(value);
  if (type === 'number') return typeof value === 'number' && Number.isFinite(value);
  if (type === 'object') return isObject(value);
  if (type === 'array') return Array.isArray(value);
  if (type === 'null') return value === null;
  return typeof value === type;
}

function describe(value: unknown): string {
  if (Array.isArray(value)) return 'an array';
  if (isObject(value)) return 'an object';
  const text = JSON.stringify(value) ?? String(value);
  return text.length > 60 ? `${text.slice(0, 60)}…` : text;
}

/** What a tool takes, a line an argument. */
export function expectedArguments(schema: Schema): string[] {
  return Object.entries(schema.properties ?? {}).map(([name, property]) => {
    const type = property.enum ? property.enum.map((one) => JSON.stringify(one)).join('|') : typeof property.type === 'string' ? property.type : (property.type ?? ['any']).join('|');
    const rest = schema.required?.includes(name) ? 'required' : property.default === undefined ? 'optional' : `default ${JSON.stringify(property.default)}`;
    return `${name} (${type}, ${rest})`;
  });
}

/** The arguments with the schema's defaults filled in; an error that names every problem at once. */
export function checkArguments(tool: Tool, given: unknown): Json {
  const value = given ?? {};
  const problems = isObject(value) ? checkObject(tool.input, value, '') : [`arguments must be an object, not ${describe(value)}`];
  if (problems.length) {
    const expected = expectedArguments(tool.input);
    const wants = expected.length ? `It takes: ${expected.join(', ')}.` : 'It takes no arguments.';
    throw failure('E_ARGUMENTS', `${tool.name}: ${problems.slice(0, 20).join('; ')}. ${wants} Nothing was done: call it again with these mended.`, { problems: problems.slice(0, 20), expected });
  }
  const args: Json = {};
  for (const [name, property] of Object.entries(tool.input.properties ?? {})) if (property.default !== undefined) args[name] = property.default;
  return isObject(value) ? Object.assign(args, value) : args;
}

// ----------------------------------------------------------------------------------------------------------- locks
// One queue a thing (a terminal, a debug session, the window), first in first out. Who is cancelled while waiting
// leaves the queue without holding up those behind.

export function createLocks(): (key: string, signal: Cancellation) => Promise<() => void> {
  const tails = new Map<string, Promise<void>>();
  return async (key, signal) => {
    const cancelled = (): Error => failure('E_CANCELLED', `cancelled while waiting for ${key}`);
    if (signal.aborted) throw cancelled();
    const before = tails.get(key) ?? Promise.resolve();
    let release: () => void = () => {};
    const mine = new Promise<void>((resolve) => (release = resolve));
    const tail = before.then(() => mine);
    tails.set(key, tail);
    void tail.then(() => tails.get(key) === tail && tails.delete(key));
    let onAbort: () => void = () => {};
    const aborted = new Promise<never>((_resolve, reject) => {
      onAbort = () => reject(cancelled());
      signal.addEventListener('abort', onAbort);
    });
    try {
      await Promise.race([before, aborted]);
      return release;
    } catch (error) {
      release();
      throw error;
    } finally {
      signal.removeEventListener('abort', onAbort);
      aborted.catch(() => {}); // raced and lost
    }
  };
}

const lock = createLocks();

// ---------------------------------------------------------------------------------------- links to Host and Client
// Made at the first call that needs them, shared by all, made again when they drop.

type Link = { sources?: State; clientPid?: unknown; inWindow: number; host?: Connection; hostStatus?: Json; isTracking?: boolean; client?: Connection; clientPipe?: string; debug?: Connection; debugLost?: string; cdpPort?: number; window?: Cdp.Window; toWindow?: Promise<Cdp.Window>; toHost?: Promise<Connection>; toClient?: Promise<Connection>; toDebug?: Promise<Connection>; paused?: string; onPaused: Set<() => void>; wasVscode?: boolean };
const link: Link = { onPaused: new Set(), inWindow: 0 };

function hostLink(run: Run): Promise<Connection> {
  if (link.host) return Promise.resolve(link.host);
  link.toHost ??= reachHost(run).finally(() => delete link.toHost);
  return unlessCancelled(link.toHost, run.signal);
}

async function reachHost(run: Run): Promise<Connection> {
  const dir = privateDir(runtimeDir());
  const pipe = pipePath(dir, 'host');
  const key = readKey(dir);
  const handlers = new Map<string, Handler>([
    ['session.ended', (params) => onSessionEnded(run, params)],
    ['status.changed', forgetHostStatus],
    ['ledger.changed', onLedgerChanged],
    ['client.paused', (params) => params.workspace === options.workspace && onPaused(params.session)],
  ]);
  const patience = performance.now() + (link.wasVscode || process.env.VSCODE_DEVTOOLS_LAUNCHED_BY ? WINDOW_HOST_MS : 0); // a VS Code window that reloads is back in a moment
  for (let tries = 1; ; tries++) {
    step('connecting');
    try {
      const peer = await connect(pipe, { as: 'mcp', key, label: 'the Host', handlers });
      const replaced = await replaceOlder(peer, run).catch((error) => {
        peer.close(messageOf(error));
        throw error;
      });
      if (replaced) continue;
      link.host = peer;
      peer.onResponsive = (responsive) => run.log('warning', responsive ? 'the Host answers again' : 'the Host does not answer: it may be stopped');
      peer.onClose.push((reason) => {
        delete link.host;
        forgetHostStatus();
        onLedgerChanged();
        if (exiting) return;
        run.log('warning', `the Host is gone: ${reason}`);
        if (!sessionEnded) void clientLink(run).catch((error) => run.log('error', messageOf(error))); // so that a Client that lost its Host is adopted in time
      });
      sessionEnded = false;
      step('connected');
      return peer;
    } catch (error) {
      const name = errorName(error);
      if (name === 'E_UNREACHABLE' && performance.now() < patience) {
        tries--;
        await new Promise((resolve) => setTimeout(resolve, LOOK_AGAIN_MS));
        continue;
      }
      if (tries >= HOST_TRIES || (name !== 'E_UNREACHABLE' && name !== 'E_CLOSED')) throw error;
      if (name === 'E_CLOSED') continue; // it ended just now: the next try finds nobody, and starts one
    }
    run.progress('starting the Host');
    await startRole('host', '', dir);
    run.log('info', 'started a headless Host');
  }
}

/** What the Host says of the Client: a debug session holds it, or no more. */
function onPaused(session: unknown): void {
  if (typeof session !== 'string') return void delete link.paused;
  link.paused = session;
  for (const listener of [...link.onPaused]) listener();
}

let sessionEnded = false; // the Host said that it ends: the next call starts another, not we by ourselves

function onSessionEnded(run: Run, params: Json): void {
  if (params.workspace !== undefined && params.workspace !== options.workspace) return;
  sessionEnded = params.hostEnds !== false;
  run.log('notice', `the session ended: ${String(params.reason)}`);
}

/** Whether an older headless Host that owns nothing alive was asked to make room for this version. */
async function replaceOlder(peer: Connection, run: Run): Promise<boolean> {
  const ping = await peer.call('system.ping', {}, { timeoutMs: STATUS_MS });
  const { version, protocol, mode, pid, safeMode } = isObject(ping) ? ping : {};
  link.wasVscode = mode === 'vscode';
  if (mode === 'headless' && safeMode !== true && isNewer(VERSION, String(version))) {
    try {
      await peer.call('takeover', { reason: `version ${VERSION} replaces ${String(version)}`, by: `mcp (pid ${process.pid})`, ifIdle: true });
      await untilClosed(peer);
      run.log('notice', `the older Host ${String(version)} made room for ${VERSION}`);
      return true;
    } catch (error) {
      if (peer.closedBecause !== undefined) return true; // gone all the same
      run.log('notice', `the older Host ${String(version)} stays: ${messageOf(error)}`);
    }
  }
  if (protocol === PROTOCOL) return false;
  peer.close('another protocol');
  throw failure('E_VERSION', `the Host (pid ${String(pid)}, ${String(mode)}) is version ${String(version)} and speaks protocol ${String(protocol)}; this server is ${VERSION} and speaks ${PROTOCOL}. Close ${mode === 'vscode' ? 'that VS Code window, or update its extension' : 'it with `vscode-devtools host stop`'}`);
}

/** Waits for the end of a Host that was told to end. */
function untilClosed(peer: Connection): Promise<void> {
  return new Promise((resolve, reject) => {
    if (peer.closedBecause !== undefined) return resolve();
    const inTime = deadline(HOST_END_MS, () => reject(failure('E_TIMEOUT', `the Host has not ended in ${HOST_END_MS} ms`)));
    peer.onClose.push(() => {
      inTime();
      resolve();
    });
  });
}

/** Whether version a is newer than b: dotted numbers, anything else counts as 0. */
export function isNewer(a: string, b: string): boolean {
  const numbers = (version: string): number[] => version.split(/[.+-]/).map((part) => Number(part) || 0);
  const [left, right] = [numbers(a), numbers(b)];
  for (let i = 0; i < Math.max(left.length, right.length); i++) {
    const difference = (left[i] ?? 0) - (right[i] ?? 0);
    if (difference) return difference > 0;
  }
  return false;
}

function clientLink(run: Run): Promise<Connection> {
  if (link.client && link.host && !link.toClient) return Promise.resolve(link.client);
  link.toClient ??= reachClient(run).finally(() => delete link.toClient);
  return unlessCancelled(link.toClient, run.signal);
}

function debugLink(run: Run): Promise<Connection> {
  if (link.debug && link.host && (link.client || link.paused)) return Promise.resolve(link.debug);
  link.toDebug ??= reachDebug(run).finally(() => delete link.toDebug);
  return unlessCancelled(link.toDebug, run.signal);
}

/** The debug process; the Host starts it at the first call that needs it, and again if it is gone. */
async function reachDebug(run: Run): Promise<Connection> {
  await clientOrPaused(run);
  const host = await hostLink(run);
  const ready = await host.call('mcpReady', { ...asked(), roles: ['client', 'debug'] }, { timeoutMs: READY_MS, onProgress: run.progress });
  if (!isObject(ready) || typeof ready.debugPipePath !== 'string') throw failure('E_NO_CLIENT', 'the Host names no debug pipe: it may be older than this server. End it with `vscode-devtools host stop`, then call again');
  if (link.debug) return link.debug; // only the Host had dropped
  const peer = await connect(ready.debugPipePath, { as: 'mcp', key: readKey(privateDir(runtimeDir())), label: 'the debug process' });
  link.debug = peer;
  peer.onResponsive = (responsive) => run.log('warning', responsive ? 'the debug process answers again' : 'the debug process does not answer: it may be stopped');
  peer.onClose.push((reason) => {
    if (link.debug === peer) delete link.debug;
    if (!exiting && !sessionEnded) link.debugLost = new Date().toISOString();
    if (!exiting) run.log('warning', `the debug process is gone: ${reason}`);
  });
  return peer;
}

function windowLink(run: Run): Promise<Cdp.Window> {
  const { window } = link;
  if (window && window.closedBecause === undefined && !window.crashed && window.port === link.cdpPort && link.host && (link.client || link.paused)) return Promise.resolve(window);
  link.toWindow ??= reachWindow(run).finally(() => delete link.toWindow);
  return unlessCancelled(link.toWindow, run.signal);
}

/** The page of the window: the Host says at which port. */
async function reachWindow(run: Run): Promise<Cdp.Window> {
  await clientOrPaused(run);
  if (link.cdpPort === undefined) throw failure('E_NO_WINDOW', 'the Client is headless: there is no window to look at. Start this server with --vscode (or VSCODE_DEVTOOLS_VSCODE), or from VS Code');
  link.window?.close('found again');
  link.window = await windowBundle().Window.connect(link.cdpPort).catch(async (error) => {
    if (errorName(error) !== 'E_WINDOW' || link.paused) throw error;
    link.toClient ??= reachClient(run).finally(() => delete link.toClient); // the Host looks whether the window is whole, and opens another if not
    await link.toClient;
    if (link.cdpPort === undefined) throw error;
    return windowBundle().Window.connect(link.cdpPort);
  });
  return link.window;
}

/** A shared wait that one of those who wait may leave; the others, and what they wait for, go on. */
function unlessCancelled<T>(shared: Promise<T>, signal: Cancellation): Promise<T> {
  return new Promise((resolve, reject) => {
    const onAbort = (): void => reject(failure('E_CANCELLED', 'cancelled while connecting'));
    if (signal.aborted) onAbort();
    signal.addEventListener('abort', onAbort);
    shared.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort));
  });
}

/** What this server was started to work in. */
const asked = (): Json => ({ workspace: options.workspace, ...(options.vscode && { vscode: options.vscode }), ...(options.extensions.length > 0 && { extensions: options.extensions }), settings: Object.fromEntries(Object.entries(process.env).filter(([name]) => /^VSCODE_DEVTOOLS_(?:NODE|CHROMIUM|BUILD)$/.test(name))) });

async function reachClient(run: Run): Promise<Connection> {
  const host = await hostLink(run);
  const ready = await host.call('mcpReady', { ...asked(), roles: ['client'] }, { timeoutMs: READY_MS, onProgress: run.progress });
  step('ready');
  onPaused(isObject(ready) ? ready.paused : undefined);
  if (isObject(ready)) learnSources(ready);
  if (isObject(ready) && typeof ready.cdpPort === 'number') link.cdpPort = ready.cdpPort;
  else delete link.cdpPort;
  if (link.paused && !link.client) throw pausedError(link.paused, false); // it does not even shake hands
  if (!isObject(ready) || typeof ready.clientPipePath !== 'string') throw failure('E_NO_CLIENT', 'the Host names no Client pipe: call devtools_status');
  if (link.client && link.clientPipe === ready.clientPipePath) return link.client; // only the Host had dropped
  const peer = await connect(ready.clientPipePath, { as: 'mcp', key: readKey(privateDir(runtimeDir())), label: 'the Client' });
  link.client = peer;
  link.clientPipe = ready.clientPipePath;
  peer.onResponsive = (responsive) => run.log('warning', responsive ? 'the Client answers again' : 'the Client does not answer: it may be stopped');
  peer.onClose.push((reason) => {
    if (link.client === peer) delete link.client;
    if (!exiting) run.log('warning', `the Client is gone: ${reason}`);
  });
  return peer;
}

// ------------------------------------------------------------------------------------------------------- audit log
// One chain of lines a process: the intent before a call, the result after, each with the hash of the line before.
// A call with an intent and no result is one whose outcome nobody knows.

type Audit = { file: string; fd: number; size: number; part: number; seq: number; last: string; hash: string; base: string };
let audit: Audit | undefined;
let auditProblem = '';

const sha256 = (text: string): string => crypto.createHash('sha256').update(text).digest('hex');

function auditFile(base: string, part: number): string {
  return part === 1 ? `${base}.jsonl` : `${base}.${part}.jsonl`;
}

let filesDir = '';

/** Where this workspace's files are; looked up once. */
function workspaceFiles(): string {
  return (filesDir ||= devtoolsDir(options.workspace));
}

function openAudit(): Audit {
  const dir = privateDir(path.join(workspaceFiles(), 'audit'), 0);
  for (const old of fs.readdirSync(dir).sort().slice(0, -AUDIT_DIR_FILES)) fs.rmSync(path.join(dir, old), { force: true }); // they begin with their date
  const base = path.join(dir, `${startedAt.toISOString().replace(/[:.]/g, '-')}-${process.pid}`);
  return openAuditPart({ file: '', fd: -1, size: 0, part: 0, seq: 0, last: '', hash: '', base });
}

/** Begins the next file of the chain; the chain goes on over it, and the oldest files beyond the cap go. */
function openAuditPart(log: Audit): Audit {
  const { O_WRONLY, O_APPEND, O_CREAT, O_EXCL } = fs.constants;
  const part = log.part + 1;
  const file = auditFile(log.base, part);
  const fd = openPrivate(file, O_WRONLY | O_APPEND | O_CREAT | O_EXCL);
  if (log.fd >= 0) fs.closeSync(log.fd);
  Object.assign(log, { fd, file, part, size: 0 });
  if (log.part > AUDIT_FILES) fs.rmSync(auditFile(log.base, log.part - AUDIT_FILES), { force: true });
  return log;
}

/** Appends a record. A disk that is full or gone does not stop the work: it is said once, and devtools_status shows it. */
function record(entry: Json): void {
  try {
    audit ??= openAudit();
    if (audit.size > AUDIT_FILE_CAP) openAuditPart(audit);
    const line = JSON.stringify({ seq: audit.seq + 1, at: new Date().toISOString(), prev: lastHash(audit), ...entry });
    const bytes = Buffer.from(`${line}\n`);
    const written = fs.writeSync(audit.fd, bytes);
    if (written < bytes.length) {
      fs.ftruncateSync(audit.fd, audit.size); // half a line would look like tampering
      throw new Error('the disk is full');
    }
    audit.size += written;
    audit.seq++;
    audit.last = line;
  } catch (error) {
    if (auditProblem) return;
    auditProblem = `the audit log is incomplete: ${messageOf(error)}`;
    log('error', auditProblem);
  }
}

/** The hash of the chain's last line: made when it is asked for, which is best while nobody waits for an answer. */
function lastHash(log: Audit): string {
  if (log.last) log.hash = sha256(log.last);
  log.last = '';
  return log.hash;
}

/** Appends a result, and hashes it while nobody waits. */
function recordResult(entry: Json): void {
  record(entry);
  if (audit) lastHash(audit);
}

/** Arguments as they may be kept: bounded, with the hash of what was cut. */
export function auditedArguments(args: unknown, cap = AUDIT_ARGS_CAP): unknown {
  const text = JSON.stringify(args) ?? 'null';
  return text.length <= cap ? args : { cut: text.slice(0, cap), length: text.length, sha256: sha256(text) };
}

export type AuditReport = { lines: number; problems: string[]; unknown: string[]; entries: Json[] };

/** Reads one chain (its files in order): what is broken in it, and which calls have no result. */
export function verifyAudit(texts: readonly string[], firstPart = 1): AuditReport {
  const report: AuditReport = { lines: 0, problems: [], unknown: [], entries: [] };
  const open = new Map<unknown, Json>();
  let hash = '';
  let seq = 0;
  for (const [index, text] of texts.entries()) {
    const lines = text.split('\n');
    const tail = lines.pop();
    if (tail) report.problems.push(`file ${index + 1}: the last line is torn (${tail.length} characters) and is left out`);
    for (const line of lines) {
      report.lines++;
      let entry: unknown;
      try {
        entry = JSON.parse(line);
      } catch {
        entry = undefined;
      }
      if (!isObject(entry)) {
        report.problems.push(`line ${report.lines}: not a record`);
        hash = sha256(line);
        continue;
      }
      if (report.lines === 1) seq = Number(entry.seq) - 1; // earlier files may have been removed by the cap
      if (report.lines === 1 && seq > 0 && firstPart > 1) report.problems.push(`the first ${seq} records are not there any more (only the newest ${AUDIT_FILES} files of a chain are kept)`);
      else if (entry.prev !== hash) report.problems.push(`line ${report.lines}: the chain is broken (a line before it was changed, removed or added)`);
      if (entry.seq !== seq + 1) report.problems.push(`line ${report.lines}: record ${String(entry.seq)} follows ${seq}`);
      seq = Number(entry.seq);
      hash = sha256(line);
      report.entries.push(entry);
      if (entry.kind === 'intent') open.set(entry.call, entry);
      if (entry.kind === 'result') open.delete(entry.call);
    }
  }
  for (const entry of open.values()) report.unknown.push(`call ${String(entry.call)} of ${String(entry.tool)} at ${String(entry.at)}`);
  return report;
}

// ------------------------------------------------------------------------------------------------------ tool calls

let calls = 0;

type ToolResult = { content: Json[]; structuredContent: Json; isError?: boolean };

/** Runs a tool: arguments, queue, intent, work, result. Never throws: what fails is a result the model can act on. */
async function callTool(tool: Tool, given: unknown, run: Run): Promise<ToolResult> {
  const call = ++calls;
  const started = performance.now();
  let release: (() => void) | undefined;
  let body: Json;
  let failed = false;
  let fresh: Json = {};
  try {
    const args = checkArguments(tool, given);
    const key = tool.lock?.(args);
    if (key) release = await lock(key, run.signal);
    record({ kind: 'intent', call, tool: tool.name, effect: tool.effect, args: auditedArguments(tool.auditArgs?.(args) ?? args, tool.effect === 'exec' ? AUDIT_CODE_CAP : AUDIT_ARGS_CAP) });
    step('intent');
    fresh = await freshen(tool, args, run);
    body = await tool.run(args, run);
    if (run.signal.aborted) throw failure('E_CANCELLED', `${tool.name} was cancelled by the client`);
    step('worked');
  } catch (error) {
    failed = true;
    body = { error: toolError(error) };
  } finally {
    release?.();
  }
  const ms = Math.round(performance.now() - started);
  // After the answer, which need not wait for the disk. If the process dies in between, the outcome reads as unknown.
  setImmediate(recordResult, { kind: 'result', call, tool: tool.name, ok: !failed, ms, ...(isObject(body.error) && { error: body.error.code }) });
  const { image, ...said } = body;
  const structuredContent = { ...fresh, ...said, ledger: await ledgerSection(tool) };
  const words = failed && isObject(body.error) ? String(body.error.message) : tool.text(structuredContent);
  const text = [reloadText(fresh), words, ledgerText(structuredContent.ledger)].filter(Boolean).join('\n');
  return { content: [{ type: 'text', text }, ...(isObject(image) ? [{ type: 'image', ...image }] : [])], structuredContent, ...(failed && { isError: true }) };
}

/** The ledger as it is now. The Host is asked only if something may be tracked: it says when that changes. */
async function ledgerSection(tool: Tool): Promise<Json> {
  const { host } = link;
  if (!host) return { active: [], orphaned: [], unavailable: 'no Host is connected: call devtools_status' };
  if (link.isTracking === false && tool.effect === 'read') return { active: [], orphaned: [] };
  const asked = ++ledgerAsked;
  try {
    const said = await host.call('system.getProcessLedger', { workspace: options.workspace }, { timeoutMs: LEDGER_MS });
    const { tracked, ...section } = isObject(said) ? said : {};
    if (asked === ledgerAsked) link.isTracking = tracked === true; // else it changed meanwhile
    return { active: [], orphaned: [], ...section };
  } catch (error) {
    return { active: [], orphaned: [], unavailable: messageOf(error).slice(0, 300) };
  }
}

/** For who reads only text: what runs, and what was left; idle terminals are not worth a word. */
function ledgerText({ active, orphaned }: Json): string {
  const running = rows(active, (one) => (one.command === '(idle)' || one.window !== undefined ? '' : `[still running in ${String(one.terminal ?? one.session)}: ${String(one.command)} (pid ${String(one.pid)})]`));
  return [running, rows(orphaned, (one) => `[orphaned: ${String(one.command)} (pid ${String(one.pid)}); process_kill_orphans ends it]`)].join('\n').split('\n').filter(Boolean).join('\n');
}

let ledgerAsked = 0;

function onLedgerChanged(): void {
  ledgerAsked++;
  delete link.isTracking;
}

/** What went wrong, for a model: a code, what happened and what still holds, what to call next. */
function toolError(error: unknown): Json {
  if (error instanceof RpcError && error.data?.code) {
    const isLost = error.data.code === 'E_CLOSED' && !/call again/i.test(error.message);
    return { ...error.data, code: String(error.data.code), message: isLost ? `${error.message}. Whether the call was carried out is unknown: look first (devtools_status, terminal_list), then call again` : error.message };
  }
  if (error instanceof RpcError) return { code: 'E_RPC', message: `${error.message}. Call devtools_status to see what is connected.` };
  log('error', error instanceof Error ? (error.stack ?? error.message) : String(error));
  return { code: errorName(error) || 'E_INTERNAL', message: `${messageOf(error)}. This is a fault of vscode-devtools: call devtools_status; it names the directory of the logs.` };
}

// ---------------------------------------------------------------------------------------------------- the protocol

type Request = {
  id: string | number;
  modern: boolean;
  meta: Json;
  abort: Cancel;
  level: number; // index into LEVELS from which on this request wants log messages; beyond the end: none
};

const startedAt = new Date();
const running = new Map<string | number, Request>();
let legacyVersion = ''; // what `initialize` settled on
let legacyLevel = LEVELS.indexOf('warning');
let caller = ''; // the MCP client's name and version
let exiting = false;

const serverInfo = { name: 'vscode-devtools', title: 'vscode-devtools', version: VERSION };
const capabilities = { tools: {}, logging: {} };
const instructions = 'Hands for a development workspace. terminal_run answers once, when the command is over or asks; debug_start, debug_continue with wait and debug_step answer when the program has stopped: do not poll. Every result carries `ledger`: the processes started through these tools that still live; end those you no longer need (process_kill, terminal_close). Errors say what to call next; devtools_status shows what is connected.';

const METHODS: Record<string, { era: 'legacy' | 'modern' | 'both'; handle: (params: Json, request: Request) => unknown }> = {
  'initialize': { era: 'legacy', handle: initialize },
  'ping': { era: 'legacy', handle: () => ({}) },
  'logging/setLevel': { era: 'legacy', handle: setLevel },
  'server/discover': { era: 'modern', handle: () => ({ supportedVersions: MODERN, capabilities, instructions, ttlMs: LIST_TTL_MS, cacheScope: 'private' }) },
  'tools/list': { era: 'both', handle: toolsList },
  'tools/call': { era: 'both', handle: toolsCall },
};

function initialize(params: Json): Json {
  const { protocolVersion, clientInfo } = params;
  if (typeof protocolVersion !== 'string') throw new RpcError(-32602, 'Invalid params: protocolVersion must be a string');
  legacyVersion = LEGACY.includes(protocolVersion) ? protocolVersion : String(LEGACY[0]);
  if (isObject(clientInfo)) caller = `${String(clientInfo.name)} ${String(clientInfo.version)}`.slice(0, 200);
  return { protocolVersion: legacyVersion, capabilities, serverInfo, instructions };
}

function setLevel(params: Json): Json {
  legacyLevel = levelOf(params.level);
  return {};
}

function levelOf(level: unknown): number {
  const index = LEVELS.indexOf(String(level));
  if (index < 0) throw new RpcError(-32602, `Invalid params: the log level must be one of ${LEVELS.join(', ')}`);
  return index;
}

/** The tools that this process offers: all, or the areas named by --tools. */
function offered(): readonly Tool[] {
  return TOOLS.filter((tool) => (!options.areas || options.areas.includes(tool.name.slice(0, tool.name.indexOf('_')))) && (tool.effect !== 'exec' || options.allowExec));
}

/** A row as MCP lists it. */
export function listed(tool: Tool): Json {
  const { name, title, description, effect } = tool;
  return {
    name, title, description, inputSchema: tool.input, outputSchema: tool.output,
    annotations: {
      title, readOnlyHint: effect === 'read', destructiveHint: effect === 'exec' || effect === 'spawn',
      idempotentHint: effect === 'read', openWorldHint: false, // an explicit true would ask for approval of every result
    },
  };
}

function toolsList(params: Json, { modern }: Request): Json {
  if (params.cursor !== undefined) throw new RpcError(-32602, 'Invalid params: the list has one page and no cursor');
  return { tools: offered().map(listed), ...(modern && { ttlMs: LIST_TTL_MS, cacheScope: 'private' }) };
}

async function toolsCall(params: Json, request: Request): Promise<Json> {
  const tool = offered().find((one) => one.name === params.name);
  if (!tool) throw new RpcError(-32602, `Unknown tool: ${describe(params.name)}. There are: ${offered().map((one) => one.name).join(', ')}`);
  const token = request.meta.progressToken;
  const asked = typeof token === 'string' || Number.isSafeInteger(token);
  const started = performance.now();
  let message = tool.title;
  let ticks = 0;
  const ticker = asked && setInterval(() => {
    if (running.has(request.id)) {
      notify('notifications/progress', { progressToken: token, progress: ++ticks, message: `${message} (${Math.round((performance.now() - started) / 1000)} s)` });
    }
  }, PROGRESS_MS);
  try {
    const run: Run = {
      signal: request.abort,
      progress: (text) => void (message = text),
      log: (level, text) => log(level, text, request),
    };
    const answer = await callTool(tool, params.arguments, run);
    // A client of an older version reads only text: give it everything there.
    if (!request.modern && legacyVersion < STRUCTURED_SINCE) answer.content = [{ type: 'text', text: JSON.stringify(answer.structuredContent) }, ...answer.content.filter((one) => one.type !== 'text')];
    return answer;
  } finally {
    if (ticker) clearInterval(ticker);
  }
}

/** One line of stdin: a message, or (in one old version) an array of them. */
function onLine(line: string): void {
  let value: unknown;
  try {
    value = parseLine(line);
  } catch (error) {
    return sendError(undefined, error);
  }
  if (!Array.isArray(value)) return onMessage(value, send);
  if (legacyVersion !== BATCHES || value.length === 0) {
    return sendError(undefined, new RpcError(-32600, value.length ? `Invalid Request: arrays are part of MCP ${BATCHES} only` : 'Invalid Request: an empty array'));
  }
  if (value.length > BATCH_CAP) return sendError(undefined, new RpcError(-32600, `Invalid Request: an array of over ${BATCH_CAP} messages`));
  const answers: Json[] = [];
  let open = value.length;
  for (const message of value) {
    let answered = false;
    onMessage(message, (answer) => {
      if (answered) return;
      answered = true;
      if (answer) answers.push(answer);
      if (--open === 0 && answers.length) send(answers);
    });
  }
}

const reader = new LineReader(LINE_CAP, onLine, (problem) => sendError(undefined, problem));

type Reply = (answer: Json | undefined) => void; // undefined: nothing is to be said

function onMessage(message: unknown, reply: Reply): void {
  const problem = messageProblem(message);
  const { id, method, params } = isObject(message) ? message : {};
  const rightId = isId(id) ? id : undefined;
  if (problem && isObject(message) && method === undefined && ('result' in message || 'error' in message)) return reply(undefined); // a bad answer is not answered: that would never end
  if (problem) return reply(errorAnswer(rightId, new RpcError(-32600, `Invalid Request: ${problem}`)));
  if (typeof method !== 'string') return reply(undefined); // a response: we ask the client nothing
  const body = isObject(params) ? params : {};
  if (rightId === undefined) {
    onNotification(method, body);
    return reply(undefined);
  }
  if (running.has(rightId)) return reply(errorAnswer(rightId, new RpcError(-32600, 'Invalid Request: this id is still in use')));
  if (running.size >= RUNNING_CAP) return reply(errorAnswer(rightId, failure('E_BUSY', `over ${RUNNING_CAP} requests are under way: wait for some`)));
  const request: Request = { id: rightId, modern: false, meta: {}, abort: new Cancel(), level: LEVELS.length };
  const finish = (answer: Json): void => {
    if (running.get(rightId) !== request) return reply(undefined); // cancelled: nothing more is said of it
    running.delete(rightId);
    reply(answer);
  };
  running.set(rightId, request);
  try {
    const result = dispatch(method, body, request);
    if (result instanceof Promise) result.then((value) => finish(resultAnswer(request, value)), (error) => finish(errorAnswer(rightId, error)));
    else finish(resultAnswer(request, result));
  } catch (error) {
    finish(errorAnswer(rightId, error));
  }
}

function dispatch(method: string, params: Json, request: Request): unknown {
  request.meta = isObject(params._meta) ? params._meta : {};
  const requested = request.meta[`${META}protocolVersion`];
  request.modern = requested !== undefined;
  if (request.modern) checkModern(requested, request);
  else request.level = legacyLevel;
  const row = Object.hasOwn(METHODS, method) ? METHODS[method] : undefined;
  if (!request.modern && legacyVersion === '' && method !== 'initialize' && method !== 'ping') {
    throw new RpcError(-32602, `Invalid params: send initialize first, or name _meta["${META}protocolVersion"] and ["${META}clientCapabilities"] in each request`);
  }
  if (!row || (row.era !== 'both' && (row.era === 'modern') !== request.modern)) throw new RpcError(-32601, `Method not found: ${method.slice(0, 100)}`);
  return row.handle(params, request);
}

/** What every request of the modern era carries. */
function checkModern(requested: unknown, request: Request): void {
  if (typeof requested !== 'string') throw new RpcError(-32602, `Invalid params: _meta["${META}protocolVersion"] must be a string`);
  if (!MODERN.includes(requested)) throw new RpcError(-32022, 'Unsupported protocol version', { supported: MODERN, requested });
  if (!isObject(request.meta[`${META}clientCapabilities`])) throw new RpcError(-32602, `Invalid params: _meta["${META}clientCapabilities"] must be an object`);
  const level = request.meta[`${META}logLevel`];
  if (level !== undefined) request.level = levelOf(level);
  const info = request.meta[`${META}clientInfo`];
  if (isObject(info)) caller = `${String(info.name)} ${String(info.version)}`.slice(0, 200);
}

function onNotification(method: string, params: Json): void {
  if (method !== 'notifications/cancelled' || !isId(params.requestId)) return; // the others ask nothing of us
  const request = running.get(params.requestId);
  running.delete(params.requestId); // from here on nothing is said of it
  request?.abort.abort();
}

function resultAnswer(request: Request, value: unknown): Json {
  const result = isObject(value) ? value : {};
  if (request.modern) Object.assign(result, { resultType: 'complete', _meta: { [`${META}serverInfo`]: serverInfo } });
  return { jsonrpc: '2.0', id: request.id, result };
}

function errorAnswer(id: string | number | undefined, error: unknown): Json {
  const body = error instanceof RpcError ? { code: error.code, message: error.message, data: error.data } : { code: -32603, message: `Internal error: ${messageOf(error)}` };
  return { jsonrpc: '2.0', ...(id !== undefined && { id }), error: body };
}

function sendError(id: string | number | undefined, error: unknown): void {
  send(errorAnswer(id, error));
}

function notify(method: string, params: Json): void {
  send({ jsonrpc: '2.0', method, params });
}

/** A line for the client's log. A request of the modern era gets only what happens while it runs, and only if it asked. */
function log(level: string, text: string, request?: Request): void {
  const severity = LEVELS.indexOf(level);
  if (severity >= LEVELS.indexOf('warning') || process.env.VSCODE_DEVTOOLS_LOG) process.stderr.write(`vscode-devtools: ${text}\n`);
  const wanted = request?.modern ? running.has(request.id) && severity >= request.level : legacyVersion !== '' && severity >= legacyLevel;
  if (wanted && !exiting) notify('notifications/message', { level, logger: 'vscode-devtools', data: text });
}

// Stdout belongs to the protocol: what anything else prints goes to stderr.
const writeOut = process.stdout.write.bind(process.stdout);

function send(value: Json | Json[] | undefined): void {
  if (value === undefined) return;
  let text = JSON.stringify(value);
  if (isTooLong(text) && !Array.isArray(value) && isId(value.id)) text = JSON.stringify(errorAnswer(value.id, failure('E_TOO_LARGE', 'the answer is over 16 MiB: ask for less')));
  writeOut(`${text}\n`);
  const unread = process.stdout.writableLength;
  if (unread > UNREAD_CAP) return detach(`the client does not read: ${unread} bytes unsent`, true);
  if (unread <= UNREAD_PAUSE || stdin.waiting) return;
  stdin.waiting = true; // a client that does not read is not listened to
  process.stdout.once('drain', onDrain);
}

/** What came on stdin while answers were not taken. Its end comes after it. */
const stdin = { waiting: false, ended: false, chunks: [] as Buffer[], size: 0 };

function onStdin(chunk: Buffer): void {
  if (!stdin.waiting) return reader.push(chunk);
  stdin.chunks.push(chunk);
  stdin.size += chunk.length;
  if (stdin.size > UNREAD_PAUSE) process.stdin.pause();
}

function onDrain(): void {
  stdin.waiting = false;
  for (let chunk = stdin.chunks.shift(); chunk; chunk = stdin.chunks.shift()) {
    stdin.size -= chunk.length;
    reader.push(chunk);
    if (stdin.waiting) return; // again
  }
  process.stdin.resume();
  if (stdin.ended) detach('stdin ended');
}

function onStdinEnd(): void {
  stdin.ended = true;
  if (!stdin.waiting) detach('stdin ended');
  else setTimeout(() => detach('stdin ended, and answers are not read'), UNREAD_EXIT_MS);
}

/** The one way out. Host, Client and all they hold stay; answers that are computed are written. */
function detach(reason: string, problem = false): void {
  if (exiting) return;
  exiting = true;
  if (process.env.VSCODE_DEVTOOLS_LOG || problem) process.stderr.write(`vscode-devtools: ${reason}\n`);
  try {
    step('detaching');
    for (const one of [link.window, link.debug, link.client, link.host]) one?.close(reason);
  } catch (error) {
    process.stderr.write(`vscode-devtools: while ending: ${messageOf(error)}\n`); // that is no reason to stay
  }
  const leave = (): void => void setImmediate(() => process.exit(0)); // behind the results that are still to be recorded
  if (process.stdout.writableLength === 0) return leave();
  process.stdout.once('drain', leave);
  setTimeout(leave, UNREAD_EXIT_MS);
}

function serveStdio(): void {
  console.log = console.info = console.debug = console.error;
  process.stdout.write = ((chunk: string | Uint8Array) => process.stderr.write(chunk)) as typeof process.stdout.write; // the callback forms are not used by printing
  process.stdout.removeAllListeners('error').on('error', () => detach('stdout is closed'));
  process.stderr.on('error', () => {}); // nobody reads our log: no reason to end
  process.stdin.on('data', onStdin);
  process.stdin.on('end', onStdinEnd);
  process.stdin.on('error', (error) => detach(`stdin: ${error.message}`, true));
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP']) process.on(signal, () => detach(signal));
  process.on('uncaughtException', (error) => log('error', `uncaught: ${error?.stack ?? String(error)}`));
  process.on('unhandledRejection', (error) => log('error', `unhandled: ${error instanceof Error ? error.stack : String(error)}`));
}

// ---------------------------------------------------------------------------------------------------- command line

const options: { workspace: string; areas?: string[]; vscode?: string; extensions: string[]; allowExec: boolean } = { workspace: '', extensions: [], allowExec: false };

const HELP = `vscode-devtools ${VERSION}: hands for an LLM agent in a development workspace, over MCP (stdio).

An MCP client starts it; a person rarely does. For VS Code, put this into .vscode/mcp.json:

${mcpJson()}

usage
  vscode-devtools [options]                              serve MCP on stdin and stdout
  vscode-devtools audit [--verify] [--workspace DIR]     print the log of every tool call, or check its chain
  vscode-devtools doctor [--workspace DIR]               list the debug adapters: found, or how to get them
  vscode-devtools node-adapter [--port N|--socket PATH]  our debug adapter for Node, for any DAP client (default: stdio)
  vscode-devtools host stop                              end the headless Host and all it holds
  vscode-devtools host takeover                          make a headless Host the Host, whoever is it now
  vscode-devtools --help | --version

options
  --workspace DIR   the folder to work in (default: the current one)
  --vscode PATH     work in a window of this VS Code (its binary, or the directory of a VS Code server, shown in Chromium)
  --extension DIR   load this extension under development in the window (default: the workspace, if it is one)
  --allow-exec      offer devtools_exec (it works only if the user's own settings allow it)
  --tools AREA,...  offer only these areas: ${[...new Set(TOOLS.map((tool) => tool.name.slice(0, tool.name.indexOf('_'))))].join(', ')}

environment
  VSCODE_DEVTOOLS_DIR   where the sockets and the key are (default: a private directory of this user)
  VSCODE_DEVTOOLS_LOG   set: say more on stderr
  VSCODE_DEVTOOLS_VSCODE, _CHROMIUM, _NODE   the same as --vscode; a Chromium and a node for a VS Code server
  VSCODE_DEVTOOLS_BUILD     how an extension under development is built (default: its script \`build\`, if it has one)
  VSCODE_DEVTOOLS_SHELL     the shell of terminals (default: $SHELL if it is bash, zsh or sh)
  VSCODE_DEVTOOLS_PROMPTS   patterns of questions, one regular expression a line
  VSCODE_DEVTOOLS_ORPHANS   orphaned processes at start: report (default), ask, end
  VSCODE_DEVTOOLS_JS_DEBUG, _NODE_ADAPTER, _DEBUGPY, _RDBG, _DLV, _LLDB_DAP   where a debug adapter is
  VSCODE_DEVTOOLS_DAP_LOG   a file for the debug adapter protocol, message by message
`;

export function mcpJson(): string {
  const server = { type: 'stdio', command: 'node', args: [path.resolve(__dirname, 'mcp.js'), '--workspace', '${workspaceFolder}'] };
  return JSON.stringify({ servers: { 'vscode-devtools': server } }, null, 2);
}

/** Ends with a sentence on stderr: the caller made a mistake. */
function usageError(text: string): never {
  process.stderr.write(`vscode-devtools: ${text}\nTry: vscode-devtools --help\n`);
  process.exit(2);
}

function main(argv: string[]): void {
  if (argv[0] === 'node-adapter') return (require(path.join(__dirname, 'node-adapter.js')) as typeof NodeAdapter).main(argv.slice(1)); // it has options of its own
  process.stdout.on('error', () => process.exit(1)); // `audit | head`; the server has its own below
  const words: string[] = [];
  let verify = false;
  let workspace = '.';
  for (let i = 0; i < argv.length; i++) {
    const [word = '', inline] = (argv[i] ?? '').split(/=(.*)/s);
    const value = (): string => (inline ?? argv[++i]) || usageError(`${word} needs a value`);
    if (word === '--help' || word === '-h') return void process.stdout.write(HELP);
    if (word === '--version' || word === '-v') return void process.stdout.write(`${VERSION}\n`);
    if (word === '--workspace') workspace = value();
    else if (word === '--tools') options.areas = value().split(',').filter(Boolean);
    else if (word === '--vscode') options.vscode = value();
    else if (word === '--extension') options.extensions.push(value());
    else if (word === '--allow-exec') options.allowExec = true;
    else if (word === '--verify') verify = true;
    else if (word.startsWith('-')) usageError(`unknown option ${word}`);
    else words.push(word);
  }
  if (words.join(' ') === 'host stop') return void stopHost();
  if (words.join(' ') === 'host takeover') return void takeHost();
  try {
    options.workspace = fs.realpathSync(workspace);
    if (!fs.statSync(options.workspace).isDirectory()) throw new Error('not a directory');
  } catch (error) {
    usageError(`the workspace ${workspace} cannot be used: ${messageOf(error)}`);
  }
  const unknown = options.areas?.filter((area) => !TOOLS.some((tool) => tool.name.startsWith(`${area}_`)));
  if (unknown?.length) usageError(`no tools in the area ${unknown.join(', ')}: there are ${[...new Set(TOOLS.map((tool) => tool.name.slice(0, tool.name.indexOf('_'))))].join(', ')}`);
  options.vscode ??= process.env.VSCODE_DEVTOOLS_VSCODE || undefined;
  if (options.vscode) options.vscode = path.resolve(options.vscode);
  options.extensions = options.extensions.map((dir) => path.resolve(dir));
  const command = words.join(' ');
  if (verify && command !== 'audit') usageError('--verify belongs to audit');
  if (command === 'audit') return printAudit(verify);
  if (command === 'doctor') return void printDoctor();
  if (command !== '') usageError(`unknown command ${command}`);
  if (process.stdin.isTTY) return void process.stdout.write(`This is an MCP server: a client starts it and talks to it over stdin and stdout, so there is nothing to type here.\n\n${HELP}`);
  serveStdio();
}

/** Every debug adapter: where it is, or what was looked for and how to get it. */
async function printDoctor(): Promise<void> {
  const { doctor } = require(path.join(__dirname, 'debug.js')) as { doctor: (workspace: string) => Promise<Json[]> };
  for (const { adapter, languages, found, looked, install, setting } of await doctor(options.workspace)) {
    const missing = `not found\n  looked for: ${Array.isArray(looked) ? looked.join('; ') : ''}\n  to install: ${String(install)}\n  or set ${String(setting)} to where it is`;
    process.stdout.write(`${String(adapter)} (${Array.isArray(languages) ? languages.join(', ') : ''}): ${found ? String(found) : missing}\n`);
  }
}

/** Prints every chain of the workspace, oldest first, or checks them. */
function printAudit(verify: boolean): void {
  // Looking makes nothing: the workspace's own directory, else where devtoolsDir() would have put it.
  const own = path.join(options.workspace, '.devtools', 'audit');
  const dir = fs.existsSync(own) ? own : path.join(runtimeDir(), `workspace-${shortHash(options.workspace)}`, 'audit');
  const chains = new Map<string, Array<{ part: number; file: string }>>();
  for (const file of fs.statSync(dir, { throwIfNoEntry: false })?.isDirectory() ? fs.readdirSync(dir).sort() : []) {
    const [, base, part] = /^(.+?)(?:\.(\d+))?\.jsonl$/.exec(file) ?? [];
    if (base) chains.set(base, [...(chains.get(base) ?? []), { part: Number(part ?? 1), file }]);
  }
  if (!chains.size) process.stdout.write(`no audit log in ${own}\n`);
  let broken = 0;
  for (const [base, parts] of chains) {
    parts.sort((a, b) => a.part - b.part);
    const report = verifyAudit(parts.map(({ file }) => readAudit(path.join(dir, file))), parts[0]?.part);
    if (verify) {
      const chained = report.problems.filter((problem) => !/torn|any more/.test(problem));
      broken += chained.length;
      process.stdout.write(`${base}: ${report.lines} records, ${chained.length ? 'BROKEN' : 'chain intact'}, ${report.unknown.length} calls with unknown outcome\n`);
    } else {
      for (const entry of report.entries) process.stdout.write(`${printable(auditLine(base, entry))}\n`);
    }
    for (const problem of report.problems) process.stdout.write(`  ${printable(problem)}\n`);
    for (const call of report.unknown) process.stdout.write(`  outcome unknown: ${printable(call)}\n`);
  }
  process.exitCode = broken ? 1 : 0;
}

/** A file of the log; one that is not ours (a link, a FIFO) is not read. */
function readAudit(file: string): string {
  try {
    const fd = openPrivate(file, fs.constants.O_RDONLY);
    try {
      return fs.readFileSync(fd, 'utf8');
    } finally {
      fs.closeSync(fd);
    }
  } catch (error) {
    return `${messageOf(error)}\n`; // no record, and so reported as one that is broken
  }
}

/** Text from a file that others may have written, for a terminal. */
const printable = (text: string): string => text.replace(/[\x00-\x1f\x7f-\x9f]/g, (character) => `\\x${character.charCodeAt(0).toString(16).padStart(2, '0')}`);

function auditLine(base: string, entry: Json): string {
  const { at, call, tool, kind, ok, ms, error } = entry;
  const what = kind === 'intent' ? `-> ${String(tool)} ${JSON.stringify(entry.args)}` : `<- ${String(tool)} ${ok === true ? 'ok' : `failed ${String(error)}`} after ${String(ms)} ms`;
  return `${String(at)} ${base.slice(base.lastIndexOf('-') + 1)}#${String(call)} ${what}`;
}

async function stopHost(): Promise<void> {
  let peer: Connection | undefined;
  try {
    const dir = privateDir(runtimeDir());
    peer = await connect(pipePath(dir, 'host'), { as: 'cli', key: readKey(dir), label: 'the Host' });
    const ping = await peer.call('system.ping');
    const { pid, mode, safeMode } = isObject(ping) ? ping : {};
    if (mode !== 'headless') usageError(`the Host is a VS Code window (pid ${String(pid)}): close that window`);
    // In Safe Mode nothing answers but the ping: its pid is who holds this very connection, so a signal reaches the right one.
    if (safeMode === true) process.kill(Number(pid), 'SIGTERM');
    else await peer.call('takeover', { reason: 'host stop', by: `a person (pid ${process.pid})` });
    await untilClosed(peer);
    process.stdout.write(`stopped the Host (pid ${String(pid)})\n`);
  } catch (error) {
    const none = errorName(error) === 'E_UNREACHABLE';
    process.stdout.write(none ? 'no Host is running\n' : `the Host could not be stopped: ${messageOf(error)}\n`);
    process.exitCode = none ? 0 : 1;
  } finally {
    peer?.close('done');
  }
}

/** A headless Host takes the place of whoever is the Host: of a VS Code window, too, which is told and may reclaim it. */
async function takeHost(): Promise<void> {
  let peer: Connection | undefined;
  try {
    const dir = privateDir(runtimeDir());
    peer = await connect(pipePath(dir, 'host'), { as: 'cli', key: readKey(dir), label: 'the Host' }).catch((error) => {
      if (errorName(error) !== 'E_UNREACHABLE') throw error;
      return undefined; // there is none
    });
    const ping = await peer?.call('system.ping');
    const { pid, mode, safeMode } = isObject(ping) ? ping : {};
    if (safeMode === true) process.kill(Number(pid), 'SIGTERM');
    step('takeover.asking');
    const answer = peer && safeMode !== true ? await peer.call('takeover', { reason: 'host takeover', by: `a person on the command line (pid ${process.pid})` }) : {};
    if (isObject(answer) && answer.acknowledged === false) throw failure('E_REFUSED', `${String(answer.winner)} was first`);
    if (peer) await untilClosed(peer);
    step('takeover.granted');
    await startRole('host', '', dir);
    step('takeover.made');
    const next = await connect(pipePath(dir, 'host'), { as: 'cli', key: readKey(dir), label: 'the Host' });
    const now = await next.call('system.ping');
    next.close('done');
    process.stdout.write(`the Host is headless now (pid ${String(isObject(now) && now.pid)})${peer ? `; the one before (pid ${String(pid)}, ${String(mode)}) has ended its work` : ''}\n`);
  } catch (error) {
    process.stdout.write(`the Host was not taken over: ${messageOf(error)}\n`);
    process.exitCode = 1;
  } finally {
    peer?.close('done');
  }
}

if (require.main === module) main(process.argv.slice(2));
