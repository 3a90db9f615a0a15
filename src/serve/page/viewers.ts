// Sends every step to the browsers that watch a live page, and what each of them missed.
import type { ServerResponse } from 'node:http';

/** Comments keep proxies from closing what seems idle. */
const COMMENT_MS = 15_000;

/** Ids that are remembered for those who come again. */
const MOST_REMEMBERED = 1000;

/** Of a viewer that does not read; it comes again by itself. */
const MOST_UNREAD = 64 * 1024;

/** Missed steps are sent one by one up to this many; of more only the last, which includes them all. */
const MOST_MISSED = 100;

export class Viewers {
  readonly #open = new Set<ServerResponse>();
  readonly #ids: string[] = [];
  #timer: NodeJS.Timeout | undefined;

  get count(): number {
    return this.#open.size;
  }

  /** @param lastId of the last event that this viewer had; undefined if it comes for the first time */
  add(response: ServerResponse, lastId: string | undefined): void {
    response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8', 'cache-control': 'no-store' });
    response.write('retry: 1000\n\n');
    const missed = lastId === undefined ? [] : this.#after(lastId);
    for (const id of missed) response.write(eventOf(id));
    this.#open.add(response);
    response.on('close', () => this.#open.delete(response));
    response.on('error', () => this.#open.delete(response));
    this.#timer ??= setInterval(() => this.#send(': \n\n'), COMMENT_MS).unref();
  }

  /** Sends a step to every viewer. */
  tell(run: string, step: number): void {
    // An id is one line; a run may be called anything.
    const id = `${encodeURIComponent(Buffer.from(run).toString())}:${step}`;
    this.#ids.push(id);
    if (this.#ids.length > MOST_REMEMBERED) this.#ids.shift();
    this.#send(eventOf(id));
  }

  close(): void {
    clearInterval(this.#timer);
    for (const response of this.#open) response.destroy();
    this.#open.clear();
  }

  #after(lastId: string): string[] {
    const at = this.#ids.lastIndexOf(lastId);
    // An id of an earlier server, or one that is no longer remembered.
    const missed = at < 0 ? this.#ids.slice(-1) : this.#ids.slice(at + 1);
    return missed.length > MOST_MISSED ? missed.slice(-1) : missed;
  }

  #send(text: string): void {
    for (const response of this.#open) {
      if (response.writableLength > MOST_UNREAD) response.destroy();
      else response.write(text);
    }
  }
}

const eventOf = (id: string): string => `id: ${id}\ndata: step\n\n`;
