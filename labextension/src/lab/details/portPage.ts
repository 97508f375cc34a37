import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { ILayoutRestorer } from '@jupyterlab/application';
import { Clipboard, InputDialog, MainAreaWidget, WidgetTracker } from '@jupyterlab/apputils';
import { IFrame, launchIcon, linkIcon, refreshIcon, ToolbarButton } from '@jupyterlab/ui-components';
import { Widget } from '@lumino/widgets';

import { element } from '../../components/dom';
import { trans } from '../../components/translation';
import type { ISandbox } from '../../protocol/sandboxes';
import { displayName } from '../../protocol/sandboxes';
import { addTab } from '../addTab';
import { CommandIDs } from '../commandIds';
import { windowIcon } from '../icons';
import type { SandboxCommands } from '../panel/commands';
import { describedBy, labelled, numberOf, sandboxArg } from '../panel/commands';
import { portUrl } from '../ports';
import type { Sandboxes } from '../sandboxes';

const MAX_PORT = 65_535;

/** Shows what a port of a sandbox answers; like the server's policy, it gives the page an origin of its own. */
class PortPage extends MainAreaWidget<IFrame> {
  constructor(
    readonly sandbox: ISandbox,
    readonly port: number,
    url: string
  ) {
    // Without `allow-same-origin` and `allow-top-navigation`: the page is hostile.
    const content = new IFrame({ sandbox: ['allow-scripts', 'allow-forms', 'allow-modals', 'allow-popups', 'allow-downloads'] });
    super({ content });
    content.url = url;
    content.addClass('sbx-PortPage');
    content.node.querySelector('iframe')?.setAttribute('title', trans.__('Port %1 of %2', port, displayName(sandbox)));
    this.id = `sbx-port-${sandbox.sandboxID}-${port}`;
    this.title.label = trans.__('%1: %2', displayName(sandbox), port);
    this.title.caption = trans.__('Port %1 of sandbox %2', port, displayName(sandbox));
    this.title.icon = windowIcon;
    this.title.closable = true;
    this.addToolbar(url);
  }

  private addToolbar(url: string): void {
    const address = new URL(url, window.location.href).href;
    const button = (icon: typeof linkIcon, tooltip: string, onClick: () => void) => new ToolbarButton({ icon, tooltip, onClick });
    this.toolbar.addItem('name', new Widget({ node: element('span', 'sbx-PortPage-name', {}, this.title.caption) }));
    this.toolbar.addItem('reload', button(refreshIcon, trans.__('Load the page again'), () => { this.content.url = url; }));
    this.toolbar.addItem('launch', button(launchIcon, trans.__('Open in a new browser tab'), () => { window.open(address, '_blank', 'noopener'); }));
    this.toolbar.addItem('copy', button(linkIcon, trans.__('Copy the link'), () => { Clipboard.copyToSystem(address); }));
  }
}

/** Adds the command that opens a port in a tab, and brings such tabs back after a reload. */
export function addPortPages(
  app: JupyterFrontEnd,
  sandboxes: Sandboxes,
  commands: SandboxCommands,
  restorer: ILayoutRestorer | null
): void {
  const tracker = new WidgetTracker<PortPage>({ namespace: 'sbx-ports' });
  app.commands.addCommand(CommandIDs.openPort, {
    label: labelled(trans.__('Open Port…'), trans.__('Open Port of Sandbox…')),
    caption: trans.__('Show what a program in the sandbox serves'),
    icon: windowIcon,
    describedBy: describedBy({ sandbox: sandboxArg, port: { type: 'integer', minimum: 1, maximum: MAX_PORT } }),
    execute: async args => {
      const sandbox = await commands.target(args);
      const port = sandbox === null ? null : (numberOf(args['port']) ?? (await askForPort()));
      if (sandbox === null || port === null) {
        return null;
      }
      const known = tracker.find(page => page.sandbox.sandboxID === sandbox.sandboxID && page.port === port);
      const page = known ?? new PortPage(sandbox, port, portUrl(sandboxes.server, sandbox.sandboxID, port));
      if (known === undefined) {
        addTab(app, page, { type: trans.__('Sandbox port') });
        await tracker.add(page);
      }
      app.shell.activateById(page.id);
      return page;
    }
  });
  void restorer?.restore(tracker, {
    command: CommandIDs.openPort,
    args: ({ sandbox, port }) => ({ sandbox: sandbox.sandboxID, port, restored: true }),
    name: ({ sandbox, port }) => `${sandbox.sandboxID}-${port}`,
    when: app.serviceManager.ready
  });
}

async function askForPort(): Promise<number | null> {
  const { button, value } = await InputDialog.getNumber({
    title: trans.__('Which port?'),
    value: 8000,
    okLabel: trans.__('Open')
  });
  return button.accept && value !== null && Number.isInteger(value) && value > 0 && value <= MAX_PORT ? value : null;
}
