import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { stepSentence, storyTable } from '../../src/report/charts/step-words.js';
import { roundUp, storyLayout, storyOption } from '../../src/report/charts/story.js';
import { DARK, LIGHT } from '../../src/report/charts/theme.js';
import { nearestPlace, spanOf, unbroken, visibleBand, visiblePoints } from '../../src/report/charts/visible-points.js';
import { svgOf } from '../../src/report/figures/echarts.js';
import { headOf, hostileNames, runOf, stretchOf } from './reports.js';

const SIZE = { width: 880, height: 440 };
const gap = Number.NaN;

interface Line {
  readonly type: string;
  readonly data: readonly (readonly [number, number | null])[];
  readonly lineStyle?: { readonly color: string; readonly type: string };
  readonly itemStyle: { readonly borderColor?: string };
  readonly endLabel?: { readonly formatter: string };
}
const seriesOf = (option: Readonly<Record<string, unknown>>): Line[] => option.series as Line[];

const figures = {
  mi: [1, 1.2, gap, 0.3],
  mi_low: [0.8, 1, gap, 0.1],
  mi_high: [1.2, 1.4, gap, 0.5],
  mi_p: [0.001, 0.001, gap, 0.2],
  entropy: [0.8, 0.9, 1, 2],
  retrieval: [0.5, 0.5, 0.4, 0.1],
  chance: [0.25, 0.25, 0.25, 0.25],
  bound: [1.386, 1.386, 1.386, 1.386],
};
const run = runOf([1, 2, 5, 9], figures, headOf('a', { start: { mi: 1.1, entropy: 0.85 } }));

describe('the story', () => {
  const series = seriesOf(storyOption({ run }, LIGHT, SIZE));
  const lineOf = (color: string): Line | undefined =>
    series.find(({ type, lineStyle }) => type === 'line' && lineStyle?.color === color && lineStyle.type === 'solid');

  it('leaves a gap where a figure is NaN', () => {
    expect(lineOf(LIGHT.mi)?.data.map(([step, value]) => [step, value && Number(value.toFixed(3))])).toEqual([
      [1, 1],
      [2, 1.2],
      [5, null],
      [9, 0.3],
    ]);
  });

  it('draws half and three quarters of the start, and ln P', () => {
    const guides = series.filter(({ endLabel }) => endLabel !== undefined);
    const heights = guides.map(({ endLabel, data }) => [endLabel?.formatter, Number(data[0]?.[1]?.toFixed(3))]);
    expect(heights).toEqual([
      ['½ of start', 0.55],
      ['¾', 0.825],
      ['ln P', 1.386],
      ['chance', 0.25],
    ]);
  });

  it('has hollow points where chance alone explains the figure', () => {
    const hollow = series.filter(({ type, data }) => type === 'scatter' && data.length > 0);
    expect(hollow.map(({ data, itemStyle }) => [data.map(([step]) => step), itemStyle.borderColor])).toEqual([
      [[9], LIGHT.mi],
    ]);
  });

  it('begins the axes of MI and entropy at 0, and has retrieval from 0 to 1', () => {
    const axes = storyOption({ run }, LIGHT, SIZE).yAxis as { min: number; max: number; position?: string }[];
    expect(axes.map(({ min, max }) => [min, Number(max.toFixed(3))])).toEqual([
      [0, 1.6],
      [0, 2.4],
      [0, 282.353],
      [0, 1],
      [0, 1],
      [0, 1],
    ]);
  });

  it('goes below 0 where MI does', () => {
    const low = runOf([1, 2], { mi: [0.1, -0.2] });
    expect((storyOption({ run: low }, LIGHT, SIZE).yAxis as { min: number }[])[0]?.min).toBeCloseTo(-0.2);
  });

  it('has a panel of each figure that the run has, below one another', () => {
    const { panels } = storyLayout({ run }, SIZE);
    expect(panels.map(({ name }) => name)).toEqual(['mi', 'entropy', 'retrieval', 'state', 'verdicts']);
    for (const [at, { top, height }] of panels.entries()) {
      expect(height).toBeGreaterThan(0);
      expect(top + height).toBeLessThanOrEqual(panels[at + 1]?.top ?? SIZE.height);
    }
  });

  it('draws states by letters and hatches, and verdicts with the step at which they were said', () => {
    const verdicts = [
      stretchOf({ since: 5, raised: 9, until: 9 }),
      stretchOf({ kind: 'entropy_gaming', severity: 'warning', since: 2, raised: 2, until: 5, holds: false }),
    ];
    const told = { ...run, head: { ...run.head, verdicts }, regimes: Uint8Array.of(0, 1, 2, 4) };
    const svg = svgOf(storyOption({ run: told }, LIGHT, SIZE), SIZE);
    for (const text of ['>?<', '>D<', '>T<', '>L<', '✖ template collapse', '▲ entropy gaming'])
      expect(svg).toContain(text);
    const dark = svgOf(storyOption({ run: told }, DARK, SIZE), SIZE);
    expect(dark).toContain(DARK.surface);
    expect(dark).not.toContain(LIGHT.surface);
  });

  it('is the same SVG for the same run, with hostile words as text', () => {
    const verdicts = hostileNames.map((kind) => stretchOf({ kind, until: 9 }));
    const told = { ...run, head: { ...run.head, verdicts } };
    const svg = svgOf(storyOption({ run: told }, LIGHT, SIZE), SIZE);
    expect(svg).toBe(svgOf(storyOption({ run: told }, LIGHT, SIZE), SIZE));
    expect(svg).not.toMatch(/<(script|img|foreignObject)/);
    expect(svg).toContain('&lt;script&gt;');
    expect(svgOf(storyOption({ run }, LIGHT, SIZE), SIZE, '<b> & c')).toMatch(
      /^<svg [^>]*><title>&lt;b&gt; &amp; c<\/title>/,
    );
  });

  it('is drawn of a run of one step, and of one without any figure', () => {
    for (const steps of [[7], []]) {
      const empty = runOf(steps, { mi: steps.map(() => gap) });
      expect(svgOf(storyOption({ run: empty }, LIGHT, SIZE), SIZE)).toContain('<svg');
    }
  });

  it('hands no more than 4,000 points of a series to the library, whatever the run has', () => {
    const steps = Array.from({ length: 20_000 }, (_, at) => at);
    const long = runOf(steps, { mi: steps.map((at) => Math.sin(at)), entropy: steps.map(() => 1) });
    for (const { data } of seriesOf(storyOption({ run: long }, LIGHT, SIZE))) expect(data.length).toBeLessThan(4000);
  });
});

describe('visible points', () => {
  const columns = fc.array(fc.float({ noDefaultInfinity: true }), { minLength: 1, maxLength: 400 });

  it('keep the least and the largest value of every stretch, in the order of the steps', () => {
    fc.assert(
      fc.property(columns, fc.integer({ min: 1, max: 60 }), (values, pixels) => {
        const steps = values.map((_, at) => 3 * at);
        const points = visiblePoints(steps, values, { from: 0, to: steps.length }, pixels);
        expect(points.length).toBeLessThanOrEqual(Math.max(2 * pixels, 1));
        const shown = points.map(([, value]) => value).filter((value) => !Number.isNaN(value));
        const known = values.filter((value) => !Number.isNaN(value));
        expect(Math.min(...shown)).toBe(Math.min(...known));
        expect(Math.max(...shown)).toBe(Math.max(...known));
        const order = points.map(([step]) => step);
        expect(order).toEqual(order.toSorted((a, b) => a - b));
        for (const [step, value] of points) expect(values[step / 3]).toBe(value);
      }),
    );
  });

  it('are all there where there is room, gaps included', () => {
    expect(visiblePoints([1, 2, 3], [5, gap, 6], { from: 0, to: 3 }, 10)).toEqual([
      [1, 5],
      [2, gap],
      [3, 6],
    ]);
  });

  it('of a band hold every interval', () => {
    fc.assert(
      fc.property(columns, fc.integer({ min: 1, max: 20 }), (values, pixels) => {
        const low = values.map((value) => value - 1);
        const band = visibleBand(
          values.map((_, at) => at),
          low,
          values,
          { from: 0, to: values.length },
          pixels,
        );
        const known = values.filter((value) => !Number.isNaN(value));
        const lows = band.map(([, least]) => least).filter((value) => !Number.isNaN(value));
        expect(Math.min(...lows)).toBe(Math.min(...known.map((value) => value - 1)));
        for (const [, least, most] of band) if (!Number.isNaN(least)) expect(most).toBeGreaterThanOrEqual(least);
      }),
    );
  });

  it('break at gaps', () => {
    expect(
      unbroken([
        [1, 2],
        [2, gap],
        [3, 4],
        [4, 5],
      ]),
    ).toEqual([
      [[1, 2]],
      [
        [3, 4],
        [4, 5],
      ],
    ]);
  });

  it('know the nearest step, and the span that a line needs to run to the edges', () => {
    const steps = [1, 4, 8, 12];
    expect([0, 2, 3, 6, 7, 99].map((step) => nearestPlace(steps, step))).toEqual([0, 0, 1, 1, 2, 3]);
    expect(spanOf(steps, [4, 8])).toEqual({ from: 0, to: 3 });
    expect(spanOf(steps, [5, 7])).toEqual({ from: 1, to: 3 });
  });
});

describe('the top of an axis', () => {
  it('is the next number that halves well', () => {
    expect([0.09, 1, 1.01, 2.7, 8.1, 250].map(roundUp)).toEqual([0.1, 1, 1.2, 3, 10, 300]);
  });
});

describe('a step in words', () => {
  it('has its figures with intervals, and what is not known as such', () => {
    expect(stepSentence(run, 3, 999)).toBe(
      'step 9: MI 0.300 [0.100, 0.500], p = 0.20; tells apart about 1.3 of 4 prompts; H(Z|X) 2; retrieval 0.100, chance 0.250; state not known',
    );
    expect(stepSentence(run, 2, 999)).toContain('MI —;');
  });

  it('writes a p-value that no permutation reached as "or less", by how many there were', () => {
    expect(stepSentence(run, 0, 999)).toContain(', p ≤ 0.001;');
    expect(stepSentence(run, 0, 9999)).toContain(', p = 0.0010;');
    expect(stepSentence(run, 3, 4)).toContain(', p ≤ 0.2;');
  });

  it('stands in the table as it is in the columns, of the steps that are shown', () => {
    const { columns, rows } = storyTable(run, [2, 5]);
    expect(columns).toEqual(['step', 'mi', 'mi low', 'mi high', 'mi p', 'entropy', 'retrieval', 'chance', 'state']);
    expect(rows.map(([step]) => step)).toEqual([2, 5]);
    expect(rows[0]?.[1]).toBe(Math.fround(1.2));
  });
});

describe('the name of a lane', () => {
  interface Name {
    readonly style: { readonly text: string; readonly x: number; readonly align: string };
  }
  interface Drawn {
    readonly renderItem: (params: { dataIndex: number }, api: object) => Name;
  }
  const [first, last] = [0, 100];
  const scale = 8;

  it('lies over no mark as long as there is room beside the bars or between marks', () => {
    const bar = fc
      .tuple(fc.nat(last), fc.nat(last), fc.nat(last))
      .map((steps) => steps.toSorted((a, b) => a - b) as [number, number, number]);
    fc.assert(
      fc.property(fc.array(bar, { minLength: 1, maxLength: 4 }), (bars) => {
        const verdicts = bars.map(([since, raised, until]) => stretchOf({ since, raised, until, holds: false }));
        const told = runOf([first, last], { mi: [1, 1] }, headOf('a', { verdicts }));
        const names = (storyOption({ run: told }, LIGHT, SIZE).series as unknown as Drawn[]).at(-1) as Drawn;
        const coord = ([step = 0]: readonly number[]): [number, number] => [scale * step, 0];
        const { style } = names.renderItem({ dataIndex: 0 }, { coord });
        const width = 6 * style.text.length;
        const from = style.align === 'right' ? style.x - width : style.x;
        const marks = [first, ...bars.map(([, raised]) => raised), last]
          .map((step) => scale * step)
          .sort((a, b) => a - b);
        const widest = Math.max(...marks.slice(1).map((to, at) => to - (marks[at] as number)));
        if (widest < 8 * style.text.length + 10) return;
        for (const mark of marks.slice(1, -1)) expect(mark <= from || mark >= from + width).toBe(true);
        expect(from).toBeGreaterThanOrEqual(scale * first);
      }),
    );
  });
});
