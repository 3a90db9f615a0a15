// The reasoning of each prompt (row) held against each prompt (column): RAGEN-2's cross-score picture. A bright
// diagonal is reasoning that knows what it was asked; an even field is a template.
import type { Matrix } from '../../report.js';
import type { ChartOption, ChartTable, Shape, Size } from '../chart-option.js';
import { diverging, viridis } from '../colour-scales.js';
import type { Box } from '../marks.js';
import { shortNumber } from '../number-text.js';
import { pixelDrawing, stroke, words } from '../pixel-drawing.js';
import type { Theme } from '../theme.js';
import { type CellKind, type Cells, cellsOf, type Still } from './matrix-cells.js';

export interface HeatMapData {
  readonly matrix: Matrix;
  /** The matrix whose order of prompts is used. */
  readonly start: Matrix;
  readonly kind: CellKind;
}

const LEGEND = 40;
const MARGIN = 20;

/** The square that the cells fill. */
export function heatMapBox({ width, height }: Size): Box {
  const side = Math.max(10, Math.min(width - MARGIN - 2, height - LEGEND - MARGIN));
  return { x: MARGIN, y: MARGIN, width: side, height: side };
}

export function heatMapOption({ matrix, start, kind }: HeatMapData, theme: Theme, size: Size): ChartOption {
  const cells = cellsOf(matrix, start, kind);
  const box = heatMapBox(size);
  const most = mostNats(cells, kind);
  return pixelDrawing(theme, size, [
    ...cellShapes(cells, box, colourOf(kind, most)),
    ...diagonal(cells.size, box, '#ffffff'),
    words('scored under this prompt', box.x + box.width / 2, 10, theme, { align: 'center' }),
    words('reasoning about this prompt', 9, box.y + box.height / 2, theme, { align: 'center', turned: true }),
    ...legend(kind, most, cells.size, { ...box, y: box.y + box.height + 10, height: 9 }, theme),
  ]);
}

/** Small ones in a row, all on one scale. */
export function stillsOption(stills: readonly Still[], theme: Theme, size: Size): ChartOption {
  const start = stills[0]?.matrix;
  if (start === undefined) return pixelDrawing(theme, size, []);
  const shapes = stills.flatMap(({ title, matrix }, at): Shape[] => {
    const box = stillBox(at, stills.length, size);
    const cells = cellsOf(matrix, start, 'posterior');
    return [
      ...cellShapes(cells, box, viridis),
      words(`${title}, ${matrix.step}`, box.x + box.width / 2, box.y + box.height + 9, theme, {
        align: 'center',
        color: theme.text,
      }),
    ];
  });
  return pixelDrawing(theme, size, shapes);
}

const STILL_GAP = 8;

export function stillBox(at: number, count: number, { width, height }: Size): Box {
  const side = Math.max(4, Math.min((width - STILL_GAP * (count - 1)) / count, height - 18));
  return { x: at * (side + STILL_GAP), y: 0, width: side, height: side };
}

const mostNats = ({ values }: Cells, kind: CellKind): number =>
  kind === 'posterior' ? 1 : Math.max(0.1, ...values.map((value) => (Number.isFinite(value) ? Math.abs(value) : 0)));

const colourOf = (kind: CellKind, most: number): ((value: number) => string) =>
  kind === 'posterior' ? viridis : (value) => diverging(value / most);

/** Neighbours of one colour in a row are one rectangle: a matrix that has collapsed is small as a file, too. */
function cellShapes({ size, values }: Cells, { x, y, width }: Box, colour: (value: number) => string): Shape[] {
  const side = width / size;
  const shapes: Shape[] = [];
  for (let row = 0; row < size; row++) {
    for (let column = 0; column < size; ) {
      const fill = colour(values[row * size + column] as number);
      let end = column + 1;
      while (end < size && colour(values[row * size + end] as number) === fill) end++;
      // A hair wider: no seam shows between two.
      const shape = { x: x + column * side, y: y + row * side, width: (end - column) * side + 0.5, height: side + 0.5 };
      shapes.push({ type: 'rect', shape, style: { fill } });
      column = end;
    }
  }
  return shapes;
}

function diagonal(size: number, { x, y, width }: Box, stroke: string): Shape[] {
  const side = width / size;
  return Array.from({ length: size }, (_, at) => ({
    type: 'rect',
    shape: { x: x + at * side + 0.5, y: y + at * side + 0.5, width: side - 1, height: side - 1 },
    style: { fill: 'none', stroke, lineWidth: size > 32 ? 0.4 : 1, opacity: 0.9 },
  }));
}

function legend(kind: CellKind, most: number, prompts: number, { x, y, width, height }: Box, theme: Theme): Shape[] {
  const colour = colourOf(kind, most);
  const [low, high] = kind === 'posterior' ? [0, 1] : [-most, most];
  const parts = 40;
  const ticks: [number, string][] =
    kind === 'posterior'
      ? [
          [0, '0'],
          [1 / prompts, `1/P`],
          [1, '1: certain'],
        ]
      : [
          [low, shortNumber(low)],
          [0, '0: chance'],
          [high, `${shortNumber(high)} nats`],
        ];
  return [
    ...Array.from({ length: parts }, (_, at) => ({
      type: 'rect',
      shape: { x: x + (at * width) / parts, y, width: width / parts + 0.5, height },
      style: { fill: colour(low + ((at + 0.5) / parts) * (high - low)) },
    })),
    ...ticks.flatMap(([value, text], at): Shape[] => {
      const place = x + ((value - low) / (high - low)) * width;
      return [
        stroke([place, y], [place, y + height + 3], theme.text),
        words(text, place, y + height + 9, theme, {
          align: at === 0 ? 'left' : at === 2 ? 'right' : kind === 'posterior' ? 'left' : 'center',
        }),
      ];
    }),
  ];
}

/** A row a cell would be thousands: a row a prompt, its own cell and the one that its reasoning fits best. */
export function heatMapTable({ matrix, start, kind }: HeatMapData): ChartTable {
  const { size, ids, values } = cellsOf(matrix, start, kind);
  const rows = ids.map((id, row) => {
    const line = [...values.subarray(row * size, (row + 1) * size)];
    const best = line.reduce((most, value, at) => (value > (line[most] as number) ? at : most), 0);
    return [id, line[row] as number, ids[best] as string, line[best] as number];
  });
  const unit = kind === 'posterior' ? 'posterior' : 'nats';
  return { columns: ['prompt', `own, ${unit}`, 'fits best', `best, ${unit}`], rows };
}
