// The command line -> what to run. Every mistake is answered with what to write instead.
import { parseArgs } from 'node:util';
import { DEFAULTS } from './training-run.js';

export const USAGE = `Trains a tiny policy with GRPO, without and with the variance filter, and watches its reasoning.

  npm run trainer -- [options]

  --filter off|on|both   train without the filter, with it, or both, one after the other   (both)
           random        train on as many prompts as it would keep, but any: the control
  --steps N              updates of each run                                               (${DEFAULTS.steps})
  --seed N               everything random comes from it                                   (${DEFAULTS.seed})
  --every N              look at the reasoning every N steps                               (${DEFAULTS.watchEvery})
  --entropy X            entropy bonus                                                     (${DEFAULTS.entropyBonus})
  --kl X                 KL penalty against the warm start                                 (${DEFAULTS.klPenalty})
  --noise X              standard deviation of the judge's error                           (${DEFAULTS.judgeNoise})
  --share X              the filter keeps this share of the reward variance                (${DEFAULTS.filterShare})
  --out FOLDER           step files go to FOLDER/unfiltered, FOLDER/filtered, FOLDER/random (runs/trainer)
  --keep-going           train on where the monitor would end the run
`;

export interface Arguments {
  filters: readonly ('off' | 'on' | 'random')[];
  steps: number;
  seed: number;
  watchEvery: number;
  entropyBonus: number;
  klPenalty: number;
  judgeNoise: number;
  filterShare: number;
  out: string;
  keepGoing: boolean;
  help: boolean;
}

/** What was wrong on the command line. */
export class UsageError extends Error {}

export function readArguments(words: readonly string[]): Arguments {
  const { values } = parse(words);
  const number = (
    name: 'steps' | 'seed' | 'every' | 'entropy' | 'kl' | 'noise' | 'share',
    from: number,
    to: number,
  ) => {
    const text = values[name];
    const value = Number(text);
    const whole = name === 'steps' || name === 'seed' || name === 'every';
    if (text.trim() === '' || !(value >= from && value <= to) || (whole && !Number.isInteger(value))) {
      const expected = `${whole ? 'a whole number' : 'a number'} from ${from}${to < 1e9 ? ` to ${to}` : ''}`;
      throw new UsageError(`--${name} ${text}: expected ${expected}`);
    }
    return value;
  };
  const filters = { off: ['off'], on: ['on'], both: ['off', 'on'], random: ['random'] } as const;
  if (!Object.hasOwn(filters, values.filter)) {
    throw new UsageError(`--filter ${values.filter}: expected off, on, both or random`);
  }
  return {
    filters: filters[values.filter as keyof typeof filters],
    steps: number('steps', 1, 1e9),
    seed: number('seed', 0, 2 ** 31),
    watchEvery: number('every', 1, 1e9),
    entropyBonus: number('entropy', 0, 1e9),
    klPenalty: number('kl', 0, 1e9),
    judgeNoise: number('noise', 0, 1e9),
    filterShare: number('share', 0.01, 1),
    out: values.out,
    keepGoing: values['keep-going'],
    help: values.help,
  };
}

function parse(words: readonly string[]) {
  const text = (fallback: number | string) => ({ type: 'string', default: String(fallback) }) as const;
  try {
    return parseArgs({
      args: [...words],
      options: {
        filter: text('both'),
        steps: text(DEFAULTS.steps),
        seed: text(DEFAULTS.seed),
        every: text(DEFAULTS.watchEvery),
        entropy: text(DEFAULTS.entropyBonus),
        kl: text(DEFAULTS.klPenalty),
        noise: text(DEFAULTS.judgeNoise),
        share: text(DEFAULTS.filterShare),
        out: text('runs/trainer'),
        'keep-going': { type: 'boolean', default: false },
        help: { type: 'boolean', short: 'h', default: false },
      },
    });
  } catch (error) {
    throw new UsageError((error as Error).message);
  }
}
