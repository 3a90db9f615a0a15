// Builds the page of a report as one HTML file, or as a live page that a server feeds (pageHtml says how).
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import { FileError } from '../checks/errors.js';
import { packageRoot } from '../checks/package-root.js';
import { encodeReport } from './payload/payload.js';
import { THINNINGS, thinned } from './payload/thinning.js';
import type { Report } from './report.js';

const compress = promisify(gzip);
const BEST = { level: 9 };
/** Takes a tenth of the time; what is too large by a quarter after it, before base64, the best makes hardly fit. */
const QUICK = { level: 1 };

/** What the file may take; beyond it, the report is thinned. */
export const MOST_BYTES = 5e6;

const PAGE = join(packageRoot, 'dist', 'report', 'page.html');

/** Where the bundle leaves room. */
const PAYLOAD = '<!--payload-->';
const CONNECT = "connect-src 'none'";

/** What `data` of a live page answers, and what the file holds in base64. */
export async function payloadOf(report: Report): Promise<Uint8Array> {
  return compress(encodeReport(report), BEST);
}

/**
 * Builds the page. The server of a live page (serve/) answers `GET /` with `pageHtml(undefined)`; the page asks it for:
 * - `GET data?after=CURSOR`: one payload, gzip of `encodeReport(collection.report(CURSOR))` as application/octet-stream
 *   (no Content-Encoding). CURSOR is the head's `cursor` of the payload before, '' at first. A cursor that the server
 *   does not know (after a restart) is answered with everything.
 * - `GET events`: server-sent events; any message (its data are not read) means that there is more to ask for.
 *   EventSource reconnects by itself, and the page then asks with its cursor again.
 *
 * Both are addressed relative to the page and keep its query (?token=…). A host that embeds the page itself can push
 * instead: `window.dispatchEvent(new CustomEvent('collapsar:payload', { detail: bytes }))` with such gzipped bytes.
 * @param report undefined: a live page, which asks its server for everything
 * @param mostBytes of the file
 * @throws {FileError} if the package was built without the page
 */
export async function pageHtml(report: Report | undefined, mostBytes = MOST_BYTES): Promise<string> {
  const template = await readFile(PAGE, 'utf8').catch(() => {
    throw new FileError({ path: PAGE }, 'the page of the report is not there: npm run prepare makes it');
  });
  if (report === undefined) return template.replace(CONNECT, "connect-src 'self'");
  for (const [at, thinning] of THINNINGS.entries()) {
    const isLast = at === THINNINGS.length - 1;
    const bytes = encodeReport(thinned(report, thinning));
    if (!isLast && (await compress(bytes, QUICK)).length > mostBytes) continue;
    const payload = Buffer.from(await compress(bytes, BEST)).toString('base64');
    if (!isLast && template.length + payload.length > mostBytes) continue;
    return template.replace(PAYLOAD, () => `<script type="text/plain" id="payload">${payload}</script>`);
  }
  throw new RangeError('no thinning at all');
}

/** Content security policy of the page's script and style, for the server's header: the same as in the page. */
export async function contentSecurityPolicy(): Promise<string> {
  const html = await pageHtml(undefined);
  return /http-equiv="Content-Security-Policy" content="([^"]*)"/.exec(html)?.[1] ?? "default-src 'none'";
}
