// Collects steps as they are measured, and gives the page of a run all of them or those after its cursor.
import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { MOST_STEPS } from '../../report/collect/let-go.js';
import {
  cutMatrix,
  type Matrix,
  MOST_BYTES,
  type PromptRow,
  type Provenance,
  payloadOf,
  ReportCollection,
  textsOfReport,
} from '../../report/index.js';
import { THINNINGS, thinned } from '../../report/payload/thinning.js';
import { Exposition } from '../../sinks/prometheus/exposition.js';
import { RunNames } from '../../sinks/run-names.js';
import type { PromptReport } from '../../step/prompts/prompt-findings.js';
import type { StepReport } from '../../step/step-report.js';

/** Of one state of the report, kept for those who ask for the same. */
const MOST_PAYLOADS = 100;

export class LiveReport {
  readonly #collection: ReportCollection;
  readonly #metrics = new Exposition();
  readonly #names = new RunNames();
  /** Of the present cursor, by the cursor that is asked for: viewers ask for the same. */
  readonly #payloads = new Map<string, Promise<Uint8Array>>();

  constructor(provenance: Provenance) {
    this.#collection = new ReportCollection(provenance, randomBytes(6).toString('hex'), MOST_STEPS);
  }

  /** @returns the name of its run, that of no other */
  add(report: StepReport): string {
    const { run, step, directory, record, summary, prompts, matrix, excerpts } = report;
    // Steps of one run may be in folders of their own.
    const place = { run, file: join(directory, 'step') };
    this.#collection.add({ ...record, ...place }, summary);
    for (const prompt of prompts ?? []) this.#collection.addPrompt(place, promptRow(step, prompt));
    if (matrix !== undefined) {
      const { source, ids, posterior, nats } = matrix;
      this.#collection.addMatrix(place, cutMatrix({ step, source, ids, prompts: ids.length, posterior, nats }));
    }
    if (excerpts !== undefined) this.#collection.addTexts(place, textsOfReport(step, excerpts));
    const name = this.#names.nameOf(report);
    this.#metrics.take({ ...report, run: name });
    this.#payloads.clear();
    return name;
  }

  /** gzip of what came after a cursor; of everything where it is none of this report's. */
  payload(after: string): Promise<Uint8Array> {
    // Anyone may ask for any cursor: all that are none of this report's get the same.
    const cursor = this.#collection.known(after);
    const made = this.#payloads.get(cursor);
    if (made !== undefined) return made;
    const payload = this.#payload(cursor);
    if (this.#payloads.size < MOST_PAYLOADS || cursor === '') this.#payloads.set(cursor, payload);
    return payload;
  }

  matrix(run: string, step: number): Matrix | undefined {
    return this.#collection.matrix(run, step);
  }

  /** As Prometheus scrapes it. */
  metrics(): string {
    return this.#metrics.text();
  }

  async #payload(after: string): Promise<Uint8Array> {
    const report = this.#collection.report(after);
    if (report.head.after !== '') return payloadOf(report);
    for (const thinning of THINNINGS) {
      const payload = await payloadOf(thinned(report, thinning));
      if (payload.length <= MOST_BYTES || thinning === THINNINGS.at(-1)) return payload;
    }
    throw new RangeError('no thinning at all');
  }
}

function promptRow(step: number, of: PromptReport): PromptRow {
  const { prompt, rows, mi, retrieval, kept, cause } = of;
  return {
    ...{ step, prompt, rows, mi, retrieval, kept, cause },
    mi_low: of.miLow,
    mi_high: of.miHigh,
    reward_mean: of.rewardMean,
    reward_std: of.rewardStd,
    drop_reason: of.dropReason,
  };
}
