// Splits a chat into what the policy saw and what it said. The latter is text and tool calls; parts of a prompt that
// are not text, such as images, distinguish prompts by their hash.
import { createHash } from 'node:crypto';
import { printable } from '../../checks/words.js';
import type { Rollout } from './columns.js';
import { type Fields, fieldsOf, LineProblem, type ObjectFields, wrong } from './fields.js';
import { parseJsonLine } from './json-lines/json-line.js';
import { type LoggedText, textOf } from './logged-text.js';

interface Message {
  readonly role: string;
  readonly content: string;
  readonly reasoning: string | undefined;
  /** `name(arguments)` each. */
  readonly calls: readonly string[];
  /** Content and calls, with a mark in the place of each part that is not text. */
  readonly seen: string;
}

type Said = Pick<Rollout, 'output' | 'reasoning' | 'action'>;

/** ShareGPT's and others' names. */
const ROLES: Readonly<Record<string, string>> = {
  human: 'user',
  ai: 'assistant',
  gpt: 'assistant',
  chatgpt: 'assistant',
  model: 'assistant',
  bot: 'assistant',
};

const OPEN_LIST = 0x5b;
const OPEN_OBJECT = 0x7b;

/** Reads a list of messages, one message, a text, or a text that is such a list written as JSON. */
export function messagesOf(value: unknown, name: string): Message[] {
  if (typeof value === 'string') return chatIn(value, name) ?? [plainMessage(value)];
  if (Array.isArray(value)) return value.map((message, at) => messageOf(message, `${name}[${at}]`));
  if (typeof value === 'object' && value !== null && !ArrayBuffer.isView(value)) return [messageOf(value, name)];
  return wrong(name, value, 'a list of messages');
}

function plainMessage(content: string): Message {
  return { role: '', content, reasoning: undefined, calls: [], seen: content };
}

/** The messages of a text that is a list of them, written as JSON; undefined for any other text. */
function chatIn(text: LoggedText, name: string): Message[] | undefined {
  if (!beginsAsChat(text)) return undefined;
  let value: unknown;
  try {
    value = parseJsonLine(textOf(text));
  } catch {
    return undefined;
  }
  const isChat = Array.isArray(value) && value.every((one) => typeof (one?.role ?? one?.from) === 'string');
  return isChat ? messagesOf(value, name) : undefined;
}

/** With a list of objects. */
function beginsAsChat(text: LoggedText): boolean {
  let at = 0;
  for (const expected of [OPEN_LIST, OPEN_OBJECT]) {
    const code = (): number => (typeof text === 'string' ? text.charCodeAt(at) : (text[at] as number));
    while (at < text.length && (code() === 0x20 || (code() >= 0x09 && code() <= 0x0d))) at++;
    if (at >= text.length || code() !== expected) return false;
    at++;
  }
  return true;
}

function messageOf(value: unknown, name: string): Message {
  const message = fieldsOf(value, name);
  const type = message.value('type');
  const role = message.text('role') ?? message.text('from') ?? (isRole(type) ? type : undefined);
  if (role === undefined && typeof type === 'string') {
    const item = itemOf(message, type, name);
    if (item !== undefined) return item;
  }
  const content = message.value('content') ?? message.value('value');
  const calls = callsOf(message, name);
  if (role === undefined && content === undefined && calls.length === 0) {
    throw new LineProblem(`${printable(name)} has neither role nor content: expected a message of a chat, or text`);
  }
  const parts = content === undefined ? [] : partsOf(content, `${name}.content`);
  const inParts = parts.filter(({ kind }) => kind === 'call').map(({ text }) => text);
  const thoughts = parts.filter(({ kind }) => kind === 'reasoning').map(({ text }) => text);
  const all = [...inParts, ...calls];
  const shown = parts.filter(({ kind }) => kind === 'text' || kind === 'other').map(({ text }) => text);
  return {
    role: (role !== undefined && Object.hasOwn(ROLES, role) ? ROLES[role] : role) ?? '',
    content: parts
      .filter(({ kind }) => kind === 'text')
      .map(({ text }) => text)
      .join(''),
    reasoning:
      message.text('reasoning_content') ??
      message.text('reasoning') ??
      (thoughts.length > 0 ? thoughts.join('\n') : undefined),
    calls: all,
    seen: lines([shown.join(''), ...all]),
  };
}

/** LangChain says the role so. */
function isRole(type: unknown): type is string {
  return typeof type === 'string' && ['human', 'ai', 'system', 'tool'].includes(type);
}

/** Items of OpenAI's Responses that are not messages: reasoning, a call, or what a tool gave. */
function itemOf(item: ObjectFields, type: string, name: string): Message | undefined {
  const said = { role: 'assistant', content: '', reasoning: undefined, calls: [], seen: '' };
  if (type === 'reasoning') {
    const parts = ['summary', 'content'].flatMap((key) => partsOf(item.value(key) ?? [], `${name}.${key}`));
    return parts.length === 0 ? said : { ...said, reasoning: parts.map(({ text }) => text).join('\n') };
  }
  if (type.endsWith('_call')) {
    const call = callText(item);
    return { ...said, calls: [call], seen: call };
  }
  if (!type.endsWith('_output')) return undefined;
  const output = item.value('output') ?? '';
  const content = typeof output === 'string' ? output : jsonOf(output);
  return { ...said, role: 'tool', content, seen: content };
}

interface Part {
  readonly kind: 'text' | 'reasoning' | 'call' | 'other';
  readonly text: string;
}

/** Of a text, or of a list of parts: texts, thoughts, calls of tools, and others, such as images. */
function partsOf(value: unknown, name: string): Part[] {
  if (typeof value === 'string') return [{ kind: 'text', text: value }];
  if (!Array.isArray(value)) return wrong(name, value, 'text or a list of parts');
  return value.map((part, at) => {
    if (typeof part === 'string') return { kind: 'text', text: part };
    const fields = fieldsOf(part, `${name}[${at}]`);
    const kind = fields.value('type');
    if (kind === 'tool_use' || kind === 'function_call') return { kind: 'call', text: callText(fields) };
    const thought =
      kind === 'thinking' ? fields.text('thinking') : kind === 'reasoning' ? fields.text('text') : undefined;
    if (thought !== undefined) return { kind: 'reasoning', text: thought };
    const text = fields.text('text');
    return text === undefined ? { kind: 'other', text: markOf(fields) } : { kind: 'text', text };
  });
}

/** `<image_url 5f3a…>`: equal for equal parts. Of a part whose content is elsewhere, `<image>`. */
function markOf(part: ObjectFields): string {
  const kind = part.value('type');
  const word = typeof kind === 'string' && /^[\w.-]{1,40}$/.test(kind) ? kind : 'part';
  const content = part.names.filter((name) => name !== 'type' && part.value(name) !== undefined);
  if (content.length === 0) return `<${word}>`;
  const json = jsonOf(content.map((name) => [name, part.value(name)]));
  return `<${word} ${createHash('sha256').update(json).digest('hex').slice(0, 16)}>`;
}

function callsOf(message: ObjectFields, name: string): string[] {
  const single = message.value('function_call');
  const list = message.value('tool_calls') ?? (single === undefined ? [] : [single]);
  if (!Array.isArray(list)) return wrong(`${name}.tool_calls`, list, 'a list of calls');
  return list.filter((call) => call !== null).map((call, at) => callOf(call, `${name}.tool_calls[${at}]`));
}

/** An object, or the JSON of one. */
function callOf(value: unknown, name: string): string {
  if (typeof value !== 'string') return callText(fieldsOf(value, name));
  try {
    return callText(fieldsOf(parseJsonLine(value), name));
  } catch {
    return value;
  }
}

/** Without its id, which is different for each call. */
function callText(call: ObjectFields): string {
  const inner = call.value('function') ?? call.value('custom');
  if (typeof inner === 'object' && inner !== null) return callText(fieldsOf(inner, 'function'));
  const name = call.value('name') ?? inner;
  const given = ['arguments', 'input', 'args', 'parameters']
    .map((key) => call.value(key))
    .find((one) => one !== undefined);
  const text = given === undefined ? '' : typeof given === 'string' ? given : jsonOf(given);
  return `${typeof name === 'string' ? name : ''}(${text})`;
}

/** Tables hold long integers and bytes among their values. */
function jsonOf(value: unknown): string {
  return JSON.stringify(value, (_, one: unknown) => {
    if (typeof one === 'bigint') return String(one);
    return one instanceof Uint8Array ? Buffer.from(one).toString('base64') : one;
  });
}

function lines(texts: readonly string[]): string {
  return texts.filter((text) => text !== '').join('\n');
}

/** As trainers print a chat: the role, then what was said. */
export function promptText(messages: readonly Message[]): string {
  return messages.map(({ role, seen }) => (role === '' ? seen : `${role}\n${seen}`)).join('\n');
}

/** The answer that somebody has found in a response: the first of these fields that is a text or a number. */
export function answerIn(line: Fields, names: readonly string[]): string | undefined {
  for (const name of names) {
    const value = line.value(name);
    if (typeof value === 'string') return value;
    if ((typeof value === 'number' && !Number.isNaN(value)) || typeof value === 'bigint') return String(value);
  }
  return undefined;
}

/** A field that is a text, or a chat. */
export function promptIn(line: Fields, name: string): LoggedText | undefined {
  if (line.isText(name)) {
    const text = line.written(name) as LoggedText;
    const chat = chatIn(text, name);
    return chat === undefined ? text : promptText(chat);
  }
  const value = line.value(name);
  return value === undefined ? undefined : promptText(messagesOf(value, name));
}

/** A field that is a text, or a chat of which the assistant's turns count. */
export function saidIn(line: Fields, name: string): { [Column in keyof Said]?: LoggedText } & Pick<Said, 'action'> {
  if (line.isText(name)) {
    const text = line.written(name) as LoggedText;
    const chat = chatIn(text, name);
    return chat === undefined ? { output: text } : spokenIn(chat);
  }
  const value = line.value(name);
  if (value === undefined) return {};
  if (typeof value === 'number' || typeof value === 'boolean') return { output: String(value) };
  return spokenIn(messagesOf(value, name));
}

/** Messages before the assistant's first turn in a field that is a whole chat. */
export function heardIn(line: Fields, name: string): string | undefined {
  const value = line.isText(name) ? chatIn(line.written(name) as LoggedText, name) : line.value(name);
  if (!Array.isArray(value)) return undefined;
  const chat = line.isText(name) ? (value as Message[]) : messagesOf(value, name);
  const first = chat.findIndex(({ role }) => role === 'assistant');
  return first > 0 ? promptText(chat.slice(0, first)) : undefined;
}

/** What the assistant says in a chat that is a response; a text without a role is the assistant's. */
export function spokenIn(messages: readonly Message[]): Said {
  return spokenBy(messages.filter(({ role }) => role === 'assistant' || role === ''));
}

/**
 * The assistant's turns, one after the other: words, and calls of tools. If the log keeps their reasoning apart, that
 * is the reasoning. The action is what it called, else what it said last beside its reasoning.
 */
export function spokenBy(turns: readonly Message[]): Said {
  const output = lines(turns.map(({ content, calls }) => lines([content, ...calls])));
  const calls = turns.flatMap((turn) => turn.calls);
  const reasoned = turns.filter(({ reasoning }) => reasoning !== undefined);
  const called = calls.length > 0 ? { action: calls.join('\n') } : {};
  if (reasoned.length === 0) return { output, ...called };
  const reasoning = reasoned.map((turn) => turn.reasoning).join('\n');
  return { output, reasoning, action: (turns.at(-1) as Message).content, ...called };
}

/** A whole chat: the messages before the assistant's first turn are the prompt. */
export function chatOf(messages: readonly Message[]): Pick<Rollout, 'prompt' | 'output' | 'reasoning' | 'action'> {
  const first = messages.findIndex(({ role }) => role === 'assistant');
  if (first < 0) return { prompt: promptText(messages) };
  const turns = messages.slice(first).filter(({ role }) => role === 'assistant');
  return { prompt: promptText(messages.slice(0, first)), ...spokenBy(turns) };
}
