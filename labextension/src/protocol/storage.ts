/** The records of `sbx/api` on what outlives sandboxes: templates, snapshots, volumes, secrets. */

import type { BegunBuild, BuildProgress, Secret, StoredTemplate, StoredVolume } from './api';

/** A template or a snapshot, and what depends on it; deployments other than the engine give less. */
export type IStoredTemplate = StoredTemplate;

export type IVolume = StoredVolume;

/** A secret; its value is written and never read. */
export type ISecret = Secret;

/** The answer to a request that began a build. */
export type IBegunBuild = BegunBuild;

/** Names a build. */
export type IBuild = Pick<BegunBuild, 'templateID' | 'buildID'>;

/** The progress of a build since the last answer. */
export type IBuildProgress = BuildProgress;
