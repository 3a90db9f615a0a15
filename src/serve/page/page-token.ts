// Makes the token of a live page without a chosen one: a page only on this machine is still open to everyone with an
// account here.
import { randomBytes } from 'node:crypto';
import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { isLoopback } from './request-guard.js';

/** Accounts of people begin there; those below are the system's, and 65534 is nobody's. */
const FIRST_PERSON = process.platform === 'darwin' ? 501 : 1000;
const NOBODY = 65_534;

/**
 * Folders whose entries belong to those who use a machine: their processes, their homes. Images of containers, where
 * the superuser works, have homes that nobody uses.
 */
const PROCESSES = process.platform === 'linux' ? ['/proc'] : [];
const HOMES = process.platform === 'darwin' ? '/Users' : '/home';

/** A job of a scheduler runs on a machine of many. */
const SCHEDULERS = ['SLURM_JOB_ID', 'PBS_JOBID', 'LSB_JOBID'];

/**
 * @param given by option or variable; '' for none at all
 * @returns what every request must bring; undefined if only this user could ask
 */
export async function pageToken(
  given: string | undefined,
  host: string,
  environment: NodeJS.ProcessEnv,
  owners: () => Promise<ReadonlySet<number>> = ownersHere,
): Promise<string | undefined> {
  if (given !== undefined) return given === '' ? undefined : given;
  // One that other machines reach is refused without a token of the user's own, who must tell it to them.
  const own = process.getuid?.();
  if (!isLoopback(host) || own === undefined) return undefined;
  const isJob = SCHEDULERS.some((name) => environment[name] !== undefined);
  return isJob || hasOthers(await owners(), own) ? randomBytes(16).toString('hex') : undefined;
}

/** Whether one of these is a person's account, and not `own`. */
function hasOthers(owners: ReadonlySet<number>, own: number): boolean {
  return [...owners].some((uid) => uid >= FIRST_PERSON && uid !== own && uid !== NOBODY);
}

async function ownersHere(): Promise<ReadonlySet<number>> {
  const folders = process.getuid?.() === 0 ? PROCESSES : [...PROCESSES, HOMES];
  const found = await Promise.all(folders.map(ownersIn));
  return new Set(found.flat());
}

async function ownersIn(folder: string): Promise<number[]> {
  const names = await readdir(folder).catch(() => []);
  // A process may have ended since.
  const owners = names.map((name) =>
    stat(join(folder, name)).then(
      ({ uid }) => uid,
      () => 0,
    ),
  );
  return Promise.all(owners);
}
