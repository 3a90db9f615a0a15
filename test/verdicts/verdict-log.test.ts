// What a run is told, stretch by stretch: every sentence with the severity, the evidence and the environments of the step
// at which it was said, in the records of steps, in the summary, on the page and in what sinks tell.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { StatusReader } from '../../src/report/collect/status-reader.js';
import type { StepRecord } from '../../src/step/step-record.js';
import { NewVerdicts } from '../../src/verdicts/new-verdicts.js';
import type { Finding, Severity, Verdict, VerdictKind } from '../../src/verdicts/verdict.js';
import { GRAVITY, VerdictLog } from '../../src/verdicts/verdict-log.js';

const KINDS: readonly VerdictKind[] = ['template_collapse', 'entropy_gaming', 'prompts_too_easy'];

/** What a step finds of one kind: nothing, no evidence either way, or a finding. */
const found = fc.oneof(
  { weight: 2, arbitrary: fc.constant('nothing' as const) },
  { weight: 1, arbitrary: fc.constant('no evidence' as const) },
  {
    weight: 5,
    arbitrary: fc.record({
      severity: fc.constantFrom<Severity>('info', 'warning', 'critical'),
      environments: fc.subarray(['a', 'b', 'c']),
    }),
  },
);
const runs = fc.array(fc.tuple(found, found, found), { minLength: 1, maxLength: 40 });

function findingOf(kind: VerdictKind, step: number, severity: Severity, names: readonly string[]): Finding {
  const [one] = names;
  const environments =
    names.length === 1 ? { environment: one as string } : names.length > 1 ? { environments: names } : {};
  return {
    ...{ kind, severity, since: Math.max(0, step - 1), evidence: { step }, advice: `after ${step}` },
    ...environments,
    sentence: `${severity} in ${names.join(', ')} by step ${step}.`,
    now: `it is ${step} now`,
  };
}

const namesOf = ({ environment, environments = [] }: Pick<Verdict, 'environment' | 'environments'>) =>
  environment === undefined ? environments : [environment];

describe('a sentence of a verdict', () => {
  it('has the evidence of the step at which it was said, in every stretch and everywhere, and figures of now behind it', () => {
    fc.assert(
      fc.property(runs, fc.nat(40), (steps, restart) => {
        let log = new VerdictLog();
        const untouched = new VerdictLog();
        const page = new StatusReader();
        const news = new NewVerdicts();
        const findings = new Map<string, Finding>();
        const records: Verdict[] = [];
        const told: Verdict[] = [];
        /** Everything but the clause for now is what the step `said` found. */
        const expectSaid = (kind: string, of: Omit<Verdict, 'kind' | 'step'>) => {
          const finding = findings.get(`${kind} ${of.said}`) as Finding;
          expect(of.raised).toBeLessThanOrEqual(of.said);
          expect([of.severity, of.evidence, of.advice, namesOf(of)]).toEqual([
            finding.severity,
            finding.evidence,
            finding.advice,
            namesOf(finding),
          ]);
          const [words, now] = of.sentence.split('; at step ');
          expect(words?.replace(/\.$/, '')).toBe(finding.sentence.replace(/\.$/, ''));
          if (now === undefined) return;
          const [, at] = /^(\d+) it is \1 now\.$/.exec(now) ?? [];
          expect(Number(at)).toBeGreaterThan(of.said);
          expect(findings.has(`${kind} ${at}`)).toBe(true);
        };
        for (const [at, each] of steps.entries()) {
          const step = at + 1;
          if (at === restart) log = new VerdictLog(JSON.parse(JSON.stringify(log)));
          const judged = new Set(KINDS.filter((_, of) => each[of] !== 'no evidence'));
          const given = KINDS.flatMap((kind, of) => {
            const one = each[of] as (typeof each)[0];
            return typeof one === 'string' ? [] : [findingOf(kind, step, one.severity, one.environments)];
          });
          for (const finding of given) findings.set(`${finding.kind} ${step}`, finding);
          const verdicts = log.add(step, given, judged);
          untouched.add(step, given, judged);
          for (const verdict of verdicts) expectSaid(verdict.kind, verdict);
          records.push(...verdicts);
          told.push(...news.take('run', verdicts));
          page.add({ regime: { name: null }, verdicts } as unknown as StepRecord);
        }
        expect(JSON.stringify(log)).toBe(JSON.stringify(untouched));

        // Told is each saying once, at its step: also one that is less grave or of other environments alone.
        expect(told).toEqual(records.filter(({ said, step }) => said === step));
        const sayings = new Set(records.map(({ kind, said }) => `${kind} ${said}`));
        expect(told.map(({ kind, said }) => `${kind} ${said}`).sort()).toEqual([...sayings].sort());
        for (const [at, verdict] of told.entries()) {
          const before = told
            .slice(0, at)
            .findLast(({ kind, raised }) => kind === verdict.kind && raised === verdict.raised);
          if (before === undefined) continue;
          const isGraver = GRAVITY.indexOf(verdict.severity) > GRAVITY.indexOf(before.severity);
          expect(isGraver || String(namesOf(verdict)) !== String(namesOf(before))).toBe(true);
        }

        for (const { kind, times, last, holds, ...whole } of log.all) {
          const own = records.filter((one) => one.kind === kind);
          const severities = own.map(({ severity }) => GRAVITY.indexOf(severity));
          expect(GRAVITY.indexOf(whole.severity)).toBe(Math.max(...severities));
          expectSaid(kind, whole);
          const final = own.at(-1) as Verdict;
          const latest = last ?? whole;
          if (last !== undefined) expectSaid(kind, last);
          expect([latest.since, latest.raised, latest.said]).toEqual([final.since, final.raised, final.said]);
          if (holds) expect(latest.sentence).toBe(final.sentence);
          expect(new Set(own.map(({ raised }) => raised)).size).toBe(times);
        }
        for (const { kind, raised, severity, sentence } of page.stretches) {
          const own = records.filter((one) => one.kind === kind && one.raised === raised);
          expect(GRAVITY.indexOf(severity)).toBe(Math.max(...own.map((one) => GRAVITY.indexOf(one.severity))));
          expect(own.some((one) => one.severity === severity && one.sentence === sentence)).toBe(true);
        }
      }),
      { numRuns: 300 },
    );
  });
});

describe('NewVerdicts', () => {
  const verdict = (step: number, said: number): Verdict => ({
    ...{ kind: 'entropy_gaming', severity: 'info', since: 1, raised: 1, said, step, evidence: {}, advice: '' },
    sentence: '',
  });

  it('tells nothing that was said before the first step that it is given, and later what it was not given', () => {
    const news = new NewVerdicts();
    expect(news.take('a', [verdict(9, 3)])).toEqual([]);
    // The report of step 10, at which it was said again, was lost.
    expect(news.take('a', [verdict(11, 10)])).toHaveLength(1);
    expect(news.take('a', [verdict(12, 10)])).toEqual([]);
    expect(news.take('b', [verdict(12, 12)])).toHaveLength(1);
    expect(news.take('c', [])).toEqual([]);
    expect(news.take('c', [verdict(4, 3)])).toHaveLength(1);
  });
});
