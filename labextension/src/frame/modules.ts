import * as base from '@jupyter-widgets/base';
import * as controls from '@jupyter-widgets/controls';
import * as matplotlib from 'jupyter-matplotlib';

import { defined } from './amd';
import 'anywidget';
import * as output from './output';

/** The widget modules that a frame has. Nothing else is loaded: frames have no network. */
const MODULES: Readonly<Record<string, object | undefined>> = {
  '@jupyter-widgets/base': base,
  '@jupyter-widgets/controls': controls,
  '@jupyter-widgets/output': output,
  'jupyter-matplotlib': matplotlib,
  anywidget: defined.factory?.(base)
};

/** Finds a class of a widget module. Throws for modules and classes that are not here. */
export function findClass(name: string, module: string): unknown {
  const found = Object.hasOwn(MODULES, module) ? MODULES[module] : undefined;
  if (found === undefined || !Object.hasOwn(found, name)) {
    throw new Error(`${module} (${name}) is not among the widgets that can be drawn for a sandbox.`);
  }
  return (found as Record<string, unknown>)[name];
}
