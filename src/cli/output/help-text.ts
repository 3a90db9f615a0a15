// Writes the text below the options in the help of a command, as wide as they are.
import type { AddHelpTextContext, Command } from 'commander';
import { wrap } from './text-wrap.js';

/**
 * For `addHelpText('after', …)`: paragraphs are filled to the width of the help; indented lines, which are to be
 * copied, stay.
 */
export function afterOptions(text: string): (context: AddHelpTextContext) => string {
  return ({ command, error }) => {
    const { getOutHelpWidth, getErrHelpWidth } = command.configureOutput();
    const width = (error ? getErrHelpWidth : getOutHelpWidth)?.() ?? 80;
    return paragraphs(text)
      .map((line) => (line.startsWith(' ') ? line : wrap(line, width)))
      .join('\n');
  };
}

/** Options that `add` adds are explained by `collapsar analyze --help`: other commands only name them. */
export function asForAnalyze(command: Command, about: string, add: (command: Command) => Command): Command {
  const before = command.options.length;
  add(command);
  if (command.name() === 'analyze') return command;
  const added = command.options.slice(before);
  for (const option of added) option.hideHelp();
  const names = added.map(({ long }) => long).join(', ');
  return command.addHelpText('after', afterOptions(`\n${about}, as collapsar analyze --help explains them: ${names}`));
}

/** Lines that follow one another joined into one; blank and indented ones as they are. */
function paragraphs(text: string): string[] {
  const lines: string[] = [];
  let isOpen = false;
  for (const line of text.split('\n')) {
    const isProse = line !== '' && !line.startsWith(' ');
    if (isProse && isOpen) lines.push(`${lines.pop()} ${line}`);
    else lines.push(line);
    isOpen = isProse;
  }
  return lines;
}
