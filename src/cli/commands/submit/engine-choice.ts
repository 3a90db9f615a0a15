// Builds the engine that the options of the command line name, with its settings.
import { resolve } from 'node:path';
import type { KubernetesOptions } from '../../../cluster/kubernetes.js';
import { Ray } from '../../../cluster/ray.js';
import { Slurm } from '../../../cluster/slurm.js';
import type { ClusterBackend, Submission, TaskOptions } from '../../../cluster/submission.js';
import type { SubmitFlags } from './flags.js';
import { Usage } from './usage.js';

/** @returns undefined for Kubernetes, where the user applies the jobs */
export function engineOf(flags: SubmitFlags): ClusterBackend | undefined {
  const { engine, partition, account, qos, time, sbatchArg, rayAddress, python = 'python3', rayResource = [] } = flags;
  const task = taskOptions(flags);
  if (engine === 'slurm') return new Slurm({ ...task, partition, account, qos, time, passed: sbatchArg ?? [] });
  if (engine !== 'ray') return undefined;
  const resources = Object.fromEntries(
    rayResource.map((text) => {
      const [name, amount] = pair(text, '=', '--ray-resource');
      if (!(Number(amount) > 0 && Number.isFinite(Number(amount))))
        throw new Usage(`--ray-resource ${text}: expected NAME=NUMBER`);
      return [name, Number(amount)];
    }),
  );
  return new Ray({ ...task, address: rayAddress, python, resources });
}

function taskOptions({ name, cpus, mem, throttle, retries, shardWait }: SubmitFlags): TaskOptions {
  return { name, cpus, memory: mem, throttle, retries, shardWait };
}

/** @throws {Usage} if pods would not see what they need */
export function kubernetesOptions(flags: SubmitFlags, { work, out }: Submission): KubernetesOptions {
  const { image = '', namespace, claim = [], envSecret = [], nodeSelector = [] } = flags;
  const claims = claim.map((text) => {
    const [name, mount] = pair(text, ':', '--claim');
    if (!mount.startsWith('/')) throw new Usage(`--claim ${text}: expected NAME:/DIRECTORY`);
    return { claim: name, mount: resolve(mount) };
  });
  for (const path of [work, out]) {
    if (claims.some(({ mount }) => mount === '/' || path === mount || path.startsWith(`${mount}/`))) continue;
    throw new Usage(`${path} is in no --claim: pods would not see it`);
  }
  const labels = Object.fromEntries(nodeSelector.map((text) => pair(text, '=', '--node-selector')));
  return { ...taskOptions(flags), image, namespace, claims, secrets: envSecret, nodeSelector: labels };
}

function pair(text: string, between: string, option: string): [string, string] {
  const at = text.indexOf(between);
  if (at < 1 || at === text.length - 1)
    throw new Usage(`${option} ${text}: expected two parts with "${between}" between`);
  return [text.slice(0, at), text.slice(at + 1)];
}
