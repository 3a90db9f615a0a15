// s3:// paths as a user types them -> the objects that are step files, or logs: an object, a prefix that is searched,
// or a pattern.
import { FileError } from '../../../checks/errors.js';
import { isStepName, MISSING_ARRAY, STEP_ENDINGS, sortNames } from '../../steps/step-names.js';
import { FileChoice } from '../file-choice.js';
import { patternExpression } from '../glob-pattern.js';
import { NothingFoundError } from '../nothing-found.js';
import { openS3, parseS3 } from './client.js';
import { RETRY_LIMITS, type RetryLimits, withRetry } from './retry.js';

export interface FoundObjects {
  readonly paths: string[];
  readonly problems: FileError[];
  /** The paths are the one that was given, not what a search found. */
  readonly isNamed?: boolean;
}

/** Which objects a search is for. */
export interface ObjectKind {
  readonly isName: (name: string) => boolean;
  /** Their names, in words. */
  readonly endings: string;
  /** What is written to the prefix that should be named. */
  readonly what: string;
  /** An object that is named is taken, by any name. */
  readonly takesAnyName: boolean;
  /** Which of a folder's names are meant, where that depends on the others. Default: those of the kind. */
  readonly sort?: (names: readonly string[]) => {
    readonly steps: readonly string[];
    readonly missing: readonly string[];
  };
}

const STEPS: ObjectKind = {
  isName: isStepName,
  endings: STEP_ENDINGS,
  what: 'step files',
  takesAnyName: true,
  sort: sortNames,
};

/** Keys in one answer of S3. */
const MAX_PAGE_KEYS = 1000;

export interface ListingOptions extends Partial<RetryLimits> {
  readonly pageKeys?: number | undefined;
  /** Which of the found objects to take. Default all. */
  readonly choice?: FileChoice | undefined;
  /** Default: step files. */
  readonly kind?: ObjectKind | undefined;
  readonly signal?: AbortSignal | undefined;
}

/**
 * Never rejects because of a path: what cannot be listed, or holds nothing, is a problem. @throws the signal's reason
 * when aborted
 */
export async function findObjects(path: string, options: ListingOptions = {}): Promise<FoundObjects> {
  try {
    const { bucket, key } = parseS3(path);
    const { isDynamicPattern } = await import('tinyglobby');
    if (isDynamicPattern(key)) {
      return (await literally(path, bucket, key, options)) ?? (await matching(path, bucket, key, options));
    }
    const { kind = STEPS } = options;
    if (key !== '' && !key.endsWith('/') && kind.isName(lastName(key)))
      return { paths: [path], problems: [], isNamed: true };
    return await below(path, bucket, key.replace(/\/+$/, ''), options);
  } catch (error) {
    if (error instanceof FileError && error !== options.signal?.reason) return { paths: [], problems: [error] };
    throw error;
  }
}

/** As on a disk, an existing name comes before a pattern: `run (1)` may be a folder. */
async function literally(
  path: string,
  bucket: string,
  key: string,
  options: ListingOptions,
): Promise<FoundObjects | undefined> {
  const name = key.replace(/\/+$/, '');
  if (name === key && (await firstKey(path, bucket, key, options)) === key)
    return { paths: [path], problems: [], isNamed: true };
  const isFolder = (await firstKey(path, bucket, `${name}/`, options)) !== undefined;
  return isFolder ? below(path, bucket, name, options) : undefined;
}

async function below(path: string, bucket: string, key: string, options: ListingOptions): Promise<FoundObjects> {
  const prefix = key === '' ? '' : `${key}/`;
  const { choice = FileChoice.ALL, kind = STEPS } = options;
  const keys = await listKeys(path, bucket, prefix, options);
  const found = among(
    kind,
    bucket,
    keys.filter((name) => !isHidden(name.slice(prefix.length))),
    (name) => choice.takes(name.slice(prefix.length)),
  );
  if (found.paths.length > 0 || found.problems.length > 0) return found;
  if (key !== '' && kind.takesAnyName && (await firstKey(path, bucket, key, options)) === key)
    return { paths: [`s3://${bucket}/${key}`], problems: [], isNamed: true };
  const problem = `no object below this prefix is a ${kind.endings}${choice.words}: name the prefix that ${kind.what} are written to`;
  return { paths: [], problems: [new NothingFoundError({ path }, problem)] };
}

async function matching(path: string, bucket: string, pattern: string, options: ListingOptions): Promise<FoundObjects> {
  const { choice = FileChoice.ALL, kind = STEPS } = options;
  const literal = /^[^*?[\]{}()!+@\\]*/.exec(pattern)?.[0] ?? '';
  const prefix = literal.slice(0, literal.lastIndexOf('/') + 1);
  const expression = patternExpression(pattern);
  // Sidecars tell which arrays are steps, whether the pattern takes them or not.
  const keys = await listKeys(path, bucket, prefix, options);
  const paths = keys
    .filter((name) => kind.isName(lastName(name)) && expression.test(name) && !isHidden(name.slice(prefix.length)))
    .filter((name) => choice.takes(name.slice(prefix.length)))
    .map((name) => `s3://${bucket}/${name}`);
  if (paths.length > 0) return { paths, problems: [] };
  return {
    paths: [],
    problems: [new NothingFoundError({ path }, `as a pattern it matches no ${kind.endings}${choice.words}`)],
  };
}

function among(
  { isName, sort }: ObjectKind,
  bucket: string,
  keys: readonly string[],
  takes: (key: string) => boolean,
): FoundObjects {
  const folders = new Map<string, string[]>();
  for (const key of keys) {
    const folder = key.slice(0, key.lastIndexOf('/') + 1);
    const names = folders.get(folder);
    if (names === undefined) folders.set(folder, [lastName(key)]);
    else names.push(lastName(key));
  }
  const paths: string[] = [];
  const problems: FileError[] = [];
  for (const [folder, names] of folders) {
    const { steps, missing } = sort?.(names) ?? { steps: names.filter(isName), missing: [] };
    // One by one: a call takes some hundred thousand arguments and no more.
    for (const name of steps) if (takes(folder + name)) paths.push(`s3://${bucket}/${folder}${name}`);
    for (const name of missing) {
      if (takes(folder + name))
        problems.push(new FileError({ path: `s3://${bucket}/${folder}${name}` }, MISSING_ARRAY));
    }
  }
  return { paths, problems };
}

async function listKeys(path: string, bucket: string, prefix: string, options: ListingOptions): Promise<string[]> {
  const keys: string[] = [];
  for await (const page of pages(path, bucket, prefix, options)) for (const key of page) keys.push(key);
  return keys;
}

/** The first in order that begins with `prefix`: `prefix` itself, where there is such an object. */
async function firstKey(
  path: string,
  bucket: string,
  prefix: string,
  options: ListingOptions,
): Promise<string | undefined> {
  for await (const [first] of pages(path, bucket, prefix, { ...options, pageKeys: 1 })) return first;
  return undefined;
}

async function* pages(
  path: string,
  bucket: string,
  prefix: string,
  { pageKeys = MAX_PAGE_KEYS, signal, choice: _, kind: __, ...limits }: ListingOptions,
): AsyncGenerator<string[]> {
  const { sdk, client } = await openS3(path);
  let token: string | undefined;
  for (;;) {
    const next = token === undefined ? {} : { ContinuationToken: token };
    const command = new sdk.ListObjectsV2Command({ Bucket: bucket, Prefix: prefix, MaxKeys: pageKeys, ...next });
    const page = await withRetry(path, { ...RETRY_LIMITS, ...limits }, signal, (aborted) =>
      client.send(command, { abortSignal: aborted }),
    );
    yield (page.Contents ?? []).flatMap(({ Key }) => (Key === undefined ? [] : [Key]));
    if (!page.IsTruncated) return;
    // To end here would pass over steps without a word.
    if (page.NextContinuationToken === undefined || page.NextContinuationToken === token) throw endless(path);
    token = page.NextContinuationToken;
  }
}

function endless(path: string): FileError {
  const problem =
    'the store says that there are more objects, and not where they go on (NextContinuationToken): it does not list as S3 does. ' +
    'Name the step files, or folders of fewer objects';
  return new FileError({ path }, problem);
}

function lastName(key: string): string {
  return key.slice(key.lastIndexOf('/') + 1);
}

/** As in directories, names that begin with a dot are passed over. */
function isHidden(relative: string): boolean {
  return relative.split('/').some((name) => name.startsWith('.'));
}
