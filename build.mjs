// build.mjs: bundles the roles into dist/, one unminified file each with a source map, and checks the repository.
//
//   node build.mjs            build
//   node build.mjs --check    build, then: strict types, generated text up to date, every error code documented
//   node build.mjs --update   build, then write the generated text (README's tool table, test/tools.snapshot.json)
//
// What goes into each bundle is listed here by hand: an import that is not on the list fails the build.
// bootstrap.js is never bundled: it is loaded as it stands. Two builds of the same sources give the same bytes.

import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const root = path.dirname(fileURLToPath(import.meta.url));
const require = createRequire(import.meta.url);
const MODEL_TEXT_CAP = 28 * 1024; // what a model reads of all tools together

const BUNDLES = {
  mcp: ['mcp.ts'],
  host: ['host.ts', 'ledger.ts'],
  client: ['client.ts'],
  debug: ['debug.ts'],
};

/** bootstrap.js stands beside dist/ and is required from there. */
export const bootstrapPlugin = {
  name: 'bootstrap',
  setup: (build) => build.onResolve({ filter: /^\.\/bootstrap\.js$/ }, () => ({ path: '../bootstrap.js', external: true })),
};

/** Replaces a file in one step, and only if it differs: a server that starts at this moment never reads half a bundle. */
function replace(file, contents) {
  if (fs.existsSync(file) && fs.readFileSync(file).equals(contents)) return;
  fs.mkdirSync(path.dirname(file), { recursive: true });
  const temporary = `${file}.${process.pid}`;
  fs.writeFileSync(temporary, contents, { mode: file.endsWith('mcp.js') ? 0o755 : 0o644 });
  fs.renameSync(temporary, file);
}

async function build() {
  const esbuild = require('esbuild');
  const problems = [];
  for (const [role, allowed] of Object.entries(BUNDLES)) {
    const { metafile, outputFiles } = await esbuild.build({
      absWorkingDir: root, entryPoints: [`${role}.ts`], outdir: 'dist', bundle: true, platform: 'node', format: 'cjs', target: 'node20',
      sourcemap: 'linked', minify: false, charset: 'utf8', metafile: true, write: false, logLevel: 'warning', external: ['vscode'], plugins: [bootstrapPlugin],
      banner: role === 'mcp' ? { js: '#!/usr/bin/env node' } : {},
    });
    const inputs = Object.keys(metafile.inputs).sort();
    for (const input of inputs) if (!allowed.includes(input)) problems.push(`dist/${role}.js: ${input} is not on the allow-list`);
    for (const input of allowed) if (!inputs.includes(input)) problems.push(`dist/${role}.js: ${input} is on the allow-list and not used`);
    const imports = Object.values(metafile.outputs).flatMap((output) => output.imports).filter((one) => one.external).map((one) => one.path);
    for (const one of imports) if (!one.startsWith('node:') && one !== '../bootstrap.js') problems.push(`dist/${role}.js: requires ${one}`);
    if (!problems.length) for (const { path: file, contents } of outputFiles) replace(file, contents);
  }
  return problems;
}

/** Text that follows from the tools table: path, and what it should be. */
function generated() {
  const { TOOLS, listed } = require(path.join(root, 'dist/mcp.js'));
  const tools = TOOLS.map(listed);
  const size = JSON.stringify(tools.map(({ name, description, inputSchema }) => ({ name, description, inputSchema }))).length;
  if (size > MODEL_TEXT_CAP) throw new Error(`the tools are ${size} bytes for a model, over ${MODEL_TEXT_CAP}`);
  const rows = TOOLS.map((tool) => {
    const args = Object.keys(tool.input.properties ?? {}).map((name) => `\`${name}${tool.input.required?.includes(name) ? '' : '?'}\``);
    return `| \`${tool.name}\` | ${args.join(' ') || '-'} | ${tool.effect} | ${tool.description} |`;
  });
  const table = ['| tool | arguments | effect | what it does |', '|---|---|---|---|', ...rows].join('\n');
  const readme = path.join(root, 'README.md');
  const text = fs.readFileSync(readme, 'utf8');
  const place = /(<!-- tools -->\n)[\s\S]*?(<!-- \/tools -->)/;
  if (!place.test(text)) throw new Error('README.md has no place for the tool table');
  return [
    [readme, text.replace(place, (_all, start, end) => `${start}${table}\n${end}`)],
    [path.join(root, 'test/tools.snapshot.json'), `${JSON.stringify(tools, null, 2)}\n`],
  ];
}

function check() {
  const problems = [];
  const types = spawnSync(process.execPath, [path.join(path.dirname(require.resolve('typescript/package.json')), 'bin/tsc'), '-p', root], { encoding: 'utf8' });
  if (types.status !== 0) problems.push(`types: ${types.stdout}${types.stderr}`);
  for (const [file, wanted] of generated()) {
    const there = fs.existsSync(file) ? fs.readFileSync(file, 'utf8') : '';
    if (there !== wanted) problems.push(`${path.relative(root, file)} is not what the tools table says: node build.mjs --update`);
  }
  const sources = ['bootstrap.js', ...new Set(Object.values(BUNDLES).flat())].map((file) => fs.readFileSync(path.join(root, file), 'utf8')).join('\n');
  const documented = fs.readFileSync(path.join(root, 'docs/protocol.md'), 'utf8');
  for (const [, code] of sources.matchAll(/failure\(\s*'(E_[A-Z_]+)'/g)) if (!documented.includes(`\`${code}\``)) problems.push(`docs/protocol.md does not explain ${code}`);
  return problems;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const problems = await build();
  if (process.argv.includes('--update')) for (const [file, text] of generated()) fs.writeFileSync(file, text);
  if (process.argv.includes('--check')) problems.push(...check());
  for (const problem of problems) console.error(problem);
  if (problems.length) process.exit(1);
}
