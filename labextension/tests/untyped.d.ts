/** What tests use of the packages that come without types; JupyterLab brings React's renderer. */
declare module 'react-dom' {
  export function flushSync(work: () => void): void;
}

declare module 'react-dom/client' {
  export interface Root {
    render(children: React.ReactNode): void;
    unmount(): void;
  }
  export function createRoot(container: Element): Root;
}
