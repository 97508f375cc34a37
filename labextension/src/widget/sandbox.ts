import xterm from '@xterm/xterm/css/xterm.css';
import uplot from 'uplot/dist/uPlot.min.css';

import base from '../../style/components.css';
import { element } from '../components/dom';
import { trans } from '../components/translation';
import { observedFiles } from './filesPart';
import { observedMetrics } from './metricsPart';
import { shownTerminal } from './terminalPart';
import { renderWith } from './view';

/** Files, a terminal and metrics: beside each other where there is room, else one below the other. */
const render = renderWith([xterm, uplot, base], (node, transport, model) => {
  node.classList.add('sbx-SandboxView');
  const part = (name: string, label: string) => {
    const area = element('section', `sbx-SandboxView-part sbx-mod-${name}`, { 'aria-label': label });
    const content = element('div', '');
    area.append(content);
    node.append(area);
    return content;
  };
  const files = observedFiles(part('files', trans.__('Files')), transport, model);
  const terminal = shownTerminal(part('terminal', trans.__('Terminal')), transport, model);
  const metrics = observedMetrics(part('metrics', trans.__('Metrics')), transport, model);
  return {
    refresh: () => {
      files.refresh?.();
    },
    setSandboxState: state => {
      terminal.setSandboxState?.(state);
    },
    dispose: () => {
      files.dispose();
      terminal.dispose();
      metrics.dispose();
      node.replaceChildren();
    }
  };
});

export default { render };
