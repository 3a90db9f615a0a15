// Combines a measured step and its judgement into what is known of each prompt and of each pair of prompts.
import type { Judgement } from '../../verdicts/index.js';
import type { PromptTriage, TriageCause } from '../../verdicts/prompt-triage.js';
import type { GroupName, GroupNames, PromptMeasurement, PromptSource } from './prompt-measurement.js';

/** One prompt of a step. */
export interface PromptReport {
  /** Id of its group, as the file or the log has it. */
  readonly prompt: string;
  /** Rows that `mi` is the mean over; 0 if there is no `mi`. */
  readonly rows: number;
  /** I(X;Z) of this prompt's rows, nats a response, with its 95% batch interval; null if there is none. */
  readonly mi: number | null;
  readonly miLow: number | null;
  readonly miHigh: number | null;
  /** Share of its rows whose best prompt it is. */
  readonly retrieval: number | null;
  /** Of its episodes' rewards, the standard deviation with ddof 1; null if there are fewer than two finite ones. */
  readonly rewardMean: number | null;
  readonly rewardStd: number | null;
  /** Whether the filter keeps it, and why not; null without rewards. */
  readonly kept: boolean | null;
  readonly dropReason: string | null;
  /** Why its rewards vary or do not. */
  readonly cause: TriageCause | null;
}

/** A matrix as journals keep it: bytes in base64. */
export interface EncodedMatrix {
  readonly source: PromptSource;
  readonly ids: readonly string[];
  readonly posterior: string;
  readonly nats: string;
}

/** Scores of the rows of each prompt under every prompt. Bytes are decoded when they are first asked for. */
export class PromptMatrix {
  #posterior: Uint8Array | undefined;
  #nats: Uint16Array | undefined;

  /** @internal */
  constructor(readonly encoded: EncodedMatrix) {}

  /** What the figures are made of. */
  get source(): PromptSource {
    return this.encoded.source;
  }

  /** The P prompts of rows and columns. */
  get ids(): readonly string[] {
    return this.encoded.ids;
  }

  /** [P·P] row i, column p: mean over the rows of prompt i of the posterior of p; 255 is 1. */
  get posterior(): Uint8Array {
    this.#posterior ??= Uint8Array.from(Buffer.from(this.encoded.posterior, 'base64'));
    return this.#posterior;
  }

  /** [P·P] float16 bit patterns: mean over the rows of prompt i of their log-prob under p − their marginal; nats. */
  get nats(): Uint16Array {
    // Of its own memory, which 16 bits are aligned in.
    this.#nats ??= new Uint16Array(Uint8Array.from(Buffer.from(this.encoded.nats, 'base64')).buffer);
    return this.#nats;
  }
}

export interface PromptFindings {
  readonly prompts?: readonly PromptReport[];
  readonly matrix?: PromptMatrix;
}

/** What is known of a step's prompts before they are named and judged. */
export interface MeasuredPrompts {
  readonly prompts?: PromptMeasurement | undefined;
  /** What the group numbers of `reading` stand for, where they are none of the step's. */
  readonly groupNames?: GroupNames | undefined;
  readonly reading?:
    | { readonly prompts: readonly Pick<PromptTriage, 'group' | 'rewardMean' | 'rewardStd'>[] }
    | undefined;
  readonly filter?:
    | {
        readonly kept: readonly GroupName[];
        readonly dropped: readonly { readonly group: GroupName; readonly reason: string }[];
      }
    | undefined;
}

/** Prompts in the order of the figures, then those that only rewards tell of. */
export function promptFindings(
  { prompts: measured, groupNames, reading, filter }: MeasuredPrompts,
  judgement: Judgement | undefined,
): PromptFindings {
  if (measured === undefined) return {};
  const nameOf = (group: GroupName): string => groupNames?.names[Number(group)] ?? String(group);
  const filteredAs = groupNames?.inFilter === false ? String : nameOf;
  const rewards = new Map(reading?.prompts.map((prompt) => [nameOf(prompt.group), prompt]));
  const causes = new Map(judgement?.triage.map(({ group, cause }) => [nameOf(group), cause]));
  const kept = new Map<string, string | null>(filter?.kept.map((group) => [filteredAs(group), null]));
  for (const { group, reason } of filter?.dropped ?? []) kept.set(filteredAs(group), reason);
  const place = new Map(measured.ids.map((id, at) => [id, at]));
  const ids = new Set([...measured.ids, ...rewards.keys(), ...kept.keys()]);
  const prompts = [...ids].map((prompt): PromptReport => {
    const at = place.get(prompt);
    const of = (figures: readonly number[]): number | null => finiteOrNull(at === undefined ? undefined : figures[at]);
    const { rewardMean, rewardStd } = rewards.get(prompt) ?? {};
    const reason = kept.get(prompt);
    return {
      prompt,
      rows: of(measured.rows) ?? 0,
      mi: of(measured.mi),
      miLow: of(measured.low),
      miHigh: of(measured.high),
      retrieval: of(measured.retrieval),
      rewardMean: finiteOrNull(rewardMean),
      rewardStd: finiteOrNull(rewardStd),
      kept: reason === undefined ? null : reason === null,
      dropReason: reason ?? null,
      cause: causes.get(prompt) ?? null,
    };
  });
  const matrix = matrixOf(measured);
  return { prompts, ...(matrix && { matrix }) };
}

function finiteOrNull(figure: number | undefined): number | null {
  return figure !== undefined && Number.isFinite(figure) ? figure : null;
}

function matrixOf({ source, ids, posterior, nats }: PromptMeasurement): PromptMatrix | undefined {
  if (source === undefined || posterior === undefined || nats === undefined) return undefined;
  return new PromptMatrix({ source, ids, posterior, nats });
}
