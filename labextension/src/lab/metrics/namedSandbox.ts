/** A sandbox and its name when the tab was opened. */
export interface INamedSandbox {
  readonly sandboxId: string;
  readonly name: string;
}
