import * as React from 'react';

import { SandboxError } from '../protocol/errors';

/** The result of a request that a view repeats. */
export interface IPolled<T> {
  /** The last answer; `null` before the first. */
  readonly value: T | null;
  /** Why the last request failed; `null` if it succeeded. */
  readonly error: unknown;
  /** Whether the answer to `refresh` is still to come. */
  readonly isRefreshing: boolean;
  readonly refresh: () => void;
}

/**
 * Reads now and `interval` milliseconds after each answer, while `isActive`; while the page is hidden,
 * once it is visible again.
 *
 * After a failure the last value stays; an interval of 0 reads once.
 */
export function usePolled<T>(read: () => Promise<T>, interval: number, isActive: boolean): IPolled<T> {
  const [value, setValue] = React.useState<T | null>(null);
  const [error, setError] = React.useState<unknown>(null);
  const [round, next] = React.useReducer((count: number) => count + 1, 0);
  const [isRefreshing, setRefreshing] = React.useState(false);
  const refresh = React.useCallback(() => {
    setRefreshing(true);
    next();
  }, []);
  React.useEffect(() => {
    setValue(null);
    setError(null);
  }, [read]);
  React.useEffect(() => {
    if (!isActive) {
      return;
    }
    return poll(
      read,
      interval,
      answer => {
        setValue(answer);
        setError(null);
        setRefreshing(false);
      },
      reason => {
        setError(reason);
        setRefreshing(false);
      }
    );
  }, [read, interval, isActive, round]);
  return { value, error, isRefreshing, refresh };
}

/** Reads as `usePolled` says; returns a function that ends it, after which nothing is told any more. */
export function poll<T>(read: () => Promise<T>, interval: number, onAnswer: (answer: T) => void, onFailure: (reason: unknown) => void): () => void {
  let isOver = false;
  let timer = 0;
  const tell = (told: () => void) => {
    if (!isOver) {
      told();
    }
  };
  const step = async () => {
    if (document.hidden) {
      document.addEventListener('visibilitychange', again, { once: true });
      return;
    }
    try {
      const answer = await read();
      tell(() => { onAnswer(answer); });
    } catch (reason) {
      tell(() => { onFailure(reason); });
    }
    if (!isOver && interval > 0) {
      timer = window.setTimeout(again, interval);
    }
  };
  const again = () => void step();
  void step();
  return () => {
    isOver = true;
    window.clearTimeout(timer);
    document.removeEventListener('visibilitychange', again);
  };
}

/** Whether a failure says that the deployment, or an older Jupyter server, has no such feature. */
export function isMissing(error: unknown): boolean {
  return error instanceof SandboxError && (error.code === 'unimplemented' || /\banswered 40[45]\b/.test(error.message));
}
