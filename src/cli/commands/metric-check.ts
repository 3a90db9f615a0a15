// Finds names in a user's --metrics that no metric has, and says so in words.
import { MetricChoice } from '../../analysis/measuring/metric-choice.js';
import { possibleKeys } from '../../analysis/measuring/metric-names.js';
import { printable } from '../../checks/words.js';
import type { Profile } from '../../metrics/step-metrics.js';
import { wrap } from '../output/text-wrap.js';

/** @returns what to tell the user of names that no step can have under the profile; undefined if there are none */
export function impossibleMetrics(metrics: readonly string[] | undefined, profile: Profile): string | undefined {
  if (metrics === undefined) return undefined;
  const keys = possibleKeys(profile);
  // Which environments there are is known when the steps are read.
  const isKnown = (pattern: string): boolean => {
    const [, name] = /^environment\/([^/]+)\//.exec(pattern) ?? [];
    return name !== undefined && keys.some((key) => new MetricChoice([pattern]).has(`environment/${name}/${key}`));
  };
  const choice = new MetricChoice(metrics.filter((pattern) => !isKnown(pattern)));
  for (const key of keys) choice.has(key);
  return choice.unmatched.length === 0 ? undefined : unmatchedList(choice, 'no metric');
}

/** As wide as prose gets. */
const MESSAGE_WIDTH = 100;

/** Bounds and p-values go by the name of their metric: they are said once for all. */
const DERIVED = /_((batch|population)_(low|high)|p_value)$/;
const DERIVED_NAMES =
  'Those with intervals also end in _batch_low, _batch_high, _population_low, _population_high and _p_value. ' +
  'Of mi_seq_at_<k> (k = 2, 4, 8, …) and mi_seq_margin, there are _batch_low and _batch_high.';

/** One for each number of prompts, k = 2, 4, 8, … */
const AMONG = /^(mi_seq_at_)\d+(?=$|_standard_error$)/;

/** @param none what has none of the names, in words */
export function unmatchedList(choice: MetricChoice, none: string): string {
  const wrong = choice.unmatched.map((name) => `"${printable(name)}"`).join(', ');
  const named = choice.namesSeen.filter((name) => !DERIVED.test(name));
  const names = [...new Set(named.map((name) => name.replace(AMONG, '$1<k>')))];
  const anyDerived = named.length < choice.namesSeen.length;
  return [
    wrap(`error: --metrics ${wrong}: ${none} has such a name under this profile.`, MESSAGE_WIDTH),
    wrap(`There are: ${names.map(printable).join(', ')}`, MESSAGE_WIDTH, '  '),
    ...(anyDerived ? [wrap(DERIVED_NAMES, MESSAGE_WIDTH, '  ')] : []),
    '(put globs in quotes; see collapsar analyze --help and docs/reference/metrics.md)',
    '',
  ].join('\n');
}
