// Prose -> lines that fit.

/** Breaks `text` at spaces into lines of at most `width`, the first led by `lead`, the others indented as far. */
export function wrap(text: string, width: number, lead = ''): string {
  const indent = ' '.repeat(lead.length);
  const lines: string[] = [];
  let line = '';
  for (const word of text.split(' ')) {
    if (line !== '' && lead.length + line.length + 1 + word.length > width) {
      lines.push(line);
      line = word;
    } else {
      line = line === '' ? word : `${line} ${word}`;
    }
  }
  lines.push(line);
  return lines.map((content, at) => (at === 0 ? lead : indent) + content).join('\n');
}
