// What is said of a file that no reader knows, and that the command which it gives works.
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { parquetWriteBuffer } from 'hyparquet-writer';
import { describe, expect, it } from 'vitest';
import { guessedColumns } from '../../../src/logs/rollouts/rows/guess-columns.js';
import { collapsar } from '../../cli/cli-streams.js';
import { temporaryDirectory } from '../../support/temporary-directory.js';
import { putLogs, readAll, readOne } from './rollout-logs.js';

const root = temporaryDirectory();
let count = 0;
const folder = (files: Parameters<typeof putLogs>[1]): string => putLogs(join(root, `a log ${count++}`), files);

/** The first command of a message, as its arguments. */
function firstCommand(message: string): string[] {
  const [, command = ''] = /collapsar ((?:analyze|filter) .*)/.exec(message) ?? [];
  return [...command.matchAll(/'([^']*)'|(\S+)/g)].map(([, quoted, plain]) => quoted ?? (plain as string));
}

const words = (at: number): string => `w${at % 7} of topic ${at >> 2} and w${(at * 5) % 11} then w${at % 3}`;
const rowsOf = (row: (at: number) => object) => Array.from({ length: 24 }, (_, at) => row(at));
const chat = (at: number, [user, assistant, role, content]: readonly string[]) => [
  { [role as string]: user, [content as string]: `question ${at >> 2}?` },
  { [role as string]: assistant, [content as string]: words(at) },
];

const LOGS: Readonly<Record<string, (at: number) => object>> = {
  'ids and completions': (at) => ({ question_id: `B/${at >> 2}`, completion: words(at), correct: at % 3 === 0 }),
  'questions in a list of samples': (at) => ({
    idx: at,
    question: `q ${at}`,
    code: [0, 1, 2].map((one) => words(4 * at + one)),
    score: [true, false, true],
  }),
  'names in other letters': (at) => ({ Prompt: `q ${at >> 2}`, 'Model-Output': words(at), isCorrect: at % 2 }),
  'objects in objects': (at) => ({
    meta: { step: 3, task: at >> 2 },
    sample: { text: words(at) },
    scores: { total: at % 3 },
  }),
  'choices of an endpoint': (at) => ({
    question_id: at >> 2,
    choices: [{ message: { role: 'assistant', content: words(at) } }],
    score: at % 3,
  }),
  'whole chats': (at) => ({ conversation: chat(at, ['user', 'assistant', 'role', 'content']), reward: at % 3 }),
  'chats of ShareGPT': (at) => ({ id: at, traj: chat(at, ['human', 'gpt', 'from', 'value']), score: at % 3 }),
  'chats of LangChain': (at) => ({ trajectory: chat(at, ['human', 'ai', 'type', 'content']), success: at % 2 === 0 }),
  'our columns without a step': (at) => ({ group: at >> 2, output: words(at), reward: at % 3 }),
};

describe('a file that no reader knows', () => {
  it.each(Object.entries(LOGS))(
    'of %s is said in three lines, whose first command reads it',
    async (_, row) => {
      const prompts = row === LOGS['questions in a list of samples'] ? 24 : 6;
      const path = join(folder({ 'x y.jsonl': rowsOf(row) }), 'x y.jsonl');
      const { err, status } = await collapsar(['analyze', path]);
      expect(status).toBe(1);
      const said = err.slice(err.indexOf(path)).trimEnd();
      expect(said.split('\n').length).toBeLessThanOrEqual(3);
      expect(said).toContain(`its columns are ${Object.keys(row(0)).join(', ')}`);
      for (const command of ['analyze', 'filter']) {
        const message = command === 'analyze' ? said : (await collapsar(['filter', path])).err;
        const args = firstCommand(message);
        if (command === 'filter' && args.length === 0) continue;
        expect(args.slice(0, 2)).toEqual([command, path]);
        const run = await collapsar(args);
        expect(run.err).not.toContain('could not be used');
        expect(run.status).toBe(0);
        expect(run.out).toContain(command === 'analyze' ? `${prompts} prompts a step` : '');
      }
      // Every way gives the same rows as the guess.
      const { columns, ...guessed } = await readOne(path, { columns: 'auto' }).then((step) => ({
        ...step,
        columns: 0,
      }));
      expect(columns).toBe(0);
      expect(guessed.output?.every((text) => text?.startsWith('w'))).toBe(true);
      expect(guessed.groupIds).toHaveLength(prompts);
      expect(guessed.reward ?? guessed.outcome).toBeDefined();
    },
    120_000,
  );

  it('in a folder is said likewise, with the command for the folder', async () => {
    const path = folder({
      'x.jsonl': rowsOf(LOGS['ids and completions'] as (at: number) => object),
      'config.json': '{"lr": 1}',
    });
    const { err } = await collapsar(['analyze', path]);
    const args = firstCommand(err);
    expect(args).toEqual(['analyze', path, '--columns', 'group=question_id,output=completion,reward=correct']);
    expect((await collapsar(args)).status).toBe(0);
  });

  it('whose columns say nothing gets no command', async () => {
    const path = join(folder({ 'x.jsonl': [{ loss: 1, 'lr\u001b': 2 }] }), 'x.jsonl');
    const { errors } = await readAll(path);
    expect(errors[0]?.message).toContain('its columns are loss, lr\\u{1b}');
    expect(firstCommand(errors[0]?.message ?? '')).toEqual([]);
    expect(errors[0]?.message).toContain('--columns step=…');
    expect((await readAll(path, { columns: 'auto' })).errors[0]?.message).toContain('no reader knows it');
    const none = join(folder({ 'y.jsonl': 'a text\n' }), 'y.jsonl');
    expect((await readAll(none)).errors[0]?.message).toContain('it has no JSON objects');
  });

  it('in Parquet has its columns guessed', async () => {
    const path = join(root, 'x.parquet');
    mkdirSync(root, { recursive: true });
    const texts = rowsOf((at) => ({ text: words(at) })).map((row) => (row as { text: string }).text);
    const columnData = [
      { name: 'problem', data: texts.map((_, at) => `q ${at >> 2}`) },
      { name: 'generation', data: texts },
      { name: 'correctness', data: texts.map((_, at) => at % 2) },
    ];
    const { writeFileSync } = await import('node:fs');
    writeFileSync(path, Buffer.from(parquetWriteBuffer({ columnData })));
    const { errors } = await readAll(path);
    expect(errors[0]?.message).toContain('--columns prompt=problem,output=generation,reward=correctness');
    expect((await readOne(path, { columns: 'auto' })).groupIds).toHaveLength(6);
  });
});

describe('columns by their names', () => {
  it('are the likeliest of each kind, each once, and those of objects after all others', () => {
    const guess = (...names: string[]) => guessedColumns(names);
    expect(guess('id', 'prompt', 'response', 'score', 'step')).toEqual({
      step: 'step',
      prompt: 'prompt',
      output: 'response',
      reward: 'score',
    });
    expect(guess('id', 'text')).toEqual({ group: 'id', output: 'text' });
    expect(guess('output', 'meta.output', 'answer', 'reward')).toMatchObject({ output: 'output', reward: 'reward' });
    expect(guess('meta.global_step', 'a.0.text')).toEqual({ step: 'meta.global_step', output: 'a.0.text' });
    expect(guess('group_id', 'reward')).toEqual({ group: 'group_id', reward: 'reward' });
    expect(guess('response_ids', 'is_correct')).toEqual({ tokens: 'response_ids', reward: 'is_correct' });
    expect(guess('task', 'prompt', 'completion')).toEqual({ prompt: 'prompt', output: 'completion' });
    expect(guess('reward', 'loss')).toBeUndefined();
    expect(guess('output,a', 'my text')).toBeUndefined();
  });
});
