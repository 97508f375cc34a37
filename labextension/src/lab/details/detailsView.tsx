import { folderIcon, terminalIcon } from '@jupyterlab/ui-components';
import * as React from 'react';

import { formatCountdown } from '../../components/format';
import { trans } from '../../components/translation';
import type { ISandbox } from '../../protocol/sandboxes';
import { displayName, shortTemplate, templateName } from '../../protocol/sandboxes';
import { CommandIDs } from '../commandIds';
import { metricsIcon } from '../icons';
import { SecondClock, useNow } from '../panel/list/secondClock';
import type { Sandboxes } from '../sandboxes';
import { IconAction, Notice } from '../states';
import { Tabs } from '../tabs';
import { ChangesSection } from './changesSection';
import { LogsSection } from './logsSection';
import { PortsSection } from './portsSection';
import { ProcessesSection } from './processesSection';
import type { ISectionProps, Section } from './sections';
import { SECTIONS, sectionLabel } from './sections';

interface IDetailsProps extends Omit<ISectionProps, 'hasEnded'> {
  readonly name: string;
  readonly section: Section;
  readonly setSection: (section: Section) => void;
}

const SECTION_VIEWS: Readonly<Record<Section, (props: ISectionProps) => React.JSX.Element>> = {
  logs: LogsSection,
  processes: ProcessesSection,
  ports: PortsSection,
  changes: ChangesSection
};

/** The head of the tab, its sections and the one that is chosen. */
export function DetailsView(props: IDetailsProps): React.JSX.Element {
  const { sandboxes, sandboxId, section, setSection } = props;
  const sandbox = useSandbox(sandboxes, sandboxId);
  const last = React.useRef(sandbox);
  last.current = sandbox ?? last.current;
  const hasEnded = sandboxes.items !== null && sandboxes.error === null && sandbox === undefined;
  // The processes of a paused sandbox cannot be asked.
  const rests = sandbox?.state === 'paused' && (section === 'processes' || section === 'ports');
  const isOver = hasEnded || rests;
  const View = SECTION_VIEWS[section];
  return (
    <>
      <Head {...props} sandbox={last.current} hasEnded={hasEnded} />
      <Tabs label={trans.__('Sections')} tabs={SECTIONS} nameOf={sectionLabel} chosen={section} choose={setSection} />
      <div className={`sbx-Details-body${hasEnded ? ' sbx-mod-ended' : ''}`} role="tabpanel" aria-label={sectionLabel(section)}>
        {rests && (
          <Notice
            text={trans.__('The sandbox is paused; this is what was last seen.')}
            action={trans.__('Resume')}
            onAction={() => void props.commands.execute(CommandIDs.resume, { sandbox: sandboxId })}
          />
        )}
        <View {...props} isActive={props.isActive && !isOver} hasEnded={isOver} />
      </div>
    </>
  );
}

/** The sandbox, and again after each change. */
function useSandbox(sandboxes: Sandboxes, sandboxId: string): ISandbox | undefined {
  const [, draw] = React.useReducer((count: number) => count + 1, 0);
  React.useEffect(() => {
    sandboxes.changed.connect(draw);
    return () => {
      sandboxes.changed.disconnect(draw);
    };
  }, [sandboxes]);
  return sandboxes.find(sandboxId);
}

interface IHeadProps extends IDetailsProps {
  readonly sandbox: ISandbox | undefined;
  readonly hasEnded: boolean;
}

function Head({ sandbox, hasEnded, name, sandboxes, sandboxId, commands }: IHeadProps): React.JSX.Element {
  const run = (command: string) => () => void commands.execute(command, { sandbox: sandboxId });
  const clock = React.useMemo(() => new SecondClock(() => sandboxes.now()), [sandboxes]);
  return (
    <div className="sbx-Details-head">
      <span className={`sbx-Dot sbx-mod-${hasEnded ? 'ended' : (sandbox?.state ?? 'unknown')}`} />
      <h2 className="sbx-View-title" title={sandboxId}>
        {sandbox === undefined ? name : displayName(sandbox)}
      </h2>
      <Facts sandbox={sandbox} hasEnded={hasEnded} clock={clock} />
      {hasEnded ? (
        <button
          type="button"
          className="sbx-Button"
          onClick={() => void commands.execute(CommandIDs.create, sandbox === undefined ? {} : { template: sandbox.templateID })}
        >
          {trans.__('New sandbox like it')}
        </button>
      ) : (
        <span className="sbx-Details-actions">
          <IconAction icon={terminalIcon} label={trans.__('Open terminal')} onClick={run(CommandIDs.openTerminal)} />
          <IconAction icon={folderIcon} label={trans.__('Browse files')} onClick={run(CommandIDs.browseFiles)} />
          <IconAction icon={metricsIcon} label={trans.__('Show metrics')} onClick={run(CommandIDs.openMetrics)} />
        </span>
      )}
    </div>
  );
}

/** The facts beside the name in the head; the only part of it that is drawn every second. */
function Facts({ sandbox, hasEnded, clock }: Pick<IHeadProps, 'sandbox' | 'hasEnded'> & { readonly clock: SecondClock }): React.JSX.Element {
  const text = facts(sandbox, hasEnded, useNow(clock));
  return (
    <span className="sbx-View-facts" title={text}>
      {text}
    </span>
  );
}

function facts(sandbox: ISandbox | undefined, hasEnded: boolean, now: number): string {
  if (hasEnded) {
    return trans.__('has ended; this is what was last seen');
  }
  if (sandbox === undefined) {
    return '';
  }
  const left = (Date.parse(sandbox.endAt) - now) / 1000;
  const state = sandbox.state === 'paused' ? trans.__('paused') : trans.__('%1 left', formatCountdown(left));
  return `${shortTemplate(templateName(sandbox))} · ${state}`;
}
