// Keeps the last known value of every metric of the table, by its labels.
import { packageVersion } from '../../checks/package-version.js';
import type { StepReport } from '../../step/step-report.js';
import type { Judgement } from '../../verdicts/index.js';
import { NewVerdicts } from '../../verdicts/new-verdicts.js';
import { CAUSES, METRIC_TABLE, type MetricRow, PLACES, REGIMES, STATE } from './metric-table.js';

export interface LastValue {
  /** In the order of the row's labels. */
  readonly labels: readonly string[];
  value: number;
}

export class LastFigures {
  /** By metric, then by its labels. */
  readonly #values = new Map<MetricRow, Map<string, LastValue>>(METRIC_TABLE.map((row) => [row, new Map()]));
  readonly #verdicts = new NewVerdicts();

  constructor() {
    this.#set(STATE.build, [packageVersion()], 1);
  }

  /** @param time when the step was measured, Unix seconds */
  take(report: StepReport, time = Date.now() / 1000): void {
    const { run, step, metrics, certainty, judgement } = report;
    for (const [key, value] of Object.entries({ ...metrics, ...certainty })) {
      const found = PLACES.get(key);
      // A step without scores says nothing new of what they tell.
      if (found !== undefined) this.#set(found.row, found.sample === undefined ? [run] : [run, found.sample], value);
    }
    if (judgement !== undefined) this.#judge(run, judgement);
    for (const { kind, severity } of this.#verdicts.take(run, judgement?.verdicts)) {
      const labels = [run, kind, severity];
      this.#set(STATE.verdicts, labels, (this.#find(STATE.verdicts, labels)?.value ?? 0) + 1);
    }
    this.#set(STATE.step, [run], step);
    this.#set(STATE.time, [run], time);
  }

  /** What a metric last was, an entry for each of its labels. */
  of(row: MetricRow): Iterable<LastValue> {
    return this.#values.get(row)?.values() ?? [];
  }

  #judge(run: string, { regime, triage, verdicts }: Judgement): void {
    const { mi, entropy } = regime;
    if (mi !== null && mi.start > 0) this.#set(STATE.miStart, [run], mi.value / mi.start);
    if (entropy !== null && entropy.start > 0) this.#set(STATE.entropyStart, [run], entropy.value / entropy.start);
    for (const name of REGIMES) this.#set(STATE.regime, [run, name], Number((regime.regime ?? 'undecided') === name));
    if (triage.length > 0) {
      for (const name of CAUSES)
        this.#set(STATE.prompts, [run, name], triage.filter(({ cause }) => cause === name).length);
    }
    for (const held of this.of(STATE.active)) if (held.labels[0] === run) held.value = 0;
    for (const { kind, severity } of verdicts) this.#set(STATE.active, [run, kind, severity], 1);
  }

  #find(row: MetricRow, labels: readonly string[]): LastValue | undefined {
    return this.#values.get(row)?.get(JSON.stringify(labels));
  }

  #set(row: MetricRow, labels: readonly string[], value: number): void {
    const known = this.#find(row, labels);
    if (known === undefined) this.#values.get(row)?.set(JSON.stringify(labels), { labels, value });
    else known.value = value;
  }
}
