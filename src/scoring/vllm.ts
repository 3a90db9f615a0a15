// Scores with vLLM's OpenAI-compatible completions: prompt_logprobs of 0, only the actual token. Log-probs are at
// temperature 1. Source: vLLM, entrypoints/openai (prompt_logprobs); docs.vllm.ai.
import { getJson, postJson, type Retry } from './post-json.js';
import { checkedCount, checkedLogprob, type ScoringEngine, ScoringError, type TokenPair } from './scoring-engine.js';

interface Choice {
  readonly index?: number;
  readonly prompt_logprobs?: readonly (Readonly<Record<string, { readonly logprob?: unknown }>> | null)[] | null;
}

export async function openVllm(url: string, signal: AbortSignal, retry?: Retry): Promise<ScoringEngine> {
  const model = await servedModel(url, signal, retry);
  return {
    name: 'vllm',
    described: { engine: 'vllm', model },
    pairsPerRequest: 32,
    keepsContexts: false,
    async score(replica, pairs, aborted) {
      const prompt = pairs.map(({ context, scored }) => [...context, ...scored]);
      const body = { model, prompt, max_tokens: 1, temperature: 1, prompt_logprobs: 0 };
      const answer = await postJson(`${replica}/v1/completions`, body, aborted, retry);
      const { choices: said } = answer as { choices?: readonly (Choice | null)[] };
      const choices = Array.isArray(said) ? (said as (Choice | null)[]) : [];
      checkedCount(choices.length, pairs.length, 'answers');
      const ordered = [...choices].sort((one, other) => (one?.index ?? 0) - (other?.index ?? 0));
      return pairs.map((pair, at) => tokenLogprobs(ordered[at] ?? {}, pair, at));
    },
  };
}

/** The model that is served, and that requests name. */
export async function servedModel(url: string, signal: AbortSignal, retry?: Retry): Promise<string> {
  const answer = await getJson(`${url}/v1/models`, signal, retry);
  const { data } = answer as { data?: readonly ({ id?: unknown } | null)[] };
  const model = Array.isArray(data) ? data[0] : undefined;
  if (typeof model?.id === 'string') return model.id;
  throw new ScoringError(`${url}/v1/models names no model: is this vLLM?`);
}

function tokenLogprobs({ prompt_logprobs: found }: Choice, { context, scored }: TokenPair, pair: number): Float64Array {
  if (!Array.isArray(found)) throw new ScoringError('the engine gave no prompt_logprobs', { pair });
  checkedCount(found.length, context.length + scored.length, 'prompt log-probs', pair);
  return Float64Array.from(scored, (id, at) => {
    const place = context.length + at;
    const entry = found[place] as Readonly<Record<string, { readonly logprob?: unknown }>> | null;
    // The actual token may be among others, in any order.
    const own = entry?.[String(id)];
    const other = entry === null || entry === undefined ? undefined : Object.keys(entry)[0];
    return checkedLogprob(own?.logprob, own === undefined && other !== undefined ? Number(other) : id, id, place, pair);
  });
}
