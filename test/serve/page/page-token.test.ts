import { describe, expect, it } from 'vitest';
import { pageToken } from '../../../src/serve/page/page-token.js';

const own = process.getuid?.() ?? 0;
const owners =
  (...uids: number[]) =>
  async () =>
    new Set(uids);
const LOCAL = '127.0.0.1';

describe('the token of a live page', () => {
  it('is the one that was given, and none where that is empty', async () => {
    expect(await pageToken('mine', LOCAL, {}, owners(1234))).toBe('mine');
    expect(await pageToken('', LOCAL, { SLURM_JOB_ID: '7' }, owners(1234))).toBeUndefined();
  });

  it('is made where other people use the machine, another each time', async () => {
    const first = await pageToken(undefined, LOCAL, {}, owners(0, own, 1234));
    expect(first).toMatch(/^[0-9a-f]{32}$/);
    expect(await pageToken(undefined, 'localhost', {}, owners(1234))).not.toBe(first);
  });

  it('is none where there are only this user, the system and nobody', async () => {
    expect(await pageToken(undefined, LOCAL, {}, owners(own, 0, 33, 65_534))).toBeUndefined();
  });

  it('is made for the job of a scheduler', async () => {
    expect(await pageToken(undefined, '::1', { SLURM_JOB_ID: '7' }, owners())).toBeDefined();
  });

  it('is left to the user for an address that other machines reach', async () => {
    expect(await pageToken(undefined, '0.0.0.0', {}, owners(1234))).toBeUndefined();
  });

  it('is found out from the processes and homes of this machine', async () => {
    const token = await pageToken(undefined, LOCAL, {});
    expect(token === undefined || token.length === 32).toBe(true);
  });
});
