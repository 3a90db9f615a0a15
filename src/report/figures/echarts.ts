// The parts of ECharts that our charts are made of: what is not named here is not in the bundle.
import { CustomChart, LineChart, ScatterChart } from 'echarts/charts';
import { GridComponent } from 'echarts/components';
import { init, use } from 'echarts/core';
import { CanvasRenderer, SVGRenderer } from 'echarts/renderers';
import type { ChartOption, Size } from '../charts/chart-option.js';

use([CustomChart, LineChart, ScatterChart, GridComponent, CanvasRenderer, SVGRenderer]);

export { init };

/**
 * A chart as the text of an SVG; needs no document.
 * @param title for who does not see it
 */
export function svgOf(option: ChartOption, { width, height }: Size, title = 'chart'): string {
  const chart = init(null, null, { renderer: 'svg', ssr: true, width, height });
  try {
    chart.setOption(option);
    // The first tag is the SVG's own.
    return plain(chart.renderToSVGString()).replace('>', () => `><title>${escaped(title)}</title>`);
  } finally {
    // Its timers would keep a process alive.
    chart.dispose();
  }
}

/**
 * Without what only a page needs, and without numbers that count what the process drew before: the same bytes for the
 * same chart. Quotes and angle brackets of texts are escaped, so that none of these is one.
 */
function plain(svg: string): string {
  return svg
    .replaceAll(/<style ?>\s*<!\[CDATA\[[^<]*?\]\]>\s*<\/style>\s*/g, '')
    .replaceAll(/ (?:class="zr\d+-cls-\d+"|ecmeta_\w+="[^"]*"|pointer-events="visible")/g, '')
    .replaceAll(/(id="|"url\(#)zr\d+-/g, '$1');
}

const ENTITIES: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;' };

const escaped = (text: string): string => text.replace(/[&<>]/g, (character) => ENTITIES[character] as string);
