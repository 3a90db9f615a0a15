// Parts of pages that are written from code: rows of tables and what commands print. `npm run docs:write` writes them.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { packageRoot } from '../../src/checks/package-root.js';

export const WRITE = 'npm run docs:write writes it';

export const pathOf = (page: string): string => join(packageRoot, page);

export const readPage = (page: string): string => readFileSync(pathOf(page), 'utf8');

/** A row of a table in Markdown. */
export const row = (...cells: readonly string[]): string =>
  `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |\n`;

/** The page with other rows under the line that heads a table. */
export function withRows(page: string, heading: string, rows: readonly string[]): string {
  const lines = page.split('\n');
  const at = lines.indexOf(heading);
  if (at < 0 || lines.indexOf(heading, at + 1) >= 0) throw new Error(`no single table is headed by "${heading}"`);
  const from = at + 2;
  const to = lines.findIndex((line, place) => place >= from && !line.startsWith('|'));
  return [...lines.slice(0, from), ...rows.map((text) => text.trimEnd()), ...lines.slice(to)].join('\n');
}

/** The page with another text in the listing that begins with a line, which stays. */
export function withListing(page: string, start: string, text: string): string {
  const parts = page.split(`${start}\n`);
  if (parts.length !== 2) throw new Error(`no single listing begins with "${start}"`);
  const [before, after] = parts as [string, string];
  const end = after.indexOf('\n```');
  return `${before}${start}\n${text.trimEnd()}${after.slice(end)}`;
}
