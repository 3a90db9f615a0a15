// Cross-scores from an inference engine: what each answers, what goes wrong with it, and the command.
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { afterEach, describe, expect, it } from 'vitest';
import { openScoringEngine, type ScoringEngineName, scorePairs } from '../../src/exports/scoring.js';
import { readSteps } from '../../src/index.js';
import { ScoringError } from '../../src/scoring/scoring-engine.js';
import { collapsar } from '../cli/cli-streams.js';
import { temporaryDirectory } from '../support/temporary-directory.js';
import { type EngineServer, type Faults, startEngine, sumUnder } from './engine-servers.js';

const directory = temporaryDirectory();
const servers: EngineServer[] = [];
afterEach(async () => {
  for (const server of servers.splice(0)) await server.close();
});

const retry = { attempts: 3, backoffMs: 1, timeoutMs: 5000 };
const prompts = [[5, 6, 7], [8], [9, 9, 4, 2]];
const rows = Array.from({ length: 7 }, (_, row) => ({
  lead: row === 2 ? [3, 3] : [],
  reasoning: Array.from({ length: 1 + (row % 4) }, (_, at) => 10 + ((row * 5 + at) % 20)),
}));
const everything = prompts.map((_, prompt) => ({ prompt, rows: Int32Array.from(rows.keys()) }));

async function scored(name: ScoringEngineName, faults: Faults = {}, tokensInFlight?: number, timeoutMs = 5000) {
  const server = await startEngine(name, faults);
  servers.push(server);
  const engine = await openScoringEngine(name, server.url, { retry: { ...retry, timeoutMs } });
  const sums = rows.map(() => prompts.map(() => Number.NaN));
  const take = (row: number, prompt: number, sum: number): void => {
    (sums[row] as number[])[prompt] = sum;
  };
  const { signal } = new AbortController();
  await scorePairs(engine, prompts, rows, everything, take, { urls: [server.url], signal, tokensInFlight });
  return { sums, server, engine };
}

const expected = rows.map(({ lead, reasoning }) => prompts.map((prompt) => sumUnder([...prompt, ...lead], reasoning)));

const KINDS: [string, ScoringEngineName, Faults][] = [
  ['vLLM by tokens', 'vllm', {}],
  ['vLLM by completions', 'vllm', { noTokens: true }],
  ['SGLang', 'sglang', {}],
  ["TRL's server", 'trl', {}],
];

describe.each(KINDS)('%s', (_, name, kind) => {
  it('gives the sums of the log-probs of the reasoning alone', async () => {
    const { sums } = await scored(name, kind);
    for (const [row, of] of sums.entries()) {
      for (const [prompt, sum] of of.entries()) expect(sum).toBeCloseTo(expected[row]?.[prompt] as number, 5);
    }
  });

  it.each<[string, Faults, RegExp]>([
    ['log-probs that are missing', { nulls: true }, /row \d under prompt \d: .*none for the log-prob/],
    ['too few log-probs', { short: true }, /the engine gave \d+ .*expected \d+/],
    ['what is no log-prob', { positive: true }, /gave 0.5 for the log-prob/],
  ])('is refused for %s, by row and prompt', async (_what, faults, problem) => {
    if (name === 'vllm' && kind.noTokens === undefined) {
      // The trial of the endpoint meets the fault, and completions are asked instead.
      await expect(scored(name, faults)).rejects.toThrow(problem);
    } else await expect(scored(name, { ...kind, ...faults })).rejects.toThrow(problem);
  });
});

describe("a server of newer TRL, which is vLLM's own", () => {
  it.each<Faults>([{}, { noTokens: true }])('is asked as vLLM is (%j)', async (faults) => {
    const server = await startEngine('vllm', faults);
    servers.push(server);
    const ofTrl = await openScoringEngine('trl', server.url, { retry });
    const ofVllm = await openScoringEngine('vllm', server.url, { retry });
    expect(ofTrl.described).toEqual(ofVllm.described);
  });
});

describe.each(KINDS.slice(1))('%s', (_, name, kind) => {
  it.each([
    null,
    3,
    'words',
    [],
    [null],
    {},
    { choices: 3 },
    { choices: [null] },
    { choices: [{ prompt_logprobs: [3] }] },
    { meta_info: { input_token_logprobs: [null, 3] } },
    { meta_info: 3 },
    { completion_lengths: 3, actual_logprobs_b64: '', actual_token_ids_b64: '' },
  ])('is refused in words where it answers %j', async (odd) => {
    await expect(scored(name, { ...kind, odd })).rejects.toThrow(ScoringError);
  });

  it('is not followed where it sends requests elsewhere', async () => {
    const elsewhere = await startEngine(name, kind);
    servers.push(elsewhere);
    const redirected = scored(name, { ...kind, movedTo: `${elsewhere.url}/generate` });
    await expect(redirected).rejects.toThrow(`a redirect to ${elsewhere.url}/generate, which is not followed`);
    expect(elsewhere.asked).toEqual([]);
  });

  it('is refused for the log-probs of other tokens', async () => {
    await expect(scored(name, { ...kind, wrongIds: true })).rejects.toThrow(/scored token \d+ at position|log-prob of/);
  });

  it('is asked again when it is busy or cuts off, and with less when memory runs out', async () => {
    for (const faults of [{ busy: 2 }, { dropped: 2 }, { mostPairs: 2 }]) {
      const { sums } = await scored(name, { ...kind, ...faults });
      expect(sums.flat().every(Number.isFinite)).toBe(true);
    }
  });

  it('is given up when it never answers', async () => {
    await expect(scored(name, { ...kind, busy: 99 })).rejects.toThrow(/answers 503.*asked 3 times/);
  });
});

describe('requests', () => {
  it('of one prompt go to one replica of SGLang, from the last token of the context on', async () => {
    const replicas = [await startEngine('sglang'), await startEngine('sglang')];
    servers.push(...replicas);
    const urls = replicas.map(({ url }) => url);
    const engine = await openScoringEngine('sglang', urls[0] as string, { retry });
    const { signal } = new AbortController();
    await scorePairs(engine, prompts, rows, everything, () => undefined, { urls, signal });
    const first = replicas[0]?.asked.flatMap(({ input_ids }) => (input_ids as number[][]).map(([id]) => id));
    expect(new Set(first)).toEqual(new Set([5, 9]));
    const asked = replicas[1]?.asked[0] as { logprob_start_len: number[] } | undefined;
    expect(asked?.logprob_start_len[0]).toBe(0);
    expect(engine.described).toEqual({ engine: 'sglang', model: 'policy', weights: '12' });
  });

  it('stay within the tokens in flight, and one that has more goes alone', async () => {
    const { sums } = await scored('trl', {}, 4);
    expect(sums.flat().every(Number.isFinite)).toBe(true);
  });

  it('wait for a slow engine, which never has more than the tokens in flight', async () => {
    const { sums, server } = await scored('trl', { slowness: 5 }, 60);
    expect(sums).toEqual((await scored('trl')).sums);
    expect(server.asked.length).toBeGreaterThan(2);
    expect(server.mostTokens()).toBeLessThanOrEqual(60);
    expect(server.mostTokens()).toBeGreaterThan(30);
  });

  it('that take too long are sent again by halves, until they take too long alone', async () => {
    // A request of 7 pairs takes 420 ms, half of it 240.
    const { sums, server } = await scored('trl', { slowness: 60 }, undefined, 350);
    expect(sums).toEqual((await scored('trl')).sums);
    const pairs = server.asked.map(({ sequences }) => (sequences as unknown[]).length);
    expect(new Set(pairs)).toEqual(new Set([7, 4, 3]));
    await expect(scored('trl', { slowness: 400 }, undefined, 100)).rejects.toThrow(
      /row \d under prompt \d: .*does not answer within 0.1 s \(asked 2 times\)/,
    );
  });

  it('stop at an abort', async () => {
    const server = await startEngine('trl', { busy: 99 });
    servers.push(server);
    const engine = await openScoringEngine('trl', server.url, {
      retry: { ...retry, attempts: 99, backoffMs: 50 },
    });
    const controller = new AbortController();
    const scoring = scorePairs(engine, prompts, rows, everything, () => undefined, {
      urls: [server.url],
      signal: controller.signal,
    });
    setTimeout(() => controller.abort(new Error('enough')), 50);
    await expect(scoring).rejects.toThrow('enough');
  });
});

describe('collapsar score', () => {
  const log = join(directory, 'rollouts.jsonl');
  const lines = [1, 2].flatMap((step) =>
    Array.from({ length: 16 }, (_, row) => {
      const group = row >> 2;
      return {
        step,
        group,
        prompt_tokens: [40 + group, 3],
        tokens: [10 + group, 20 + row, 30 + step],
        reward: row % 2,
      };
    }),
  );
  writeFileSync(log, lines.map((line) => `${JSON.stringify(line)}\n`).join(''));
  const score = (server: EngineServer, ...args: string[]) =>
    collapsar(['score', log, '--engine', 'sglang', '--url', server.url, ...args]);

  it('writes step files that can be analysed, and goes on where it stopped', async () => {
    const server = await startEngine('sglang');
    servers.push(server);
    const out = join(directory, 'steps');
    const { status, err } = await score(server, '--out', out);
    expect({ status, err }).toMatchObject({ status: 0, err: expect.stringMatching(/64 of 64 pairs, \d+ tokens\/s/) });
    const files = readdirSync(out).sort();
    expect(files).toHaveLength(2);
    let steps = 0;
    for await (const step of readSteps(out)) {
      steps++;
      expect(step.metadata).toMatchObject({ engine: 'sglang', weights: '12', score_temperature: '1' });
      expect(step.scores.kind).toBe('sums');
      const { data } = await (step.scores as { read(): Promise<{ data: Float64Array }> }).read();
      const { tokens, prompt_tokens } = lines[0] as { tokens: number[]; prompt_tokens: number[] };
      if (step.step === 1) expect(data[0]).toBeCloseTo(sumUnder(prompt_tokens, tokens), 5);
    }
    expect(steps).toBe(2);
    expect((await score(server, '--out', out)).status).toBe(1);
    const before = server.asked.length;
    expect(await score(server, '--out', out, '--resume')).toMatchObject({ status: 0 });
    expect(server.asked.length).toBe(before);
  });

  it('writes estimates from few negatives', async () => {
    const server = await startEngine('sglang');
    servers.push(server);
    const out = join(directory, 'estimates');
    expect(await score(server, '--out', out, '--negatives', '3', '--quiet')).toMatchObject({ status: 0, err: '' });
    const [first] = readdirSync(out).sort();
    const { values, metadata } = JSON.parse(readFileSync(join(out, first as string), 'utf8'));
    expect(values.mi_seq_estimate).toBeTypeOf('number');
    expect(metadata.engine).toBe('sglang');
  });

  it('names a step that has no token ids, and an engine that fails', async () => {
    const server = await startEngine('sglang', { nulls: true });
    servers.push(server);
    const texts = join(directory, 'texts.jsonl');
    writeFileSync(texts, `${JSON.stringify({ step: 1, group: 0, prompt: 'a', output: 'b', reward: 1 })}\n`);
    const args = ['--engine', 'sglang', '--url', server.url, '--out', join(directory, 'none')];
    const noIds = await collapsar(['score', texts, ...args]);
    expect(noIds).toMatchObject({ status: 1, err: expect.stringContaining('no token ids') });
    const packed = join(directory, 'packed.jsonl.gz');
    const long = { step: 1, group: 0, prompt_tokens: [1], tokens: [2], output: 'x'.repeat(1000), reward: 1 };
    writeFileSync(packed, gzipSync(`${JSON.stringify(long)}\n`.repeat(2000)));
    const bomb = await collapsar(['score', packed, ...args, '--max-memory', '1MB']);
    expect(bomb).toMatchObject({
      status: 1,
      err: expect.stringContaining('for which --max-memory 1000000 has no room'),
    });
    const failing = await score(server, '--out', join(directory, 'failing'));
    expect(failing).toMatchObject({ status: 1, err: expect.stringMatching(/row \d+ under prompt \d+/) });
  });
});
