/** The records of `sbx/api` on what outlives sandboxes: templates, snapshots, volumes, secrets. */

import type { ILogEntry } from './observations';

/** A template or a snapshot, and what depends on it; deployments other than the engine give less. */
export interface IStoredTemplate {
  readonly templateID: string;
  readonly names: readonly string[];
  readonly kind: 'template' | 'snapshot';
  /** Of the newest build. */
  readonly buildID?: string;
  readonly buildStatus?: string | null;
  /** Whether it came with the engine, and cannot be renamed or deleted. */
  readonly isStock?: boolean;
  readonly isOwn?: boolean;
  /** RFC 3339. */
  readonly createdAt?: string;
  readonly cpuCount?: number;
  readonly memoryMB?: number;
  /** The ids of the sandboxes that were made from it. */
  readonly sandboxes?: readonly string[];
  /** What its removal frees. */
  readonly ownBytes?: number | null;
  readonly sharedBytes?: number | null;
}

export interface IVolume {
  readonly volumeID: string;
  readonly name: string;
  readonly createdAt?: string;
  /** The ids of the sandboxes that have it mounted. */
  readonly sandboxes?: readonly string[];
  readonly ownBytes?: number | null;
}

/** A secret; its value is written and never read. */
export interface ISecret {
  readonly name: string;
  readonly createdAt?: string;
  readonly updatedAt?: string;
}

/** Names a build. */
export interface IBuild {
  readonly templateID: string;
  readonly buildID: string;
}

/** The answer to a request that began a build. */
export interface IBegunBuild extends IBuild {
  readonly names: readonly string[];
  /** The steps of the Dockerfile that have no effect here. */
  readonly leftOut?: readonly string[];
}

/** What a build has done since the last answer. */
export interface IBuildProgress {
  readonly status: 'waiting' | 'building' | 'ready' | 'error';
  readonly logs: readonly ILogEntry[];
  /** The offset of the next request. */
  readonly next: number;
  readonly reason: { readonly message: string; readonly step?: string | null } | null;
}
