// The reports of one run -> what its judge and the filter say, in sentences.
import type { StepReport } from '../analysis/step-report.js';
import type { RunVerdict, Severity } from '../monitor/verdicts/index.js';
import { shortNumber } from './number-format.js';
import type { Paint, Style } from './text-style.js';
import { wrap } from './text-wrap.js';

const WIDTH = 100;

const STYLE: Readonly<Record<Severity, Style>> = { critical: 'red', warning: 'yellow', info: 'dim' };

/** @returns undefined where the run was not judged */
export function runVerdicts(reports: readonly StepReport[], paint: Paint): string | undefined {
  const judged = reports.filter(({ summary }) => summary !== undefined);
  const summary = judged.at(-1)?.summary?.();
  if (summary === undefined) return undefined;
  const verdicts = summary.verdicts.map((verdict) => describe(verdict, paint));
  const alarms = summary.verdicts.filter(({ severity }) => severity !== 'info').length;
  const lines = [
    paint('dim', '  verdicts'),
    ...(alarms === 0 ? [wrap('none that is an alarm', WIDTH, '    ')] : []),
    ...verdicts,
    ...filterView(reports),
  ];
  return lines.join('\n');
}

function describe(verdict: RunVerdict, paint: Paint): string {
  const { kind, severity, since, raised, until, holds, times, sentence, advice } = verdict;
  const said = raised === since ? '' : `, said at step ${raised}`;
  const end = holds ? ', to the end' : `, last at step ${until}`;
  const again = times > 1 ? `, ${times} times` : '';
  const head =
    paint(STYLE[severity], `    ${severity}: ${kind}`) + paint('dim', ` since step ${since}${said}${end}${again}`);
  // What needs no action needs no advice.
  const words = severity === 'info' ? sentence : `${sentence} ${advice}`;
  return `${head}\n${wrap(words, WIDTH, '      ')}`;
}

/** What the filter would have done, over the run. */
function filterView(reports: readonly StepReport[]): string[] {
  const filtered = reports.flatMap(({ filter, step }) => (filter === undefined ? [] : [{ filter, step }]));
  if (filtered.length === 0) return [];
  const kept = filtered.map(({ filter }) => filter.kept.length);
  const groups = filtered.map(({ filter }) => filter.kept.length + filter.dropped.length);
  const mean = (values: readonly number[]): number => values.reduce((a, b) => a + b, 0) / values.length;
  const empty = filtered.filter(({ filter }) => filter.empty).map(({ step }) => step);
  const none = empty.length === 0 ? '' : `; nothing at ${empty.length} steps, first step ${empty[0]}`;
  const text =
    `filter (top_p .9 of reward variance): it would keep ${shortNumber(mean(kept))} of ${shortNumber(mean(groups))} prompts a ` +
    `step, ${Math.min(...kept)} to ${Math.max(...kept)}${none}`;
  return [wrap(text, WIDTH, '    ')];
}
