// Judges a run step by step: regime and verdicts after each step, a summary at any time, and a saved state that
// continues to the bit. docs/reference/verdicts.md has every rule. Memory is constant.

import { checkObject } from '../checks/argument-checks.js';
import type { OperationOptions } from '../checks/operation-options.js';
import { checkOptions } from '../checks/options.js';
import { count, fields, nullable, oneOf, SavedState, type Shaped, startOf } from '../checks/saved.js';
import type { Engine } from '../engine/engine.js';
import { filterGate } from '../filter/filter-gate.js';
import type { StepMetrics } from '../metrics/step-metrics.js';
import { TEXT_PREFIX, type TextMetrics } from '../metrics/text-metrics.js';
import { RunDependence, runDependenceShape } from './environments/run-dependence.js';
import { checkStepOrder } from './evidence/check-evidence.js';
import type { StepEvidence } from './evidence/step-evidence.js';
import { type JudgeOptions, resolveJudgeOptions } from './judge-options.js';
import type { Judgement, RegimeReading } from './judgement.js';
import { TEXTS_AND_LOGPROBS } from './levels/instrument.js';
import { isMeasurable, RunLevel, runLevelShape, START_WINDOW } from './levels/run-level.js';
import { type StepLevels, stepLevels } from './levels/step-levels.js';
import { textLevels } from './levels/text-levels.js';
import type { DependenceStep } from './prompt-dependence.js';
import { rewardRangeShape, triageFindings, triagePrompts, unionRange } from './prompt-triage.js';
import { type RunSummary, summarize } from './run-summary.js';
import { FigureHistory, figureHistoryShape } from './statistics/figure-history.js';
import { checkReading, readEvidence, readEvidenceOn, type StepReading } from './step-reading.js';
import type { Finding, VerdictKind } from './verdict.js';
import { VerdictLog, verdictLogShape } from './verdict-log.js';
import { dependenceFinding, dependenceShape, noted } from './warnings/action-information.js';
import { oscillationFinding } from './warnings/action-oscillation.js';
import { copiesFinding, copiesShape, copiesStreak } from './warnings/copies.js';
import { filterFinding, gateStreak, gateStreakShape } from './warnings/filter-not-advised.js';
import { Groundedness, groundednessShape } from './warnings/grounding.js';
import { RepetitionLoop, repetitionLoopShape } from './warnings/repetition-loop.js';
import { decayed, specificityFinding, specificityShape, specificityShares } from './warnings/specificity.js';
import { TemplateGrows, templateGrowsShape } from './warnings/template-grows.js';

const judgeFields = fields({
  options: fields({ permutations: count, seed: count }),
  lastStep: nullable(count),
  firstStep: nullable(count),
  steps: count,
  computed: count,
  scores: runDependenceShape,
  texts: runDependenceShape,
  /** What texts tell variety by; null before the first step with texts. */
  variety: nullable(oneOf('logprobs', 'novelty')),
  templateGrows: templateGrowsShape,
  repetitionLoop: repetitionLoopShape,
  copies: copiesShape,
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

const JUDGE = {
  format: 'collapsar/judge',
  version: 1,
  is: 'judge',
  from: 'Judge.toJSON()',
  without: 'start a new Judge',
} as const;

const savedState = new SavedState(JUDGE, judgeFields);
export const judgeShape = savedState.shape;

/** Plain JSON. */
export type JudgeJson = Shaped<typeof judgeShape>;

/**
 * Judges a run step by step: its regime, and verdicts with evidence and advice (docs/reference/verdicts.md).
 * @example
 * import { Judge } from 'collapsar';
 *
 * const judge = new Judge(); // one object a run
 * const { regime, verdicts } = judge.add({ step: n, metrics, rows: { groups, rewards } });
 * const later = Judge.from(JSON.parse(JSON.stringify(judge))); // continues to the bit
 */
export class Judge {
  readonly #state: Shaped<typeof judgeFields>;
  readonly #scores: RunDependence;
  readonly #texts: RunDependence;
  readonly #templateGrows: TemplateGrows;
  readonly #repetitionLoop: RepetitionLoop;
  readonly #success: RunLevel;
  readonly #grounding: Groundedness;
  readonly #verdicts: VerdictLog;
  readonly #figures: FigureHistory;

  /** @throws {ArgumentError} for an option that is unknown or out of range */
  constructor(options?: JudgeOptions);
  /** @internal */
  constructor(options: JudgeOptions, saved: Shaped<typeof judgeFields>);
  constructor(options: JudgeOptions = {}, saved?: Shaped<typeof judgeFields>) {
    const state = saved ?? { ...startOf(judgeFields), options: resolveJudgeOptions(options) };
    this.#state = state;
    this.#scores = new RunDependence(state.scores);
    this.#texts = new RunDependence(state.texts);
    this.#templateGrows = new TemplateGrows(state.templateGrows);
    this.#repetitionLoop = new RepetitionLoop(state.repetitionLoop);
    this.#success = new RunLevel(state.success);
    this.#grounding = new Groundedness(state.grounding);
    this.#verdicts = new VerdictLog(state.verdicts);
    this.#figures = new FigureHistory(state.figures);
  }

  /** @internal What steps are read with. */
  get options(): JudgeJson['options'] {
    return this.#state.options;
  }

  /**
   * Takes in one step.
   * @returns the regime, the verdicts that hold, and the figures behind them
   * @throws {ArgumentError} for a step that is not later than the last, or columns of different lengths; nothing is
   *   taken in
   */
  add(evidence: StepEvidence): Judgement {
    checkObject(evidence, 'evidence');
    checkStepOrder(evidence.step, this.#state.lastStep);
    return this.#judge(readEvidence(evidence, this.#state.options), evidence.metrics, evidence.texts);
  }

  /**
   * The same, to the bit, with the permutations on an engine's threads: `add` holds the event loop for 10 ns a row and
   * permutation. The evidence must not change meanwhile.
   * @throws {ArgumentError} (as a rejection) as `add`; `signal.reason` when aborted: nothing is taken in
   */
  async addOn(engine: Engine, evidence: StepEvidence, options: OperationOptions = {}): Promise<Judgement> {
    checkObject(evidence, 'evidence');
    checkOptions(options);
    checkStepOrder(evidence.step, this.#state.lastStep);
    const reading = await readEvidenceOn(engine, evidence, { ...this.#state.options, signal: options.signal });
    return this.take(reading, evidence.metrics, evidence.texts);
  }

  /**
   * @internal The same for a step whose evidence was read before.
   * @param metrics the step's, with the run's moving averages
   * @param texts text figures of the step
   * @throws {ArgumentError} for a step that is not later than the last; nothing is taken in
   */
  take(reading: StepReading, metrics: StepMetrics | undefined, texts?: TextMetrics | undefined): Judgement {
    checkReading(reading);
    checkStepOrder(reading.step, this.#state.lastStep);
    return this.#judge(reading, metrics, texts);
  }

  #judge(reading: StepReading, metrics: StepMetrics | undefined, texts: TextMetrics | undefined): Judgement {
    const { step, success, prompts, specificity: counts, grounding: grounded, oscillation } = reading;
    const { actionInformation: actionInfo, reasoningInformation: reasoningInfo } = reading;
    this.#state.lastStep = step;
    this.#state.firstStep ??= step;
    this.#state.steps++;
    if (metrics !== undefined) this.#state.computed++;
    const findings: Finding[] = [];
    const judged = new Set<VerdictKind>();
    const say = (kinds: readonly VerdictKind[], found: Finding | undefined): void => {
      for (const kind of kinds) judged.add(kind);
      if (found !== undefined) findings.push(found);
    };

    if (success !== null && isMeasurable(success)) this.#success.add(step, success);
    const { notes = [], ...regime } = this.#readDependence(step, metrics, texts, findings, judged);
    if (texts !== undefined) {
      say(['template_grows'], this.#templateGrows.look(step, texts));
      say(['repetition_loop'], this.#repetitionLoop.look(step, texts));
      this.#state.copies = copiesStreak(this.#state.copies, step, texts);
      say(['copies'], copiesFinding(this.#state.copies, texts));
    }

    this.#state.rewardRange = unionRange(this.#state.rewardRange, reading.rewardRange);
    const triage = triagePrompts(prompts, this.#state.rewardRange);
    if (triage.length > 0) {
      say(['prompts_too_easy', 'prompts_too_hard', 'reward_blind'], undefined);
      findings.push(...triageFindings(step, triage));
    }
    const gate = triage.length > 0 ? filterGate(triage.map(({ rewardStd }) => rewardStd ** 2)) : null;
    if (gate !== null) {
      this.#state.gate = gateStreak(this.#state.gate, step, gate);
      say(['filter_not_advised'], filterFinding(this.#state.gate, gate));
    }

    if (counts !== null) {
      this.#state.specificity = decayed(this.#state.specificity, counts);
      say(['specific_but_wrong'], specificityFinding(step, this.#state.specificity));
    }

    const { permutations } = this.#state.options;
    if (actionInfo !== null) {
      this.#state.promptDependence = noted(this.#state.promptDependence, step, actionInfo.pValue);
      const kind = 'actions_ignore_prompt';
      say([kind], dependenceFinding(kind, this.#state.promptDependence, actionInfo, permutations));
    }
    if (reasoningInfo !== null) {
      this.#state.reasoningDependence = noted(this.#state.reasoningDependence, step, reasoningInfo.pValue);
      const kind = 'actions_ignore_reasoning';
      say([kind], dependenceFinding(kind, this.#state.reasoningDependence, reasoningInfo, permutations));
    }
    if (oscillation !== null) say(['oscillating_actions'], oscillationFinding(step, oscillation, permutations));

    if (grounded !== null) say(['ungrounded'], this.#grounding.read(step, grounded));

    if (metrics !== undefined || texts !== undefined || reading.figures !== null) {
      const lowVariance = triage.filter(({ cause }) => cause !== 'varied').length;
      this.#figures.add(step, {
        ...metrics?.values,
        ...(texts && ofWhole(texts)),
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
      ...(notes.length > 0 && { notes }),
    };
  }

  /** Cross-scores are the better instrument: where a step of the run has had any, texts do not speak of dependence. */
  #readDependence(
    step: number,
    metrics: StepMetrics | undefined,
    texts: TextMetrics | undefined,
    findings: Finding[],
    judged: Set<VerdictKind>,
  ): RegimeReading & Pick<DependenceStep, 'notes'> {
    const byScores = this.#scores.read(step, metrics, stepLevels, this.#success);
    const byTexts = this.#texts.read(step, texts, (of, least) => this.#textLevels(of, least), this.#success);
    const isScored = this.#isScored;
    const found = isScored ? byScores : byTexts;
    if (typeof found !== 'string') {
      for (const kind of found.judged) judged.add(kind);
      findings.push(...found.findings);
      const { reading, notes } = found;
      return { ...reading, ...(!isScored && { instrument: 'texts' }), ...(notes && { notes }) };
    }
    const unread = isScored || texts === undefined ? byScores : byTexts;
    return this.#spoken.regimes.unread(step, unread as string);
  }

  #textLevels(texts: TextMetrics | undefined, least?: number): StepLevels | string {
    const levels = textLevels(texts, this.#state.variety, least);
    if (typeof levels !== 'string') {
      this.#state.variety ??= levels.instrument === TEXTS_AND_LOGPROBS ? 'logprobs' : 'novelty';
    }
    return levels;
  }

  get #isScored(): boolean {
    return this.#scores.hasSteps;
  }

  /** The instrument that gives the run's regime. */
  get #spoken(): RunDependence {
    return this.#isScored ? this.#scores : this.#texts;
  }

  /**
   * Whether the run's start is still to come: the first START_STEPS steps with evidence, which later ones are compared
   * with. A run that gives none among its first START_WINDOW computed steps is not waited for.
   */
  get isStarting(): boolean {
    return this.#scores.isStarting && this.#state.computed < START_WINDOW;
  }

  /** Verdicts of the whole run, and how each figure goes with `against`. */
  summary(against = 'success'): RunSummary {
    return summarize({
      firstStep: this.#state.firstStep,
      lastStep: this.#state.lastStep,
      steps: this.#state.steps,
      regimes: this.#spoken.regimes,
      verdicts: this.#verdicts,
      figures: this.#figures,
      against,
    });
  }

  /** All that later steps depend on: plain JSON. */
  toJSON(): JudgeJson {
    const { format, version } = JUDGE;
    const { figures: _, ...state } = this.#state;
    return { format, version, ...structuredClone(state), figures: this.#figures.toJSON() };
  }

  /**
   * A judge that continues from the saved state.
   * @throws {StateError} for anything but what toJSON() gave
   */
  static from(json: unknown): Judge {
    return Judge.of(savedState.read(json));
  }

  /** @internal A judge of a state that was checked. */
  static of({ format: _, version: __, ...state }: JudgeJson): Judge {
    return new Judge(state.options, state);
  }
}

/** What is held against success: figures of the batch as a whole. */
function ofWhole({ environments, logged, values }: TextMetrics): Readonly<Record<string, number>> {
  if (environments === undefined) return logged;
  return Object.fromEntries(Object.entries(values).map(([key, value]) => [TEXT_PREFIX + key, value]));
}
