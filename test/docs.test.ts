// The pages and the package say the same: every export is in docs/api.md, every option of the command line in its pages.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import * as collapsar from '../src/index.js';
import { collapsar as command } from './cli-streams.js';

const docs = fileURLToPath(new URL('../docs', import.meta.url));
const read = (page: string): string => readFileSync(join(docs, page), 'utf8');

describe('docs/api.md', () => {
  const page = read('api.md');
  const named = new Set([...page.matchAll(/`([A-Za-z]+)`/g)].map(([, name]) => name as string));

  it('names every export', () => {
    expect(Object.keys(collapsar).filter((name) => !named.has(name))).toEqual([]);
  });

  it('names every method of the engine', () => {
    const methods = Object.getOwnPropertyNames(collapsar.Engine.prototype).filter((name) => name !== 'constructor');
    expect(methods.filter((name) => !named.has(name) && name !== 'info')).toEqual([]);
  });

  it('names nothing that is not there', () => {
    const rows = [...page.matchAll(/^\| ((?:`[A-Za-z]+`(?:, )?)+) \|/gm)].flatMap(([, names]) =>
      (names as string).split(', '),
    );
    const exports = rows.map((name) => name.slice(1, -1)).filter((name) => /^[a-z]+[A-Z]|^[A-Z]/.test(name));
    expect(exports.length).toBeGreaterThan(40);
    expect(exports.filter((name) => !(name in collapsar))).toEqual([]);
  });

  it('links to headings that are there', () => {
    for (const file of readdirSync(docs).filter((name) => name.endsWith('.md'))) {
      for (const [, target, heading] of read(file).matchAll(/\]\(([a-z-]*\.md)?#([^)]+)\)/g)) {
        const anchors = [...read(target ?? file).matchAll(/^#+ (.+)$/gm)].map(([, text]) => anchorOf(text as string));
        expect(anchors, `${file} links to ${target ?? file}#${heading}`).toContain(heading);
      }
    }
  });
});

/** As GitHub makes them of headings. */
function anchorOf(heading: string): string {
  return heading
    .toLowerCase()
    .replace(/[^\p{L}\p{N} _-]/gu, '')
    .replaceAll(' ', '-');
}

describe('the command', () => {
  const pages: [command: string, pages: string[]][] = [
    ['analyze', ['cli.md']],
    ['plan', ['shards.md']],
    ['map', ['shards.md']],
    ['merge', ['shards.md']],
    ['finalize', ['shards.md']],
    ['submit', ['terabytes.md']],
    ['filter', ['filter.md']],
    ['plan-scores', ['cli.md']],
    ['doctor', ['cli.md']],
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
