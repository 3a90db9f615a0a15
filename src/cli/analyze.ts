// `collapsar analyze`: step files in, tables or JSON on stdout, results in a directory, progress and failures on stderr.
import { analyze } from '../analysis/analyze.js';
import { MetricChoice } from '../analysis/metric-choice.js';
import { RECORD_PARTS, type StepReport } from '../analysis/step-report.js';
import type { FileError } from '../errors.js';
import type { Profile } from '../metrics/step-metrics.js';
import { type AnalysisOutput, jsonArray, jsonLines, tables } from './analysis-output.js';
import { EXIT } from './exit-codes.js';
import { OutputDirectory } from './output-directory.js';
import { packageVersion } from './package-version.js';
import { Progress } from './progress.js';
import { TABLE_WIDTH } from './run-table.js';
import { isUnicode } from './sparkline.js';
import { ReaderGone, type Streams } from './streams.js';
import { painter } from './text-style.js';
import { wrap } from './text-wrap.js';

/** The options of the command line, checked. */
export interface AnalyzeFlags {
  json?: true;
  jsonl?: true;
  profile: Profile;
  metrics?: string[];
  out?: string;
  every: number;
  threads?: number;
  permutations: number;
  seed: number;
  samples: number;
  nonFinite: 'error' | 'exclude';
  quiet?: true;
}

/** @returns exit status */
export async function analyzeCommand(paths: readonly string[], flags: AnalyzeFlags, streams: Streams): Promise<number> {
  const { out, err, environment } = streams;
  const unicode = isUnicode(environment);
  const progress = new Progress(flags.quiet ? undefined : err, unicode);
  const directory = flags.out === undefined ? undefined : await OutputDirectory.open(flags.out);
  // Whoever closes the pipe has read enough; but what goes to a directory is still wanted whole.
  const signal = directory === undefined ? AbortSignal.any([streams.signal, out.closed]) : streams.signal;
  const output = outputFor(flags, streams, unicode, progress);
  const choice = new MetricChoice(flags.metrics);
  const failures: FileError[] = [];
  let reported = 0;
  try {
    const reports = analyze(paths, {
      profile: flags.profile,
      threads: flags.threads,
      permutations: flags.permutations,
      seed: flags.seed,
      samples: flags.samples,
      metrics: flags.metrics,
      nonFinite: flags.nonFinite,
      signal,
      onProgress: (state) => progress.update(state),
      onFailure: (failure) => failures.push(failure),
    });
    for await (const report of reports) {
      note(report, choice);
      await directory?.add(report);
      await output.report(report);
      reported++;
    }
    await output.end();
    progress.clear();
    await directory?.finish(settingsOf(flags), failures);
  } catch (error) {
    progress.clear();
    await directory?.discard();
    if (error instanceof ReaderGone) return failures.length > 0 ? EXIT.failures : EXIT.ok;
    if (failures.length > 0) await err.write(failureList(failures, reported));
    throw error;
  }
  if (failures.length > 0) await err.write(failureList(failures, reported));
  if (out.closed.aborted && !(out.closed.reason instanceof ReaderGone)) throw out.closed.reason;
  if (reported > 0 && choice.unmatched.length > 0) {
    await err.write(unmatchedList(choice));
    return EXIT.usage;
  }
  return failures.length > 0 || reported === 0 ? EXIT.failures : EXIT.ok;
}

function outputFor(flags: AnalyzeFlags, streams: Streams, unicode: boolean, progress: Progress): AnalysisOutput {
  const write = (text: string): Promise<void> => {
    // On a terminal both streams are the same screen.
    progress.clear();
    return streams.out.write(text);
  };
  if (flags.json) return jsonArray(write);
  if (flags.jsonl) return jsonLines(write);
  const paint = painter(streams.out, streams.environment);
  return tables(write, flags.profile, { every: flags.every, chosen: flags.metrics !== undefined, unicode, paint });
}

/** Looks at every key that the step has or could have had, to tell later which patterns of the user name none. */
function note({ metrics, filter, judgement }: StepReport, choice: MetricChoice): void {
  for (const key of Object.keys(filter?.metrics ?? {})) choice.has(key);
  if (judgement !== undefined) for (const part of RECORD_PARTS) choice.has(part);
  for (const { logged, absent, label } of metrics) {
    for (const key of Object.keys(logged)) choice.has(key);
    for (const key of Object.keys(absent)) choice.has(`${label}/${key}`);
  }
}

/** What the results depend on: not threads, not the form of stdout. */
function settingsOf(flags: AnalyzeFlags) {
  const { profile, metrics, permutations, seed, samples, nonFinite } = flags;
  const strict = { permutations, nonFinite };
  return { collapsar: packageVersion(), profile, ...(profile === 'strict' ? strict : {}), seed, samples, metrics };
}

function failureList(failures: readonly FileError[], reported: number): string {
  const what = failures.length === 1 ? '1 file or path' : `${failures.length} files or paths`;
  const rest = reported === 1 ? '1 step was reported' : `${reported} steps were reported`;
  return `${what} could not be used; ${rest}.\n${failures.map(({ message }) => `  ${message}\n`).join('')}`;
}

/** Bounds and p-values go by the name of their metric. */
const DERIVED = /_((batch|population)_(low|high)|p_value)$/;

function unmatchedList(choice: MetricChoice): string {
  const wrong = choice.unmatched.map((name) => `"${name}"`).join(', ');
  const names = choice.namesSeen.filter((name) => !DERIVED.test(name));
  return [
    wrap(`error: --metrics ${wrong}: no metric of these steps has such a name under this profile.`, TABLE_WIDTH),
    wrap(`There are: ${names.join(', ')}`, TABLE_WIDTH, '  '),
    '(put globs in quotes; see collapsar analyze --help and docs/metrics.md)',
    '',
  ].join('\n');
}
