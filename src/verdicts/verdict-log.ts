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

/** What a run was told under one kind. The figures are those of the step at which it was first said. */
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

const SEVERITIES: readonly Severity[] = ['info', 'warning', 'critical'];

const evidenceValue = either((value) => typeof value === 'string', text, nullable(number));

const saying = {
  environment: optional(text),
  environments: optional(list(text)),
  evidence: record(evidenceValue),
  advice: text,
  sentence: text,
};

const entryShape = fields({
  /** The gravest that it became; evidence and sentence are the first ones. */
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
  /** The latest evidence and sentence: they stay over steps without new evidence. */
  latest: fields({ severity: oneOf('info', 'warning', 'critical'), ...saying }),
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
      const { lastSince: since, lastRaised: raised, latest } = entry;
      verdicts.push({ kind, severity: latest.severity, since, raised, step, ...copy(latest) });
    }
    return verdicts.sort((a, b) => SEVERITIES.indexOf(b.severity) - SEVERITIES.indexOf(a.severity));
  }

  #note(step: number, finding: Finding): void {
    const { kind, since, severity } = finding;
    const latest = { severity, ...copy(finding) };
    const entry = this.#entries.get(kind);
    if (entry === undefined) {
      const now = {
        since,
        raised: step,
        lastSince: since,
        lastRaised: step,
        until: step,
        holds: true,
        absent: 0,
        times: 1,
      };
      this.#entries.set(kind, { severity, ...now, ...copy(latest), latest });
      return;
    }
    const isInfo = severity === 'info' && entry.latest.severity === 'info';
    if (!entry.holds && !(isInfo && entry.absent <= RETURN_STEPS)) {
      entry.lastSince = since;
      entry.lastRaised = step;
      entry.times++;
    }
    entry.holds = true;
    entry.absent = 0;
    entry.latest = latest;
    // What was said of fewer environments is said again of all that it has become true of.
    if (hasMore(entry, latest)) {
      delete entry.environment;
      Object.assign(entry, copy(latest));
    }
    if (SEVERITIES.indexOf(severity) > SEVERITIES.indexOf(entry.severity)) entry.severity = severity;
  }

  /** In the order in which they were first said. */
  get all(): RunVerdict[] {
    return [...this.#entries].map(([kind, entry]) => {
      const { severity, since, raised, until, holds, times } = entry;
      return { kind: kind as VerdictKind, severity, since, raised, step: raised, until, holds, times, ...copy(entry) };
    });
  }

  toJSON(): VerdictLogJson {
    const entries = [...this.#entries].map(([kind, entry]) => {
      const latest = { severity: entry.latest.severity, ...copy(entry.latest) };
      return [kind, { ...entry, ...copy(entry), latest }];
    });
    return Object.fromEntries(entries) as VerdictLogJson;
  }
}

type Saying = Pick<Finding, 'environment' | 'environments' | 'evidence' | 'advice' | 'sentence'>;

function copy({ environment, environments, evidence, advice, sentence }: Saying) {
  return {
    ...(environment !== undefined && { environment }),
    ...(environments && { environments: [...environments] }),
    evidence: { ...evidence },
    advice,
    sentence,
  };
}

/** Whether a later finding names every environment of an earlier one, and others. */
export function hasMore(before: Named, now: Named): boolean {
  const [known, named] = [namesOf(before), namesOf(now)];
  return named.length > known.length && known.every((name) => named.includes(name));
}

type Named = Pick<Finding, 'environment' | 'environments'>;

function namesOf({ environment, environments = [] }: Named): readonly string[] {
  return environment === undefined ? environments : [environment];
}
