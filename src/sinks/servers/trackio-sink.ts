// Sends reports to a Trackio server: a log per step, an alert per new verdict. Ids make repeated requests harmless.
import { createHash } from 'node:crypto';
import type { Sink } from '../../monitor/sinks/sink.js';
import type { StepReport } from '../../step/step-report.js';
import { NewVerdicts } from '../../verdicts/new-verdicts.js';
import { chosenFigures, type SinkMetrics } from '../page-keys.js';
import { postJson } from './post-json.js';
import { type ServerAddress, serverAddress } from './server-address.js';

const LEVELS = { info: 'info', warning: 'warn', critical: 'error' } as const;

export class TrackioSink implements Sink {
  readonly #server: ServerAddress;
  readonly #which: SinkMetrics;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #verdicts = new NewVerdicts();

  /**
   * @param where `http://host:7860?project=name`
   * @param token of the server, where it asks for one; default: TRACKIO_WRITE_TOKEN
   */
  constructor(where: string, which: SinkMetrics = 'page', token = process.env.TRACKIO_WRITE_TOKEN) {
    this.#server = serverAddress(where, 'project');
    this.#which = which;
    this.#headers = token === undefined || token === '' ? {} : { 'x-trackio-write-token': token };
  }

  async step(report: StepReport): Promise<void> {
    const { run, step } = report;
    const { base, part: project } = this.#server;
    const figures = Object.fromEntries(chosenFigures(report, this.#which));
    const alerts = this.#verdicts
      .take(report.run, report.judgement?.verdicts)
      .map(({ kind, severity, raised, sentence, advice }) => ({
        ...{
          project,
          run,
          step,
          level: LEVELS[severity],
          title: kind.replaceAll('_', ' '),
          text: `${sentence} ${advice}`,
        },
        timestamp: new Date().toISOString(),
        alert_id: idOf([project, run, kind, raised, severity]),
      }));
    const log = { project, run, step, metrics: figures, log_id: idOf([project, run, step, figures]) };
    // Alerts first: an alert that a failing log would hold back is raised only once.
    if (alerts.length > 0) await this.#post(`${base}/api/bulk_alert`, { alerts });
    if (Object.keys(figures).length > 0) await this.#post(`${base}/api/bulk_log`, { logs: [log] });
  }

  async close(): Promise<void> {}

  async #post(url: string, body: object): Promise<void> {
    await postJson(url, { ...body, hf_token: null }, this.#headers);
  }
}

/** The same for the same content: a step that is measured again with other figures is another. */
function idOf(content: unknown): string {
  return createHash('sha256').update(JSON.stringify(content)).digest('hex').slice(0, 32);
}
