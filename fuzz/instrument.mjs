// Sources in, JavaScript with a counter at every branch out: what tells the fuzzer that an input has reached something
// new.
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import ts from 'typescript';

/** Counters that there is room for; more branches share them. */
export const COUNTERS = 2 ** 14;

/**
 * Compiles `folders` of `root` to `out`, one file each, counting in those that `counted` takes.
 * @returns how many branches there are
 */
export function instrument(root, folders, out, counted) {
  rmSync(out, { recursive: true, force: true });
  let branches = 0;
  const options = { module: ts.ModuleKind.ESNext, target: ts.ScriptTarget.ES2022, verbatimModuleSyntax: true };
  for (const folder of folders) {
    const names = readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' }).filter((name) =>
      name.endsWith('.ts'),
    );
    for (const name of names) {
      const file = join(root, folder, name);
      /** @type {import('typescript').TransformerFactory<any>[]} */
      const before = counted(relative(root, file)) ? [counting(() => branches++ % COUNTERS)] : [];
      const { outputText } = ts.transpileModule(readFileSync(file, 'utf8'), {
        compilerOptions: options,
        fileName: file,
        transformers: { before },
      });
      const target = join(out, folder, name.replace(/\.ts$/, '.js'));
      mkdirSync(dirname(target), { recursive: true });
      writeFileSync(target, outputText);
    }
  }
  return branches;
}

/** Counts each block that is entered and each arm of ?:, &&, || and ?? that is evaluated. */
function counting(next) {
  return (context) => {
    const { factory } = context;
    const count = () =>
      factory.createPostfixIncrement(
        factory.createElementAccessExpression(
          factory.createIdentifier('__branches'),
          factory.createNumericLiteral(next()),
        ),
      );
    const arm = (expression) => factory.createParenthesizedExpression(factory.createComma(count(), expression));
    const branching = new Set([
      ts.SyntaxKind.AmpersandAmpersandToken,
      ts.SyntaxKind.BarBarToken,
      ts.SyntaxKind.QuestionQuestionToken,
    ]);
    const blockOf = (statement) =>
      ts.isBlock(statement) ? statement : factory.createBlock([factory.createExpressionStatement(count()), statement]);
    const visit = (node) => {
      const seen = ts.visitEachChild(node, visit, context);
      if (ts.isBlock(seen)) {
        return factory.updateBlock(seen, [factory.createExpressionStatement(count()), ...seen.statements]);
      }
      if (ts.isIfStatement(seen)) {
        const otherwise = seen.elseStatement && blockOf(seen.elseStatement);
        return factory.updateIfStatement(seen, seen.expression, blockOf(seen.thenStatement), otherwise);
      }
      if (ts.isCaseClause(seen)) {
        return factory.updateCaseClause(seen, seen.expression, [
          factory.createExpressionStatement(count()),
          ...seen.statements,
        ]);
      }
      if (ts.isConditionalExpression(seen)) {
        return factory.updateConditionalExpression(
          seen,
          seen.condition,
          seen.questionToken,
          arm(seen.whenTrue),
          seen.colonToken,
          arm(seen.whenFalse),
        );
      }
      if (ts.isBinaryExpression(seen) && branching.has(seen.operatorToken.kind)) {
        return factory.updateBinaryExpression(seen, seen.left, seen.operatorToken, arm(seen.right));
      }
      return seen;
    };
    return (source) => ts.visitNode(source, visit);
  };
}
