// Rows that are turns -> ids that tell their trajectories apart in the whole step. Trainers number episodes over the
// step, where the group of a row may well be the prompt of its turn, or anew in each group of rollouts. A trajectory
// has each of its turns once: the same turn of an episode in two groups is of two trajectories, so such ids are those
// of groups.
import { IdNumbers } from '../../checks/ids.js';

/**
 * @param groups [R] group of each row, in any form
 * @param episodes [R] its episode
 * @param turns [R] its turn number
 * @returns [R] `episodes` itself where its ids do tell trajectories apart
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
