// Writes runs as tables and sentences in GitHub's Markdown, to paste into an issue.
import type { Profile } from '../../../metrics/step-metrics.js';
import type { Column } from '../table.js';
import type { TableOptions } from './sample-table.js';
import { type AllRuns, comparisonColumns } from './screen.js';
import { glyph } from './state-marks.js';

/** @returns text without a line end; empty if there is no run */
export function markdownText({ views, count }: AllRuns, profile: Profile, options: TableOptions): string {
  if (views.length === 0) return '';
  const compared = table(
    comparisonColumns(
      views.map(({ status }) => status),
      profile,
      options,
    ),
  );
  const rest = count - views.length;
  const isWhole = count === 1 || options.rows !== undefined || options.chosen;
  return [
    compared,
    ...(rest > 0 ? [`and ${rest} runs that are no graver`] : []),
    ...views.flatMap((view) => {
      const { name } = view.status;
      const alarms = view.verdicts.all.filter(({ severity }) => severity !== 'info');
      const said = alarms.map(
        ({ kind, severity, sentence, advice }) =>
          `- ${glyph(severity, options)} **${code(name)}**: ${code(kind)} (${severity}). ${prose(`${sentence} ${advice}`)}`,
      );
      return [
        ...(said.length > 0 ? [said.join('\n')] : []),
        ...(isWhole ? [`Steps of ${code(name)}:\n\n${table(view.columns())}`] : []),
      ];
    }),
  ].join('\n\n');
}

function table(columns: readonly Column[]): string {
  const line = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`;
  const rows = (columns[0]?.cells ?? []).map((_, row) =>
    line(
      columns.map(({ cells }, at) =>
        at === 0 && isName(columns) ? inCell(code(cells[row]?.text ?? '')) : prose(cells[row]?.text ?? ''),
      ),
    ),
  );
  const rules = columns.map(({ align }) => (align === 'right' ? '--:' : ':--'));
  return [line(columns.map(({ title }) => (title === '%' ? '% of start' : prose(title)))), line(rules), ...rows].join(
    '\n',
  );
}

/** Names of runs are other people's: in code they call nobody and format nothing. */
const isName = (columns: readonly Column[]): boolean => columns[0]?.title.trim() === 'run';

const code = (text: string): string => `\`${text.replaceAll('`', "'")}\``;

/** Also in code a bar would end the cell. */
const inCell = (text: string): string => text.replaceAll('|', '\\|');

const prose = (text: string): string => text.trim().replace(/[\\`*_{}[\]<>|#~@]/g, (character) => `\\${character}`);
