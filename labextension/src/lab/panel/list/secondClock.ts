import * as React from 'react';

/** Tells the time once per second to whoever follows it, while the page is visible. */
export class SecondClock {
  /** `time` gives milliseconds since 1970, for instance by the server's clock. */
  constructor(private readonly time: () => number) {
    this.last = time();
  }

  /** The time that was told last, in milliseconds since 1970. */
  readonly now = (): number => this.last;

  /** Calls `listener` once per second; returns a function that ends it. */
  readonly follow = (listener: () => void): (() => void) => {
    if (this.listeners.size === 0) {
      this.last = this.time();
      this.timer = window.setInterval(this.tick, 1000);
    }
    this.listeners.add(listener);
    return () => {
      this.listeners.delete(listener);
      if (this.listeners.size === 0) {
        window.clearInterval(this.timer);
      }
    };
  };

  private readonly tick = (): void => {
    if (document.visibilityState === 'visible') {
      this.last = this.time();
      this.listeners.forEach(listener => {
        listener();
      });
    }
  };

  private readonly listeners = new Set<() => void>();
  private last: number;
  private timer = 0;
}

/** The time in milliseconds since 1970; draws the component again once per second, unless it is out of view. */
export function useNow(clock: SecondClock, isInView = true): number {
  return React.useSyncExternalStore(isInView ? clock.follow : followNothing, clock.now);
}

/** For what is out of view: no change is told. */
export const followNothing = (): (() => void) => () => undefined;
