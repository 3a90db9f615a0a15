// One step's cross-scores in, its metrics out: the road of docs/metrics.md for both profiles.
import { types } from 'node:util';
import {
  checkArray,
  checkColumns,
  checkEngine,
  checkObject,
  checkOptions,
  optionNames,
} from '../engine/argument-checks.js';
import { counted } from '../engine/counted.js';
import { DeviceTensor } from '../engine/device-tensor.js';
import type { Engine } from '../engine/engine.js';
import type { RowStats } from '../engine/operations.js';
import { shown } from '../engine/shown.js';
import type { Integers, Tensor } from '../engine/tensor.js';
import { checkShape, checkTensor } from '../engine/tensor-view.js';
import { ArgumentError } from '../errors.js';
import { certaintyByKey, flattenCertainty } from './certainty.js';
import { rowsByEquivalents } from './chance.js';
import { arrangeColumns, type Columns, countSignatures, isIdentity } from './columns.js';
import type { CrossScores, MetricOptions } from './cross-scores.js';
import { FigureShape } from './figure-shape.js';
import type { MeasuredStep } from './measured-step.js';
import { withAverages } from './moving-averages.js';
import { ragenValues } from './ragen.js';
import {
  eachPromptOnce,
  eachRowOnce,
  type RowSelection,
  selectRows,
  type Trajectories,
  withoutRows,
} from './row-selection.js';
import { checkTrainingStep, RunningState } from './running-state.js';
import type { Certainty, PerRow, SampleLabel, StepMetrics, StepSpread } from './step-metrics.js';
import { STRICT_KEYS, strictValues } from './strict.js';

/** Permutations behind a p-value unless the caller says otherwise: the smallest p is then .001. */
const PERMUTATIONS = 999;

/**
 * Collapse metrics of one training step.
 *
 * @param scores cross-scores in nats, as token log-probs or as sums over tokens, with what tells rows and columns apart.
 * @returns metrics by key; under `strict` with intervals, p-values, and the reason for every metric that cannot be given.
 * @throws {ArgumentError} (as a rejection) for arguments that contradict each other; `signal.reason` when aborted.
 * Source: RAGEN-2 (arXiv 2604.06268), Eq. 1 and §3; docs/metrics.md lists every key with its formula.
 */
export async function crossScoreMetrics(
  engine: Engine,
  scores: CrossScores,
  options: MetricOptions = {},
): Promise<StepMetrics> {
  checkEngine(engine, 'engine');
  checkObject(scores, 'scores');
  checkColumns(scores, 'scores', FIELDS);
  checkOptions(options, OPTIONS);
  checkCarried(options);
  const metrics = await measureScores(engine, scores, options);
  return options.state === undefined ? metrics : withAverages(metrics, options.state, options.step);
}

const FIELDS = optionNames<CrossScores>({
  logprobs: true,
  sums: true,
  lengths: true,
  groups: true,
  columnGroups: true,
  promptTokens: true,
  episodes: true,
  turns: true,
});

const OPTIONS = optionNames<MetricOptions>({
  profile: true,
  sampler: true,
  label: true,
  step: true,
  state: true,
  perRow: true,
  permutations: true,
  seed: true,
  signal: true,
  onProgress: true,
});

function checkCarried({ state, label, step, perRow }: MetricOptions): void {
  if (state !== undefined && !(state instanceof RunningState)) {
    throw new ArgumentError(
      'options.state',
      `got ${shown(state)}, expected a RunningState, as RunningState.from() gives of a saved one`,
    );
  }
  if (label !== undefined && typeof label !== 'string') {
    throw new ArgumentError('options.label', `got ${shown(label)}, expected the prefix of the logged keys`);
  }
  checkTrainingStep(step, 'options.step');
  if (perRow !== undefined && typeof perRow !== 'boolean') {
    throw new ArgumentError('options.perRow', `got ${shown(perRow)}, expected true or false`);
  }
}

/** All but the moving averages, which are those of a run's first step. */
async function measureScores(engine: Engine, scores: CrossScores, options: MetricOptions): Promise<StepMetrics> {
  const { profile = 'strict', signal } = options;
  if (profile !== 'strict' && profile !== 'ragen') {
    throw new ArgumentError('options.profile', `expected "strict" or "ragen", got ${shown(profile)}`);
  }
  const { given, shape } = givenScores(scores);
  const lengths = toLengths(scores.lengths, shape.rows);
  checkArray(scores.groups, 'groups');
  if (scores.groups.length !== shape.rows) {
    throw new ArgumentError('groups', `${scores.groups.length} group ids for ${counted(shape.rows, 'rows')}`);
  }
  const columns = arrangeColumns(scores.groups, scores.columnGroups, scores.promptTokens, shape.columns);
  const hasReasoning = (row: number): boolean => (lengths[row] as number | bigint) > 0;
  let selection = selectRows(
    columns,
    hasReasoning,
    profile,
    options.sampler,
    trajectoriesOf(scores, options, shape.rows),
  );
  const report = reporter(profile, options, shape, lengths);

  if (selection.rows.length === 0) {
    const lost = selection.valid > 0; // only under ragen
    return report.nothing(
      selection,
      lost ? 'every draw fell on a trajectory without reasoning tokens' : 'no row has reasoning tokens',
    );
  }
  if (selection.prompts < 2) {
    return report.nothing(selection, tooFewPrompts(selection.prompts, shape.columns));
  }

  const { sums, order, measured: first } = await summed(engine, given, lengths, columns, selection, options);
  let measured = first ?? (await measure(engine, sums, order, lengths, selection, signal));
  let nonFinite: number[] = [];
  if (profile === 'strict') {
    const { matchedSeq, marginalSeq } = measured.stats;
    const bad = (at: number): boolean => !(Number.isFinite(matchedSeq[at]) && Number.isFinite(marginalSeq[at]));
    nonFinite = rowsThatAre(bad, selection.rows);
    if (nonFinite.length > 0) {
      selection = withoutRows(selection, bad);
      if (selection.rows.length === 0) {
        return report.nothing(selection, 'every row has a score that is NaN or infinite', nonFinite);
      }
      measured = await measure(engine, sums, order, lengths, selection, signal);
    }
  }
  const promptsOnce = profile === 'strict' ? eachPromptOnce(selection) : selection;
  const rowsOnce = profile === 'strict' ? eachRowOnce(promptsOnce) : selection;
  const scored = async (some: RowSelection, same: RowSelection, known: ScoredStep): Promise<ScoredStep> =>
    some === same ? known : measure(engine, sums, order, lengths, some, signal);
  const retrieval = await scored(promptsOnce, selection, measured);
  const drawn = await scored(rowsOnce, promptsOnce, retrieval);
  return report.everything(engine, { measured, retrieval, drawn }, selection, nonFinite);
}

/** A sample, and `ragen`, know only the prompts of their rows: the step may have more. */
function tooFewPrompts(measured: number, columns: number): string {
  const there =
    measured === columns
      ? `this step has ${columns}`
      : `of the ${columns} of this step, the rows that are measured cover ${measured}`;
  return `MI and retrieval need at least 2 prompts; ${there}`;
}

/** The rows of those at which `bad` is true, ascending, once each. */
function rowsThatAre(bad: (at: number) => boolean, rows: Int32Array): number[] {
  const found = new Set<number>();
  for (let at = 0; at < rows.length; at++) if (bad(at)) found.add(rows[at] as number);
  return [...found].sort((a, b) => a - b);
}

interface Shape {
  rows: number;
  columns: number;
}

interface GivenScores {
  given: { kind: 'sums' | 'logprobs'; tensor: Tensor };
  shape: Shape;
}

function givenScores(scores: CrossScores): GivenScores {
  const { sums, logprobs } = scores;
  if ((sums === undefined) === (logprobs === undefined)) {
    throw new ArgumentError('scores', 'give exactly one of `logprobs` ([P,R,T] or packed [P,N]) and `sums` ([R,P])');
  }
  checkArray(scores.lengths, 'lengths');
  if (sums !== undefined) {
    const shape = shapeOf(sums, 'sums');
    const [rows, columns] = shape;
    if (shape.length !== 2 || rows === undefined || columns === undefined) {
      throw new ArgumentError('sums', `expected shape [R, P], got [${shape.join(', ')}]`);
    }
    return { given: { kind: 'sums', tensor: sums }, shape: { rows, columns } };
  }
  const shape = shapeOf(logprobs, 'logprobs');
  if (shape.length !== 3 && shape.length !== 2) {
    throw new ArgumentError('logprobs', `expected shape [P, R, T] or packed [P, N], got [${shape.join(', ')}]`);
  }
  const rows = shape.length === 3 ? (shape[1] as number) : scores.lengths.length;
  return { given: { kind: 'logprobs', tensor: logprobs as Tensor }, shape: { rows, columns: shape[0] as number } };
}

function shapeOf(tensor: Tensor | undefined, argument: string): number[] {
  checkTensor(tensor, argument);
  return checkShape(tensor?.shape, `${argument}.shape`).shape;
}

type Lengths = MeasuredStep['lengths'];

/** A copy, checked. */
function toLengths(lengths: Integers, rows: number): Lengths {
  if (lengths.length !== rows)
    throw new ArgumentError('lengths', `${counted(lengths.length, 'lengths')} for ${counted(rows, 'rows')}`);
  const check = (length: number | bigint, row: number): void => {
    const whole = typeof length === 'bigint' || Number.isSafeInteger(length);
    if (whole && length >= 0) return;
    throw new ArgumentError('lengths', `row ${row}: expected a count of tokens, got ${shown(length)}`);
  };
  if (types.isInt32Array(lengths)) {
    for (let row = 0; row < rows; row++) if ((lengths[row] as number) < 0) check(lengths[row] as number, row);
    return lengths.slice();
  }
  return BigInt64Array.from(lengths as ArrayLike<number | bigint>, (length, row) => {
    check(length, row);
    return BigInt(length);
  });
}

function zerosIn(lengths: Lengths): number {
  let zeros = 0;
  for (let row = 0; row < lengths.length; row++) if (Number(lengths[row]) === 0) zeros++;
  return zeros;
}

/** Those of some rows. */
function lengthsOf(lengths: Lengths, rows: Int32Array): Lengths {
  if (isIdentity(rows, lengths.length)) return lengths;
  return types.isInt32Array(lengths)
    ? Int32Array.from(rows, (row) => lengths[row] as number)
    : BigInt64Array.from(rows, (row) => lengths[row] as bigint);
}

function trajectoriesOf(scores: CrossScores, options: MetricOptions, rows: number): Trajectories | undefined {
  if (options.sampler === undefined) return undefined;
  const { episodes, turns } = scores;
  if (episodes === undefined || turns === undefined) {
    throw new ArgumentError('options.sampler', 'sampling needs `episodes` and `turns`, one of each a row');
  }
  for (const [name, values] of Object.entries({ episodes, turns })) {
    checkArray(values, name);
    if (values.length !== rows)
      throw new ArgumentError(name, `${counted(values.length, 'values')} for ${counted(rows, 'rows')}`);
  }
  return { episodes, turns };
}

interface SummedScores {
  /** [R, P] */
  sums: Tensor;
  /** Column of `sums` of each canonical column; undefined: they stand in canonical order. */
  order: Int32Array | undefined;
  /** Where the same call has already measured the whole step. */
  measured?: ScoredStep;
}

/** The scores as sums over tokens. */
async function summed(
  engine: Engine,
  given: GivenScores['given'],
  lengths: Lengths,
  columns: Columns,
  selection: RowSelection,
  { signal, onProgress }: MetricOptions,
): Promise<SummedScores> {
  const { kind, tensor } = given;
  if (kind === 'sums') {
    const { data, dtype, shape, strides } = tensor;
    if (!(data instanceof DeviceTensor)) return { sums: tensor, order: columns.order };
    // Rows and columns are picked, and intervals computed, on the CPU.
    const { data: host } = await data.download({ signal });
    return { sums: { data: host, dtype, shape, ...(strides && { strides }) }, order: columns.order };
  }
  const prompts = tensor.shape[0] as number;
  const whole = isIdentity(selection.rows, lengths.length) && isIdentity(selection.columns, prompts);
  // On a GPU the statistics are made of the sums where those are; a step that is sampled or out of order takes two calls.
  if (tensor.data instanceof DeviceTensor && whole && isIdentity(columns.position, prompts)) {
    const { own, signatures } = selection;
    const { sums, stats } = await engine.tokenRowStats(tensor, lengths, { own, signatures, signal, onProgress });
    return { sums, order: undefined, measured: scoredFrom(sums, stats, lengths, selection) };
  }
  // Token sums are written in canonical order.
  const { sums } = await engine.sumTokens(tensor, lengths, { columns: columns.position, signal, onProgress });
  return { sums, order: undefined };
}

/** Scores of the selected rows and columns through the engine. */
async function measure(
  engine: Engine,
  sums: Tensor,
  order: Int32Array | undefined,
  allLengths: Lengths,
  selection: RowSelection,
  signal: AbortSignal | undefined,
): Promise<ScoredStep> {
  const [rowCount, columnCount] = sums.shape as [number, number];
  const sourceColumns = order ? selection.columns.map((at) => order[at] as number) : selection.columns;
  const dense = sums.dtype === 'float64' && sums.strides === undefined;
  const whole = isIdentity(selection.rows, rowCount) && isIdentity(sourceColumns, columnCount);
  const scores =
    dense && whole ? sums : await engine.gatherScores(sums, { rows: selection.rows, columns: sourceColumns, signal });
  const lengths = lengthsOf(allLengths, selection.rows);
  const { own, signatures } = selection;
  const stats = await engine.scoreStats(scores, { own, lengths, signatures, signal });
  return scoredFrom(scores, stats, lengths, selection);
}

/** What the moments of a step, and its intervals, are made of. */
type ScoredStep = Omit<MeasuredStep, 'moments'>;

/** @param lengths of the selected rows, as those of `sums` and `stats` are */
function scoredFrom(
  sums: Tensor,
  stats: RowStats,
  lengths: Lengths,
  { own, signatures, prompts }: RowSelection,
): ScoredStep {
  const signatureCounts = countSignatures(signatures);
  const distinct = signatureCounts.filter((count) => count > 0).length;
  const rows = rowsByEquivalents(own, signatures, signatureCounts);
  return { sums, stats, own, lengths, signatures, rowsByEquivalents: rows, distinct, prompts };
}

/** A sample: as it was drawn; among each of its prompts once; and each of its rows once, too. Mostly these are one. */
interface ScoredSample {
  readonly measured: ScoredStep;
  /** What retrieval is asked of. */
  readonly retrieval: ScoredStep;
  /** What intervals and p-values are of: a row that is drawn again tells nothing new. */
  readonly drawn: ScoredStep;
}

async function withMoments(engine: Engine, step: ScoredStep): Promise<MeasuredStep> {
  const { stats, own, lengths, signatures } = step;
  return { ...step, moments: await engine.stepMoments(stats, { own, lengths, signatures }) };
}

/** Puts what was found into a StepMetrics. */
function reporter(profile: 'strict' | 'ragen', options: MetricOptions, shape: Shape, lengths: Lengths) {
  const { permutations = PERMUTATIONS, seed = 0, signal } = options;
  const label: SampleLabel = options.label ?? `collapse_${options.sampler?.kind ?? 'first_turn'}_sample`;
  const zeroLength = zerosIn(lengths);

  /** Metrics about the rows themselves, which stand outside the sample's prefix (docs/metrics.md). */
  function aboutRows(selection: RowSelection): Record<string, number> {
    const about: Record<string, number> = {};
    // The reference gives this one only where it has all turns of the trajectories.
    if (profile === 'strict' || (options.sampler && options.sampler.kind !== 'first_turn')) {
      if (shape.rows > 0) about['collapse/valid_thinking_rate'] = (shape.rows - zeroLength) / shape.rows;
    }
    if (label === 'collapse_first_turn_sample') {
      about['collapse/first_turn_num_total'] = selection.total;
      about['collapse/first_turn_num_valid'] = selection.valid;
      about['collapse/first_turn_valid_rate'] = selection.total > 0 ? selection.valid / selection.total : 0;
    }
    return about;
  }

  function aboutSample(selection: RowSelection): Record<string, number> {
    if (profile === 'ragen' || options.sampler === undefined) return {};
    return {
      sample_size: selection.rows.length,
      sample_effective_size: selection.effectiveRows,
      sample_prompts: selection.prompts,
    };
  }

  function build(
    selection: RowSelection,
    nonFinite: number[],
    values: Record<string, number>,
    absent: Record<string, string>,
    certainty: Record<string, Certainty>,
    notes: string[],
    measured?: { step: MeasuredStep; spread: StepSpread },
  ): StepMetrics {
    const names = namesOf(label);
    const about = aboutRows(selection);
    const keys = Object.keys(about);
    const figures = Object.values(about);
    for (const some of [values, flattenCertainty(certainty)]) {
      for (const key of Object.keys(some)) {
        keys.push(loggedKey(names, key));
        figures.push(some[key] as number);
      }
    }
    return {
      profile,
      label,
      values: names.values.fill(Object.keys(values), Object.values(values)),
      absent,
      certainty,
      notes,
      ...(options.perRow === true && measured !== undefined ? { perRow: perRowOf(measured.step, selection) } : {}),
      rows: { total: shape.rows, used: selection.rows.length, zeroLength, nonFinite },
      columns: { total: selection.columns.length, distinct: new Set(selection.signatures).size },
      ...(measured && { spread: measured.spread }),
      logged: names.logged.fill(keys, figures),
    };
  }

  return {
    nothing(selection: RowSelection, reason: string, nonFinite: number[] = []): StepMetrics {
      const keys = profile === 'strict' ? STRICT_KEYS : [];
      return build(selection, nonFinite, {}, Object.fromEntries(keys.map((key) => [key, reason])), {}, [reason]);
    },

    async everything(
      engine: Engine,
      scored: ScoredSample,
      selection: RowSelection,
      nonFinite: number[],
    ): Promise<StepMetrics> {
      if (profile === 'ragen') {
        const measured = await withMoments(engine, scored.measured);
        const { values, spread } = ragenValues(measured);
        return build(selection, nonFinite, values, {}, {}, [], { step: measured, spread });
      }
      const { sums, stats, own, lengths: ofRows, signatures } = scored.drawn;
      const labels = { own, lengths: ofRows, signatures };
      // None needs another: asked for together, the engine's threads are woken once.
      const [measured, apart, inference] = await Promise.all([
        withMoments(engine, scored.measured),
        scored.retrieval === scored.measured ? undefined : withMoments(engine, scored.retrieval),
        engine.inferStep(sums, stats, { ...labels, permutations, seed, signal }),
      ]);
      const retrieval = apart ?? measured;
      const { values, absent, notes, spread } = strictValues(measured, retrieval);
      if (nonFinite.length > 0) {
        notes.push(`rows left out for a score that is NaN or infinite: ${nonFinite.length} (row ${list(nonFinite)})`);
      }
      if (!inference.withinVariance) {
        notes.push(
          'some prompt has one row only: batch intervals take the spread between prompts for noise and are too wide',
        );
      }
      if (inference.nearBound) {
        notes.push('MI is within a tenth of its attainable bound: its batch interval may cover less than 95%');
      }
      if (!inference.calibrated) {
        notes.push(
          'the responses do not look sampled from the scored distribution (another temperature, a mask, rows picked by ' +
            'reward?): intervals rest on the spread of the rows alone and may be too narrow with few rows a prompt',
        );
      }
      const certainty = certaintyByKey(inference, values, permutations, {
        promptsRepeat: scored.retrieval !== scored.measured,
        rowsRepeat: scored.drawn !== scored.retrieval,
        widening: Math.sqrt(own.length / selection.effectiveRows),
      });
      Object.assign(values, aboutSample(selection));
      return build(selection, nonFinite, values, absent, certainty, notes, { step: measured, spread });
    },
  };
}

/** What the figures of a label are called, and the objects that hold them. */
interface Names {
  readonly label: string;
  /** By key: there are some hundred, and making them anew for every step of a long run costs more than its figures. */
  readonly loggedKeys: Map<string, string>;
  readonly values: FigureShape;
  readonly logged: FigureShape;
}

const NAMES = new Map<string, Names>();

function namesOf(label: string): Names {
  let names = NAMES.get(label);
  if (names === undefined) {
    names = { label, loggedKeys: new Map(), values: new FigureShape(), logged: new FigureShape() };
    NAMES.set(label, names);
  }
  return names;
}

function loggedKey({ label, loggedKeys }: Names, key: string): string {
  let logged = loggedKeys.get(key);
  if (logged === undefined) {
    logged = `${label}/${key}`;
    loggedKeys.set(key, logged);
  }
  return logged;
}

function perRowOf({ stats, own, signatures }: MeasuredStep, { rows }: RowSelection): PerRow {
  const { argmax } = stats;
  const retrieved = new Uint8Array(argmax.length);
  for (let row = 0; row < retrieved.length; row++) {
    if (signatures[argmax[row] as number] === signatures[own[row] as number]) retrieved[row] = 1;
  }
  return { row: rows.slice(), matched: stats.matchedSeq.slice(), retrieved };
}

function list(rows: readonly number[]): string {
  const shown = rows.slice(0, 8).join(', ');
  return rows.length > 8 ? `${shown}, …` : shown;
}
