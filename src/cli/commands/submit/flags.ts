// Options of `collapsar submit` as they were read, and the words of the command line that give them again.

import { LOG_FLAGS } from '../../options/log-options.js';
import type { MeasuringFlags } from '../../options/measuring-options.js';

/** The options of the command line, checked one by one. */
export interface SubmitFlags extends MeasuringFlags {
  engine: 'slurm' | 'ray' | 'kubernetes';
  work: string;
  out: string;
  shards?: number;
  dryRun?: true;
  wait?: true;
  collapsar?: string;
  name: string;
  cpus?: number;
  mem?: number;
  throttle?: number;
  retries: number;
  shardWait?: number;
  quiet?: true;
  partition?: string;
  account?: string;
  qos?: string;
  time?: string;
  sbatchArg?: string[];
  rayAddress?: string;
  python?: string;
  rayResource?: string[];
  image?: string;
  namespace?: string;
  claim?: string[];
  envSecret?: string[];
  nodeSelector?: string[];
}

/** Options as the words that give them again, by name. */
export type Given = ReadonlyMap<string, readonly string[]>;

/** Which engine an option belongs to; the others are for all. */
export const ENGINE_OPTIONS: Readonly<Record<'slurm' | 'ray' | 'kubernetes', readonly string[]>> = {
  slurm: ['partition', 'account', 'qos', 'time', 'sbatchArg'],
  ray: ['rayAddress', 'python', 'rayResource'],
  kubernetes: ['image', 'namespace', 'claim', 'envSecret', 'nodeSelector'],
};

/** Options that figures depend on. */
export const MEASURING_OPTIONS = [
  'profile',
  'permutations',
  'seed',
  'samples',
  'nonFinite',
  'placeholders',
  'turnRewards',
  'include',
  'exclude',
  ...LOG_FLAGS,
] as const;

/** Options of the analysis: given with PATHS only. */
export const ANALYSIS_OPTIONS = ['shards', 'metrics', ...MEASURING_OPTIONS] as const;
