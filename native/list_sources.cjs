// What binding.gyp reads from sources.json, one item a line; files as they are called from the top.
//   node native/list_sources.cjs engine|node      the files of that list
//   node native/list_sources.cjs simd avx2        the kernel files of one instruction set: those named *_avx2.cpp
//   node native/list_sources.cjs flags avx2       the compiler flags they share
const { basename } = require('node:path');
const sources = require('./sources.json');

// The targets simd_* of binding.gyp, and the processors on which each is built.
const targets = { baseline: 'any', neon: 'arm64', avx2: 'x64', avx512: 'x64' };
const isaOf = (entry) => basename(entry.file, '.cpp').split('_').at(-1);
for (const entry of sources.simd) {
  const arch = targets[isaOf(entry)];
  if (arch !== entry.arch)
    throw new Error(`native/sources.json: binding.gyp has no target for ${JSON.stringify(entry)}`);
}

const [list, isa] = process.argv.slice(2);
const kernels = sources.simd.filter((entry) => isaOf(entry) === isa);
const flags = kernels.map((entry) => entry.flags.join('\n'));
// gyp knows flags for a target only, so one target serves one instruction set.
if (new Set(flags).size > 1) throw new Error(`native/sources.json: the ${isa} kernels must all have the same flags`);

const fromTop = (file) => `native/${file}`;
const lines = {
  engine: () => sources.engine.map(fromTop),
  node: () => sources.node.map(fromTop),
  simd: () => kernels.map((entry) => fromTop(entry.file)),
  flags: () => [flags[0]],
};
console.log(lines[list]().join('\n'));
