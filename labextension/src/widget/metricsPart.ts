import { MetricsView } from '../components/metrics/metricsView';
import type { MakeView } from './view';

/** Creates a chart that tells Python each reading it draws. */
export const observedMetrics: MakeView = (node, transport, model) => {
  const view = new MetricsView(node, transport, undefined, reading => {
    model.send({ reading });
  });
  view.start();
  return view;
};
