import { describe, expect, it } from 'vitest';
import { EnvironmentLines } from '../../src/cli/output/screen/environment-lines.js';
import type { StepReport } from '../../src/step/step-report.js';

const look = { unicode: true, width: 80, paint: (_: unknown, text: string) => text };

/** A step in which each environment has that MI; null: no figures. */
function report(mi: Readonly<Record<string, number | null>>, alarmed: readonly string[] = []): StepReport {
  const environments = Object.entries(mi).map(([name, value], at) => ({
    ...{ name, rows: 10 + at, prompts: 4 },
    ...(value !== null && { figures: { values: { mi_seq_estimate: value } } }),
  }));
  const verdicts = alarmed.length === 0 ? [] : [{ severity: 'critical', environments: alarmed }];
  return { stepMetrics: { environments }, judgement: { verdicts } } as unknown as StepReport;
}

describe('the lines of a run’s environments', () => {
  it('show how each went, those with an alarm first', () => {
    const lines = new EnvironmentLines();
    lines.add(report({ math: 1, code: 1, search: 1 }));
    lines.add(report({ math: 0, code: 1, search: null }, ['math']));
    expect(lines.lines(look)).toEqual([
      '  by environment: MI among its own prompts, first to last',
      '    ✖ math    █▁  1.00 → 0.000',
      '    ● search  █   1.00',
      '    ● code    ██  1.00 → 1.00',
    ]);
  });

  it('say nothing of a run of one environment, or of none', () => {
    const lines = new EnvironmentLines();
    lines.add(report({}));
    lines.add(report({ math: 1 }));
    expect(lines.lines(look)).toEqual([]);
  });

  it('stay few and within the width, whatever the names', () => {
    const lines = new EnvironmentLines();
    const names = Array.from({ length: 30 }, (_, at) => [`${at}\u001b[31m ${'long '.repeat(20)}`, 1] as const);
    for (let step = 0; step < 500; step++) lines.add(report(Object.fromEntries(names)));
    const shown = lines.lines(look);
    expect(shown).toHaveLength(10);
    expect(shown.at(-1)).toContain('and 22 more');
    for (const line of shown) {
      expect(line.length).toBeLessThanOrEqual(80);
      expect(line).not.toContain('\u001b');
    }
  });
});
