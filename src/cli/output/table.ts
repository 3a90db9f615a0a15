// Aligns columns of text into lines, and limits their width.
import type { Streams, TextStream } from './streams.js';
import type { Paint, Style } from './text-style.js';
import { textWidth } from './text-width.js';

export interface Cell {
  readonly text: string;
  readonly style?: Style | undefined;
}

export interface Column {
  readonly title: string;
  readonly cells: readonly Cell[];
  readonly align: 'left' | 'right';
  /** If not all fit, the highest goes first. Default 0: of equals the last one. The first column stays. */
  readonly dispensable?: number;
}

/** What fits everywhere: an issue, a mail, a log, a terminal that nobody widened. */
const USUAL_WIDTH = 80;
/** Below this width a terminal breaks lines itself: columns and words could no longer be distinguished. */
const LEAST_WIDTH = 40;
const MOST_WIDTH = 200;

/**
 * Where lines end that are written to `stream`: at the edge of a terminal, which would break them amid words;
 * elsewhere where the variable COLUMNS says, else at column 80.
 */
export function widthOf(stream: Pick<TextStream, 'columns'>, environment: Streams['environment'] = {}): number {
  const wanted = stream.columns ?? (Number.parseInt(environment.COLUMNS ?? '', 10) || USUAL_WIDTH);
  return Math.max(LEAST_WIDTH, Math.min(MOST_WIDTH, wanted));
}

const GAP = '  ';

/**
 * One table of any width: columns that do not fit are left out.
 * @param columns all with as many cells
 * @param width most characters in a line, as long as the first column fits
 * @returns the lines, and the titles of columns that were left out
 */
export function layoutTable(
  columns: readonly Column[],
  width: number,
  paint: Paint,
): { readonly text: string; readonly leftOut: readonly string[] } {
  const shown = [...columns];
  const leftOut: string[] = [];
  while (shown.length > 1 && lineWidth(shown) > width) {
    const [, ...rest] = shown;
    const most = Math.max(...rest.map(({ dispensable = 0 }) => dispensable));
    const at = shown.findLastIndex(({ dispensable = 0 }) => dispensable === most);
    for (const { title } of shown.splice(at, 1)) leftOut.unshift(title);
  }
  return { text: layout(shown, paint), leftOut };
}

function lineWidth(columns: readonly Column[]): number {
  return columns.reduce((total, column) => total + columnWidth(column) + GAP.length, 0);
}

function columnWidth({ title, cells }: Column): number {
  return cells.reduce((widest, { text }) => Math.max(widest, textWidth(text)), textWidth(title));
}

function layout(columns: readonly Column[], paint: Paint): string {
  const widths = columns.map(columnWidth);
  const line = (cellOf: (column: Column) => Cell): string =>
    columns
      .map((column, at) => {
        const { text, style } = cellOf(column);
        const blank = ' '.repeat((widths[at] as number) - textWidth(text));
        const painted = style === undefined ? text : paint(style, text);
        return GAP + (column.align === 'right' ? blank + painted : painted + blank);
      })
      .join('')
      .trimEnd();
  const rows = (columns[0]?.cells ?? []).map((_, row) => line((column) => column.cells[row] as Cell));
  return [line(({ title }) => ({ text: title, style: 'dim' })), ...rows].join('\n');
}
