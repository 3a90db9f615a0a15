// Turns steps into reports as an async iterable and as a Web Stream, both no faster than they are read.

import { unlessAborted } from '../checks/abort.js';
import { abortableSource, closeUnread, expectSource, isSource, type Source } from '../checks/abortable-source.js';
import { checkKnown, optionNames } from '../checks/argument-checks.js';
import { optionsObject } from '../checks/options.js';
import type { FilterResult } from '../filter/filter-result.js';
import type { StepReport } from '../step/step-report.js';
import type { ScoreBlock, WholeScores } from './collected-scores.js';
import { type MonitorStep, type ScoreOptions, scoreOptions } from './monitor-step.js';
import type { StepLabels } from './outcomes/step-labels.js';
import type { StepOutcomes } from './outcomes/step-outcomes.js';
import type { RolloutRows } from './rollout-texts.js';

/** One step with all that is known of it. */
export interface MonitorInput {
  readonly step: number;
  readonly labels: StepLabels;
  /**
   * The cross-scores; blocks of them as an (async) iterable or a Web Stream, of which the next is asked for when one is
   * taken in; or a function that scores the step (`step.pairs()`, `step.score()`) or gives what is allowed here. Read
   * only at a step that is due; a stream that is not wanted is cancelled.
   */
  readonly scores?:
    | WholeScores
    | Source<ScoreBlock>
    | ((step: MonitorStep) => GivenScores | Promise<GivenScores>)
    | undefined;
  /** What the rows say, at any step (`step.rollouts()`). */
  readonly rollouts?: RolloutRows | undefined;
  readonly outcomes?: StepOutcomes | undefined;
}

// biome-ignore lint/suspicious/noConfusingVoidType: what a function without a result gives
type GivenScores = void | WholeScores | Source<ScoreBlock>;

const FIELDS = optionNames<MonitorInput>({
  step: true,
  labels: true,
  scores: true,
  rollouts: true,
  outcomes: true,
});

/** What streams need of a Monitor. */
interface StepOpener {
  step(step: number, labels: StepLabels): MonitorStep;
}

export async function* reportsOf(
  monitor: StepOpener,
  source: Source<MonitorInput>,
  options: ScoreOptions,
): AsyncGenerator<StepReport<FilterResult>, void, undefined> {
  expectSource(source, 'source');
  const { signal } = scoreOptions(options);
  for await (const input of abortableSource(source, signal)) yield await reportOf(monitor, input, signal);
}

/** A step that was written and waits for a reader, or for its report. */
interface Offer {
  readonly input: MonitorInput;
  readonly done: (error?: { readonly reason: unknown }) => void;
}

/**
 * Not a TransformStream, which continues with a step that is no longer wanted: an abort of the writer and a cancel of
 * the reader stop the step that is being computed.
 */
export function reportStream(
  monitor: StepOpener,
  options: ScoreOptions,
): TransformStream<MonitorInput, StepReport<FilterResult>> {
  const { signal } = scoreOptions(options);
  const stop = new AbortController();
  let output!: ReadableStreamDefaultController<StepReport<FilterResult>>;
  let input!: WritableStreamDefaultController;
  let offered: Offer | undefined;
  let onOffer: (() => void) | undefined;

  /** Ends both sides; an aborted writer ends by itself. */
  const end = (reason: unknown, aborted = false): void => {
    if (stop.signal.aborted) return;
    signal?.removeEventListener('abort', onAbort);
    stop.abort(reason);
    if (!aborted) input.error(reason);
    output.error(reason);
    // A step that was written and not yet begun; of one that was, the stream is locked, and closed by who reads it.
    void closeUnread(offered?.input.scores, reason);
    offered?.done({ reason });
    onOffer?.();
  };
  const onAbort = (): void => end(signal?.reason);

  const readable = new ReadableStream<StepReport<FilterResult>>(
    {
      start(controller) {
        output = controller;
      },
      async pull() {
        if (offered === undefined) {
          await new Promise<void>((resolve) => {
            onOffer = resolve;
          });
        }
        // Closed or ended while nothing was there.
        if (offered === undefined || stop.signal.aborted) return;
        const { input: next, done } = offered;
        try {
          const report = await reportOf(monitor, next, stop.signal);
          stop.signal.throwIfAborted();
          output.enqueue(report);
          offered = undefined;
          done();
        } catch (reason) {
          end(reason);
        }
      },
      cancel: (reason) => end(reason),
    },
    // Nothing is computed ahead of the reader.
    { highWaterMark: 0 },
  );

  const writable = new WritableStream<MonitorInput>(
    {
      start(controller) {
        input = controller;
        // An abort that need not wait for the step that is being computed.
        const { signal: aborted } = controller as unknown as { readonly signal: AbortSignal };
        aborted.addEventListener('abort', () => end(aborted.reason, true), { once: true });
      },
      write: (next) =>
        new Promise<void>((resolve, reject) => {
          offered = { input: next, done: (error) => (error === undefined ? resolve() : reject(error.reason)) };
          onOffer?.();
          onOffer = undefined;
        }),
      close() {
        signal?.removeEventListener('abort', onAbort);
        output.close();
        onOffer?.();
      },
      abort: (reason) => end(reason, true),
    },
    { highWaterMark: 1 },
  );

  if (signal?.aborted) onAbort();
  else signal?.addEventListener('abort', onAbort, { once: true });
  return { readable, writable };
}

async function reportOf(
  monitor: StepOpener,
  input: MonitorInput,
  signal: AbortSignal | undefined,
): Promise<StepReport<FilterResult>> {
  optionsObject(input, 'input');
  const { scores } = input;
  let step: MonitorStep | undefined;
  try {
    checkKnown(input, 'input', FIELDS);
    step = monitor.step(input.step, input.labels);
    if (step.due && scores !== undefined) await scoreStep(step, scores, signal);
    else await closeUnread(scores, undefined);
    if (input.rollouts !== undefined) await step.rollouts(input.rollouts, { signal });
    return await step.finish(input.outcomes, { signal });
  } catch (error) {
    step?.abort(error);
    await closeUnread(scores, error);
    throw error;
  }
}

async function scoreStep(
  step: MonitorStep,
  given: NonNullable<MonitorInput['scores']>,
  signal: AbortSignal | undefined,
): Promise<void> {
  const scores = typeof given === 'function' ? await givenBy(given, step, signal) : given;
  if (isSource(scores)) await step.scoreBlocks(scores, { signal });
  else if (typeof given !== 'function' || scores !== undefined) await step.scoreAll(scores as WholeScores, { signal });
}

/** What the function gives. After an abort its later values are not read: a stream is cancelled. */
async function givenBy(
  scores: (step: MonitorStep) => GivenScores | Promise<GivenScores>,
  step: MonitorStep,
  signal: AbortSignal | undefined,
): Promise<GivenScores> {
  const giving = (async () => scores(step))();
  try {
    return await unlessAborted(giving, signal);
  } catch (error) {
    if (signal?.aborted) giving.then((late) => closeUnread(late, signal.reason)).catch(() => undefined);
    throw error;
  }
}
