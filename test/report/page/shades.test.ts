// What the reader shows of a text: its words with their shades, and everything that cannot be seen as a sign.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { float16Bits } from '../../../src/engine/tensor/float16-array.js';
import { LEGEND, piecesOf, shadeOf, textsAt, visible } from '../../../src/report/page/reader/shades.js';
import { hostileNames, runOf, textOf } from '../reports.js';

describe('pieces of a text', () => {
  it('are its words and what stands between them, and nothing else', () => {
    const words = fc.array(fc.tuple(fc.string({ unit: 'binary' }), fc.stringMatching(/^[ \n\u{1f600}]{0,3}$/u)), {
      maxLength: 8,
    });
    fc.assert(
      fc.property(words, fc.string({ unit: 'binary' }), (given, rest) => {
        let text = '';
        const places = given.map(([word, gap]) => {
          text += gap;
          const begin = [...text].length;
          text += word;
          return [begin, [...text].length, float16Bits(2)] as const;
        });
        const pieces = piecesOf(textOf(text + rest, places));
        const shaded = pieces.filter(({ nats }) => nats !== undefined);
        expect(shaded.map((piece) => piece.text)).toEqual(given.map(([word]) => word).filter((word) => word !== ''));
        expect(shaded.every(({ nats }) => nats === 2)).toBe(true);
        const all = pieces.map((piece) => piece.text).join('');
        expect((text + rest).includes(all) && all.trim() === (text + rest).trim()).toBe(true);
      }),
    );
  });

  it('are one where nothing is shaded, and none of an empty text', () => {
    expect(piecesOf(textOf(' \na b\n', []))).toEqual([{ text: 'a b', nats: undefined }]);
    expect(piecesOf(textOf('', []))).toEqual([]);
  });
});

describe('shades', () => {
  it('rise with the factor, and say its bounds', () => {
    const names = [-99, -2.4, -2.2, -0.7, -0.6, 0, 0.6, 0.7, 2.2, 2.4, 3.9, 3.95, 99].map((nats) => shadeOf(nats).name);
    const [generic2, generic1, even, specific1, specific2, specific3] = LEGEND.map(({ name }) => name);
    expect(names).toEqual([
      ...[generic2, generic2, generic1, generic1, even, even, even],
      ...[specific1, specific1, specific2, specific2, specific3, specific3],
    ]);
  });
});

describe('visible text', () => {
  it('has no character that hides, ends a line by itself or turns around what is beside it', () => {
    const hidden = /(?![\n\t])[\p{Cc}\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/u;
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (text) => {
        expect(visible(text)).not.toMatch(hidden);
      }),
    );
    for (const name of hostileNames) expect(visible(name)).not.toMatch(hidden);
    expect(visible('a\u202eb\u0000\u001b[31m\r\n\tc\u007f\r')).toBe('a⟨202E⟩b␀␛[31m\n\tc␡\n');
    expect(visible('naïve 漢字 \u{1f600} שלום')).toBe('naïve 漢字 \u{1f600} שלום');
  });
});

describe('the texts under the cursor', () => {
  it('are those of the nearest step, of two the earlier one', () => {
    const texts = [4, 8, 20].map((step) => ({ step, rows: 1, rollouts: [] }));
    const run = { ...runOf([4, 8, 20], { mi: [1, 1, 1] }), texts };
    expect([1, 6, 7, 14, 15, 99].map((step) => textsAt(run, step)?.step)).toEqual([4, 4, 8, 8, 20, 20]);
    expect(textsAt({ ...run, texts: [] }, 4)).toBeUndefined();
  });
});
