// A run of many steps through one monitor: what is held does not grow with them. bench/monitor-memory.mjs does 100,000.
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { expect, it } from 'vitest';
import { Monitor, openEngine } from '../../src/index.js';
import { collected } from '../engine/engine-leaks.js';
import { smallStep } from './monitor-run.js';

setFlagsFromString('--expose-gc');
const gc = runInNewContext('gc') as () => void;

it('holds no more after 6,000 steps than after 1,000', async () => {
  await using engine = await openEngine({ threads: 1 });
  const monitor = new Monitor({
    engine,
    permutations: 0,
    everySteps: 3,
    filter: {},
    buckets: { count: 2 },
    judge: { permutations: 0 },
  });
  const steps = Array.from({ length: 16 }, (_, seed) => smallStep(seed, { prompts: 3, responses: 2, tokens: 2 }));
  const held = async (): Promise<{ heap: number; state: number; blocks: number }> => {
    const { blocks } = await collected();
    gc();
    return { heap: process.memoryUsage().heapUsed, state: JSON.stringify(monitor.save()).length, blocks };
  };
  const take = async (from: number, to: number): Promise<void> => {
    for (let step = from; step <= to; step++) {
      const { labels, logprobs, outcomes } = steps[step % 16] as (typeof steps)[number];
      const opened = monitor.step(step, labels);
      if (opened.due) await opened.scoreAll({ logprobs });
      await opened.finish({ ...outcomes, success: 0.5 });
    }
  };
  // By then the judge has kept as many computed steps as it ever does.
  await take(1, 1000);
  const before = await held();
  await take(1001, 6000);
  const after = await held();
  // 500 bytes a step would be seen; a step's report alone has some 20,000.
  expect(after.heap - before.heap).toBeLessThan(2.5e6);
  // The judge's history thins itself out by half whenever it is full.
  expect(after.state).toBeLessThan(2.5 * before.state);
  expect(after.blocks).toBeLessThanOrEqual(before.blocks + 2);
});
