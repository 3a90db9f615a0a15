// Lists what an s3:// path as a user types it means: an object, the objects below a prefix, or those that a pattern
// matches.
import { FileError } from '../../../checks/errors.js';
import { patternExpression } from '../glob-pattern.js';
import { openS3, parseS3 } from './client.js';
import { RETRY_LIMITS, type RetryLimits, withRetry } from './retry.js';

export interface FoundObjects {
  readonly as: 'object' | 'prefix' | 'pattern';
  /** Address of the prefix that was listed, with a slash at its end. */
  readonly base: string;
  /** Of objects, from there. */
  readonly names: readonly string[];
}

/** Keys in one answer of S3. */
const MAX_PAGE_KEYS = 1000;

export interface ListingOptions extends Partial<RetryLimits> {
  readonly pageKeys?: number | undefined;
  readonly signal?: AbortSignal | undefined;
}

/**
 * @param isFileName whether a name is one that is not looked for as a prefix
 * @throws {FileError} for what cannot be listed; the signal's reason when aborted
 */
export async function findObjects(
  path: string,
  isFileName: (name: string) => boolean,
  options: ListingOptions = {},
): Promise<FoundObjects> {
  const { bucket, key } = parseS3(path);
  const { isDynamicPattern } = await import('tinyglobby');
  const object: FoundObjects = { as: 'object', base: `s3://${bucket}/`, names: [key] };
  const name = key.replace(/\/+$/, '');
  if (isDynamicPattern(key)) {
    // As on a disk, an existing name comes before a pattern: `run (1)` may be a folder.
    if (name === key && (await isObject(path, options))) return object;
    const isFolder = (await firstKey(path, bucket, `${name}/`, options)) !== undefined;
    return isFolder ? below(path, bucket, name, options) : matching(path, bucket, key, options);
  }
  if (key !== '' && name === key && isFileName(lastName(key))) return object;
  return below(path, bucket, name, options);
}

/** Whether there is an object of this very name. */
export async function isObject(path: string, options: ListingOptions = {}): Promise<boolean> {
  const { bucket, key } = parseS3(path);
  return key !== '' && (await firstKey(path, bucket, key, options)) === key;
}

async function below(path: string, bucket: string, key: string, options: ListingOptions): Promise<FoundObjects> {
  const prefix = key === '' ? '' : `${key}/`;
  const names = (await listKeys(path, bucket, prefix, options)).map((name) => name.slice(prefix.length));
  return { as: 'prefix', base: `s3://${bucket}/${prefix}`, names: names.filter((name) => !isHidden(name)) };
}

async function matching(path: string, bucket: string, pattern: string, options: ListingOptions): Promise<FoundObjects> {
  const literal = /^[^*?[\]{}()!+@\\]*/.exec(pattern)?.[0] ?? '';
  const prefix = literal.slice(0, literal.lastIndexOf('/') + 1);
  const expression = patternExpression(pattern);
  const keys = (await listKeys(path, bucket, prefix, options)).filter((name) => expression.test(name));
  const names = keys.map((name) => name.slice(prefix.length)).filter((name) => !isHidden(name));
  return { as: 'pattern', base: `s3://${bucket}/${prefix}`, names };
}

async function listKeys(path: string, bucket: string, prefix: string, options: ListingOptions): Promise<string[]> {
  const keys: string[] = [];
  for await (const page of pages(path, bucket, prefix, options)) for (const key of page) keys.push(key);
  return keys;
}

/** The first in order that begins with `prefix`: `prefix` itself, if there is such an object. */
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
  { pageKeys = MAX_PAGE_KEYS, signal, ...limits }: ListingOptions,
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
