import { closeIcon } from '@jupyterlab/ui-components';
import type { CommandRegistry } from '@lumino/commands';
import * as React from 'react';

import { trans } from '../../../components/translation';
import { displayName } from '../../../protocol/sandboxes';
import { CommandIDs } from '../../commandIds';
import { IconAction } from '../../states';
import type { IEnded } from './endedSandboxes';

interface IEndedListProps {
  readonly ended: readonly IEnded[];
  readonly commands: CommandRegistry;
  readonly dismiss: (sandboxId: string) => void;
}

/** The sandboxes that ended while the page was open, each with its reason and a way to have it again. */
export function EndedList({ ended, commands, dismiss }: IEndedListProps): React.JSX.Element | null {
  if (ended.length === 0) {
    return null;
  }
  const recreate = ({ sandbox }: IEnded) => {
    dismiss(sandbox.sandboxID);
    const name = sandbox.metadata?.['name'];
    void commands.execute(CommandIDs.create, { template: sandbox.templateID, ...(name === undefined ? {} : { name }) });
  };
  return (
    <>
      <h3 className="sbx-Group">
        <span>{trans.__('Ended')}</span>
      </h3>
      <ul className="sbx-List" aria-label={trans.__('Sandboxes that ended')}>
        {ended.map(each => (
          <li key={each.sandbox.sandboxID} className="sbx-Ended">
            <span className="sbx-Row-lead">
              <span className="sbx-Dot sbx-mod-ended" />
            </span>
            <span className="sbx-Row-name" title={each.sandbox.sandboxID}>
              {displayName(each.sandbox)}
            </span>
            <span className="sbx-Ended-reason">{each.reason}</span>
            <span className="sbx-Ended-actions">
              <button
                type="button"
                className="sbx-TextButton"
                title={trans.__('Create a sandbox with the same template and name; its files are gone')}
                onClick={() => {
                  recreate(each);
                }}
              >
                {trans.__('Recreate')}
              </button>
              <IconAction icon={closeIcon} label={trans.__('Dismiss')} onClick={() => { dismiss(each.sandbox.sandboxID); }} />
            </span>
          </li>
        ))}
      </ul>
    </>
  );
}
