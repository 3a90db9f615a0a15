// Claims on the tokens of a step: of pieces that come one after the other none comes twice, and what is given back is free again.
import { describe, expect, it } from 'vitest';
import { type ClaimedBlock, TokenClaims } from '../src/engine/token-claims.js';

/** Tokens [from, to) of row 1, 20 tokens long, under prompt 1 of two. */
const piece = (from: number, to: number, dtype = 'float32') =>
  ({
    prompts: { indices: Int32Array.of(1) },
    rows: { indices: Int32Array.of(1) },
    whole: [],
    parts: [{ row: 1, from, to }],
    view: { dtype },
  }) as unknown as ClaimedBlock;
const wholeRow = { ...piece(0, 0), whole: [0], parts: [] };
const PAIR = 3;

const claims = () => new TokenClaims(2, Float64Array.of(20, 20));

describe('pieces of a row', () => {
  it('are all remembered: each of them refuses its tokens', () => {
    const found = claims();
    for (const [from, to] of [
      [4, 8],
      [12, 16],
      [8, 10],
    ] as const) {
      found.claim(piece(from, to));
      expect(() => found.claim(piece(to - 1, to + 1))).toThrow(`prompt 1, row 1, token ${to - 1} came before`);
    }
    expect(() => found.claim(wholeRow)).toThrow('token 4 came before');
    expect(found.firstGiven(PAIR)).toBe(4);
    expect(found.missing(1, Int32Array.of(1))).toMatchObject({ row: 1, from: 0, to: 4, untouched: false });
    expect(found.begunPairs).toBe(1);
  });

  it('that were not taken in are free again, alone', () => {
    const found = claims();
    found.claim(piece(0, 8));
    found.claim(piece(8, 12));
    found.unclaim(piece(8, 12));
    expect(() => found.claim(piece(7, 8))).toThrow('token 7 came before');
    found.claim(piece(8, 12));
    found.unclaim(piece(0, 8));
    found.unclaim(piece(8, 12));
    expect([found.begunPairs, found.firstGiven(PAIR)]).toEqual([0, undefined]);
    found.claim(wholeRow);
    expect(found.missing(1, Int32Array.of(1))).toBeUndefined();
    found.unclaim(wholeRow);
    expect(found.missing(1, Int32Array.of(1))).toMatchObject({ from: 0, to: 20, untouched: true });
  });

  it('come in one dtype; a refused one claims nothing', () => {
    const found = claims();
    found.claim(piece(0, 8));
    expect(() => found.claim(piece(8, 12, 'float16'))).toThrow('got float16, but other tokens');
    found.claim(piece(8, 20));
    found.complete(PAIR);
    expect(() => found.claim(piece(19, 20))).toThrow('token 19 came before');
    expect(found.missing(1, Int32Array.of(1))).toBeUndefined();
  });
});
