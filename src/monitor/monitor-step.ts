// Holds one open step: it says what to score, takes the scores as they come, and ends with the outcomes.

import { abortableSource, expectSource, type Source } from '../checks/abortable-source.js';
import { ArgumentError } from '../checks/errors.js';
import { checkOptions, is, type OptionTable } from '../checks/options.js';
import type { Engine } from '../engine/engine.js';
import type { HeldTokens } from '../engine/native.js';
import type { TokenBox } from '../engine/tokens/token-block.js';
import type { FilterResult } from '../filter/filter-result.js';
import type { TextMetrics } from '../metrics/text-metrics.js';
import type { MeasuredTexts } from '../step/measured-texts.js';
import type { RewardBucket } from '../step/outcomes/reward-buckets.js';
import type { StepReport } from '../step/step-report.js';
import { CollectedScores, type ColumnScores, type ScoreBlock, type WholeScores } from './collected-scores.js';
import { type OpenStep, previewBuckets } from './finish-step.js';
import type { RunOptions } from './monitor-options.js';
import type { OpenLabels } from './outcomes/step-labels.js';
import { type CheckedOutcomes, checkOutcomes, type StepOutcomes } from './outcomes/step-outcomes.js';
import { checkRollouts, type RolloutRows, rolloutTexts } from './rollout-texts.js';
import { planStep, samplerOfStep, seedOfStep, type WantedPairs, wantedPairs } from './wanted-scores.js';

/** What a step needs of its monitor. */
export interface StepHost {
  readonly options: RunOptions;
  /** Whether somebody wants to know of single prompts. */
  readonly perPrompt: boolean;
  engine(): Promise<Engine>;
  /** Computes and commits a step when all steps that were finished earlier are committed. */
  finish(open: OpenStep, outcomes: CheckedOutcomes, signal: AbortSignal | undefined): Promise<StepReport<FilterResult>>;
}

/** Options of `step.score`. */
export interface ScoreOptions {
  readonly signal?: AbortSignal | undefined;
}

const OPTIONS: OptionTable<ScoreOptions> = { signal: is.signal };

/** @throws {ArgumentError} naming the option that is unknown or of another kind */
export function scoreOptions(options: ScoreOptions): ScoreOptions {
  checkOptions(options, OPTIONS);
  return options;
}

const NOTHING_WANTED: WantedPairs = { rows: new Int32Array(0), prompts: new Int32Array(0), byPrompt: [] };

/** One open step, as `Monitor.step` gives it: `score` what `pairs` names, then `finish`. Several may be open. */
export class MonitorStep {
  /** Training step. */
  readonly number: number;
  /** Whether this step's cross-scores are wanted. */
  readonly due: boolean;
  readonly #host: StepHost;
  readonly #open: OpenStep;
  readonly #wanted: WantedPairs;
  #texts: Promise<MeasuredTexts> | undefined;
  #givenUp: { readonly reason: unknown } | undefined;

  /** @internal Use `monitor.step()`. */
  constructor(host: StepHost, step: number, due: boolean, labels: OpenLabels) {
    const { profile, samplers: drawn, negatives, hardShare, seed } = host.options;
    const samplers = drawn.map((sampler) => samplerOfStep(sampler, step));
    this.number = step;
    this.due = due;
    this.#host = host;
    if (!due) {
      this.#wanted = NOTHING_WANTED;
      this.#open = { step, labels, samplers, plan: undefined, scores: undefined };
      return;
    }
    const plan = negatives === null ? undefined : planStep(labels, negatives, hardShare, seedOfStep(seed, step));
    this.#wanted = plan ?? wantedPairs(labels, profile, samplers);
    this.#open = {
      step,
      labels,
      samplers,
      plan,
      scores: new CollectedScores(labels, this.#wanted, () => host.engine()),
    };
  }

  /**
   * The (row, prompt) pairs to score, in parallel arrays by rising prompt and row, and the same prompt by prompt.
   * Prompts are indices of columns. Empty if the step is not due.
   */
  pairs(): WantedPairs {
    return this.#wanted;
  }

  /**
   * Takes the scores of one prompt, in any order; resolves when they are summed, until when their memory must not
   * change.
   * @param prompt index of the column, 0 to P − 1
   * @throws {ArgumentError} (as a rejection) for a step that is not due, an unknown prompt, one that was scored before,
   *   or scores that do not fit
   */
  async score(prompt: number, scores: ColumnScores, options: ScoreOptions = {}): Promise<void> {
    const { signal } = scoreOptions(options);
    await this.#scores().add(prompt, scores, signal);
  }

  /**
   * Takes the scores of all prompts at once: the same bits as prompt by prompt.
   * @throws {ArgumentError} (as a rejection) for a step that is not due, if a prompt was scored before, or scores that
   *   do not fit
   */
  async scoreAll(scores: WholeScores, options: ScoreOptions = {}): Promise<void> {
    const { signal } = scoreOptions(options);
    await this.#scores().addAll(scores, signal);
  }

  /**
   * Takes the scores of some rows under all prompts: `logprobs` [P, r, T] or packed [P, N], or `sums` [r, P].
   * @param rows indices of rows, or a range of them
   * @throws {ArgumentError} (as a rejection) as scoreBlock()
   */
  async scoreRows(rows: TokenBox['rows'], scores: WholeScores, options: ScoreOptions = {}): Promise<void> {
    const { signal } = scoreOptions(options);
    await this.#scores().addBlock({ ...scores, rows }, signal);
  }

  /**
   * Takes any part of the scores: some prompts × some rows × some tokens. Parts may come in any order and side by side,
   * and give the bits of the whole. Resolves when they are summed; until then their memory must not change.
   * TokenSumsSink says what each order holds.
   * @throws {ArgumentError} (as a rejection) for a step that is not due, a token that came before, or a block that does
   *   not fit; the step is then as it was
   */
  async scoreBlock(block: ScoreBlock, options: ScoreOptions = {}): Promise<void> {
    const { signal } = scoreOptions(options);
    await this.#scores().addBlock(block, signal);
  }

  /**
   * Takes blocks from an (async) iterable or a Web Stream, asking for the next when one is taken in. Where the source
   * or a block fails, or at an abort, the source is closed and all rows that it gave something of are forgotten, so
   * that they may come again.
   * @throws what the source throws; {ArgumentError} as scoreBlock(); `signal.reason` when aborted
   */
  async scoreBlocks(blocks: Source<ScoreBlock>, options: ScoreOptions = {}): Promise<void> {
    const { signal } = scoreOptions(options);
    const scores = this.#scores();
    expectSource(blocks, 'blocks');
    const session = scores.session();
    try {
      for await (const block of abortableSource(blocks, signal)) await scores.addBlock(block, signal, session);
    } catch (error) {
      await session.undo();
      throw error;
    }
  }

  /**
   * Blocks as a Web Stream, which takes one at a time. Closing it does not finish the step. When it is aborted or
   * refuses a block, all rows that it gave something of are forgotten, so that they may come again.
   * @throws {ArgumentError} for a step that is not due; the reason of one that was given up
   */
  writable(): WritableStream<ScoreBlock> {
    const scores = this.#scores();
    const session = scores.session();
    return new WritableStream<ScoreBlock>({
      async write(block, controller) {
        try {
          // Node has the signal; the types of Node 20 forget it.
          await scores.addBlock(block, (controller as unknown as { readonly signal: AbortSignal }).signal, session);
        } catch (error) {
          await session.undo();
          throw error;
        }
      },
      abort: () => session.undo(),
    });
  }

  /**
   * Takes what the rows say, and measures how much the texts depend on their prompts, without any score
   * (docs/reference/text-figures.md). At any step, due or not; with scores the report has both. Resolves when they are measured;
   * until then they must not change.
   * @param rows one entry a row of the labels' `groups`
   * @returns the figures, which the report has, too
   * @throws {ArgumentError} (as a rejection) for rows that do not fit, or a second call; `signal.reason` when
   *   aborted: then they may be given again
   * @example
   * const step = monitor.step(n, { groups, due: false });
   * await step.rollouts({ texts, prompts });
   * const { judgement } = await step.finish({ rewards });
   */
  async rollouts(rows: RolloutRows, options: ScoreOptions = {}): Promise<TextMetrics> {
    const { signal } = scoreOptions(options);
    if (this.#givenUp !== undefined) throw this.#givenUp.reason;
    if (this.#texts !== undefined) throw new ArgumentError('rollouts', 'the rollouts of this step were given before');
    const { labels } = this.#open;
    checkRollouts(rows, labels);
    const { permutations, seed } = this.#host.options;
    const { perPrompt } = this.#host;
    const measured = this.#host
      .engine()
      .then((engine) => rolloutTexts(engine, rows, labels, { permutations, seed, perPrompt }, signal));
    this.#texts = measured;
    try {
      return (await measured).figures;
    } catch (error) {
      this.#texts = undefined;
      throw error;
    }
  }

  /** What is kept of rows that have begun and are not complete: nothing as long as whole rows come. */
  get held(): HeldTokens {
    return this.#open.scores?.held ?? { pairs: 0, tokens: 0, bytes: 0 };
  }

  /**
   * Gives the step up: what is being scored stops and rejects with the reason, as every later call does; memory is
   * released.
   */
  abort(reason: unknown = new DOMException('the step was aborted', 'AbortError')): void {
    this.#givenUp ??= { reason };
    this.#open.scores?.abort(reason);
  }

  /**
   * The buckets that `finish` will make of these rewards, to take gradient norms of. Changes nothing.
   * @throws {ArgumentError} for a monitor without buckets, or outcomes that do not fit
   */
  buckets(outcomes: StepOutcomes): readonly RewardBucket[] {
    const { labels } = this.#open;
    return previewBuckets(labels, checkOutcomes(outcomes, labels), this.#host.options);
  }

  /**
   * Ends the step. If it rejects, the monitor is as it was: correct what the error names and finish again, or leave the
   * step.
   * @throws {ArgumentError} (as a rejection) for prompts never scored, outcomes that do not fit, or a later step that
   *   was finished meanwhile; `signal.reason` when aborted
   */
  async finish(outcomes: StepOutcomes = {}, options: ScoreOptions = {}): Promise<StepReport<FilterResult>> {
    const { signal } = scoreOptions(options);
    if (this.#givenUp !== undefined) throw this.#givenUp.reason;
    const checked = checkOutcomes(outcomes, this.#open.labels);
    if (this.#texts === undefined) return this.#host.finish(this.#open, checked, signal);
    return this.#host.finish({ ...this.#open, texts: await this.#texts }, checked, signal);
  }

  /** @throws the reason of a step that was given up */
  #scores(): CollectedScores {
    // Before what was scored is looked at: of a step that was given up, nothing is held.
    if (this.#givenUp !== undefined) throw this.#givenUp.reason;
    const { scores } = this.#open;
    if (scores !== undefined) return scores;
    const { everySteps } = this.#host.options;
    throw new ArgumentError(
      'prompt',
      `step ${this.number} is not due (everySteps is ${everySteps}): look at step.due before scoring, or open the step ` +
        'with { due: true }',
    );
  }
}
