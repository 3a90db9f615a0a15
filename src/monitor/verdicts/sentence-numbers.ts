// Numbers as a sentence shows them.

/** Three significant digits. */
export function figure(value: number): string {
  const text = value.toPrecision(3);
  return text.includes('e') ? String(Number(text)) : text;
}

/** 34%, 240% */
export function percent(share: number): string {
  return `${Math.round(100 * share)}%`;
}
