// Passes reports to the sinks of `--to`. One that fails is reported once, and changes nothing else.

import { escaped } from '../../checks/words.js';
import { SinkQueue } from '../../monitor/sinks/sink-queue.js';
import { openSink } from '../../sinks/open-sink.js';
import { RunNames } from '../../sinks/run-names.js';
import type { StepReport } from '../../step/step-report.js';
import type { SinkFlags } from '../options/sink-options.js';
import type { Streams } from './streams.js';

export class SinkOutputs {
  /** Whether one of them reads what there is to say of each prompt. */
  readonly readsPrompts: boolean;
  readonly #queues: readonly SinkQueue[];
  readonly #names = new RunNames();
  readonly #writing: Promise<void>[] = [];

  constructor({ to = [], toMetrics }: SinkFlags, { err }: Pick<Streams, 'err'>) {
    const sinks = to.map((address) => openSink(address, toMetrics));
    this.readsPrompts = sinks.some(({ readsPrompts }) => readsPrompts);
    this.#queues = sinks.map((sink, at) => {
      const address = to[at] as string;
      const warn = (problem: string): void => {
        const words = `--to ${escaped(address)} failed; what it does not take is left out: ${escaped(problem)}`;
        this.#writing.push(err.write(`note: ${words}\n`));
      };
      return new SinkQueue(sink, warn);
    });
  }

  /** Waits while a sink is far behind: logs can. */
  async add(report: StepReport): Promise<void> {
    if (this.#queues.length === 0) return;
    const given = { ...report, run: this.#names.nameOf(report) };
    for (const queue of this.#queues) queue.offer(given);
    await Promise.all(this.#queues.map((queue) => queue.room()));
  }

  async close(): Promise<void> {
    await Promise.all(this.#queues.map((queue) => queue.close()));
    await Promise.all(this.#writing);
  }
}
