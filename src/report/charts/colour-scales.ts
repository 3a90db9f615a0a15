// Maps numbers to colours that colour-blind readers can distinguish, and that keep their order in grey.

type Stop = readonly [red: number, green: number, blue: number];

/** Viridis (Smith and van der Walt), at nine places. */
const VIRIDIS: readonly Stop[] = [
  [68, 1, 84],
  [71, 45, 123],
  [59, 82, 139],
  [44, 114, 142],
  [33, 145, 140],
  [40, 174, 128],
  [94, 201, 98],
  [173, 220, 48],
  [253, 231, 37],
];

/** Less likely than by chance is blue, likelier is orange; chance is white. */
const DIVERGING: readonly Stop[] = [
  [0, 68, 136],
  [102, 158, 204],
  [247, 247, 247],
  [238, 153, 85],
  [153, 68, 0],
];

/** @param share 0 to 1; what is beyond is as the end */
function between(stops: readonly Stop[], share: number): string {
  const at = Math.max(0, Math.min(1, Number.isNaN(share) ? 0 : share)) * (stops.length - 1);
  const [below, above] = [stops[Math.floor(at)] as Stop, stops[Math.ceil(at)] as Stop];
  const part = at - Math.floor(at);
  const mixed = below.map((channel, place) => Math.round(channel + part * ((above[place] as number) - channel)));
  return `#${mixed.map((channel) => channel.toString(16).padStart(2, '0')).join('')}`;
}

export const viridis = (share: number): string => between(VIRIDIS, share);

/** @param value -1 to 1 */
export const diverging = (value: number): string => between(DIVERGING, (value + 1) / 2);
