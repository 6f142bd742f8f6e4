// build.mjs: bundles the roles into dist/, one unminified file each with a source map, and checks the repository.
//
//   node build.mjs            build
//   node build.mjs --check    build, then: strict types, generated text up to date, every error code documented
//   node build.mjs --vsix     build, then write the extension: dist/vscode-devtools-<version>.vsix
//   node build.mjs --update   build, then write the generated text (README's tool table, test/tools.snapshot.json)
//
// What goes into each bundle is listed here by hand: an import that is not on the list fails the build.
// bootstrap.js is never bundled: it is loaded as it stands. Two builds of the same sources give the same bytes.

import { spawnSync } from 'node:child_process';
import crypto from 'node:crypto';
import fs from 'node:fs';
import { createRequire, isBuiltin } from 'node:module';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import zlib from 'node:zlib';

const root = path.dirname(fileURLToPath(import.meta.url));
const require = createRequire(import.meta.url);
const MODEL_TEXT_CAP = 28 * 1024; // what a model reads of all tools together

// The one dependency: all of it that is used, without its two optional native helpers.
const WS = ['wrapper.mjs', 'lib/buffer-util.js', 'lib/constants.js', 'lib/event-target.js', 'lib/extension.js', 'lib/limiter.js', 'lib/permessage-deflate.js', 'lib/receiver.js', 'lib/sender.js', 'lib/stream.js', 'lib/subprotocol.js', 'lib/validation.js', 'lib/websocket-server.js', 'lib/websocket.js'].map((file) => `node_modules/ws/${file}`);
const WITHOUT_NATIVE = { 'process.env.WS_NO_BUFFER_UTIL': '"1"', 'process.env.WS_NO_UTF_8_VALIDATE': '"1"' };

const BUNDLES = {
  mcp: ['mcp.ts', 'changes.ts'],
  host: ['host.ts', 'ledger.ts', 'changes.ts'],
  client: ['client.ts'],
  debug: ['debug.ts', 'dap.ts'],
  'node-adapter': ['node-adapter.ts', 'dap.ts'],
  cdp: ['cdp.ts', ...WS],
  gui: ['gui.ts'],
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
      sourcemap: 'linked', preserveSymlinks: true, minify: false, charset: 'utf8', metafile: true, write: false, logLevel: 'warning', external: ['vscode'], define: WITHOUT_NATIVE, plugins: [bootstrapPlugin],
      banner: role === 'mcp' ? { js: '#!/usr/bin/env node' } : {},
    });
    const inputs = Object.keys(metafile.inputs).sort();
    for (const input of inputs) if (!allowed.includes(input)) problems.push(`dist/${role}.js: ${input} is not on the allow-list`);
    for (const input of allowed) if (!inputs.includes(input)) problems.push(`dist/${role}.js: ${input} is on the allow-list and not used`);
    const imports = Object.values(metafile.outputs).flatMap((output) => output.imports).filter((one) => one.external).map((one) => one.path);
    for (const one of imports) if (!isBuiltin(one) && one !== '../bootstrap.js') problems.push(`dist/${role}.js: requires ${one}`);
    if (!problems.length) for (const { path: file, contents } of outputFiles) replace(file, contents);
  }
  return problems;
}

// A VSIX is a zip with two descriptions beside the extension. Written here, so that it is known byte for byte: entries in
// a fixed order, with a fixed date, and the same compression.

const CRC = new Uint32Array(256).map((_, n) => {
  for (let bit = 0; bit < 8; bit++) n = n & 1 ? 0xedb88320 ^ (n >>> 1) : n >>> 1;
  return n;
});

/** @param {Buffer} bytes */
function crc32(bytes) {
  let crc = 0xffffffff;
  for (const byte of bytes) crc = CRC[(crc ^ byte) & 255] ^ (crc >>> 8);
  return (crc ^ 0xffffffff) >>> 0;
}

/** @param {[string, Buffer][]} entries */
export function zip(entries) {
  const DATE = (2020 - 1980) << 9 | 1 << 5 | 1; // the same for every build
  const parts = [];
  const directory = [];
  let offset = 0;
  for (const [name, contents] of entries) {
    const packed = zlib.deflateRawSync(contents, { level: 9 });
    const path = Buffer.from(name);
    const common = Buffer.alloc(26);
    common.writeUInt16LE(20, 0); // needs version 2.0
    common.writeUInt16LE(0x0800, 2); // names are UTF-8
    common.writeUInt16LE(8, 4); // deflate
    common.writeUInt16LE(DATE, 8);
    common.writeUInt32LE(crc32(contents), 10);
    common.writeUInt32LE(packed.length, 14);
    common.writeUInt32LE(contents.length, 18);
    common.writeUInt16LE(path.length, 22);
    parts.push(Buffer.from('PK\x03\x04'), common, path, packed);
    const rest = Buffer.alloc(14);
    rest.writeUInt32LE((0o100644 << 16) >>> 0, 6); // a plain file
    rest.writeUInt32LE(offset, 10);
    directory.push(Buffer.from('PK\x01\x02\x14\x03', 'latin1'), common, rest, path);
    offset += 30 + path.length + packed.length;
  }
  const list = Buffer.concat(directory);
  const end = Buffer.alloc(18);
  end.writeUInt16LE(entries.length, 4);
  end.writeUInt16LE(entries.length, 6);
  end.writeUInt32LE(list.length, 8);
  end.writeUInt32LE(offset, 12);
  return Buffer.concat([...parts, list, Buffer.from('PK\x05\x06'), end]);
}

/** What the extension is made of: the files of package.json's list, and those that npm adds by itself. */
function published(manifest) {
  const names = ['package.json', 'README.md', 'LICENSE', ...manifest.files.flatMap((pattern) => {
    const [dir, name] = [path.dirname(pattern), path.basename(pattern)];
    return name.startsWith('*') ? fs.readdirSync(path.join(root, dir)).filter((file) => file.endsWith(name.slice(1)) && fs.statSync(path.join(root, dir, file)).isFile()).map((file) => path.posix.join(dir, file)) : [pattern];
  })];
  return [...new Set(names)].sort();
}

function writeVsix() {
  const manifest = JSON.parse(fs.readFileSync(path.join(root, 'package.json'), 'utf8'));
  const { name, publisher, version, displayName, description, engines, categories, keywords, extensionKind } = manifest;
  const escape = (text) => String(text).replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('"', '&quot;');
  const manifestXml = `<?xml version="1.0" encoding="utf-8"?>
<PackageManifest Version="2.0.0" xmlns="http://schemas.microsoft.com/developer/vsx-schema/2011" xmlns:d="http://schemas.microsoft.com/developer/vsx-schema-design/2011">
  <Metadata>
    <Identity Language="en-US" Id="${escape(name)}" Version="${escape(version)}" Publisher="${escape(publisher)}" />
    <DisplayName>${escape(displayName)}</DisplayName>
    <Description xml:space="preserve">${escape(description)}</Description>
    <Tags>${escape(keywords.join(','))}</Tags>
    <Categories>${escape(categories.join(','))}</Categories>
    <GalleryFlags>Public</GalleryFlags>
    <Properties>
      <Property Id="Microsoft.VisualStudio.Code.Engine" Value="${escape(engines.vscode)}" />
      <Property Id="Microsoft.VisualStudio.Code.ExtensionKind" Value="${escape(extensionKind.join(','))}" />
    </Properties>
    <License>extension/LICENSE</License>
  </Metadata>
  <Installation><InstallationTarget Id="Microsoft.VisualStudio.Code" /></Installation>
  <Dependencies />
  <Assets>
    <Asset Type="Microsoft.VisualStudio.Code.Manifest" Path="extension/package.json" Addressable="true" />
    <Asset Type="Microsoft.VisualStudio.Services.Content.Details" Path="extension/README.md" Addressable="true" />
    <Asset Type="Microsoft.VisualStudio.Services.Content.Changelog" Path="extension/CHANGELOG.md" Addressable="true" />
    <Asset Type="Microsoft.VisualStudio.Services.Content.License" Path="extension/LICENSE" Addressable="true" />
  </Assets>
</PackageManifest>
`;
  const files = published(manifest);
  const types = { json: 'application/json', js: 'application/javascript', map: 'application/json', md: 'text/markdown', vsixmanifest: 'text/xml' };
  const content = `<?xml version="1.0" encoding="utf-8"?>
<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">${Object.entries(types).map(([extension, type]) => `<Default Extension=".${extension}" ContentType="${type}" />`).join('')}<Override PartName="/extension/LICENSE" ContentType="text/plain" /></Types>
`;
  const bytes = zip([['extension.vsixmanifest', Buffer.from(manifestXml)], ['[Content_Types].xml', Buffer.from(content)], ...files.map((file) => [`extension/${file}`, fs.readFileSync(path.join(root, file))])]);
  const target = path.join(root, 'dist', `${name}-${version}.vsix`);
  replace(target, bytes);
  console.log(`${path.relative(root, target)}: ${bytes.length} bytes, ${files.length} files, sha256 ${crypto.createHash('sha256').update(bytes).digest('hex')}`);
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
  if (!problems.length && process.argv.includes('--vsix')) writeVsix();
  if (process.argv.includes('--update')) for (const [file, text] of generated()) fs.writeFileSync(file, text);
  if (process.argv.includes('--check')) problems.push(...check());
  for (const problem of problems) console.error(problem);
  if (problems.length) process.exit(1);
}
