import * as React from 'react';
import { flushSync } from 'react-dom';
import type { Root } from 'react-dom/client';
import { createRoot } from 'react-dom/client';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import type { Store } from '../../../src/lab/storage/sections';
import { StorageView } from '../../../src/lab/storage/storageView';
import { FakeServer } from '../../fakeServer';
import { button } from '../../userEvents';
import { waitFor } from '../../waiting';

const { confirmed } = vi.hoisted(() => ({ confirmed: vi.fn(() => Promise.resolve({ button: { accept: false } })) }));

vi.mock('@jupyterlab/apputils', () => ({
  Dialog: { cancelButton: () => ({}), warnButton: () => ({}) },
  InputDialog: {},
  Notification: {},
  showDialog: confirmed
}));
vi.mock('@jupyterlab/ui-components', () => {
  class LabIcon {
    readonly react = () => null;
  }
  const icon = new LabIcon();
  return { LabIcon, addIcon: icon, closeIcon: icon, copyIcon: icon, filterListIcon: icon, refreshIcon: icon, searchIcon: icon, stopIcon: icon };
});

/** A server with empty lists, and one build that fails. */
class StorageServer extends FakeServer {
  override async request(parts: readonly string[], init: RequestInit = {}): Promise<Response> {
    await super.request(parts, init);
    const path = parts.join('/');
    if (init.method === 'POST') {
      return Response.json({ templateID: 't1', buildID: 'b1', names: ['bench'] });
    }
    if (path.includes('/builds/')) {
      return Response.json({ status: 'error', logs: [], next: 0, reason: { message: 'no such image' } });
    }
    return Response.json({ templates: [], volumes: [], secrets: [] });
  }
}

/** Types into a field of React, which hides the setter of the value. */
function type(field: HTMLInputElement | HTMLTextAreaElement | null, text: string): void {
  const prototype = field instanceof HTMLTextAreaElement ? HTMLTextAreaElement.prototype : HTMLInputElement.prototype;
  Object.getOwnPropertyDescriptor(prototype, 'value')?.set?.call(field, text);
  flushSync(() => field?.dispatchEvent(new Event('input', { bubbles: true })));
}

describe('the storage of sandboxes', () => {
  const server = new StorageServer();
  const host = document.createElement('div');
  let root: Root;
  const show = (store: Store) => {
    const props = { sandboxes: { server, find: () => undefined, now: () => 0 }, commands: {}, isActive: true, store, setStore: () => undefined };
    flushSync(() => { root.render(React.createElement(StorageView, props as never)); });
  };
  const press = (name: string) => { flushSync(() => { button(host, name).click(); }); };
  const dockerfile = () => host.querySelector('textarea');
  const asked = (path: string) => server.requests.filter(({ url }) => url.startsWith(`/sbx/api/${path}`)).length;

  beforeEach(async () => {
    vi.useFakeTimers();
    document.body.replaceChildren(host);
    root = createRoot(host);
    show('templates');
    await vi.advanceTimersByTimeAsync(0);
    press('Build from a Dockerfile…');
    type(dockerfile(), 'FROM alpine');
    type(host.querySelector('.sbx-Build input'), 'bench');
  });

  afterEach(() => {
    root.unmount();
    vi.useRealTimers();
    confirmed.mockClear();
  });

  it('keeps a typed Dockerfile while another kind is shown, and asks for no templates then', async () => {
    show('volumes');
    const lists = asked('templates');
    await vi.advanceTimersByTimeAsync(60_000);
    expect(asked('templates')).toBe(lists);
    expect(host.querySelectorAll('[role=tabpanel]:not([hidden])')).toHaveLength(1);
    show('templates');

    expect(dockerfile()?.value).toBe('FROM alpine');
    expect(dockerfile()?.closest('[hidden]')).toBeNull();
    expect(asked('templates')).toBe(lists + 1);
  });

  it('keeps the reason why a build failed while another kind is shown', async () => {
    press('Build');
    await vi.advanceTimersByTimeAsync(0);
    show('volumes');
    await vi.advanceTimersByTimeAsync(0);
    show('templates');
    expect(host.querySelector('.sbx-Build-error')?.textContent).toBe('No such image.');

    press('Change the Dockerfile');
    expect(dockerfile()?.value).toBe('FROM alpine');
  });

  it('asks before what was typed is discarded', async () => {
    press('Close');
    await vi.advanceTimersByTimeAsync(0);
    expect(confirmed).toHaveBeenCalledTimes(1);
    expect(dockerfile()?.value).toBe('FROM alpine');

    confirmed.mockResolvedValueOnce({ button: { accept: true } });
    press('Close');
    await waitFor(() => { expect(dockerfile()).toBeNull(); });
  });

  it('closes a form in which nothing was typed at once', async () => {
    type(dockerfile(), 'FROM python:3.12-slim\nRUN pip install polars\n');
    type(host.querySelector('.sbx-Build input'), '');
    press('Close');
    await vi.advanceTimersByTimeAsync(0);
    expect(confirmed).not.toHaveBeenCalled();
    expect(dockerfile()).toBeNull();
  });
});
