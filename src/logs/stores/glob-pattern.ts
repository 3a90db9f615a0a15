// Converts globs as a user types them to expressions over paths with slashes.

/**
 * `*` within a name, `**` across them, `?`, `[…]` and `{a,b}`; one that cannot be read, such as [z-a], matches nothing.
 */
export function patternExpression(pattern: string): RegExp {
  let source = '';
  let depth = 0;
  for (let at = 0; at < pattern.length; at++) {
    const character = pattern[at] as string;
    const list = character === '[' ? /^\[(!?)([^\]]+)\]/.exec(pattern.slice(at)) : null;
    if (pattern.startsWith('**/', at)) {
      source += '(?:[^/]+/)*';
      at += 2;
    } else if (pattern.startsWith('**', at)) {
      source += '.*';
      at += 1;
    } else if (character === '*') source += '[^/]*';
    else if (character === '?') source += '[^/]';
    else if (list !== null) {
      source += `[${list[1] === '!' ? '^' : ''}${(list[2] as string).replace(/[\\\]^]/g, '\\$&')}]`;
      at += list[0].length - 1;
    } else if (character === '{') {
      depth++;
      source += '(?:';
    } else if (character === '}' && depth > 0) {
      depth--;
      source += ')';
    } else if (character === ',' && depth > 0) source += '|';
    else source += character.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
  }
  try {
    return new RegExp(`^${source}${')'.repeat(depth)}$`, 's');
  } catch {
    return /^(?!)/;
  }
}
