// Adds token ids to a step of a log of texts, by the policy's tokenizer.
import { type ReasoningTags, THINK } from '../logs/rollouts/reasoning.js';
import type { RolloutStep } from '../logs/rollouts/rollout.js';
import type { TextTokenizer } from './text-tokenizer.js';

/**
 * Token ids if the log has only texts; ids that it has stay. They are those of the texts, and so about the tokens
 * that the policy read and wrote: texts lack special tokens, and a tokenizer may cut them elsewhere than the policy
 * did. What is scored is the same under every prompt all the same.
 * @param tags that the step was read with
 */
export function tokenized(step: RolloutStep, tokenizer: TextTokenizer, tags: ReasoningTags = THINK): RolloutStep {
  const { output, prompt, tokens, promptTokens, reasoning } = step;
  const known = new Map<string, Int32Array>();
  const promptOf = (text: string): Int32Array => {
    const ids = known.get(text) ?? tokenizer.prompt(text);
    known.set(text, ids);
    return ids;
  };
  const prompts = promptTokens ?? prompt?.map((text) => (text === undefined ? undefined : promptOf(text)));
  if (tokens !== undefined || output === undefined) return { ...step, promptTokens: prompts };
  const rows = output.map((text, row) =>
    text === undefined ? undefined : response(text, reasoning?.[row] ?? text, tokenizer, tags),
  );
  return {
    ...step,
    promptTokens: prompts,
    tokens: rows.map((row) => row?.tokens),
    reasoningTokens: rows.map((row) => row?.reasoning),
  };
}

/** Ids of the tags, where each is one token: for logs of token ids. */
export function tagTokens(
  tokenizer: TextTokenizer,
  tags: ReasoningTags = THINK,
): readonly [number, number] | undefined {
  if (tags === 'all') return undefined;
  const [open, close] = tags.map((tag) => tokenizer.response(tag)) as [Int32Array, Int32Array];
  return open.length === 1 && close.length === 1 ? [open[0] as number, close[0] as number] : undefined;
}

/** @returns ids of the response, and the view of its reasoning: what precedes it, it and the rest each apart */
function response(
  text: string,
  reasoning: string,
  tokenizer: TextTokenizer,
  tags: ReasoningTags,
): { tokens: Int32Array; reasoning: Int32Array } {
  const opened = tags === 'all' ? -1 : text.indexOf(tags[0]);
  const behind = opened < 0 ? -1 : text.indexOf(reasoning, opened + (tags[0]?.length as number));
  // Closed and not opened, it begins the response; a log that has it apart has it before the response.
  const start = behind >= 0 ? behind : Math.max(0, text.indexOf(reasoning));
  const rest = text.slice(text.startsWith(reasoning, start) ? start + reasoning.length : 0);
  const parts = [text.slice(0, start), reasoning, rest].map((part) => tokenizer.response(part)) as [
    Int32Array,
    Int32Array,
    Int32Array,
  ];
  const tokens = Int32Array.from(parts.flatMap((part) => Array.from(part)));
  return { tokens, reasoning: tokens.subarray(parts[0].length, parts[0].length + parts[1].length) };
}
