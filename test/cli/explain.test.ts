// `collapsar explain`: every metric, verdict and state has its words, and the pages say the same.
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { possibleKeys } from '../../src/analysis/measuring/metric-names.js';
import { FILTER_EXPLANATIONS } from '../../src/filter/explanations.js';
import { METRIC_EXPLANATIONS } from '../../src/metrics/reporting/explanations.js';
import { RECORD_PARTS } from '../../src/step/step-record.js';
import { REGIME_EXPLANATIONS, VERDICT_EXPLANATIONS } from '../../src/verdicts/explanations.js';
import { collapsar } from './cli-streams.js';

const page = (name: string): string => readFileSync(new URL(`../../docs/reference/${name}`, import.meta.url), 'utf8');

const explained = async (name: string): Promise<string> => {
  const { status, out, err } = await collapsar(['explain', name]);
  expect({ status, err }, name).toEqual({ status: 0, err: '' });
  return out.replace(/\s+/g, ' ');
};

describe('explain', () => {
  const keys = [...new Set([...possibleKeys('strict'), ...possibleKeys('ragen')])].filter(
    (key) => !RECORD_PARTS.includes(key as (typeof RECORD_PARTS)[number]),
  );

  it('has every metric that an analysis can log, with what it is, its formula and how to read it', async () => {
    expect(keys.length).toBeGreaterThan(300);
    for (const key of keys) expect(await explained(key), key).toMatch(/\(metric\) .+ Formula: .+ Read: .+ More: docs/);
  });

  it('has every kind of verdict, with its rule and what to do', async () => {
    for (const [kind, { rule, advice }] of Object.entries(VERDICT_EXPLANATIONS)) {
      const text = await explained(kind);
      expect(text).toContain(`Rule: ${rule}. Do: ${advice}`);
      expect(await explained(kind.replaceAll('_', ' '))).toBe(text);
    }
  });

  it('has every state, and its letter', async () => {
    for (const [letter, name] of Object.entries({ D: 'diverse', T: 'template_collapse', C: 'compressed' }))
      expect(await explained(letter)).toBe(await explained(name));
    for (const text of Object.values(REGIME_EXPLANATIONS)) expect(await explained('state')).toContain(text);
  });

  it.each(['MI', 'H(Z|X)', 'retrieval', 'chance', 'p', 'p(MI)', '?', '95% batch', 'z', 'rows', 'filter'])(
    'has the word %s of the tables',
    async (word) => {
      expect(await explained(word)).toMatch(/^\S/);
    },
  );

  it('lists all names without one', async () => {
    const { status, out } = await collapsar(['explain']);
    expect(status).toBe(0);
    for (const name of [...Object.keys(VERDICT_EXPLANATIONS), 'mi_seq_estimate', 'rollout/filter_gate'])
      expect(out).toContain(name);
    expect(out.split('\n').filter((line) => line.length > 80)).toEqual([]);
  });

  it('of a name that nothing has gives the nearest ones, and ends with 2', async () => {
    expect(await collapsar(['explain', 'template_colapse'])).toMatchObject({
      status: 2,
      out: '',
      err: expect.stringContaining('Did you mean template_collapse?'),
    });
    const { err } = await collapsar(['explain', 'xyzzy']);
    expect(err).not.toContain('Did you mean');
    expect(err).toContain('collapsar explain');
  });

  it('is plain ASCII where the locale is', async () => {
    for (const args of [['explain'], ...METRIC_EXPLANATIONS.map(({ keys: [key] }) => ['explain', key as string])])
      expect((await collapsar(args, { environment: { LC_ALL: 'C' } })).out).not.toMatch(/[^ -~\n]/);
  });
});

describe('the pages say what explain says', () => {
  it('docs/reference/filter.md: every key', () => {
    const text = page('filter.md');
    // a{b,c} stands for ab and ac, chosen_… for the same with this in front.
    const named = [...text.matchAll(/`((?:rollout|reward_variance_filtering)\/[^`]*)`/g)].flatMap(([, name = '']) => {
      const [, before = '', choices = '', after = ''] = /^(.*)\{(.*)\}(.*)$/.exec(name) ?? [];
      return choices === '' ? [name] : choices.split(',').map((choice) => before + choice + after);
    });
    for (const { keys } of FILTER_EXPLANATIONS)
      for (const key of keys)
        expect([...named], key).toContain(key.replace('/chosen_in_group_reward', '/in_group_reward'));
  });

  it('docs/reference/verdicts.md: every kind, its rule and its advice', async () => {
    const cell = (text: string): string => text.replaceAll('|', '\\|');
    const rows = Object.entries(VERDICT_EXPLANATIONS).map(([kind, { severity, definition, rule, advice }]) =>
      ['', `\`${kind}\``, ...[severity, definition, rule, advice].map(cell), ''].join(' | ').trim(),
    );
    const path = fileURLToPath(new URL('../../docs/reference/verdicts.md', import.meta.url));
    const page = readFileSync(path, 'utf8');
    const [head = '', table = ''] = page.split(/(?<=^\| kind \| severity \|.*\n.*\n)/m);
    const rest = table.replace(/^(\|.*\n)+/, '');
    expect(rest.length).toBeLessThan(table.length);
    await expect(`${head}${rows.join('\n')}\n${rest}`, 'npm run docs:write writes it').toMatchFileSnapshot(path);
  });
});
