// Makes ids that identify the trajectories of a step from rows that are turns. Trainers number episodes over the whole
// step or per group of rollouts; the same turn of an episode in two groups shows that the ids count per group.
import { IdNumbers } from '../../checks/ids.js';

/**
 * @param groups [R] group of each row, in any form
 * @param episodes [R] its episode
 * @param turns [R] its turn number
 * @returns [R] `episodes` itself if its ids do distinguish trajectories
 */
export function trajectoryIds(
  groups: ArrayLike<number | bigint>,
  episodes: ArrayLike<number | bigint>,
  turns: ArrayLike<number | bigint>,
): ArrayLike<number | bigint> {
  const groupOf = new Map<string, string>();
  for (let row = 0; row < episodes.length; row++) {
    const turn = `${episodes[row]}/${turns[row]}`;
    const group = String(groups[row]);
    const known = groupOf.get(turn);
    if (known === undefined) groupOf.set(turn, group);
    else if (known !== group) return idsWithGroups(groups, episodes);
  }
  return episodes;
}

/** [R] a number for each pair of group and episode, by first appearance. */
export function idsWithGroups(groups: ArrayLike<number | bigint>, episodes: ArrayLike<number | bigint>): Int32Array {
  const numbers = new IdNumbers<string>();
  return Int32Array.from({ length: episodes.length }, (_, row) => numbers.numberOf(`${groups[row]}/${episodes[row]}`));
}
