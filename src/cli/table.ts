// Columns of text -> aligned lines, in as many panels as the width asks for.
import type { TextStream } from './streams.js';
import type { Paint, Style } from './text-style.js';

export interface Cell {
  readonly text: string;
  readonly style?: Style | undefined;
}

export interface Column {
  readonly title: string;
  readonly cells: readonly Cell[];
  readonly align: 'left' | 'right';
}

/** Wide enough for the usual columns, narrow enough for a terminal beside a notebook. */
export const TABLE_WIDTH = 100;

/** Narrower than this a terminal breaks lines itself: columns and words would no longer be told apart. */
const LEAST_WIDTH = 40;

/** Where lines end that are written to `stream`: a terminal narrower than a table would break them amid words. */
export function widthOf({ columns }: Pick<TextStream, 'columns'>): number {
  return Math.max(LEAST_WIDTH, Math.min(TABLE_WIDTH, columns ?? TABLE_WIDTH));
}

const GAP = '  ';

/**
 * @param columns all with as many cells; the first one is repeated in every panel
 * @param width most characters in a line, as long as a single column beside the first fits
 */
export function layoutTable(columns: readonly Column[], width: number, paint: Paint): string {
  const [first, ...rest] = columns;
  if (first === undefined) return '';
  const panels: Column[][] = [];
  let panel = [first];
  for (const column of rest) {
    if (panel.length > 1 && lineWidth([...panel, column]) > width) {
      panels.push(panel);
      panel = [first];
    }
    panel.push(column);
  }
  panels.push(panel);
  return panels.map((shown) => layoutPanel(shown, paint)).join('\n\n');
}

function lineWidth(columns: readonly Column[]): number {
  return columns.reduce((total, column) => total + columnWidth(column) + GAP.length, 0);
}

function columnWidth({ title, cells }: Column): number {
  return cells.reduce((widest, { text }) => Math.max(widest, text.length), title.length);
}

function layoutPanel(columns: readonly Column[], paint: Paint): string {
  const widths = columns.map(columnWidth);
  const line = (cellOf: (column: Column) => Cell): string =>
    columns
      .map((column, at) => {
        const { text, style } = cellOf(column);
        const blank = ' '.repeat((widths[at] as number) - text.length);
        const painted = style === undefined ? text : paint(style, text);
        return GAP + (column.align === 'right' ? blank + painted : painted + blank);
      })
      .join('')
      .trimEnd();
  const rows = (columns[0] as Column).cells.map((_, row) => line((column) => column.cells[row] as Cell));
  return [line(({ title }) => ({ text: title, style: 'dim' })), ...rows].join('\n');
}
