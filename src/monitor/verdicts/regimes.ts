// I(X;Z) and H(Z|X) of each step against the run's own start -> one of the four regimes, and the verdict when it is sure
// (docs/verdicts.md). A figure has fallen when its 95% interval is below half of its start; it stands when the interval is
// above; between, it stays what it was.
import type { StepMetrics } from '../../metrics/step-metrics.js';
import type { Finding } from './finding.js';
import { isMeasurable, RunLevel, runLevelShape, START_STEPS } from './run-level.js';
import { count, fields, nullable, oneOf, type Shaped } from './saved-shape.js';
import { figure, percent, percentOf } from './sentence-numbers.js';
import { carry, FALLEN, type Place, place, type Standing, SURE, standingShape, WIDTH_95 } from './standing.js';
import type { Regime, RegimeReading } from './verdict.js';
import { carryYardstick, type Yardstick, yardstickAt, yardstickShape } from './yardstick.js';

const MI = 'mi_seq_estimate';
const ENTROPY = 'conditional_entropy_est';

export const regimesShape = fields({
  mi: runLevelShape,
  entropy: runLevelShape,
  miStanding: nullable(standingShape),
  entropyStanding: nullable(standingShape),
  miYardstick: nullable(yardstickShape),
  entropyYardstick: nullable(yardstickShape),
  regime: nullable(
    fields({ name: oneOf('diverse', 'template_collapse', 'compressed', 'low_entropy_collapse'), since: count }),
  ),
});

export type RegimesJson = Shaped<typeof regimesShape>;

/** One computed step's figures, as far as regimes and trends need them. */
export interface StepLevels {
  readonly mi: number;
  readonly low: number;
  readonly high: number;
  readonly error: number;
  readonly entropy: number;
  readonly retrieval: number | null;
  readonly chance: number | null;
  readonly pValue: number | null;
}

/** @returns the figures, or in words why the step has none that can be used */
export function stepLevels(metrics: StepMetrics | undefined): StepLevels | string {
  if (metrics === undefined) return 'no metrics were computed at this step';
  if (metrics.profile !== 'strict') return 'profile ragen gives no intervals; the strict profile does';
  const { values, certainty, absent } = metrics;
  const [mi, entropy, batch] = [values[MI], values[ENTROPY], certainty[MI]?.batch];
  if (mi === undefined || entropy === undefined) return absent[MI] ?? 'MI is not among the metrics';
  if (!Number.isFinite(mi) || !Number.isFinite(entropy)) return 'MI or entropy is not finite';
  if (![mi, entropy].every(isMeasurable)) return 'MI or entropy is beyond 1e150, as no log-probs make them';
  if (batch === undefined || !('low' in batch)) return batch?.absent ?? 'MI has no interval';
  if (![batch.low, batch.high, batch.error].every(isMeasurable)) return 'the interval of MI is beyond 1e150';
  const p = certainty[MI]?.pValue;
  return {
    mi,
    low: batch.low,
    high: batch.high,
    error: batch.error,
    entropy,
    retrieval: known(values.retrieval_accuracy),
    chance: known(values.retrieval_chance_level),
    pValue: known(p),
  };
}

/** They are evidence of verdicts that are saved, as JSON, which has no NaN. */
function known(figure: unknown): number | null {
  return typeof figure === 'number' && Number.isFinite(figure) ? figure : null;
}

export class Regimes {
  readonly mi: RunLevel;
  readonly entropy: RunLevel;
  #miStanding: Standing | null;
  #entropyStanding: Standing | null;
  #miYardstick: Yardstick | null;
  #entropyYardstick: Yardstick | null;
  #regime: RegimesJson['regime'];

  constructor(saved?: RegimesJson) {
    this.mi = new RunLevel(saved?.mi);
    this.entropy = new RunLevel(saved?.entropy);
    this.#miStanding = saved?.miStanding ?? null;
    this.#entropyStanding = saved?.entropyStanding ?? null;
    this.#miYardstick = saved?.miYardstick ?? null;
    this.#entropyYardstick = saved?.entropyYardstick ?? null;
    this.#regime = saved?.regime ?? null;
  }

  toJSON(): RegimesJson {
    return {
      mi: this.mi.toJSON(),
      entropy: this.entropy.toJSON(),
      miStanding: this.#miStanding && { ...this.#miStanding },
      entropyStanding: this.#entropyStanding && { ...this.#entropyStanding },
      miYardstick: this.#miYardstick && { ...this.#miYardstick },
      entropyYardstick: this.#entropyYardstick && { ...this.#entropyYardstick },
      regime: this.#regime && { ...this.#regime },
    };
  }

  /** The regime of the last step that had one. */
  get current(): RegimesJson['regime'] {
    return this.#regime && { ...this.#regime };
  }

  /** Takes in a computed step; `unread` is for one without usable figures. */
  read(step: number, levels: StepLevels): { reading: RegimeReading; finding: Finding | undefined } {
    const { mi, entropy } = this;
    mi.add(step, levels.mi, levels.error);
    entropy.add(step, levels.entropy);
    const figures = {
      mi: { value: levels.mi, low: levels.low, high: levels.high, start: mi.start },
      entropy: { value: levels.entropy, start: entropy.start },
    };
    if (!mi.comparable) {
      const sentence = `Step ${step} is one of the first ${START_STEPS} computed steps, which later ones are compared with.`;
      return { reading: { regime: null, since: step, ...figures, sentence }, finding: undefined };
    }
    const ofMi = yardstickAt(this.#miYardstick, mi);
    const ofEntropy = yardstickAt(this.#entropyYardstick, entropy);
    // Asked until a regime is known: a collapse soon after the start must not take away what it fell from.
    if (this.#miStanding === null && mi.start <= WIDTH_95 * ofMi.startError) {
      const sentence =
        `I(X;Z) was ${figure(mi.start)} at the run's start, which cannot be told from zero: there is nothing to fall from. ` +
        'Either the reasoning ignored its prompt from the first step on, or the batch is too small to tell.';
      return { reading: { regime: null, since: step, ...figures, sentence }, finding: undefined };
    }
    // Half of the start is itself known only to so much.
    const miHalf = FALLEN * ofMi.startError;
    const fell = place(levels.mi, levels.high - levels.mi, levels.mi - levels.low, FALLEN * mi.start, miHalf);
    const spread = WIDTH_95 * ofEntropy.sigma;
    const narrowed = place(levels.entropy, spread, spread, FALLEN * entropy.start, FALLEN * ofEntropy.startError);
    this.#miYardstick = carryYardstick(ofMi, mi, fell);
    this.#entropyYardstick = carryYardstick(ofEntropy, entropy, narrowed);
    this.#miStanding = carry(this.#miStanding, fell, step);
    this.#entropyStanding = carry(this.#entropyStanding, narrowed, step);

    const name = regimeOf(this.#miStanding, this.#entropyStanding);
    if (this.#regime?.name !== name) this.#regime = { name, since: step };
    const since = this.#regime.since;
    const open = openFigures(fell, narrowed);
    const reading = { regime: name, since, ...figures, sentence: describe(name, since, levels, mi, entropy, open) };
    return { reading, finding: this.#finding(levels, open) };
  }

  /** A step whose figures cannot be used: nothing changes. */
  unread(step: number, reason: string): RegimeReading {
    return { regime: null, since: step, mi: null, entropy: null, sentence: `No regime at step ${step}: ${reason}.` };
  }

  /** Said when two computed steps agree, or one leaves no doubt: so a stray interval raises no alarm. */
  #finding(levels: StepLevels, open: string): Finding | undefined {
    const { mi, entropy } = this;
    const fallen = [this.#miStanding, this.#entropyStanding].map((standing) =>
      standing?.state === 'fallen' && standing.sure >= SURE ? standing.since : undefined,
    );
    const [miFell, entropyFell] = fallen;
    if (miFell === undefined && entropyFell === undefined) return undefined;
    // Until the entropy's own fall is sure, MI alone decides what to call it.
    const collapse = entropyFell === undefined ? 'template_collapse' : 'low_entropy_collapse';
    const kind = miFell === undefined ? 'compressed' : collapse;
    const since = Math.max(...fallen.filter((step) => step !== undefined));
    const evidence = {
      mi: levels.mi,
      miLow: levels.low,
      miHigh: levels.high,
      miStart: mi.start,
      miShare: levels.mi / mi.start,
      entropy: levels.entropy,
      entropyStart: entropy.start,
      retrieval: levels.retrieval,
      chance: levels.chance,
      pValue: levels.pValue,
    };
    return {
      kind,
      severity: kind === 'compressed' ? 'info' : 'critical',
      since,
      evidence,
      advice: ADVICE[kind],
      sentence: describe(kind, since, levels, mi, entropy, open),
    };
  }
}

const ADVICE = {
  template_collapse:
    'Stop, go back to a checkpoint from before, and train on: keep prompts with high reward variance only (the filter, ' +
    'top_p), lower the entropy bonus and the KL coefficient, and look for noise in the reward.',
  low_entropy_collapse:
    'Stop, go back to a checkpoint from before, and raise the entropy bonus or the KL coefficient, or lower the learning ' +
    'rate; more, and more varied, prompts help too.',
  compressed:
    'Nothing needs to be done: the policy has become more certain and its reasoning still tells its prompt. Watch I(X;Z), ' +
    'and raise the entropy bonus if exploration is wanted.',
} as const;

function regimeOf(mi: Standing, entropy: Standing): Regime {
  if (mi.state === 'stands') return entropy.state === 'stands' ? 'diverse' : 'compressed';
  return entropy.state === 'stands' ? 'template_collapse' : 'low_entropy_collapse';
}

const IN_WORDS: Readonly<Record<Regime, string>> = {
  diverse: 'The reasoning is varied and depends on its prompt',
  template_collapse: 'Template collapse: the reasoning is varied but has lost most of its dependence on the prompt',
  compressed: 'The reasoning has become much more certain, and still depends on its prompt',
  low_entropy_collapse: 'Low-entropy collapse: the reasoning is nearly the same for every prompt',
};

/** The figures that this step decides nothing of: what was known before goes on, whatever their values look like. */
function openFigures(mi: Place, entropy: Place): string {
  const open = [mi.state === 'open' ? 'I(X;Z)' : '', entropy.state === 'open' ? 'H(Z|X)' : ''].filter(Boolean);
  return open.join(' and ');
}

function describe(
  name: Regime,
  since: number,
  levels: StepLevels,
  mi: RunLevel,
  entropy: RunLevel,
  open: string,
): string {
  const { retrieval, chance } = levels;
  const interval = `[${figure(levels.low)}, ${figure(levels.high)}]`;
  const hits =
    retrieval === null || chance === null ? '' : `, retrieval ${figure(retrieval)} with chance at ${figure(chance)}`;
  const undecided = `; in this step alone, ${open} is not clearly above or below half of the start and counts as before`;
  return (
    `${IN_WORDS[name]}: I(X;Z) is ${figure(levels.mi)} ${interval} nats a response, ${percent(levels.mi / mi.start)} of its ` +
    `start (${figure(mi.start)}), while H(Z|X) is ${figure(levels.entropy)} nats a token, ` +
    `${percentOf(levels.entropy, entropy.start)} of its start (${figure(entropy.start)})${hits}; so since step ${since}` +
    `${open === '' ? '' : undecided}.`
  );
}
