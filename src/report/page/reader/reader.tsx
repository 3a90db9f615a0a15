// Rollouts of the step under the cursor, a few at a time: the most generic first, or the most specific.
import { signal, useSignal } from '@preact/signals';
import { useEffect, useMemo, useRef } from 'preact/hooks';
import type { RunData } from '../../report.js';
import { restingPlace } from '../state.js';
import { Rollout } from './rollout.js';
import { LEGEND, textsAt } from './shades.js';

/** Rollouts side by side on a wide screen, and one below the other on a narrow one. */
const PAGE = 4;

/** The row that is asked for, until it is shown. */
const wanted = signal<number | undefined>(undefined);

/** Shows a row of the step under the cursor, and goes to it. */
export function read(row: number): void {
  wanted.value = row;
}

export function Reader({ run }: { run: RunData }) {
  const order = useSignal<'generic' | 'specific'>('generic');
  const from = useSignal(0);
  const host = useRef<HTMLDivElement>(null);
  const step = run.steps[restingPlace.value] ?? 0;
  const texts = useMemo(() => textsAt(run, step), [run, step]);
  const rollouts = useMemo(() => {
    const rising = texts?.rollouts ?? [];
    return order.value === 'generic' ? rising : rising.toReversed();
  }, [texts, order.value]);
  useEffect(() => {
    const at = rollouts.findIndex(({ row }) => row === wanted.value);
    if (wanted.value === undefined || at < 0) return;
    from.value = Math.floor(at / PAGE) * PAGE;
    const selector = `[data-row="${wanted.value}"] .reasoning`;
    wanted.value = undefined;
    // It is drawn by then.
    requestAnimationFrame(() =>
      requestAnimationFrame(() => host.current?.querySelector<HTMLElement>(selector)?.focus()),
    );
  }, [wanted.value]);
  if (texts === undefined) return null;
  const isRead = rollouts.some(({ specificity }) => specificity !== null);
  const first = Math.min(from.value, Math.floor(Math.max(0, rollouts.length - 1) / PAGE) * PAGE);
  const shown = rollouts.slice(first, first + PAGE);
  const kept =
    rollouts.length < texts.rows
      ? `${rollouts.length} of ${texts.rows} rows are kept${isRead ? ', the most generic and the most specific ones' : ''}.`
      : `All ${texts.rows} rows.`;
  const choose = (to: 'generic' | 'specific') => (): void => {
    order.value = to;
    from.value = 0;
  };
  return (
    <div class="reader" ref={host}>
      <h3>Rollouts of step {texts.step}, word by word</h3>
      <p class="about">
        {texts.step === step ? '' : 'The nearest step whose rollouts were kept. '}
        {kept}{' '}
        {isRead
          ? 'A word (or token id) is shaded by how many times as likely it is under its own prompt’s other rollouts and text as under those of the other prompts.'
          : 'Their words are not shaded: there are no text figures at this step.'}
      </p>
      {isRead && (
        <>
          <p class="choices">
            <button type="button" aria-pressed={order.value === 'generic'} onClick={choose('generic')}>
              most generic first
            </button>
            <button type="button" aria-pressed={order.value === 'specific'} onClick={choose('specific')}>
              most specific first
            </button>
          </p>
          <ul class="legend shades" aria-label="Shades, by how many times as likely">
            <li class="quiet">times as likely:</li>
            {LEGEND.map(({ name, words }) => (
              <li key={name}>
                <span class={name}>{words}</span>
              </li>
            ))}
          </ul>
        </>
      )}
      <div class="rollouts">
        {shown.map((rollout) => (
          <Rollout key={`${texts.step} ${rollout.row}`} rollout={rollout} />
        ))}
      </div>
      {rollouts.length > PAGE && (
        <p class="pages">
          <button type="button" disabled={first === 0} onClick={() => (from.value = first - PAGE)}>
            Earlier rollouts
          </button>
          <span>
            {first + 1} to {first + shown.length} of {rollouts.length}
          </span>
          <button type="button" disabled={first + PAGE >= rollouts.length} onClick={() => (from.value = first + PAGE)}>
            Later rollouts
          </button>
        </p>
      )}
    </div>
  );
}
