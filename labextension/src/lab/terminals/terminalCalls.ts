import type { SandboxApi } from '../../components/sandboxApi';
import type { ITerminalInfo, ITerminalState } from '../../protocol/sandboxes';

/** Lists the terminals of a sandbox. */
export function listTerminals(api: SandboxApi, sandboxId: string): Promise<readonly ITerminalInfo[]> {
  return api.get('/sandboxes/{sandbox_id}/terminals', { path: { sandbox_id: sandboxId } });
}

/** Reads what runs in a terminal. */
export function readTerminal(api: SandboxApi, sandboxId: string, pid: number): Promise<ITerminalState> {
  return api.get('/sandboxes/{sandbox_id}/terminals/{pid}', { path: pathOf(sandboxId, pid) });
}

/** Names a terminal for all who look at it; an empty name removes the name. */
export async function nameTerminal(api: SandboxApi, sandboxId: string, pid: number, name: string): Promise<void> {
  await api.patch('/sandboxes/{sandbox_id}/terminals/{pid}', { path: pathOf(sandboxId, pid), body: { name } });
}

/** Ends a terminal and what runs in it. */
export async function endTerminal(api: SandboxApi, sandboxId: string, pid: number): Promise<void> {
  await api.delete('/sandboxes/{sandbox_id}/terminals/{pid}', { path: pathOf(sandboxId, pid) });
}

function pathOf(sandboxId: string, pid: number): { sandbox_id: string; pid: string } {
  return { sandbox_id: sandboxId, pid: String(pid) };
}
