// How much is loaded by who imports the package, or asks the command for its help: modules are counted, as times are the
// machine's.
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { beforeAll, describe, expect, it } from 'vitest';
import { buildIfStale, builtCommand } from '../support/built-command.js';
import { temporaryDirectory } from '../support/temporary-directory.js';

const dist = fileURLToPath(new URL('../../dist/', import.meta.url));
const folder = temporaryDirectory();

/** Sources that are loaded when these words are given to node, in their order: a chunk of dist/ names its own. */
function loadedBy(...words: string[]): string[] {
  const coverage = mkdtempSync(join(folder, 'coverage-'));
  execFileSync(process.execPath, words, { env: { ...process.env, NODE_V8_COVERAGE: coverage } });
  const [report] = readdirSync(coverage);
  const { result } = JSON.parse(readFileSync(join(coverage, report as string), 'utf8')) as {
    result: readonly { readonly url: string }[];
  };
  const files = result.map(({ url }) => url).filter((url) => url.startsWith('file:'));
  return files.flatMap((url) => {
    const path = fileURLToPath(url);
    if (!path.startsWith(dist)) return [path];
    return [...readFileSync(path, 'utf8').matchAll(/^\/\/ ([\w/.-]+\.js)$/gm)].map(([, source]) => source as string);
  });
}

const importing = (entry: string): string[] => loadedBy('--input-type=module', '-e', `import '${dist}${entry}'`);

describe('what is loaded', () => {
  beforeAll(buildIfStale, 300_000);

  it('is for a trainer what it trains with, and no more', () => {
    const sources = importing('index.js');
    expect(sources).toContain('monitor/monitor.js');
    expect(sources[200], 'the first source too many').toBeUndefined();
    const late = /^(analysis|cluster|report|scoring|serve|sinks|logs\/(?!rollouts\/logged-text))\b/;
    expect(sources.filter((source) => late.test(source))).toEqual([]);
  });

  it('is for the filter alone a fraction of that', () => {
    const sources = importing('exports/filter.js');
    expect(sources).toContain('filter/filter-groups.js');
    expect(sources[60], 'the first source too many').toBeUndefined();
  });

  it('is for the list of commands none of them', () => {
    const sources = loadedBy(builtCommand, '--help');
    expect(sources).toContain('cli/program.js');
    expect(sources.filter((source) => source.startsWith('cli/commands/'))).toEqual([]);
    const own = sources.filter((source) => !source.includes('node_modules'));
    expect(own[20], 'the first source too many').toBeUndefined();
  });

  it('is by the subpaths no part of the command', () => {
    for (const level of readdirSync(join(dist, 'exports')).filter((name) => name.endsWith('.js'))) {
      const sources = importing(`exports/${level}`);
      expect(sources.length, level).toBeGreaterThan(0);
      expect(sources.filter((source) => source.startsWith('cli/'))).toEqual([]);
    }
  });
});
