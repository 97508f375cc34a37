/** The variables of lines such as `NAME=value`; throws an `Error` with the first line that is none. */
export function parseEnvironment(text: string): Record<string, string> {
  const found: Record<string, string> = {};
  for (const line of text.split('\n').map(each => each.trim())) {
    if (line === '' || line.startsWith('#')) {
      continue;
    }
    const [, name, value] = /^(?:export\s+)?([A-Za-z_]\w*)=(.*)$/.exec(line) ?? [];
    if (name === undefined || value === undefined) {
      throw new Error(line);
    }
    found[name] = unquoted(value);
  }
  return found;
}

const unquoted = (value: string): string => /^(["'])(.*)\1$/.exec(value)?.[2] ?? value;
