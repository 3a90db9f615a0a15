// An environment in which nothing but the npm registry can be reached and no setting of the user's npm helps.
import { spawnSync } from 'node:child_process';
import { devNull } from 'node:os';

/** npm's own variables, which `npm test` hands to its children: all unset; and no news of npm amid what is read. */
function withoutNpmSettings() {
  const names = Object.keys(process.env).filter((name) => /^npm_/i.test(name));
  return { ...Object.fromEntries(names.map((name) => [name, undefined])), npm_config_update_notifier: 'false' };
}

const deadProxy = 'http://127.0.0.1:9';

/** Any download fails. */
export function unreachable() {
  const proxies = ['http_proxy', 'https_proxy', 'HTTP_PROXY', 'HTTPS_PROXY'].map((name) => [name, deadProxy]);
  return {
    ...withoutNpmSettings(),
    npm_config_userconfig: devNull,
    no_proxy: undefined,
    NO_PROXY: undefined,
    ...Object.fromEntries(proxies),
  };
}

/** Only the npm registry is left; where a proxy leads to it, everything is, as the two look alike. */
export function registryOnly() {
  if (process.env.https_proxy ?? process.env.HTTPS_PROXY) {
    return { ...withoutNpmSettings(), npm_config_userconfig: devNull };
  }
  const registry = spawnSync('npm', ['config', 'get', 'registry'], { encoding: 'utf8' }).stdout.trim();
  return { ...unreachable(), npm_config_registry: registry, no_proxy: new URL(registry).hostname };
}
