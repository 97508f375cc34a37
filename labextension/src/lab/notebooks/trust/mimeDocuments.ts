import type { DocumentRegistry } from '@jupyterlab/docregistry';
import type { IRenderMime } from '@jupyterlab/rendermime-interfaces';

import { trans } from '../../../components/translation';
import { isPassive } from '../../files/passiveTypes';

/** The used parts of a document that JupyterLab draws by the renderer of a media type. */
interface IMimeDocument {
  readonly content: { readonly mimeType: string; readonly renderer: IRenderMime.IRenderer };
}

/** Members that only the factories of such documents have; none of them is public. */
interface IMimeFactory {
  readonly _dataType: unknown;
  readonly _fileType?: { readonly mimeTypes: readonly string[] };
}

type Factory = DocumentRegistry.WidgetFactory;

/** The part of JupyterLab's registry that chooses a viewer. */
interface IViewers {
  preferredWidgetFactories(path: string): Factory[];
  defaultWidgetFactory(path?: string): Factory;
  defaultRenderedWidgetFactory(path: string): Factory;
}

/**
 * Offers no viewer for files of sandboxes whose renderer could act, so that they open in the editor.
 *
 * A specification of Vega loads files of the user and sends them elsewhere as soon as it is drawn.
 */
export function withholdMimeViewers(registry: IViewers, isInside: (path: string) => boolean): void {
  const preferred = registry.preferredWidgetFactories.bind(registry);
  registry.preferredWidgetFactories = path => {
    const factories = preferred(path);
    return isInside(path) ? factories.filter(factory => !canAct(factory)) : factories;
  };
  const rendered = registry.defaultRenderedWidgetFactory.bind(registry);
  registry.defaultRenderedWidgetFactory = path => {
    const factory = rendered(path);
    return isInside(path) && canAct(factory) ? registry.defaultWidgetFactory(path) : factory;
  };
}

/** Draws a line of text instead of a file of a sandbox, where its viewer was chosen by name or restored. */
export function confineMimeDocument(widget: object, isInside: () => boolean): void {
  if (!isMimeDocument(widget) || isPassive(widget.content.mimeType)) {
    return;
  }
  const { renderer } = widget.content;
  const render = renderer.renderModel.bind(renderer);
  renderer.renderModel = model => {
    if (!isInside()) {
      return render(model);
    }
    renderer.node.textContent = trans.__(
      'This file is stored in a sandbox. Drawn here, it could act with your files and your credentials. Open it in the editor.'
    );
    return Promise.resolve();
  };
}

function canAct(factory: Factory): boolean {
  if (!isMimeFactory(factory)) {
    return false;
  }
  const [type] = factory._fileType?.mimeTypes ?? [];
  return type === undefined || !isPassive(type);
}

/** Tells by private members: another copy of JupyterLab's class would not be the one that made the factory. */
function isMimeFactory(factory: object): factory is IMimeFactory {
  return '_dataType' in factory && '_renderTimeout' in factory;
}

function isMimeDocument(widget: object): widget is IMimeDocument {
  const content = 'content' in widget ? widget.content : undefined;
  return typeof content === 'object' && content !== null && 'mimeType' in content && 'renderer' in content;
}
