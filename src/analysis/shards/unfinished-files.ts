// What is being written beside a path and is not finished, and what of it a process left that was killed. The name of
// such a file, or directory of parts, says which process writes it.
import { createHash, randomBytes } from 'node:crypto';
import { readdir, rm, stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { errorCode } from '../../logs/stores/system-problem.js';
import { looksAlive, thisProcess } from '../results/running-process.js';

/** For a process that cannot be looked up from here, on another machine or before a restart of this one. */
const ABANDONED_AFTER_MS = 24 * 3600 * 1000;

const MARK = /^([1-9][0-9]{0,9})-([0-9]*)-([0-9a-f]{8})-[0-9a-f]{8}$/;
const ENDINGS = ['.tmp', '.parts'] as const;

/** Tells this writer's files from those of all others: those of other machines that share the directory among them. */
export function writerMark(): string {
  const here = thisProcess();
  return `${here.pid}-${here.started}-${placeOf(here)}-${randomBytes(4).toString('hex')}`;
}

/** Name of a directory of parts of the file at `path`, beside it. */
export function partsPath(path: string): string {
  return join(dirname(path), `.${basename(path)}.${writerMark()}.parts`);
}

/**
 * Removes what killed processes left of this file. What a process writes that may still run stays: its machine says so,
 * or, where that cannot be asked, a time of the last day.
 */
export async function removeAbandoned(path: string): Promise<void> {
  await removeWhere(path, async (mark, found) => {
    const [, pid, started = '', place] = MARK.exec(mark) ?? [];
    // Of another file, whose name goes on where this one's ends, or of other people.
    if (pid === undefined) return false;
    const here = thisProcess();
    const alive = place === placeOf(here) ? looksAlive({ ...here, pid: Number(pid), started }) : undefined;
    return alive === undefined ? Date.now() - (await stat(found)).mtimeMs > ABANDONED_AFTER_MS : !alive;
  });
}

/** Removes all that processes left of this file, or still write: call it when the file itself is complete. */
export function removeUnfinished(path: string): Promise<void> {
  return removeWhere(path, async () => true);
}

async function removeWhere(path: string, isToGo: (mark: string, found: string) => Promise<boolean>): Promise<void> {
  const directory = dirname(path);
  const start = `.${basename(path)}.`;
  try {
    for (const name of await readdir(directory)) {
      const ending = ENDINGS.find((end) => name.endsWith(end));
      if (ending === undefined || !name.startsWith(start)) continue;
      const found = join(directory, name);
      const mark = name.slice(start.length, -ending.length);
      if (await isToGo(mark, found)) await rm(found, { recursive: true, force: true });
    }
  } catch (error) {
    // Leftovers do no harm.
    if (errorCode(error) === undefined) throw error;
  }
}

/** Short, since names of files are limited. */
function placeOf({ world, host }: { readonly world: string; readonly host: string }): string {
  return createHash('sha256')
    .update(world === '' ? host : world)
    .digest('hex')
    .slice(0, 8);
}
