// `collapsar explain [NAME]`: what a metric, a verdict, a state or a word of the tables means, and what to do about it.

import type { Command } from 'commander';
import { printable } from '../../checks/words.js';
import { FILTER_EXPLANATIONS } from '../../filter/explanations.js';
import { FIGURE_FORMS, ROW_FIGURES } from '../../metrics/figures/beside-figures.js';
import type { NamedFigure } from '../../metrics/figures/figure.js';
import { SCORE_FIGURES } from '../../metrics/figures/score-figures.js';
import { TEXT_FIGURES } from '../../metrics/figures/text-entries.js';
import {
  METRIC_EXPLANATIONS,
  type MetricExplanation,
  TEXT_EXPLANATIONS,
} from '../../metrics/reporting/explanations.js';
import { REGIME_EXPLANATIONS, VERDICT_EXPLANATIONS } from '../../verdicts/explanations.js';
import type { Regime, VerdictKind } from '../../verdicts/index.js';
import { nearest } from '../options/nearest.js';
import { EXIT } from '../output/exit-codes.js';
import { inWords, stateMark } from '../output/screen/state-marks.js';
import type { Streams } from '../output/streams.js';
import { widthOf } from '../output/table.js';
import { isUnicode, type Look, painter, plain } from '../output/text-style.js';
import { wrap } from '../output/text-wrap.js';

/** @param done takes the exit status */
export function define(command: Command, streams: Streams, done: (status: number) => void): void {
  command
    .argument('[NAME...]', 'mi, template_collapse, p, …; without one: all names')
    .action(async (words: string[]) => done(await explainCommand(words.join(' '), streams)));
}

const METRICS: readonly MetricExplanation[] = [...METRIC_EXPLANATIONS, ...TEXT_EXPLANATIONS, ...FILTER_EXPLANATIONS];
const KINDS = Object.keys(VERDICT_EXPLANATIONS) as VerdictKind[];
const REGIMES = Object.keys(REGIME_EXPLANATIONS) as Regime[];

/** Words of the tables, and the names that they are short for. */
const SHORT: Readonly<Record<string, string>> = {
  ...calledOf([...SCORE_FIGURES, ...TEXT_FIGURES, ...ROW_FIGURES, ...FIGURE_FORMS]),
  filter: 'rollout/filter_kept_count',
  regime: 'state',
  ...Object.fromEntries(REGIMES.map((name) => [stateMark(name).letter?.toLowerCase() ?? name, name])),
};

/** Keys of figures by their names in tables; of two with one name the first. */
function calledOf(figures: readonly NamedFigure[]): Record<string, string> {
  return Object.fromEntries(
    figures
      .toReversed()
      .flatMap(({ key, shown: { column, called = [] } = {} }) =>
        [...called, ...(column === undefined ? [] : [column.title])].map((name) => [normal(name), key]),
      ),
  );
}

const COMPANION = /^(.+)_((?:batch|population)_(?:low|high)|p_value)$/;

/**
 * @param name as typed; empty for the list
 * @returns exit status
 */
export async function explainCommand(name: string, streams: Streams): Promise<number> {
  const { out, err, environment } = streams;
  const look = {
    unicode: isUnicode(environment),
    width: widthOf(out, environment),
    paint: painter(out, environment),
  };
  const shown = (text: string): string => (look.unicode ? text : ascii(text));
  if (name === '') {
    await out.write(`${shown(list(look))}\n`);
    return EXIT.ok;
  }
  const text = explain(name, look);
  if (text !== undefined) {
    await out.write(`${shown(text)}\n`);
    return EXIT.ok;
  }
  const near = nearest(normal(name), names());
  const hint = near.length === 0 ? '' : ` Did you mean ${near.join(', ')}?`;
  await err.write(`error: nothing is called "${printable(name)}".${hint}\n(see collapsar explain for all names)\n`);
  return EXIT.usage;
}

function normal(name: string): string {
  return name
    .trim()
    .toLowerCase()
    .replace(/^environment\/[^/]*\/(?!<key>)/, '')
    .replace(/^(collapse_(first_turn|trajectory|turn)_sample|text)\//, '')
    .replaceAll(/[\s-]+/g, '_');
}

/** Every name that can be explained, for suggestions. */
function names(): string[] {
  const ofMetrics = METRICS.flatMap(({ keys }) => keys.map((key) => key.replace('<key>_', '')));
  return [...new Set([...Object.keys(SHORT), ...KINDS, ...REGIMES, 'state', ...ofMetrics])];
}

function explain(name: string, look: Look): string | undefined {
  const word = normal(name);
  const meant = SHORT[word] ?? word;
  if (meant === 'state')
    return section('state', 'where a run stands against its own start', REGIMES.map(regimeLine), look);
  const verdict = VERDICT_EXPLANATIONS[meant as VerdictKind];
  if (Object.hasOwn(VERDICT_EXPLANATIONS, meant)) {
    const { severity, definition, rule, advice } = verdict;
    const what = REGIMES.includes(meant as Regime) ? `verdict and state, ${severity}` : `verdict, ${severity}`;
    return section(
      meant,
      what,
      [definition, `Rule: ${rule}.`, `Do: ${advice}`, 'More: docs/reference/verdicts.md.'],
      look,
    );
  }
  if (REGIMES.includes(meant as Regime))
    return section(meant, 'state', [REGIME_EXPLANATIONS[meant as Regime], 'More: docs/reference/verdicts.md.'], look);
  const metric = metricOf(meant);
  if (metric === undefined) return undefined;
  const { keys, definition, formula, advice } = metric;
  const isOfFilter = FILTER_EXPLANATIONS.includes(metric);
  const paragraphs = [
    definition,
    `Formula: ${formula}.`,
    ...(/\b[MS]\b|matched|marginal/.test(formula) && !isOfFilter ? [SYMBOLS] : []),
    `Read: ${advice}`,
    `More: docs/reference/${isOfFilter ? 'filter' : TEXT_EXPLANATIONS.includes(metric) ? 'text-figures' : 'metrics'}.md.`,
  ];
  return section(keys.join(', '), 'metric', paragraphs, look);
}

const SYMBOLS =
  'S: the log-prob of a response under a prompt, summed over its tokens; M: its mean per token. Matched: under the ' +
  'own prompt; marginal: logsumexp over the P prompts − ln P.';

function metricOf(name: string): MetricExplanation | undefined {
  const ofKey = (key: string) =>
    METRICS.find(
      ({ keys }) =>
        keys.includes(key) ||
        keys.includes(key.replace(/@\d+$/, '@k').replace(/_at_\d+(?=$|_standard_error$)/, '_at_<k>')),
    );
  const [, key = '', companion] = COMPANION.exec(name) ?? [];
  return ofKey(name) ?? (ofKey(key) === undefined && key !== '<key>' ? undefined : ofKey(`<key>_${companion}`));
}

const regimeLine = (name: Regime): string => `${stateMark(name).letter} ${inWords(name)}. ${REGIME_EXPLANATIONS[name]}`;

function section(title: string, what: string, paragraphs: readonly string[], { width, paint }: Look): string {
  const head = wrap(`${title}  (${what})`, width);
  return [paint('bold', head), ...paragraphs.map((text) => wrap(text, width, '  '))].join('\n');
}

function list({ width, paint }: Look): string {
  const group = (title: string, of: readonly string[]): string =>
    `${paint('bold', title)}\n${wrap(of.join(', '), width, '  ')}`;
  return [
    group('verdicts', KINDS),
    group('states', ['state', ...REGIMES]),
    group('words of the tables', ['MI', 'H(Z|X)', 'retrieval', 'chance', 'p', '95% batch', 'z', 'filter']),
    group(
      'metrics',
      METRIC_EXPLANATIONS.flatMap(({ keys }) => keys),
    ),
    group(
      'text figures',
      TEXT_EXPLANATIONS.flatMap(({ keys }) => keys),
    ),
    group(
      'metrics of the filter',
      FILTER_EXPLANATIONS.flatMap(({ keys }) => keys),
    ),
  ].join('\n');
}

const SIGNS: Readonly<Record<string, string>> = {
  '−': '-',
  '≥': '>=',
  Σ: 'sum ',
  '²': '^2',
  '×': 'x',
  '·': '*',
  '’': "'",
};

const ascii = (text: string): string => plain(text.replace(/[−≥Σ²×·’]/g, (character) => SIGNS[character] as string));
