// What follows from the folders of the readers: the registry and two tables of the guide. With -u they are written.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { packageRoot as root } from '../../../src/checks/package-root.js';
import type { RolloutFormat } from '../../../src/logs/rollouts/format.js';

const FOLDER = join(root, 'src/logs/rollouts/formats');
const names = readdirSync(FOLDER, { withFileTypes: true })
  .filter((entry) => entry.isDirectory())
  .map(({ name }) => name)
  .sort();
const readers: readonly RolloutFormat[] = await Promise.all(
  names.map(async (name) => (await import(join(FOLDER, name, 'reader.ts'))).reader),
);
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

  it('are rows of the tables of docs/guide/from-logs.md', async () => {
    const path = join(root, 'docs/guide/from-logs.md');
    const row = (...cells: string[]): string => `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |\n`;
    let page = readFileSync(path, 'utf8');
    const table = (heading: string, rows: readonly string[]): void => {
      const parts = page.split(new RegExp(`(?<=^\\| reader \\| ${heading} \\|.*\n.*\n)(?:\\|.*\n)+`, 'm'));
      expect(parts, `a table with the heading "| reader | ${heading} |"`).toHaveLength(2);
      page = parts.join(rows.join(''));
    };
    table(
      'what makes the trainer write it',
      readers.map(({ name, setting, gives }) => row(`\`${name}\``, setting, gives)),
    );
    table(
      'environment',
      readers.flatMap(({ name, environment }) => (environment === undefined ? [] : row(`\`${name}\``, environment))),
    );
    await expect(page, ADVICE).toMatchFileSnapshot(path);
  });
});
