// Every format that is read, and those that are not.
import type { RolloutFormat } from '../format.js';
import { areal } from './areal.js';
import { art } from './art.js';
import { nemoRl } from './nemo-rl.js';
import { openInstruct } from './open-instruct.js';
import { rollouts } from './own.js';
import { primeRl } from './prime-rl.js';
import { primeRlTokens } from './prime-rl-tokens.js';
import { ragen } from './ragen.js';
import { roll } from './roll.js';
import { skyrl } from './skyrl.js';
import { texts } from './texts.js';
import { tinker } from './tinker.js';
import { trl } from './trl.js';
import { verifiers } from './verifiers.js';
import { verl } from './verl.js';

export const FORMATS: readonly RolloutFormat[] = [
  verl,
  trl,
  primeRl,
  primeRlTokens,
  nemoRl,
  skyrl,
  areal,
  roll,
  openInstruct,
  tinker,
  ragen,
  verifiers,
  art,
  texts,
  rollouts,
];

/** Pickles run code when they are loaded: slime's and SkyRL's tensors, RAGEN's and verl's batches. */
export const PICKLED = /\.(pt|pth|pkl|pickle)$/;

export const PICKLED_ADVICE =
  'a pickle runs code when it is loaded, so it is not read here: the Python package writes it as Parquet (collapsar export)';
