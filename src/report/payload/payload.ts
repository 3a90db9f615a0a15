// Encodes a report as bytes (head's length in four bytes, head as JSON, columns), and decodes it. The page reads
// whatever version 1 wrote; a change of a field's meaning needs a new version beside it.
import type {
  GradientStep,
  Matrix,
  PromptTable,
  Report,
  ReportHead,
  RunData,
  RunHead,
  ShownText,
  StepTexts,
} from '../report.js';
import { bytesOf, type Column, type ColumnType, fromPlanes, toPlanes, typeOf } from './byte-planes.js';

export const FORMAT = 'collapsar/report';
export const VERSION = 1;

type ColumnEntry = readonly [name: string, type: ColumnType, length: number];

interface RunEntry {
  readonly head: RunHead;
  readonly prompts?: Pick<PromptTable, 'ids' | 'reasons' | 'causes'>;
  readonly matrices: readonly Pick<Matrix, 'step' | 'source' | 'ids' | 'prompts'>[];
  /** Left out if there are none. */
  readonly gradients?: readonly GradientStep[];
  /** Missing in reports of before there were any. */
  readonly texts?: readonly TextsEntry[];
  readonly columns: readonly ColumnEntry[];
}

/** Places and nats of all tokens of a run are in two columns, one rollout after the other. */
type TextEntry = Omit<ShownText, 'places' | 'nats'> & { readonly shaded: number };
type TextsEntry = Omit<StepTexts, 'rollouts'> & { readonly rollouts: readonly TextEntry[] };

interface Head {
  readonly format: typeof FORMAT;
  readonly version: typeof VERSION;
  readonly report: ReportHead;
  readonly runs: readonly RunEntry[];
}

const PROMPT_COLUMNS = [
  ...(['step', 'prompt', 'rows', 'mi', 'miLow', 'miHigh', 'rewardMean', 'rewardStd'] as const),
  ...(['retrieval', 'kept', 'reason', 'cause'] as const),
];

/** Not compressed. */
export function encodeReport({ head, runs }: Report): Uint8Array {
  const planes: Uint8Array[] = [];
  const entries = runs.map((run): RunEntry => {
    const columns: ColumnEntry[] = [];
    const add = (name: string, column: Column): void => {
      columns.push([name, typeOf(column), column.length]);
      planes.push(toPlanes(column));
    };
    add('steps', run.steps);
    add('regimes', run.regimes);
    for (const [name, column] of Object.entries(run.figures)) add(`figure ${name}`, column);
    const { prompts } = run;
    if (prompts !== undefined) for (const name of PROMPT_COLUMNS) add(`prompt ${name}`, prompts[name]);
    run.matrices.forEach(({ posterior, nats }, at) => {
      add(`posterior ${at}`, posterior);
      add(`nats ${at}`, nats);
    });
    const rollouts = run.texts.flatMap((texts) => texts.rollouts);
    if (rollouts.length > 0) {
      // Small numbers, which compress well: how far each place is behind the one before.
      add(
        'text places',
        joined(rollouts.map(({ places }) => places.map((place, at) => place - (places[at - 1] ?? 0)))),
      );
      add('text nats', joined(rollouts.map(({ nats }) => nats)));
    }
    return {
      head: run.head,
      ...(prompts === undefined
        ? {}
        : { prompts: { ids: prompts.ids, reasons: prompts.reasons, causes: prompts.causes } }),
      matrices: run.matrices.map(({ step, source, ids, prompts }) => ({ step, source, ids, prompts })),
      ...(run.gradients.length > 0 && { gradients: run.gradients }),
      texts: run.texts.map((texts) => ({
        ...texts,
        rollouts: texts.rollouts.map(({ places, nats, ...rollout }) => ({ ...rollout, shaded: nats.length })),
      })),
      columns,
    };
  });
  const text = JSON.stringify({ format: FORMAT, version: VERSION, report: head, runs: entries } satisfies Head);
  const json = new TextEncoder().encode(text);
  const bytes = new Uint8Array(4 + json.length + planes.reduce((sum, { length }) => sum + length, 0));
  new DataView(bytes.buffer).setUint32(0, json.length, true);
  bytes.set(json, 4);
  let at = 4 + json.length;
  for (const plane of planes) {
    bytes.set(plane, at);
    at += plane.length;
  }
  return bytes;
}

/** @throws {Error} saying what these bytes are, if they are not a report that this version reads */
export function decodeReport(bytes: Uint8Array): Report {
  const { head, body } = readHead(bytes);
  let at = 0;
  const take = ([, type, length]: ColumnEntry): Column => {
    const from = at;
    at += length * bytesOf(type);
    if (at > body.length) throw new Error('This report is cut short: its columns end before they should.');
    return fromPlanes(type, body.subarray(from, at));
  };
  const runs = head.runs.map((entry): RunData => {
    const columns = new Map(entry.columns.map((column) => [column[0], take(column)]));
    const figures: Record<string, Float32Array> = {};
    for (const [name, column] of columns)
      if (name.startsWith('figure ')) figures[name.slice('figure '.length)] = column as Float32Array;
    const prompts =
      entry.prompts === undefined
        ? undefined
        : ({
            ...entry.prompts,
            ...Object.fromEntries(PROMPT_COLUMNS.map((name) => [name, columns.get(`prompt ${name}`)])),
          } as PromptTable);
    return {
      head: entry.head,
      steps: columns.get('steps') as Float64Array,
      regimes: columns.get('regimes') as Uint8Array,
      figures,
      prompts,
      matrices: entry.matrices.map((matrix, place) => ({
        ...matrix,
        posterior: columns.get(`posterior ${place}`) as Uint8Array,
        nats: columns.get(`nats ${place}`) as Uint16Array,
      })),
      gradients: entry.gradients ?? [],
      texts: textsFrom(entry.texts ?? [], columns),
    };
  });
  return { head: head.report, runs };
}

function joined(columns: readonly Uint16Array[]): Uint16Array {
  const all = new Uint16Array(columns.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const column of columns) {
    all.set(column, at);
    at += column.length;
  }
  return all;
}

function textsFrom(entries: readonly TextsEntry[], columns: ReadonlyMap<string, Column>): StepTexts[] {
  const places = (columns.get('text places') ?? new Uint16Array()) as Uint16Array;
  const nats = (columns.get('text nats') ?? new Uint16Array()) as Uint16Array;
  let at = 0;
  return entries.map(({ rollouts, ...texts }) => ({
    ...texts,
    rollouts: rollouts.map(({ shaded, ...rollout }): ShownText => {
      const from = at;
      at += shaded;
      let place = 0;
      return {
        ...rollout,
        places: places.slice(2 * from, 2 * at).map((step) => (place += step)),
        nats: nats.slice(from, at),
      };
    }),
  }));
}

function readHead(bytes: Uint8Array): { head: Head; body: Uint8Array } {
  const length = bytes.length < 4 ? 0 : new DataView(bytes.buffer, bytes.byteOffset).getUint32(0, true);
  if (length === 0 || 4 + length > bytes.length) throw new Error('These bytes are no report of collapsar.');
  const head = JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + length))) as Head;
  if (head.format !== FORMAT) throw new Error('These bytes are no report of collapsar.');
  if (head.version !== VERSION) {
    throw new Error(
      `This report is of version ${head.version}; this page reads version ${VERSION}: make it again with this collapsar.`,
    );
  }
  return { head, body: bytes.subarray(4 + length) };
}
