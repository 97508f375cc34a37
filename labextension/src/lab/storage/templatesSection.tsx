import { addIcon, stopIcon } from '@jupyterlab/ui-components';
import { InputDialog } from '@jupyterlab/apputils';
import * as React from 'react';

import { formatAge, formatBytes } from '../../components/format';
import { namesText } from '../../components/names';
import { trans } from '../../components/translation';
import { displayName, templateLabel } from '../../protocol/sandboxes';
import type { IBuild, IStoredTemplate } from '../../protocol/storage';
import { CommandIDs } from '../commandIds';
import { killIcon, renameIcon } from '../icons';
import { usePolled } from '../polled';
import { BuildForm } from './buildForm';
import { attempt, cancelBuild, confirmDeletion } from './questions';
import type { StorageRequests } from './requests';
import type { IStoreProps } from './sections';
import type { IRowAction, IStoreRow } from './storeTable';
import { NONE, StoreTable } from './storeTable';

/** Milliseconds between two lists: they can be made elsewhere, and measuring them costs something. */
const INTERVAL = 20_000;

interface ITemplatesProps extends IStoreProps {
  readonly requests: StorageRequests;
  readonly kind: IStoredTemplate['kind'];
}

/** The snapshots, or the templates with a form that builds one. */
export function TemplatesSection(props: ITemplatesProps): React.JSX.Element {
  const { requests, kind, isActive } = props;
  const read = React.useCallback(
    async () => (await requests.templates()).filter(template => template.kind === kind),
    [requests, kind]
  );
  const polled = usePolled<readonly IStoredTemplate[]>(read, INTERVAL, isActive);
  const [builds, setBuilds] = React.useState(false);
  const wasClosed = React.useRef(false);
  const isSnapshot = kind === 'snapshot';
  const tools = isSnapshot || builds ? undefined : (
    <>
      <span className="sbx-Section-count" />
      <button
        type="button"
        className="sbx-Button"
        // After the form is closed it takes the focus back.
        ref={node => { if (wasClosed.current) { wasClosed.current = false; node?.focus(); } }}
        onClick={() => { setBuilds(true); }}
      >
        {trans.__('Build from a Dockerfile…')}
      </button>
    </>
  );
  return (
    <>
      {builds && <BuildForm {...props} refresh={polled.refresh} close={() => { wasClosed.current = true; setBuilds(false); }} />}
      <StoreTable
        label={isSnapshot ? trans.__('Snapshots') : trans.__('Templates')}
        polled={polled}
        texts={{
          missing: trans.__('This deployment does not list templates'),
          none: isSnapshot ? trans.__('No snapshots yet') : trans.__('No templates'),
          hint: isSnapshot
            ? trans.__('A snapshot keeps the files of a sandbox, to create others from them. Take one in the menu of a sandbox.')
            : trans.__('Build one from a Dockerfile.'),
          failed: isSnapshot ? trans.__('The snapshots could not be listed') : trans.__('The templates could not be listed')
        }}
        columns={[trans.__('Sandboxes'), trans.__('Size'), trans.__('Age')]}
        tools={tools}
        row={template => templateRow(template, props, polled.refresh)}
      />
    </>
  );
}

function templateRow(template: IStoredTemplate, props: ITemplatesProps, refresh: () => void): IStoreRow {
  const { createdAt, ownBytes, sharedBytes, sandboxes = [], buildStatus, isStock = false } = template;
  const age = createdAt === undefined ? NONE : formatAge((props.sandboxes.now() - Date.parse(createdAt)) / 1000);
  const names = sandboxes.map(id => sandboxName(props, id));
  const shared = sharedBytes ? trans.__('and %1 shared with others', formatBytes(sharedBytes)) : '';
  const origin = isStock ? trans.__('Its programs are those of this machine.') : '';
  return {
    id: template.templateID,
    name: templateLabel(template),
    title: [template.templateID, origin, shared, names.length === 0 ? '' : trans.__('Sandboxes: %1', namesText(names))].filter(Boolean).join('\n'),
    ...tagOf(template, buildStatus),
    facts: [
      template.sandboxes === undefined ? NONE : String(sandboxes.length),
      // A stock template has no files of its own, and was always there.
      typeof ownBytes === 'number' && !isStock ? formatBytes(ownBytes) : NONE,
      isStock ? NONE : age
    ],
    actions: rowActions(template, names, props, refresh)
  };
}

function tagOf({ isStock }: IStoredTemplate, buildStatus: string | null | undefined): { tag?: string } {
  if (isStock === true) {
    return { tag: trans.__('built in') };
  }
  const texts: Record<string, () => string> = {
    waiting: () => trans.__('waiting'),
    building: () => trans.__('building'),
    error: () => trans.__('build failed')
  };
  const text = texts[buildStatus ?? '']?.();
  return text === undefined ? {} : { tag: text };
}

function rowActions(template: IStoredTemplate, names: readonly string[], props: ITemplatesProps, refresh: () => void): readonly IRowAction[] {
  const label = templateLabel(template);
  const { commands, requests } = props;
  const create = {
    icon: addIcon,
    label: trans.__('New sandbox from %1', label),
    run: () => void commands.execute(CommandIDs.create, { template: template.templateID })
  };
  const rename = async () => {
    const { button, value } = await InputDialog.getText({ title: trans.__('Rename %1', label), text: label, okLabel: trans.__('Rename') });
    if (button.accept && value !== null && value.trim() !== label) {
      const work = () => requests.renameTemplate(template.templateID, value.trim());
      await attempt(work, trans.__('%1 has a new name.', label), trans.__('%1 could not be renamed.', label), refresh);
    }
  };
  const remove = async () => {
    if (await confirmDeletion(removal(template, names))) {
      const work = () => requests.removeTemplate(template.templateID, names.length > 0);
      await attempt(work, trans.__('%1 is deleted.', label), trans.__('%1 could not be deleted.', label), refresh);
    }
  };
  const cancel = {
    icon: stopIcon,
    label: trans.__('Cancel the build of %1', label),
    run: () => {
      const build = runningBuild(template);
      if (build !== null) {
        void cancelBuild(build, label, requests, refresh);
      }
    }
  };
  // If the deployment does not tell the owner, a template may be one that came with the deployment.
  const isOurs = template.isOwn === true || (template.kind === 'snapshot' && template.isOwn !== false);
  return [
    ...(runningBuild(template) === null ? [] : [cancel]),
    ...(template.buildStatus === 'building' || template.buildStatus === 'error' ? [] : [create]),
    ...(isOurs
      ? [
          { icon: renameIcon, label: trans.__('Rename %1', label), run: () => void rename() },
          { icon: killIcon, label: trans.__('Delete %1', label), run: () => void remove() }
        ]
      : [])
  ];
}

/** The newest build of a template of the user, while it is under way. */
function runningBuild({ templateID, buildID, buildStatus, isOwn }: IStoredTemplate): IBuild | null {
  const isUnderWay = buildStatus === 'building' || buildStatus === 'waiting';
  return isUnderWay && isOwn === true && buildID !== undefined ? { templateID, buildID } : null;
}

/** The consequences of deleting a template or snapshot. */
function removal(template: IStoredTemplate, names: readonly string[]) {
  const { ownBytes } = template;
  const isSnapshot = template.kind === 'snapshot';
  return {
    title: isSnapshot ? trans.__('Delete this snapshot?') : trans.__('Delete this template?'),
    name: templateLabel(template),
    consequences: [
      ...(names.length === 0 ? [] : [trans.__('These sandboxes were made from it, end with it and lose their files: %1.', namesText(names))]),
      trans.__('No sandbox can be created from it any more. This cannot be undone.'),
      ...(typeof ownBytes === 'number' ? [trans.__('It frees %1 of the disk.', formatBytes(ownBytes))] : [])
    ],
    label: names.length === 0 ? trans.__('Delete') : trans.__('End them and delete')
  };
}

/** The name of a sandbox, or its id if it is another user's. */
function sandboxName({ sandboxes }: IStoreProps, id: string): string {
  const known = sandboxes.find(id);
  return known === undefined ? id : displayName(known);
}
