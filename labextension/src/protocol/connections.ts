/** The records of `sbx/api/connections`. */

import type { ConnectionInfo } from './api';

/** A deployment under the name that the configuration gives it. */
export type IConnection = ConnectionInfo;

export type ConnectionState = ConnectionInfo['state'];
