// Writes reports to a .prom file for the node exporter's textfile collector, replaced whole.
import { basename, dirname, resolve } from 'node:path';
import { AtomicFile } from '../../logs/stores/atomic-file.js';
import type { Sink } from '../../monitor/sinks/sink.js';
import type { StepReport } from '../../step/step-report.js';
import { Exposition } from './exposition.js';

/** The collector reads every few seconds: an analysis of thousands of steps need not write each. */
const LEAST_MS_BETWEEN = 1000;

export class TextfileSink implements Sink {
  readonly #path: string;
  readonly #metrics = new Exposition();
  #written = Number.NEGATIVE_INFINITY;
  #timer: NodeJS.Timeout | undefined;
  #writing: Promise<void> = Promise.resolve();
  /** Of a write that nobody waited for. */
  #problem: unknown;

  constructor(path: string) {
    this.#path = resolve(path);
  }

  async step(report: StepReport): Promise<void> {
    this.#metrics.take(report);
    const wait = this.#written + LEAST_MS_BETWEEN - performance.now();
    if (wait <= 0) await this.#write();
    else {
      this.#timer ??= setTimeout(() => {
        this.#write().catch((error: unknown) => {
          this.#problem = error;
        });
      }, wait);
    }
    const problem = this.#problem;
    this.#problem = undefined;
    if (problem !== undefined) throw problem;
  }

  async close(): Promise<void> {
    if (this.#timer !== undefined) await this.#write();
    await this.#writing;
  }

  #write(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#written = performance.now();
    const text = this.#metrics.text();
    const next = this.#writing.then(
      () => this.#place(text),
      () => this.#place(text),
    );
    this.#writing = next;
    return next;
  }

  async #place(text: string): Promise<void> {
    const file = await AtomicFile.open(dirname(this.#path), basename(this.#path));
    try {
      await file.write(text);
      await file.prepare();
      await file.place();
    } catch (error) {
      await file.discard();
      throw error;
    }
  }
}
