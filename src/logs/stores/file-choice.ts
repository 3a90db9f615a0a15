// Chooses the wanted files among those that a search finds: globs over their names and folders.

import { ArgumentError } from '../../checks/errors.js';
import { is, type OptionTable } from '../../checks/options.js';
import { shown } from '../../checks/words.js';
import { patternExpression } from './glob-pattern.js';

/** Which of the files that a search finds are taken. */
export interface FileChoiceOptions {
  /**
   * Globs (`*`, `?`, `[…]`, `{a,b}`, and `**` across folders) of the files to take. One without a slash is that of a
   * file's name, or of a folder above it; one with slashes is that of the path from the folder that was given, or of a
   * folder on it. Default all.
   */
  readonly include?: readonly string[] | undefined;
  /**
   * The same of files to leave out, also of those in `include`. Files that are named by themselves are always taken.
   */
  readonly exclude?: readonly string[] | undefined;
}

/** Checked where they are compiled. */
export const FILE_CHOICE: OptionTable<FileChoiceOptions> = { include: is.any, exclude: is.any };

export class FileChoice {
  static readonly ALL = new FileChoice({});
  readonly #include: readonly Glob[] | undefined;
  readonly #exclude: readonly Glob[];

  /** @throws {ArgumentError} unless both are lists of globs */
  constructor({ include, exclude }: FileChoiceOptions) {
    this.#include = include && globs(include, 'options.include');
    this.#exclude = globs(exclude ?? [], 'options.exclude');
  }

  /** @param path from the folder that is searched, with slashes */
  takes(path: string): boolean {
    return (this.#include?.some((glob) => names(glob, path)) ?? true) && !this.leavesOut(path);
  }

  /** Whether a file, or all that lies in a folder, is left out. */
  leavesOut(path: string): boolean {
    return this.#exclude.some((glob) => names(glob, path));
  }

  /** Words that follow the name of what was looked for. */
  get words(): string {
    const given = [this.#include && 'include', this.#exclude.length > 0 && 'exclude'].filter(Boolean);
    return given.length === 0 ? '' : ` that ${given.join(' and ')} let${given.length === 1 ? 's' : ''} through`;
  }
}

interface Glob {
  readonly expression: RegExp;
  readonly hasSlash: boolean;
}

function globs(patterns: readonly string[], argument: string): Glob[] {
  if (!Array.isArray(patterns)) throw new ArgumentError(argument, `got ${shown(patterns)}, expected an array of globs`);
  return Array.from(patterns, (pattern: unknown, at) => {
    if (typeof pattern !== 'string' || pattern === '') {
      throw new ArgumentError(`${argument}[${at}]`, `got ${shown(pattern)}, expected a glob, such as "step_*"`);
    }
    return { expression: patternExpression(pattern.replace(/(?<=.)\/+$/, '')), hasSlash: /.\/./.test(pattern) };
  });
}

/** Whether it is the glob of the file or of a folder that the file is in. */
function names({ expression, hasSlash }: Glob, path: string): boolean {
  const parts = path.split('/');
  return parts.some((part, at) => expression.test(hasSlash ? parts.slice(0, at + 1).join('/') : part));
}
