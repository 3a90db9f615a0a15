// One rollout: its prompt, and its reasoning word by word. What a word is worth is said under the mouse and by keys.
import { useSignal } from '@preact/signals';
import { useMemo, useRef } from 'preact/hooks';
import { shortNumber } from '../../charts/number-text.js';
import type { ShownText } from '../../report.js';
import { isPrompt, type Piece, piecesOf, shadeOf, visible } from './shades.js';

export function Rollout({ rollout }: { rollout: ShownText }) {
  const { row, group, prompt, reward, specificity } = rollout;
  const name = isPrompt(group, prompt) ? `row ${row}` : `row ${row} of prompt ${visible(group)}`;
  return (
    <article class="rollout" aria-label={name} data-row={row}>
      <p class="facts">
        <strong>row {row}</strong>
        {specificity !== null && <span> · {shortNumber(specificity)} nats a feature</span>}
        {reward !== null && <span> · reward {shortNumber(reward)}</span>}
        {!isPrompt(group, prompt) && (
          <span class="quiet">
            {' '}
            · prompt <bdi>{visible(group)}</bdi>
          </span>
        )}
      </p>
      {prompt !== null && (
        // biome-ignore lint/a11y/useSemanticElements: a text that scrolls is not a form
        <div
          class="prompt"
          role="group"
          // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by keys
          tabIndex={0}
          aria-label={`Prompt of ${name}`}
          dir="auto"
        >
          {visible(prompt.trim())}
        </div>
      )}
      <Reasoning rollout={rollout} name={name} />
    </article>
  );
}

function Reasoning({ rollout, name }: { rollout: ShownText; name: string }) {
  const host = useRef<HTMLDivElement>(null);
  const at = useSignal(-1);
  const spoken = useSignal('');
  const pieces = useMemo(() => piecesOf(rollout), [rollout]);
  const tokens = useMemo(() => pieces.flatMap(({ nats }, place) => (nats === undefined ? [] : [place])), [pieces]);
  /** Drawn once: of a thousand words only the one that is looked at changes. */
  const words = useMemo(() => pieces.map(wordOf), [pieces]);
  const now = pieces[at.value];

  const lookAt = (place: number): void => {
    const children = host.current?.children;
    children?.[at.value]?.removeAttribute('data-now');
    children?.[place]?.setAttribute('data-now', '');
    at.value = place;
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    const go = KEYS[event.key];
    if (go === undefined || tokens.length === 0) return;
    event.preventDefault();
    const next = go(tokens.indexOf(at.value), tokens.length - 1);
    const place = tokens[Math.max(0, Math.min(tokens.length - 1, next))] as number;
    lookAt(place);
    host.current?.children[place]?.scrollIntoView({ block: 'nearest' });
    spoken.value = pieceWords(pieces[place] as Piece);
  };
  return (
    <>
      {/* biome-ignore lint/a11y/useSemanticElements: what is steered by keys is a text, no form */}
      <div
        ref={host}
        class="reasoning"
        role="group"
        // biome-ignore lint/a11y/noNoninteractiveTabindex: words are gone through by keys
        tabIndex={0}
        aria-label={`Reasoning of ${name}${tokens.length > 0 ? '. Arrow keys go from word to word.' : ''}`}
        dir="auto"
        onKeyDown={onKeyDown}
        onPointerMove={({ target }) => lookAt(Number((target as HTMLElement).dataset.at ?? -1))}
        onPointerLeave={() => lookAt(-1)}
      >
        {words}
      </div>
      <p class="about readout">
        {now?.nats === undefined ? <span class="quiet">{extentOf(rollout)}</span> : <bdi>{pieceWords(now)}</bdi>}
      </p>
      <p class="spoken" aria-live="polite">
        {spoken.value}
      </p>
    </>
  );
}

const wordOf = ({ text, nats }: Piece, place: number) => (
  <span key={place} {...(nats !== undefined && { class: shadeOf(nats).name, 'data-at': place })}>
    {visible(text)}
  </span>
);

/** `“Kylie”: 8.98 nats, 7,940 times as likely as under other prompts` */
function pieceWords({ text, nats = 0 }: Piece): string {
  return `“${visible(text)}”: ${shortNumber(nats)} nats, ${shortNumber(Math.exp(nats))} times as likely as under other prompts`;
}

/** How much of the row is shown. */
function extentOf({ reasoning, length, tokens, nats, prompt, promptLength }: ShownText): string {
  const words = tokens === 0 ? '' : `${tokens} words`;
  const shaded = nats.length < tokens ? `, the first ${nats.length} shaded` : '';
  const cut = [...reasoning].length < length ? `; shown are ${[...reasoning].length} of ${length} characters` : '';
  const isCut = prompt !== null && [...prompt].length < promptLength;
  const ofPrompt = isCut ? `; of the prompt’s ${promptLength} characters the beginning and the end` : '';
  return length === 0 ? 'no reasoning' : (words + shaded + cut + ofPrompt).replace(/^; /, '');
}

const KEYS: Readonly<Record<string, (at: number, last: number) => number>> = {
  ArrowLeft: (at) => at - 1,
  ArrowRight: (at) => at + 1,
  ArrowUp: (at) => at - 10,
  ArrowDown: (at) => at + 10,
  Home: () => 0,
  End: (_, last) => last,
};
