// Gets an object's size, its revision and its beginning in one request.
import type { GetObjectCommandOutput } from '@aws-sdk/client-s3';
import { FileError } from '../../../checks/errors.js';
import { bodyOf, takeBody } from './body.js';
import { REPLACED, type S3, type S3Place, s3Problem } from './client.js';
import { requestSlots } from './request-slots.js';
import { BrokenBody, backoff, brokenProblem, pause, unlessStalled, withRetry } from './retry.js';
import { type S3Settings, WINDOW_BYTES } from './settings.js';

export interface FirstWindow {
  readonly bytes: number;
  readonly etag: string;
  readonly window: Buffer;
}

/** @throws {FileError} when there is no such object, or it cannot be read */
export async function firstWindow(
  path: string,
  { bucket, key }: S3Place,
  { sdk, client }: S3,
  settings: S3Settings,
  signal: AbortSignal | undefined,
): Promise<FirstWindow> {
  const target = { Bucket: bucket, Key: key };
  for (let broken = 1; ; broken++) {
    try {
      return await requestSlots.use(() =>
        unlessStalled(settings, signal, async (aborted, onChunk) => {
          const range = `bytes=0-${WINDOW_BYTES - 1}`;
          const command = new sdk.GetObjectCommand({ ...target, Range: range });
          const answer = await client.send(command, { abortSignal: aborted });
          return readFirst(path, answer, aborted, onChunk);
        }),
      );
    } catch (error) {
      signal?.throwIfAborted();
      if (error instanceof FileError) throw error;
      // No range of an empty object can be had.
      if (error instanceof Error && error.name === 'InvalidRange')
        return emptyObject(path, target, { sdk, client }, settings, signal);
      if (!(error instanceof BrokenBody)) throw new FileError({ path }, s3Problem(error), { cause: error });
      if (broken > settings.attempts) throw new FileError({ path }, brokenProblem(broken), { cause: error });
      await pause(backoff(settings, broken), signal);
    }
  }
}

async function readFirst(
  path: string,
  answer: GetObjectCommandOutput,
  aborted: AbortSignal,
  onChunk: () => void,
): Promise<FirstWindow> {
  const body = bodyOf(answer.Body);
  try {
    const total = /^bytes 0-[0-9]+\/([0-9]+)$/.exec(answer.ContentRange ?? '')?.[1];
    const bytes = Number(total);
    const window = Buffer.allocUnsafe(Math.min(bytes || 0, WINDOW_BYTES));
    // It is empty; some stores send a range all the same.
    if (bytes === 0) return { bytes, etag: etagOf(answer), window };
    if (total === undefined || !Number.isSafeInteger(bytes) || answer.ContentLength !== window.length) {
      const problem = `the store does not answer ranges as S3 does: Content-Range "${answer.ContentRange}", Content-Length ${answer.ContentLength}`;
      throw new FileError({ path }, problem);
    }
    await takeBody(body, window, onChunk, () => undefined, aborted);
    return { bytes, etag: etagOf(answer), window };
  } finally {
    body.destroy();
  }
}

async function emptyObject(
  path: string,
  target: { Bucket: string; Key: string },
  { sdk, client }: S3,
  settings: S3Settings,
  signal: AbortSignal | undefined,
): Promise<FirstWindow> {
  const head = await withRetry(path, settings, signal, (aborted) =>
    client.send(new sdk.HeadObjectCommand(target), { abortSignal: aborted }),
  );
  const { ContentLength: bytes = 0 } = head;
  // It was empty a moment ago: of what it is now nothing has come.
  if (bytes > 0) throw new FileError({ path }, REPLACED);
  return { bytes, etag: etagOf(head), window: Buffer.alloc(0) };
}

/** Some stores have no ETag: the time of the last change replaces it. */
export function etagOf({ ETag, LastModified }: { ETag?: string | undefined; LastModified?: Date | undefined }): string {
  return ETag ?? String(LastModified?.getTime());
}
