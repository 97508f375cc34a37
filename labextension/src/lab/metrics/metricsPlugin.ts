import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ILayoutRestorer } from '@jupyterlab/application';
import { MainAreaWidget, Notification, WidgetTracker } from '@jupyterlab/apputils';

import { trans } from '../../components/translation';
import type { ISandbox } from '../../protocol/sandboxes';
import { displayName } from '../../protocol/sandboxes';
import type { SandboxCommands } from '../panel/commands';
import { describedBy, labelled } from '../panel/commands';
import { metricsIcon } from '../icons';
import { MetricsWidget } from './metricsWidget';
import type { Sandboxes } from '../sandboxes';
import { addTab } from '../addTab';
import { CommandIDs } from '../commandIds';
import { ISandboxCommands, ISandboxes } from '../tokens';

type Shown = MainAreaWidget<MetricsWidget>;

/** Lines of more sandboxes in one chart could not be told apart. */
const MOST = 12;

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
    const open = async (chosen: readonly ISandbox[]): Promise<Shown> => {
      const content = new MetricsWidget(
        chosen.map(sandbox => ({ sandboxId: sandbox.sandboxID, name: displayName(sandbox) })),
        sandboxes,
        app.commands
      );
      const known = tracker.find(widget => widget.content.id === content.id);
      const widget = known ?? metricsWidget(content);
      if (known === undefined) {
        addTab(app, widget, { type: trans.__('Sandbox metrics') });
        await tracker.add(widget);
      } else {
        content.dispose();
      }
      app.shell.activateById(widget.id);
      return widget;
    };
    app.commands.addCommand(CommandIDs.openMetrics, {
      label: labelled(trans.__('Show Metrics'), trans.__('Show Sandbox Metrics')),
      caption: trans.__('Show CPU, memory and disk use of a sandbox'),
      icon: metricsIcon,
      describedBy: describedBy(),
      execute: async args => {
        const sandbox = await commands.target(args);
        return sandbox === null ? null : open([sandbox]);
      }
    });
    app.commands.addCommand(CommandIDs.compareMetrics, {
      label: trans.__('Compare Metrics of Sandboxes'),
      caption: trans.__('Show CPU, memory and disk use of several sandboxes in the same charts'),
      icon: metricsIcon,
      describedBy: describedBy({
        sandboxes: {
          type: 'array',
          items: { type: 'string' },
          description: `The ids of the sandboxes, at most ${MOST}; all that run if it is missing.`
        }
      }),
      execute: async args => {
        if (sandboxes.items === null) {
          await sandboxes.refresh();
        }
        const ids = args['sandboxes'];
        const chosen = (sandboxes.items ?? []).filter(({ sandboxID, state }) =>
          Array.isArray(ids) ? ids.includes(sandboxID) : state === 'running'
        );
        if (chosen.length === 0) {
          if (args['restored'] !== true) {
            Notification.info(trans.__('There is no sandbox to compare.'), { autoClose: 4000 });
          }
          return null;
        }
        return open(chosen.slice(0, MOST));
      }
    });
    void restorer?.restore(tracker, {
      command: CommandIDs.compareMetrics,
      args: ({ content }) => ({ sandboxes: content.shown.map(({ sandboxId }) => sandboxId), restored: true }),
      name: ({ content }) => content.id,
      when: app.serviceManager.ready
    });
  }
};

function metricsWidget(content: MetricsWidget): Shown {
  const widget = new MainAreaWidget({ content });
  widget.toolbar.hide();
  widget.id = content.id.replace('sbx-metrics-', 'sbx-metrics-area-');
  return widget;
}
