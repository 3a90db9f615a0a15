// Converts rollouts of a step from its report or texts.parquet to the form that the page shows.
import type { StepExcerpts } from '../../step/prompts/excerpts.js';
import type { ShownText, StepTexts } from '../report.js';

export function textsOfReport(step: number, { rows, rollouts }: StepExcerpts): StepTexts {
  return {
    step,
    rows,
    rollouts: rollouts.map(({ places, nats, ...rollout }) => ({
      ...rollout,
      places: uint16sOf(Buffer.from(places, 'base64')),
      nats: uint16sOf(Buffer.from(nats, 'base64')),
    })),
  };
}

/** A row of texts.parquet. */
export function textOfRow(row: Readonly<Record<string, unknown>>): ShownText {
  const number = (value: unknown): number | null => (typeof value === 'number' ? value : null);
  return {
    row: Number(row.row),
    group: String(row.group),
    prompt: typeof row.prompt === 'string' ? row.prompt : null,
    promptLength: Number(row.prompt_length),
    reasoning: String(row.reasoning),
    length: Number(row.reasoning_length),
    reward: number(row.reward),
    specificity: number(row.specificity),
    tokens: Number(row.tokens),
    places: uint16sOf(row.token_places as Uint8Array),
    nats: uint16sOf(row.token_nats as Uint8Array),
  };
}

/** Little-endian, at any alignment. */
function uint16sOf(bytes: Uint8Array): Uint16Array {
  return Uint16Array.from({ length: bytes.length >> 1 }, (_, at) => {
    return (bytes[2 * at] as number) | ((bytes[2 * at + 1] as number) << 8);
  });
}
