/** Parameters of a terminal's address: `<sandbox>:<pid>`, and whether the terminal is only to be watched. */
const LINKED = 'sbx-terminal';
const WATCH = 'sbx-watch';
const TARGET = /^([a-z0-9]{1,64}):([1-9][0-9]{0,9})$/;

/** A terminal that an address names. */
export interface ILinkedTerminal {
  readonly sandbox: string;
  readonly pid: number;
  readonly readOnly: boolean;
}

/** Finds the terminal that the query of an address names. */
export function linkedTerminal(search: string): ILinkedTerminal | null {
  const query = new URLSearchParams(search);
  const found = TARGET.exec(query.get(LINKED) ?? '');
  return found === null ? null : { sandbox: found[1] ?? '', pid: Number(found[2]), readOnly: query.has(WATCH) };
}

/** The address that opens a terminal for other users who may use its sandbox. */
export function terminalLink(labUrl: string, { sandbox, pid, readOnly }: ILinkedTerminal): string {
  const url = new URL(labUrl);
  url.search = '';
  url.hash = '';
  url.searchParams.set(LINKED, `${sandbox}:${pid}`);
  if (readOnly) {
    url.searchParams.set(WATCH, '1');
  }
  return url.href;
}

/** An address without the terminal that it names. */
export function withoutLink(href: string): string {
  const url = new URL(href);
  url.searchParams.delete(LINKED);
  url.searchParams.delete(WATCH);
  return url.href;
}
