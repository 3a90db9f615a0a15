// The pages and the package say the same: every export is in docs/reference/api.md, every option of the command line in
// its pages.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import * as collapsar from '../../src/index.js';
import { collapsar as command } from '../cli/cli-streams.js';
import { levels } from '../support/package-levels.js';

const root = fileURLToPath(new URL('../..', import.meta.url));
const docs = join(root, 'docs');
const read = (page: string): string => readFileSync(join(docs, page), 'utf8');

describe('docs/reference/api.md', () => {
  const page = read('reference/api.md');
  const named = new Set([...page.matchAll(/`([A-Za-z]+)`/g)].map(([, name]) => name as string));
  const everything = Object.assign({}, collapsar, ...Object.values(levels)) as Record<string, unknown>;

  /** The first cells of tables: the names of functions and classes. */
  const rowsOf = (section: string): string[] =>
    [...section.matchAll(/^\| ((?:`[A-Za-z]+`(?:, )?)+) \|/gm)]
      .flatMap(([, names]) => (names as string).split(', '))
      .map((name) => name.slice(1, -1))
      .filter((name) => /[A-Z]/.test(name) || name in everything);

  it('names every export', () => {
    expect(Object.keys(everything).filter((name) => !named.has(name))).toEqual([]);
  });

  it.each(Object.entries(levels))('has the exports of %s under its heading', (level, module) => {
    const section = page.split(/^## /m).find((text) => text.startsWith(`\`${level}\``)) ?? '';
    const names = rowsOf(section).filter((name) => name in module || !(name in collapsar));
    const own = Object.keys(module).filter((name) => !(name in collapsar) || name === 'filterGroups');
    expect(names.sort()).toEqual(own.sort());
  });

  it('names every method of the engine', () => {
    const methods = Object.getOwnPropertyNames(collapsar.Engine.prototype).filter((name) => name !== 'constructor');
    expect(methods.filter((name) => !named.has(name) && name !== 'info')).toEqual([]);
  });

  it('names nothing that is not there', () => {
    const names = rowsOf(page);
    expect(names.length).toBeGreaterThan(40);
    expect(names.filter((name) => !(name in everything))).toEqual([]);
  });

  it('links to headings that are there', () => {
    for (const file of readdirSync(docs, { encoding: 'utf8', recursive: true }).filter((name) =>
      name.endsWith('.md'),
    )) {
      for (const [, target, heading] of read(file).matchAll(/\]\(([a-z./-]*\.md)?#([^)]+)\)/g)) {
        const aimed = target === undefined ? file : join(dirname(file), target);
        const anchors = [...read(aimed).matchAll(/^#+ (.+)$/gm)].map(([, text]) => anchorOf(text as string));
        expect(anchors, `${file} links to ${aimed}#${heading}`).toContain(heading);
      }
    }
  });
});

describe('links', () => {
  const { files } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { files: string[] };
  const packed = ['package.json', 'README.md', 'LICENSE', ...files.filter((entry) => !entry.startsWith('!'))];
  const isIn = (path: string, entries: string[]): boolean =>
    entries.some((entry) => path === entry || path.startsWith(`${entry}/`));
  const isPacked = (path: string): boolean =>
    isIn(path, packed) &&
    !isIn(
      path,
      files.filter((entry) => entry.startsWith('!')).map((entry) => entry.slice(1)),
    );
  const pages = [
    'README.md',
    'CHANGELOG.md',
    ...[docs, join(root, 'examples'), join(root, 'engines')].flatMap((folder) =>
      readdirSync(folder, { recursive: true, encoding: 'utf8' })
        .filter((name) => name.endsWith('.md'))
        .map((name) => relative(root, join(folder, name))),
    ),
  ];

  it.each(pages)('of %s lead to what is in the package', (page) => {
    const targets = [...readFileSync(join(root, page), 'utf8').matchAll(/\]\(([^)#\s]+)(?:#[^)]*)?\)/g)]
      .map(([, target]) => target as string)
      .filter((target) => !/^[a-z]+:/.test(target))
      .map((target) => relative(root, resolve(root, page, '..', target)));
    expect(targets.filter((path) => !existsSync(join(root, path)) || !isPacked(path))).toEqual([]);
  });
});

/** As GitHub makes them of headings. */
function anchorOf(heading: string): string {
  return heading
    .toLowerCase()
    .replace(/[^\p{L}\p{N} _-]/gu, '')
    .replaceAll(' ', '-');
}

describe('docs/internals/architecture.md', () => {
  it('says of each new thing at most three files to write by hand, all in places that are there', () => {
    const section = read('internals/architecture.md').split('## Where something new goes')[1] ?? '';
    const rows = section.split('\n').filter((line) => line.startsWith('| a'));
    expect(rows.length).toBeGreaterThan(5);
    const bases = ['', 'src'].map((base) => join(root, base));
    for (const row of rows) {
      const paths = [...row.matchAll(/`([\w./-]+\/[\w.-]*)`/g)].map(([, path]) => path as string);
      expect(paths.length, row).toBeGreaterThan(1);
      const lost = paths.filter((path) => !bases.some((base) => existsSync(join(base, path))));
      expect(lost, row).toEqual([]);
    }
    for (const what of ['metric', 'verdict', 'format of step files']) {
      const row = rows.find((line) => line.includes(`**${what}**`)) ?? '';
      expect([...row.matchAll(/`[\w./-]+\/[\w.-]*`/g)].length, what).toBeLessThanOrEqual(3);
    }
  });
});

describe('the command', () => {
  const pages: [command: string, pages: string[]][] = [
    ['analyze', ['reference/cli.md', 'guide/shards.md']],
    ['submit', ['guide/terabytes.md']],
    ['filter', ['reference/filter.md']],
    ['plan-scores', ['reference/cli.md']],
    ['monitor', ['reference/sidecar.md']],
    ['score', ['guide/scoring.md']],
    ['explain', ['reference/cli.md']],
    ['report', ['reference/cli.md']],
    ['watch', ['reference/cli.md']],
    ['serve', ['reference/cli.md']],
    ['formats', ['reference/cli.md']],
    ['doctor', ['reference/cli.md']],
  ];

  it.each(pages)('%s: every option is in %s', async (name, files) => {
    const { out } = await command([name, '--help']);
    const options = [...out.matchAll(/^ +(?:-\w, )?(--[a-z-]+)/gm)].map(([, option]) => option as string);
    expect(options).toContain('--help');
    const text = files.map(read).join('\n');
    const undocumented = options.filter((option) => option !== '--help' && !new RegExp(`${option}\\b(?!-)`).test(text));
    expect(undocumented).toEqual([]);
  });
});

describe('docs/reference/filter.md', () => {
  it('names every field of --json, and none that is not there', async () => {
    const { out } = await command(['filter', 'examples/data/collapse/step_00001.safetensors', '--json']);
    const sentence =
      /`--json` prints one object with ([\s\S]*?)\. Warnings/.exec(read('reference/filter.md'))?.[1] ?? '';
    const named = [...sentence.matchAll(/`([a-z_]+)`/g)].map(([, name]) => name as string);
    const found = JSON.parse(out) as { groups: object[] };
    const fields = [...Object.keys(found), ...Object.keys(found.groups[0] ?? {}).filter((name) => name !== 'group')];
    expect(named.filter((name) => name !== 'dapo').sort()).toEqual(fields.sort());
  });
});

describe('README.md shows what is in the shipped run', () => {
  const page = readFileSync(join(root, 'README.md'), 'utf8');

  it('how the task went before the collapse and after', async () => {
    const rates: [number[], number[]] = [[], []];
    for await (const { step, correct } of collapsar.readSteps(join(root, 'examples/data/collapse'))) {
      const flags = correct as Uint8Array;
      rates[step < 136 ? 0 : 1].push(flags.reduce((sum, flag) => sum + flag, 0) / flags.length);
    }
    const [before, after] = rates.map((all) => (all.reduce((sum, rate) => sum + rate, 0) / all.length).toFixed(2));
    expect(page.replaceAll('\n', ' ')).toContain(`(${before} on average before step 136, ${after} after)`);
  });
});

describe('docs/guide/terabytes.md', () => {
  const page = read('guide/terabytes.md');
  /** The last cell of the row that begins so, of the model's two tables. */
  const cell = (start: string): string => {
    const row = page.split('\n').find((line) => line.startsWith(`| ${start} |`) || line.startsWith(`| ${start},`));
    return row?.split(' | ').at(-1)?.replace(/ \|$/, '') as string;
  };
  const number = (start: string): number => Number.parseFloat(cell(start));

  it('rests on a result that is stored', () => {
    const [, name] = /`(bench\/results\/[^`]+)`/.exec(page) ?? [];
    const { throughput } = JSON.parse(readFileSync(join(root, name as string), 'utf8'));
    const { bytes, seconds, share } = throughput[0] as {
      bytes: number;
      seconds: { analyze: number[] };
      share: number;
    };
    const median = seconds.analyze.toSorted((a, b) => a - b)[seconds.analyze.length >> 1] as number;
    expect(cell('r')).toBe(`${(bytes / median / 1e9).toFixed(2)} GB/s (2 cores)`);
    expect(number('s')).toBeCloseTo(share, 2);
  });

  it('computes the petabyte from it', () => {
    const [rate, start] = [number('e') * number('r') * 1e9, number('o')];
    const perStep = 1.6e-4;
    const steps = Math.ceil(1e15 / 134_224_256);
    expect(cell('steps')).toBe(steps.toLocaleString('en'));
    const [large, small] = [2 ** 36, 2 ** 31].map((size) => Math.floor(size / 134_224_256) * 134_224_256) as [
      number,
      number,
    ];
    expect(number('workers for a day')).toBe(Math.ceil(1e15 / 86_400 / rate));
    const share = (seconds: number, bytes: number) => (seconds * rate * 100) / bytes;
    expect(number('overhead of starting tasks')).toBeCloseTo(share(start + 1e4 * perStep, large), 1);
    expect(number('the same in shards of 2 GiB')).toBe(Math.round(share(start + 1e4 * perStep, small)));
    expect(number('the same in shards of 64 GiB')).toBe(Math.round(share(start + steps * perStep, large)));
    expect(number('scheduling of tasks')).toBeCloseTo(share(1, large), 1);
    expect(number('core-hours of shards')).toBe(Math.round((1e15 / rate / 3600) * 2));
    expect(number('journals on disk')).toBe(Math.round((steps * Number(cell('b').replace(',', ''))) / 1e9));
    expect(number('results')).toBeCloseTo(steps / number('f') / 3600, 1);
  });
});
