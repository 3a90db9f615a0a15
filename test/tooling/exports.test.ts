// The public surface: package.json's subpaths are the files of src/exports; each export is in one of them and has a
// docstring, whose example compiles.
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

/** What stands behind an export, where it is declared. */
function declared(symbol: ts.Symbol): ts.Symbol {
  return symbol.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol;
}

const hasDocstring = (symbol: ts.Symbol): boolean => symbol.getDocumentationComment(checker).length > 0;

/** The public members of a class, but for those that JavaScript itself defines. */
function membersOf(symbol: ts.Symbol): ts.Symbol[] {
  const declaration = symbol.valueDeclaration;
  if (declaration === undefined || !ts.isClassDeclaration(declaration)) return [];
  return declaration.members.flatMap((member) => {
    const isPublic = !(ts.getCombinedModifierFlags(member) & ts.ModifierFlags.NonPublicAccessibilityModifier);
    const found = member.name && ts.isIdentifier(member.name) && checker.getSymbolAtLocation(member.name);
    const isInternal = ts.getJSDocTags(member).some(({ tagName }) => tagName.text === 'internal');
    return found && isPublic && !isInternal ? [found] : [];
  });
}

/** What the reader of an example has. */
const GIVEN = `
import type { Engine, Monitor, StepMetrics } from 'collapsar';
declare global {
  const engine: Engine;
  const monitor: Monitor;
  const metrics: StepMetrics;
  const signal: AbortSignal;
  const [n, P, R, T]: [number, number, number, number];
  const data: Float32Array;
  const [groups, lengths]: [Int32Array, Int32Array];
  const rewards: Float64Array;
  const [texts, prompts]: [string[], string[]];
  const policy: {
    logprobs(prompt: number, rows: Int32Array): Promise<{ data: Float32Array; dtype: 'float32'; shape: [number, number] }>;
    scorePairs(rows: Int32Array, prompts: Int32Array): Promise<Float64Array>;
  };
}`;

/** The examples of all docstrings, each a module, by the file that it is in. */
function examples(): Map<string, string> {
  const found = new Map([[join(root, 'test', 'example-given.ts'), GIVEN]]);
  for (const file of readdirSync(join(root, 'src'), { recursive: true, encoding: 'utf8' })) {
    if (!file.endsWith('.ts')) continue;
    const text = readFileSync(join(root, 'src', file), 'utf8');
    for (const [, block] of text.matchAll(/^ *\* @example\n([\s\S]*?)^ *(?:\*\/|\* @)/gm)) {
      const code = (block as string).replace(/^ *\* ?/gm, '');
      found.set(join(root, 'test', `example-${found.size}-${file.replaceAll(/[/\\]/g, '-')}`), `${code}\nexport {};\n`);
    }
  }
  return found;
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

  it('has each export, types included, in one level alone, but for the filter', () => {
    const found = files.flatMap((file) => exportsOf(file).map(({ name }) => name));
    const twice = found.filter((name, at) => found.indexOf(name) !== at);
    expect(twice.sort()).toEqual(['FilterOptions', 'FilterResult', 'filterGroups']);
  });

  it('has few enough exports to be looked through', () => {
    expect(files.flatMap(exportsOf).length).toBeLessThanOrEqual(200);
  });

  it('says of each export, and of each member of a class, what it is', () => {
    const all = files.flatMap(exportsOf).map(declared);
    const silent = [
      ...all.filter((symbol) => !hasDocstring(symbol)).map(({ name }) => name),
      ...all.flatMap((symbol) =>
        membersOf(symbol)
          .filter((member) => !hasDocstring(member))
          .map((member) => `${symbol.name}.${member.name}`),
      ),
    ];
    expect(silent).toEqual([]);
  });

  it('has examples in its docstrings that compile', () => {
    const code = examples();
    expect(code.size).toBeGreaterThan(15);
    const options = { ...program.getCompilerOptions(), noUnusedLocals: false, incremental: false };
    const host = ts.createCompilerHost(options);
    const { getSourceFile, fileExists } = host;
    host.fileExists = (file) => code.has(file) || fileExists(file);
    host.getSourceFile = (file, ...rest) =>
      code.has(file)
        ? ts.createSourceFile(file, code.get(file) as string, rest[0])
        : (program.getSourceFile(file) ?? getSourceFile(file, ...rest));
    const checked = ts.createProgram([...code.keys()], options, host);
    const problems = [...code.keys()].flatMap((file) => {
      const source = checked.getSourceFile(file);
      return [...checked.getSyntacticDiagnostics(source), ...checked.getSemanticDiagnostics(source)].map(
        ({ messageText }) => `${file}: ${ts.flattenDiagnosticMessageText(messageText, ' ')}`,
      );
    });
    expect(problems).toEqual([]);
  });
});
