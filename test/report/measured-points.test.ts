import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { lastMeasured, measuredPoints } from '../../src/report/charts/measured-points.js';
import { ReportCollection } from '../../src/report/collect/report-collection.js';
import type { RunData } from '../../src/report/report.js';
import type { StepRecord } from '../../src/step/step-record.js';

const MI = 'collapse_first_turn_sample/mi_seq_estimate';
const REWARD = 'rollout/in_group_reward_mean';

type Given = 'none' | 'measured' | 'without MI';

function runOf(given: readonly Given[]): RunData {
  const collection = new ReportCollection({ version: '', settings: {}, command: '' });
  given.forEach((kind, at) => {
    const figures = kind === 'none' ? {} : { [MI]: kind === 'measured' ? at : null };
    collection.add({ file: 'r/step', run: 'r', step: 10 * at, [REWARD]: at, ...figures } as StepRecord);
  });
  return collection.report().runs[0] as RunData;
}

describe('measuredPoints', () => {
  it('leaves out steps between those that were scored, keeps gaps, and keeps rewards of every step', () => {
    const kind = fc.constantFrom<Given>('none', 'measured', 'without MI');
    fc.assert(
      fc.property(fc.array(kind, { maxLength: 30 }), (later) => {
        // What was measured at first says by which figures a run is known.
        const given: Given[] = ['measured', ...later];
        const run = runOf(given);
        const places = [...given.keys()].filter((at) => given[at] !== 'none');
        const { steps, values } = measuredPoints(run, 'mi');
        expect(Array.from(steps)).toEqual(places.map((at) => 10 * at));
        expect(Array.from(values)).toEqual(places.map((at) => (given[at] === 'measured' ? at : Number.NaN)));
        expect(Array.from(measuredPoints(run, 'reward').values)).toEqual([...given.keys()]);
        expect(lastMeasured(run)).toBe(places.at(-1));
      }),
    );
  });

  it('takes a run without a mark for one that is measured at every step', () => {
    const run = runOf(['measured', 'without MI', 'measured']);
    expect(run.figures.measured).toBeUndefined();
    expect(measuredPoints(run, 'mi').steps).toBe(run.steps);
    expect(lastMeasured({ steps: new Float64Array(), figures: {} })).toBe(-1);
  });
});
