// The numbers behind a chart, a page of rows at a time.
import { useSignal } from '@preact/signals';
import type { ChartTable } from '../charts/chart-option.js';
import { shortNumber } from '../charts/number-text.js';

const PAGE_ROWS = 25;

export function FigureTable({ label, table: { columns, rows } }: { label: string; table: ChartTable }) {
  const page = useSignal(Math.max(0, Math.ceil(rows.length / PAGE_ROWS) - 1));
  const pages = Math.max(1, Math.ceil(rows.length / PAGE_ROWS));
  const at = Math.min(page.value, pages - 1);
  const shown = rows.slice(at * PAGE_ROWS, (at + 1) * PAGE_ROWS);
  return (
    <div class="numbers">
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by keys */}
      <section class="scrolls" tabIndex={0} aria-label={`Numbers: ${label}`}>
        <table>
          <thead>
            <tr>
              {columns.map((column) => (
                <th key={column} scope="col">
                  {column}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {shown.map((row, place) => (
              <tr key={at * PAGE_ROWS + place}>
                {row.map((value, column) => (
                  <td key={columns[column]}>{typeof value === 'number' ? shortNumber(value) : value}</td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </section>
      {pages > 1 && (
        <p class="pages">
          <button type="button" disabled={at === 0} onClick={() => (page.value = at - 1)}>
            Earlier
          </button>
          <span>
            rows {at * PAGE_ROWS + 1} to {at * PAGE_ROWS + shown.length} of {rows.length}
          </span>
          <button type="button" disabled={at === pages - 1} onClick={() => (page.value = at + 1)}>
            Later
          </button>
        </p>
      )}
    </div>
  );
}
