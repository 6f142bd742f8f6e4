// test/bridge.mjs: lets the official conformance suite, which speaks HTTP only, reach a server that speaks stdio only.
//
//   node test/bridge.mjs <command> [argument ...]
//
// Listens on a free port of 127.0.0.1 and prints its URL. A legacy `initialize` starts a server of its own, named by
// Mcp-Session-Id; whatever names no session goes to one shared server, as the modern era wants. Ids and messages pass
// through untouched: what the suite judges is the server. Ends, with every server, when stdin ends.
//
// Non-goals: checking Host, Origin and Mcp-* headers, resuming streams, messages outside of any request.

import { spawn } from 'node:child_process';
import crypto from 'node:crypto';
import http from 'node:http';
import readline from 'node:readline';

const SESSIONS = 4; // the suite leaves its sessions open: only the latest keep their process
const SHARED = '';
const VERSION_KEY = 'io.modelcontextprotocol/protocolVersion';
const STATUS = new Map([[-32700, 400], [-32600, 400], [-32602, 400], [-32021, 400], [-32022, 400], [-32601, 404]]); // of errors, in the modern era
const [command, ...args] = process.argv.slice(2);
const servers = new Map(); // session -> { child, open: JSON-RPC id -> HTTP response }

function start(session) {
  const old = [...servers.keys()].filter((one) => one !== SHARED);
  if (old.length >= SESSIONS) end(old[0]);
  const server = { child: spawn(command, args, { stdio: ['pipe', 'pipe', 'inherit'] }), open: new Map() };
  servers.set(session, server);
  server.child.stdin.on('error', () => {}); // it ended: 'close' tells
  server.child.on('close', () => {
    servers.delete(session);
    for (const response of server.open.values()) response.destroy(); // never answered: the suite must see that
  });
  // A line that is not JSON throws, ends the bridge, and so fails the suite.
  readline.createInterface({ input: server.child.stdout }).on('line', (line) => onMessage(server, JSON.parse(line)));
  return server;
}

function end(session) {
  servers.get(session)?.child.stdin.end();
  return servers.delete(session); // from here on unknown, though the process takes a moment
}

function onMessage({ open }, message) {
  const event = `event: message\ndata: ${JSON.stringify(message)}\n\n`;
  if (message.method !== undefined) {
    const response = [...open.values()].at(-1); // stdio does not say to which request a notification belongs: the latest
    if (response && !response.headersSent) response.writeHead(200, { 'content-type': 'text/event-stream' });
    return response?.write(event);
  }
  const response = open.get(message.id);
  open.delete(message.id);
  if (!response) throw new Error(`nobody asked for ${JSON.stringify(message)}`);
  if (response.headersSent) return response.end(event);
  response.writeHead((response.modern && STATUS.get(message.error?.code)) || 200, { 'content-type': 'application/json' }).end(JSON.stringify(message));
}

function post(request, response, text) {
  const message = JSON.parse(text);
  const named = request.headers['mcp-session-id'];
  const opens = named === undefined && message.method === 'initialize' && !(VERSION_KEY in (message.params?._meta ?? {}));
  response.modern = named === undefined && !opens;
  const session = opens ? crypto.randomUUID() : (named ?? SHARED);
  if (opens) response.setHeader('mcp-session-id', session);
  const server = servers.get(session) ?? (named === undefined ? start(session) : undefined);
  if (!server) return response.writeHead(404).end();
  if (message.id === undefined || message.method === undefined) response.writeHead(202).end();
  else server.open.set(message.id, response);
  server.child.stdin.write(`${JSON.stringify(message)}\n`);
}

const listener = http.createServer((request, response) => {
  if (request.method === 'DELETE') return response.writeHead(end(request.headers['mcp-session-id']) ? 204 : 404).end();
  if (request.method !== 'POST') return response.writeHead(405).end();
  let text = '';
  request.setEncoding('utf8').on('data', (chunk) => (text += chunk)).on('end', () => post(request, response, text));
});
listener.listen(0, '127.0.0.1', () => console.log(`http://127.0.0.1:${listener.address().port}/mcp`));

process.stdin.resume().on('end', () => {
  listener.close();
  listener.closeAllConnections();
  for (const session of servers.keys()) end(session); // a stdio server ends with its stdin; then nothing holds this process
});
