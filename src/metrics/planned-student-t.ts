// Degrees of freedom and a level -> the quantile that an interval multiplies its standard error by.

/** As native/engine/student_t.cpp has it, so that a complete plan gives the engine's own 95% intervals. */
const TABLE_975 = [
  12.70620473617469, 4.302652729749462, 3.182446305283708, 2.776445105197793, 2.570581835636315, 2.446911851144979,
  2.364624251592784, 2.306004135204166, 2.262157162798205, 2.228138851986274, 2.200985160091639, 2.178812829667228,
  2.160368656462791, 2.144786687917804, 2.131449545559776, 2.119905299221255, 2.109815577833316, 2.100922040241038,
  2.093024054408309, 2.085963447265864, 2.07961384472768, 2.073873067904025, 2.068657610419049, 2.063898561628025,
  2.059538552753297, 2.055529438642874, 2.051830516480285, 2.048407141795245, 2.045229642132703, 2.042272456301238,
] as const;
const NORMAL_975 = 1.959963984540054;

function t975(degrees: number): number {
  const least = TABLE_975[0];
  if (!(degrees > 1)) return Number.isNaN(degrees) ? degrees : least;
  if (degrees > 30) {
    const x = 1 / degrees;
    return (
      NORMAL_975 + x * (2.372271230298562 + x * (2.8224986157396112 + x * (2.555849679507722 + x * 1.5895340533938225)))
    );
  }
  const below = Math.floor(degrees);
  const at = TABLE_975[below - 1] ?? least;
  const next = TABLE_975[below];
  if (next === undefined) return at;
  const share = (1 / below - 1 / degrees) / (1 / below - 1 / (below + 1));
  return at + share * (next - at);
}

/** ln Γ(x), x > 0: Lanczos with g = 7, to 1e-14 relative. */
function logGamma(x: number): number {
  const coefficients = [
    676.5203681218851, -1259.1392167224028, 771.3234287776531, -176.6150291621406, 12.507343278686905,
    -0.13857109526572012, 9.984369578019572e-6, 1.5056327351493116e-7,
  ];
  let sum = 0.9999999999998099;
  coefficients.forEach((coefficient, i) => {
    sum += coefficient / (x + i);
  });
  const t = x + 6.5;
  return 0.9189385332046727 + (x - 0.5) * Math.log(t) - t + Math.log(sum);
}

/** P(|T| > t) = I_{ν/(ν+t²)}(ν/2, ½), by the continued fraction of the incomplete beta (DLMF 8.17.22, Lentz's method). */
function twoSidedTail(t: number, degrees: number): number {
  const [a, b, x] = [degrees / 2, 0.5, degrees / (degrees + t * t)];
  const front = (p: number, q: number, y: number): number =>
    Math.exp(logGamma(p + q) - logGamma(p) - logGamma(q) + p * Math.log(y) + q * Math.log(1 - y)) / p;
  const fraction = (p: number, q: number, y: number): number => {
    const tiny = 1e-300;
    let c = 1;
    let d = 1 / (1 - ((p + q) * y) / (p + 1) || tiny);
    let value = d;
    for (let m = 1; m < 400; m++) {
      for (const step of [
        (m * (q - m) * y) / ((p + 2 * m - 1) * (p + 2 * m)),
        (-(p + m) * (p + q + m) * y) / ((p + 2 * m) * (p + 2 * m + 1)),
      ]) {
        d = 1 / (1 + step * d || tiny);
        c = 1 + step / c || tiny;
        value *= c * d;
      }
      if (Math.abs(c * d - 1) < 1e-15) break;
    }
    return value;
  };
  if (x <= 0 || x >= 1) return x <= 0 ? 0 : 1;
  // The fraction converges fast below the mean of the beta distribution, and by symmetry everywhere.
  return x < (a + 1) / (a + b + 2)
    ? front(a, b, x) * fraction(a, b, x)
    : 1 - front(b, a, 1 - x) * fraction(b, a, 1 - x);
}

/**
 * The t with P(|T| ≤ t) = confidence.
 * @param degrees of freedom, not necessarily whole; below 1 taken as 1, NaN gives NaN
 */
export function studentT(degrees: number, confidence: number): number {
  if (confidence === 0.95) return t975(degrees);
  if (Number.isNaN(degrees)) return degrees;
  const freedom = Math.max(1, Math.min(degrees, 1e7));
  const tail = 1 - confidence;
  let low = 0;
  let high = 1;
  while (twoSidedTail(high, freedom) > tail) high *= 2;
  for (let i = 0; i < 200 && high - low > 1e-14 * high; i++) {
    const middle = (low + high) / 2;
    if (twoSidedTail(middle, freedom) > tail) low = middle;
    else high = middle;
  }
  return (low + high) / 2;
}
