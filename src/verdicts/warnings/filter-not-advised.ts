// The "should I filter" gate over a run: said when several steps in succession agree, for one step's ratio is noisy.

import { figure } from '../../checks/numbers.js';
import { count, fields, nullable, type Shaped } from '../../checks/saved.js';
import type { FilterGate } from '../../filter/filter-gate.js';
import type { Finding } from '../verdict.js';

export const gateStreakShape = fields({ steps: count, since: nullable(count) });
export type GateStreak = Shaped<typeof gateStreakShape>;

const STEPS = 3;

/** Steps in succession at which the gate said "keep all". */
export function gateStreak(before: GateStreak, step: number, gate: FilterGate): GateStreak {
  if (gate.verdict !== 'keep_all') return { steps: 0, since: null };
  return { steps: before.steps + 1, since: before.since ?? step };
}

export function filterFinding({ steps, since }: GateStreak, gate: FilterGate): Finding | undefined {
  if (steps < STEPS || since === null || gate.ratio === null) return undefined;
  return {
    kind: 'filter_not_advised',
    severity: 'info',
    since,
    evidence: { ratio: gate.ratio, steps },
    advice: 'Train on all prompts: a filter would throw away as much signal as noise.',
    now: `the ratio is ${figure(gate.ratio)}, low for ${steps} steps`,
    sentence:
      `Reward variance is nearly the same for all prompts: Std(RV)/Mean(RV) is ${figure(gate.ratio)}, and has been as low ` +
      `in ${steps} steps in succession.`,
  };
}
