// What one rule found at one step: a verdict but for when it was first said, which the verdict log knows.
import type { Verdict } from './verdict.js';

export type Finding = Omit<Verdict, 'raised' | 'step'>;
