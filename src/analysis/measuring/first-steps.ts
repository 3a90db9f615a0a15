// The rows of a run's first step with text figures: what the phrases of later steps are held against.
import type { Engine } from '../../engine/engine.js';
import type { TextRows } from '../../engine/operations/texts/text-rows.js';
import type { LoggedStep, RolloutLogs } from '../../logs/rollouts/rollout-logs.js';
import { textRowsOf } from './rollout-measurement.js';

/** Steps of a run among which the first with figures is looked for. */
export const MOST_TRIED = 8;

/** Runs whose first steps are held: steps of two may be measured side by side. */
const MOST_HELD = 2;

interface RunName {
  readonly runDirectory: string;
  readonly run: string;
}

export class FirstSteps {
  readonly #steps = new Map<string, LoggedStep[]>();
  readonly #held = new Map<string, Promise<TextRows | undefined>>();

  /** Takes in a step of a run; those of a run come in their order. */
  add(step: RunName & { readonly rollouts?: LoggedStep | undefined }): void {
    if (step.rollouts === undefined) return;
    const key = keyOf(step);
    const { rollouts } = step;
    // One that was looked at again takes its own place.
    const others = (this.#steps.get(key) ?? []).filter((other) => other.step !== rollouts.step);
    const steps = [...others, rollouts].sort((one, other) => one.step - other.step);
    this.#steps.set(key, steps.slice(0, MOST_TRIED));
  }

  /** Of the first of all, with or without figures. */
  identityOf(run: RunName): string | undefined {
    return this.#steps.get(keyOf(run))?.[0]?.identity;
  }

  /** @returns undefined if none of the run's first steps has text figures */
  rows(engine: Engine, logs: RolloutLogs, run: RunName, signal: AbortSignal): Promise<TextRows | undefined> {
    const key = `${keyOf(run)}\n${this.identityOf(run)}`;
    const held = this.#held.get(key);
    if (held !== undefined) return held;
    const reading = firstWithFigures(engine, logs, this.#steps.get(keyOf(run)) ?? [], signal);
    reading.catch(() => undefined);
    this.#held.set(key, reading);
    for (const oldest of this.#held.keys()) {
      if (this.#held.size <= MOST_HELD) break;
      this.#held.delete(oldest);
    }
    return reading;
  }
}

async function firstWithFigures(
  engine: Engine,
  logs: RolloutLogs,
  steps: readonly LoggedStep[],
  signal: AbortSignal,
): Promise<TextRows | undefined> {
  for (const logged of steps) {
    logs.expect(logged);
    const { step } = await logs.read(logged);
    const rows = step && textRowsOf(step);
    if (rows === undefined) continue;
    const { problem } = await engine.textFigures(rows, { permutations: 0, seed: 0, signal });
    if (problem === null) return rows;
  }
  return undefined;
}

function keyOf({ runDirectory, run }: RunName): string {
  return `${runDirectory}\n${run}`;
}
