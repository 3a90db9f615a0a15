// Writes reports as TensorBoard's event files, a folder per run.
import { appendFile, mkdir, readdir } from 'node:fs/promises';
import { hostname } from 'node:os';
import { join } from 'node:path';
import type { Sink } from '../../monitor/sinks/sink.js';
import type { PromptMatrix } from '../../step/prompts/prompt-findings.js';
import type { StepReport } from '../../step/step-report.js';
import type { Verdict } from '../../verdicts/index.js';
import { NewVerdicts } from '../../verdicts/new-verdicts.js';
import { chosenFigures, figuresOf, SAMPLES, type SinkMetrics } from '../page-keys.js';
import { fileNameOf } from '../run-file.js';
import {
  histogram,
  image,
  type MarginChart,
  marginCharts,
  markdown,
  restartEvent,
  scalar,
  summaryEvent,
  versionEvent,
} from './events.js';
import { heatMapImage } from './heat-map-image.js';
import { histogramOf } from './histogram-of.js';

const EVENT_FILE = /^events\.out\.tfevents\.(\d{10})\./;

let opened = 0;

/**
 * Scalars under the logged keys, MI, retrieval and margin between their bounds (tab Custom Scalars), the distributions
 * of MI and reward std over prompts, new verdicts as text, and the heat map of prompts at the run's start and where a
 * verdict is new.
 */
export class TensorBoardSink implements Sink {
  readonly readsPrompts = true;
  readonly #folder: string;
  readonly #which: SinkMetrics;
  /** By run: the file that this sink writes, and whether its charts are laid out. */
  readonly #files = new Map<string, { readonly path: string; charts: number }>();
  readonly #verdicts = new NewVerdicts();
  /** By run: its first matrix, whose order of prompts all others keep. */
  readonly #starts = new Map<string, PromptMatrix>();

  constructor(folder: string, which: SinkMetrics = 'page') {
    this.#folder = folder;
    this.#which = which;
  }

  async step(report: StepReport): Promise<void> {
    const { run, step, judgement, prompts, matrix } = report;
    const time = Date.now() / 1000;
    const events: Uint8Array[] = [];
    let file = this.#files.get(run);
    if (file === undefined) {
      const { path, isResumed } = await this.#place(run);
      events.push(versionEvent(time));
      if (isResumed) events.push(restartEvent(time, step));
      file = { path, charts: 0 };
    }
    const figures = chosenFigures(report, this.#which);
    const values = figures.map(([key, value]) => scalar(key, value));
    const distributions = {
      'prompts/mi': prompts?.flatMap(({ mi }) => mi ?? []) ?? [],
      'prompts/reward_std': judgement?.triage.map(({ rewardStd }) => rewardStd) ?? [],
    };
    for (const [tag, of] of Object.entries(distributions)) {
      const found = histogramOf(of);
      if (found !== undefined) values.push(histogram(tag, found));
    }
    const charts = chartsOf(new Set(figures.map(([key]) => key)));
    // A step without scores comes before the first with them: the layout is written again when it has more.
    if (charts.length > file.charts) values.push(marginCharts('collapsar', charts));
    const said = this.#verdicts.take(run, judgement?.verdicts);
    for (const verdict of said) values.push(markdown(`verdicts/${verdict.kind}`, inWords(verdict)));
    const start = this.#starts.get(run);
    if (matrix !== undefined && (start === undefined || said.length > 0)) {
      const { width, height, png } = heatMapImage(matrix, start ?? matrix);
      values.push(image('prompts/heat_map', width, height, png));
    }
    if (matrix !== undefined && start === undefined) this.#starts.set(run, matrix);
    if (values.length > 0) events.push(summaryEvent(time, step, values));
    await appendFile(file.path, Buffer.concat(events));
    file.charts = Math.max(file.charts, charts.length);
    this.#files.set(run, file);
  }

  async close(): Promise<void> {}

  /** Readers go from file to file by name: a new one must come last. */
  async #place(run: string): Promise<{ path: string; isResumed: boolean }> {
    const folder = join(this.#folder, fileNameOf(run));
    await mkdir(folder, { recursive: true });
    const before = (await readdir(folder)).flatMap((name) => Number(EVENT_FILE.exec(name)?.[1] ?? []));
    const second = Math.max(Math.floor(Date.now() / 1000), ...before.map((at) => at + 1));
    const name = `events.out.tfevents.${String(second).padStart(10, '0')}.${hostname()}.${process.pid}.${opened++}`;
    return { path: join(folder, name), isResumed: before.length > 0 };
  }
}

/** Of texts the bounds are figures of their own. */
const CHARTS: readonly MarginChart[] = Object.keys(SAMPLES).flatMap((label) =>
  figuresOf(label).flatMap(({ key, shown }) =>
    shown?.chart === undefined ? [] : [chart(shown.chart, `${label}/${key}`, label === 'text' ? '' : '_batch')],
  ),
);

function chart(title: string, value: string, infix: string): MarginChart {
  return { title: `${title} (${value})`, value, lower: `${value}${infix}_low`, upper: `${value}${infix}_high` };
}

function chartsOf(tags: ReadonlySet<string>): MarginChart[] {
  return CHARTS.filter(({ value, lower, upper }) => [value, lower, upper].every((tag) => tags.has(tag)));
}

function inWords({ severity, since, sentence, advice }: Verdict): string {
  return `**${severity}, since step ${since}**: ${sentence}\n\n${advice}`;
}
