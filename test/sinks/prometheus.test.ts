// What Prometheus scrapes: by hand, by its own parser, and against what the dashboard and the alerts ask for.
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, it, vi } from 'vitest';
import { grafanaFiles } from '../../scripts/grafana.mjs';
import { Exposition } from '../../src/sinks/prometheus/exposition.js';
import * as table from '../../src/sinks/prometheus/metric-table.js';
import { TextfileSink } from '../../src/sinks/prometheus/textfile-sink.js';
import type { StepReport } from '../../src/step/step-report.js';
import type { Judgement } from '../../src/verdicts/index.js';
import { temporaryDirectory } from '../support/temporary-directory.js';
import { collapseReports, giveAll, MI, reportWith } from './sink-reports.js';

vi.setConfig({ testTimeout: 60_000, hookTimeout: 120_000 });

const folder = temporaryDirectory();
const python = process.env.COLLAPSAR_PYTHON ?? 'python3';
const hasParser = spawnSync(python, ['-c', 'import prometheus_client']).status === 0;

let reports: StepReport[];
beforeAll(async () => {
  reports = await collapseReports();
});

/** A sample with its labels, of a text. */
function sampleOf(text: string, sample: string): number {
  const line = text.split('\n').find((found) => found.startsWith(`${sample} `));
  return Number(line?.slice(sample.length + 1));
}

function expositionOf(given: readonly StepReport[]): string {
  const exposition = new Exposition();
  for (const report of given) exposition.take(report, 1700000000);
  return exposition.text();
}

describe('Exposition', () => {
  it('has the last step of a run that collapses', () => {
    const text = expositionOf(reports);
    const last = reports.at(-1) as StepReport;
    const sample = '{run="collapse",sample="first_turn"}';
    expect(sampleOf(text, `collapsar_mi_nats${sample}`)).toBe(last.metrics[MI]);
    expect(sampleOf(text, `collapsar_mi_low_nats${sample}`)).toBe(last.certainty[`${MI}_batch_low`]);
    expect(sampleOf(text, 'collapsar_training_step{run="collapse"}')).toBe(last.step);
    expect(sampleOf(text, 'collapsar_last_step_timestamp_seconds{run="collapse"}')).toBe(1700000000);
    expect(sampleOf(text, 'collapsar_regime{run="collapse",regime="template_collapse"}')).toBe(1);
    expect(sampleOf(text, 'collapsar_regime{run="collapse",regime="diverse"}')).toBe(0);
    const active = 'collapsar_verdict_active{run="collapse",kind="template_collapse",severity="critical"}';
    expect(sampleOf(text, active)).toBe(1);
    expect(sampleOf(text, active.replace('verdict_active', 'verdicts_total'))).toBe(1);
    const { mi } = (last.judgement as Judgement).regime as { mi: { value: number; start: number } };
    expect(sampleOf(text, 'collapsar_mi_start_ratio{run="collapse"}')).toBe(mi.value / mi.start);
    const causes = table.CAUSES.map((cause) => sampleOf(text, `collapsar_prompts{run="collapse",cause="${cause}"}`));
    expect(causes.reduce((a, b) => a + b)).toBe(last.judgement?.triage.length);
  });

  it('keeps a run to one line, whatever it is called', () => {
    const run = 'a "quoted"\nname with \\ and \\n';
    const text = expositionOf([{ ...(reports.at(-1) as StepReport), run }]);
    const labelled = text.split('\n').filter((line) => line.startsWith('collapsar_training_step{'));
    expect(labelled).toHaveLength(1);
    expect(labelled[0]).toContain(String.raw`{run="a \"quoted\"\nname with \\ and \\n"}`);
    expect(text.split('\n').filter((line) => line !== '' && !/^(# |collapsar_)/.test(line))).toEqual([]);
  });

  it('sets a verdict that no longer holds to 0, and keeps its count', () => {
    const exposition = new Exposition();
    const at = reports.findIndex(({ judgement }) =>
      judgement?.verdicts.some(({ severity }) => severity === 'critical'),
    );
    const alarmed = reports[at] as StepReport;
    for (const report of reports.slice(0, at + 1)) exposition.take(report);
    const judgement = { ...(alarmed.judgement as NonNullable<StepReport['judgement']>), verdicts: [] };
    exposition.take({ ...alarmed, step: alarmed.step + 1, judgement });
    const text = exposition.text();
    expect(text).toMatch(/collapsar_verdict_active\{[^}]*severity="critical"\} 0\n/);
    expect(text).not.toMatch(/collapsar_verdict_active\{[^}]*\} 1\n/);
    expect(text).toMatch(/collapsar_verdicts_total\{[^}]*severity="critical"\} 1\n/);
  });

  it('keeps the last known figure where a step has none', () => {
    const first = reportWith({ run: 'r', step: 5, metrics: { [MI]: 0.5 } });
    const second = reportWith({ run: 'r', step: 6, metrics: { 'rollout/in_group_reward_mean': 0.25 } });
    const text = expositionOf([first, second]);
    expect(sampleOf(text, 'collapsar_mi_nats{run="r",sample="first_turn"}')).toBe(0.5);
    expect(sampleOf(text, 'collapsar_reward_mean{run="r"}')).toBe(0.25);
    expect(sampleOf(text, 'collapsar_training_step{run="r"}')).toBe(6);
  });

  it.skipIf(!hasParser)('is what the parser of prometheus-client reads, whatever a run is called', () => {
    const run = 'a "b"\\\nc 🎲 {run="x"}';
    const odd = reportWith({ run, step: 3, metrics: { [MI]: Number.NaN, 'text/mi_bound': 1e-9 } });
    const text = expositionOf([...reports, odd]);
    const { stdout, stderr, status } = spawnSync(python, ['-c', PARSE], { input: text, encoding: 'utf8' });
    expect(stderr).toBe('');
    expect(status).toBe(0);
    const families = JSON.parse(stdout) as [string, string, string, [string, Record<string, string>, string][]][];
    const known = new Map(table.METRIC_TABLE.map((row) => [row.name.replace(/_total$/, ''), row]));
    for (const [name, type, help, samples] of families) {
      const row = known.get(name);
      expect(row, name).toBeDefined();
      expect(type).toBe(row?.type);
      expect(help).toBe(row?.help);
      for (const [, labels] of samples) expect(Object.keys(labels)).toEqual(row?.labels);
    }
    const step = families.find(([name]) => name === 'collapsar_training_step')?.[3];
    expect(step).toContainEqual(['collapsar_training_step', { run }, '3.0']);
    const mi = families.find(([name]) => name === 'collapsar_mi_nats')?.[3];
    expect(mi).toContainEqual(['collapsar_mi_nats', { run, sample: 'first_turn' }, 'nan']);
    expect(mi).toContainEqual(['collapsar_mi_nats', { run, sample: 'text' }, '1e-09']);
  });
});

const PARSE = `
import json, sys
from prometheus_client.parser import text_string_to_metric_families
print(json.dumps([[f.name, f.type, f.documentation, [[s.name, s.labels, repr(float(s.value))] for s in f.samples]] for f in text_string_to_metric_families(sys.stdin.read())]))
`;

describe('TextfileSink', () => {
  it('replaces its file whole, and leaves the last step there', async () => {
    const path = join(folder, 'collapsar.prom');
    await giveAll(new TextfileSink(path), reports);
    const text = readFileSync(path, 'utf8');
    expect(sampleOf(text, 'collapsar_training_step{run="collapse"}')).toBe(reports.at(-1)?.step);
    expect(text.endsWith('\n')).toBe(true);
    expect(readdirSync(folder)).toEqual(['collapsar.prom']);
  });

  it('rejects where it cannot write, and leaves nothing', async () => {
    const path = join(folder, 'none', 'x.prom');
    await expect(new TextfileSink(path).step(reports[0] as StepReport)).rejects.toThrow(/cannot write here/);
    expect(existsSync(join(folder, 'none'))).toBe(false);
  });
});

describe('metric names', () => {
  it('follow the rules of Prometheus: a prefix, a unit, no colon, _total for counters alone', () => {
    for (const { name, type, labels, help } of table.METRIC_TABLE) {
      expect(name).toMatch(/^collapsar_[a-z_]+$/);
      expect(name.endsWith('_total')).toBe(type === 'counter');
      for (const label of labels)
        expect(['run', 'sample', 'cause', 'regime', 'kind', 'severity', 'version']).toContain(label);
      expect(help).toMatch(/\.$|label$/);
    }
    expect(new Set(table.METRIC_TABLE.map(({ name }) => name)).size).toBe(table.METRIC_TABLE.length);
  });
});

describe('grafana/', () => {
  const root = join(import.meta.dirname, '..', '..');
  const files = grafanaFiles(table);

  it.each(Object.keys(files))('%s is what scripts/grafana.mjs makes of the table of metrics', (path) => {
    expect(readFileSync(join(root, path), 'utf8')).toBe(files[path]);
  });

  it('asks for every metric that is written, and for none that is not', () => {
    const texts = expositionOf([
      ...reports,
      reportWith({ run: 'texts', step: 1, metrics: { 'text/template_share': 0.1, 'text/sibling_novelty': 0.5 } }),
    ]);
    const written = new Set([...texts.matchAll(/^(collapsar_\w+)\{/gm)].map(([, name]) => name));
    expect([...written].sort()).toEqual(table.METRIC_TABLE.map(({ name }) => name).sort());
    const asked = new Set(Object.values(files).flatMap((text) => text.match(/collapsar_\w+/g) ?? []));
    expect([...asked].filter((name) => !written.has(name))).toEqual([]);
    expect([...written].filter((name) => !asked.has(name as string))).toEqual([]);
  });
});
