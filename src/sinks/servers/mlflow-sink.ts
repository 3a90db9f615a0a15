// Sends reports to an MLflow tracking server by its REST API 2.0. Metrics there can only be appended: a tag of the run
// says up to which step they were.
import { createHash } from 'node:crypto';
import type { Sink } from '../../monitor/sinks/sink.js';
import type { StepReport } from '../../step/step-report.js';
import { NewVerdicts } from '../../verdicts/new-verdicts.js';
import { chosenFigures, type SinkMetrics } from '../page-keys.js';
import { postJson, Refusal } from './post-json.js';
import { type ServerAddress, serverAddress } from './server-address.js';

/** Of a request. */
const MOST_METRICS = 1000;
const MOST_NAME = 250;
const MOST_TAG = 5000;

const KEY_TAG = 'collapsar.key';
const STEP_TAG = 'collapsar.last_step';

interface OpenRun {
  readonly id: string;
  lastStep: number;
}

export class MlflowSink implements Sink {
  readonly #server: ServerAddress;
  readonly #which: SinkMetrics;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #verdicts = new NewVerdicts();
  readonly #runs = new Map<string, OpenRun>();
  #experiment: string | undefined;

  /**
   * @param where `http://host:5000?experiment=name`
   * @param token of the server, where it asks for one; default: MLFLOW_TRACKING_TOKEN
   */
  constructor(where: string, which: SinkMetrics = 'page', token = process.env.MLFLOW_TRACKING_TOKEN) {
    this.#server = serverAddress(where, 'experiment');
    this.#which = which;
    this.#headers = token === undefined || token === '' ? {} : { authorization: `Bearer ${token}` };
  }

  async step(report: StepReport): Promise<void> {
    const { run, step } = report;
    const open = await this.#open(run);
    const verdicts = this.#verdicts.take(report.run, report.judgement?.verdicts);
    if (step <= open.lastStep) return;
    const timestamp = Date.now();
    const figures = chosenFigures(report, this.#which).map(([key, value]) => {
      return { key: mlflowName(key), value, timestamp, step };
    });
    const said = verdicts.map(({ kind, severity, sentence }) => {
      return { key: `collapsar.${kind}`, value: `${severity}, step ${step}: ${sentence}`.slice(0, MOST_TAG) };
    });
    const pieces = Array.from({ length: Math.max(1, Math.ceil(figures.length / MOST_METRICS)) }, (_, at) =>
      figures.slice(at * MOST_METRICS, (at + 1) * MOST_METRICS),
    );
    for (const [at, piece] of pieces.entries()) {
      // The step counts as sent when its last piece has arrived.
      const tags = at === pieces.length - 1 ? [...said, { key: STEP_TAG, value: String(step) }] : [];
      await this.#ask('runs/log-batch', { run_id: open.id, metrics: piece, params: [], tags });
    }
    open.lastStep = step;
  }

  async close(): Promise<void> {
    for (const { id } of this.#runs.values()) {
      await this.#ask('runs/update', { run_id: id, status: 'FINISHED', end_time: Date.now() });
    }
  }

  /** A run of this name that an earlier process began is gone on with. */
  async #open(run: string): Promise<OpenRun> {
    const known = this.#runs.get(run);
    if (known !== undefined) return known;
    this.#experiment ??= await this.#openExperiment();
    const key = createHash('sha256').update(run).digest('hex').slice(0, 32);
    const found = (await this.#ask('runs/search', {
      experiment_ids: [this.#experiment],
      filter: `tags."${KEY_TAG}" = '${key}'`,
      max_results: 1,
    })) as { runs?: { info: { run_id: string }; data?: { tags?: { key: string; value: string }[] } }[] };
    const [before] = found.runs ?? [];
    let open: OpenRun;
    if (before === undefined) {
      const tags = [{ key: KEY_TAG, value: key }];
      const asked = { experiment_id: this.#experiment, run_name: run, start_time: Date.now(), tags };
      const made = (await this.#ask('runs/create', asked)) as { run: { info: { run_id: string } } };
      open = { id: made.run.info.run_id, lastStep: Number.NEGATIVE_INFINITY };
    } else {
      const lastStep = before.data?.tags?.find((tag) => tag.key === STEP_TAG)?.value;
      open = { id: before.info.run_id, lastStep: lastStep === undefined ? Number.NEGATIVE_INFINITY : Number(lastStep) };
      await this.#ask('runs/update', { run_id: open.id, status: 'RUNNING' });
    }
    this.#runs.set(run, open);
    return open;
  }

  async #openExperiment(): Promise<string> {
    const { part: name } = this.#server;
    const find = async (): Promise<string | undefined> => {
      // The name of an experiment is asked for in a search: get-by-name is a GET, and answers 404 if there is none.
      const asked = { filter: `name = '${name.replaceAll("'", "\\'")}'`, max_results: 1 };
      const found = (await this.#ask('experiments/search', asked)) as { experiments?: { experiment_id: string }[] };
      return found.experiments?.[0]?.experiment_id;
    };
    const known = await find();
    if (known !== undefined) return known;
    try {
      const { experiment_id: made } = (await this.#ask('experiments/create', { name })) as { experiment_id?: unknown };
      if (typeof made === 'string') return made;
      throw new Error(`${this.#server.base} made an experiment and did not say its id: is it MLflow?`);
    } catch (error) {
      // Another process may have made it meanwhile.
      const made = error instanceof Refusal ? await find() : undefined;
      if (made === undefined) throw error;
      return made;
    }
  }

  #ask(operation: string, body: object): Promise<unknown> {
    return postJson(`${this.#server.base}/api/2.0/mlflow/${operation}`, body, this.#headers);
  }
}

/** Names there have letters, digits, `_`, `-`, `.`, spaces and `/`: `retrieval_accuracy@2` is `retrieval_accuracy_at_2`. */
export function mlflowName(key: string): string {
  return key
    .replaceAll('@', '_at_')
    .replace(/[^\w.\- /]/g, '_')
    .slice(0, MOST_NAME);
}
