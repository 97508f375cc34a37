import * as React from 'react';
import { Dialog, Notification, showDialog } from '@jupyterlab/apputils';

import { formatAge, formatBytes } from '../../components/format';
import type { SandboxApi } from '../../components/sandboxApi';
import type { ProcessOrder } from '../../components/processTree';
import { commandLine, processTree } from '../../components/processTree';
import { trans } from '../../components/translation';
import { messageOf } from '../../protocol/errors';
import type { IProcess } from '../../protocol/observations';
import { Choice } from '../controls';
import { limitsText } from '../limitsText';
import { endIcon, killIcon } from '../icons';
import { notifyError } from '../notifications';
import { isMissing, usePolled } from '../polled';
import { Failed, IconAction, Loading, Nothing, Notice } from '../states';
import { WindowedRows } from '../windowedRows';
import type { ISectionProps } from './sections';
import { Unread } from './unread';

/** Milliseconds between two readings. */
const INTERVAL = 2500;
const ROW_HEIGHT = 28;

type Signal = 'TERM' | 'KILL';

/** The processes as a tree, with what each uses; two signals can be sent. */
export function ProcessesSection({ api, sandboxes, sandboxId, isActive, hasEnded }: ISectionProps): React.JSX.Element {
  const read = React.useCallback(
    async () => (await api.get('/sandboxes/{sandbox_id}/processes', { path: { sandbox_id: sandboxId } })).processes,
    [api, sandboxId]
  );
  const { value, error, isRefreshing, refresh } = usePolled(read, INTERVAL, isActive);
  const [order, setOrder] = React.useState<ProcessOrder>('pid');
  const rows = React.useMemo(() => processTree(value ?? [], order), [value, order]);
  if (value === null) {
    return hasEnded ? (
      <Unread />
    ) : error === null ? (
      <Loading label={trans.__('Loading the processes')} />
    ) : (
      <Failed title={isMissing(error) ? trans.__('This deployment does not list processes') : trans.__('The processes could not be read')} error={error} retry={refresh} isRetrying={isRefreshing} />
    );
  }
  if (rows.length === 0) {
    return <Nothing title={trans.__('Nothing runs')} text={trans.__('Programs that code, terminals or commands start are listed here.')} />;
  }
  const send = async (process: IProcess, signal: Signal) => {
    if (await confirmSignal(process, signal)) {
      try {
        await signalProcess(api, sandboxId, process.pid, signal);
        Notification.success(trans.__('The signal was sent to process %1.', process.pid), { autoClose: 3000 });
      } catch (reason) {
        notifyError(trans.__('The signal could not be sent. %1', messageOf(reason)));
      }
      refresh();
    }
  };
  return (
    <div className="sbx-Section">
      <div className="sbx-Section-bar">
        <Choice
          label={trans.__('Order of the processes')}
          value={order}
          choose={setOrder}
          options={[
            ['pid', trans.__('By id')],
            ['cpu', trans.__('By CPU')],
            ['memory', trans.__('By memory')]
          ]}
        />
        <span className="sbx-Section-count">{summary(value)}</span>
      </div>
      {error !== null && <Notice text={messageOf(error)} action={trans.__('Retry')} onAction={refresh} />}
      <ProcessTable rows={rows} send={hasEnded ? undefined : (process, signal) => void send(process, signal)} />
      <p className="sbx-Section-note">{limitsText(sandboxes.find(sandboxId))}</p>
    </div>
  );
}

interface ITableProps {
  readonly rows: ReturnType<typeof processTree>;
  /** Missing where nothing can be sent any more. */
  readonly send: ((process: IProcess, signal: Signal) => void) | undefined;
}

/** The tree; arrow keys move, Delete asks the program to end, Shift+Delete kills it. */
function ProcessTable({ rows, send }: ITableProps): React.JSX.Element {
  const [pid, setPid] = React.useState<number | null>(null);
  const at = Math.max(0, rows.findIndex(({ process }) => process.pid === pid));
  const current = rows[at]?.process;
  const move = (to: number) => {
    const next = rows[Math.min(Math.max(0, to), rows.length - 1)];
    setPid(next?.process.pid ?? null);
  };
  return (
    <div className="sbx-Table sbx-Processes">
      <div className="sbx-Table-head" aria-hidden="true">
        <span>{trans.__('Command')}</span>
        <span className="sbx-mod-number">{trans.__('Id')}</span>
        <span className="sbx-mod-number">{trans.__('CPU')}</span>
        <span className="sbx-mod-number">{trans.__('Memory')}</span>
        <span className="sbx-mod-number">{trans.__('Age')}</span>
        <span />
      </div>
      <WindowedRows
        className="sbx-Table-body"
        role="tree"
        tabIndex={0}
        aria-label={trans.__('Processes')}
        aria-activedescendant={current === undefined ? undefined : `sbx-process-${current.pid}`}
        count={rows.length}
        rowHeight={ROW_HEIGHT}
        current={pid === null ? -1 : at}
        onKeyDown={event => {
          const keys: Record<string, () => void> = {
            ArrowDown: () => { move(at + 1); },
            ArrowUp: () => { move(at - 1); },
            Home: () => { move(0); },
            End: () => { move(rows.length - 1); },
            Delete: () => { if (current !== undefined) { send?.(current, event.shiftKey ? 'KILL' : 'TERM'); } }
          };
          const action = keys[event.key];
          if (action !== undefined && event.target === event.currentTarget) {
            event.preventDefault();
            action();
          }
        }}
        row={index => {
          const { process, depth } = rows[index] ?? { process: { pid: 0, started: false }, depth: 1 };
          return (
            <ProcessLine
              key={process.pid}
              process={process}
              depth={depth}
              isCurrent={process.pid === pid}
              choose={() => { setPid(process.pid); }}
              send={send}
            />
          );
        }}
      />
    </div>
  );
}

interface ILineProps {
  readonly process: IProcess;
  readonly depth: number;
  readonly isCurrent: boolean;
  readonly choose: () => void;
  readonly send: ITableProps['send'];
}

function ProcessLine({ process, depth, isCurrent, choose, send }: ILineProps): React.JSX.Element {
  const command = commandLine(process);
  const state = stateText(process.state);
  return (
    <div
      id={`sbx-process-${process.pid}`}
      className={`sbx-Table-row${isCurrent ? ' sbx-mod-current' : ''}`}
      role="treeitem"
      aria-level={depth}
      aria-selected={isCurrent}
      style={{ height: ROW_HEIGHT }}
      onClick={choose}
    >
      <span className="sbx-Process-command" title={command} style={{ paddingInlineStart: (depth - 1) * 16 }}>
        {command}
        {state !== '' && <span className="sbx-Tag">{state}</span>}
      </span>
      <span className="sbx-mod-number">{process.pid}</span>
      <span className="sbx-mod-number">{process.cpuPct === undefined ? '–' : trans.__('%1 %', process.cpuPct.toFixed(process.cpuPct < 10 ? 1 : 0))}</span>
      <span className="sbx-mod-number">{process.memoryBytes === undefined ? '–' : formatBytes(process.memoryBytes)}</span>
      <span className="sbx-mod-number">{process.ageSeconds === undefined ? '–' : formatAge(process.ageSeconds)}</span>
      <span className="sbx-Table-actions">
        {send !== undefined && (
          <>
            <IconAction icon={endIcon} label={trans.__('Ask process %1 to end', process.pid)} tab={-1} onClick={() => { send(process, 'TERM'); }} />
            <IconAction icon={killIcon} label={trans.__('Kill process %1', process.pid)} tab={-1} onClick={() => { send(process, 'KILL'); }} />
          </>
        )}
      </span>
    </div>
  );
}

/** The state in words of a process that neither runs nor sleeps. */
function stateText(state = ''): string {
  const texts: Record<string, () => string> = {
    T: () => trans.__('stopped'),
    t: () => trans.__('traced'),
    Z: () => trans.__('ended, not collected'),
    D: () => trans.__('waits for the disk')
  };
  return texts[state]?.() ?? '';
}

function summary(processes: readonly IProcess[]): string {
  const sum = (value: (process: IProcess) => number) => processes.reduce((total, process) => total + value(process), 0);
  const memory = sum(({ memoryBytes = 0 }) => memoryBytes);
  const count = processes.length === 1 ? trans.__('1 process') : trans.__('%1 processes', processes.length);
  return memory === 0 ? count : `${count} · ${trans.__('%1 % CPU', sum(({ cpuPct = 0 }) => cpuPct).toFixed(0))} · ${formatBytes(memory)}`;
}

async function confirmSignal(process: IProcess, signal: Signal): Promise<boolean> {
  const kills = signal === 'KILL';
  const { button } = await showDialog({
    title: kills ? trans.__('Kill process %1?', process.pid) : trans.__('Ask process %1 to end?', process.pid),
    body: kills
      ? trans.__('“%1” ends at once, without saving anything.', shortened(commandLine(process)))
      : trans.__('“%1” gets the signal TERM and can save its work.', shortened(commandLine(process))),
    buttons: [Dialog.cancelButton(), Dialog.warnButton({ label: kills ? trans.__('Kill') : trans.__('Ask to end') })],
    defaultButton: 0
  });
  return button.accept;
}

const shortened = (text: string): string => (text.length > 200 ? `${text.slice(0, 200)}…` : text);

async function signalProcess(api: SandboxApi, sandboxId: string, pid: number, signal: Signal): Promise<void> {
  const path = { sandbox_id: sandboxId, pid: String(pid) };
  await api.post('/sandboxes/{sandbox_id}/processes/{pid}/signal', { path, body: { signal } });
}
