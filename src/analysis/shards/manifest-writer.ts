// A plan -> its file: one JSON document, each of whose elements has a line of its own, so that it is read in constant
// memory.
import type { FileError } from '../../checks/errors.js';
import type { StepFile } from '../measuring/step-source.js';
import { MANIFEST_FORMAT, MANIFEST_VERSION, type PlannedRun, type PlanSettings, type Shard } from './manifest.js';
import { plannedRollouts } from './planned-rollouts.js';
import { savedProblem } from './saved-problem.js';
import { StateWriter } from './state-writer.js';

export interface Plan {
  readonly collapsar: string;
  readonly settings: PlanSettings;
  readonly directory: string;
  readonly shards: readonly Shard[];
  readonly steps: readonly StepFile[];
  readonly failures: readonly FileError[];
}

/**
 * Writes the manifest whole or not at all. The same plan gives the same bytes.
 * @returns its digest
 * @throws {FileError} when it cannot be written
 */
export async function writeManifest(path: string, plan: Plan): Promise<string> {
  const writer = await StateWriter.open(path);
  try {
    const runs = runsOf(plan.steps);
    const { collapsar, settings, directory, steps } = plan;
    const head = { format: MANIFEST_FORMAT, version: MANIFEST_VERSION, collapsar, settings, directory };
    await writer.line(`${JSON.stringify(head).slice(0, -1)},`);
    await writeList(writer, 'shards', plan.shards);
    await writeList(writer, 'runs', runs);
    await writeList(writer, 'steps', plannedLines(steps));
    await writeList(writer, 'failures', plan.failures.map(savedFailure));
    return (await writer.complete('')).digest;
  } catch (error) {
    await writer.discard();
    throw error;
  }
}

async function writeList(writer: StateWriter, name: string, elements: Iterable<unknown>): Promise<void> {
  await writer.line(`"${name}":[`);
  let held: string | undefined;
  for (const element of elements) {
    if (held !== undefined) await writer.line(`${held},`);
    held = JSON.stringify(element);
  }
  if (held !== undefined) await writer.line(held);
  await writer.line('],');
}

/** Steps come by run. */
function runsOf(steps: readonly StepFile[]): PlannedRun[] {
  const runs: PlannedRun[] = [];
  for (const { run: name, runDirectory: directory } of steps) {
    const last = runs.at(-1);
    if (last?.name !== name || last.directory !== directory) runs.push({ name, directory });
  }
  return runs;
}

function* plannedLines(steps: readonly StepFile[]) {
  let run = -1;
  let last: StepFile | undefined;
  for (const next of steps) {
    if (last?.run !== next.run || last.runDirectory !== next.runDirectory) run++;
    last = next;
    const { file, step, bytes, identity, prompts, rows, isLog, rollouts } = next;
    const logs = rollouts && { isLog, rollouts: plannedRollouts(rollouts) };
    yield { file, run, step, bytes, identity, prompts, rows, ...logs };
  }
}

function savedFailure(failure: FileError) {
  return { file: failure.path, ...savedProblem(failure) };
}
