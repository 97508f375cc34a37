/** The factory of the last call of `define`, by which anywidget defines its classes. */
export const defined: { factory?: (base: unknown) => object } = {};

Object.assign(globalThis, {
  define: (_: string[], factory: (base: unknown) => object) => {
    defined.factory = factory;
  }
});
