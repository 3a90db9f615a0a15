// Does the reasoning rest on the state or image? log p(z|x) − log p(z|x without it), step by step against the run's own start
// (docs/verdicts.md).
import type { Integers } from '../../engine/tensor.js';
import type { Finding } from './finding.js';
import { rowsByGroup } from './group-outcomes.js';
import { FALLEN } from './regimes.js';
import type { RunLevel } from './run-level.js';
import { figure, percent } from './sentence-numbers.js';

export interface Grounding {
  /** Mean over rows of log p(z|x) − log p(z|x without state or image), nats a response. */
  readonly gain: number;
  /** Its standard error: prompts are drawn, rows of one prompt go together. */
  readonly error: number;
  readonly rows: number;
}

/** @returns null where no row has both log-probs finite, or all rows are of one prompt */
export function grounding(groups: Integers, matched: ArrayLike<number>, ablated: ArrayLike<number>): Grounding | null {
  const sums: { total: number; rows: number }[] = [];
  for (const members of rowsByGroup(groups).values()) {
    const gains = members.map((row) => (matched[row] as number) - (ablated[row] as number)).filter(Number.isFinite);
    if (gains.length > 0) sums.push({ total: gains.reduce((a, b) => a + b, 0), rows: gains.length });
  }
  if (sums.length < 2) return null;
  const rows = sums.reduce((total, group) => total + group.rows, 0);
  const gain = sums.reduce((total, group) => total + group.total, 0) / rows;
  const squares = sums.reduce((total, group) => total + (group.total - gain * group.rows) ** 2, 0);
  return { gain, error: Math.sqrt((squares * sums.length) / (sums.length - 1)) / rows, rows };
}

/** Latest steps that must agree. */
const STEPS = 2;
const WIDTH_95 = 1.96;

export function groundingFinding(level: RunLevel, now: Grounding): Finding | undefined {
  if (!level.comparable || level.start <= WIDTH_95 * level.startError) return undefined;
  const threshold = FALLEN * level.start;
  const recent = level.recent.slice(-STEPS);
  const error = Math.hypot(now.error, FALLEN * level.startError);
  if (recent.some(({ value }) => value + WIDTH_95 * error >= threshold)) return undefined;
  return {
    kind: 'ungrounded',
    severity: 'warning',
    since: (recent[0] as { step: number }).step,
    evidence: { gain: now.gain, error: now.error, gainStart: level.start, share: now.gain / level.start },
    advice:
      'The reasoning no longer needs the state or image: check that it still reaches the model, and filter for prompts ' +
      'whose reward depends on it.',
    sentence:
      `Without the state or image the reasoning is almost as likely: the difference is ${figure(now.gain)} nats a response, ` +
      `${percent(now.gain / level.start)} of its start (${figure(level.start)}).`,
  };
}
