// What follows from the folders of the readers: the registry and two tables of the guide. With -u they are written.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { packageRoot as root } from '../../../src/checks/package-root.js';
import { TEXT_COLUMNS } from '../../../src/engine/operations/texts/text-rows.js';
import { COLUMNS } from '../../../src/logs/rollouts/columns.js';
import type { RolloutFormat } from '../../../src/logs/rollouts/format.js';
import { LOG_COLUMN_NAMES } from '../../../src/metrics/figures/log-columns.js';

const FOLDER = join(root, 'src/logs/rollouts/formats');
const names = readdirSync(FOLDER, { withFileTypes: true })
  .filter((entry) => entry.isDirectory())
  .map(({ name }) => name)
  .sort();
const readers: readonly RolloutFormat[] = await Promise.all(
  names.map(async (name) => (await import(join(FOLDER, name, 'reader.ts'))).reader),
);
const GUIDE = join(root, 'docs/guide/from-logs.md');

const row = (...cells: string[]): string => `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |\n`;

/** The page with these rows in the table of that heading. */
function withTable(page: string, heading: string, rows: readonly string[]): string {
  const words = heading.replaceAll('|', '\\|');
  const parts = page.split(new RegExp(`(?<=^\\| ${words} \\|.*\n.*\n)(?:\\|.*\n)+`, 'm'));
  expect(parts, `a table with the heading "| ${heading} |"`).toHaveLength(2);
  return parts.join(rows.join(''));
}

const ADVICE = 'npx vitest run test/logs/rollouts/readers.test.ts -u writes it';

describe('the readers of rollout logs', () => {
  it('bear the names of their folders', () => {
    expect(readers.map((reader) => reader?.name)).toEqual(names);
  });

  it('are in the registry', async () => {
    const camel = (name: string): string => name.replace(/-(\w)/g, (_, letter: string) => letter.toUpperCase());
    const imports = names.map((name) => `import { reader as ${camel(name)} } from './${name}/reader.js';\n`);
    const registry = `// Every reader of rollouts, a folder each. Written by \`npx vitest run test/logs/rollouts/readers.test.ts -u\`.
import type { RolloutFormat } from '../format.js';
${imports.join('')}
export const FORMATS: readonly RolloutFormat[] = [
${names.map((name) => `  ${camel(name)},\n`).join('')}];
`;
    await expect(registry, ADVICE).toMatchFileSnapshot(join(FOLDER, 'index.ts'));
  });

  it('are rows of the tables of docs/guide/from-logs.md, as the columns that can be mapped are', async () => {
    let page = readFileSync(GUIDE, 'utf8');
    page = withTable(
      page,
      'reader | what makes the trainer write it',
      readers.map(({ name, setting, gives }) => row(`\`${name}\``, setting, gives)),
    );
    page = withTable(
      page,
      'reader | environment',
      readers.flatMap(({ name, environment }) => (environment === undefined ? [] : row(`\`${name}\``, environment))),
    );
    const rows = Object.values<{ words: string; own?: string; note?: string }>(COLUMNS).flatMap(
      ({ own, words, note }) => (own === undefined ? [] : row(`\`${own}\``, note ? `${words}: ${note}` : words)),
    );
    page = withTable(page, 'column | what it is', rows);
    await expect(page, ADVICE).toMatchFileSnapshot(GUIDE);
  });
});

describe('the columns of rollouts', () => {
  it('that stand beside texts are known to the figures, and the sidecar’s page names what it takes', () => {
    const beside = Object.values(COLUMNS).flatMap((column) => ('beside' in column ? [column.beside as string] : []));
    expect(beside.sort()).toEqual([...LOG_COLUMN_NAMES].sort());
    const page = readFileSync(join(root, 'docs/reference/sidecar.md'), 'utf8');
    const [, named = ''] = /`rows`: `\{ (.*?) \}`/.exec(page) ?? [];
    const names = named.split(/, | \\\| /).map((name) => name.replace('?', ''));
    expect(names.sort()).toEqual([...TEXT_COLUMNS, ...LOG_COLUMN_NAMES, 'environments'].sort());
  });
});
