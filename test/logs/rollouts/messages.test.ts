import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { LineProblem } from '../../../src/logs/rollouts/fields.js';
import { chatOf, messagesOf, promptText, spokenBy, spokenIn } from '../../../src/logs/rollouts/messages.js';
import { temporaryDirectory } from '../../support/temporary-directory.js';
import { putLogs, readOne } from './rollout-logs.js';

const root = temporaryDirectory();
const call = { id: 'c1', type: 'function', function: { name: 'search', arguments: '{"q": "x"}' } };
const said = (...messages: unknown[]) => spokenIn(messagesOf(messages, 'output'));

describe('calls of tools', () => {
  it('are output and action however they are written, without the id that is drawn for each', () => {
    const expected = 'search({"q": "x"})';
    const forms: object[] = [
      { tool_calls: [call] },
      { tool_calls: [{ ...call, id: 'another' }] },
      { tool_calls: [JSON.stringify(call)] },
      { tool_calls: [{ id: 'c', name: 'search', arguments: '{"q": "x"}' }] },
      { function_call: { name: 'search', arguments: '{"q": "x"}' } },
      { content: [{ type: 'function_call', id: 'c', name: 'search', arguments: '{"q": "x"}' }] },
    ];
    for (const form of forms) {
      expect(said({ role: 'assistant', content: null, ...form })).toEqual({ output: expected, action: expected });
    }
    const use = { type: 'tool_use', id: 'c', name: 'search', input: { q: 'x', n: 12345678901234567890n } };
    expect(said({ role: 'assistant', content: [{ type: 'text', text: 'so' }, use] })).toEqual({
      output: 'so\nsearch({"q":"x","n":"12345678901234567890"})',
      action: 'search({"q":"x","n":"12345678901234567890"})',
    });
  });

  it('of several turns are all the action, and reasoning that stands apart is no output', () => {
    const turns = [
      { role: 'assistant', content: 'a', reasoning_content: 'r', tool_calls: [call] },
      { role: 'tool', content: 'found' },
      {
        role: 'assistant',
        content: [
          { type: 'thinking', thinking: 's' },
          { type: 'text', text: 'done' },
        ],
      },
    ];
    expect(said(...turns)).toEqual({
      output: 'a\nsearch({"q": "x"})\ndone',
      reasoning: 'r\ns',
      action: 'search({"q": "x"})',
    });
  });

  it('of turns before the response belong to the prompt', () => {
    const prompt = (city: string) =>
      promptText(messagesOf([{ role: 'assistant', tool_calls: [{ name: 'look', arguments: { city } }] }], 'prompt'));
    expect(prompt('a')).toBe('assistant\nlook({"city":"a"})');
  });
});

describe('parts that are no text', () => {
  const image = (data: string) => ({ type: 'image', image: { bytes: Buffer.from(data), path: null } });
  const prompt = (...parts: unknown[]) => promptText(messagesOf([{ role: 'user', content: parts }], 'prompt'));

  it('are a mark in the prompt, equal for equal parts', () => {
    const text = { type: 'text', text: 'What is it?', image: null };
    expect(prompt(image('a'), text)).toMatch(/^user\n<image [0-9a-f]{16}>What is it\?$/);
    expect(prompt(image('a'), text)).toBe(prompt(image('a'), text));
    expect(prompt(image('a'), text)).not.toBe(prompt(image('b'), text));
    expect(prompt({ type: 'input_audio', input_audio: { data: 'x' } }, text)).toMatch(/^user\n<input_audio /);
  });

  it('whose content is elsewhere are a mark without a hash', () => {
    expect(prompt({ type: 'image', text: null }, 'What is it?')).toBe('user\n<image>What is it?');
  });

  it('of a response are no output', () => {
    expect(said({ role: 'assistant', content: [image('a'), { type: 'text', text: 'see' }] })).toEqual({
      output: 'see',
    });
  });
});

describe('chats', () => {
  const chat = [
    { role: 'user', content: 'lookup item' },
    { role: 'assistant', content: 'found' },
  ];

  it('that are stored as JSON text are chats, and other texts are texts', () => {
    expect(chatOf(messagesOf(` \n${JSON.stringify(chat)}`, 'messages'))).toEqual({
      prompt: 'user\nlookup item',
      output: 'found',
    });
    for (const text of ['[{"a": 1}]', '[{"role": "user", "content": "cut', '[1, 2]', '{"role": "user"}', '[]', '[ {']) {
      expect(spokenBy(messagesOf(text, 'output')), text).toEqual({ output: text });
    }
  });

  it('with ShareGPT’s names, and a message by itself, are read', () => {
    const shared = [
      { from: 'human', value: 'q' },
      { from: 'gpt', value: 'a' },
    ];
    expect(chatOf(messagesOf(shared, 'conversations'))).toEqual({ prompt: 'user\nq', output: 'a' });
    expect(spokenIn(messagesOf({ role: 'assistant', content: 'a' }, 'message'))).toEqual({ output: 'a' });
  });

  it('of which an entry is no message are refused by its name', () => {
    for (const odd of [{ index: 0, text: 'a' }, { type: 'x' }, {}]) {
      expect(() => messagesOf([chat[0], odd], 'choices')).toThrow(LineProblem);
      expect(() => messagesOf([chat[0], odd], 'choices')).toThrow('choices[1] has neither role nor content');
    }
  });

  it('as JSON text in a column of any reader are chats', async () => {
    const [input, output] = [JSON.stringify(chat.slice(0, 1)), JSON.stringify(chat.slice(1))];
    const expected = { prompt: ['user\nlookup item'], output: ['found'] };
    const logs: Record<string, object> = {
      '1.jsonl': { input, output, score: 1, step: 1 },
      'rollouts.jsonl': { step: 1, group: 0, prompt: input, output, reward: 1 },
      'results.jsonl': { example_id: 0, prompt: input, completion: output, reward: 1 },
      'global_step_1_evals/x.jsonl': { input_prompt: input, output_response: output, score: 1 },
      'rollout/1/t.jsonl': { task_id: 't', sample_idx: 0, prompt: input, completion: output, reward: 1 },
      'rollout_dump_data.step_1.jsonl': { prompt: [input], responses: [output], scores: [1] },
    };
    let at = 0;
    for (const [name, line] of Object.entries(logs)) {
      const step = await readOne(putLogs(join(root, `${at++}`), { [name]: [line] }));
      expect({ prompt: step.prompt, output: step.output }, step.format).toEqual(expected);
    }
  });

  it('in Parquet are read as those of JSON lines', async () => {
    const step = await readOne(join(import.meta.dirname, '..', '..', 'golden', 'logs', 'conversations.parquet'));
    expect(step).toMatchObject({ format: 'rollouts', rows: 8, groupIds: ['0', '1'] });
    expect(step.prompt?.[5]).toBe('system\nYou help.\nuser\nweather in city1?');
    expect(step.output?.[5]).toBe('get_weather({"city": "city1"})\nIt is warm 5.');
    expect(step.action?.[5]).toBe('get_weather({"city": "city1"})');
  });
});
