import * as React from 'react';

type Listener = (isInView: boolean) => void;

const listeners = new WeakMap<Element, Set<Listener>>();
let observer: IntersectionObserver | null = null;

/** Calls `listener` when an element comes into view or leaves it, and once at first; returns a function that ends it. */
function follow(node: Element, listener: Listener): () => void {
  // One for all: a list may have thousands of rows.
  observer ??= new IntersectionObserver(entries => {
    for (const { target, isIntersecting } of entries) {
      listeners.get(target)?.forEach(each => {
        each(isIntersecting);
      });
    }
  });
  const all = listeners.get(node) ?? new Set<Listener>();
  listeners.set(node, all.add(listener));
  // The observer tells the state again to those that came later.
  observer.unobserve(node);
  observer.observe(node);
  return () => {
    all.delete(listener);
    if (all.size === 0) {
      observer?.unobserve(node);
      listeners.delete(node);
    }
  };
}

/** Whether an element is in view; `first` until that is known, one frame after it was drawn. */
export function useInView(node: React.RefObject<Element>, first: boolean): boolean {
  const [isInView, setInView] = React.useState(first);
  React.useEffect(() => (node.current === null ? undefined : follow(node.current, setInView)), [node]);
  return isInView;
}
