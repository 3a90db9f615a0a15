// Reports -> the text that Prometheus scrapes (text/plain; version=0.0.4): the last known value of every figure.
import { packageVersion } from '../../checks/package-version.js';
import type { SinkReport } from '../../monitor/sinks/sink.js';
import type { Judgement } from '../../verdicts/index.js';
import { NewVerdicts } from '../../verdicts/new-verdicts.js';
import { CAUSES, METRIC_TABLE, type MetricRow, PLACES, REGIMES, STATE } from './metric-table.js';

export const CONTENT_TYPE = 'text/plain; version=0.0.4; charset=utf-8';

export class Exposition {
  /** By metric, then by its labels as they are written. */
  readonly #values = new Map<MetricRow, Map<string, number>>(METRIC_TABLE.map((row) => [row, new Map()]));
  readonly #verdicts = new NewVerdicts();
  /** By run: the labels of verdicts that have held. */
  readonly #held = new Map<string, Set<string>>();

  constructor() {
    this.#set(STATE.build, [packageVersion()], 1);
  }

  /** @param time when the step was measured, Unix seconds */
  take(report: SinkReport, time = Date.now() / 1000): void {
    const { run, step, metrics, judgement } = report;
    for (const [key, value] of Object.entries(metrics)) {
      const found = PLACES.get(key);
      // A step without scores says nothing new of what they tell.
      if (found !== undefined) this.#set(found.row, found.sample === undefined ? [run] : [run, found.sample], value);
    }
    if (judgement !== undefined) this.#judge(run, judgement);
    for (const { kind, severity } of this.#verdicts.take(report.run, report.judgement?.verdicts)) {
      const labels = [run, kind, severity];
      this.#set(STATE.verdicts, labels, (this.#get(STATE.verdicts, labels) ?? 0) + 1);
    }
    this.#set(STATE.step, [run], step);
    this.#set(STATE.time, [run], time);
  }

  text(): string {
    const lines: string[] = [];
    for (const [{ name, type, help }, values] of this.#values) {
      if (values.size === 0) continue;
      lines.push(`# HELP ${name} ${help.replaceAll('\\', '\\\\')}`, `# TYPE ${name} ${type}`);
      for (const [labels, value] of values) lines.push(`${name}${labels} ${numberText(value)}`);
    }
    return `${lines.join('\n')}\n`;
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
    const held = this.#held.get(run) ?? new Set();
    this.#held.set(run, held);
    const active = this.#values.get(STATE.active) as Map<string, number>;
    for (const labels of held) active.set(labels, 0);
    for (const { kind, severity } of verdicts) {
      const labels = labelText(STATE.active, [run, kind, severity]);
      held.add(labels);
      active.set(labels, 1);
    }
  }

  #get(row: MetricRow, labels: readonly string[]): number | undefined {
    return this.#values.get(row)?.get(labelText(row, labels));
  }

  #set(row: MetricRow, labels: readonly string[], value: number): void {
    this.#values.get(row)?.set(labelText(row, labels), value);
  }
}

function labelText({ labels }: MetricRow, values: readonly string[]): string {
  return `{${labels.map((name, at) => `${name}="${escapedLabel(values[at] as string)}"`).join(',')}}`;
}

function escapedLabel(value: string): string {
  return value.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n');
}

function numberText(value: number): string {
  if (Number.isNaN(value)) return 'NaN';
  return Number.isFinite(value) ? String(value) : value > 0 ? '+Inf' : '-Inf';
}
