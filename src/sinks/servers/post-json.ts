// JSON to a server of dashboards and back: asked again if the network or the server is short of breath.
import { setTimeout as pause } from 'node:timers/promises';
import { answeredObject, askServer, TooLongAnswer, WrongAnswer } from '../../checks/servers/bounded-answer.js';

const ATTEMPTS = 3;
const BACKOFF_MS = 250;
const TIMEOUT_MS = 10_000;

/** Their answers name a run, or a page of runs. */
const MOST_BYTES = 16 * 2 ** 20;

/** Most of a refusal that is repeated. */
const SAID = 300;

/** The server has understood, and does not do it. */
export class Refusal extends Error {
  constructor(
    message: string,
    readonly status: number,
  ) {
    super(message);
  }
}

/**
 * @param headers beside the content type
 * @throws {Refusal} for an answer that asking again does not change; {Error} when the server has not answered after all
 */
export async function postJson(
  url: string,
  body: unknown,
  headers: Readonly<Record<string, string>>,
): Promise<unknown> {
  for (let sent = 1; ; sent++) {
    let problem: string;
    try {
      const request = {
        method: 'POST',
        headers: { 'content-type': 'application/json', ...headers },
        body: JSON.stringify(body),
        signal: AbortSignal.timeout(TIMEOUT_MS),
      };
      const answer = await askServer(url, request, MOST_BYTES);
      const { text } = answer;
      if (answer.ok) return text === '' ? {} : answeredObject(url, text);
      problem = `${url} answers ${answer.status}: ${text.slice(0, SAID)}`;
      const mayPass = answer.status >= 500 || answer.status === 429 || answer.status === 408;
      if (!mayPass) throw new Refusal(problem, answer.status);
    } catch (error) {
      if (error instanceof Refusal) throw error;
      if (error instanceof TooLongAnswer || error instanceof WrongAnswer) throw new Refusal(error.message, 200);
      const { message, cause } = error as Error;
      problem = `${url} does not answer: ${cause instanceof Error ? cause.message : message}`;
    }
    if (sent === ATTEMPTS) throw new Error(`${problem} (asked ${sent} times)`);
    await pause(BACKOFF_MS * 2 ** (sent - 1));
  }
}
