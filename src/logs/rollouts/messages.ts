// A chat in, what the policy saw and what it said out.
import { type Fields, fieldsOf, wrong } from './fields.js';
import type { LoggedText } from './logged-text.js';
import type { Rollout } from './rollout.js';

interface Message {
  readonly role: string;
  readonly content: string;
  readonly reasoning: string | undefined;
}

/** Reads a list of messages, a text, or a text that is such a list written as JSON. */
export function messagesOf(value: unknown, name: string): Message[] {
  if (typeof value === 'string') return [{ role: '', content: value, reasoning: undefined }];
  if (!Array.isArray(value)) return wrong(name, value, 'a list of messages');
  return value.map((message, at) => messageOf(message, `${name}[${at}]`));
}

function messageOf(value: unknown, name: string): Message {
  const message = fieldsOf(value, name);
  const content = message.value('content');
  return {
    role: message.text('role') ?? '',
    content: content === undefined ? '' : contentOf(content, `${name}.content`),
    reasoning: message.text('reasoning_content') ?? message.text('reasoning'),
  };
}

/** Text, or parts of which those with text count: images and the like are not read. */
function contentOf(value: unknown, name: string): string {
  if (typeof value === 'string') return value;
  if (!Array.isArray(value)) return wrong(name, value, 'text or a list of parts');
  return value
    .map((part, at) => (typeof part === 'string' ? part : (fieldsOf(part, `${name}[${at}]`).text('text') ?? '')))
    .join('');
}

/** As trainers print a chat: the role, then what was said. */
export function promptText(messages: readonly Message[]): string {
  return messages.map(({ role, content }) => (role === '' ? content : `${role}\n${content}`)).join('\n');
}

/** A field that is a text, or a chat. */
export function promptIn(line: Fields, name: string): LoggedText | undefined {
  if (line.isText(name)) return line.written(name);
  const value = line.value(name);
  return value === undefined ? undefined : promptText(messagesOf(value, name));
}

/** The assistant's turns, one after the other. Where the log keeps their reasoning apart, that is the reasoning. */
export function spokenBy(turns: readonly Message[]): Pick<Rollout, 'output' | 'reasoning' | 'action'> {
  const output = turns.map(({ content }) => content).join('\n');
  const reasoned = turns.filter(({ reasoning }) => reasoning !== undefined);
  if (reasoned.length === 0) return { output };
  const reasoning = reasoned.map((turn) => turn.reasoning).join('\n');
  return { output, reasoning, action: (turns.at(-1) as Message).content };
}

/** A whole chat: what stands before the assistant's first turn is the prompt. */
export function chatOf(messages: readonly Message[]): Pick<Rollout, 'prompt' | 'output' | 'reasoning' | 'action'> {
  const first = messages.findIndex(({ role }) => role === 'assistant');
  if (first < 0) return { prompt: promptText(messages) };
  const turns = messages.slice(first).filter(({ role }) => role === 'assistant');
  return { prompt: promptText(messages.slice(0, first)), ...spokenBy(turns) };
}
