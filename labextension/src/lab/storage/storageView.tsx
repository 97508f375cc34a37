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

/** Shows a tab for each kind of things that outlive sandboxes; a tab keeps its state while another is shown. */
export function StorageView(props: IStorageProps): React.JSX.Element {
  const { store, setStore, sandboxes, isActive } = props;
  const seen = useSeen(store);
  const requests = React.useMemo(() => new StorageRequests(sandboxes.server), [sandboxes]);
  return (
    <>
      <div className="sbx-Details-head">
        <h2 className="sbx-View-title">{trans.__('Storage of sandboxes')}</h2>
      </div>
      <Tabs label={trans.__('Kinds')} tabs={STORES} nameOf={storeLabel} chosen={store} choose={setStore} />
      {STORES.filter(each => seen.has(each)).map(each => (
        <div key={each} className="sbx-Storage-body" role="tabpanel" aria-label={storeLabel(each)} hidden={each !== store}>
          <StoreSection {...props} store={each} isActive={isActive && each === store} requests={requests} />
        </div>
      ))}
    </>
  );
}

/** The kinds that were shown so far, with this one. */
function useSeen(store: Store): ReadonlySet<Store> {
  const seen = React.useRef(new Set<Store>());
  seen.current.add(store);
  return seen.current;
}

interface ISectionProps extends IStoreProps {
  readonly store: Store;
  readonly requests: StorageRequests;
}

function StoreSection({ store, ...props }: ISectionProps): React.JSX.Element {
  switch (store) {
    case 'snapshots':
      return <TemplatesSection {...props} kind="snapshot" />;
    case 'templates':
      return <TemplatesSection {...props} kind="template" />;
    case 'volumes':
      return <VolumesSection {...props} />;
    case 'secrets':
      return <SecretsSection {...props} />;
  }
}
