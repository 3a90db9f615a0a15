// The prompts of one step: how specific the reasoning about each is, with its interval, and how it is rewarded.
import type { ChartOption, ChartTable, Shape, Size } from '../chart-option.js';
import { dot, pixelDrawing, stroke, words } from '../pixel-drawing.js';
import type { Theme } from '../theme.js';
import type { PromptOfStep } from './prompt-rows.js';

const LEFT = 40;
const FOOT = 30;

/** Dots of MI, the most specific first; hollow where the filter drops the prompt. */
export function stepPromptsOption(prompts: readonly PromptOfStep[], theme: Theme, size: Size): ChartOption {
  const [width, height] = [size.width - LEFT - 8, size.height - FOOT - 8];
  const values = prompts
    .flatMap(({ mi, miLow, miHigh }) => [mi, miLow, miHigh])
    .filter((value) => !Number.isNaN(value));
  const [least, most] = [Math.min(0, ...values), Math.max(0.1, ...values)];
  const y = (value: number): number => 8 + height - ((value - least) / (most - least)) * height;
  const x = (at: number): number => LEFT + ((at + 0.5) / Math.max(1, prompts.length)) * width;
  const ticks = [...new Set([least, 0, most / 2, most])];
  return pixelDrawing(theme, size, [
    ...ticks.flatMap((value): Shape[] => [
      stroke([LEFT, y(value)], [LEFT + width, y(value)], value === 0 ? theme.guide : theme.grid),
      words(String(Number(value.toPrecision(2))), LEFT - 6, y(value), theme, { align: 'right' }),
    ]),
    ...prompts.flatMap(({ mi, miLow, miHigh, kept }, at): Shape[] => {
      if (Number.isNaN(mi)) return [];
      const whisker =
        Number.isNaN(miLow) || Number.isNaN(miHigh)
          ? []
          : [stroke([x(at), y(miLow)], [x(at), y(miHigh)], theme.mi, 1.5)];
      return [...whisker, dot(x(at), y(mi), 4, kept === false ? theme.surface : theme.mi, theme.mi)];
    }),
    words('prompts, the most specific first; hollow: the filter drops it', LEFT + width / 2, size.height - 10, theme, {
      align: 'center',
    }),
  ]);
}

export function stepPromptsTable(prompts: readonly PromptOfStep[]): ChartTable {
  return {
    columns: ['prompt', 'rows', 'MI', 'low', 'high', 'retrieval', 'reward mean', 'reward std', 'kept', 'why', 'cause'],
    rows: prompts.map(({ id, rows, mi, miLow, miHigh, retrieval, rewardMean, rewardStd, kept, reason, cause }) => {
      const verdict = kept === undefined ? '' : kept ? 'yes' : 'no';
      return [id, rows, mi, miLow, miHigh, retrieval, rewardMean, rewardStd, verdict, reason, cause];
    }),
  };
}
