// The same verdict on the terminal, on the page, in the records and in what sinks are told: one sentence, one severity.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { analyze } from '../../src/analysis/analyze.js';
import { RunVerdicts } from '../../src/cli/output/screen/run-verdicts.js';
import type { Sink } from '../../src/monitor/sinks/sink.js';
import { ReportCollection } from '../../src/report/collect/report-collection.js';
import type { RunData } from '../../src/report/report.js';
import { openSink } from '../../src/sinks/open-sink.js';
import { RunNames } from '../../src/sinks/run-names.js';
import type { StepReport } from '../../src/step/step-report.js';
import type { Verdict } from '../../src/verdicts/index.js';
import { openTelemetry } from '../sinks/open-telemetry.js';
import { type Asked, closeServers, type Metric, mlflow, serve } from '../sinks/recording-servers.js';
import { MI } from '../sinks/sink-reports.js';
import { exampleRuns } from '../support/analysis-logs.js';
import { temporaryDirectory } from '../support/temporary-directory.js';

const folder = temporaryDirectory();
const look = { unicode: true, width: Number.MAX_SAFE_INTEGER, paint: (_: unknown, text: string): string => text };
const GLYPHS = { critical: '✖', warning: '▲', info: '·' } as const;

/** Those that a step begins, or makes graver, or true of other environments: no step before had these words. */
function newOnes(verdicts: readonly Verdict[]): Verdict[] {
  const isNew = verdicts.filter(({ kind, severity, raised, step, sentence }) => {
    const isBefore = (one: Verdict): boolean =>
      one.kind === kind && one.severity === severity && one.raised === raised && one.step < step;
    return !verdicts.some((one) => isBefore(one) && asSaid(one.sentence) === asSaid(sentence));
  });
  expect(isNew).toEqual(verdicts.filter(({ said, step }) => said === step));
  return isNew;
}

/** A sentence without the clause for a later step. */
const asSaid = (sentence: string): string => sentence.replace(/; at step \d+ .*$/, '').replace(/\.$/, '');

/** Of MLflow: what one request logs. */
interface Batch {
  readonly metrics: readonly Metric[];
  readonly tags: readonly { readonly key: string; readonly value: string }[];
}

/** Of Trackio. */
interface Alert {
  readonly step: number;
  readonly title: string;
  readonly level: string;
  readonly text: string;
}

/** What is said as text in an event file, whose other bytes do not matter here. */
function saidInEvents(path: string): string {
  return readdirSync(path, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.includes('tfevents'))
    .map((name) => readFileSync(join(path, name), 'utf8'))
    .join('');
}

describe.each(['collapse', 'filtered'])('a verdict of examples/data/%s', (name) => {
  const terminal = new RunVerdicts();
  const byStep: Verdict[] = [];
  let page: RunData;
  let told = '';
  let records: { verdicts?: Verdict[] }[] = [];
  const batches: Batch[] = [];
  let alerts: Alert[] = [];
  const meter = openTelemetry();
  /** By step: what OpenTelemetry's SDK exports after it, a value for each metric and its labels. */
  const exports: { readonly step: number; readonly values: ReadonlyMap<string, number> }[] = [];

  beforeAll(async () => {
    const names = new RunNames();
    const collection = new ReportCollection({ version: '1', settings: {}, command: '' });
    const at = join(folder, name);
    const tracking = await serve(mlflow().answer);
    const trackio = await serve(() => [200, {}]);
    const sinks: Sink[] = [
      openSink(`tensorboard:${join(at, 'events')}`),
      openSink(`results:${join(at, 'results')}`),
      openSink(`mlflow:${tracking.url}?experiment=e`),
      openSink(`trackio:${trackio.url}?project=p`),
      meter.sink,
    ];
    for await (const report of analyze(`${exampleRuns}${name}`, { permutations: 19 })) {
      const given: StepReport = { ...report, run: names.nameOf(report) };
      terminal.add(report);
      byStep.push(...(report.judgement?.verdicts ?? []));
      collection.add({ ...report.record, run: given.run, file: `runs/${name}/step` }, report.summary);
      for (const sink of sinks) await sink.step(given);
      exports.push({ step: report.step, values: await exportedValues(meter) });
    }
    for (const sink of sinks) await sink.close();
    const bodies = (asked: readonly Asked[], path: string): unknown[] =>
      asked.filter((one) => one.path.endsWith(path)).map(({ body }) => body);
    batches.push(...(bodies(tracking.asked, '/runs/log-batch') as Batch[]));
    alerts = (bodies(trackio.asked, '/bulk_alert') as { alerts: Alert[] }[]).flatMap((body) => body.alerts);
    [page] = collection.report().runs as [RunData];
    told = saidInEvents(join(at, 'events'));
    records = readdirSync(join(at, 'results'), { recursive: true, encoding: 'utf8' })
      .filter((file) => file.endsWith('.jsonl'))
      .flatMap((file) =>
        readFileSync(join(at, 'results', file), 'utf8')
          .trim()
          .split('\n'),
      )
      .map((line) => JSON.parse(line) as { verdicts?: Verdict[] });
  }, 120_000);
  afterAll(async () => {
    await meter.provider.shutdown();
    await closeServers();
  });

  it('has the sentence on the terminal that some step was given, with that step’s severity as its glyph', () => {
    expect(terminal.all.length).toBeGreaterThan(2);
    const lines = terminal.sentences(look);
    for (const { kind, severity, sentence, said, last, ...verdict } of terminal.all) {
      for (const of of [{ kind, severity, sentence, said, ...verdict }, ...(last === undefined ? [] : [last])]) {
        const same = byStep.filter((one) => one.kind === kind && one.said === of.said);
        expect(same.length, sentence).toBeGreaterThan(0);
        expect(same.some(({ step }) => step === of.said)).toBe(true);
        for (const one of same) {
          expect([one.severity, one.evidence, asSaid(one.sentence)]).toEqual([
            of.severity,
            of.evidence,
            asSaid(of.sentence),
          ]);
        }
      }
      const head = lines.findIndex((line) => line.startsWith(`  ${GLYPHS[severity]} ${kind} `));
      const [words, again = ''] = lines.slice(head + 1, head + 3).map((line) => line.replace(/\s+/g, ' ').trim());
      expect(words).toBe(sentence);
      if (last === undefined || last.said === said) expect(again).not.toMatch(/^From step /);
      else {
        const [head, ...words] = again.split(': ');
        expect(words.join(': ')).toBe(last.sentence);
        expect(head?.startsWith(`From step ${last.since}`)).toBe(true);
        expect(head?.includes(`said at ${last.said}`)).toBe(last.said !== last.since);
        expect(head?.includes(last.severity)).toBe(last.severity !== severity);
      }
    }
  });

  it('has the same sentence on the page, for each stretch the one of its gravest step', () => {
    const { verdicts, status } = page.head;
    for (const { kind, holds, last, ...whole } of terminal.all) {
      const stretches = verdicts.filter((one) => one.kind === kind);
      for (const { severity, sentence } of last === undefined ? [whole] : [whole, last]) {
        const same = stretches.find((one) => one.severity === severity && asSaid(one.sentence) === asSaid(sentence));
        expect(same, sentence).toBeDefined();
      }
      if (holds) expect(stretches.at(-1)?.sentence).toBe((last ?? whole).sentence);
    }
    for (const { kind, raised, severity, sentence } of verdicts) {
      const own = byStep.findLast((one) => one.kind === kind && one.raised === raised);
      expect([severity, sentence]).toEqual([own?.severity, own?.sentence]);
    }
    const [gravest] = terminal.all;
    expect(status.grade).toBe(gravest?.severity);
  });

  it('has the same sentence in records, and in what a sink is told when it begins or becomes graver', () => {
    expect(records.flatMap(({ verdicts = [] }) => verdicts)).toEqual(JSON.parse(JSON.stringify(byStep)));
    for (const { severity, sentence } of terminal.all) {
      expect(told).toMatch(new RegExp(`\\*\\*${severity}, since step \\d+\\*\\*: ${literal(asSaid(sentence))}`));
    }
  });

  it('is told once to every sink that tells what is new, in the words of its step', () => {
    const isNew = newOnes(byStep);
    expect(isNew.length).toBeGreaterThan(terminal.all.length);
    const tags = batches.flatMap((batch) => batch.tags.filter(({ key }) => key !== 'collapsar.last_step'));
    expect(tags.filter(({ key }) => key !== 'collapsar.key')).toEqual(
      isNew.map(({ kind, severity, step, sentence }) => {
        return { key: `collapsar.${kind}`, value: `${severity}, step ${step}: ${sentence}` };
      }),
    );
    expect(alerts.map(({ step, title, level, text }) => ({ step, title, level, text }))).toEqual(
      isNew.map(({ kind, severity, step, sentence, advice }) => {
        const level = { info: 'info', warning: 'warn', critical: 'error' }[severity];
        return { step, title: kind.replaceAll('_', ' '), level, text: `${sentence} ${advice}` };
      }),
    );
    const counted = [...(exports.at(-1)?.values ?? [])].filter(([key]) => key.startsWith('collapsar.verdicts '));
    const numbers: Record<string, number> = {};
    for (const { kind, severity } of isNew) {
      const key = `collapsar.verdicts ${name} ${kind} ${severity}`;
      numbers[key] = (numbers[key] ?? 0) + 1;
    }
    expect(Object.fromEntries(counted)).toEqual(numbers);
  });

  it('has the figures of its evidence in what MLflow and OpenTelemetry are sent of its step, and holds there as long', () => {
    let compared = 0;
    for (const { step, kind, evidence } of newOnes(byStep)) {
      if (typeof evidence.mi !== 'number') continue;
      const logged = batches.flatMap(({ metrics }) => metrics).find((one) => one.step === step && one.key === MI);
      const values = exports.find((one) => one.step === step)?.values;
      expect(logged?.value, `${kind} at ${step}`).toBeCloseTo(evidence.mi, 12);
      expect(values?.get(`collapsar.mi_nats ${name} first_turn`)).toBeCloseTo(evidence.mi, 12);
      if (typeof evidence.miShare === 'number') {
        expect(values?.get(`collapsar.mi_start_ratio ${name}`)).toBeCloseTo(evidence.miShare, 12);
      }
      compared++;
    }
    expect(compared).toBeGreaterThan(1);
    for (const { step, values } of exports) {
      const holding = byStep.filter((one) => one.step === step);
      const active = [...values].filter(([key, value]) => key.startsWith('collapsar.verdict_active ') && value === 1);
      expect(active.map(([key]) => key).sort(), `step ${step}`).toEqual(
        holding.map(({ kind, severity }) => `collapsar.verdict_active ${name} ${kind} ${severity}`).sort(),
      );
    }
  });
});

/** `collapsar.verdict_active filtered template_collapse critical` -> 1. */
async function exportedValues({ exported }: ReturnType<typeof openTelemetry>): Promise<ReadonlyMap<string, number>> {
  return new Map(
    (await exported()).flatMap(({ descriptor, dataPoints }) =>
      dataPoints.map(({ attributes, value }): [string, number] => [
        [descriptor.name, ...Object.values(attributes)].join(' '),
        value as number,
      ]),
    ),
  );
}

const literal = (text: string): string => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
