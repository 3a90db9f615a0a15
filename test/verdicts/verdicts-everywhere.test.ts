// The same verdict on the terminal, on the page, in the records and in what sinks are told: one sentence, one severity.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { analyze } from '../../src/analysis/analyze.js';
import type { StepReport } from '../../src/analysis/step-report.js';
import { RunVerdicts } from '../../src/cli/output/screen/run-verdicts.js';
import type { Sink, SinkReport } from '../../src/monitor/sinks/sink.js';
import { ReportCollection } from '../../src/report/collect/report-collection.js';
import type { RunData } from '../../src/report/report.js';
import { openSink } from '../../src/sinks/open-sink.js';
import { recordOf } from '../../src/sinks/record-of-report.js';
import { RunNames, sinkReport } from '../../src/sinks/report-of-step.js';
import type { Verdict } from '../../src/verdicts/index.js';
import { exampleRuns } from '../support/analysis-logs.js';
import { temporaryDirectory } from '../support/temporary-directory.js';

const folder = temporaryDirectory();
const look = { unicode: true, width: Number.MAX_SAFE_INTEGER, paint: (_: unknown, text: string): string => text };
const GLYPHS = { critical: '✖', warning: '▲', info: '·' } as const;

/** A sentence without the clause for a later step. */
const asSaid = (sentence: string): string => sentence.replace(/; at step \d+ .*$/, '').replace(/\.$/, '');

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

  beforeAll(async () => {
    const names = new RunNames();
    const collection = new ReportCollection({ version: '1', settings: {}, command: '' });
    const at = join(folder, name);
    const sinks: Sink[] = [openSink(`tensorboard:${join(at, 'events')}`), openSink(`results:${join(at, 'results')}`)];
    for await (const report of analyze(`${exampleRuns}${name}`, { permutations: 19 })) {
      const given: SinkReport = sinkReport(report as StepReport, names.nameOf(report));
      terminal.add(report);
      byStep.push(...(report.judgement?.verdicts ?? []));
      collection.add(recordOf(given, `runs/${name}/step`), report.summary);
      for (const sink of sinks) await sink.step(given);
    }
    for (const sink of sinks) await sink.close();
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

  it('has the sentence on the terminal that some step was given, with that step’s severity as its glyph', () => {
    expect(terminal.all.length).toBeGreaterThan(2);
    const lines = terminal.sentences(look);
    for (const { kind, severity, sentence, evidence } of terminal.all) {
      const same = byStep.filter((one) => one.kind === kind && asSaid(one.sentence) === asSaid(sentence));
      expect(same.length, sentence).toBeGreaterThan(0);
      for (const one of same) expect([one.severity, one.evidence]).toEqual([severity, evidence]);
      const head = lines.findIndex((line) => line.startsWith(`  ${GLYPHS[severity]} ${kind} `));
      expect(lines[head + 1]?.replace(/\s+/g, ' ').trim()).toBe(sentence);
    }
  });

  it('has the same sentence on the page, for each stretch the one of its gravest step', () => {
    const { verdicts, status } = page.head;
    for (const { kind, severity, sentence, holds, times } of terminal.all) {
      const stretches = verdicts.filter((one) => one.kind === kind);
      const same = stretches.find((one) => one.severity === severity && asSaid(one.sentence) === asSaid(sentence));
      expect(same, sentence).toBeDefined();
      if (holds && times === 1) expect(same?.sentence).toBe(sentence);
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
});

const literal = (text: string): string => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
