// Saving and restoring: a monitor killed after any step and restored from JSON text goes on byte for byte; foreign
// states are refused.
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ArgumentError, type Engine, Monitor, type MonitorOptions, openEngine, StateError } from '../../src/index.js';
import { type SmallShape, type SmallStep, scorePrompts, smallStep } from './monitor-run.js';

let engine: Engine;
beforeAll(async () => {
  engine = await openEngine({ threads: 1 });
});
afterAll(() => engine.dispose());

async function take(monitor: Monitor, step: number, small: SmallStep): Promise<string> {
  const opened = monitor.step(step, small.labels);
  await scorePrompts(opened, small);
  const report = await opened.finish(small.outcomes);
  return JSON.stringify([report, monitor.save()]);
}

/**
 * A run whose excess sinks to nothing and whose rewards become alike, so that stops and verdicts have something to say.
 */
const runs = fc.record({
  seed: fc.nat(),
  gaps: fc.array(fc.integer({ min: 1, max: 4 }), { minLength: 2, maxLength: 14 }),
  turns: fc.boolean(),
});

const optionSets: MonitorOptions[] = [
  {},
  {
    everySteps: 2,
    filter: { dialect: 'strict', value: 0.9, lossScale: 'linear' },
    buckets: { mode: 'fixed_rv' },
    earlyStop: {
      rewardVariance: { startSteps: 2, consecutive: 2 },
      success: { validations: 1 },
      emptyFilter: { steps: 2 },
    },
    judge: { permutations: 19, seed: 3 },
    seed: 7,
  },
  { profile: 'ragen', everySteps: 1, filter: { dialect: 'ragen', includeZero: false }, judge: false },
  { everySteps: 3, negatives: 3 },
];

const sampled: MonitorOptions = {
  everySteps: 1,
  sampler: ['first_turn', { kind: 'trajectory', n: 5 }, { kind: 'turn', n: 4, seed: 9 }],
};

describe('a restored monitor', () => {
  it('goes on byte for byte, wherever it was killed', async () => {
    await fc.assert(
      fc.asyncProperty(runs, fc.nat(3), async ({ seed, gaps, turns }, chosen) => {
        const options: MonitorOptions = { permutations: 9, ...(turns && chosen === 0 ? sampled : optionSets[chosen]) };
        const shapeAt = (at: number): SmallShape => ({
          prompts: 6,
          responses: 4,
          turns,
          excess: 1 - at / gaps.length,
          collapsed: at > gaps.length / 2,
        });
        const steps = gaps.map((_, at) => gaps.slice(0, at + 1).reduce((a, b) => a + b, 0));
        const small = steps.map((step, at) => smallStep(seed + step, shapeAt(at)));
        const whole = new Monitor({ engine, ...options });
        const wanted: string[] = [];
        for (const [at, step] of steps.entries()) wanted.push(await take(whole, step, small[at] as SmallStep));

        // Killed after every single step: each step is another monitor's.
        let state = JSON.stringify(new Monitor({ engine, ...options }).save());
        for (const [at, step] of steps.entries()) {
          const restored = Monitor.restore(JSON.parse(state), { engine });
          expect(JSON.stringify(restored.save())).toBe(state);
          expect(await take(restored, step, small[at] as SmallStep)).toBe(wanted[at]);
          state = JSON.stringify(restored.save());
        }
      }),
      { numRuns: 40 },
    );
  });

  it('goes on from an object too, which later steps do not change', async () => {
    const monitor = new Monitor({ engine, permutations: 9, filter: {} });
    await take(monitor, 1, smallStep(1));
    const state = monitor.save();
    const text = JSON.stringify(state);
    const next = await take(monitor, 2, smallStep(2));
    expect(JSON.stringify(state)).toBe(text);
    expect(await take(Monitor.restore(state, { engine }), 2, smallStep(2))).toBe(next);
    expect(JSON.stringify(state)).toBe(text);
  });

  it('is of one step at any moment, also while a step is being finished', async () => {
    const monitor = new Monitor({ everySteps: 'never' });
    const { labels, outcomes } = smallStep(1);
    const finishing = monitor.step(1, labels).finish(outcomes);
    for (let turn = 0; turn < 20; turn++) {
      const { step, judge } = monitor.save();
      expect(judge?.lastStep).toBe(step);
      await null;
    }
    await finishing;
    expect(monitor.lastStep).toBe(1);
  });

  it('knows the last step', async () => {
    const monitor = new Monitor({ engine, permutations: 9 });
    await take(monitor, 4, smallStep(1));
    const restored = Monitor.restore(monitor.save(), { engine });
    expect(restored.lastStep).toBe(4);
    expect(() => restored.step(4, smallStep(2).labels)).toThrow(ArgumentError);
    expect(Monitor.restore(new Monitor().save()).lastStep).toBeNull();
  });

  it('takes its own options again, however they are written', () => {
    const state = new Monitor({ filter: { value: 0.9 }, sampler: 'turn', seed: 4 }).save();
    const restored = Monitor.restore(state, {
      filter: { dialect: 'strict', strategy: 'top_p', value: 0.9 },
      sampler: [{ seed: 4, kind: 'turn' }],
      seed: 4,
      everySteps: 5,
      earlyStop: { emptyFilter: {} },
      judge: { permutations: 99, seed: 0 },
    });
    expect(restored.save()).toEqual(state);
  });
});

describe('a foreign state', () => {
  let state: Record<string, unknown>;
  beforeAll(async () => {
    const monitor = new Monitor({ engine, permutations: 9, filter: {}, everySteps: 2 });
    await take(monitor, 2, smallStep(1));
    state = JSON.parse(JSON.stringify(monitor.save()));
  });

  const refused = (given: unknown, words: string, options: MonitorOptions = {}): void => {
    const attempt = () => Monitor.restore(given, { engine, ...options });
    expect(attempt).toThrow(StateError);
    expect(attempt).toThrow(words);
  };

  it.each([undefined, null, 3, 'text', [], {}, { format: 'collapsar/judge', version: 1 }])(
    'is refused: %j',
    (given) => {
      refused(given, 'not a saved monitor');
    },
  );

  it('JSON text', () => refused(JSON.stringify(state), 'must be parsed first'));

  it('is refused when of another version', () => refused({ ...state, version: 2 }, 'version 2'));

  it.each<[keyof MonitorOptions, MonitorOptions]>([
    ['everySteps', { everySteps: 3 }],
    ['profile', { profile: 'ragen' }],
    ['filter', { filter: { value: 0.8 } }],
    ['seed', { seed: 1 }],
    ['earlyStop', { earlyStop: false }],
    ['buckets', { buckets: {} }],
    ['judge', { judge: false }],
    ['judge', { judge: { permutations: 98 } }],
    ['negatives', { negatives: 4 }],
    ['permutations', { permutations: 0 }],
  ])('of a run with another option %s', (name, options) => {
    refused(state, `another option ${name}`, options);
  });

  it('with a bad option is a bad argument', () => {
    expect(() => Monitor.restore(state, { everySteps: -3 })).toThrow(ArgumentError);
  });

  it.each<[string, unknown]>([
    ['step', 'two'],
    ['step', -1],
    ['step', undefined],
    ['averages', {}],
    ['averages.averages', true],
    ['averages', { format: 'collapsar/running-state', version: 1, averages: { x: { std: -1 } } }],
    ['earlyStops', null],
    ['earlyStops.emptyFilter', null],
    ['earlyStops.emptyFilter.empty', -3],
    ['earlyStops.success', 7],
    ['judge', null],
    ['judge.steps', 'many'],
    ['judge.lastStep', 1],
    ['options', undefined],
    ['options', {}],
    ['options.everySteps', 0],
    ['options.filter.strategy', 'top_q'],
    ['options.samplers', null],
    ['options.earlyStop.emptyFilter', undefined],
    ['options.earlyStop.emptyFilter.steps', 0],
    ['options.novelty', 1],
  ])('damaged at %s: %j', (path, value) => {
    const damaged = structuredClone(state);
    const names = path.split('.');
    const last = names.pop() as string;
    const holder = names.reduce((object, name) => object[name] as Record<string, unknown>, damaged);
    if (value === undefined) delete holder[last];
    else holder[last] = value;
    expect(() => Monitor.restore(damaged, { engine })).toThrow(StateError);
  });

  it('cut short anywhere, or with any field of another kind, never restores to something else', () => {
    const paths: string[][] = [];
    const walk = (object: unknown, path: string[]): void => {
      if (path.length > 0) paths.push(path);
      if (typeof object !== 'object' || object === null) return;
      for (const name of Object.keys(object)) walk((object as Record<string, unknown>)[name], [...path, name]);
    };
    walk(state, []);
    fc.assert(
      fc.property(fc.constantFrom(...paths), fc.constantFrom('text', true, { x: 1 }), (path, value) => {
        const damaged = structuredClone(state);
        const holder = path.slice(0, -1).reduce((object, name) => object[name] as Record<string, unknown>, damaged);
        holder[path.at(-1) as string] = value;
        let restored: Monitor;
        try {
          restored = Monitor.restore(damaged, { engine });
        } catch (error) {
          expect(error).toBeInstanceOf(StateError);
          return;
        }
        // Some fields may be what was put there (a switch that is a boolean): then that is what was restored.
        expect(JSON.parse(JSON.stringify(restored.save()))).toEqual(damaged);
      }),
      { numRuns: 300 },
    );
  });
});
