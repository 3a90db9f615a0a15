// The filter on what a step was given: its remarks and errors name labels, outcomes and options as the monitor's caller
// knows them, not as filterGroups does. `lengths`, for one, are the filter's response tokens, but a label of the step
// is called so too.

import { ArgumentError } from '../../checks/errors.js';
import { argumentProblem } from '../../checks/words.js';
import { filterGroupsInWords } from '../../filter/filter-groups.js';
import type { FilterInput, FilterOptions, FilterResult } from '../../filter/index.js';
import { type FilterWords, LIBRARY_WORDS } from '../../filter/input/filter-words.js';

export const STEP_WORDS: FilterWords = {
  ...LIBRARY_WORDS,
  options: {
    excludeNonFinite: 'the option filter: { nonFinite: "exclude" }',
    singletons: 'filter.singletons',
    turnRewards: 'turnRewards',
    leaveOutZero: 'set filter.includeZero to false',
  },
};

/** The filter's arguments -> where the caller of a monitor gave them. */
const ARGUMENTS: Readonly<Record<string, string>> = {
  rewards: 'outcomes.rewards',
  'rewards.groups': 'groups',
  'rewards.episodes': 'episodes',
  'rewards.turns': 'turns',
  outcomes: 'outcomes.outcomes',
  entropies: 'outcomes.entropies',
  'input.entropies': 'outcomes.entropies',
  lengths: 'outcomes.responseLengths',
  'input.lengths': 'outcomes.responseLengths',
};

/** @throws {ArgumentError} as filterGroups() would, naming the label or outcome */
export function filterStep(input: FilterInput, options: FilterOptions): FilterResult {
  try {
    return filterGroupsInWords(input, options, STEP_WORDS);
  } catch (error) {
    if (!(error instanceof ArgumentError)) throw error;
    const argument = ARGUMENTS[error.argument] ?? error.argument;
    throw new ArgumentError(argument, argumentProblem(error), { cause: error });
  }
}
