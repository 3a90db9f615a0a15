// Scores with vLLM's token endpoint: log-probs of named tokens, only for rows after the context, as one array of bytes.
// Source: vLLM, docs: training/prompt_token_id_logprobs (the form with a list for each row).
import { postJson, type Retry } from './post-json.js';
import { checkedCount, checkedLogprob, type ScoringEngine, ScoringError, type TokenPair } from './scoring-engine.js';
import { servedModel } from './vllm.js';

/** @returns undefined if this vLLM has no such endpoint, or not this form of it */
export async function openVllmTokens(
  url: string,
  signal: AbortSignal,
  retry?: Retry,
): Promise<ScoringEngine | undefined> {
  const model = await servedModel(url, signal, retry);
  const engine: ScoringEngine = {
    name: 'vllm-tokens',
    described: { engine: 'vllm-tokens', model },
    pairsPerRequest: 1,
    keepsContexts: false,
    async score(replica, pairs, aborted) {
      return await Promise.all(pairs.map((pair, at) => scoreOne(replica, pair, at, aborted, retry)));
    },
  };
  try {
    await engine.score(url, [{ context: [1], scored: [1] }], signal);
    return engine;
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof ScoringError) return undefined;
    throw error;
  }
}

async function scoreOne(
  url: string,
  { context, scored }: TokenPair,
  pair: number,
  signal: AbortSignal,
  retry: Retry | undefined,
): Promise<Float64Array> {
  const sampling_params = {
    max_tokens: 1,
    temperature: 1,
    prompt_logprob_start: context.length - 1,
    prompt_logprob_token_ids: scored.map((id) => [id]),
  };
  const body = { token_ids: [...context, ...scored], sampling_params, stream: false };
  const answer = await postJson(`${url}/inference/v1/generate`, body, signal, retry);
  const { prompt_token_id_logprobs: encoded } = answer as { prompt_token_id_logprobs?: unknown };
  if (typeof encoded !== 'string') throw new ScoringError('the engine gave no prompt_token_id_logprobs', { pair });
  const values = npyFloats(Buffer.from(encoded, 'base64'), pair);
  checkedCount(values.length, scored.length, 'log-probs', pair);
  return Float64Array.from(scored, (id, at) => {
    // Padding is −inf, as is a token that this form does not know.
    const value = values[at] as number;
    return checkedLogprob(value === -Infinity ? undefined : value, id, id, context.length + at, pair);
  });
}

/** The numbers of a .npy of float32. */
function npyFloats(bytes: Buffer, pair: number): Float32Array {
  const magic = bytes.subarray(0, 6).toString('latin1');
  const wide = (bytes[6] ?? 0) > 1;
  const start = bytes.length < 12 ? 0 : (wide ? 12 : 10) + (wide ? bytes.readUInt32LE(8) : bytes.readUInt16LE(8));
  const header = bytes.subarray(10, start).toString('latin1');
  if (magic !== '\x93NUMPY' || !header.includes("'<f4'") || (bytes.length - start) % 4 !== 0) {
    throw new ScoringError('prompt_token_id_logprobs is no .npy of float32', { pair });
  }
  return new Float32Array(Uint8Array.from(bytes.subarray(start)).buffer);
}
