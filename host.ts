// host.ts: the lifecycle engine. It finds, spawns, keeps and ends the Clients and debug processes; the MCP servers only ask.
//
// Runs in    plain node (`node bootstrap.js host`, the headless Host) or the user's VS Code window.
// Started by mcp.ts when no Host answers, or by VS Code. A headless one ends itself when nobody has used it for 30 minutes.
// Touches    its Clients' pipes and processes; <workspace>/.devtools/host-session.json; what ledger.ts touches.
// Refuses    to trust that file (it is compared with the living process, set aside when damaged), to start a second
//            Client where one is alive but silent, and to signal a process that is not the one it recorded.
//
// Sections   the session file · Clients · ledgers · methods

import fs from 'node:fs';
import path from 'node:path';
import {
  PROTOCOL, VERSION, claim, connect, devtoolsDir, errorName, failure, isObject, messageOf, openPrivate, pipeName, pipePath, startRole,
  step, writePrivate, type Connection, type Handler, type Role,
} from './bootstrap.js';
import { Ledger, analyzeWorkspace, devServerOf, hasEnded, identify, kill, type Held, type Identity } from './ledger.ts';

const PING_MS = 2000;
const END_MS = 2000; // a Client ends within this of being asked, else it is killed
const DEBUG_END_MS = 3500; // a debug process ends its programs first
const SESSION_FILE_CAP = 64 * 1024;
const WARNING_CAP = 20;
const HELD_CAP = 1000; // terminals that a Client may say it has

type Kind = 'client' | 'debug';
const CALLED = { client: 'Client', debug: 'debug process' };
const STOP = { client: 'client.stop', debug: 'debug.quit' };
const OWNERS = { client: 'terminal', debug: 'session' } as const; // what of a ledger each holds

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
};

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

// --------------------------------------------------------------------------------------------------------- Clients

export function register(role: Role): void {
  const startedAt = Date.now();
  const clients = new Map<string, Client>();
  const debuggers = new Map<string, Client>();
  const held = { client: clients, debug: debuggers };
  const all = (): Client[] => [...clients.values(), ...debuggers.values()];
  const starting = new Map<string, Promise<Client & { reused: boolean }>>(); // so that concurrent callers share one start
  const ledgers = new Map<string, Ledger>();
  const warnings: string[] = [];
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
    try {
      fs.rmSync(sessionFile(workspace), { force: true });
    } catch (error) {
      role.log(`the session of ${workspace} could not be removed: ${messageOf(error)}`); // a hint that leads nowhere
    }
  }

  function ensure(kind: Kind, workspace: string): Promise<Client & { reused: boolean }> {
    const key = `${kind} ${workspace}`;
    let start = starting.get(key);
    if (!start) {
      start = findOrSpawn(kind, workspace).finally(() => starting.delete(key));
      starting.set(key, start);
    }
    return start;
  }

  async function findOrSpawn(kind: Kind, workspace: string): Promise<Client & { reused: boolean }> {
    const known = held[kind].get(workspace);
    if (known) {
      await known.peer.call('system.ping', {}, { timeoutMs: PING_MS }).catch((error) => {
        // It still holds its pipe: stopped or busy. A second one beside it would be worse than the wait.
        if (known.peer.closedBecause === undefined) throw failure('E_UNRESPONSIVE', `the ${CALLED[kind]} of ${workspace} (pid ${known.process.pid}) does not answer: ${messageOf(error)}. It may be stopped; if it stays so, end that process and call again`);
      });
      if (known.peer.closedBecause === undefined) return { ...known, reused: true };
    }
    await swept;
    const session = kind === 'client' ? readSession(sessionFile(workspace), workspace, warn) : undefined;
    const pipe = pipePath(role.dir, pipeName(kind, workspace));
    for (let spawns = 0; ; spawns++) {
      try {
        const client = { ...(await adopt(kind, workspace, pipe, session)), reused: spawns === 0 };
        if (kind === 'client' && !debuggers.has(workspace)) await adoptDebugger(workspace);
        return client;
      } catch (error) {
        // Twice, because the first may lose the name to one that is just about to end.
        if (spawns === 2 || !['E_UNREACHABLE', 'E_CLOSED'].includes(errorName(error))) throw error;
      }
      await startRole(kind, workspace, role.dir);
    }
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
    const handlers = new Map<string, Handler>([['ledger.record', (params) => ledger.record(params)], ['client.pipe', () => ({ pipe: clients.get(workspace)?.pipe ?? null })]]);
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
      held[kind].set(workspace, client);
      statusChanged();
      peer.onClose.push((reason) => onGone(client, reason));
      peer.onResponsive = (responsive) => warn(`the ${CALLED[kind]} of ${workspace} (pid ${identity.pid}) ${responsive ? 'answers again' : 'does not answer: it may be stopped'}`);
      if (kind === 'client') persist(client);
      await ledger.settle(OWNERS[kind], async () => (client.safeMode ? [] : heldBy(client)), `its ${CALLED[kind]} is gone`);
      return client;
    } catch (error) {
      peer.close(messageOf(error));
      throw error;
    }
  }

  function persist(client: Client): void {
    const session = {
      clientPid: client.process.pid, clientStartTime: client.process.startTime, startedAt: client.startedAt, workspace: client.workspace,
      cdpPort: null, inspectorPort: null, extensionPath: null, windowProcesses: [], hostPid: process.pid, version: VERSION, protocol: PROTOCOL,
    };
    try {
      writePrivate(sessionFile(client.workspace), `${JSON.stringify(session, null, 2)}\n`);
      step('persisted');
    } catch (error) {
      warn(`the session of ${client.workspace} could not be written: ${messageOf(error)}`); // the pipe still finds it
    }
  }

  async function onGone(client: Client, reason: string): Promise<void> {
    const { kind, workspace } = client;
    if (held[kind].get(workspace)?.peer === client.peer) held[kind].delete(workspace);
    statusChanged();
    role.log(`${CALLED[kind]} ${client.process.pid} of ${workspace} is gone: ${reason}`);
    const hasGone = await hasEnded(client.process, END_MS);
    // Only one that has ended has lost what it held: one that only dropped the connection still has it.
    if (hasGone && !ending && !held[kind].has(workspace)) await ledgers.get(workspace)?.settle(OWNERS[kind], async () => [], `its ${CALLED[kind]} is gone`).catch((error) => role.log(`the ledger: ${messageOf(error)}`));
    if (hasGone && kind === 'client' && !clients.has(workspace) && !starting.has(`client ${workspace}`)) clearSession(workspace);
  }

  /** Asks one to end, then makes it. */
  async function end(client: Client, reason: string): Promise<void> {
    const { kind } = client;
    await client.peer.call(STOP[kind], { reason }, { timeoutMs: END_MS }).catch(async (error) => {
      role.log(`${CALLED[kind]} ${client.process.pid} cannot be asked to end (${messageOf(error)}): SIGTERM`);
      await kill(client.process, 'SIGTERM');
    });
    if (!(await hasEnded(client.process, kind === 'debug' ? DEBUG_END_MS : END_MS)) && (await kill(client.process, 'SIGKILL'))) role.log(`${CALLED[kind]} ${client.process.pid} was killed`);
    if (kind === 'client') clearSession(client.workspace);
  }

  /** Names of Clients that were killed and never came back: claiming and releasing one removes its sockets without a race. */
  async function sweepDeadNames(): Promise<void> {
    const names = new Set(fs.readdirSync(role.dir).map((file) => /^((?:client|debug)-[0-9a-f]{8})\..*sock$/.exec(file)?.[1]));
    for (const name of names) if (name) (await claim(role.dir, name))?.release();
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

  // ------------------------------------------------------------------------------------------------------- methods

  role.handle('mcpReady', async (params) => {
    step('mcpReady');
    if (ending) throw failure('E_CLOSED', 'this Host is ending: call again');
    const workspace = workspaceOf(params.workspace);
    const roles: unknown[] = Array.isArray(params.roles) ? params.roles : ['client'];
    for (const wanted of roles) {
      if (wanted !== 'client' && wanted !== 'debug') throw failure('E_UNSUPPORTED', `this Host (${VERSION}) has no role ${JSON.stringify(wanted)}: it has client and debug`);
    }
    const client = await ensure('client', workspace); // always: the workspace and its ledger are known by it
    const debug = roles.includes('debug') ? await ensure('debug', workspace) : undefined;
    return {
      clientPipePath: client.pipe, ...(debug && { debugPipePath: debug.pipe, debugPid: debug.process.pid }), cdpPort: null, clientPid: client.process.pid, startedAt: client.startedAt, reused: client.reused,
    };
  });

  role.handle('getStatus', () => ({
    pid: process.pid, version: VERSION, protocol: PROTOCOL, mode: role.vscode ? 'vscode' : 'headless', safeMode: false,
    pipe: role.pipe, startedAt,
    busyWith: role.busyWith(), warnings,
    connections: [...role.peers].map((peer) => peer.hello),
    clients: [...clients.values()].map((client) => ({
      workspace: client.workspace, pid: client.process.pid, startTime: client.process.startTime, pipe: client.pipe, cdpPort: null,
      version: client.version, safeMode: client.safeMode, startedAt: client.startedAt, responsive: client.peer.responsive,
    })),
    debuggers: [...debuggers.values()].map(({ workspace, process: { pid, startTime }, pipe, version, safeMode, peer }) => ({ workspace, pid, startTime, pipe, version, safeMode, responsive: peer.responsive })),
  }));

  role.handle('takeover', (params) => {
    const by = `${String(params.by ?? 'somebody')}: ${String(params.reason ?? 'no reason given')}`;
    const busy = role.busyWith();
    if (params.ifIdle === true && busy) throw failure('E_BUSY', `the Host (pid ${process.pid}) still has ${busy}`);
    setImmediate(() => void role.stop(`taken over by ${by}`)); // after the answer
    return { acknowledged: true };
  });

  role.onPeers = statusChanged;

  role.onStop = async () => {
    ending = true;
    if (role.displaced) return; // the Clients and ledgers are the next Host's by now; if there is none they end by themselves
    for (const peer of role.peers) if (peer.hello.as === 'mcp') peer.notify('session.ended', { reason: 'the Host ends' });
    await Promise.allSettled(starting.values()); // one that is just being started is ended too
    await Promise.allSettled(all().map((one) => end(one, 'its Host ends')));
    await Promise.allSettled([...ledgers.values()].map((ledger) => ledger.settle('session', async () => [], 'its Host ends'))); // what a debug process that had to be killed left
    for (const ledger of ledgers.values()) ledger.close();
    await sweepDeadNames(); // those that had to be killed could not remove theirs
  };

  const swept = sweepDeadNames().catch((error) => role.log(`dead names could not be removed: ${messageOf(error)}`));
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
