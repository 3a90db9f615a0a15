// Rollout logs through the whole of the analysis: reports, records, shards, journals; alone, and beside step files.
import {
  appendFileSync,
  cpSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ResultDirectory } from '../../src/analysis/results/result-directory.js';
import { measureShard } from '../../src/analysis/store/shard.js';
import {
  type AnalyzeOptions,
  analyze,
  type Engine,
  type FileError,
  openEngine,
  type StepReport,
} from '../../src/index.js';
import { collapsar } from '../cli/cli-streams.js';
import { jsonLines, putLogs } from '../logs/rollouts/rollout-logs.js';
import { exampleRollouts, exampleRuns, putStep, smallStep } from '../support/analysis-logs.js';
import { uniformNumbers } from '../support/random-numbers.js';
import { temporaryDirectory } from '../support/temporary-directory.js';

const root = temporaryDirectory();
let made = 0;
const fresh = (): string => join(root, `r${made++}`);

let engine: Engine;
beforeAll(async () => {
  engine = await openEngine();
});
afterAll(() => engine.dispose());

async function collect(source: string | string[], options: AnalyzeOptions = {}) {
  const [reports, failures, notes]: [StepReport[], FileError[], string[]] = [[], [], []];
  const told = { onFailure: (one: FileError) => failures.push(one), onNote: (note: string) => notes.push(note) };
  for await (const report of analyze(source, { engine, permutations: 19, ...told, ...options })) reports.push(report);
  return { reports, failures, notes };
}

/** Rows of our own columns: 6 prompts × 4, of words that are partly the prompt's. */
function rowsOf(step: number, more: (row: number) => object = () => ({})) {
  const uniform = uniformNumbers(step + 1);
  return Array.from({ length: 24 }, (_, row) => {
    const group = row >> 2;
    const words = Array.from({ length: 12 }, () =>
      uniform() < 0.6 ? `g${group} w${group * 5 + Math.floor(uniform() * 5)}` : `c${Math.floor(uniform() * 30)}`,
    );
    const output = `<think>${words.join(' ')}</think><answer>${group % 3}</answer>`;
    return { step, group: 1000 + group, prompt: `about g${group}`, output, reward: row % 2, ...more(row) };
  });
}

const figures = ({ record }: StepReport) => {
  const { file, ...rest } = record;
  return rest;
};

describe('a rollout log', () => {
  it('gives text figures, filter, triage, I(X;A), and what the log lacks is absent with the reason', async () => {
    const logs = putLogs(fresh(), { 'x.jsonl': [...rowsOf(1), ...rowsOf(2)] });
    const { reports, failures } = await collect(logs);
    expect(failures).toEqual([]);
    expect(reports.map(({ step, run }) => [step, run])).toEqual([1, 2].map((step) => [step, logs.split('/').at(-1)]));
    const [{ texts, filter, judgement, record, samples }] = reports as [StepReport];
    expect(samples).toEqual([]);
    expect(texts?.values.mi_bound).toBeGreaterThan(0.5);
    expect(record['text/mi_bound']).toBe(texts?.values.mi_bound);
    expect(filter?.kept).toEqual([1000, 1001, 1002, 1003, 1004, 1005]);
    expect(judgement?.triage).toHaveLength(6);
    expect(judgement?.actionInformation?.estimate).toBeGreaterThan(0.5);
    expect(record.absent).toMatchObject({
      'text/conditional_entropy_est': 'the log has no log-probs of the sampled tokens',
      'text/truncated_share': 'the log has no mark of truncated responses',
    });
  });

  it('has H(Z|X) at its true value where it has log-probs', async () => {
    const rows = rowsOf(1, (row) => ({
      tokens: [row, 5, 6, 7],
      logprobs: [-1, -2, -0.5, -row / 10],
      output: undefined,
    }));
    const { reports } = await collect(putLogs(fresh(), { 'x.jsonl': rows }));
    const mean =
      Array.from({ length: 24 }, (_, row) => (3.5 + row / 10) / 4).reduce((sum, value) => sum + value, 0) / 24;
    expect(reports[0]?.texts?.values.conditional_entropy_est).toBeCloseTo(mean, 12);
    expect(reports[0]?.texts?.values.conditional_entropy_seq_est).toBeCloseTo(4 * mean, 12);
    expect(reports[0]?.texts?.values['response_length/mean']).toBe(4);
  });

  it('without texts has lengths, rewards and groups, and says why not more', async () => {
    const lines = rowsOf(1).map(({ group, reward }, at) => ({ iter: 3, g: group, r: reward, n: at }));
    const columns = { step: 'iter', group: 'g', reward: 'r', length: 'n' };
    const { reports } = await collect(putLogs(fresh(), { 'x.csv': csvOf(lines) }), { columns });
    const [{ texts, filter, record }] = reports as [StepReport];
    expect(texts?.values).toEqual({
      'response_length/mean': 11.5,
      'response_length/min': 0,
      'response_length/max': 23,
    });
    expect(record.absent?.['text/mi_bound']).toContain('response');
    expect(filter?.kept).toHaveLength(6);
  });

  it('names a bad line, reports the rest, and ends with 1', async () => {
    const lines = rowsOf(1).map((row) => JSON.stringify(row));
    lines[5] = '{"step": 1, "group"';
    const logs = putLogs(fresh(), { 'x.jsonl': `${lines.join('\n')}\n` });
    const { status, out, err } = await collapsar(['analyze', logs, '--jsonl', '--permutations', '0', '--quiet']);
    expect(status).toBe(1);
    expect(err).toContain('x.jsonl, offset ');
    expect(err).toContain('line 6: ');
    expect(JSON.parse(out)['text/rows_used']).toBe(23);
  });

  it('may have a last line that is being written', async () => {
    const logs = putLogs(fresh(), { 'x.jsonl': `${jsonLines(rowsOf(1))}{"step": 1, "grou` });
    const { reports, failures } = await collect(logs);
    expect(failures).toEqual([]);
    expect(reports[0]?.notes?.join()).toContain('the last line is not complete');
  });

  it('of many runs in one folder gives each its reports', async () => {
    const files = Object.fromEntries(
      Array.from({ length: 1000 }, (_, run) => [`run${run}/1.jsonl`, rowsOf(run).slice(0, 8)]),
    );
    const logs = putLogs(fresh(), files as Record<string, unknown[]>);
    const { reports, failures } = await collect(logs, { permutations: 0 });
    expect(failures).toEqual([]);
    expect(new Set(reports.map(({ directory }) => directory)).size).toBe(1000);
    expect(reports).toHaveLength(1000);
  });

  it('tells how much its phrases covered at the first step of the run', async () => {
    const template = ' now let me think about this one carefully';
    const logs = putLogs(fresh(), {
      'x.jsonl': [1, 2, 3].flatMap((step) =>
        rowsOf(step).map((row) =>
          step < 3 ? row : { ...row, output: row.output.replace('</think>', `${template}</think>`) },
        ),
      ),
    });
    const { reports } = await collect(logs);
    const [first] = reports.at(-1)?.record.template ?? [];
    expect(first).toMatchObject({ text: template.trim(), prompts: 6, shareAtFirstStep: 0 });
    expect(first?.share).toBeGreaterThan(0.2);
  });
});

function csvOf(lines: readonly object[]): string {
  return [Object.keys(lines[0] as object), ...lines.map((line) => Object.values(line))]
    .map((row) => `${row.join()}\n`)
    .join('');
}

describe('excerpts of a rollout log', () => {
  it('are the same whether texts come as bytes or as strings', async () => {
    const rows = rowsOf(1).map((row) => ({ ...row, output: `<think>😀é ${row.output.slice(7).repeat(9)}` }));
    const folder = fresh();
    putLogs(folder, { 'a/x.jsonl': jsonLines(rows) });
    // A key with an escape is left to the reader of strings.
    putLogs(folder, { 'b/x.jsonl': jsonLines(rows).replaceAll('"output"', '"\\u006futput"') });
    const { reports } = await collect(folder);
    const [bytes, strings] = reports.map(({ excerpts }) => excerpts);
    expect(bytes?.rollouts.length).toBeGreaterThan(3);
    expect(bytes).toEqual(strings);
  });
});

describe('logs and step files in one folder', () => {
  it('are one step where run and step are the same: cross-scores decide, texts are there', async () => {
    const folder = fresh();
    mkdirSync(folder);
    for (const step of [1, 2]) await putStep(join(folder, `step_0000${step}.safetensors`), smallStep(step));
    putLogs(folder, { '2.jsonl': rowsOf(2), '3.jsonl': rowsOf(3) });
    const { reports, failures } = await collect(folder);
    expect(failures).toEqual([]);
    expect(reports.map(({ step, samples, texts }) => [step, samples.length, texts === undefined])).toEqual([
      [1, 1, true],
      [2, 1, false],
      [3, 0, false],
    ]);
  });

  it('in a file beside the step file are texts of its rows, whatever the run is called', async () => {
    const run = fresh();
    for (const step of [1, 2, 3]) {
      await putStep(join(run, `step_${step}.safetensors`), { ...smallStep(step), run: 'named otherwise' });
      if (step === 2) continue;
      const texts = Array.from({ length: 12 }, (_, row) => ({
        ...{ row: 11 - row, group: row % 4, prompt: `about g${row % 4}` },
        ...{ reasoning: `it is g${row % 4} ${row}, as always`, reward: row % 2 },
      }));
      putLogs(run, { [`step_${step}.texts.jsonl`]: texts });
    }
    const { reports, failures } = await collect(run);
    expect(failures).toEqual([]);
    expect(reports.map(({ step, run: name }) => [step, name])).toEqual(
      [1, 2, 3].map((step) => [step, 'named otherwise']),
    );
    expect(reports.map(({ samples, excerpts }) => [samples.length, excerpts?.rows])).toEqual([
      [1, 12],
      [1, undefined],
      [1, 12],
    ]);
    for (const { row, reasoning, group } of reports[0]?.excerpts?.rollouts ?? []) {
      expect(reasoning).toBe(`it is g${group} ${11 - row}, as always`);
    }
    // A name that says another step is that of a log of its own.
    putLogs(run, { 'step_2.texts.jsonl': [{ group: 0, reasoning: 'a' }] });
    renameSync(join(run, 'step_2.safetensors'), join(run, 'step_9.safetensors'));
    expect((await collect(run)).reports.map(({ excerpts }) => excerpts?.rows)).toEqual([12, undefined, 12, 1]);
  });

  it('are each found where the other is missing, and nothing is a failure of both', async () => {
    const empty = fresh();
    mkdirSync(empty);
    const { failures } = await collect(empty);
    expect(failures.map(({ message }) => message)).toEqual([expect.stringContaining('nor rollouts')]);
    expect((await collect(exampleRollouts)).failures).toEqual([]);
    expect((await collect(join(exampleRuns, 'healthy'), { permutations: 0 })).failures).toEqual([]);
    expect((await collect(join(root, 'nowhere'))).failures).toHaveLength(1);
  });

  it('are not looked for under profile ragen', async () => {
    const { failures } = await collect(putLogs(fresh(), { 'x.jsonl': rowsOf(1) }), { profile: 'ragen' });
    expect(failures.map(({ message }) => message)).toEqual([expect.stringContaining('neither this directory')]);
  });
});

describe('shards of rollout logs', () => {
  it('give the very bytes of analyze, whatever the cut, from one file or many', async () => {
    const logs = putLogs(fresh(), {
      'a/x.jsonl': [...rowsOf(1), ...rowsOf(2), ...rowsOf(1).slice(0, 4)],
      'a/y.jsonl': [...rowsOf(2).slice(8), ...rowsOf(3), '{"step": 3'],
      'b/7.jsonl': rowsOf(7),
    });
    const whole = fresh();
    const seen = await collapsar(['analyze', logs, '--permutations', '9', '--out', whole, '--quiet', '--jsonl']);
    // The bad line is named by both.
    expect(seen).toMatchObject({ status: 1, err: expect.stringContaining('line ') });
    for (const shards of [1, 3]) {
      const place = fresh();
      const work = join(place, 'w');
      for (let index = 0; index < shards; index++) {
        const shard = ['--shard', `${index}/${shards}`, '--out', work];
        const { status, err } = await collapsar(['analyze', logs, '--permutations', '9', '--quiet', ...shard]);
        expect(status, err).toBe(0);
      }
      const results = join(place, 'results');
      const finish = ['--journals', work, '--out', results, '--permutations', '9', '--quiet', '--jsonl'];
      const last = await collapsar(['analyze', logs, ...finish]);
      expect(last).toEqual(seen);
      const tables = ['metrics', 'prompts', 'matrices', 'texts'].map((name) => `${name}.parquet`);
      for (const name of ['metrics.jsonl', 'summary.json', ...tables]) {
        expect(readFileSync(join(results, name), 'latin1')).toBe(readFileSync(join(whole, name), 'latin1'));
      }
    }
  });

  it('of a log that has grown or changed since are used for the rows that are the same', async () => {
    const logs = putLogs(fresh(), { 'x.jsonl': [...rowsOf(1), ...rowsOf(2)] });
    const out = fresh();
    const options = { permutations: 0, engine } as const;
    await measureShard(logs, { ...options, shard: { index: 0, count: 1 }, out });
    const resumed = async () => {
      let last = 0;
      const onProgress = (progress: { resumed?: number }) => {
        last = progress.resumed ?? 0;
      };
      const reports = [];
      for await (const { record } of analyze(logs, { ...options, journals: out, onProgress })) reports.push(record);
      const expected = [];
      for await (const { record } of analyze(logs, options)) expected.push(record);
      expect(reports).toEqual(expected);
      return last;
    };
    appendFileSync(join(logs, 'x.jsonl'), jsonLines(rowsOf(3)));
    expect(await resumed()).toBe(2);
    const text = readFileSync(join(logs, 'x.jsonl'), 'utf8');
    writeFileSync(join(logs, 'x.jsonl'), text.replace('c1', 'c2'));
    utimesSync(join(logs, 'x.jsonl'), 1, 1);
    expect(await resumed()).toBeLessThan(2);
  });
});

describe('the journal of rollout logs', () => {
  it('measures after a kill only what is missing, also of a file that has grown, and gives the same', async () => {
    const logs = putLogs(fresh(), { 'x.jsonl': [1, 2, 3, 4].flatMap((step) => rowsOf(step)) });
    const expected = (await collect(logs)).reports.map(figures);
    const out = fresh();
    const begun = await ResultDirectory.open(out);
    const measuring = { permutations: 19 };
    const journal = await begun.journal({ measuring });
    for await (const { step } of analyze(logs, { engine, permutations: 19, journal })) if (step === 2) break;
    await begun.discard();
    appendFileSync(join(logs, 'x.jsonl'), jsonLines(rowsOf(5)));
    const again = await ResultDirectory.open(out);
    const found = await again.journal({ measuring });
    const { resumed } = found;
    expect(resumed).toBeGreaterThanOrEqual(2);
    const progress: number[] = [];
    const { reports } = await collect(logs, {
      journal: found,
      onProgress: ({ resumed: before }) => progress.push(before ?? 0),
    });
    await again.discard();
    expect(reports.map(figures).slice(0, 4)).toEqual(expected);
    expect(progress.at(-1)).toBe(resumed);
  });

  it('measures a step anew whose rows changed, and one whose file was replaced', async () => {
    const logs = putLogs(fresh(), { '1.jsonl': rowsOf(1), '2.jsonl': rowsOf(2) });
    const out = fresh();
    const run = ['analyze', logs, '--out', out, '--keep-journal', '--permutations', '0', '--jsonl', '--quiet'];
    await collapsar(run);
    const before = JSON.parse((await collapsar(run)).out.split('\n')[1] as string);
    renameSync(join(logs, '2.jsonl'), join(root, `kept${made++}`));
    writeFileSync(join(logs, '2.jsonl'), jsonLines(rowsOf(9).map((row) => ({ ...row, step: 2 }))));
    const after = JSON.parse((await collapsar(run)).out.split('\n')[1] as string);
    expect(after['text/mi_bound']).not.toBe(before['text/mi_bound']);
    rmSync(out, { recursive: true });
    expect(JSON.parse((await collapsar(run)).out.split('\n')[1] as string)).toEqual(after);
  });
});

describe('collapsar filter', () => {
  it('takes a step of a rollout log, by the names of its groups', async () => {
    const varied = (row: number) => ({ reward: row >> 2 === 5 ? 1 : row % 2, group: `g${row >> 2}` });
    const logs = putLogs(fresh(), { 'x.jsonl': [...rowsOf(1, varied), ...rowsOf(2, varied)] });
    const file = join(logs, 'x.jsonl');
    const { status, out } = await collapsar(['filter', file, '--step', '2', '--json']);
    expect(status).toBe(0);
    expect(JSON.parse(out).kept).toEqual(['g0', 'g1', 'g2', 'g3', 'g4']);
    expect((await collapsar(['filter', logs, '--step', '2', '--json'])).out).toBe(out.replace(file, logs));
    expect(await collapsar(['filter', file])).toMatchObject({
      status: 1,
      err: expect.stringContaining('has 2 steps, 1 to 2, say which is meant (--step N)'),
    });
    expect((await collapsar(['filter', file, '--step', '7'])).err).toContain('none of them is 7');
    const trl = join(exampleRollouts, 'completions.parquet');
    const kept = JSON.parse((await collapsar(['filter', trl, '--step', '1', '--json'])).out).groups;
    expect(kept).toHaveLength(16);
    const lines = putLogs(fresh(), { 'r.jsonl': rowsOf(1, varied).map(({ group, reward }) => ({ group, reward })) });
    expect(JSON.parse((await collapsar(['filter', join(lines, 'r.jsonl'), '--json'])).out).kept).toHaveLength(5);
  });
});

describe('the command', () => {
  it('lists the formats', async () => {
    const { status, out } = await collapsar(['formats']);
    expect(status).toBe(0);
    for (const name of ['verl', 'trl', 'prime-rl', 'nemo-rl', 'tinker', 'rollouts'])
      expect(out).toMatch(new RegExp(`^${name} `, 'm'));
    expect(
      JSON.parse((await collapsar(['formats', '--json'])).out).map(({ name }: { name: string }) => name),
    ).toContain('art');
  });

  it('shows a run of texts on one screen, with the columns that it has', async () => {
    const copy = fresh();
    cpSync(exampleRollouts, copy, { recursive: true });
    const { status, out } = await collapsar(['analyze', copy, '--permutations', '19', '--quiet']);
    expect(status).toBe(0);
    const heading = out.split('\n').find((line) => line.startsWith('  step'));
    expect(heading).toMatch(/state +MI bound +95% .*retrieval +novelty +template/);
    expect(out).toContain('MI bound  ');
    expect(out).toContain('Measured on texts alone, by a lower bound.');
    expect(out).toMatch(/“.+”/);
  });

  it('takes tags, columns and group sizes, and refuses others', async () => {
    const rows = rowsOf(1).map(({ output, reward }) => ({
      s: 1,
      out: output.replaceAll('think>', 'r>'),
      score: reward,
    }));
    const logs = putLogs(fresh(), { 'x.jsonl': rows });
    const flags = ['--columns', 's=s,out=out', '--permutations', '0', '--jsonl', '--quiet'];
    expect((await collapsar(['analyze', logs, ...flags])).status).toBe(2);
    const columns = ['--columns', 'step=s,output=out', '--columns', 'reward=score', '--group-size', '4'];
    const { status, out } = await collapsar([
      'analyze',
      logs,
      ...columns,
      '--reasoning',
      '<r> </r>',
      ...flags.slice(2),
    ]);
    expect(status).toBe(0);
    const record = JSON.parse(out);
    expect(record['text/prompts_used']).toBe(6);
    expect(record.notes.join()).toContain('groups are runs of rows');
    expect((await collapsar(['analyze', logs, '--format', 'nothing'])).err).toContain('options.format');
  });
});
