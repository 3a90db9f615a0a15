// Draws the matrix of a step's prompts as the page's heat map: a row per prompt of the reasoning, a column per prompt
// that it was scored under, viridis from 0 to 1.

import { viridis } from '../../report/charts/colour-scales.js';
import { orderOf } from '../../report/charts/prompts/matrix-cells.js';
import type { PromptMatrix } from '../../step/prompts/prompt-findings.js';
import { type IndexedImage, indexedPng } from './indexed-png.js';

type Cells = Pick<PromptMatrix, 'ids' | 'posterior'>;

/** Approximate width of an image: each cell gets as many whole pixels as fit. */
const PIXELS = 320;

/** Of each value of a cell, 255 being 1. */
const PALETTE = Array.from({ length: 256 }, (_, at): [number, number, number] => {
  const colour = Number.parseInt(viridis(at / 255).slice(1), 16);
  return [colour >> 16, (colour >> 8) & 255, colour & 255];
});

export interface HeatMapImage {
  readonly width: number;
  readonly height: number;
  readonly png: Uint8Array;
}

/** @param start of the run, whose order of prompts is kept */
export function heatMapImage(matrix: Cells, start: Cells): HeatMapImage {
  const order = orderOf(matrix, start);
  const scale = Math.max(1, Math.floor(PIXELS / order.length));
  const side = scale * order.length;
  const pixels = new Uint8Array(side * side);
  for (const [row, from] of order.entries()) {
    for (const [column, other] of order.entries()) {
      const value = matrix.posterior[from * order.length + other] as number;
      for (let line = row * scale; line < (row + 1) * scale; line++) {
        pixels.fill(value, line * side + column * scale, line * side + (column + 1) * scale);
      }
    }
  }
  const image: IndexedImage = { width: side, height: side, pixels, palette: PALETTE };
  return { width: side, height: side, png: indexedPng(image) };
}
