// An object of an S3-compatible store as a source of bytes: ranges in parallel, a broken one taken up where it broke,
// and every answer checked to be of the same object (ETag), so that a replaced one is noticed at once.

import { onAbort } from '../../../checks/abort.js';
import { FileError } from '../../../checks/errors.js';
import type { ByteSource, OpenOptions, ReadOptions } from '../byte-source.js';
import { bodyOf, takeBody } from './body.js';
import { openS3, parseS3, REPLACED, type S3, type S3Place, s3Problem } from './client.js';
import { etagOf, firstWindow } from './first-window.js';
import { requestSlots } from './request-slots.js';
import { BrokenBody, backoff, brokenProblem, pause, unlessStalled } from './retry.js';
import { S3_SETTINGS, type S3Settings, WINDOW_BYTES } from './settings.js';

/** Windows kept. */
const WINDOWS = 4;

/**
 * Opens an object with one request, which brings its beginning too.
 * @throws FileError when there is no such object, it cannot be read, or has another revision
 */
export async function openObject(
  path: string,
  { expected, signal }: OpenOptions = {},
  given: Partial<S3Settings> = {},
): Promise<ByteSource> {
  const place = parseS3(path);
  const s3 = await openS3(path);
  const settings = { ...S3_SETTINGS, ...given };
  const { bytes, etag, window } = await firstWindow(path, place, s3, settings, signal);
  const source = new S3Object(path, bytes, etag, place, s3, settings, window);
  if (expected !== undefined && source.revision !== expected) {
    throw new FileError({ path }, 'the object changed after its header was read: analyse it again when it is complete');
  }
  return source;
}

class S3Object implements ByteSource {
  readonly revision: string;
  readonly stamp: string;
  /** By number, the oldest first. */
  readonly #windows = new Map<number, Promise<Buffer>>();

  constructor(
    readonly path: string,
    readonly bytes: number,
    private readonly etag: string,
    private readonly place: S3Place,
    private readonly s3: S3,
    private readonly settings: S3Settings,
    first: Buffer,
  ) {
    this.revision = `${bytes}-${etag}`;
    this.stamp = this.revision;
    this.#windows.set(0, Promise.resolve(first));
  }

  async read(target: Uint8Array, position: number, options: ReadOptions = {}): Promise<void> {
    options.signal?.throwIfAborted();
    const end = position + target.length;
    if (end > this.bytes) {
      throw this.#failure(
        this.bytes,
        options.tensor,
        `the object ends here, ${end - this.bytes} bytes short of what its header promised`,
      );
    }
    if (target.length === 0) return;
    const first = Math.floor(position / WINDOW_BYTES);
    const last = Math.floor((end - 1) / WINDOW_BYTES);
    if (last - first <= 1 && target.length <= WINDOW_BYTES) {
      for (let number = first; number <= last; number++) {
        const window = await this.#window(number, options);
        const begin = number * WINDOW_BYTES;
        const from = Math.max(position, begin);
        target.set(window.subarray(from - begin, end - begin), from - position);
      }
      return;
    }
    const parts: Promise<void>[] = [];
    // One part fails, all stop: nothing is left running that nobody waits for.
    const failed = new AbortController();
    const stop = () => failed.abort(options.signal?.reason);
    const forget = onAbort(options.signal, stop);
    for (let at = 0; at < target.length; at += this.settings.partBytes) {
      const part = target.subarray(at, at + this.settings.partBytes);
      parts.push(
        this.#part(part, position + at, { ...options, signal: failed.signal }).catch((error: unknown) => {
          failed.abort(error);
          throw error;
        }),
      );
    }
    const outcomes = await Promise.allSettled(parts);
    forget();
    options.signal?.throwIfAborted();
    if (outcomes.some(({ status }) => status === 'rejected')) throw failed.signal.reason;
  }

  /** Each answer was of the same ETag. */
  async checkUnchanged(): Promise<void> {}

  async close(): Promise<void> {
    this.#windows.clear();
  }

  #window(number: number, options: ReadOptions): Promise<Buffer> {
    const known = this.#windows.get(number);
    if (known !== undefined) return known;
    const begin = number * WINDOW_BYTES;
    const bytes = Buffer.allocUnsafe(Math.min(WINDOW_BYTES, this.bytes - begin));
    const window = this.#part(bytes, begin, options).then(() => bytes);
    this.#windows.set(number, window);
    window.catch(() => this.#windows.delete(number));
    if (this.#windows.size > WINDOWS) this.#windows.delete(this.#windows.keys().next().value as number);
    return window;
  }

  /** One range, taken up again where its body breaks. */
  async #part(target: Uint8Array, position: number, { tensor, signal }: ReadOptions): Promise<void> {
    let broken = 0;
    for (let done = 0; done < target.length; ) {
      signal?.throwIfAborted();
      const before = done;
      try {
        await requestSlots.use(() =>
          this.#request(target.subarray(done), position + done, tensor, signal, (bytes) => {
            done += bytes;
          }),
        );
      } catch (error) {
        signal?.throwIfAborted();
        if (!(error instanceof BrokenBody)) throw error;
        broken = done > before ? 1 : broken + 1;
        if (broken > this.settings.attempts) {
          throw this.#failure(position + done, tensor, brokenProblem(broken), error);
        }
        await pause(backoff(this.settings, broken), signal);
      }
    }
  }

  async #request(
    target: Uint8Array,
    position: number,
    tensor: string | undefined,
    signal: AbortSignal | undefined,
    onBytes: (bytes: number) => void,
  ): Promise<void> {
    const { sdk, client } = this.s3;
    const { bucket, key } = this.place;
    const command = new sdk.GetObjectCommand({
      Bucket: bucket,
      Key: key,
      Range: `bytes=${position}-${position + target.length - 1}`,
      ...(this.etag.startsWith('"') && { IfMatch: this.etag }),
    });
    await unlessStalled(this.settings, signal, async (aborted, onChunk) => {
      const answer = await this.#send(client.send(command, { abortSignal: aborted }), position, tensor, aborted);
      const body = bodyOf(answer.Body);
      try {
        // A store that knows no If-Match answers all the same.
        if (etagOf(answer) !== this.etag) throw this.#failure(position, tensor, REPLACED);
        if (answer.ContentLength !== undefined && answer.ContentLength !== target.length) {
          const problem = `the store sends ${answer.ContentLength} bytes for a range of ${target.length}`;
          throw this.#failure(position, tensor, problem);
        }
        await takeBody(body, target, onChunk, onBytes, aborted);
      } finally {
        body.destroy();
      }
    });
  }

  /** The client has tried again by itself what can be tried again. */
  async #send<T>(sending: Promise<T>, position: number, tensor: string | undefined, aborted: AbortSignal): Promise<T> {
    try {
      return await sending;
    } catch (error) {
      if (aborted.aborted) throw new BrokenBody(error);
      throw this.#failure(position, tensor, s3Problem(error), error);
    }
  }

  #failure(offset: number, tensor: string | undefined, problem: string, cause?: unknown): FileError {
    const where = tensor === undefined ? { path: this.path, offset } : { path: this.path, tensor, offset };
    return new FileError(where, problem, cause === undefined ? {} : { cause });
  }
}
