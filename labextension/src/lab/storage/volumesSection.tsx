import * as React from 'react';

import { formatAge, formatBytes } from '../../components/format';
import { namesText } from '../../components/names';
import { trans } from '../../components/translation';
import { displayName } from '../../protocol/sandboxes';
import type { IVolume } from '../../protocol/storage';
import { killIcon } from '../icons';
import { usePolled } from '../polled';
import { NameForm } from './nameForm';
import { attempt, confirmDeletion } from './questions';
import type { StorageRequests } from './requests';
import type { IStoreProps } from './sections';
import { NONE, StoreTable } from './storeTable';

const INTERVAL = 20_000;

interface IVolumesProps extends IStoreProps {
  readonly requests: StorageRequests;
}

/** The volumes, with a form that makes one. */
export function VolumesSection({ requests, sandboxes, isActive }: IVolumesProps): React.JSX.Element {
  const read = React.useCallback(() => requests.volumes(), [requests]);
  const polled = usePolled<readonly IVolume[]>(read, INTERVAL, isActive);
  const { refresh } = polled;
  const nameOf = (id: string): string => {
    const sandbox = sandboxes.find(id);
    return sandbox === undefined ? id : displayName(sandbox);
  };
  const remove = async (volume: IVolume) => {
    const users = (volume.sandboxes ?? []).map(nameOf);
    const sure = await confirmDeletion({
      title: trans.__('Delete this volume?'),
      name: volume.name,
      consequences: [
        trans.__('All its files are deleted. This cannot be undone.'),
        ...(users.length === 0 ? [] : [trans.__('These sandboxes have it mounted: %1.', namesText(users))])
      ],
      label: trans.__('Delete with its files')
    });
    if (sure) {
      const work = () => requests.removeVolume(volume.volumeID);
      await attempt(work, trans.__('%1 is deleted.', volume.name), trans.__('%1 could not be deleted.', volume.name), refresh);
    }
  };
  return (
    <StoreTable
      label={trans.__('Volumes')}
      polled={polled}
      texts={{
        missing: trans.__('This deployment has no volumes'),
        none: trans.__('No volumes yet'),
        hint: trans.__('A volume keeps files when sandboxes end, and several sandboxes can share it. Choose it when you create a sandbox with options.'),
        failed: trans.__('The volumes could not be listed')
      }}
      columns={[trans.__('Mounted'), trans.__('Size'), trans.__('Age')]}
      tools={
        <NameForm
          label={trans.__('New volume')}
          button={trans.__('Create')}
          submit={name => attempt(() => requests.createVolume(name), trans.__('Volume %1 is made.', name), trans.__('The volume could not be made.'), refresh)}
        />
      }
      row={volume => ({
        id: volume.volumeID,
        name: volume.name,
        title: [volume.volumeID, namesText((volume.sandboxes ?? []).map(nameOf))].filter(Boolean).join('\n'),
        facts: [
          volume.sandboxes === undefined ? NONE : String(volume.sandboxes.length),
          typeof volume.ownBytes === 'number' ? formatBytes(volume.ownBytes) : NONE,
          volume.createdAt === undefined ? NONE : formatAge((sandboxes.now() - Date.parse(volume.createdAt)) / 1000)
        ],
        actions: [{ icon: killIcon, label: trans.__('Delete %1', volume.name), run: () => void remove(volume) }]
      })}
    />
  );
}
