// Judges how much the reasoning depends on its prompt from the figures of one instrument (cross-scores or texts):
// regime and verdicts.
import { fields, kept } from '../checks/saved.js';
import type { RegimeReading } from './judgement.js';
import type { RunLevel } from './levels/run-level.js';
import { START_STEPS } from './levels/run-level.js';
import type { StepLevels } from './levels/step-levels.js';
import { Regimes, regimesShape } from './regimes.js';
import { levelBelow } from './statistics/present-level.js';
import type { Finding, VerdictKind } from './verdict.js';
import { DependenceLower, dependenceLowerShape } from './warnings/dependence-lower.js';
import { entropyGaming } from './warnings/entropy-gaming.js';
import { InputAgnostic, inputAgnosticShape } from './warnings/input-agnostic.js';
import { MarginFalling, marginFallingShape } from './warnings/margin-falling.js';
import { MiFalling, miFallingShape } from './warnings/mi-falling.js';
import { MiOvershoot, miOvershootShape } from './warnings/mi-overshoot.js';
import { ScoresMismatched, scoresMismatchedShape } from './warnings/scores-mismatched.js';
import { StartFalling, startFallingShape } from './warnings/start-falling.js';

export const promptDependenceFields = {
  regimes: regimesShape,
  inputAgnostic: inputAgnosticShape,
  scoresMismatched: scoresMismatchedShape,
  startFalling: startFallingShape,
  marginFalling: marginFallingShape,
  miFalling: miFallingShape,
  miOvershoot: miOvershootShape,
  dependenceLower: dependenceLowerShape,
};
export const promptDependenceShape = fields(promptDependenceFields);

/** Kinds that a regime decides. */
const REGIME_KINDS: readonly VerdictKind[] = ['template_collapse', 'low_entropy_collapse', 'compressed'];

/** Kinds that rest on scores which belong to their rows. */
const DEPENDENCE_KINDS: readonly VerdictKind[] = [
  ...REGIME_KINDS,
  'input_agnostic',
  'start_falling',
  'margin_falling',
  'mi_falling',
  'mi_overshoot',
  'entropy_gaming',
  'dependence_lower',
];

/** A fall of I(X;Z) from its start as unlikely as this by chance is one. */
const FALL_LEVEL = 0.05;

/** What a step came to. */
export interface DependenceStep {
  readonly reading: RegimeReading;
  readonly findings: readonly Finding[];
  /** Kinds that the step had evidence on. */
  readonly judged: readonly VerdictKind[];
  /** What must be known of what steps are compared with from now on. */
  readonly notes?: readonly string[];
}

export class PromptDependence extends kept(promptDependenceShape) {
  readonly regimes = new Regimes(this.state.regimes);
  readonly #inputAgnostic = new InputAgnostic(this.state.inputAgnostic);
  readonly #scoresMismatched = new ScoresMismatched(this.state.scoresMismatched);
  readonly #startFalling = new StartFalling(this.state.startFalling);
  readonly #marginFalling = new MarginFalling(this.state.marginFalling);
  readonly #miFalling = new MiFalling(this.state.miFalling);
  readonly #miOvershoot = new MiOvershoot(this.state.miOvershoot);
  readonly #dependenceLower = new DependenceLower(this.state.dependenceLower);

  /** Whether any step has been read. */
  get hasSteps(): boolean {
    return this.regimes.mi.steps > 0 || this.#scoresMismatched.isSeen;
  }

  /** Whether the run's start, which later steps are compared with, is still to come. */
  get isStarting(): boolean {
    return this.regimes.mi.steps < START_STEPS;
  }

  /** @param success of the run's steps so far */
  read(step: number, levels: StepLevels, success: RunLevel): DependenceStep {
    const findings: Finding[] = [];
    const judged = new Set<VerdictKind>(REGIME_KINDS);
    const say = (kind: VerdictKind, found: Finding | undefined): void => {
      judged.add(kind);
      if (found !== undefined) findings.push(found);
    };
    const { instrument, tests } = levels;
    const isScored = instrument.source === 'scores';
    if (isScored) {
      say('scores_mismatched', this.#scoresMismatched.look(step, levels));
      if (this.#scoresMismatched.isDoubtful) {
        const reason =
          'I(X;Z) is below 0, which no policy makes of what it samples: the scores are not those of the rows';
        // Said once it is sure; one such step leaves what was said before as it was.
        const all = findings.length > 0 ? DEPENDENCE_KINDS : [];
        return { reading: this.regimes.unread(step, reason), findings, judged: ['scores_mismatched', ...all] };
      }
    }
    const { mi: compared, reading, finding } = this.regimes.read(step, levels);
    const isCollapse = finding !== undefined && finding.kind !== 'compressed';
    if (finding !== undefined) findings.push(finding);
    say('input_agnostic', this.#inputAgnostic.look(step, levels, compared.followed.level));
    this.#marginFalling.add(step, levels);
    const { level } = compared.followed;
    const { mi, entropy } = this.regimes;
    const { level: margin } = this.#marginFalling;
    const startFalls = this.#startFalling.look(mi, margin, entropy, instrument, tests);
    if (isCollapse) {
      // It says more than a warning; when it is over, only new evidence may warn again.
      const warnings = [this.#startFalling, this.#marginFalling, this.#miFalling, this.#miOvershoot];
      for (const warning of warnings) warning.forget();
      for (const kind of ['start_falling', 'margin_falling', 'mi_falling', 'mi_overshoot'] as const) judged.add(kind);
    } else {
      say('start_falling', startFalls);
      const isBelow = level.comparable && levelBelow(level, level.start) <= FALL_LEVEL;
      if (levels.margin !== null) say('margin_falling', this.#marginFalling.look(levels, isBelow));
      if (compared.comparison !== null) {
        const { at, followed } = compared;
        const fall = isScored ? undefined : { at, errors: followed.errors, specificity: margin };
        say('mi_falling', this.#miFalling.look(level, entropy, instrument, fall, tests));
        // A bound rises and falls with the length and the words of the texts, too.
        if (isScored && this.#miOvershoot.canTell(at.prompts)) {
          say('mi_overshoot', this.#miOvershoot.look(step, level, at.prompts, entropy, tests));
        }
      }
    }
    const lower = this.#dependenceLower.look(step, levels, entropy);
    if (lower !== null) say('dependence_lower', lower.finding);
    // What siblings do not share measures variety, but is not an entropy: it has a ceiling.
    if (compared.comparison !== null && instrument.entropy === 'H(Z|X)') {
      say('entropy_gaming', entropyGaming(level, entropy, success));
    }
    return { reading, findings, judged: [...judged] };
  }
}
