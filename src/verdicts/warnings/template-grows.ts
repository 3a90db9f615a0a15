// The template itself: phrases that most prompts share take over the texts.

import { percent } from '../../checks/numbers.js';
import { kept } from '../../checks/saved.js';
import type { MeasuredPhrase, TextMetrics } from '../../metrics/text-metrics.js';
import { RisenLevel, risenLevelShape } from '../levels/risen-level.js';
import type { Finding } from '../verdict.js';

export const templateGrowsShape = risenLevelShape;

/** Twice its start, and more than this share of the texts. */
const [TIMES, LEAST] = [2, 0.3];

/** Phrases that a verdict shows, and characters of each. */
const MOST_SHOWN = 3;
const MOST_CHARACTERS = 80;

export class TemplateGrows extends kept(templateGrowsShape) {
  readonly #share = new RisenLevel(TIMES, LEAST, this.state);

  look(step: number, { values, phrases }: TextMetrics): Finding | undefined {
    const { template_share: share, prompts_used: prompts = 0 } = values;
    if (share === undefined) return undefined;
    this.#share.add(step, share, prompts);
    const since = this.#share.risenSince;
    if (since === undefined) return undefined;
    const { start } = this.#share.level;
    const shown = phrases.slice(0, MOST_SHOWN);
    return {
      kind: 'template_grows',
      severity: 'info',
      since,
      evidence: {
        templateShare: share,
        templateShareStart: start,
        ...Object.fromEntries(shown.map(({ text }, at) => [`phrase${at + 1}`, text])),
        ...Object.fromEntries(shown.map((phrase, at) => [`phrase${at + 1}Share`, phrase.share])),
      },
      advice:
        'Read the phrases: a form that a reward asks for is harmless, reasoning that says the same to every prompt is not.',
      now: `such phrases make up ${percent(share)}`,
      sentence:
        `Phrases that most prompts share make up ${percent(share)} of the text, ${percent(start)} at the start; so since step ` +
        `${since}${shown.length === 0 ? '' : `: ${shown.map(phraseWords).join(', ')}`}.`,
    };
  }
}

/** `“to find the” (12%, 1% at the run's first step)` */
function phraseWords({ text, share, shareAtFirstStep }: MeasuredPhrase): string {
  const characters = [...text];
  const cut = characters.length > MOST_CHARACTERS ? `${characters.slice(0, MOST_CHARACTERS).join('')}…` : text;
  const before = shareAtFirstStep === undefined ? '' : `, ${percent(shareAtFirstStep)} at the run's first step`;
  return `“${cut}” (${percent(share)}${before})`;
}
