// Measures steps as they were found, each on its own, whichever of step file and rollout logs it has.
import { FileError } from '../../checks/errors.js';
import type { Engine } from '../../engine/engine.js';
import { type LoggedStep, type LogReading, RolloutLogs } from '../../logs/rollouts/rollout-logs.js';
import type { StepMeasurement } from '../../step/step-measurement.js';
import type { StepReading } from '../../verdicts/index.js';
import { FirstSteps } from './first-steps.js';
import type { MeasureOptions } from './measure-options.js';
import { measureStepFile } from './measure-step-data.js';
import { badRowsOf, measureRollouts } from './rollout-measurement.js';
import type { StepFile, StepOfRun } from './step-source.js';

export interface MeasuringContext {
  readonly engine: Engine;
  readonly measuring: MeasureOptions;
  /** Of scores to hold of a step file at a time. */
  readonly blockBytes: number;
  readonly signal: AbortSignal;
  /** Whether somebody reads what there is to say of each prompt. Default true. */
  readonly perPrompt?: boolean | undefined;
}

/** What measures steps: it knows the runs' first steps, and reads their logs. */
export class MeasuredSteps {
  readonly logs: RolloutLogs;
  readonly #first: FirstSteps;
  readonly #maxMemory: number | undefined;

  /** @param first the first steps of an earlier look, to continue with */
  constructor(reading: LogReading, signal: AbortSignal, first = new FirstSteps()) {
    this.#first = first;
    this.#maxMemory = reading.maxMemory;
    this.logs = new RolloutLogs(reading, signal);
  }

  /** Takes in a step that is in a run, measured here or not; those of a run come in their order. */
  note(step: StepOfRun & Pick<StepFile, 'rollouts'>): void {
    this.#first.add(step);
  }

  /** Skips a step that is not to be measured: its files need not stay open. */
  async skip({ rollouts }: Pick<StepFile, 'rollouts'>): Promise<void> {
    if (rollouts !== undefined) await this.logs.skip(rollouts);
  }

  /**
   * Measures what a step has: its file, its logs, or both. Beside a file, logs that cannot be read are bad rows.
   * @param identity that the file must have if there are no logs beside it; else `step.identity` is that of both
   * @param onBytes called with the size of each finished piece
   * @throws {FileError} when the step cannot be used; `signal.reason` when aborted
   */
  async measure(
    step: StepFile,
    context: MeasuringContext,
    { identity, onBytes }: { readonly identity?: string | undefined; readonly onBytes: (bytes: number) => void },
  ): Promise<StepMeasurement> {
    const { engine, measuring, blockBytes, signal, perPrompt = true } = context;
    const written = step.rollouts && this.#measureLogs(step, step.rollouts, context);
    if (step.isLog && written !== undefined) return written;
    written?.catch(() => undefined);
    const scored = await measureStepFile(engine, step.file, measuring, blockBytes, signal, {
      ...{ maxMemory: this.#maxMemory, perPrompt, onBytes },
      identity: written === undefined ? identity : undefined,
    });
    if (written === undefined) return scored;
    return together(
      scored,
      await written.catch((error: unknown): StepMeasurement => {
        if (!(error instanceof FileError) || error === signal.reason) throw error;
        return { metrics: [], notes: [], badRows: badRowsOf([error]) };
      }),
    );
  }

  async #measureLogs(
    step: StepFile,
    rollouts: LoggedStep,
    { engine, measuring, signal, perPrompt = true }: MeasuringContext,
  ): Promise<StepMeasurement> {
    const firstRows = () => this.#first.rows(engine, this.logs, step, signal);
    const read = await this.logs.read(rollouts);
    try {
      return await measureRollouts(
        engine,
        rollouts,
        read,
        measuring,
        step.isLog === true,
        perPrompt,
        firstRows,
        signal,
      );
    } finally {
      read.release();
    }
  }

  close(): Promise<void> {
    return this.logs.close();
  }
}

/** What a step file says counts where both say it. */
function together(scored: StepMeasurement, written: StepMeasurement): StepMeasurement {
  const { texts, excerpts, badRows } = written;
  const prompts = scored.prompts?.source === undefined ? (written.prompts ?? scored.prompts) : scored.prompts;
  const groupNames = (scored.reading?.prompts.length ?? 0) > 0 ? undefined : written.groupNames;
  const inFilter = scored.filter === undefined && groupNames?.inFilter === true;
  const filter = scored.filter ?? written.filter;
  const reading = bothRead(scored.reading, written.reading);
  return {
    metrics: scored.metrics,
    ...(texts && { texts }),
    ...(excerpts && { excerpts }),
    ...(prompts && { prompts }),
    ...(groupNames && { groupNames: { ...groupNames, inFilter } }),
    ...(reading && { reading }),
    ...(filter && { filter }),
    notes: [...scored.notes, ...written.notes],
    ...(badRows && { badRows }),
  };
}

function bothRead(scored: StepReading | undefined, written: StepReading | undefined): StepReading | undefined {
  if (scored === undefined || written === undefined) return scored ?? written;
  const known = Object.entries(scored).filter(
    ([name, value]) => value !== null && !(name === 'prompts' && value.length === 0),
  );
  const { lowest } = scored.rewardRange;
  return { ...written, ...Object.fromEntries(known), ...(lowest === null && { rewardRange: written.rewardRange }) };
}
