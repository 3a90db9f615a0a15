// Glyph, letter and colour of regimes and verdicts, one table each: no meaning depends on colour only.
import type { Regime, Severity } from '../../../verdicts/index.js';
import type { Look, Style } from '../text-style.js';

/** Most severe first. `ended`: an alarm that no longer holds; `unjudged`: a profile without verdicts. */
export const GRADES = ['critical', 'warning', 'ended', 'unknown', 'unjudged', 'fine'] as const;
export type Grade = (typeof GRADES)[number];

interface Mark {
  readonly unicode: string;
  readonly ascii: string;
  readonly style: Style;
}

const MARKS: Readonly<Record<Grade | Severity, Mark>> = {
  critical: { unicode: '✖', ascii: 'x', style: 'red' },
  warning: { unicode: '▲', ascii: '!', style: 'yellow' },
  info: { unicode: '·', ascii: '-', style: 'dim' },
  ended: { unicode: '△', ascii: '~', style: 'yellow' },
  unknown: { unicode: '○', ascii: '?', style: 'dim' },
  unjudged: { unicode: '○', ascii: '?', style: 'dim' },
  fine: { unicode: '●', ascii: 'o', style: 'green' },
};

export function glyph(of: Grade | Severity, { unicode }: Pick<Look, 'unicode'>): string {
  return unicode ? MARKS[of].unicode : MARKS[of].ascii;
}

export const styleOf = (of: Grade | Severity): Style => MARKS[of].style;

export const paintedGlyph = (of: Grade | Severity, look: Look): string => look.paint(styleOf(of), glyph(of, look));

interface StateMark {
  readonly letter: string | undefined;
  readonly style?: Style | undefined;
  /** A state that its verdict, when it is sure, calls an alarm. */
  readonly isAlarming?: boolean;
}

const STATES: Readonly<Record<Regime, StateMark>> = {
  diverse: { letter: 'D' },
  template_collapse: { letter: 'T', style: 'red', isAlarming: true },
  compressed: { letter: 'C', style: 'yellow' },
  low_entropy_collapse: { letter: 'L', style: 'red', isAlarming: true },
};

/** The mark of a step's or a run's regime; without a letter where it is not known. */
export function stateMark(regime: Regime | null | undefined): StateMark {
  return regime == null ? { letter: undefined } : STATES[regime];
}

/** A kind or a regime, as words in a sentence. */
export const inWords = (name: string): string => name.replaceAll('_', ' ');
