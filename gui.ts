// gui.ts: what a person sees of vscode-devtools in VS Code's own window: a status-bar item with the role, the log, and the
// questions of a window that is not the Host: take over, or take back.
//
// Runs in    VS Code's extension host, loaded last by bootstrap.js: whatever fails in here leaves the role as it is.
// Touches    the status bar, two commands and notifications. Nothing of what agents do goes through here.

import type * as Vscode from 'vscode';
import type { Shown } from './bootstrap.js';

const SHOWN = {
  host: { text: '$(tools) Devtools: Host', tooltip: 'This window is the Host of vscode-devtools: agents work in windows that it opens.' },
  client: { text: '$(hubot) Devtools: Client', tooltip: 'An agent works in this window, through vscode-devtools.' },
  none: { text: '$(circle-slash) Devtools: standing by', tooltip: 'vscode-devtools does nothing in this window' },
};

export async function activate(vscode: typeof Vscode, context: Vscode.ExtensionContext, shown: Shown, channel: Vscode.OutputChannel, log: (text: string) => void): Promise<void> {
  const item = vscode.window.createStatusBarItem('vscode-devtools.role', vscode.StatusBarAlignment.Left, -100);
  item.name = 'vscode-devtools';

  function show(): void {
    const kind = shown.role?.role === 'host' || shown.role?.role === 'client' ? shown.role.role : 'none';
    Object.assign(item, SHOWN[kind], { command: kind === 'none' ? 'vscode-devtools.override' : 'vscode-devtools.showLog' });
    if (kind === 'none') item.tooltip = `${SHOWN.none.tooltip}: ${shown.standing}. Click to make it the Host.`;
    item.show();
    log(`user interface: ${kind}`);
    if (kind === 'none' && (shown.lostTo || shown.standing === 'another Host answers')) void ask();
  }

  /** One question each time this window comes to stand by. */
  async function ask(): Promise<void> {
    const [question, ...answers] = shown.lostTo ? [`${shown.lostTo} has taken over vscode-devtools. Agents work there now.`, 'Reclaim'] : ['Another window or process is the Host of vscode-devtools. Shall this window take over? What runs there is ended.', 'Override', 'Cancel'];
    const answer = await vscode.window.showInformationMessage(question, ...answers);
    log(`${answers[0]}: ${answer ?? 'dismissed'}`);
    if (answer !== undefined && answer === answers[0]) await override();
  }

  async function override(): Promise<void> {
    if (shown.role) return;
    await vscode.window.withProgress({ location: vscode.ProgressLocation.Window, title: 'vscode-devtools takes over' }, () => shown.override());
    if (!shown.role) void vscode.window.showWarningMessage(`vscode-devtools: this window is not the Host: ${shown.standing}`);
  }

  context.subscriptions.push(item, vscode.commands.registerCommand('vscode-devtools.showLog', () => channel.show(true)), vscode.commands.registerCommand('vscode-devtools.override', override));
  shown.onChange = () => show();
  show();
}
