// A run whose first steps fall already: said at once, and later steps are compared with the highest level among the
// first ones.

import { figure, percent } from '../../checks/numbers.js';
import { count, fields, kept, nullable, oneOf, type Shaped } from '../../checks/saved.js';
import type { Instrument } from '../levels/instrument.js';
import type { MiLevels } from '../levels/mi-levels.js';
import { type RunLevel, START_STEPS, START_WINDOW } from '../levels/run-level.js';
import { fallsFromStart } from '../levels/start-fall.js';
import { HEALTHY_SHARE } from '../statistics/present-level.js';
import type { Finding } from '../verdict.js';

/** Number of latest steps whose mean is the present level. */
const PRESENT_STEPS = 2;

const foundShape = nullable(fields({ since: count, figure: oneOf('mi', 'margin') }));
type Found = Shaped<typeof foundShape>;

/** What is said; null while nothing is. */
export const startFallingShape = fields({ found: foundShape });

export class StartFalling extends kept(startFallingShape) {
  /** After the step's values were added. */
  look(mi: MiLevels, margin: RunLevel, entropy: RunLevel, instrument: Instrument, tests = 1): Finding | undefined {
    const ofMi = mi.fullest;
    if (ofMi === undefined) return undefined;
    this.state.found ??= this.#found(mi, ofMi, margin, entropy, tests);
    const { found } = this.state;
    if (found === null) return undefined;
    const level = found.figure === 'mi' ? ofMi : margin;
    const now = level.recentMean(PRESENT_STEPS);
    if (now < HEALTHY_SHARE * level.start) return startFalling(found, level, now, instrument);
    this.state.found = null;
    return undefined;
  }

  /** A collapse says more. */
  forget(): void {
    this.state.found = null;
  }

  #found(mi: MiLevels, ofMi: RunLevel, margin: RunLevel, entropy: RunLevel, tests: number): Found {
    if (mi.steps < START_STEPS || mi.steps > START_WINDOW || ofMi.fallsFromStart) return null;
    // Where entropy falls as well, I(X;Z) may have to.
    const [first] = entropy.first as readonly [number];
    if (entropy.recentMean(PRESENT_STEPS) < HEALTHY_SHARE * first) return null;
    const figure = fallsFromStart(ofMi, tests) ? 'mi' : fallsFromStart(margin, tests) ? 'margin' : null;
    if (figure === null) return null;
    for (const { level } of mi.all) level.noteFallFromStart();
    margin.noteFallFromStart();
    const { recent } = figure === 'mi' ? ofMi : margin;
    return { since: recent.reduce((top, entry) => (entry.value >= top.value ? entry : top)).step, figure };
  }
}

function startFalling(
  { since, figure: of }: NonNullable<Found>,
  level: RunLevel,
  now: number,
  { source, mi, marginUnit, remark }: Instrument,
): Finding {
  const isMi = of === 'mi';
  const margin = source === 'scores' ? 'the contrastive margin of I(X;Z)' : 'the specificity of the texts';
  const name = isMi ? mi : margin;
  return {
    kind: 'start_falling',
    severity: 'warning',
    since,
    evidence: { figure: of, recent: now, start: level.start, share: now / level.start },
    advice:
      'The first steps are no start to compare with: go back to a checkpoint from before the run, and train on prompts with ' +
      'high reward variance only, with a lower learning rate or entropy bonus.',
    now: `${name} is ${figure(now)}, ${percent(now / level.start)} of that level`,
    sentence:
      `From the run's first steps on, ${name} falls: it is ${figure(now)} ${isMi ? 'nats a response' : marginUnit}, ${percent(now / level.start)} of ` +
      `its highest level there (${figure(level.start)}), which later steps are compared with.${remark}`,
  };
}
