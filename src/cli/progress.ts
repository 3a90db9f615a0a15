// How far an analysis is, on stderr: a bar on a terminal, now and then a line elsewhere.
import type { AnalysisProgress } from '../analysis/analysis-progress.js';
import { shortBytes, shortDuration } from './number-format.js';
import type { TextStream } from './streams.js';

const BAR_CELLS = 24;
const BAR_EVERY_MS = 100;
const LINE_EVERY_MS = 5000;
const CLEAR_LINE = '\r\u001b[K';

export class Progress {
  readonly #stream: TextStream | undefined;
  readonly #unicode: boolean;
  readonly #now: () => number;
  readonly #began: number;
  #shown: number;
  #barVisible = false;

  /** @param stream undefined for none */
  constructor(stream: TextStream | undefined, unicode: boolean, now: () => number = () => performance.now()) {
    this.#stream = stream;
    this.#unicode = unicode;
    this.#now = now;
    this.#began = now();
    this.#shown = this.#began;
  }

  update(progress: AnalysisProgress): void {
    if (this.#stream === undefined) return;
    const now = this.#now();
    if (now - this.#shown < (this.#stream.isTTY ? BAR_EVERY_MS : LINE_EVERY_MS)) return;
    this.#shown = now;
    const text = this.#text(progress, (now - this.#began) / 1000);
    if (!this.#stream.isTTY) {
      void this.#stream.write(`${text}\n`);
      return;
    }
    const bar = `${this.#bar(progress)} ${text}`;
    void this.#stream.write(CLEAR_LINE + bar.slice(0, (this.#stream.columns ?? 80) - 1));
    this.#barVisible = true;
  }

  /** Takes the bar off the terminal, so that something else can be written. */
  clear(): void {
    if (!this.#barVisible) return;
    this.#barVisible = false;
    void this.#stream?.write(CLEAR_LINE);
  }

  /** Rates and the time left are those of what is measured now: what an earlier analysis left takes no time. */
  #text({ done, total, bytes, totalBytes, resumed = 0, resumedBytes = 0 }: AnalysisProgress, seconds: number): string {
    const rate = (done - resumed) / seconds;
    const byteRate = (bytes - resumedBytes) / seconds;
    const left = (totalBytes - bytes) / Math.max(1e-9, byteRate);
    return (
      `${done}/${total} steps  ${rate < 10 ? rate.toFixed(1) : Math.round(rate)} steps/s  ` +
      `${shortBytes(byteRate)}/s  ETA ${byteRate > 0 || bytes === totalBytes ? shortDuration(left) : '?'}`
    );
  }

  #bar({ bytes, totalBytes }: AnalysisProgress): string {
    const filled = Math.round((BAR_CELLS * bytes) / Math.max(1, totalBytes));
    const [full, empty] = this.#unicode ? ['█', '░'] : ['#', '-'];
    return (full as string).repeat(filled) + (empty as string).repeat(BAR_CELLS - filled);
  }
}
