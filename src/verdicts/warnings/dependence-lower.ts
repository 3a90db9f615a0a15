// A fall of I(X;Z) that is certain, however small against half of its start: said with how much is lost and since when.

import { figure, percent, percentOf } from '../../checks/numbers.js';
import { count, fields, flag, kept, nullable, number, oneOf, type Shaped } from '../../checks/saved.js';
import { capital } from '../../checks/words.js';
import type { ComparableDependence, DependenceAmong } from '../levels/comparable-dependence.js';
import type { Instrument } from '../levels/instrument.js';
import type { RunLevel } from '../levels/run-level.js';
import type { StepLevels } from '../levels/step-levels.js';
import { amongPrompts, floorUnder } from '../statistics/dependence-scale.js';
import { type FallOnset, fallOnset } from '../statistics/fall-onset.js';
import { type Fall, FallTest, type FallTestJson, fallTestShape } from '../statistics/fall-test.js';
import { PRESENT_STEPS } from '../statistics/present-level.js';
import type { Finding } from '../verdict.js';

/** Shares of d of which more is lost beyond doubt: an information, and a warning. */
const [TENTH, QUARTER] = [0.1, 0.25];

/** A batch whose number of prompts differs by no more than this share is compared by its preference, … */
const ALIKE = 1 / 8;

/** … and texts, which have no figure of two prompts, where it differs by less than this factor. */
const ALIKE_TEXTS = 2;

/** Steps after which a fall may end, which is as many as say so. */
const END_STEPS = PRESENT_STEPS;

/** There must have been something to lose, at 99.9%: half of that interval in standard errors. */
const START_WIDTH = 3.29;

const saidShape = fields({
  severity: oneOf('info', 'warning'),
  /** Step at which it became so severe. */
  step: count,
  /** The likeliest first step of the fall, and the first and last of the 95% set. */
  since: count,
  sinceLow: count,
  sinceHigh: count,
  /** Share of d that is lost, and its 95% interval. */
  lost: number,
  lostLow: number,
  lostHigh: number,
  reference: oneOf('before', 'start'),
  window: count,
  p: number,
  from: number,
  to: number,
  /** H(Z|X) at that step, and its start. */
  entropy: number,
  entropyStart: number,
  /** Steps since it was first said, and what the mean must come back above: by either history. */
  steps: count,
  floors: fields({ whole: nullable(number), pairs: nullable(number) }),
});
type Said = Shaped<typeof saidShape>;

export const dependenceLowerShape = fields({
  whole: nullable(fallTestShape),
  pairs: nullable(fallTestShape),
  /** Whether batches of other numbers of prompts have come: then information among two prompts is compared. */
  varies: flag,
  said: nullable(saidShape),
  /** Whether one has ended. */
  ended: flag,
});

export class DependenceLower extends kept(dependenceLowerShape) {
  #whole = testOf(this.state.whole);
  #pairs = testOf(this.state.pairs);

  /** @returns null for a step without evidence. @param entropy of the run, the step's included */
  look(step: number, levels: StepLevels, entropy: RunLevel): { finding: Finding | undefined } | null {
    const { dependence, instrument, tests } = levels;
    const test = this.#take(step, dependence, instrument);
    if (test === null) return null;
    const fall = test.fall(TENTH, tests);
    const grave = test.fall(QUARTER, tests);
    if (this.state.said !== null) {
      this.state.said = { ...this.state.said, steps: this.state.said.steps + 1 };
      const floor = this.state.said.floors[this.state.varies ? 'pairs' : 'whole'];
      if (this.state.said.steps >= END_STEPS && floor !== null && test.recentMean(END_STEPS) > floor) {
        this.state.said = null;
        this.state.ended = true;
        return { finding: undefined };
      }
    }
    const found = grave ?? fall;
    if (found !== undefined) this.#note(step, found, grave === undefined ? 'info' : 'warning', test, entropy);
    const { mi } = instrument;
    const name = test === this.#pairs ? `${mi} among 2 prompts` : mi;
    return { finding: this.state.said === null ? undefined : finding(this.state.said, test, name, instrument) };
  }

  /** Takes in a step. @returns what it is judged by; null if it cannot be compared */
  #take(step: number, { whole, pairs, prompts }: ComparableDependence, { source }: Instrument): FallTest | null {
    const [first, wanted] = [this.#whole?.among ?? whole?.among ?? 0, whole?.among ?? 0];
    if (source === 'texts') {
      if (whole === null || Math.max(first / wanted, wanted / first) >= ALIKE_TEXTS) return null;
    } else if (whole === null || (first !== wanted && !(Math.abs(wanted - first) <= ALIKE * Math.min(first, wanted)))) {
      this.state.varies = true;
    }
    if (whole !== null && !this.state.varies) {
      this.#whole ??= new FallTest(first);
      this.state.whole ??= this.#whole.state;
      addTo(this.#whole, step, whole, prompts);
    }
    if (pairs !== null) {
      this.#pairs ??= new FallTest(pairs.among);
      this.state.pairs ??= this.#pairs.state;
      addTo(this.#pairs, step, pairs, prompts);
    }
    if (!this.state.varies) return this.#whole;
    return pairs === null ? null : this.#pairs;
  }

  #note(step: number, fall: Fall, severity: Said['severity'], test: FallTest, entropy: RunLevel): void {
    const said = this.state.said;
    if (said !== null && (said.severity === 'warning' || severity === 'info')) return;
    if (fall.from <= START_WIDTH * fall.fromError) return;
    // What came back must go down again, not only be seen from further away.
    if (said === null && this.state.ended && test.recentMean(END_STEPS) > floorUnder(fall.from, test.among, TENTH).at) {
      return;
    }
    const onset = fallOnset(
      test.recent.map(({ value }) => value),
      test.among,
      test.dispersion,
    );
    const { lost } = onset;
    // The interval is of tenths.
    const [lostLow, lostHigh] = [Math.min(onset.lostLow, lost), Math.max(onset.lostHigh, lost)];
    const { window, reference, p, from } = fall;
    const floorOf = (history: FallTest | null): number | null =>
      history && floorUnder(history.level(reference, window), history.among, TENTH).at;
    const beginning = said ?? {
      ...stepsOf(onset, test),
      steps: 0,
      floors: { whole: floorOf(this.#whole), pairs: floorOf(this.#pairs) },
    };
    const { since, sinceLow, sinceHigh, steps, floors } = beginning;
    const fallen = test.recent.filter((entry) => entry.step >= since);
    const to = fallen.reduce((sum, { value }) => sum + value, 0) / fallen.length;
    this.state.said = {
      ...{ severity, step, since, sinceLow, sinceHigh, lost, lostLow, lostHigh, reference, window, p, from, to },
      ...{ entropy: entropy.recentMean(PRESENT_STEPS), entropyStart: entropy.start, steps, floors },
    };
  }
}

function testOf(saved: FallTestJson | null): FallTest | null {
  return saved ? new FallTest(saved.among, saved) : null;
}

function addTo(test: FallTest, step: number, figure: DependenceAmong, prompts: number): void {
  const { value, error } = amongPrompts(figure, figure.among, test.among);
  test.add(step, value, error, prompts);
}

/** Training steps of the onset's places. */
function stepsOf({ at, low, high }: FallOnset, { recent }: FallTest): Pick<Said, 'since' | 'sinceLow' | 'sinceHigh'> {
  const stepAt = (place: number): number => (recent[place] as { step: number }).step;
  return { since: stepAt(at), sinceLow: stepAt(low), sinceHigh: stepAt(high) };
}

function finding(said: Said, test: FallTest, name: string, { entropy, remark }: Instrument): Finding {
  const { severity, since, sinceLow, sinceHigh, lost, lostLow, lostHigh, p, from, to } = said;
  const now = test.recentMean(1);
  const whole = (share: number): number => Math.round(100 * share);
  return {
    kind: 'dependence_lower',
    severity,
    since,
    evidence: {
      ...{ sinceLow, sinceHigh, lost, lostLow, lostHigh, miBefore: from, miRecent: to, mi: now },
      ...{ pValue: p, window: said.window, against: said.reference, saidAt: said.step },
      prompts: Number.isFinite(test.among) ? test.among : null,
      ...{ entropyRecent: said.entropy, entropyStart: said.entropyStart },
    },
    advice:
      'Look first whether the prompts have become more alike (a curriculum, other data): then they are told apart less by any ' +
      'policy. Where they have not, look at the reward variance, filter more strictly, and keep a checkpoint from before.',
    now: `it is ${figure(now)}`,
    sentence:
      `${capital(name)} has fallen since step ${since} (${sinceLow} to ${sinceHigh}): these prompts are told apart less, by ` +
      `${percent(lost)} (${whole(lostLow)} to ${whole(lostHigh)}); from then to step ${said.step} it was ${figure(to)} nats a ` +
      `response on average, ${figure(from)} before (p = ${figure(p)}), with ${entropy} at ${percentOf(said.entropy, said.entropyStart)} of its ` +
      `start.${remark}`,
  };
}
