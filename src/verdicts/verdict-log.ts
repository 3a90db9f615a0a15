// Findings step by step -> verdicts that know when they were first said, and what the whole run was told. One entry a
// kind.

import {
  count,
  either,
  fields,
  flag,
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

/** What a run was told under one kind. The figures are those of the step at which it was first said that grave. */
export interface RunVerdict extends Verdict {
  /** Gravest that it became. */
  readonly severity: Severity;
  /** Last step at which it held. */
  readonly until: number;
  /** Whether it still holds at the run's last step. */
  readonly holds: boolean;
  /** How often it was raised. */
  readonly times: number;
}

/** An information that comes back within this number of steps with evidence is the same one: it is not raised again. */
const RETURN_STEPS = 10;

/** From the least to the gravest. */
export const GRAVITY: readonly Severity[] = ['info', 'warning', 'critical'];

const evidenceValue = either((value) => typeof value === 'string', text, nullable(number));

const saying = {
  environment: optional(text),
  environments: optional(list(text)),
  evidence: record(evidenceValue),
  advice: text,
  sentence: text,
};

const entryShape = fields({
  /** The gravest that it became; evidence and sentence are those of the step at which it first did. */
  severity: oneOf('info', 'warning', 'critical'),
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
  ...saying,
  /** What was said in this stretch, when it was said that grave: it stays over the steps at which it goes on to hold. */
  said: fields({ severity: oneOf('info', 'warning', 'critical'), ...saying }),
  /** Its figures at the latest step that had any, in words, where that is a later one. */
  now: nullable(text),
});
export const verdictLogShape = record(entryShape);
export type VerdictLogJson = Shaped<typeof verdictLogShape>;

export class VerdictLog {
  readonly #entries: Map<string, VerdictLogJson[string]>;

  constructor(saved: VerdictLogJson = {}) {
    this.#entries = new Map(Object.entries(saved));
  }

  /**
   * @param judged kinds that this step had evidence on: of these, what is not found any more ends; the others go on
   * @returns the verdicts that hold, the gravest first
   */
  add(step: number, findings: readonly Finding[], judged: ReadonlySet<VerdictKind>): Verdict[] {
    for (const finding of findings) this.#note(step, finding);
    const verdicts: Verdict[] = [];
    for (const [key, entry] of this.#entries) {
      const kind = key as VerdictKind;
      if (judged.has(kind) && !findings.some((finding) => finding.kind === kind)) {
        entry.holds = false;
        entry.absent++;
      }
      if (!entry.holds) continue;
      entry.until = step;
      // Its beginning stays while it holds, also where a later step names another one.
      const { lastSince: since, lastRaised: raised, said, now } = entry;
      verdicts.push({ kind, severity: said.severity, since, raised, step, ...copy(said, now) });
    }
    return verdicts.sort((a, b) => GRAVITY.indexOf(b.severity) - GRAVITY.indexOf(a.severity));
  }

  #note(step: number, finding: Finding): void {
    const { kind, since, severity, now } = finding;
    const said = { severity, ...copy(finding) };
    const entry = this.#entries.get(kind);
    if (entry === undefined) {
      const first = {
        since,
        raised: step,
        lastSince: since,
        lastRaised: step,
        until: step,
        holds: true,
        absent: 0,
        times: 1,
        now: null,
      };
      this.#entries.set(kind, { severity, ...first, ...copy(said), said });
      return;
    }
    const isInfo = severity === 'info' && entry.said.severity === 'info';
    const isBack = !entry.holds && !(isInfo && entry.absent <= RETURN_STEPS);
    if (isBack) {
      entry.lastSince = since;
      entry.lastRaised = step;
      entry.times++;
    }
    entry.holds = true;
    entry.absent = 0;
    // A sentence has the evidence it was said with; said again is what has become graver, or true of other environments.
    const isSaid = isBack || isGraver(severity, entry.said.severity) || !namesAll(entry.said, said);
    if (isSaid) entry.said = said;
    entry.now = isSaid || now === undefined ? null : `; at step ${step} ${now}.`;
    if (isGraver(severity, entry.severity) || hasMore(entry, said)) {
      delete entry.environment;
      Object.assign(entry, copy(said));
    }
    if (isGraver(severity, entry.severity)) entry.severity = severity;
  }

  /** In the order in which they were first said. */
  get all(): RunVerdict[] {
    return [...this.#entries].map(([kind, entry]) => {
      const { severity, since, raised, until, holds, times, now } = entry;
      const said = copy(entry, holds ? now : null);
      return { kind: kind as VerdictKind, severity, since, raised, step: raised, until, holds, times, ...said };
    });
  }

  toJSON(): VerdictLogJson {
    const entries = [...this.#entries].map(([kind, { said, now, ...entry }]) => {
      return [kind, { ...entry, ...copy(entry), said: { severity: said.severity, ...copy(said) }, now }];
    });
    return Object.fromEntries(entries) as VerdictLogJson;
  }
}

type Saying = Pick<Finding, 'environment' | 'environments' | 'evidence' | 'advice' | 'sentence'>;

const isGraver = (severity: Severity, than: Severity): boolean => GRAVITY.indexOf(severity) > GRAVITY.indexOf(than);

/** @param now a clause behind the sentence */
function copy({ environment, environments, evidence, advice, sentence }: Saying, now: string | null = null) {
  return {
    ...(environment !== undefined && { environment }),
    ...(environments && { environments: [...environments] }),
    evidence: { ...evidence },
    advice,
    sentence: now === null ? sentence : `${sentence.replace(/\.$/, '')}${now}`,
  };
}

/** Whether a later finding names every environment of an earlier one, and others. */
export function hasMore(before: Named, now: Named): boolean {
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
