// Reads the folder that `analyze --out` wrote into a report.
import { open, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { FileError } from '../checks/errors.js';
import { fileLines } from '../logs/stores/file-lines.js';
import { systemProblem } from '../logs/stores/system-problem.js';
import type { StepRecord } from '../step/step-record.js';
import type { RunSummary } from '../verdicts/run-summary.js';
import type { PromptRow } from './collect/prompt-columns.js';
import { ReportCollection } from './collect/report-collection.js';
import { cutMatrix, keptSteps, THINNINGS } from './payload/thinning.js';
import { readTable } from './read-table.js';
import { readTexts } from './read-texts.js';
import type { Matrix, Provenance, Report } from './report.js';

const METRICS = 'metrics.jsonl';
const SUMMARY = 'summary.json';
const PROMPTS = 'prompts.parquet';
const MATRICES = 'matrices.parquet';
const TEXTS = 'texts.parquet';

/** Whether a path is a folder of results, not of logs. */
export async function hasResults(path: string): Promise<boolean> {
  const found = await Promise.all(
    [METRICS, SUMMARY].map((name) =>
      stat(join(path, name)).then(
        (entry) => entry.isFile(),
        () => false,
      ),
    ),
  );
  return found.every(Boolean);
}

interface SummaryFile {
  readonly collapsar?: string;
  readonly runs?: readonly { readonly run: string; readonly directory: string; readonly judged?: RunSummary }[];
  readonly [setting: string]: unknown;
}

/** What summary.json has beside settings. */
const NO_SETTINGS = ['collapsar', 'steps', 'bytes', 'failures', 'statistics', 'runs'];

/**
 * @param command how the report is made again
 * @throws {FileError} for a folder whose files are not what `analyze --out` writes
 */
export async function readResults(folder: string, command: string): Promise<Report> {
  const summary = await readSummary(join(folder, SUMMARY));
  const collection = new ReportCollection({
    version: summary.collapsar ?? '',
    settings: Object.fromEntries(
      Object.entries(summary).filter(([name]) => !NO_SETTINGS.includes(name)),
    ) as Provenance['settings'],
    command,
  });
  const steps = new Map<string, number[]>();
  for await (const record of readRecords(join(folder, METRICS))) {
    collection.add(record);
    const known = steps.get(record.run);
    if (known === undefined) steps.set(record.run, [record.step]);
    else known.push(record.step);
  }
  for (const { run, directory, judged } of summary.runs ?? []) {
    if (judged !== undefined) collection.summarize({ run, file: join(directory, METRICS) }, judged);
  }
  const shown = new Map([...steps].map(([run, of]) => [run, spaced(of)]));
  const cut = new Set<string>();
  for await (const row of readTable(join(folder, PROMPTS))) {
    const [run, step] = [String(row.run), Number(row.step)];
    if (shown.get(run)?.has(step)) collection.addPrompt(run, { ...(row as unknown as PromptRow), step });
    else cut.add(run);
  }
  for await (const row of readTable(join(folder, MATRICES)))
    collection.addMatrix(String(row.run), cutMatrix(matrixOf(row)));
  const { runs } = collection.report();
  const { texts, counts } = await readTexts(join(folder, TEXTS), (run, of) =>
    keptSteps(of, THINNINGS[0].texts, runs.find(({ head }) => head.name === run)?.head.verdicts ?? []),
  );
  for (const [run, of] of texts) collection.addTexts(run, of);
  const report = collection.report();
  const thinned = [...cut].map(
    (run) => `${run}: prompts are shown of ${shown.get(run)?.size ?? 0} of ${steps.get(run)?.length ?? 0} steps.`,
  );
  for (const { head, texts: of } of report.runs) {
    const count = counts.get(head.name) ?? 0;
    if (of.length < count) thinned.push(`${head.name}: rollouts are kept of ${of.length} of ${count} steps.`);
  }
  return { ...report, head: { ...report.head, thinned } };
}

/** Steps whose prompts are read: more have no room on a page, and would not fit in memory. Evenly, both ends among them. */
function spaced(steps: readonly number[]): Set<number> {
  const most = THINNINGS[0].promptSteps;
  if (steps.length <= most) return new Set(steps);
  return new Set(
    Array.from({ length: most }, (_, at) => steps[Math.round((at * (steps.length - 1)) / (most - 1))] as number),
  );
}

async function readSummary(path: string): Promise<SummaryFile> {
  const bytes = await readWhole(path);
  try {
    return JSON.parse(bytes.toString('utf8')) as SummaryFile;
  } catch {
    throw new FileError({ path }, 'is no summary that analyze --out writes: it is no JSON; analyse once more');
  }
}

async function readWhole(path: string): Promise<Buffer> {
  const handle = await open(path).catch((error: unknown) => {
    throw new FileError({ path }, systemProblem(error));
  });
  try {
    return await handle.readFile();
  } finally {
    await handle.close();
  }
}

const MOST_LINE = 2 ** 26;

async function* readRecords(path: string): AsyncGenerator<StepRecord> {
  const handle = await open(path).catch((error: unknown) => {
    throw new FileError({ path }, systemProblem(error));
  });
  try {
    for await (const { bytes, position } of fileLines(handle, MOST_LINE)) {
      let record: unknown;
      try {
        record = JSON.parse(bytes.toString('utf8'));
      } catch {
        record = undefined;
      }
      if (!isRecord(record)) {
        throw new FileError({ path }, `has no record at byte ${position}: analyze --out writes one JSON object a line`);
      }
      yield record;
    }
  } finally {
    await handle.close();
  }
}

function isRecord(value: unknown): value is StepRecord {
  if (typeof value !== 'object' || value === null) return false;
  const { file, step, run } = value as Partial<Record<'file' | 'step' | 'run', unknown>>;
  return typeof file === 'string' && typeof run === 'string' && typeof step === 'number' && Number.isFinite(step);
}

function matrixOf(row: Readonly<Record<string, unknown>>): Matrix {
  const prompts = Number(row.prompts);
  const posterior = row.posterior as Uint8Array;
  const nats = row.nats as Uint8Array;
  return {
    step: Number(row.step),
    source: row.source === 'texts' ? 'texts' : 'scores',
    ids: (JSON.parse(String(row.ids)) as unknown[]).map(String),
    prompts,
    posterior: Uint8Array.from(posterior),
    nats: Uint16Array.from({ length: prompts * prompts }, (_, at) => {
      return (nats[2 * at] as number) | ((nats[2 * at + 1] as number) << 8);
    }),
  };
}
