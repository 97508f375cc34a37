import uplot from 'uplot/dist/uPlot.min.css';

import base from '../../style/components.css';
import { observedMetrics } from './metricsPart';
import { renderWith } from './view';

const render = renderWith([uplot, base], observedMetrics);

export default { render };
