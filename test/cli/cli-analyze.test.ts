// `collapsar analyze` as a user meets it: what it prints, what it writes, what its exit status says.
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { measureOptions } from '../../src/analysis/measuring/measure-options.js';
import { journalHead, journalLine } from '../../src/analysis/store/journal-lines.js';
import { Interrupted } from '../../src/cli/output/streams.js';
import { textWidth } from '../../src/cli/output/text-width.js';
import { elementOf, exampleRuns, putStep, smallStep } from '../support/analysis-logs.js';
import { expectSameMetrics } from '../support/golden.js';
import { temporaryDirectory } from '../support/temporary-directory.js';
import { collapsar, keeping } from './cli-streams.js';

const directory = temporaryDirectory();
const healthy = join(exampleRuns, 'healthy');

type JsonRecord = Record<string, unknown> & { file: string; step: number; run: string };

function recordsOf(jsonLines: string): JsonRecord[] {
  return jsonLines
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as JsonRecord);
}

/** Three good steps, a truncated one, one that is no step file, and one with NaN. */
async function mixedRun(name: string): Promise<string> {
  const run = join(directory, name);
  for (const step of [1, 2, 3]) await putStep(join(run, `${step}.safetensors`), smallStep(step));
  writeFileSync(join(run, '4.safetensors'), readFileSync(join(run, '1.safetensors')).subarray(0, 600));
  writeFileSync(join(run, '5.safetensors'), '{}');
  const withNaN = smallStep(6);
  withNaN.logprobs.data[elementOf(1, 2, 0)] = Number.NaN;
  await putStep(join(run, '6.safetensors'), withNaN);
  return run;
}

describe('the table', () => {
  it('of several runs is one screen: the collapsed one first and last, and no line too wide', async () => {
    const { status, out, err } = await collapsar(['analyze', exampleRuns, '--quiet']);
    expect(status).toBe(0);
    expect(err).toBe('');
    // The README's first command names a relative path; this one's is as long as the machine makes it.
    const lines = out.trimEnd().replaceAll(exampleRuns, 'examples/data/').split('\n');
    expect(lines.length).toBeLessThanOrEqual(40);
    expect(lines.filter((line) => textWidth(line) > 80 && !line.startsWith('  examples/data/'))).toEqual([]);
    expect(lines[1]).toMatch(/^ {2}✖ collapse +template collapse since 136 +0\.201 +14%/);
    expect(lines.slice(1, 4).map((line) => line.trim().split(/ +/)[1])).toEqual(['collapse', 'filtered', 'healthy']);
    expect(lines.at(-1)).toMatch(/^✖ collapse {2}template collapse since step 136 · MI 0\.201, 14% of start/);
    // Entropy up, MI down; and the bars of all runs are on one scale.
    expect(lines.find((line) => /^ +H\(Z\|X\) .*→/.test(line))).toMatch(/[▁▂▃▄▅▆▇█]{51} {2}0\.806 → 2\.69$/);
    expect(lines.find((line) => /^ +MI .*→/.test(line))).toMatch(/[▁▂▃▄▅▆▇█]{51} {2}1\.25 → 0\.201$/);
    // biome-ignore lint/suspicious/noControlCharactersInRegex: escapes are what must not be there
    expect(out).not.toMatch(/\u001b/);
  });

  it('draws states below the trends, column by column, and the alarms below where they begin', async () => {
    const { out } = await collapsar(['analyze', join(exampleRuns, 'collapse'), '--permutations', '0']);
    const line = (label: string): string =>
      out.split('\n').find((found) => found.startsWith(`  ${label.padEnd(9)}  `)) as string;
    const bars = line('MI').indexOf('▆');
    expect(line('state').slice(bars)).toMatch(/^·{5}D{29}T{17}$/);
    // Steps are 1, 4, 8, …: 136 is the 35th.
    expect(line('verdicts').indexOf('✖136') - bars).toBe(34);
    expect(line('state')[bars + 34]).toBe('T');
    // 0 is the lowest bar, 1 the highest, and what is no higher than chance is a line.
    expect(line('retrieval').slice(bars).trim().split(' ')[0]).toMatch(/^[▂▃▄▅╌]{51}$/);
  });

  it('shows of a run 12 steps: the first, the last, and those around a change', async () => {
    const { out } = await collapsar(['analyze', join(exampleRuns, 'collapse')]);
    const rows = [...out.matchAll(/^ +([0-9]+) +[—DTCL] .*\[/gm)].map(([, step]) => Number(step));
    expect(rows).toHaveLength(12);
    expect(rows).toEqual(expect.arrayContaining([1, 132, 136, 140, 200]));
    expect(out).toMatch(/step +state +MI +95% batch +p\(MI\) +retrieval +chance +H\(Z\|X\)/);
    expect(out).toContain('12 of 51 steps; all: --rows all.');
    // The floor of 999 permutations, and a figure that chance may have made.
    expect(out).toMatch(/^ +1 +— .* ≤0\.001 /m);
    expect(out).toMatch(/^ +200 +T .* 0\.102\? /m);
  });

  it('marks remarks of more kinds than there are letters', async () => {
    const run = join(directory, 'one-number');
    const names = Array.from({ length: 42 }, (_, at) => 'abcdef'.charAt(at % 6) + 'uvwxyz!'.charAt(at / 6)).sort();
    for (const name of names) await putStep(join(run, `${name}.safetensors`), smallStep(1));
    const { out } = await collapsar(['analyze', run, '--permutations', '0', '--quiet', '--rows', 'all']);
    const marks = [...out.matchAll(/^ +1 +— .* {2}([a-z].*)$/gm)].map(([, mark]) => mark);
    const explained = [...out.matchAll(/^ {2}([a-z][0-9]*) {2}step 1: step 1 of run one-number comes from/gm)];
    expect(explained).toHaveLength(41);
    for (const [, mark] of explained)
      expect(marks.filter((shown) => shown?.match(/[a-z][0-9]*/g)?.includes(mark as string))).toHaveLength(1);
    // biome-ignore lint/suspicious/noControlCharactersInRegex: that is what must not be there
    expect(out).not.toMatch(/[\u0000-\u0009\u007f-\u009f]/);
  });

  it('shows remarks about files without what steers a terminal', async () => {
    const run = join(directory, 'two-names');
    for (const name of ['a\u001b[2J\n', 'b']) await putStep(join(run, `${name}.safetensors`), smallStep(1));
    const { out } = await collapsar(['analyze', run, '--permutations', '0', '--quiet']);
    expect(out.replace(/\s+/g, ' ')).toContain(`${join(run, 'a\\u{1b}[2J\\u{a}.safetensors')} and from`);
    expect(out).not.toContain('\u001b');
  });

  it('has no trend where what was chosen has none', async () => {
    const { out } = await collapsar(['analyze', healthy, '--metrics', 'verdicts', '--permutations', '0', '--quiet']);
    expect(out).toMatch(/^ +200$/m);
    expect(out).not.toContain('trend');
  });

  it('under ragen shows the figures of the reference', async () => {
    const { out } = await collapsar(['analyze', healthy, '--profile', 'ragen']);
    expect(out).toMatch(/step +MI +MI\/token +retrieval +chance +H\(Z\|X\) +z$/m);
    const golden = JSON.parse(readFileSync(new URL('../golden/tiny-rl.healthy.json', import.meta.url), 'utf8'))[0]
      .metrics;
    const first = out.split('\n').find((line) => /^ +1 /.test(line)) as string;
    const [, , perToken, , , entropy] = first.trim().split(/ +/);
    expect(Number(entropy)).toBeCloseTo(golden['collapse_first_turn_sample/conditional_entropy_est'], 2);
    expect(Number(perToken)).toBeCloseTo(golden['collapse_first_turn_sample/mi_estimate'], 2);
  });

  it('with --rows shows as many, and of several runs the whole tables', async () => {
    const stepsOf = (out: string) => [...out.matchAll(/^ +([0-9]+) +[—DTCL] .*\[/gm)].map(([, step]) => Number(step));
    const shown = async (rows: string, ...paths: string[]) =>
      (await collapsar(['analyze', ...paths, '--permutations', '0', '--rows', rows])).out;
    expect(stepsOf(await shown('4', healthy))).toHaveLength(4);
    expect(stepsOf(await shown('all', healthy))).toHaveLength(51);
    const both = await shown('5', healthy, join(exampleRuns, 'collapse'));
    expect(stepsOf(both)).toHaveLength(10);
    expect(both.split('\n')[1]).toContain('✖ collapse');
  });

  it('of many runs compares the gravest, details two, and counts the rest', async () => {
    const runs = join(directory, 'many');
    for (let run = 0; run < 30; run++) await putStep(join(runs, `r${run}`, '1.safetensors'), smallStep(1));
    for (let step = 1; step <= 12; step++) {
      const excess = step < 7 ? 2 : 0;
      for (const name of ['bad', 'worse', 'worst'])
        await putStep(join(runs, name, `${step}.safetensors`), smallStep(step, excess));
    }
    const { out } = await collapsar(['analyze', runs, '--permutations', '0', '--quiet']);
    const lines = out.trimEnd().split('\n');
    expect(lines.filter((line) => /^ {2}[✖▲○●]/.test(line) && !/:| from step /.test(line))).toHaveLength(24);
    expect(lines.slice(1, 4).every((line) => /^ {2}✖ (bad|worse|worst) +template collapse since 7 /.test(line))).toBe(
      true,
    );
    expect(out).toContain('and 9 runs that are no graver; all: --rows all');
    expect(out.match(/^✖ .* 12 steps|^ {2}state /gm)).toHaveLength(2);
    expect(lines.at(-4)).toBe('33 runs: ✖ 3 critical, ○ 30 without a known state');
    expect(lines.slice(-3).every((line) => line.startsWith('✖ '))).toBe(true);
  });

  it('counts the runs in which a filter would keep nothing, also those that are not compared', async () => {
    const place = join(directory, 'alike');
    const rewards = new Float32Array(12);
    for (let run = 0; run < 60; run++)
      await putStep(join(place, `r${run}`, '1.safetensors'), { ...smallStep(1), rewards });
    const { out } = await collapsar(['analyze', place, '--permutations', '0', '--quiet']);
    expect(out.replace(/\s+/g, ' ')).toContain(
      'the filter (top_p 0.9) would keep nothing at 1 step, and nothing at some in 59 other runs',
    );
    expect(out).toContain('60 runs: ');
  });

  it('names runs of the same name by their directories', async () => {
    const place = join(directory, 'same');
    for (const parent of ['a', 'b'])
      await putStep(join(place, parent, 'seed0', '1.safetensors'), { ...smallStep(1), run: 'grpo' });
    const { out } = await collapsar(['analyze', place, '--permutations', '0', '--quiet']);
    expect(out).toMatch(/^ {2}○ ….*a\/seed0 /m);
    expect(out).toMatch(/^ {2}○ ….*b\/seed0 /m);
  });

  it('keeps its columns where a name is in wide characters', async () => {
    const place = join(directory, 'wide');
    for (const name of ['模板崩溃', 'plain']) await putStep(join(place, name, '1.safetensors'), smallStep(1));
    const { out } = await collapsar(['analyze', place, '--permutations', '0', '--quiet']);
    const columns = out.split('\n').filter((line) => /^ {2}○ .*state not known {2}/.test(line));
    expect(columns.map((line) => textWidth(line.slice(0, line.indexOf('state'))))).toEqual([14, 14]);
  });

  it('shows how many rows the figures rest on where some are left out', async () => {
    const run = await mixedRun('rows-left-out');
    const args = ['analyze', join(run, '6.safetensors'), '--non-finite', 'exclude', '--permutations', '0'];
    expect((await collapsar(args)).out).toMatch(/^ +6 +— .* 11\/12/m);
    expect((await collapsar(['analyze', healthy, '--permutations', '0'])).out).not.toContain('128/128');
  });

  it('with --metrics has those as columns', async () => {
    const { status, out } = await collapsar([
      'analyze',
      healthy,
      '--metrics',
      'mi_upper_bound,retrieval_chance_l*',
      '--rows',
      'all',
    ]);
    expect(status).toBe(0);
    expect(out).toMatch(/step +retrieval_chance_level +mi_upper_bound\n/);
    expect(out.split('\n').filter((line) => /^ +[0-9]+ +0\.0(63|70) +2\.77$/.test(line))).toHaveLength(51);
  });

  it('with more metrics than fit is still one table, and the trends have all', async () => {
    const { out } = await collapsar(['analyze', healthy, '--metrics', 'mi_*', '--permutations', '0']);
    expect(out.match(/^ +step /gm)).toHaveLength(1);
    expect(out.replace(/\s+/g, ' ')).toMatch(/[0-9]{2} more do not fit into 80 columns: see the trends, or --jsonl\./);
    expect(out).toMatch(/^ {2}mi_estimate_population_high +[▁-█]+ {2}\S+ → \S+$/m);
    const wide = await collapsar(['analyze', healthy, '--metrics', 'mi_*', '--permutations', '0'], {
      environment: { LANG: 'C.UTF-8', COLUMNS: '160' },
    });
    expect(wide.out).toMatch(/[0-9]+ more do not fit into 160 columns/);
    expect(wide.out.split('\n').some((line) => line.length > 100)).toBe(true);
  });

  it('marks steps whose figures need a remark, once a kind', async () => {
    const run = join(directory, 'saturated');
    for (const step of [1, 2, 3]) await putStep(join(run, `${step}.safetensors`), smallStep(step, step < 3 ? 5 : 0.2));
    const { out } = await collapsar(['analyze', run, '--permutations', '0']);
    expect(out).toMatch(/^ +a .*2 steps, first step 1: MI is saturated/m);
    expect(out.match(/MI is saturated/g)).toHaveLength(1);
  });

  it('marks a step that comes twice, and names both files under the table', async () => {
    const run = join(directory, 'twice');
    for (const name of ['a', 'b']) await putStep(join(run, `${name}.safetensors`), smallStep(1));
    const { status, out } = await collapsar(['analyze', run, '--permutations', '0']);
    expect(status).toBe(0);
    const remark = out.replace(/\s+/g, ' ');
    const [one, other] = ['a', 'b'].map((name) => join(run, `${name}.safetensors`));
    expect(remark).toContain(`step 1 of run twice comes from ${one} and from ${other}: it has no verdicts`);
  });

  it('is plain ASCII where the locale is', async () => {
    const { out } = await collapsar(['analyze', healthy, '--permutations', '0'], { environment: { LC_ALL: 'C' } });
    expect(out).toMatch(/->/);
    expect(out).not.toMatch(/[^ -~\n]/);
  });

  it('has colours on a terminal only, and not with NO_COLOR', async () => {
    const args = ['analyze', healthy, '--permutations', '0', '--quiet'];
    const onTerminal = (environment: Record<string, string>, isTTY = true) =>
      collapsar(args, { out: keeping({ isTTY, columns: 120 }), environment });
    expect((await onTerminal({ LANG: 'C.UTF-8' })).out).toContain('\u001b[');
    expect((await onTerminal({ LANG: 'C.UTF-8', NO_COLOR: '1' })).out).not.toContain('\u001b[');
    expect((await onTerminal({ FORCE_COLOR: '1' }, false)).out).toContain('\u001b[');
    expect((await onTerminal({ FORCE_COLOR: '0' })).out).not.toContain('\u001b[');
  });

  it.each([
    [60, 31],
    [80, 51],
    [120, 51],
    [200, 51],
  ])('fits a terminal of %i columns: no line is broken amid a word', async (columns, bars) => {
    const plain = { LANG: 'C.UTF-8', NO_COLOR: '1' };
    const shown = async (args: readonly string[]) =>
      (await collapsar(args, { out: keeping({ isTTY: true, columns }), environment: plain })).out;
    const table = await shown(['analyze', healthy, '--permutations', '0', '--quiet']);
    // The one with the path is of any length.
    const lines = table.split('\n').filter((line) => !line.includes(healthy));
    expect(lines.filter((line) => line.length > columns)).toEqual([]);
    expect(table).toMatch(new RegExp(`^  MI {9}[▁-█]{${bars}}  \\S`, 'm'));
    // What is no terminal is as wide as the usual one.
    if (columns === 80) expect(table).toBe((await collapsar(['analyze', healthy, '--permutations', '0'])).out);
    // Commander does not break lines this narrow.
    if (columns < 80) return;
    for (const command of ['analyze', 'submit', 'filter', 'plan-scores', 'score', 'watch', 'serve', 'report']) {
      const help = await shown([command, '--help']);
      // Examples are to be copied: they stay whole.
      const prose = help.split('\n').filter((line) => !/^ {2}(collapsar|ssh|srun|cut| --out)/.test(line));
      expect(prose.filter((line) => line.length > Math.min(columns, 100))).toEqual([]);
      expect(help).toMatch(/^Examples:\n {2}collapsar/m);
    }
  });
});

describe('the verdicts', () => {
  it('come first in a line, and stand under the table in sentences', async () => {
    const out = (await collapsar(['analyze', join(exampleRuns, 'collapse'), '--permutations', '0'])).out.trimEnd();
    const [first] = out.split('\n');
    expect(first).toBe('✖ collapse  template collapse since step 136, said at step 140');
    expect(out.split('\n').at(-1)).toBe('✖ collapse  template collapse since step 136 · MI 0.201, 14% of start');
    expect(out).toMatch(/^ {2}✖ template_collapse from step 136 \(said at 140\) to the end$/m);
    expect(out).toMatch(
      /^ {2}▲ entropy_gaming from step 124 \(said at 128, warning at 136\), 2 stretches, the\n {4}last to the end$/m,
    );
    expect(out.replace(/\s+/g, ' ')).toContain('→ Stop, go back to a checkpoint from before');
    const fine = (await collapsar(['analyze', healthy, '--permutations', '0'])).out;
    expect(fine.split('\n')[0]).toBe('● healthy  diverse');
    expect(fine).toContain('\n  no alarm\n');
    expect(fine).not.toMatch(/✖/);
    // A filter that keeps nothing is no footnote.
    expect(fine.replace(/\s+/g, ' ')).toMatch(/▲ the filter .* nothing at 11 steps, first step 24/);
  });

  it('that ended are told, and are no alarm any more', async () => {
    // Up to step 168: collapsed at 104, above half of its start at 152.
    const steps = readdirSync(join(exampleRuns, 'filtered'))
      .filter((name) => name.endsWith('.safetensors') && Number(/\d+/.exec(name)?.[0]) <= 168)
      .map((name) => join(exampleRuns, 'filtered', name));
    const { status, out } = await collapsar(['analyze', ...steps, '--permutations', '0', '--fail-on', 'critical']);
    expect(status).toBe(0);
    // I(X;Z) is not back where it was: what still holds is the alarm.
    expect(out).toMatch(/^▲ filtered {2}dependence lower since step 100, said at step 108$/m);
    expect(out).toMatch(/✖ template_collapse from step 104 to step \d+$/m);
    const back = join(directory, 'back');
    for (let step = 1; step <= 26; step++) {
      await putStep(join(back, `${step}.safetensors`), smallStep(step, step > 10 && step < 14 ? 0 : 2));
    }
    const { out: ended } = await collapsar(['analyze', back, '--permutations', '0', '--fail-on', 'warning']);
    expect(ended).toMatch(/^△ back {2}diverse; dependence lower until step \d+ · /m);
  });

  it('say why where no step has a state: no alarm is no comfort there', async () => {
    const verdictsOf = async (path: string) =>
      (await collapsar(['analyze', path, '--permutations', '0'])).out.split('  no alarm\n')[1]?.replace(/\s+/g, ' ');
    expect(await verdictsOf(join(healthy, 'step_0000*'))).toMatch(
      /^ state not known: Undecided: step 8 is one of the first 5 computed steps, which later ones are compared with\./,
    );
    const run = join(directory, 'collapsed-from-the-start');
    for (let step = 1; step <= 7; step++) await putStep(join(run, `${step}.safetensors`), smallStep(step, 0));
    expect(await verdictsOf(run)).toMatch(
      /^ state not known: I\(X;Z\) was \S+ at the run's start, which cannot be told from zero: .* too small to tell\./,
    );
    expect(await verdictsOf(healthy)).not.toContain('state not known');
  });

  it('decide the exit status with --fail-on, whatever is printed', async () => {
    const status = async (...args: string[]) =>
      (await collapsar(['analyze', ...args, '--permutations', '0', '--quiet'])).status;
    const collapsed = join(exampleRuns, 'collapse');
    expect(await status(collapsed, '--fail-on', 'critical')).toBe(3);
    expect(await status(collapsed, healthy, '--fail-on', 'warning', '--jsonl')).toBe(3);
    expect(await status(healthy, '--fail-on', 'warning')).toBe(0);
    expect(await status(collapsed)).toBe(0);
    // What was found is so, whatever could not be read.
    expect(await status(collapsed, join(directory, 'missing'), '--fail-on', 'critical')).toBe(3);
    expect(await status(healthy, join(directory, 'missing'), '--fail-on', 'critical')).toBe(1);
    // entropy_gaming is a warning before the collapse is one.
    const early = readdirSync(collapsed)
      .filter((name) => Number(/\d+/.exec(name)?.[0]) <= 136)
      .map((name) => join(collapsed, name));
    expect(await status(...early, '--fail-on', 'critical')).toBe(0);
    expect(await status(...early, '--fail-on', 'warning')).toBe(3);
    expect(await collapsar(['analyze', collapsed, '--profile', 'ragen', '--fail-on', 'critical'])).toMatchObject({
      status: 2,
      err: expect.stringContaining('--profile strict'),
    });
  });

  it('are in the records and in summary.json', async () => {
    const out = join(directory, 'judged');
    const { out: printed } = await collapsar([
      'analyze',
      join(exampleRuns, 'collapse'),
      healthy,
      '--jsonl',
      '--out',
      out,
      '--permutations',
      '0',
    ]);
    const last = recordsOf(printed)
      .filter(({ run }) => run === 'collapse')
      .at(-1) as JsonRecord;
    expect(last.regime).toMatchObject({ name: 'template_collapse', since: 136 });
    expect(last.verdicts).toContainEqual(
      expect.objectContaining({ kind: 'template_collapse', severity: 'critical', since: 136, raised: 140, step: 200 }),
    );
    const { runs } = JSON.parse(readFileSync(join(out, 'summary.json'), 'utf8'));
    expect(runs.map(({ judged }: { judged: { regime: { name: string } } }) => judged.regime.name)).toEqual([
      'template_collapse',
      'diverse',
    ]);
  });

  it('can be chosen with --metrics, and are not there otherwise', async () => {
    const args = [
      'analyze',
      healthy,
      '--jsonl',
      '--permutations',
      '0',
      '--metrics',
      'regime,rollout/filter_kept_count',
    ];
    const { status, out } = await collapsar(args);
    expect(status).toBe(0);
    const [record] = recordsOf(out) as [JsonRecord];
    expect(Object.keys(record).sort()).toEqual(['file', 'regime', 'rollout/filter_kept_count', 'run', 'step']);
  });
});

describe('--markdown', () => {
  it('gives tables that GitHub shows, and the alarms in sentences', async () => {
    const { status, out } = await collapsar(['analyze', exampleRuns, '--markdown', '--permutations', '0']);
    expect(status).toBe(0);
    const lines = out.split('\n');
    expect(lines[0]).toBe('| run | state | MI | % of start | retrieval | chance | H(Z\\|X) | % of start |');
    expect(lines[1]).toMatch(/^(\| :?--:? ){8}\|$/);
    expect(lines[2]).toMatch(/^\| `✖ collapse` \| template collapse since 136 \| 0\.201 \| 14% \|/);
    expect(out).toMatch(
      /^- ✖ \*\*`collapse`\*\*: `template_collapse` \(critical\)\. Template collapse: .* Stop, go back/m,
    );
    // Of one run also its steps.
    const one = await collapsar(['analyze', join(exampleRuns, 'collapse'), '--markdown', '--permutations', '0']);
    expect(one.out.match(/^\| \d+ \| [—DT] \| /gm)).toHaveLength(12);
  });

  it('lets no name format anything', async () => {
    const place = join(directory, 'formatting');
    await putStep(join(place, '1.safetensors'), { ...smallStep(1), run: 'a|b`c @everyone\n# x' });
    const { out } = await collapsar(['analyze', place, '--markdown', '--permutations', '0']);
    expect(out).toContain("| `○ a\\|b'c @everyone\\u{a}# x` |");
    for (const line of out.split('\n').filter((text) => text.startsWith('| `')))
      expect(line.match(/(?<!\\)\|/g)).toHaveLength(9);
  });
});

describe('--jsonl and --json', () => {
  it.each(['collapse', 'filtered', 'healthy'])('%s: every record is what the reference logged', async (run) => {
    const golden = JSON.parse(readFileSync(new URL(`../golden/tiny-rl.${run}.json`, import.meta.url), 'utf8'));
    const { status, out } = await collapsar(['analyze', join(exampleRuns, run), '--jsonl', '--profile', 'ragen']);
    expect(status).toBe(0);
    const records = recordsOf(out);
    expect(records).toHaveLength(golden.length);
    for (const [at, { file, step, run: name, ...metrics }] of records.entries()) {
      expect({ file, step, name }).toEqual({
        file: join(exampleRuns, run, golden[at].file),
        step: golden[at].step,
        name: run,
      });
      expectSameMetrics(metrics as Record<string, number>, golden[at].metrics);
    }
  });

  it('come step by step, not at the end', async () => {
    const out = keeping();
    const seen: number[] = [];
    const counting = {
      ...out,
      write: (text: string) => out.write(text).then(() => void seen.push(text.split('\n').length - 1)),
    };
    await collapsar(['analyze', healthy, '--jsonl', '--permutations', '0'], { out: counting });
    expect(seen).toEqual(Array(51).fill(1));
  });

  it('hold the same records', async () => {
    const lines = await collapsar(['analyze', healthy, '--jsonl', '--permutations', '9']);
    const array = await collapsar(['analyze', healthy, '--json', '--permutations', '9', '--threads', '1']);
    expect(JSON.parse(array.out)).toEqual(recordsOf(lines.out));
  });

  it('with --metrics hold file, step, run and those', async () => {
    const args = ['--metrics', 'mi_seq_estimate', '--metrics', 'collapse/*', '--permutations', '0'];
    const [record] = recordsOf((await collapsar(['analyze', healthy, '--jsonl', ...args])).out) as [JsonRecord];
    expect(Object.keys(record).sort()).toEqual([
      'collapse/first_turn_num_total',
      'collapse/first_turn_num_valid',
      'collapse/first_turn_valid_rate',
      'collapse/valid_thinking_rate',
      'collapse_first_turn_sample/mi_seq_estimate',
      'file',
      'run',
      'step',
    ]);
  });

  it('write NaN as null', async () => {
    const run = await mixedRun('null');
    const args = ['analyze', join(run, '6.safetensors'), '--profile', 'ragen', '--jsonl'];
    const [record] = recordsOf((await collapsar(args)).out) as [JsonRecord];
    expect(record['collapse_first_turn_sample/mi_estimate']).toBeNull();
  });

  it('of nothing are nothing, and an empty array', async () => {
    const empty = join(directory, 'nothing-in-it');
    mkdirSync(empty, { recursive: true });
    expect(await collapsar(['analyze', empty, '--jsonl'])).toMatchObject({ status: 1, out: '' });
    expect(await collapsar(['analyze', empty, '--json'])).toMatchObject({ status: 1, out: '[]\n' });
  });
});

describe('files that cannot be used', () => {
  it('are all listed at the end, the rest is reported, and the status is 1', async () => {
    const run = await mixedRun('mixed');
    const { status, out, err } = await collapsar(['analyze', run, join(directory, 'missing'), '--jsonl']);
    expect(status).toBe(1);
    expect(recordsOf(out).map(({ step }) => step)).toEqual([1, 2, 3]);
    const lines = err.trimEnd().split('\n');
    expect(lines[0]).toBe('4 files or paths could not be used; 3 steps were reported.');
    expect(lines).toHaveLength(5);
    for (const name of ['mixed/4', 'mixed/5', 'mixed/6', 'missing']) {
      expect(lines.filter((line) => line.includes(join(directory, name)))).toHaveLength(1);
    }
    expect(err).toMatch(/6\.safetensors, tensor "cross_logprobs", offset [0-9]+: .*prompt 1, row 2, token 0/);
  });

  it('leave out their rows with --non-finite exclude', async () => {
    const run = await mixedRun('excluded');
    const { status, out } = await collapsar([
      'analyze',
      join(run, '6.safetensors'),
      '--non-finite',
      'exclude',
      '--jsonl',
    ]);
    expect(status).toBe(0);
    expect(recordsOf(out)[0]?.notes).toContainEqual(expect.stringContaining('row 2'));
  });

  it('say so when there is nothing at all', async () => {
    const empty = join(directory, 'empty');
    mkdirSync(empty, { recursive: true });
    const { status, out, err } = await collapsar(['analyze', empty]);
    expect(status).toBe(1);
    expect(out).toBe('');
    expect(err).toContain(empty);
    expect(err).toContain('safetensors');
  });
});

describe('names that steer a terminal', () => {
  const run = 'evil\u001b]0;pwn\u0007\n\u202e';
  const made = async () => {
    const place = join(directory, 'a\u001b[2J');
    await putStep(join(place, '1.safetensors'), { ...smallStep(1), run });
    writeFileSync(join(place, 'b\u001b[31m.safetensors'), '{}');
    return place;
  };
  // Line ends are the table's own.
  const steering = /[^\P{Cc}\n]|\p{Cf}/u;

  it('are shown escaped in tables, lists of failures and errors', async () => {
    const place = await made();
    const { out, err } = await collapsar(['analyze', place, '--permutations', '0']);
    expect(out).toContain('○ evil\\u{1b}]0;pwn\\u{7}\\u{a}\\u{202e}  state not known\n');
    expect(out).toMatch(/^ {2}\S*\/a\\u\{1b\}\[2J:\s+step 1, 4 prompts/m);
    expect(err).toContain('b\\u{1b}[31m.safetensors');
    const filtered = await collapsar(['filter', join(place, 'b\u001b[31m.safetensors')]);
    expect(filtered.err).toContain('error: ');
    for (const text of [out, err, filtered.err]) expect(text).not.toMatch(steering);
  });

  it('are shown escaped where a path or an option is repeated', async () => {
    const place = await made();
    const work = join(directory, 'p\u001b[2J\u009b');
    const texts: string[] = [];
    for (const args of [
      ['analyze', join(place, '1.safetensors'), '--permutations', '0', '--shard', '0/1', '--out', work],
      ['analyze', join(place, '1.safetensors'), '--journals', work],
      ['analyze', join(place, '1.safetensors'), '--journals', `${work}.gone`],
      ['analyze', place, '--metrics', run],
      ['analyze', place, `--${run}`],
      ['analyze', place, '--rows', run],
      ['explain', run],
      ['analyze', place, '--profile', run],
      [run],
    ]) {
      const { out, err } = await collapsar(args);
      texts.push(out + err);
    }
    expect(texts[0]).toContain('p\\u{1b}[2J\\u{9b}/journals/0-of-1: 1 step');
    for (const text of texts) expect(text).not.toMatch(steering);
  });

  it('are shown escaped where a forged journal has them as names of metrics', async () => {
    const place = join(directory, 'forged');
    const step = await putStep(join(place, '1.safetensors'), smallStep(1));
    const options = ['--permutations', '0'];
    await collapsar(['analyze', step, ...options, '--shard', '0/1', '--out', place]);
    const journal = join(place, 'journals', '0-of-1');
    const lines = readFileSync(journal, 'utf8').trimEnd().split('\n');
    const forged = lines.map((line) =>
      journalLine(line.slice(9).replace('"logged":{', '"logged":{"collapse/x\\u001b[2J":1,')),
    );
    writeFileSync(journal, Buffer.concat(forged));
    const { out, err } = await collapsar(['analyze', step, ...options, '--journals', place, '--metrics', '*x*']);
    expect(out).toContain('x\\u{1b}[2J');
    expect(out + err).not.toMatch(steering);
  });

  it('are shown escaped where a journal that someone left has them', async () => {
    const place = await made();
    const out = join(directory, 'journaled');
    mkdirSync(out);
    const options = measureOptions({ permutations: 0 });
    const withOptions = (others: object) =>
      JSON.stringify({ ...JSON.parse(journalHead(options)), measuring: { ...options, ...others } });
    for (const head of [journalHead(options, run), withOptions({ profile: run }), withOptions({ [run]: 1 })]) {
      writeFileSync(join(out, '.collapsar-journal'), journalLine(head));
      const { err } = await collapsar(['analyze', place, '--permutations', '0', '--out', out]);
      expect(err).toMatch(/but it (was of version|had other options:) .*all are measured anew/);
      expect(err).toContain('\\u{1b}]0;pwn');
      expect(err).not.toMatch(steering);
    }
  });

  it('are exact in JSON', async () => {
    const { out } = await collapsar(['analyze', await made(), '--jsonl', '--permutations', '0']);
    expect(recordsOf(out)[0]).toMatchObject({ run, file: join(directory, 'a\u001b[2J', '1.safetensors') });
  });
});

describe('wrong usage', () => {
  it.each([
    [['analyze'], 'PATH'],
    [['analyze', 'x', '--jason'], '--json'],
    [['analyze', 'x', '--profile', 'upstream'], 'strict, ragen'],
    [['analyze', 'x', '--threads', '0'], 'whole number from 1'],
    [['analyze', 'x', '--threads', 'many'], 'whole number'],
    [['analyze', 'x', '--permutations', '-1'], 'whole number from 0'],
    [['analyze', 'x', '--seed', '9007199254740992'], 'whole number from 0 to 9007199254740991'],
    [['analyze', 'x', '--seed', '1.5'], 'whole number'],
    [['analyze', 'x', '--metrics', ''], 'names or globs'],
    [['analyze', 'x', '--out', ''], 'path'],
    [['analyze', 'x', '--out', 's3://b/out'], 'Results go to a file system'],
    [['analyze', 'x', '--json', '--jsonl'], 'cannot be used with'],
    [['analyze', 'x', '--jsonl', '--markdown'], 'cannot be used with'],
    [['analyze', 'x', '--rows', '1'], 'all, or a whole number from 2 on'],
    [['analyze', 'x', '--fail-on', 'info'], 'critical, warning'],
    [['analyze', 'x', '--resume'], '--resume is about what is kept in the directory of --out'],
    [['analyze', 'x', '--no-resume'], '--no-resume is about'],
    [['analyze', 'x', '--keep-journal'], '--keep-journal is about'],
    [['analyze', 'x', '--out', 'y', '--resume', '--no-resume'], '--resume and --no-resume cannot be used together'],
    [['analyze', 'x', '--out', 'y', '--no-resume', '--resume'], '--resume and --no-resume cannot be used together'],
    [['analyse', 'x'], 'analyze'],
    [['doctor', 'extra'], 'too many arguments'],
    [[], 'analyze'],
  ])('%j ends with 2 and says what to do', async (args, hint) => {
    const { status, out, err } = await collapsar(args);
    expect(status).toBe(2);
    expect(out).toBe('');
    expect(err).toContain(hint);
    expect(err).toContain('--help');
  });

  it('a name that no metric has ends with 2 and lists those there are', async () => {
    const { status, err } = await collapsar([
      'analyze',
      healthy,
      '--metrics',
      'mi_estimte,mi_*',
      '--permutations',
      '0',
    ]);
    expect(status).toBe(2);
    expect(err).toContain('"mi_estimte"');
    expect(err).toContain('mi_estimate');
    expect(err).not.toContain('"mi_*"');
    // Names of bounds and p-values are said as endings, where the profile has them.
    expect(err.replace(/\s+/g, ' ')).toContain(
      'also end in _batch_low, _batch_high, _population_low, _population_high and _p_value.',
    );
    expect((await collapsar(['analyze', healthy, '--profile', 'ragen', '--metrics', 'mi'])).err).not.toContain(
      'also end',
    );
  });

  it('in --metrics is found before anything is read, or else writes nothing and keeps what was measured', async () => {
    const out = join(directory, 'mistyped-metrics');
    const command = (metrics: string) => [
      'analyze',
      healthy,
      '--out',
      out,
      '--permutations',
      '0',
      '--metrics',
      metrics,
    ];
    const early = await collapsar(command('mi_estimat'));
    expect(early).toMatchObject({
      status: 2,
      out: '',
      err: expect.stringContaining('"mi_estimat": no metric has such'),
    });
    expect(existsSync(out)).toBe(false);
    await collapsar(command('mi_estimate'));
    const before = readFileSync(join(out, 'summary.json'), 'utf8');
    // There are such, but not of these steps.
    const late = await collapsar([...command('sample_size'), '--jsonl']);
    expect(late).toMatchObject({ status: 2, err: expect.stringContaining('"sample_size": no metric of these steps') });
    expect(readFileSync(join(out, 'summary.json'), 'utf8')).toBe(before);
    expect((await collapsar(command('mi_estimate'))).err).toContain(': 51 steps that an earlier analysis measured');
  });

  it.each([[['--help']], [['analyze', '--help']], [['doctor', '--help']], [['--version']]])(
    '%j is none',
    async (args) => {
      const { status, out, err } = await collapsar(args);
      expect(status).toBe(0);
      expect(err).toBe('');
      expect(out).toMatch(args[0] === '--version' ? /^\d+\.\d+\.\d+\n$/ : /Usage: collapsar/);
    },
  );
});

describe('--out', () => {
  it('writes metrics, summary and failures, and nothing else', async () => {
    const run = await mixedRun('written');
    const out = join(directory, 'results', 'deep');
    const { status, out: printed } = await collapsar(['analyze', run, '--out', out, '--jsonl']);
    expect(status).toBe(1);
    expect(readdirSync(out).sort()).toEqual([
      '.collapsar-journal',
      'failures.jsonl',
      'matrices.parquet',
      'metrics.jsonl',
      'metrics.parquet',
      'prompts.parquet',
      'summary.json',
      'texts.parquet',
    ]);
    expect(readFileSync(join(out, 'metrics.jsonl'), 'utf8')).toBe(printed);
    const failures = recordsOf(readFileSync(join(out, 'failures.jsonl'), 'utf8'));
    expect(failures.map(({ file }) => file)).toEqual([4, 5, 6].map((step) => join(run, `${step}.safetensors`)));
    expect(failures[2]).toMatchObject({
      tensor: 'cross_logprobs',
      offset: expect.any(Number),
      message: expect.any(String),
    });
    const summary = JSON.parse(readFileSync(join(out, 'summary.json'), 'utf8'));
    expect(summary).toMatchObject({ profile: 'strict', steps: 3, failures: 3, seed: 0 });
    expect(summary.runs).toMatchObject([{ run: 'written', directory: run, steps: 3, firstStep: 1, lastStep: 3 }]);
    const key = 'collapse_first_turn_sample/mi_seq_estimate';
    const records = recordsOf(printed);
    expect(summary.runs[0].metrics[key]).toEqual({ first: records[0]?.[key], last: records[2]?.[key] });

    // A later analysis without failures leaves none of the earlier one's behind, and the same input gives the same
    // bytes.
    const good = [1, 2, 3].map((step) => join(run, `${step}.safetensors`));
    const again = () => collapsar(['analyze', ...good, '--out', out]);
    expect((await again()).status).toBe(0);
    expect(readdirSync(out).sort()).toEqual([
      'matrices.parquet',
      'metrics.jsonl',
      'metrics.parquet',
      'prompts.parquet',
      'summary.json',
      'texts.parquet',
    ]);
    const before = readFileSync(join(out, 'summary.json'), 'utf8');
    await again();
    expect(readFileSync(join(out, 'summary.json'), 'utf8')).toBe(before);
  });

  it('that cannot be written ends with 1 before anything is computed', async () => {
    const file = join(directory, 'a-file');
    writeFileSync(file, '');
    const { status, out, err } = await collapsar(['analyze', healthy, '--out', join(file, 'below')]);
    expect(status).toBe(1);
    expect(out).toBe('');
    expect(err).toContain('cannot write here');
  });

  it('that is a file says what to do', async () => {
    const file = join(directory, 'in-the-way');
    writeFileSync(file, '');
    const { status, err } = await collapsar(['analyze', healthy, '--out', file]);
    expect(status).toBe(1);
    expect(err).toContain(`${file}: cannot write here: a file is where a directory is needed: name another one`);
  });

  it.skipIf(process.getuid?.() === 0)('without rights ends with 1', async () => {
    const locked = join(directory, 'locked');
    mkdirSync(locked);
    chmodSync(locked, 0o500);
    const { status, err } = await collapsar(['analyze', healthy, '--out', locked]);
    expect(status).toBe(1);
    expect(err).toContain('EACCES');
  });

  it('stays as it was when the analysis is interrupted', async () => {
    const out = join(directory, 'interrupted');
    mkdirSync(out);
    writeFileSync(join(out, 'metrics.jsonl'), 'earlier\n');
    const ending = new AbortController();
    const printed = keeping({ onWrite: () => ending.abort(new Interrupted('SIGINT')) });
    const { status, err } = await collapsar(['analyze', healthy, '--out', out, '--jsonl'], {
      out: printed,
      signal: ending.signal,
    });
    expect(status).toBe(130);
    expect(err).toContain('interrupted');
    // What was measured stays for the next time, and nothing else.
    expect(readdirSync(out).sort()).toEqual(['.collapsar-journal', 'metrics.jsonl']);
    expect(readFileSync(join(out, 'metrics.jsonl'), 'utf8')).toBe('earlier\n');
  });

  it('stays as it was when no step is reported', async () => {
    const out = join(directory, 'none-reported');
    const contents = () =>
      Object.fromEntries(readdirSync(out).map((name) => [name, readFileSync(join(out, name), 'latin1')]));
    await collapsar(['analyze', healthy, '--out', out, '--permutations', '0']);
    const before = contents();
    const run = await mixedRun('none-good');
    for (const source of [join(directory, 'mistyped'), join(run, '5.safetensors')]) {
      expect(await collapsar(['analyze', source, '--out', out])).toMatchObject({ status: 1, out: '' });
      expect(contents()).toEqual(before);
    }
  });

  it('is finished even if nobody reads what is printed', async () => {
    const out = join(directory, 'unread');
    const printed = keeping({ onWrite: () => printed.close() });
    const { status } = await collapsar(['analyze', healthy, '--out', out, '--jsonl'], { out: printed });
    expect(status).toBe(0);
    expect(recordsOf(readFileSync(join(out, 'metrics.jsonl'), 'utf8'))).toHaveLength(51);
    expect(existsSync(join(out, 'summary.json'))).toBe(true);
  });
});

describe('a reader that has read enough', () => {
  it('ends the analysis quietly', async () => {
    const printed = keeping({ onWrite: () => printed.close() });
    const { status, out, err } = await collapsar(['analyze', exampleRuns, '--jsonl'], { out: printed });
    expect({ status, err }).toEqual({ status: 0, err: '' });
    expect(recordsOf(out)).toHaveLength(1);
  });
});

describe('progress', () => {
  it('is a bar on a terminal, gone before anything else is written there', async () => {
    const err = keeping({ isTTY: true, columns: 120 });
    const { out } = await collapsar(['analyze', exampleRuns, '--jsonl'], { err });
    expect(recordsOf(out)).toHaveLength(153);
    for (const piece of err.pieces) expect(piece.startsWith('\r\u001b[K')).toBe(true);
    expect(err.pieces.at(-1) ?? '\r\u001b[K').toBe('\r\u001b[K');
  });

  it('is nothing with --quiet', async () => {
    const err = keeping({ isTTY: true, columns: 120 });
    await collapsar(['analyze', exampleRuns, '--jsonl', '--quiet'], { err });
    expect(err.text).toBe('');
  });
});
