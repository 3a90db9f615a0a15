// Queues reports for a sink, up to a limit. The sink's failures end here: one warning, and training continues.
import type { StepReport } from '../../step/step-report.js';
import type { Sink } from './sink.js';

/** Reports that wait; with more, the newest is left out. */
const MOST_WAITING = 1024;

/** From this many waiting reports on, a caller that reads logs waits. */
const FULL_ENOUGH = 64;

/**
 * For this time after a failure reports are dropped, not tried: a dead server must not hold up an analysis.
 */
const PAUSE_MS = 30_000;

/** At the end, a sink that hangs is not waited for. */
const PATIENCE_MS = 15_000;

export class SinkQueue {
  readonly #sink: Sink;
  readonly #warn: (problem: string) => void;
  readonly #waiting: StepReport[] = [];
  #working: Promise<void> | undefined;
  #room: (() => void)[] = [];
  #warned = false;
  #tryAgainAt = 0;
  #lost = 0;

  /** @param warn called at most once, with what went wrong first */
  constructor(sink: Sink, warn: (problem: string) => void) {
    this.#sink = sink;
    this.#warn = warn;
  }

  /** Reports that the sink did not take. */
  get lost(): number {
    return this.#lost;
  }

  /** Never waits and never throws. */
  offer(report: StepReport): void {
    if (this.#waiting.length >= MOST_WAITING) {
      this.#lost++;
      this.#fail(new Error(`it is slower than the steps come: ${MOST_WAITING} wait already`));
      return;
    }
    this.#waiting.push(report);
    this.#working ??= this.#work();
  }

  /** Resolves when few enough wait. */
  async room(): Promise<void> {
    if (this.#waiting.length < FULL_ENOUGH) return;
    await new Promise<void>((resolve) => this.#room.push(resolve));
  }

  /** Resolves when every report was taken or given up. */
  async idle(): Promise<void> {
    while (this.#working !== undefined) await this.#working;
  }

  /** Waits for what is left, but not for ever, and closes the sink. */
  async close(): Promise<void> {
    let timer: NodeJS.Timeout | undefined;
    const patience = new Promise<never>((_, reject) => {
      timer = setTimeout(() => reject(new Error(`it took more than ${PATIENCE_MS / 1000} s to end`)), PATIENCE_MS);
    });
    const ending = this.idle().then(() => this.#sink.close());
    // What comes of it later is nobody's.
    ending.catch(() => undefined);
    await Promise.race([ending, patience]).catch((error: unknown) => this.#fail(error));
    clearTimeout(timer);
  }

  async #work(): Promise<void> {
    // The caller continues first: what a sink does at once must not take the trainer's time within its own call.
    await Promise.resolve();
    for (let report = this.#waiting.shift(); report !== undefined; report = this.#waiting.shift()) {
      if (this.#waiting.length < FULL_ENOUGH) for (const resolve of this.#room.splice(0)) resolve();
      if (performance.now() < this.#tryAgainAt) {
        this.#lost++;
        continue;
      }
      try {
        await this.#sink.step(report);
      } catch (error) {
        this.#lost++;
        this.#tryAgainAt = performance.now() + PAUSE_MS;
        this.#fail(error);
      }
    }
    this.#working = undefined;
  }

  #fail(error: unknown): void {
    if (this.#warned) return;
    this.#warned = true;
    this.#warn(error instanceof Error ? error.message : String(error));
  }
}
