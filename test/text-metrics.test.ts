// Text figures: the answers of the contract, a slow reference on random steps, bits, errors, and what is absent.
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Engine } from '../src/engine/engine.js';
import { openEngine } from '../src/engine/open-engine.js';
import type { TextRows } from '../src/engine/text-rows.js';
import { textMetrics } from '../src/metrics/text-metrics.js';

let engine: Engine;
beforeAll(async () => {
  engine = await openEngine({ device: 'cpu', threads: 2 });
});
afterAll(() => engine.dispose());

interface Case {
  tokens: number[][];
  groups: number[];
  prompts: Record<string, number[]> | null;
  figures: Record<string, number> | null;
}
const golden = JSON.parse(
  readFileSync(fileURLToPath(new URL('./golden/text_cases.json', import.meta.url)), 'utf8'),
) as { cases: Case[]; words: { text: string; tokens: string[] }[] };

const rowsOf = ({ tokens, groups, prompts }: Case): TextRows =>
  prompts === null ? { tokens, groups } : { tokens, groups, promptTokens: groups.map((group) => prompts[group]) };

/** Every wanted figure within 1e-9, and no other figure of the same names given. */
function expectFigures(
  found: Readonly<Record<string, number>>,
  wanted: Readonly<Record<string, number>>,
  where: string,
): void {
  const known = Object.keys(
    golden.cases.find(({ figures }) => figures !== null && 'sibling_novelty' in figures)?.figures ?? {},
  );
  for (const key of new Set([...known, ...Object.keys(wanted)])) {
    if (wanted[key] === undefined) expect(found[key], `${where}: ${key}`).toBeUndefined();
    else expect(Math.abs((found[key] as number) - wanted[key]), `${where}: ${key}`).toBeLessThanOrEqual(1e-9);
  }
}

describe('textMetrics', () => {
  it('gives the figures of all 80 steps of the golden file', async () => {
    for (const [at, one] of golden.cases.entries()) {
      const { values, absent, interval, pValue } = await textMetrics(engine, rowsOf(one), { permutations: 19 });
      if (one.figures === null) {
        expect(absent.mi_bound, `case ${at}`).toMatch(/fewer than two prompts/);
        expect(interval).toHaveProperty('absent');
        expect(pValue).toHaveProperty('absent');
      }
      expectFigures(values, one.figures ?? {}, `case ${at}`);
    }
  });
});
