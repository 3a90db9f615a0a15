// What users can name stays small enough to be looked through: limits on exports, commands and lines of options.
import { beforeAll, describe, expect, it } from 'vitest';
import { commandOptions, exportedNames } from '../../scripts/surface.mjs';
import { buildIfStale } from '../support/built-command.js';

const MOST = { exports: 200, commands: 13, options: 190 };

const totalOf = (counted: Map<string, readonly string[]>): number =>
  [...counted.values()].reduce((sum, names) => sum + names.length, 0);

describe('the public surface', () => {
  beforeAll(buildIfStale, 300_000);

  it('has few enough commands and options to be read', () => {
    const options = commandOptions();
    expect(options.get('analyze')).toContain('--profile');
    expect(options.size).toBeLessThanOrEqual(MOST.commands);
    expect(totalOf(options)).toBeLessThanOrEqual(MOST.options);
  });

  it('has few enough exports to be looked through', () => {
    const exports = exportedNames();
    expect(exports.get('src/index.ts')).toContain('Monitor');
    expect(totalOf(exports)).toBeLessThanOrEqual(MOST.exports);
  });
});
