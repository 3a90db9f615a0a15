// Keeps reported steps in a file that survives the process: the next watch reports nothing twice and continues with the
// same judge, even if the logs of earlier steps are gone.
import { type FileHandle, open } from 'node:fs/promises';
import { join } from 'node:path';
import { StateError } from '../../checks/errors.js';
import { count, fields, text } from '../../checks/saved.js';
import { writeError } from '../../logs/stores/atomic-file.js';
import { fileLines } from '../../logs/stores/file-lines.js';
import type { StepMeasurement } from '../../step/step-measurement.js';
import type { MeasureOptions } from '../measuring/measure-options.js';
import type { StepOfRun } from '../measuring/step-source.js';
import { DirectoryLock } from '../results/directory-lock.js';
import { makeDirectory } from '../results/make-directory.js';
import { differing, intact, journalHead, journalLine } from '../store/journal-lines.js';
import { parseLossless, stringifyLossless } from '../store/lossless-json.js';

const NAME = 'told-steps';

/** No step's figures take more: a longer line is damaged. */
const MAX_LINE_BYTES = 2 ** 28;

export interface ToldStep {
  readonly step: StepOfRun;
  /** Identity of its content when it was reported. */
  readonly identity: string;
  readonly measurement: StepMeasurement;
}

export class ToldSteps {
  private constructor(
    private readonly path: string,
    private readonly lock: DirectoryLock,
    private readonly handle: FileHandle,
    /** In the order of their reports. */
    readonly earlier: readonly ToldStep[],
    /** Why what was there before is not used; undefined if it is, or nothing was. */
    readonly startedAnew: string | undefined,
  ) {}

  /** @throws {FileError} when the directory cannot be written to, or another process watches with it */
  static async open(directory: string, measuring: MeasureOptions): Promise<ToldSteps> {
    await makeDirectory(directory);
    const lock = await DirectoryLock.take(directory);
    const path = join(directory, NAME);
    let handle: FileHandle | undefined;
    try {
      handle = await open(path, 'a+');
      const head = journalHead(measuring);
      const found = await earlierSteps(handle, head);
      await handle.truncate(found.end);
      if (found.end === 0) await handle.appendFile(journalLine(head));
      return new ToldSteps(path, lock, handle, found.steps, found.startedAnew);
    } catch (error) {
      await handle?.close().catch(() => undefined);
      await lock.release();
      throw writeError(path, error);
    }
  }

  /** @throws {FileError} when it cannot be written */
  async add({ step, identity, measurement }: ToldStep): Promise<void> {
    const { file, step: number, run, runDirectory, bytes } = step;
    const about = JSON.stringify({ file, step: number, run, runDirectory, bytes, identity });
    try {
      await this.handle.appendFile(journalLine(about, stringifyLossless(measurement)));
      await this.handle.datasync();
    } catch (error) {
      throw writeError(this.path, error);
    }
  }

  async close(): Promise<void> {
    await this.handle.close();
    await this.lock.release();
  }
}

interface Found {
  readonly steps: readonly ToldStep[];
  /** Where the last whole line ends. */
  readonly end: number;
  readonly startedAnew?: string;
}

async function earlierSteps(handle: FileHandle, head: string): Promise<Found> {
  const steps: ToldStep[] = [];
  let end = 0;
  for await (const { bytes, position } of fileLines(handle, MAX_LINE_BYTES)) {
    const text = intact(bytes);
    if (position === 0) {
      const problem = text === head ? undefined : differing(text, head);
      if (problem !== undefined) return { steps: [], end: 0, startedAnew: problem };
    } else if (text !== undefined) {
      const told = toldStep(text);
      if (told !== undefined) steps.push(told);
    }
    end = position + bytes.length;
  }
  return { steps, end };
}

const stepShape = fields({ file: text, step: count, run: text, runDirectory: text, bytes: count, identity: text });

/** Undefined for a line that this release cannot read. */
function toldStep(line: string): ToldStep | undefined {
  const tab = line.indexOf('\t');
  try {
    const { identity, ...step } = stepShape(JSON.parse(line.slice(0, tab)));
    return { step, identity, measurement: parseLossless(line.slice(tab + 1)) as StepMeasurement };
  } catch (error) {
    if (error instanceof StateError || error instanceof SyntaxError) return undefined;
    throw error;
  }
}
