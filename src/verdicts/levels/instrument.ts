// Names the instrument of a step's figures, cross-scores or only texts, and its words in sentences.

export interface Instrument {
  readonly source: 'scores' | 'texts';
  /** I(X;Z). */
  readonly mi: string;
  /** How varied the reasoning is for one prompt. */
  readonly entropy: string;
  /** The unit of `entropy`, with a space before it, or nothing. */
  readonly entropyUnit: string;
  /** The figure that has no ceiling, and its unit. */
  readonly margin: string;
  readonly marginUnit: string;
  /** At the end of a sentence, with a space before it: how sure the instrument is. */
  readonly remark: string;
}

export const CROSS_SCORES: Instrument = {
  source: 'scores',
  mi: 'I(X;Z)',
  entropy: 'H(Z|X)',
  entropyUnit: ' nats a token',
  margin: 'The contrastive margin, by how much a response is likelier under its own prompt than under others,',
  marginUnit: 'nats a response',
  remark: '',
};

const TEXTS = {
  source: 'texts',
  mi: 'the text bound of I(X;Z)',
  margin: 'Specificity, by how much a text fits its own prompt better than others,',
  marginUnit: 'nats a feature',
  remark: ' Measured on texts alone, by a lower bound.',
} as const;

/** With the log-probs of the sampled tokens. */
export const TEXTS_AND_LOGPROBS: Instrument = { ...TEXTS, entropy: 'H(Z|X)', entropyUnit: ' nats a token' };

/** Texts tell variety by what siblings do not share. */
export const TEXTS_ALONE: Instrument = { ...TEXTS, entropy: 'sibling novelty', entropyUnit: '' };
