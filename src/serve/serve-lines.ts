// Answers requests, a line each, for one client. Requests are processed one after the other; `ping` and lines that are
// not requests are answered at once, whatever the engine does.
import type { Readable } from 'node:stream';
import { shown } from '../checks/words.js';
import { answerLine, errorLine, ProtocolError, type RequestId } from './answers.js';
import type { Engines } from './engines.js';
import { type RequestLine, requestLines } from './request-lines.js';
import { type Outlets, type Request, Session } from './session.js';

/**
 * Requests that wait; then no more is read until one is answered, so that a client that does not read holds no memory
 * here.
 */
const MOST_WAITING = 64;
const MOST_WAITING_BYTES = 512 * 2 ** 20;

export interface Client {
  readonly input: Readable;
  /** Resolves when there is room for more. */
  write(line: string): Promise<void>;
  /** Aborted when the client is gone. */
  readonly signal: AbortSignal;
  /** Takes defects of the sidecar itself, which answers report in one line. */
  onDefect?(error: unknown): void;
}

/** Resolves when the client has said `close`, or has closed its end and everything it asked is answered, or is gone. */
export async function serveLines(client: Client, engines: Engines, outlets: Outlets = {}): Promise<void> {
  const { write, signal } = client;
  const session = new Session(engines, signal, outlets);
  let waiting = 0;
  let waitingBytes = 0;
  let last: Promise<void> = Promise.resolve();
  // What waits for input stops then; a promise that lives as long as the client would hold all that was raced against
  // it.
  const hangUp = (): void => void client.input.destroy();
  signal.addEventListener('abort', hangUp, { once: true });
  if (signal.aborted) hangUp();
  for await (const line of heard(client)) {
    const read = readRequest(line);
    if ('error' in read) {
      await write(errorLine(read.id, read.error));
      continue;
    }
    const { id, request, bytes } = read;
    if (request.op === 'ping') {
      await write(answerLine(id, session.introduced({ waiting })));
      continue;
    }
    waiting++;
    waitingBytes += bytes;
    last = last.then(async () => {
      // What came after `close` is nobody's.
      if (!session.closed && !signal.aborted) await write(await answered(session, id, request, client));
      waiting--;
      waitingBytes -= bytes;
    });
    if (waiting >= MOST_WAITING || waitingBytes >= MOST_WAITING_BYTES) await last;
    if (request.op === 'close') break;
  }
  await last;
  await session.end();
  signal.removeEventListener('abort', hangUp);
}

/** The client's lines; they end where it goes. */
async function* heard({ input, signal }: Client): AsyncGenerator<RequestLine, void, undefined> {
  try {
    // A socket that is no longer read may still have answers to write.
    yield* requestLines(input.iterator({ destroyOnReturn: false }));
  } catch (error) {
    if (!signal.aborted) throw error;
  }
}

async function answered(session: Session, id: RequestId, request: Request, client: Client): Promise<string> {
  try {
    return answerLine(id, await session.answer(request));
  } catch (error) {
    const line = errorLine(id, error);
    if (line.includes('"ERR_INTERNAL"')) client.onDefect?.(error);
    return line;
  }
}

type ReadRequest =
  | { readonly id: RequestId; readonly request: Request; readonly bytes: number }
  | { readonly id: RequestId | null; readonly error: ProtocolError };

function readRequest(line: RequestLine): ReadRequest {
  if ('problem' in line) return { id: null, error: new ProtocolError(line.problem) };
  let value: unknown;
  try {
    value = JSON.parse(line.text);
  } catch (error) {
    return { id: null, error: new ProtocolError(`a line that is not JSON: ${(error as Error).message}`) };
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    return { id: null, error: new ProtocolError(`got ${shown(value)}, expected an object { id, op, … }`) };
  }
  const { id, ...request } = value as Record<string, unknown>;
  const isId = typeof id === 'string' || Number.isSafeInteger(id);
  if (!isId) return { id: null, error: new ProtocolError(`id is ${shown(id)}, expected an integer or a string`) };
  const known = id as RequestId;
  if (typeof request.op !== 'string') {
    return { id: known, error: new ProtocolError(`op is ${shown(request.op)}, expected a name`) };
  }
  return { id: known, request: request as Request, bytes: line.bytes };
}
