import { FilesView } from '../components/files/filesView';
import { follow, tell } from './traits';
import type { MakeView } from './view';

/** Creates a file view that shows the trait `path`, and tells Python where the user goes and what they choose. */
export const observedFiles: MakeView = (node, transport, model) => {
  const root = (model.get('path') as string | undefined) ?? '/home/user';
  const view = new FilesView(node, transport, root, {
    onPath: path => {
      tell(model, 'path', path);
    },
    onSelect: path => {
      tell(model, 'selected', path);
    }
  });
  const stop = follow(model, 'path', path => {
    view.show(path);
  });
  return {
    refresh: () => {
      view.refresh();
    },
    dispose: () => {
      stop();
      view.dispose();
    }
  };
};
