// Holds a step's figures per prompt as plain data, for journals and the states of shards.
import type { TextPrompts } from '../../engine/operations/texts/text-prompts.js';
import type { PerPrompt } from '../../metrics/step-metrics.js';

/** How a log names a group; what no number holds exactly, and names that are none, as text. */
export type GroupName = number | bigint | string;

/** What the figures are made of. */
export type PromptSource = 'scores' | 'texts';

/** Every list has an entry a prompt, P; those of figures are empty if there are none. */
export interface PromptMeasurement {
  /** Missing if there are no figures: fewer than two prompts, or no text. */
  readonly source?: PromptSource;
  /** As the file or the log names them. */
  readonly ids: readonly string[];
  /** Rows that the figures are means over. */
  readonly rows: readonly number[];
  /** Nats a response; NaN if there is none. */
  readonly mi: readonly number[];
  /** 95% batch interval. */
  readonly low: readonly number[];
  readonly high: readonly number[];
  readonly retrieval: readonly number[];
  /**
   * [P·P] uint8 and little-endian float16, as engine.promptMatrices gives them: base64. Missing of too many prompts.
   */
  readonly posterior?: string;
  readonly nats?: string;
}

/**
 * @param perPrompt undefined if there are no metrics
 * @param groups id of each column of the scores
 */
export function promptsOfScores(perPrompt: PerPrompt | undefined, groups: ArrayLike<GroupName>): PromptMeasurement {
  if (perPrompt === undefined) return promptsWithout(Array.from(groups, String));
  const { column, rows, mi, low, high, retrieval, posterior, nats } = perPrompt;
  return {
    source: 'scores',
    ids: Array.from(column, (at) => String(groups[at])),
    rows: [...rows],
    mi: [...mi],
    low: [...low],
    high: [...high],
    retrieval: [...retrieval],
    ...(posterior && { posterior: base64Of(posterior) }),
    ...(nats && { nats: base64Of(nats) }),
  };
}

/** Of a log's groups, by number. */
export interface GroupNames {
  readonly names: readonly string[];
  /** Whether `filter` has such numbers, too, in place of names. */
  readonly inFilter: boolean;
}

/** @param nameOf what a group is called */
export function promptsOfTexts(
  { groups, rows, mi, retrieval, posterior, nats }: TextPrompts,
  nameOf: (group: string) => string,
): PromptMeasurement {
  // Of texts there is no interval for one prompt: rows tell of their prompt only together.
  const none = groups.map(() => Number.NaN);
  return {
    source: 'texts',
    ids: groups.map(nameOf),
    rows: [...rows],
    mi: [...mi],
    low: none,
    high: none,
    retrieval: [...retrieval],
    ...(posterior && { posterior: base64Of(posterior) }),
    ...(nats && { nats: base64Of(nats) }),
  };
}

/** Of a step whose scores or texts give no figures. */
function promptsWithout(ids: readonly string[]): PromptMeasurement {
  return { ids, rows: ids.map(() => 0), mi: [], low: [], high: [], retrieval: [] };
}

function base64Of({ buffer, byteOffset, byteLength }: Uint8Array | Uint16Array): string {
  return Buffer.from(buffer, byteOffset, byteLength).toString('base64');
}
