// Opens an engine by its name and URL, and sees that it answers.
import { ArgumentError } from '../checks/errors.js';
import { shown } from '../checks/words.js';
import type { Retry } from './post-json.js';
import type { ScoringEngine } from './scoring-engine.js';
import { openSglang } from './sglang.js';
import { openTrlServer } from './trl-server.js';
import { openVllm } from './vllm.js';
import { openVllmTokens } from './vllm-tokens.js';

export const SCORING_ENGINES = ['vllm', 'sglang', 'trl'] as const;
/** An inference engine that can score, and the way it is asked. */
export type ScoringEngineName = (typeof SCORING_ENGINES)[number];

/**
 * Opens an engine. Of vLLM, the token endpoint is used where it has one, else completions. A server of TRL without
 * an endpoint of its own, as that of newer TRL, is asked as vLLM.
 * @param url of the server, without a path
 * @throws {ScoringError} when it does not answer, or is another; {ArgumentError} for an unknown name
 */
export async function openScoringEngine(
  name: ScoringEngineName,
  url: string,
  options: { signal?: AbortSignal | undefined; retry?: Retry | undefined } = {},
): Promise<ScoringEngine> {
  const { signal = new AbortController().signal, retry } = options;
  if (name === 'sglang') return openSglang(url, signal, retry);
  if (name !== 'vllm' && name !== 'trl') {
    throw new ArgumentError('engine', `got ${shown(name)}, expected ${SCORING_ENGINES.join(', ')}`);
  }
  const ofTrl = name === 'trl' ? await openTrlServer(url, signal, retry) : undefined;
  return ofTrl ?? (await openVllmTokens(url, signal, retry)) ?? (await openVllm(url, signal, retry));
}
