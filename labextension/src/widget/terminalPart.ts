import { TerminalView } from '../components/terminals/terminalView';
import type { MakeView } from './view';

/** Creates a view of the terminal that the trait `pid` names. */
export const shownTerminal: MakeView = (node, transport, model) => {
  const pid = model.get('pid') as number | null | undefined;
  const view = new TerminalView(node, transport, pid ?? null);
  // xterm measures its cells, so the node has to be in the page and laid out.
  requestAnimationFrame(() => {
    view.open();
  });
  return view;
};
