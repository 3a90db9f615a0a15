// Judges whole runs by the logs that their trainers wrote, without cross-scores: no wrong alarm, and no late one. The
// runs of TRL have the steps whose cross-scores are here too; all of their steps, and the log of verl, are read in a
// folder `shared` beside this checkout.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { analyze, type Engine, openEngine, type Severity, type VerdictKind } from '../../src/index.js';
import { trlRuns } from '../support/analysis-logs.js';

const root = fileURLToPath(new URL('../../', import.meta.url));
const steps = trlRuns();
const logs = join(root, 'test/data/trl-completions');
const shared = ['shared', '../shared', '../../shared'].map((folder) => join(root, folder, 'data')).find(existsSync);
const verl = join(shared ?? '', 'gsm-verl');
const whole = join(shared ?? '', 'trl-runs');

let engine: Engine;
beforeAll(async () => {
  engine = await openEngine();
});
afterAll(() => engine.dispose());

interface Alarm {
  readonly step: number;
  readonly kind: VerdictKind;
  readonly severity: Severity;
}

/** Alarms by the step at which they are raised, or become critical. */
async function alarmsOf(source: string): Promise<Alarm[]> {
  const alarms: Alarm[] = [];
  for await (const { step, judgement } of analyze(source, { engine, permutations: 199 })) {
    for (const { kind, severity } of judgement?.verdicts ?? []) {
      const isKnown = alarms.some((one) => one.kind === kind && one.severity === severity);
      if (severity !== 'info' && !isKnown) alarms.push({ step, kind, severity });
    }
  }
  return alarms;
}

const firstOf = async (source: string): Promise<number> => (await alarmsOf(source))[0]?.step ?? Infinity;

describe("TRL's completions", () => {
  it.each(['falling', 'collapse'])('of %s are warned of no later than its cross-scores', async (run) => {
    const log = run === 'falling' ? join(root, 'examples/rollouts/trl-falling') : join(logs, `${run}.parquet`);
    const fromScores = await firstOf(join(steps, run));
    expect(fromScores).toBeLessThanOrEqual(60);
    expect(await firstOf(log)).toBeLessThanOrEqual(fromScores);
  });

  it('of filtered are warned of, with every fifth step all there is', async () => {
    expect(await firstOf(join(logs, 'filtered.parquet'))).toBeLessThanOrEqual(60);
  });

  it('of steady are warned of never', async () => {
    expect(await alarmsOf(join(logs, 'steady.parquet'))).toEqual([]);
  });
});

describe.skipIf(!existsSync(whole))("all of TRL's completions (trl-runs)", () => {
  it.each(['falling', 'collapse', 'filtered'])('of %s are warned of no later than its cross-scores', async (run) => {
    expect(await firstOf(join(whole, run, 'completions'))).toBeLessThanOrEqual(
      await firstOf(join(whole, run, 'steps')),
    );
  });

  it('of steady are warned of never', async () => {
    expect(await alarmsOf(join(whole, 'steady', 'completions'))).toEqual([]);
  });
});

describe.skipIf(!existsSync(verl))("verl's log of real solutions (gsm-verl)", () => {
  it('is warned of by step 10 and critical by step 14 where answers drift to other questions', async () => {
    const alarms = await alarmsOf(join(verl, 'drift'));
    expect(alarms[0]?.step).toBeLessThanOrEqual(10);
    // No answer has moved before step 7.
    expect(alarms[0]?.step).toBeGreaterThanOrEqual(7);
    const critical = alarms.find(({ severity }) => severity === 'critical');
    expect(critical).toMatchObject({ kind: 'template_collapse' });
    expect(critical?.step).toBeLessThanOrEqual(14);
  });

  it('is warned of never where they do not', async () => {
    expect(await alarmsOf(join(verl, 'steady'))).toEqual([]);
  });
});
