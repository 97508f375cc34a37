import uplot from 'uplot/dist/uPlot.min.css';

import base from '../../style/components.css';
import { MetricsView } from '../components/metricsView';
import { renderWith } from './view';

const render = renderWith([uplot, base], (node, transport) => {
  const view = new MetricsView(node, transport);
  view.start();
  return view;
});

export default { render };
