// Keeps the verdicts of a run, one entry per kind: when each was first raised, and the most severe form that the run
// got.

import {
  count,
  either,
  fields,
  flag,
  kept,
  list,
  nullable,
  number,
  oneOf,
  optional,
  record,
  type Shaped,
  text,
} from '../checks/saved.js';
import type { Finding, Severity, Verdict, VerdictKind } from './verdict.js';

/**
 * A warning of one kind over a run: said, severity, evidence and sentence are those of the step at which it first
 * was as severe as it ever became.
 */
export interface RunVerdict extends Verdict {
  /** Last step at which it held. */
  readonly until: number;
  /** Whether it still holds at the run's last step. */
  readonly holds: boolean;
  /** How often it was raised. */
  readonly times: number;
  /** Its last stretch and what was said last, if it was raised more than once, or the most severe is not the last. */
  readonly last?: Omit<Verdict, 'kind' | 'step'>;
}

/** An information that comes back within this number of steps with evidence is the same one: it is not raised again. */
const RETURN_STEPS = 10;

/** From the least to the most severe. */
export const GRAVITY: readonly Severity[] = ['info', 'warning', 'critical'];

const evidenceValue = either((value) => typeof value === 'string', text, nullable(number));

const sayingShape = fields({
  severity: oneOf('info', 'warning', 'critical'),
  /** The step at which it was said. */
  at: count,
  environment: optional(text),
  environments: optional(list(text)),
  evidence: record(evidenceValue),
  advice: text,
  sentence: text,
});
type Saying = Shaped<typeof sayingShape>;

const entryShape = fields({
  since: count,
  raised: count,
  /** Beginning of the present or last stretch. */
  lastSince: count,
  lastRaised: count,
  until: count,
  holds: flag,
  /** Steps with evidence on it since it last held. */
  absent: count,
  times: count,
  /** What was said when it first was as severe as it ever became. */
  gravest: sayingShape,
  /** The latest saying: it stays over the steps at which it continues to hold. */
  said: sayingShape,
  /** Its figures at the latest step that had any, in words, where that is a later one. */
  now: nullable(text),
});
export const verdictLogShape = record(entryShape);

export class VerdictLog extends kept(verdictLogShape) {
  /**
   * @param judged kinds that this step had evidence on: those not found any more end; other kinds continue
   * @returns the verdicts that hold, the most severe first
   */
  add(step: number, findings: readonly Finding[], judged: ReadonlySet<VerdictKind>): Verdict[] {
    for (const finding of findings) this.#note(step, finding);
    const verdicts: Verdict[] = [];
    for (const [key, entry] of Object.entries(this.state)) {
      const kind = key as VerdictKind;
      if (judged.has(kind) && !findings.some((finding) => finding.kind === kind)) {
        entry.holds = false;
        entry.absent++;
      }
      if (!entry.holds) continue;
      entry.until = step;
      // Its beginning stays while it holds, also where a later step names another one.
      const { lastSince: since, lastRaised: raised, said, now } = entry;
      verdicts.push({ kind, since, raised, step, ...told(said, now) });
    }
    return verdicts.sort((a, b) => GRAVITY.indexOf(b.severity) - GRAVITY.indexOf(a.severity));
  }

  #note(step: number, finding: Finding): void {
    const { kind, since, now } = finding;
    const said = sayingOf(step, finding);
    const entry = this.state[kind];
    if (entry === undefined) {
      const stretch = { since, raised: step, lastSince: since, lastRaised: step, until: step };
      this.state[kind] = { ...stretch, holds: true, absent: 0, times: 1, gravest: said, said, now: null };
      return;
    }
    const isInfo = said.severity === 'info' && entry.said.severity === 'info';
    const isBack = !entry.holds && !(isInfo && entry.absent <= RETURN_STEPS);
    if (isBack) {
      entry.lastSince = since;
      entry.lastRaised = step;
      entry.times++;
    }
    entry.holds = true;
    entry.absent = 0;
    // A sentence keeps its evidence; it is raised again if it has become more severe, or true of other environments.
    const isSaid = isBack || isGraver(said, entry.said) || !namesAll(entry.said, said);
    if (isSaid) entry.said = said;
    entry.now = isSaid || now === undefined ? null : `; at step ${step} ${now}.`;
    const isMore = said.severity === entry.gravest.severity && hasMore(entry.gravest, said);
    if (isSaid && (isGraver(said, entry.gravest) || isMore)) entry.gravest = said;
  }

  /** In the order in which they were first said. */
  get all(): RunVerdict[] {
    return Object.entries(this.state).map(([kind, entry]) => {
      const { since, raised, lastSince, lastRaised, until, holds, times, gravest, said } = entry;
      const now = holds ? entry.now : null;
      const isLast = said.at === gravest.at;
      const last = { since: lastSince, raised: lastRaised, ...told(said, now) };
      return {
        ...{ kind: kind as VerdictKind, since, raised, step: raised, until, holds, times },
        ...told(gravest, isLast ? now : null),
        ...((times > 1 || !isLast) && { last }),
      };
    });
  }
}

const isGraver = (one: Saying, than: Saying): boolean => GRAVITY.indexOf(one.severity) > GRAVITY.indexOf(than.severity);

function sayingOf(at: number, finding: Finding): Saying {
  const { severity, environment, environments, evidence, advice, sentence } = finding;
  return {
    ...{ severity, at },
    ...(environment !== undefined && { environment }),
    ...(environments && { environments: [...environments] }),
    ...{ evidence: { ...evidence }, advice, sentence },
  };
}

/** @param now a clause behind the sentence */
function told({ at, sentence, ...saying }: Saying, now: string | null) {
  const { environments, evidence } = saying;
  return {
    ...saying,
    said: at,
    ...(environments && { environments: [...environments] }),
    evidence: { ...evidence },
    sentence: now === null ? sentence : `${sentence.replace(/\.$/, '')}${now}`,
  };
}

/** Whether a later finding names every environment of an earlier one, and others. */
function hasMore(before: Named, now: Named): boolean {
  return namesAll(now, before) && !namesAll(before, now);
}

/** Whether a finding names every environment of another one. */
function namesAll(one: Named, other: Named): boolean {
  const names = new Set(namesOf(one));
  return namesOf(other).every((name) => names.has(name));
}

type Named = Pick<Finding, 'environment' | 'environments'>;

function namesOf({ environment, environments = [] }: Named): readonly string[] {
  return environment === undefined ? environments : [environment];
}
