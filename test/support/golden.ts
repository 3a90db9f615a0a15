// How a result is compared with an answer of the reference code.
import { expect } from 'vitest';

/** The same keys, and each value within 1e-5, absolute or relative (issue 2). */
export function expectSameMetrics(
  found: Readonly<Record<string, number>>,
  wanted: Readonly<Record<string, number>>,
): void {
  expect(Object.keys(found).sort()).toEqual(Object.keys(wanted).sort());
  for (const [key, value] of Object.entries(wanted)) {
    const got = found[key] as number;
    if (Number.isNaN(value)) expect(got, key).toBeNaN();
    else if (Math.abs(got - value) > 1e-5 * Math.max(1, Math.abs(value))) expect(got, key).toBe(value);
  }
}
