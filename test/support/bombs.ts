// Files that unpack to far more than they are, made on the fly, and what the built command makes of them.
import { execFile } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { createGzip } from 'node:zlib';

const MAIN = join(import.meta.dirname, '..', '..', 'dist', 'cli', 'main.js');

/** Writes bytes of gzip that unpack to `begin`, `times` the piece, `end`. @returns the path */
export async function packed(path: string, begin: string, piece: string, times: number, end = ''): Promise<string> {
  const gzip = createGzip({ level: 1 });
  const pieces: Buffer[] = [];
  const done = (async () => {
    for await (const chunk of gzip) pieces.push(chunk as Buffer);
  })();
  const body = Buffer.from(piece);
  gzip.write(begin);
  for (let at = 0; at < times; at++) {
    if (!gzip.write(body)) await new Promise((resolve) => gzip.once('drain', resolve));
  }
  gzip.end(end);
  await done;
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, Buffer.concat(pieces));
  return path;
}

/** Says at the end what memory the process took: maxRSS alone begins with that of the process that started it. */
const PEAK = `data:text/javascript,${encodeURIComponent(`
  import { readFileSync } from 'node:fs';
  const kept = () => {
    try { return /VmHWM:\\s+(\\d+)/.exec(readFileSync('/proc/self/status', 'utf8'))[1]; }
    catch { return process.resourceUsage().maxRSS; }
  };
  process.on('exit', () => console.error('RSS=' + kept() + '='));
`)}`;

export interface Ran {
  readonly status: number;
  /** On one line. */
  readonly said: string;
  /** The most memory that the process took. */
  readonly megabytes: number;
}

/** Runs the built command. */
export function ran(...words: string[]): Promise<Ran> {
  return new Promise((resolve) => {
    execFile(process.execPath, ['--import', PEAK, MAIN, ...words], { maxBuffer: 2 ** 26 }, (error, out, err) => {
      const kilobytes = Number(/RSS=(\d+)=/.exec(err)?.[1] ?? Number.POSITIVE_INFINITY);
      const said = (out + err).replace(/\s+/g, ' ');
      resolve({ status: error === null ? 0 : Number(error.code), said, megabytes: kilobytes / 1000 });
    });
  });
}
