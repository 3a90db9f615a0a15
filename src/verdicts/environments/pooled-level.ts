// Pools the figures of environments into the level of a run: I(X;Z) within environments, weighted as in the run's first
// steps so that a changing mixture is not a fall. Environments in a step are compared with their own start.
import { count, fields, kept, list, nullable, number, type Shaped, text } from '../../checks/saved.js';
import { dependenceAmong } from '../levels/comparable-dependence.js';
import type { Instrument } from '../levels/instrument.js';
import { mean, START_STEPS } from '../levels/run-level.js';
import type { Estimate, MiAt, StepLevels } from '../levels/step-levels.js';
import { amongPrompts } from '../statistics/dependence-scale.js';
import { fixedExp, fixedLog } from '../statistics/fixed-math.js';
import { studentWidth } from '../statistics/shared-level.js';
import { normalTail } from '../statistics/tail-probabilities.js';
import { FALLEN, WIDTH_95 } from '../statistics/threshold-state.js';
import { type EnvironmentStep, environmentStepShape, scaledTo, withinEnvironments } from './environment-step.js';

/** A step is compared where environments that make this part of the start's level are in it. */
const LEAST_SHARE = 0.1;

/** Latest steps of an environment that its posterior may rest on. */
const RECENT_STEPS = 4;

/** A start with the error that it is known to. */
const startShape = fields({ value: number, error: number });
type Start = Shaped<typeof startShape>;

const referenceShape = list(
  fields({
    name: text,
    /** Share of the prompts of the first steps. */
    weight: number,
    /** Prompts in every first step, of texts the most; null if scores have now more, now fewer. */
    prompts: nullable(count),
    two: nullable(startShape),
    all: startShape,
    margin: nullable(number),
    entropy: number,
    tokens: nullable(number),
  }),
);
type Reference = Shaped<typeof referenceShape>;

export const pooledLevelShape = fields({
  /** The first steps, until there are enough of them; later, steps in succession that cannot be compared with these. */
  waiting: list(
    fields({ step: count, environments: list(fields({ name: text, figures: environmentStepShape })) }),
    START_STEPS,
  ),
  reference: nullable(referenceShape),
  /** Shares of their start that environments had in their latest steps, oldest first. */
  recent: list(fields({ name: text, shares: list(fields({ value: number, error: number }), RECENT_STEPS) })),
});

/** A step of the run as a whole, in the form in which one batch is judged. */
export interface PooledStep {
  readonly step: number;
  readonly levels: StepLevels | string;
}

/** What can be judged with a step. */
export interface PooledSteps {
  readonly steps: readonly PooledStep[];
  /** Of a run that has a start already: these are a new one, as too little of the old one is left. */
  readonly isNewStart: boolean;
}

export class PooledLevel extends kept(pooledLevelShape) {
  /** The environments of the start. */
  get names(): string[] {
    return (this.state.reference ?? []).map(({ name }) => name);
  }

  /**
   * Takes in a step.
   * @returns none of the first steps can be judged before they are complete, then all of them. So it is when a curriculum
   *   has replaced them: as many steps in succession that make too little of the start are a new one
   */
  add(step: number, environments: ReadonlyMap<string, EnvironmentStep>, instrument: Instrument): PooledSteps {
    const hasStart = this.state.reference !== null;
    const now: PooledStep[] = [];
    if (hasStart) {
      this.#note(environments);
      const levels = this.#levels(environments, instrument);
      now.push({ step, levels });
      if (typeof levels !== 'string') {
        this.state.waiting = [];
        return { steps: now, isNewStart: false };
      }
    }
    this.state.waiting.push({ step, environments: [...environments].map(([name, figures]) => ({ name, figures })) });
    if (this.state.waiting.length < START_STEPS) return { steps: now, isNewStart: false };
    const waiting = this.state.waiting;
    this.state.waiting = [];
    this.state.reference = referenceOf(waiting, instrument);
    this.state.recent = [];
    const steps = waiting.map(({ step, environments }) => {
      const named = new Map(environments.map(({ name, figures }) => [name, figures]));
      return { step, levels: this.#levels(named, instrument) };
    });
    return { steps, isNewStart: hasStart };
  }

  /** Takes note of the share of its start that each environment of a step has. */
  #note(environments: ReadonlyMap<string, EnvironmentStep>): void {
    for (const start of this.state.reference ?? []) {
      const figures = environments.get(start.name);
      if (figures === undefined) continue;
      const { from, now } = comparable(start, figures);
      // A start that cannot be distinguished from zero has no half.
      if (from === null || now === null || from.value <= WIDTH_95 * from.error) continue;
      const { recent } = this.state;
      const known = recent.find(({ name }) => name === start.name);
      // Half of the start is known only to its own error.
      const error = Math.hypot(now.error, from.error / 2) / from.value;
      const share = { value: now.value / from.value, error };
      if (known === undefined) recent.push({ name: start.name, shares: [share] });
      else known.shares = [...known.shares, share].slice(-RECENT_STEPS);
    }
  }

  /**
   * The environments that have lost half of their start, each with a posterior probability of at least `least` (flat
   * prior, normal errors) given its latest steps, of those numbers of them that say most.
   */
  halved(least: number): string[] {
    const found: string[] = [];
    for (const { name, shares } of this.state.recent) {
      let most = 0;
      let [sum, squares] = [0, 0];
      for (const [before, { value, error }] of shares.toReversed().entries()) {
        sum += value;
        squares += error ** 2;
        const steps = before + 1;
        const gap = FALLEN - sum / steps;
        const spread = Math.sqrt(squares) / steps;
        most = Math.max(most, spread > 0 ? 1 - normalTail(gap / spread) : Number(gap > 0));
      }
      if (most >= least) found.push(name);
    }
    return found;
  }

  #levels(environments: ReadonlyMap<string, EnvironmentStep>, instrument: Instrument): StepLevels | string {
    const reference = this.state.reference as Reference;
    const present = reference.flatMap((start) => {
      const figures = environments.get(start.name);
      return figures === undefined ? [] : [{ start, figures }];
    });
    if (present.length === 0) return "the step has none of the environments of the run's first steps";
    const isScored = instrument.source === 'scores';
    const isSame = present.every(({ start, figures }) => !isScored || start.prompts === figures.prompts);
    const isKnown = reference.every(({ prompts }) => prompts !== null);
    const all = isSame && isKnown ? combined(present, reference, ({ all }) => all.value, ofAll) : null;
    const two = combined(
      present,
      reference,
      ({ two }) => two?.value ?? null,
      ({ figures }) => figures.two,
    );
    const whole = isScored ? (all ?? two) : all && studentised(all, present);
    if (whole === null) return "the environments of the step make too little of the run's start to be compared with it";
    const promptsOf = (some: readonly { readonly prompts: number | null }[]): number =>
      some.reduce((sum, { prompts }) => sum + (prompts ?? 0), 0);
    const figures = present.map(({ figures }) => figures);
    const mi: MiAt[] = [];
    if (two !== null) mi.push({ prompts: 2, ...two });
    if (all !== null) mi.push({ prompts: promptsOf(reference), ...(isScored ? all : whole) });
    const plain = (value: number): Estimate => ({ value, low: value, high: value, error: 0 });
    const entropy = combined(
      present,
      reference,
      ({ entropy }) => entropy,
      ({ figures }) => plain(figures.entropy),
    );
    const tokens = combined(
      present,
      reference,
      ({ tokens }) => tokens,
      ({ figures }) => (figures.tokens === null ? null : plain(figures.tokens)),
    );
    const known = (figure: { value: number; error: number } | null): Estimate | null =>
      figure && { ...plain(figure.value), error: figure.error };
    const byPrompts = {
      pairs: combined(
        present,
        reference,
        ({ two }) => two?.value ?? null,
        ({ figures }) => known(figures.ofPrompts.pairs),
      ),
      whole:
        all &&
        combined(
          present,
          reference,
          ({ all }) => all.value,
          ({ start, figures: { ofPrompts, prompts } }) =>
            known(ofPrompts.whole && amongPrompts(ofPrompts.whole, prompts, start.prompts ?? prompts)),
        ),
    };
    const p = fisher(figures.map(({ pValue }) => pValue));
    return {
      instrument: withinEnvironments(instrument),
      mi,
      whole,
      dependence: {
        pairs: byPrompts.pairs && dependenceAmong(byPrompts.pairs.value, byPrompts.pairs.error, 2),
        whole: byPrompts.whole && dependenceAmong(byPrompts.whole.value, byPrompts.whole.error, ceilingOf(reference)),
        // Each environment has a mean of its own.
        prompts: promptsOf(figures) - figures.length + 1,
      },
      margin: combined(
        present,
        reference,
        ({ margin }) => margin,
        ({ figures }) => figures.margin,
      ),
      entropy: (entropy as Estimate).value,
      tokens: tokens && tokens.value > 0 ? tokens.value : null,
      prompts: promptsOf(figures),
      rows: figures.reduce((sum, { rows }) => sum + rows, 0),
      retrieval: shareOf(present, ({ retrieval }) => retrieval),
      chance: shareOf(present, ({ chance }) => chance),
      pValue: p,
      retrievalP: isScored ? fisher(figures.map(({ retrievalP }) => retrievalP)) : p,
    };
  }
}

/** The weighted mean of the environments' I(X;Z) is at most ln of this. */
function ceilingOf(reference: Reference): number {
  const total = reference.reduce((sum, { weight }) => sum + weight, 0);
  return fixedExp(reference.reduce((sum, { weight, prompts }) => sum + weight * fixedLog(prompts ?? 2), 0) / total);
}

interface Present {
  readonly start: Reference[number];
  readonly figures: EnvironmentStep;
}

const ofAll = ({ start, figures }: Present): Estimate =>
  start.prompts === null ? figures.all : scaledTo(start.prompts, figures);

/** Start and present value among as many prompts. */
function comparable(start: Reference[number], figures: EnvironmentStep): { from: Start | null; now: Estimate | null } {
  if (figures.two === null || start.prompts === figures.prompts)
    return { from: start.all, now: ofAll({ start, figures }) };
  return { from: start.two, now: figures.two };
}

function referenceOf(waiting: Shaped<typeof pooledLevelShape>['waiting'], { source }: Instrument): Reference {
  const steps = new Map<string, EnvironmentStep[]>();
  for (const { environments } of waiting) {
    for (const { name, figures } of environments) steps.set(name, [...(steps.get(name) ?? []), figures]);
  }
  const prompts = (some: readonly EnvironmentStep[]): number => some.reduce((sum, one) => sum + one.prompts, 0);
  const total = prompts([...steps.values()].flat());
  return [...steps].map(([name, some]) => {
    const most = Math.max(...some.map((one) => one.prompts));
    const isSteady = some.every((one) => one.prompts === most);
    const known = <Key extends 'margin' | 'tokens'>(
      key: Key,
      value: (of: NonNullable<EnvironmentStep[Key]>) => number,
    ) =>
      some.every((one) => one[key] !== null)
        ? mean(some.map((one) => value(one[key] as NonNullable<EnvironmentStep[Key]>)))
        : null;
    return {
      name,
      weight: prompts(some) / total,
      prompts: source === 'texts' || isSteady ? most : null,
      two: some.every(({ two }) => two !== null) ? startOf(some.map(({ two }) => two as Estimate)) : null,
      all: startOf(some.map((one) => (source === 'texts' ? scaledTo(most, one) : one.all))),
      margin: known('margin', ({ value }) => value),
      entropy: mean(some.map(({ entropy }) => entropy)),
      tokens: known('tokens', (value) => value),
    };
  });
}

/** Mean, with the larger of what the values' own errors and their scatter say of its error. */
function startOf(values: readonly Estimate[]): Start {
  const value = mean(values.map((one) => one.value));
  const own = Math.sqrt(values.reduce((sum, { error }) => sum + error ** 2, 0)) / values.length;
  const squares = values.reduce((sum, one) => sum + (one.value - value) ** 2, 0);
  const scatter = values.length < 2 ? 0 : Math.sqrt(squares / (values.length - 1) / values.length);
  return { value, error: Math.max(own, scatter) };
}

/**
 * The weighted mean over the environments of the start; where some are missing, as far from the start as those that are
 * there are from theirs. Null if one of them has no such figure, or they make too little of the start.
 */
function combined(
  present: readonly Present[],
  reference: Reference,
  startOf: (of: Reference[number]) => number | null,
  now: (of: Present) => Estimate | null,
): Estimate | null {
  const level = (some: readonly Reference[number][]): number | null => {
    let sum = 0;
    for (const one of some) {
      const start = startOf(one);
      if (start === null) return null;
      sum += one.weight * start;
    }
    return sum;
  };
  const [all, there] = [level(reference), level(present.map(({ start }) => start))];
  if (all === null || there === null) return null;
  let scale = 1;
  if (present.length < reference.length) {
    const weight = present.reduce((sum, { start }) => sum + start.weight, 0);
    // A start of nothing has no share: the mean is then over those that are there.
    if (all <= 0) scale = 1 / weight;
    else if (there < LEAST_SHARE * all) return null;
    else scale = all / there;
  }
  let [value, above, below, error] = [0, 0, 0, 0];
  for (const one of present) {
    const estimate = now(one);
    if (estimate === null) return null;
    const weight = scale * one.start.weight;
    value += weight * estimate.value;
    above += (weight * (estimate.high - estimate.value)) ** 2;
    below += (weight * (estimate.value - estimate.low)) ** 2;
    error += (weight * estimate.error) ** 2;
  }
  return { value, low: value - Math.sqrt(below), high: value + Math.sqrt(above), error: Math.sqrt(error) };
}

/**
 * The 95% interval of a mean of bounds of few prompts each: their errors are together known to as many degrees of freedom
 * as they have prompts beyond one, while that of a single prompt may be known to only one.
 */
function studentised({ value, error }: Estimate, present: readonly Present[]): Estimate {
  const freedom = present.reduce((sum, { figures }) => sum + figures.prompts - 1, 0);
  const half = studentWidth(freedom) * error;
  return { value, low: value - half, high: value + half, error };
}

/** Mean of a share by the weights of those that are there. */
function shareOf(present: readonly Present[], of: (figures: EnvironmentStep) => number | null): number | null {
  let [sum, weights] = [0, 0];
  for (const { start, figures } of present) {
    const share = of(figures);
    if (share === null) continue;
    sum += start.weight * share;
    weights += start.weight;
  }
  return weights > 0 ? sum / weights : null;
}

/** Fisher's p of several independent tests; null if none has one. */
export function fisher(values: readonly (number | null)[]): number | null {
  const known = values.filter((p) => p !== null);
  if (known.length === 0) return null;
  const half = -known.reduce((sum, p) => sum + fixedLog(p), 0);
  if (half === Number.POSITIVE_INFINITY) return 0;
  // Upper tail of chi-squared with twice as many degrees of freedom: a sum of Poisson terms.
  let [term, sum] = [1, 1];
  for (let at = 1; at < known.length; at++) {
    term *= half / at;
    sum += term;
  }
  return Math.min(1, fixedExp(-half) * sum);
}
