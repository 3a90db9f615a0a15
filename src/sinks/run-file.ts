// The name of a run -> a name of a file or folder that cannot lead anywhere else.

/** @returns one path component: what a file system or a terminal reads otherwise is `_` */
export function fileNameOf(run: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are the ones to take out
  const name = run.replace(/[\u0000-\u001f\u007f/\\:*?"<>|]/g, '_').slice(0, 200);
  return name === '' || /^\.+$/.test(name) ? `_${name}` : name;
}
