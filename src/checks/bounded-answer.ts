// Answers of servers, of which only so many bytes are read, and which come from the server that was asked.

/** The answer is longer than is read. */
export class TooLongAnswer extends Error {}

/**
 * `fetch` that follows no redirect, since a token goes to the server that was named and to no other.
 * @param most bytes of the answer: what is longer is refused before memory is taken for it
 * @throws {TooLongAnswer}; what `fetch` throws
 */
export async function askServer(
  url: string,
  request: RequestInit,
  most: number,
): Promise<{ readonly ok: boolean; readonly status: number; readonly text: string }> {
  const answer = await fetch(url, { ...request, redirect: 'error' });
  const pieces: Uint8Array[] = [];
  let bytes = 0;
  for await (const piece of answer.body ?? []) {
    bytes += piece.length;
    if (bytes > most) throw new TooLongAnswer(`${url} answers more than the ${most} bytes that are read of an answer`);
    pieces.push(piece);
  }
  return { ok: answer.ok, status: answer.status, text: Buffer.concat(pieces).toString('utf8') };
}
