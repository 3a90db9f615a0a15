// Data read back from a file -> a measured step, or what is wrong with it: a file can have a right checksum and still
// not hold what this release expects.
import { StateError } from '../../checks/errors.js';
import type { StepMeasurement } from './step-measurement.js';

type Fields = Readonly<Record<string, unknown>>;

/**
 * @param step number of the step that it must be of
 * @throws {StateError} naming the part that is missing or of another kind
 */
export function measurementFrom(value: unknown, step: number): StepMeasurement {
  const { metrics, texts, prompts, groupNames, reading, filter, notes, badRows } = fields(value, 'the measurement');
  list(metrics, 'metrics').forEach(checkMetrics);
  if (reading !== undefined) checkReading(fields(reading, 'reading'), step);
  if (filter !== undefined) checkFilter(fields(filter, 'filter'));
  if (texts !== undefined) checkTexts(fields(texts, 'texts'));
  if (prompts !== undefined) checkPrompts(fields(prompts, 'prompts'));
  if (groupNames !== undefined) {
    const { names, inFilter } = fields(groupNames, 'groupNames');
    each(list(names, 'groupNames.names'), 'string', 'groupNames.names');
    each([inFilter], 'boolean', 'groupNames.inFilter');
  }
  each(list(notes, 'notes'), 'string', 'notes');
  for (const bad of badRows === undefined ? [] : list(badRows, 'badRows')) {
    const { file, problem, offset } = fields(bad, 'badRows');
    each([file, problem], 'string', 'badRows');
    if (offset !== undefined) each([offset], 'number', 'badRows');
  }
  return value as StepMeasurement;
}

function checkMetrics(value: unknown): void {
  const { profile, label, values, absent, certainty, notes, rows, columns, spread, logged } = fields(value, 'metrics');
  oneOf(profile, ['strict', 'ragen'], 'profile');
  each([label], 'string', 'label');
  each(Object.values(fields(values, 'values')), 'number', 'values');
  each(Object.values(fields(logged, 'logged')), 'number', 'logged');
  each(Object.values(fields(absent, 'absent')), 'string', 'absent');
  each(list(notes, 'notes'), 'string', 'notes');
  for (const certain of Object.values(fields(certainty, 'certainty'))) {
    const { batch, population, pValue } = fields(certain, 'certainty');
    checkInterval(batch, 'certainty.batch');
    checkInterval(population, 'certainty.population');
    if (typeof pValue !== 'number') each([fields(pValue, 'certainty.pValue').absent], 'string', 'certainty.pValue');
  }
  const { total, used, zeroLength, nonFinite, placeholders = [] } = fields(rows, 'rows');
  each([total, used, zeroLength], 'number', 'rows');
  each(list(nonFinite, 'rows.nonFinite'), 'number', 'rows.nonFinite');
  each(list(placeholders, 'rows.placeholders'), 'number', 'rows.placeholders');
  each(Object.values(fields(columns, 'columns')), 'number', 'columns');
  if (spread === undefined) return;
  const { current, excess, floor } = fields(spread, 'spread');
  for (const pair of [current, floor]) {
    const { std, stdSeq } = fields(pair, 'spread');
    for (const width of [std, stdSeq]) notNegative(width, 'spread');
  }
  const { token, seq } = fields(excess, 'spread.excess');
  each([token, seq], 'number', 'spread.excess');
}

function checkTexts({
  values,
  absent,
  interval,
  pValue,
  notes,
  rows,
  prompts,
  byPrompts,
  phrases,
  logged,
}: Fields): void {
  each(Object.values(fields(values, 'texts.values')), 'number', 'texts.values');
  each(Object.values(fields(logged, 'texts.logged')), 'number', 'texts.logged');
  each(Object.values(fields(absent, 'texts.absent')), 'string', 'texts.absent');
  each(list(notes, 'texts.notes'), 'string', 'texts.notes');
  checkInterval(interval, 'texts.interval');
  if (typeof pValue !== 'number') each([fields(pValue, 'texts.pValue').absent], 'string', 'texts.pValue');
  const { total, used, empty, repeated } = fields(rows, 'texts.rows');
  each([total, used, empty, repeated], 'number', 'texts.rows');
  const { used: usedPrompts, known } = fields(prompts, 'texts.prompts');
  each([usedPrompts], 'number', 'texts.prompts');
  each([known, byPrompts], 'boolean', 'texts.prompts');
  for (const phrase of list(phrases, 'texts.phrases')) {
    const { text, ids, tokens, prompts: holders, share, shareAtFirstStep = 0 } = fields(phrase, 'texts.phrases');
    each([text], 'string', 'texts.phrases');
    each([tokens, holders, share, shareAtFirstStep], 'number', 'texts.phrases');
    if (ids !== undefined) each(list(ids, 'texts.phrases'), 'number', 'texts.phrases');
  }
}

function checkPrompts({ source, ids, rows, posterior, nats, ...figures }: Fields): void {
  const count = list(ids, 'prompts.ids').length;
  each(list(ids, 'prompts.ids'), 'string', 'prompts.ids');
  if (source !== undefined) oneOf(source, ['scores', 'texts'], 'prompts.source');
  for (const name of ['rows', 'mi', 'low', 'high', 'retrieval'] as const) {
    const what = `prompts.${name}`;
    const values = list(name === 'rows' ? rows : figures[name], what);
    each(values, 'number', what);
    const expected = source === undefined && name !== 'rows' ? 0 : count;
    if (values.length !== expected) throw new StateError(`${what}: expected ${expected} numbers`);
  }
  for (const [name, matrix, bytes] of [
    ['posterior', posterior, 1],
    ['nats', nats, 2],
  ] as const) {
    if (matrix === undefined) continue;
    each([matrix], 'string', `prompts.${name}`);
    if (Buffer.byteLength(matrix as string, 'base64') === count * count * bytes) continue;
    throw new StateError(`prompts.${name}: expected ${count} × ${count} of ${bytes} bytes in base64`);
  }
}

/** With its ends, or the reason why there is none. */
function checkInterval(value: unknown, what: string): void {
  const { absent, low, high, error } = fields(value, what);
  if (absent === undefined) each([low, high, error], 'number', what);
  else each([absent], 'string', what);
}

/** All that StepReading has: the judge reckons with it. */
function checkReading(reading: Fields, step: number): void {
  if (reading.step !== step) throw new StateError(`reading.step: expected ${step}, which the manifest says`);
  const { lowest, highest } = fields(reading.rewardRange, 'reading.rewardRange');
  for (const bound of [lowest, highest]) numberOrNull(bound, 'reading.rewardRange');
  list(reading.prompts, 'reading.prompts').forEach(checkPrompt);
  for (const name of ['success', 'filterKeptRatio']) numberOrNull(reading[name], `reading.${name}`);
  const parts: readonly [name: string, numbers: readonly string[]][] = [
    ['specificity', ['specificRight', 'specificWrong', 'genericRight', 'genericWrong']],
    ['actionInformation', ['estimate', 'pValue']],
    ['reasoningInformation', ['estimate', 'pValue']],
    ['oscillation', ['episodes', 'periodicShare', 'pValue', 'windowedEntropy', 'repetition']],
    ['grounding', ['gain', 'error', 'rows']],
  ];
  for (const [name, numbers] of parts) {
    const what = `reading.${name}`;
    if (reading[name] === null) continue;
    const part = fields(reading[name], what);
    for (const number of numbers) each([part[number]], 'number', what);
    if (name === 'specificity') each(list(part.products, `${what}.products`), 'number', `${what}.products`);
  }
  if (reading.figures !== null) {
    each(Object.values(fields(reading.figures, 'reading.figures')), 'number', 'reading.figures');
  }
}

function checkPrompt(value: unknown): void {
  const what = 'reading.prompts';
  const { group, rewardMean, rewardStd, behaviours, size, low, successes } = fields(value, what);
  checkGroup(group, what);
  each([rewardMean, size], 'number', what);
  notNegative(rewardStd, what);
  // The gate squares it.
  if (!Number.isFinite(rewardStd ** 2)) throw new StateError(`${what}: expected a finite standard deviation`);
  numberOrNull(behaviours, what);
  each([low], 'boolean', what);
  if (successes !== null) oneOf(successes, ['all', 'none', 'some'], what);
}

function checkFilter({ kept, dropped, empty, warnings, metrics }: Fields): void {
  for (const group of list(kept, 'filter.kept')) checkGroup(group, 'filter.kept');
  for (const left of list(dropped, 'filter.dropped')) {
    const { group, reason } = fields(left, 'filter.dropped');
    checkGroup(group, 'filter.dropped');
    each([reason], 'string', 'filter.dropped');
  }
  each([empty], 'boolean', 'filter.empty');
  each(list(warnings, 'filter.warnings'), 'string', 'filter.warnings');
  each(Object.values(fields(metrics, 'filter.metrics')), 'number', 'filter.metrics');
}

function checkGroup(id: unknown, what: string): void {
  if (typeof id !== 'bigint' && typeof id !== 'string') each([id], 'number', what);
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

function numberOrNull(value: unknown, what: string): void {
  if (value !== null) each([value], 'number', what);
}

/** NaN is none: what a sample without a spread has. */
function notNegative(value: unknown, what: string): asserts value is number {
  if (typeof value !== 'number' || value < 0) throw new StateError(`${what}: expected a standard deviation`);
}

function oneOf(value: unknown, choices: readonly string[], what: string): void {
  if (choices.includes(value as string)) return;
  throw new StateError(`${what}: expected ${choices.map((choice) => `"${choice}"`).join(' or ')}`);
}
