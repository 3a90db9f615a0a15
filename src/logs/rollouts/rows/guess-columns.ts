// Guesses the meaning of the columns of any table from their names.

/** Names as they are compared: lower case, only letters and digits. The likeliest first. */
const NAMES = {
  step: ['step', 'globalstep', 'trainingstep', 'trainstep', 'iteration', 'iter'],
  group: ['groupid', 'group', 'taskid', 'problemid', 'questionid', 'promptid', 'exampleid', 'docid', 'groupindex'],
  prompt: ['prompt', 'question', 'input', 'problem', 'query', 'instruction', 'prompttext', 'inputtext', 'requests'],
  output: [
    ...['output', 'completion', 'response', 'generation', 'completions', 'responses', 'generations', 'outputs'],
    ...['outputtext', 'generatedtext', 'modeloutput', 'modelresponse', 'policyresponse', 'prediction', 'resps', 'text'],
    ...['messages', 'conversations', 'conversation', 'trajectory', 'traj', 'code', 'solution', 'answer', 'content'],
  ],
  tokens: ['tokens', 'responsetokens', 'responseids', 'tokenids', 'outputids', 'completionids'],
  reward: [
    ...['reward', 'totalreward', 'rewards', 'score', 'scores', 'correct', 'iscorrect', 'passed', 'pass', 'success'],
    ...[
      'acc',
      'accuracy',
      'correctness',
      'correctnessmathverify',
      'issolved',
      'resolved',
      'outcome',
      'return',
      'total',
    ],
  ],
  environment: ['environment', 'envname', 'env', 'datasource'],
} as const;

/** They begin with their prompt. */
const CHATS = ['messages', 'conversations', 'conversation', 'trajectory', 'traj'];

/** Ids that may be a row's own, or of a whole data set: used if nothing else identifies the prompt. */
const LAST_IDS = ['task', 'id', 'idx', 'index', 'uid', 'uuid'];

export type GuessedColumns = { readonly [Own in keyof typeof NAMES]?: string };

/**
 * @param names of columns, and of what is in their objects as paths
 * @returns undefined if no response is among them, nor a reward of a group
 */
export function guessedColumns(names: readonly string[]): GuessedColumns | undefined {
  // What an option cannot say is left out.
  const usable = names.filter((name) => typeof name === 'string' && !/[,=\s'"]/.test(name));
  const taken = new Set<string>();
  const find = (known: readonly string[]): string | undefined => {
    const depths = [...new Set(usable.map(depthOf))].sort((a, b) => a - b);
    for (const depth of depths) {
      for (const word of known) {
        const found = usable.find((name) => !taken.has(name) && depthOf(name) === depth && wordOf(name) === word);
        if (found !== undefined) {
          taken.add(found);
          return found;
        }
      }
    }
    return undefined;
  };
  const guess: Record<string, string | undefined> = {};
  for (const own of ['output', 'prompt', 'reward', 'step', 'group', 'environment'] as const)
    guess[own] = find(NAMES[own]);
  if (guess.output === undefined) guess.tokens = find(NAMES.tokens);
  const isChat = guess.output !== undefined && CHATS.includes(wordOf(guess.output));
  if (guess.group === undefined && guess.prompt === undefined && !isChat) guess.group = find(LAST_IDS);
  const isGroup = guess.group !== undefined || guess.prompt !== undefined;
  if (guess.output === undefined && guess.tokens === undefined && !(guess.reward !== undefined && isGroup))
    return undefined;
  const inOrder = Object.keys(NAMES).filter((own) => guess[own] !== undefined);
  return Object.fromEntries(inOrder.map((own) => [own, guess[own]]));
}

const depthOf = (name: string): number => name.split('.').length;

function wordOf(name: string): string {
  const last = name.split('.').filter((part) => !/^\d+$/.test(part));
  return (last.at(-1) ?? '').toLowerCase().replace(/[^a-z0-9]/g, '');
}
