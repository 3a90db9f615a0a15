// Figures as they stand in the sentence of a stop.

export function asPercent(share: number): string {
  return `${Number((share * 100).toPrecision(3))}%`;
}

export function asNumber(value: number): string {
  return String(Number(value.toPrecision(3)));
}
