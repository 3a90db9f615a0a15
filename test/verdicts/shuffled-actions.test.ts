// Permutation p-values of actions: what the native loops count, against the plainest reckoning with the same shuffles.
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import fc from 'fast-check';
import { beforeAll, describe, expect, it } from 'vitest';
import { loadAddon } from '../../src/engine/addon.js';
import { openEngine } from '../../src/engine/open-engine.js';
import { Random } from '../../src/metrics/sampling/random.js';
import { readEvidence, readEvidenceOn } from '../../src/verdicts/index.js';
import { countNow } from '../../src/verdicts/statistics/shuffle-counts.js';
import { actionInformation, reasoningInformation } from '../../src/verdicts/warnings/action-information.js';
import { actionOscillation } from '../../src/verdicts/warnings/action-oscillation.js';
import { buildIfStale } from '../support/built-command.js';

function shuffle<T>(values: T[], random: Random): void {
  for (let at = values.length - 1; at > 0; at--) {
    const other = random.below(at + 1);
    [values[at], values[other]] = [values[other] as T, values[at] as T];
  }
}

const entropy = (labels: readonly string[]): number => {
  const counts = new Map<string, number>();
  for (const label of labels) counts.set(label, (counts.get(label) ?? 0) + 1);
  return [...counts.values()].reduce((sum, n) => sum - (n / labels.length) * Math.log(n / labels.length), 0);
};

const NEARLY = 1e-9;
const seeds = fc.integer({ min: 0, max: 2 ** 45 });
const shuffles = fc.integer({ min: 1, max: 40 });

describe('p-values of shuffled actions', () => {
  it('count for I(X;A) how often the actions in another order depend as much on the prompt', () => {
    const row = fc.record({ group: fc.integer({ min: 0, max: 3 }), action: fc.integer({ min: -2, max: 2 }) });
    fc.assert(
      fc.property(fc.array(row, { maxLength: 30 }), shuffles, seeds, (rows, count, seed) => {
        const groups = rows.map(({ group }) => group);
        const actions = rows.map(({ action }) => action);
        const found = countNow(actionInformation(groups, actions, count, seed));
        if (new Set(groups).size < 2) {
          expect(found).toBeNull();
          return;
        }
        const jointOf = (order: readonly number[]) => entropy(order.map((action, at) => `${groups[at]}/${action}`));
        const random = new Random(seed);
        const shuffled = [...actions];
        let reached = 0;
        for (let round = 0; round < count; round++) {
          shuffle(shuffled, random);
          if (jointOf(shuffled) <= jointOf(actions) + NEARLY) reached++;
        }
        expect(found?.pValue).toBe((1 + reached) / (1 + count));
        const information = entropy(groups.map(String)) + entropy(actions.map(String)) - jointOf(actions);
        const cells = new Set(rows.map(({ group, action }) => `${group}/${action}`)).size;
        const corrected = new Set(groups).size + new Set(actions).size - cells - 1;
        expect(found?.estimate).toBeCloseTo(information + corrected / (2 * rows.length), 10);
      }),
      { numRuns: 300 },
    );
  });

  it('of I(Z;A|X): how often other reasonings of the prompt make the actions as likely', () => {
    const sizes = fc.array(fc.integer({ min: 1, max: 5 }), { minLength: 1, maxLength: 5 });
    const score = fc.oneof(
      { weight: 12, arbitrary: fc.integer({ min: -9, max: 0 }) },
      { weight: 1, arbitrary: fc.constantFrom(Number.NEGATIVE_INFINITY, Number.NaN) },
    );
    const step = sizes.chain((members) => {
      const rows = members.reduce((sum, size) => sum + size, 0);
      return fc.tuple(
        fc.constant(members.flatMap((size, group) => Array<number>(size).fill(group))),
        fc.array(fc.array(score, { minLength: rows, maxLength: rows }), { minLength: rows, maxLength: rows }),
      );
    });
    fc.assert(
      fc.property(step, shuffles, seeds, ([groups, logprobs], count, seed) => {
        const rows = groups.length;
        const swaps = { logprobs: logprobs.flat(), reasonings: rows };
        const found = countNow(reasoningInformation(groups, swaps, count, seed));
        const under = (reasoning: number, row: number): number => logprobs[reasoning]?.[row] as number;
        const prompts = [...new Set(groups)]
          .map((group) => groups.flatMap((other, row) => (other === group ? [row] : [])))
          .filter(
            (members) =>
              members.length >= 2 &&
              members.every((a) => under(a, a) > Number.NEGATIVE_INFINITY) &&
              members.every((a) => members.every((q) => !Number.isNaN(under(q, a)))),
          );
        if (prompts.length === 0) {
          expect(found).toBeNull();
          return;
        }
        const totalOf = (orders: readonly (readonly number[])[]): number =>
          prompts.reduce(
            (sum, members, prompt) =>
              members.reduce(
                (total, row, at) => total + under(members[orders[prompt]?.[at] as number] as number, row),
                sum,
              ),
            0,
          );
        const orders = prompts.map((members) => [...members.keys()]);
        const observed = totalOf(orders);
        const random = new Random(seed);
        let reached = 0;
        for (let round = 0; round < count; round++) {
          for (const order of orders) shuffle(order, random);
          if (totalOf(orders) >= observed - NEARLY) reached++;
        }
        expect(found?.pValue).toBe((1 + reached) / (1 + count));
      }),
      { numRuns: 300 },
    );
  });

  it('count for oscillation how often as many episodes go A-B-A-B in another order', () => {
    const episode = fc.array(fc.integer({ min: 0, max: 2 }), { maxLength: 9 });
    const alternates = (actions: readonly number[]): boolean =>
      actions.some(
        (a, at) => at >= 3 && a === actions[at - 2] && actions[at - 1] === actions[at - 3] && a !== actions[at - 1],
      );
    fc.assert(
      fc.property(fc.array(episode, { maxLength: 6 }), shuffles, seeds, (episodes, count, seed) => {
        const found = countNow(actionOscillation(episodes, count, seed));
        const long = episodes.filter(({ length }) => length >= 4);
        if (long.length === 0) {
          expect(found).toBeNull();
          return;
        }
        const periodic = long.filter(alternates).length;
        const random = new Random(seed);
        let reached = 0;
        for (let round = 0; round < count; round++) {
          const shuffled = long.map((actions) => [...actions]);
          for (const actions of shuffled) shuffle(actions, random);
          if (shuffled.filter(alternates).length >= periodic) reached++;
        }
        expect(found).toMatchObject({ periodicShare: periodic / long.length, pValue: (1 + reached) / (1 + count) });
      }),
      { numRuns: 300 },
    );
  });
});

describe('readEvidenceOn', () => {
  const rows = 4096;
  const groups = Int32Array.from({ length: rows }, (_, row) => row >> 3);
  const random = new Random(7);
  const evidence = {
    step: 3,
    rows: {
      groups,
      actions: Int32Array.from({ length: rows }, () => random.below(5)),
      episodes: Int32Array.from({ length: rows }, (_, row) => row >> 3),
      turns: Int32Array.from({ length: rows }, (_, row) => row & 7),
      reasoningSwaps: { logprobs: Float64Array.from({ length: rows * 8 }, () => -random.below(9)), reasonings: 8 },
    },
  };

  it('gives what readEvidence gives, to the bit, and leaves the event loop free', async () => {
    const engine = await openEngine({ device: 'cpu', threads: 1 });
    const options = { permutations: 999, seed: 5 };
    const before = performance.now();
    const now = readEvidence(evidence, options);
    const blocked = performance.now() - before;
    let longest = 0;
    let last = performance.now();
    const timer = setInterval(() => {
      longest = Math.max(longest, performance.now() - last);
      last = performance.now();
    }, 0);
    const found = await readEvidenceOn(engine, evidence, options);
    clearInterval(timer);
    expect(found).toEqual(now);
    expect(found.actionInformation?.pValue).toBeLessThan(1);
    expect(found.reasoningInformation).not.toBeNull();
    expect(found.oscillation).not.toBeNull();
    expect(longest).toBeLessThan(blocked);
    // Where nothing has to be counted, no engine is asked for.
    const none = async (): Promise<never> => {
      throw new Error('asked for');
    };
    expect(await readEvidenceOn(none, { step: 1 })).toEqual(readEvidence({ step: 1 }));
    await engine.dispose();
  });

  it('hears of an abort between two permutations, and rejects what readEvidence refuses', async () => {
    const engine = await openEngine({ device: 'cpu', threads: 1 });
    const controller = new AbortController();
    const reason = new Error('enough');
    const running = readEvidenceOn(engine, evidence, { permutations: 1e8, signal: controller.signal });
    await new Promise((resolve) => setTimeout(resolve, 20));
    const before = performance.now();
    controller.abort(reason);
    await expect(running).rejects.toBe(reason);
    // All of them would take minutes.
    expect(performance.now() - before).toBeLessThan(10_000);
    await expect(readEvidenceOn(engine, { step: -1.5 })).rejects.toThrow('evidence.step');
    await engine.dispose();
  });
});

describe('native counts of shuffled actions', () => {
  const { actionDependence, matchedOrders, periodicEpisodes } = loadAddon();
  const state = Uint32Array.of(1, 2, 3, 4);
  const two = Int32Array.of(0, 1);
  const ones = Int32Array.of(1, 1);
  const growth = Float64Array.of(0, 1);

  it('refuse arrays that do not belong together', () => {
    expect(actionDependence(undefined, two, two, ones, growth, 2, 1, state).occupied).toBe(2);
    for (const kinds of [-1, 3, 2 ** 31, 2 ** 32 + 2]) {
      expect(() => actionDependence(undefined, two, two, ones, growth, kinds, 1, state)).toThrow(
        'no more kinds than rows',
      );
    }
    expect(() => actionDependence(undefined, two, two, ones, growth, 1, 1, state)).toThrow('entry 1 is 1');
    expect(() => actionDependence(undefined, two, Int32Array.of(0, 2), ones, growth, 2, 1, state)).toThrow(
      'entry 1 is 2',
    );
    expect(() => actionDependence(undefined, two, Int32Array.of(0), ones, growth, 2, 1, state)).toThrow(
      'expected 2 (one a row)',
    );
    expect(() => actionDependence(undefined, two, two, Int32Array.of(1, 2), growth, 2, 1, state)).toThrow(
      'rows of each prompt',
    );
    expect(() => actionDependence(undefined, two, two, ones, Float64Array.of(0, 1, 2), 2, 1, state)).toThrow(
      'expected 2 (',
    );
    expect(() => actionDependence(undefined, two, two, ones, growth, 2, 1, state.subarray(1))).toThrow('four words');
    expect(() => matchedOrders(undefined, new Float64Array(5), Int32Array.of(2), 0, 1, state)).toThrow('log-prob');
    const most = 2 ** 31 - 1;
    for (const lengths of [[most, most], [3], [-1, 5]]) {
      expect(() =>
        periodicEpisodes(undefined, Int32Array.of(1, 2, 1, 2), Int32Array.from(lengths), 1, state),
      ).toThrow();
    }
  });
});

// A sanitizer reserves more address space than the limit leaves.
describe.skipIf(process.platform !== 'linux' || process.env.COLLAPSAR_SANITIZED !== undefined)(
  'native counts of shuffled actions, where memory is short',
  () => {
    beforeAll(buildIfStale, 300_000);

    it('throw; the process goes on', async () => {
      const addon = join(fileURLToPath(new URL('../..', import.meta.url)), 'dist/engine/addon.js');
      // 2 GiB of actions, which nothing has touched, cannot be copied.
      const script = `
        import { loadAddon } from ${JSON.stringify(addon)};
        try {
          loadAddon().periodicEpisodes(undefined, new Int32Array(2 ** 29), new Int32Array(0), 1, new Uint32Array(4));
        } catch (error) {
          console.log(String(error));
        }`;
      const limited = 'ulimit -v 4000000; exec "$0" --input-type=module -e "$1"';
      const { stdout } = await promisify(execFile)('sh', ['-c', limited, process.execPath, script]);
      expect(stdout).toBe('Error: not enough memory\n');
    });
  },
);
