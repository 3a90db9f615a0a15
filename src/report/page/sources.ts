// Loads the page's report: from itself if it is a file, from its server if it is live, or from the page that embeds it.
// src/report/page-html.ts says what a server answers.
import { appended } from '../payload/append.js';
import { decodeReport } from '../payload/payload.js';
import { live, problem, report } from './state.js';

export async function loadReport(): Promise<void> {
  window.addEventListener('collapsar:payload', (event) => {
    void take((event as CustomEvent<Uint8Array<ArrayBuffer>>).detail);
  });
  const text = document.getElementById('payload')?.textContent;
  if (text) await take(fromBase64(text));
  else if (location.protocol.startsWith('http')) await follow();
  else problem.value = 'This page holds no report: collapsar report RESULTS -o report.html writes one that does.';
}

function fromBase64(text: string): Uint8Array<ArrayBuffer> {
  const characters = atob(text);
  const bytes = new Uint8Array(characters.length);
  for (let at = 0; at < bytes.length; at++) bytes[at] = characters.charCodeAt(at);
  return bytes;
}

/** Of the last steps, to know how long one takes. */
const MOST_ARRIVALS = 20;

/** One after the other: what is appended must come in its order. */
let taking: Promise<void> = Promise.resolve();

function take(bytes: Uint8Array<ArrayBuffer>): Promise<void> {
  const next = taking.then(async () => {
    try {
      const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'));
      const more = decodeReport(new Uint8Array(await new Response(stream).arrayBuffer()));
      const isNews = more.runs.some(({ steps }) => steps.length > 0);
      report.value = report.value === undefined ? more : appended(report.value, more);
      if (isNews) live.value = { ...live.value, arrivals: [...live.value.arrivals, Date.now()].slice(-MOST_ARRIVALS) };
    } catch (error) {
      problem.value = error instanceof Error ? error.message : String(error);
    }
  });
  taking = next;
  return next;
}

/** Asks for what is new whenever the server says that there is something. */
async function follow(): Promise<void> {
  const ask = async (): Promise<void> => {
    const address = new URL('data', location.href);
    address.search = location.search;
    address.searchParams.set('after', report.value?.head.cursor ?? '');
    const answer = await fetch(address);
    if (!answer.ok) throw new Error(`The server answered ${answer.status}: ${await answer.text()}`);
    await take(new Uint8Array(await answer.arrayBuffer()));
  };
  let isAsking = false;
  let isMore = false;
  const askOnce = async (): Promise<void> => {
    isMore = true;
    if (isAsking) return;
    isAsking = true;
    while (isMore) {
      isMore = false;
      await ask().catch((error: Error) => {
        if (report.value === undefined) problem.value = error.message;
      });
    }
    isAsking = false;
  };
  const events = new EventSource(`events${location.search}`);
  events.addEventListener('open', () => {
    live.value = { ...live.value, state: 'connected' };
    // Gets steps that came while the page was not listening.
    void askOnce();
  });
  events.addEventListener('message', () => void askOnce());
  events.addEventListener('error', () => {
    live.value = { ...live.value, state: 'lost' };
  });
  await askOnce();
}
