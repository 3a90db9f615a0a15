// Counts what users can name: exports of all levels, commands, and lines of options in their help. test/tooling/surface.test.ts
// holds them to limits.
//   node scripts/surface.mjs      prints the three, exports by level and options by command
import { spawnSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import ts from 'typescript';
import { root } from './stage.mjs';

/** @returns {Map<string, string[]>} exported names, types included, by the file of their level */
export function exportedNames() {
  const levels = readdirSync(join(root, 'src', 'exports')).map((file) => `src/exports/${file}`);
  const files = ['src/index.ts', ...levels];
  const { config } = ts.readConfigFile(join(root, 'tsconfig.json'), ts.sys.readFile);
  const { options } = ts.parseJsonConfigFileContent(config, ts.sys, root);
  const program = ts.createProgram(
    files.map((file) => join(root, file)),
    options,
  );
  const checker = program.getTypeChecker();
  const namesOf = (file) => {
    const source = program.getSourceFile(join(root, file));
    const symbol = source && checker.getSymbolAtLocation(source);
    if (symbol === undefined) throw new Error(`${file} exports nothing`);
    return checker.getExportsOfModule(symbol).map(({ name }) => name);
  };
  return new Map(files.map((file) => [file, namesOf(file)]));
}

/** What the built command prints as its help. */
function help(...command) {
  const { stdout } = spawnSync(process.execPath, [join(root, 'dist', 'cli', 'main.js'), ...command, '--help']);
  return stdout.toString();
}

/** @returns {Map<string, string[]>} options of each command as its help names them, the help's own among them */
export function commandOptions() {
  const [, list = ''] = help().split('\nCommands:\n');
  const commands = [...list.matchAll(/^ {2}([a-z][a-z-]*)/gm)]
    .map(([, name]) => name)
    .filter((name) => name !== 'help');
  const optionsOf = (name) => [...help(name).matchAll(/^ {2}(-[^ ]+)/gm)].map(([, option]) => option);
  return new Map(commands.map((name) => [name, optionsOf(name)]));
}

if (process.argv[1] === import.meta.filename) {
  for (const [what, counted] of Object.entries({ exports: exportedNames(), options: commandOptions() })) {
    const total = [...counted.values()].reduce((sum, names) => sum + names.length, 0);
    console.log(`${total} ${what} of ${counted.size}`);
    for (const [of, names] of counted)
      console.log(`  ${of}: ${names.length}${process.argv.includes('--names') ? ` ${names.join(' ')}` : ''}`);
  }
}
