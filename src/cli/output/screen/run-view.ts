// Shows the reports of one run: a table of each sample, trends with the states below, and what its judge and the filter
// report; or the same in a few lines.
import { dirname } from 'node:path';
import { counted, escaped } from '../../../checks/words.js';
import type { Profile } from '../../../metrics/step-metrics.js';
import type { StepReport } from '../../../step/step-report.js';
import type { Column } from '../table.js';
import type { Look } from '../text-style.js';
import { fitted, textWidth } from '../text-width.js';
import { wrap } from '../text-wrap.js';
import { EnvironmentLines } from './environment-lines.js';
import { type RunStatus, StatusReader } from './run-status.js';
import { RunVerdicts } from './run-verdicts.js';
import { SampleTable, type TableOptions } from './sample-table.js';
import { shownMetrics } from './shown-metrics.js';
import { characterAt, ribbon } from './sparkline.js';
import { glyph, stateMark, styleOf } from './state-marks.js';
import type { Scales } from './trends.js';

/** How much a change of each kind asks for a row. */
const RANK = { critical: 4, state: 3, warning: 2, known: 1, info: 0 } as const;

/** Environments of a run that is not shown whole. */
const MOST_BRIEF_ENVIRONMENTS = 3;

/** It takes in a report at a time, and holds of each no more than it may show. */
export class RunView {
  readonly #options: TableOptions;
  readonly #scales: Scales;
  readonly #samples = new Map<string, SampleTable>();
  readonly #reader = new StatusReader();
  readonly verdicts = new RunVerdicts();
  readonly #environments = new EnvironmentLines();
  readonly #prompts = new Set<number>();
  readonly #steps: number[] = [];
  readonly #letters: (string | undefined)[] = [];
  readonly #first: Pick<StepReport, 'file' | 'run' | 'directory'> & { profile: Profile };
  /** Regime of the step before: another one is a change. */
  #regime: string | null = null;
  #alarms = new Map<string, 'critical' | 'warning' | 'info'>();
  #status: RunStatus | undefined;

  /** @param first report of the run */
  constructor(first: StepReport, options: TableOptions, scales: Scales) {
    this.#options = options;
    this.#scales = scales;
    const { file, run, directory } = first;
    this.#first = { file, run, directory, profile: first.stepMetrics?.profile ?? 'strict' };
    this.add(first);
  }

  isOf({ run, directory }: StepReport): boolean {
    return this.#first.run === run && this.#first.directory === directory;
  }

  add(report: StepReport): void {
    const shown = shownMetrics(report);
    this.#prompts.add(shown[0]?.columns.total ?? 0);
    this.#reader.add(report);
    this.verdicts.add(report);
    this.#environments.add(report);
    this.#steps.push(report.step);
    this.#letters.push(stateMark(report.judgement?.regime.regime).letter);
    const rank = this.#rankOf(report);
    for (const metrics of shown) {
      let sample = this.#samples.get(metrics.label);
      if (sample === undefined) {
        sample = new SampleTable(metrics, this.#options, this.#scales);
        this.#samples.set(metrics.label, sample);
      }
      sample.add(report, metrics, rank);
    }
  }

  /** How severe the change at this step is: its state, and the alarms that begin or end. */
  #rankOf({ judgement }: StepReport): number {
    if (judgement === undefined) return 0;
    const { regime } = judgement.regime;
    let rank: number = 0;
    if (regime !== null && regime !== this.#regime) rank = this.#regime === null ? RANK.known : RANK.state;
    this.#regime = regime ?? this.#regime;
    const alarms = new Map(judgement.verdicts.map(({ kind, severity }) => [kind as string, severity]));
    for (const [kind, severity] of [...alarms, ...this.#alarms])
      if (!(alarms.has(kind) && this.#alarms.has(kind))) rank = Math.max(rank, RANK[severity]);
    this.#alarms = alarms;
    return rank;
  }

  /** After the last report. */
  get status(): RunStatus {
    this.#status ??= { ...this.#reader.status(), place: escaped(dirname(this.#first.file)) };
    return this.#status;
  }

  /** `examples/data/collapse: 51 steps (1 to 200), 16 prompts a step, profile strict`. */
  facts(): string {
    const { place } = this.status;
    const prompts = [...this.#prompts].sort((a, b) => a - b);
    const range =
      prompts.length > 1 ? `${prompts[0]} to ${prompts.at(-1)} prompts` : counted(prompts[0] ?? 0, 'prompts');
    const [first, last] = [this.#steps[0], this.#steps.at(-1)];
    const steps = first === last ? `step ${first}` : `${counted(this.#steps.length, 'steps')} (${first} to ${last})`;
    const facts = `${steps}, ${range} a step, profile ${this.#first.profile}`;
    const { width, paint } = this.#options;
    // A path is to be copied: it stays whole, on a line of its own if need be.
    const isLong = textWidth(place) + facts.length + 4 > width;
    return paint('dim', `  ${place}:${isLong ? '\n  ' : ' '}${facts}`);
  }

  /** Table, trends, remarks and verdicts. */
  full(): string[] {
    const { rows, width, paint } = this.#options;
    const isOne = this.#samples.size === 1;
    const parts = [...this.#samples].flatMap(([label, sample], at) => {
      const trends = sample.trends.lines(this.#options);
      const caption = `trends, each on one scale: ${sample.trends.scaleWords(this.#options)}`;
      const part = [
        // The judge reads the first sample; of the others the course is shown, and steps where rows are asked for.
        ...(at === 0 || rows !== undefined || this.#options.chosen ? [sample.table()] : []),
        ...(trends.length > 0 ? [paint('dim', wrap(caption, width, '  ')), ...trends] : []),
        ...(at === 0 ? [...this.#states(sample), ...this.#environments.lines(this.#options)] : []),
        ...(sample.footnotes.any ? [sample.footnotes.text(width)] : []),
      ];
      return ['', ...(isOne ? [] : [`  ${label}`]), ...part];
    });
    const verdicts = this.verdicts.sentences(this.#options);
    return [...parts, ...(verdicts.length > 0 ? ['', ...verdicts] : [])];
  }

  /** Trends, a line a verdict, and what to do. */
  brief(given: Map<string, string>): string[] {
    const [sample] = this.#samples.values();
    if (sample === undefined) return [];
    const { width, unicode } = this.#options;
    const remarks = sample.footnotes
      .entries()
      .map(({ text }) => fitted(`  note: ${text}`, width, unicode ? '…' : '...'));
    return [
      ...sample.trends.lines(this.#options),
      ...this.#states(sample),
      ...this.#environments.lines(this.#options, MOST_BRIEF_ENVIRONMENTS),
      ...remarks.slice(0, 1),
      ...this.verdicts.brief(this.#options, this.status.name, given),
    ];
  }

  /** Columns of the table of the first sample. */
  columns(): Column[] {
    const [sample] = this.#samples.values();
    return sample?.columns() ?? [];
  }

  scaleWords(): string {
    const [sample] = this.#samples.values();
    return sample?.trends.scaleWords(this.#options) ?? '';
  }

  /** States below the bars of the trends, and below these where each alarm begins. */
  #states({ trends }: SampleTable): string[] {
    if (this.#steps.length < 2 || this.verdicts.summary === undefined) return [];
    const { unicode, width, paint } = this.#options;
    const label = (text: string): string => `  ${text.padEnd(trends.labelWidth)}  `;
    const bars = trends.bars(width);
    const letters = [...ribbon(this.#letters, bars, unicode)];
    const painted = letters
      .map((letter) => (letter === 'T' || letter === 'L' ? paint('red', letter) : letter))
      .join('');
    const marks = this.#marks(bars);
    return [label('state') + painted, ...(marks.trim() === '' ? [] : [label('verdicts') + marks.trimEnd()])];
  }

  #marks(bars: number): string {
    const line = new Array<string>(bars + 8).fill(' ');
    const isFree = (from: number, length: number): boolean =>
      from + length <= line.length && line.slice(Math.max(0, from - 1), from + length + 1).every((at) => at === ' ');
    const begins = [
      ...this.#reader.holding,
      // A verdict that ended before it was raised again has a mark as well.
      ...this.verdicts.all,
    ].filter(({ severity }) => severity !== 'info');
    for (const { severity, since } of begins.sort((a, b) => RANK[b.severity] - RANK[a.severity])) {
      const column = characterAt(Math.max(0, this.#steps.indexOf(since)), this.#steps.length, bars);
      const mark = glyph(severity, this.#options);
      const text = [mark, ...String(since)];
      if (!isFree(column, text.length)) text.length = 1;
      // Without room, a more severe one is there already, and says more.
      if (line[column] !== ' ') continue;
      for (const [at, character] of text.entries())
        line[column + at] = at === 0 ? this.#options.paint(styleOf(severity), character) : character;
    }
    return line.join('');
  }
}

/** What every word is looked up with. */
export const legend = (look: Look, profile: Profile): string =>
  look.paint(
    'dim',
    wrap(
      profile === 'strict'
        ? 'D diverse, T template collapse, C compressed, L low-entropy; collapsar explain'
        : 'What a word means: collapsar explain mi. Verdicts: --profile strict.',
      look.width,
    ),
  );
