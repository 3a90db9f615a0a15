// How far an analysis is: steps, blocks of large files, and what an earlier analysis had measured.
import { Command } from 'commander';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type AnalysisProgress, ProgressCount } from '../../../src/analysis/analysis-progress.js';
import { bytesHeld, memoryPlan } from '../../../src/analysis/measuring/memory-plan.js';
import { byteCount } from '../../../src/cli/options/option-values.js';
import { Progress } from '../../../src/cli/output/progress.js';
import { keeping } from '../../cli/cli-streams.js';

const MiB = 2 ** 20;

describe('ProgressCount', () => {
  it('never goes back, and ends with everything, whatever the blocks and the order', () => {
    const step = fc.record({
      bytes: fc.nat({ max: 60 * MiB }),
      blocks: fc.array(fc.nat({ max: 30 * MiB })),
      was: fc.boolean(),
    });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 8 }), (steps) => {
        const told: AnalysisProgress[] = [];
        const count = new ProgressCount((progress) => told.push(progress));
        const files = steps.map(({ bytes }, at) => ({ file: String(at), bytes }));
        for (const [at, { was }] of steps.entries()) count.expect(files[at] as (typeof files)[0], was);
        for (const [at, { blocks, was }] of steps.entries()) {
          if (!was) for (const block of blocks) count.advance(files[at] as (typeof files)[0], block);
        }
        for (const [at, { was }] of steps.entries()) count.finish(files[at] as (typeof files)[0], was);
        for (const [at, { done, bytes }] of told.entries()) {
          expect(bytes).toBeGreaterThanOrEqual(told[at - 1]?.bytes ?? 0);
          expect(done).toBeGreaterThanOrEqual(told[at - 1]?.done ?? 0);
        }
        const total = steps.reduce((sum, { bytes }) => sum + bytes, 0);
        const resumed = steps.filter(({ was }) => was);
        const resumedBytes = resumed.reduce((sum, { bytes }) => sum + bytes, 0);
        if (steps.length > 0) {
          expect(told.at(-1)).toMatchObject({
            done: steps.length,
            total: steps.length,
            bytes: total,
            totalBytes: total,
          });
          expect(told.at(-1)).toMatchObject({ resumed: resumed.length, resumedBytes });
        }
      }),
    );
  });

  it('moves within a large file', () => {
    const told: number[] = [];
    const count = new ProgressCount(({ bytes }) => told.push(bytes / MiB));
    const file = { file: 'large', bytes: 40 * MiB };
    count.expect(file, false);
    for (let block = 0; block < 10; block++) count.advance(file, 4 * MiB);
    count.finish(file, false);
    expect(told).toEqual([8, 16, 24, 32, 40, 40]);
  });
});

describe('the line of progress', () => {
  const textOf = (state: Partial<AnalysisProgress>) => {
    let now = 0;
    const stream = keeping();
    const progress = new Progress(stream, true, () => now);
    now = 10_000;
    progress.update({ done: 0, total: 100, bytes: 0, totalBytes: 100e9, file: 'x', ...state });
    return stream.text.trim();
  };

  it('has the rate of what is measured now, not of what was before', () => {
    expect(textOf({ done: 80, bytes: 80e9, resumed: 60, resumedBytes: 60e9 })).toBe(
      '80/100 steps  2.0 steps/s  2.0 GB/s  ETA 0:10',
    );
  });

  it('claims nothing before there is a rate', () => {
    expect(textOf({ done: 60, bytes: 60e9, resumed: 60, resumedBytes: 60e9 })).toContain('ETA ?');
  });
});

describe('--max-memory', () => {
  it.each([
    ['1', 1],
    ['512MB', 512e6],
    ['512 mb', 512e6],
    ['2GiB', 2 ** 31],
    ['2G', 2 ** 31],
    ['1.5k', 1536],
    ['3B', 3],
    ['1TB', 1e12],
  ])('%s is %d bytes', (text, bytes) => {
    expect(byteCount(text)).toBe(bytes);
  });

  it.each(['', '0', '-1', 'MB', '2 GB 3', '1e9', '5XB', '99999999999TB', '0.1'])('"%s" is none', (text) => {
    const parse = () => byteCount(text);
    expect(parse).toThrow('Expected a number of bytes, such as 2GiB or 512MB.');
    expect(() =>
      new Command()
        .exitOverride()
        .configureOutput({ writeErr: () => {} })
        .option('-m <n>', '', byteCount)
        .parse(['-m', text], { from: 'user' }),
    ).toThrow();
  });

  it('makes blocks and what is under way smaller, never nothing', () => {
    const file = { file: 'f', step: 1, run: 'r', runDirectory: '/', bytes: 4e9, identity: '', prompts: 64, rows: 8192 };
    let last = memoryPlan({ maxMemory: 1 });
    expect(last.blockBytes).toBe(MiB);
    for (const maxMemory of [100e6, 150e6, 200e6, 300e6, 1e9, 1e12]) {
      const plan = memoryPlan({ maxMemory });
      expect(plan.blockBytes).toBeGreaterThanOrEqual(last.blockBytes);
      expect(plan.capacity).toBeGreaterThanOrEqual(last.capacity);
      expect(plan.blockBytes).toBeLessThanOrEqual(16 * MiB);
      last = plan;
    }
    // At least a prompt, twice; and the sums.
    expect(bytesHeld(file, memoryPlan({ maxMemory: 1 }))).toBeGreaterThan((2 * 4e9) / 64 + 64 * 8192 * 8);
  });
});
