// The engines of a sidecar: one on the CPU for all that it computes, and one on each GPU that scores were handed over
// on.
import type { Engine } from '../engine/engine.js';
import { openEngine } from '../engine/open-engine.js';

export class Engines {
  readonly #threads: number | undefined;
  readonly #open = new Map<'cpu' | `cuda:${number}`, Promise<Engine>>();

  /** @param threads of each engine; undefined: the engine's default */
  constructor(threads: number | undefined) {
    this.#threads = threads;
  }

  /** Opened when it is first asked for: a GPU is a trainer's, and its memory scarce. */
  get(device: 'cpu' | `cuda:${number}`): Promise<Engine> {
    let engine = this.#open.get(device);
    if (engine === undefined) {
      engine = openEngine({ device, ...(this.#threads !== undefined && { threads: this.#threads }) });
      this.#open.set(device, engine);
      // One that could not be opened is tried again.
      engine.catch(() => this.#open.delete(device));
    }
    return engine;
  }

  async dispose(): Promise<void> {
    const engines = await Promise.allSettled(this.#open.values());
    this.#open.clear();
    for (const engine of engines) if (engine.status === 'fulfilled') await engine.value.dispose();
  }
}
