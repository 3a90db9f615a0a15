// The rollouts of a step in a line each, for the step's own part of the page; a button opens one in the reader.
import { useMemo } from 'preact/hooks';
import { shortNumber } from '../../charts/number-text.js';
import type { RunData } from '../../report.js';
import { read } from './reader.js';
import { promptName, textsAt, visible } from './shades.js';

/** Characters of a text that a table shows. */
const BEGINNING = 70;

export function StepTexts({ run, step }: { run: RunData; step: number }) {
  const texts = useMemo(() => textsAt(run, step), [run, step]);
  if (texts === undefined || texts.rollouts.length === 0) return null;
  return (
    <details>
      <summary>
        Its rollouts{' '}
        <span class="quiet">
          ({texts.rollouts.length} of {texts.rows}
          {texts.step === step ? '' : `, of step ${texts.step}`})
        </span>
      </summary>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by keys */}
      <section class="scrolls" tabIndex={0} aria-label={`Rollouts of step ${texts.step}`}>
        <table class="texts">
          <thead>
            <tr>
              {['row', 'prompt', 'reward', 'nats a feature', 'reasoning', ''].map((name) => (
                <th key={name} scope="col">
                  {name || <span class="spoken">open it</span>}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {texts.rollouts.map((rollout) => (
              <tr key={rollout.row}>
                <td>{rollout.row}</td>
                <td>
                  <bdi>{beginning(promptName(rollout))}</bdi>
                </td>
                <td>{shortNumber(rollout.reward)}</td>
                <td>{shortNumber(rollout.specificity)}</td>
                <td>
                  <bdi>{beginning(rollout.reasoning)}</bdi>
                </td>
                <td>
                  <button type="button" aria-label={`Read row ${rollout.row}`} onClick={() => read(rollout.row)}>
                    Read
                  </button>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </section>
    </details>
  );
}

function beginning(text: string): string {
  const words = text.trim().replace(/\s+/g, ' ');
  const characters = [...words.slice(0, 2 * BEGINNING)];
  return visible(characters.length > BEGINNING ? `${characters.slice(0, BEGINNING).join('')} …` : words);
}
