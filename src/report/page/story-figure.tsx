// The story of a run with one cursor through all of its panels: by the mouse, by the keys, and said aloud.
import { useSignal } from '@preact/signals';
import { useMemo } from 'preact/hooks';
import type { Size } from '../charts/chart-option.js';
import { stepSentence, storyTable } from '../charts/step-words.js';
import { storyLayout, storyOption } from '../charts/story.js';
import { nearestPlace } from '../charts/visible-points.js';
import type { RunData } from '../report.js';
import { Chart } from './chart.js';
import { cursorStep, moveTo, permutations, place, range, theme, titleOf } from './state.js';

const HEIGHT = 420;

export function StoryFigure({ run }: { run: RunData }) {
  const size = useSignal<Size>({ width: 0, height: HEIGHT });
  const spoken = useSignal('');
  /** A click keeps the cursor where it is. */
  const isPinned = useSignal(false);
  const drag = useSignal<{ from: number; to: number } | undefined>(undefined);
  const layout = storyLayout({ run }, size.value);
  const span = range.value ?? [run.steps[0] ?? 0, run.steps.at(-1) ?? 0];
  const option = useMemo(
    () => (to: Size) => storyOption({ run, range: range.value }, theme.value, to),
    [run, range.value, theme.value],
  );
  const width = Math.max(1, size.value.width - layout.left - layout.right);
  const stepAt = (event: PointerEvent): number => {
    const { left } = (event.currentTarget as HTMLElement).getBoundingClientRect();
    const share = (event.clientX - left - layout.left) / width;
    return span[0] + Math.max(0, Math.min(1, share)) * (span[1] - span[0]);
  };
  const pixelOf = (step: number): number => layout.left + ((step - span[0]) / (span[1] - span[0] || 1)) * width;

  const onKeyDown = (event: KeyboardEvent): void => {
    const go = KEYS[event.key];
    if (go !== undefined) moveTo(go(place.value, run));
    else if (event.key === 'Escape') {
      range.value = undefined;
      cursorStep.value = undefined;
      isPinned.value = false;
    } else return;
    event.preventDefault();
    spoken.value = stepSentence(run, place.value, permutations.value);
  };

  return (
    <figure class="story">
      <figcaption>
        <bdi>{titleOf(run)}</bdi>, <Readout run={run} />
      </figcaption>
      {/* biome-ignore lint/a11y/useSemanticElements: what is steered by keys is a chart, no form */}
      <div
        role="group"
        // biome-ignore lint/a11y/noNoninteractiveTabindex: the cursor is moved by keys
        tabIndex={0}
        aria-roledescription="chart"
        aria-label={`Story of ${titleOf(run)}. Arrow keys move from step to step, [ and ] from verdict to verdict.`}
        class="keys"
        onKeyDown={onKeyDown}
      >
        <Chart
          label={`MI, entropy, retrieval and reward of ${titleOf(run)} over its steps, with states and verdicts`}
          name={`${run.head.name} story`}
          note="Bands: 95% interval of the batch. Hollow: chance alone explains it (p > 0.05). Drag to look closer, click to keep the cursor."
          height={HEIGHT}
          option={option}
          table={() => storyTable(run, range.value)}
          onSize={(now) => {
            if (now.width !== size.value.width) size.value = now;
          }}
        >
          {/* biome-ignore lint/a11y/noStaticElementInteractions: what the mouse does here, the keys of the group do */}
          <div
            class="overlay"
            onPointerMove={(event) => {
              const step = stepAt(event);
              if (drag.value !== undefined) drag.value = { ...drag.value, to: step };
              if (!isPinned.value) cursorStep.value = run.steps[nearestPlace(run.steps, step)];
            }}
            onPointerDown={(event) => {
              event.currentTarget.setPointerCapture(event.pointerId);
              drag.value = { from: stepAt(event), to: stepAt(event) };
            }}
            onPointerUp={() => {
              const { from = 0, to = 0 } = drag.value ?? {};
              drag.value = undefined;
              const [first, last] = [Math.round(Math.min(from, to)), Math.round(Math.max(from, to))];
              // A click moves no mouse by more than this.
              if (pixelOf(last) - pixelOf(first) > 6 && last > first) range.value = [first, last];
              else {
                isPinned.value = !isPinned.value;
                cursorStep.value = run.steps[nearestPlace(run.steps, from)];
              }
            }}
            onDblClick={() => {
              range.value = undefined;
              isPinned.value = false;
            }}
          >
            <CursorLine run={run} pixelOf={pixelOf} isPinned={isPinned.value} />
            {drag.value !== undefined && (
              <div
                class="brush"
                style={{
                  left: `${pixelOf(Math.min(drag.value.from, drag.value.to))}px`,
                  width: `${Math.abs(pixelOf(drag.value.to) - pixelOf(drag.value.from))}px`,
                }}
              />
            )}
          </div>
        </Chart>
      </div>
      <p class="spoken" aria-live="polite">
        {spoken}
      </p>
      {range.value !== undefined && (
        <button type="button" onClick={() => (range.value = undefined)}>
          Show all steps (now {range.value.join(' to ')})
        </button>
      )}
    </figure>
  );
}

/** It alone moves when the cursor does. */
function CursorLine(props: { run: RunData; pixelOf: (step: number) => number; isPinned: boolean }) {
  const { run, pixelOf, isPinned } = props;
  const left = pixelOf(run.steps[place.value] ?? 0).toFixed(1);
  return <div class={isPinned ? 'cursor pinned' : 'cursor'} style={{ transform: `translateX(${left}px)` }} />;
}

function Readout({ run }: { run: RunData }) {
  return <span class="readout">{stepSentence(run, place.value, permutations.value, 'brief')}</span>;
}

/** Steps at which an alarm begins, in order. */
const beginnings = ({ head, steps }: RunData): number[] =>
  head.verdicts.map(({ since }) => nearestPlace(steps, since)).sort((a, b) => a - b);

const KEYS: Readonly<Record<string, (at: number, run: RunData) => number>> = {
  ArrowLeft: (at) => at - 1,
  ArrowRight: (at) => at + 1,
  PageUp: (at, { steps }) => at - Math.max(1, Math.round(steps.length / 10)),
  PageDown: (at, { steps }) => at + Math.max(1, Math.round(steps.length / 10)),
  Home: () => 0,
  End: (_, { steps }) => steps.length - 1,
  '[': (at, run) => beginnings(run).findLast((place) => place < at) ?? at,
  ']': (at, run) => beginnings(run).find((place) => place > at) ?? at,
};
