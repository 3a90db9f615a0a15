// Builds the figures of each prompt of a step of texts from what native code returns.
import type { NativeTextPrompts } from '../../native.js';

/** Figures of the P prompts of a step's used rows: means over a prompt's rows, weighted as in `miBound`. */
export interface TextPrompts {
  /** [P] group id of each, as text. */
  readonly groups: readonly string[];
  /** [P] used rows. */
  readonly rows: Int32Array;
  /** [P] mean of ln(P q(own)), nats a response: `miBound` is the mean of these. */
  readonly mi: Float64Array;
  /** [P] share of rows whose best prompt is their own; with ties a part. */
  readonly retrieval: Float64Array;
  /**
   * [P·P], row-major: in row i and column p the mean over the rows of prompt i of q(p), the predictor that the bound is
   * made with, as n/255. Undefined of more than 1,024 prompts, or 2^23 rows times prompts.
   */
  readonly posterior: Uint8Array | undefined;
  /** [P·P] float16 bit patterns: the mean over the rows of prompt i of ln(P q(p)). */
  readonly nats: Uint16Array | undefined;
}

/**
 * In the order of native/node/jobs/text_figures.cpp.
 * @param groupIds by the number that native code knows them by
 */
export function textPromptsFrom(
  { numbers, posterior, nats }: NativeTextPrompts,
  groupIds: readonly string[],
): TextPrompts {
  const prompts = numbers.length / 4;
  const part = (at: number): Float64Array => numbers.slice(at * prompts, (at + 1) * prompts);
  const groups = Array.from(part(0), (group) => groupIds[group] as string);
  return { groups, rows: Int32Array.from(part(1)), mi: part(2), retrieval: part(3), posterior, nats };
}
