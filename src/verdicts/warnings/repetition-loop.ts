// Texts that go round in circles: they repeat their own phrases, or end at the length limit.

import { percent } from '../../checks/numbers.js';
import { fields, kept } from '../../checks/saved.js';
import type { TextMetrics } from '../../metrics/text-metrics.js';
import { RisenLevel, risenLevelShape } from '../levels/risen-level.js';
import type { Finding } from '../verdict.js';

export const repetitionLoopShape = fields({ repetition: risenLevelShape, truncated: risenLevelShape });

/** Repetition: twice its start, and more than this. */
const [REPETITION_TIMES, LEAST_REPETITION] = [2, 0.2];

/** Truncated rows: three times as many as at the start, and more than this share of them. */
const [TRUNCATED_TIMES, LEAST_TRUNCATED] = [3, 0.1];

export class RepetitionLoop extends kept(repetitionLoopShape) {
  readonly #repetition = new RisenLevel(REPETITION_TIMES, LEAST_REPETITION, this.state.repetition);
  readonly #truncated = new RisenLevel(TRUNCATED_TIMES, LEAST_TRUNCATED, this.state.truncated);

  look(step: number, { values, rows }: TextMetrics): Finding | undefined {
    const { repetition, truncated_share: truncated, prompts_used: prompts = 0 } = values;
    if (repetition !== undefined) this.#repetition.add(step, repetition, prompts);
    if (truncated !== undefined) this.#truncated.add(step, truncated, prompts > 0 ? prompts : rows.total);
    const loops = this.#repetition.risenSince;
    const cut = this.#truncated.risenSince;
    if (loops === undefined && cut === undefined) return undefined;
    const [repetitionStart, truncatedStart] = [this.#repetition.level.start, this.#truncated.level.start];
    const parts = [
      loops === undefined || repetition === undefined
        ? ''
        : `${percent(repetition)} of a text repeats its own phrases, ${percent(repetitionStart)} at the start`,
      cut === undefined || truncated === undefined
        ? ''
        : `${percent(truncated)} of the rows are truncated, ${percent(truncatedStart)} at the start`,
    ].filter(Boolean);
    const since = Math.min(loops ?? Number.POSITIVE_INFINITY, cut ?? Number.POSITIVE_INFINITY);
    return {
      kind: 'repetition_loop',
      severity: 'warning',
      since,
      evidence: {
        repetition: repetition ?? null,
        repetitionStart: repetition === undefined ? null : repetitionStart,
        truncatedShare: truncated ?? null,
        truncatedShareStart: truncated === undefined ? null : truncatedStart,
      },
      advice:
        'Read some of the longest texts. A penalty on repeated n-grams or on length, a lower temperature or a higher KL ' +
        'coefficient ends loops; mask truncated rows out of the loss.',
      now: `the figures are these: ${parts.join('; ')}`,
      sentence: `Texts go round in circles: ${parts.join('; ')}; so since step ${since}.`,
    };
  }
}
