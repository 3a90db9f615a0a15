// Draws SVG as PNG with two optional peer dependencies: resvg compiled to WebAssembly, so that every machine computes
// the same, and DejaVu's fonts, so that no machine's own fonts show.
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { ArgumentError } from '../checks/errors.js';

const PACKAGES = ['@resvg/resvg-wasm', 'dejavu-fonts-ttf'];
const FONT = 'DejaVu Sans';
const FONT_FILES = ['DejaVuSans.ttf', 'DejaVuSans-Bold.ttf'];

/** Pixels of the image to one of the SVG. */
const SCALE = 2;

/** Of a file; the same bytes for the same SVG, on any machine. */
export type Rasterizer = (svg: string) => Uint8Array;

let loading: Promise<Rasterizer> | undefined;

/** @throws {ArgumentError} saying what to install, where it is not there */
export function openRasterizer(): Promise<Rasterizer> {
  loading ??= load().catch((error: unknown) => {
    loading = undefined;
    const [reason] = (error instanceof Error ? error.message : String(error)).split('\n');
    const problem = `takes the packages ${PACKAGES.join(' and ')}: npm install ${PACKAGES.join(' ')} (${reason})`;
    throw new ArgumentError('--png', problem, { cause: error });
  });
  return loading;
}

async function load(): Promise<Rasterizer> {
  const { initWasm, Resvg } = await import('@resvg/resvg-wasm');
  const { resolve } = createRequire(import.meta.url);
  const fontBuffers = await Promise.all(FONT_FILES.map((name) => readFile(resolve(`dejavu-fonts-ttf/ttf/${name}`))));
  await initWasm(await readFile(resolve('@resvg/resvg-wasm/index_bg.wasm'))).catch((error: unknown) => {
    // By somebody else in this process.
    if (!/already initialized/i.test(String(error))) throw error;
  });
  const font = { fontBuffers, loadSystemFonts: false, defaultFontFamily: FONT, sansSerifFamily: FONT };
  return (svg) => {
    const drawing = new Resvg(svg, { font, fitTo: { mode: 'zoom', value: SCALE } });
    try {
      const image = drawing.render();
      try {
        return image.asPng();
      } finally {
        image.free();
      }
    } finally {
      drawing.free();
    }
  };
}
