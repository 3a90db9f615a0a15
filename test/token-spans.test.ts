// Spans of tokens against a plain set of tokens: what is added is there, what is taken out is not, and spans stay few.
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { addSpan, firstCommon, firstGap, removeSpan, type TokenSpans } from '../src/engine/token-spans.js';

const LENGTH = 24;
const range = (from: number, to: number): number[] => Array.from({ length: to - from }, (_, at) => from + at);

/** Disjoint spans in rising order, as far apart as they can be. */
function spansOf(tokens: ReadonlySet<number>): TokenSpans {
  const spans: TokenSpans = [];
  for (const token of range(0, LENGTH)) {
    if (!tokens.has(token)) continue;
    if (tokens.has(token - 1)) spans[spans.length - 1] = token + 1;
    else spans.push(token, token + 1);
  }
  return spans;
}

const pieces = fc.array(
  fc
    .tuple(fc.nat(LENGTH - 1), fc.integer({ min: 1, max: 6 }))
    .map(([from, size]) => [from, Math.min(LENGTH, from + size)] as const),
  { maxLength: 40 },
);

it('pieces come where nothing is, and go again', () => {
  fc.assert(
    fc.property(pieces, (all) => {
      const spans: TokenSpans = [];
      const tokens = new Set<number>();
      for (const [from, to] of all) {
        const piece = range(from, to);
        const there = piece.filter((token) => tokens.has(token));
        expect(firstCommon(spans, from, to)).toBe(there[0]);
        if (there.length === 0) {
          addSpan(spans, from, to);
          for (const token of piece) tokens.add(token);
        } else if (there.length === piece.length) {
          removeSpan(spans, from, to);
          for (const token of piece) tokens.delete(token);
        }
        expect(spans).toEqual(spansOf(tokens));
        const gap = range(0, LENGTH).find((token) => !tokens.has(token));
        const end = range(gap ?? LENGTH, LENGTH).find((token) => tokens.has(token));
        expect(firstGap(spans, LENGTH)).toEqual(gap === undefined ? undefined : { from: gap, to: end ?? LENGTH });
      }
    }),
  );
});
