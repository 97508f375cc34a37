/** What the last call of `define` gave, by which anywidget gives its classes. */
export const defined: { factory?: (base: unknown) => object } = {};

Object.assign(globalThis, {
  define: (_: string[], factory: (base: unknown) => object) => {
    defined.factory = factory;
  }
});
