// engine.logitStats: options, checks, native call, result.

import { types } from 'node:util';
import { checkMemory } from '../../checks/argument-checks.js';
import { ArgumentError } from '../../checks/errors.js';
import type { OperationOptions } from '../../checks/operation-options.js';
import { is, OPERATION, type OptionTable } from '../../checks/options.js';
import { shown } from '../../checks/words.js';
import type { EngineCore } from '../engine-core.js';
import { type HeldBuffers, lengthOfArray, noteEngineMemory } from '../memory.js';
import type { IntegerArray, LogitArguments, NativeResults, Settle } from '../native.js';
import { integerArray, optionalIntegers } from '../tensor/integers.js';
import type { Integers, Tensor } from '../tensor/tensor.js';
import { matrixArguments, viewTensor } from '../tensor/tensor-view.js';
import type { DeviceLogitStats, LogitField, LogitStats } from './logit-fields.js';

/** Options of `engine.logitStats`. */
export interface LogitStatsOptions extends OperationOptions {
  /**
   * One column in [0, V) a row, anything in rows that `mask` leaves out: needed for `targetLogprob`, `rankAbove` and
   * `rankEqual`.
   */
  targets?: Integers | undefined;
  /** Logits are divided by it, 1e-18 to 1e18. Default 1. */
  temperature?: number | undefined;
  /** The fields to compute. Default: all that can be, so without targets those that need none. */
  out?: readonly LogitField[] | undefined;
  /** One entry a row; rows with false (or 0) are not read: NaN and -1 in every field, and no part in the means. */
  mask?: readonly boolean[] | Uint8Array | undefined;
  /**
   * Runs of rows to take means over: `lengths` of runs that follow one another and together have all N rows, or
   * `offsets`, one more than runs: run i has the rows offsets[i] to offsets[i + 1].
   */
  sequences?: { readonly lengths: Integers } | { readonly offsets: Integers } | undefined;
}

/** Options of `engine.logitStats` that leave its results on the GPU. */
export interface DeviceLogitStatsOptions extends Omit<LogitStatsOptions, 'out'> {
  /** Leaves the fields on the GPU: all that can be computed, or those that `device` names. */
  out: 'device' | { readonly device: readonly LogitField[] };
}

// In the order of native/node/jobs/logit_stats.cpp: field i is bit i.
const fields: readonly LogitField[] = ['logsumexp', 'entropy', 'targetLogprob', 'argmax', 'rankAbove', 'rankEqual'];
const targeted: readonly LogitField[] = ['targetLogprob', 'rankAbove', 'rankEqual'];

// As in native/engine/logit_stats.h.
const lowestTemperature = 1e-18;
const highestTemperature = 1e18;

const LOGIT_OPTIONS: OptionTable<LogitStatsOptions> = {
  targets: is.any,
  temperature: is.any,
  out: is.any,
  mask: is.any,
  sequences: is.any,
  ...OPERATION,
};

/** `options.out`: the fields that it names (undefined: it leaves the choice), and whether they stay on the GPU. */
function logitOut(out: unknown): { named: unknown; onDevice: boolean } {
  if (out === 'device') return { named: undefined, onDevice: true };
  if (out !== null && typeof out === 'object' && 'device' in out) return { named: out.device, onDevice: true };
  return { named: out, onDevice: false };
}

function fieldBits(named: unknown, hasTargets: boolean): number {
  const wanted = named === undefined ? fields.filter((field) => hasTargets || !targeted.includes(field)) : named;
  if (!Array.isArray(wanted)) {
    throw new ArgumentError(
      'options.out',
      `got ${shown(wanted)}, expected an array of field names, 'device' or { device: field names }`,
    );
  }
  let bits = 0;
  for (const field of wanted as unknown[]) {
    const bit = fields.indexOf(field as LogitField);
    if (bit < 0) throw new ArgumentError('options.out', `got ${shown(field)}, expected some of ${fields.join(', ')}`);
    if (!hasTargets && targeted.includes(field as LogitField)) {
      throw new ArgumentError('options.targets', `got undefined, but ${field} needs them`);
    }
    bits |= 1 << bit;
  }
  return bits;
}

function maskArray(mask: unknown): IntegerArray | undefined {
  if (mask === undefined) return undefined;
  checkMemory(mask, 'options.mask');
  if (types.isUint8Array(mask)) {
    const copy = new Int32Array(lengthOfArray(mask));
    copy.set(mask);
    return copy;
  }
  if (!Array.isArray(mask)) {
    throw new ArgumentError('options.mask', `got ${shown(mask)}, expected an array of booleans or a Uint8Array`);
  }
  const stranger = mask.findIndex((entry) => typeof entry !== 'boolean');
  if (stranger >= 0) {
    throw new ArgumentError('options.mask', `entry ${stranger} is ${shown(mask[stranger])}, expected a boolean`);
  }
  return Int32Array.from(mask as boolean[], Number);
}

function sequenceArrays(sequences: unknown): [IntegerArray | undefined, IntegerArray | undefined] {
  if (sequences === undefined) return [undefined, undefined];
  if (sequences === null || typeof sequences !== 'object') {
    throw new ArgumentError('options.sequences', `got ${shown(sequences)}, expected { lengths } or { offsets }`);
  }
  const { lengths, offsets } = sequences as { lengths?: never; offsets?: never };
  if ((lengths === undefined) === (offsets === undefined)) {
    const came = lengths === undefined ? 'neither' : 'both';
    throw new ArgumentError('options.sequences', `got ${came} of lengths and offsets, expected one of them`);
  }
  return lengths === undefined
    ? [undefined, integerArray(offsets as never, 'options.sequences.offsets')]
    : [integerArray(lengths, 'options.sequences.lengths'), undefined];
}

/** @throws ArgumentError naming the option that is wrong; ranges are checked natively */
function logitArguments(options: LogitStatsOptions | DeviceLogitStatsOptions): LogitArguments {
  const { targets, temperature = 1, out, mask, sequences } = options;
  if (typeof temperature !== 'number' || !(temperature >= lowestTemperature && temperature <= highestTemperature)) {
    throw new ArgumentError(
      'options.temperature',
      `got ${shown(temperature)}, expected a number from ${lowestTemperature} to ${highestTemperature}`,
    );
  }
  const { named, onDevice } = logitOut(out);
  return [
    fieldBits(named, targets !== undefined),
    temperature,
    optionalIntegers(targets, 'options.targets'),
    maskArray(mask),
    ...sequenceArrays(sequences),
    onDevice,
  ];
}

/** Engine.logitStats() */
export async function logitStats(
  engine: EngineCore,
  logits: Tensor,
  options: LogitStatsOptions | DeviceLogitStatsOptions = {},
): Promise<LogitStats | DeviceLogitStats> {
  engine.begin('logitStats', options, LOGIT_OPTIONS);
  const view = viewTensor(logits, 'logits', [2], 'logits [N, V]', engine.device, 'logitStats');
  const rest = logitArguments(options);
  const onDevice = rest[6];
  const start = (settle: Settle, held: HeldBuffers): number =>
    engine.native.logitStats(settle, ...matrixArguments(view, 'logits', held), ...rest);
  if (onDevice) {
    return engine.gpu('logitStats').keep<DeviceLogitStats>('logitStats', options, start);
  }
  return engine.jobs.run<NativeResults['logitStats'], LogitStats>('logitStats', options, start, (native) => {
    const present = Object.entries(native).filter(([, value]) => value !== undefined);
    for (const [, value] of present) if (ArrayBuffer.isView(value)) noteEngineMemory(value);
    return Object.fromEntries(present) as unknown as LogitStats;
  });
}
