// Finds the regime from I(X;Z) and H(Z|X) against the run's own start (docs/reference/verdicts.md). A figure has fallen
// if its 95% interval is below half of its start, and is up if it is above; in between, the last state stays.

import { figure, percent, percentOf, toldApart } from '../checks/numbers.js';
import { count, fields, flag, kept, nullable, oneOf, type Shaped } from '../checks/saved.js';
import { capital } from '../checks/words.js';
import type { RegimeReading } from './judgement.js';
import { CarriedFall, carriedFallShape } from './levels/carried-fall.js';
import { FollowedLevel, followedLevelShape } from './levels/followed-level.js';
import type { Instrument } from './levels/instrument.js';
import { type ComparedMi, MiLevels, miLevelsShape } from './levels/mi-levels.js';
import { type RunLevel, START_STEPS } from './levels/run-level.js';
import type { StepLevels } from './levels/step-levels.js';
import { stillTold } from './levels/text-levels.js';
import {
  advance,
  type Comparison,
  isSurelyFallen,
  type ThresholdState,
  thresholdStateShape,
  WIDTH_95,
} from './statistics/threshold-state.js';
import type { Finding, Regime } from './verdict.js';

export const regimesShape = fields({
  mi: miLevelsShape,
  entropy: followedLevelShape,
  miThreshold: nullable(thresholdStateShape),
  entropyThreshold: nullable(thresholdStateShape),
  miFall: carriedFallShape,
  /** Whether a collapse that texts tell of has once shown next to no dependence. */
  isGone: flag,
  regime: nullable(
    fields({ name: oneOf('diverse', 'template_collapse', 'compressed', 'low_entropy_collapse'), since: count }),
  ),
});

export type RegimesJson = Shaped<typeof regimesShape>;

/** What a step's figures came to. */
export interface RegimeStep {
  readonly mi: ComparedMi;
  readonly reading: RegimeReading;
  readonly finding: Finding | undefined;
}

export class Regimes extends kept(regimesShape) {
  readonly mi = new MiLevels(this.state.mi);
  readonly #entropy = new FollowedLevel(this.state.entropy);
  readonly #miFall = new CarriedFall(this.state.miFall);

  get entropy(): RunLevel {
    return this.#entropy.level;
  }

  /** The regime of the last step that had one. */
  get current(): RegimesJson['regime'] {
    return structuredClone(this.state.regime);
  }

  /** Takes in a computed step; `unread` is for one without usable figures. */
  read(step: number, levels: StepLevels): RegimeStep {
    const { entropy } = this;
    entropy.add(step, levels.entropy);
    // Asked until the state is known: a collapse soon after the start must not take away what it fell from.
    const mi = this.mi.add(step, levels.mi, levels.prompts, this.state.miThreshold !== null, levels.tests);
    const { at, followed, comparison: fell } = mi;
    const { start } = followed.level;
    const figures = {
      mi: { value: at.value, low: at.low, high: at.high, start, prompts: at.prompts },
      entropy: { value: levels.entropy, start: entropy.start },
    };
    const undecided = (sentence: string): RegimeStep => {
      return { mi, reading: { regime: null, since: step, ...figures, sentence }, finding: undefined };
    };
    if (!entropy.comparable) {
      return undecided(
        `Undecided: step ${step} is one of the first ${START_STEPS} computed steps, which later ones are compared with.`,
      );
    }
    if (!followed.level.comparable) {
      return undecided(
        `Undecided: ${levels.instrument.mi} is of ${at.prompts} prompts at step ${step}, of which the run's first steps had ` +
          'none to compare with.',
      );
    }
    if (fell === null) {
      return undecided(
        `${capital(levels.instrument.mi)} was ${figure(start)} at the run's start, which cannot be told from zero: there is ` +
          'nothing to fall from. ' +
          'Either the reasoning ignored its prompt from the first step on, or the batch is too small to tell.',
      );
    }
    const spread = WIDTH_95 * this.#entropy.errors.sigma;
    const narrowed = this.#entropy.compare(levels.entropy, { above: spread, below: spread }, levels.tests);
    this.state.miThreshold = advance(this.state.miThreshold, fell, step);
    this.state.entropyThreshold = advance(this.state.entropyThreshold, narrowed, step);

    const name = regimeOf(this.state.miThreshold, this.state.entropyThreshold);
    if (name === null) {
      const figures = openFigures(this.state.miThreshold, this.state.entropyThreshold, levels.instrument);
      return undecided(`Undecided: ${figures} has not yet been clearly above or below half of its start.`);
    }
    if (this.state.regime?.name !== name) this.state.regime = { name, since: step };
    const since = this.state.regime.since;
    const open = openFigures(fell, narrowed, levels.instrument);
    const reading = {
      regime: name,
      since,
      ...figures,
      sentence: describe(IN_WORDS[name], since, mi, levels, entropy, open),
    };
    return { mi, reading, finding: this.#finding(step, mi, levels, open) };
  }

  /** A step whose figures cannot be used: nothing changes. */
  unread(step: number, reason: string): RegimeReading {
    return { regime: null, since: step, mi: null, entropy: null, sentence: `No regime at step ${step}: ${reason}.` };
  }

  /** Said when two computed steps agree, or one leaves no doubt: so a stray interval raises no alarm. */
  #finding(step: number, mi: ComparedMi, levels: StepLevels, open: string): Finding | undefined {
    const { entropy } = this;
    const [mostlyFell, entropyFell] = [this.state.miThreshold, this.state.entropyThreshold].map((state) =>
      isSurelyFallen(state) ? state.since : undefined,
    );
    if (mostlyFell === undefined) this.#miFall.forget();
    const isCarried = mostlyFell !== undefined && this.#miFall.look(mostlyFell, mi.followed.level, levels.tests);
    const miFell = isCarried ? mostlyFell : undefined;
    // A bound also falls because it gets looser: severe is one that says next to nothing any more.
    const isScored = levels.instrument.source === 'scores';
    const told = isScored ? undefined : stillTold(step, levels, mi.followed.level.start);
    this.state.isGone = miFell !== undefined && (this.state.isGone || told === undefined);
    if (miFell === undefined && entropyFell === undefined) return undefined;
    // Until the entropy's own fall is sure, only MI decides what to call it.
    const collapse = entropyFell === undefined ? 'template_collapse' : 'low_entropy_collapse';
    const kind = miFell === undefined ? 'compressed' : collapse;
    const since = Math.max(miFell ?? 0, entropyFell ?? 0);
    const { at, followed } = mi;
    const { start } = followed.level;
    const evidence = {
      mi: at.value,
      miLow: at.low,
      miHigh: at.high,
      miPrompts: at.prompts,
      miStart: start,
      miShare: at.value / start,
      margin: levels.margin?.value ?? null,
      entropy: levels.entropy,
      entropyStart: entropy.start,
      retrieval: levels.retrieval,
      chance: levels.chance,
      pValue: levels.pValue,
    };
    return {
      kind,
      severity: kind === 'compressed' ? 'info' : this.state.isGone ? 'critical' : 'warning',
      since,
      evidence,
      advice: ADVICE[kind],
      now: `${levels.instrument.mi} is ${figure(at.value)} [${figure(at.low)}, ${figure(at.high)}], ${percent(at.value / start)} of its start${openWords(open)}`,
      sentence:
        kind === 'compressed' || this.state.isGone
          ? describe(IN_WORDS[kind], since, mi, levels, entropy, open)
          : `${describe('The bound fell', since, mi, levels, entropy, open)} ${told}, which makes it a warning: a bound can also fall because it gets looser.`,
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

/** Null without evidence of what I(X;Z) does, or that nothing has fallen. */
function regimeOf(mi: ThresholdState | null, entropy: ThresholdState | null): Regime | null {
  if (mi === null || (mi.state === 'stands' && entropy === null)) return null;
  if (mi.state === 'stands') return entropy?.state === 'stands' ? 'diverse' : 'compressed';
  return entropy?.state === 'fallen' ? 'low_entropy_collapse' : 'template_collapse';
}

const IN_WORDS: Readonly<Record<Regime, string>> = {
  diverse: 'The reasoning is varied and depends on its prompt',
  template_collapse: 'Template collapse: the reasoning is varied but has lost most of its dependence on the prompt',
  compressed: 'The reasoning has become much more certain, and still depends on its prompt',
  low_entropy_collapse: 'Low-entropy collapse: the reasoning is nearly the same for every prompt',
};

/** The figures that are still undecided; a step that decides nothing keeps what was known before. */
function openFigures(
  mi: Comparison | ThresholdState | null,
  entropy: Comparison | ThresholdState | null,
  instrument: Instrument,
): string {
  const isOpen = (found: Comparison | ThresholdState | null): boolean => found === null || found.state === 'open';
  return [isOpen(mi) ? instrument.mi : '', isOpen(entropy) ? instrument.entropy : ''].filter(Boolean).join(' and ');
}

/** @param open figures that nothing is decided of, or nothing */
function openWords(open: string): string {
  return open === ''
    ? ''
    : `; in this step alone, ${open} is not clearly above or below half of the start and counts as before`;
}

function describe(
  words: string,
  since: number,
  { at, followed }: ComparedMi,
  levels: StepLevels,
  entropy: RunLevel,
  open: string,
): string {
  const { retrieval, chance, instrument } = levels;
  const { start } = followed.level;
  const interval = `[${figure(at.low)}, ${figure(at.high)}]`;
  const among = at.prompts === levels.prompts ? '' : ` among ${at.prompts} prompts`;
  const hits =
    retrieval === null || chance === null ? '' : `, retrieval ${figure(retrieval)} with chance at ${figure(chance)}`;
  return (
    `${words}: ${instrument.mi} is ${figure(at.value)} ${interval} nats a response${among} (${toldApart(at.value, at.prompts, at)}), ` +
    `${percent(at.value / start)} of its start (${figure(start)}), while ${instrument.entropy} is ` +
    `${figure(levels.entropy)}${instrument.entropyUnit}, ${percentOf(levels.entropy, entropy.start)} of its start ` +
    `(${figure(entropy.start)})${hits}; so since step ${since}${openWords(open)}.${instrument.remark}`
  );
}
