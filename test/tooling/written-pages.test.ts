// Pages say what the code says: rows of figures, parts of a record, options and printed screens are compared with it.
// `npm run docs:write` writes them.
import { describe, expect, it } from 'vitest';
import type { NamedFigure } from '../../src/metrics/figures/figure.js';
import { SCORE_FIGURES } from '../../src/metrics/figures/score-figures.js';
import { ALL_SCORE_FIGURES, METRIC_EXPLANATIONS, TEXT_EXPLANATIONS } from '../../src/metrics/reporting/explanations.js';
import { PART_WORDS, RECORD_PARTS } from '../../src/step/step-record.js';
import { collapsar } from '../cli/cli-streams.js';
import { pathOf, readPage, row, WRITE, withListing, withRows } from '../support/written-pages.js';

const expectWritten = (page: string, text: string): Promise<void> =>
  expect(text, WRITE).toMatchFileSnapshot(pathOf(page));

async function printed(...args: string[]): Promise<string> {
  const { status, out, err } = await collapsar(args);
  expect({ status, err: err.replace(/.*\r/g, '') }, args.join(' ')).toMatchObject({ status: 0 });
  return out;
}

/** Every key that can stand in a sentence about figures. */
const KEYS = new Set([...METRIC_EXPLANATIONS, ...TEXT_EXPLANATIONS].flatMap(({ keys }) => keys));

/** Words of an explanation in a page of docs/reference: keys as code, places as links. */
const inPage = (text: string): string =>
  text
    .replace(/[\w@<>]+/g, (word) => (KEYS.has(word) && word.includes('_') ? `\`${word}\`` : word))
    .replace(/\bdependence_lower\b/g, '[`dependence_lower`](verdicts.md#a-certain-fall)')
    .replace(/\barXiv (\d+\.\d+)/g, '[arXiv $1](https://arxiv.org/abs/$1)')
    .replace(
      /docs\/(\w+)\/([\w-]+\.md)/g,
      (_, folder, name) => `[${name}](${folder === 'reference' ? '' : `../${folder}/`}${name})`,
    );

/** Rows of figures, a row for those that are explained together. */
function rowsOf(explanations: typeof METRIC_EXPLANATIONS): string[] {
  return explanations.map(({ keys, definition, formula, advice }) =>
    row(keys.map((key) => `\`${key}\``).join(', '), ...[definition, formula, advice].map(inPage)),
  );
}

/** Of a group of figures: which profile has them. */
function profileOf(keys: readonly string[]): 'both' | 'strict' | 'ragen' {
  const [first = ''] = keys;
  if (first.startsWith('collapse/')) return 'both';
  const entry = SCORE_FIGURES.find(({ key }) => key.replace(/@\d+$/, '@k') === first);
  return entry === undefined ? 'strict' : (entry.profile ?? 'both');
}

describe('pages that are written from code', () => {
  it('docs/reference/metrics.md: the keys of both profiles and of each', async () => {
    const tables = { both: 'figures of both profiles', strict: 'figures of `strict`', ragen: 'figures of `ragen`' };
    const named = METRIC_EXPLANATIONS.filter(({ keys: [key] }) => !key?.startsWith('<key>'));
    let page = readPage('docs/reference/metrics.md');
    for (const [profile, heading] of Object.entries(tables)) {
      const rows = rowsOf(named.filter(({ keys }) => profileOf(keys) === profile));
      expect(rows.length).toBeGreaterThan(2);
      page = withRows(page, `| ${heading} | what it is | formula | how to read it |`, rows);
    }
    await expectWritten('docs/reference/metrics.md', page);
    const missing = (ALL_SCORE_FIGURES as readonly NamedFigure[]).filter(
      ({ key }) => !page.includes(`\`${key.replace(/@\d+$/, '@k')}\``),
    );
    expect(missing).toEqual([]);
  });

  it('docs/reference/text-figures.md: the keys of texts', async () => {
    const page = withRows(
      readPage('docs/reference/text-figures.md'),
      '| figures of texts | what it is | formula | how to read it |',
      rowsOf(TEXT_EXPLANATIONS),
    );
    await expectWritten('docs/reference/text-figures.md', page);
  });

  it('docs/reference/cli.md: the parts of a record, and what commands print', async () => {
    let page = readPage('docs/reference/cli.md');
    const parts = Object.entries(PART_WORDS).map(([part, words]) =>
      row(`\`${part}\``, words.replace(/\bdocs\/reference\/([\w-]+)\.md/g, '[$1.md]($1.md)')),
    );
    page = withRows(page, '| part of a record | |', parts);
    const names = RECORD_PARTS.map((part) => `\`${part}\``);
    const selected = `${names.slice(0, -1).join(', ')} and ${names.at(-1)}`;
    const sentence = /(?<=`--metrics` can also select )[^;]*?(?=, by these names)/;
    expect(page).toMatch(sentence);
    page = page.replace(sentence, () => selected);
    const folder = 'examples/data/collapse';
    page = withListing(page, `$ collapsar analyze ${folder}`, await printed('analyze', folder));
    page = withListing(page, '$ collapsar explain MI', await printed('explain', 'MI'));
    const chosen = ['--jsonl', '--metrics', 'mi_seq_estimate*,retrieval_accuracy'];
    const record = JSON.parse(await printed('analyze', `${folder}/step_00001.safetensors`, ...chosen));
    const start = `$ collapsar analyze ${folder} --jsonl --metrics '${chosen[2]}' | head -n 1`;
    page = withListing(page, start, JSON.stringify(record, null, 2));
    await expectWritten('docs/reference/cli.md', page);
  });

  it('docs/reference/options.md: what --help prints of every command', async () => {
    const help = await printed('--help');
    const names = [...help.matchAll(/^ {2}([a-z-]+) .*/gm)]
      .map(([, name]) => name as string)
      .filter((name) => name !== 'help');
    expect(names).toEqual(expect.arrayContaining(['analyze', 'filter', 'doctor']));
    const sections = ['', ...names].map(async (name) => {
      const text = await printed(...(name === '' ? [] : [name]), '--help');
      const heading = name === '' ? 'collapsar' : `collapsar ${name}`;
      return `## \`${heading}\`\n\n\`\`\`console\n$ ${heading} --help\n${text.trimEnd()}\n\`\`\`\n`;
    });
    // What users can name stays small enough to be looked through.
    expect(names.length).toBeLessThanOrEqual(13);
    const options = (await Promise.all(sections.slice(1))).flatMap((section) => section.match(/^ {2}-/gm) ?? []);
    expect(options.length).toBeLessThanOrEqual(190);
    const head = readPage('docs/reference/options.md').split(/^## /m)[0] as string;
    await expectWritten('docs/reference/options.md', head + (await Promise.all(sections)).join('\n'));
  });

  it('README.md: the screen of the first command, in 80 columns', async () => {
    const page = readPage('README.md');
    expect(page).toContain('npx collapsar analyze examples/data ');
    const screen = (await printed('analyze', 'examples/data', '--quiet')).trimEnd();
    const lines = screen.split('\n');
    expect(lines.length).toBeLessThanOrEqual(40);
    expect(lines.filter((line) => [...line].length > 80)).toEqual([]);
    const shown = /^ {4}run [\s\S]*?(?=\n```)/m;
    expect(page).toMatch(shown);
    await expectWritten(
      'README.md',
      page.replace(shown, () => screen),
    );
  });
});
