// Evidence step by step in, after each step the regime and the verdicts that hold; at any time the run's summary and a
// state that continues to the bit. docs/verdicts.md has every rule. Memory is constant: each part says what it keeps.
import { checkObject } from '../../engine/argument-checks.js';
import { StateError } from '../../errors.js';
import { filterGate } from '../../filter/filter-gate.js';
import type { StepMetrics } from '../../metrics/step-metrics.js';
import { type Dependence, dependenceFinding, dependenceShape, NOT_SEEN, noted } from './action-information.js';
import { oscillationFinding } from './action-oscillation.js';
import { checkReading, checkStep } from './check-evidence.js';
import { EarlyWarning, earlyWarningShape } from './early-warning.js';
import { entropyGaming } from './entropy-gaming.js';
import { FigureHistory, figureHistoryShape } from './figure-history.js';
import { filterFinding, type GateStreak, gateStreak, gateStreakShape } from './filter-advice.js';
import type { Finding } from './finding.js';
import { Groundedness, groundednessShape } from './grounding.js';
import { type JudgeOptions, resolveJudgeOptions } from './judge-options.js';
import { type RewardRange, rewardRangeShape, triageFindings, triagePrompts, widened } from './prompt-triage.js';
import { Regimes, regimesShape, stepLevels } from './regimes.js';
import { isMeasurable, RunLevel, runLevelShape } from './run-level.js';
import { type RunSummary, summarize } from './run-summary.js';
import { count, fields, nullable, oneOf, type Shaped } from './saved-shape.js';
import {
  decayed,
  NO_COUNTS,
  type SpecificityCounts,
  specificityFinding,
  specificityShape,
  specificityShares,
} from './specificity.js';
import type { StepEvidence } from './step-evidence.js';
import { readEvidence, type StepReading } from './step-reading.js';
import type { Judgement, RegimeReading, VerdictKind } from './verdict.js';
import { VerdictLog, verdictLogShape } from './verdict-log.js';

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
  grounding: groundednessShape,
  gate: gateStreakShape,
  verdicts: verdictLogShape,
  figures: figureHistoryShape,
});

/** Plain JSON. */
export type JudgeJson = Shaped<typeof judgeShape>;

const VERSION = 1;

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
  #grounding = new Groundedness();
  #gate: GateStreak = { steps: 0, since: null };
  #verdicts = new VerdictLog();
  #figures = new FigureHistory();

  /** @throws {ArgumentError} for an option that is unknown or out of range */
  constructor(options: JudgeOptions = {}) {
    this.#options = resolveJudgeOptions(options);
  }

  /**
   * Takes in one step.
   * @returns the regime, the verdicts that hold, and the figures behind them
   * @throws {ArgumentError} for a step that is not later than the last, or columns of different lengths; nothing is taken in
   */
  add(evidence: StepEvidence): Judgement {
    checkObject(evidence, 'evidence');
    checkStep(evidence.step, this.#lastStep);
    return this.take(readEvidence(evidence, this.#options), evidence.metrics);
  }

  /**
   * The same for a step whose evidence was read before.
   * @param metrics the step's, with the run's moving averages
   * @throws {ArgumentError} for a step that is not later than the last; nothing is taken in
   */
  take(reading: StepReading, metrics: StepMetrics | undefined): Judgement {
    checkReading(reading);
    const { step, success, prompts, specificity: counts, grounding: grounded, oscillation } = reading;
    const { actionInformation: actionInfo, reasoningInformation: reasoningInfo } = reading;
    checkStep(step, this.#lastStep);
    this.#lastStep = step;
    this.#firstStep ??= step;
    this.#steps++;
    const findings: Finding[] = [];
    const judged = new Set<VerdictKind>();
    const say = (kinds: readonly VerdictKind[], found: Finding | undefined): void => {
      for (const kind of kinds) judged.add(kind);
      if (found !== undefined) findings.push(found);
    };

    if (success !== null && isMeasurable(success)) this.#success.add(step, success);
    const regime = this.#readMetrics(step, metrics, findings, judged);

    this.#rewardRange = widened(this.#rewardRange, reading.rewardRange);
    const triage = triagePrompts(prompts, this.#rewardRange);
    if (triage.length > 0) {
      say(['prompts_too_easy', 'prompts_too_hard', 'reward_blind'], undefined);
      findings.push(...triageFindings(step, triage));
    }
    const gate = triage.length > 0 ? filterGate(triage.map(({ rewardStd }) => rewardStd ** 2)) : null;
    if (gate !== null) {
      this.#gate = gateStreak(this.#gate, step, gate);
      say(['filter_not_advised'], filterFinding(this.#gate, gate));
    }

    if (counts !== null) {
      this.#specificity = decayed(this.#specificity, counts);
      say(['specific_but_wrong'], specificityFinding(step, this.#specificity));
    }

    if (actionInfo !== null) {
      this.#promptDependence = noted(this.#promptDependence, step, actionInfo.pValue);
      say(['actions_ignore_prompt'], dependenceFinding('actions_ignore_prompt', this.#promptDependence, actionInfo));
    }
    if (reasoningInfo !== null) {
      this.#reasoningDependence = noted(this.#reasoningDependence, step, reasoningInfo.pValue);
      const kind = 'actions_ignore_reasoning';
      say([kind], dependenceFinding(kind, this.#reasoningDependence, reasoningInfo));
    }
    if (oscillation !== null) say(['oscillating_actions'], oscillationFinding(step, oscillation));

    if (grounded !== null) say(['ungrounded'], this.#grounding.read(step, grounded));

    if (metrics !== undefined || reading.figures !== null) {
      const lowVariance = triage.filter(({ cause }) => cause !== 'varied').length;
      this.#figures.add(step, {
        ...metrics?.values,
        ...(triage.length > 0 ? { low_variance_prompts: lowVariance / triage.length } : {}),
        ...(reading.filterKeptRatio !== null ? { filter_kept_ratio: reading.filterKeptRatio } : {}),
        ...(gate?.ratio != null ? { filter_gate: gate.ratio } : {}),
        ...(actionInfo !== null ? { action_information: actionInfo.estimate } : {}),
        ...(reasoningInfo !== null ? { reasoning_information: reasoningInfo.estimate } : {}),
        ...(grounded !== null ? { grounding_gain: grounded.gain } : {}),
        ...reading.figures,
        ...(success !== null ? { success } : {}),
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

  #readMetrics(
    step: number,
    metrics: StepMetrics | undefined,
    findings: Finding[],
    judged: Set<VerdictKind>,
  ): RegimeReading {
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

  /** All that later steps depend on: plain JSON. */
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
      specificity: { ...this.#specificity, products: [...this.#specificity.products] },
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
        `a judge of version ${saved.version}; this release reads version ${VERSION}: restore it with the release that saved it, ` +
          'or start a new Judge',
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
    judge.#grounding = new Groundedness(saved.grounding);
    judge.#gate = saved.gate;
    judge.#verdicts = new VerdictLog(saved.verdicts);
    judge.#figures = new FigureHistory(saved.figures);
    return judge;
  }
}
