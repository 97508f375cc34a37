/** Keeps formats of saved outputs from the renderers that could act on them. */

import { trans } from '../../components/translation';
import type { IJson } from '../../protocol/widgetFrames';
import { isJson } from '../widgets/widgetStates';
import { isPassive } from './passiveTypes';

/** The member of an output's metadata in which its other formats are kept, so that they follow it everywhere. */
const HELD = 'sbx_held';
const TEXT = 'text/plain';
/** Characters of a media type and number of them that a note names. */
const MAX_TYPE = 80;
const MAX_TYPES = 10;

/** A cell whose outputs have only passive formats; the other ones are kept in their metadata. */
export function withHeldOutputs(cell: IJson): IJson {
  return withOutputs(cell, holdOutput);
}

/** A cell whose outputs have their formats back. */
export function withoutHeldOutputs(cell: IJson): IJson {
  return withOutputs(cell, putBack);
}

/** Outputs with their formats back; `undefined` where none was held. */
export function releasedOutputs(outputs: readonly unknown[]): unknown[] | undefined {
  return outputs.some(isHeld) ? outputs.map(putBack) : undefined;
}

function withOutputs(cell: IJson, change: (output: unknown) => unknown): IJson {
  return Array.isArray(cell['outputs']) ? { ...cell, outputs: cell['outputs'].map(change) } : cell;
}

function holdOutput(saved: unknown): unknown {
  // A copy of a cell may have brought formats that were held in another notebook.
  const output = putBack(saved);
  if (!isJson(output) || !isJson(output['data'])) {
    return output;
  }
  const formats = Object.entries(output['data']);
  const held = formats.filter(([type]) => !isPassive(type));
  if (held.length === 0) {
    return output;
  }
  const hasNote = held.length === formats.length;
  const data = hasNote ? { [TEXT]: note(held.map(([type]) => type)) } : passiveOnes(formats);
  const metadata = isJson(output['metadata']) ? output['metadata'] : {};
  return { ...output, data, metadata: { ...metadata, [HELD]: { data: Object.fromEntries(held), hasNote } } };
}

function putBack(output: unknown): unknown {
  if (!isHeld(output)) {
    return output;
  }
  const held = output.metadata[HELD];
  const shown = held.hasNote === true ? without(output.data, TEXT) : output.data;
  return { ...output, data: { ...shown, ...held.data }, metadata: without(output.metadata, HELD) };
}

interface IHeld extends IJson {
  readonly data: IJson;
  readonly metadata: IJson & { readonly [HELD]: { readonly data: IJson; readonly hasNote?: unknown } };
}

function isHeld(output: unknown): output is IHeld {
  if (!isJson(output) || !isJson(output['data']) || !isJson(output['metadata'])) {
    return false;
  }
  const held = output['metadata'][HELD];
  return isJson(held) && isJson(held['data']);
}

function without(fields: IJson, name: string): IJson {
  return Object.fromEntries(Object.entries(fields).filter(([key]) => key !== name));
}

function passiveOnes(formats: readonly [string, unknown][]): IJson {
  return Object.fromEntries(formats.filter(([type]) => isPassive(type)));
}

function note(types: readonly string[]): string {
  const named = types.slice(0, MAX_TYPES).map(type => type.slice(0, MAX_TYPE));
  return trans.__('[an output that is drawn only after Trust Notebook: %1]', named.join(', '));
}
