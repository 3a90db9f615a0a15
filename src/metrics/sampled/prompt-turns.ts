// Derives the turn of each prompt from the turns of rows: a plan draws more negatives from the prompts of the row's own
// turn.
import { checkArray } from '../../checks/argument-checks.js';
import { ArgumentError } from '../../checks/errors.js';
import { counted } from '../../checks/words.js';
import type { Integers } from '../../engine/tensor/tensor.js';
import { arrangeColumns, type Columns } from '../columns.js';
import { wholeNumbers } from './whole-numbers.js';

/**
 * The turn of each prompt, from that of its rows: for `promptTurns`.
 * @param turns [R] turn of each row
 * @returns [P], prompts in the order of `columnGroups` (default: ascending distinct ids of `groups`)
 * @throws {ArgumentError} if the rows of a prompt are of different turns, or a prompt has no rows to tell by
 */
export function turnsOfPrompts(groups: Integers, turns: Integers, columnGroups?: Integers): Int32Array {
  checkArray(groups, 'groups');
  checkArray(turns, 'turns');
  if (turns.length !== groups.length) {
    throw new ArgumentError('turns', `${turns.length} turn numbers for ${counted(groups.length, 'rows')}`);
  }
  const columns = arrangeColumns(groups, columnGroups, undefined);
  return turnsByRows(columns, turns, 'give promptTurns yourself');
}

/** The same of columns that are arranged. @param advice what to do if the rows do not show the turn of a prompt */
export function turnsByRows({ own, order }: Columns, turns: Integers, advice: string): Int32Array {
  const values = wholeNumbers('turns', turns);
  const result = new Int32Array(order.length).fill(-1);
  own.forEach((column, row) => {
    const prompt = order[column] as number;
    const turn = values[row] as number;
    if (turn >= 2 ** 31) throw new ArgumentError('turns', `entry ${row}: expected a number below 2^31, got ${turn}`);
    if (result[prompt] !== -1 && result[prompt] !== turn) {
      throw new ArgumentError(
        'turns',
        `row ${row} is of turn ${turn}, other rows of its group are of turn ${result[prompt]}; ${advice}`,
      );
    }
    result[prompt] = turn;
  });
  const without = result.indexOf(-1);
  if (without !== -1) {
    throw new ArgumentError('turns', `prompt ${without} has no rows to tell its turn by; ${advice}`);
  }
  return result;
}

/** @returns turns of prompts in canonical order (ascending group id), renumbered: equal numbers mean equal turns */
export function canonicalTurns(turns: Integers, order: Int32Array): Int32Array {
  checkArray(turns, 'promptTurns');
  if (turns.length !== order.length) {
    throw new ArgumentError('promptTurns', `${counted(turns.length, 'turns')} for ${counted(order.length, 'prompts')}`);
  }
  const values = wholeNumbers('promptTurns', turns);
  const numbers = new Map<number, number>();
  return order.map((prompt) => {
    const turn = values[prompt] as number;
    const number = numbers.get(turn) ?? numbers.size;
    numbers.set(turn, number);
    return number;
  });
}
