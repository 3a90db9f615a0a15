// Servers that answer as inference engines document, faults included. Log-probs come from a model of a few lines, so
// that every sum is known.
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';

/** ln p(token | tokens before): depends on both, and is never above 0. */
export function logprob(before: readonly number[], token: number): number {
  const mixed = before.reduce((hash, id) => (hash * 31 + id) % 1009, 7);
  return -(1 + ((mixed * 17 + token * 13) % 97) / 20);
}

export function sumUnder(context: readonly number[], scored: readonly number[]): number {
  return scored.reduce((sum, id, at) => sum + Math.fround(logprob([...context, ...scored.slice(0, at)], id)), 0);
}

export interface Faults {
  /** Of the first so many requests that score: 503. */
  busy?: number;
  /** The first so many are cut off. */
  dropped?: number;
  /** Pairs that a request may have before memory runs out. */
  mostPairs?: number;
  /** Each answer takes so long, ms a pair. */
  slowness?: number;
  wrongIds?: boolean;
  nulls?: boolean;
  short?: boolean;
  positive?: boolean;
  /** What it answers to a request that scores, whatever that asks. */
  odd?: unknown;
  /** Where it sends requests that score. */
  movedTo?: string;
  /** vLLM without the token endpoint. */
  noTokens?: boolean;
}

export interface EngineServer {
  readonly url: string;
  /** Bodies of requests that scored. */
  readonly asked: Record<string, unknown>[];
  /** Most tokens of requests that it had at once. */
  mostTokens(): number;
  close(): Promise<void>;
}

type Body = Record<string, never> & {
  prompt: number[][];
  input_ids: number[][];
  logprob_start_len: number[];
  token_ids: number[];
  sampling_params: { prompt_logprob_start: number; prompt_logprob_token_ids: number[][]; max_new_tokens?: number };
  sequences: number[][];
  prompt_lengths: number[];
};

export async function startEngine(kind: 'vllm' | 'sglang' | 'trl', faults: Faults = {}): Promise<EngineServer> {
  const asked: Record<string, unknown>[] = [];
  let seen = 0;
  let underWay = 0;
  let most = 0;
  const of = (ids: readonly number[], place: number): number | null => {
    if (faults.nulls) return null;
    if (faults.positive) return 0.5;
    return Math.fround(logprob(ids.slice(0, place), ids[place] as number));
  };
  const idOf = (id: number): number => (faults.wrongIds ? id + 1 : id);

  function answer(path: string, body: Body): unknown {
    if (path === '/v1/models') return { data: [{ id: 'policy' }] };
    if (path === '/get_model_info') return { model_path: 'policy', weight_version: '12' };
    if (kind === 'vllm' && path === '/v1/completions') {
      const choices = body.prompt.map((ids, index) => {
        const all = ids.map((id, place) =>
          place === 0 ? null : { 999: { logprob: -9, rank: 1 }, [idOf(id)]: { logprob: of(ids, place), rank: 5 } },
        );
        return { index, prompt_logprobs: faults.short ? all.slice(1) : all };
      });
      return { choices: choices.reverse() };
    }
    if (kind === 'vllm' && path === '/inference/v1/generate' && !faults.noTokens) {
      const { prompt_logprob_start: start, prompt_logprob_token_ids: wanted } = body.sampling_params;
      const values = wanted.map((_, at) => of(body.token_ids, start + 1 + at) ?? -Infinity);
      return { prompt_token_id_logprobs: npy(faults.short ? values.slice(1) : values) };
    }
    if (kind === 'sglang' && path === '/generate') {
      return body.input_ids.map((ids, at) => {
        const start = body.logprob_start_len[at] as number;
        const entries = ids.slice(start).map((id, from) => [from === 0 ? null : of(ids, start + from), idOf(id), null]);
        return { meta_info: { input_token_logprobs: faults.short ? entries.slice(1) : entries, cached_tokens: start } };
      });
    }
    if (kind === 'trl' && path === '/get_sequence_logprobs/') {
      const lengths = body.sequences.map((ids, at) => ids.length - (body.prompt_lengths[at] as number));
      const width = Math.max(...lengths);
      const values = new Float32Array(lengths.length * width).fill(-Infinity);
      const ids = new Int32Array(values.length);
      for (const [at, sequence] of body.sequences.entries()) {
        const from = body.prompt_lengths[at] as number;
        for (let place = from; place < sequence.length; place++) {
          values[at * width + place - from] = of(sequence, place) ?? -Infinity;
          ids[at * width + place - from] = idOf(sequence[place] as number);
        }
      }
      const base64 = (array: ArrayBufferView): string => Buffer.from(array.buffer as ArrayBuffer).toString('base64');
      return {
        actual_logprobs_b64: base64(values),
        actual_token_ids_b64: base64(ids),
        completion_lengths: faults.short ? lengths.map((length) => length - 1) : lengths,
      };
    }
    return undefined;
  }

  async function handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    let text = '';
    for await (const chunk of request) text += chunk;
    const body = (text === '' ? {} : JSON.parse(text)) as Body;
    const say = (status: number, value: unknown): void => {
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(value));
    };
    const isOne = body.token_ids !== undefined && ('odd' in faults || faults.movedTo !== undefined);
    const pairs = isOne ? 1 : (body.prompt ?? body.input_ids ?? body.sequences)?.length;
    if (pairs !== undefined) {
      seen++;
      if ('odd' in faults) return say(200, faults.odd);
      if (faults.movedTo !== undefined) return void response.writeHead(307, { location: faults.movedTo }).end();
      if (seen <= (faults.busy ?? 0)) return say(503, { error: 'overloaded' });
      if (seen <= (faults.dropped ?? 0)) return void request.socket.destroy();
      if (pairs > (faults.mostPairs ?? Infinity)) return say(500, { error: 'CUDA out of memory. Tried to allocate' });
      asked.push(body);
      underWay += tokensOf(body);
      most = Math.max(most, underWay);
      await pause((faults.slowness ?? 0) * pairs);
      underWay -= tokensOf(body);
    }
    const isPost = request.method === 'POST';
    if (kind === 'trl' && request.url === '/get_sequence_logprobs/' && !isPost) return say(405, {});
    const said = answer(request.url ?? '', body);
    if (said === undefined) say(404, { detail: 'Not Found' });
    else say(200, said);
  }

  const server = createServer((request, response) => void handle(request, response));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    asked,
    mostTokens: () => most,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

function tokensOf({ prompt, input_ids, sequences }: Body): number {
  return (prompt ?? input_ids ?? sequences).reduce((sum, ids) => sum + ids.length, 0);
}

/** [rows, 1] float32 as numpy writes it. */
function npy(values: readonly number[]): string {
  const header = `{'descr': '<f4', 'fortran_order': False, 'shape': (${values.length}, 1), }`;
  const padded = `${header.padEnd(117)}\n`;
  const start = Buffer.concat([Buffer.from([0x93]), Buffer.from('NUMPY'), Buffer.from([1, 0, padded.length, 0])]);
  const data = Buffer.from(Float32Array.from(values).buffer);
  return Buffer.concat([start, Buffer.from(padded), data]).toString('base64');
}
