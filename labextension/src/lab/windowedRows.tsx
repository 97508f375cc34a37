import * as React from 'react';

/** Rows above and below the visible ones that are drawn too, so that scrolling shows no gap. */
const MARGIN = 12;

interface IWindowedRowsProps extends React.HTMLAttributes<HTMLDivElement> {
  readonly count: number;
  /** Pixels; the same for all rows. */
  readonly rowHeight: number;
  readonly row: (index: number) => React.ReactNode;
  /** The row that must be visible, for example the one with the focus. */
  readonly current: number;
}

/** Scrolls through any number of rows and draws only those that can be seen. */
export function WindowedRows({ count, rowHeight, row, current, ...attributes }: IWindowedRowsProps): React.JSX.Element {
  const box = React.useRef<HTMLDivElement>(null);
  const [top, setTop] = React.useState(0);
  const [height, setHeight] = React.useState(600);
  React.useLayoutEffect(() => {
    const node = box.current;
    if (node === null) {
      return;
    }
    const observer = new ResizeObserver(() => {
      setHeight(node.clientHeight);
    });
    observer.observe(node);
    return () => {
      observer.disconnect();
    };
  }, []);
  React.useLayoutEffect(() => {
    const node = box.current;
    if (node === null || current < 0) {
      return;
    }
    const from = current * rowHeight;
    if (from < node.scrollTop) {
      node.scrollTop = from;
    } else if (from + rowHeight > node.scrollTop + node.clientHeight) {
      node.scrollTop = from + rowHeight - node.clientHeight;
    }
  }, [current, rowHeight]);
  const first = Math.max(0, Math.floor(top / rowHeight) - MARGIN);
  const last = Math.min(count, Math.ceil((top + height) / rowHeight) + MARGIN);
  return (
    <div
      {...attributes}
      ref={box}
      onScroll={event => {
        setTop(event.currentTarget.scrollTop);
      }}
    >
      <div style={{ height: count * rowHeight, paddingTop: first * rowHeight, boxSizing: 'border-box' }} role="presentation">
        {Array.from({ length: Math.max(0, last - first) }, (_, at) => row(first + at))}
      </div>
    </div>
  );
}
