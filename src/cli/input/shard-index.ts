// Which shard is this process's? What the user says, else what the engine that started it put into the environment.

/** Where engines say which of many equal tasks a process is; from 0 on. */
const INDEX_VARIABLES = [
  'SLURM_ARRAY_TASK_ID',
  'JOB_COMPLETION_INDEX', // Kubernetes indexed jobs
  'AWS_BATCH_JOB_ARRAY_INDEX',
  'OMPI_COMM_WORLD_RANK', // mpirun of Open MPI
] as const;

/** Added to what the engine says, where clusters limit how long an array may be. */
const OFFSET_VARIABLE = 'COLLAPSAR_INDEX_OFFSET';

type Environment = Readonly<Record<string, string | undefined>>;

/** @returns the index, or what is wrong, in a sentence */
export function shardIndex(given: number | undefined, environment: Environment): number | string {
  if (given !== undefined) return given;
  const found = INDEX_VARIABLES.flatMap((name) => {
    const text = environment[name];
    return text === undefined || text === '' ? [] : [{ name, text }];
  });
  const [first] = found;
  if (first === undefined) {
    return `which shard? Give --index, or start it where one of these is set: ${INDEX_VARIABLES.join(', ')}`;
  }
  const other = found.find(({ text }) => text !== first.text);
  // An MPI job within an array: either could be meant.
  if (other !== undefined) {
    return `${first.name} is ${first.text}, but ${other.name} is ${other.text}: say which shard with --index`;
  }
  const index = wholeNumber(first.text);
  if (index === undefined) return `${first.name} is "${first.text}", expected a whole number from 0 on`;
  const offset = wholeNumber(environment[OFFSET_VARIABLE] || '0');
  if (offset === undefined)
    return `${OFFSET_VARIABLE} is "${environment[OFFSET_VARIABLE]}", expected a whole number from 0 on`;
  return index + offset;
}

function wholeNumber(text: string): number | undefined {
  return /^[0-9]{1,15}$/.test(text) ? Number(text) : undefined;
}
