// Chooses the steps that a page drops after days: none of the beginning and the end, every second of those between.

const FIRST = 5;

/** @param steps rising; @returns those to let go, where there are more than `most` */
export function stepsToLetGo(steps: readonly number[], most: number): number[] {
  if (steps.length <= most) return [];
  return steps.slice(FIRST, -Math.ceil(most / 4)).filter((_, at) => at % 2 === 1);
}

/** Steps of a run of which a page that is alive holds prompts, heat maps and gradients, at most. */
export const MOST_STEPS = 200;

/** Steps of a run of which a page holds rollouts, at most. */
export const MOST_TEXTS = 60;

/** @param parts of steps, rising */
export function withoutTooMany<Part extends { readonly step: number }>(
  parts: readonly Part[],
  most = MOST_TEXTS,
): readonly Part[] {
  const gone = new Set(
    stepsToLetGo(
      parts.map(({ step }) => step),
      most,
    ),
  );
  return gone.size === 0 ? parts : parts.filter(({ step }) => !gone.has(step));
}
