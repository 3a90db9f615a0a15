// Interface of an inference engine: log-probs of given tokens after given tokens. Each engine has a file of its own.
import { CollapsarError } from '../checks/errors.js';

/** Tokens to score after tokens that are given. */
export interface TokenPair {
  /** One or more. */
  readonly context: readonly number[];
  readonly scored: readonly number[];
}

/** An inference engine that gives the log-probs of given tokens after given tokens. */
export interface ScoringEngine {
  /** vllm, vllm-tokens, sglang or trl. */
  readonly name: string;
  /** Description for step files: the model, and its weights' version if the engine says it. */
  readonly described: Readonly<Record<string, string>>;
  /** Pairs that one request may have. */
  readonly pairsPerRequest: number;
  /** Whether pairs of one context should go to one replica, whose cache then serves them. */
  readonly keepsContexts: boolean;
  /**
   * @param url of the replica
   * @returns log-prob of each scored token at temperature 1, nats, pair by pair
   * @throws {ScoringError} naming the pair whose answer cannot be right
   */
  score(url: string, pairs: readonly TokenPair[], signal: AbortSignal): Promise<Float64Array[]>;
}

/** An engine that refuses, answers nonsense, or cannot be reached. `pair` is which of a request's it is about. */
export class ScoringError extends CollapsarError {
  /** Which of the request’s pairs it is about. */
  readonly pair: number | undefined;
  /** The engine ran out of memory or of time: fewer pairs at once may do. */
  readonly tooMuch: boolean;
  /** Of the answer over HTTP that refused the request. */
  readonly status: number | undefined;

  constructor(message: string, options: ErrorOptions & { pair?: number; tooMuch?: boolean; status?: number } = {}) {
    super('ERR_SCORING', message, options);
    this.pair = options.pair;
    this.status = options.status;
    this.tooMuch = options.tooMuch ?? false;
  }
}

/** Checks what an engine says of one token: nothing is ever taken for 0. */
export function checkedLogprob(value: unknown, id: unknown, expected: number, place: number, pair: number): number {
  if (id !== expected) {
    throw new ScoringError(`the engine scored token ${String(id)} at position ${place}, expected ${expected}`, {
      pair,
    });
  }
  if (typeof value !== 'number' || Number.isNaN(value) || value > 0.001) {
    const got = value === null || value === undefined ? 'none' : String(value);
    throw new ScoringError(`the engine gave ${got} for the log-prob of token ${expected} at position ${place}`, {
      pair,
    });
  }
  return value;
}

export function checkedCount(got: number, expected: number, what: string, pair?: number): void {
  if (got === expected) return;
  throw new ScoringError(`the engine gave ${got} ${what}, expected ${expected}`, pair === undefined ? {} : { pair });
}
