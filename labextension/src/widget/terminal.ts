import xterm from '@xterm/xterm/css/xterm.css';

import base from '../../style/components.css';
import { TerminalView } from '../components/terminalView';
import { renderWith } from './view';

const render = renderWith([xterm, base], (node, transport, model) => {
  const pid = model.get('pid') as number | null | undefined;
  const view = new TerminalView(node, transport, pid ?? null);
  // xterm measures its cells, so the node has to be in the page and laid out.
  requestAnimationFrame(() => {
    view.open();
  });
  return view;
});

export default { render };
