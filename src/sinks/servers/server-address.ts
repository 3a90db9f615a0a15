// Parses the address of a server and of its part: `http://host:port?project=name`.
import { ArgumentError } from '../../checks/errors.js';
import { shown } from '../../checks/words.js';

export interface ServerAddress {
  /** Without a slash at its end. */
  readonly base: string;
  readonly part: string;
}

/**
 * @param name of the parameter that names the part
 * @throws {ArgumentError} unless it is an address of http or https
 */
export function serverAddress(where: string, name: string): ServerAddress {
  const url = URL.canParse(where) ? new URL(where) : undefined;
  if (url === undefined || !/^https?:$/.test(url.protocol) || url.username !== '' || url.password !== '') {
    const rule = `expected http://host:port, with ?${name}=… where it is not "collapsar", and no password in it`;
    throw new ArgumentError('to', `got ${shown(where)}, ${rule}`);
  }
  const part = url.searchParams.get(name) ?? 'collapsar';
  return { base: `${url.origin}${url.pathname.replace(/\/+$/, '')}`, part };
}
