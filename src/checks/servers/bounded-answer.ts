// Reads answers of servers up to a limit of bytes, and only from the server that was asked.

/** The answer is longer than is read. */
export class TooLongAnswer extends Error {}

/** The answer is not of the shape that was asked for. */
export class WrongAnswer extends Error {}

export interface ServerAnswer {
  readonly ok: boolean;
  readonly status: number;
  readonly text: string;
}

/**
 * `fetch` that follows no redirect, since a token goes to the server that was named and to no other: the answer is then
 * not ok, and says where the redirect leads.
 * @param most bytes of the answer: what is longer is refused before memory is taken for it
 * @throws {TooLongAnswer}; what `fetch` throws
 */
export async function askServer(url: string, request: RequestInit, most: number): Promise<ServerAnswer> {
  const answer = await fetch(url, { ...request, redirect: 'manual' });
  const { ok, status } = answer;
  const place = answer.headers.get('location');
  if (status >= 300 && status < 400 && place !== null) {
    await answer.body?.cancel();
    return { ok, status, text: `a redirect to ${place}, which is not followed: give that address if it is meant` };
  }
  const pieces: Uint8Array[] = [];
  let bytes = 0;
  for await (const piece of answer.body ?? []) {
    bytes += piece.length;
    if (bytes > most) throw new TooLongAnswer(`${url} answers more than the ${most} bytes that are read of an answer`);
    pieces.push(piece);
  }
  return { ok, status, text: Buffer.concat(pieces).toString('utf8') };
}

/** @throws {WrongAnswer} if the text is not JSON, or not an object or array: its fields would be undefined */
export function answeredObject(url: string, text: string): object {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw new WrongAnswer(`${url} answers what is no JSON`);
  }
  if (typeof value === 'object' && value !== null) return value;
  throw new WrongAnswer(`${url} answers JSON that is no object`);
}
