// Requests to an engine: asked again if the network or the engine is short of breath, refused with what it said.
import { setTimeout as pause } from 'node:timers/promises';
import { answeredObject, askServer, TooLongAnswer, WrongAnswer } from '../checks/servers/bounded-answer.js';
import { ScoringError } from './scoring-engine.js';

/** How often and how long an engine is asked again. */
export interface Retry {
  /** Times that a request is sent before it is given up. Default 5. */
  readonly attempts: number;
  /** The wait after the first failure; it doubles. Default 250 ms. */
  readonly backoffMs: number;
  /** Longest time for an answer. Default 290 s: fetch itself waits for 300. */
  readonly timeoutMs: number;
}

export const RETRY: Retry = { attempts: 5, backoffMs: 250, timeoutMs: 290_000 };

/** Log-probs of a batch of prompts, token by token, with room to spare. */
const MOST_BYTES = 64 * 2 ** 20;

/** Most of a refusal that is repeated. */
const SAID = 500;

/**
 * @throws {ScoringError} when the engine refuses, or has not answered after all; the signal's reason when it is aborted
 */
export async function postJson(
  url: string,
  body: unknown,
  signal: AbortSignal,
  retry: Retry = RETRY,
): Promise<unknown> {
  return requestJson(url, { method: 'POST', body: JSON.stringify(body) }, signal, retry);
}

export async function getJson(url: string, signal: AbortSignal, retry: Retry = RETRY): Promise<unknown> {
  return requestJson(url, { method: 'GET' }, signal, retry);
}

async function requestJson(
  url: string,
  request: { method: string; body?: string },
  signal: AbortSignal,
  { attempts, backoffMs, timeoutMs }: Retry,
): Promise<unknown> {
  for (let sent = 1; ; sent++) {
    signal.throwIfAborted();
    let problem: string;
    let cause: unknown;
    let isLate = false;
    try {
      const headers = { 'content-type': 'application/json' };
      const ending = AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]);
      const answer = await askServer(url, { ...request, headers, signal: ending }, MOST_BYTES);
      const { text } = answer;
      if (answer.ok) return answeredObject(url, text);
      problem = `${url} answers ${answer.status}: ${text.slice(0, SAID)}`;
      const outOfMemory = /out of memory/i.test(text);
      // What is wrong with the request stays wrong; what the engine has too much of may pass.
      if (outOfMemory || (answer.status < 500 && answer.status !== 429 && answer.status !== 408)) {
        throw new ScoringError(problem, { tooMuch: outOfMemory, status: answer.status });
      }
    } catch (error) {
      if (error instanceof ScoringError) throw error;
      if (error instanceof TooLongAnswer)
        throw new ScoringError(`${error.message}: ask for less at a time`, { tooMuch: true });
      if (error instanceof WrongAnswer) throw new ScoringError(error.message);
      signal.throwIfAborted();
      cause = error;
      isLate = error instanceof DOMException && error.name === 'TimeoutError';
      problem = `${url} does not answer${isLate ? ` within ${timeoutMs / 1000} s` : `: ${reason(error)}`}`;
    }
    // What took too long once more is too much.
    if (sent >= (isLate ? Math.min(2, attempts) : attempts)) {
      throw new ScoringError(`${problem} (asked ${sent} times)`, { cause, tooMuch: isLate });
    }
    await pause(backoffMs * 2 ** (sent - 1) * (0.5 + Math.random() / 2), undefined, { signal }).catch(() => undefined);
  }
}

/** fetch says "fetch failed", and its cause says why. */
function reason(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const { cause } = error;
  return cause instanceof Error ? `${error.message} (${cause.message})` : error.message;
}
