// client.ts: the puppet. Terminals, output channels and commands of a workspace live in this process.
//
// Runs in    plain node (`node bootstrap.js client <workspace>`), one process a workspace, or a VS Code window.
// Started by its Host. It ends when the Host says so, or when no Host has held it for 10 s (bootstrap.js).
// Touches    nothing yet but its own pipe.
// Refuses    to be stopped by anybody but a Host.

import { PROTOCOL, VERSION, failure, type Role } from './bootstrap.js';

export function register(role: Role): void {
  const startedAt = Date.now();

  role.handle('client.status', () => ({
    pid: process.pid, version: VERSION, protocol: PROTOCOL, mode: role.vscode ? 'vscode' : 'headless', safeMode: false,
    pipe: role.pipe, workspace: role.workspace, startedAt,
  }));

  role.handle('client.stop', (params, call) => {
    if (call.peer.hello.as !== 'host') throw failure('E_REFUSED', 'only the Host ends its Client: use `vscode-devtools host stop`');
    setImmediate(() => void role.stop(String(params.reason ?? 'the Host says so'))); // after the answer
    return { stopping: true };
  });
}
