// The language that the policy reasons in. A board and a random stream -> a demonstration of it, for the warm start.
import { type Board, column, MOVES, rightMoves, row } from './grid-task.js';
import type { Random } from './random.js';

export const WORDS = [
  '</think>',
  'goal',
  'is',
  'above',
  'below',
  'level',
  'west',
  'east',
  'aligned',
  'near',
  'far',
  'so',
  'go',
  'up',
  'down',
  'left',
  'right',
  'hmm',
  'ok',
  'well',
  'look',
  'then',
  'maybe',
] as const;
export type Word = (typeof WORDS)[number];

export const END = WORDS.indexOf('</think>');
/** <think>, which the policy reads first and never writes: one past the words. */
export const START = WORDS.length;
/** Words of a reasoning, at most. Tags do not count. */
export const MOST_WORDS = 10;

/** A reasoning as a person reads it. */
export function asText(reasoning: readonly number[]): string {
  return reasoning.map((word) => WORDS[word]).join(' ');
}

export interface Demonstration {
  reasoning: number[];
  move: number;
}

/**
 * A way of reasoning that minds the goal but not the holes: right on open boards, often wrong in mazes. Varied in its
 * wording, so that reasonings on one prompt differ, as a language model's do.
 */
export function demonstrate(board: Board, random: Random): Demonstration {
  const move = random.pick(rightMoves(board.agent, board.goal, []));
  const down = row(board.goal) - row(board.agent);
  const east = column(board.goal) - column(board.agent);
  const words: Word[] = [];
  if (random.uniform() < 0.5) words.push(random.pick(['hmm', 'ok', 'well', 'look'] as const));
  words.push('goal');
  if (random.uniform() < 0.5) words.push('is');
  words.push(down < 0 ? 'above' : down > 0 ? 'below' : 'level');
  words.push(east < 0 ? 'west' : east > 0 ? 'east' : 'aligned');
  if (random.uniform() < 0.5) words.push(Math.abs(down) + Math.abs(east) > 3 ? 'far' : 'near');
  words.push(random.pick(['so', 'go', 'then'] as const));
  words.push(MOVES[move] as (typeof MOVES)[number]);
  return { reasoning: words.map((word) => WORDS.indexOf(word)), move };
}
