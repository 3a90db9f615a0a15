// Every command of an installed wheel, once: that what it loads is in the wheel. The list is that of its own help, so
// that a new command without a run here fails.
import { spawn } from 'node:child_process';
import { cpSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { check, root, start } from './stage.mjs';

const PATIENCE_MS = 120_000;

/**
 * @param command path of the installed `collapsar`
 * @param cwd an empty folder
 * @param env all that the commands see
 */
export async function runWheelCommands(command, cwd, env) {
  const example = join(root, 'examples', 'data', 'collapse');
  for (const step of ['00001', '00004', '00008', '00012']) {
    cpSync(join(example, `step_${step}.safetensors`), join(cwd, 'runs', `step_${step}.safetensors`));
  }
  const step = join('runs', 'step_00001.safetensors');
  const row = (group, at) => ({
    step: 1,
    group,
    prompt: `go ${group}`,
    response: `so far ${group} ${at}`,
    reward: at % 2,
  });
  // More than one block, so that threads parse them.
  const rows = Array.from({ length: 6000 }, (_, at) => row(at % 2, at));
  writeFileSync(join(cwd, 'rollouts.jsonl'), rows.map((each) => `${JSON.stringify(each)}\n`).join(''));
  writeFileSync(join(cwd, 'pickled.pkl'), '');

  const quick = ['--permutations', '19', '--threads', '1'];
  const columns = ['--columns', 'step=step,group=group,prompt=prompt,output=response,reward=reward'];
  const cluster = ['--engine', 'kubernetes', '--image', 'example/collapsar:1', '--claim', `data:${cwd}`];
  // What each is given; what it must say, on stdout or stderr; its exit status where that is not 0.
  /** @type {[string[], RegExp, number?][]} */
  const runs = [
    [['analyze', 'runs', ...quick], /retrieval/],
    [['analyze', 'rollouts.jsonl', ...columns, ...quick], /rollouts/],
    [['analyze', 'runs', ...quick, '--shard', '0/1', '--out', 'work'], /step/],
    [['analyze', 'runs', ...quick, '--journals', 'work'], /retrieval/],
    [['submit', join(cwd, 'runs'), ...cluster, '--work', join(cwd, 'w'), '--out', join(cwd, 'results')], /kind: "?Job/],
    [['plan-scores', step, '--negatives', '3'], /"rows":/],
    [
      ['score', 'rollouts.jsonl', '--engine', 'vllm', '--url', 'http://127.0.0.1:9', '--out', 'steps'],
      /rollouts\.jsonl|127\.0\.0\.1/,
      1,
    ],
    [['filter', step], /kept|group/],
    [['watch', 'runs', '--once', ...quick], /runs/],
    [['report', 'runs', '--output', 'report.html', '--figures', 'figures', ...quick], /report\.html/],
    [['explain', 'mi_seq_estimate'], /mi_seq_estimate/],
    [['build'], /no sources/, 1],
    [['formats'], /verl/],
    [['doctor'], /self-test/],
    [['help'], /Usage/],
    [['export', 'pickled.pkl', '--out', 'exported.jsonl'], /pickled\.pkl/, 1],
  ];
  const named = new Set([...runs.map(([[name]]) => name), 'monitor', 'serve']);
  const { output: help } = await start(command, ['help'], { cwd, env, quiet: true });
  const listed = [...help.matchAll(/^ {2}([a-z][a-z-]*)[ [<]/gm)].map(([, name]) => name);
  const forgotten = listed.filter((name) => !named.has(name));
  check(
    listed.length > 10 && forgotten.length === 0,
    `commands of the wheel that nothing runs: ${forgotten.join(', ')}`,
  );
  for (const [args, expected, status = 0] of runs) {
    const ran = await start(command, args, { cwd, env, quiet: true });
    const isAsExpected = ran.status === status && expected.test(ran.output);
    check(
      isAsExpected,
      `collapsar ${args.join(' ')} of the wheel ended with ${ran.status}:\n${ran.output.slice(-2000)}`,
    );
  }
  check(readFileSync(join(cwd, 'report.html'), 'utf8').includes('id="payload"'), 'the report of the wheel has no data');
  check(/<svg/.test(drawn(join(cwd, 'figures'))), 'the wheel draws no figures');
  const request = `${JSON.stringify({ id: 1, op: 'open' })}\n${JSON.stringify({ id: 2, op: 'close' })}\n`;
  await served(command, ['monitor', '--serve', '0'], cwd, env, request);
  await served(command, ['serve', 'runs', '--port', '0', ...quick], cwd, env);
  console.log(`${named.size} commands of the wheel ran`);
}

/** The first figure of a folder, as text. */
function drawn(folder) {
  const [first] = readdirSync(folder).filter((name) => name.endsWith('.svg'));
  return first === undefined ? '' : readFileSync(join(folder, first), 'utf8');
}

/** Opens the page at the address that a command prints, then ends it. */
async function served(command, args, cwd, env, request) {
  const child = spawn(command, args, { cwd, env, stdio: ['pipe', 'pipe', 'pipe'] });
  const timer = setTimeout(() => child.kill('SIGKILL'), PATIENCE_MS);
  let said = '';
  const ended = new Promise((resolve) => child.on('close', resolve));
  child.stdout.on('data', (piece) => (said += piece));
  const address = await new Promise((resolve) => {
    child.stderr.on('data', (piece) => {
      said += piece;
      const found = /http:\/\/\S+/.exec(said)?.[0];
      if (found !== undefined) resolve(found);
    });
    child.on('close', () => resolve(undefined));
  });
  check(address !== undefined, `collapsar ${args.join(' ')} of the wheel shows no page:\n${said.slice(-2000)}`);
  const page = await fetch(address);
  check(page.ok && (await page.text()).includes('<script'), `the page at ${address} is none: ${page.status}`);
  if (request === undefined) child.kill('SIGINT');
  else child.stdin.end(request);
  await ended;
  clearTimeout(timer);
  check(
    request === undefined || /"id":2/.test(said),
    `collapsar ${args.join(' ')} of the wheel did not answer:\n${said}`,
  );
}
