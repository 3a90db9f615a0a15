// The signatures over the native methods (native/node) beside their TypeScript declarations (src/engine/native.ts): the
// same methods, and of each the same arguments, by name and type, and the same result.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { globSync } from 'tinyglobby';
import ts from 'typescript';
import { root } from './stage.mjs';

/** Tuples that native code takes with one function; a signature over a method names them `...tokens` and so on. */
const groups = {
  TokenArguments: 'tokens',
  RowStatsArguments: 'stats',
  TextRowsArguments: 'rows',
  TextsArguments: 'phrases',
};
const classes = { NativeEngine: 'engine_object.cpp', NativeTokenSink: 'token_sink_object.cpp' };

/** Cuts at the commas and semicolons that are in no bracket. */
function parts(text) {
  const found = [''];
  let depth = 0;
  for (const char of text) {
    depth += '([{<'.includes(char) ? 1 : ')]}>'.includes(char) ? -1 : 0;
    if (depth === 0 && (char === ',' || char === ';')) found.push('');
    else found[found.length - 1] += char;
  }
  return found.map((part) => part.trim()).filter((part) => part !== '');
}

/** Gives each name its type: 'a, b: number' is ['a: number', 'b: number']; groups stay as they are. */
function fields(text) {
  let type;
  return parts(text)
    .reverse()
    .map((part) => {
      if (part.startsWith('...')) return part;
      const [, name, own] = part.match(/^(\w+)\??(?:\s*:\s*(.*))?$/s) ?? [undefined, part];
      type = own === undefined ? type : typeOf(own);
      return `${name === 'protected' ? 'isProtected' : name}: ${type}`;
    })
    .reverse();
}

/** A type in one spelling: alternatives in order, fields of objects each with its type, no shapes of arrays. */
function typeOf(text) {
  const plain = text
    .replace(/\s*\[[^\]]*\]/g, '')
    .replace(/\s+/g, ' ')
    .trim();
  if (plain.startsWith('{')) {
    const end = plain.lastIndexOf('}');
    return `{ ${fields(plain.slice(1, end)).join(', ')} }${plain.slice(end + 1)}`;
  }
  const alternatives = plain.split('|').map((one) => one.trim());
  return alternatives.every((one) => /^\d$/.test(one)) ? 'number' : alternatives.sort().join(' | ');
}

/** Signatures in the comments of files, { arguments, result } by name. */
function nativeSignatures(files, read) {
  const found = new Map();
  for (const file of files) {
    const text = read(file);
    for (const [, name, body] of text.matchAll(/^\/\/ (\w+)(\((?:[^\n]*\n\/\/ {2,})*[^\n]*)\n/gm)) {
      // What is in brackets within the arguments explains them; what comes after four spaces, the whole.
      const flat = body.replace(/\n\/\/ +/g, ' ').replace(/ {4,}.*$/, '');
      const plain = `(${flat.slice(1).replace(/ \((?:[^()]|\([^()]*\))*\)/g, '')}`;
      const match = plain.match(/^\(([^)]*)\): (.*)$/);
      if (match === null) continue;
      const given = match[1].replace(/^settle(, )?/, '');
      found.set(name, { arguments: fields(given), result: typeOf(match[2]) });
    }
  }
  return found;
}

/** The methods that a class gives JavaScript. */
function registered(file, read) {
  const text = read(`native/node/${file}`);
  return [...text.matchAll(/method<&[^"]*>\("(\w+)"\)/g)].map(([, name]) => name);
}

function declarations(read) {
  const path = 'src/engine/native.ts';
  const source = ts.createSourceFile(path, read(path), ts.ScriptTarget.Latest, true);
  /** @type {readonly any[]} with a name, most of them */
  const statements = source.statements;
  const named = new Map(statements.filter((one) => one.name !== undefined).map((one) => [one.name.text, one]));

  /** Members of a tuple, or of what has its name. */
  const expanded = (type) => {
    if (ts.isTypeReferenceNode(type)) {
      const name = type.typeName.getText();
      if (groups[name] !== undefined) return [`...${groups[name]}`];
      return expanded(named.get(name).type);
    }
    return type.elements.flatMap((element) =>
      element.dotDotDotToken || ts.isRestTypeNode(element)
        ? expanded(element.type)
        : [`${element.name.getText()}: ${typeOf(element.type.getText())}`],
    );
  };
  const argumentsOf = (parameters) =>
    parameters
      .filter((one) => one.name.getText() !== 'settle')
      .flatMap((one) =>
        one.dotDotDotToken ? expanded(one.type) : [`${one.name.getText()}: ${typeOf(one.type.getText())}`],
      );
  const methodsOf = (name) =>
    named
      .get(name)
      .members.filter(ts.isMethodSignature)
      .map((one) => [
        one.name.getText(),
        { arguments: argumentsOf(one.parameters), result: typeOf(one.type.getText()) },
      ]);
  // Each kind of shuffle is a job of its own name.
  const shuffles = named
    .get('ShuffleArguments')
    .members.map((one) => [one.name.getText(), { arguments: expanded(one.type), result: undefined }]);
  return {
    NativeEngine: new Map([...methodsOf('NativeEngine'), ...shuffles]),
    NativeTokenSink: new Map(methodsOf('NativeTokenSink')),
  };
}

/** Whether native code says of an argument what is declared, or takes less of the declared alternatives. */
function agrees(native, declared) {
  const [name, type] = native.split(': ');
  const [wanted, alternatives] = declared.split(': ');
  if (type === undefined || alternatives === undefined) return native === declared;
  return name === wanted && type.split(' | ').every((one) => alternatives.split(' | ').includes(one));
}

/**
 * @param {(file: string) => string} read  a file of the repository
 * @returns {string[]}
 */
export function signatureProblems(read = (file) => readFileSync(join(root, file), 'utf8')) {
  const files = globSync('native/node/**/*.cpp', { cwd: root });
  const problems = [];
  for (const [owner, methods] of Object.entries(declarations(read))) {
    const isSink = (file) => file.endsWith(classes.NativeTokenSink);
    const native = nativeSignatures(
      files.filter((file) => isSink(file) === (owner === 'NativeTokenSink')),
      read,
    );
    const offered = registered(classes[owner], read);
    for (const name of offered) if (!methods.has(name)) problems.push(`${owner}.${name} is not declared in native.ts`);
    for (const [name, declared] of methods) {
      const signature = native.get(name);
      if (!offered.includes(name))
        problems.push(`${owner}.${name} is declared, but ${classes[owner]} has no such method`);
      else if (signature === undefined) problems.push(`${owner}.${name} has no signature over its native function`);
      else {
        const same =
          signature.arguments.length === declared.arguments.length &&
          signature.arguments.every((one, at) => agrees(one, declared.arguments[at]));
        const gives = declared.result ?? signature.result;
        if (same && signature.result === gives) continue;
        problems.push(
          `${owner}.${name}: native code says (${signature.arguments.join(', ')}): ${signature.result}\n` +
            `  native.ts declares (${declared.arguments.join(', ')}): ${gives}`,
        );
      }
    }
  }
  return problems;
}
