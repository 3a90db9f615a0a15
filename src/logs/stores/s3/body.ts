// Reads the body of an answer into memory, with a call for every chunk; abortable.
import type { GetObjectCommandOutput } from '@aws-sdk/client-s3';
import { unlessAborted } from '../../../checks/abort.js';
import { BrokenBody } from './retry.js';

export type Body = AsyncIterable<Buffer> & { destroy(error?: Error): unknown };

/** In Node a body is a stream; the client's type also has those of browsers. */
export function bodyOf(body: GetObjectCommandOutput['Body']): Body {
  return body as unknown as Body;
}

/**
 * Fills `target` from the body's beginning.
 * @param onChunk called when something came; `onBytes` with how many bytes of `target` it filled
 * @throws {BrokenBody} when the body breaks, is aborted or ends early
 */
export async function takeBody(
  body: AsyncIterable<Buffer>,
  target: Uint8Array,
  onChunk: () => void,
  onBytes: (bytes: number) => void,
  aborted: AbortSignal,
): Promise<void> {
  let done = 0;
  try {
    const chunks = body[Symbol.asyncIterator]();
    for (;;) {
      const next = await unlessAborted(chunks.next(), aborted);
      if (next.done) break;
      onChunk();
      const piece = next.value.subarray(0, target.length - done);
      target.set(piece, done);
      done += piece.length;
      onBytes(piece.length);
    }
  } catch (error) {
    throw new BrokenBody(error);
  }
  if (done < target.length) throw new BrokenBody(new Error(`${target.length - done} bytes are missing`));
}
