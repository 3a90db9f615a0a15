// A line a run, the gravest first: what is wrong, since when, how sure, and of the one that is looked at what to do.

import { percentText, shortNumber, withInterval } from '../charts/number-text.js';
import { miName, varietyName } from '../charts/step-words.js';
import type { Grade, RunData } from '../report.js';
import { choose, live, run, runs, titleOf } from './state.js';

const SIGNS: Readonly<Record<Grade, string>> = {
  critical: '✖',
  warning: '▲',
  ended: '△',
  unknown: '○',
  unjudged: '○',
  fine: '●',
};

const last = (column: Float32Array | undefined): number =>
  column?.findLast((value) => !Number.isNaN(value)) ?? Number.NaN;

export function VerdictBar() {
  return (
    <section class="verdicts" aria-label="Verdicts">
      <ul>
        {runs.value.map((one) => (
          <RunLine key={titleOf(one)} one={one} isChosen={one === run.value} />
        ))}
      </ul>
      {run.value !== undefined && <Advice one={run.value} />}
    </section>
  );
}

function RunLine({ one, isChosen }: { one: RunData; isChosen: boolean }) {
  const { head, figures, steps } = one;
  const { grade, state, since, said } = head.status;
  const [mi, low, high] = ['mi', 'mi_low', 'mi_high'].map((name) => last(figures[name])) as [number, number, number];
  const facts = [
    [miName(head), withInterval(mi, low, high), percentOfStart(head.shares.mi)],
    [varietyName(head), shortNumber(last(figures.entropy)), percentOrNothing(head.shares.entropy)],
    ['retrieval', shortNumber(last(figures.retrieval)), `chance ${shortNumber(last(figures.chance))}`],
    ['reward', shortNumber(last(figures.reward)), ''],
    ...(live.value.state === 'none' ? [] : [['step', String(steps.at(-1) ?? ''), '']]),
  ] as const;
  return (
    <li>
      <button type="button" class={`run ${grade}`} aria-pressed={isChosen} onClick={() => choose(one)}>
        <span class="sign" aria-hidden="true">
          {SIGNS[grade]}
        </span>
        <bdi class="name">{titleOf(one)}</bdi>
        <span class="state">
          {state}
          {since !== null && (
            <span>
              {' '}
              since step {since}
              {said !== null && <span class="said-at"> · said at {said}</span>}
            </span>
          )}
        </span>
        {facts.map(([name, value, beside]) => (
          <span class="fact" key={name}>
            <span class="quiet">{name}</span> {value} <span class="quiet">{beside}</span>
          </span>
        ))}
      </button>
    </li>
  );
}

const percentOrNothing = (share: number | null): string => (share === null ? '' : percentText(share));

const percentOfStart = (share: number | null): string => (share === null ? '' : `${percentText(share)} of start`);

function Advice({ one }: { one: RunData }) {
  const { sentence, advice, grade } = one.head.status;
  if (sentence === '' && advice === '') return null;
  const isAlarm = grade === 'critical' || grade === 'warning';
  return (
    <div class={`advice ${grade}`}>
      {sentence !== '' && <p>{sentence}</p>}
      {advice !== '' && isAlarm && (
        <p class="do">
          <strong>What to do:</strong> {advice}
        </p>
      )}
    </div>
  );
}
