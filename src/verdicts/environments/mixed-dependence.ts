// A run whose batches mix environments: the level of the run as a whole, and each environment, by the same rules at a
// level that they share. Of environments with two or three prompts steps in succession are judged together.
import {
  count,
  either,
  fields,
  kept,
  list,
  nullable,
  number,
  oneOf,
  record,
  type Shaped,
  shape,
  startOf,
  text,
} from '../../checks/saved.js';
import { VERDICT_EXPLANATIONS } from '../explanations.js';
import type { RegimeReading } from '../judgement.js';
import type { Instrument } from '../levels/instrument.js';
import { type RunLevel, START_STEPS } from '../levels/run-level.js';
import { LEAST_PROMPTS, type StepLevels } from '../levels/step-levels.js';
import {
  type DependenceStep,
  PromptDependence,
  promptDependenceFields,
  promptDependenceShape,
} from '../prompt-dependence.js';
import type { Regimes } from '../regimes.js';
import type { Finding, VerdictKind } from '../verdict.js';
import { type EnvironmentStep, environmentStep, environmentStepShape } from './environment-step.js';
import { environmentFindings, listOf } from './environment-verdicts.js';
import { joinedLevels } from './joined-steps.js';
import { PooledLevel, type PooledStep, pooledLevelShape } from './pooled-level.js';

/** At most this many environments, the first ones of a run, are judged by themselves. */
const MOST_JUDGED = 64;

/** Posterior probability of having lost half from which a verdict on the run names an environment. */
const NAMED_FROM = 0.95;

const findingShape = fields({
  kind: shape<VerdictKind>('a kind of verdict', (value) => Object.hasOwn(VERDICT_EXPLANATIONS, String(value))),
  severity: oneOf('info', 'warning', 'critical'),
  since: count,
  of: count,
  evidence: record(either((value) => typeof value === 'string', text, nullable(number))),
  advice: text,
  sentence: text,
});
/** The latest findings: they continue over steps in which the environment is absent. */
const saidShape = list(findingShape);

export const mixedDependenceShape = fields({
  steps: count,
  pooled: fields({
    ...promptDependenceFields,
    level: pooledLevelShape,
    said: saidShape,
    /** Findings about the run when it got a new start, kept until its level is known again. */
    held: saidShape,
  }),
  each: list(
    fields({
      name: text,
      ...promptDependenceFields,
      said: saidShape,
      /** Latest steps with too few prompts to be judged by themselves. */
      few: list(environmentStepShape, LEAST_PROMPTS),
    }),
    MOST_JUDGED,
  ),
});
type EnvironmentState = Shaped<typeof mixedDependenceShape>['each'][number];

interface Judged {
  dependence: PromptDependence;
  said: readonly Finding[];
}

/** An environment, with what is kept of it. */
interface JudgedEnvironment extends Judged {
  readonly state: EnvironmentState;
}

/** What was said, without the clause for a step that is over. */
function asOfBefore(said: readonly Finding[]) {
  return said.map(({ kind, severity, since, of = since, evidence, advice, sentence }) => {
    return { kind, severity, since, of, evidence: { ...evidence }, advice, sentence };
  });
}

function judgedEnvironment(state: EnvironmentState): JudgedEnvironment {
  return { dependence: new PromptDependence(state), said: state.said, state };
}

/** An environment of a step, with its figures or why there are none. */
export interface NamedLevels {
  readonly name: string;
  readonly levels: StepLevels | string;
}

export class MixedDependence extends kept(mixedDependenceShape) {
  readonly #level = new PooledLevel(this.state.pooled.level);
  readonly #pooled: Judged = {
    dependence: new PromptDependence(this.state.pooled),
    said: this.state.pooled.said,
  };
  #held: readonly Finding[] = this.state.pooled.held;
  readonly #each = new Map(this.state.each.map((state) => [state.name, judgedEnvironment(state)]));

  /** Of the run as a whole. */
  get regimes(): Regimes {
    return this.#pooled.dependence.regimes;
  }

  /** Steps with figures of an environment. */
  get steps(): number {
    return this.state.steps;
  }

  get isStarting(): boolean {
    return this.state.steps < START_STEPS;
  }

  /** An environment that was all of the run before. */
  join(name: string, before: PromptDependence): void {
    this.#open({ name, ...before.toJSON(), said: [], few: [] });
  }

  /**
   * @param environments all of the step
   * @param success of the run's steps so far
   * @returns undefined if no environment has figures
   */
  read(step: number, environments: readonly NamedLevels[], success: RunLevel): DependenceStep | undefined {
    const known = environments.flatMap(({ name, levels }) => (typeof levels === 'string' ? [] : [{ name, levels }]));
    const [first] = known;
    if (first === undefined) return undefined;
    this.state.steps++;
    for (const one of [this.#pooled, ...this.#each.values()]) one.said = asOfBefore(one.said);
    const { instrument } = first.levels;
    const judged = new Set<VerdictKind>();
    const present = known.flatMap(({ name, levels }) => this.#present(name, levels));
    const tests = this.#each.size + 1;
    const take = (one: Judged, at: number, levels: StepLevels): DependenceStep => {
      const found = one.dependence.read(at, { ...levels, tests }, success);
      for (const kind of found.judged) judged.add(kind);
      one.said = found.findings.map((finding) => ({ ...finding, of: at }));
      return found;
    };
    for (const { judged: one, levels } of present) {
      const together = togetherOf(one, levels);
      if (together !== undefined) take(one, step, together);
    }

    const figures = new Map(known.map(({ name, levels }) => [name, environmentStep(levels)]));
    const { reading, notes } = this.#readPooled(step, figures, instrument, take);
    const findings = environmentFindings(step, {
      pooled: this.#pooled.said,
      each: new Map([...this.#each].map(([name, { said }]) => [name, said])),
      halved: this.#level.halved(NAMED_FROM),
      total: environments.length,
    });
    this.#keepSaid();
    return { reading, findings, judged: [...judged], notes };
  }

  #open(state: EnvironmentState): void {
    this.state.each.push(state);
    this.#each.set(state.name, judgedEnvironment(state));
  }

  /** What was said is kept without the clause for this step. */
  #keepSaid(): void {
    const { pooled } = this.state;
    pooled.said = asOfBefore(this.#pooled.said);
    pooled.held = asOfBefore(this.#held);
    for (const { state, said } of this.#each.values()) state.said = asOfBefore(said);
  }

  /** An environment that is judged by itself, as it is from its first step on; of more than MOST_JUDGED none. */
  #present(name: string, levels: StepLevels): { judged: JudgedEnvironment; levels: StepLevels }[] {
    if (!this.#each.has(name) && this.#each.size < MOST_JUDGED) {
      this.#open({ name, ...startOf(promptDependenceShape), said: [], few: [] });
    }
    const judged = this.#each.get(name);
    return judged === undefined ? [] : [{ judged, levels }];
  }

  #readPooled(
    step: number,
    figures: ReadonlyMap<string, EnvironmentStep>,
    instrument: Instrument,
    take: (one: Judged, step: number, levels: StepLevels) => DependenceStep,
  ): { reading: RegimeReading; notes: readonly string[] } {
    const before = this.#level.names;
    const { steps, isNewStart } = this.#level.add(step, figures, instrument);
    const pooled = this.#pooled;
    if (isNewStart) {
      this.#held = pooled.said;
      pooled.dependence = new PromptDependence(Object.assign(this.state.pooled, startOf(promptDependenceShape)));
    }
    let reading: RegimeReading | undefined;
    for (const { step: at, levels } of steps) {
      const isRead = typeof levels !== 'string';
      reading = isRead ? take(pooled, at, levels).reading : pooled.dependence.regimes.unread(at, levels);
      // A new start does not contradict earlier findings; the run's level against it does.
      if (isRead && reading.regime !== null) this.#held = [];
      const again = new Set(pooled.said.map(({ kind }) => kind));
      if (isRead) pooled.said = [...pooled.said, ...asOfBefore(this.#held).filter(({ kind }) => !again.has(kind))];
    }
    const notes = isNewStart ? [newStartNote(before, this.#level.names, steps)] : [];
    const sentence = `Undecided: step ${step} is one of the first ${START_STEPS} computed steps, which later ones are compared with.`;
    return { reading: reading ?? { regime: null, since: step, mi: null, entropy: null, sentence }, notes };
  }
}

function newStartNote(before: readonly string[], now: readonly string[], steps: readonly PooledStep[]): string {
  const [first, last] = [steps[0]?.step, steps.at(-1)?.step];
  return (
    `too little is left of the environments that the run was compared with (${listOf(before)}): from now on it is compared ` +
    `with steps ${first} to ${last} (${listOf(now)}), as if it had started there; each environment keeps its own start`
  );
}

/**
 * What an environment can be judged by with a step: the step, or with those that waited for it when they have enough
 * prompts together. Undefined while they have not.
 */
function togetherOf({ state }: JudgedEnvironment, levels: StepLevels): StepLevels | undefined {
  const steps = [...state.few, environmentStep(levels)];
  state.few = [];
  if (levels.prompts >= LEAST_PROMPTS) return levels;
  if (steps.reduce((sum, { prompts }) => sum + prompts, 0) >= LEAST_PROMPTS)
    return joinedLevels(steps, levels.instrument);
  state.few = steps;
  return undefined;
}
