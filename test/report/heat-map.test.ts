import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { float16Value } from '../../src/engine/tensor/float16-array.js';
import { diverging, viridis } from '../../src/report/charts/colour-scales.js';
import { heatMapBox, heatMapOption, heatMapTable, stillsOption } from '../../src/report/charts/prompts/heat-map.js';
import { cellsOf, matrixAt, stillsOf } from '../../src/report/charts/prompts/matrix-cells.js';
import { LIGHT } from '../../src/report/charts/theme.js';
import { svgOf } from '../../src/report/figures/echarts.js';
import type { Matrix } from '../../src/report/report.js';
import { headOf, hostileNames, runOf } from './reports.js';

const SIZE = { width: 340, height: 338 };

/** Rows of posterior in percent. */
function matrixOf(step: number, ids: readonly string[], rows: readonly (readonly number[])[]): Matrix {
  const cells = rows.flat();
  return {
    ...{ step, source: 'scores' as const, ids, prompts: ids.length },
    posterior: Uint8Array.from(cells, (percent) => Math.round(2.55 * percent)),
    // 0x3c00 is 1 in float16, 0xbc00 −1.
    nats: Uint16Array.from(cells, (percent) => (percent > 50 ? 0x3c00 : 0xbc00)),
  };
}

const start = matrixOf(
  1,
  ['a', 'b'],
  [
    [60, 40],
    [10, 90],
  ],
);
const later = matrixOf(
  5,
  ['b', 'a'],
  [
    [55, 45],
    [30, 70],
  ],
);

describe('cells of a matrix', () => {
  it('stand in the order of the start, rows and columns alike, where prompts recur', () => {
    expect(cellsOf(start, start, 'posterior').ids).toEqual(['b', 'a']);
    const { ids, values } = cellsOf(later, start, 'posterior');
    expect(ids).toEqual(['b', 'a']);
    expect([...values].map((value) => Math.round(100 * value))).toEqual([55, 45, 30, 70]);
  });

  it('stand in an order of their own where prompts do not recur', () => {
    const other = matrixOf(
      9,
      ['x', 'y'],
      [
        [20, 80],
        [1, 99],
      ],
    );
    expect(cellsOf(other, start, 'posterior').ids).toEqual(['y', 'x']);
  });

  it('are nats as they were written', () => {
    expect([...cellsOf(start, start, 'nats').values]).toEqual([1, -1, -1, 1]);
  });
});

describe('float16', () => {
  it('has the values of IEEE 754', () => {
    const known: [number, number][] = [
      [0x0000, 0],
      [0x3c00, 1],
      [0xc000, -2],
      [0x3555, 0.333251953125],
      [0x7bff, 65504],
      [0x0001, 2 ** -24],
      [0x7c00, Number.POSITIVE_INFINITY],
      [0xfc00, Number.NEGATIVE_INFINITY],
      [0x7e00, Number.NaN],
    ];
    for (const [bits, value] of known) expect(float16Value(bits)).toBe(value);
  });
});

describe('stills', () => {
  const run = {
    ...runOf([1, 5, 9], { mi: [1, 2, 0.1] }, headOf('a')),
    matrices: [start, later, { ...start, step: 9 }],
  };

  it('are the start, the peak of MI, where the alarm begins, and now, each step once', () => {
    const titles = (since: number | null): string[] =>
      stillsOf({
        ...run,
        head: { ...run.head, status: { ...run.head.status, since } },
      }).map(({ title, matrix }) => `${title} ${matrix.step}`);
    expect(titles(null)).toEqual(['start 1', 'peak MI 5', 'now 9']);
    expect(titles(5)).toEqual(['start 1', 'since 5', 'now 9']);
    expect(titles(9)).toEqual(['start 1', 'peak MI 5', 'now 9']);
  });

  it('take the nearest matrix that was kept', () => {
    expect(matrixAt(run, 6)?.step).toBe(5);
    expect(matrixAt({ ...run, matrices: [] }, 6)).toBeUndefined();
    expect(stillsOf({ ...run, matrices: [] })).toEqual([]);
  });

  it('are drawn in a row, each with its step', () => {
    const svg = svgOf(stillsOption(stillsOf(run), LIGHT, { width: 340, height: 96 }), { width: 340, height: 96 });
    for (const text of ['start, 1', 'peak MI, 5', 'now, 9']) expect(svg).toContain(text);
  });
});

describe('the heat map', () => {
  it('has every cell in its colour, and chance on its legend', () => {
    const svg = svgOf(heatMapOption({ matrix: start, start, kind: 'posterior' }, LIGHT, SIZE), SIZE);
    for (const value of start.posterior) expect(svg).toContain(`fill="${viridis(value / 255)}"`);
    expect(svg).toContain('>1/P<');
    const nats = svgOf(heatMapOption({ matrix: start, start, kind: 'nats' }, LIGHT, SIZE), SIZE);
    expect(nats).toContain(`fill="${diverging(1)}"`);
    expect(nats).toContain(`fill="${diverging(-1)}"`);
  });

  it('fits its box', () => {
    const { x, y, width, height } = heatMapBox(SIZE);
    expect(width).toBe(height);
    expect(x + width).toBeLessThanOrEqual(SIZE.width);
    expect(y + height).toBeLessThan(SIZE.height);
  });

  it('names in its table what each prompt’s reasoning fits, whatever prompts are called', () => {
    const ids = hostileNames.slice(0, 2);
    const hostile = { ...start, ids };
    expect(heatMapTable({ matrix: hostile, start: hostile, kind: 'posterior' }).rows).toEqual([
      [ids[1], expect.closeTo(0.9, 2), ids[1], expect.closeTo(0.9, 2)],
      [ids[0], expect.closeTo(0.6, 2), ids[0], expect.closeTo(0.6, 2)],
    ]);
    expect(svgOf(heatMapOption({ matrix: hostile, start: hostile, kind: 'posterior' }, LIGHT, SIZE), SIZE)).not.toMatch(
      /<(script|img)/,
    );
  });
});

describe('colour scales', () => {
  it('are colours for every number, in order of lightness', () => {
    fc.assert(
      fc.property(fc.double(), (value) => {
        expect(viridis(value)).toMatch(/^#[0-9a-f]{6}$/);
        expect(diverging(value)).toMatch(/^#[0-9a-f]{6}$/);
      }),
    );
    const light = (colour: string): number => {
      const [red, green, blue] = [1, 3, 5].map((at) => Number.parseInt(colour.slice(at, at + 2), 16)) as [
        number,
        number,
        number,
      ];
      return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
    };
    for (let at = 0; at < 20; at++) expect(light(viridis(at / 20))).toBeLessThan(light(viridis((at + 1) / 20)));
  });
});
