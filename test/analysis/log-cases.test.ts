// Small logs as trainers and people leave them, each of which was once read into wrong figures without a word.
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  type AnalyzeOptions,
  analyze,
  type Engine,
  type FileError,
  openEngine,
  type StepReport,
} from '../../src/index.js';
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
  const record = (reports[0] as StepReport).record as unknown as Record<string, number>;
  return { ...record, ...metrics, notes: notes.join('\n') } as Record<string, number> & { notes: string };
}

const GROUPS = 'reward_variance_filtering/num_groups';
const KEPT = 'reward_variance_filtering/num_kept_groups';

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
