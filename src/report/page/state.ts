// Holds what the page shows: the report, and its reader's choices. The address keeps the choices, so that they can be
// sent to someone.
import { computed, effect, signal } from '@preact/signals';
import { lastMeasured } from '../charts/measured-points.js';
import { DARK, LIGHT, type Theme } from '../charts/theme.js';
import { nearestPlace } from '../charts/visible-points.js';
import { byGravity, type Report, type RunData } from '../report.js';

export const report = signal<Report | undefined>(undefined);

/** Behind p-values; where the results do not say, as many as are made by default. */
export const permutations = computed(() => Number(report.value?.head.provenance.settings.permutations ?? 999));
/** Why there is none. */
export const problem = signal('');
/** Whether a server has more, and when it last had, in milliseconds: the latest last. */
export const live = signal<{ readonly state: 'none' | 'connected' | 'lost'; readonly arrivals: readonly number[] }>({
  state: 'none',
  arrivals: [],
});

/** Name and folder of the run that is looked at; the most severe without. */
const chosenRun = signal('');
/** A training step; the last that was measured without. */
export const cursorStep = signal<number | undefined>(undefined);
export const range = signal<readonly [number, number] | undefined>(undefined);
export const chosenTheme = signal<'light' | 'dark' | 'auto'>('auto');
const prefersDark = signal(matchMedia('(prefers-color-scheme: dark)').matches);
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', ({ matches }) => {
  prefersDark.value = matches;
});
/** Paper is white. */
export const isPrinted = signal(false);

export const theme = computed<Theme>(() => {
  if (isPrinted.value) return LIGHT;
  return (chosenTheme.value === 'auto' ? prefersDark.value : chosenTheme.value === 'dark') ? DARK : LIGHT;
});
effect(() => {
  document.documentElement.dataset.theme = theme.value.name;
});

export const runs = computed<readonly RunData[]>(() => [...(report.value?.runs ?? [])].sort(byGravity));

/** Title of a run: runs of one name in two folders are distinguished by the folder. */
export function titleOf({ head }: RunData): string {
  const namesakes = runs.value.filter((other) => other.head.name === head.name);
  return namesakes.length > 1 ? `${head.name} (${head.place})` : head.name;
}

export const run = computed<RunData | undefined>(
  () => runs.value.find((one) => titleOf(one) === chosenRun.value) ?? runs.value[0],
);

export function choose(next: RunData): void {
  chosenRun.value = titleOf(next);
  range.value = undefined;
  cursorStep.value = undefined;
}

/** More runs side by side could not be distinguished. */
export const MOST_SIDE = 8;

/** Titles of the runs that the reader holds side by side; none: as the page sees fit. */
const chosenSide = signal<readonly string[]>([]);

/** Runs side by side: those that were chosen, else the most severe. */
export const side = computed<readonly RunData[]>(() => {
  const chosen = runs.value.filter((one) => chosenSide.value.includes(titleOf(one)));
  return (chosen.length > 0 ? chosen : runs.value).slice(0, MOST_SIDE);
});

/** Puts a run beside the others, or takes it away. */
export function toggleSide(one: RunData): void {
  const title = titleOf(one);
  const before = side.value.map(titleOf);
  chosenSide.value = before.includes(title) ? before.filter((other) => other !== title) : [...before, title];
}

/** Place of the step under the cursor in the run's columns. */
export const place = computed<number>(() => {
  const steps = run.value?.steps;
  if (steps === undefined || steps.length === 0) return -1;
  return cursorStep.value === undefined ? lastMeasured(run.value as RunData) : nearestPlace(steps, cursorStep.value);
});

/** Where the cursor has come to rest: what takes long to draw follows that, so that the cursor itself never waits. */
export const restingPlace = signal(-1);
const REST_MS = 60;
let rest: ReturnType<typeof setTimeout> | undefined;
let restingRun: RunData | undefined;
effect(() => {
  const at = place.value;
  clearTimeout(rest);
  if (run.value === restingRun) {
    rest = setTimeout(() => {
      restingPlace.value = at;
    }, REST_MS);
  } else {
    restingRun = run.value;
    restingPlace.value = at;
  }
});

export function moveTo(at: number): void {
  const steps = run.value?.steps;
  if (steps === undefined || steps.length === 0) return;
  cursorStep.value = steps[Math.max(0, Math.min(steps.length - 1, at))];
}

const ADDRESS = { run: chosenRun, step: cursorStep, x: range } as const;

export function readAddress(): void {
  const fields = new URLSearchParams(location.hash.slice(1));
  ADDRESS.run.value = fields.get('run') ?? '';
  chosenSide.value = fields.getAll('with');
  const step = Number.parseFloat(fields.get('step') ?? '');
  ADDRESS.step.value = Number.isFinite(step) ? step : undefined;
  const [, first, last] = /^(\d+)-(\d+)$/.exec(fields.get('x') ?? '') ?? [];
  ADDRESS.x.value = first !== undefined && Number(first) < Number(last) ? [Number(first), Number(last)] : undefined;
}

/** Browsers count how often an address changes. */
const ADDRESS_EVERY_MS = 300;

export function keepAddress(): void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  effect(() => {
    const fields = new URLSearchParams();
    if (chosenRun.value !== '') fields.set('run', chosenRun.value);
    for (const title of chosenSide.value) fields.append('with', title);
    if (cursorStep.value !== undefined) fields.set('step', String(cursorStep.value));
    if (range.value !== undefined) fields.set('x', range.value.join('-'));
    clearTimeout(timer);
    timer = setTimeout(() => {
      const hash = fields.toString();
      if (hash !== location.hash.slice(1))
        history.replaceState(null, '', hash === '' ? location.pathname + location.search : `#${hash}`);
    }, ADDRESS_EVERY_MS);
  });
}
