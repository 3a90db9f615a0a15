// Lines of text as `collapsar filter` takes them: their ends, their length, and lines that were made to keep it busy.
import { Readable } from 'node:stream';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { RewardLines } from '../src/cli/reward-lines.js';
import { separatedFields } from '../src/cli/separated-fields.js';
import { textLines } from '../src/cli/text-lines.js';

async function linesOf(chunks: readonly (string | Buffer)[], most?: number): Promise<string[]> {
  const lines: string[] = [];
  for await (const line of textLines(Readable.from(chunks, { objectMode: true }), 'rows.csv', most)) lines.push(line);
  return lines;
}

describe('lines of a stream', () => {
  it('end with \\n, \\r\\n or \\r, wherever the stream is cut', async () => {
    const piece = fc.constantFrom('a', '\n', '\r', '\r\n', 'ø', '\u2028', '😀');
    await fc.assert(
      fc.asyncProperty(fc.array(piece), fc.infiniteStream(fc.integer({ min: 1, max: 5 })), async (pieces, sizes) => {
        const bytes = Buffer.from(pieces.join(''));
        const chunks: Buffer[] = [];
        for (let at = 0; at < bytes.length; ) {
          const end = at + (sizes.next().value as number);
          chunks.push(bytes.subarray(at, end));
          at = end;
        }
        const expected = bytes.toString().split(/\r\n|[\n\r]/);
        if (expected.at(-1) === '') expected.pop();
        expect(await linesOf(chunks)).toEqual(expected);
      }),
    );
  });

  it('a line that is too long is named before all of it came', async () => {
    expect(await linesOf(['ab\nabc', 'd\n'], 4)).toEqual(['ab', 'abcd']);
    for (const chunks of [['a\nabcde\n'], ['a\nabc', 'de'], ['a\nabc', 'de\n']]) {
      await expect(linesOf(chunks, 4)).rejects.toThrow(/^rows.csv: line 2 has more than 4 characters: expected lines/);
    }
  });
});

/** As expressions have them, which take too long, or too much of the stack, for some lines. */
function expected(line: string): string[] {
  const fields: Record<string, RegExp> = {
    ',': /(\s*"(?:[^"]|"")*"\s*|[^,]*)(,|$)/y,
    '\t': /( *"(?:[^"]|"")*" *|[^\t]*)(\t|$)/y,
    ' ': /("(?:[^"]|"")*"|\S+)(\s+|$)/y,
  };
  const bare = line.replace(/"(?:[^"]|"")*"/g, '');
  const field = fields[bare.includes(',') ? ',' : bare.includes('\t') ? '\t' : ' '] as RegExp;
  const found: string[] = [];
  for (let match = field.exec(line); match !== null; match = field.exec(line)) {
    const text = (match[1] as string).trim();
    found.push(/^"(?:[^"]|"")*"$/.test(text) ? text.slice(1, -1).replaceAll('""', '"') : text);
    if (match[2] === '') break;
  }
  return found;
}

describe('fields of a line', () => {
  it('any line with quotes', () => {
    const letter = fc.constantFrom('"', '"', '"', 'a', ',', '\t', ' ', '\u00a0');
    const line = fc
      .array(letter, { minLength: 1, maxLength: 30 })
      .map((letters) => letters.join('').trim())
      .filter((text) => text.includes('"'));
    fc.assert(
      fc.property(line, (text) => {
        expect(separatedFields(text)).toEqual(expected(text));
      }),
      { numRuns: 2000 },
    );
  });

  it('of millions of characters in quotes', () => {
    const long = 'a""b,'.repeat(2.5e6);
    const [name, reward] = separatedFields(`"${long}",1`);
    expect(name === long.replaceAll('""', '"')).toBe(true);
    expect(reward).toBe('1');
  });
});

describe('rows', () => {
  it('with text of millions of characters beside a reward that is NaN', () => {
    const lines = new RewardLines('rows.jsonl');
    lines.add(`{"group":"NaN","reward":NaN,"output":"${'a\\"NaN'.repeat(2.5e6)}"}`);
    const { input, nameOf } = lines.finish();
    expect(nameOf(0)).toBe('NaN');
    expect(input.rewards).toMatchObject({ values: [Number.NaN] });
  });

  it('a string that is never closed is refused at once', () => {
    const began = performance.now();
    const line = `{"group":1,"reward":NaN,"x":"${'\\"'.repeat(1e5)}`;
    expect(() => new RewardLines('rows.jsonl').add(line)).toThrow(/line 1 is no JSON/);
    // Took 13 s, and four times as long for each doubling.
    expect(performance.now() - began).toBeLessThan(2000);
  });
});
