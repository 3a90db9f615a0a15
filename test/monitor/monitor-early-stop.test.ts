// The early-stop rules: each against a plain reading of its definition, and saved at any step.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ArgumentError, StateError } from '../../src/checks/errors.js';
import {
  type EarlyStopOptions,
  EarlyStops,
  earlyStopsShape,
  type ResolvedEarlyStop,
  resolveEarlyStop,
  type StopEvidence,
} from '../../src/verdicts/early-stop/early-stops.js';

const start = (options: EarlyStopOptions | false = {}) => EarlyStops.start(resolveEarlyStop(options));

function run(evidence: readonly StopEvidence[], options: EarlyStopOptions | false = {}): EarlyStops {
  return evidence.reduce((rules, seen, at) => rules.after(at + 1, seen), start(options));
}

/** As a monitor restores them. */
const restored = (saved: unknown, options: ResolvedEarlyStop) =>
  EarlyStops.start(options, earlyStopsShape(options)(saved));

const reasons = (rules: EarlyStops): string[] => rules.stops.map(({ reason }) => reason);
const std = (meanRewardStd: number, filterEmpty = false): StopEvidence => ({ meanRewardStd, filterEmpty });
const times = <T>(count: number, value: T): T[] => Array.from({ length: count }, () => value);

describe('reward variance', () => {
  it('stops at the tenth kept step below a tenth of the mean of the first ten', () => {
    const before = [...times(10, std(1)), ...times(9, std(0.099))];
    expect(reasons(run(before))).toEqual([]);
    const [stop] = run([...before, std(0.099)]).stops;
    expect(stop).toMatchObject({ reason: 'reward_variance_collapse', since: 11 });
    expect(stop?.sentence).toContain(
      'below 10% of its start for 10 kept steps, since step 11 (now 0.0990, at the start 1.00)',
    );
  });

  it('does not count a step that is just at the threshold', () => {
    expect(reasons(run([...times(10, std(1)), ...times(30, std(0.1))]))).toEqual([]);
  });

  it('is not reset by steps of which the filter leaves nothing, nor counts them', () => {
    const low = std(0.01);
    const empty = std(0.01, true);
    const rule: EarlyStopOptions = { emptyFilter: false };
    expect(reasons(run([...times(10, std(1)), ...times(5, low), ...times(50, empty), ...times(4, low)], rule))).toEqual(
      [],
    );
    const all = run([...times(10, std(1)), ...times(5, low), ...times(50, empty), ...times(5, low)], rule);
    expect(all.stops[0]).toMatchObject({ reason: 'reward_variance_collapse', since: 11 });
  });

  it('takes the paper’s five, and ends with the stretch', () => {
    const options = { rewardVariance: { consecutive: 5 } };
    const low = [...times(10, std(1)), ...times(5, std(0.01))];
    expect(reasons(run(low, options))).toEqual(['reward_variance_collapse']);
    expect(reasons(run([...low, std(0.5)], options))).toEqual([]);
    expect(reasons(run(low))).toEqual([]);
  });

  it('never fires where there was nothing to fall from', () => {
    expect(reasons(run(times(100, std(0))))).toEqual([]);
  });

  it('equals the definition on any run', () => {
    const runs = fc.array(fc.record({ value: fc.constantFrom(0, 0.04, 0.06, 0.5, 1), empty: fc.boolean() }), {
      maxLength: 60,
    });
    const options = { rewardVariance: { startSteps: 3, consecutive: 4 }, emptyFilter: false } as const;
    fc.assert(
      fc.property(runs, (steps) => {
        const kept = steps.flatMap(({ value, empty }, at) => (empty ? [] : [{ value, step: at + 1 }]));
        const base = kept.slice(0, 3).reduce((sum, { value }) => sum + value, 0) / 3;
        const stretch = kept
          .slice(3)
          .reduceRight<{ steps: number[]; open: boolean }>(
            ({ steps: found, open }, { value, step }) =>
              open && value < 0.1 * base ? { steps: [step, ...found], open } : { steps: found, open: false },
            { steps: [], open: true },
          ).steps;
        const rules = run(
          steps.map(({ value, empty }) => std(value, empty)),
          options,
        );
        expect(rules.stops.map(({ since }) => since)).toEqual(stretch.length >= 4 ? [stretch[0]] : []);
      }),
    );
  });
});

describe('success', () => {
  const success = (rates: Record<string, number>): StopEvidence => ({ success: rates });

  it('stops at the fifth validation in a row below 1%, task by task', () => {
    const low = times(4, success({ sokoban: 0.009, lake: 0.5 }));
    expect(reasons(run(low))).toEqual([]);
    // Steps without a validation change nothing.
    const [stop] = run([...low, {}, success({ sokoban: 0, lake: 0.5 })]).stops;
    expect(stop).toMatchObject({ reason: 'low_validation_success', since: 1 });
    expect(stop?.sentence).toContain('on sokoban has been below 1% for 5 validations, since step 1');
    const once = start({ success: { validations: 1 } }).after(3, success({ '': 0 }));
    expect(once.stops[0]?.sentence).toContain('has been below 1% for 1 validation, since step 3');
    expect(reasons(run([...low, success({ sokoban: 0.01, lake: 0.5 }), ...times(4, success({ sokoban: 0 }))]))).toEqual(
      [],
    );
  });

  it('speaks of the longest stretch, whatever the tasks are called', () => {
    const rules = run([success({ b: 0, 1: 1 }), ...times(5, success({ b: 0, 1: 0 }))]);
    expect(rules.stops[0]?.sentence).toContain('on b ');
  });
});

describe('empty filter', () => {
  it('stops at the tenth empty step in a row', () => {
    const empty: StopEvidence = { filterEmpty: true };
    expect(reasons(run(times(9, empty)))).toEqual([]);
    const rules = run([{ filterEmpty: false }, ...times(10, empty)]);
    expect(rules.stops[0]).toMatchObject({ reason: 'empty_filtered_steps', since: 2 });
    expect(rules.consecutiveEmpty).toBe(10);
    expect(reasons(run([...times(9, empty), { filterEmpty: false }, empty]))).toEqual([]);
  });
});

describe('early stops together', () => {
  it('can each be turned off', () => {
    const everything = times(40, { meanRewardStd: 0, filterEmpty: true, success: { '': 0 } });
    expect(reasons(run(everything))).toEqual(['empty_filtered_steps', 'low_validation_success']);
    expect(reasons(run(everything, { emptyFilter: false }))).toEqual(['low_validation_success']);
    expect(reasons(run(everything, false))).toEqual([]);
  });

  it('continue from JSON as if nothing had been', () => {
    const evidence = fc.array(
      fc.record({
        meanRewardStd: fc.constantFrom(undefined, 0.001, 0.3, 1 / 3),
        filterEmpty: fc.constantFrom(undefined, true, false),
        success: fc.constantFrom(undefined, { '': 0 }, { z: 0, 7: 0.002, __proto__: 0 }, { z: 0.5 }),
      }),
      { maxLength: 40 },
    );
    const options = resolveEarlyStop({
      rewardVariance: { startSteps: 2, consecutive: 2 },
      success: { validations: 2 },
      emptyFilter: { steps: 2 },
    });
    fc.assert(
      fc.property(evidence, fc.nat(40), (steps, cut) => {
        const told = (rules: EarlyStops) => JSON.stringify([rules, rules.stops, rules.consecutiveEmpty]);
        let whole = EarlyStops.start(options);
        let halved = EarlyStops.start(options);
        steps.forEach((seen, at) => {
          if (at === cut) {
            halved = restored(JSON.parse(JSON.stringify(halved)), options);
          }
          whole = whole.after(at + 1, seen);
          halved = halved.after(at + 1, seen);
          expect(told(halved)).toBe(told(whole));
        });
      }),
    );
  });

  it('leaves the rules before a step as they were', () => {
    const before = run(times(9, { filterEmpty: true }));
    const saved = JSON.stringify(before);
    before.after(10, { filterEmpty: true });
    expect(JSON.stringify(before)).toBe(saved);
  });

  it.each([
    [{ rewardVariance: { below: 0 } }, 'options.earlyStop.rewardVariance.below'],
    [{ rewardVariance: { below: 1.5 } }, 'options.earlyStop.rewardVariance.below'],
    [{ rewardVariance: { startSteps: 0 } }, 'options.earlyStop.rewardVariance.startSteps'],
    [{ rewardVariance: { consecutive: 2.5 } }, 'options.earlyStop.rewardVariance.consecutive'],
    [{ rewardVariance: true }, 'options.earlyStop.rewardVariance'],
    [{ success: { below: Number.NaN } }, 'options.earlyStop.success.below'],
    [{ success: { validations: -1 } }, 'options.earlyStop.success.validations'],
    [{ emptyFilter: { steps: '3' } }, 'options.earlyStop.emptyFilter.steps'],
    [{ emptyFilter: { step: 3 } }, 'options.earlyStop.emptyFilter.step'],
    [{ variance: false }, 'options.earlyStop.variance'],
    ['off', 'options.earlyStop'],
  ])('refuses %j', (options, argument) => {
    const attempt = () => resolveEarlyStop(options as EarlyStopOptions);
    expect(attempt).toThrow(ArgumentError);
    expect(attempt).toThrow(expect.objectContaining({ argument }));
  });

  it.each([
    [{ rewardVariance: { low: -1 } }, 'rewardVariance.low'],
    [{ rewardVariance: { startSteps: 11 } }, 'rewardVariance.startSteps'],
    [{ rewardVariance: { startSum: null } }, 'rewardVariance.startSum'],
    [{ emptyFilter: { since: 'two' } }, 'emptyFilter.since'],
    [{ success: { task: { low: 1.5, since: 1 } } }, 'success.task.low'],
    [{ success: { task: 3 } }, 'success.task'],
  ])('refuses the damaged state %j', (damage: Record<string, object>, path) => {
    const options = resolveEarlyStop({});
    const saved = JSON.parse(JSON.stringify(run(times(3, { meanRewardStd: 1, filterEmpty: true, success: { a: 0 } }))));
    for (const [rule, fields] of Object.entries(damage)) Object.assign(saved[rule], fields);
    const attempt = () => restored(saved, options);
    expect(attempt).toThrow(StateError);
    expect(attempt).toThrow(path);
  });
});
