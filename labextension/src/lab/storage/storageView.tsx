import * as React from 'react';

import { trans } from '../../components/translation';
import { Tabs } from '../tabs';
import { StorageRequests } from './requests';
import { SecretsSection } from './secretsSection';
import type { IStoreProps, Store } from './sections';
import { storeLabel, STORES } from './sections';
import { TemplatesSection } from './templatesSection';
import { VolumesSection } from './volumesSection';

interface IStorageProps extends IStoreProps {
  readonly store: Store;
  readonly setStore: (store: Store) => void;
}

/** What outlives sandboxes, a tab for each kind. */
export function StorageView(props: IStorageProps): React.JSX.Element {
  const { store, setStore, sandboxes } = props;
  const requests = React.useMemo(() => new StorageRequests(sandboxes.server), [sandboxes]);
  return (
    <>
      <div className="sbx-Details-head">
        <h2 className="sbx-View-title">{trans.__('Storage of sandboxes')}</h2>
      </div>
      <Tabs label={trans.__('Kinds')} tabs={STORES} nameOf={storeLabel} chosen={store} choose={setStore} />
      <div className="sbx-Storage-body" role="tabpanel" aria-label={storeLabel(store)}>
        {store === 'snapshots' && <TemplatesSection key="snapshot" {...props} requests={requests} kind="snapshot" />}
        {store === 'templates' && <TemplatesSection key="template" {...props} requests={requests} kind="template" />}
        {store === 'volumes' && <VolumesSection {...props} requests={requests} />}
        {store === 'secrets' && <SecretsSection {...props} requests={requests} />}
      </div>
    </>
  );
}
