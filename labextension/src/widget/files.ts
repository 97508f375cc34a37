import base from '../../style/components.css';
import { observedFiles } from './filesPart';
import { renderWith } from './view';

const render = renderWith([base], observedFiles);

export default { render };
