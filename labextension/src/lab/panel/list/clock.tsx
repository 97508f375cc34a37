import * as React from 'react';

import type { Sandboxes } from '../../sandboxes';

/** The server's time in milliseconds, for whatever counts seconds. */
export const ClockContext = React.createContext(0);

interface IClockProps {
  readonly sandboxes: Sandboxes;
  readonly children: React.ReactNode;
}

/** Gives the time to what is below it once per second, while the page is visible; draws nothing else again. */
export function Clock({ sandboxes, children }: IClockProps): React.JSX.Element {
  const [now, setNow] = React.useState(() => sandboxes.now());
  React.useEffect(() => {
    const timer = window.setInterval(() => {
      if (document.visibilityState === 'visible') {
        setNow(sandboxes.now());
      }
    }, 1000);
    return () => {
      window.clearInterval(timer);
    };
  }, [sandboxes]);
  return <ClockContext.Provider value={now}>{children}</ClockContext.Provider>;
}
