// Every reader of rollouts, a folder each. Written by `npx vitest run test/logs/rollouts/readers.test.ts -u`.
import type { RolloutFormat } from '../format.js';
import { reader as areal } from './areal/reader.js';
import { reader as art } from './art/reader.js';
import { reader as artTable } from './art-table/reader.js';
import { reader as atif } from './atif/reader.js';
import { reader as atropos } from './atropos/reader.js';
import { reader as chats } from './chats/reader.js';
import { reader as generations } from './generations/reader.js';
import { reader as inspect } from './inspect/reader.js';
import { reader as lmEval } from './lm-eval/reader.js';
import { reader as miles } from './miles/reader.js';
import { reader as msSwift } from './ms-swift/reader.js';
import { reader as nemoGym } from './nemo-gym/reader.js';
import { reader as nemoRl } from './nemo-rl/reader.js';
import { reader as openInstruct } from './open-instruct/reader.js';
import { reader as passAtK } from './pass-at-k/reader.js';
import { reader as primeRl } from './prime-rl/reader.js';
import { reader as primeRlTokens } from './prime-rl-tokens/reader.js';
import { reader as ragen } from './ragen/reader.js';
import { reader as rllm } from './rllm/reader.js';
import { reader as roll } from './roll/reader.js';
import { reader as rollouts } from './rollouts/reader.js';
import { reader as skyrl } from './skyrl/reader.js';
import { reader as texts } from './texts/reader.js';
import { reader as tinker } from './tinker/reader.js';
import { reader as tinkerLogtree } from './tinker-logtree/reader.js';
import { reader as trl } from './trl/reader.js';
import { reader as verifiers } from './verifiers/reader.js';
import { reader as verl } from './verl/reader.js';
import { reader as wandbTable } from './wandb-table/reader.js';

export const FORMATS: readonly RolloutFormat[] = [
  areal,
  art,
  artTable,
  atif,
  atropos,
  chats,
  generations,
  inspect,
  lmEval,
  miles,
  msSwift,
  nemoGym,
  nemoRl,
  openInstruct,
  passAtK,
  primeRl,
  primeRlTokens,
  ragen,
  rllm,
  roll,
  rollouts,
  skyrl,
  texts,
  tinker,
  tinkerLogtree,
  trl,
  verifiers,
  verl,
  wandbTable,
];
