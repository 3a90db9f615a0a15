// Writes the same note as for cross-scores from the texts of prompts without named environments, by what predicts the
// prompt from a text.
import { IdNumbers } from '../../checks/ids.js';
import type { RowEnvironments } from '../../checks/row-environments.js';
import type { TextPrompts } from '../../engine/operations/texts/text-prompts.js';
import type { TextRows } from '../../engine/operations/texts/text-rows.js';
import {
  areToldApart,
  groupsNote,
  mayHaveGroups,
  type PromptGroups,
  promptGroups,
  tellsNothingWithin,
} from './prompt-groups.js';

/** What the predictor gives other prompts at least keeps even those of other groups within some nats. */
const LIMITS = { alike: 1, apart: 2, within: 0.5 };

/** Texts of a step and what was measured of them. */
export interface MeasuredTexts<Step extends TextRows> {
  readonly step: Step;
  /** Group id of each row of the step, as in `prompts`. */
  readonly groups: readonly string[];
  readonly prompts: TextPrompts | undefined;
  readonly bound: number | undefined;
  readonly pValue: unknown;
}

/**
 * @param boundWithin the bound of I(X;Z|E) of the step, were these its environments; undefined if there is none
 */
export async function textBlocksNote<Step extends TextRows>(
  { step, groups: ofRows, prompts, bound, pValue }: MeasuredTexts<Step>,
  boundWithin: (environments: RowEnvironments) => Promise<number | undefined>,
  signal: AbortSignal | undefined,
): Promise<string | undefined> {
  if (prompts?.nats === undefined || prompts.posterior === undefined) return undefined;
  const signatures = signaturesOf(step, ofRows, prompts.groups);
  const distinct = new Set(signatures).size;
  if (!mayHaveGroups({ distinct, columns: signatures.length, nats: bound, pValue })) return undefined;
  const groups = await promptGroups(prompts.nats, signatures, LIMITS, signal);
  // A prompt weighs the same in the bound, however many rows it has.
  if (groups === undefined || !areToldApart(groups, groups.ofColumn, natsBetween(groups, prompts.posterior)))
    return undefined;
  const groupOf = new Map(prompts.groups.map((id, column) => [id, groups.ofColumn[column] as number]));
  const names = groups.sizes.map((_, group) => String(group));
  // Rows of prompts that were not used are of no group.
  const ofRow = Int32Array.from(ofRows, (id) => groupOf.get(id) ?? -1);
  const within = await boundWithin({ names, ofRow });
  if (within === undefined || !tellsNothingWithin(groups, groups.ofColumn, within)) return undefined;
  return groupsNote(distinct, groups, 'text');
}

/** I(group;Z) as the predictor has it: how much of what texts make of the prompts lies within their own group. */
function natsBetween({ ofColumn, columns }: PromptGroups, posterior: Uint8Array): number {
  const prompts = ofColumn.length;
  let sum = 0;
  for (const [prompt, group] of ofColumn.entries()) {
    let inside = 0;
    for (const [other, its] of ofColumn.entries())
      if (its === group) inside += posterior[prompt * prompts + other] as number;
    sum += Math.log(((inside / 255) * prompts) / (columns[group] as number));
  }
  return sum / prompts;
}

/** Of each used prompt; groups whose rows have one prompt text share one. */
function signaturesOf(
  { prompts, promptTokens }: TextRows,
  ofRows: readonly string[],
  used: readonly string[],
): Int32Array {
  const given = promptTokens ?? prompts;
  const keys = new Map<string, string>();
  for (const [row, id] of ofRows.entries()) {
    const prompt = given?.[row];
    if (!keys.has(id) && prompt !== undefined && prompt !== null) keys.set(id, String(prompt));
  }
  const numbers = new IdNumbers<string>();
  return Int32Array.from(used, (id) => numbers.numberOf(keys.has(id) ? `prompt ${keys.get(id)}` : `group ${id}`));
}
