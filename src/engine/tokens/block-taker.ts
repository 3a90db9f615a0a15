// A claimed block of a TokenSumsSink -> what it adds to its step, computed on the CPU whatever the engine's device.
import type { NativeEngine, NativeTokenSink } from '../native.js';
import type { RunningJobs } from '../running-jobs.js';
import { matrixArguments, tokenArguments } from '../tensor/tensor-arguments.js';
import type { HostView } from '../tensor/tensor-view.js';
import type { CheckedBlock } from './token-block.js';

/** The sink takes in what was computed, or takes its claim back if this rejects. */
export class BlockTaker {
  readonly #native: NativeEngine;
  readonly #jobs: RunningJobs;
  readonly #expectOpen: (operation: string) => void;

  /** @param expectOpen throws a DisposedError once the engine is disposed */
  constructor(native: NativeEngine, jobs: RunningJobs, expectOpen: (operation: string) => void) {
    this.#native = native;
    this.#jobs = jobs;
    this.#expectOpen = expectOpen;
  }

  async takeTokens(
    sink: NativeTokenSink,
    claim: number,
    { view, wholeLengths }: CheckedBlock,
    signal: AbortSignal,
  ): Promise<void> {
    this.#expectOpen('add');
    const tokens = tokenArguments(view, wholeLengths, undefined);
    await this.#jobs.run(
      'add',
      { signal },
      (settle, held) => this.#native.takeTokens(settle, sink, claim, ...tokens(held)),
      () => undefined,
    );
  }

  /** Of sums of whole rows. */
  async takeSums(sink: NativeTokenSink, claim: number, view: HostView, signal: AbortSignal): Promise<void> {
    this.#expectOpen('addSums');
    await this.#jobs.run(
      'addSums',
      { signal },
      (settle, held) => this.#native.takeSums(settle, sink, claim, ...matrixArguments(view, 'sums', held)),
      () => undefined,
    );
  }
}
