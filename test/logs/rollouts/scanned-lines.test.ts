// Lines as native code finds them hold what the careful reader finds in them: of any line, however it is damaged.
import { isDeepStrictEqual } from 'node:util';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { LineProblem } from '../../../src/logs/rollouts/fields.js';
import { JsonFields } from '../../../src/logs/rollouts/json-lines/json-fields.js';
import { ScannedLines } from '../../../src/logs/rollouts/json-lines/scanned-lines.js';
import { type LoggedText, textOf } from '../../../src/logs/rollouts/logged-text.js';
import { uniformNumbers } from '../../support/random-numbers.js';

const NAMES = ['a', 'output', 'é', 'é long name \u{1f600}', ''];

function scan(bytes: Buffer, names: readonly string[] = NAMES): ScannedLines {
  return new ScannedLines(bytes, names, Buffer.alloc(bytes.length, 0xee));
}

/** What `read` gives, or what it says is wrong. */
function outcome<T>(read: () => T): T | string {
  try {
    return read();
  } catch (error) {
    if (error instanceof LineProblem) return `problem: ${error.message}`;
    throw error;
  }
}

/** All that a reader may ask of a field. */
function findings(fields: JsonFields, name: string): unknown {
  const written = outcome(() => fields.written(name));
  return {
    has: fields.has(name),
    isText: fields.isText(name),
    value: outcome(() => fields.value(name)),
    id: outcome(() => fields.id(name)),
    tokens: outcome(() => fields.tokens(name)),
    written: written === undefined ? undefined : textOf(written as LoggedText),
  };
}

/** The lines of `bytes` by both; how many of them native code read. */
function compare(bytes: Buffer): number {
  const scanned = scan(bytes);
  const [taken, read] = [new JsonFields(NAMES), new JsonFields(NAMES)];
  let count = 0;
  let begin = 0;
  for (let line = 0; line < scanned.count; line++) {
    const place = scanned.line(line);
    const found = bytes.indexOf(0x0a, begin);
    const end = found < 0 ? bytes.length : found;
    if (place.begin !== begin || place.end !== end) expect(place).toMatchObject({ begin, end });
    begin = place.end + 1;
    if (!place.isRead) continue;
    count++;
    read.read(bytes, place.begin, place.end);
    taken.take(scanned, line);
    for (const name of NAMES) {
      const [one, other] = [findings(taken, name), findings(read, name)];
      if (!isDeepStrictEqual(one, other)) expect(one).toEqual(other);
    }
  }
  expect(begin).toBeGreaterThanOrEqual(bytes.length);
  return count;
}

const text = fc.oneof(
  fc.string({ unit: 'binary' }),
  fc.string({ unit: 'grapheme' }),
  fc.string(),
  fc.constantFrom('\ud800', '\udc00\ud800', '"', '\\', '\\"', '\n', '\u0000', '\u{1f600}', '\u0085', '\ufffd'),
);
/** Most are long enough to be found as bytes. */
const longText = fc
  .tuple(fc.array(text, { maxLength: 12 }), fc.nat(40))
  .map(([parts, times]) => parts.join('').repeat(times));
const value = fc.oneof(
  longText,
  fc.jsonValue(),
  fc.array(fc.nat(), { maxLength: 9 }),
  fc.constantFrom(12345678901234567890n, 2n ** 53n, -0.5, 1e300),
);
const space = fc.constantFrom('', ' ', '\t', '\r', '  ');

/** As writers escape: all but ASCII, or only what must be; any character may be, in either case. */
const written =
  (escapes: string) =>
  (of: unknown): string => {
    if (typeof of === 'bigint') return String(of);
    const json = JSON.stringify(of);
    if (escapes === 'ascii')
      return json.replace(/[\u007f-\uffff]/g, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, '0')}`);
    if (escapes === 'ASCII')
      return json.replace(
        /[\u007f-\uffff]/g,
        (one) => `\\u${one.charCodeAt(0).toString(16).toUpperCase().padStart(4, '0')}`,
      );
    return json.replaceAll('/', escapes === 'slash' ? '\\/' : '/');
  };

const line = fc
  .tuple(
    fc.array(fc.tuple(fc.oneof(fc.constantFrom(...NAMES), fc.string()), value), { maxLength: 6 }),
    fc.constantFrom('plain', 'ascii', 'ASCII', 'slash'),
    space,
  )
  .map(([members, escapes, gap]) => {
    const json = written(escapes);
    const pairs = members.map(([key, of]) => `${json(key)}${gap}:${gap}${json(of)}`);
    const isUsual = members.every(([key]) => !json(key).includes('\\'));
    return { text: `${gap}{${gap}${pairs.join(`${gap},${gap}`)}${gap}}${gap}`, isUsual };
  });

describe('lines that native code looks through', () => {
  it('hold what the careful reader finds, whatever texts, keys and spaces they have', () => {
    fc.assert(
      fc.property(fc.array(line, { maxLength: 4 }), fc.constantFrom('', '\n'), (lines, end) => {
        const bytes = Buffer.from(lines.map(({ text }) => text).join('\n') + end);
        // Of keys with escapes it says nothing.
        expect(compare(bytes)).toBe(lines.filter(({ isUsual }) => isUsual).length);
      }),
      { numRuns: 1500 },
    );
  });

  it('hold it however they are damaged', () => {
    const byte = fc.oneof(fc.constantFrom(...Buffer.from('"\\{}[]:,u0dDnN \n\t\r')), fc.nat(255));
    const change = fc.tuple(fc.nat(), fc.constantFrom('set', 'insert', 'cut', 'drop'), byte);
    fc.assert(
      fc.property(
        fc.array(line, { minLength: 1, maxLength: 3 }),
        fc.array(change, { maxLength: 4 }),
        (lines, changes) => {
          let bytes = Buffer.from(lines.map(({ text }) => text).join('\n'));
          for (const [place, kind, to] of changes) {
            const at = place % Math.max(1, bytes.length);
            if (kind === 'set' && bytes.length > 0) bytes[at] = to;
            if (kind === 'insert') bytes = Buffer.concat([bytes.subarray(0, at), Buffer.of(to), bytes.subarray(at)]);
            if (kind === 'cut') bytes = bytes.subarray(0, at);
            if (kind === 'drop') bytes = Buffer.concat([bytes.subarray(0, at), bytes.subarray(at + 1)]);
          }
          compare(bytes);
        },
      ),
      { numRuns: 3000 },
    );
  });

  it('hold it in very many damaged ones, of brackets above all', () => {
    const uniform = uniformNumbers(20);
    const below = (count: number): number => Math.floor(uniform() * count);
    const soup = '{}[]{}[]",:\\0 1';
    const whole = [
      '{"a": [[1, 2], {"b": [3]}], "output": "x[}", "": {"c": {}}}',
      '{"é": [10000, 20000], "a": {"d": "]"}}',
    ];
    const lines = Array.from({ length: process.env.COLLAPSAR_SANITIZED === undefined ? 100_000 : 10_000 }, () => {
      const line = [...(whole[below(whole.length)] as string)];
      for (let change = below(4); change >= 0; change--) {
        line.splice(below(line.length + 1), below(2), soup[below(soup.length)] as string);
      }
      return line.join('');
    });
    const read = compare(Buffer.from(lines.join('\n')));
    // Neither all nor none of them: both ways are compared.
    expect(read).toBeGreaterThan(lines.length / 100);
    expect(read).toBeLessThan(lines.length / 2);
  });

  it('are no JSON where a bracket closes one of another kind, in either way of reading', () => {
    for (const inside of ['[10000}0000]', '{"b": [1}]', '[{"c": 1]}', '[[1, 2}, 3]', '{"b": {"c": 1]}']) {
      const bytes = Buffer.from(`{"z": ${inside}}`);
      expect(scan(bytes).line(0).isRead, inside).toBe(false);
      expect(() => new JsonFields(NAMES).read(bytes, 0, bytes.length), inside).toThrow(/expected "[}\]]"/);
    }
    const deep = (times: number) => Buffer.from(`{"z": ${'[{"y":'.repeat(times)}0${'}]'.repeat(times)}, "a": 1}`);
    for (const times of [1, 31, 32, 33, 5000]) {
      expect(new JsonFields(NAMES).read(deep(times), 0, deep(times).length).number('a'), `${times}`).toBe(1);
      expect(scan(deep(times)).line(0).isRead, `${times}`).toBe(times <= 32);
    }
    const bomb = Buffer.from(`{"z": ${'['.repeat(2 ** 20)}`);
    expect(() => new JsonFields(NAMES).read(bomb, 0, bomb.length)).toThrow('nested deeper than 65536');
  });

  it('are read where they are as writers write them, and left to the careful reader where they are not', () => {
    const long = 'x'.repeat(200);
    const isRead = (one: string) => scan(Buffer.from(one)).line(0).isRead;
    for (const usual of ['{}', ' { } \r', '{"a":1}', `{"a": "${long}", "b": [{"c": "]"}], "d": null}`, '{"a": NaN}']) {
      expect(isRead(usual), usual).toBe(true);
    }
    for (const odd of ['\ufeff{}', '{"\\u0061":1}', '{"a":1', '{"a":1}x', '[]', '', '{"a" 1}', '{"a":"x}', "{'a':1}"]) {
      expect(isRead(odd), odd).toBe(false);
    }
  });

  it('give long texts as bytes, and what UTF-8 does not have or JSON refuses as the careful reader does', () => {
    const long = 'x'.repeat(200);
    const of = (inside: string) => {
      const scanned = scan(Buffer.from(`{"a":"${inside}"}`));
      return outcome(() => new JsonFields(NAMES).take(scanned, 0).written('a'));
    };
    expect(of(`${long}\\n\\u00e9\\ud83d\\ude00\\/`)).toEqual(Buffer.from(`${long}\né\u{1f600}/`));
    expect(of('short')).toBe('short');
    expect(of(`${long}\\ud83d`)).toBe(`${long}\ud83d`);
    expect(of(`${long}\\x`)).toMatch(/^problem: no JSON value/);
    expect(of(`${long}\t`)).toMatch(/^problem: no JSON value/);
  });
});

describe('room for texts', () => {
  it('is refused where it is less than there are bytes', () => {
    const bytes = Buffer.from('{"a":1}');
    expect(() => new ScannedLines(bytes, NAMES, Buffer.alloc(bytes.length - 1))).toThrow(
      /less room than there are bytes/,
    );
    expect(new ScannedLines(bytes, NAMES, Buffer.alloc(bytes.length)).count).toBe(1);
  });
});
