// Names measured steps by their paths below the folders that were given, so that a journal also serves where these
// folders are mounted elsewhere.
import { stat } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { isLogName, isStepName } from '../../logs/input-names.js';
import { isAddress } from '../../logs/stores/address.js';
import { directoryOf, nameOf } from '../../logs/stores/store.js';
import type { StepMeasurement } from '../../step/step-measurement.js';
import type { StepFile } from '../measuring/step-source.js';
import type { JournalStep } from './journal-lines.js';

/** From the first of these on a path is a pattern. */
const PATTERN = /[*?[{(!]/;

export class StepKeys {
  /** @param roots folders that hold all local paths, and all addresses, each without a slash at its end */
  private constructor(private readonly roots: { readonly local: string; readonly address: string }) {}

  /** @param paths as they were given: files, folders, globs or addresses */
  static async of(paths: readonly string[]): Promise<StepKeys> {
    const folders: { local: string[]; address: string[] } = { local: [], address: [] };
    for (const path of paths) {
      if (isAddress(path)) folders.address.push(folderOfAddress(path));
      else folders.local.push(await folderOf(path));
    }
    return new StepKeys({ local: commonFolder(folders.local), address: commonFolder(folders.address) });
  }

  /** Of steps in logs neither the file nor the place in it counts: both may change as others are written. */
  of(step: Pick<StepFile, 'file' | 'step' | 'run' | 'runDirectory' | 'identity' | 'isLog'>): JournalStep {
    const { file, step: number, run, runDirectory, identity, isLog } = step;
    if (!isLog) return { key: `${this.#relative(file)}\n${number}`, identity };
    // A run is mostly called after its folder, which may be the one that was given.
    const name = nameOf(runDirectory);
    const ofRun = run === name || run.startsWith(`${name}/`) ? run.slice(name.length) : `\n${run}`;
    return { key: `${this.#relative(runDirectory)}\n${ofRun}\n${number}`, identity };
  }

  /** The measurement as it is written: paths in it are relative, too. */
  written(measurement: StepMeasurement): StepMeasurement {
    const { badRows } = measurement;
    if (badRows === undefined) return measurement;
    return { ...measurement, badRows: badRows.map((row) => ({ ...row, file: this.#relative(row.file) })) };
  }

  /** The same with the paths that the step's logs have here. */
  found(measurement: StepMeasurement, { rollouts }: Pick<StepFile, 'rollouts'>): StepMeasurement {
    const { badRows } = measurement;
    if (badRows === undefined) return measurement;
    const paths = new Map(rollouts?.parts.map(({ path }) => [this.#relative(path), path]));
    return { ...measurement, badRows: badRows.map((row) => ({ ...row, file: paths.get(row.file) ?? row.file })) };
  }

  #relative(path: string): string {
    const { local, address } = this.roots;
    if (isAddress(path)) return `s3:${below(path, address)}`;
    return below(resolve(path), local);
  }
}

function below(path: string, root: string): string {
  if (path === root) return '';
  return path.startsWith(`${root}/`) ? path.slice(root.length + 1) : path;
}

async function folderOf(path: string): Promise<string> {
  const found = await stat(path).catch(() => undefined);
  if (found?.isDirectory()) return resolve(path);
  return dirname(resolve(found === undefined ? withoutPattern(path) : path));
}

function folderOfAddress(address: string): string {
  const path = withoutPattern(address);
  const isFile = path !== address || isStepName(nameOf(path)) || isLogName(path);
  return isFile ? directoryOf(path) : path.replace(/\/+$/, '');
}

/** A pattern is cut at its first sign, within a name. */
function withoutPattern(path: string): string {
  const at = path.search(PATTERN);
  return at < 0 ? path : `${path.slice(0, at)}*`;
}

/** The deepest folder that all are, or lie in; an empty text where that is the root, or there is none. */
function commonFolder(folders: readonly string[]): string {
  const [first = '', ...others] = folders.map((folder) => folder.split('/'));
  const parts = [...first];
  for (const other of others) {
    const differs = parts.findIndex((part, at) => part !== other[at]);
    if (differs >= 0) parts.length = differs;
  }
  return parts.join('/');
}
