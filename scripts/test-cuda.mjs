// Compiles the CUDA backend and reads the compiler's report: no kernel that reads tensors may spill registers. Counts
// the instructions an element of the hot loop, where there is a cuobjdump. Running the backend takes a GPU:
// scripts/gpu-check.py.
//   npm run test:cuda                 for one architecture, sm_90
//   npm run test:cuda -- --all        for all that the backend is built for
//   npm run test:cuda -- sm_80 sm_89  for these
import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, statSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { findNvcc, nvccPackages } from './addon-tools.mjs';
import { check, root, skip, start, versionOf } from './stage.mjs';

/** Kernels through which every byte of a tensor goes. */
const hotKernels = /(logitRows|scoreRowsBy\w+|shortScoreRows|sumSegments|sumSpreadSegments|readBytes|packRows)</;
const hotPlain = /readBytes\(/;
const architectures = ['sm_80', 'sm_89', 'sm_90', 'sm_100'];
/**
 * A block takes its shared memory and 1 KB of CUDA's own; a multiprocessor of an H200 has so much. Rows of scores are
 * dealt out to five blocks of it (of float64 four), as registers allow.
 */
const shared = { multiprocessor: 228 * 1024, reserved: 1024 };
const shortBlocks = (kernel) => (kernel.includes('<double') ? 4 : 5);
/** More instructions than this an element of bfloat16, and an H200's memory is faster than its arithmetic. */
const instructionCeiling = 13.8;

const nvcc = findNvcc();
if (nvcc === null) {
  skip(`CUDA compilation (there is no nvcc: ${nvccPackages})`);
  process.exit(0);
}

const given = process.argv.slice(2);
const wanted = given.includes('--all') ? architectures : given.length > 0 ? given : ['sm_90'];
const { cuda } = JSON.parse(readFileSync(join(root, 'native', 'sources.json'), 'utf8'));
// Those of scores take longest, and begin first: so no processor waits long for the last.
const isOfScores = (file) => Number(file.includes('/scores/'));
const kernels = cuda.filter((file) => file.endsWith('.cu')).sort((a, b) => isOfScores(b) - isOfScores(a));
const out = join(root, 'build', 'cuda');
mkdirSync(out, { recursive: true });

/** The names of C++ functions, demangled, if there is a tool for it. */
function demangled(text) {
  const result = spawnSync('c++filt', [], { input: text, encoding: 'utf8', maxBuffer: 1 << 30 });
  return result.status === 0 ? result.stdout : text;
}

/** Reads ptxas' report: [{ kernel, registers, sharedBytes, spills }]. */
function parseReport(text) {
  const found = [];
  let kernel = null;
  let spills = 0;
  for (const line of demangled(text).split('\n')) {
    const compiling = line.match(/Compiling entry function '(.*)' for/);
    if (compiling) kernel = compiling[1];
    const spilled = line.match(/(\d+) bytes spill stores, (\d+) bytes spill loads/);
    if (spilled) spills = Number(spilled[1]) + Number(spilled[2]);
    const used = line.match(/Used (\d+) registers/);
    if (used && kernel !== null) {
      const sharedBytes = Number(line.match(/(\d+) bytes smem/)?.[1] ?? 0);
      found.push({ kernel, registers: Number(used[1]), sharedBytes, spills });
      kernel = null;
    }
  }
  return found;
}

const shortName = (kernel) =>
  kernel
    .replaceAll(/collapsar::cuda::|\(anonymous namespace\)::|\(anonymous namespace\)/g, '')
    .replace(/^void /, '')
    .replace(/\(.*/, '');

async function compile(file, architecture) {
  const object = join(out, `${basename(file, '.cu')}.${architecture}.o`);
  // -arch=sm_N compiles for N, by way of the PTX that later GPUs run.
  const target = ['-c', `-arch=${architecture}`, '-Xptxas', '-v'];
  const args = ['-std=c++17', '-O3', '-Xcompiler', '-fPIC', '-I', join(root, 'native'), ...target];
  const from = performance.now();
  const result = await start(nvcc, [...args, join(root, 'native', file), '-o', object], { quiet: true });
  const took = (performance.now() - from) / 1000;
  if (result.status !== 0) process.stdout.write(result.output);
  check(result.status === 0, `${nvcc} does not compile native/${file} for ${architecture}`);
  check(statSync(object).size > 0, `${object} is empty`);
  console.log(`${file.padEnd(32)} ${architecture.padEnd(12)} ${took.toFixed(1)} s`);
  return { architecture, object, kernels: parseReport(result.output) };
}

/** `jobs`, as many at a time as there are processors. */
async function together(jobs) {
  const results = [];
  const next = jobs[Symbol.iterator]();
  const worker = async () => {
    for (const job of next) results.push(await job());
  };
  await Promise.all(Array.from({ length: Math.min(availableParallelism(), jobs.length) }, worker));
  return results;
}

/** A chunk of bfloat16: exponentials and 16-byte loads that every turn of the hot loop has for each thread. */
const chunk = { exponentials: 32, loads: 4 };

/**
 * Instructions an element of the hot loop of bfloat16 logits, from the machine code: the shortest way through the loop
 * that has all of a chunk's exponentials, the next chunk's loads and this many comparisons with the target. What is not
 * on it (a raised reference, the cut ends of rows) few chunks take. Null if the code cannot be read.
 */
function instructionsPerElement(cuobjdump, object, comparisons) {
  const dump = spawnSync(cuobjdump, ['--dump-sass', object], { encoding: 'utf8', maxBuffer: 1 << 30 });
  if (dump.status !== 0) return null;
  const isKernel = (text) => /logitRows<[^>]*BFloat16, (\(int\))?256>/.test(text.split('\n', 1)[0]);
  const body = demangled(dump.stdout)
    .split(/\n\s*Function : /)
    .find(isKernel);
  if (body === undefined) return null;
  const code = [...body.matchAll(/^\s+\/\*([0-9a-f]{4,5})\*\/\s+(.*?);/gm)].map(([, at, text]) => {
    const branch = text.match(/\bBRA\b.*?0x([0-9a-f]+)/);
    const conditional = /^@|\bBRA(\.\w+)? !?U?P\d/.test(text);
    return {
      at: Number.parseInt(at, 16),
      to: branch ? Number.parseInt(branch[1], 16) : null,
      falls: branch === null || conditional,
      exponential: /\bMUFU\.EX2\b/.test(text) ? 1 : 0,
      load: /\bLDG(STS)?\.E\.\S*128/.test(text) ? 1 : 0,
      comparison: /\b(HSET2|FSET)\./.test(text) ? 1 : 0,
    };
  });
  const numberAt = new Map(code.map((instruction, i) => [instruction.at, i]));
  const ways = [];
  for (const [end, { to, at }] of code.entries()) {
    const begin = to === null || to >= at ? undefined : numberAt.get(to);
    if (begin === undefined) continue;
    // For each instruction, by what was met on the way to it: the fewest instructions.
    const least = Array.from({ length: end - begin + 1 }, () => new Map());
    least[0].set('0,0,0', 0);
    for (let i = begin; i <= end; i++) {
      const { to: target, falls, exponential, load, comparison } = code[i];
      const next = [...(falls ? [i + 1] : []), ...(target === null ? [] : [numberAt.get(target)])];
      for (const [met, length] of least[i - begin]) {
        const [exponentials, loads, compared] = met.split(',').map(Number);
        const key = [
          Math.min(exponentials + exponential, chunk.exponentials),
          Math.min(loads + load, chunk.loads),
          Math.min(compared + comparison, comparisons),
        ].join();
        if (i === end) {
          if (key === [chunk.exponentials, chunk.loads, comparisons].join()) ways.push(length + 1);
          continue;
        }
        for (const j of next) {
          if (j === undefined || j <= i || j > end) continue; // an inner loop, or out of this one
          const known = least[j - begin].get(key);
          if (known === undefined || known > length + 1) least[j - begin].set(key, length + 1);
        }
      }
    }
  }
  return ways.length === 0 ? null : Math.min(...ways) / chunk.exponentials;
}

const from = performance.now();
const compiled = await together(
  kernels.flatMap((file) => wanted.map((architecture) => () => compile(file, architecture))),
);
console.log(`compiled ${compiled.length} in ${((performance.now() - from) / 1000).toFixed(0)} s`);

let hot = 0;
const spilling = [];
const crowded = [];
for (const { architecture, kernels: found } of compiled) {
  for (const { kernel, registers, sharedBytes, spills } of found) {
    const name = shortName(kernel);
    const isHot = hotKernels.test(name) || hotPlain.test(`${name}(`);
    if (isHot) hot += 1;
    if (architecture === 'sm_90' && name.startsWith('shortScoreRows<')) {
      const room = Math.floor(shared.multiprocessor / (sharedBytes + shared.reserved));
      if (room < shortBlocks(name)) crowded.push(`${name}: ${sharedBytes} bytes a block, room for ${room} blocks`);
    }
    if (isHot && spills > 0) spilling.push(`${name} for ${architecture}: ${spills} bytes`);
    if (isHot || spills > 0) {
      console.log(
        `${architecture.padEnd(8)} ${name.padEnd(40)} ${String(registers).padStart(3)} registers, ${spills} bytes spilled`,
      );
    }
  }
}
check(hot >= 30 * wanted.length, `the compiler reported on ${hot} hot kernels only: their names have changed`);
check(spilling.length === 0, `registers are spilled in ${spilling.join('; ')}`);
check(crowded.length === 0, `shared memory holds fewer blocks than registers do: ${crowded.join('; ')}`);

// Beside nvcc first: that of PyPI's packages is on no PATH.
const cuobjdump = [join(dirname(nvcc), 'cuobjdump'), 'cuobjdump', '/usr/local/cuda/bin/cuobjdump'].find(
  (name) => versionOf(name) !== null,
);
if (cuobjdump === undefined) skip('counting instructions (there is no cuobjdump)');
for (const { architecture, object } of compiled) {
  if (cuobjdump === undefined || !object.includes('logit_rows.')) continue;
  // Two at a time for what is above the target and for what equals it; before 9.0 one at a time.
  const comparisons = Number(architecture.slice(3)) >= 90 ? chunk.exponentials : 2 * chunk.exponentials;
  for (const [what, compared] of [
    ['', 0],
    [', and their ranks', comparisons],
  ]) {
    const count = instructionsPerElement(cuobjdump, object, compared);
    check(count !== null, `the hot loop of ${object} is not found`);
    console.log(`${architecture.padEnd(8)} ${count.toFixed(1)} instructions an element of bfloat16 logits${what}`);
    check(
      count <= instructionCeiling || comparisons > chunk.exponentials,
      `more than the ${instructionCeiling} that the memory's speed leaves room for`,
    );
  }
}
