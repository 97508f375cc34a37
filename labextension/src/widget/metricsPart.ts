import { MetricsView } from '../components/metrics/metricsView';
import type { MakeView } from './view';

/** Creates a chart that tells Python each reading it draws; it asks for the state first, which wakes no sandbox. */
export const observedMetrics: MakeView = (node, transport, model) => {
  const isPaused = async () => (await transport.state()) === 'paused';
  const view = new MetricsView(node, [{ name: '', transport, isPaused }], undefined, reading => {
    model.send({ reading });
  });
  view.start();
  return view;
};
