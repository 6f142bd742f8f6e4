// bootstrap.js: the door and the wire of vscode-devtools. Plain JavaScript, no build step: what you read is what runs.
//
// Runs in    every process but the MCP server's own loop: `node bootstrap.js host`, `node bootstrap.js client`, and
//            VS Code's extension host through activate(). The MCP server (mcp.ts) borrows its pipe client from here.
// Started by mcp.ts (a headless Host), a Host (its Clients), or VS Code.
// Touches    the runtime directory (sockets, `key`, capped logs), and loads one bundle: dist/<role>.js.
// Refuses    a runtime directory or key that others can reach, symlinks in their place, socket paths over 103 bytes,
//            peers that do not hold the key, lines over 16 MiB, nesting over 64. It opens no TCP port.
// Not here   what the roles do. Other programs of the same user are not defended against: they can read the key.
//
// Protocol   One JSON value a line, UTF-8. Three lines open a connection, each at most 4 KiB, none of them a call:
//              connecting end  {"hello":"vscode-devtools","as":"mcp","pid":1,"nonce":"<hex>"}
//              listening end   {"nonce":"<hex>","mac":HMAC-SHA-256(key, "server" + both lines' nonces and names)}
//              connecting end  {"mac":HMAC-SHA-256(key, "client" + the same)}, sent only if the mac above was right
//            Then JSON-RPC 2.0 both ways. Our own errors have code 1 and a name in data.code (docs/protocol.md).
//            rpc.cancel {id} and rpc.progress {id, message} are notifications about a call that is under way.
//
// Sections   limits · errors · private files · lines and messages · one connection · claiming a name · the role's process ·
//            in VS Code
'use strict';

const { isUtf8 } = require('node:buffer');
const crypto = require('node:crypto');
const fs = require('node:fs');
const net = require('node:net');
const os = require('node:os');
const path = require('node:path');
const vm = require('node:vm');

// ---------------------------------------------------------------------------------------------------------- limits

const PROTOCOL = 1; // Two ends with the same number understand each other; the hello and system.ping never change.
const VERSION = /** @type {string} */ (require('./package.json').version);
const LINE_CAP = 16 * 1024 * 1024;
const HELLO_CAP = 4096;
const DEPTH_CAP = 64;
const UNSENT_CAP = 8 * 1024 * 1024;
const CONGESTED = 1024 * 1024; // unsent bytes from which on a listening end takes no further request
const CONNECTIONS_CAP = 512; // so that file descriptors are left for the work
const IN_FLIGHT_CAP = 16384; // calls that one peer may have running here at a time
const PATH_CAP = 103; // Node 20 silently cuts a longer socket path
const LOG_CAP = 1024 * 1024;
const HELLO_MS = 3000;
const CALL_MS = 10_000; // deadline of a call whose caller names none
const BEAT_MS = 1000; // the fourth silent beat (3 to 4 s), and a peer is reported as unresponsive
const DROPPED_TRIES = 5; // a connection that is accepted and closed at once is tried again so often,
const DROPPED_MS = 20; // after this
const CLOSE_MS = 1000; // what is still unsent may take this long to leave
const CLAIM_MS = 10_000;
const OWN_NAME_MS = 2000; // how often a claimed name is checked to be still ours
const ADOPT_MS = 10_000; // a Client that no Host holds for this long ends itself
const IDLE_MS = 30 * 60_000; // a headless Host that nobody has used for this long ends itself
const START_MS = 15_000; // a role says that it is ready within this
const PATTERN_MS = 1000; // a user's regular expression takes no longer
const TAKEOVERS = 3; // in a row: an MCP server may start a headless Host in between
const STOP_MS = 8000; // what a role may take to clean up before the process ends all the same

const WINDOWS = process.platform === 'win32';

// ---------------------------------------------------------------------------------------------------------- errors

/** An error that crosses the wire. Codes below zero are JSON-RPC's; 1 is ours, with its name in data.code. */
class RpcError extends Error {
  /** @param {number} code @param {string} message @param {Record<string, unknown>} [data] */
  constructor(code, message, data) {
    super(message);
    this.code = code;
    this.data = data;
  }
}

/** Our own error: a name from the list in docs/protocol.md, and words that say what to do next.
 * @param {string} name @param {string} message @param {Record<string, unknown>} [more] */
const failure = (name, message, more) => new RpcError(1, message, { code: name, ...more });

/** The name of one of our errors, or an errno name such as ENOENT, or ''. @param {unknown} error @returns {string} */
function errorName(error) {
  if (error instanceof RpcError) return String(error.data?.code ?? '');
  return error instanceof Error && 'code' in error ? String(error.code) : '';
}

/** @param {unknown} error */
const messageOf = (error) => (error instanceof Error ? error.message : String(error));

// The fault loop of the tests names a step, a way to fail there, and a file that shows that it was reached:
// VSCODE_DEVTOOLS_FAULT=kill:host.claim.linked:/tmp/reached. `once` kills only the first that comes there, `error` fails only that one.
const [faultKind, faultStep, faultFile] = (process.env.VSCODE_DEVTOOLS_FAULT ?? '').split(':');
let actor = 'mcp'; // serve() says otherwise
/** @param {string} name */
function step(name) {
  if (faultStep !== `${actor}.${name}` || (/^(?:once|error)$/.test(faultKind ?? '') && fs.existsSync(faultFile ?? ''))) return;
  if (faultFile) fs.writeFileSync(faultFile, '');
  if (faultKind === 'kill' || faultKind === 'once') process.kill(process.pid, 'SIGKILL');
  if (faultKind === 'stop') process.kill(process.pid, 'SIGSTOP');
  if (faultKind === 'error') throw new Error(`fault injected at ${name}`);
}

// --------------------------------------------------------------------------------------------------- private files
// Everything we write is ours alone: directories 0700, files 0600, no symlink followed, ownership checked.

const uid = process.getuid?.() ?? -1;

/** The directory of the sockets and the key: one a user, so that nobody else can sit on our names. */
function runtimeDir() {
  const env = process.env;
  if (env.VSCODE_DEVTOOLS_DIR) return path.resolve(env.VSCODE_DEVTOOLS_DIR);
  // One that is relative, missing or another user's (sudo -E) is none: so says its specification.
  const xdg = env.XDG_RUNTIME_DIR ?? '';
  if (path.isAbsolute(xdg) && fs.statSync(xdg, { throwIfNoEntry: false })?.uid === uid) return path.join(xdg, 'vscode-devtools');
  return path.join(os.tmpdir(), `vscode-devtools-${WINDOWS ? shortHash(os.userInfo().username) : uid}`);
}

/** Like mkdir -p. Node's own recursive form never returns in a place where nothing can be made, such as /proc.
 * @param {string} dir @param {boolean} [withParents] */
function makeDir(dir, withParents = true) {
  try {
    fs.mkdirSync(dir, { mode: 0o700 });
  } catch (error) {
    if (errorName(error) === 'EEXIST') return;
    if (errorName(error) !== 'ENOENT' || !withParents) throw error;
    if (!fs.existsSync(path.dirname(dir))) makeDir(path.dirname(dir));
    makeDir(dir, false); // others may make it at the same moment
  }
}

/** Makes a directory of ours, or checks the one that is there. @param {string} dir @param {number} [openBits] */
function privateDir(dir, openBits = 0o077) {
  makeDir(dir);
  const stat = fs.lstatSync(dir);
  if (!stat.isDirectory()) throw failure('E_UNSAFE', `${dir} is not a directory (a link, perhaps): remove it`);
  if (!WINDOWS && stat.uid !== uid) throw failure('E_UNSAFE', `${dir} belongs to uid ${stat.uid}, not to ${uid}: remove it, or set VSCODE_DEVTOOLS_DIR`);
  if (!WINDOWS && stat.mode & openBits) throw failure('E_UNSAFE', `${dir} is open to other users: chmod 700 ${dir}`);
  return dir;
}

/** Opens a file of ours for appending or reading without following a link. @param {string} file @param {number} flags */
function openPrivate(file, flags) {
  // Not to wait: a FIFO in its place would block the whole process.
  const fd = fs.openSync(file, flags | (fs.constants.O_NOFOLLOW ?? 0) | (fs.constants.O_NONBLOCK ?? 0), 0o600);
  const stat = fs.fstatSync(fd);
  if (stat.isFile() && (WINDOWS || (stat.uid === uid && !(stat.mode & 0o077)))) return fd;
  fs.closeSync(fd);
  throw failure('E_UNSAFE', `${file} is not a private file of uid ${uid}: remove it`);
}

/** Replaces a file of ours in one step. @param {string} file @param {string} text */
function writePrivate(file, text) {
  const temporary = `${file}.${process.pid}.${crypto.randomBytes(3).toString('hex')}`;
  try {
    fs.writeFileSync(temporary, text, { mode: 0o600, flag: 'wx' });
    fs.renameSync(temporary, file); // replaces a link at `file`, never what it points to
  } catch (error) {
    fs.rmSync(temporary, { force: true });
    throw error;
  }
}

/** The secret that both ends of a connection must hold: 32 bytes, made once, by one winner.
 * @param {string} dir @param {string} [mine] what to put there if there is none */
function readKey(dir, mine = crypto.randomBytes(32).toString('hex')) {
  const file = path.join(dir, 'key');
  if (!fs.existsSync(file)) {
    const temporary = `${file}.${process.pid}.${crypto.randomBytes(3).toString('hex')}`;
    try {
      fs.writeFileSync(temporary, mine, { mode: 0o600, flag: 'wx' });
      fs.linkSync(temporary, file);
    } catch (error) {
      if (errorName(error) !== 'EEXIST') throw error; // else another process made it first: read theirs
    } finally {
      fs.rmSync(temporary, { force: true });
    }
  }
  const fd = openPrivate(file, fs.constants.O_RDONLY);
  try {
    const key = fs.readFileSync(fd, 'utf8');
    if (/^[0-9a-f]{64}$/.test(key)) return key;
  } finally {
    fs.closeSync(fd);
  }
  throw failure('E_UNSAFE', `${file} is damaged: remove it, and end what uses vscode-devtools`);
}

/** Where a workspace's files go: its own `.devtools`, or the runtime directory where that cannot be had.
 * @param {string} workspace @param {string} [runtime] */
function devtoolsDir(workspace, runtime = runtimeDir()) {
  try {
    if (path.dirname(workspace) === workspace) throw failure('E_UNSAFE', 'a file system root is no workspace');
    fs.accessSync(workspace); // one that was removed is not made again
    const dir = privateDir(path.join(workspace, '.devtools'), 0);
    const ignore = path.join(dir, '.gitignore');
    if (!fs.existsSync(ignore)) writePrivate(ignore, '*\n');
    return dir;
  } catch {
    // Read-only, foreign or a link: the runtime directory takes its place, and devtools_status shows the path.
    privateDir(runtime);
    return privateDir(path.join(runtime, `workspace-${shortHash(workspace)}`));
  }
}

/** @param {string} text */
const shortHash = (text) => crypto.createHash('sha256').update(text).digest('hex').slice(0, 8);

/** A log that cannot grow without end: one older half is kept beside it. @param {string} file */
function openLog(file) {
  /** @param {string} text */
  return (text) => {
    try {
      const fd = openPrivate(file, fs.constants.O_WRONLY | fs.constants.O_APPEND | fs.constants.O_CREAT);
      const full = fs.fstatSync(fd).size > LOG_CAP;
      fs.writeSync(fd, `${new Date().toISOString()} ${process.pid} ${text.slice(0, 4000)}\n`);
      fs.closeSync(fd);
      if (full) fs.renameSync(file, `${file}.1`);
    } catch {
      // A full disk must not end the process that wants to say so.
    }
  };
}

// ---------------------------------------------------------------------------------------------- lines and messages

/** Cuts a byte stream into lines. A line over the cap is dropped up to its end and reported once. */
class LineReader {
  /** @param {number} cap @param {(line: string) => void} onLine @param {(problem: RpcError) => void} onBad */
  constructor(cap, onLine, onBad) {
    this.cap = cap;
    this.onLine = onLine;
    this.onBad = onBad;
    this.held = Buffer.alloc(0); // the unfinished line, with room to grow
    this.size = 0; // how much of `held` is in use
    this.dropping = false; // inside a line that was too long
  }

  /** @param {Buffer} chunk */
  push(chunk) {
    let from = 0;
    for (let to = chunk.indexOf(10); to >= 0; to = chunk.indexOf(10, from)) {
      const part = chunk.subarray(from, to);
      from = to + 1;
      if (this.size || this.dropping) this.hold(part);
      const { size, dropping } = this;
      this.size = 0; // before the line goes out: whoever gets it may throw
      this.dropping = false;
      if (dropping) continue;
      if (size) this.emit(this.held.subarray(0, size));
      else if (part.length > this.cap) this.tooLong();
      else this.emit(part);
    }
    if (from < chunk.length) this.hold(chunk.subarray(from));
    if (!this.size && this.held.length > HELLO_CAP) this.held = Buffer.alloc(0); // give a big line's room back
  }

  /** @param {Buffer} part */
  hold(part) {
    if (this.dropping) return;
    const need = this.size + part.length;
    if (need > this.cap) {
      this.dropping = true;
      this.size = 0;
      return this.tooLong();
    }
    if (need > this.held.length) {
      const grown = Buffer.allocUnsafe(Math.max(need, 2 * this.held.length));
      this.held.copy(grown, 0, 0, this.size);
      this.held = grown;
    }
    part.copy(this.held, this.size);
    this.size = need;
  }

  tooLong() {
    this.onBad(new RpcError(-32600, `Invalid Request: a line of over ${this.cap} bytes`));
  }

  /** @param {Buffer} bytes */
  emit(bytes) {
    if (!isUtf8(bytes)) return this.onBad(new RpcError(-32700, 'Parse error: not UTF-8'));
    const line = bytes.toString('utf8');
    if (line.length > 1 || line.trim()) this.onLine(line); // an empty line (or its \r) is nothing
  }
}

/** @typedef {{jsonrpc: '2.0', id?: string | number, method?: string, params?: Record<string, unknown>, result?: unknown,
 *   error?: {code: number, message: string, data?: Record<string, unknown>}}} Message */

/** Whether a line has too many bytes to send; most are far too short to count them. @param {string} line */
const isTooLong = (line) => 3 * line.length > LINE_CAP && Buffer.byteLength(line) > LINE_CAP;

/** @param {unknown} value @returns {value is Record<string, unknown>} */
const isObject = (value) => typeof value === 'object' && value !== null && !Array.isArray(value);
/** @param {unknown} id @returns {id is string | number} */
const isId = (id) => typeof id === 'string' || Number.isSafeInteger(id);

/** Whether brackets nest deeper than the cap; those inside strings do not count. @param {string} text */
function isTooDeep(text) {
  if (text.length <= 2 * DEPTH_CAP) return false; // too short to open and close that many
  let depth = 0;
  for (let i = 0; i < text.length; i++) {
    const c = text.charCodeAt(i);
    if (c === 34) {
      for (i++; i < text.length && text.charCodeAt(i) !== 34; i++) if (text.charCodeAt(i) === 92) i++;
    } else if (c === 123 || c === 91) {
      if (++depth > DEPTH_CAP) return true;
    } else if (c === 125 || c === 93) depth--;
  }
  return false;
}

/** The JSON value of a line. @param {string} line @returns {unknown} */
function parseLine(line) {
  if (isTooDeep(line)) throw new RpcError(-32600, `Invalid Request: nested deeper than ${DEPTH_CAP}`);
  try {
    return JSON.parse(line);
  } catch (error) {
    throw new RpcError(-32700, `Parse error: ${messageOf(error).slice(0, 200)}`);
  }
}

/** What is wrong with a JSON-RPC message, or ''. @param {unknown} value */
function messageProblem(value) {
  if (!isObject(value)) return 'a message is a JSON object';
  if (value.jsonrpc !== '2.0') return 'jsonrpc must be "2.0"';
  if ('id' in value && !isId(value.id)) return 'id must be a string or an integer';
  if (value.method === undefined ? !('result' in value || 'error' in value) : typeof value.method !== 'string') return 'method must be a string';
  if (value.method === undefined && !('id' in value)) return 'a response has an id';
  if (value.params !== undefined && !isObject(value.params)) return 'params must be an object';
  return '';
}

/** Lines that match; a pattern that takes too long is cut, so that it cannot hold the process.
 * @param {readonly string[]} lines @param {unknown} pattern @returns {readonly string[]} */
function matchingLines(lines, pattern) {
  if (pattern === undefined) return lines;
  try {
    const expression = new RegExp(String(pattern));
    return vm.runInNewContext('lines.filter((line) => expression.test(line))', { lines, expression }, { timeout: PATTERN_MS });
  } catch (error) {
    throw failure('E_ARGUMENTS', error instanceof SyntaxError ? `pattern is no regular expression: ${error.message}` : `pattern: ${messageOf(error)}. Use a simpler one`);
  }
}

// -------------------------------------------------------------------------------------------------- one connection

/** A call that came in: what its handler may ask of it. */
class Call {
  /** @param {Peer} peer @param {string | number | undefined} id */
  constructor(peer, id) {
    this.peer = peer;
    this.id = id;
    /** @type {AbortController | undefined} made when asked for: most handlers answer at once */
    this.controller = undefined;
    /** @type {RpcError | undefined} */
    this.ended = undefined;
  }
  /** Aborts when nobody waits for the answer any more; its reason says why (E_CANCELLED or E_CLOSED). */
  get signal() {
    this.controller ??= new AbortController();
    if (this.ended && !this.controller.signal.aborted) this.controller.abort(this.ended);
    return this.controller.signal;
  }
  /** @param {string} message */
  progress(message) {
    if (this.id !== undefined && !this.ended) this.peer.notify('rpc.progress', { id: this.id, message });
  }
  /** @param {RpcError} reason */
  end(reason) {
    this.ended = reason;
    this.controller?.abort(reason);
  }
}

/** @typedef {Call} IncomingCall */
/** @typedef {Peer} Connection */
/** @typedef {(params: Record<string, unknown>, call: Call) => unknown} Handler */
/** What of an AbortSignal is used here: one of these will do. @typedef {{readonly aborted: boolean, addEventListener: (type: 'abort', listener: () => void) => void,
 *   removeEventListener: (type: 'abort', listener: () => void) => void}} Cancellation */
/** @typedef {{timeoutMs?: number, signal?: Cancellation, onProgress?: (message: string) => void}} CallOptions */
/** @typedef {{method: string, due: number, timeoutMs: number, resolve: (value: unknown) => void, reject: (error: Error) => void, signal?: Cancellation,
 *   onAbort: () => void, onProgress?: (message: string) => void}} Pending */
/** `by`: who launched it, if that is VS Code. @typedef {{as: string, pid: number, by?: string}} Hello */

/** A deadline, called off by what it returns. It lets what has already arrived be read first: a process that was stopped
 * wakes to late timers, and the answers wait behind them. @param {number} ms @param {() => void} onLate */
function deadline(ms, onLate) {
  let calledOff = false;
  const timer = setTimeout(() => setImmediate(() => calledOff || onLate()), ms);
  return () => {
    calledOff = true;
    clearTimeout(timer);
  };
}

/** One authenticated connection: both ends may call. */
class Peer {
  /** @param {net.Socket} socket @param {Map<string, Handler>} handlers @param {boolean} accepted @param {string} label */
  constructor(socket, handlers, accepted, label) {
    this.socket = socket;
    this.handlers = handlers;
    this.accepted = accepted; // the listening end: it may stop reading while its answers are not taken
    this.label = label; // who the other end is, for messages
    /** @type {Hello} */
    this.hello = { as: '?', pid: 0 };
    /** @type {Map<string | number, Pending>} calls of ours that wait for an answer */
    this.pending = new Map();
    /** @type {Map<string | number, Call>} calls of theirs that run here */
    this.running = new Map();
    this.nextId = 1;
    this.alarmAt = Infinity; // when the earliest deadline is looked at
    /** @type {NodeJS.Timeout | undefined} */
    this.alarm = undefined;
    this.unsent = ''; // lines of this tick, sent together at its end
    this.room = UNSENT_CAP; // what may be unsent at present
    /** @type {string[]} requests that wait until earlier answers are taken; the rest of one chunk at most */
    this.held = [];
    this.responsive = true;
    this.silentBeats = 0;
    /** @type {string | undefined} set once, by close() */
    this.closedBecause = undefined;
    /** @type {(responsive: boolean) => void} */
    this.onResponsive = () => {};
    /** @type {Array<(reason: string) => void>} */
    this.onClose = [];
    this.reader = new LineReader(HELLO_CAP, (line) => this.onHello(line), () => this.close('a hello of over 4 KiB'));
    /** @type {(line: string) => void} the handshake's next line; onLine once it is over */
    this.onHello = () => {};
    socket.setNoDelay?.(true);
    socket.on('data', (chunk) => this.onData(chunk));
    socket.on('drain', () => this.onDrain());
    socket.on('end', () => this.close(`${this.label} closed the connection`));
    socket.on('error', (error) => this.close(`${this.label}: ${error.message}`));
    socket.on('close', () => this.close(`${this.label} is gone`));
  }

  /** From here on the peer is trusted with calls. @param {Hello} hello */
  open(hello) {
    this.hello = hello;
    this.reader.cap = LINE_CAP;
    this.reader.onLine = (line) => this.onLine(line);
    this.reader.onBad = (problem) => this.reply(null, undefined, problem);
    if (!this.accepted) this.beat = setInterval(() => this.onBeat(), BEAT_MS).unref();
  }

  /** Calls a method of the other end. Always settles: with the answer, at the deadline, or when the connection ends.
   * @param {string} method @param {Record<string, unknown>} [params] @param {CallOptions} [options] @returns {Promise<unknown>} */
  call(method, params = {}, { timeoutMs = CALL_MS, signal, onProgress } = {}) {
    return new Promise((resolve, reject) => {
      if (this.closedBecause !== undefined) return reject(failure('E_CLOSED', `${method}: ${this.closedBecause}`));
      if (signal?.aborted) return reject(failure('E_CANCELLED', `${method} was cancelled`));
      const id = this.nextId++;
      const line = JSON.stringify({ jsonrpc: '2.0', id, method, params });
      if (isTooLong(line)) return reject(failure('E_TOO_LARGE', `${method}: the call is over 16 MiB`));
      if (!this.hasRoomFor(line)) return reject(failure('E_BUSY', `${method}: ${this.label} has not yet taken ${this.socket.writableLength + this.unsent.length} bytes: wait for earlier calls`));
      const onAbort = () => this.giveUp(id, failure('E_CANCELLED', `${method} was cancelled`));
      signal?.addEventListener('abort', onAbort);
      const due = performance.now() + timeoutMs;
      this.pending.set(id, { method, due, timeoutMs, resolve, reject, signal, onAbort, onProgress });
      if (due < this.alarmAt) this.setAlarm(due);
      this.send(line);
    });
  }

  /** Takes a call off the list of those that wait. @param {string | number} id */
  settle(id) {
    const waiting = this.pending.get(id);
    if (!waiting) return undefined; // late, after a deadline or a cancellation
    this.pending.delete(id);
    waiting.signal?.removeEventListener('abort', waiting.onAbort);
    return waiting;
  }

  /** @param {string | number} id @param {RpcError} error */
  giveUp(id, error) {
    const waiting = this.settle(id); // first: the notification may find the connection congested, and close it
    this.notify('rpc.cancel', { id });
    waiting?.reject(error);
  }

  // One timer for all deadlines, set for the earliest. It is not called off when that call is answered: it fires, finds
  // nothing late, and is set for the next. So a call that is answered in time costs no timer at all.
  /** @param {number} due */
  setAlarm(due) {
    clearTimeout(this.alarm);
    this.alarmAt = due;
    // What has already arrived is read first: a process that was stopped wakes to late timers, and the answers wait behind.
    this.alarm = setTimeout(() => setImmediate(() => this.onAlarm()), Math.max(1, due - performance.now())).unref();
  }

  onAlarm() {
    if (this.closedBecause !== undefined) return;
    const now = performance.now();
    let next = Infinity;
    for (const [id, { method, due, timeoutMs }] of this.pending) {
      if (due <= now) this.giveUp(id, failure('E_TIMEOUT', `${method}: ${this.label} has not answered for ${timeoutMs} ms; whether it was carried out is unknown`));
      else if (due < next) next = due;
    }
    this.alarmAt = Infinity;
    if (next < Infinity) this.setAlarm(next);
  }

  /** @param {string} method @param {Record<string, unknown>} params */
  notify(method, params) {
    this.send(JSON.stringify({ jsonrpc: '2.0', method, params }));
  }

  /** The one end of a connection, safe to call twice: everything that waits is told why. @param {string} reason */
  close(reason) {
    if (this.closedBecause !== undefined) return;
    this.flush(); // what was said before the end is still said
    this.closedBecause = reason;
    clearInterval(this.beat);
    this.socket.end();
    setTimeout(() => this.socket.destroy(), CLOSE_MS).unref(); // a peer that does not read must not keep it open
    const error = failure('E_CLOSED', reason);
    clearTimeout(this.alarm);
    for (const id of [...this.pending.keys()]) this.settle(id)?.reject(error);
    for (const call of this.running.values()) call.end(error);
    this.running.clear();
    for (const listener of this.onClose) listener(reason);
  }

  // Lines of one tick go out in one write. What the other end does not take is bounded: 8 MiB, or one line that is
  // bigger alone, and a little more for the small lines (a heartbeat, a cancellation) that come after it.
  /** @param {string} line */
  hasRoomFor(line) {
    const queued = this.socket.writableLength + this.unsent.length;
    if (queued === 0) this.room = Math.max(UNSENT_CAP, 3 * line.length + CONGESTED);
    return queued === 0 || queued + line.length <= this.room;
  }

  /** @param {string} line */
  send(line) {
    if (this.closedBecause !== undefined) return;
    if (!this.hasRoomFor(line)) return this.close(`${this.label} does not read: ${this.socket.writableLength + this.unsent.length} bytes unsent`);
    if (!this.unsent) process.nextTick(() => this.flush());
    this.unsent += line + '\n';
  }

  flush() {
    if (!this.unsent || this.closedBecause !== undefined) return;
    const text = this.unsent;
    this.unsent = '';
    // Only the listening end stops reading: if both did, each would wait for the other.
    if (!this.socket.write(text, 'utf8') && this.accepted) this.socket.pause();
    else if (this.held.length) setImmediate(() => this.onDrain());
  }

  onDrain() {
    while (this.held.length && !this.isCongested()) this.onMessage(this.held.shift() ?? '');
    if (!this.held.length) this.socket.resume();
  }

  isCongested() {
    return this.accepted && this.socket.writableLength + this.unsent.length > CONGESTED;
  }

  /** @param {Buffer} chunk */
  onData(chunk) {
    this.silentBeats = 0;
    if (!this.responsive) this.onResponsive((this.responsive = true));
    this.reader.push(chunk);
  }

  // Counted in beats, not in clock time: a process that slept itself must not accuse its peer.
  onBeat() {
    this.silentBeats++;
    if (this.silentBeats === 2) this.call('system.ping').catch(() => {}); // its silence is what the next beats notice
    if (this.silentBeats === 4) this.onResponsive((this.responsive = false));
  }

  /** @param {string} line */
  onLine(line) {
    if (this.held.length || this.isCongested()) this.held.push(line);
    else this.onMessage(line);
  }

  /** @param {string} line */
  onMessage(line) {
    if (this.closedBecause !== undefined) return; // lines of the same chunk after the end
    let message;
    try {
      message = parseLine(line);
    } catch (error) {
      return this.reply(null, undefined, error);
    }
    const problem = messageProblem(message);
    const { id, method, params, result, error } = /** @type {Message} */ (isObject(message) ? message : {});
    if (problem && method === undefined && (error !== undefined || result !== undefined)) return; // a bad answer is not answered: that would never end
    if (problem) return this.reply(isId(id) ? id : null, undefined, new RpcError(-32600, `Invalid Request: ${problem}`));
    if (method !== undefined) return id === undefined ? this.onNotification(method, params ?? {}) : this.onRequest(id, method, params ?? {});
    const waiting = id === undefined ? undefined : this.settle(id);
    if (!waiting) return;
    if (!error) waiting.resolve(result);
    else waiting.reject(new RpcError(Number(error.code), String(error.message), isObject(error.data) ? error.data : undefined));
  }

  /** @param {string | number} id @param {string} method @param {Record<string, unknown>} params */
  onRequest(id, method, params) {
    if (this.running.has(id)) return this.reply(id, undefined, new RpcError(-32600, 'Invalid Request: this id is still in use'));
    if (this.running.size >= IN_FLIGHT_CAP) return this.reply(id, undefined, failure('E_BUSY', `over ${IN_FLIGHT_CAP} calls are running: wait for some`));
    const handler = this.handlers.get(method);
    if (!handler) return this.reply(id, undefined, new RpcError(-32601, `Method not found: ${method.slice(0, 100)}`));
    const call = new Call(this, id);
    this.running.set(id, call);
    /** @param {unknown} result @param {unknown} [error] */
    const finish = (result, error) => {
      this.running.delete(id);
      if (!call.ended) this.reply(id, result, error);
    };
    try {
      const result = handler(params, call);
      if (result instanceof Promise) result.then(finish, (error) => finish(undefined, error ?? new Error('failed')));
      else finish(result);
    } catch (error) {
      finish(undefined, error);
    }
  }

  /** @param {string} method @param {Record<string, unknown>} params */
  onNotification(method, params) {
    const { id } = params;
    if (method === 'rpc.cancel' && isId(id)) {
      this.running.get(id)?.end(failure('E_CANCELLED', 'cancelled by the caller'));
    } else if (method === 'rpc.progress' && isId(id)) {
      this.pending.get(id)?.onProgress?.(String(params.message));
    } else {
      // A notification has no one to tell what failed.
      Promise.resolve().then(() => this.handlers.get(method)?.(params, new Call(this, undefined))).catch(() => {});
    }
  }

  /** @param {string | number | null} id @param {unknown} result @param {unknown} [error] @returns {void} */
  reply(id, result, error) {
    if (error !== undefined) return this.send(JSON.stringify({ jsonrpc: '2.0', id, error: errorBody(error) }));
    let line;
    try {
      line = JSON.stringify({ jsonrpc: '2.0', id, result: result ?? null });
    } catch (problem) {
      return this.reply(id, undefined, new RpcError(-32603, `the answer is not JSON: ${messageOf(problem)}`));
    }
    if (isTooLong(line)) return this.reply(id, undefined, failure('E_TOO_LARGE', 'the answer is over 16 MiB: ask for less'));
    this.send(line);
  }
}

/** @param {unknown} error */
function errorBody(error) {
  if (error instanceof RpcError) return { code: error.code, message: error.message.slice(0, 8000), data: error.data };
  return { code: -32603, message: messageOf(error).slice(0, 8000), data: { code: errorName(error) || 'E_INTERNAL' } };
}

/** @param {string} key @param {string} end @param {string} hello @param {string} nonce */
const mac = (key, end, hello, nonce) => crypto.createHmac('sha256', key).update(`${end}\n${hello}\n${nonce}`).digest('hex');
/** @param {unknown} a @param {string} b */
const sameMac = (a, b) => typeof a === 'string' && a.length === b.length && crypto.timingSafeEqual(Buffer.from(a), Buffer.from(b));

/** @param {string} line @returns {Record<string, unknown>} */
function parseHello(line) {
  try {
    const value = parseLine(line);
    return isObject(value) ? value : {};
  } catch {
    return {}; // no hello is a wrong hello
  }
}

/** The listening end of the handshake. @param {net.Socket} socket @param {string} key @param {Map<string, Handler>} handlers
 * @param {(peer: Peer) => void} onOpen */
function accept(socket, key, handlers, onOpen) {
  const peer = new Peer(socket, handlers, true, 'a caller');
  const inTime = deadline(HELLO_MS, () => peer.close('no hello in time'));
  peer.onClose.push(inTime);
  const nonce = crypto.randomBytes(16).toString('hex');
  peer.onHello = (hello) => {
    const { hello: product, as, pid, by } = parseHello(hello);
    if (product !== 'vscode-devtools') return peer.close('not a hello of ours');
    peer.send(JSON.stringify({ nonce, mac: mac(key, 'server', hello, nonce) }));
    peer.onHello = (answer) => {
      if (!sameMac(parseHello(answer).mac, mac(key, 'client', hello, nonce))) return peer.close('wrong key');
      inTime();
      peer.label = `${as} (pid ${pid})`;
      peer.open({ as: String(as), pid: Number(pid), ...(typeof by === 'string' && { by }) });
      onOpen(peer);
    };
  };
}

/** @typedef {{as: string, key: string, label?: string, handlers?: Map<string, Handler>}} ConnectOptions */

/** Connects. A process that dies closes its connections before its listening socket, so whoever comes in between is
 * accepted and dropped: that is tried again, and then finds out. @param {string} pipe @param {ConnectOptions} options @returns {Promise<Peer>} */
async function connect(pipe, options) {
  for (let tries = 1; ; tries++) {
    try {
      return await greet(pipe, options);
    } catch (error) {
      if (errorName(error) !== 'E_CLOSED' || tries === DROPPED_TRIES) throw error;
      await new Promise((resolve) => setTimeout(resolve, DROPPED_MS));
    }
  }
}

/** The connecting end of the handshake. Sends nothing but a nonce to one that has not shown that it holds the key.
 * @param {string} pipe @param {ConnectOptions} options @returns {Promise<Peer>} */
function greet(pipe, { as, key, label = 'the peer', handlers = new Map() }) {
  return new Promise((resolve, reject) => {
    const peer = new Peer(net.connect(pipe), handlers, false, label);
    const nonce = crypto.randomBytes(16).toString('hex');
    const hello = JSON.stringify({ hello: 'vscode-devtools', as, pid: process.pid, ...(process.env.VSCODE_DEVTOOLS_LAUNCHED_BY && { by: process.env.VSCODE_DEVTOOLS_LAUNCHED_BY }), nonce });
    let connected = false;
    const inTime = deadline(HELLO_MS, () => peer.close('no answer'));
    peer.socket.once('connect', () => {
      connected = true;
      peer.send(hello);
    });
    let dropped = false;
    let refusedForNow = false; // a full backlog: somebody lives there
    peer.socket.prependListener('end', () => (dropped = true));
    peer.socket.prependListener('error', (error) => {
      dropped = true;
      refusedForNow = errorName(error) === 'EAGAIN';
    });
    const onFailure = () => {
      inTime();
      if (connected && dropped) return reject(failure('E_CLOSED', `${label} closed the connection at ${pipe} in the middle of the handshake: it is ending, its key is another, or it has too many connections`));
      // Whoever accepts but says nothing is alive: stopped, or busy. That is never a reason to take its place.
      if (connected || refusedForNow) reject(failure('E_UNRESPONSIVE', `${label} does not complete the handshake at ${pipe} (${peer.closedBecause}): it may be stopped, busy, or not ours`));
      else reject(failure('E_UNREACHABLE', `${label} cannot be reached at ${pipe}: ${peer.closedBecause}`));
    };
    peer.onClose.push(onFailure);
    peer.onHello = (line) => {
      const theirs = parseHello(line);
      if (!sameMac(theirs.mac, mac(key, 'server', hello, String(theirs.nonce)))) return peer.close('it does not hold the key');
      peer.send(JSON.stringify({ mac: mac(key, 'client', hello, String(theirs.nonce)) }));
      inTime();
      peer.onClose.splice(peer.onClose.indexOf(onFailure), 1);
      peer.open({ as: label, pid: 0 });
      resolve(peer);
    };
  });
}

// ------------------------------------------------------------------------------------------------- claiming a name
// The pipe decides the role: who holds `<name>.sock` is it. Probe, unlink, listen would give two winners, so: listen
// on a private name, link() it to `<name>.<g+1>.sock` (one winner creates that), rename the private name over
// `<name>.sock`, then remove older generations. `g` is read before the probe, so a winner in between makes our link
// fail. A generation that lives stops everybody else, which also covers numbers that restart after a clean end.

/** @param {string} dir @param {string} name */
function pipePath(dir, name) {
  if (WINDOWS) return `\\\\.\\pipe\\vscode-devtools-${shortHash(dir)}-${name}`;
  const pipe = path.join(dir, `${name}.sock`);
  const longest = Buffer.byteLength(pipe) + '.~12345678'.length;
  if (longest > PATH_CAP) throw failure('E_UNSAFE', `socket paths in ${dir} would have ${longest} bytes, over ${PATH_CAP}: set VSCODE_DEVTOOLS_DIR to a shorter directory`);
  return pipe;
}

/** Whether somebody listens there; a stopped process does too. @param {string} pipe @returns {Promise<boolean>} */
function isListening(pipe) {
  return new Promise((resolve) => {
    const socket = net.connect(pipe, () => resolve(true));
    socket.on('connect', () => socket.destroy());
    socket.on('error', (error) => resolve(!['ECONNREFUSED', 'ENOENT', 'ENOTSOCK'].includes(errorName(error))));
  });
}

/** @param {string} pipe @param {(socket: net.Socket) => void} onSocket @returns {Promise<net.Server>} */
function listen(pipe, onSocket) {
  return new Promise((resolve, reject) => {
    const server = net.createServer(onSocket);
    server.maxConnections = CONNECTIONS_CAP;
    server.once('error', reject);
    const before = WINDOWS ? 0 : process.umask(0o177); // the socket is 0600 from its first instant
    server.listen(pipe, () => resolve(server));
    if (!WINDOWS) process.umask(before);
  });
}

/** The generations of a name, as numbers. @param {string} dir @param {string} name */
function generations(dir, name) {
  const mine = fs.readdirSync(dir).filter((file) => file.startsWith(`${name}.`) && file.endsWith('.sock'));
  return mine.map((file) => Number(file.slice(name.length + 1, -5))).filter((n) => Number.isSafeInteger(n) && n > 0);
}

/** @typedef {{server: net.Server, pipe: string, isOurs: () => boolean, release: () => void}} Claim */

/** Claims a name for this process; undefined if a living process has it. @param {string} dir @param {string} name
 * @param {(socket: net.Socket) => void} [onSocket] @returns {Promise<Claim | undefined>} */
async function claim(dir, name, onSocket = (socket) => socket.destroy()) {
  const pipe = pipePath(dir, name);
  if (WINDOWS) return claimOnWindows(pipe, onSocket); // there a name vanishes with its process: no stale case
  /** @param {number} n */
  const generation = (n) => path.join(dir, `${name}.${n}.sock`);
  /** @param {number} [except] */
  const anotherLives = async (except) => {
    for (const n of generations(dir, name)) if (n !== except && (await isListening(generation(n)))) return true;
    return false;
  };
  const giveUpAt = performance.now() + CLAIM_MS;
  while (performance.now() < giveUpAt) {
    const last = Math.max(0, ...generations(dir, name));
    const there = fs.lstatSync(pipe, { throwIfNoEntry: false });
    if (there && !there.isSocket()) throw failure('E_UNSAFE', `${pipe} is not a socket: remove it`);
    if (await isListening(pipe)) return undefined;
    const own = path.join(dir, `${name}.~${crypto.randomBytes(4).toString('hex')}.sock`);
    const mine = last + 1;
    step('claim.probed');
    const server = (await anotherLives()) ? undefined : await listen(own, onSocket);
    if (server) step('claim.listening');
    if (server && link(own, generation(mine))) {
      step('claim.linked');
      const { ino } = fs.lstatSync(own);
      if (!(await anotherLives(mine))) {
        fs.renameSync(own, pipe);
        step('claim.named');
        await sweep(dir, name, mine);
        const isOurs = () => isSame(pipe, ino);
        // While this server listens nobody else takes the name, so these two removals are not a race.
        const release = () => {
          if (isOurs()) fs.rmSync(pipe, { force: true });
          step('release.unnamed');
          if (isSame(generation(mine), ino)) fs.rmSync(generation(mine), { force: true }); // after a displacement another may have this number
          server.close();
        };
        return { server, pipe, isOurs, release };
      }
      fs.rmSync(generation(mine), { force: true });
    }
    server?.close(); // which also removes the private name
    // Somebody else is between link and rename, or has just died there: look again in a moment.
    await new Promise((resolve) => setTimeout(resolve, 5 + Math.random() * 20));
  }
  throw failure('E_TIMEOUT', `the name ${pipe} could not be claimed in ${CLAIM_MS} ms: try again`);
}

/** @param {string} pipe @param {(socket: net.Socket) => void} onSocket @returns {Promise<Claim | undefined>} */
async function claimOnWindows(pipe, onSocket) {
  try {
    const server = await listen(pipe, onSocket);
    return { server, pipe, isOurs: () => true, release: () => void server.close() };
  } catch (error) {
    if (['EADDRINUSE', 'EACCES'].includes(errorName(error))) return undefined;
    throw error;
  }
}

/** @param {string} file @param {number} ino */
function isSame(file, ino) {
  try {
    return fs.lstatSync(file).ino === ino;
  } catch {
    return false; // gone, or its directory is
  }
}

/** @param {string} from @param {string} to @returns {boolean} whether this process made `to` */
function link(from, to) {
  try {
    fs.linkSync(from, to);
    return true;
  } catch (error) {
    if (['EEXIST', 'ENOENT'].includes(errorName(error))) return false; // lost, or swept before it listened
    throw error;
  }
}

/** Removes what dead predecessors left under a name that is ours. @param {string} dir @param {string} name @param {number} mine */
async function sweep(dir, name, mine) {
  for (const n of generations(dir, name)) if (n < mine) fs.rmSync(path.join(dir, `${name}.${n}.sock`), { force: true });
  for (const file of fs.readdirSync(dir)) {
    const full = path.join(dir, file);
    if (file.startsWith(`${name}.~`) && !(await isListening(full))) fs.rmSync(full, { force: true });
  }
}

// -------------------------------------------------------------------------------------------- the role's process
// A role's bundle exports register(role). Whatever it does wrong, the pipe answers system.ping and says what failed.

/** What a role's bundle gets, and what it may set.
 * @typedef {object} Role
 * @property {RoleName} role
 * @property {string} dir the runtime directory
 * @property {string} key
 * @property {string} pipe the pipe that this process holds
 * @property {string} workspace '' for a Host
 * @property {unknown} vscode the vscode module, or undefined in plain node
 * @property {unknown} context VS Code's, of this extension
 * @property {SpawnOrder | undefined} order what the Host told this window, if it spawned it
 * @property {Set<Peer>} peers
 * @property {(method: string, handler: Handler | undefined) => void} handle
 * @property {(text: string) => void} log
 * @property {(reason: string) => Promise<void>} stop
 * @property {() => string} busyWith what this process owns that is alive, in words; '' if nothing
 * @property {boolean} displaced set before onStop when another process has taken this one's place
 * @property {string} takenBy set before stop() when another process asked for this one's place: who that is
 * @property {boolean} isReloading set before onStop when VS Code ends the extension: the window may come back
 * @property {() => void} leave what a window does when its role has ended: it closes
 * @property {() => Promise<void> | void} onStop
 * @property {() => void} onPeers somebody connected or left
 */

/** @typedef {'host' | 'client' | 'debug'} RoleName */

/** The name that a role claims: one Host a user, one Client and one debug process a workspace.
 * @param {RoleName} roleName @param {string} workspace */
const pipeName = (roleName, workspace) => (roleName === 'host' ? 'host' : `${roleName}-${shortHash(workspace)}`);

/** What the tags of a workspace's terminals begin with: those of another runtime directory are another Host's.
 * @param {string} runtime @param {string} workspace */
const tagPrefix = (runtime, workspace) => `t-${shortHash(`${runtime}\0${workspace}`)}-`;

/** Claims the role's name and serves it; undefined if a living process has it.
 * @param {RoleName} roleName @param {{workspace?: string, vscode?: unknown, context?: unknown, order?: SpawnOrder, log?: (text: string) => void, exit: (reason: string) => void}} options
 * @returns {Promise<Role | undefined>} */
async function serve(roleName, { workspace = '', vscode, context, order, log, exit }) {
  actor = roleName;
  const dir = privateDir(runtimeDir());
  const key = readKey(dir);
  const name = pipeName(roleName, workspace);
  /** @type {net.Socket[]} callers that come while the role's bundle is still loading */
  const early = [];
  /** @type {(socket: net.Socket) => void} */
  let onSocket = (socket) => void early.push(socket);
  const claimed = await claim(dir, name, (socket) => onSocket(socket));
  if (!claimed) return undefined;
  /** @type {Map<string, Handler>} */
  const handlers = new Map();
  let safeMode = '';
  /** @type {Promise<void> | undefined} */
  let stopping;
  /** @type {NodeJS.Timeout | undefined} */
  let lonely;

  /** @type {Role} */
  const role = {
    role: roleName, dir, key, pipe: claimed.pipe, workspace, vscode, context, order, peers: new Set(),
    handle: (method, handler) => void (handler ? handlers.set(method, handler) : handlers.delete(method)),
    log: log ?? openLog(path.join(dir, `${name}.log`)),
    stop: (reason) => (stopping ??= stop(reason)),
    busyWith: () => '',
    displaced: false,
    takenBy: '',
    isReloading: false,
    leave: () => {},
    onStop: () => {},
    onPeers: () => {},
  };

  /** @param {string} reason */
  async function stop(reason) {
    role.log(`stopping: ${reason}`);
    clearInterval(ownName);
    clearTimeout(lonely);
    const late = new Promise((resolve) => setTimeout(resolve, STOP_MS).unref());
    await Promise.race([Promise.resolve().then(() => role.onStop()).catch((error) => role.log(`while stopping: ${messageOf(error)}`)), late]);
    try {
      step('stopping');
      claimed?.release();
      step('released');
      for (const peer of role.peers) peer.close(`${roleName} ended: ${reason}`);
    } finally {
      exit(reason);
    }
  }

  // A Client (or debug process) lives while a Host holds it, a headless Host while anybody uses it or it owns something alive.
  function watchUse() {
    role.onPeers();
    clearTimeout(lonely);
    const keepers = [...role.peers].filter((peer) => roleName === 'host' || peer.hello.as === 'host');
    if (keepers.length || stopping || (vscode && roleName === 'host')) return;
    const patience = roleName !== 'host' ? ADOPT_MS : Number(process.env.VSCODE_DEVTOOLS_IDLE_MS) || IDLE_MS;
    lonely = setTimeout(() => {
      const busy = roleName === 'host' ? role.busyWith() : '';
      if (busy) return watchUse(); // again in a while
      void role.stop(roleName !== 'host' ? `no Host has held this ${roleName} for ${patience} ms` : `unused for ${patience} ms`);
    }, patience);
  }

  // The displaced stand down: if the name leads elsewhere, another process is it, and what we held may be its by now.
  const ownName = setInterval(() => {
    let problem = claimed.isOurs() ? '' : 'the name is not ours any more';
    try {
      if (!problem && readKey(dir, key) !== key) problem = 'the key is another'; // one that was only removed is put back
    } catch (error) {
      problem = messageOf(error);
    }
    if (!problem || stopping) return;
    role.displaced = true;
    void role.stop(problem);
  }, OWN_NAME_MS);

  const file = path.join(__dirname, 'dist', `${roleName}.js`);
  let tried = ''; // what that file was when it was last loaded
  const stamp = () => {
    const { mtimeMs = 0, size = 0, ino = 0 } = fs.statSync(file, { throwIfNoEntry: false }) ?? {};
    return `${mtimeMs} ${size} ${ino}`;
  };
  const pong = () => ({
    alive: true, role: roleName, mode: vscode ? 'vscode' : 'headless', pid: process.pid, version: VERSION, protocol: PROTOCOL,
    safeMode: safeMode !== '', ...(safeMode && { reason: safeMode }), registeredMethods: [...handlers.keys()],
  });
  // In Safe Mode it is also how one gets out of it: the file is loaded again once it is another than the one that failed.
  const ping = () => (safeMode && !stopping && stamp() !== tried ? load().then(pong) : pong());

  async function load() {
    tried = stamp();
    try {
      delete require.cache[file];
      await require(file).register(role);
      if (safeMode) role.log('out of safe mode');
      safeMode = '';
    } catch (error) {
      // Safe Mode. Half a role is worse than none: everything but the ping is unregistered again.
      const at = error instanceof Error ? (error.stack ?? '').split('\n').find((line) => /:\d+/.test(line) && !line.includes(messageOf(error))) : '';
      safeMode = `${String(error)}${at ? ` (${at.trim().replace(/^at /, '')})` : ''}`.slice(0, 1000);
      handlers.clear();
      role.busyWith = () => '';
      role.onStop = role.onPeers = () => {};
      role.log(`safe mode: ${safeMode}`);
    }
    handlers.set('system.ping', ping);
  }
  handlers.set('system.ping', ping);
  step('claimed');
  await load();
  onSocket = (socket) => accept(socket, key, handlers, (peer) => {
    role.peers.add(peer);
    watchUse();
    peer.onClose.push(() => {
      role.peers.delete(peer);
      watchUse();
    });
  });
  early.forEach(onSocket);
  watchUse();
  role.log(`${roleName} ${VERSION} serves ${claimed.pipe}`);
  return role;
}

/** `node bootstrap.js host|client|debug [workspace]`. Its starter reads one line: {"ready":pid} or {"lost":true} or {"error":...}.
 * @param {string[]} argv */
async function main([roleName, workspace = '']) {
  if (roleName !== 'host' && roleName !== 'client' && roleName !== 'debug') {
    process.stderr.write('usage: node bootstrap.js host | client <workspace> | debug <workspace>\n');
    process.exit(2);
  }
  process.stdout.on('error', () => {}); // the starter may be gone: that is no reason to end
  /** @param {Record<string, unknown>} word */
  const say = (word) => new Promise((resolve) => process.stdout.write(JSON.stringify(word) + '\n', () => resolve(undefined)));
  try {
    const role = await serve(roleName, { workspace, exit: () => process.exit(0) });
    if (!role) {
      await say({ lost: true });
      process.exit(0);
    }
    for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP']) process.on(signal, () => void role.stop(signal));
    // One failed callback must not take the user's terminals with it: it is logged, and the role goes on.
    process.on('uncaughtException', (error) => role.log(`uncaught: ${error?.stack ?? error}`));
    step('ready');
    await say({ ready: process.pid });
  } catch (error) {
    await say({ error: messageOf(error), code: errorName(error) });
    process.exit(1);
  }
}

/** The environment without what VS Code tells its own processes. @returns {NodeJS.ProcessEnv} */
function plainEnv() {
  const env = { ...process.env };
  for (const name of Object.keys(env)) if (/^(?:VSCODE_(?!DEVTOOLS_)|ELECTRON_|NODE_OPTIONS$|CHROME_DESKTOP$)/.test(name)) delete env[name]; // NODE_OPTIONS: a debugger's port is not for what outlives it
  delete env.VSCODE_DEVTOOLS_SPAWN;
  return env;
}

/** The same for a script of ours on the runtime that runs this one: VS Code's own is no plain node unless it is told to be. */
const runtimeEnv = () => ({ ...plainEnv(), ...(process.versions.electron && { ELECTRON_RUN_AS_NODE: '1' }) });

/** Starts a role in a process of its own that outlives this one, and waits for its word. A role that lost its name to
 * another process counts as started: then that one is it. @param {RoleName} roleName @param {string} workspace @param {string} dir */
function startRole(roleName, workspace, dir) {
  const log = path.join(dir, `${pipeName(roleName, workspace)}.log`);
  return new Promise((/** @type {(value: void) => void} */ resolve, reject) => {
    step(`starting.${roleName}`);
    const env = { ...runtimeEnv(), VSCODE_DEVTOOLS_DIR: dir };
    const child = require('node:child_process').spawn(process.execPath, [__filename, roleName, workspace], {
      cwd: workspace || dir, detached: true, stdio: ['ignore', 'pipe', 'ignore'], env,
    });
    /** @param {string} problem */
    const finish = (problem) => {
      inTime();
      child.stdout?.destroy(); // there is none when the process could not be made
      child.unref();
      if (problem) reject(failure('E_SPAWN', `the ${roleName} could not be started: ${problem} (its log: ${log})`));
      else resolve();
    };
    const inTime = deadline(START_MS, () => {
      child.kill('SIGKILL'); // ours, and not yet ready: nothing is lost with it
      finish(`not ready in ${START_MS} ms`);
    });
    try {
      step(`started.${roleName}`);
    } catch (error) {
      child.kill('SIGKILL'); // nobody would know of it
      return finish(messageOf(error));
    }
    child.on('error', (error) => finish(error.message));
    child.on('exit', (code, signal) => finish(`it ended at once (${signal ?? `exit code ${code}`})`));
    const words = new LineReader(HELLO_CAP, (line) => {
      const { ready, lost, error } = parseHello(line);
      if (ready || lost || error) finish(String(error ?? '')); // whatever else is printed is not its word
    }, () => {});
    child.stdout?.on('data', (chunk) => words.push(chunk));
  });
}

// ------------------------------------------------------------------------------------------------- in VS Code
// The pipe decides the role. A window that a Host has spawned carries an order in its environment and is that Host's
// Client; any other is the Host if the name is free (or its headless holder gives way), else it stands by.

/** What a Host tells the window that it spawns. @typedef {{id: string, token: string, workspace: string}} SpawnOrder */

/** @returns {SpawnOrder | undefined} */
function spawnOrder() {
  const text = process.env.VSCODE_DEVTOOLS_SPAWN;
  if (!text) return undefined;
  const { id, token, workspace } = parseHello(text);
  return typeof id === 'string' && typeof token === 'string' && typeof workspace === 'string' ? { id, token, workspace } : undefined;
}

/** @type {Role | undefined} */
let activeRole;

/** What a window is at present, for its user interface, and what a person may ask of it.
 * @typedef {object} Shown
 * @property {Role | undefined} role
 * @property {string} standing why this window has no role; '' if it has one
 * @property {string} lostTo who took this window's role; '' if it never had it
 * @property {() => void} onChange set by the user interface
 * @property {() => Promise<void>} override makes this window the Host, whoever is it now */

/** VS Code's entry. @param {{subscriptions: {dispose(): unknown}[], logUri: {fsPath: string}, extensionPath: string}} context */
async function activate(context) {
  const vscode = require('vscode');
  const channel = vscode.window.createOutputChannel('vscode-devtools');
  context.subscriptions.push(channel);
  /** @param {string} text */
  const log = (text) => channel.appendLine(`${new Date().toISOString()} ${text}`);
  const order = spawnOrder();
  /** @type {Shown} */
  const shown = { role: undefined, standing: '', lostTo: '', onChange: () => {}, override: () => become(true) };

  /** @param {boolean} [isWanted] a person has said so: whoever is the Host makes room */
  async function become(isWanted = false) {
    try {
      activeRole = shown.role = order ? await becomeClient(order, vscode, context, log) : await becomeHost(vscode, context, log, onHostEnded, isWanted);
      shown.standing = activeRole ? '' : 'another Host answers';
    } catch (error) {
      shown.standing = messageOf(error);
    }
    if (!shown.role) return log(`this window stands by: ${shown.standing}`);
    shown.lostTo = '';
    shown.onChange();
  }

  /** This window was the Host: taken over, or displaced. @param {string} reason */
  function onHostEnded(reason) {
    if (!shown.role || shown.role.isReloading) return;
    shown.lostTo = shown.role.takenBy || 'another process';
    activeRole = shown.role = undefined;
    shown.standing = reason;
    log(`this window stands by: ${reason}`);
    shown.onChange();
  }

  log(`vscode-devtools ${VERSION} in VS Code ${vscode.version}, extension host ${process.pid}${order ? `, spawned for ${order.workspace}` : ''}`);
  await become();
  // The rest is for people, and apart: what fails in it leaves the role as it is.
  let problem = '';
  try {
    const file = path.join(__dirname, 'dist', 'gui.js');
    await require(file).activate(vscode, context, shown, channel, log);
  } catch (error) {
    shown.onChange = () => {};
    problem = messageOf(error);
    log(`safe mode of the user interface: ${problem}`);
  }
  await vscode.commands.executeCommand('setContext', 'vscdt.coreLoaded', problem === '');
}

/** Becomes the Host. An idle headless one makes room; anything that is alive there keeps its place, unless a person wants it.
 * @param {{workspace: {workspaceFolders?: ReadonlyArray<{uri: {fsPath: string}}>}}} vscode @param {unknown} context @param {(text: string) => void} log
 * @param {(reason: string) => void} exit @param {boolean} isWanted @returns {Promise<Role | undefined>} */
async function becomeHost(vscode, context, log, exit, isWanted) {
  const folder = vscode.workspace.workspaceFolders?.[0]?.uri.fsPath ?? 'no folder';
  const by = `the VS Code window of ${folder} (pid ${process.pid})`;
  for (let tries = 1; ; tries++) {
    const role = await serve('host', { vscode, context, log, exit });
    if (role || tries > TAKEOVERS) return role;
    const dir = privateDir(runtimeDir());
    const peer = await connect(pipePath(dir, 'host'), { as: 'window', key: readKey(dir), label: 'the Host' });
    const gone = new Promise((resolve) => peer.onClose.push(resolve));
    try {
      const ping = await peer.call('system.ping');
      const { mode, pid } = isObject(ping) ? ping : {};
      if (mode !== 'headless' && !isWanted) return undefined;
      const answer = await peer.call('takeover', { reason: isWanted ? 'a person chose Override' : 'a VS Code window is the Host now', by, ifIdle: !isWanted });
      if (isObject(answer) && answer.acknowledged !== true) throw failure('E_REFUSED', `${String(answer.winner)} was first`);
      await gone;
      log(`the ${mode === 'headless' ? 'headless ' : ''}Host ${String(pid)} made room`);
    } catch (error) {
      log(`the Host stays: ${messageOf(error)}`);
      if (isWanted) throw error;
      return undefined;
    } finally {
      peer.close('asked');
    }
  }
}

/** Becomes the Client of the Host that spawned this window, if that one says so.
 * @param {SpawnOrder} order @param {unknown} vscode @param {unknown} context @param {(text: string) => void} log @returns {Promise<Role | undefined>} */
async function becomeClient(order, vscode, context, log) {
  delete process.env.VSCODE_DEVTOOLS_SPAWN; // what is started in this window is not this window
  const role = await serve('client', { workspace: order.workspace, vscode, context, order, log, exit: () => void role?.leave() });
  if (!role) return undefined;
  try {
    const peer = await connect(pipePath(role.dir, 'host'), { as: 'window', key: role.key, label: 'the Host' });
    await peer.call('window.ready', { id: order.id, token: order.token, pid: process.pid }).finally(() => peer.close('told'));
    return role;
  } catch (error) {
    role.leave = () => {}; // it is not ours to close
    await role.stop(`the Host does not know this window: ${messageOf(error)}`);
    return undefined;
  }
}

async function deactivate() {
  if (activeRole) activeRole.isReloading = true; // or closing: VS Code does not tell
  await activeRole?.stop('the window closes or reloads');
}

module.exports = {
  PROTOCOL, VERSION, LINE_CAP, UNSENT_CAP,
  RpcError, failure, errorName, messageOf, step,
  runtimeDir, privateDir, openPrivate, writePrivate, readKey, devtoolsDir, shortHash, openLog, plainEnv, runtimeEnv,
  LineReader, isObject, isId, isTooLong, parseLine, messageProblem, deadline, matchingLines,
  Peer, Call, accept, connect, claim, isListening, listen, pipePath, pipeName, tagPrefix, serve, startRole,
  activate, deactivate,
};

if (require.main === module) void main(process.argv.slice(2));
