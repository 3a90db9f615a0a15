// How far the training is, on stderr: a bar on a terminal, elsewhere a line now and then.

const CELLS = 24;
const BAR_EVERY_MS = 100;
const LINE_EVERY_MS = 10_000;
const CLEAR_LINE = '\r\u001b[K';

export class Progress {
  readonly #stream: NodeJS.WriteStream;
  readonly #total: number;
  readonly #began = performance.now();
  #shown = this.#began;
  #visible = false;

  /** @param total steps of all there is to do */
  constructor(stream: NodeJS.WriteStream, total: number) {
    this.#stream = stream;
    this.#total = total;
  }

  update(done: number, doing: string): void {
    const now = performance.now();
    if (now - this.#shown < (this.#stream.isTTY ? BAR_EVERY_MS : LINE_EVERY_MS)) return;
    this.#shown = now;
    const left = Math.ceil((((now - this.#began) / 1000) * (this.#total - done)) / Math.max(1, done));
    const text = `${doing}  ${done}/${this.#total} steps, ${left} s left`;
    if (!this.#stream.isTTY) {
      this.#stream.write(`${text}\n`);
      return;
    }
    const filled = Math.round((CELLS * done) / this.#total);
    const bar = `${'█'.repeat(filled)}${'░'.repeat(CELLS - filled)} ${text}`;
    this.#stream.write(CLEAR_LINE + bar.slice(0, (this.#stream.columns ?? 80) - 1));
    this.#visible = true;
  }

  /** Takes the bar off the terminal, so that something else can be written. */
  clear(): void {
    if (this.#visible) this.#stream.write(CLEAR_LINE);
    this.#visible = false;
  }
}
