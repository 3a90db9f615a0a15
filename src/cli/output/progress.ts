// Shows the progress of an analysis on stderr: a bar on a terminal, an occasional line elsewhere.
import type { AnalysisProgress } from '../../analysis/analysis-progress.js';
import { shortBytes, shortDuration } from '../../checks/numbers.js';
import type { ListingProgress } from '../../logs/steps/read-steps.js';
import type { Streams, TextStream } from './streams.js';
import { isUnicode } from './text-style.js';

const BAR_CELLS = 24;
const BAR_EVERY_MS = 100;
const LINE_EVERY_MS = 5000;
const CLEAR_LINE = '\r\u001b[K';

export class Progress {
  readonly #stream: TextStream | undefined;
  readonly #unicode: boolean;
  readonly #now: () => number;
  readonly #isBar: boolean;
  #began: number;
  #shown: number;
  #barVisible = false;

  /**
   * @param stream undefined for none
   * @param canClear whether a terminal can take a line back: a dumb one shows the code for it
   */
  constructor(
    stream: TextStream | undefined,
    unicode: boolean,
    now: () => number = () => performance.now(),
    canClear = true,
  ) {
    this.#stream = stream;
    this.#isBar = stream?.isTTY === true && canClear;
    this.#unicode = unicode;
    this.#now = now;
    this.#began = now();
    this.#shown = this.#began;
  }

  /** On stderr, unless the user asked for quiet. */
  static of({ err, environment }: Streams, quiet: boolean | undefined): Progress {
    return new Progress(quiet ? undefined : err, isUnicode(environment), undefined, environment.TERM !== 'dumb');
  }

  /** Looking at the files, before the first step is read. */
  listing({ done, total }: ListingProgress): void {
    this.#show(done / total, (seconds) => {
      const rate = done / seconds;
      return `looking at files: ${done}/${total}  ${shortRate(rate)} files/s  ETA ${shortDuration((total - done) / rate)}`;
    });
    // What is measured has a rate of its own.
    if (done === total) this.#began = this.#now();
  }

  update(progress: AnalysisProgress): void {
    this.#show(progress.bytes / Math.max(1, progress.totalBytes), (seconds) => textOf(progress, seconds));
  }

  /** Shards of a cluster that are complete. */
  shards(done: number, total: number): void {
    this.#show(done / total, () => `${done}/${total} shards`);
  }

  #show(share: number, textAfter: (seconds: number) => string): void {
    if (this.#stream === undefined) return;
    const now = this.#now();
    if (now - this.#shown < (this.#isBar ? BAR_EVERY_MS : LINE_EVERY_MS)) return;
    this.#shown = now;
    const text = textAfter((now - this.#began) / 1000);
    if (!this.#isBar) {
      void this.#stream.write(`${text}\n`);
      return;
    }
    const bar = `${this.#bar(share)} ${text}`;
    void this.#stream.write(CLEAR_LINE + bar.slice(0, (this.#stream.columns ?? 80) - 1));
    this.#barVisible = true;
  }

  /** Takes the bar off the terminal, so that something else can be written. */
  clear(): void {
    if (!this.#barVisible) return;
    this.#barVisible = false;
    void this.#stream?.write(CLEAR_LINE);
  }

  #bar(share: number): string {
    const filled = Math.round(BAR_CELLS * share);
    const [full, empty] = this.#unicode ? ['█', '░'] : ['#', '-'];
    return (full as string).repeat(filled) + (empty as string).repeat(BAR_CELLS - filled);
  }
}

/** Rates and the time left are those of what is measured now: what an earlier analysis left takes no time. */
function textOf(progress: AnalysisProgress, seconds: number): string {
  const { done, total, bytes, totalBytes, resumed = 0, resumedBytes = 0 } = progress;
  const byteRate = (bytes - resumedBytes) / seconds;
  const left = (totalBytes - bytes) / Math.max(1e-9, byteRate);
  return (
    `${done}/${total} steps  ${shortRate((done - resumed) / seconds)} steps/s  ` +
    `${shortBytes(byteRate)}/s  ETA ${byteRate > 0 || bytes === totalBytes ? shortDuration(left) : '?'}`
  );
}

const shortRate = (rate: number): string => (rate < 10 ? rate.toFixed(1) : String(Math.round(rate)));
