// test/run.mjs: bundles test/*.test.ts and runs them with node:test. `--fast` leaves out what needs peers or minutes
// (*.slow.test.ts) and runs the files side by side: most of a test is waiting. Names on the command line choose files;
// `--windows` runs of these only what is done once more in a window.
// A process or file that a test leaves behind fails the run.

import { spawn } from 'node:child_process';
import fs from 'node:fs';
import { createRequire } from 'node:module';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const here = path.dirname(fileURLToPath(import.meta.url));
const root = path.dirname(here);
const out = path.join(root, '.cache', 'test');
const fast = process.argv.includes('--fast');
const chosen = process.argv.slice(2).filter((word) => !word.startsWith('-'));
const windowsOnly = process.argv.includes('--windows'); // only the second pass of what was chosen
const only = process.argv.filter((word) => word.startsWith('--test-name-pattern=')); // for who works on one test
const esbuild = createRequire(import.meta.url)('esbuild');

const files = fs.readdirSync(here).filter((file) => file.endsWith('.test.ts')).filter((file) => (chosen.length ? chosen.some((word) => file.includes(word)) : !fast || !file.includes('.slow.')));
if (!files.length) {
  console.error(`no test file has ${chosen.join(' or ')} in its name`); // node --test would take that for everything it can find
  process.exit(2);
}
fs.rmSync(out, { recursive: true, force: true });
// A test imports a role's source for its types; what runs is the built bundle.
const builtRoles = {
  name: 'built-roles',
  setup(build) {
    build.onResolve({ filter: /^\.\.\/(mcp|host|client|debug|cdp|node-adapter)\.ts$/ }, ({ path: wanted }) => ({ path: path.join(root, 'dist', `${path.basename(wanted, '.ts')}.js`), external: true }));
    build.onResolve({ filter: /^\.\.?\/bootstrap\.js$/ }, () => ({ path: path.join(root, 'bootstrap.js'), external: true }));
  },
};
await esbuild.build({
  absWorkingDir: root, entryPoints: files.map((file) => `test/${file}`), outdir: out, bundle: true, platform: 'node', format: 'cjs', target: 'node20',
  sourcemap: 'inline', logLevel: 'warning', packages: 'external', plugins: [builtRoles], define: { 'import.meta.dirname': '__dirname' },
});

const tag = `${process.pid}-${Date.now()}`;
const scratch = fs.mkdtempSync(path.join(os.tmpdir(), 'vdt-'));
fs.chmodSync(scratch, 0o711); // tests that run as another user have directories of theirs in it
const env = { ...process.env, VSCODE_DEVTOOLS_TEST_TAG: tag, VSCODE_DEVTOOLS_TEST_SCRATCH: scratch, NODE_OPTIONS: '--enable-source-maps', FRAMES: process.env.FRAMES ?? (fast ? '5000' : '200000') };
for (const name of ['VSCODE_DEVTOOLS_DIR', 'VSCODE_DEVTOOLS_FAULT', 'VSCODE_DEVTOOLS_IDLE_MS', 'NODE_TEST_CONTEXT']) delete env[name];
const started = Date.now();
// The time limit holds for a whole file as well, and the debugger's takes five minutes on a busy machine.
let runner;
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => runner?.kill('SIGKILL')); // then the sweep below

function run(chosenFiles, words, more = {}) {
  runner = spawn(process.execPath, ['--test', `--test-concurrency=${fast ? 8 : 1}`, '--test-timeout=1500000', '--test-reporter=spec', ...words, ...chosenFiles.map((file) => path.join(out, file.replace(/\.ts$/, '.js')))], { stdio: 'inherit', env: { ...env, ...more } });
  return new Promise((resolve) => runner.on('exit', (exit, signal) => resolve(signal ? 1 : exit)));
}
let code = windowsOnly ? 0 : await run(files, only);
// Debugger and ledger once more, with a window as the Client; what concerns the Host's own files alone is not repeated.
const AGAIN = { 'debug.slow.': [], 'ledger.slow.': ['--test-name-pattern=/^(npm run dev|Nested spawning|Clean shutdown|a daemon that drops|process_kill of a shell|kill of pid 1|bad input|MCP restarted|the Host dies)/'] };
for (const [name, words] of Object.entries(process.platform === 'linux' && process.arch === 'x64' && (windowsOnly || !chosen.length) ? AGAIN : {})) {
  const again = files.filter((file) => file.startsWith(name));
  if (again.length) console.log(`# ${name.slice(0, -1)} again, in a window:`);
  if (again.length) code = (await run(again, only.length ? only : words, { VSCODE_DEVTOOLS_TEST_WINDOWS: '1' })) || code;
}

// Only Linux tells whose child a process without parents was.
const left = (fs.existsSync('/proc') ? fs.readdirSync('/proc') : []).filter((pid) => /^\d+$/.test(pid)).filter((pid) => {
  try {
    return fs.readFileSync(`/proc/${pid}/environ`, 'latin1').includes(`VSCODE_DEVTOOLS_TEST_TAG=${tag}`);
  } catch {
    return false; // gone, or not ours
  }
});
for (const pid of left) {
  console.error(`left behind: process ${pid}: ${fs.readFileSync(`/proc/${pid}/cmdline`, 'latin1').replaceAll('\0', ' ')}`);
  process.kill(Number(pid), 'SIGKILL'); // it carries this run's tag, so it is ours
}
const leftFiles = fs.readdirSync(scratch);
if (leftFiles.length) console.error(`left behind: ${leftFiles.join(', ')} in ${scratch}`);
fs.rmSync(scratch, { recursive: true, force: true });
console.log(`${files.length} files in ${((Date.now() - started) / 1000).toFixed(0)} s`);
process.exit(code || (left.length || leftFiles.length ? 1 : 0));
