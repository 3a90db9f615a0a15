// Writes a report's charts as SVG, and PNG on request, a file each: for papers and other pages.
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { FileError } from '../checks/errors.js';
import { packageRoot } from '../checks/package-root.js';
import { systemProblem } from '../logs/stores/system-problem.js';
import type { ChartOption, Size } from './charts/chart-option.js';
import { compareOption } from './charts/compare.js';
import { forestHeight, forestOption } from './charts/forest.js';
import { gradientsHeight, gradientsOption } from './charts/gradients.js';
import { healthFigure, healthOption } from './charts/health.js';
import { hasKeptRatio, keptRatioOption } from './charts/kept-ratio.js';
import { hasTrail, planeOption } from './charts/plane.js';
import { stillsOption } from './charts/prompts/heat-map.js';
import { stillsOf } from './charts/prompts/matrix-cells.js';
import { promptMapOption, spreadOption, triageOption } from './charts/prompts/prompt-map.js';
import { hasLayer } from './charts/prompts/prompt-rows.js';
import { storyOption } from './charts/story.js';
import { LIGHT } from './charts/theme.js';
import { openRasterizer } from './rasterizer.js';
import type { Report } from './report.js';

const DRAWING = join(packageRoot, 'dist', 'report', 'draw-figure.js');

/** More runs in one picture could not be distinguished. */
const MOST_RUNS = 8;

interface Figure {
  readonly name: string;
  readonly option: ChartOption;
  readonly size: Size;
}

/**
 * The same bytes for the same report, on any machine.
 * @param asPng each chart as PNG, too
 * @returns names of the charts' SVGs
 * @throws {FileError} if the folder cannot be written to; {ArgumentError} where what PNG takes is not installed
 */
export async function writeFigures(report: Report, folder: string, asPng = false): Promise<string[]> {
  const png = asPng ? await openRasterizer() : undefined;
  // A caller that wants only a page does not wait for the library of charts.
  const { svgOf } = (await import(pathToFileURL(DRAWING).href)) as {
    svgOf: (option: ChartOption, size: Size, title: string) => string;
  };
  try {
    await mkdir(folder, { recursive: true });
    const names: string[] = [];
    for (const { name, option, size } of figuresOf(report)) {
      const svg = svgOf(option, size, name.replace('.svg', ''));
      await writeFile(join(folder, name), svg);
      if (png !== undefined) await writeFile(join(folder, name.replace(/svg$/, 'png')), png(svg));
      names.push(name);
    }
    return names;
  } catch (error) {
    throw new FileError({ path: folder }, systemProblem(error));
  }
}

const figure = (name: string, size: Size, option: (size: Size) => ChartOption): Figure => {
  return { name: `${name}.svg`, size, option: option(size) };
};

function* figuresOf({ runs }: Report): Generator<Figure> {
  const inPlane = runs.filter(hasTrail);
  if (inPlane.length > 0) yield figure('plane', { width: 640, height: 520 }, () => planeOption(inPlane, LIGHT));
  if (runs.length > 1)
    yield figure('compare', { width: 900, height: 560 }, (size) =>
      compareOption(runs.slice(0, MOST_RUNS), LIGHT, size),
    );
  for (const [at, run] of runs.entries()) {
    // Names of runs are anyone's: two of them must not become one file, nor lead out of the folder.
    const stem = `${String(at + 1).padStart(2, '0')}-${run.head.name.replaceAll(/[^\w.-]+/g, '_').slice(0, 60)}`;
    yield figure(`${stem}-story`, { width: 900, height: 560 }, (size) => storyOption({ run }, LIGHT, size));
    const stills = stillsOf(run);
    if (stills.length > 0)
      yield figure(`${stem}-heat-maps`, { width: 900, height: 236 }, (size) => stillsOption(stills, LIGHT, size));
    const { prompts } = run;
    if (prompts !== undefined && hasLayer(prompts, 'rewardStd')) {
      yield figure(`${stem}-prompts`, { width: 900, height: 320 }, (size) =>
        promptMapOption({ table: prompts, layer: 'rewardStd', by: 'rank' }, LIGHT, size),
      );
      yield figure(`${stem}-reward-spread`, { width: 560, height: 280 }, (size) => spreadOption(prompts, LIGHT, size));
      yield figure(`${stem}-triage`, { width: 560, height: 280 }, (size) => triageOption(prompts, LIGHT, size));
    }
    if (hasKeptRatio(run))
      yield figure(`${stem}-kept`, { width: 560, height: 200 }, (size) => keptRatioOption(run, LIGHT, size));
    const { correlations } = run.head;
    if (correlations !== undefined && correlations.figures.length > 0)
      yield figure(`${stem}-correlations`, { width: 720, height: forestHeight(correlations) }, (size) =>
        forestOption(correlations, LIGHT, size),
      );
    if (run.gradients.length > 0)
      yield figure(`${stem}-gradients`, { width: 900, height: gradientsHeight(run.gradients) }, (size) =>
        gradientsOption(run.gradients, LIGHT, size),
      );
    if (healthFigure(run) !== undefined)
      yield figure(`${stem}-health`, { width: 480, height: 320 }, () => healthOption(run, LIGHT));
  }
}
