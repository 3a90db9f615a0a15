// Notes when prompts without named environments fall into groups that the reasoning distinguishes, with no dependence
// inside a group: the batch then probably mixes several environments, each with a template of its own.
import type { Engine } from '../../engine/engine.js';
import type { ScoredStep } from '../scored-step.js';
import type { StepMetrics } from '../step-metrics.js';
import { areToldApart, groupsNote, mayHaveGroups, promptGroups, tellsNothingWithin } from './prompt-groups.js';
import { chainRule } from './score-environments.js';

/** Between these limits prompts are distinguished by degrees, and there are no groups. */
const LIMITS = { alike: 1, apart: 4.5, within: 1 };

/**
 * @param step what intervals are of: each prompt and each row once
 * @param metrics of it
 */
export async function blocksNote(
  engine: Engine,
  step: ScoredStep,
  { values, certainty }: Pick<StepMetrics, 'values' | 'certainty'>,
  signal: AbortSignal | undefined,
): Promise<string | undefined> {
  const { sums, stats, own, lengths, signatures, distinct } = step;
  const nats = values.mi_seq_estimate;
  const { pValue } = certainty.mi_seq_estimate ?? {};
  if (!mayHaveGroups({ distinct, columns: signatures.length, nats, pValue })) return undefined;
  const matrices = await engine.promptMatrices(sums, stats, { own, lengths, signatures, signal });
  const groups = await promptGroups(matrices.nats as Uint16Array, signatures, LIMITS, signal);
  if (groups === undefined) return undefined;
  const { ofColumn } = groups;
  const ofRow = Int32Array.from(own, (column) => ofColumn[column] as number);
  const environments = { names: groups.sizes.map(String), ofRow, ofColumn };
  const { mi_within: within, mi_between: between } = await chainRule(engine, step, environments, signal);
  if (!areToldApart(groups, ofRow, between) || !tellsNothingWithin(groups, ofRow, within)) return undefined;
  return groupsNote(distinct, groups, 'reasoning');
}
