// Merges the findings of the whole run and of each environment into one per kind, which names its environments.
import { printable } from '../../checks/words.js';
import type { Finding, VerdictKind } from '../verdict.js';
import { GRAVITY } from '../verdict-log.js';

/** Names that a sentence lists at most; the verdict has all of them. */
const NAMES_SHOWN = 8;

/** Kinds that say of a run as a whole that dependence is lost: they name the environments that have lost half. */
const LOSSES: ReadonlySet<VerdictKind> = new Set([
  'template_collapse',
  'low_entropy_collapse',
  'dependence_lower',
  'input_agnostic',
  'start_falling',
  'margin_falling',
  'mi_falling',
]);

export interface FoundInEnvironments {
  /** Of the run as a whole. */
  readonly pooled: readonly Finding[];
  readonly each: ReadonlyMap<string, readonly Finding[]>;
  /** Environments that have surely lost half of their start. */
  readonly halved: readonly string[];
  /** Environments of the step. */
  readonly total: number;
}

export function environmentFindings(step: number, { pooled, each, halved, total }: FoundInEnvironments): Finding[] {
  const kinds = new Set([...pooled, ...[...each.values()].flat()].map(({ kind }) => kind));
  return [...kinds].map((kind) => {
    const ofRun = pooled.find((finding) => finding.kind === kind);
    const ofEach = [...each].flatMap(([name, findings]) => {
      const finding = findings.find((one) => one.kind === kind);
      return finding === undefined ? [] : [{ name, finding }];
    });
    const named = ofEach.map(({ name }) => name);
    const lost = ofRun !== undefined && LOSSES.has(kind) ? halved : [];
    const names = [...new Set([...named, ...lost])].sort((a, b) => (a < b ? -1 : 1));
    const all = [...(ofRun === undefined ? [] : [ofRun]), ...ofEach.map(({ finding }) => finding)];
    const gravest = all.reduce((worst, one) => (gravityOf(one) > gravityOf(worst) ? one : worst));
    const since = Math.min(...all.map((one) => one.since));
    if (names.length === 0) return { ...gravest, since };
    const speaker = ofEach.find(({ finding }) => finding === gravest);
    // An environment that the step does not have speaks by the figures it last had.
    const earlier = gravest.of === undefined || gravest.of === step ? '' : `, at step ${gravest.of}`;
    const detail =
      speaker === undefined ? gravest.sentence : `In ${printable(speaker.name)}${earlier}: ${gravest.sentence}`;
    const words = kind.replaceAll('_', ' ');
    const count = `${names.length} of ${Math.max(total, names.length)} environments`;
    return {
      ...gravest,
      since,
      ...(ofRun === undefined && names.length === 1 ? { environment: names[0] as string } : { environments: names }),
      evidence: {
        ...gravest.evidence,
        environmentsNamed: names.length,
        environmentsTotal: Math.max(total, names.length),
      },
      ...(gravest.now !== undefined &&
        speaker !== undefined && { now: `in ${printable(speaker.name)} ${gravest.now}` }),
      sentence: `${words.slice(0, 1).toUpperCase()}${words.slice(1)} in ${count} (${listOf(names)}) since step ${since}. ${detail}`,
    };
  });
}

const gravityOf = ({ severity }: Finding): number => GRAVITY.indexOf(severity);

export function listOf(names: readonly string[]): string {
  const shown = names.slice(0, NAMES_SHOWN).map(printable);
  const more = names.length - shown.length;
  return more > 0 ? `${shown.join(', ')} and ${more} more` : shown.join(', ');
}
