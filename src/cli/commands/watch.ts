// `collapsar watch`: folders that a trainer writes to, in; a line a step on stdout, every new verdict on stderr, and a
// command that is run on an alarm.
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { type Command, Option } from 'commander';
import { watch } from '../../analysis/watching/watch.js';
import { shortNumber } from '../../checks/numbers.js';
import { escaped } from '../../checks/words.js';
import type { StepReport } from '../../step/step-report.js';
import type { Verdict } from '../../verdicts/index.js';
import { NewVerdicts } from '../../verdicts/new-verdicts.js';
import { GRAVITY } from '../../verdicts/verdict-log.js';
import { addMeasuringOptions, figureFlags, type MeasuringFlags } from '../options/measuring-options.js';
import { anyNumber, byteCount, nonEmpty, outputPath, wholeNumber } from '../options/option-values.js';
import type { SinkFlags } from '../options/sink-options.js';
import { addSinkOptions } from '../options/sink-options.js';
import { EXIT } from '../output/exit-codes.js';
import { afterOptions } from '../output/help-text.js';
import { figureKeys, shownMetrics, toldApartWords } from '../output/screen/shown-metrics.js';
import { paintedGlyph, stateMark, styleOf } from '../output/screen/state-marks.js';
import { figureCell } from '../output/screen/step-columns.js';
import { SinkOutputs } from '../output/sink-outputs.js';
import { ReaderGone, type Streams } from '../output/streams.js';
import { widthOf } from '../output/table.js';
import { isUnicode, painter } from '../output/text-style.js';
import { wrap } from '../output/text-wrap.js';
import { impossibleMetrics } from './metric-check.js';

const HELP = `
Follows the rollout logs and step files in DIR while the trainer writes them: files that appear, grow and are rotated away. A step
is taken when nothing has been added to it for --settle seconds and a later one has begun, or for six times as long.
What was told is kept in --state: the same command goes on from there, with the same verdicts, and tells no step twice.
--exec runs CMD in a shell on every new warning or critical verdict, with COLLAPSAR_RUN, _STEP, _FILE, _VERDICT, _SEVERITY and
_SENTENCE in its environment and the verdict as JSON on its stdin.

Examples:
  collapsar watch outputs/rollouts
  collapsar watch outputs/rollouts --exec 'scancel $JOB' --exec-on critical
  collapsar watch outputs/rollouts --once            (what is there now, as from cron)

Exit status: with --once 0, or 1 when something could not be used; 2 for wrong usage; 130 or 143 when interrupted.`;

/** @param done takes the exit status */
export function define(command: Command, streams: Streams, done: (status: number) => void): void {
  addSinkOptions(addMeasuringOptions(command.argument('<DIR...>', 'directories that the trainer writes to')))
    .option('--state <dir>', 'where it is kept what was told (default: .collapsar-watch in the first DIR)', outputPath)
    .option('--exec <command>', 'what to run on an alarm, as a shell reads it', nonEmpty)
    .addOption(
      new Option('--exec-on <severity>', 'the least that is an alarm')
        .choices(['warning', 'critical'])
        .default('warning'),
    )
    .option('--settle <seconds>', 'how long a step has to stay as it is to be taken', anyNumber, 10)
    .option('--interval <seconds>', 'how often to look, where the system does not tell of changes', anyNumber, 5)
    .option('--poll', 'only look at intervals')
    .option('--once', 'take all that is there, complete or not, and end')
    .option('--jsonl', 'print one JSON record a step instead of a line')
    .option('--threads <n>', 'threads to compute with (default: one per core)', wholeNumber(1, 1024))
    .option('--max-memory <bytes>', 'approximate memory to use, such as 2GiB or 512MB (default: 300MB)', byteCount)
    .addHelpText('after', afterOptions(HELP))
    .action(async (paths: string[], flags: WatchFlags) => {
      done(await watchCommand(paths, flags, streams));
    });
}

/** The options of the command line, checked. */
export interface WatchFlags extends MeasuringFlags, SinkFlags {
  state?: string;
  settle: number;
  interval: number;
  poll?: true;
  once?: true;
  exec?: string;
  execOn: 'warning' | 'critical';
  jsonl?: true;
  threads?: number;
  maxMemory?: number;
}

/** In the first folder; a search passes it over. */
const STATE = '.collapsar-watch';

/** A command on an alarm that takes longer is not waited for. */
const MOST_MS = 60_000;

/** @returns exit status; only with `--once` it ends by itself */
export async function watchCommand(paths: readonly string[], flags: WatchFlags, streams: Streams): Promise<number> {
  const { out, err, environment } = streams;
  const impossible = impossibleMetrics(flags.metrics, flags.profile);
  if (impossible !== undefined) {
    await err.write(impossible);
    return EXIT.usage;
  }
  const { metrics, settle, interval, poll, once, threads, maxMemory, include, exclude } = flags;
  const look = { unicode: isUnicode(environment), width: widthOf(err, environment), paint: painter(err, environment) };
  const writing: Promise<void>[] = [];
  const remark = (text: string) => writing.push(err.write(`${wrap(escaped(text), look.width, 'note: ')}\n`));
  let failures = 0;
  const sinks = new SinkOutputs(flags, streams);
  const reports = watch(paths, {
    state: flags.state ?? join(paths[0] as string, STATE),
    perPrompt: sinks.readsPrompts,
    ...figureFlags(flags),
    ...{ metrics, settle, interval, poll, once, threads, maxMemory, include, exclude },
    signal: AbortSignal.any([streams.signal, out.closed]),
    onNote: remark,
    onFailure: ({ message }) => {
      failures++;
      writing.push(err.write(`${escaped(message)}\n`));
    },
  });
  const verdicts = new NewVerdicts();
  const leastGrave = GRAVITY.indexOf(flags.execOn);
  try {
    for await (const report of reports) {
      await sinks.add(report);
      await out.write(flags.jsonl ? `${JSON.stringify(report.record)}\n` : stepLine(report));
      for (const verdict of verdicts.take(`${report.directory}\n${report.run}`, report.judgement?.verdicts)) {
        const { kind, severity, sentence, advice } = verdict;
        const head = `${paintedGlyph(severity, look)} ${escaped(report.run)} step ${report.step}: ${look.paint(styleOf(severity), kind)}`;
        const said = severity === 'info' ? sentence : `${sentence} ${advice}`;
        await err.write(`${head} (${severity})\n${wrap(escaped(said), look.width, '  ')}\n`);
        const isAlarm = GRAVITY.indexOf(severity) >= leastGrave;
        if (flags.exec !== undefined && isAlarm) await run(flags.exec, report, verdict, streams);
      }
    }
  } catch (error) {
    if (error instanceof ReaderGone) return failures > 0 ? EXIT.failures : EXIT.ok;
    throw error;
  } finally {
    await sinks.close();
    await Promise.all(writing);
  }
  return failures > 0 ? EXIT.failures : EXIT.ok;
}

/** `drift  step 13  T  MI bound 0.629 [0.294, 0.965]  tells apart about 1.9 [1.3, 2.6] of 32 prompts  retrieval 0.453  …` */
function stepLine(report: StepReport): string {
  const { run, step, judgement } = report;
  const [metrics] = shownMetrics(report);
  const { mi, miTitle, entropy, entropyTitle } = figureKeys(metrics);
  const text = (key: string): string => figureCell(metrics, key).text;
  const batch = metrics?.certainty[mi]?.batch;
  const interval =
    batch !== undefined && 'low' in batch ? ` [${shortNumber(batch.low)}, ${shortNumber(batch.high)}]` : '';
  const parts = [
    escaped(run),
    `step ${step}`,
    stateMark(judgement?.regime.regime).letter ?? '-',
    `${miTitle} ${text(mi)}${interval}`,
    ...toldApartWords(metrics, true),
    `retrieval ${text('retrieval_accuracy')}`,
    `${entropyTitle} ${text(entropy)}`,
    ...(metrics !== undefined && 'template_share' in metrics.values ? [`template ${text('template_share')}`] : []),
  ];
  return `${parts.join('  ')}\n`;
}

/** Runs the user's command: what happened is in its environment, and as JSON on its stdin. */
async function run(
  command: string,
  report: StepReport,
  verdict: Verdict,
  { err, environment }: Streams,
): Promise<void> {
  const child = spawn(command, {
    shell: true,
    stdio: ['pipe', 'inherit', 'inherit'],
    env: {
      ...environment,
      COLLAPSAR_RUN: report.run,
      COLLAPSAR_STEP: String(report.step),
      COLLAPSAR_FILE: report.file,
      COLLAPSAR_VERDICT: verdict.kind,
      COLLAPSAR_SEVERITY: verdict.severity,
      COLLAPSAR_SENTENCE: verdict.sentence,
    },
  });
  // One that does not read its input is none the worse.
  child.stdin.on('error', () => undefined);
  child.stdin.end(`${JSON.stringify({ run: report.run, file: report.file, ...verdict })}\n`);
  const ended = new Promise<string | undefined>((resolve) => {
    child.on('error', ({ message }) => resolve(message));
    child.on('exit', (code, signal) => resolve(code === 0 ? undefined : `ended with ${signal ?? code}`));
  });
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<string>((resolve) => {
    timer = setTimeout(() => resolve(`is still running after ${MOST_MS / 1000} s: not waited for`), MOST_MS);
  });
  const problem = await Promise.race([ended, late]);
  clearTimeout(timer);
  if (problem !== undefined) await err.write(`note: the command on ${verdict.kind} ${escaped(problem)}\n`);
}
