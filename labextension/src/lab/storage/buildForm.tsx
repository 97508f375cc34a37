import * as React from 'react';

import { trans } from '../../components/translation';
import { messageOf, sentence } from '../../protocol/errors';
import type { ILogEntry } from '../../protocol/observations';
import type { IBegunBuild, IBuildProgress } from '../../protocol/storage';
import { CommandIDs } from '../commandIds';
import { cancelBuild, confirmDeletion } from './questions';
import type { StorageRequests } from './requests';
import type { IStoreProps } from './sections';

/** Lines of a build's log that are kept. */
const MAX_LINES = 2000;
const EXAMPLE = 'FROM python:3.12-slim\nRUN pip install polars\n';

interface IBuildFormProps extends IStoreProps {
  readonly requests: StorageRequests;
  readonly refresh: () => void;
  readonly close: () => void;
}

/** Asks for a name and a Dockerfile, and then follows the build. */
export function BuildForm({ requests, refresh, commands, isActive, close }: IBuildFormProps): React.JSX.Element {
  const [name, setName] = React.useState('');
  const [dockerfile, setDockerfile] = React.useState(EXAMPLE);
  const [begun, setBegun] = React.useState<IBegunBuild | null>(null);
  const [error, setError] = React.useState<string | null>(null);
  const [isBusy, setBusy] = React.useState(false);
  const nameInput = React.useRef<HTMLInputElement>(null);
  React.useEffect(() => {
    if (begun === null) {
      nameInput.current?.focus();
    }
  }, [begun]);
  const build = async () => {
    setBusy(true);
    setError(null);
    try {
      setBegun(await requests.build(name.trim(), dockerfile));
    } catch (reason) {
      setError(messageOf(reason));
    } finally {
      setBusy(false);
    }
  };
  const closeIfSure = async () => {
    const isTyped = name.trim() !== '' || dockerfile !== EXAMPLE;
    if (!isTyped || (await confirmDiscard(name.trim()))) {
      close();
    }
  };
  if (begun !== null) {
    const closeLog = (isBuilt: boolean) => {
      if (isBuilt) {
        close();
      } else {
        void closeIfSure();
      }
    };
    return <BuildLog begun={begun} requests={requests} refresh={refresh} commands={commands} isActive={isActive} close={closeLog} back={() => { setBegun(null); }} />;
  }
  return (
    <form
      className="sbx-Build"
      aria-label={trans.__('Build a template')}
      onSubmit={event => {
        event.preventDefault();
        void build();
      }}
    >
      <label className="sbx-Build-field">
        {trans.__('Name')}
        <input
          ref={nameInput}
          className="sbx-Input"
          required
          maxLength={100}
          spellCheck={false}
          placeholder={trans.__('a-z, 0-9, - and _')}
          value={name}
          onChange={event => {
            setName(event.target.value);
          }}
        />
      </label>
      <label className="sbx-Build-field">
        {trans.__('Dockerfile')}
        <textarea
          className="sbx-Input sbx-Build-text"
          required
          rows={8}
          spellCheck={false}
          value={dockerfile}
          onChange={event => {
            setDockerfile(event.target.value);
          }}
        />
      </label>
      {error !== null && (
        <p className="sbx-Build-error" role="alert">
          {error}
        </p>
      )}
      <div className="sbx-Build-actions">
        <button type="submit" className="sbx-Button" disabled={isBusy || name.trim() === '' || dockerfile.trim() === ''}>
          {isBusy ? trans.__('Starting…') : trans.__('Build')}
        </button>
        <CloseButton close={() => void closeIfSure()} />
      </div>
    </form>
  );
}

/** Asks before what was typed is thrown away. */
function confirmDiscard(name: string): Promise<boolean> {
  return confirmDeletion({
    title: trans.__('Discard this Dockerfile?'),
    name: name === '' ? trans.__('Not named yet') : name,
    consequences: [trans.__('What you typed is not kept anywhere else. A build that has begun goes on.')],
    label: trans.__('Discard')
  });
}

interface IBuildLogProps extends Omit<IBuildFormProps, 'sandboxes' | 'close'> {
  readonly begun: IBegunBuild;
  readonly close: (isBuilt: boolean) => void;
  readonly back: () => void;
}

/** The log of a build while it runs, and how it ended. */
function BuildLog({ begun, requests, refresh, commands, isActive, back, close }: IBuildLogProps): React.JSX.Element {
  const { lines, progress, error } = useBuild(begun, requests, refresh);
  const reason = progress?.status === 'error' ? (progress.reason?.message ?? '') : '';
  // The engine logs the reason too; it is shown once.
  const shown = lines.filter(({ message }) => reason === '' || message !== reason);
  const box = React.useRef<HTMLDivElement>(null);
  const log = React.useRef<HTMLElement>(null);
  React.useEffect(() => {
    // The button that began the build is gone.
    log.current?.focus();
  }, []);
  React.useLayoutEffect(() => {
    // A hidden element cannot be scrolled.
    if (box.current !== null && isActive) {
      box.current.scrollTop = box.current.scrollHeight;
    }
  }, [lines, isActive]);
  const name = begun.names[0] ?? begun.templateID;
  const isOver = error !== null || progress?.status === 'ready' || progress?.status === 'error';
  return (
    <section ref={log} className="sbx-Build" tabIndex={-1} aria-label={trans.__('Build of %1', name)}>
      <p className="sbx-Build-state" role="status">
        {stateText(name, progress, error)}
      </p>
      {reason !== '' && <p className="sbx-Build-error">{sentence(reason)}</p>}
      {begun.leftOut !== undefined && begun.leftOut.length > 0 && (
        <p className="sbx-Build-note">{trans.__('These lines have no effect here: %1', begun.leftOut.join('; '))}</p>
      )}
      {(shown.length > 0 || !isOver) && (
        <div className="sbx-Log sbx-Build-log" ref={box} role="log" tabIndex={0} aria-label={trans.__('Log of the build')}>
          {shown.map((line, at) => (
            <div key={at} className={`sbx-Build-line sbx-mod-${line.level}`}>
              {line.message}
            </div>
          ))}
        </div>
      )}
      <div className="sbx-Build-actions">
        {!isOver && (
          <button type="button" className="sbx-Button sbx-mod-plain" onClick={() => void cancelBuild(begun, name, requests, refresh)}>
            {trans.__('Cancel build')}
          </button>
        )}
        {progress?.status === 'ready' && (
          <button type="button" className="sbx-Button" onClick={() => void commands.execute(CommandIDs.create, { template: begun.templateID })}>
            {trans.__('New sandbox from it')}
          </button>
        )}
        {isOver && (
          <button type="button" className="sbx-Button sbx-mod-plain" onClick={back}>
            {progress?.status === 'ready' ? trans.__('Build another') : trans.__('Change the Dockerfile')}
          </button>
        )}
        <CloseButton close={() => { close(progress?.status === 'ready'); }} />
      </div>
    </section>
  );
}

/** Closes the form; a build goes on. */
function CloseButton({ close }: { readonly close: () => void }): React.JSX.Element {
  return (
    <button type="button" className="sbx-Button sbx-mod-plain" onClick={close}>
      {trans.__('Close')}
    </button>
  );
}

function stateText(name: string, progress: IBuildProgress | null, error: string | null): string {
  if (error !== null) {
    return trans.__('The build of %1 cannot be followed. %2', name, error);
  }
  switch (progress?.status) {
    case 'ready':
      return trans.__('%1 is built.', name);
    case 'error':
      return trans.__('The build of %1 failed.', name);
    case 'building':
      return trans.__('Building %1…', name);
    default:
      return trans.__('%1 waits for its turn…', name);
  }
}

/** Asks for the log of a build until it is over; each request waits for more. */
function useBuild(begun: IBegunBuild, requests: StorageRequests, refresh: () => void) {
  const [lines, setLines] = React.useState<readonly ILogEntry[]>([]);
  const [progress, setProgress] = React.useState<IBuildProgress | null>(null);
  const [error, setError] = React.useState<string | null>(null);
  const done = React.useRef(refresh);
  done.current = refresh;
  React.useEffect(() => {
    const stop = new AbortController();
    const follow = async () => {
      let offset = 0;
      for (let isOver = false; !isOver; ) {
        const answer = await requests.buildProgress(begun, offset, stop.signal);
        offset = answer.next;
        setLines(before => [...before, ...answer.logs].slice(-MAX_LINES));
        setProgress(answer);
        // The last lines may come after the end.
        isOver = (answer.status === 'ready' || answer.status === 'error') && answer.logs.length === 0;
      }
    };
    follow()
      .catch((reason: unknown) => {
        if (!stop.signal.aborted) {
          setError(messageOf(reason));
        }
      })
      .finally(() => {
        if (!stop.signal.aborted) {
          done.current();
        }
      });
    return () => {
      stop.abort();
    };
  }, [begun, requests]);
  return { lines, progress, error };
}
