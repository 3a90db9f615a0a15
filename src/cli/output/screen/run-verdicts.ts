// Lists the findings of the judge and the filter for one run, in sentences or in a line per verdict.

import { shortNumber } from '../../../checks/numbers.js';
import { counted } from '../../../checks/words.js';
import type { StepReport } from '../../../step/step-report.js';
import type { RunSummary, RunVerdict, Severity } from '../../../verdicts/index.js';
import type { Look } from '../text-style.js';
import { wrap } from '../text-wrap.js';
import { inWords, paintedGlyph, styleOf } from './state-marks.js';

const SEVERITIES: readonly Severity[] = ['critical', 'warning', 'info'];

/** A run that is not shown whole has no more lines of other alarms. */
const MOST_BRIEF = 3;

/** The most severe first, of these what holds; else as they were first said. */
export function byWeight(a: RunVerdict, b: RunVerdict): number {
  return SEVERITIES.indexOf(a.severity) - SEVERITIES.indexOf(b.severity) || Number(b.holds) - Number(a.holds);
}

/** Takes in the reports of a run; holds no more of them than the sentences need. */
export class RunVerdicts {
  readonly filter = new FilterView();
  #summary: StepReport['summary'];
  #found: RunSummary | undefined;
  /** The regime's sentence of the last judged step: why there is no state, where no step has one. */
  #regime = '';

  add(report: StepReport): void {
    this.#summary = report.summary ?? this.#summary;
    this.#found = undefined;
    this.#regime = report.judgement?.regime.sentence ?? this.#regime;
    this.filter.add(report);
  }

  /** undefined if the run was not judged. After its last report. */
  get summary(): RunSummary | undefined {
    this.#found ??= this.#summary?.();
    return this.#found;
  }

  /** The most severe first. */
  get all(): readonly RunVerdict[] {
    return this.summary?.verdicts.toSorted(byWeight) ?? [];
  }

  /** Every verdict in sentences, with advice where one is needed. */
  sentences(look: Look): string[] {
    if (this.summary === undefined) return [];
    const alarms = this.all.filter(({ severity }) => severity !== 'info');
    return [
      ...(alarms.length === 0 ? ['  no alarm'] : []),
      // The absence of an alarm means nothing if there was nothing to compare with.
      ...(this.summary.regime === null ? [wrap(`state not known: ${this.#regime}`, look.width, '  ')] : []),
      ...this.all.flatMap((verdict) => describe(verdict, look)),
      ...this.filter.lines(look),
    ];
  }

  /**
   * The alarms in a line each, and of the most severe that holds the advice.
   * @param given advice, and the run above that it was given for
   */
  brief(look: Look, run: string, given: Map<string, string>): string[] {
    const alarms = this.all.filter(({ severity }) => severity !== 'info');
    const [gravest] = alarms.filter(({ holds }) => holds);
    // The title says it already.
    const more = alarms.filter((verdict) => verdict !== gravest || verdict.times > 1);
    const before = gravest && given.get(gravest.advice);
    if (gravest !== undefined && before === undefined) given.set(gravest.advice, run);
    const advice = before === undefined ? gravest?.advice : `As for ${before}.`;
    return [
      ...more
        .slice(0, MOST_BRIEF)
        .map((verdict) =>
          wrap(when(verdict, inWords(verdict.kind)), look.width, `  ${paintedGlyph(verdict.severity, look)} `),
        ),
      ...(advice === undefined ? [] : [wrap(advice, look.width, look.unicode ? '  → ' : '  > ')]),
    ];
  }
}

/** `template_collapse from step 136 (said at 140) to the end`. */
function when({ since, raised, until, holds, times }: RunVerdict, named: string, graver = ''): string {
  const said = raised === since && graver === '' ? '' : ` (said at ${raised}${graver})`;
  const end = holds ? 'to the end' : `to step ${until}`;
  return `${named} from step ${since}${said}${times === 1 ? '' : `, ${times} stretches, the last`} ${end}`;
}

function describe(verdict: RunVerdict, look: Look): string[] {
  const { kind, severity, raised, said, sentence, advice, last } = verdict;
  const named = look.paint(styleOf(severity), kind);
  // Severity, figures and words may be those of a later step than the first at which it was said.
  const graver = said === raised ? '' : `, ${severity} at ${said}`;
  const again = last !== undefined && last.said !== said ? [`${lastWords(last, severity)}: ${last.sentence}`] : [];
  return [
    wrap(when(verdict, named, graver), look.width, `  ${paintedGlyph(severity, look)} `),
    wrap(sentence, look.width, '    '),
    ...again.map((words) => wrap(words, look.width, '    ')),
    // What needs no action needs no advice.
    ...(severity === 'info' ? [] : [wrap(advice, look.width, look.unicode ? '    → ' : '    > ')]),
  ];
}

/** `From step 192 (info, said at 196)`; what goes without saying is left out. */
function lastWords({ severity, since, said }: NonNullable<RunVerdict['last']>, gravest: Severity): string {
  const parts = [...(severity === gravest ? [] : [severity]), ...(said === since ? [] : [`said at ${said}`])];
  return `From step ${since}${parts.length === 0 ? '' : ` (${parts.join(', ')})`}`;
}

/** What the filter would have done, over the run. */
class FilterView {
  #steps = 0;
  #kept = 0;
  #groups = 0;
  #least = Number.POSITIVE_INFINITY;
  #most = 0;
  #firstEmpty = 0;
  /** Steps at which it would keep nothing: they would bring no update. */
  empty = 0;

  add({ filter, step }: StepReport): void {
    if (filter === undefined) return;
    const kept = filter.kept.length;
    this.#steps++;
    this.#kept += kept;
    this.#groups += kept + filter.dropped.length;
    this.#least = Math.min(this.#least, kept);
    this.#most = Math.max(this.#most, kept);
    if (filter.empty && this.empty++ === 0) this.#firstEmpty = step;
  }

  lines(look: Look): string[] {
    if (this.#steps === 0) return [];
    const mean = (total: number): string => shortNumber(total / this.#steps);
    const kept =
      `the filter (top_p 0.9 of reward variance) would keep ${mean(this.#kept)} of ${mean(this.#groups)} prompts a step, ` +
      `${this.#least} to ${this.#most}`;
    const none = `; nothing at ${counted(this.empty, 'steps')}, first step ${this.#firstEmpty}: no update there`;
    const severity = this.empty > 0 ? 'warning' : 'info';
    return [wrap(kept + (this.empty > 0 ? none : ''), look.width, `  ${paintedGlyph(severity, look)} `)];
  }
}
