// Lines of text as `collapsar filter` takes them: their ends, their length, and lines that were made to keep it busy.
import { Readable } from 'node:stream';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { RewardLines } from '../../src/cli/input/reward-lines.js';
import { separatedFields } from '../../src/cli/input/separated-fields.js';
import { textLines } from '../../src/cli/input/text-lines.js';

async function linesOf(chunks: readonly (string | Buffer)[], most?: number): Promise<string[]> {
  const lines: string[] = [];
  for await (const line of textLines(Readable.from(chunks, { objectMode: true }), 'rows.csv', { most }))
    lines.push(line);
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

describe('bytes that are no text', () => {
  const cut = (bytes: Buffer, size: number): Buffer[] =>
    Array.from({ length: Math.ceil(bytes.length / size) }, (_, at) => bytes.subarray(at * size, (at + 1) * size));
  const read = async (bytes: Buffer, size: number, encoding?: string): Promise<string[]> => {
    const lines: string[] = [];
    const stream = Readable.from(cut(bytes, size), { objectMode: true });
    for await (const line of textLines(stream, 'rows.csv', { encoding })) lines.push(line);
    return lines;
  };

  it('are refused with line and byte, wherever the stream is cut', async () => {
    for (const [bytes, line, byte] of [
      [Buffer.from('a,1\nb\u00e9,2\r\n\u00e9,0\n', 'latin1'), 2, 5],
      [Buffer.concat([Buffer.from('\ufeff\u00e9,1\n'), Buffer.of(0xe2, 0x82)]), 2, 8],
      [Buffer.of(0x61, 0xe2, 0x28, 0xa1), 1, 1],
      [Buffer.concat([Buffer.from('\ufffd\n\n'), Buffer.of(0xff)]), 3, 5],
    ] as const) {
      for (const size of [1, 2, 3, 100]) {
        const where = `rows.csv: line ${line} is not UTF-8: byte ${byte} of the file is 0x${bytes[byte]?.toString(16)}.`;
        await expect(read(bytes, size)).rejects.toThrow(where);
      }
    }
  });

  it('are read in the encoding that is named; marks of byte order are no text', async () => {
    for (const size of [1, 2, 3, 100]) {
      expect(await read(Buffer.from('\u00e9,1\n\u00e8,0\n', 'latin1'), size, 'latin1')).toEqual([
        '\u00e9,1',
        '\u00e8,0',
      ]);
      expect(await read(Buffer.from('\ufeff\u00e9,1\n\ud83d\ude00'), size)).toEqual(['\u00e9,1', '\ud83d\ude00']);
      expect(await read(Buffer.from('\ufeffa\n\u00e9', 'utf16le'), size, 'utf-16le')).toEqual(['a', '\u00e9']);
    }
    await expect(read(Buffer.from('\ufeffa\n', 'utf16le'), 100)).rejects.toThrow(
      'UTF-16: name its encoding, such as --encoding utf-16le',
    );
    expect(await read(Buffer.of(0x61, 0x0a, 0x82, 0xa0), 1, 'shift_jis')).toEqual(['a', 'あ']);
    await expect(read(Buffer.of(0x61, 0x0a, 0xff), 100, 'shift_jis')).rejects.toThrow('is not shift_jis');
  });

  it('any text comes back as it was', async () => {
    await fc.assert(
      fc.asyncProperty(fc.string({ unit: 'binary' }), fc.integer({ min: 1, max: 9 }), async (text, size) => {
        const whole = text.replace(/[\r\n\ufeff]/g, '');
        const lines = await read(Buffer.from(whole), size);
        expect(lines.join('')).toBe(whole);
      }),
    );
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

  it('may have millions of characters in quotes', () => {
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
