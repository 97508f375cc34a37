/** One event of a stream of server-sent events. */
export interface IStreamEvent {
  /** `null` for an event without an id. */
  readonly id: string | null;
  readonly name: string;
  readonly data: unknown;
}

/** Reads the events of a response until it ends; `onBytes` is called with each sign of life. Throws when it breaks. */
export async function* readEvents(response: Response, onBytes?: () => void): AsyncGenerator<IStreamEvent, void> {
  const isStream = response.headers.get('Content-Type')?.startsWith('text/event-stream') === true;
  if (!response.ok || !isStream || response.body === null) {
    throw new Error(`no events: ${response.status}`);
  }
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  let text = '';
  try {
    for (let part = await reader.read(); !part.done; part = await reader.read()) {
      onBytes?.();
      text += decoder.decode(part.value, { stream: true });
      const blocks = text.split('\n\n');
      text = blocks.pop() ?? '';
      for (const block of blocks) {
        const event = parse(block);
        if (event !== null) {
          yield event;
        }
      }
    }
  } finally {
    // The reader may have failed already; then there is nothing to cancel.
    await reader.cancel().catch(() => undefined);
  }
}

function parse(block: string): IStreamEvent | null {
  const fields = new Map<string, string>();
  for (const line of block.split('\n')) {
    const colon = line.indexOf(': ');
    if (colon > 0) {
      fields.set(line.slice(0, colon), line.slice(colon + 2));
    }
  }
  const name = fields.get('event');
  const data = fields.get('data');
  return name === undefined || data === undefined
    ? null
    : { id: fields.get('id') ?? null, name, data: JSON.parse(data) as unknown };
}
