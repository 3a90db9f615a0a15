// Scores with SGLang's native /generate (return_logprob, logprob_start_len; its first entry is null) at temperature 1:
// input log-probs from the last token of the context on, so that its radix cache keeps the context.
import { getJson, postJson, type Retry } from './post-json.js';
import { checkedCount, checkedLogprob, type ScoringEngine, ScoringError, type TokenPair } from './scoring-engine.js';

type Entry = readonly [logprob: number | null, id: number, text?: string | null];

interface Item {
  readonly meta_info?: { readonly input_token_logprobs?: readonly Entry[] | null };
}

export async function openSglang(url: string, signal: AbortSignal, retry?: Retry): Promise<ScoringEngine> {
  const info = (await getJson(`${url}/get_model_info`, signal, retry)) as Readonly<Record<string, unknown>>;
  const described: Record<string, string> = { engine: 'sglang', model: String(info.model_path ?? 'unknown') };
  if (info.weight_version !== undefined) described.weights = String(info.weight_version);
  return {
    name: 'sglang',
    described,
    pairsPerRequest: 32,
    keepsContexts: true,
    async score(replica, pairs, aborted) {
      const body = {
        input_ids: pairs.map(({ context, scored }) => [...context, ...scored]),
        sampling_params: { max_new_tokens: 0, temperature: 1 },
        return_logprob: true,
        logprob_start_len: pairs.map(({ context }) => context.length - 1),
        top_logprobs_num: 0,
      };
      const answer = await postJson(`${replica}/generate`, body, aborted, retry);
      const items = (Array.isArray(answer) ? answer : [answer]) as readonly Item[];
      checkedCount(items.length, pairs.length, 'answers');
      return pairs.map((pair, at) => tokenLogprobs(items[at] as Item, pair, at));
    },
  };
}

function tokenLogprobs(item: Item | null, { context, scored }: TokenPair, pair: number): Float64Array {
  const found = item?.meta_info?.input_token_logprobs;
  if (!Array.isArray(found)) throw new ScoringError('the engine gave no input_token_logprobs', { pair });
  checkedCount(found.length, scored.length + 1, 'input log-probs', pair);
  return Float64Array.from(scored, (id, at) => {
    const entry: unknown = found[at + 1];
    const [value, got] = Array.isArray(entry) ? (entry as unknown as Entry) : [];
    return checkedLogprob(value, got, id, context.length + at, pair);
  });
}
