/** The messages between the page and a frame that draws widgets, over a port of their own. */

/** A value that survives JSON. */
export type IJson = Record<string, unknown>;

/** The bytes beside a message. */
export type IBuffers = (ArrayBuffer | ArrayBufferView)[];

/** A widget's whole state, or the part of it that changed, with the places of its binary values. */
export interface IWidgetState {
  readonly state: IJson;
  readonly buffer_paths: (string | number)[][];
}

/** Messages from the page to a frame. */
export type IToFrame =
  | { readonly type: 'start'; readonly modelId: string; readonly theme: Record<string, string> }
  | { readonly type: 'theme'; readonly theme: Record<string, string> }
  | { readonly type: 'model'; readonly id: string; readonly message: IWidgetState; readonly buffers: IBuffers }
  | { readonly type: 'missing'; readonly id: string }
  | {
      readonly type: 'message';
      readonly id: string;
      readonly message: IJson;
      readonly buffers: IBuffers;
      /** The number of the frame's own message that caused this one. */
      readonly cause: number | null;
    }
  | { readonly type: 'idle'; readonly cause: number }
  | { readonly type: 'closed'; readonly id: string };

/** Messages from a frame to the page. All code in a frame counts as hostile, so the page checks each. */
export type IFromFrame =
  | { readonly type: 'get'; readonly id: string }
  | {
      readonly type: 'send';
      readonly id: string;
      readonly message: IJson;
      readonly buffers: IBuffers;
      readonly number: number;
    }
  | { readonly type: 'height'; readonly height: number }
  /** The number of messages of the page that were taken. */
  | { readonly type: 'taken'; readonly count: number };

/** The message of a frame to the page's window when it can take its port. */
export const FRAME_READY = 'sbx-jupyter:frame-ready';

/** The id of the comm that carries the comms of widgets. */
export const TUNNEL = 'sbx-jupyter:widgets';

/** The media type of a widget's view. */
export const VIEW_TYPE = 'application/vnd.sbx.widget-view+json';

/** Reads the id of a widget; `undefined` for anything else. */
export function parseModelId(value: unknown): string | undefined {
  return typeof value === 'string' && /^[A-Za-z0-9-]{1,64}$/.test(value) ? value : undefined;
}
