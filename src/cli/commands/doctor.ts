// `collapsar doctor`: what this installation is made of, and whether it computes what it should.

import { statSync } from 'node:fs';
import { createRequire } from 'node:module';
import { totalmem } from 'node:os';
import type { Command } from 'commander';
import { shortBytes } from '../../checks/numbers.js';
import { packageVersion } from '../../checks/package-version.js';
import { escaped, escapedLines } from '../../checks/words.js';
import type { CudaDevice } from '../../engine/device/cuda-device.js';
import { probeCuda } from '../../engine/device/cuda-probe.js';
import type { Engine } from '../../engine/engine.js';
import { openEngine } from '../../engine/open-engine.js';
import { EXIT } from '../output/exit-codes.js';
import type { Streams } from '../output/streams.js';
import { painter } from '../output/text-style.js';
import { selfTest } from './self-test.js';

/** @param done takes the exit status */
export function define(command: Command, streams: Streams, done: (status: number) => void): void {
  command
    .option('--json', 'print one JSON object')
    .action(async (flags: { json?: true }) => done(await doctorCommand(flags, streams)));
}

const NEEDED_NODE_API = 8;

interface Findings {
  collapsar: string;
  node: string;
  nodeApi: { version: number; needed: number };
  platform: string;
  /** null if the addon does not load. */
  addon: { path: string; builtBy: string; builtAt: string } | null;
  instructionSets: { inUse: string; available: readonly string[] } | null;
  threads: number | null;
  memory: { totalBytes: number; availableBytes: number; limitBytes: number | null };
  /** `reason`: why no GPU is used, or what one computes wrong. */
  cuda: {
    available: boolean;
    reason: string | null;
    driver: string | null;
    runtime: string | null;
    devices: readonly CudaDevice[];
  };
  selfTest: { passed: boolean; problem: string | null };
}

/** @returns exit status: 0 when the engine opens and computes the right answer */
export async function doctorCommand(flags: { json?: true }, streams: Streams): Promise<number> {
  const findings = await examine();
  await streams.out.write(flags.json ? `${JSON.stringify(findings, null, 2)}\n` : report(findings, streams));
  return findings.selfTest.passed ? EXIT.ok : EXIT.failures;
}

async function examine(): Promise<Findings> {
  const findings: Findings = {
    collapsar: packageVersion(),
    node: process.version,
    nodeApi: { version: Number(process.versions.napi), needed: NEEDED_NODE_API },
    platform: `${process.platform}-${process.arch}`,
    addon: null,
    instructionSets: null,
    threads: null,
    memory: memory(),
    cuda: { available: false, reason: 'the engine did not open', driver: null, runtime: null, devices: [] },
    selfTest: { passed: false, problem: null },
  };
  let engine: Engine | undefined;
  try {
    engine = await openEngine();
    const { isa, isaAvailable, threads } = engine.info;
    findings.instructionSets = { inUse: isa, available: isaAvailable };
    findings.threads = threads;
    findings.cuda = await examineCuda(engine.info.fallback);
    const problem = await selfTest(engine);
    findings.selfTest = { passed: problem === null, problem };
  } catch (error) {
    findings.selfTest = { passed: false, problem: error instanceof Error ? error.message : String(error) };
  } finally {
    findings.addon = loadedAddon();
    await engine?.dispose();
  }
  return findings;
}

/** What GPUs there are, and whether the first computes what it should. */
async function examineCuda(fallback: string | null): Promise<Findings['cuda']> {
  if (fallback !== null) return { available: false, reason: fallback, driver: null, runtime: null, devices: [] };
  let engine: Engine | undefined;
  let reason: string | null = null;
  const machine = await probeCuda(0, undefined); // answered already, when the engine was opened
  const { driver, runtime, devices } = 'problem' in machine ? { driver: null, runtime: null, devices: [] } : machine;
  try {
    engine = await openEngine({ device: 'cuda' });
    const problem = await selfTest(engine);
    if (problem !== null) reason = `it computes wrong results: ${problem}`;
  } catch (error) {
    reason = error instanceof Error ? error.message : String(error);
  } finally {
    await engine?.dispose();
  }
  return { available: reason === null, reason, driver, runtime, devices };
}

/** The addon that this process has loaded, as Node's own record of loaded modules has it. */
function loadedAddon(): Findings['addon'] {
  const { cache } = createRequire(import.meta.url);
  const path = Object.keys(cache).find((file) => file.endsWith('.node'));
  if (path === undefined) return null;
  return { path, builtBy: builder(path), builtAt: statSync(path).mtime.toISOString() };
}

/** Each way of building has a folder of its own. */
function builder(path: string): string {
  if (/[\\/]build[\\/]cmake[\\/]/.test(path)) return 'CMake on this machine';
  if (/[\\/]build[\\/](Release|Debug)[\\/]/.test(path)) return 'node-gyp on this machine';
  return 'prebuilt';
}

function memory(): Findings['memory'] {
  const totalBytes = totalmem();
  // Without a limit this is 0, undefined, or more than there is, as the system has it.
  const limit = process.constrainedMemory();
  const limitBytes = limit !== undefined && limit > 0 && limit < totalBytes ? limit : null;
  return { totalBytes, availableBytes: process.availableMemory(), limitBytes };
}

function report(findings: Findings, { out, environment }: Streams): string {
  const paint = painter(out, environment);
  const { addon, instructionSets: sets, memory: ram, nodeApi, cuda, selfTest: test } = findings;
  const limit = ram.limitBytes === null ? '' : `, limited to ${shortBytes(ram.limitBytes)} (cgroup)`;
  const missing = 'unknown: the addon was not loaded';
  const lines: [string, string][] = [
    [
      'Node',
      `${findings.node}, Node-API ${nodeApi.version} (at least ${nodeApi.needed} is needed), ${findings.platform}`,
    ],
    ['addon', addon === null ? 'not loaded' : `${escaped(addon.path)} (${addon.builtBy}, ${addon.builtAt})`],
    [
      'instruction sets',
      sets === null ? missing : `${sets.inUse} in use; this machine can run ${sets.available.join(', ')}`,
    ],
    ['threads', findings.threads === null ? missing : String(findings.threads)],
    ['memory', `${shortBytes(ram.totalBytes)}, of which ${shortBytes(ram.availableBytes)} are available${limit}`],
    [
      'CUDA',
      cuda.available
        ? `usable: driver ${cuda.driver}, runtime ${cuda.runtime}`
        : `not in use: ${escapedLines(String(cuda.reason))}`,
    ],
    ...cuda.devices.map((gpu): [string, string] => [`cuda:${gpu.index}`, describeGpu(gpu)]),
    ['self-test', test.passed ? paint('green', 'passed') : paint('red', 'FAILED')],
  ];
  const width = Math.max(...lines.map(([name]) => name.length));
  const text = lines.map(([name, value]) => `  ${name.padEnd(width)}  ${value}`).join('\n');
  return `collapsar ${findings.collapsar}\n${text}\n${test.passed ? '' : advice(findings)}`;
}

function describeGpu({ name, computeCapability, totalBytes, multiprocessors, pciId, supported }: CudaDevice): string {
  const kernels = supported ? '' : '; this build has no kernels for it';
  const what = `compute capability ${computeCapability}, ${multiprocessors} multiprocessors, PCI ${pciId}`;
  return `${name}, ${shortBytes(totalBytes)}, ${what}${kernels}`;
}

function advice({ addon, selfTest: { problem } }: Findings): string {
  const next =
    addon === null
      ? 'When that is done, run collapsar doctor again.'
      : 'The addon computes wrong results: npx collapsar build compiles it afresh. If that does not help, report it with ' +
        'the output of collapsar doctor --json.';
  return `\n${escapedLines(problem ?? 'unknown problem')}\n${next}\n`;
}
