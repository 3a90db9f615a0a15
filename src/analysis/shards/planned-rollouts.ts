// What a manifest keeps of a step's rollout logs: rows of files, so that mapping the step does not search for them.

import {
  count,
  fields,
  flag,
  list,
  number,
  oneOf,
  optional,
  record,
  reject,
  type Shape,
  text,
} from '../../checks/saved.js';
import type { Container } from '../../logs/rollouts/format.js';
import type { Range } from '../../logs/rollouts/log-part.js';
import type { AdvantageModel } from '../../logs/rollouts/rewards/learn-weights.js';
import type { LoggedStep } from '../../logs/rollouts/rollout-logs.js';
import type { StepOfRun } from '../measuring/step-source.js';

/** A logged step without what its entry has anyway. */
export type PlannedRollouts = Omit<LoggedStep, 'step' | 'run' | 'runDirectory'>;

export function plannedRollouts({ step: _, run: __, runDirectory: ___, ...rest }: LoggedStep): PlannedRollouts {
  return rest;
}

const rangeFields = fields({ begin: count, end: count, line: count });
const rangeShape: Shape<Range> = (value) => {
  const range = rangeFields(value);
  return range.begin <= range.end ? range : reject(range.begin, 'a whole number up to its end', 'begin');
};

const partShape = fields({
  path: text,
  container: oneOf<Container>('json-lines', 'parquet', 'csv'),
  place: fields({ runDirectory: text, split: optional(text), step: optional(count) }),
  fileBytes: count,
  stamp: text,
  digest: optional(text),
  step: optional(count),
  ranges: optional(list(rangeShape)),
});

export const plannedRolloutsShape: Shape<PlannedRollouts> = fields({
  format: fields({ name: text, columns: optional(record(text)) }),
  isNamed: flag,
  notes: list(text),
  parts: (value) => {
    const parts = list(partShape)(value);
    return parts.length > 0 ? parts : reject(parts, 'one file at least');
  },
  rewards: optional(
    fields({
      weights: optional(record(number)),
      model: optional(oneOf<AdvantageModel>('group', 'batch', 'none', 'normalized')),
      groupSize: optional(count),
      note: text,
    }),
  ),
  bytes: count,
  identity: text,
});

/** @param placed where to open a path of the plan */
export function rolloutsOf(
  { parts, ...rest }: PlannedRollouts,
  ofRun: Pick<StepOfRun, 'step' | 'run' | 'runDirectory'>,
  placed: (path: string) => string,
): LoggedStep {
  return { ...rest, ...ofRun, parts: parts.map((part) => ({ ...part, path: placed(part.path), file: part.path })) };
}
