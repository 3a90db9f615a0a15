// Data read back from a file -> a measured step, or what is wrong with it: a file can have a right checksum and still not hold
// what this release expects.
import { StateError } from '../errors.js';
import type { StepMeasurement } from './step-measurement.js';

type Fields = Readonly<Record<string, unknown>>;

/** @throws {StateError} naming the part that is missing or of another kind */
export function measurementFrom(value: unknown): StepMeasurement {
  const { metrics, reading, filter, notes } = fields(value, 'the measurement');
  list(metrics, 'metrics').forEach(checkMetrics);
  if (reading !== undefined) checkReading(fields(reading, 'reading'));
  if (filter !== undefined) checkFilter(fields(filter, 'filter'));
  each(list(notes, 'notes'), 'string', 'notes');
  return value as StepMeasurement;
}

function checkMetrics(value: unknown): void {
  const { profile, label, values, absent, certainty, notes, rows, columns, spread, logged } = fields(value, 'metrics');
  each([profile, label], 'string', 'profile and label');
  each(Object.values(fields(values, 'values')), 'number', 'values');
  each(Object.values(fields(logged, 'logged')), 'number', 'logged');
  each(Object.values(fields(absent, 'absent')), 'string', 'absent');
  each(list(notes, 'notes'), 'string', 'notes');
  for (const certain of Object.values(fields(certainty, 'certainty'))) {
    const { batch, population } = fields(certain, 'certainty');
    fields(batch, 'certainty.batch');
    fields(population, 'certainty.population');
  }
  const { total, used, zeroLength, nonFinite } = fields(rows, 'rows');
  each([total, used, zeroLength], 'number', 'rows');
  each(list(nonFinite, 'rows.nonFinite'), 'number', 'rows.nonFinite');
  each(Object.values(fields(columns, 'columns')), 'number', 'columns');
  if (spread === undefined) return;
  const { current, excess, floor } = fields(spread, 'spread');
  for (const pair of [current, excess, floor]) each(Object.values(fields(pair, 'spread')), 'number', 'spread');
}

function checkReading({ step, prompts, rewardRange }: Fields): void {
  each([step], 'number', 'reading.step');
  fields(rewardRange, 'reading.rewardRange');
  for (const prompt of list(prompts, 'reading.prompts')) fields(prompt, 'reading.prompts');
}

function checkFilter({ kept, dropped, empty, warnings, metrics }: Fields): void {
  list(kept, 'filter.kept');
  for (const group of list(dropped, 'filter.dropped'))
    each([fields(group, 'filter.dropped').reason], 'string', 'filter.dropped');
  each([empty], 'boolean', 'filter.empty');
  each(list(warnings, 'filter.warnings'), 'string', 'filter.warnings');
  each(Object.values(fields(metrics, 'filter.metrics')), 'number', 'filter.metrics');
}

function fields(value: unknown, what: string): Fields {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Fields;
  throw new StateError(`${what}: expected an object`);
}

function list(value: unknown, what: string): readonly unknown[] {
  if (Array.isArray(value)) return value;
  throw new StateError(`${what}: expected a list`);
}

function each(values: readonly unknown[], type: 'string' | 'number' | 'boolean', what: string): void {
  if (!values.every((value) => typeof value === type)) throw new StateError(`${what}: expected a ${type}`);
}
