// Work in turns.
import { setTimeout } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { Turns } from '../../src/checks/turns.js';

describe('Turns', () => {
  it('gives what each work gives, one after the other, also after one that failed', async () => {
    const turns = new Turns();
    const done: string[] = [];
    const work = (name: string, ms: number) => async () => {
      done.push(`${name} begins`);
      await setTimeout(ms);
      done.push(`${name} ends`);
      if (name === 'b') throw new Error('b failed');
      return name;
    };
    const all = await Promise.allSettled([
      turns.take(work('a', 20)),
      turns.take(work('b', 1)),
      turns.take(work('c', 1)),
    ]);
    expect(done).toEqual(['a begins', 'a ends', 'b begins', 'b ends', 'c begins', 'c ends']);
    expect(all).toMatchObject([{ value: 'a' }, { reason: new Error('b failed') }, { value: 'c' }]);
  });

  it('lets one that is aborted go at once, and the next wait for those before it', async () => {
    const turns = new Turns();
    const done: string[] = [];
    const first = turns.take(async () => {
      await setTimeout(30);
      done.push('first');
    });
    const stop = new AbortController();
    const second = turns.take(async () => done.push('second'), stop.signal);
    const third = turns.take(async () => done.push('third'));
    stop.abort('enough');
    await expect(second).rejects.toBe('enough');
    expect(done).toEqual([]);
    await Promise.all([first, third]);
    expect(done).toEqual(['first', 'third']);
  });
});
