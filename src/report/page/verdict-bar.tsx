// A line a run, the most severe first: what is wrong, since when, how sure, and of the one that is looked at what to do.
import { useMemo } from 'preact/hooks';
import { toldApart } from '../../checks/numbers.js';
import { percentText, shortNumber, withInterval } from '../charts/number-text.js';
import { type EnvironmentLine, environmentLines, miName, varietyName } from '../charts/step-words.js';
import { visiblePoints } from '../charts/visible-points.js';
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
  const within = last(figures.mi_within);
  const facts = [
    ...(Number.isNaN(within)
      ? [[miName(head), withInterval(mi, low, high), percentOfStart(head.shares.mi)] as const]
      : [
          [miName(head), withInterval(mi, low, high), ''] as const,
          ['within environments', shortNumber(within), percentOfStart(head.shares.mi)] as const,
        ]),
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
      {isChosen && <Environments one={one} />}
    </li>
  );
}

const MOST_LINES = 8;

/** Under its run, in small: an environment of a mixed batch may collapse while the whole does not. */
function Environments({ one }: { one: RunData }) {
  const lines = useMemo(() => environmentLines(one), [one]);
  if (lines.length < 2) return null;
  const named = lines.filter(({ severity }) => severity !== undefined).length;
  const shown = Math.max(MOST_LINES, named);
  return (
    <ul class="environments" aria-label={`Environments of ${titleOf(one)}`}>
      {lines.slice(0, shown).map((line) => (
        <EnvironmentItem key={line.name} line={line} of={one} />
      ))}
      {lines.length > shown && <li class="quiet">and {lines.length - shown} more, with more left of their start</li>}
    </ul>
  );
}

const SPARK = { width: 90, height: 14 };

function EnvironmentItem({ line, of }: { line: EnvironmentLine; of: RunData }) {
  const { name, last: mi, prompts, share, severity } = line;
  const known = Number.isNaN(prompts) ? '' : `, ${toldApart(mi, prompts)}`;
  return (
    <li class={`environment ${severity ?? 'fine'}`}>
      <span class="sign">{severity === undefined ? '●' : SIGNS[severity === 'info' ? 'unknown' : severity]}</span>
      <bdi class="name">{name}</bdi>
      <Spark steps={of.steps} values={line.mi} />
      <span>
        {miName(of.head)} {shortNumber(mi)}
        <span class="quiet">
          {known}
          {!Number.isNaN(share) && `, ${percentText(share)} of its start`}
        </span>
      </span>
    </li>
  );
}

function Spark({ steps, values }: { steps: Float64Array; values: Float32Array }) {
  const points = visiblePoints(steps, values, { from: 0, to: steps.length }, SPARK.width).filter(
    ([, value]) => !Number.isNaN(value),
  );
  const most = points.reduce((a, [, value]) => Math.max(a, value), 1e-9);
  const [first = 0, end = 1] = [steps[0], steps.at(-1)];
  const place = ([step, value]: readonly number[]): string => {
    const x = (((step as number) - first) / (end - first || 1)) * SPARK.width;
    const y = SPARK.height - 1 - (Math.max(0, value as number) / most) * (SPARK.height - 2);
    return `${x.toFixed(1)},${y.toFixed(1)}`;
  };
  return (
    <svg class="spark" width={SPARK.width} height={SPARK.height} aria-hidden="true">
      <polyline points={points.map(place).join(' ')} />
    </svg>
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
