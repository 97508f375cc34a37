declare module '*.css';
declare module 'anywidget';
declare module 'jupyter-matplotlib' {
  const module: object;
  export = module;
}
