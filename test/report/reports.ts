// Reports of any content, for tests of what is made of them.
import fc from 'fast-check';
import type {
  Matrix,
  PromptTable,
  Report,
  RunData,
  RunHead,
  ShownText,
  StepTexts,
  Stretch,
} from '../../src/report/report.js';

export function headOf(name: string, more: Partial<RunHead> = {}): RunHead {
  return {
    ...{ name, place: 'runs', instrument: 'scores', hasEntropy: true, count: 0 },
    status: { grade: 'fine', state: 'diverse', since: null, said: null, sentence: '', advice: '' },
    ...{ start: null, shares: { mi: null, entropy: null }, verdicts: [], correlations: undefined },
    ...{ notes: [], absent: [], template: [], templateStep: null },
    ...more,
  } as RunHead;
}

export function stretchOf(more: Partial<Stretch>): Stretch {
  return {
    ...{ kind: 'template_collapse', severity: 'critical', since: 1, raised: 1, until: 1, holds: true },
    ...{ sentence: '', advice: '' },
    ...more,
  } as Stretch;
}

export function runOf(
  steps: readonly number[],
  figures: Record<string, readonly number[]>,
  head = headOf('a'),
): RunData {
  return {
    head: { ...head, count: steps.length },
    steps: Float64Array.from(steps),
    figures: Object.fromEntries(Object.entries(figures).map(([name, values]) => [name, Float32Array.from(values)])),
    regimes: new Uint8Array(steps.length),
    prompts: undefined,
    matrices: [],
    gradients: [],
    texts: [],
  };
}

export function reportOf(...runs: RunData[]): Report {
  const provenance = { version: '1', settings: {}, command: 'collapsar report runs' };
  return { head: { after: '', cursor: '', provenance, thinned: [] }, runs };
}

/** What people call their runs, and what others would like to be run. */
export const hostileNames = [
  '<script>alert(1)</script>',
  '</script><img src=x onerror=alert(1)>',
  '<!--<script>',
  '\u202egnp.exe',
  'a\u0000b\u001b[31m',
  '"quoted" & \'single\' `ticks`',
  '../../etc/passwd',
  'constructor',
  '__proto__',
  'é'.repeat(300),
];

const float = fc.float({ noNaN: false });
const column = (length: number) => fc.array(float, { minLength: length, maxLength: length });
const places = (length: number, most: number) => fc.array(fc.nat(most), { minLength: length, maxLength: length });

function promptTables(): fc.Arbitrary<PromptTable> {
  return fc.nat(20).chain((length) =>
    fc
      .record({
        ids: fc.uniqueArray(fc.string(), { minLength: 1, maxLength: 5 }),
        numbers: fc.array(column(length), { minLength: 7, maxLength: 7 }),
        codes: fc.array(places(length, 0), { minLength: 4, maxLength: 4 }),
      })
      .map(({ ids, numbers, codes }): PromptTable => {
        const [rows, mi, miLow, miHigh, rewardMean, rewardStd, retrieval] = numbers.map((values) =>
          Float32Array.from(values),
        ) as [Float32Array, Float32Array, Float32Array, Float32Array, Float32Array, Float32Array, Float32Array];
        const [prompt, kept, reason, cause] = codes as [number[], number[], number[], number[]];
        return {
          ...{
            ids,
            reasons: [''],
            causes: ['', 'all_correct'],
            rows,
            mi,
            miLow,
            miHigh,
            rewardMean,
            rewardStd,
            retrieval,
          },
          step: Float64Array.from({ length }, (_, at) => at),
          prompt: Uint32Array.from(prompt),
          kept: Uint8Array.from(kept),
          reason: Uint8Array.from(reason),
          cause: Uint8Array.from(cause),
        };
      }),
  );
}

const matrices: fc.Arbitrary<Matrix> = fc.nat(6).chain((size) =>
  fc
    .record({
      step: fc.nat(),
      source: fc.constantFrom('scores' as const, 'texts' as const),
      ids: fc.array(fc.string(), { minLength: size, maxLength: size }),
      cells: fc.uint8Array({ minLength: size * size, maxLength: size * size }),
    })
    .map(({ step, source, ids, cells }) => {
      return {
        step,
        source,
        ids,
        prompts: size,
        posterior: cells,
        nats: Uint16Array.from(cells, (cell) => 257 * cell),
      };
    }),
);

/** A rollout with words at these places, [begin, end, nats as float16 bits] each. */
export function textOf(
  reasoning: string,
  words: readonly (readonly [number, number, number])[],
  more: Partial<ShownText> = {},
): ShownText {
  return {
    ...{ row: 0, group: 'g', prompt: null, promptLength: 0, reasoning, length: [...reasoning].length },
    ...{ reward: null, specificity: 0, tokens: words.length },
    places: Uint16Array.from(words.flatMap((word) => word.slice(0, 2))),
    nats: Uint16Array.from(words, ([, , bits]) => bits),
    ...more,
  };
}

const shownTexts: fc.Arbitrary<ShownText> = fc
  .record({
    reasoning: fc.oneof(fc.string({ unit: 'binary' }), fc.constantFrom(...hostileNames)),
    places: fc.array(fc.nat(65_535), { maxLength: 12 }).map((places) => places.sort((a, b) => a - b)),
    bits: fc.nat(65_535),
    prompt: fc.option(fc.string()),
    specificity: fc.option(
      fc.double({ noNaN: true, noDefaultInfinity: true }).filter((value) => !Object.is(value, -0)),
    ),
  })
  .map(({ reasoning, places, bits, prompt, specificity }) => {
    const words = Array.from({ length: places.length >> 1 }, (_, at) => {
      return [places[2 * at] as number, places[2 * at + 1] as number, bits] as const;
    });
    return textOf(reasoning, words, { prompt, specificity });
  });

const stepTexts: fc.Arbitrary<StepTexts> = fc.record({
  step: fc.nat(),
  rows: fc.nat(),
  rollouts: fc.array(shownTexts, { maxLength: 3 }),
});

export const runs: fc.Arbitrary<RunData> = fc
  .record({
    name: fc.oneof(fc.string(), fc.constantFrom(...hostileNames)),
    steps: fc.uniqueArray(fc.nat(1e9), { maxLength: 40 }),
  })
  .chain(({ name, steps }) =>
    fc
      .record({
        mi: column(steps.length),
        chance: column(steps.length),
        regimes: places(steps.length, 4),
        prompts: fc.option(promptTables(), { nil: undefined }),
        matrices: fc.array(matrices, { maxLength: 3 }),
        texts: fc.array(stepTexts, { maxLength: 3 }),
      })
      .map(({ mi, chance, regimes, prompts, matrices: shown, texts }): RunData => {
        const sorted = steps.toSorted((a, b) => a - b);
        const run = runOf(sorted, { mi, chance }, headOf(name));
        return { ...run, regimes: Uint8Array.from(regimes), prompts, matrices: shown, texts };
      }),
  );
