import { gunzipSync } from 'node:zlib';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { payloadOf } from '../../src/report/page-html.js';
import { appended } from '../../src/report/payload/append.js';
import { fromPlanes, toPlanes, typeOf } from '../../src/report/payload/byte-planes.js';
import { decodeReport, encodeReport } from '../../src/report/payload/payload.js';
import { cutMatrix, drawnTogether, thinned } from '../../src/report/payload/thinning.js';
import type { Matrix, StepTexts } from '../../src/report/report.js';
import { headOf, hostileNames, reportOf, runOf, runs, stretchOf } from './reports.js';

describe('byte planes', () => {
  it('give every column back with its bits', () => {
    const columns = fc.oneof(
      fc.float64Array({ noNaN: false }),
      fc.float32Array({ noNaN: false }),
      fc.uint32Array(),
      fc.uint16Array(),
      fc.uint8Array(),
    );
    fc.assert(
      fc.property(columns, (column) => {
        expect(fromPlanes(typeOf(column), toPlanes(column))).toEqual(column);
      }),
    );
  });

  it('have all first bytes first', () => {
    expect([...toPlanes(Uint16Array.of(0x0102, 0x0304))]).toEqual([2, 4, 1, 3]);
  });
});

describe('the payload', () => {
  it('gives every report back', () => {
    fc.assert(
      fc.property(fc.array(runs, { maxLength: 4 }), (some) => {
        const report = reportOf(...some);
        expect(decodeReport(encodeReport(report))).toEqual(report);
      }),
      { numRuns: 60 },
    );
  });

  it('of before there were rollouts is read, and has none', () => {
    const report = reportOf(runOf([1, 2], { mi: [1, 2] }));
    const bytes = encodeReport(report);
    const length = new DataView(bytes.buffer).getUint32(0, true);
    const head = new TextDecoder().decode(bytes.subarray(4, 4 + length));
    // As long as it was.
    const before = head.replace('"texts":[],', `${' '.repeat(11)}`);
    expect(before).not.toBe(head);
    bytes.set(new TextEncoder().encode(before), 4);
    expect(decodeReport(bytes)).toEqual(report);
  });

  it('is gzip, the same for the same report', async () => {
    const report = reportOf(runOf([1, 2], { mi: [0.5, Number.NaN] }));
    const bytes = await payloadOf(report);
    expect(bytes).toEqual(await payloadOf(report));
    expect(decodeReport(gunzipSync(bytes))).toEqual(report);
  });

  it('refuses what is no report, of another version, or cut short', () => {
    const bytes = encodeReport(reportOf(runOf([1, 2, 3], { mi: [1, 2, 3] })));
    expect(() => decodeReport(new Uint8Array(3))).toThrow('no report of collapsar');
    expect(() => decodeReport(Uint8Array.of(2, 0, 0, 0, 0x7b, 0x7d))).toThrow('no report of collapsar');
    expect(() => decodeReport(bytes.subarray(0, bytes.length - 1))).toThrow('cut short');
    const text = new TextDecoder('latin1').decode(bytes).replace('"version":1', '"version":2');
    expect(() => decodeReport(Uint8Array.from(text, (letter) => letter.charCodeAt(0)))).toThrow('is of version 2');
  });

  it('holds hostile names as they are', () => {
    const report = reportOf(...hostileNames.map((name) => runOf([1], { mi: [1] }, headOf(name))));
    expect(decodeReport(encodeReport(report)).runs.map(({ head }) => head.name)).toEqual(hostileNames);
  });
});

describe('a report that grows', () => {
  it('is the same in pieces as at once', () => {
    fc.assert(
      fc.property(runs, fc.nat(), (whole, cut) => {
        const at = whole.steps.length === 0 ? 0 : cut % whole.steps.length;
        const part = (from: number, to: number | undefined, isFirst: boolean) => ({
          ...whole,
          steps: whole.steps.slice(from, to),
          regimes: whole.regimes.slice(from, to),
          figures: Object.fromEntries(Object.entries(whole.figures).map(([name, c]) => [name, c.slice(from, to)])),
          prompts: isFirst ? whole.prompts : undefined,
          matrices: isFirst ? whole.matrices : [],
          texts: isFirst ? whole.texts : [],
        });
        const first = reportOf(part(0, at, true));
        const before = { ...first, head: { ...first.head, cursor: 'c1' } };
        const second = reportOf(part(at, undefined, false));
        const more = { ...second, head: { ...second.head, after: 'c1', cursor: 'c2' } };
        const joined = appended(before, more);
        expect(joined.head.cursor).toBe('c2');
        expect(joined.runs).toEqual([whole]);
      }),
      { numRuns: 60 },
    );
  });

  it('takes what another server says in place of what it had', () => {
    const [mine, its] = [reportOf(runOf([1], { mi: [1] })), reportOf(runOf([7], { mi: [2] }, headOf('b')))];
    expect(appended({ ...mine, head: { ...mine.head, cursor: 'x' } }, its)).toBe(its);
  });

  it('takes a run that was not there, and figures that begin late', () => {
    const mine = reportOf(runOf([1], { mi: [1] }));
    const more = reportOf(runOf([2], { mi: [2], reward: [3] }), runOf([5], { mi: [4] }, headOf('b')));
    const joined = appended(
      { ...mine, head: { ...mine.head, cursor: 'x' } },
      { ...more, head: { ...more.head, after: 'x' } },
    );
    expect(joined.runs.map(({ head, steps }) => [head.name, [...steps]])).toEqual([
      ['a', [1, 2]],
      ['b', [5]],
    ]);
    expect([...(joined.runs[0]?.figures.reward ?? [])]).toEqual([Number.NaN, 3]);
  });
});

describe('thinning', () => {
  it('keeps the mean of each bucket within its range, and bounds that hold every one of them', () => {
    const pairs = fc.array(
      fc.tuple(fc.float({ noNaN: true, min: -100, max: 100 }), fc.float({ noNaN: true, min: 0, max: 10 })),
      { minLength: 20, maxLength: 200 },
    );
    fc.assert(
      fc.property(pairs, fc.integer({ min: 2, max: 19 }), (values, buckets) => {
        const run = runOf(
          values.map((_, at) => at),
          {
            mi: values.map(([mi]) => mi),
            mi_low: values.map(([mi, wide]) => mi - wide),
            mi_high: values.map(([mi, wide]) => mi + wide),
          },
        );
        const { steps, figures } = drawnTogether(run, buckets);
        expect(steps.length).toBe(buckets);
        let from = 0;
        for (let at = 0; at < buckets; at++) {
          const to = (steps[at] as number) + 1;
          expect(to).toBeGreaterThan(from);
          const means = values.slice(from, to).map(([mi]) => mi);
          expect(figures.mi_least?.[at]).toBe(Math.fround(Math.min(...means)));
          expect(figures.mi_most?.[at]).toBe(Math.fround(Math.max(...means)));
          expect(figures.mi?.[at]).toBeCloseTo(means.reduce((a, b) => a + b) / means.length, 3);
          expect(figures.mi_low?.[at]).toBe(Math.min(...(run.figures.mi_low as Float32Array).slice(from, to)));
          expect(figures.mi_high?.[at]).toBe(Math.max(...(run.figures.mi_high as Float32Array).slice(from, to)));
          from = to;
        }
        expect(from).toBe(values.length);
      }),
    );
  });

  it('leaves a gap where every step of a bucket is one', () => {
    const run = runOf([1, 2, 3, 4], { mi: [Number.NaN, Number.NaN, 1, Number.NaN] });
    expect([...(drawnTogether(run, 2).figures.mi as Float32Array)]).toEqual([Number.NaN, 1]);
  });

  it('says what it left out, and keeps the heat maps at the ends and where alarms begin', () => {
    const steps = Array.from({ length: 50 }, (_, at) => at + 1);
    const matrix = (step: number): Matrix => {
      return { step, source: 'scores', ids: ['p'], prompts: 1, posterior: Uint8Array.of(255), nats: Uint16Array.of(0) };
    };
    const textsOf = (step: number): StepTexts => ({ step, rows: 8, rollouts: [] });
    const head = headOf('a', { verdicts: [stretchOf({ since: 23 })] });
    const run = { ...runOf(steps, { mi: steps }, head), matrices: steps.map(matrix), texts: steps.map(textsOf) };
    const small = thinned(reportOf(run), { steps: 10, promptSteps: 5, matrices: 4, texts: 3 });
    expect(small.head.thinned).toEqual([
      'a: 50 steps are drawn together to 10 means; intervals are the outermost ones.',
      'a: heat maps are kept of 4 of 50 steps.',
      'a: rollouts are kept of 3 of 50 steps.',
    ]);
    expect(small.runs[0]?.texts.map(({ step }) => step)).toEqual([1, 23, 50]);
    const kept = small.runs[0]?.matrices.map(({ step }) => step);
    expect(kept).toHaveLength(4);
    expect(kept).toEqual(expect.arrayContaining([1, 23, 50]));
    const whole = { steps: 50, promptSteps: 5, matrices: 50, texts: 50 };
    expect(thinned(reportOf(run), whole)).toEqual(reportOf(run));
  });

  it('keeps of many prompts the most and the least specific ones, rows and columns alike', () => {
    const own = [10, 200, 30, 90, 60];
    const posterior = Uint8Array.from({ length: 25 }, (_, at) =>
      at % 5 === Math.floor(at / 5) ? (own[at % 5] as number) : at,
    );
    const matrix: Matrix = {
      ...{ step: 1, source: 'scores', ids: ['a', 'b', 'c', 'd', 'e'], prompts: 5 },
      posterior,
      nats: Uint16Array.from({ length: 25 }, (_, at) => at),
    };
    const cut = cutMatrix(matrix, 3);
    expect(cut.ids).toEqual(['a', 'b', 'd']);
    expect(cut.prompts).toBe(5);
    expect([...cut.nats]).toEqual([0, 1, 3, 5, 6, 8, 15, 16, 18]);
    expect(cut.posterior[4]).toBe(200);
  });
});
