// Below the first screen: what else there is to a run, and runs side by side. A part that has nothing to show says
// what it would need.
import { useSignal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useMemo } from 'preact/hooks';
import type { ChartOption, Size } from '../charts/chart-option.js';
import { compareHeight, compareOption, compareTable, differenceSentence } from '../charts/compare.js';
import { forestHeight, forestOption, forestTable } from '../charts/forest.js';
import {
  gradientSentence,
  gradientsHeight,
  gradientsOption,
  gradientsTable,
  shownGradients,
} from '../charts/gradients.js';
import { costSentence, healthFigure, healthOption, healthTable } from '../charts/health.js';
import { hasKeptRatio, keptRatioOption, keptRatioTable } from '../charts/kept-ratio.js';
import { hasTrail, planeOption, planeTable } from '../charts/plane.js';
import { LAYERS, promptMapOption, promptMapTable, spreadOption, triageOption } from '../charts/prompts/prompt-map.js';
import { hasLayer, idsRecur, type PromptLayer, promptsAt } from '../charts/prompts/prompt-rows.js';
import { stepPromptsOption, stepPromptsTable } from '../charts/prompts/step-prompts.js';
import type { Theme } from '../charts/theme.js';
import type { PromptTable, RunData } from '../report.js';
import { Chart } from './chart.js';
import { StepTexts } from './reader/step-texts.js';
import { MOST_SIDE, report, restingPlace, runs, side, theme, titleOf, toggleSide } from './state.js';

/** An option that is made again only if something changes that it depends on. */
function useOption(
  make: (theme: Theme, size: Size) => ChartOption,
  on: readonly unknown[],
): (size: Size) => ChartOption {
  const colours = theme.value;
  return useMemo(() => (size: Size) => make(colours, size), [...on, colours]);
}

export function Part({ title, about, children }: { title: string; about: string; children: ComponentChildren }) {
  return (
    <section class="part">
      <h2>{title}</h2>
      <p class="about">{about}</p>
      {children}
    </section>
  );
}

const Missing = ({ children }: { children: ComponentChildren }) => <p class="empty">{children}</p>;

export function PlanePart({ run }: { run: RunData }) {
  const trails = side.value.filter(hasTrail);
  const option = useOption((colours) => planeOption(trails, colours), [side.value]);
  return (
    <Part
      title="Entropy against information"
      about="The way each run took, both figures as a share of its own start. Entropy alone sees up and down; a collapse goes left."
    >
      {trails.length === 0 ? (
        <Missing>
          Nothing to compare with yet: later steps are compared with the first five, of which {run.head.count} are
          there.
        </Missing>
      ) : (
        <Chart
          label="H(Z|X) against I(X;Z), each run from its start to now"
          name="plane"
          height={420}
          option={option}
          table={() => planeTable(trails)}
          note="Bars at the marks: 95% intervals of MI."
        />
      )}
    </Part>
  );
}

export function ComparePart() {
  const shown = side.value;
  const option = useOption((colours, size) => compareOption(shown, colours, size), [shown]);
  if (runs.value.length < 2) return null;
  const { columns, rows } = compareTable(shown);
  const [first, ...others] = shown;
  return (
    <Part title="Runs side by side" about="One scale for all; colours and dashes as in the list.">
      <ul class="legend" aria-label="Runs side by side">
        {runs.value.map((run) => (
          <SideChoice key={titleOf(run)} run={run} at={shown.indexOf(run)} count={shown.length} />
        ))}
      </ul>
      <Chart
        label={`MI, entropy and retrieval of ${shown.length} runs`}
        name="compare"
        height={compareHeight(shown)}
        option={option}
        table={() => ({ columns, rows })}
      />
      <ul>
        {others.map((other) => {
          const sentence = first && differenceSentence(first, other);
          return sentence === undefined ? null : <li key={titleOf(other)}>{sentence}</li>;
        })}
      </ul>
      {runs.value.length > MOST_SIDE && (
        <p class="thinned">
          {shown.length} of {runs.value.length} runs are drawn; at most {MOST_SIDE} can be told apart.
        </p>
      )}
    </Part>
  );
}

/** @param at its place among those that are drawn; −1 where it is none */
function SideChoice({ run, at, count }: { run: RunData; at: number; count: number }) {
  const isDrawn = at >= 0;
  const style = {
    borderTopColor: theme.value.runs[at % 8] as string,
    borderTopStyle: ['solid', 'dashed', 'dotted'][at % 3] as string,
  };
  return (
    <li>
      <label>
        <input
          type="checkbox"
          checked={isDrawn}
          // At least one stays, and at most as many as can be distinguished.
          disabled={isDrawn ? count === 1 : count >= MOST_SIDE}
          onChange={() => toggleSide(run)}
        />
        {isDrawn && <span class="dash" style={style} />}
        <bdi>{titleOf(run)}</bdi>
      </label>
    </li>
  );
}

export function PromptsPart({ run }: { run: RunData }) {
  const { prompts } = run;
  const kept = useOption((colours, size) => keptRatioOption(run, colours, size), [run]);
  return (
    <Part
      title="Prompts over the run"
      about="A cell is a prompt at a step. Where reward no longer spreads, a prompt gives no gradient but that of KL and entropy: a template can grow there."
    >
      {prompts === undefined ? (
        <Missing>
          No figures of single prompts: <code>{report.value?.head.provenance.command}</code> of logs with rewards or
          scores makes them.
        </Missing>
      ) : (
        <PromptCharts run={run} prompts={prompts} />
      )}
      {hasKeptRatio(run) && (
        <figure>
          <figcaption>Share of prompts that the filter keeps (top_p .9 of reward variance)</figcaption>
          <Chart
            label="Share of prompts that the filter keeps, over the steps"
            name={`${run.head.name} kept`}
            height={130}
            option={kept}
            table={() => keptRatioTable(run)}
          />
        </figure>
      )}
    </Part>
  );
}

function PromptCharts({ run, prompts }: { run: RunData; prompts: PromptTable }) {
  const layers = (Object.keys(LAYERS) as PromptLayer[]).filter((layer) => hasLayer(prompts, layer));
  const chosen = useSignal<PromptLayer | undefined>(undefined);
  const layer = chosen.value !== undefined && layers.includes(chosen.value) ? chosen.value : layers[0];
  const recurs = useMemo(() => idsRecur(prompts), [prompts]);
  const byPrompt = useSignal(false);
  const by = byPrompt.value && recurs ? 'prompt' : 'rank';
  const map = useOption(
    (colours, size) => (layer === undefined ? {} : promptMapOption({ table: prompts, layer, by }, colours, size)),
    [prompts, layer, by],
  );
  const spread = useOption((colours, size) => spreadOption(prompts, colours, size), [prompts]);
  const triage = useOption((colours, size) => triageOption(prompts, colours, size), [prompts]);
  const hasRewards = hasLayer(prompts, 'rewardStd');
  return (
    <>
      <p class="choices">
        {layers.map((one) => (
          <button key={one} type="button" aria-pressed={one === layer} onClick={() => (chosen.value = one)}>
            {LAYERS[one]}
          </button>
        ))}
        {recurs && (
          <button type="button" aria-pressed={by === 'prompt'} onClick={() => (byPrompt.value = !byPrompt.value)}>
            a row a prompt
          </button>
        )}
      </p>
      {layer !== undefined && (
        <Chart
          label={`${LAYERS[layer]} of every prompt at every step`}
          name={`${run.head.name} prompts`}
          height={280}
          option={map}
          table={() => promptMapTable({ table: prompts })}
        />
      )}
      {hasRewards ? (
        <div class="pair">
          <figure>
            <figcaption>Spread of reward, early and late</figcaption>
            <Chart
              label="Distribution of the reward's standard deviation over prompts, first and last fifth of the steps"
              name={`${run.head.name} reward spread`}
              height={220}
              option={spread}
              table={() => promptMapTable({ table: prompts })}
            />
          </figure>
          <figure>
            <figcaption>Why rewards do not vary</figcaption>
            <Chart
              label="Shares of prompts by what their rewards are like"
              name={`${run.head.name} triage`}
              height={220}
              option={triage}
              table={() => promptMapTable({ table: prompts })}
            />
          </figure>
        </div>
      ) : (
        <Missing>No rewards in these logs: with the tensor `rewards` there is more to see here.</Missing>
      )}
    </>
  );
}

export function StepPart({ run }: { run: RunData }) {
  const step = run.steps[restingPlace.value] ?? 0;
  const found = useMemo(() => promptsAt(run, step), [run, step]);
  const option = useOption((colours, size) => stepPromptsOption(found?.prompts ?? [], colours, size), [found]);
  if (found === undefined) return null;
  const { prompts } = found;
  const counts = twoByTwo(prompts);
  return (
    <Part
      title={`Step ${found.step}, prompt by prompt`}
      about={found.step === step ? 'The step under the cursor.' : 'The nearest step whose prompts were kept.'}
    >
      <Chart
        label={`MI of each prompt at step ${found.step}`}
        name={`${run.head.name} step ${found.step}`}
        height={220}
        option={option}
        table={() => stepPromptsTable(prompts)}
      />
      {counts !== undefined && (
        <table class="two">
          <caption>Prompts by what is known of them</caption>
          <thead>
            <tr>
              <th scope="col">reasoning</th>
              <th scope="col">rewarded above the step’s mean</th>
              <th scope="col">below</th>
            </tr>
          </thead>
          <tbody>
            <tr>
              <th scope="row">specific (interval above 0)</th>
              <td>{counts.specificAbove}</td>
              <td>{counts.specificBelow}</td>
            </tr>
            <tr>
              <th scope="row">generic</th>
              <td>{counts.genericAbove}</td>
              <td>{counts.genericBelow}</td>
            </tr>
          </tbody>
        </table>
      )}
      <StepTexts run={run} step={found.step} />
    </Part>
  );
}

function twoByTwo(prompts: NonNullable<ReturnType<typeof promptsAt>>['prompts']) {
  const known = prompts.filter(({ miLow, rewardMean }) => !Number.isNaN(miLow) && !Number.isNaN(rewardMean));
  if (known.length === 0) return undefined;
  const mean = known.reduce((sum, { rewardMean }) => sum + rewardMean, 0) / known.length;
  const count = (isSpecific: boolean, isAbove: boolean): number =>
    known.filter(({ miLow, rewardMean }) => miLow > 0 === isSpecific && rewardMean >= mean === isAbove).length;
  return {
    specificAbove: count(true, true),
    specificBelow: count(true, false),
    genericAbove: count(false, true),
    genericBelow: count(false, false),
  };
}

export function SuccessPart({ run }: { run: RunData }) {
  const { correlations } = run.head;
  const option = useOption(
    (colours, size) => (correlations === undefined ? {} : forestOption(correlations, colours, size)),
    [correlations],
  );
  return (
    <Part
      title={`What goes along with ${correlations?.against ?? 'success'}`}
      about="Spearman’s correlation over the steps with its 95% interval; in brackets how many independent steps would tell as much. A correlation over one run’s steps is no cause."
    >
      {correlations === undefined || correlations.figures.length === 0 ? (
        <Missing>
          Nothing to hold figures against: it takes five steps with outcomes or rewards (tensors `correct`, `rewards`).
        </Missing>
      ) : (
        <Chart
          label={`Correlations of figures with ${correlations.against}`}
          name={`${run.head.name} correlations`}
          height={forestHeight(correlations)}
          option={option}
          table={() => forestTable(correlations)}
          note="Blue: information; orange: entropy; hollow: the interval holds 0."
        />
      )}
    </Part>
  );
}

export function GradientPart({ run }: { run: RunData }) {
  const { gradients } = run;
  const option = useOption((colours, size) => gradientsOption(gradients, colours, size), [gradients]);
  const shown = shownGradients(gradients).length;
  return (
    <Part
      title="Where the gradient comes from"
      about="Prompts in buckets by how much their rewards spread. Where they hardly do, the task's gradient vanishes, and KL and entropy, alike for all prompts, are what moves the policy."
    >
      {gradients.length === 0 ? (
        <Missing>
          No norms of gradients: a trainer takes them by bucket and gives them to its monitor as{' '}
          <code>gradientNorms</code> of <code>finish</code>, with the option <code>buckets</code>. Logs do not have
          them.
        </Missing>
      ) : (
        <>
          <p>{gradientSentence(gradients)}</p>
          <Chart
            label={`Spread of reward, task gradient, and gradient of KL and entropy by bucket, ${shown} steps`}
            name={`${run.head.name} gradients`}
            height={gradientsHeight(gradients)}
            option={option}
            table={() => gradientsTable(gradients)}
            note={`Both norms on one scale. ${shown < gradients.length ? `${shown} of ${gradients.length} steps are drawn.` : 'A row an analysed step.'}`}
          />
        </>
      )}
    </Part>
  );
}

export function HealthPart({ run }: { run: RunData }) {
  const figure = healthFigure(run);
  const option = useOption((colours) => healthOption(run, colours), [run]);
  const cost = costSentence(run);
  if (figure === undefined) return null;
  return (
    <Part
      title="What a dashboard would show"
      about={
        figure[0] === 'valid'
          ? 'A dot a step. Valid formats say nothing about MI: a template is well formed.'
          : 'A dot a step: response length against MI.'
      }
    >
      <Chart
        label={`${figure[1]} against MI, a dot a step`}
        name={`${run.head.name} health`}
        height={240}
        option={option}
        table={() => healthTable(run)}
      />
      {cost !== undefined && <p>{cost}</p>}
    </Part>
  );
}
