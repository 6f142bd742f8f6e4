// gui.ts: what a person sees of vscode-devtools in VS Code's own window: a status-bar item with the role, and the log.
//
// Runs in    VS Code's extension host, loaded last by bootstrap.js: whatever fails in here leaves the role as it is.
// Touches    the status bar and one command. Nothing of what agents do goes through here.

import type * as Vscode from 'vscode';
import type { Role } from './bootstrap.js';

type Window = { role: Role | undefined; standing: string; channel: Vscode.OutputChannel; log: (text: string) => void };

const SHOWN = {
  host: { text: '$(tools) Devtools: Host', tooltip: 'This window is the Host of vscode-devtools: agents work in windows that it opens.' },
  client: { text: '$(hubot) Devtools: Client', tooltip: 'An agent works in this window, through vscode-devtools.' },
  none: { text: '$(circle-slash) Devtools: standing by', tooltip: 'vscode-devtools does nothing in this window' },
};

export async function activate(vscode: typeof Vscode, context: Vscode.ExtensionContext, { role, standing, channel, log }: Window): Promise<void> {
  const kind = role?.role === 'host' || role?.role === 'client' ? role.role : 'none';
  const item = vscode.window.createStatusBarItem('vscode-devtools.role', vscode.StatusBarAlignment.Left, -100);
  Object.assign(item, { name: 'vscode-devtools', ...SHOWN[kind], command: 'vscode-devtools.showLog' });
  if (standing) item.tooltip = `${SHOWN.none.tooltip}: ${standing}.`;
  item.show();
  context.subscriptions.push(item, vscode.commands.registerCommand('vscode-devtools.showLog', () => channel.show(true)));
  log(`user interface: ${kind}`);
}
