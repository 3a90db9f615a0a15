// How to read the page, what was noted about the run, and how the report can be made again.
import { shortNumber } from '../charts/number-text.js';
import type { Remark, RunData, Stretch } from '../report.js';
import { report } from './state.js';

export function Reading({ run }: { run: RunData }) {
  return (
    <>
      <details class="part">
        <summary>How to read this</summary>
        <HowToRead isOfTexts={run.head.instrument === 'texts'} />
      </details>
      <Remarks title="Notes about the figures" remarks={run.head.notes} />
      <Remarks title="Figures that are missing, and why" remarks={run.head.absent} />
      <ProvenanceOf />
    </>
  );
}

export function Said({ run }: { run: RunData }) {
  const { verdicts } = run.head;
  return (
    <section class="part">
      <h2>Everything that was said</h2>
      {verdicts.length === 0 ? <p class="empty">No verdict.</p> : null}
      <ul class="said">
        {verdicts.map((verdict) => (
          <li key={`${verdict.kind} ${verdict.raised}`} class={verdict.severity}>
            <strong>{headOf(verdict)}</strong> <span class="quiet">{verdict.severity}</span>
            <p>{verdict.sentence}</p>
            {verdict.severity !== 'info' && <p>→ {verdict.advice}</p>}
          </li>
        ))}
      </ul>
    </section>
  );
}

function headOf({ kind, since, raised, until, holds }: Stretch): string {
  const said = raised === since ? '' : ` (said at ${raised})`;
  return `${kind.replaceAll('_', ' ')} from step ${since}${said} ${holds ? 'to the end' : `to step ${until}`}`;
}

const WORDS: readonly (readonly [string, string])[] = [
  [
    'I(X;Z), MI',
    'How much a response tells of its prompt, in nats; at most ln P, for P prompts in the batch (dashed). Near 0: the reasoning could be about any prompt. What counts is its course against the run’s own start: dotted lines are ¾ and ½ of it.',
  ],
  [
    'H(Z|X)',
    'How varied the reasoning is for one prompt, nats a token. Alone it cannot tell exploring from babbling: in template collapse it holds or rises while MI falls.',
  ],
  [
    'Retrieval',
    'The share of responses whose own prompt makes them likelier than every other prompt does. The grey floor is chance.',
  ],
  [
    'Bands and hollow points',
    'A band is the 95% interval for the prompts of this batch. A point is hollow where shuffling the labels explains the figure as well (p > 0.05).',
  ],
  [
    'The ribbon',
    'D diverse: varied and about its prompt. T template collapse: varied, no longer about its prompt. C compressed: certain, about its prompt. L low-entropy collapse: neither. ? not known yet: the first five computed steps are what later ones are compared with.',
  ],
  [
    'Verdict lanes',
    'A bar from the step from which the evidence holds to its end; the upright mark is the step at which it was said.',
  ],
];

function HowToRead({ isOfTexts }: { isOfTexts: boolean }) {
  return (
    <dl>
      {isOfTexts && (
        <>
          <dt>Measured on texts alone</dt>
          <dd>
            There were no log-probs: MI is a lower bound that a model of word sequences finds, and novelty, the share of
            a text that its siblings do not have, stands where H(Z|X) would.
          </dd>
        </>
      )}
      {WORDS.map(([word, meaning]) => (
        <>
          <dt>{word}</dt>
          <dd>{meaning}</dd>
        </>
      ))}
      <dt>Keys</dt>
      <dd>
        In the chart: ← → one step, Page Up and Page Down a tenth of the run, Home, End, [ and ] from verdict to
        verdict, Escape all steps. Drag to look closer, double-click to see all, click to keep the cursor where it is.
      </dd>
    </dl>
  );
}

function Remarks({ title, remarks }: { title: string; remarks: readonly Remark[] }) {
  if (remarks.length === 0) return null;
  return (
    <details class="part">
      <summary>
        {title} <span class="quiet">({remarks.length})</span>
      </summary>
      <ul>
        {remarks.map(({ about, text, first, steps }) => (
          <li key={about + text}>
            <span class="quiet">{steps === 1 ? `step ${first}` : `${steps} steps, first step ${first}`}</span>{' '}
            {about && <code>{about}</code>} {text}
          </li>
        ))}
      </ul>
    </details>
  );
}

function ProvenanceOf() {
  const { version, settings, command } = report.value?.head.provenance ?? { version: '', settings: {}, command: '' };
  return (
    <details class="part">
      <summary>Where this comes from</summary>
      <p>
        collapsar {version}. Made by <code>{command}</code>
      </p>
      <dl class="settings">
        {Object.entries(settings).map(([name, value]) => (
          <>
            <dt>{name}</dt>
            <dd>{typeof value === 'number' ? shortNumber(value) : String(value)}</dd>
          </>
        ))}
      </dl>
    </details>
  );
}
