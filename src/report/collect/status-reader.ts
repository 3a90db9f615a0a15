// Follows the records of a run: its present state, the verdicts it had from when to when, and its start.
import type { StepRecord } from '../../step/step-record.js';
import type { Verdict } from '../../verdicts/verdict.js';
import { GRAVITY } from '../../verdicts/verdict-log.js';
import type { RunHead, RunStatus, Stretch } from '../report.js';

const ALARMING: readonly (string | null)[] = ['template_collapse', 'low_entropy_collapse'];

export class StatusReader {
  /** By kind and the step at which it was said. */
  readonly #stretches = new Map<string, Stretch>();
  #holding: readonly Verdict[] = [];
  #regime: NonNullable<StepRecord['regime']> | undefined;
  /** The last state that was known, and since when. */
  #known: { readonly name: string; readonly since: number } | undefined;
  start: RunHead['start'] = null;
  shares: RunHead['shares'] = { mi: null, entropy: null };

  add({ regime, verdicts = [] }: StepRecord): void {
    // A step without one came twice or out of order, or has no figures that the judge reads.
    if (regime === undefined) return;
    this.#regime = regime;
    this.#holding = verdicts;
    const { name, since, mi, entropy } = regime;
    if (name !== null) this.#known = { name, since };
    if (mi !== undefined && entropy !== undefined) {
      this.start = { mi: mi.start, entropy: entropy.start };
      this.shares = { mi: shareOf(mi), entropy: shareOf(entropy) };
    }
    for (const verdict of verdicts) this.#extend(verdict);
    const said = new Set(verdicts.map(keyOf));
    for (const [key, stretch] of this.#stretches) {
      if (stretch.holds && !said.has(key)) this.#stretches.set(key, { ...stretch, holds: false });
    }
  }

  #extend(verdict: Verdict): void {
    const { kind, since, raised, step, environment, environments } = verdict;
    const key = keyOf(verdict);
    const before = this.#stretches.get(key);
    // What is true of other environments may be less severe: words stay with their severity.
    const isLess = before !== undefined && GRAVITY.indexOf(verdict.severity) < GRAVITY.indexOf(before.severity);
    const { severity, sentence, advice } = isLess ? before : verdict;
    this.#stretches.set(key, {
      ...{ kind, severity, since, raised, until: step, holds: true, sentence, advice },
      environments: [
        ...new Set([
          ...(before?.environments ?? []),
          ...(environments ?? []),
          ...(environment === undefined ? [] : [environment]),
        ]),
      ],
    });
  }

  /** In the order in which they were first said. */
  get stretches(): Stretch[] {
    return [...this.#stretches.values()];
  }

  status(): RunStatus {
    const nothing = { since: null, said: null, sentence: '', advice: '' };
    if (this.#regime === undefined) return { grade: 'unjudged', state: 'not judged', ...nothing };
    const [gravest] = this.#holding.filter(({ severity }) => severity !== 'info');
    if (gravest !== undefined) {
      const { kind, severity, since, raised, sentence, advice } = gravest;
      const grade = severity === 'critical' ? 'critical' : 'warning';
      return { grade, state: inWords(kind), since, said: raised === since ? null : raised, sentence, advice };
    }
    const { sentence } = this.#regime;
    const [ended] = this.stretches.filter(({ severity }) => severity !== 'info').sort((a, b) => b.until - a.until);
    const state = this.#known === undefined ? 'state not known' : inWords(this.#known.name);
    if (ended !== undefined) {
      const words = `${state}; ${inWords(ended.kind)} until step ${ended.until}`;
      return { ...nothing, grade: 'ended', state: words, sentence, advice: ended.advice };
    }
    if (this.#known === undefined) return { ...nothing, grade: 'unknown', state, sentence };
    const isAlarming = ALARMING.includes(this.#known.name);
    const { since } = this.#known;
    return isAlarming
      ? { ...nothing, grade: 'unknown', state: `${state}, not sure yet`, since, sentence }
      : { ...nothing, grade: 'fine', state, since, sentence };
  }
}

const keyOf = ({ kind, raised }: Pick<Verdict, 'kind' | 'raised'>): string => `${kind} ${raised}`;

/** A kind or a state, as words in a sentence. */
const inWords = (name: string): string => name.replaceAll('_', ' ');

const shareOf = ({ value, start }: { value: number; start: number }): number | null =>
  start > 0 ? value / start : null;
