// The sidecar for several clients: a Unix socket, a monitor a connection, engines for all.
import { lstatSync, rmSync } from 'node:fs';
import { connect, createServer, type Socket } from 'node:net';
import { ArgumentError } from '../checks/errors.js';
import type { Engines } from './engines.js';
import { serveLines } from './serve-lines.js';
import type { Outlets } from './session.js';

/** Longest path of a Unix socket that all systems take. */
const MAX_PATH_BYTES = 103;

/**
 * Serves until `signal` is aborted, then closes connections and removes the socket.
 * @param path of the socket; one that is not served any more is replaced
 * @param onListening called when clients may come
 * @throws {ArgumentError} for a path that is too long, taken, or cannot be made
 */
export async function listen(
  path: string,
  engines: Engines,
  signal: AbortSignal,
  onListening: () => void,
  onDefect: (error: unknown) => void,
  outlets: Outlets = {},
): Promise<void> {
  if (Buffer.byteLength(path) > MAX_PATH_BYTES) {
    throw new ArgumentError('--listen', `the path has more than ${MAX_PATH_BYTES} bytes: choose a shorter one`);
  }
  await removeStale(path);
  const clients = new Set<Promise<void>>();
  const server = createServer((socket) => {
    const served = serveSocket(socket, engines, signal, onDefect, outlets).finally(() => clients.delete(served));
    clients.add(served);
  });
  // Nobody else may score for this user: only the owner has rights on the socket.
  const mask = process.umask(0o177);
  try {
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject);
      server.listen(path, resolve);
    });
  } catch (error) {
    throw new ArgumentError('--listen', `cannot listen at ${path}: ${(error as Error).message}`, { cause: error });
  } finally {
    process.umask(mask);
  }
  onListening();
  if (!signal.aborted) {
    await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }));
  }
  // The server removes its socket itself.
  server.close();
  await Promise.allSettled(clients);
}

async function serveSocket(
  socket: Socket,
  engines: Engines,
  signal: AbortSignal,
  onDefect: (error: unknown) => void,
  outlets: Outlets,
): Promise<void> {
  const gone = new AbortController();
  socket.on('error', () => gone.abort());
  socket.on('close', () => gone.abort());
  const write = (line: string): Promise<void> =>
    new Promise((resolve) => {
      if (gone.signal.aborted) resolve();
      else socket.write(line, () => resolve());
    });
  try {
    const client = { input: socket, write, signal: AbortSignal.any([signal, gone.signal]), onDefect };
    await serveLines(client, engines, outlets);
  } catch (error) {
    if (!gone.signal.aborted) onDefect(error);
  } finally {
    socket.destroySoon();
  }
}

/** @throws {ArgumentError} for a path that is something else, or that a server listens on */
async function removeStale(path: string): Promise<void> {
  const found = lstatSync(path, { throwIfNoEntry: false });
  if (found === undefined) return;
  if (!found.isSocket()) throw new ArgumentError('--listen', `${path} is there, and is no socket`);
  const isServed = await new Promise<boolean>((resolve) => {
    const probe = connect(path, () => {
      probe.destroy();
      resolve(true);
    });
    probe.on('error', () => resolve(false));
  });
  if (isServed) throw new ArgumentError('--listen', `${path} is served by another process`);
  rmSync(path, { force: true });
}
