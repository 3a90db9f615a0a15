// Evidence step by step in, after each step the regime and the verdicts that hold; at any time the run's summary and a
// state that continues to the bit. docs/reference/verdicts.md has every rule. Memory is constant: each part says what
// it keeps.

import { checkObject } from '../checks/argument-checks.js';
import type { OperationOptions } from '../checks/operation-options.js';
import { checkOptions } from '../checks/options.js';
import { count, fields, nullable, oneOf, optional, SavedState, type Shaped } from '../checks/saved.js';
import type { Engine } from '../engine/engine.js';
import { filterGate } from '../filter/filter-gate.js';
import type { StepMetrics } from '../metrics/step-metrics.js';
import { TEXT_PREFIX, type TextMetrics } from '../metrics/text-metrics.js';
import { RunDependence, runEnvironmentsShape } from './environments/run-dependence.js';
import { checkStepOrder } from './evidence/check-evidence.js';
import type { StepEvidence } from './evidence/step-evidence.js';
import { type JudgeOptions, resolveJudgeOptions } from './judge-options.js';
import type { Judgement, RegimeReading } from './judgement.js';
import { TEXTS_AND_LOGPROBS } from './levels/instrument.js';
import { isMeasurable, RunLevel, runLevelShape, START_WINDOW } from './levels/run-level.js';
import { type StepLevels, stepLevels } from './levels/step-levels.js';
import { textLevels, type Variety } from './levels/text-levels.js';
import { type DependenceStep, promptDependenceFields } from './prompt-dependence.js';
import { type RewardRange, rewardRangeShape, triageFindings, triagePrompts, unionRange } from './prompt-triage.js';
import { type RunSummary, summarize } from './run-summary.js';
import { FigureHistory, figureHistoryShape } from './statistics/figure-history.js';
import { checkReading, readEvidence, readEvidenceOn, type StepReading } from './step-reading.js';
import type { Finding, VerdictKind } from './verdict.js';
import { VerdictLog, verdictLogShape } from './verdict-log.js';
import { type Dependence, dependenceFinding, dependenceShape, NOT_SEEN, noted } from './warnings/action-information.js';
import { oscillationFinding } from './warnings/action-oscillation.js';
import { type CopiesStreak, copiesFinding, copiesShape, copiesStreak, NO_COPIES } from './warnings/copies.js';
import { filterFinding, type GateStreak, gateStreak, gateStreakShape } from './warnings/filter-not-advised.js';
import { Groundedness, groundednessShape } from './warnings/grounding.js';
import { RepetitionLoop, repetitionLoopShape } from './warnings/repetition-loop.js';
import {
  decayed,
  NO_COUNTS,
  type SpecificityCounts,
  specificityFinding,
  specificityShape,
  specificityShares,
} from './warnings/specificity.js';
import { TemplateGrows, templateGrowsShape } from './warnings/template-grows.js';

const judgeFields = fields({
  options: fields({ permutations: count, seed: count }),
  lastStep: nullable(count),
  firstStep: nullable(count),
  steps: count,
  computed: count,
  ...promptDependenceFields,
  texts: fields(promptDependenceFields),
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
  /** Of batches that name environments. */
  environments: optional(fields({ scores: optional(runEnvironmentsShape), texts: optional(runEnvironmentsShape) })),
});

const savedState = new SavedState(
  { format: 'collapsar/judge', version: 6, is: 'judge', from: 'Judge.toJSON()', without: 'start a new Judge' },
  judgeFields,
);
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
  readonly #options: JudgeJson['options'];
  #firstStep: number | null = null;
  #lastStep: number | null = null;
  #steps = 0;
  #computed = 0;
  #scores = new RunDependence();
  #texts = new RunDependence();
  /** What texts tell variety by; null before the first step with texts. */
  #variety: Variety | null = null;
  #templateGrows = new TemplateGrows();
  #repetitionLoop = new RepetitionLoop();
  #copies: CopiesStreak = NO_COPIES;
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

  /** @internal What steps are read with. */
  get options(): JudgeJson['options'] {
    return this.#options;
  }

  /**
   * Takes in one step.
   * @returns the regime, the verdicts that hold, and the figures behind them
   * @throws {ArgumentError} for a step that is not later than the last, or columns of different lengths; nothing is
   *   taken in
   */
  add(evidence: StepEvidence): Judgement {
    checkObject(evidence, 'evidence');
    checkStepOrder(evidence.step, this.#lastStep);
    return this.#judge(readEvidence(evidence, this.#options), evidence.metrics, evidence.texts);
  }

  /**
   * The same, to the bit, with the permutations on an engine's threads: `add` holds the event loop for 10 ns a row and
   * permutation. The evidence must not change meanwhile.
   * @throws {ArgumentError} (as a rejection) as `add`; `signal.reason` when aborted: nothing is taken in
   */
  async addOn(engine: Engine, evidence: StepEvidence, options: OperationOptions = {}): Promise<Judgement> {
    checkObject(evidence, 'evidence');
    checkOptions(options);
    checkStepOrder(evidence.step, this.#lastStep);
    const reading = await readEvidenceOn(engine, evidence, { ...this.#options, signal: options.signal });
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
    checkStepOrder(reading.step, this.#lastStep);
    return this.#judge(reading, metrics, texts);
  }

  #judge(reading: StepReading, metrics: StepMetrics | undefined, texts: TextMetrics | undefined): Judgement {
    const { step, success, prompts, specificity: counts, grounding: grounded, oscillation } = reading;
    const { actionInformation: actionInfo, reasoningInformation: reasoningInfo } = reading;
    this.#lastStep = step;
    this.#firstStep ??= step;
    this.#steps++;
    if (metrics !== undefined) this.#computed++;
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
      this.#copies = copiesStreak(this.#copies, step, texts);
      say(['copies'], copiesFinding(this.#copies, texts));
    }

    this.#rewardRange = unionRange(this.#rewardRange, reading.rewardRange);
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

    const { permutations } = this.#options;
    if (actionInfo !== null) {
      this.#promptDependence = noted(this.#promptDependence, step, actionInfo.pValue);
      const kind = 'actions_ignore_prompt';
      say([kind], dependenceFinding(kind, this.#promptDependence, actionInfo, permutations));
    }
    if (reasoningInfo !== null) {
      this.#reasoningDependence = noted(this.#reasoningDependence, step, reasoningInfo.pValue);
      const kind = 'actions_ignore_reasoning';
      say([kind], dependenceFinding(kind, this.#reasoningDependence, reasoningInfo, permutations));
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
    const levels = textLevels(texts, this.#variety, least);
    if (typeof levels !== 'string') {
      this.#variety ??= levels.instrument === TEXTS_AND_LOGPROBS ? 'logprobs' : 'novelty';
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
    return this.#scores.isStarting && this.#computed < START_WINDOW;
  }

  /** Verdicts of the whole run, and how each figure goes with `against`. */
  summary(against = 'success'): RunSummary {
    return summarize({
      firstStep: this.#firstStep,
      lastStep: this.#lastStep,
      steps: this.#steps,
      regimes: this.#spoken.regimes,
      verdicts: this.#verdicts,
      figures: this.#figures,
      against,
    });
  }

  /** All that later steps depend on: plain JSON. */
  toJSON(): JudgeJson {
    return {
      format: 'collapsar/judge',
      version: 6,
      options: { ...this.#options },
      lastStep: this.#lastStep,
      firstStep: this.#firstStep,
      steps: this.#steps,
      computed: this.#computed,
      ...this.#scores.toJSON(),
      texts: this.#texts.toJSON(),
      variety: this.#variety,
      templateGrows: this.#templateGrows.toJSON(),
      repetitionLoop: this.#repetitionLoop.toJSON(),
      copies: { ...this.#copies },
      success: this.#success.toJSON(),
      rewardRange: { ...this.#rewardRange },
      specificity: { ...this.#specificity, products: [...this.#specificity.products] },
      promptDependence: { ...this.#promptDependence },
      reasoningDependence: { ...this.#reasoningDependence },
      grounding: this.#grounding.toJSON(),
      gate: { ...this.#gate },
      verdicts: this.#verdicts.toJSON(),
      figures: this.#figures.toJSON(),
      ...this.#environments(),
    };
  }

  #environments(): Pick<JudgeJson, 'environments'> {
    const [scores, texts] = [this.#scores.environmentsJSON(), this.#texts.environmentsJSON()];
    if (scores === undefined && texts === undefined) return {};
    return { environments: { ...(scores && { scores }), ...(texts && { texts }) } };
  }

  /**
   * A judge that goes on where the saved one stood.
   * @throws {StateError} for anything but what toJSON() gave
   */
  static from(json: unknown): Judge {
    return Judge.of(savedState.read(json));
  }

  /** @internal A judge of a state that was checked. */
  static of(saved: JudgeJson): Judge {
    const judge = new Judge(saved.options);
    judge.#firstStep = saved.firstStep;
    judge.#lastStep = saved.lastStep;
    judge.#steps = saved.steps;
    judge.#computed = saved.computed;
    judge.#scores = new RunDependence(saved, saved.environments?.scores);
    judge.#texts = new RunDependence(saved.texts, saved.environments?.texts);
    judge.#variety = saved.variety;
    judge.#templateGrows = new TemplateGrows(saved.templateGrows);
    judge.#repetitionLoop = new RepetitionLoop(saved.repetitionLoop);
    judge.#copies = saved.copies;
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

/** What is held against success: figures of the batch as a whole. */
function ofWhole({ environments, logged, values }: TextMetrics): Readonly<Record<string, number>> {
  if (environments === undefined) return logged;
  return Object.fromEntries(Object.entries(values).map(([key, value]) => [TEXT_PREFIX + key, value]));
}
