import { describe, expect, it } from 'vitest';
import { shareWithoutRounding, toldApart, withoutRounding } from '../../src/checks/numbers.js';

describe('toldApart', () => {
  it('says how many prompts a mutual information tells apart, with the ends of its interval', () => {
    expect(toldApart(Math.log(8), 32)).toBe('tells apart about 8 of 32 prompts');
    expect(toldApart(2.08, 32, { low: 1.96, high: 2.2 })).toBe('tells apart about 8 [7.1, 9] of 32 prompts');
    expect(toldApart(0.201, 16)).toBe('tells apart about 1.2 of 16 prompts');
  });

  it('never says fewer than one prompt, nor more than there are', () => {
    expect(toldApart(-0.5, 16, { low: -2, high: 9 })).toBe('tells apart about 1 [1, 16] of 16 prompts');
  });
});

describe('figures that only rounding takes off', () => {
  it('are what they would be without it', () => {
    expect(withoutRounding(-1.1e-16)).toBe(0);
    expect(Object.is(withoutRounding(-0), 0)).toBe(true);
    expect(withoutRounding(-1e-9)).toBe(-1e-9);
    expect(shareWithoutRounding(1.0000000000000004)).toBe(1);
    expect(shareWithoutRounding(0.9999999999999996)).toBe(1);
    expect(shareWithoutRounding(-1e-17)).toBe(0);
    expect(shareWithoutRounding(0.5)).toBe(0.5);
    expect(shareWithoutRounding(1.01)).toBe(1.01);
  });
});
