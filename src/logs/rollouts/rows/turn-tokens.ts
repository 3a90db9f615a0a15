// Tokens of a response that was sampled in several turns, one after the other.
import { type Fields, floatsOf, tokensOf } from '../fields.js';

/**
 * Of the turns that have ids: what the first was asked, and what was sampled in all; log-probs where each token has one.
 * @param names of the fields of a turn
 */
export function tokensOfTurns(
  all: readonly Fields[],
  { prompt, tokens: said, logprobs }: Readonly<Record<'prompt' | 'tokens' | 'logprobs', string>>,
) {
  const turns = all.filter((turn) => turn.value(said) !== undefined);
  if (turns.length === 0) return {};
  const tokens = turns.flatMap((turn) => [...tokensOf(turn.value(said), said)]);
  const values = turns.flatMap((turn) => [...floatsOf(turn.value(logprobs) ?? [], logprobs)]);
  const asked = turns[0]?.value(prompt);
  return {
    ...(asked !== undefined && { promptTokens: tokensOf(asked, prompt) }),
    tokens: Int32Array.from(tokens),
    ...(values.length === tokens.length && { logprobs: Float64Array.from(values) }),
  };
}
