// Figures of one environment at a step, small enough to keep, and how those of several make the level of the run.
import { count, fields, nullable, number, type Shaped } from '../../checks/saved.js';
import type { DependenceAmong } from '../levels/comparable-dependence.js';
import type { Instrument } from '../levels/instrument.js';
import type { Estimate, StepLevels } from '../levels/step-levels.js';

const estimateShape = fields({ value: number, low: number, high: number, error: number });

const figureShape = fields({ value: number, error: number });

export const environmentStepShape = fields({
  prompts: count,
  rows: count,
  /** I(X;Z) among two prompts; null if there are only texts. */
  two: nullable(estimateShape),
  /** I(X;Z) among all of the environment's prompts. */
  all: estimateShape,
  /** The same two with standard errors over prompts, if known: they decide whether a fall is certain. */
  ofPrompts: fields({ pairs: nullable(figureShape), whole: nullable(figureShape) }),
  margin: nullable(estimateShape),
  entropy: number,
  tokens: nullable(number),
  retrieval: nullable(number),
  chance: nullable(number),
  pValue: nullable(number),
  retrievalP: nullable(number),
});
export type EnvironmentStep = Shaped<typeof environmentStepShape>;

export function environmentStep(levels: StepLevels): EnvironmentStep {
  const { prompts, rows, mi, whole, margin, entropy, tokens, retrieval, chance, pValue, retrievalP } = levels;
  const { instrument, dependence } = levels;
  const isScored = instrument.source === 'scores';
  const two = isScored ? mi.find((at) => at.prompts === 2) : undefined;
  const last = mi.at(-1);
  // If columns repeat unevenly, `whole` belongs to no number of prompts.
  const all = isScored && last?.prompts === prompts ? last : whole;
  return {
    prompts,
    rows,
    two: two === undefined ? null : estimate(two),
    all: estimate(all),
    // Two prompts cannot be left out in turn; the error for these very prompts is about the scatter of steps, too.
    ofPrompts:
      isScored && prompts === 2
        ? { pairs: figureOf(all), whole: figureOf(all) }
        : {
            pairs: dependence.pairs && figureOf(dependence.pairs),
            whole: dependence.whole && figureOf(dependence.whole),
          },
    margin: margin && estimate(margin),
    entropy,
    tokens,
    retrieval,
    chance,
    pValue,
    retrievalP,
  };
}

function figureOf({ value, error }: Pick<DependenceAmong, 'value' | 'error'>): Shaped<typeof figureShape> {
  return { value, error };
}

function estimate({ value, low, high, error }: Estimate): Estimate {
  return { value, low, high, error };
}

/** The same bound, were it of another number of prompts: scaled as its ceiling is. */
export function scaledTo(prompts: number, { all, prompts: own }: EnvironmentStep): Estimate {
  const scale = own === prompts ? 1 : Math.log(prompts) / Math.log(own);
  return { value: scale * all.value, low: scale * all.low, high: scale * all.high, error: scale * all.error };
}

/** Sentences of a run of several environments speak of what tells prompts of one environment apart. */
export function withinEnvironments(instrument: Instrument): Instrument {
  return { ...instrument, mi: `${instrument.mi} within environments` };
}
