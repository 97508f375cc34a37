import type { IJupyterServer } from '../components/jupyterServer';

/** The address of a port of a sandbox, through the Jupyter server. */
export function portUrl(server: IJupyterServer, sandboxId: string, port: number): string {
  const base = server.url([]).replace(/sbx\/api\/$/, '');
  return `${base}sbx/port/${encodeURIComponent(sandboxId)}/${port}/`;
}
