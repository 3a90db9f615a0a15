// Scores of logs that have texts and no token ids: by a tokenizer of the policy.
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { readSteps } from '../../src/index.js';
import { openTokenizer } from '../../src/scoring/text-tokenizer.js';
import { collapsar } from '../cli/cli-streams.js';
import { temporaryDirectory } from '../support/temporary-directory.js';
import { type EngineServer, startEngine, sumUnder } from './engine-servers.js';

const directory = temporaryDirectory();
const model = join(import.meta.dirname, '..', 'golden', 'tokenizer');
const servers: EngineServer[] = [];
afterEach(async () => {
  for (const server of servers.splice(0)) await server.close();
});

describe('openTokenizer', () => {
  it('gives the ids that the tokenizers library of Hugging Face gives', async () => {
    const tokenizer = await openTokenizer(model);
    const known = JSON.parse(readFileSync(join(model, 'ids.json'), 'utf8')) as { text: string; ids: number[] }[];
    for (const { text, ids } of known) expect(Array.from(tokenizer.response(text)), text).toEqual(ids);
    expect(tokenizer.name).toBe('tokenizer');
  });

  it('puts before a prompt what the tokenizer does, and nothing behind it', async () => {
    const { prompt, response } = await openTokenizer(join(model, 'tokenizer.json'));
    expect(Array.from(prompt('where?'))).toEqual([0, ...response('where?')]);
    expect(Array.from(prompt(''))).toEqual([0]);
  });

  it('names a file that is missing or no tokenizer', async () => {
    await expect(openTokenizer(join(directory, 'none'))).rejects.toThrow(
      /none.*expected a tokenizer.json, or a folder/,
    );
    for (const [name, text] of [
      ['text', 'hello'],
      ['list', '7'],
      ['other', '{"a": 1}'],
    ] as const) {
      const path = join(directory, `${name}.json`);
      writeFileSync(path, text);
      await expect(openTokenizer(path)).rejects.toMatchObject({ code: 'ERR_FILE', path });
    }
  });
});

describe('collapsar score of texts', () => {
  const written = (name: string, output: (row: number) => object) => {
    const path = join(directory, `${name}.jsonl`);
    const lines = Array.from({ length: 8 }, (_, row) => ({
      step: 1,
      prompt: `where do I go? ${row >> 2}`,
      reward: row % 2,
      ...output(row),
    }));
    writeFileSync(path, lines.map((line) => `${JSON.stringify(line)}\n`).join(''));
    return path;
  };
  const score = async (path: string, ...more: string[]) => {
    const server = await startEngine('trl');
    servers.push(server);
    const out = join(directory, `steps-${servers.length}-${Math.random()}`);
    const run = await collapsar(['score', path, '--engine', 'trl', '--url', server.url, '--out', out, ...more]);
    return { ...run, out };
  };
  const stepOf = async (out: string) => {
    for await (const step of readSteps(out)) {
      const { data } = await (step.scores as { read(): Promise<{ data: Float64Array }> }).read();
      return { ...step, data };
    }
    throw new Error('no step');
  };

  it('scores the reasoning between its tags, and the step says that its tokens are approximate', async () => {
    const path = written('tags', (row) => ({ output: `<think>The box ${row}.</think> Up` }));
    const { status, err, out } = await score(path, '--tokenizer', model, '--quiet');
    expect({ status, err }).toEqual({ status: 0, err: '' });
    const step = await stepOf(out);
    expect(step.metadata).toMatchObject({ tokens: 'approximate: of the texts, by the tokenizer of tokenizer' });
    const { prompt, response } = await openTokenizer(model);
    for (let row = 0; row < 8; row++) {
      for (const of of [0, 1]) {
        const context = [...prompt(`where do I go? ${of}`), ...response('<think>')];
        const sum = sumUnder(context, Array.from(response(`The box ${row}.`)));
        expect(step.data[row * 2 + of]).toBeCloseTo(sum, 4);
      }
    }
  });

  it('finds the reasoning where its letters stand before it, where it is not opened, and where it is apart', async () => {
    const path = written('odd', (row) => ({
      output: ['<think>t</think> Up', 'The box</think> Up', 'The box is left.', '<think>The box'][row % 4],
      ...(row % 4 === 2 && { reasoning: 'It is right.' }),
    }));
    const { out } = await score(path, '--tokenizer', model, '--quiet');
    const step = await stepOf(out);
    const { prompt, response } = await openTokenizer(model);
    const expected = [
      ['<think>', 't'],
      ['', 'The box'],
      ['', 'It is right.'],
      ['<think>', 'The box'],
    ];
    for (let row = 0; row < 8; row++) {
      const [lead, reasoning] = expected[row % 4] as [string, string];
      const context = [...prompt(`where do I go? 1`), ...response(lead)];
      expect(step.data[row * 2 + 1]).toBeCloseTo(sumUnder(context, Array.from(response(reasoning))), 4);
    }
  });

  it('finds the tags of token ids by the tokenizer', async () => {
    const { response } = await openTokenizer(model);
    const path = written('ids', (row) => ({
      prompt_tokens: [9, 8 + (row >> 2)],
      tokens: Array.from(response(`<think>box ${row}</think>Up`)),
    }));
    const { out } = await score(path, '--tokenizer', model, '--quiet');
    const step = await stepOf(out);
    const [open] = response('<think>');
    expect(step.metadata).not.toHaveProperty('tokens');
    expect(step.data[0]).toBeCloseTo(sumUnder([9, 8, open as number], Array.from(response('box 0'))), 4);
  });

  it('says that a tokenizer is needed', async () => {
    const { status, err, out } = await score(written('none', () => ({ output: 'b' })));
    expect({ status, err }).toMatchObject({ status: 1, err: expect.stringContaining('--tokenizer') });
    expect(readdirSync(out)).toEqual([]);
  });
});
