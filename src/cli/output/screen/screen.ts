// Writes reports as one screen: the verdict first, the most severe run first, a line per run at the end. Holds only
// what is shown of many runs.

import { counted } from '../../../checks/words.js';
import type { Profile } from '../../../metrics/step-metrics.js';
import type { StepReport } from '../../../step/step-report.js';
import { type Cell, type Column, layoutTable } from '../table.js';
import { plain } from '../text-style.js';
import { fitted, textWidth } from '../text-width.js';
import { wrap } from '../text-wrap.js';
import { byGravity, figures, headline, percentText, type RunStatus } from './run-status.js';
import { legend, RunView } from './run-view.js';
import type { TableOptions } from './sample-table.js';
import { figureKeys } from './shown-metrics.js';
import { GRADES, type Grade, glyph, paintedGlyph, styleOf } from './state-marks.js';
import { figureCell } from './step-columns.js';
import { Scales } from './trends.js';

/** Most runs that are compared, shown at length, and given a line at the end. */
const MOST_COMPARED = 24;
const MOST_DETAILED = 2;
const MOST_LAST = 6;
const LONGEST_NAME = 28;

const isAlarm = ({ grade }: RunStatus): boolean => grade === 'critical' || grade === 'warning';

export interface AllRuns {
  /** The most severe first, as many as are shown. */
  readonly views: readonly RunView[];
  /** Number of runs, shown or not. */
  readonly count: number;
  readonly grades: ReadonlyMap<Grade, number>;
  /** Runs with steps of which a filter would keep nothing: how many, and the one with the most such steps. */
  readonly withoutUpdate: WithoutUpdate;
}

interface WithoutUpdate {
  runs: number;
  worst: string;
  steps: number;
}

/** Takes in reports run by run. */
export class RunCollection {
  readonly #options: TableOptions;
  readonly #scales = new Scales();
  readonly #views: RunView[] = [];
  readonly #grades = new Map<Grade, number>();
  readonly #withoutUpdate: WithoutUpdate = { runs: 0, worst: '', steps: 0 };
  #current: RunView | undefined;
  #count = 0;

  constructor(options: TableOptions) {
    this.#options = options;
  }

  add(report: StepReport): void {
    if (this.#current?.isOf(report) === false) this.#close();
    if (this.#current === undefined) this.#current = new RunView(report, this.#options, this.#scales);
    else this.#current.add(report);
  }

  #close(): void {
    if (this.#current === undefined) return;
    const { grade, name } = this.#current.status;
    const { empty } = this.#current.verdicts.filter;
    if (empty > 0) this.#withoutUpdate.runs++;
    if (empty > this.#withoutUpdate.steps) Object.assign(this.#withoutUpdate, { worst: name, steps: empty });
    this.#grades.set(grade, (this.#grades.get(grade) ?? 0) + 1);
    this.#count++;
    this.#views.push(this.#current);
    this.#current = undefined;
    if (this.#views.length >= 2 * MOST_COMPARED) this.#keepGravest();
  }

  #keepGravest(): RunView[] {
    this.#views.sort((a, b) => byGravity(a.status, b.status));
    const { rows, chosen } = this.#options;
    if (rows === undefined && !chosen) this.#views.length = Math.min(this.#views.length, MOST_COMPARED);
    return this.#views;
  }

  /** After the last report. */
  end(): AllRuns {
    this.#close();
    const [views, count, grades] = [this.#keepGravest(), this.#count, this.#grades];
    return { views, count, grades, withoutUpdate: this.#withoutUpdate };
  }
}

/** @returns text without a line end; empty if there is no run */
export function screenText(
  { views, count, grades, withoutUpdate }: AllRuns,
  profile: Profile,
  options: TableOptions,
): string {
  const [first] = views;
  if (first === undefined) return '';
  const statuses = views.map(({ status }) => status);
  const isFull = options.rows !== undefined || options.chosen;
  if (count === 1) {
    const [status] = statuses as [RunStatus];
    const parts = [
      titleLine(status, options),
      first.facts(),
      wrap(ascii(figures(status).join(' · '), options), options.width, '  '),
    ];
    return [...parts, ...first.full(), '', legend(options, profile), lastLine(status, options)].join('\n');
  }
  const hasMore = (status: RunStatus): boolean => isAlarm(status) || status.grade === 'unjudged';
  const detailed = isFull ? views : views.filter(({ status }) => hasMore(status)).slice(0, MOST_DETAILED);
  const given = new Map<string, string>();
  const details = detailed.flatMap((view) => [
    '',
    titleLine(view.status, options),
    view.facts(),
    ...(isFull ? view.full() : view.brief(given)),
  ]);
  const how = [
    ...(detailed.length > 0 && !isFull ? [`Trends are on one scale for all runs: ${first.scaleWords()}.`] : []),
    ...(profile === 'strict' ? ["% is of the run's own start; ? marks p above 0.05."] : []),
  ].join(' ');
  return [
    comparison(statuses, count, profile, options),
    ...notes(withoutUpdate, statuses, options),
    ...details,
    '',
    ...(how === '' ? [] : [options.paint('dim', wrap(how, options.width))]),
    legend(options, profile),
    ...lastLines(statuses, count, grades, options),
  ].join('\n');
}

const ascii = (text: string, { unicode }: TableOptions): string => (unicode ? text : plain(text));

function titleLine(status: RunStatus, options: TableOptions): string {
  const { paint } = options;
  const words = status.grade === 'unjudged' ? '' : paint(styleOf(status.grade), headline(status));
  return `${paintedGlyph(status.grade, options)} ${paint('bold', status.name)}  ${words}`.trimEnd();
}

/** A row a run. */
export function comparisonColumns(statuses: readonly RunStatus[], profile: Profile, options: TableOptions): Column[] {
  const more = options.unicode ? '…' : '...';
  const column = (
    title: string,
    cellOf: (status: RunStatus) => Cell,
    settings: Pick<Column, 'align' | 'dispensable'> = { align: 'right' },
  ): Column => ({
    title,
    cells: statuses.map(cellOf).map((cell) => ({ ...cell, text: ascii(cell.text, options) })),
    ...settings,
  });
  const figure = (key: string) => (status: RunStatus) => figureCell(status.metrics, key);
  const isShared = new Set(statuses.map(({ name }) => name)).size < statuses.length;
  const label = ({ name, place }: RunStatus): string => (isShared ? place : name);
  const isStrict = profile === 'strict';
  return [
    column(
      '  run',
      (status) => ({
        text: `${glyph(status.grade, options)} ${fittedEnd(label(status), LONGEST_NAME, isShared, more)}`,
        style: styleOf(status.grade),
      }),
      { align: 'left' },
    ),
    ...(isStrict
      ? [
          column(
            'state',
            ({ state, grade }) => ({ text: state.replace('since step', 'since'), style: styleOf(grade) }),
            { align: 'left' },
          ),
        ]
      : []),
    column('MI', (status) => figureCell(status.metrics, figureKeys(status.metrics).mi)),
    ...(isStrict
      ? [column('%', ({ shares }) => ({ text: percentText(shares.mi) }), { align: 'right', dispensable: 2 })]
      : []),
    column('retrieval', figure('retrieval_accuracy'), { align: 'right', dispensable: 1 }),
    column('chance', figure('retrieval_chance_level'), { align: 'right', dispensable: 4 }),
    column(varietyTitle(statuses), (status) => figureCell(status.metrics, figureKeys(status.metrics).entropy), {
      align: 'right',
      dispensable: 1,
    }),
    ...(isStrict
      ? [
          column('%', ({ shares }) => ({ text: percentText(shares.entropy) }), {
            align: 'right',
            dispensable: 3,
          }),
        ]
      : []),
  ];
}

/** H(Z|X), or its replacement in runs that have only texts. */
function varietyTitle(statuses: readonly RunStatus[]): string {
  return [...new Set(statuses.map(({ metrics }) => figureKeys(metrics).entropyTitle))].join(' or ');
}

/** The beginning of a name, the end of a path. */
function fittedEnd(text: string, width: number, isPath: boolean, more: string): string {
  if (!isPath) return fitted(text, width, more);
  const characters = [...text];
  return fitted(text, width, more) === text ? text : more + characters.slice(more.length - width).join('');
}

function comparison(statuses: readonly RunStatus[], count: number, profile: Profile, options: TableOptions): string {
  const { text } = layoutTable(comparisonColumns(statuses, profile, options), options.width, options.paint);
  const rest = count - statuses.length;
  return rest === 0
    ? text
    : `${text}\n${options.paint('dim', `  and ${rest} runs that are no graver; all: --rows all`)}`;
}

/** What the table cannot say: why there are no states, and where a filter would keep nothing. */
function notes({ runs, worst, steps }: WithoutUpdate, statuses: readonly RunStatus[], options: TableOptions): string[] {
  const { width } = options;
  const unknown = statuses.find(({ reason }) => reason !== undefined);
  const others = runs > 1 ? `, and nothing at some in ${counted(runs - 1, 'other runs')}` : '';
  const filter = `${worst}: the filter (top_p 0.9) would keep nothing at ${counted(steps, 'steps')}${others}`;
  return [
    ...(unknown === undefined
      ? []
      : [wrap(`${unknown.name}: ${unknown.reason}`, width, `  ${glyph('unknown', options)} `)]),
    ...(runs === 0 ? [] : [wrap(filter, width, `  ${paintedGlyph('warning', options)} `)]),
  ];
}

function lastLine(status: RunStatus, options: TableOptions): string {
  const more = options.unicode ? '…' : '...';
  const room = options.width - 2;
  let text = fitted(status.grade === 'unjudged' ? status.name : `${status.name}  ${status.state}`, room, more);
  // Whole figures, as many as there is room for.
  for (const part of figures(status)) {
    const longer = `${text} · ${part}`;
    if (textWidth(longer) > room) break;
    text = longer;
  }
  return `${paintedGlyph(status.grade, options)} ${ascii(text, options)}`;
}

/** The most severe run at the very end, just above the prompt. */
function lastLines(
  statuses: readonly RunStatus[],
  count: number,
  grades: ReadonlyMap<Grade, number>,
  options: TableOptions,
): string[] {
  const shown = count <= MOST_LAST ? statuses : statuses.filter(isAlarm).slice(0, MOST_LAST - 1);
  const lines = shown.toReversed().map((status) => lastLine(status, options));
  if (shown.length === count) return lines;
  const words = GRADES.filter((grade) => grades.has(grade)).map(
    (grade) => `${paintedGlyph(grade, options)} ${grades.get(grade)} ${GRADE_WORDS[grade]}`,
  );
  return [`${count} runs: ${words.join(', ')}`, ...lines];
}

const GRADE_WORDS: Readonly<Record<Grade, string>> = {
  critical: 'critical',
  warning: 'with a warning',
  ended: 'with an alarm that ended',
  unknown: 'without a known state',
  unjudged: 'without verdicts',
  fine: 'without an alarm',
};
