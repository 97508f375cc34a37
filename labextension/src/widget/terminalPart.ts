import { TerminalView } from '../components/terminals/terminalView';
import { tell } from './traits';
import type { MakeView } from './view';

/** Creates a view of the terminal that the trait `pid` names, which names another one after the user began that. */
export const shownTerminal: MakeView = (node, transport, model) => {
  const pid = () => (model.get('pid') as number | null | undefined) ?? null;
  const view = new TerminalView(node, transport, pid(), shown => {
    tell(model, 'pid', shown);
  });
  const onPid = () => {
    view.show(pid());
  };
  model.on('change:pid', onPid);
  // xterm measures its cells, so the node has to be in the page and laid out.
  requestAnimationFrame(() => {
    view.open();
  });
  return {
    setSandboxState: state => {
      view.setSandboxState(state);
    },
    dispose: () => {
      model.off('change:pid', onPid);
      view.dispose();
    }
  };
};
