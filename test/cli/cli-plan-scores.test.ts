// `collapsar plan-scores` as a user meets it.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { describe, expect, it } from 'vitest';
import { planScoresCommand } from '../../src/cli/commands/plan-scores.js';
import { readStepFile } from '../../src/logs/steps/step-file.js';
import { planScores } from '../../src/metrics/sampled/plan.js';
import { exampleRuns } from '../support/analysis-logs.js';
import { temporaryDirectory } from '../support/temporary-directory.js';
import { collapsar, keeping } from './cli-streams.js';

const directory = temporaryDirectory();
const stepFile = join(exampleRuns, 'healthy', 'step_00001.safetensors');

interface Line {
  prompt: number;
  group: number;
  rows: number[];
  inclusion: number[];
}

function linesOf(output: string): Line[] {
  return output
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as Line);
}

let files = 0;
/** A file of rows: 6 prompts in 2 turns, 3 rows each. */
function rowsFile(change: (rows: Record<string, unknown>[]) => void = () => {}): string {
  const rows = Array.from({ length: 18 }, (_, r): Record<string, unknown> => {
    return { group: 10 + (r % 6), length: r === 5 ? 0 : 7, turn: (r % 6) % 2 };
  });
  change(rows);
  const path = join(directory, `rows-${files++}.jsonl`);
  writeFileSync(path, rows.map((row) => `${JSON.stringify(row)}\n`).join('\n'));
  return path;
}

describe('plan-scores', () => {
  it('prints the plan of planScores, prompt by prompt, and what it saves', async () => {
    const { status, out, err } = await collapsar(['plan-scores', stepFile, '--negatives', '4', '--seed', '9']);
    expect(status).toBe(0);
    expect(err).toMatch(/^640 of 2048 pairs to score: 68\.8% saved\n128 of them are rows under their own prompt/);
    const { group, lengths, columnGroup, prompts } = await readStepFile(stepFile);
    const plan = planScores(
      { groups: group, lengths, columnGroups: columnGroup, promptTokens: prompts },
      { negatives: 4, seed: 9 },
    );
    const lines = linesOf(out);
    expect(lines.map(({ prompt }) => prompt)).toEqual(plan.byPrompt.map(({ prompt }) => prompt));
    expect(lines.flatMap(({ rows }) => rows)).toEqual([...plan.rows]);
    expect(lines.flatMap(({ inclusion }) => inclusion)).toEqual([...plan.inclusion]);
    expect(lines.map((line) => line.group)).toEqual(plan.byPrompt.map(({ prompt }) => Number(columnGroup[prompt])));
  });

  it('is the same for the same seed only', async () => {
    const run = async (seed: string) =>
      (await collapsar(['plan-scores', stepFile, '--negatives', '3', '--seed', seed])).out;
    expect(await run('1')).toBe(await run('1'));
    expect(await run('1')).not.toBe(await run('2'));
  });

  it('as CSV has a pair a line', async () => {
    const rows = rowsFile();
    const json = linesOf((await collapsar(['plan-scores', rows, '--negatives', '3'])).out);
    const { out, err } = await collapsar(['plan-scores', rows, '--negatives', '3', '--csv', '--quiet']);
    expect(err).toBe('');
    const [head, ...pairs] = out.trimEnd().split('\n');
    expect(head).toBe('prompt,group,row,inclusion');
    expect(pairs).toEqual(
      json.flatMap(({ prompt, group, rows, inclusion }) =>
        rows.map((row, at) => `${prompt},${group},${row},${inclusion[at]}`),
      ),
    );
    // 17 rows with reasoning, under their own and three other prompts.
    expect(pairs).toHaveLength(17 * 4);
  });

  it('prefers prompts of the same turn with --hard', async () => {
    const { out } = await collapsar(['plan-scores', rowsFile(), '--negatives', '4', '--hard']);
    const counts = { same: 0, other: 0 };
    for (const { prompt, rows } of linesOf(out)) {
      for (const row of rows) {
        if (row % 6 === prompt) continue;
        counts[row % 2 === prompt % 2 ? 'same' : 'other']++;
      }
    }
    // Two of two prompts of the same turn, two of three others.
    expect(counts).toEqual({ same: 34, other: 34 });
  });

  it('says when everything is scored', async () => {
    const { err } = await collapsar(['plan-scores', rowsFile(), '--negatives', '50']);
    expect(err).toContain('102 of 102 pairs to score: 0% saved');
    expect(err).toContain('every pair of different prompts is scored');
  });

  it('reads stdin', async () => {
    const out = keeping();
    const streams = { out, err: keeping(), environment: {}, signal: new AbortController().signal };
    const input = Readable.from(['{"group":1,"length":2}\n{"group":2,', '"length":3}\n']);
    const flags = { negatives: 3, seed: 0, hardShare: 0.5 };
    expect(await planScoresCommand('-', flags, streams, input)).toBe(0);
    expect(linesOf(out.text).map(({ rows }) => rows)).toEqual([
      [0, 1],
      [0, 1],
    ]);
    const broken = planScoresCommand('-', flags, streams, Readable.from(['{"group":1,"length":1}\n{"group":1}\n']));
    await expect(broken).rejects.toThrow(/^stdin: row 1 has no length that is a whole number/);
    const long = Readable.from([`{"group":["${'x'.repeat(1e6)}"],"length":1}\n`]);
    const shortly = await planScoresCommand('-', flags, streams, long).catch((error: Error) => error.message);
    expect(shortly).toMatch(/^stdin, offset 0: line 1: group is a list of 1, expected/);
  });

  it('ends at an abort while stdin has nothing', async () => {
    const control = new AbortController();
    const streams = { out: keeping(), err: keeping(), environment: {}, signal: control.signal };
    const silent = new Readable({ read() {} });
    const planned = planScoresCommand('-', { negatives: 3, seed: 0, hardShare: 0.5 }, streams, silent);
    setTimeout(() => control.abort(new Error('enough')), 50);
    await expect(planned).rejects.toThrow('enough');
  });

  it('takes CSV, the step of a log, and columns that are named', async () => {
    const path = join(directory, 'steps.csv');
    writeFileSync(path, 'step,q,tokens_out\n1,a,3\n1,b,3\n2,c,4\n2,d,4\n');
    const args = ['plan-scores', path, '--negatives', '3', '--columns', 'step=step,group=q,length=tokens_out'];
    const { out } = await collapsar([...args, '--step', '2']);
    expect(linesOf(out).map(({ group }) => group)).toEqual(['c', 'd']);
    expect((await collapsar(args)).err).toContain('say which is meant (--step N)');
  });

  it('takes the ids that trainers give: of 64 bits by rising number, names as they come', async () => {
    const groupsOf = async (rows: string[], ...more: string[]) => {
      const path = join(directory, `ids-${files++}.jsonl`);
      writeFileSync(path, rows.join('\n'));
      return (await collapsar(['plan-scores', path, '--negatives', '3', ...more])).out;
    };
    const long = ['9007199254740993', '7', '9007199254740992', '-5'];
    const numbered = await groupsOf(long.map((id) => `{"group":${id},"length":3}`));
    expect(numbered.match(/"group":[^,]+/g)).toEqual(
      ['-5', '7', '9007199254740992', '9007199254740993'].map((id) => `"group":${id}`),
    );
    expect(linesOf(numbered)[3]?.rows).toContain(0);
    const uids = ['b1', '7', 'a,"2"', 'b1'].map((uid) => `{"uid":${JSON.stringify(uid)},"length":3,"reward":NaN}`);
    const named = linesOf(await groupsOf(uids));
    expect(named.map(({ group }) => group)).toEqual(['b1', '7', 'a,"2"']);
    const [, ...pairs] = (await groupsOf(uids, '--csv')).trimEnd().split('\n');
    expect(pairs.filter((pair) => pair.startsWith('2,'))).toEqual([0, 1, 2, 3].map((row) => `2,"a,""2""",${row},1`));
  });

  it.each([
    [
      'a line that is no object',
      (rows: unknown[]) => rows.splice(2, 1, [1]),
      /line 5: column 1 is the text .*, expected a JSON object/,
    ],
    ['a row without group', (rows: Record<string, unknown>[]) => delete rows[1]?.group, /has no group id/],
    [
      'a row without length',
      (rows: Record<string, unknown>[]) => delete rows[1]?.length,
      /row 1 has no length that is a whole number/,
    ],
    [
      'half a token',
      (rows: Record<string, unknown>[]) => Object.assign(rows[0] ?? {}, { length: 1.5 }),
      /line 1: length is 1\.5, expected a whole number/,
    ],
    ['no rows', (rows: unknown[]) => rows.splice(0), /is empty/],
    [
      'turns that differ in a group',
      (rows: Record<string, unknown>[]) => Object.assign(rows[6] ?? {}, { turn: 1 }),
      /\.jsonl: turns: row 6 is of turn 1, .*; leave out --hard\n$/,
    ],
    ['too few negatives for two kinds', () => {}, /^error: --negatives: 3 .* at least 4, .*; or leave out --hard\n$/],
  ])('%s ends with 1 and names the place', async (what, change, message) => {
    const file = rowsFile(change as (rows: Record<string, unknown>[]) => void);
    const negatives = what.startsWith('too few') ? '3' : '4';
    const { status, out, err } = await collapsar(['plan-scores', file, '--negatives', negatives, '--hard']);
    expect(status).toBe(1);
    expect(out).toBe('');
    expect(err).toMatch(message);
  });

  it.each([
    [join(directory, 'missing.jsonl'), [], /missing\.jsonl: there is no such file/],
    [join(directory, 'missing.safetensors'), [], /missing\.safetensors/],
    [stepFile, ['--hard'], /tensor "turn": missing/],
  ])('%s with %j ends with 1', async (file, more, message) => {
    const { status, out, err } = await collapsar(['plan-scores', file, '--negatives', '4', ...more]);
    expect(status).toBe(1);
    expect(out).toBe('');
    expect(err).toMatch(message);
  });

  it.each([
    [['plan-scores', 'x'], '--negatives'],
    [['plan-scores', '--negatives', '4'], 'FILE'],
    [['plan-scores', 'x', '--negatives', '2'], 'whole number from 3'],
    [['plan-scores', 'x', '--negatives', '4', '--hard-share', '1.5'], 'from 0 to 1'],
    [['plan-scores', 'x', '--negatives', '4', '--hard-share', '.5'], 'give --hard, or leave it out'],
    [['plan-scores', 'x', '--negatives', '4', '--seed', '-1'], 'whole number'],
  ])('%j is wrong usage', async (args, hint) => {
    const { status, out, err } = await collapsar(args);
    expect(status).toBe(2);
    expect(out).toBe('');
    expect(err).toContain(hint);
  });

  it('has help', async () => {
    const { status, out } = await collapsar(['plan-scores', '--help']);
    expect(status).toBe(0);
    expect(out).toContain('KV cache');
  });
});
