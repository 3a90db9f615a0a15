// Counts finished steps and blocks to report the progress of an analysis.

/** Progress of an analysis: finished steps and bytes. */
export interface AnalysisProgress {
  /** Finished steps, including failed ones and those of an earlier analysis. */
  readonly done: number;
  /** If steps come as a stream: those that have come. */
  readonly total: number;
  /** Finished bytes; large files count block by block. */
  readonly bytes: number;
  readonly totalBytes: number;
  /** The part of `done` that an earlier analysis had measured, which took no time now. Default 0. */
  readonly resumed?: number;
  readonly resumedBytes?: number;
  /** The file that has just been finished, or that is being read. */
  readonly file: string;
}

/** A file counts before its end in pieces of this size: a small one only at its end. */
const PIECE_BYTES = 8 * 2 ** 20;

interface Counted {
  readonly file: string;
  readonly bytes: number;
}

export class ProgressCount {
  readonly #tell: ((progress: AnalysisProgress) => void) | undefined;
  readonly #inside = new Map<Counted, { read: number; counted: number }>();
  #done = 0;
  #total = 0;
  #bytes = 0;
  #totalBytes = 0;
  #resumed = 0;
  #resumedBytes = 0;

  constructor(tell: ((progress: AnalysisProgress) => void) | undefined) {
    this.#tell = tell;
  }

  /** A step is known. @param isMeasured by an earlier analysis: it counts as through */
  expect({ bytes }: Counted, isMeasured: boolean): void {
    this.#total++;
    this.#totalBytes += bytes;
    if (!isMeasured) return;
    this.#done++;
    this.#bytes += bytes;
    this.#resumed++;
    this.#resumedBytes += bytes;
  }

  /** Adds finished bytes of a step's scores. */
  advance(step: Counted, bytes: number): void {
    const inside = this.#inside.get(step) ?? { read: 0, counted: 0 };
    this.#inside.set(step, inside);
    inside.read += bytes;
    const whole = Math.floor(Math.min(inside.read, step.bytes) / PIECE_BYTES) * PIECE_BYTES;
    if (whole === inside.counted) return;
    this.#bytes += whole - inside.counted;
    inside.counted = whole;
    this.#report(step.file);
  }

  /** Counts a step as finished, measured or failed. @param wasMeasured as it was expected */
  finish(step: Counted, wasMeasured: boolean): void {
    if (!wasMeasured) {
      this.#done++;
      this.#bytes += step.bytes - (this.#inside.get(step)?.counted ?? 0);
    }
    this.#inside.delete(step);
    this.#report(step.file);
  }

  #report(file: string): void {
    this.#tell?.({
      done: this.#done,
      total: this.#total,
      bytes: this.#bytes,
      totalBytes: this.#totalBytes,
      resumed: this.#resumed,
      resumedBytes: this.#resumedBytes,
      file,
    });
  }
}
