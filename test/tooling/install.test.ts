// scripts/install.mjs with stand-in compilers: which one it takes, what it says of it, and that a failed build does not
// choose the compiler of the next. The package here is one file that no compiler accepts, so that no build takes long.
// And when it tries the CUDA backend again: a package with an addon, but without anything to make a backend of.
import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { delimiter, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { beforeAll, describe, expect, it } from 'vitest';
import { addonPath } from '../../src/engine/addon.js';
import { temporaryDirectory } from '../support/temporary-directory.js';

const repository = fileURLToPath(new URL('../..', import.meta.url));
const found = (program: string): boolean => spawnSync(program, ['--version']).status === 0;
const canBuild = found('g++') && found('cmake') && (found('ninja') || found('make'));

const work = temporaryDirectory();
const root = join(work, 'a path with spaces');
const withoutCompilers = join(work, 'path');

beforeAll(() => {
  for (const folder of ['scripts', 'native']) mkdirSync(join(root, folder), { recursive: true });
  for (const name of ['install.mjs', 'build-addon.mjs', 'addon-tools.mjs'])
    copyFileSync(join(repository, 'scripts', name), join(root, 'scripts', name));
  symlinkSync(join(repository, 'node_modules'), join(root, 'node_modules'));
  copyFileSync(join(repository, 'package.json'), join(root, 'package.json'));
  writeFileSync(join(root, 'native', 'addon.cpp'), '#error refused\n');
  writeFileSync(join(root, 'native', 'empty.cpp'), '\n');
  const lines = ['cmake_minimum_required(VERSION 3.19)', 'project(collapsar LANGUAGES CXX)'];
  writeFileSync(
    join(root, 'CMakeLists.txt'),
    [...lines, 'add_library(collapsar SHARED native/addon.cpp)', ''].join('\n'),
  );
  mkdirSync(withoutCompilers);
  for (const folder of (process.env.PATH ?? '').split(delimiter)) {
    let names: string[] = [];
    try {
      names = readdirSync(folder);
    } catch {
      continue; // PATH may name folders that do not exist
    }
    for (const name of names.filter((one) => !/^(c|g|clang)\+\+/.test(one))) {
      try {
        symlinkSync(join(folder, name), join(withoutCompilers, name));
      } catch {
        // An earlier folder has it.
      }
    }
  }
});

/** A compiler of this name and version, which is this machine's. */
function compiler(name: string): string {
  const path = join(work, name);
  const real = spawnSync('sh', ['-c', 'command -v g++'], { encoding: 'utf8' }).stdout.trim();
  writeFileSync(
    path,
    `#!/bin/sh\ncase "$*" in *--version) echo "${name} of the test"; exit;; esac\nexec ${real} "$@"\n`,
  );
  chmodSync(path, 0o755);
  return path;
}

function install(env: NodeJS.ProcessEnv): { status: number | null; said: string } {
  const { COLLAPSAR_BUILD, COLLAPSAR_CUDA_ARCHITECTURES, CXX, npm_command, ...inherited } = process.env;
  const result = spawnSync(process.execPath, [join(root, 'scripts', 'install.mjs')], {
    env: { ...inherited, COLLAPSAR_CUDA: 'off', ...env },
    encoding: 'utf8',
  });
  return { status: result.status, said: result.stdout + result.stderr };
}

describe.skipIf(!canBuild)('scripts/install.mjs', () => {
  it('asks for a compiler where there is none, and takes the one that CXX names', () => {
    const nothing = install({ PATH: withoutCompilers });
    expect(nothing.status).toBe(1);
    expect(nothing.said).toMatch(/Missing: a C\+\+20 compiler .*CXX names/);
    const named = install({ PATH: withoutCompilers, CXX: compiler('named-g++') });
    expect(named.said).toContain('refused');
    expect(named.said).toContain('the compiler was named-g++ of the test');
  });

  it('says that CXX cannot be run', () => {
    const { status, said } = install({ CXX: 'no-such-g++' });
    expect(status).toBe(1);
    expect(said).toContain('CXX is "no-such-g++", which cannot be run');
  });

  it('takes the compiler that CXX names after a build with another has failed', () => {
    const env = { COLLAPSAR_BUILD: 'cmake' };
    const first = install({ ...env, CXX: compiler('first-g++') });
    expect(first.said).toMatch(/first-g\+\+ .*addon\.cpp/);
    expect(first.said).toContain('CXX names another');
    const second = install({ ...env, CXX: compiler('second-g++') });
    expect(second.said).toMatch(/second-g\+\+ .*addon\.cpp/);
    expect(second.said).toContain('the compiler was second-g++ of the test');
    // Without CXX it is CMake's choice again, and told as such.
    const third = install(env);
    expect(third.said).not.toContain('second-g++');
    expect(third.said).toContain('the compiler was ');
  });

  it('takes CXX with arguments', () => {
    const { said } = install({ COLLAPSAR_BUILD: 'cmake', CXX: `${compiler('wrapped-g++')} -DWRAPPED` });
    expect(said).toMatch(/wrapped-g\+\+ .*-DWRAPPED .*addon\.cpp/);
    expect(said).toContain('the compiler was wrapped-g++ of the test');
  });

  it.runIf(found('python3') && found('make')).each([
    ['', 'a clone'],
    ['native', 'a release'],
  ])('builds with node-gyp where the path has spaces, by binding.gyp in ./%s as %s has it', (folder) => {
    const gyp = join(root, folder, 'binding.gyp');
    writeFileSync(gyp, "{ 'targets': [{ 'target_name': 'collapsar', 'sources': ['native/empty.cpp'] }] }\n");
    const { said } = install({ COLLAPSAR_BUILD: 'gyp' });
    // An addon that is empty.
    expect(said).toContain(join('build', 'Release', 'collapsar.node was built but does not load'));
    rmSync(gyp);
    expect(existsSync(join(root, 'binding.gyp'))).toBe(false);
  });

  describe.runIf(process.platform === 'linux')('the CUDA backend', () => {
    const driver = join(work, 'driver');
    const machine = join(work, 'machine');
    const release = join(root, 'build', 'cmake', 'Release');
    /**
     * With CUDA left to itself, a stand-in nvcc, and where `withDriver` a driver with a GPU of compute capability 9.0.
     */
    const environment = (withDriver: boolean): NodeJS.ProcessEnv => ({
      COLLAPSAR_CUDA: '',
      COLLAPSAR_BUILD: 'cmake',
      CUDACXX: compiler('nvcc'),
      CUDAHOSTCXX: '',
      ...(withDriver && { LD_LIBRARY_PATH: driver, PATH: `${machine}${delimiter}${process.env.PATH}` }),
    });

    beforeAll(() => {
      writeFileSync(
        join(root, 'CMakeLists.txt'),
        // "Compiling" is copying this tree's own addon.
        'cmake_minimum_required(VERSION 3.19)\nproject(collapsar LANGUAGES CXX)\n' +
          `add_custom_target(collapsar COMMAND \${CMAKE_COMMAND} -E copy "${addonPath()}" Release/collapsar.node)\n`,
      );
      rmSync(join(root, 'build', 'cuda-choice.txt')); // the tests above chose "off"
      for (const folder of [driver, machine, release]) mkdirSync(folder, { recursive: true });
      writeFileSync(join(driver, 'libcuda.so.1'), '');
      writeFileSync(join(machine, 'nvidia-smi'), '#!/bin/sh\necho 9.0\necho 9.0\n');
      chmodSync(join(machine, 'nvidia-smi'), 0o755);
      copyFileSync(addonPath(), join(release, 'collapsar.node'));
    });

    it.skipIf(existsSync('/proc/driver/nvidia/version'))(
      'is left out where there is no driver, and nothing is tried',
      () => {
        const { status, said } = install(environment(false));
        expect(status).toBe(0);
        expect(said).toContain('is up to date');
        expect(said).not.toContain('CUDA');
      },
    );

    it('is compiled where a driver is, for its GPUs, and tried again only with other compilers', () => {
      const env = environment(true);
      const failed = /building the CUDA backend .* failed.*CUDAHOSTCXX names another/s;
      const first = install(env);
      expect(first.said).toContain('compiling the CUDA backend for 90-real: about ');
      expect(first.said).toMatch(failed);
      expect(first.status).toBe(0);
      expect(install(env).said).toContain('is up to date');
      const other = { ...env, CUDAHOSTCXX: compiler('other-g++') };
      expect(install(other).said).toMatch(failed);
      expect(install(other).said).toContain('is up to date');
    });

    it('stays as COLLAPSAR_CUDA chose it until it says otherwise', () => {
      const env = { ...environment(true), CUDAHOSTCXX: compiler('third-g++') };
      expect(install({ ...env, COLLAPSAR_CUDA: 'off' }).said).toContain('is up to date');
      expect(install(env).said).toContain('is up to date');
      expect(install({ ...env, COLLAPSAR_CUDA: 'auto' }).said).toContain('compiling the CUDA backend');
    });

    it.skipIf(!found('python3') || existsSync('/usr/local/cuda/bin/nvcc'))(
      "takes nvcc of NVIDIA's packages for Python where no other is",
      () => {
        const packages = join(work, 'packages');
        for (const [toolkit, nvcc] of Object.entries({ cu9: compiler('nvcc-9'), cu13: compiler('nvcc-13') })) {
          const bin = join(packages, 'nvidia', toolkit, 'bin');
          mkdirSync(bin, { recursive: true });
          copyFileSync(nvcc, join(bin, 'nvcc'));
        }
        const env = environment(true);
        const path = env.PATH?.split(delimiter).filter((folder) => !existsSync(join(folder, 'nvcc')));
        const nowhere = { CUDACXX: '', CUDA_HOME: '', CUDA_PATH: '', COLLAPSAR_PYTHON: '', VIRTUAL_ENV: '' };
        const { said } = install({ ...env, ...nowhere, PYTHONPATH: packages, PATH: path?.join(delimiter) });
        const nvcc = join(packages, 'nvidia', 'cu13', 'bin', 'nvcc');
        expect(said).toContain(`building the CUDA backend with ${nvcc} failed`);
      },
    );

    it('compiles nothing when npx installs a clone once more', () => {
      mkdirSync(join(root, 'src'), { recursive: true });
      const { status, said } = install({ ...environment(true), COLLAPSAR_CUDA: 'on', npm_command: 'exec' });
      expect([status, said]).toEqual([0, '']);
    });

    it('leaves nothing but what runs in an installed package', () => {
      rmSync(join(root, 'src'), { recursive: true, force: true });
      rmSync(join(root, 'build'), { recursive: true });
      mkdirSync(release, { recursive: true });
      copyFileSync(addonPath(), join(release, 'collapsar.node'));
      writeFileSync(join(root, 'native', 'changed.cpp'), '\n'); // younger than the addon
      install({ COLLAPSAR_BUILD: 'cmake' });
      expect(readdirSync(join(root, 'build'), { recursive: true }).sort()).toEqual(
        ['cmake', 'cmake/Release', 'cmake/Release/collapsar.node', 'cuda-choice.txt'].sort(),
      );
    });
  });
});
