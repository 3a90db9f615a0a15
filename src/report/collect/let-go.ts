// Which steps a page that is alive for days lets go of: of the beginning and the end none, of those between every second.

const FIRST = 5;

/** @param steps rising; @returns those to let go, where there are more than `most` */
export function stepsToLetGo(steps: readonly number[], most: number): number[] {
  if (steps.length <= most) return [];
  return steps.slice(FIRST, -Math.ceil(most / 4)).filter((_, at) => at % 2 === 1);
}
