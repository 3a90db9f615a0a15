// The charts below the story: what they draw, and what their tables say.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { viridis } from '../../src/report/charts/colour-scales.js';
import {
  compareHeight,
  compareOption,
  compareTable,
  differenceSentence,
  lastCommonStep,
} from '../../src/report/charts/compare.js';
import { forestOption, forestTable } from '../../src/report/charts/forest.js';
import { costSentence, healthFigure, healthOption } from '../../src/report/charts/health.js';
import { hasKeptRatio, keptRatioOption } from '../../src/report/charts/kept-ratio.js';
import { hasTrail, planeOption, planeTable } from '../../src/report/charts/plane.js';
import { promptMapOption, spreadOption, triageOption } from '../../src/report/charts/prompts/prompt-map.js';
import { hasLayer, idsRecur, promptsAt, stepsOf } from '../../src/report/charts/prompts/prompt-rows.js';
import { stepPromptsOption, stepPromptsTable } from '../../src/report/charts/prompts/step-prompts.js';
import { environmentLines } from '../../src/report/charts/step-words.js';
import { storyOption } from '../../src/report/charts/story.js';
import { LIGHT } from '../../src/report/charts/theme.js';
import { PromptColumns, type PromptRow } from '../../src/report/collect/prompt-columns.js';
import { svgOf } from '../../src/report/figures/echarts.js';
import { stalledSince } from '../../src/report/page/stalled-since.js';
import type { PromptTable } from '../../src/report/report.js';
import { headOf, hostileNames, runOf, stretchOf } from './reports.js';

const SIZE = { width: 600, height: 300 };
const gap = Number.NaN;

function tableOf(rows: readonly Partial<PromptRow>[]): PromptTable {
  const columns = new PromptColumns();
  const nothing = { mi: null, mi_low: null, mi_high: null, reward_mean: null, reward_std: null, retrieval: null };
  for (const row of rows)
    columns.add({ ...nothing, step: 1, prompt: 'p', rows: 8, kept: null, drop_reason: null, cause: null, ...row });
  return columns.table(Number.NEGATIVE_INFINITY) as PromptTable;
}

const twoSteps = tableOf([
  {
    step: 1,
    prompt: 'a',
    mi: 0.2,
    reward_std: 0.1,
    reward_mean: 0.9,
    kept: false,
    drop_reason: 'zero_score',
    cause: 'too_easy',
  },
  { step: 1, prompt: 'b', mi: 1.5, mi_low: 1, mi_high: 2, reward_std: 0.5, reward_mean: 0.5, kept: true },
  { step: 4, prompt: 'b', mi: 0.4, reward_std: 0.3, reward_mean: 0.2, kept: true },
  { step: 4, prompt: 'a', mi: null, reward_std: 0, reward_mean: 1, kept: false, cause: 'too_easy' },
]);

describe('the plane', () => {
  const start = { mi: 2, entropy: 1 };
  const run = runOf([1, 2, 3], { mi: [2, 1, gap], entropy: [1, 2, 2] }, headOf('a', { start }));

  it('has each step as a share of the run’s own start, and leaves out what has no figures', () => {
    expect(planeTable([run]).rows).toEqual([
      ['a', 1, 100, 100],
      ['a', 2, 50, 200],
    ]);
  });

  it('has no place for a run that has no start, or started from nothing', () => {
    expect(hasTrail(runOf([1], { mi: [1] }))).toBe(false);
    expect(hasTrail(runOf([1], { mi: [1] }, headOf('a', { start: { mi: 0, entropy: 1 } })))).toBe(false);
    expect(svgOf(planeOption([], LIGHT), SIZE)).toContain('template collapse');
  });

  it('draws MI at 0 or below at its edge, and names hostile runs as text', () => {
    const low = hostileNames.map((name) => runOf([1, 2], { mi: [2, -1], entropy: [1, 1] }, headOf(name, { start })));
    const svg = svgOf(planeOption(low, LIGHT), SIZE);
    expect(svg).not.toMatch(/NaN|Infinity|<(script|img)/);
    expect(svg).toContain('&lt;script&gt;');
  });

  it('says by arrowheads which way a run went', () => {
    const left = runOf([1, 2, 3], { mi: [2, 1, 0.5], entropy: [1, 1, 1] }, headOf('a', { start }));
    const heads = [...svgOf(planeOption([left], LIGHT), SIZE).matchAll(/<polygon points="([^"]*)" fill="([^"]*)"/g)]
      .filter(([, , fill]) => fill === LIGHT.runs[0])
      .map(([, points = '']) => points.match(/[\d.]+ [\d.]+/g)?.map((point) => point.split(' ').map(Number)));
    expect(heads.length).toBeGreaterThan(0);
    expect(heads.length).toBeLessThanOrEqual(6);
    // To the left, where MI falls: the tip is the leftmost point, halfway between the others.
    for (const [tip, a, b] of heads as [number, number][][]) {
      expect(tip?.[0]).toBeLessThan(Math.min(a?.[0] as number, b?.[0] as number));
      expect(tip?.[1]).toBeCloseTo(((a?.[1] as number) + (b?.[1] as number)) / 2, 1);
    }
  });

  it('draws of a long run no more points than are seen, the first and the last among them', () => {
    const steps = Array.from({ length: 5000 }, (_, at) => at + 1);
    const long = runOf(steps, { mi: steps.map(() => 1), entropy: steps.map(() => 1) }, headOf('a', { start }));
    const drawn = planeTable([long]).rows.map(([, step]) => step);
    expect(drawn.length).toBeLessThanOrEqual(240);
    expect([drawn[0], drawn.at(-1)]).toEqual([1, 5000]);
  });
});

describe('the forest of correlations', () => {
  const figure = (name: string, estimate: number, low: number, high: number) => {
    return { figure: name, estimate, low, high, steps: 51, effectiveSteps: 40.4 };
  };
  const correlations = {
    against: 'success',
    figures: [figure('mi_seq_estimate', 0.6, 0.3, 0.8), figure('entropy', -0.1, -0.4, 0.2)],
  };

  it('is filled where the interval does not hold 0, blue for information and orange for entropy', () => {
    const svg = svgOf(forestOption(correlations, LIGHT, SIZE), SIZE);
    const circles = [...svg.matchAll(/<circle[^>]*>/g)].map(([path]) => path);
    expect(circles).toHaveLength(2);
    expect(circles[0]).toContain(`fill="${LIGHT.mi}"`);
    expect(circles[1]).toContain(`fill="${LIGHT.surface}"`);
    expect(circles[1]).toContain(`stroke="${LIGHT.entropy}"`);
    expect(svg).toContain('mi seq estimate (40)');
  });

  it('has all figures in its table, also those that are not drawn', () => {
    const many = { against: 'success', figures: Array.from({ length: 60 }, (_, at) => figure(`f${at}`, 0.5, 0, 1)) };
    expect(forestTable(many).rows).toHaveLength(60);
    expect(svgOf(forestOption(many, LIGHT, SIZE), SIZE)).not.toContain('f59');
  });
});

describe('runs side by side', () => {
  const populations = { mi: [1, 1], mi_population_low: [0.8, 0.8], mi_population_high: [1.2, 1.2] };

  it('are compared at the last step that all have', () => {
    fc.assert(
      fc.property(fc.array(fc.uniqueArray(fc.nat(20), { minLength: 1 }), { minLength: 1, maxLength: 4 }), (sets) => {
        const sorted = sets.map((steps) => steps.toSorted((a, b) => a - b));
        const common = Array.from({ length: 21 }, (_, at) => at).filter((step) =>
          sets.every((set) => set.includes(step)),
        );
        expect(lastCommonStep(sorted.map((steps) => runOf(steps, {})))).toBe(common.at(-1));
      }),
    );
  });

  it('differ where the difference is more than both intervals leave open', () => {
    const a = runOf([1, 5], populations, headOf('a'));
    const near = runOf([5, 9], { ...populations, mi: [0.9, 0.9] }, headOf('b'));
    const far = runOf([5], { mi: [0.1], mi_population_low: [0], mi_population_high: [0.2] }, headOf('c'));
    expect(differenceSentence(a, near)).toBe(
      'MI of a less that of b at step 5: 0.100 [-0.183, 0.383]; they cannot be told apart.',
    );
    expect(differenceSentence(a, far)).toBe('MI of a less that of c at step 5: 0.900 [0.676, 1.12]; they differ.');
    expect(differenceSentence(a, runOf([7], populations))).toBeUndefined();
    expect(differenceSentence(a, runOf([5], { mi: [1] }))).toBeUndefined();
  });

  it('are told apart by colour and by dash, and stand in a table with their states', () => {
    const two = ['a', 'b'].map((name) => runOf([1, 5], populations, headOf(name)));
    const series = compareOption(two, LIGHT, SIZE).series as { lineStyle: { color: string; type: string } }[];
    expect(series).toHaveLength(6);
    expect(series.slice(0, 2).map(({ lineStyle }) => [lineStyle.color, lineStyle.type])).toEqual([
      [LIGHT.runs[0], 'solid'],
      [LIGHT.runs[1], 'dashed'],
    ]);
    expect(compareTable(two).rows[0]).toEqual(['a', 2, 'diverse', '1 [0.800, 1.20]', '—', '—', '—']);
  });

  it('share no panel and no column where one was measured by scores and another by texts', () => {
    const ofScores = runOf([1, 5], { ...populations, entropy: [2, 2], retrieval: [1, 1] }, headOf('scores'));
    const head = headOf('texts', { instrument: 'texts', hasEntropy: false });
    const ofTexts = runOf([1, 5], { mi: [0.5, -0.25], entropy: [0.4, 0.3], retrieval: [1, 0.5] }, head);
    const { yAxis, series } = compareOption([ofScores, ofTexts], LIGHT, SIZE) as {
      yAxis: { name: string; min: number; max: number }[];
      series: { yAxisIndex: number; lineStyle: { color: string } }[];
    };
    expect(yAxis.map(({ name }) => name)).toEqual([
      'I(X;Z), nats a response',
      'I(X;Z), lower bound from texts, nats a response',
      'H(Z|X), nats a token',
      'Novelty among siblings, share of a text',
      'Retrieval',
    ]);
    expect(series.map(({ yAxisIndex }) => yAxisIndex)).toEqual([0, 1, 2, 3, 4, 4]);
    // A run keeps its colour in every panel, and a bound below 0 is drawn.
    expect(series[1]?.lineStyle.color).toBe(LIGHT.runs[1]);
    expect(yAxis[1]?.min).toBe(-0.25);
    expect(compareTable([ofScores, ofTexts])).toEqual({
      columns: [
        ...['run', 'steps', 'state', 'MI at step 5, population interval', 'MI bound at step 5, population interval'],
        ...['H(Z|X)', 'novelty', 'retrieval', 'reward'],
      ],
      rows: [
        ['scores', 2, 'diverse', '1 [0.800, 1.20]', '', '2', '', '1', '—'],
        ['texts', 2, 'diverse', '', '-0.250', '', '0.300', '0.500', '—'],
      ],
    });
    expect(differenceSentence(ofScores, ofTexts)).toBeUndefined();
    expect(compareHeight([ofScores, ofTexts])).toBeGreaterThan(compareHeight([ofScores]));
  });

  it('draw in the story the whole interval of a bound below 0', () => {
    const head = headOf('texts', { instrument: 'texts', hasEntropy: false });
    const run = runOf([1, 5], { mi: [0.5, 0.1], mi_low: [0.3, -0.2], mi_high: [0.7, 0.4] }, head);
    const { yAxis } = storyOption({ run }, LIGHT, SIZE) as { yAxis: { name: string; min: number }[] };
    expect(yAxis[0]?.min).toBe(Math.fround(-0.2));
  });
});

describe('environments of a run', () => {
  const steps = [1, 2, 3, 4, 5, 6, 7];
  const figures = {
    mi: [2, 2, 2, 2, 2, 2, 2],
    'environment/a%2Fb%25/mi': [1, 1, 1, 1, 1, 0.25, 0],
    'environment/a%2Fb%25/bound': steps.map(() => Math.log(4)),
    'environment/code/mi': [1, Number.NaN, 1, 1, 1, 1, 0.5],
    'environment/code/bound': steps.map(() => Math.log(8)),
    'environment/new/mi': [...new Array(6).fill(Number.NaN), 0],
  };

  it('are those that a verdict names first, then those with the least left of their own start', () => {
    const verdicts = [
      stretchOf({ severity: 'warning', environments: ['new'] }),
      stretchOf({ severity: 'critical', environments: ['code'], holds: false }),
    ];
    const lines = environmentLines(runOf(steps, figures, headOf('a', { verdicts })));
    expect(lines.map(({ name, severity }) => [name, severity])).toEqual([
      ['new', 'warning'],
      ['a/b%', undefined],
      ['code', undefined],
    ]);
    expect(lines.map(({ last, share, prompts }) => [last, share, prompts])).toEqual([
      [0, Number.NaN, Number.NaN],
      [0, 0, 4],
      [0.5, 0.5, 8],
    ]);
    expect(environmentLines(runOf(steps, { mi: figures.mi }))).toEqual([]);
  });

  it('are drawn as what is left within them, which the start is of', () => {
    const run = runOf(steps, { ...figures, mi_within: [1, 1, 1, 1, 1, 0.5, -0.1] });
    const { series, yAxis } = storyOption({ run }, LIGHT, SIZE) as {
      series: { endLabel?: { formatter: string }; data: unknown[] }[];
      yAxis: { min: number }[];
    };
    expect(series.find(({ endLabel }) => endLabel?.formatter === 'within')?.data).toHaveLength(7);
    expect(yAxis[0]?.min).toBe(Math.fround(-0.1));
  });
});

describe('prompts', () => {
  it('of a step are the most specific first, what is not known last', () => {
    const run = { ...runOf([1, 4], { mi: [1, 1] }), prompts: twoSteps };
    expect(promptsAt(run, 1)).toMatchObject({
      step: 1,
      prompts: [
        { id: 'b', kept: true },
        { id: 'a', reason: 'zero_score' },
      ],
    });
    expect(promptsAt(run, 99)).toMatchObject({
      step: 4,
      prompts: [{ id: 'b' }, { id: 'a', mi: gap, cause: 'too_easy' }],
    });
    expect(promptsAt({ ...run, prompts: undefined }, 1)).toBeUndefined();
  });

  it('recur where each is in half of the steps', () => {
    expect(idsRecur(twoSteps)).toBe(true);
    expect(
      idsRecur(
        tableOf([
          { step: 1, prompt: 'a' },
          { step: 2, prompt: 'b' },
          { step: 3, prompt: 'c' },
        ]),
      ),
    ).toBe(false);
  });

  it('have layers only of what is known', () => {
    expect(hasLayer(twoSteps, 'kept')).toBe(true);
    const bare = tableOf([{ mi: 1 }]);
    expect((['mi', 'rewardStd', 'kept'] as const).map((layer) => hasLayer(bare, layer))).toEqual([true, false, false]);
  });

  it('are cells, the largest of a step on top, in the colours of the scale', () => {
    const svg = svgOf(promptMapOption({ table: twoSteps, layer: 'rewardStd', by: 'rank' }, LIGHT, SIZE), SIZE);
    for (const share of [0.1 / 0.5, 1, 0.3 / 0.5, 0]) expect(svg).toContain(viridis(share));
    expect(svg).toContain('0 to 0.5: reward spread (std)');
  });

  it('have shares of causes that fill each step', () => {
    const series = triageOption(twoSteps, LIGHT, SIZE).series as {
      data: unknown[];
      renderItem: (p: { dataIndex: number }, api: object) => { type: string; shape?: { points: [number, number][] } };
    }[];
    const [drawn] = series;
    const polygons = (drawn?.data ?? [])
      .map((_, dataIndex) => drawn?.renderItem({ dataIndex }, {}))
      .filter((shape) => shape?.type === 'polygon');
    const tops = polygons
      .at(-1)
      ?.shape?.points.slice(0, stepsOf(twoSteps).size)
      .map(([, y]) => y);
    expect(tops).toEqual([4, 4]);
  });

  it('have the spread of their rewards early and late, each adding up to all', () => {
    const svg = svgOf(spreadOption(twoSteps, LIGHT, SIZE), SIZE);
    expect(svg).toContain('first fifth (steps to 1)');
    expect(svg).toContain('last fifth (from 4)');
  });

  it('of one step are dots with whiskers, hollow where the filter drops them, and text in the table', () => {
    const run = {
      ...runOf([1], { mi: [1] }),
      prompts: tableOf(hostileNames.map((prompt, at) => ({ prompt, mi: at, kept: at > 0 }))),
    };
    const prompts = promptsAt(run, 1)?.prompts ?? [];
    const svg = svgOf(stepPromptsOption(prompts, LIGHT, SIZE), SIZE);
    const fills = [...svg.matchAll(/<circle[^>]*fill="([^"]+)"/g)].map(([, fill]) => fill);
    expect(fills).toEqual([...new Array(hostileNames.length - 1).fill(LIGHT.mi), LIGHT.surface]);
    expect(stepPromptsTable(prompts).rows.map(([id]) => id)).toEqual(hostileNames.toReversed());
  });
});

describe('a run that is live', () => {
  it('is stalled where no step came for three times as long as steps take', () => {
    const arrivals = [0, 1000, 2000, 3200, 4000];
    expect(stalledSince(arrivals, 6900)).toBeUndefined();
    expect(stalledSince(arrivals, 7100)).toBe(4000);
    expect(stalledSince(arrivals.slice(0, 3), 1e9)).toBeUndefined();
    expect(stalledSince([], 5)).toBeUndefined();
  });
});

describe('the kept ratio', () => {
  it('is there where the filter had something to say, from 0 to 1', () => {
    const run = runOf([1, 2], { kept: [0.5, gap] });
    expect(hasKeptRatio(run)).toBe(true);
    expect(hasKeptRatio(runOf([1], { kept: [gap] }))).toBe(false);
    expect(keptRatioOption(run, LIGHT, SIZE).yAxis).toMatchObject({ min: 0, max: 1 });
  });
});

describe('health', () => {
  it('sets valid formats beside MI, else length; else there is nothing', () => {
    const valid = runOf([1, 2], { mi: [1, gap], valid: [0.9, 1], length: [5, 6] });
    expect(healthFigure(valid)?.[0]).toBe('valid');
    expect((healthOption(valid, LIGHT).series as { data: unknown[] }[])[0]?.data).toEqual([[Math.fround(0.9), 1]]);
    expect(healthFigure(runOf([1], { mi: [1], length: [3] }))?.[0]).toBe('length');
    expect(healthFigure(runOf([1], { mi: [1] }))).toBeUndefined();
  });
});

describe('the cost of a step', () => {
  it('is told of the last step that was scored: rows, those left out, and pairs', () => {
    const all = { rows: [8, 8], rows_used: [8, 7], bound: [Math.log(4), Math.log(4)], mi: [1, 1] };
    expect(costSentence(runOf([1, 2], all))).toBe(
      'Step 2: 8 rows, 1 of them left out; scored under each of 4 prompts, 32 pairs.',
    );
    const few = { ...all, pairs: [16, 16], pairs_saved: [0.5, 0.5] };
    expect(costSentence(runOf([1, 2], few))).toBe(
      'Step 2: 8 rows, 1 of them left out; 16 pairs of row and prompt were scored, 50% of all.',
    );
    const between = { ...all, measured: [1, 0], rows: [8, Number.NaN] };
    expect(costSentence(runOf([1, 2], between))).toMatch(/^Step 1: 8 rows, 0 of them/);
    expect(costSentence(runOf([1], { mi: [1] }))).toBeUndefined();
    expect(costSentence(runOf([1], all, headOf('a', { instrument: 'texts' })))).toBeUndefined();
  });
});
