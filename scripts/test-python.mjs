// The Python package: linted, tested against the sidecar of dist/, and its wheel in an empty environment. What is not
// here (a Python, numpy, torch, TRL, ruff) is skipped by name. PYTHON names the interpreter to use.
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { check, root, run, skip, start, versionOf } from './stage.mjs';
import { runWheelCommands } from './wheel-commands.mjs';

const python = process.env.PYTHON ?? 'python3';
const has = async (module) => (await start(python, ['-c', `import ${module}`], { quiet: true })).status === 0;

if (versionOf(python) === null || !(await has('numpy, pytest'))) {
  skip(`the Python package (there is no ${python} with numpy and pytest here)`);
} else {
  const cwd = join(root, 'python');
  if (await has('ruff')) {
    const sources = ['.', '../examples/trl', '../examples/pytorch', '--config', 'pyproject.toml'];
    await run(python, ['-m', 'ruff', 'check', ...sources], { cwd });
    await run(python, ['-m', 'ruff', 'format', '--check', ...sources], { cwd });
  } else skip('lint of Python (there is no ruff here)');
  for (const module of ['torch', 'transformers', 'trl']) {
    if (!(await has(module))) skip(`Python tests that need ${module}`);
  }
  const { output } = await run(python, ['-m', 'pytest', '-rs', '-p', 'no:cacheprovider'], { cwd });
  for (const [, what] of output.matchAll(/^SKIPPED (.*)/gm)) skip(`Python tests: ${what}`);
  await contracts(cwd);
  await wheel();
}

/** Names that hooks and readers rely on, in the packages themselves: downloaded once for each version. */
async function contracts(cwd) {
  const folder = process.env.COLLAPSAR_CONTRACTS ?? join(root, 'build', 'contracts');
  const { status, output } = await start(python, [join('tests', 'contracts.py'), folder], { cwd, quiet: true });
  process.stdout.write(output);
  check(status !== 1, 'a package that hooks or readers rely on has changed: the lines above say where');
  if (status === 2) skip('contracts with other packages (they cannot be downloaded)');
  for (const [, name] of output.matchAll(/^(.*): not looked at/gm)) skip(`contracts with ${name} (it is on no index)`);
}

/** Installed without an index: numpy is this Python's, and nothing else of it is seen. */
async function wheel() {
  const work = realpathSync(mkdtempSync(join(tmpdir(), 'collapsar-wheel-')));
  try {
    await run(process.execPath, [join(root, 'scripts', 'python.mjs'), '--out', work]);
    const [file] = readdirSync(work).filter((name) => name.endsWith('.whl'));
    await run(python, ['-m', 'venv', join(work, 'env')]);
    const installed = join(work, 'env', 'bin', 'python');
    const numpy = (
      await start(python, ['-c', 'import numpy; print(numpy.__path__[0])'], { quiet: true })
    ).output.trim();
    const own = (await start(installed, ['-c', 'import site; print(site.getsitepackages()[0])'], { quiet: true }))
      .output;
    const needed = join(work, 'needed');
    mkdirSync(needed);
    for (const name of ['numpy', 'numpy.libs']) {
      const source = join(dirname(numpy), name);
      if (existsSync(source)) symlinkSync(source, join(needed, name));
    }
    writeFileSync(join(own.trim(), 'numpy-of-elsewhere.pth'), `${needed}\n`);
    const begun = performance.now();
    await run(installed, ['-m', 'pip', 'install', '--quiet', '--no-index', '--no-deps', join(work, file)], {
      cwd: work,
    });
    const seconds = (performance.now() - begun) / 1000;
    console.log(`installed in ${seconds.toFixed(1)} s`);
    check(seconds < 20, 'an install takes 20 s or more');
    await run(installed, ['-c', 'import collapsar; collapsar.doctor()'], { cwd: work });
    const bin = dirname(installed);
    const PATH = [dirname(process.execPath), bin, '/usr/bin', '/bin'].join(delimiter);
    const empty = join(work, 'empty');
    mkdirSync(empty);
    const nothing = Object.fromEntries(Object.keys(process.env).map((name) => [name, undefined]));
    await runWheelCommands(join(bin, 'collapsar'), empty, { ...nothing, PATH, HOME: empty, LANG: 'C.UTF-8' });
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}
