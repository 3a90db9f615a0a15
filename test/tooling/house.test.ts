// The rule of lint about the package's name: that it finds what it is there for.
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { packageRoot as root } from '../../src/checks/package-root.js';

const { foreignPackage, houseProblems } = (await import(join(root, 'scripts', 'house.mjs'))) as {
  foreignPackage: (text: string) => string[];
  houseProblems: () => string[];
};

const install = ['pip', 'install'].join(' ');

describe('houseProblems', () => {
  it('finds nothing in the repository', () => {
    expect(houseProblems()).toEqual([]);
  });

  it.each([
    `${install} collapsar`,
    `python -m ${install} -U "collapsar[hf]" trl`,
    `run \`${install} torch collapsar==0.1.1\``,
    `${install}\n  collapsar`,
    'uv add collapsar',
    `uv ${install} --pre collapsar`,
  ])('finds that %j installs another package', (text) => {
    expect(foreignPackage(`before\n${text}\nafter`)).toHaveLength(1);
  });

  it.each([
    `${install} collapsar-rl`,
    `${install} build/python/collapsar_rl-*.whl trl`,
    `${install} ../collapsar/python`,
    `${install} trl; python -c "import collapsar"`,
    'pip uninstall collapsar',
    'npm install collapsar',
  ])('lets %j be', (text) => {
    expect(foreignPackage(text)).toEqual([]);
  });
});
