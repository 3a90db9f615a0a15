// The task. A random stream -> grid states (the prompts), which moves are right in them, and the reward of a move.
// On a board of 5 × 5 the agent must take one step on a shortest way to the goal, around holes.
import type { Random } from './random.js';

export const SIZE = 5;
const CELLS = SIZE * SIZE;
export const MOVES = ['up', 'down', 'left', 'right'] as const;

/**
 * How hard a board is, which decides how its rewards vary within a group:
 * `open` has no holes, and the policy knows it from its warm start (all rollouts right);
 * `maze` has holes, and the warm start did not teach to mind them (some right, some wrong: here is what to learn);
 * `sealed` has a goal behind holes, which no way leads to (all wrong, whatever is done).
 */
export type BoardKind = 'open' | 'maze' | 'sealed';

export interface Board {
  readonly kind: BoardKind;
  /** Cells are numbered row by row from the top left. */
  readonly agent: number;
  readonly goal: number;
  readonly holes: readonly number[];
  /** Which of MOVES begin a shortest way. None when sealed. */
  readonly right: readonly number[];
}

export const row = (cell: number): number => Math.floor(cell / SIZE);
export const column = (cell: number): number => cell % SIZE;

/** The cell after a move; undefined off the board. */
function after(cell: number, move: number): number | undefined {
  const name = MOVES[move];
  if (name === 'up') return row(cell) > 0 ? cell - SIZE : undefined;
  if (name === 'down') return row(cell) < SIZE - 1 ? cell + SIZE : undefined;
  if (name === 'left') return column(cell) > 0 ? cell - 1 : undefined;
  return column(cell) < SIZE - 1 ? cell + 1 : undefined;
}

/** Steps from each cell to the goal, Infinity where no way leads. */
function distances(goal: number, holes: readonly number[]): Float64Array {
  const steps = new Float64Array(CELLS).fill(Number.POSITIVE_INFINITY);
  steps[goal] = 0;
  const queue = [goal];
  for (const cell of queue) {
    for (let move = 0; move < MOVES.length; move++) {
      const next = after(cell, move);
      if (next === undefined || holes.includes(next) || steps[next] !== Number.POSITIVE_INFINITY) continue;
      steps[next] = (steps[cell] as number) + 1;
      queue.push(next);
    }
  }
  return steps;
}

/** The moves that begin a shortest way from `agent` to `goal`. */
export function rightMoves(agent: number, goal: number, holes: readonly number[]): number[] {
  const steps = distances(goal, holes);
  const here = steps[agent] as number;
  if (!Number.isFinite(here)) return [];
  return MOVES.flatMap((_, move) => {
    const next = after(agent, move);
    return next !== undefined && steps[next] === here - 1 ? [move] : [];
  });
}

/** A random board of this kind. */
export function drawBoard(kind: BoardKind, random: Random): Board {
  for (;;) {
    const agent = random.below(CELLS);
    const goal = random.below(CELLS);
    if (agent === goal) continue;
    const around = MOVES.flatMap((_, move) => after(goal, move) ?? []);
    if (kind === 'sealed' && around.includes(agent)) continue;
    const holes = new Set<number>(kind === 'sealed' ? around : []);
    const wanted = kind === 'open' ? 0 : kind === 'maze' ? 5 + random.below(4) : around.length + random.below(4);
    while (holes.size < wanted) {
      const cell = random.below(CELLS);
      if (cell !== agent && cell !== goal) holes.add(cell);
    }
    const sorted = [...holes].sort((a, b) => a - b);
    const right = rightMoves(agent, goal, sorted);
    // A maze in which the holes are nowhere in the way is an open board.
    const straight = rightMoves(agent, goal, []);
    const inTheWay = straight.some((move) => !right.includes(move));
    if (kind === 'maze' && (right.length === 0 || !inTheWay)) continue;
    return { kind, agent, goal, holes: sorted, right };
  }
}

/** One step's prompts, all different: `counts` of each kind. */
export function drawBoards(counts: Readonly<Record<BoardKind, number>>, random: Random): Board[] {
  const boards = new Map<string, Board>();
  for (const kind of ['open', 'maze', 'sealed'] as const) {
    for (const before = boards.size; boards.size < before + counts[kind]; ) {
      const board = drawBoard(kind, random);
      const prompt = promptTokens(board).join();
      if (!boards.has(prompt)) boards.set(prompt, board);
    }
  }
  return [...boards.values()];
}

/** The prompt as token ids: agent, goal, and the moves that lead into a hole or off the board. All that the policy sees. */
export function promptTokens({ agent, goal, holes }: Board): Int32Array {
  return Int32Array.of(agent, CELLS + goal, ...blockedMoves(agent, holes).map((move) => 2 * CELLS + move));
}

/** The moves from a cell that lead into a hole or off the board. */
function blockedMoves(cell: number, holes: readonly number[]): number[] {
  return MOVES.flatMap((_, move) => {
    const next = after(cell, move);
    return next === undefined || holes.includes(next) ? [move] : [];
  });
}

/** What the policy sees, zeros and ones: agent row, agent column, goal row, goal column, SIZE each; the moves that are blocked. */
export const FEATURES = 4 * SIZE + MOVES.length;

export function features({ agent, goal, holes }: Board): Float32Array {
  const seen = new Float32Array(FEATURES);
  for (const [slot, place] of [row(agent), column(agent), row(goal), column(goal)].entries()) {
    seen[slot * SIZE + place] = 1;
  }
  for (const move of blockedMoves(agent, holes)) seen[4 * SIZE + move] = 1;
  return seen;
}

/**
 * Reward of a move: 1 if it was right, else 0, as a judge sees it who is off by a little each time. The noise is what a
 * reward model or a format score adds in practice; in a group that is all right or all wrong nothing else varies.
 */
export function reward(correct: boolean, noise: number, random: Random): number {
  return (correct ? 1 : 0) + noise * random.normal();
}
