// Making a directory that others make at the same time, and one that cannot be made.
import { statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { expect, it, vi } from 'vitest';
import { makeDirectory } from '../../src/analysis/results/make-directory.js';
import { FileError } from '../../src/checks/errors.js';
import { temporaryDirectory } from '../support/temporary-directory.js';

// Another process makes what is above `raced` right after it was missing.
vi.mock('node:fs/promises', async (original) => {
  const actual = await original<typeof import('node:fs/promises')>();
  const mkdir = async (path: string) => {
    try {
      return await actual.mkdir(path);
    } catch (error) {
      if (path.endsWith('raced')) await actual.mkdir(dirname(path), { recursive: true });
      throw error;
    }
  };
  return { ...actual, mkdir };
});

const directory = temporaryDirectory();

it.each(['shards', 'raced'])('makes what is above %s too, however many do so at a time', async (name) => {
  for (let round = 0; round < 30; round++) {
    const wanted = join(directory, `${name}-${round}`, 'states', name);
    await Promise.all(Array.from({ length: 6 }, () => makeDirectory(wanted)));
    expect(statSync(wanted).isDirectory()).toBe(true);
  }
});

it.skipIf(process.platform !== 'linux')('gives up where no directory can be', async () => {
  await expect(makeDirectory('/proc/collapsar/states')).rejects.toThrow(FileError);
});
