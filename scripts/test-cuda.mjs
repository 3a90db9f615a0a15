// Compiles the CUDA backend, where there is one and an nvcc; running it takes a GPU.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { check, root, skip } from './stage.mjs';

if (!existsSync(join(root, 'native', 'cuda'))) skip('CUDA compilation (no CUDA backend in this version)');
else check(false, 'native/cuda is there, and this script does not compile it yet');
