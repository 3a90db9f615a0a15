// Data read back from a file -> a measured step, or what is wrong with it: a file can have a right checksum and still
// not hold what this release expects.
import {
  anyNumber,
  either,
  fields,
  flag,
  list,
  nullable,
  oneOf,
  optional,
  record,
  reject,
  type Shape,
  shape,
  text,
} from '../../checks/saved.js';
import type { Interval, StepMetrics } from '../../metrics/step-metrics.js';
import type { TextMetrics } from '../../metrics/text-metrics.js';
import type { Excerpt } from '../../step/prompts/excerpts.js';
import type { PromptMeasurement } from '../../step/prompts/prompt-measurement.js';
import type { FilterView, StepMeasurement } from '../../step/step-measurement.js';
import type { StepReading } from '../../verdicts/index.js';

/**
 * @param step number of the step that it must be of
 * @throws {StateError} naming the part that is missing or of another kind
 */
export function measurementFrom(value: unknown, step: number): StepMeasurement {
  const { reading } = measurementShape(value);
  if (reading !== undefined && reading.step !== step) {
    reject(reading.step, `${step}, which the manifest says`, 'reading.step');
  }
  return value as StepMeasurement;
}

const isText = (value: unknown): boolean => typeof value === 'string';
const isNumber = (value: unknown): boolean => typeof value === 'number';
const isAbsent = (value: unknown): boolean => Object(value).absent !== undefined;

const numbers = record(anyNumber);
const absentShape = fields({ absent: text });
const pValueShape = either(isNumber, anyNumber, absentShape);

/** With its ends, or the reason why there is none. */
const intervalShape: Shape<Interval> = either(
  isAbsent,
  absentShape,
  fields({ low: anyNumber, high: anyNumber, error: anyNumber }),
);

/** NaN is none: what a sample without a spread has. */
const deviation = shape<number>('a standard deviation', (value) => typeof value === 'number' && !(value < 0));

const spreadShape = fields({ std: deviation, stdSeq: deviation });

/** Of each environment what the step has as a whole. */
const environmentsShape = <T>(figures: Shape<T>) =>
  optional(list(fields({ name: text, rows: anyNumber, prompts: anyNumber, figures: optional(figures) })));

const metricsShape: Shape<StepMetrics> = fields({
  profile: oneOf('strict', 'ragen'),
  label: oneOf('collapse_first_turn_sample', 'collapse_trajectory_sample', 'collapse_turn_sample'),
  values: numbers,
  logged: numbers,
  absent: record(text),
  notes: list(text),
  certainty: record(
    fields({
      batch: intervalShape,
      population: intervalShape,
      pValue: pValueShape,
      overPrompts: optional(fields({ estimate: anyNumber, error: anyNumber })),
    }),
  ),
  rows: fields({
    total: anyNumber,
    used: anyNumber,
    zeroLength: anyNumber,
    nonFinite: list(anyNumber),
    placeholders: optional(list(anyNumber)),
  }),
  columns: fields({ total: anyNumber, distinct: anyNumber }),
  environments: environmentsShape((value) => metricsShape(value)),
  spread: optional(
    fields({ current: spreadShape, excess: fields({ token: anyNumber, seq: anyNumber }), floor: spreadShape }),
  ),
});

const textsShape: Shape<TextMetrics> = fields({
  values: numbers,
  logged: numbers,
  absent: record(text),
  notes: list(text),
  interval: intervalShape,
  pValue: pValueShape,
  rows: fields({ total: anyNumber, used: anyNumber, empty: anyNumber, repeated: anyNumber }),
  prompts: fields({ used: anyNumber, known: flag }),
  byPrompts: flag,
  environments: environmentsShape((value) => textsShape(value)),
  phrases: list(
    fields({
      text,
      tokens: anyNumber,
      prompts: anyNumber,
      share: anyNumber,
      shareAtFirstStep: optional(anyNumber),
      ids: optional(list(anyNumber)),
    }),
  ),
});

const promptFields: Shape<PromptMeasurement> = fields({
  source: optional(oneOf('scores', 'texts')),
  ids: list(text),
  rows: list(anyNumber),
  mi: list(anyNumber),
  low: list(anyNumber),
  high: list(anyNumber),
  retrieval: list(anyNumber),
  posterior: optional(text),
  nats: optional(text),
});

const promptsShape: Shape<PromptMeasurement> = (value) => {
  const prompts = promptFields(value);
  const { source, ids, posterior, nats } = prompts;
  const count = ids.length;
  for (const name of ['rows', 'mi', 'low', 'high', 'retrieval'] as const) {
    const expected = source === undefined && name !== 'rows' ? 0 : count;
    if (prompts[name].length !== expected) reject(prompts[name], `${expected} numbers`, name);
  }
  for (const [name, matrix, bytes] of [
    ['posterior', posterior, 1],
    ['nats', nats, 2],
  ] as const) {
    if (matrix === undefined || Buffer.byteLength(matrix, 'base64') === count * count * bytes) continue;
    reject(matrix, `${count} × ${count} of ${bytes} bytes in base64`, name);
  }
  return prompts;
};

const excerptFields: Shape<Excerpt> = fields({
  row: anyNumber,
  group: text,
  prompt: nullable(text),
  promptLength: anyNumber,
  reasoning: text,
  length: anyNumber,
  reward: nullable(anyNumber),
  specificity: nullable(anyNumber),
  tokens: anyNumber,
  places: text,
  nats: text,
});

const excerptShape: Shape<Excerpt> = (value) => {
  const excerpt = excerptFields(value);
  const [places, nats] = [excerpt.places, excerpt.nats].map((bytes) => Buffer.byteLength(bytes, 'base64'));
  if (places !== 2 * (nats as number) || places % 4 !== 0) {
    reject(excerpt.places, 'two places and a number for each token, in base64', 'places');
  }
  return excerpt;
};

const id = shape<number | bigint>(
  "a group's number",
  (value) => typeof value === 'bigint' || typeof value === 'number',
);

const groupName = either(isText, text, id);

/** The gate squares it. */
const rewardDeviation = shape<number>(
  'a finite standard deviation',
  (value) => typeof value === 'number' && !(value < 0) && Number.isFinite(value ** 2),
);

const informationShape = nullable(fields({ estimate: anyNumber, pValue: anyNumber }));

/** All that StepReading has: the judge reckons with it. */
const readingShape: Shape<StepReading> = fields({
  step: anyNumber,
  success: nullable(anyNumber),
  rewardRange: fields({ lowest: nullable(anyNumber), highest: nullable(anyNumber) }),
  prompts: list(
    fields({
      group: id,
      rewardMean: anyNumber,
      rewardStd: rewardDeviation,
      behaviours: nullable(anyNumber),
      size: anyNumber,
      low: flag,
      successes: nullable(oneOf('all', 'none', 'some')),
    }),
  ),
  specificity: nullable(
    fields({
      specificRight: anyNumber,
      specificWrong: anyNumber,
      genericRight: anyNumber,
      genericWrong: anyNumber,
      products: list(anyNumber),
    }),
  ),
  actionInformation: informationShape,
  reasoningInformation: informationShape,
  oscillation: nullable(
    fields({
      episodes: anyNumber,
      periodicShare: anyNumber,
      pValue: anyNumber,
      windowedEntropy: anyNumber,
      repetition: anyNumber,
    }),
  ),
  grounding: nullable(fields({ gain: anyNumber, error: anyNumber, rows: anyNumber })),
  filterKeptRatio: nullable(anyNumber),
  figures: nullable(numbers),
});

const filterShape: Shape<FilterView> = fields({
  kept: list(groupName),
  dropped: list(fields({ group: groupName, reason: text })),
  empty: flag,
  warnings: list(text),
  metrics: numbers,
});

const measurementShape: Shape<StepMeasurement> = fields({
  metrics: list(metricsShape),
  texts: optional(textsShape),
  prompts: optional(promptsShape),
  excerpts: optional(fields({ rows: anyNumber, rollouts: list(excerptShape) })),
  groupNames: optional(fields({ names: list(text), inFilter: flag })),
  reading: optional(readingShape),
  filter: optional(filterShape),
  notes: list(text),
  badRows: optional(list(fields({ file: text, problem: text, offset: optional(anyNumber) }))),
});
