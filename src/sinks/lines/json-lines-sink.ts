// Writes reports as lines of JSON in the shapes in which trainers write their own metrics, a file per run.
import { appendFile, mkdir, open } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { Sink } from '../../monitor/sinks/sink.js';
import type { StepReport } from '../../step/step-report.js';
import { chosenFigures, type SinkMetrics } from '../page-keys.js';
import { fileNameOf } from '../run-file.js';

/** A trainer's way: where a run's file is, and what a line is. */
export interface LineShape {
  path(folder: string, run: string): string;
  line(report: StepReport, figures: Readonly<Record<string, number>>, seconds: number): object;
}

export const LINE_SHAPES = {
  /** monitors/file.py: `{ step, time, … }` in metrics.jsonl of the run's folder. */
  'prime-rl': {
    path: (folder, run) => join(folder, fileNameOf(run), 'metrics.jsonl'),
    line: ({ step }, figures, time) => ({ step, time, ...figures }),
  },
  /** utils/tracking.py, `logger: file`: `{ step, data: { … } }` in a file named after the run. */
  verl: {
    path: (folder, run) => join(folder, `${fileNameOf(run)}.jsonl`),
    line: ({ step }, data) => ({ step, data }),
  },
} as const satisfies Readonly<Record<string, LineShape>>;

/** Of a line, at its end: more than any step has. */
const LAST_BYTES = 2 ** 20;

/** Steps that are there already are not written again: a line cannot be taken back. */
export class JsonLinesSink implements Sink {
  readonly #folder: string;
  readonly #shape: LineShape;
  readonly #which: SinkMetrics;
  readonly #ends = new Map<string, FileEnd>();

  constructor(folder: string, shape: LineShape, which: SinkMetrics = 'page') {
    this.#folder = folder;
    this.#shape = shape;
    this.#which = which;
  }

  async step(report: StepReport): Promise<void> {
    const { run, step } = report;
    const path = this.#shape.path(this.#folder, run);
    let end = this.#ends.get(run);
    if (end === undefined) {
      await mkdir(dirname(path), { recursive: true });
      end = await endOf(path);
      this.#ends.set(run, end);
    }
    if (step <= end.step) return;
    const figures = Object.fromEntries(chosenFigures(report, this.#which));
    const line = this.#shape.line(report, figures, Date.now() / 1000);
    // A line that a killed process left without its end is ended, and stays damaged.
    await appendFile(path, `${end.isWhole ? '' : '\n'}${JSON.stringify(line)}\n`);
    this.#ends.set(run, { step, isWhole: true });
  }

  async close(): Promise<void> {}
}

interface FileEnd {
  /** The last step that the file holds. */
  readonly step: number;
  /** Whether its last line has an end. */
  readonly isWhole: boolean;
}

async function endOf(path: string): Promise<FileEnd> {
  const handle = await open(path).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return undefined;
    throw error;
  });
  if (handle === undefined) return { step: Number.NEGATIVE_INFINITY, isWhole: true };
  try {
    const { size } = await handle.stat();
    const from = Math.max(0, size - LAST_BYTES);
    const bytes = Buffer.alloc(size - from);
    await handle.read(bytes, 0, bytes.length, from);
    const text = bytes.toString();
    let step = Number.NEGATIVE_INFINITY;
    for (const line of text.split('\n')) step = Math.max(step, stepOf(line));
    return { step, isWhole: text === '' || text.endsWith('\n') };
  } finally {
    await handle.close();
  }
}

function stepOf(line: string): number {
  try {
    const { step } = JSON.parse(line) as { step?: unknown };
    return typeof step === 'number' ? step : Number.NEGATIVE_INFINITY;
  } catch {
    return Number.NEGATIVE_INFINITY;
  }
}
