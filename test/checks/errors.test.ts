// Errors keep apart what programs ask for.
import { describe, expect, it } from 'vitest';
import { FileError } from '../../src/checks/errors.js';

describe('a FileError', () => {
  it.each([
    [{ path: 'a: b' }, 'a: b: c: d'],
    [{ path: 'a', tensor: 'x"y' }, 'a, tensor "x"y": c: d'],
    [{ path: 'a', tensor: 't', offset: 0 }, 'a, tensor "t", offset 0: c: d'],
  ])('keeps the problem apart from where it is: %j', (where, message) => {
    expect(new FileError(where, 'c: d')).toMatchObject({ ...where, problem: 'c: d', message });
  });
});
