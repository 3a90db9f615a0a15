// What numpy itself writes: the same step as safetensors, np.savez, np.savez_compressed and single arrays gives the
// same metrics, bit for bit; and the listings of docs/reference/step-file.md run as they stand. COLLAPSAR_PYTHON names
// the interpreter.
import { execFile, spawnSync } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, it } from 'vitest';
import { measureOptions } from '../../src/analysis/measuring/measure-options.js';
import { measureStepFile } from '../../src/analysis/measuring/measure-step-data.js';
import { openEngine } from '../../src/engine/open-engine.js';
import { readStepFile } from '../../src/logs/steps/step-file.js';
import { fileErrorOf, fileOf, fullStep, put, type RawTensor } from '../support/logs-files.js';
import { temporaryDirectory } from '../support/temporary-directory.js';

const folder = temporaryDirectory();
const python = process.env.COLLAPSAR_PYTHON ?? 'python3';
const hasNumpy = spawnSync(python, ['-c', 'import numpy']).status === 0;

/** Reads safetensors by hand, so that numpy is all that is needed; bfloat16 as ml_dtypes and torch users have it. */
const CONVERT = `
import json, struct, sys
import numpy as np
source, target = sys.argv[1:]
with open(source, "rb") as file:
    data = file.read()
length, = struct.unpack("<Q", data[:8])
header = json.loads(data[8:8 + length])
metadata = header.pop("__metadata__")
dtypes = dict(F64="<f8", F32="<f4", F16="<f2", BF16="<u2", I64="<i8", I32="<i4", U8="u1", BOOL="?")
arrays = {}
for name, entry in header.items():
    begin, end = entry["data_offsets"]
    raw = np.frombuffer(data[8 + length + begin:8 + length + end], dtypes[entry["dtype"]])
    arrays[name] = raw.reshape(entry["shape"])
    if entry["dtype"] == "BF16":
        arrays[name] = arrays[name].view("V2")
metadata["step"] = int(metadata["step"])
np.savez(target + ".stored.npz", **arrays, **metadata)
np.savez_compressed(target + ".deflated.npz", **arrays, **metadata)
scores = "cross_logprobs" if "cross_logprobs" in arrays else "cross_logprob_sums"
np.save(target + ".npy", arrays.pop(scores))
for name, array in arrays.items():
    np.save(f"{target}.{name}.npy", array)
with open(target + ".json", "w") as file:
    json.dump(metadata, file)
`;

async function run(program: string, ...args: string[]): Promise<void> {
  await promisify(execFile)(python, ['-c', program, ...args]);
}

/** Without the note: an array of one value is metadata to numpy's readers. */
function everything(): Record<string, RawTensor> {
  const { note, ...tensors } = fullStep();
  return tensors;
}

function sums(): Record<string, RawTensor> {
  const { cross_logprobs, token_entropy, ...tensors } = everything();
  const data = Float64Array.from({ length: 8 }, (_, i) => -Math.sqrt(i + 1));
  return { cross_logprob_sums: { dtype: 'F64', shape: [4, 2], data }, ...tensors };
}

async function measured(path: string) {
  const engine = await openEngine({ threads: 1 });
  try {
    const measurement = await measureStepFile(
      engine,
      path,
      measureOptions({ permutations: 19 }),
      4096,
      AbortSignal.timeout(60_000),
    );
    const { file: _, bytes: __, scores, ...data } = await readStepFile(path);
    return { measurement, data, scores: [scores.kind, scores.dtype, scores.shape] };
  } finally {
    engine.dispose();
  }
}

describe.skipIf(!hasNumpy)('numpy writes', () => {
  const steps: [what: string, bytes: () => Promise<Buffer>][] = [
    ['a step with everything in it', async () => fileOf(everything(), { step: '120', run: 'grid', model: 'ø' })],
    ['sums in float64', async () => fileOf(sums(), { step: '120', run: 'grid' })],
    ['a real step', async () => readFile('examples/data/collapse/step_00001.safetensors')],
  ];
  it.each(steps)('what gives the same metrics as safetensors: %s', async (what, bytes) => {
    const name = what.replaceAll(' ', '_');
    const source = await put(join(folder, `${name}.safetensors`), await bytes());
    const target = join(folder, name);
    await run(CONVERT, source, target);
    const expected = await measured(source);
    for (const ending of ['.stored.npz', '.deflated.npz', '.npy']) {
      expect(await measured(target + ending), ending).toEqual(expected);
    }
  });
});

describe.skipIf(!hasNumpy)('the listings of docs/reference/step-file.md', () => {
  async function listing(name: string): Promise<string> {
    const page = await readFile('docs/reference/step-file.md', 'utf8');
    const found = page.split(`<!-- tested: ${name} -->\n\`\`\`python\n`)[1]?.split('```')[0];
    if (found === undefined) throw new Error(`docs/reference/step-file.md has no listing marked ${name}`);
    return found;
  }

  const ARRAYS = `
import sys
scores = -np.arange(24, dtype=np.float32).reshape(2, 4, 3)
lengths, group = np.array([3, 1, 2, 0]), np.array([8, 4, 8, 4])
rewards = np.array([1.0, 0.0, 1.0, 0.0])
`;

  it.each([
    ['savez.py', '.npz', 'save_step(sys.argv[1], 30, "grid", scores, lengths, group, rewards)'],
    ['save.py', '.npy', 'save_arrays(sys.argv[1], 30, "grid", scores, lengths=lengths, group=group, rewards=rewards)'],
  ])('run as they stand: %s', async (name, ending, call) => {
    const path = join(folder, `listing-${name}`);
    await run(`${await listing(name)}${ARRAYS}${call}`, path);
    const step = await readStepFile(path + ending);
    expect(step).toMatchObject({ step: 30, run: 'grid', scores: { dtype: 'float32', shape: [2, 4, 3] } });
    expect(step.lengths).toEqual(BigInt64Array.of(3n, 1n, 2n, 0n));
    expect(step.rewards).toEqual(Float64Array.of(1, 0, 1, 0));
  });

  it.each([
    ['big-endian', 'scores.astype(">f4")', /big-endian/],
    ['in Fortran order', 'np.asfortranarray(scores)', /Fortran order/],
    ['objects', 'scores.astype(object)', /pickled Python objects/],
  ])('arrays that are %s are refused with what to do', async (name, array, message) => {
    const path = join(folder, `refused-${name}.npz`);
    await run(
      `import numpy as np${ARRAYS}np.savez(sys.argv[1], step=1, cross_logprobs=${array}, lengths=lengths, group=group)`,
      path,
    );
    expect((await fileErrorOf(readStepFile(path))).message).toMatch(message);
  });
});
