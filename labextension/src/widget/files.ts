import base from '../../style/components.css';
import { FilesView } from '../components/filesView';
import { renderWith } from './view';

const render = renderWith([base], (node, transport, model) => {
  const root = (model.get('path') as string | undefined) ?? '/home/user';
  return new FilesView(node, transport, root);
});

export default { render };
