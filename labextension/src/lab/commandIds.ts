/** The command ids, `sbx:verb-noun`. */
export const CommandIDs = {
  create: 'sbx:create',
  createWithOptions: 'sbx:create-with-options',
  openTerminal: 'sbx:open-terminal',
  attachTerminal: 'sbx:attach-terminal',
  endTerminal: 'sbx:end-terminal',
  browseFiles: 'sbx:browse-files',
  openMetrics: 'sbx:open-metrics',
  setTimeout: 'sbx:set-timeout',
  rename: 'sbx:rename',
  pause: 'sbx:pause',
  resume: 'sbx:resume',
  snapshot: 'sbx:snapshot',
  fork: 'sbx:fork',
  removeTemplate: 'sbx:remove-template',
  kill: 'sbx:kill',
  copyId: 'sbx:copy-id',
  refresh: 'sbx:refresh',
  showIsolation: 'sbx:show-isolation'
} as const;
