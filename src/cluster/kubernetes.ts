// Writes a submission as YAML for kubectl: an Indexed Job that measures shards, and a Job that waits for them and
// writes the results. Asks nothing of the cluster, so needs no credentials.
import type { Submission, TaskOptions } from './submission.js';
import { finishScript, shardScript } from './task-scripts.js';
import { type YamlValue, yamlDocuments } from './yaml.js';

export interface KubernetesOptions extends TaskOptions {
  readonly image: string;
  readonly namespace: string | undefined;
  /** Persistent volume claims and where the pods have them. */
  readonly claims: readonly { readonly claim: string; readonly mount: string }[];
  /** Secrets whose keys become environment variables: credentials of a store. */
  readonly secrets: readonly string[];
  readonly nodeSelector: Readonly<Record<string, string>>;
}

/** Most indices of an Indexed Job whose indices fail one by one. */
const MOST_COMPLETIONS = 100_000;
/** Numbers of shards that a script lists, at most: it is one word of a command, which has at most 128 KiB on Linux. */
const MOST_LISTED = 15_000;
/** Time that the finishing job waits for a new journal: evicted pods and new nodes take their time. */
const SHARD_WAIT = 6 * 3600;

/** @returns the text for `kubectl apply -f -` */
export function kubernetesJobs(submission: Submission, options: KubernetesOptions): string {
  const { missing, shards, number } = submission;
  // Without a limit a pod sees all cores of its node.
  const threads = options.cpus === undefined ? {} : { threads: String(options.cpus) };
  const documents: YamlValue[] = [];
  const most = missing.length === shards ? MOST_COMPLETIONS : MOST_LISTED;
  const parts = Math.ceil(missing.length / most);
  for (let part = 0; part < parts; part++) {
    const offset = part * most;
    const indices = missing.slice(offset, offset + most);
    const suffix = parts === 1 ? 'shards' : `shards-${part + 1}`;
    const name = `${options.name}-${number}-${suffix}`;
    // An Indexed Job counts from 0: where only some shards are left, the script looks up which ones they are.
    const script =
      missing.length === shards
        ? shardScript(submission, {
            before: `shard=$((JOB_COMPLETION_INDEX + ${offset}))\n`,
            index: '$shard',
            ...threads,
          })
        : shardScript(submission, { before: lookUp(indices), index: '$1', ...threads });
    documents.push(
      job(name, options, script, {
        completionMode: 'Indexed',
        completions: indices.length,
        parallelism: Math.min(indices.length, options.throttle ?? indices.length),
        backoffLimitPerIndex: options.retries,
        podFailurePolicy: {
          rules: [
            // A node that was drained, preempted or lost says nothing against the shard.
            { action: 'Ignore', onPodConditions: [{ type: 'DisruptionTarget', status: 'True' }] },
            { action: 'FailIndex', onExitCodes: { operator: 'In', values: [2] } },
          ],
        },
      }),
    );
  }
  const patience = options.shardWait ?? SHARD_WAIT;
  const script = finishScript(submission, { patience, every: 30 });
  documents.push(job(`${options.name}-${number}-finish`, options, script, { backoffLimit: options.retries }));
  return yamlDocuments(documents);
}

/**
 * Kubernetes puts variables of its own into a command, as $(NAME), and takes $$ for a dollar sign: in a path they are
 * for themselves.
 */
function literal(script: string): string {
  return script.replace(/\$(?=\$|\([A-Za-z_.-][A-Za-z0-9_.-]*\))/g, '$$$$');
}

function lookUp(indices: readonly number[]): string {
  return `# The shards that are left; this task's is at its index.
set -- ${indices.join(' ')}
shift "$JOB_COMPLETION_INDEX"
`;
}

function job(name: string, options: KubernetesOptions, script: string, spec: Record<string, YamlValue>): YamlValue {
  const { image, namespace, claims, secrets, nodeSelector, cpus, memory } = options;
  const resources = {
    ...(cpus !== undefined && { cpu: String(cpus) }),
    ...(memory !== undefined && { memory: String(memory) }),
  };
  const container = {
    name: 'collapsar',
    image,
    command: ['/bin/sh', '-c', literal(script)],
    ...(secrets.length > 0 && { envFrom: secrets.map((secret) => ({ secretRef: { name: secret } })) }),
    ...(Object.keys(resources).length > 0 && {
      resources: { requests: resources, ...(memory !== undefined && { limits: { memory: String(memory) } }) },
    }),
    volumeMounts: claims.map(({ mount }, at) => ({ name: `data-${at}`, mountPath: mount })),
  };
  return {
    apiVersion: 'batch/v1',
    kind: 'Job',
    metadata: {
      name,
      ...(namespace !== undefined && { namespace }),
      labels: { 'app.kubernetes.io/name': 'collapsar' },
    },
    spec: {
      ...spec,
      template: {
        metadata: { labels: { 'app.kubernetes.io/name': 'collapsar' } },
        spec: {
          restartPolicy: 'Never',
          ...(Object.keys(nodeSelector).length > 0 && { nodeSelector }),
          containers: [container],
          volumes: claims.map(({ claim }, at) => ({
            name: `data-${at}`,
            persistentVolumeClaim: { claimName: claim },
          })),
        },
      },
    },
  };
}
