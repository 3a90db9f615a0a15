// Paths as a user types them -> step files. A directory with step files is a run; links, globs and nested directories
// are followed; each file comes once. What cannot be used is a problem on the list and never stops the others.

import type { Dirent } from 'node:fs';
import { readdir, realpath, stat } from 'node:fs/promises';
import { basename, dirname, extname, isAbsolute, join, resolve, sep } from 'node:path';
import { checkArray, checkPath } from '../../checks/argument-checks.js';
import { FileError } from '../../checks/errors.js';
import { checkOptions, is, type OptionTable } from '../../checks/options.js';
import { isAddress } from '../stores/address.js';
import { FILE_CHOICE, FileChoice, type FileChoiceOptions } from '../stores/file-choice.js';
import { isLink, missingProblem } from '../stores/missing-file.js';
import { naturalOrder } from '../stores/natural-order.js';
import { NothingFoundError } from '../stores/nothing-found.js';
import { findObjects } from '../stores/s3/listing.js';
import { directoryOf, isRemote, UNKNOWN_STORE } from '../stores/store.js';
import { errorCode, NOT_A_FILE, systemProblem } from '../stores/system-problem.js';
import { isStepName, MISSING_ARRAY, STEP_ENDINGS, sortNames } from './step-names.js';

/** Where a step file is, and to which run it belongs. */
export interface StepLocation {
  readonly path: string;
  /** Absolute path of the directory, or prefix of the store, that holds it: files of one directory are one run. */
  readonly runDirectory: string;
  /** Named by itself, not found in a folder or by a glob. */
  readonly isNamed: boolean;
}

/** Step files that were found, and what could not be used. */
export interface FoundSteps {
  /** By run directory, then name, both in natural order. */
  readonly files: StepLocation[];
  readonly problems: FileError[];
}

/** Options of `findSteps`. */
export interface FindStepsOptions extends FileChoiceOptions {
  readonly signal?: AbortSignal | undefined;
}

const FIND_OPTIONS: OptionTable<FindStepsOptions> = { ...FILE_CHOICE, signal: is.signal };

/** Directories nested deeper than this are reported, not searched. */
const MAX_DEPTH = 64;

/**
 * Finds the step files at `source`, one path or several: a file is taken by any name, a directory is searched
 * recursively for the endings of step-names.ts, and what does not exist but looks like a glob is matched. Names that
 * begin with a dot are passed over. `include` and `exclude` choose among what is found so.
 * Never rejects because of a path that is a string: each that is missing, unreadable or empty is one FileError in
 * `problems`.
 * @throws {ArgumentError} (as a rejection) unless `source` is a path or paths; the signal's reason when it is aborted
 */
export async function findSteps(
  source: string | readonly string[],
  options: FindStepsOptions = {},
): Promise<FoundSteps> {
  checkOptions(options, FIND_OPTIONS);
  if (source === undefined || source === null) checkPath(source, 'source');
  const paths = typeof source === 'string' ? [source] : source;
  checkArray(paths, 'source');
  for (const path of paths) checkPath(path, 'source');
  const search = new Search(options.signal, new FileChoice(options));
  for (const path of paths) await search.argument(path);
  await search.followLinks();
  search.reportEmpty();
  const files = [...search.files.values()];
  files.sort((a, b) => naturalOrder(a.runDirectory, b.runDirectory) || naturalOrder(a.path, b.path));
  return { files, problems: search.problems };
}

class Search {
  /** By real path, so that a file reached in two ways comes once. */
  readonly files = new Map<string, StepLocation>();
  readonly problems: FileError[] = [];
  /** Directories by real path: whether step files lie in them, and the directories in them. */
  readonly #searched = new Map<string, { holdsSteps: boolean; below: string[] }>();
  readonly #roots: { path: string; real: string | undefined }[] = [];
  /** Links to directories, followed last: what is also reached without a link keeps that path, and its run. */
  readonly #links: { path: string; depth: number; parent: string; relative: string }[] = [];
  /** Links to step files, which come after those. */
  readonly #linkedFiles: { path: string; real: string; parent?: string; isNamed: boolean }[] = [];

  constructor(
    private readonly signal: AbortSignal | undefined,
    private readonly choice: FileChoice,
  ) {}

  /** @param isNamed not by a glob */
  async argument(path: string, isNamed = true): Promise<void> {
    if (isRemote(path)) return this.#objects(path);
    if (isAddress(path)) return this.#problem(path, UNKNOWN_STORE);
    if (path === '')
      return this.#problem('""', 'an empty path, as of a variable that is not set: name step files or folders');
    try {
      const found = await stat(path);
      if (found.isDirectory()) this.#roots.push({ path, real: await this.#directory(path, 0, '') });
      else if (!found.isFile()) this.#problem(path, NOT_A_FILE);
      else if (await isLink(path)) this.#linkedFiles.push({ path, real: await realpath(path), isNamed });
      else this.#add(path, await realpath(path), isNamed);
    } catch (error) {
      this.signal?.throwIfAborted();
      if (errorCode(error) === 'ENOENT' && !(await isLink(path)) && (await this.#glob(path))) return;
      this.#problem(path, await missingProblem(path, error), error);
    }
  }

  async #objects(path: string): Promise<void> {
    const { signal, choice } = this;
    const { paths, problems, isNamed = false } = await findObjects(path, { signal, choice });
    for (const found of paths) this.#set(found, { path: found, runDirectory: directoryOf(found), isNamed });
    for (const problem of problems) this.problems.push(problem);
  }

  async followLinks(): Promise<void> {
    for (let next = this.#links.shift(); next !== undefined; next = this.#links.shift()) {
      this.#below(next.parent, await this.#directory(next.path, next.depth, next.relative));
    }
    for (const { path, real, parent, isNamed } of this.#linkedFiles) this.#add(path, real, isNamed, parent);
  }

  /** Directories that the user named and that hold nothing. */
  reportEmpty(): void {
    for (const { path, real } of this.#roots) {
      if (real === undefined || this.#holdsSteps(real)) continue;
      if (this.problems.some((problem) => isBelow(problem.path, path))) continue;
      const problem = `neither this directory nor those below it hold a ${STEP_ENDINGS}${this.choice.words}: name the folder that step files are written to`;
      this.problems.push(new NothingFoundError({ path }, problem));
    }
  }

  /** @returns whether it is a pattern */
  async #glob(pattern: string): Promise<boolean> {
    // Loading it takes longer than looking through a usual directory.
    const { glob, isDynamicPattern } = await import('tinyglobby');
    if (!isDynamicPattern(pattern)) return false;
    let matches: string[];
    try {
      matches = await glob(pattern, { absolute: isAbsolute(pattern), onlyFiles: false, expandDirectories: false });
    } catch (error) {
      this.#problem(pattern, systemProblem(error), error);
      return true;
    }
    // A directory comes with a slash at its end.
    const usable = matches.filter((match) =>
      match.endsWith('/')
        ? !this.choice.leavesOut(slashed(match))
        : isStepName(basename(match)) && this.choice.takes(slashed(match)),
    );
    if (usable.length === 0) {
      const problem = `no such file, and as a pattern it matches no directory and no ${STEP_ENDINGS}${this.choice.words}`;
      this.problems.push(new NothingFoundError({ path: pattern }, problem));
    }
    for (const match of usable.sort(naturalOrder)) await this.argument(match.replace(/(?<=.)\/+$/, ''), false);
    return true;
  }

  /**
   * Searches below `path`; returns its real path, undefined where it cannot be read.
   * @param relative the same path from the folder that was given
   */
  async #directory(path: string, depth: number, relative: string): Promise<string | undefined> {
    this.signal?.throwIfAborted();
    let real: string;
    let entries: Dirent[];
    try {
      real = await realpath(path);
      if (this.#searched.has(real)) return real;
      this.#searched.set(real, { holdsSteps: false, below: [] });
      entries = await readdir(path, { withFileTypes: true });
    } catch (error) {
      this.#problem(path, systemProblem(error), error);
      return undefined;
    }
    if (depth > MAX_DEPTH) {
      this.#problem(path, `directories nested deeper than ${MAX_DEPTH}: name a directory further down`);
      return undefined;
    }
    const below = relative === '' ? '' : `${relative}/`;
    const visible = entries.filter(({ name }) => !name.startsWith('.'));
    const { steps, missing } = sortNames(visible.filter((entry) => !entry.isDirectory()).map(({ name }) => name));
    const taken = new Set(steps.filter((name) => this.choice.takes(below + name)));
    for (const name of missing) if (this.choice.takes(below + name)) this.#problem(join(path, name), MISSING_ARRAY);
    // Of a hundred thousand files the paths of the folder are worked out once: nothing else in the process runs
    // meanwhile.
    const [before, beforeReal] = [prefixOf(path), prefixOf(real)];
    const runDirectory = resolve(path);
    for (const entry of visible) {
      const inside = before + entry.name;
      const within = below + entry.name;
      if (entry.isDirectory()) {
        if (!this.choice.leavesOut(within)) this.#below(real, await this.#directory(inside, depth + 1, within));
      } else if (entry.isSymbolicLink()) {
        if (!this.choice.leavesOut(within)) await this.#link(inside, depth + 1, real, taken.has(entry.name), within);
      } else if (taken.has(entry.name)) this.#add(inside, beforeReal + entry.name, false, real, runDirectory);
    }
    return real;
  }

  #below(parent: string, child: string | undefined): void {
    if (child !== undefined) this.#searched.get(parent)?.below.push(child);
  }

  #holdsSteps(real: string, seen = new Set<string>()): boolean {
    const directory = this.#searched.get(real);
    if (directory === undefined || seen.has(real)) return false;
    seen.add(real);
    return directory.holdsSteps || directory.below.some((below) => this.#holdsSteps(below, seen));
  }

  async #link(path: string, depth: number, parent: string, isStep: boolean, relative: string): Promise<void> {
    try {
      const target = await stat(path);
      if (target.isDirectory()) this.#links.push({ path, depth, parent, relative });
      else if (isStep) this.#linkedFiles.push({ path, real: await realpath(path), parent, isNamed: false });
    } catch (error) {
      // A dangling link to something else than a step file or a run is none of our business.
      if (isStep || extname(path) === '') this.#problem(path, await missingProblem(path, error), error);
    }
  }

  /** `parent`: the real path of the directory in which the search met it. */
  #add(path: string, real: string, isNamed: boolean, parent?: string, runDirectory = resolve(dirname(path))): void {
    this.#set(real, { path, runDirectory, isNamed });
    const directory = parent === undefined ? undefined : this.#searched.get(parent);
    if (directory !== undefined) directory.holdsSteps = true;
  }

  /** The first way to a file is its path; one that names it, first or not, makes it named. */
  #set(real: string, location: StepLocation): void {
    const known = this.files.get(real);
    if (known === undefined) this.files.set(real, location);
    else if (location.isNamed && !known.isNamed) this.files.set(real, { ...known, isNamed: true });
  }

  #problem(path: string, problem: string, cause?: unknown): void {
    this.problems.push(new FileError({ path }, problem, cause === undefined ? {} : { cause }));
  }
}

/** A path that a glob matched, without the slash at the end of a directory. */
function slashed(match: string): string {
  return match.replace(/\/+$/, '');
}

/** What `join` puts before a name in this directory. */
function prefixOf(directory: string): string {
  return join(directory, 'x').slice(0, -1);
}

function isBelow(path: string, directory: string): boolean {
  return resolve(path).startsWith(resolve(directory) + sep);
}
