// The heat map of the step under the cursor, and stills of the run, so that a collapse is seen without a touch.
import { useSignal } from '@preact/signals';
import { useMemo } from 'preact/hooks';
import type { Size } from '../charts/chart-option.js';
import { percentText, shortNumber } from '../charts/number-text.js';
import { heatMapBox, heatMapOption, heatMapTable, stillBox, stillsOption } from '../charts/prompts/heat-map.js';
import { type CellKind, cellsOf, matrixAt, stillsOf } from '../charts/prompts/matrix-cells.js';
import type { RunData } from '../report.js';
import { Chart } from './chart.js';
import { cursorStep, restingPlace, theme } from './state.js';

const HEIGHT = 318;
const STILLS = 96;

export function HeatMaps({ run }: { run: RunData }) {
  const kind = useSignal<CellKind>('posterior');
  const hovered = useSignal('');
  const size = useSignal<Size>({ width: 0, height: HEIGHT });
  const step = run.steps[restingPlace.value] ?? 0;
  const matrix = matrixAt(run, step);
  const stills = useMemo(() => stillsOf(run), [run]);
  const start = stills[0]?.matrix;
  const option = useMemo(
    () => (to: Size) =>
      matrix === undefined || start === undefined
        ? {}
        : heatMapOption({ matrix, start, kind: kind.value }, theme.value, to),
    [matrix, start, kind.value, theme.value],
  );
  const smallOption = useMemo(() => (to: Size) => stillsOption(stills, theme.value, to), [stills, theme.value]);
  if (matrix === undefined || start === undefined) return null;

  const hover = (event: PointerEvent): void => {
    const { left, top } = (event.currentTarget as HTMLElement).getBoundingClientRect();
    const box = heatMapBox(size.value);
    const { size: count, ids, values } = cellsOf(matrix, start, kind.value);
    const [column, row] = [event.clientX - left - box.x, event.clientY - top - box.y].map((at) =>
      Math.floor((at / box.width) * count),
    ) as [number, number];
    const value = row >= 0 && row < count && column >= 0 && column < count ? values[row * count + column] : undefined;
    hovered.value =
      value === undefined ? '' : `reasoning about ${ids[row]}, under ${ids[column]}: ${shortNumber(value)}`;
  };
  const own = ownMean(cellsOf(matrix, start, 'posterior').values, matrix.ids.length);
  const sentence = `Step ${matrix.step}: its own prompt with ${percentText(own)}, chance ${percentText(1 / matrix.prompts)}`;
  return (
    <figure class="heat">
      <figcaption>Whose prompt does the reasoning fit?</figcaption>
      <Chart
        isSmall
        label={`Small heat maps: ${stills.map(({ title, matrix: { step: at } }) => `${title}, step ${at}`).join('; ')}`}
        name={`${run.head.name} stills`}
        height={STILLS}
        option={smallOption}
        table={() => ({ columns: [], rows: [] })}
      >
        <StillButtons
          stills={stills.map(({ title, matrix: { step: at } }) => ({ title, step: at }))}
          size={{ ...size.value, height: STILLS }}
        />
      </Chart>
      <p class="readout about">
        {hovered.value || sentence}
        {matrix.step !== step && !hovered.value && <span class="quiet"> (the nearest that was kept)</span>}
      </p>
      <Chart
        label={`Heat map of prompts. ${sentence}`}
        name={`${run.head.name} heat map ${matrix.step}`}
        height={HEIGHT}
        option={option}
        table={() => heatMapTable({ matrix, start, kind: kind.value })}
        onSize={(now) => {
          if (now.width !== size.value.width) size.value = now;
        }}
        {...(matrix.prompts > matrix.ids.length
          ? { note: `${matrix.ids.length} of ${matrix.prompts} prompts: the most and the least specific ones.` }
          : {})}
        tools={
          <button
            type="button"
            aria-pressed={kind.value === 'nats'}
            onClick={() => (kind.value = kind.value === 'nats' ? 'posterior' : 'nats')}
          >
            Nats
          </button>
        }
      >
        <div class="overlay" onPointerMove={hover} onPointerLeave={() => (hovered.value = '')} />
      </Chart>
    </figure>
  );
}

function ownMean(values: Float32Array, size: number): number {
  let sum = 0;
  for (let at = 0; at < size; at++) sum += values[at * size + at] as number;
  return sum / size;
}

/** A click on a still moves the cursor to its step. */
function StillButtons({ stills, size }: { stills: readonly { title: string; step: number }[]; size: Size }) {
  return (
    <div class="stills">
      {stills.map(({ title, step }, at) => {
        const { x, width } = stillBox(at, stills.length, size);
        return (
          <button
            key={step}
            type="button"
            aria-label={`Heat map of ${title}, step ${step}`}
            style={{ left: `${x}px`, width: `${width}px` }}
            onClick={() => (cursorStep.value = step)}
          />
        );
      })}
    </div>
  );
}
