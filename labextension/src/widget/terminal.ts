import xterm from '@xterm/xterm/css/xterm.css';

import base from '../../style/components.css';
import { shownTerminal } from './terminalPart';
import { renderWith } from './view';

const render = renderWith([xterm, base], shownTerminal);

export default { render };
