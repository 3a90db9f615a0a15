// Small logs as trainers and people leave them, each of which was once read into wrong figures without a word.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parquetWriteBuffer } from 'hyparquet-writer';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  type AnalyzeOptions,
  analyze,
  type Engine,
  type FileError,
  openEngine,
  type StepReport,
} from '../../src/index.js';
import { allFigures } from '../../src/step/step-record.js';
import { collapsar } from '../cli/cli-streams.js';
import { putLogs } from '../logs/rollouts/rollout-logs.js';
import { temporaryDirectory } from '../support/temporary-directory.js';

const logs = join(import.meta.dirname, '..', 'golden', 'logs');
const root = temporaryDirectory();
let made = 0;

let engine: Engine;
beforeAll(async () => {
  engine = await openEngine();
});
afterAll(() => engine.dispose());

async function collect(source: string, options: AnalyzeOptions = {}) {
  const [reports, failures, notes]: [StepReport[], FileError[], string[]] = [[], [], []];
  const told = { onFailure: (one: FileError) => failures.push(one), onNote: (note: string) => notes.push(note) };
  const given = { engine, permutations: 199, ...told, ...options };
  for await (const report of analyze(source, given)) reports.push(report);
  return { reports, failures, notes };
}

/** The only step of a log that has nothing wrong: its figures and notes. */
async function only(name: string, options: AnalyzeOptions = {}) {
  const { reports, failures } = await collect(name.startsWith('/') ? name : join(logs, name), options);
  if (failures.length > 0) throw failures[0];
  expect(reports).toHaveLength(1);
  const { metrics = {}, notes = [] } = (reports[0] as StepReport).record as unknown as {
    metrics?: Record<string, number>;
    notes?: string[];
  };
  const { record } = reports[0] as StepReport;
  const { kept = [], dropped = {} } = record.filter ?? {};
  const groups = kept.length + Object.values(dropped).reduce((sum, count) => sum + count, 0);
  return { ...allFigures(record), ...metrics, groups, notes: notes.join('\n') } as unknown as Record<string, number> & {
    notes: string;
  };
}

/** How many groups the filter was given. */
const GROUPS = 'groups';
const KEPT = 'rollout/filter_kept_count';

describe('prompts of a log', () => {
  it('are told apart by id and prompt where two environments count their ids alike', async () => {
    const step = await only('05-example-id-of-two-envs.jsonl');
    expect(step).toMatchObject({ [GROUPS]: 8, [KEPT]: 0, 'text/prompts_used': 8, 'text/rows_used': 32 });
    expect(step.notes).toContain('4 group ids have rows of 8 prompts: rows of one id and one prompt are a group');
    expect(step.notes).not.toContain('looser than it could be');
  });

  it('are told apart by images and other parts that are no text', async () => {
    expect(await only('07-images.jsonl')).toMatchObject({ [GROUPS]: 6, [KEPT]: 0, 'text/prompts_used': 6 });
  });

  it('are those of --group-size where it is given, whatever else the log has', async () => {
    const step = await only('08-group-size-with-equal-prompts.jsonl', { groupSize: 4 });
    expect(step).toMatchObject({ [GROUPS]: 6, [KEPT]: 0, 'text/prompts_used': 6 });
  });

  it('that have a placeholder for an image are one group, which is said', async () => {
    const step = await only('08-group-size-with-equal-prompts.jsonl');
    expect(step.notes).toContain('the prompts of 24 rows have a placeholder of what is no text');
  });

  it('keep their id where something in them is drawn anew for each row', async () => {
    const rows = Array.from({ length: 12 }, (_, row) => {
      const prompt = `it is ${row} past noon, question ${row % 3}`;
      return { step: 1, group: row % 3, prompt, output: `a b c d ${row}`, reward: row % 2 };
    });
    const step = await only(join(putLogs(join(root, `${made++}`), { 'x.jsonl': rows }), 'x.jsonl'));
    expect(step).toMatchObject({ [GROUPS]: 3 });
    expect(step.notes).toContain('3 group ids have rows of 12 prompts, about one a response');
  });

  it('keep their id where later turns of an episode have contexts of their own', async () => {
    const rows = [0, 1, 2, 3].flatMap((episode) =>
      [0, 1].map((turn) => ({
        ...{ step: 1, group: episode % 2, episode, turn, prompt: `question ${episode % 2}, turn ${turn}` },
        ...{ output: `a b c d ${episode}`, reward: episode % 2 },
      })),
    );
    const step = await only(join(putLogs(join(root, `${made++}`), { 'x.jsonl': rows }), 'x.jsonl'));
    expect(step.notes).not.toContain('group ids');
  });
});

describe('what the agent of a log says', () => {
  it('is its calls of tools as well, which are its actions', async () => {
    const step = await only('06-tool-calls.jsonl');
    expect(step['text/mi_bound']).toBeGreaterThan(1.5);
    expect(step['text/mi_bound_p_value']).toBeLessThanOrEqual(0.005);
    expect(step.notes).not.toContain('no I(X;A)');
  });

  it('is what the assistant says in a chat that is stored as JSON text', async () => {
    const step = await only('17-chat-as-json-text.jsonl');
    expect(step['text/mi_bound']).toBeLessThanOrEqual(0);
    expect(step['text/retrieval_accuracy']).toBeCloseTo(1 / 8, 1);
  });

  it('is named where a list is no chat', async () => {
    const columns = { group: 'question_id', output: 'choices' };
    const { reports, failures } = await collect(join(logs, '16-list-without-roles.jsonl'), { columns });
    expect(reports).toHaveLength(0);
    expect(failures[0]?.message).toContain('line 1: choices[0] has neither role nor content');
  });
});

describe('columns and readers that a user names', () => {
  const typos = { group: 'task_id', output: 'complettion', reward: 'pased' };
  const expected =
    'no column complettion, pased; the file has task_id, completion, passed (did you mean completion, passed?)';

  it('are refused by name, with the nearest, where no row has them: in JSON lines, CSV and Parquet', async () => {
    const lines = join(logs, '01-unknown-column.jsonl');
    const rows = readFileSync(lines, 'utf8')
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as { task_id: string; completion: string; passed: boolean });
    const csv = ['task_id,completion,passed', ...rows.map((row) => Object.values(row).join(','))].join('\n');
    const column = (name: 'task_id' | 'completion' | 'passed') => ({
      name,
      data: rows.map((row) => String(row[name])),
    });
    const table = parquetWriteBuffer({ columnData: [column('task_id'), column('completion'), column('passed')] });
    const files = { 'x.jsonl': readFileSync(lines), 'x.csv': csv, 'x.parquet': new Uint8Array(table) };
    for (const [name, content] of Object.entries(files)) {
      const folder = putLogs(join(root, `${made++}`), { [name]: content });
      const path = join(folder, name);
      const { reports, failures } = await collect(path, { columns: typos });
      expect(reports).toHaveLength(0);
      expect(failures.map(({ message }) => message).join('\n')).toContain(expected);
      const columns = ['--columns', 'group=task_id,output=complettion,reward=pased'];
      for (const args of [
        ['analyze', path],
        ['filter', path],
        ['watch', '--once', folder],
      ]) {
        const { status, out, err } = await collapsar([...args, ...columns]);
        expect(status, args.join(' ')).not.toBe(0);
        expect(`${out}${err}`.replace(/\s+/g, ' '), args.join(' ')).toContain(expected);
      }
    }
  });

  it('may lack in some rows, and in a folder be of some files', async () => {
    const row = (at: number) => ({ step: 1, task: at >> 1, text: `a b c d ${at}`, ...(at > 2 && { score: at % 2 }) });
    const folder = putLogs(join(root, `${made++}`), {
      'metrics.jsonl': [{ loss: 1 }],
      'x.jsonl': Array.from({ length: 8 }, (_, at) => row(at)),
    });
    const columns = { step: 'step', group: 'task', output: 'text', reward: 'score' };
    const { reports, failures, notes } = await collect(folder, { columns, nonFinite: 'exclude' } as AnalyzeOptions);
    expect([failures, reports.length]).toEqual([[], 1]);
    expect(notes.join()).toContain('metrics.jsonl (no column');
  });

  it('may be paths into objects and lists', async () => {
    const columns = { step: 'meta.step', group: 'meta.task', output: 'sample.text', reward: 'scores.total' };
    expect(await only('24-nested.jsonl', { columns })).toMatchObject({
      ...{ step: 1, [GROUPS]: 6, 'text/prompts_used': 6, 'text/rows_used': 24 },
    });
    const wrong = { ...columns, reward: 'scores.totl' };
    const { failures } = await collect(join(logs, '24-nested.jsonl'), { columns: wrong });
    expect(failures[0]?.message).toContain('no column scores.totl');
    const choices = [0, 1, 2, 3].map((at) => ({ id: at >> 1, choices: [{ text: `a b c ${at}` }], marks: [at % 2] }));
    const path = join(putLogs(join(root, `${made++}`), { 'x.jsonl': choices }), 'x.jsonl');
    const step = await only(path, { columns: { group: 'id', output: 'choices.0.text', reward: 'marks.0' } });
    expect(step).toMatchObject({ [GROUPS]: 2, 'text/rows_used': 4 });
  });

  it('are refused where the reader finds nothing of its own, with the one that reads it', async () => {
    const { failures } = await collect(join(logs, '14-header-line.jsonl'), { format: 'areal' });
    expect(failures[0]?.message).toContain('is no log of areal, which has task_id');
    expect(failures[0]?.message).toContain('verl reads it (--format verl)');
    await expect(collect(logs, { format: 'verll' })).rejects.toThrow('did you mean verl?');
  });
});

describe('names of files and folders', () => {
  const rowsAndSteps = async (name: string) => {
    const { reports, failures } = await collect(join(logs, name), { permutations: 0 });
    expect(failures).toEqual([]);
    return reports.map(({ run, step, record }) => {
      const { 'text/rows_used': rows, 'text/prompts_used': prompts } = record as unknown as Record<string, number>;
      return [run, step, rows, prompts];
    });
  };

  it('say the step, and what is training and what is not', async () => {
    const steps = [1, 2, 3, 4, 5, 6, 7];
    expect(await rowsAndSteps('11-steps-in-folders')).toEqual([
      ...steps.map((step) => ['rollouts', step, 24, 6]),
      ...steps.map((step) => ['rollouts/eval', step, 24, 6]),
    ]);
    expect((await rowsAndSteps('13-step-in-file-name')).map(([, step]) => step)).toEqual([10, 20, 30]);
  });

  it('of ranks are parts of a step', async () => {
    expect(await rowsAndSteps('12-rank-files')).toEqual([1, 2].map((step) => ['12-rank-files', step, 24, 6]));
  });

  it('count at or below the folder that is named, and rows that say their step come first', async () => {
    const rows = (step?: number) => [0, 1, 2, 3].map((at) => ({ step, group: at >> 1, output: `a ${at}`, reward: at }));
    const folder = putLogs(join(root, 'step_9', 'run'), {
      'iteration_3/a.jsonl': rows(5),
      'iteration_4/a.jsonl': rows(),
    });
    const { reports } = await collect(folder, { permutations: 0 });
    expect(reports.map(({ run, step }) => [run, step])).toEqual([
      ['run', 4],
      ['run', 5],
    ]);
    expect(((reports[1] as StepReport).record as unknown as { notes: string[] }).notes.join()).toContain(
      'the path says step 3, rows say 5: what rows say counts',
    );
  });
});

describe('a line before the rows', () => {
  it('does not hide the reader, and is named as one without a rollout', async () => {
    const { reports, failures } = await collect(join(logs, '14-header-line.jsonl'));
    expect(failures).toHaveLength(1);
    expect(failures[0]?.message).toContain('line 1: has no rollout');
    expect(reports.map(({ record }) => (record as unknown as Record<string, number>)['text/rows_used'])).toEqual([24]);
  });
});
