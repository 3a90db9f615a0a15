// Explains why a path cannot be opened: a link whose target is gone, or a file that never was.
import { readlink } from 'node:fs/promises';
import { errorCode, systemProblem } from './system-problem.js';

/** One sentence for an error thrown by node:fs about `path`. */
export async function missingProblem(path: string, error: unknown): Promise<string> {
  if (errorCode(error) !== 'ENOENT') return systemProblem(error);
  const target = await linkTarget(path);
  return target === undefined
    ? systemProblem(error)
    : `a link to ${target}, which is not there: mount or restore it, or remove the link`;
}

export async function isLink(path: string): Promise<boolean> {
  return (await linkTarget(path)) !== undefined;
}

async function linkTarget(path: string): Promise<string | undefined> {
  try {
    return await readlink(path);
  } catch {
    return undefined;
  }
}
