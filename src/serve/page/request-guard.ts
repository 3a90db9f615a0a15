// Admits requests to a page of this machine only from its own user's browser: another open site may ask for anything at
// localhost, and a name of its own may lead here (DNS rebinding); the headers show both.
import { createHash, timingSafeEqual } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';

export interface Guard {
  /** Address that is listened at. */
  readonly host: string;
  /** Required of every request; undefined: only this machine can reach the address. */
  readonly token: string | undefined;
}

export interface GuardedRequest {
  readonly headers: IncomingHttpHeaders;
  readonly url: URL;
}

const LOOPBACK = /^(localhost|127(\.\d{1,3}){3}|\[::1\])$/;

/** Whether only this machine can reach an address. */
export function isLoopback(host: string): boolean {
  return LOOPBACK.test(host.includes(':') ? `[${host.replace(/^\[|\]$/g, '')}]` : host);
}

/** @returns why a request is refused; undefined if it is not */
export function refusal(
  { headers, url }: GuardedRequest,
  { host, token }: Guard,
): { status: number; reason: string } | undefined {
  const asked = hostName(headers.host);
  if (asked === undefined) return { status: 400, reason: 'a request without a host' };
  // A client with the token may use any name of this machine.
  if (token === undefined && !LOOPBACK.test(asked) && asked !== host.toLowerCase()) {
    return { status: 403, reason: 'this server is not asked by that name: use localhost, or start it with --token' };
  }
  if (
    headers.origin !== undefined &&
    headers.origin.replace(/^https?:\/\//, '').toLowerCase() !== headers.host?.toLowerCase()
  ) {
    return { status: 403, reason: 'other sites may not ask' };
  }
  const isVisit = headers['sec-fetch-mode'] === 'navigate' && headers['sec-fetch-dest'] === 'document';
  if (headers['sec-fetch-site'] === 'cross-site' && !isVisit) return { status: 403, reason: 'other sites may not ask' };
  if (token !== undefined && !isToken(headers, url, token)) {
    return { status: 401, reason: 'the token is missing or wrong: open the address that collapsar serve has printed' };
  }
  return undefined;
}

/** Without the port: a tunnel has another one. */
function hostName(host: string | undefined): string | undefined {
  return /^(\[[0-9a-f:.]+\]|[^:/\s]+)(:\d+)?$/i.exec(host ?? '')?.[1]?.toLowerCase();
}

function isToken(headers: IncomingHttpHeaders, url: URL, token: string): boolean {
  const given = url.searchParams.get('token') ?? /^Bearer (.+)$/.exec(headers.authorization ?? '')?.[1] ?? '';
  const digest = (text: string): Buffer => createHash('sha256').update(text).digest();
  return timingSafeEqual(digest(given), digest(token));
}
