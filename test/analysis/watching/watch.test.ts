// Folders that grow while they are watched: every step once, with what analyze says of it, whatever happens to files and processes.
import { spawn } from 'node:child_process';
import { appendFileSync, existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type WatchOptions, watch } from '../../../src/exports/logs.js';
import { analyze, type Engine, FileError, openEngine, type StepReport } from '../../../src/index.js';
import { collapsar } from '../../cli/cli-streams.js';
import { jsonLines } from '../../logs/rollouts/rollout-logs.js';
import { putStep, smallStep } from '../../support/analysis-logs.js';
import { buildIfStale, builtCommand } from '../../support/built-command.js';
import { uniformNumbers } from '../../support/random-numbers.js';
import { temporaryDirectory } from '../../support/temporary-directory.js';

const root = temporaryDirectory();
let made = 0;
function fresh(): string {
  const path = join(root, `w${made++}`);
  mkdirSync(path);
  return path;
}

let engine: Engine;
beforeAll(async () => {
  buildIfStale();
  engine = await openEngine();
}, 180_000);
afterAll(() => engine.dispose());

/** 16 prompts × 4 rows, of which a share is about another prompt. */
function rowsOf(step: number, moved = 0): object[] {
  const uniform = uniformNumbers(step);
  return Array.from({ length: 64 }, (_, row) => {
    const group = row >> 2;
    const about = uniform() < moved ? Math.floor(uniform() * 16) : group;
    const word = () =>
      uniform() < 0.6 ? `t${about} w${about * 6 + Math.floor(uniform() * 6)}` : `c${Math.floor(uniform() * 40)}`;
    return {
      step,
      group,
      prompt: `about t${group}`,
      output: Array.from({ length: 12 }, word).join(' '),
      reward: row % 2,
    };
  });
}

const moved = (step: number): number => (step <= 7 ? 0 : 1);
const settings = { permutations: 19, settle: 0.02, interval: 0.02 } as const;

/** Takes reports until `last` has come; then ends the watch. */
async function watched(
  folder: string,
  last: number,
  more: Partial<WatchOptions> = {},
  onReport = (_: StepReport) => {},
) {
  const ending = new AbortController();
  const reports: StepReport[] = [];
  const failures: FileError[] = [];
  const options = { engine, state: join(folder, '.state'), ...settings, signal: ending.signal };
  try {
    for await (const report of watch(folder, { ...options, onFailure: (one) => failures.push(one), ...more })) {
      reports.push(report);
      onReport(report);
      if (report.step === last) setTimeout(() => ending.abort(), 60);
    }
  } catch (error) {
    if (error !== ending.signal.reason) throw error;
  }
  return { reports, failures };
}

const told = ({ step, texts, judgement }: StepReport) => ({
  step,
  bound: texts?.values.mi_bound,
  verdicts: judgement?.verdicts.map(({ kind, raised, severity }) => `${kind} ${raised} ${severity}`),
});

async function analysed(folder: string) {
  const found = [];
  for await (const report of analyze(folder, { engine, permutations: 19 })) found.push(told(report));
  return found;
}

describe('watch', () => {
  it.each([
    ['as the system tells of changes', { poll: false, interval: 30 }],
    ['by polling alone', { poll: true }],
  ])(
    'gives each step of a log that grows once, as analyze has it, %s',
    async (_, how) => {
      const folder = fresh();
      const file = join(folder, 'rollouts.jsonl');
      const writing = (async () => {
        for (let step = 1; step <= 12; step++) {
          const text = jsonLines(rowsOf(step, moved(step)));
          // In pieces that end amid lines.
          for (let at = 0; at < text.length; at += 4000) {
            appendFileSync(file, text.slice(at, at + 4000));
            if (at % 12_000 === 0) await sleep(2);
          }
          await sleep(30);
        }
      })();
      const settle = how.poll ? 0.1 : 0.02;
      const { reports, failures } = await watched(folder, 12, { ...how, settle });
      await writing;
      expect(failures).toEqual([]);
      expect(reports.map(told)).toEqual(await analysed(folder));
      expect(reports.at(-1)?.judgement?.verdicts.map(({ kind }) => kind)).toContain('template_collapse');
    },
    60_000,
  );

  it('goes on after an end with the same judge, though the files of earlier steps are gone', async () => {
    const folder = fresh();
    const all = fresh();
    for (let step = 1; step <= 14; step++)
      writeFileSync(join(all, `${step}.jsonl`), jsonLines(rowsOf(step, moved(step))));
    const whole = await analysed(all);
    const put = (step: number) =>
      writeFileSync(join(folder, `${step}.jsonl`), readFileSync(join(all, `${step}.jsonl`)));
    for (let step = 1; step <= 6; step++) put(step);
    const { reports } = await watched(folder, 6);
    for (let step = 1; step <= 6; step++) rmSync(join(folder, `${step}.jsonl`));
    for (let step = 7; step <= 14; step++) put(step);
    const later = await watched(folder, 14);
    expect([...reports, ...later.reports].map(told)).toEqual(whole);
    const notes: string[] = [];
    const { reports: none } = await watched(folder, 0, { once: true, onNote: (note) => notes.push(note) });
    expect(none).toEqual([]);
    expect(notes).toEqual(['14 steps were told before']);
  }, 60_000);

  it('takes rows of a step that are spread over files, also where one was rotated away under another name', async () => {
    const folder = fresh();
    const rows = rowsOf(1);
    writeFileSync(join(folder, 'a.jsonl'), jsonLines(rows.slice(0, 32)));
    renameSync(join(folder, 'a.jsonl'), join(folder, 'a-1.jsonl'));
    writeFileSync(join(folder, 'a.jsonl'), jsonLines([...rows.slice(32), ...rowsOf(2)]));
    const { reports } = await watched(folder, 2);
    expect(reports.map(({ texts }) => texts?.rows.total)).toEqual([64, 64]);
  });

  it('names a file once that stays unfinished, and a step that is written to after it was told of', async () => {
    const folder = fresh();
    const failures: string[] = [];
    const notes: string[] = [];
    writeFileSync(join(folder, '1.jsonl'), jsonLines(rowsOf(1)));
    writeFileSync(join(folder, 'completions_00002.parquet'), 'PAR1 and no end');
    const hooks = {
      onFailure: ({ message }: FileError) => failures.push(message),
      onNote: (note: string) => notes.push(note),
    };
    const { reports } = await watched(folder, 3, hooks, ({ step }) => {
      if (step !== 1) return;
      appendFileSync(join(folder, '1.jsonl'), jsonLines(rowsOf(1).slice(0, 4)));
      setTimeout(() => writeFileSync(join(folder, '3.jsonl'), jsonLines(rowsOf(3))), 300);
    });
    expect(reports.map(({ step }) => step)).toEqual([1, 3]);
    expect(failures).toEqual([expect.stringContaining('completions_00002.parquet')]);
    expect(notes).toEqual([expect.stringContaining('step 1 of run')]);
  });

  it('reads step files as well', async () => {
    const folder = fresh();
    await putStep(join(folder, 'step_00001.safetensors'), smallStep(1));
    await putStep(join(folder, 'step_00002.safetensors'), smallStep(2));
    const { reports } = await watched(folder, 2);
    expect(reports.map(({ step, samples }) => [step, samples.length])).toEqual([
      [1, 1],
      [2, 1],
    ]);
  });

  it('is one at a time for a state, and refuses what is no option', async () => {
    const folder = fresh();
    writeFileSync(join(folder, '1.jsonl'), jsonLines(rowsOf(1)));
    const state = join(folder, '.state');
    const first = watch(folder, { engine, state, ...settings, once: true });
    await first.next();
    const second = watch(folder, { engine, state, ...settings, once: true });
    await expect(second.next()).rejects.toThrow(FileError);
    await first.return();
    await expect(watch(folder, { state, settle: -1 }).next()).rejects.toThrow('options.settle');
    await expect(watch(folder, { state: '' }).next()).rejects.toThrow('options.state');
  });
});

describe('collapsar watch', () => {
  const flags = ['--permutations', '19', '--settle', '0.02', '--interval', '0.05'];

  it('tells a line a step and new verdicts once, and runs a command on alarms', async () => {
    const folder = fresh();
    for (let step = 1; step <= 12; step++)
      writeFileSync(join(folder, `${step}.jsonl`), jsonLines(rowsOf(step, moved(step))));
    const calls = join(root, `calls${made}`);
    const command = `cat >> '${calls}'; echo "$COLLAPSAR_STEP $COLLAPSAR_VERDICT $COLLAPSAR_SEVERITY" >> '${calls}'`;
    const args = ['watch', folder, '--once', '--exec', command, ...flags];
    const { status, out, err } = await collapsar(args);
    expect(status).toBe(0);
    const lines = out.trimEnd().split('\n');
    expect(lines).toHaveLength(12);
    expect(lines[11]).toMatch(
      /step 12 {2}T {2}MI bound -?\S+ \[\S+, \S+\] {2}tells apart about \S+ \[\S+, \S+\] of \d+ prompts {2}retrieval \S+ {2}novelty \S+ {2}template \S+$/,
    );
    expect(err.match(/template_collapse/g)).toHaveLength(1);
    const called = readFileSync(calls, 'utf8').trimEnd().split('\n');
    expect(called.filter((line) => / template_collapse critical$/.test(line))).toHaveLength(1);
    expect(JSON.parse(called[0] as string)).toMatchObject({ run: folder.split('/').at(-1) });
    const again = await collapsar(args);
    expect(again).toMatchObject({ status: 0, out: '' });
    expect(again.err).not.toContain('template_collapse');
    expect(readFileSync(calls, 'utf8').trimEnd().split('\n')).toEqual(called);
  });

  it('loses no step when it is killed, and tells none twice but the one that it was at', async () => {
    const folder = fresh();
    for (let step = 1; step <= 12; step++) writeFileSync(join(folder, `${step}.jsonl`), jsonLines(rowsOf(step)));
    const steps: number[] = [];
    for (let round = 0; round < 40 && new Set(steps).size < 12; round++) {
      const child = spawn(process.execPath, [builtCommand, 'watch', folder, '--once', '--jsonl', ...flags], {
        stdio: ['ignore', 'pipe', 'ignore'],
      });
      const before = steps.at(-1) ?? 1;
      let seen = 0;
      for await (const line of createInterface({ input: child.stdout })) {
        steps.push(JSON.parse(line).step);
        // What was printed and not yet noted comes again, nothing before it.
        if (seen === 0) expect(steps.at(-1)).toBeGreaterThanOrEqual(before);
        if (++seen === 4) child.kill('SIGKILL');
      }
    }
    expect([...new Set(steps)]).toEqual(Array.from({ length: 12 }, (_, at) => at + 1));
    expect(existsSync(join(folder, '.collapsar-watch', 'told-steps'))).toBe(true);
  }, 120_000);
});
