// The whole page, from the verdict down.
import { useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { HeatMaps } from './heat-maps.js';
import { ComparePart, GradientPart, HealthPart, PlanePart, PromptsPart, StepPart, SuccessPart } from './parts.js';
import { TemplatePart } from './reader/template-part.js';
import { Reading, Said } from './reading.js';
import { stalledSince } from './stalled-since.js';
import { chosenTheme, live, problem, report, run, theme } from './state.js';
import { StoryFigure } from './story-figure.js';
import { VerdictBar } from './verdict-bar.js';

export function App() {
  return (
    <>
      <header>
        <h1>
          collapsar <span class="aim">does the reasoning still depend on its prompt?</span>
        </h1>
        <LiveMark />
        <button
          type="button"
          class="plain"
          aria-pressed={theme.value.name === 'dark'}
          onClick={() => (chosenTheme.value = theme.value.name === 'dark' ? 'light' : 'dark')}
        >
          {theme.value.name === 'dark' ? '☀ Light' : '☾ Dark'}
        </button>
      </header>
      <main>{report.value === undefined ? <Waiting /> : <Content />}</main>
    </>
  );
}

function Waiting() {
  return problem.value === '' ? <p class="empty">Reading the report …</p> : <p class="empty">{problem.value}</p>;
}

function Content() {
  if (run.value === undefined)
    return <p class="empty">No step yet. A run appears here as soon as its first step is analysed.</p>;
  return (
    <>
      {report.value?.head.thinned.map((sentence) => (
        <p class="thinned" key={sentence}>
          {sentence}
        </p>
      ))}
      <VerdictBar />
      <div class={run.value.matrices.length > 0 ? 'first with-map' : 'first'}>
        <StoryFigure run={run.value} />
        <HeatMaps run={run.value} />
      </div>
      <TemplatePart run={run.value} />
      <Said run={run.value} />
      <div class="pair">
        <PlanePart run={run.value} />
        <SuccessPart run={run.value} />
      </div>
      <PromptsPart run={run.value} />
      <StepPart run={run.value} />
      <GradientPart run={run.value} />
      <HealthPart run={run.value} />
      <ComparePart />
      <Reading run={run.value} />
    </>
  );
}

function LiveMark() {
  const { state, arrivals } = live.value;
  const now = useSignal(Date.now());
  useEffect(() => {
    if (state === 'none') return undefined;
    const timer = setInterval(() => {
      now.value = Date.now();
    }, 1000);
    return () => clearInterval(timer);
  }, [state]);
  if (state === 'none') return null;
  const stalled = stalledSince(arrivals, now.value);
  const age = Math.max(0, Math.round((now.value - (arrivals.at(-1) ?? now.value)) / 1000));
  const words =
    state === 'lost'
      ? '○ connection lost, trying again'
      : stalled === undefined
        ? `● live, last step ${age} s ago`
        : `▲ stalled since ${new Date(stalled).toLocaleTimeString()}`;
  return <span class={`live ${stalled === undefined ? state : 'lost'}`}>{words}</span>;
}
