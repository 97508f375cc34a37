import { PathExt } from '@jupyterlab/coreutils';
import { downloadIcon, folderIcon } from '@jupyterlab/ui-components';
import * as React from 'react';

import { MAX_TEXT, textOf } from '../../components/files/fileText';
import { formatBytes } from '../../components/format';
import type { ILine } from '../../components/files/lineChanges';
import { lineChanges, MAX_LINES } from '../../components/files/lineChanges';
import { bytesAtMost } from '../../components/responses';
import { trans } from '../../components/translation';
import type { IChange } from '../../protocol/observations';
import { visible } from '../../protocol/sandboxes';
import { CommandIDs } from '../commandIds';
import { homeIcon } from '../icons';
import { usePolled } from '../polled';
import { Failed, IconAction, Loading, Nothing, Notice } from '../states';
import { ChangeMark } from './changeMark';
import type { ISectionProps } from './sections';
import { Unread } from './unread';

interface IFileChangeProps extends ISectionProps {
  readonly change: IChange;
  /** The snapshot to compare with; empty for the template. */
  readonly since: string;
}

/** Shows the change of one file, and the actions on it. */
export function FileChange(props: IFileChangeProps): React.JSX.Element {
  const { change, sandboxes, sandboxId, commands, takeHome, hasEnded } = props;
  const isThere = change.type === 'file' && change.change !== 'deleted' && !hasEnded;
  return (
    <section className="sbx-FileChange" aria-label={trans.__('Change of %1', visible(change.path))}>
      <header className="sbx-FileChange-head">
        <ChangeMark change={change} />
        <span className="sbx-FileChange-path" title={visible(change.path)}>
          {visible(change.path)}
        </span>
        {isThere && (
          <>
            <IconAction
              icon={homeIcon}
              label={trans.__('Take this file home: copy it to the notebook files')}
              onClick={() => void takeHome(sandboxId, change.path)}
            />
            <IconAction
              icon={downloadIcon}
              label={trans.__('Download')}
              onClick={() => {
                window.open(sandboxes.transport(sandboxId).fileUrl(change.path), '_blank', 'noopener');
              }}
            />
          </>
        )}
        {change.change !== 'deleted' && !hasEnded && (
          <IconAction
            icon={folderIcon}
            label={trans.__('Show it in the file browser')}
            onClick={() =>
              void commands.execute(CommandIDs.browseFiles, { sandbox: sandboxId, path: PathExt.dirname(change.path) || '/' })
            }
          />
        )}
      </header>
      {change.type === 'file' ? <Content {...props} /> : <Nothing title={kindText(change)} />}
    </section>
  );
}

function kindText({ type, change }: IChange): string {
  if (type === 'directory') {
    return change === 'deleted' ? trans.__('The directory was deleted') : trans.__('A directory');
  }
  return type === 'symlink' ? trans.__('A symbolic link') : trans.__('Not a regular file');
}

/** The result of a comparison: the lines, or why there are none. */
type Compared = { readonly lines: readonly ILine[] } | { readonly reason: string };

function Content({ api, sandboxes, sandboxId, change, since, isActive, hasEnded }: IFileChangeProps): React.JSX.Element {
  const { path, size, change: kind } = change;
  const isLarge = size > MAX_TEXT;
  const read = React.useCallback(async (): Promise<Compared> => {
    const nothing = new Uint8Array();
    const after = kind === 'deleted' ? nothing : await sandboxes.transport(sandboxId).readAtMost(path, MAX_TEXT);
    const before = kind === 'added' ? nothing : await readBefore(api, sandboxId, path, since);
    return compare(before, after);
  }, [api, sandboxes, sandboxId, path, since, kind]);
  const { value, error, isRefreshing, refresh } = usePolled(read, 0, isActive && !isLarge);
  if (isLarge) {
    return <Nothing title={trans.__('The file has %1', formatBytes(size))} text={tooLarge()} />;
  }
  if (value === null && hasEnded) {
    return <Unread />;
  }
  if (error !== null) {
    return <Failed title={trans.__('The file could not be compared')} error={error} retry={refresh} isRetrying={isRefreshing} />;
  }
  if (value === null) {
    return <Loading label={trans.__('Comparing the file')} />;
  }
  return 'reason' in value ? <Nothing title={value.reason} text={trans.__('Download it, or take it home.')} /> : <Lines lines={value.lines} />;
}

const tooLarge = () => trans.__('Files up to %1 are compared here. Download it, or take it home.', formatBytes(MAX_TEXT));

async function readBefore(api: ISectionProps['api'], sandboxId: string, path: string, since: string): Promise<Uint8Array | null> {
  const query = since === '' ? { path } : { path, since };
  const answer = await api.response('get', '/sandboxes/{sandbox_id}/diff/before', { path: { sandbox_id: sandboxId }, query });
  return bytesAtMost(answer, MAX_TEXT);
}

/** Compares two texts; `null` stands for one that is too large. */
function compare(before: Uint8Array | null, after: Uint8Array | null): Compared {
  if (before === null || after === null) {
    return { reason: tooLarge() };
  }
  const [old, now] = [textOf(before), textOf(after)];
  if (old === null || now === null) {
    return { reason: trans.__('A binary file') };
  }
  const lines = lineChanges(old, now);
  return lines === null ? { reason: trans.__('The file differs too much to compare it here') } : { lines };
}

/** The lines with their numbers before and after, and a sign for screen readers and the colour-blind. */
function Lines({ lines }: { readonly lines: readonly ILine[] }): React.JSX.Element {
  if (lines.length === 0) {
    return <Nothing title={trans.__('The text is the same')} text={trans.__('Its mode, owner or time changed.')} />;
  }
  const signs = { added: '+', removed: '−', same: ' ', gap: '' };
  return (
    <>
      {lines.length > MAX_LINES && <Notice text={trans.__('Only the first %1 of %2 lines are shown.', MAX_LINES, lines.length)} />}
      <div className="sbx-Diff" tabIndex={0} role="region" aria-label={trans.__('Changed lines')}>
        <div className="sbx-Diff-lines">
          {lines.slice(0, MAX_LINES).map((line, at) => (
            <div key={at} className={`sbx-Diff-line sbx-mod-${line.kind}`}>
              <span className="sbx-Diff-number">{line.before}</span>
              <span className="sbx-Diff-number">{line.after}</span>
              <span className="sbx-Diff-sign">{signs[line.kind]}</span>
              <span className="sbx-Diff-text">{line.kind === 'gap' ? '⋯' : visible(line.text.replaceAll('\t', '    '))}</span>
            </div>
          ))}
        </div>
      </div>
    </>
  );
}
