import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ILayoutRestorer } from '@jupyterlab/application';
import { MainAreaWidget, WidgetTracker } from '@jupyterlab/apputils';

import { trans } from '../../components/translation';
import { displayName } from '../../protocol/sandboxes';
import type { SandboxCommands } from '../panel/commands';
import { describedBy, labelled } from '../panel/commands';
import { metricsIcon } from '../icons';
import { MetricsWidget } from './metricsWidget';
import type { Sandboxes } from '../sandboxes';
import { CommandIDs } from '../commandIds';
import { ISandboxCommands, ISandboxes } from '../tokens';

type Shown = MainAreaWidget<MetricsWidget>;

/** Charts of the CPU, memory and disk use of sandboxes. */
export const metricsPlugin: JupyterFrontEndPlugin<void> = {
  id: 'sbx-jupyter:metrics',
  description: 'Charts of CPU, memory and disk of sandboxes.',
  autoStart: true,
  requires: [ISandboxes, ISandboxCommands],
  optional: [ILayoutRestorer],
  activate: (
    app: JupyterFrontEnd,
    sandboxes: Sandboxes,
    commands: SandboxCommands,
    restorer: ILayoutRestorer | null
  ) => {
    const tracker = new WidgetTracker<Shown>({ namespace: 'sbx-metrics' });
    app.commands.addCommand(CommandIDs.openMetrics, {
      label: labelled(trans.__('Show Metrics'), trans.__('Show Sandbox Metrics')),
      caption: trans.__('Show CPU, memory and disk use of a sandbox'),
      icon: metricsIcon,
      describedBy: describedBy(),
      execute: async args => {
        const sandbox = await commands.target(args);
        if (sandbox === null) {
          return null;
        }
        const known = tracker.find(widget => widget.content.sandboxId === sandbox.sandboxID);
        const widget = known ?? metricsWidget(sandboxes, sandbox.sandboxID, displayName(sandbox));
        if (known === undefined) {
          app.shell.add(widget, 'main', { type: trans.__('Sandbox metrics') });
          await tracker.add(widget);
        }
        app.shell.activateById(widget.id);
        return widget;
      }
    });
    void restorer?.restore(tracker, {
      command: CommandIDs.openMetrics,
      args: widget => ({ sandbox: widget.content.sandboxId, restored: true }),
      name: widget => widget.content.sandboxId,
      when: app.serviceManager.ready
    });
  }
};

function metricsWidget(sandboxes: Sandboxes, sandboxId: string, name: string): Shown {
  const content = new MetricsWidget(sandboxId, name, sandboxes.transport(sandboxId));
  const widget = new MainAreaWidget({ content });
  widget.toolbar.hide();
  widget.id = `sbx-metrics-area-${sandboxId}`;
  return widget;
}
