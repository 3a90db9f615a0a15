// The reports of one run -> what its judge and the filter say, in sentences.
import type { StepReport } from '../analysis/step-report.js';
import { counted } from '../engine/counted.js';
import type { RunVerdict, Severity } from '../monitor/verdicts/index.js';
import { shortNumber } from './number-format.js';
import type { Paint, Style } from './text-style.js';
import { wrap } from './text-wrap.js';

const STYLE: Readonly<Record<Severity, Style>> = { critical: 'red', warning: 'yellow', info: 'dim' };

/** Takes in the reports of a run; holds no more of them than the sentences need. */
export class RunVerdicts {
  readonly #paint: Paint;
  readonly #width: number;
  readonly #filter = new FilterView();
  #summary: StepReport['summary'];
  /** Of the last step that was judged: where no step has a state, why. */
  #standing = '';

  /** @param width most characters in a line */
  constructor(paint: Paint, width: number) {
    this.#paint = paint;
    this.#width = width;
  }

  add(report: StepReport): void {
    this.#summary = report.summary ?? this.#summary;
    this.#standing = report.judgement?.regime.sentence ?? this.#standing;
    this.#filter.add(report);
  }

  /** @returns undefined where the run was not judged */
  text(): string | undefined {
    const summary = this.#summary?.();
    if (summary === undefined) return undefined;
    const verdicts = summary.verdicts.map((verdict) => describe(verdict, this.#paint, this.#width));
    const alarms = summary.verdicts.filter(({ severity }) => severity !== 'info').length;
    const lines = [
      this.#paint('dim', '  verdicts'),
      ...(alarms === 0 ? ['    none that is an alarm'] : []),
      // No alarm is no comfort where there was nothing to compare with.
      ...(summary.regime === null ? [wrap(`state not known: ${this.#standing}`, this.#width, '    ')] : []),
      ...verdicts,
      ...this.#filter.lines(this.#width),
    ];
    return lines.join('\n');
  }
}

function describe(verdict: RunVerdict, paint: Paint, width: number): string {
  const { kind, severity, since, raised, until, holds, times, sentence, advice } = verdict;
  const said = raised === since ? '' : `, said at step ${raised}`;
  const end = holds ? 'to the end' : `last at step ${until}`;
  const when =
    times === 1
      ? ` since step ${since}${said}, ${end}`
      : ` first at step ${since}${said}, in ${times} stretches, ${holds ? 'the last ' : ''}${end}`;
  const head = paint(STYLE[severity], `    ${severity}: ${kind}`) + paint('dim', when);
  // What needs no action needs no advice.
  const words = severity === 'info' ? sentence : `${sentence} ${advice}`;
  return `${head}\n${wrap(words, width, '      ')}`;
}

/** What the filter would have done, over the run. */
class FilterView {
  #steps = 0;
  #kept = 0;
  #groups = 0;
  #least = Number.POSITIVE_INFINITY;
  #most = 0;
  #empty = 0;
  #firstEmpty = 0;

  add({ filter, step }: StepReport): void {
    if (filter === undefined) return;
    const kept = filter.kept.length;
    this.#steps++;
    this.#kept += kept;
    this.#groups += kept + filter.dropped.length;
    this.#least = Math.min(this.#least, kept);
    this.#most = Math.max(this.#most, kept);
    if (filter.empty && this.#empty++ === 0) this.#firstEmpty = step;
  }

  lines(width: number): string[] {
    if (this.#steps === 0) return [];
    const mean = (total: number): string => shortNumber(total / this.#steps);
    const none =
      this.#empty === 0 ? '' : `; nothing at ${counted(this.#empty, 'steps')}, first step ${this.#firstEmpty}`;
    const text =
      `filter (top_p .9 of reward variance): it would keep ${mean(this.#kept)} of ${mean(this.#groups)} prompts a ` +
      `step, ${this.#least} to ${this.#most}${none}`;
    return [wrap(text, width, '    ')];
  }
}
