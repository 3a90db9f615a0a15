// Summarises the reports of one run in a line: how severe its state is, since when, and the figures behind it.

import { MISSING, shortNumber } from '../../../checks/numbers.js';
import { printable } from '../../../checks/words.js';
import type { StepReport } from '../../../step/step-report.js';
import type { RunVerdict, Verdict } from '../../../verdicts/index.js';
import { figureKeys, type ShownMetrics, shownMetrics, toldApartWords } from './shown-metrics.js';
import { GRADES, type Grade, inWords, stateMark } from './state-marks.js';
import { figureCell } from './step-columns.js';

/** What is known of a run at its last step. */
export interface RunStatus {
  readonly name: string;
  /** Directory of its files, as they were found. */
  readonly place: string;
  readonly grade: Grade;
  /** In few words: `template collapse since step 136`. */
  readonly state: string;
  /** Step at which it was first said; undefined if that is the step in `state`. */
  readonly said: number | undefined;
  /** Why there is no state. */
  readonly reason: string | undefined;
  /** Metrics of the last step, under its first sample label. */
  readonly metrics: ShownMetrics | undefined;
  /** MI and H(Z|X) as shares of the run's start, at the last step that has a state. */
  readonly shares: { readonly mi: number | undefined; readonly entropy: number | undefined };
}

const isAlarm = ({ severity }: Pick<Verdict, 'severity'>): boolean => severity !== 'info';

export class StatusReader {
  #first: StepReport | undefined;
  #last: StepReport | undefined;
  #judgement: StepReport['judgement'];
  #summary: StepReport['summary'];
  #shares: RunStatus['shares'] = { mi: undefined, entropy: undefined };

  add(report: StepReport): void {
    this.#first ??= report;
    this.#last = report;
    this.#judgement = report.judgement ?? this.#judgement;
    this.#summary = report.summary ?? this.#summary;
    const { regime, mi, entropy } = report.judgement?.regime ?? {};
    // Until there is a state the start is not known, or nothing to compare with.
    if (regime && mi && entropy) this.#shares = { mi: shareOf(mi), entropy: shareOf(entropy) };
  }

  /** Verdicts that hold at the run's last step, the most severe first. */
  get holding(): readonly Verdict[] {
    return this.#judgement?.verdicts ?? [];
  }

  /** After the run's last report. */
  status(): RunStatus {
    const [metrics] = this.#last === undefined ? [] : shownMetrics(this.#last);
    return {
      name: printable(this.#first?.run ?? ''),
      place: this.#first?.file ?? '',
      metrics,
      shares: this.#shares,
      ...this.#stateOfRun(),
    };
  }

  #stateOfRun(): Pick<RunStatus, 'grade' | 'state' | 'said' | 'reason'> {
    const nothing = { said: undefined, reason: undefined };
    const summary = this.#summary?.();
    if (summary === undefined) return { grade: 'unjudged', state: 'no verdicts under this profile', ...nothing };
    const [gravest] = this.holding.filter(isAlarm);
    if (gravest !== undefined) {
      const { kind, severity, since, raised } = gravest;
      const state = `${inWords(kind)} since step ${since}`;
      return { grade: severity as Grade, state, said: raised === since ? undefined : raised, reason: undefined };
    }
    const reason = this.#judgement?.regime.sentence;
    const regime = summary.regime;
    const now = regime === null ? 'state not known' : inWords(regime.name);
    const [ended] = summary.verdicts.filter(isAlarm).sort((a, b) => b.until - a.until);
    if (ended !== undefined) return { grade: 'ended', state: `${now}; ${endedWords(ended)}`, ...nothing };
    if (regime === null) return { grade: 'unknown', state: now, said: undefined, reason };
    if (stateMark(regime.name).isAlarming)
      return { grade: 'unknown', state: `${now} at step ${regime.since}, not sure yet`, said: undefined, reason };
    return { grade: 'fine', state: now, ...nothing };
  }
}

/** Like with like: both are among as many prompts. */
const shareOf = ({ value, start }: { value: number; start: number }): number | undefined =>
  start > 0 ? value / start : undefined;

const endedWords = ({ kind, until }: RunVerdict): string => `${inWords(kind)} until step ${until}`;

/** The most severe first; of equals the one that has kept the least of its MI. */
export function byGravity(a: RunStatus, b: RunStatus): number {
  const grade = GRADES.indexOf(a.grade) - GRADES.indexOf(b.grade);
  return grade || (a.shares.mi ?? Number.POSITIVE_INFINITY) - (b.shares.mi ?? Number.POSITIVE_INFINITY) || 0;
}

export const percentText = (share: number | undefined): string =>
  share === undefined ? MISSING : `${Math.round(100 * share)}%`;

/** `template collapse since step 136, said at step 140`. */
export function headline({ state, said }: RunStatus): string {
  return said === undefined ? state : `${state}, said at step ${said}`;
}

/** `MI 0.201, 14% of start`, `tells apart about 1.2 of 16 prompts`, `retrieval 0.102, chance 0.063`, `H(Z|X) 2.69, 334%`. */
export function figures({ metrics, shares }: RunStatus): string[] {
  const ofStart = (share: number | undefined, words: string): string =>
    share === undefined ? '' : `, ${percentText(share)}${words}`;
  const text = (key: string): string => figureCell(metrics, key).text;
  const { mi, miTitle, entropy, entropyTitle } = figureKeys(metrics);
  return [
    `${miTitle} ${text(mi)}${ofStart(shares.mi, ' of start')}`,
    ...toldApartWords(metrics),
    `retrieval ${text('retrieval_accuracy')}, chance ${shortNumber(metrics?.values.retrieval_chance_level)}`,
    `${entropyTitle} ${text(entropy)}${ofStart(shares.entropy, '')}`,
  ];
}
