// The environments of a step file's rows: written and read again, by ids and names, in every container.
import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { readStepFile } from '../../src/logs/steps/step-file.js';
import { type StepToWrite, writeStep } from '../../src/logs/steps/write-step.js';
import { fileErrorOf, fileOf } from '../support/logs-files.js';
import { temporaryDirectory } from '../support/temporary-directory.js';

const folder = temporaryDirectory();
let count = 0;
const path = (): string => join(folder, `step_${++count}.safetensors`);

/** P = 2, R = 4, rows of the prompts in turn. */
const sums = { data: Float64Array.from({ length: 8 }, (_, at) => -at), dtype: 'float64', shape: [4, 2] } as const;
const minimal: StepToWrite = { step: 7, sums, lengths: Int32Array.of(1, 1, 1, 1), group: Int32Array.of(0, 1, 0, 1) };

/** A file with a tensor `environment`, as a trainer writes it. */
function stored(ids: Int32Array | BigInt64Array | undefined, metadata: Record<string, string>): string {
  const file = path();
  const tensors = {
    cross_logprob_sums: { dtype: 'F64', shape: [4, 2], data: sums.data },
    lengths: { dtype: 'I32', shape: [4], data: minimal.lengths },
    group: { dtype: 'I32', shape: [4], data: minimal.group },
    ...(ids && { environment: { dtype: ids instanceof Int32Array ? 'I32' : 'I64', shape: [ids.length], data: ids } }),
  };
  writeFileSync(file, fileOf(tensors, { step: '7', ...metadata }));
  return file;
}

describe('environments of a step file', () => {
  it('are read again as they were written, also when what was read is written', async () => {
    const first = path();
    await writeStep(first, { ...minimal, environments: ['math', null, 'math', null] });
    const step = await readStepFile(first);
    expect(step.environments).toEqual({ names: ['(none)', 'math'], ofRow: Int32Array.of(1, 0, 1, 0) });
    expect(step.metadata.environment_names).toBe('["(none)","math"]');
    const again = path();
    await writeStep(again, { ...step, sums });
    expect((await readStepFile(again)).environments).toEqual(step.environments);
  });

  it('are the names at the place of each id, -1 being none', async () => {
    const names = { environment_names: '["math", "code", "math/é"]' };
    const { environments } = await readStepFile(stored(BigInt64Array.of(2n, -1n, 2n, -1n), names));
    expect(environments).toEqual({ names: ['(none)', 'math/é'], ofRow: Int32Array.of(1, 0, 1, 0) });
    // Written again, names come in their own order.
    const again = path();
    const step = await readStepFile(stored(Int32Array.of(0, 1, 0, 1), names));
    await writeStep(again, { ...step, sums });
    expect((await readStepFile(again)).environments?.names).toEqual(['code', 'math']);
  });

  it('are the ids themselves where nothing names them', async () => {
    const { environments } = await readStepFile(stored(Int32Array.of(12, 7, 12, 7), {}));
    expect(environments).toEqual({ names: ['12', '7'], ofRow: Int32Array.of(0, 1, 0, 1) });
  });

  it('are one for all rows where only the metadata name it', async () => {
    const { environments } = await readStepFile(stored(undefined, { environment: 'grid' }));
    expect(environments).toEqual({ names: ['grid'], ofRow: new Int32Array(4) });
    expect((await readStepFile(stored(undefined, {}))).environments).toBeUndefined();
  });

  it.each([
    [Int32Array.of(0, 2, 0, 2), '["a", "b"]', '2 in row 1, expected -1 (none) to 1, of environment_names'],
    [Int32Array.of(0, -2, 0, -2), '["a", "b"]', '-2 in row 1'],
    [Int32Array.of(0, 0, 0, 0), '{"a": 1}', 'environment_names is {"a": 1}, expected a list of names in JSON'],
    [Int32Array.of(0, 0, 0, 0), 'math', 'environment_names is math, expected a list of names in JSON'],
    [Int32Array.of(0, 1, 1, 1), '["a", "b"]', 'prompt 0 is of environment "a" in one row and of "b" in row 2'],
    [Int32Array.of(0, 1), '["a", "b"]', 'shape [2], expected [R] with R = 4'],
  ])('that cannot be are refused: %s of %s', async (ids, environment_names, problem) => {
    const error = await fileErrorOf(readStepFile(stored(ids, { environment_names })));
    expect(error.tensor).toBe('environment');
    expect(error.message).toContain(problem);
  });

  it('that cannot be are not written', async () => {
    const write = (environments: never) => writeStep(path(), { ...minimal, environments });
    await expect(write(['a', 'b', 'b', 'b'] as never)).rejects.toThrow('step.environments: prompt 0 is of environment');
    await expect(write(['a'] as never)).rejects.toThrow('step.environments: 1 label for 4 rows');
    await expect(write([1, 2, 1, 2] as never)).rejects.toThrow('step.environments: entry 0 is 1, expected the name');
  });

  const python = process.env.PYTHON ?? 'python3';
  const hasNumpy = spawnSync(python, ['-c', 'import numpy']).status === 0;
  it.runIf(hasNumpy)('of numpy are ids with names, or one text', async () => {
    const file = path().replace('safetensors', 'npz');
    const save = (more: string) => {
      const arrays = `cross_logprob_sums=np.zeros((4, 2)), lengths=np.ones(4, int), group=np.array([0, 1, 0, 1])`;
      const script = `import numpy as np\nnp.savez(${JSON.stringify(file)}, step=7, ${arrays}, ${more})`;
      expect(spawnSync(python, ['-c', script], { encoding: 'utf8' }).stderr).toBe('');
    };
    const expected = { names: ['code', 'math é'], ofRow: Int32Array.of(1, 0, 1, 0) };
    save(`environment=np.array([0, 1, 0, 1]), environment_names=np.array(["math é", "code"])`);
    expect((await readStepFile(file)).environments).toEqual(expected);
    save(`environment=np.array([0, 1, 0, 1]), environment_names='["math é", "code"]'`);
    expect((await readStepFile(file)).environments).toEqual(expected);
    save(`environment="grid"`);
    expect((await readStepFile(file)).environments?.names).toEqual(['grid']);
  });
});
