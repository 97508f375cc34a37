import type { CommandRegistry } from '@lumino/commands';

import { element } from '../../components/dom';
import { formatAge, formatBytes, formatCountdown, formatDuration } from '../../components/format';
import { metricsCsv } from '../../components/metrics/metricsCsv';
import type { IMarker } from '../../components/metrics/metricsMarkers';
import { markersOf } from '../../components/metrics/metricsMarkers';
import { MetricsView } from '../../components/metrics/metricsView';
import { trans } from '../../components/translation';
import type { ISandbox } from '../../protocol/sandboxes';
import { shortTemplate, templateName } from '../../protocol/sandboxes';
import { CommandIDs } from '../commandIds';
import { limitsText } from '../limitsText';
import type { Sandboxes } from '../sandboxes';
import type { INamedSandbox } from './namedSandbox';

/** The spans to choose from, in seconds; the first one is that of the live readings. */
const SPANS: readonly [number, ...number[]] = [300, 1800, 7200, 6 * 3600];
/** Milliseconds between two readings of the log, from which the markers are. */
const MARKER_INTERVAL = 15_000;
/** Milliseconds after which the age and the time that is left are said again. */
const CLOCK_INTERVAL = 1000;

/** A line about the sandbox, the tools, and the charts. */
export class MetricsContent {
  constructor(
    node: HTMLElement,
    private readonly shown: readonly INamedSandbox[],
    private readonly sandboxes: Sandboxes,
    private readonly commands: CommandRegistry
  ) {
    node.replaceChildren(this.head(), this.views);
    this.view = new MetricsView(
      this.views,
      shown.map(({ sandboxId, name }) => ({
        name: shown.length === 1 ? '' : name,
        transport: sandboxes.transport(sandboxId),
        isPaused: () => sandboxes.stateOf(sandboxId) === 'paused'
      }))
    );
    this.view.chart.onZoom = isZoomed => {
      this.zoomButton.disabled = !isZoomed;
    };
    sandboxes.changed.connect(this.onSandboxes);
    this.describe();
  }

  start(): void {
    this.stopWatching ??= this.sandboxes.watch();
    this.view.start();
    if (this.timer === 0) {
      this.timer = window.setInterval(() => void this.readMarkers(), MARKER_INTERVAL);
      this.clock = window.setInterval(() => { this.describe(); }, CLOCK_INTERVAL);
      document.addEventListener('visibilitychange', this.onVisibility);
      this.describe();
      void this.readMarkers();
      void this.readHistory();
    }
  }

  stop(): void {
    this.stopWatching?.();
    this.stopWatching = null;
    this.view.stop();
    document.removeEventListener('visibilitychange', this.onVisibility);
    window.clearInterval(this.timer);
    window.clearInterval(this.clock);
    this.timer = 0;
  }

  dispose(): void {
    this.stop();
    this.sandboxes.changed.disconnect(this.onSandboxes);
    this.view.dispose();
  }

  private head(): HTMLElement {
    const [only] = this.shown;
    const title = this.shown.length === 1 ? (only?.name ?? '') : trans.__('%1 sandboxes', this.shown.length);
    const span = element('select', 'sbx-Input', { 'aria-label': trans.__('Time that is shown') });
    span.append(...SPANS.map(seconds => element('option', '', { value: String(seconds) }, trans.__('Last %1', formatDuration(seconds)))));
    span.addEventListener('change', () => {
      this.span = Number(span.value);
      this.view.chart.setSpan(this.span);
      void this.readHistory();
    });
    const limit = element('input', '', { type: 'checkbox' });
    limit.addEventListener('change', () => {
      this.view.chart.setLimit(limit.checked);
    });
    this.zoomButton.disabled = true;
    this.zoomButton.addEventListener('click', () => {
      this.view.chart.resetZoom();
    });
    const save = element('button', 'sbx-Button sbx-mod-plain', { type: 'button' }, trans.__('Export CSV'));
    save.addEventListener('click', () => {
      this.save();
    });
    this.again.hidden = true;
    this.again.addEventListener('click', () => {
      void this.commands.execute(CommandIDs.create, this.last === undefined ? {} : { template: this.last.templateID });
    });
    return element(
      'div',
      'sbx-MetricsWidget-head',
      {},
      element('h2', 'sbx-View-title', { title }, title),
      this.facts,
      this.again,
      element('div', 'sbx-MetricsWidget-tools', {}, span, element('label', 'sbx-Check', {}, limit, trans.__('Limits')), this.zoomButton, save)
    );
  }

  private readonly onSandboxes = (): void => {
    this.describe();
    const now = this.sandboxes.now() / 1000;
    for (const { sandboxId } of this.shown) {
      const takes = this.sandboxes.activity(sandboxId)?.kind === 'snapshotting';
      if (takes && !this.taking.has(sandboxId)) {
        this.snapshots.push({ kind: 'snapshot', time: now });
        this.mark();
      }
      this.taking[takes ? 'add' : 'delete'](sandboxId);
    }
  };

  /** Says the state, age and limits of a sandbox, or that it has ended. */
  private describe(): void {
    const [only] = this.shown;
    if (this.shown.length !== 1 || only === undefined) {
      this.facts.textContent = '';
      return;
    }
    const { items, error } = this.sandboxes;
    const sandbox = this.sandboxes.find(only.sandboxId);
    this.last = sandbox ?? this.last;
    const hasEnded = items !== null && error === null && sandbox === undefined;
    const text = hasEnded ? endedText(this.last, this.sandboxes.now()) : sandbox === undefined ? '' : factsOf(sandbox, this.sandboxes.now());
    if (text !== this.facts.textContent) {
      this.facts.textContent = text;
      this.facts.title = [text, limitsText(sandbox)].filter(Boolean).join('\n');
    }
    this.again.hidden = !hasEnded;
    this.views.classList.toggle('sbx-mod-ended', hasEnded);
  }

  /** Nothing was read while the page was hidden. */
  private readonly onVisibility = (): void => {
    if (document.visibilityState === 'visible') {
      void this.readHistory();
    }
  };

  /** Shows the stored readings of the span that is shown, also of the time in which nothing was read. */
  private async readHistory(): Promise<void> {
    const now = Math.floor(this.sandboxes.now() / 1000);
    await Promise.all(
      this.shown.map(async ({ sandboxId }, at) => {
        try {
          this.view.fill(await this.sandboxes.transport(sandboxId).history(now - this.span, now), at);
        } catch {
          // No message here: the live reading that follows fails the same way and shows why.
        }
      })
    );
  }

  /** Marks what the log tells; of one sandbox only, since lines of several could not be told apart. */
  private async readMarkers(): Promise<void> {
    const [only] = this.shown;
    if (this.shown.length !== 1 || only === undefined || document.visibilityState !== 'visible') {
      return;
    }
    try {
      const { logs } = await this.sandboxes.api.get('/sandboxes/{sandbox_id}/logs', { path: { sandbox_id: only.sandboxId } });
      this.logged = markersOf(logs);
      this.mark();
    } catch {
      // Charts are worth something without markers; not every deployment has logs.
    }
  }

  private mark(): void {
    this.view.chart.setMarkers([...this.logged, ...this.snapshots].sort((one, other) => one.time - other.time));
  }

  /** Downloads the readings that are shown. */
  private save(): void {
    const series = this.view.chart.shown().map((each, at) => ({ ...each, name: this.shown[at]?.name ?? '' }));
    const address = URL.createObjectURL(new Blob([metricsCsv(series)], { type: 'text/csv' }));
    const [only] = this.shown;
    const link = element('a', '', { href: address, download: `${this.shown.length === 1 ? (only?.name ?? 'sandbox') : 'sandboxes'}-metrics.csv` });
    link.click();
    window.setTimeout(() => {
      URL.revokeObjectURL(address);
    }, 10_000);
  }

  private readonly views = element('div', '');
  private readonly facts = element('p', 'sbx-View-facts');
  private readonly again = element('button', 'sbx-Button', { type: 'button' }, trans.__('New sandbox like it'));
  private readonly zoomButton = element('button', 'sbx-Button sbx-mod-plain', { type: 'button', title: trans.__('Drag over a chart to enlarge a part of it; a double click shows all again') }, trans.__('Show all'));
  private readonly view: MetricsView;
  private readonly taking = new Set<string>();
  private readonly snapshots: IMarker[] = [];
  private logged: readonly IMarker[] = [];
  private last: ISandbox | undefined;
  private span: number = SPANS[0];
  private timer = 0;
  private clock = 0;
  private stopWatching: (() => void) | null = null;
}

function factsOf(sandbox: ISandbox, now: number): string {
  const left = (Date.parse(sandbox.endAt) - now) / 1000;
  return [
    sandbox.state === 'paused' ? trans.__('paused') : trans.__('running'),
    trans.__('%1 old', formatAge((now - Date.parse(sandbox.startedAt)) / 1000)),
    ...(sandbox.state === 'paused' ? [] : [trans.__('%1 left', formatCountdown(left))]),
    shortTemplate(templateName(sandbox)),
    sandbox.cpuCount === 1 ? trans.__('1 core') : trans.__('%1 cores', sandbox.cpuCount),
    trans.__('%1 memory', formatBytes(sandbox.memoryMB * 2 ** 20))
  ].join(' · ');
}

/** Says that a sandbox has ended, and by what where that can be told. */
function endedText(last: ISandbox | undefined, now: number): string {
  const wasTime = last !== undefined && last.state === 'running' && Date.parse(last.endAt) - now < 15_000;
  return wasTime ? trans.__('has ended: its time was over') : trans.__('has ended');
}
