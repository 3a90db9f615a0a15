// Scores many (row, prompt) pairs: requests side by side, with as many tokens in flight as allowed.
import type { PromptPairs } from '../metrics/sampled/plan.js';
import { type ScoringEngine, ScoringError, type TokenPair } from './scoring-engine.js';

/** A row as it is scored: tokens of the response before the reasoning are context. */
export interface ScoredRow {
  readonly lead: readonly number[];
  readonly reasoning: readonly number[];
}

/** Options of `scorePairs`. */
export interface ScorePairsOptions {
  /** Replicas of one model. */
  readonly urls: readonly string[];
  /** Most tokens of requests under way. Default 262,144. */
  readonly tokensInFlight?: number | undefined;
  readonly signal: AbortSignal;
  /** Called with pairs and tokens that an answer has brought. */
  readonly onScored?: ((pairs: number, tokens: number) => void) | undefined;
}

interface Work {
  readonly prompt: number;
  readonly rows: readonly number[];
  readonly tokens: number;
}

const TOKENS_IN_FLIGHT = 262_144;

/**
 * Scores rows under prompts: requests side by side, as many tokens in flight as allowed.
 * @param take called with each pair's sum, in any order
 * @throws {ScoringError} naming row and prompt, at the first answer that cannot be right
 */
export async function scorePairs(
  engine: ScoringEngine,
  prompts: readonly (readonly number[])[],
  rows: readonly ScoredRow[],
  pairs: readonly Pick<PromptPairs, 'prompt' | 'rows'>[],
  take: (row: number, prompt: number, sum: number) => void,
  { urls, tokensInFlight = TOKENS_IN_FLIGHT, signal, onScored }: ScorePairsOptions,
): Promise<void> {
  const failed = new AbortController();
  const aborted = AbortSignal.any([signal, failed.signal]);
  const room = new TokenRoom(tokensInFlight);
  const load = urls.map(() => 0);
  const running = new Set<Promise<void>>();
  try {
    for (const work of requests(engine, prompts, rows, pairs)) {
      await room.take(work.tokens);
      aborted.throwIfAborted();
      const at = engine.keepsContexts ? work.prompt % urls.length : load.indexOf(Math.min(...load));
      load[at] = (load[at] as number) + work.tokens;
      const run = scoreWork(urls[at] as string, work)
        .catch((error: unknown) => failed.abort(error))
        .finally(() => {
          load[at] = (load[at] as number) - work.tokens;
          room.give(work.tokens);
          running.delete(run);
        });
      running.add(run);
    }
  } finally {
    await Promise.all(running);
  }
  aborted.throwIfAborted();

  async function scoreWork(url: string, { prompt, rows: scored, tokens }: Work): Promise<void> {
    const asked = scored.map((row): TokenPair => {
      const { lead, reasoning } = rows[row] as ScoredRow;
      return { context: [...(prompts[prompt] as readonly number[]), ...lead], scored: reasoning };
    });
    let found: Float64Array[];
    try {
      found = await engine.score(url, asked, aborted);
    } catch (error) {
      if (!(error instanceof ScoringError)) throw error;
      // Half of it may fit.
      if (error.tooMuch && scored.length > 1) {
        const half = Math.ceil(scored.length / 2);
        await scoreWork(url, { prompt, rows: scored.slice(0, half), tokens: tokens / 2 });
        await scoreWork(url, { prompt, rows: scored.slice(half), tokens: tokens / 2 });
        return;
      }
      const pair = error.pair ?? (scored.length === 1 ? 0 : undefined);
      const which = pair === undefined ? '' : `row ${scored[pair]} under prompt ${prompt}: `;
      throw new ScoringError(which + error.message, { cause: error });
    }
    for (const [at, logprobs] of found.entries()) {
      take(
        scored[at] as number,
        prompt,
        logprobs.reduce((sum, value) => sum + value, 0),
      );
    }
    onScored?.(scored.length, tokens);
  }
}

/** By rising prompt, so that all rows of one come close together. */
function* requests(
  { pairsPerRequest }: ScoringEngine,
  prompts: readonly (readonly number[])[],
  rows: readonly ScoredRow[],
  pairs: readonly Pick<PromptPairs, 'prompt' | 'rows'>[],
): Generator<Work, void, undefined> {
  for (const { prompt, rows: wanted } of pairs) {
    const scored = Array.from(wanted).filter((row) => (rows[row] as ScoredRow).reasoning.length > 0);
    for (let from = 0; from < scored.length; from += pairsPerRequest) {
      const some = scored.slice(from, from + pairsPerRequest);
      const tokens = some.reduce((sum, row) => {
        const { lead, reasoning } = rows[row] as ScoredRow;
        return sum + (prompts[prompt] as readonly number[]).length + lead.length + reasoning.length;
      }, 0);
      yield { prompt, rows: some, tokens };
    }
  }
}

/** Tokens that may be under way; a request with more goes when no other is under way. */
class TokenRoom {
  #free: number;
  readonly #most: number;
  #waiting: (() => void) | undefined;

  constructor(most: number) {
    this.#most = most;
    this.#free = most;
  }

  async take(tokens: number): Promise<void> {
    const needed = Math.min(tokens, this.#most);
    while (this.#free < needed) {
      await new Promise<void>((resolve) => {
        this.#waiting = resolve;
      });
    }
    this.#free -= needed;
  }

  give(tokens: number): void {
    this.#free += Math.min(tokens, this.#most);
    this.#waiting?.();
  }
}
