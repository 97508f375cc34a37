import * as React from 'react';

interface ITabsProps<T extends string> {
  readonly label: string;
  readonly tabs: readonly T[];
  readonly nameOf: (tab: T) => string;
  readonly chosen: T;
  readonly choose: (tab: T) => void;
}

/** The names of the parts of a view; arrow keys choose one. */
export function Tabs<T extends string>({ label, tabs, nameOf, chosen, choose }: ITabsProps<T>): React.JSX.Element {
  const list = React.useRef<HTMLDivElement>(null);
  const at = tabs.indexOf(chosen);
  const keys: Record<string, number> = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: tabs.length - 1 };
  const go = (to: number) => {
    const next = tabs[(to + tabs.length) % tabs.length] ?? chosen;
    choose(next);
    list.current?.querySelector<HTMLElement>(`[data-tab="${next}"]`)?.focus();
  };
  // A command may choose another one while the focus is here.
  React.useEffect(() => {
    const tab = list.current?.querySelector<HTMLElement>(`[data-tab="${chosen}"]`);
    if (list.current?.contains(document.activeElement) === true) {
      tab?.focus();
    }
    tab?.scrollIntoView({ block: 'nearest', inline: 'nearest' });
  }, [chosen]);
  return (
    <div className="sbx-Tabs" role="tablist" ref={list} aria-label={label}>
      {tabs.map(tab => (
        <button
          key={tab}
          type="button"
          role="tab"
          data-tab={tab}
          aria-selected={tab === chosen}
          tabIndex={tab === chosen ? 0 : -1}
          onClick={() => {
            choose(tab);
          }}
          onKeyDown={event => {
            const to = keys[event.key];
            if (to !== undefined) {
              event.preventDefault();
              go(to);
            }
          }}
        >
          {nameOf(tab)}
        </button>
      ))}
    </div>
  );
}
