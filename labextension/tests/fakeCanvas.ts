/** Gives the page a canvas that draws nothing, for libraries that want one: happy-dom has none. */
export function installCanvas(): void {
  HTMLCanvasElement.prototype.getContext = ((): unknown =>
    new Proxy(
      {},
      {
        get: (target: Record<string, unknown>, name: string) =>
          name in target ? target[name] : name === 'measureText' ? () => ({ width: 8 }) : () => undefined,
        set: (target: Record<string, unknown>, name: string, value) => {
          target[name] = value;
          return true;
        }
      }
    )) as typeof HTMLCanvasElement.prototype.getContext;
  const draw = (): void => undefined;
  globalThis.Path2D ??= class {
    moveTo = draw;
    lineTo = draw;
    closePath = draw;
    rect = draw;
    arc = draw;
    addPath = draw;
  } as unknown as typeof Path2D;
}
