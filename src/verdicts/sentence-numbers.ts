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

/** The same of a value's share of another, which may be 0: H(Z|X) is, where a policy is certain of all it says. */
export function percentOf(value: number, whole: number): string {
  if (whole !== 0) return percent(value / whole);
  return value === 0 ? '100%' : 'more than 100%';
}

/** The first letter of a sentence. */
export const capital = (text: string): string => text.slice(0, 1).toUpperCase() + text.slice(1);
