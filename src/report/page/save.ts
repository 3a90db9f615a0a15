/** Gives a file to the reader. */
export function save(name: string, type: string, content: string | Uint8Array<ArrayBuffer>): void {
  const address = URL.createObjectURL(new Blob([content], { type }));
  const link = document.createElement('a');
  link.href = address;
  link.download = name.replaceAll(/[^\w.-]+/g, '_');
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}
