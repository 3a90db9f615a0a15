// Collects the records of one run into its columns, with what is reported about it.
import { dirname } from 'node:path';
import { allFigures, type StepRecord } from '../../step/step-record.js';
import type { RunSummary } from '../../verdicts/run-summary.js';
import type { FigureName, GradientStep, Matrix, RunData, RunHead, StepTexts } from '../report.js';
import { REGIME_CODES } from '../report.js';
import { environmentFigures, type InstrumentOfRun, instrumentOf, keysOf } from './figures-of-record.js';
import { gradientsOf } from './gradient-steps.js';
import { withoutTooMany } from './let-go.js';
import { PromptColumns, type PromptRow } from './prompt-columns.js';
import { RemarkList } from './remark-list.js';
import { StatusReader } from './status-reader.js';

/** As many as are logged by name at a step. */
const MOST_ENVIRONMENTS = 64;

export class RunCollection {
  readonly name: string;
  readonly place: string;
  readonly prompts: PromptColumns;
  matrices: readonly Matrix[] = [];
  texts: readonly StepTexts[] = [];
  #instrument: InstrumentOfRun | undefined;
  #keys: [FigureName, string][] = [];
  readonly #figures = new Map<string, number[]>();
  readonly #steps: number[] = [];
  readonly #regimes: number[] = [];
  readonly #status = new StatusReader();
  readonly #notes = new RemarkList();
  readonly #absent = new RemarkList();
  #gradients: readonly GradientStep[] = [];
  #template: Pick<RunHead, 'template' | 'templateStep'> = { template: [], templateStep: null };
  #summary: (() => RunSummary) | undefined;

  /** @param most steps whose prompts and matrices are kept */
  constructor(
    first: StepRecord,
    private readonly most = Number.POSITIVE_INFINITY,
  ) {
    this.prompts = new PromptColumns(most);
    this.name = first.run;
    this.place = dirname(first.file);
  }

  isOf({ run, file }: Pick<StepRecord, 'run' | 'file'>): boolean {
    return run === this.name && dirname(file) === this.place;
  }

  summarize(summary: RunSummary): void {
    this.#summary = () => summary;
  }

  get count(): number {
    return this.#steps.length;
  }

  /** @param summary of the run so far, as the report of the step has it */
  add(record: StepRecord, summary?: () => RunSummary): void {
    const { step, regime, notes = [], absent = {}, template } = record;
    // A number that comes twice has no place of its own on an axis of steps; the later one would be drawn backwards.
    const last = this.#steps.at(-1);
    if (last !== undefined && step <= last) {
      this.#notes.add('step', `step ${step} came after step ${last}: it is not drawn`, step);
      return;
    }
    this.#summary = summary ?? this.#summary;
    if (this.#instrument === undefined) {
      this.#instrument = instrumentOf(record);
      if (this.#instrument !== undefined) this.#keys = keysOf(this.#instrument);
    }
    const figures = allFigures(record);
    for (const [name, key] of this.#keys) {
      const value = figures[key];
      if (typeof value === 'number') this.#put(name, value);
    }
    if (this.#instrument !== undefined) {
      for (const [name, value] of environmentFigures(record, this.#instrument)) {
        if (this.#figures.has(name) || this.#environments < 2 * MOST_ENVIRONMENTS) this.#put(name, value);
      }
    }
    for (const column of this.#figures.values()) if (column.length === this.count) column.push(Number.NaN);
    this.#measure(record);
    const gradients = gradientsOf(record);
    if (gradients !== undefined) this.#gradients = withoutTooMany([...this.#gradients, gradients], this.most);
    this.#steps.push(step);
    this.#regimes.push(Math.max(0, (REGIME_CODES as readonly string[]).indexOf(regime?.name ?? '')));
    this.#status.add(record);
    for (const note of notes) this.#notes.add('', note, step);
    for (const [key, reason] of Object.entries(absent)) this.#absent.add(key, reason, step);
    if (template !== undefined) {
      const phrases = template.map(({ text, prompts, share, shareAtFirstStep }) => {
        return { text, prompts, share, shareAtFirstStep: shareAtFirstStep ?? null };
      });
      this.#template = { template: phrases, templateStep: step };
    }
  }

  /** A figure of the step that is being added. */
  #put(name: string, value: number): void {
    const column = this.#figures.get(name);
    if (column !== undefined) column.push(value);
    else this.#figures.set(name, [...new Array<number>(this.count).fill(Number.NaN), value]);
  }

  /** Columns of environments: they may come and go, and a page holds at most MOST_ENVIRONMENTS. */
  get #environments(): number {
    return [...this.#figures.keys()].filter((name) => name.startsWith('environment/')).length;
  }

  /** Notes whether the step was measured: one between those that a monitor has scored is not a gap. */
  #measure(record: StepRecord): void {
    const label = this.#instrument?.label;
    const isMeasured = label !== undefined && Object.keys(record).some((key) => key.startsWith(`${label}/`));
    const column = this.#figures.get('measured');
    if (column !== undefined) column[this.count] = Number(isMeasured);
    else if (!isMeasured && label !== undefined)
      this.#figures.set('measured', [...new Array<number>(this.count).fill(1), 0]);
  }

  addPrompt(row: PromptRow): void {
    this.prompts.add(row);
  }

  addMatrix(matrix: Matrix): void {
    this.matrices = withoutTooMany([...this.matrices, matrix], this.most);
  }

  addTexts(texts: StepTexts): void {
    this.texts = withoutTooMany([...this.texts, texts]);
  }

  /** @param from place of the first step to give */
  data(from = 0): RunData {
    const after = from === 0 ? Number.NEGATIVE_INFINITY : (this.#steps[from - 1] as number);
    return {
      head: this.#head(this.#summary?.()),
      steps: Float64Array.from(this.#steps.slice(from)),
      regimes: Uint8Array.from(this.#regimes.slice(from)),
      figures: Object.fromEntries(
        [...this.#figures].map(([name, column]) => [name, Float32Array.from(column.slice(from))]),
      ),
      prompts: this.prompts.table(after),
      matrices: this.matrices.filter(({ step }) => step > after),
      gradients: this.#gradients.filter(({ step }) => step > after),
      texts: this.texts.filter(({ step }) => step > after),
    };
  }

  #head(summary: RunSummary | undefined): RunHead {
    const { start, shares } = this.#status;
    return {
      name: this.name,
      place: this.place,
      instrument: this.#instrument?.instrument ?? 'scores',
      hasEntropy: this.#instrument?.hasEntropy ?? true,
      count: this.count,
      status: this.#status.status(),
      start,
      shares,
      verdicts: this.#status.stretches,
      correlations: correlationsOf(summary),
      notes: this.#notes.all,
      absent: this.#absent.all,
      ...this.#template,
    };
  }
}

function correlationsOf(summary: RunSummary | undefined): RunHead['correlations'] {
  if (summary === undefined) return undefined;
  const { against, figures } = summary.correlations;
  return {
    against,
    figures: figures.map(({ figure, spearman: { estimate, low, high }, steps, effectiveSteps }) => {
      return { figure, estimate, low, high, steps, effectiveSteps };
    }),
  };
}
