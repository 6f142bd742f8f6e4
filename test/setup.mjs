// test/setup.mjs: installs what the tests run against into .cache/peers, pinned by test/peers/package-lock.json.
// Does nothing when it is there already. `--bench` adds the peers that only the benchmark compares with.
//
// No package's own install script runs. Nothing is installed outside this directory.

import { spawnSync } from 'node:child_process';
import crypto from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const here = path.dirname(fileURLToPath(import.meta.url));
const target = path.join(here, '..', '.cache', 'peers');
const stampFile = path.join(target, 'installed');
const bench = process.argv.includes('--bench');

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
fs.writeFileSync(stampFile, `${wanted} ${bench ? 'bench' : 'test'}`);
console.log(`setup: done in ${((Date.now() - started) / 1000).toFixed(0)} s`);
