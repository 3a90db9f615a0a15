// TRL's own server (`trl vllm-serve` of 1.1.0 and later, until it became vLLM's): log-probs of the actual tokens in
// binary. Temperature has no effect. Source: TRL, scripts/vllm_serve.py, /get_sequence_logprobs/.
import { getJson, postJson, type Retry } from './post-json.js';
import { checkedCount, checkedLogprob, type ScoringEngine, ScoringError } from './scoring-engine.js';

interface Binary {
  readonly actual_logprobs_b64?: unknown;
  readonly actual_token_ids_b64?: unknown;
  readonly completion_lengths?: readonly number[];
}

/** @returns undefined if the server has no such endpoint, as that of newer TRL, which is plain vLLM */
export async function openTrlServer(
  url: string,
  signal: AbortSignal,
  retry?: Retry,
): Promise<ScoringEngine | undefined> {
  try {
    await getJson(`${url}/get_sequence_logprobs/`, signal, retry);
  } catch (error) {
    const status = error instanceof ScoringError ? error.status : undefined;
    if (status === 404) return undefined;
    // 405: it is there, and takes another method.
    if (status !== 405) throw error;
  }
  return {
    name: 'trl',
    described: { engine: 'trl' },
    pairsPerRequest: 32,
    keepsContexts: false,
    async score(replica, pairs, aborted) {
      const body = {
        sequences: pairs.map(({ context, scored }) => [...context, ...scored]),
        prompt_lengths: pairs.map(({ context }) => context.length),
        // Passed to vLLM, which refuses more than --max-logprobs.
        top_logprobs: 1,
        temperature: 1,
        response_format: 'binary',
      };
      const answer = (await postJson(`${replica}/get_sequence_logprobs/`, body, aborted, retry)) as Binary;
      const { completion_lengths: said } = answer;
      const lengths: readonly number[] = Array.isArray(said) ? said : [];
      const values = new Float32Array(decoded(answer.actual_logprobs_b64, 'actual_logprobs_b64'));
      const ids = new Int32Array(decoded(answer.actual_token_ids_b64, 'actual_token_ids_b64'));
      checkedCount(lengths.length, pairs.length, 'completion lengths');
      const width = Math.max(0, ...lengths);
      checkedCount(values.length, pairs.length * width, 'log-probs');
      checkedCount(ids.length, values.length, 'token ids');
      return pairs.map(({ context, scored }, pair) => {
        checkedCount(lengths[pair] as number, scored.length, 'log-probs', pair);
        return Float64Array.from(scored, (id, at) => {
          const value = values[pair * width + at] as number;
          // A missing one is −inf, with id 0.
          const known = value === -Infinity ? undefined : value;
          return checkedLogprob(known, ids[pair * width + at], id, context.length + at, pair);
        });
      });
    },
  };
}

function decoded(text: unknown, name: string): ArrayBuffer {
  if (typeof text !== 'string') throw new ScoringError(`the server gave no ${name}: it needs TRL 1.1.0 or later`);
  return Uint8Array.from(Buffer.from(text, 'base64')).buffer;
}
