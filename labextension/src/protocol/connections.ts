/** The records of `sbx/api/connections`. */

export type ConnectionState =
  | 'stopped'
  | 'starting'
  | 'ready'
  | 'unauthorized'
  | 'unreachable'
  | 'incompatible';

/** A deployment under the name that the configuration gives it. */
export interface IConnection {
  readonly name: string;
  readonly kind: 'local' | 'remote';
  readonly host: string | null;
  readonly state: ConnectionState;
  /** What is wrong, if something is. */
  readonly message: string | null;
  /** What the user can do about it. */
  readonly remedy: string | null;
  readonly engineVersion: string | null;
  /** What the deployment cannot do, with the reason. */
  readonly missing: Readonly<Record<string, string>>;
}
