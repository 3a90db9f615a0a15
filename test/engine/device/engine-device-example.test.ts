// examples/gpu, the listings of docs/guide/gpu.md: a PyTorch trainer hands its tensors to a Node process by CUDA IPC.
import { execFile, spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { describe, expect, it } from 'vitest';
import { addonPath } from '../../../src/engine/addon.js';
import { emulatedPath, hasBackend, onGpu } from './engine-device-backend.js';

const root = fileURLToPath(new URL('../../..', import.meta.url));
const read = (...path: string[]): string => readFileSync(join(root, ...path), 'utf8');
const python = process.env.COLLAPSAR_PYTHON ?? 'python3';
const wanted = onGpu ? 'import torch; assert torch.cuda.is_available()' : 'import torch';
// The example imports the package by its name: what was compiled.
const canRun =
  hasBackend && existsSync(join(root, 'dist', 'index.js')) && spawnSync(python, ['-c', wanted]).status === 0;

describe('docs/guide/gpu.md', () => {
  const page = read('docs', 'guide', 'gpu.md');
  const listings = [...page.matchAll(/<!-- part of examples\/gpu\/(\S+) -->\n```\w+\n([\s\S]*?)```/g)];

  it('shows what examples/gpu does', () => {
    expect(listings.map(([, file]) => file)).toEqual(['trainer.py', 'diagnose.mjs']);
    for (const [, file, text] of listings) expect(read('examples', 'gpu', file as string)).toContain(text);
  });
});

describe.skipIf(!canRun)('examples/gpu/trainer.py (needs Python with PyTorch)', () => {
  it('gets what PyTorch computes', async () => {
    const trainer = join(root, 'examples', 'gpu', 'trainer.py');
    const sizes = onGpu ? [] : ['--device', 'cpu', '--rows', '16', '--vocabulary', '1000', '--rounds', '3'];
    const script = onGpu ? [trainer] : [join(root, 'test', 'engine', 'device', 'emulated_gpu_share.py'), trainer];
    const env = {
      ...process.env,
      COLLAPSAR_ADDON: addonPath(),
      ...(!onGpu && { COLLAPSAR_CUDA_BACKEND: emulatedPath }),
    };
    const run = promisify(execFile)(python, [...script, '--node', process.execPath, ...sizes], { env });
    const summary = JSON.parse((await run).stdout);
    expect(summary).toMatchObject({ passed: true, wrong: [] });
    expect(summary.logits.errors.entropy).toBeGreaterThanOrEqual(0);
  }, 300_000);
});
