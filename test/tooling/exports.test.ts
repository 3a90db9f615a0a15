// The public surface: package.json's subpaths are the files of src/exports, and each export is in one level alone.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import ts from 'typescript';
import { describe, expect, it } from 'vitest';

const root = fileURLToPath(new URL('../..', import.meta.url));
const { exports } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { exports: object };
const names = readdirSync(join(root, 'src', 'exports')).map((file) => file.replace(/\.ts$/, ''));
const files = ['src/index.ts', ...names.map((name) => `src/exports/${name}.ts`)].map((file) => join(root, file));

const { config } = ts.readConfigFile(join(root, 'tsconfig.json'), ts.sys.readFile);
const program = ts.createProgram(files, ts.parseJsonConfigFileContent(config, ts.sys, root).options);
const checker = program.getTypeChecker();

/** What a level exports, types included. */
function exportsOf(file: string): ts.Symbol[] {
  const source = program.getSourceFile(file) as ts.SourceFile;
  return checker.getExportsOfModule(checker.getSymbolAtLocation(source) as ts.Symbol);
}

describe('the package', () => {
  it('has a subpath for each file of src/exports, with its types', () => {
    const expected = Object.fromEntries(
      names.map((name) => [
        `./${name}`,
        { types: `./dist/exports/${name}.d.ts`, default: `./dist/exports/${name}.js` },
      ]),
    );
    expect(exports).toEqual({
      '.': { types: './dist/index.d.ts', default: './dist/index.js' },
      ...expected,
      './package.json': './package.json',
    });
  });

  it('has each export, types included, in one level alone', () => {
    const found = files.flatMap((file) => exportsOf(file).map(({ name }) => name));
    expect(found.length).toBeGreaterThan(250);
    expect(found.filter((name, at) => found.indexOf(name) !== at)).toEqual([]);
  });
});
