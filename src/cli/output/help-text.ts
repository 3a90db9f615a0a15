// What stands under the options in the help of a command, as wide as they are.
import type { AddHelpTextContext } from 'commander';
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
