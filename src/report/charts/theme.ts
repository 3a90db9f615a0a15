// Colours by meaning, for light and dark. Okabe and Ito's, which colour-blind readers can distinguish;
// no meaning depends on colour only.

export interface Theme {
  readonly name: 'light' | 'dark';
  readonly font: string;
  readonly surface: string;
  readonly text: string;
  readonly muted: string;
  readonly grid: string;
  readonly mi: string;
  readonly entropy: string;
  readonly retrieval: string;
  readonly reward: string;
  readonly chance: string;
  /** Guide lines that figures are held against. */
  readonly guide: string;
  readonly critical: string;
  readonly warning: string;
  readonly info: string;
  readonly regimes: Readonly<Record<string, string>>;
  /** Runs side by side. */
  readonly runs: readonly string[];
}

/** Without quotes, as attributes of SVG contain it. */
const FONT = 'system-ui, -apple-system, Segoe UI, Roboto, Helvetica Neue, Arial, sans-serif';

export const LIGHT: Theme = {
  name: 'light',
  font: FONT,
  surface: '#ffffff',
  text: '#1b1f24',
  muted: '#57606a',
  grid: '#e7eaee',
  mi: '#0072b2',
  entropy: '#b86e00',
  retrieval: '#00795a',
  reward: '#8a4a78',
  chance: '#6e7781',
  guide: '#6e7781',
  critical: '#b3261e',
  warning: '#b86e00',
  info: '#57606a',
  regimes: {
    diverse: '#9ad5c1',
    template_collapse: '#f0a078',
    compressed: '#a9d7f2',
    low_entropy_collapse: '#dfb0cd',
  },
  runs: ['#0072b2', '#d55e00', '#009e73', '#cc79a7', '#b58900', '#56b4e9', '#1b1f24', '#7f7f7f'],
};

export const DARK: Theme = {
  name: 'dark',
  font: FONT,
  surface: '#14181d',
  text: '#e6e9ed',
  muted: '#a3adb8',
  grid: '#2a3038',
  mi: '#56b4e9',
  entropy: '#e69f00',
  retrieval: '#35c79c',
  reward: '#dc9cc0',
  chance: '#a3adb8',
  guide: '#8b949e',
  critical: '#ff8a80',
  warning: '#e69f00',
  info: '#a3adb8',
  regimes: {
    diverse: '#1d5c4b',
    template_collapse: '#8f4420',
    compressed: '#235877',
    low_entropy_collapse: '#74476a',
  },
  runs: ['#56b4e9', '#ff8f4a', '#35c79c', '#dc9cc0', '#f0e442', '#8ecbf2', '#e6e9ed', '#9aa3ad'],
};

/** Of a state: no meaning hangs on its colour. */
export const LETTERS: Readonly<Record<string, string>> = {
  diverse: 'D',
  template_collapse: 'T',
  compressed: 'C',
  low_entropy_collapse: 'L',
};
