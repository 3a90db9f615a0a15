// `collapsar filter` as a user meets it: a step file, lines of text or stdin in; kept groups, a table or JSON out.
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { describe, expect, it } from 'vitest';
import { resolveFilterOptions } from '../../src/filter/input/filter-options.js';
import { exampleRuns, putStep, smallStep } from '../support/analysis-logs.js';
import { temporaryDirectory } from '../support/temporary-directory.js';
import { collapsar, keeping } from './cli-streams.js';

const directory = temporaryDirectory();

function put(name: string, text: string): string {
  const path = join(directory, name);
  writeFileSync(path, text);
  return path;
}

const LINES = 'group, reward\na, 1\na, -1\nb, 1\nb, 1\nc, 0.5\nc, 0\n';

async function fromStdin(text: string, ...args: string[]) {
  const stdin = Object.getOwnPropertyDescriptor(process, 'stdin') as PropertyDescriptor;
  Object.defineProperty(process, 'stdin', { ...stdin, get: () => Readable.from([text]) });
  try {
    return await collapsar(['filter', '-', ...args]);
  } finally {
    Object.defineProperty(process, 'stdin', stdin);
  }
}

describe('kept groups', () => {
  it('one a line where stdout is no terminal, by the names that they have', async () => {
    const { status, out, err } = await collapsar(['filter', put('lines.csv', LINES)]);
    expect({ status, out, err }).toEqual({ status: 0, out: 'a\n', err: '' });
    const more = await collapsar(['filter', join(directory, 'lines.csv'), '--value', '0.99']);
    expect(more.out).toBe('a\nc\n');
  });

  it.each([
    ['commas', 'a,1\na,-1\nb,1\nb,1\n'],
    ['blank lines', '\na,1\na,-1\n\nb,1\r\nb,1'],
    [
      'JSON objects, by the names that trainers give',
      '{"uid":"a","score":1}\n{"uid":"a","score":-1}\n\n{"uid":"b","score":1}\n{"uid":"b","score":1}',
    ],
    ['columns in the order of a heading', 'length,Reward,"group",seconds\n3,1,a,9\n4,-1,a,9\n5,1,b,9\n6,1,b,9\n'],
    ['fields in quotes', '"group","reward"\n"a","1"\na,-1\n"b",1\nb,"1"\n'],
    ['a byte order mark', '\ufeffgroup,reward\na,1\na,-1\nb,1\nb,1\n'],
    [
      'one list of JSON',
      '[{"group":"a","reward":1},\n{"group":"a","reward":-1},\n{"group":"b","reward":1},{"group":"b","reward":1}]',
    ],
  ])('come from stdin: %s', async (_, text) => {
    expect(await fromStdin(text)).toEqual({ status: 0, out: 'a\n', err: '' });
  });

  it('by names of several words, where something else stands between the columns', async () => {
    const names = 'what is 2, or "3"?\nwhat is 2 + 2?\n';
    const csv = '"what is 2, or ""3""?",1\nwhat is 2 + 2?,1\n"what is 2, or ""3""?",0\nwhat is 2 + 2?,0\n';
    for (const text of [csv, `group,reward\n${csv}`]) {
      expect(await fromStdin(text)).toEqual({ status: 0, out: names, err: '' });
    }
    expect((await fromStdin('"a",\n"a",1\n')).err).toContain('row 0 is missing or NaN, expected a finite number');
    expect((await fromStdin('"a",1,\n"a",1,0\n')).err).toContain('outcomes: row 0 is NaN, expected a finite number');
  });

  it('by columns that are named, or by prompt where there is no group', async () => {
    const named = 'q,r,reward\na,1,0\na,-1,0\nb,1,0\nb,1,0\n';
    expect(await fromStdin(named, '--columns', 'group=q,reward=r')).toEqual({ status: 0, out: 'a\n', err: '' });
    const prompts = [0, 1, 1, 1].map((score, row) => JSON.stringify({ prompt: row < 2 ? 'x' : 'y', score }));
    expect(await fromStdin(prompts.join('\n'))).toMatchObject({ status: 0, out: 'x\n' });
  });

  it('of one step of several', async () => {
    const steps = 'step,group,reward\n1,a,1\n1,a,0\n2,b,1\n2,b,0\n';
    expect((await fromStdin(steps)).err).toContain('stdin: has 2 steps, 1 to 2, say which is meant (--step N)');
    expect(await fromStdin(steps, '--step', '2')).toMatchObject({ status: 0, out: 'b\n' });
  });

  it('by text that has U+2028 in it, which json.dumps(ensure_ascii=False) writes as it is', async () => {
    const row = (reward: number) => `{"uid":"a\u2028b","score":${reward}}\n`;
    expect(await fromStdin(row(0) + row(1))).toEqual({ status: 0, out: 'a\u2028b\n', err: '' });
  });

  it('a heading says what a column is: lengths are no outcomes', async () => {
    const text = 'uid,score,length\na,1,30\na,-1,30\nb,1,10\nb,1,90\n';
    const longest = ['--metric', 'length', '--strategy', 'top_k_abs', '--value', '1'];
    expect((await fromStdin(text, ...longest)).out).toBe('b\n');
    const { metrics } = JSON.parse((await fromStdin(text, '--json')).out);
    expect(metrics).not.toHaveProperty('rollout/filter_shaping_only_count');
  });

  it('one a line, whatever stands in their names', async () => {
    const rows = ['Solve:\n2 + 2', 'a "b" \u001b'].flatMap((group) =>
      [0, 1].map((reward) => JSON.stringify({ group, reward })),
    );
    expect((await fromStdin(rows.join('\n'))).out).toBe('"Solve:\\n2 + 2"\na "b" \u001b\n');
  });

  it('keep ids of 64 bits, such as hashes, to the last digit', async () => {
    const ids = ['9007199254740993', '9007199254740992', '-9223372036854775808'];
    const rewards = [1, 0, 1, 1, 0.5, 0];
    const groups = rewards.map((_, row) => ids[row >> 1] as string);
    const varying = `${ids[0]}\n${ids[2]}\n`;
    const objects = groups.map((group, row) => `{"group": ${group},"reward":${rewards[row]}}\n`).join('');
    expect(await fromStdin(objects)).toEqual({ status: 0, out: varying, err: '' });
    const csv = groups.map((group, row) => `${group},${rewards[row]}\n`).join('');
    expect(await fromStdin(csv)).toEqual({ status: 0, out: varying, err: '' });
    const group = BigInt64Array.from([...groups, ...groups], BigInt);
    const columnGroup = BigInt64Array.from([...ids, '7'], BigInt);
    const step = { ...smallStep(1), group, columnGroup, rewards: Float32Array.from([...rewards, ...rewards]) };
    const path = await putStep(join(directory, 'hashed.safetensors'), step);
    expect(await collapsar(['filter', path])).toEqual({ status: 0, out: varying, err: '' });
  });

  it('come from a step file', async () => {
    const step = join(exampleRuns, 'collapse', 'step_00001.safetensors');
    const { status, out } = await collapsar(['filter', step, '--strategy', 'top_k_abs', '--value', '3']);
    expect(status).toBe(0);
    expect(out.trim().split('\n')).toHaveLength(3);
    const ragen = await collapsar(['filter', step, '--dialect', 'ragen', '--json']);
    const { metrics, groups, row_mask } = JSON.parse(ragen.out);
    expect(groups).toHaveLength(16);
    expect(row_mask).toHaveLength(128);
    expect(Object.keys(metrics)).toHaveLength(17);
  });

  it('by entropy and length, which a step file has', async () => {
    const base = smallStep(1);
    const tokenEntropy = { data: new Float32Array(36), dtype: 'float32', shape: [12, 3] } as const;
    // Row r belongs to group r % 4; past a row's length stands NaN, which must not matter.
    const lengths = Int32Array.from({ length: 12 }, (_, row) => 1 + (row % 3));
    for (let row = 0; row < 12; row++) {
      tokenEntropy.data.fill(row % 4 === 2 ? 2 : 1, row * 3, row * 3 + (lengths[row] as number));
      tokenEntropy.data.fill(Number.NaN, row * 3 + (lengths[row] as number), row * 3 + 3);
    }
    const rewards = Float32Array.from({ length: 12 }, (_, row) => row);
    const path = await putStep(join(directory, 'entropy.safetensors'), { ...base, lengths, tokenEntropy, rewards });
    const args = ['filter', path, '--strategy', 'top_k_abs', '--value', '1'];
    expect(await collapsar([...args, '--metric', 'entropy'])).toMatchObject({ status: 0, out: '2\n' });
    expect(await collapsar([...args, '--metric', 'length'])).toMatchObject({ status: 0 });
    const json = JSON.parse((await collapsar([...args, '--metric', 'entropy', '--json'])).out);
    expect(json.groups.map(({ score }: { score: number }) => score)).toEqual([1, 1, 2, 1]);
  });

  it('with turns: each episode counts once', async () => {
    const turns = [
      { group: 0, episode: 'x', turn: 0, reward: 1 },
      { group: 0, episode: 'x', turn: 1, reward: 1 },
      { group: 0, episode: 'y', turn: 0, reward: 0 },
      { group: 1, episode: 'z', turn: 0, reward: 1 },
    ];
    const { out } = await fromStdin(turns.map((row) => JSON.stringify(row)).join('\n'), '--json');
    const { groups, dropped, row_mask } = JSON.parse(out);
    expect(groups[0]).toMatchObject({ group: '0', score: 0.5, kept: true });
    expect(dropped).toEqual([{ group: '1', reason: 'singleton' }]);
    expect(row_mask).toEqual([1, 1, 1, 0]);
  });
});

describe('for people', () => {
  it('prints a table of all groups on a terminal, with the reason of each', async () => {
    const out = keeping({ isTTY: true, columns: 120 });
    await collapsar(['filter', put('table.csv', LINES)], { out, environment: { NO_COLOR: '1', LANG: 'C.UTF-8' } });
    const lines = out.text.split('\n');
    expect(lines[0]).toMatch(/^ +group +rows +score +variance/);
    expect(lines[1]).toMatch(/^ +a +2 +2\.00 +2\.00 +kept$/);
    expect(lines[2]).toMatch(/^ +b +2 +0\.000 +0\.000 +all rollouts alike$/);
    expect(lines[3]).toMatch(/^ +c +2 +0\.125 +0\.125 +below the cut$/);
    expect(lines[4]).toMatch(
      /1 of 3 groups kept \(strict, top_p 0\.9, largest reward_variance\); Std\(RV\)\/Mean\(RV\) 1\.29/,
    );
  });

  it('colours on a terminal only', async () => {
    const path = put('colours.csv', LINES);
    const out = keeping({ isTTY: true, columns: 120 });
    expect((await collapsar(['filter', path], { out })).out).toContain('\u001b[');
    expect((await collapsar(['filter', path])).out).not.toContain('\u001b[');
  });

  it('remarks go to stderr', async () => {
    const shaped = 'a,0.1,0\na,-0.3,0\nb,1,1\nb,0.9,0\n';
    const { status, out, err } = await fromStdin(shaped, '--value', '1');
    expect({ status, out }).toEqual({ status: 0, out: 'a\nb\n' });
    expect(err).toMatch(/^note: 1 of 2 kept groups has reward variance from shaping alone/);
    // Under the names that they have here, not by where they stand.
    const numbered = '7,0,0\n7,1,1\n1,0.1,0\n1,-0.3,0\n0,1,1\n0,0.9,1\n';
    const named = await fromStdin(numbered, '--value', '1', '--json');
    expect(JSON.parse(named.out).warnings).toEqual([expect.stringContaining('(groups 1, 0)')]);
    const ringing = JSON.stringify({ group: 'a\u0007', reward: 1 });
    const alone = await fromStdin(ringing, '--singletons', 'error');
    expect(alone.err).toContain('group a\\u{7} has one rollout');
    expect(alone.err).toMatch(/say\s+with --singletons/);
  });

  it('name options as they are given here, and groups as the file does', async () => {
    const said = async (text: string, ...args: string[]) =>
      (await fromStdin(text, ...args)).err.replace(/\s+/g, ' ').trim();
    const three = 'group,reward\n\na,nan\nb,1\nb,0\n';
    expect(await said(three)).toBe(
      'error: stdin: rewards: row 0 is missing or NaN, expected a finite number: correct what computes it, or leave such ' +
        'rollouts out with --non-finite exclude',
    );
    expect(await said(three, '--non-finite', 'exclude')).toBe(
      'note: 1 rollout was left out because the reward is NaN or infinite: row 0',
    );
    const rows = [0, 1].map((turn) => JSON.stringify({ group: 'g', episode: 'e', turn, reward: turn }));
    const turns = await said(rows.join('\n'));
    expect(turns).toContain('row 1 has 1, but another turn of its episode (row 0) has 0');
    expect(turns).toContain('say with --turn-rewards which one is');
    const softmax = ['--dialect', 'ragen', '--top-p-mode', 'softmax', '--value', '0.999'];
    expect(await said('a,1\na,0\nb,1\nb,1\n', ...softmax)).toContain('give --no-include-zero to leave such groups out');
    // A name that looks like what a remark says of groups or options stays what it is.
    const misleading = [1, 0.9].map((reward) => JSON.stringify({ group: 'group 0', reward, outcome: 1 }));
    const named = await fromStdin(misleading.join('\n'), '--value', '1', '--json');
    expect(JSON.parse(named.out).warnings).toEqual([expect.stringContaining('(group group 0): dialect')]);
  });

  it('names of groups do not steer the terminal', async () => {
    const rows = [0.5, 1].map((reward) => JSON.stringify({ group: '\u001b[2J', reward, outcome: 1 }));
    const { err } = await fromStdin(rows.join('\n'), '--value', '1');
    expect(err).toMatch(/same\n? +outcome \(group \\u\{1b\}\[2J\)/);
  });
});

describe('for machines', () => {
  it('--json has everything', async () => {
    const args = ['--json', '--loss-scale', 'sqrt', '--strategy', 'top_k', '--value', '0.34'];
    const { status, out } = await collapsar(['filter', put('json.csv', LINES), ...args]);
    expect(status).toBe(0);
    expect(JSON.parse(out)).toMatchObject({
      file: join(directory, 'json.csv'),
      dialect: 'strict',
      strategy: 'top_k',
      value: 0.34,
      kept: ['a'],
      dropped: [
        { group: 'b', reason: 'zero_score' },
        { group: 'c', reason: 'below_cut' },
      ],
      groups: [
        { group: 'a', score: 2, reward_variance: 2, kept: true },
        { group: 'b', score: 0, reward_variance: 0, kept: false },
        { group: 'c', score: 0.125, reward_variance: 0.125, kept: false },
      ],
      row_mask: [1, 1, 0, 0, 0, 0],
      loss_scale: Math.sqrt(1 / 3),
      empty: false,
      warnings: [],
    });
  });

  it('an empty choice is no failure', async () => {
    const { status, out } = await fromStdin('a,1\na,1\n');
    expect({ status, out }).toEqual({ status: 0, out: '' });
  });

  it('options reach the filter', async () => {
    const path = put('options.csv', LINES);
    const kept = async (...args: string[]) => (await collapsar(['filter', path, ...args])).out.split('\n').slice(0, -1);
    expect(await kept('--value', '1', '--include-zero')).toEqual(['a', 'b', 'c']);
    expect(await kept('--dialect', 'ragen', '--value', '1', '--no-include-zero')).toEqual(['a', 'c']);
    expect(await kept('--dialect', 'dapo')).toEqual(['a', 'c']);
    expect(await kept('--dialect', 'upstream', '--strategy', 'top_k', '--value', '1')).toEqual(['a']);
    // With two rollouts a group and ddof 2 no group has a variance.
    expect(await kept('--dialect', 'upstream', '--ddof', '2')).toEqual([]);
    expect(
      await kept('--direction', 'smallest', '--metric', 'reward', '--strategy', 'top_k_abs', '--value', '1'),
    ).toEqual(['a']);
    expect(await kept('--strategy', 'min_p', '--value', '0.05')).toEqual(['a', 'c']);
    expect(await kept('--top-p-mode', 'softmax', '--value', '0.999')).toEqual(['a', 'c']);
    expect(await kept('--dialect', 'ragen', '--eps', '100')).toEqual([]);
  });

  it('singletons and rewards that are no numbers follow the policy', async () => {
    // As Python's json.dumps writes them; in a name they are letters.
    const python = [
      '{"group":"NaN","reward":NaN}',
      '{"group":"NaN","reward":1}',
      '{"group": "NaN", "reward": 0}',
      '{"group":"x","reward":-Infinity}',
      '{"group":"x","reward":1}',
    ];
    const excluded = await fromStdin(python.join('\n'), '--non-finite', 'exclude');
    expect(excluded).toMatchObject({
      status: 0,
      out: 'NaN\n',
      err: expect.stringContaining('2 rollouts were left out'),
    });
    expect((await fromStdin(python.join('\n'))).err).toMatch(/row 0 is missing or NaN/);
    const text = 'a,1\na,0\nb,3\nc,nan\nc,1\nc,0\n';
    expect(await fromStdin(text, '--non-finite', 'exclude', '--singletons', 'keep')).toMatchObject({
      status: 0,
      out: 'a\nb\nc\n',
    });
    const { status, err } = await fromStdin(text);
    expect(status).toBe(1);
    expect(err).toMatch(/^error: stdin: rewards: row 3 is missing or NaN.*\s--non-finite exclude/);
    const lacking = await fromStdin(text, '--metric', 'entropy');
    expect(lacking.err).toMatch(/^error: stdin: .*mean token entropy of each row\n$/);
    expect(await fromStdin('a,1\na,0\nb,3\n', '--singletons', 'error')).toMatchObject({ status: 1 });
  });
});

describe('exit status', () => {
  it.each([
    ['no such file', ['nowhere.csv'], /nowhere.csv: there is no such file/],
    ['a folder without logs', [temporaryDirectory()], /neither this directory nor those below it hold/],
    ['no such step file', ['nowhere.safetensors'], /there is no such file/],
  ])('is 1 for %s', async (_, args, wanted) => {
    const { status, out, err } = await collapsar(['filter', ...args]);
    expect({ status, out }).toEqual({ status: 1, out: '' });
    expect(err).toMatch(wanted);
  });

  it.each([
    ['', /is empty/],
    ['a\n', /has no rows/],
    ['a 1\na 0\n', /in CSV whose first line names its columns: group or group_id or uid, and reward or score/],
    ['group;reward\na;1\n', /no reader knows it: .*group;reward.*in CSV whose first line names/],
    ['group\treward\na\t1\n', /in CSV whose first line names its columns/],
    ['["a",1]\n["a",0]\n', /no JSON objects/],
    ['a,1\nb,x\n', /row 2: reward is the text "x", expected a number/],
    ['{"group": 1}\n', /a table, in JSON lines or in CSV .*: group or group_id or uid, and reward or score/],
    ['{"reward": 1}\n', /has no group id/],
    ['{"group": 1, "reward": 1}\n{"group": 1\n{"group": 1, "reward": 0}\n', /line 2/],
    ['{}\n', /no reader knows it/],
    ['{"group": 1, "reward": [0, 1]}\n', /line 1: reward is a list of 2, expected a number/],
    ['prompt,value\na,1\n', /prompt, value.*group or group_id or uid, and reward or score/],
    ['id,r\na,1\n', /group or group_id or uid, and reward or score/],
    ['a,1,0\na,1\n', /row 2: has 2 fields, the heading 3/],
    ['a,1\nb,1e300\n', /at most 1e\+100/],
    ['{"group":1,"reward":1,"episode":"x"}\n{"group":1,"reward":0}\n', /row 1 has no episode, but other rows have one/],
    ['{"group":1,"reward":1,"turn":0}\n', /turns: given without episodes: say which/],
  ])('is 1 for the lines %j', async (text, wanted) => {
    const { status, out, err } = await fromStdin(text);
    expect({ status, out }).toEqual({ status: 1, out: '' });
    expect(err.replace(/\s+/g, ' ')).toMatch(wanted);
    expect(err).toMatch(/^error: stdin[:,] /);
  });

  it('is 1 in its own words for a glob and a folder of tables that no reader knows', async () => {
    const tables = join(directory, 'tables.csv');
    mkdirSync(tables);
    writeFileSync(join(tables, 'one.csv'), 'task,answer,points\na,x,1\na,y,0\n');
    for (const path of [join(tables, '*.csv'), tables]) {
      const unknown = await collapsar(['filter', path]);
      expect(unknown.status).toBe(1);
      expect(unknown.err).toMatch(/no reader knows it/);
      expect(unknown.err).not.toContain('collapsar analyze');
      const named = await collapsar(['filter', path, '--columns', 'group=task,output=answer,reward=points']);
      expect({ status: named.status, out: named.out }).toEqual({ status: 0, out: 'a\n' });
    }
  });

  it('is 1 for a step without rewards', async () => {
    const path = await putStep(join(directory, 'bare.safetensors'), smallStep(1));
    expect((await collapsar(['filter', path])).err).toMatch(/bare.safetensors: has no tensor "rewards"/);
  });

  it.each([
    [['--value', '1.5'], /--value 1.5: top_p needs a share/],
    [['--value', 'x'], /Expected a number/],
    [['--strategy', 'top'], /Allowed choices are top_p, top_k, top_k_abs, min_p/],
    [['--strategy', 'top_k'], /--value missing/],
    [
      ['--dialect', 'upstream', '--top-p-mode', 'softmax'],
      /--top-p-mode "softmax", which the dialect "upstream" does not have/,
    ],
    [['--nothing'], /unknown option/],
  ])('is 2 for %j', async (args, wanted) => {
    const { status, out, err } = await collapsar(['filter', put('usage.csv', LINES), ...args]);
    expect({ status, out }).toEqual({ status: 2, out: '' });
    expect(err).toMatch(wanted);
  });
});

it('its help has the defaults that the filter has, of each dialect that has another', async () => {
  const help = (await collapsar(['filter', '--help'])).out.replace(/\s+/g, ' ');
  const [usual, ragen, paper] = [undefined, 'ragen', 'paper'].map((dialect) =>
    resolveFilterOptions({ dialect: dialect as 'ragen' | 'paper' | undefined }),
  );
  expect(help).toContain(`groups of one rollout (default: ${usual?.singletons}; upstream`);
  expect(help).toContain(`multiplied by (default: ${usual?.lossScale}; paper: ${paper?.lossScale})`);
  expect(help).toContain(`episode's reward (default: ${usual?.turnRewards}; ragen: ${ragen?.turnRewards})`);
  expect(help).toContain(`NaN or infinite (default: ${usual?.nonFinite})`);
});
