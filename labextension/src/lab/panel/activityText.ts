import { trans } from '../../components/translation';
import type { IActivity } from '../activities';

/** Describes the activity on a sandbox for its row. */
export function activityText({ kind, operation }: IActivity): string {
  switch (kind) {
    case 'pausing':
      return trans.__('pausing…');
    case 'resuming':
      return trans.__('resuming…');
    case 'killing':
      return trans.__('ending…');
    case 'extending':
      return trans.__('setting its time…');
    case 'renaming':
      return trans.__('renaming…');
    case 'snapshotting':
      return operation?.phase === 'finishing' ? trans.__('finishing the snapshot…') : trans.__('taking a snapshot…');
    case 'forking':
      return operation?.phase === 'starting' ? trans.__('starting the fork…') : trans.__('forking…');
  }
}
