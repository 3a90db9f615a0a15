// The live page over HTTP: the page, its data, and word of each step. Only reads, and only for those who may ask.
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { ArgumentError } from '../../checks/errors.js';
import { contentSecurityPolicy, pageHtml } from '../../report/index.js';
import { CONTENT_TYPE } from '../../sinks/prometheus/exposition.js';
import type { StepReport } from '../../step/step-report.js';
import type { LiveReport } from './live-report.js';
import { type Guard, isLoopback, refusal } from './request-guard.js';
import { Viewers } from './viewers.js';

export interface PageServerOptions {
  readonly host: string;
  /** 0: any that is free. */
  readonly port: number;
  /** Needed for a host that other machines reach. */
  readonly token?: string | undefined;
}

/** Each takes a connection of its own for as long as it looks. */
const MOST_CONNECTIONS = 1000;

export class PageServer {
  readonly #live: LiveReport;
  readonly #guard: Guard;
  readonly #viewers = new Viewers();
  readonly #server: Server;
  readonly #html: string;
  readonly #headers: Readonly<Record<string, string>>;

  private constructor(live: LiveReport, guard: Guard, html: string, policy: string) {
    this.#live = live;
    this.#guard = guard;
    this.#html = html;
    this.#headers = {
      'content-security-policy': `${policy}; frame-ancestors 'none'`,
      'cross-origin-opener-policy': 'same-origin',
      'cross-origin-resource-policy': 'same-origin',
      // The address contains the token.
      'referrer-policy': 'no-referrer',
      'x-content-type-options': 'nosniff',
      'cache-control': 'no-store',
    };
    this.#server = createServer((request, response) => {
      this.#answer(request, response).catch(() => {
        if (!response.headersSent) response.writeHead(500);
        response.end();
      });
    });
    this.#server.maxConnections = MOST_CONNECTIONS;
  }

  /**
   * @throws {ArgumentError} if it cannot listen, or other machines could ask without a token
   * @throws {FileError} if the package was built without the page
   */
  static async listen(live: LiveReport, { host, port, token }: PageServerOptions): Promise<PageServer> {
    if (token === undefined && !isLoopback(host)) {
      throw new ArgumentError('--host', `${host} can be reached from other machines: give a --token as well`);
    }
    const server = new PageServer(live, { host, token }, await pageHtml(undefined), await contentSecurityPolicy());
    await new Promise<void>((resolve, reject) => {
      server.#server.once('error', (error) => {
        reject(new ArgumentError('--port', `cannot listen at ${host}:${port}: ${error.message}`, { cause: error }));
      });
      server.#server.listen(port, host.replace(/^\[|\]$/g, ''), resolve);
    });
    return server;
  }

  /** What to open. */
  get address(): string {
    const { port, address, family } = this.#server.address() as AddressInfo;
    const host = family === 'IPv6' ? `[${address}]` : address;
    const query = this.#guard.token === undefined ? '' : `?token=${encodeURIComponent(this.#guard.token)}`;
    return `http://${host}:${port}/${query}`;
  }

  get viewers(): number {
    return this.#viewers.count;
  }

  /** Puts a step on the page. */
  add(report: StepReport): void {
    this.#viewers.tell(this.#live.add(report), report.step);
  }

  async close(): Promise<void> {
    this.#viewers.close();
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    this.#server.closeAllConnections();
    await closed;
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    for (const [name, value] of Object.entries(this.#headers)) response.setHeader(name, value);
    const say = (status: number, text: string): void => {
      response.writeHead(status, { 'content-type': 'text/plain; charset=utf-8' }).end(`${text}\n`);
    };
    const url = URL.canParse(request.url ?? '', 'http://page/')
      ? new URL(request.url ?? '', 'http://page/')
      : undefined;
    if (url === undefined) return say(400, 'no such address');
    const refused = refusal({ headers: request.headers, url }, this.#guard);
    if (refused !== undefined) return say(refused.status, refused.reason);
    if (request.method !== 'GET' && request.method !== 'HEAD') {
      response.setHeader('allow', 'GET, HEAD');
      return say(405, 'this page is only looked at');
    }
    const give = (type: string, body: string | Uint8Array): void => {
      response.writeHead(200, { 'content-type': type, 'content-length': Buffer.byteLength(body) });
      response.end(request.method === 'HEAD' ? undefined : body);
    };
    switch (url.pathname) {
      case '/':
        return give('text/html; charset=utf-8', this.#html);
      case '/data':
        return give('application/octet-stream', await this.#live.payload(url.searchParams.get('after') ?? ''));
      case '/metrics':
        return give(CONTENT_TYPE, this.#live.metrics());
      case '/events': {
        if (request.method === 'HEAD') return give('text/event-stream; charset=utf-8', '');
        const { 'last-event-id': lastId } = request.headers;
        return this.#viewers.add(response, typeof lastId === 'string' ? lastId : undefined);
      }
    }
    const matrix = this.#matrix(url.pathname);
    if (matrix === undefined) return say(404, 'nothing is here');
    return give('application/json', matrix);
  }

  /** `/matrix/RUN/STEP` */
  #matrix(path: string): string | undefined {
    const [, run = '', step = ''] = /^\/matrix\/([^/]+)\/(\d{1,15})$/.exec(path) ?? [];
    const found = run === '' ? undefined : this.#live.matrix(decoded(run), Number(step));
    if (found === undefined) return undefined;
    const { posterior, nats, ...words } = found;
    const bytes = Buffer.from(nats.buffer, nats.byteOffset, nats.byteLength).toString('base64');
    return JSON.stringify({ ...words, posterior: Buffer.from(posterior).toString('base64'), nats: bytes });
  }
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
