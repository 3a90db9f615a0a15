// Evidence step by step in, after each step the regime and the verdicts that hold; at any time the run's summary and a
// state that continues to the bit. docs/verdicts.md has every rule. Memory is constant: each part says what it keeps.

import { StateError } from '../../errors.js';
import { filterGate } from '../../filter/filter-gate.js';
import { checkInteger, expectKnownOptions, optionsObject } from '../option-checks.js';
import {
  actionInformation,
  type Dependence,
  dependenceFinding,
  dependenceShape,
  NOT_SEEN,
  noted,
  reasoningInformation,
} from './action-information.js';
import { actionOscillation, oscillationFinding } from './action-oscillation.js';
import { checkEvidence } from './check-evidence.js';
import { EarlyWarning, earlyWarningShape } from './early-warning.js';
import { entropyGaming } from './entropy-gaming.js';
import { FigureHistory, figureHistoryShape } from './figure-history.js';
import { filterFinding, type GateStreak, gateStreak, gateStreakShape } from './filter-advice.js';
import type { Finding } from './finding.js';
import { grounding, groundingFinding } from './grounding.js';
import { episodesOf, rolloutGroups } from './group-outcomes.js';
import { type RewardRange, rewardRangeShape, triageFindings, triagePrompts, widened } from './prompt-triage.js';
import { Regimes, regimesShape, stepLevels } from './regimes.js';
import { RunLevel, runLevelShape } from './run-level.js';
import { type RunSummary, summarize } from './run-summary.js';
import { count, fields, nullable, oneOf, type Shaped } from './saved-shape.js';
import {
  countSpecificity,
  decayed,
  NO_COUNTS,
  type SpecificityCounts,
  specificityFinding,
  specificityShape,
  specificityShares,
} from './specificity.js';
import type { FilterEvidence, StepEvidence } from './step-evidence.js';
import type { Judgement, RegimeReading, VerdictKind } from './verdict.js';
import { VerdictLog, verdictLogShape } from './verdict-log.js';

export interface JudgeOptions {
  /** Label permutations behind the p-values of I(X;A), I(Z;A|X) and oscillation. Default 99; 0 switches these verdicts off. */
  readonly permutations?: number | undefined;
  /** Seed of the permutations. Default 0. */
  readonly seed?: number | undefined;
}

const judgeShape = fields({
  format: oneOf('collapsar/judge'),
  version: count,
  options: fields({ permutations: count, seed: count }),
  lastStep: nullable(count),
  firstStep: nullable(count),
  steps: count,
  regimes: regimesShape,
  earlyWarning: earlyWarningShape,
  success: runLevelShape,
  rewardRange: rewardRangeShape,
  specificity: specificityShape,
  promptDependence: dependenceShape,
  reasoningDependence: dependenceShape,
  grounding: runLevelShape,
  gate: gateStreakShape,
  verdicts: verdictLogShape,
  figures: figureHistoryShape,
});

/** Plain JSON. */
export type JudgeJson = Shaped<typeof judgeShape>;

const VERSION = 1;
const PERMUTATIONS = 99;

/** Kinds that a step's usable metrics decide. */
const BY_METRICS: readonly VerdictKind[] = [
  'template_collapse',
  'low_entropy_collapse',
  'compressed',
  'mi_falling',
  'mi_overshoot',
  'entropy_gaming',
];

/** One object a run. */
export class Judge {
  readonly #options: JudgeJson['options'];
  #firstStep: number | null = null;
  #lastStep: number | null = null;
  #steps = 0;
  #regimes = new Regimes();
  #earlyWarning = new EarlyWarning();
  #success = new RunLevel();
  #rewardRange: RewardRange = { lowest: null, highest: null };
  #specificity: SpecificityCounts = NO_COUNTS;
  #promptDependence: Dependence = NOT_SEEN;
  #reasoningDependence: Dependence = NOT_SEEN;
  #grounding = new RunLevel();
  #gate: GateStreak = { steps: 0, since: null };
  #verdicts = new VerdictLog();
  #figures = new FigureHistory();

  /** @throws {ArgumentError} for an option that is unknown or out of range */
  constructor(options: JudgeOptions = {}) {
    expectKnownOptions(optionsObject(options, 'options'), 'options', ['permutations', 'seed']);
    const { permutations = PERMUTATIONS, seed = 0 } = options;
    checkInteger(permutations, 'options.permutations', 0);
    checkInteger(seed, 'options.seed', 0);
    this.#options = { permutations, seed };
  }

  /**
   * Takes in one step.
   * @returns the regime, the verdicts that hold, and the figures behind them
   * @throws {ArgumentError} for a step that is not later than the last, or columns of different lengths; nothing is taken in
   */
  add(evidence: StepEvidence): Judgement {
    checkEvidence(evidence, this.#lastStep);
    const { step, rows, metrics } = evidence;
    this.#lastStep = step;
    this.#firstStep ??= step;
    this.#steps++;
    const findings: Finding[] = [];
    const judged = new Set<VerdictKind>();
    const say = (kinds: readonly VerdictKind[], found: Finding | undefined): void => {
      for (const kind of kinds) judged.add(kind);
      if (found !== undefined) findings.push(found);
    };

    const groups = rolloutGroups(evidence);
    const success = evidence.success ?? meanOutcome(groups.flatMap(({ outcomes }) => outcomes ?? []));
    if (success !== undefined) this.#success.add(step, success);
    const regime = this.#readMetrics(evidence, findings, judged);

    this.#rewardRange = widened(this.#rewardRange, groups);
    const triage = triagePrompts(groups, this.#rewardRange);
    if (triage.length > 0) {
      say(['prompts_too_easy', 'prompts_too_hard', 'reward_blind'], undefined);
      findings.push(...triageFindings(step, triage));
    }
    const gate = triage.length > 0 ? filterGate(triage.map(({ rewardStd }) => rewardStd ** 2)) : null;
    if (gate !== null) {
      this.#gate = gateStreak(this.#gate, step, gate);
      say(['filter_not_advised'], filterFinding(this.#gate, gate));
    }

    const counts = specificityOf(evidence);
    if (counts !== null) {
      this.#specificity = decayed(this.#specificity, counts);
      say(['specific_but_wrong'], specificityFinding(step, this.#specificity));
    }

    // The seed and the step alone decide the permutations, so that a restored judge draws the same.
    const { permutations, seed } = this.#options;
    const draw = seed + step * 2 ** 21;
    const actionInfo = rows?.actions ? actionInformation(rows.groups, rows.actions, permutations, draw) : null;
    if (actionInfo !== null) {
      this.#promptDependence = noted(this.#promptDependence, step, actionInfo.pValue);
      say(['actions_ignore_prompt'], dependenceFinding('actions_ignore_prompt', this.#promptDependence, actionInfo));
    }
    const swaps = rows?.reasoningSwaps;
    const reasoningInfo = rows && swaps ? reasoningInformation(rows.groups, swaps, permutations, draw) : null;
    if (reasoningInfo !== null) {
      this.#reasoningDependence = noted(this.#reasoningDependence, step, reasoningInfo.pValue);
      const kind = 'actions_ignore_reasoning';
      say([kind], dependenceFinding(kind, this.#reasoningDependence, reasoningInfo));
    }
    const oscillation =
      rows?.actions && rows.episodes
        ? actionOscillation(actionSequences(rows.groups, rows.actions, rows.episodes, rows.turns), permutations, draw)
        : null;
    if (oscillation !== null) say(['oscillating_actions'], oscillationFinding(step, oscillation));

    const matched = rows?.matched ?? matchedOf(evidence);
    const grounded = rows?.ablated && matched ? grounding(rows.groups, matched, rows.ablated) : null;
    if (grounded !== null) {
      this.#grounding.add(step, grounded.gain, grounded.error);
      say(['ungrounded'], groundingFinding(this.#grounding, grounded));
    }

    if (metrics !== undefined || evidence.figures !== undefined) {
      const lowVariance = triage.filter(({ cause }) => cause !== 'varied').length;
      this.#figures.add(step, {
        ...metrics?.values,
        ...(triage.length > 0 ? { low_variance_prompts: lowVariance / triage.length } : {}),
        ...(evidence.filter ? { filter_kept_ratio: keptRatio(evidence.filter) } : {}),
        ...(gate?.ratio != null ? { filter_gate: gate.ratio } : {}),
        ...(actionInfo !== null ? { action_information: actionInfo.estimate } : {}),
        ...(reasoningInfo !== null ? { reasoning_information: reasoningInfo.estimate } : {}),
        ...(grounded !== null ? { grounding_gain: grounded.gain } : {}),
        ...evidence.figures,
        ...(success !== undefined ? { success } : {}),
      });
    }
    return {
      step,
      regime,
      triage,
      specificity: counts && specificityShares(counts),
      filterGate: gate,
      actionInformation: actionInfo,
      reasoningInformation: reasoningInfo,
      grounding: grounded,
      oscillation,
      verdicts: this.#verdicts.add(step, findings, judged),
    };
  }

  #readMetrics({ step, metrics }: StepEvidence, findings: Finding[], judged: Set<VerdictKind>): RegimeReading {
    const levels = stepLevels(metrics);
    if (typeof levels === 'string') return this.#regimes.unread(step, levels);
    for (const kind of BY_METRICS) judged.add(kind);
    const { reading, finding } = this.#regimes.read(step, levels);
    if (finding !== undefined) findings.push(finding);
    if (reading.regime === null) return reading;
    const { mi, entropy } = this.#regimes;
    const warnings = this.#earlyWarning.look(step, mi, entropy);
    // Once it has collapsed nothing needs to be warned of.
    if (finding?.severity !== 'critical') findings.push(...warnings);
    const gaming = entropyGaming(mi, entropy, this.#success);
    if (gaming !== undefined) findings.push(gaming);
    return reading;
  }

  /** Verdicts of the whole run, and how each figure goes with `against`. */
  summary(against = 'success'): RunSummary {
    return summarize({
      firstStep: this.#firstStep,
      lastStep: this.#lastStep,
      steps: this.#steps,
      regimes: this.#regimes,
      verdicts: this.#verdicts,
      figures: this.#figures,
      against,
    });
  }

  toJSON(): JudgeJson {
    return {
      format: 'collapsar/judge',
      version: VERSION,
      options: { ...this.#options },
      lastStep: this.#lastStep,
      firstStep: this.#firstStep,
      steps: this.#steps,
      regimes: this.#regimes.toJSON(),
      earlyWarning: this.#earlyWarning.toJSON(),
      success: this.#success.toJSON(),
      rewardRange: { ...this.#rewardRange },
      specificity: { ...this.#specificity },
      promptDependence: { ...this.#promptDependence },
      reasoningDependence: { ...this.#reasoningDependence },
      grounding: this.#grounding.toJSON(),
      gate: { ...this.#gate },
      verdicts: this.#verdicts.toJSON(),
      figures: this.#figures.toJSON(),
    };
  }

  /**
   * A judge that goes on where the saved one stood.
   * @throws {StateError} for anything but what toJSON() gave
   */
  static from(json: unknown): Judge {
    const saved = judgeShape(json, 'judge');
    if (saved.version !== VERSION) {
      throw new StateError(
        `judge of version ${saved.version}; this release reads version ${VERSION}: start a new Judge`,
      );
    }
    const judge = new Judge(saved.options);
    judge.#firstStep = saved.firstStep;
    judge.#lastStep = saved.lastStep;
    judge.#steps = saved.steps;
    judge.#regimes = new Regimes(saved.regimes);
    judge.#earlyWarning = new EarlyWarning(saved.earlyWarning);
    judge.#success = new RunLevel(saved.success);
    judge.#rewardRange = saved.rewardRange;
    judge.#specificity = saved.specificity;
    judge.#promptDependence = saved.promptDependence;
    judge.#reasoningDependence = saved.reasoningDependence;
    judge.#grounding = new RunLevel(saved.grounding);
    judge.#gate = saved.gate;
    judge.#verdicts = new VerdictLog(saved.verdicts);
    judge.#figures = new FigureHistory(saved.figures);
    return judge;
  }
}

function keptRatio({ kept, dropped }: FilterEvidence): number {
  return kept.length / (kept.length + dropped.length);
}

function meanOutcome(outcomes: readonly number[]): number | undefined {
  if (outcomes.length === 0 || outcomes.some((outcome) => outcome !== 0 && outcome !== 1)) return undefined;
  return outcomes.reduce((total, outcome) => total + outcome, 0) / outcomes.length;
}

/** Right or wrong: by outcome, else by a reward of 1 or 0, else by whether the reward is above the step's mean. */
function specificityOf({ metrics, rows }: StepEvidence): SpecificityCounts | null {
  const perRow = metrics?.perRow;
  const earned = rows?.outcomes ?? rows?.rewards;
  if (perRow === undefined || earned === undefined) return null;
  const values = Array.from(perRow.row, (row) => earned[row] as number);
  if (!values.every(Number.isFinite)) return null;
  const binary = values.every((value) => value === 0 || value === 1);
  const bar = binary || rows?.outcomes ? 0.5 : values.reduce((total, value) => total + value, 0) / values.length;
  return countSpecificity(
    perRow.retrieved,
    values.map((value) => (value > bar || (bar === 0.5 && value === 0.5) ? 1 : 0)),
  );
}

/** log p(z|x) of every row, NaN where the metrics left it out. */
function matchedOf({ metrics, rows }: StepEvidence): Float64Array | undefined {
  if (metrics?.perRow === undefined || rows === undefined) return undefined;
  const matched = new Float64Array(rows.groups.length).fill(Number.NaN);
  for (const [at, row] of metrics.perRow.row.entries()) matched[row] = metrics.perRow.matched[at] as number;
  return matched;
}

function actionSequences(
  groups: NonNullable<StepEvidence['rows']>['groups'],
  actions: NonNullable<NonNullable<StepEvidence['rows']>['actions']>,
  episodes: NonNullable<NonNullable<StepEvidence['rows']>['episodes']>,
  turns: NonNullable<StepEvidence['rows']>['turns'],
): (number | bigint)[][] {
  return episodesOf(groups, episodes, turns).map((rows) => rows.map((row) => actions[row] as number | bigint));
}
