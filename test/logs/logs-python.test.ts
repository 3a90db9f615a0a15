// Both ways to Python: its safetensors library reads what writeStep writes, and the listing of
// docs/reference/step-file.md, run as it stands, writes what readStepFile reads. COLLAPSAR_PYTHON names the
// interpreter; skipped where it lacks the libraries.
import { execFile, spawnSync } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, it, vi } from 'vitest';
import { readStepFile } from '../../src/logs/steps/step-file.js';
import { writeStep } from '../../src/logs/steps/write-step.js';
import { temporaryDirectory } from '../support/temporary-directory.js';

// Importing torch alone takes seconds.
vi.setConfig({ testTimeout: 120_000 });

const folder = temporaryDirectory();
const python = process.env.COLLAPSAR_PYTHON ?? 'python3';

function has(modules: string): boolean {
  return spawnSync(python, ['-c', `import ${modules}`]).status === 0;
}

async function run(program: string, ...args: string[]): Promise<string> {
  return (await promisify(execFile)(python, ['-c', program, ...args])).stdout;
}

const PRINT_ALL = `
import json, sys
from safetensors import deserialize, safe_open
with open(sys.argv[1], "rb") as file:
    tensors = {name: [t["dtype"], t["shape"], bytes(t["data"]).hex()] for name, t in deserialize(file.read())}
try:
    import numpy
    metadata = safe_open(sys.argv[1], "numpy").metadata()
except ImportError:
    metadata = None
print(json.dumps([tensors, metadata]))
`;

it.skipIf(!has('safetensors'))('the safetensors library of Python reads what writeStep writes', async () => {
  const path = join(folder, 'written.safetensors');
  await writeStep(path, {
    step: 12,
    run: 'ø',
    logprobs: { data: Uint16Array.of(0xbf80, 0xc000, 0xc040, 0xc080), dtype: 'bfloat16', shape: [2, 2, 1] },
    lengths: Int32Array.of(1, 1),
    group: BigInt64Array.of(-1n, 2n ** 40n),
    correct: Uint8Array.of(1, 0),
    rewards: Float64Array.of(0.5, -0.5),
    prompts: [Int32Array.of(1, 2), Int32Array.of(3)],
  });
  const [tensors, metadata] = JSON.parse(await run(PRINT_ALL, path)) as [Record<string, unknown>, unknown];
  expect(tensors).toEqual({
    cross_logprobs: ['BF16', [2, 2, 1], '80bf00c040c080c0'],
    lengths: ['I32', [2], '0100000001000000'],
    group: ['I64', [2], 'ffffffffffffffff0000000000010000'],
    correct: ['BOOL', [2], '0100'],
    rewards: ['F64', [2], '000000000000e03f000000000000e0bf'],
    prompt_ids: ['I32', [2, 2], '01000000020000000300000000000000'],
    prompt_lengths: ['I32', [2], '0200000001000000'],
  });
  if (metadata !== null) expect(metadata).toEqual({ step: '12', run: 'ø' });
});

const CALL = `
import sys
scores = -torch.arange(24, dtype=torch.bfloat16).reshape(4, 2, 3).transpose(0, 1)
write_step(sys.argv[1], 30, "grid", scores, torch.tensor([3, 1, 2, 0]), torch.tensor([8, 4, 8, 4]), torch.tensor([1, 0, 1, 0]))
`;

/** The listing of docs/reference/step-file.md that is marked with this name. */
async function listing(name: string): Promise<string> {
  const page = await readFile('docs/reference/step-file.md', 'utf8');
  const [, , after] = page.split(new RegExp(`(<!-- tested: ${name} -->\\n)`)) as [string, string?, string?];
  const code = /^```python\n([\s\S]*?)```/.exec(after ?? '')?.[1];
  if (code === undefined) throw new Error(`docs/reference/step-file.md has no listing marked ${name}`);
  return code;
}

/**
 * A model whose next token depends on all before it, and what it must give: p of each token from the sum of those
 * before.
 */
const SCORE = `
import json
from types import SimpleNamespace
table = torch.randn(7, 5, dtype=torch.float64)
class Model:
    device = torch.device("cpu")
    def __call__(self, ids):
        return SimpleNamespace(logits=table[ids.cumsum(-1) % 7])
prompts, reasonings = [[1, 2], [3], [4, 4, 1]], [[0, 3, 1], [], [2]]
scores, lengths = cross_scores(Model(), prompts, reasonings, temperature=0.5)
wanted = torch.zeros(3, 3, 3)
for p, prompt in enumerate(prompts):
    for r, tokens in enumerate(reasonings):
        for t, token in enumerate(tokens):
            row = table[sum(prompt + tokens[:t]) % 7] / 0.5
            wanted[p, r, t] = row[token] - row.logsumexp(0)
print(json.dumps([lengths.tolist(), list(scores.shape), (scores - wanted).abs().max().item() < 1e-5]))
`;

it.skipIf(!has('torch'))(
  'the listing of docs/reference/step-file.md scores every reasoning under every prompt',
  async () => {
    expect(JSON.parse(await run((await listing('cross_scores.py')) + SCORE))).toEqual([[3, 0, 1], [3, 3, 3], true]);
  },
);

it.skipIf(!has('torch, safetensors'))(
  'the PyTorch listing of docs/reference/step-file.md writes a step file',
  async () => {
    const path = join(folder, 'torch.safetensors');
    await run((await listing('write_step.py')) + CALL, path);
    const step = await readStepFile(path);
    expect(step).toMatchObject({
      step: 30,
      run: 'grid',
      scores: { kind: 'logprobs', dtype: 'bfloat16', shape: [2, 4, 3] },
    });
    expect([...step.lengths].map(Number)).toEqual([3, 1, 2, 0]);
    expect([...step.columnGroup].map(Number)).toEqual([4, 8]);
    expect(step.rewards).toEqual(Float64Array.of(1, 0, 1, 0));
    if (step.scores.kind !== 'logprobs') throw new Error('expected logprobs');
    for await (const { logprobs } of step.scores.blocks()) {
      // The upper half of a float32: scores (0, 1, 0) and (1, 0, 2) are those of the transposed view.
      const value = (i: number) => new Float32Array(Uint32Array.of((logprobs.data[i] as number) << 16).buffer)[0];
      expect([value(3), value(14)]).toEqual([-6, -5]);
    }
  },
);
