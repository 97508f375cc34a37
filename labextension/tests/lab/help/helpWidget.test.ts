import { Widget } from '@lumino/widgets';
import { beforeEach, describe, expect, it, vi } from 'vitest';

import { HelpWidget } from '../../../src/lab/help/helpWidget';
import { SandboxError } from '../../../src/protocol/errors';

const PAGES = { one: '# One', two: '# Two' };

interface IOptions {
  readonly resolver: { readonly getDownloadUrl: (path: string) => Promise<string> };
  readonly linkHandler: { readonly handleLink: (link: HTMLElement, path: string, heading?: string) => void };
}

/** Stands in for JupyterLab's renderer: shows the text as a heading, and two links below it. */
function rendering(options: IOptions) {
  return {
    createModel: (model: { readonly data: Record<string, string> }) => model,
    createRenderer: () => {
      const widget = new Widget();
      return Object.assign(widget, {
        renderModel: (model: { readonly data: Record<string, string> }) => {
          const heading = document.createElement('h1');
          heading.textContent = model.data['text/markdown'] ?? '';
          const [page, other] = [document.createElement('a'), document.createElement('a')];
          [page.textContent, other.textContent] = ['to two', 'elsewhere'];
          widget.node.append(heading, page, other);
          options.linkHandler.handleLink(page, 'two.md', '#Some-part');
          options.linkHandler.handleLink(other, '../CONTRIBUTING.md');
          return Promise.resolve();
        }
      });
    }
  };
}

describe('the documentation in a tab', () => {
  let options: IOptions;
  let get: ReturnType<typeof vi.fn>;
  let widget: HelpWidget;
  const text = () => widget.node.querySelector('h1')?.textContent;
  const back = () => widget.node.querySelector('button') as HTMLButtonElement;
  const settle = () => new Promise(resolve => { setTimeout(resolve, 0); });

  beforeEach(() => {
    Element.prototype.scrollIntoView = vi.fn();
    get = vi.fn((route: string, asked?: { readonly path: { readonly name: keyof typeof PAGES } }) => {
      const name = asked?.path.name;
      if (name !== undefined && !(name in PAGES)) {
        return Promise.reject(new SandboxError('not_found', `there is no page '${name}'`));
      }
      return Promise.resolve(name === undefined ? { pages: Object.keys(PAGES).map(each => ({ name: each, title: `The ${each}` })) } : { name, text: PAGES[name] });
    });
    const clone = (given: IOptions) => rendering((options = given));
    const url = (_: string, asked: { readonly path: { readonly name: string } }) => `/at/${asked.path.name}`;
    widget = new HelpWidget({ get, url } as never, { clone } as never, 'one');
    document.body.replaceChildren(widget.node);
  });

  it('shows a page and lists the others', async () => {
    await widget.start();
    expect([text(), widget.page, back().disabled]).toEqual(['# One', 'one', true]);
    expect([...widget.node.querySelectorAll('option')].map(each => each.textContent)).toEqual(['The one', 'The two']);
  });

  it('follows a link to another page, and goes back', async () => {
    const shown: string[] = [];
    widget.changed.connect(({ page }) => { shown.push(page); });
    await widget.start();
    (widget.node.querySelector('a') as HTMLElement).click();
    await settle();
    expect([text(), back().disabled]).toEqual(['# Two', false]);
    back().click();
    await settle();
    expect([text(), back().disabled]).toEqual(['# One', true]);
    expect(shown).toEqual(['one', 'two', 'one']);
  });

  it('makes text of a link to what is not installed', async () => {
    await widget.start();
    expect(widget.node.querySelectorAll('a')).toHaveLength(1);
    expect(widget.node.textContent).toContain('elsewhere');
  });

  it('shows the page that is there when another cannot be read, and says why', async () => {
    await widget.start();
    await widget.showPage('three');
    expect([text(), widget.page]).toEqual(['# One', 'one']);
    expect(widget.node.querySelector('[role=alert]')?.textContent).toBe("There is no page 'three'.");
    expect(back().disabled).toBe(true);
  });

  it('shows the page that was asked for last', async () => {
    await widget.start();
    await Promise.all([widget.showPage('one'), widget.showPage('two')]);
    expect(text()).toBe('# Two');
  });

  it('finds pictures on the server, and nothing else', async () => {
    expect(await options.resolver.getDownloadUrl('pictures/panel-light.png')).toBe('/at/panel-light.png');
    expect(await options.resolver.getDownloadUrl('pictures/../secret')).toBe('');
  });
});
