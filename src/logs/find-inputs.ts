// Walks the paths that a user types, local or in a store, once, and sorts the files that it meets into steps, logs of
// rollouts and pickles. What cannot be used is a problem on the list and never stops the others.

import type { Dirent } from 'node:fs';
import { readdir, realpath, stat } from 'node:fs/promises';
import { basename, extname, isAbsolute, join, resolve } from 'node:path';
import { FileError } from '../checks/errors.js';
import {
  type InputKind,
  isLogName,
  isStepName,
  kindOf,
  LOG_ENDINGS,
  MISSING_ARRAY,
  STEP_ENDINGS,
  sortNames,
  type WantedKinds,
} from './input-names.js';
import { isAddress } from './stores/address.js';
import { FileChoice, type FileChoiceOptions } from './stores/file-choice.js';
import { isLink, missingProblem } from './stores/missing-file.js';
import { naturalOrder } from './stores/natural-order.js';
import { findObjects, isObject, type ListingOptions } from './stores/s3/listing.js';
import { directoryOf, isRemote, isSearched, nameOf, UNKNOWN_STORE } from './stores/store.js';
import { errorCode, NOT_A_FILE, systemProblem } from './stores/system-problem.js';

/** A file that the search met. */
export interface Hit {
  readonly path: string;
  readonly kind: InputKind;
  readonly from: 'name' | 'glob' | 'folder';
  /** The folder or prefix that was given, or that a glob begins with; undefined if the file is named. */
  readonly root: string | undefined;
  /** Absolute path of the directory, or prefix of the store, that holds it. */
  readonly directory: string;
}

/** A folder, a prefix or a glob, and what lies in it. */
export interface Searched {
  readonly path: string;
  readonly as: 'directory' | 'glob' | 'prefix' | 'glob of a store';
  /** Those included that were met on another way before. */
  hits(): Iterable<Hit>;
}

export interface FoundInputs {
  /** Each file once. */
  readonly hits: readonly Hit[];
  readonly problems: readonly FileError[];
  readonly searched: readonly Searched[];
  /** Words of --include and --exclude, to follow the name of what was looked for. */
  readonly choiceWords: string;
}

export interface FindInputsOptions extends FileChoiceOptions {
  readonly wanted: WantedKinds;
  /** A reader of logs is forced: it also gets named files that are not step files. */
  readonly isForced?: boolean | undefined;
  readonly listing?: ListingOptions | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** Directories nested deeper than this are reported, not searched. */
const MAX_DEPTH = 64;

/**
 * Finds what `source` has. A file that is named is taken by any name; a directory is searched recursively for the
 * endings of input-names.ts; what does not exist but looks like a glob is matched. Names that begin with a dot are
 * passed over. Never rejects because of a path.
 * @throws the signal's reason when it is aborted
 */
export async function findInputs(source: string | readonly string[], options: FindInputsOptions): Promise<FoundInputs> {
  const choice = new FileChoice(options);
  const search = new Search(options, choice);
  for (const path of typeof source === 'string' ? [source] : source) await search.argument(path);
  await search.followLinks();
  const { problems, searched } = search;
  return { hits: [...search.hits.values()], problems, searched, choiceWords: choice.words };
}

/** @returns why it gives no steps; undefined if it has some, or a problem in it is reported */
export function withoutSteps(searched: Searched, found: FoundInputs): string | undefined {
  for (const { kind } of searched.hits()) if (kind === 'step') return undefined;
  if (found.problems.some(({ path }) => isWithin(path, searched))) return undefined;
  return nothingIn(searched, `${STEP_ENDINGS}${found.choiceWords}`, 'step files are written to');
}

/** The same of logs, where no hit is one. */
export function withoutLogs(searched: Searched, found: FoundInputs): string {
  return nothingIn(searched, `${LOG_ENDINGS}${found.choiceWords}`, 'the trainer writes its rollouts to');
}

function nothingIn({ as }: Searched, file: string, what: string): string {
  switch (as) {
    case 'directory':
      return `neither this directory nor those below it hold a ${file}: name the folder that ${what}`;
    case 'glob':
      return `no such file, and as a pattern it matches no directory and no ${file}`;
    case 'prefix':
      return `no object below this prefix is a ${file}: name the prefix that ${what}`;
    case 'glob of a store':
      return `as a pattern it matches no ${file}`;
  }
}

/** Whether a path lies in what was searched. */
export function isWithin(path: string, { path: folder, as }: Searched): boolean {
  return as === 'directory' && resolve(path).startsWith(prefixOf(resolve(folder)));
}

/** What is met in a folder: hits, and the folders in it by their real paths. */
interface Folder {
  readonly hits: Hit[];
  readonly below: string[];
}

interface Link {
  readonly path: string;
  readonly depth: number;
  readonly parent: string;
  readonly within: string;
  readonly root: string;
}

class Search {
  /** By real path, so that a file reached in two ways comes once. */
  readonly hits = new Map<string, Hit>();
  readonly problems: FileError[] = [];
  readonly searched: Searched[] = [];
  /** By real path. */
  readonly #folders = new Map<string, Folder>();
  /** Links to directories, followed last: what is also reached without a link keeps that path, and its run. */
  readonly #links: Link[] = [];
  /** Links to files, which come after those. */
  readonly #linkedFiles: { readonly hit: Hit; readonly real: string; readonly parent: string | undefined }[] = [];

  constructor(
    private readonly options: FindInputsOptions,
    private readonly choice: FileChoice,
  ) {}

  async argument(path: string): Promise<void> {
    const { signal } = this.options;
    if (isSearched(path)) return this.#objects(path);
    if (isRemote(path)) return void this.#add(this.#named(path), path);
    if (isAddress(path)) return this.#problem(path, UNKNOWN_STORE);
    if (path === '') {
      const what = this.options.wanted === 'logs' ? 'files' : 'step files';
      return this.#problem('""', `an empty path, as of a variable that is not set: name ${what} or folders`);
    }
    try {
      await this.#existing(path, this.#named(path));
    } catch (error) {
      signal?.throwIfAborted();
      if (errorCode(error) === 'ENOENT' && !(await isLink(path)) && (await this.#glob(path))) return;
      this.#problem(path, await missingProblem(path, error), error);
    }
  }

  async followLinks(): Promise<void> {
    for (let next = this.#links.shift(); next !== undefined; next = this.#links.shift()) {
      this.#below(next.parent, await this.#directory(next.path, next.depth, next.within, next.root));
    }
    for (const { hit, real, parent } of this.#linkedFiles) this.#add(hit, real, parent);
  }

  /** @throws what node:fs does, of a path that is not there above all */
  async #existing(path: string, hit: Hit, parent?: string): Promise<void> {
    const found = await stat(path);
    if (found.isDirectory()) {
      const real = await this.#directory(path, 0, '', path);
      if (real !== undefined) this.searched.push({ path, as: 'directory', hits: () => this.#hitsIn(real) });
    } else if (!found.isFile()) this.#problem(path, NOT_A_FILE);
    else if (await isLink(path)) this.#linkedFiles.push({ hit, real: await realpath(path), parent });
    else this.#add(hit, await realpath(path), parent);
  }

  #named(path: string): Hit {
    const { wanted, isForced } = this.options;
    const name = nameOf(path);
    const isLog = wanted === 'logs' || (wanted === 'both' && !isStepName(name) && (isForced || isLogName(name)));
    return { path, kind: isLog ? 'log' : 'step', from: 'name', root: undefined, directory: directoryOf(path) };
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
    const before = this.problems.length;
    const root = directoryOf(`${pattern.slice(0, pattern.search(/[*?[\]{}()!+@]/))}x`);
    this.#folders.set(pattern, { hits: [], below: [] });
    let hasFolders = false;
    for (const match of matches.sort(naturalOrder)) {
      // A directory comes with a slash at its end.
      const path = match.replace(/(?<=.)\/+$/, '');
      const isFolder = match.endsWith('/');
      const kind = kindOf(basename(path), this.options.wanted);
      if (isFolder ? this.choice.leavesOut(path) : kind === undefined || !this.choice.takes(path)) continue;
      hasFolders ||= isFolder;
      try {
        await this.#existing(path, { ...this.#named(path), kind: kind ?? 'step', from: 'glob', root }, pattern);
      } catch (error) {
        this.options.signal?.throwIfAborted();
        this.#problem(path, await missingProblem(path, error), error);
      }
    }
    if (!hasFolders && this.problems.length === before) {
      this.searched.push({ path: pattern, as: 'glob', hits: () => this.#hitsIn(pattern) });
    }
    return true;
  }

  /**
   * Searches below `path`; returns its real path, undefined if it cannot be read.
   * @param within the same path from `root`, the folder that was given
   */
  async #directory(path: string, depth: number, within: string, root: string): Promise<string | undefined> {
    const { signal, wanted } = this.options;
    signal?.throwIfAborted();
    let real: string;
    let entries: Dirent[];
    try {
      real = await realpath(path);
      if (this.#folders.has(real)) return real;
      this.#folders.set(real, { hits: [], below: [] });
      entries = await readdir(path, { withFileTypes: true });
    } catch (error) {
      this.#problem(path, systemProblem(error), error);
      return undefined;
    }
    if (depth > MAX_DEPTH) {
      this.#problem(path, `directories nested deeper than ${MAX_DEPTH}: name a directory further down`);
      return undefined;
    }
    const below = within === '' ? '' : `${within}/`;
    const visible = entries.filter(({ name }) => !name.startsWith('.'));
    const names = visible.filter((entry) => !entry.isDirectory()).map(({ name }) => name);
    const { kinds, missing } = sortNames(names, wanted);
    for (const name of missing) if (this.choice.takes(below + name)) this.#problem(join(path, name), MISSING_ARRAY);
    // Of a hundred thousand files the paths of the folder are worked out once: nothing else in the process runs
    // meanwhile.
    const [before, beforeReal] = [prefixOf(path), prefixOf(real)];
    const directory = resolve(path);
    for (const entry of visible) {
      const [inside, place] = [before + entry.name, below + entry.name];
      const kind = kinds.get(entry.name);
      const isTaken = kind !== undefined && this.choice.takes(place);
      if (entry.isDirectory()) {
        if (!this.choice.leavesOut(place)) this.#below(real, await this.#directory(inside, depth + 1, place, root));
      } else if (entry.isSymbolicLink()) {
        if (this.choice.leavesOut(place)) continue;
        const hit: Hit | undefined = isTaken ? { path: inside, kind, from: 'folder', root, directory } : undefined;
        await this.#link({ path: inside, depth: depth + 1, parent: real, within: place, root }, hit);
      } else if (isTaken) {
        this.#add({ path: inside, kind, from: 'folder', root, directory }, beforeReal + entry.name, real);
      }
    }
    return real;
  }

  #below(parent: string, child: string | undefined): void {
    if (child !== undefined) this.#folders.get(parent)?.below.push(child);
  }

  *#hitsIn(real: string, seen = new Set<string>()): Generator<Hit> {
    const folder = this.#folders.get(real);
    if (folder === undefined || seen.has(real)) return;
    seen.add(real);
    yield* folder.hits;
    for (const below of folder.below) yield* this.#hitsIn(below, seen);
  }

  async #link(link: Link, hit: Hit | undefined): Promise<void> {
    const { path, parent } = link;
    try {
      const target = await stat(path);
      if (target.isDirectory()) this.#links.push(link);
      else if (hit !== undefined) this.#linkedFiles.push({ hit, real: await realpath(path), parent });
    } catch (error) {
      // A dangling link to something else than a step, a log or a run is none of our business.
      const isRun = this.options.wanted !== 'logs' && extname(path) === '';
      const isInput = hit !== undefined && hit.kind !== 'pickle';
      if (isRun || isInput) this.#problem(path, await missingProblem(path, error), error);
    }
  }

  /** Looks at one object, at those below a prefix, or at those that a pattern matches. */
  async #objects(path: string): Promise<void> {
    const { wanted, signal, listing } = this.options;
    const asked = { ...listing, signal };
    const isFile = (name: string): boolean =>
      (wanted !== 'logs' && isStepName(name)) || (wanted !== 'steps' && isLogName(name));
    try {
      const { as, base, names } = await findObjects(path, isFile, asked);
      if (as === 'object') return void this.#add(this.#named(path), path);
      const folder = path.replace(/\/+$/, '');
      const isPrefix = as === 'prefix';
      const from = isPrefix ? 'folder' : 'glob';
      const hits: Hit[] = [];
      const before = this.problems.length;
      for (const [within, inside] of byFolder(names)) {
        // A pattern's matches are judged only by their names: it may leave out the sidecars.
        const { kinds, missing } = sortNames(inside, wanted);
        for (const name of inside) {
          const kind = isPrefix ? kinds.get(name) : kindOf(name, wanted);
          if (kind === undefined || !this.choice.takes(within + name)) continue;
          const found = `${base}${within}${name}`;
          const hit: Hit = { path: found, kind, from, root: base.replace(/\/$/, ''), directory: directoryOf(found) };
          hits.push(this.#add(hit, found));
        }
        for (const name of isPrefix ? missing : []) {
          if (this.choice.takes(within + name)) this.#problem(`${base}${within}${name}`, MISSING_ARRAY);
        }
      }
      if (this.problems.length > before) return;
      if (isPrefix && hits.length === 0 && (await isObject(folder, asked))) this.#add(this.#named(folder), folder);
      else this.searched.push({ path, as: isPrefix ? 'prefix' : 'glob of a store', hits: () => hits });
    } catch (error) {
      if (!(error instanceof FileError) || error === signal?.reason) throw error;
      this.problems.push(error);
    }
  }

  /** @param parent the real path of the directory in which the search met it */
  #add(hit: Hit, real: string, parent?: string): Hit {
    // The first way to a file is its path; one that names it, first or not, makes it named.
    const known = this.hits.get(real);
    const kept = known ?? hit;
    if (known === undefined) this.hits.set(real, hit);
    else if (hit.from === 'name') Object.assign(known, { from: 'name', kind: hit.kind });
    if (parent !== undefined) this.#folders.get(parent)?.hits.push(kept);
    return kept;
  }

  #problem(path: string, problem: string, cause?: unknown): void {
    this.problems.push(new FileError({ path }, problem, cause === undefined ? {} : { cause }));
  }
}

/** What `join` puts before a name in this directory. */
function prefixOf(directory: string): string {
  return join(directory, 'x').slice(0, -1);
}

/** Names by their folder, with its slash. */
function byFolder(names: readonly string[]): Map<string, string[]> {
  const folders = new Map<string, string[]>();
  for (const name of names) {
    const end = name.lastIndexOf('/') + 1;
    const inside = folders.get(name.slice(0, end));
    if (inside === undefined) folders.set(name.slice(0, end), [name.slice(end)]);
    else inside.push(name.slice(end));
  }
  return folders;
}
