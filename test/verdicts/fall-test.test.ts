// The detector of falls against its reference in Python (test/golden/changes.json has what that says).
import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { floorUnder } from '../../src/verdicts/statistics/dependence-scale.js';
import { fallOnset } from '../../src/verdicts/statistics/fall-onset.js';
import { FallTest, meanFactor } from '../../src/verdicts/statistics/fall-test.js';
import golden from '../golden/changes.json' with { type: 'json' };
import { uniformNumbers } from '../support/random-numbers.js';

/** As the reference writes infinity. */
const promptsOf = (k: number | string | null): number => (typeof k === 'number' ? k : Number.POSITIVE_INFINITY);

const close = (found: number, wanted: number, what: string): void => {
  expect(Math.abs(found - wanted), `${what}: ${found}, ${wanted}`).toBeLessThanOrEqual(
    1e-9 * Math.max(1e-300, Math.abs(wanted)),
  );
};

describe('the scale of falls', () => {
  it('has the floors and slopes of the reference', () => {
    for (const [level, k, lost, at, slope] of golden.functions.floor_of as [
      number,
      number | string,
      number,
      number,
      number,
    ][]) {
      const floor = floorUnder(level, promptsOf(k), lost);
      close(floor.at, at, `floor ${level} ${k}`);
      close(floor.slope, slope, `slope ${level} ${k}`);
    }
  });

  it('takes the mean of correlated steps to vary as the reference does', () => {
    for (const [steps, factor] of Object.entries(golden.functions.mean_factor)) {
      expect(meanFactor(Number(steps))).toBeCloseTo(factor, 13);
    }
  });
});

describe('the test of falls', () => {
  it.each(golden.cases.map((one) => [one.name, one] as const))(
    'says of %s what the reference says, at each step',
    (_, one) => {
      const k = promptsOf(one.k);
      const test = new FallTest(k);
      const said = { info: [] as number[], sure: [] as number[] };
      one.I.forEach((value, at) => {
        test.add(at + 1, value, one.se[at] as number, one.prompts[at] as number);
        if (test.fall(0.1) !== undefined) said.info.push(at + 1);
        if (test.fall(0.25) !== undefined) said.sure.push(at + 1);
      });
      expect(said.info).toEqual(one.holds_at.info);
      expect(said.sure).toEqual(one.holds_at.sure);
      const [tenth, quarter] = [test.windows(0.1), test.windows(0.25)];
      expect(tenth.map(({ window }) => window)).toEqual(one.last_step.map(({ window }) => window));
      one.last_step.forEach((wanted, at) => {
        close(tenth[at]?.before as number, wanted.p_before, `${wanted.window} before`);
        close(tenth[at]?.start as number, wanted.p_start, `${wanted.window} start`);
        close(quarter[at]?.before as number, wanted.p_quarter_before, `${wanted.window} quarter before`);
        close(quarter[at]?.start as number, wanted.p_quarter_start, `${wanted.window} quarter start`);
      });
      if (!('since' in one)) return;
      const { since } = one as unknown as {
        since: Record<'c2' | 'at' | 'low' | 'high' | 'lost' | 'lost_low' | 'lost_high', number>;
      };
      const until = Math.min(...[...said.info, ...said.sure]);
      const onset = fallOnset(one.I.slice(0, until), k, since.c2);
      expect([onset.at, onset.low, onset.high].map((place) => place + 1)).toEqual([since.at, since.low, since.high]);
      close(onset.lost, since.lost, 'lost');
      close(onset.lostLow, since.lost_low, 'lost, low');
      close(onset.lostHigh, since.lost_high, 'lost, high');
    },
  );
});

interface Run {
  /** Prompts that the figure is among; null: not known. */
  k: number | null;
  I: number[];
  se: number[];
  prompts: number[];
}

/** Level, fall, ceiling, wander and errors that vary, all of them by chance. */
function simulated(seed: number): Run {
  const uniform = uniformNumbers(seed);
  const bell = (): number => Math.sqrt(-2 * Math.log(1 - uniform())) * Math.cos(2 * Math.PI * uniform());
  const k = [null, 2, 8, 16, 64][seed % 5] ?? null;
  const steps = 20 + Math.floor(90 * uniform());
  const [at, lost, span] = [
    2 + Math.floor(steps * uniform()),
    uniform() < 0.3 ? 0 : uniform(),
    1 + Math.floor(12 * uniform()),
  ];
  const [top, spread, memory] = [
    k === null ? 1.5 : Math.log(k) * (0.3 + 0.65 * uniform()),
    0.02 + 0.15 * uniform(),
    0.7 * uniform(),
  ];
  const run: Run = { k, I: [], se: [], prompts: [] };
  let wander = bell();
  for (let step = 0; step < steps; step++) {
    wander = memory * wander + Math.sqrt(1 - memory ** 2) * bell();
    const level = top * (1 - lost * Math.min(1, Math.max(0, (step - at + 1) / span)));
    const value = level + spread * top * wander;
    run.I.push(k === null ? value : Math.min(value, Math.log(k) - 1e-4));
    run.se.push(spread * top * (0.4 + uniform()));
    run.prompts.push(k === 2 ? 4 + Math.floor(40 * uniform()) : (k ?? 16));
  }
  return run;
}

interface Answer {
  holds: { info: number[]; sure: number[] };
  windows: Record<string, { info: [number, number]; sure: [number, number] }>;
  since: [at: number, low: number, high: number, lost: number, lostLow: number, lostHigh: number];
}

const RUNS = Array.from({ length: 16 }, (_, seed) => simulated(seed + 1));

/** Of the reference where Python has numpy and scipy; else what it answered before. */
function answers(): Answer[] {
  const file = fileURLToPath(new URL('../golden/changes-simulated.json', import.meta.url));
  const python = process.env.COLLAPSAR_PYTHON ?? 'python3';
  const script = fileURLToPath(new URL('../golden/changes_answers.py', import.meta.url));
  const asked = spawnSync(python, [script], { input: JSON.stringify(RUNS), encoding: 'utf8', maxBuffer: 2 ** 26 });
  if (asked.status !== 0) return JSON.parse(readFileSync(file, 'utf8'));
  if (process.env.COLLAPSAR_STORE_ANSWERS === '1') writeFileSync(file, `${asked.stdout}\n`);
  return JSON.parse(asked.stdout);
}

describe('the test of falls on simulated runs', () => {
  it('says what the reference says, at each step', () => {
    const found = { info: 0, sure: 0 };
    for (const [at, answer] of answers().entries()) {
      const run = RUNS[at] as Run;
      const test = new FallTest(promptsOf(run.k));
      const holds = { info: [] as number[], sure: [] as number[] };
      run.I.forEach((value, step) => {
        test.add(step + 1, value, run.se[step] as number, run.prompts[step] as number);
        if (test.fall(0.1) !== undefined) holds.info.push(step + 1);
        if (test.fall(0.25) !== undefined) holds.sure.push(step + 1);
        // A saved test goes on to the bit.
        if (step % 7 !== 0) return;
        const later = new FallTest(test.among, JSON.parse(JSON.stringify(test)));
        expect(later.windows(0.1)).toEqual(test.windows(0.1));
        expect(later.toJSON()).toEqual(test.toJSON());
      });
      expect(holds, `run ${at}`).toEqual(answer.holds);
      if (holds.info.length > 0) found.info++;
      if (holds.sure.length > 0) found.sure++;
      for (const [tier, lost] of [
        ['info', 0.1],
        ['sure', 0.25],
      ] as const) {
        for (const { window, before, start } of test.windows(lost)) {
          const [wantedBefore, wantedStart] = (answer.windows[window] as Answer['windows'][string])[tier];
          close(before, wantedBefore, `run ${at}, ${window} before`);
          close(start, wantedStart, `run ${at}, ${window} start`);
        }
      }
      const onset = fallOnset(
        test.recent.map(({ value }) => value),
        test.among,
        test.dispersion,
      );
      expect([onset.at, onset.low, onset.high], `run ${at}`).toEqual(answer.since.slice(0, 3));
      for (const [place, share] of [onset.lost, onset.lostLow, onset.lostHigh].entries()) {
        expect(share).toBeCloseTo(answer.since[3 + place] as number, 9);
      }
    }
    // It does say something, and does not always.
    expect(found.info).toBeGreaterThan(4);
    expect(found.sure).toBeGreaterThan(2);
    expect(found.info).toBeLessThan(RUNS.length - 4);
  }, 240_000);
});
