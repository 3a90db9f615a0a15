// A chart, the words for those who do not see it, and what can be taken away from it: SVG, PNG, CSV.
import { useSignal } from '@preact/signals';
import type { ECharts } from 'echarts/core';
import type { ComponentChildren } from 'preact';
import { useEffect, useLayoutEffect, useRef } from 'preact/hooks';
import type { ChartOption, ChartTable, Size } from '../charts/chart-option.js';
import { init, svgOf } from '../figures/echarts.js';
import { FigureTable } from './figure-table.js';
import { save } from './save.js';
import { isPrinted } from './state.js';

interface ChartProps {
  /** What it shows, in a sentence. */
  readonly label: string;
  /** Names its files. */
  readonly name: string;
  readonly height: number;
  readonly option: (size: Size) => ChartOption;
  readonly table: () => ChartTable;
  /** Laid over it. */
  readonly children?: ComponentChildren;
  readonly onSize?: (size: Size) => void;
  readonly isSmall?: boolean;
  /** How to read it. */
  readonly note?: string;
  /** Buttons of its own. */
  readonly tools?: ComponentChildren;
}

export function Chart({ label, name, height, option, table, children, onSize, isSmall, note, tools }: ChartProps) {
  const host = useRef<HTMLDivElement>(null);
  const chart = useRef<ECharts | undefined>(undefined);
  const width = useSignal(0);
  const isOpen = useSignal(false);

  useLayoutEffect(() => {
    const element = host.current as HTMLDivElement;
    const measure = (): void => {
      if (element.clientWidth > 0) width.value = element.clientWidth;
    };
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    return () => observer.disconnect();
  }, []);

  const renderer = isPrinted.value ? 'svg' : 'canvas';
  useLayoutEffect(() => {
    if (width.value === 0) return undefined;
    chart.current = init(host.current, null, { renderer, width: width.value, height });
    return () => {
      chart.current?.dispose();
      chart.current = undefined;
    };
  }, [width.value === 0, renderer]);

  useLayoutEffect(() => {
    if (width.value === 0 || chart.current === undefined) return;
    const size = { width: width.value, height };
    onSize?.(size);
    chart.current.resize(size);
    // A drawn shape would take over place and style of the one that stood at its index, where it does not name them all.
    chart.current.clear();
    chart.current.setOption(option(size), true);
    if (performance.getEntriesByName('story').length === 0) performance.mark('story');
    // A print does not wait for the next frame.
    if (isPrinted.value) chart.current.getZr().flush();
  }, [width.value, height, option, renderer]);

  useEffect(() => () => chart.current?.dispose(), []);

  const size = (): Size => ({ width: Math.max(320, width.value), height });
  return (
    <div class={isSmall ? 'chart small' : 'chart'}>
      <div class="canvas" style={{ height: `${height}px` }}>
        <div ref={host} role="img" aria-label={label} style={{ height: `${height}px` }} />
        {children}
      </div>
      {!isSmall && (
        <div class="tools">
          {tools}
          <button type="button" aria-expanded={isOpen.value} onClick={() => (isOpen.value = !isOpen.value)}>
            Numbers
          </button>
          <button type="button" onClick={() => save(`${name}.csv`, 'text/csv', csvOf(table()))}>
            CSV
          </button>
          <button
            type="button"
            onClick={() => save(`${name}.svg`, 'image/svg+xml', svgOf(option(size()), size(), label))}
          >
            SVG
          </button>
          <button
            type="button"
            onClick={() =>
              chart.current && save(`${name}.png`, 'image/png', bytesOf(chart.current.getDataURL({ pixelRatio: 2 })))
            }
          >
            PNG
          </button>
          <span class="of">{note}</span>
        </div>
      )}
      {isOpen.value && <FigureTable label={label} table={table()} />}
    </div>
  );
}

/** RFC 4180; what a spreadsheet would take for a formula is text. */
export function csvOf({ columns, rows }: ChartTable): string {
  const cell = (value: string | number): string => {
    if (typeof value === 'number') return Number.isNaN(value) ? '' : String(value);
    const harmless = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
    return /[",\n\r]/.test(harmless) ? `"${harmless.replaceAll('"', '""')}"` : harmless;
  };
  return [columns, ...rows].map((row) => `${row.map(cell).join(',')}\r\n`).join('');
}

function bytesOf(dataUrl: string): Uint8Array<ArrayBuffer> {
  const characters = atob(dataUrl.slice(dataUrl.indexOf(',') + 1));
  return Uint8Array.from(characters, (character) => character.charCodeAt(0));
}
