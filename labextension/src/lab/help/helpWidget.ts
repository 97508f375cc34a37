import type { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import type { IRenderMime } from '@jupyterlab/rendermime-interfaces';
import type { ISignal } from '@lumino/signaling';
import { Signal } from '@lumino/signaling';
import { Panel, Widget } from '@lumino/widgets';

import { element } from '../../components/dom';
import type { SandboxApi } from '../../components/sandboxApi';
import { trans } from '../../components/translation';
import { messageOf, sentence } from '../../protocol/errors';
import { splitMessage } from './readMore';

/** The page with which the documentation begins. */
export const FIRST_PAGE = 'index';

const MARKDOWN = 'text/markdown';

/** The target of a link: a page of the documentation, and perhaps a heading in it. */
interface IPlace {
  readonly page: string;
  readonly heading: string;
}

/** Shows the pages of the documentation, one at a time, as the Jupyter server has them installed. */
export class HelpWidget extends Panel {
  constructor(
    private readonly api: SandboxApi,
    rendermime: IRenderMimeRegistry,
    page: string
  ) {
    super();
    this.id = 'sbx-help';
    this.addClass('sbx-Help');
    this.title.label = trans.__('Sandboxes: Help');
    this.title.closable = true;
    this.rendermime = rendermime.clone({ resolver: new Pictures(api), linkHandler: this.links });
    this.back = element('button', 'sbx-TextButton', { type: 'button' }, trans.__('Back'));
    this.back.addEventListener('click', () => void this.goBack());
    this.choice = element('select', 'sbx-Help-choice', { 'aria-label': trans.__('Page') });
    this.choice.addEventListener('change', () => void this.showPage(this.choice.value));
    this.alert = element('p', 'sbx-Help-alert', { role: 'alert' });
    const bar = element('div', 'sbx-Help-bar', {}, this.back, this.choice);
    this.addWidget(new Widget({ node: element('div', '', {}, bar, this.alert) }));
    this.body.addClass('sbx-Help-body');
    this.addWidget(this.body);
    this.node.addEventListener('click', event => { this.follow(event); });
    this.place = { page, heading: '' };
    this.back.disabled = true;
  }

  /** Emitted when another page is shown. */
  get changed(): ISignal<this, void> {
    return this.changedSignal;
  }

  /** The name of the page that is shown. */
  get page(): string {
    return this.place.page;
  }

  /** Reads and shows a page, at a heading if one is named; the one before can be gone back to. */
  async showPage(page: string, heading = ''): Promise<void> {
    const before = this.place;
    const isNew = page !== before.page || heading !== before.heading;
    if ((await this.openPage({ page, heading })) && isNew) {
      this.visited.push(before);
      this.back.disabled = false;
    }
  }

  /** Reads and shows the page that this was made for. */
  async start(): Promise<void> {
    await this.openPage(this.place);
  }

  private async goBack(): Promise<void> {
    const before = this.visited.pop();
    this.back.disabled = this.visited.length === 0;
    if (before !== undefined) {
      await this.openPage(before);
    }
  }

  /** Whether the page is shown: another may have been asked for meanwhile, or it cannot be read. */
  private async openPage(place: IPlace): Promise<boolean> {
    const turn = (this.turn += 1);
    try {
      await this.listPages();
      const { text } = await this.api.get('/help/{name}', { path: { name: place.page } });
      const shown = this.rendermime.createRenderer(MARKDOWN);
      await shown.renderModel(this.rendermime.createModel({ data: { [MARKDOWN]: text }, trusted: true }));
      if (turn !== this.turn || this.isDisposed) {
        shown.dispose();
        return false;
      }
      this.put(place, shown);
      return true;
    } catch (error) {
      if (turn === this.turn) {
        this.alert.textContent = splitMessage(sentence(messageOf(error))).text;
      }
      return false;
    }
  }

  private put(place: IPlace, shown: IRenderMime.IRenderer & Widget): void {
    this.place = place;
    this.alert.textContent = '';
    this.choice.value = place.page;
    for (const widget of [...this.body.widgets]) {
      widget.dispose();
    }
    this.body.addWidget(shown);
    this.scrollTo(place.heading);
    this.changedSignal.emit();
  }

  private async listPages(): Promise<void> {
    if (this.choice.options.length > 0) {
      return;
    }
    const { pages } = await this.api.get('/help');
    const sorted = [...pages].sort((a, b) => Number(b.name === FIRST_PAGE) - Number(a.name === FIRST_PAGE) || a.title.localeCompare(b.title));
    this.choice.replaceChildren(...sorted.map(({ name, title }) => element('option', '', { value: name }, title)));
  }

  private scrollTo(heading: string): void {
    const headings = [...this.body.node.querySelectorAll('h1, h2, h3, h4, h5, h6')];
    const found = headings.find(each => heading !== '' && slug(each) === slugOf(heading));
    this.body.node.scrollTop = 0;
    found?.scrollIntoView();
  }

  /** Opens what a link of a page leads to, if that is a page or a heading. */
  private follow(event: MouseEvent): void {
    const link = event.target instanceof Element ? event.target.closest('a') : null;
    const target = link?.getAttribute('href') ?? '';
    const page = link?.dataset['page'];
    if (page !== undefined) {
      event.preventDefault();
      void this.showPage(page, link?.dataset['heading']);
    } else if (target.startsWith('#')) {
      event.preventDefault();
      this.scrollTo(decodeURIComponent(target.slice(1)));
    }
  }

  /** Marks links to other pages; what is no page becomes text, since it was not installed. */
  private readonly links: IRenderMime.ILinkHandler = {
    handleLink: (link, path, heading) => {
      const page = /^([\w-]+)\.md$/.exec(path)?.[1];
      if (page === undefined || ![...this.choice.options].some(({ value }) => value === page)) {
        link.replaceWith(...link.childNodes);
        return;
      }
      link.dataset['page'] = page;
      link.dataset['heading'] = decodeURIComponent((heading ?? '').replace('#', ''));
    }
  };

  private readonly body = new Panel();
  private readonly rendermime: IRenderMimeRegistry;
  private readonly back: HTMLButtonElement;
  private readonly choice: HTMLSelectElement;
  private readonly alert: HTMLElement;
  private readonly visited: IPlace[] = [];
  private readonly changedSignal = new Signal<this, void>(this);
  private place: IPlace;
  private turn = 0;
}

/** Finds the pictures of pages on the Jupyter server. */
class Pictures implements IRenderMime.IResolver {
  constructor(private readonly api: SandboxApi) {}

  resolveUrl(url: string): Promise<string> {
    return Promise.resolve(url);
  }

  getDownloadUrl(path: string): Promise<string> {
    const name = /^pictures\/([\w.-]+)$/.exec(path)?.[1];
    // The click on a link is handled by the widget, so only pictures need an address.
    return Promise.resolve(name === undefined ? '' : this.api.url('/help/pictures/{name}', { path: { name } }));
  }
}

/** A heading as links of the documentation name it. */
function slug(heading: Element): string {
  // JupyterLab puts a sign behind each heading.
  return slugOf((heading.textContent ?? '').replace(/¶$/, ''));
}

function slugOf(text: string): string {
  return text.trim().toLowerCase().replace(/[^\w\s-]/g, '').replace(/\s+/g, '-');
}
