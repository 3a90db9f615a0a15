// The version that --version prints.
export { packageVersion } from '../package-version.js';
