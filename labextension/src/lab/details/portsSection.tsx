import { Clipboard, Notification } from '@jupyterlab/apputils';
import { launchIcon, linkIcon } from '@jupyterlab/ui-components';
import * as React from 'react';

import { trans } from '../../components/translation';
import { messageOf } from '../../protocol/errors';
import type { IPorts } from '../../protocol/observations';
import { visible } from '../../protocol/sandboxes';
import { CommandIDs } from '../commandIds';
import { isMissing, usePolled } from '../polled';
import { portUrl } from '../ports';
import { Failed, IconAction, Loading, Nothing, Notice } from '../states';
import { Unread } from './unread';
import type { ISectionProps } from './sections';

/** Milliseconds between two readings. */
const INTERVAL = 3000;

function modeText({ mode, hosts }: IPorts): string {
  return mode === 'host'
    ? trans.__('Pages open at a host name for each port (%1), where programs work as they are.', hosts ?? '')
    : trans.__(
        'Pages open below the address of this server. Streamlit works there; Gradio, Dash, Vite and the API pages of FastAPI load from “/” and need host names for ports (c.SbxExtension.port_hosts).'
      );
}

/** The ports on which programs listen, each with the ways to open it. */
export function PortsSection({ api, sandboxes, sandboxId, commands, isActive, hasEnded }: ISectionProps): React.JSX.Element {
  const read = React.useCallback(() => api.get('/sandboxes/{sandbox_id}/ports', { path: { sandbox_id: sandboxId } }), [api, sandboxId]);
  const { value, error, isRefreshing, refresh } = usePolled(read, INTERVAL, isActive);
  if (value === null) {
    return hasEnded ? (
      <Unread />
    ) : error === null ? (
      <Loading label={trans.__('Loading the ports')} />
    ) : (
      <Failed title={isMissing(error) ? trans.__('This deployment does not list ports') : trans.__('The ports could not be read')} error={error} retry={refresh} isRetrying={isRefreshing} />
    );
  }
  const url = (port: number) => new URL(portUrl(sandboxes.server, sandboxId, port), window.location.href).href;
  const copy = (port: number) => {
    Clipboard.copyToSystem(url(port));
    Notification.success(trans.__('The link to port %1 is copied. It opens for people who may use this server.', port), { autoClose: 4000 });
  };
  return (
    <div className="sbx-Section">
      {error !== null && <Notice text={messageOf(error)} action={trans.__('Retry')} onAction={refresh} />}
      {value.ports.length === 0 ? (
        <Nothing
          title={trans.__('No program listens on a port')}
          text={trans.__('Start a web server in the sandbox, for example with “python3 -m http.server 8000”, and open it here.')}
        />
      ) : (
        <ul className="sbx-Ports" aria-label={trans.__('Ports')}>
          {[...value.ports].sort((one, other) => one.port - other.port).map(({ port, address, program, pid }) => (
            <li key={`${port} ${address}`} className="sbx-Port">
              <span className="sbx-Port-number">{port}</span>
              <span className="sbx-Port-program">
                {program ? visible(program) : trans.__('unknown program')}
                <span className="sbx-Port-facts">{[address, pid ? trans.__('process %1', pid) : ''].filter(Boolean).join(' · ')}</span>
              </span>
              {!hasEnded && (
                <span className="sbx-Port-actions">
                  <button type="button" className="sbx-Button" onClick={() => void commands.execute(CommandIDs.openPort, { sandbox: sandboxId, port })}>
                    {trans.__('Open')}
                  </button>
                  <IconAction icon={launchIcon} label={trans.__('Open port %1 in a new browser tab', port)} onClick={() => { window.open(url(port), '_blank', 'noopener'); }} />
                  <IconAction icon={linkIcon} label={trans.__('Copy the link to port %1', port)} onClick={() => { copy(port); }} />
                </span>
              )}
            </li>
          ))}
        </ul>
      )}
      <p className="sbx-Section-note">{modeText(value)}</p>
    </div>
  );
}
