// What a manifest keeps of a step's rollout logs: which rows of which files, so that whoever maps the step need not
// look for them.

import { isCount } from '../../checks/saved-shape.js';
import type { Container, Place } from '../../logs/rollouts/format.js';
import type { FormatChoice } from '../../logs/rollouts/json-lines/parse-lines.js';
import type { Range } from '../../logs/rollouts/log-part.js';
import type { LoggedPart, LoggedStep } from '../../logs/rollouts/rollout-logs.js';
import type { StepOfRun } from '../measuring/step-source.js';

/** A logged step without what its entry has anyway. */
export type PlannedRollouts = Omit<LoggedStep, 'step' | 'run' | 'runDirectory'>;

export function plannedRollouts({ step: _, run: __, runDirectory: ___, ...rest }: LoggedStep): PlannedRollouts {
  return rest;
}

/** @returns undefined for what `plannedRollouts` does not give */
export function rolloutsFrom(
  value: unknown,
  { step, run, runDirectory }: Pick<StepOfRun, 'step' | 'run' | 'runDirectory'>,
  placed: (path: string) => string,
): LoggedStep | undefined {
  const { format, isNamed, notes, parts, bytes, identity } = Object(value) as Record<string, unknown>;
  const { name } = Object(format) as Record<string, unknown>;
  if (typeof name !== 'string' || typeof isNamed !== 'boolean' || !isTexts(notes) || !Array.isArray(parts))
    return undefined;
  if (!isCount(bytes) || typeof identity !== 'string') return undefined;
  const found = parts.map((part) => partFrom(part, placed));
  if (found.length === 0 || found.some((part) => part === undefined)) return undefined;
  const rest = { isNamed, notes, parts: found as LoggedPart[], bytes, identity };
  return { format: format as FormatChoice, step, run, runDirectory, ...rest };
}

const CONTAINERS: readonly unknown[] = ['json-lines', 'parquet', 'csv'] satisfies Container[];

function partFrom(value: unknown, placed: (path: string) => string): LoggedPart | undefined {
  const { path, container, place, fileBytes, stamp, digest, step, ranges } = Object(value) as Record<string, unknown>;
  const { runDirectory } = Object(place) as Record<string, unknown>;
  const isSound =
    typeof path === 'string' &&
    CONTAINERS.includes(container) &&
    typeof runDirectory === 'string' &&
    isCount(fileBytes) &&
    typeof stamp === 'string' &&
    (digest === undefined || typeof digest === 'string') &&
    (step === undefined || isCount(step)) &&
    (ranges === undefined || (Array.isArray(ranges) && ranges.every(isRange)));
  if (!isSound) return undefined;
  return {
    path: placed(path),
    file: path,
    container: container as Container,
    place: place as Place,
    fileBytes,
    stamp,
    ...(step !== undefined && { step: step as number }),
    ...(digest !== undefined && { digest: digest as string }),
    ...(ranges !== undefined && { ranges: ranges as readonly Range[] }),
  };
}

function isRange(value: unknown): boolean {
  const { begin, end, line } = Object(value) as Record<string, unknown>;
  return isCount(begin) && isCount(end) && begin <= end && isCount(line);
}

function isTexts(value: unknown): value is readonly string[] {
  return Array.isArray(value) && value.every((text) => typeof text === 'string');
}
