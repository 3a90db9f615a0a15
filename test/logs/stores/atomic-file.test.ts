// A file that is whole or not there, also where the machine stops.
import { open, readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { AtomicFile, writeWhole } from '../../../src/logs/stores/atomic-file.js';
import { temporaryDirectory } from '../../support/temporary-directory.js';

const folder = temporaryDirectory();
afterEach(() => vi.restoreAllMocks());

/** What happens to open files from now on, in order. */
async function watched(): Promise<string[]> {
  const handle = await open(folder);
  const prototype = Object.getPrototypeOf(handle);
  await handle.close();
  const calls: string[] = [];
  for (const name of ['writeFile', 'sync'] as const) {
    const call = prototype[name];
    vi.spyOn(prototype, name).mockImplementation(function (this: unknown, ...given: unknown[]) {
      calls.push(name);
      return call.apply(this, given);
    });
  }
  return calls;
}

describe('AtomicFile', () => {
  it('is on the disk before it has its name, and then the name is', async () => {
    const calls = await watched();
    await writeWhole(join(folder, 'whole.txt'), 'text');
    // The file, then its folder.
    expect(calls).toEqual(['writeFile', 'sync', 'sync']);
    expect(await readFile(join(folder, 'whole.txt'), 'utf8')).toBe('text');
  });

  it('is synced by prepare, under the name of an unfinished file', async () => {
    const file = await AtomicFile.open(folder, 'later.txt', 'mark');
    await file.write('text');
    const calls = await watched();
    await file.prepare();
    expect(calls).toEqual(['writeFile', 'sync']);
    expect(await readdir(folder)).not.toContain('later.txt');
    await file.place();
    expect(await readFile(join(folder, 'later.txt'), 'utf8')).toBe('text');
  });
});
