import type { Contents, ServerConnection } from '@jupyterlab/services';
import { describe, expect, it, vi } from 'vitest';

import { SandboxApi } from '../../../src/components/sandboxApi';
import { freeName, SandboxDrive } from '../../../src/lab/files/drive';
import type { Sandboxes } from '../../../src/lab/sandboxes';
import { FakeServer } from '../../fakeServer';
import { FakeTransport } from '../../fakeTransport';

function drive() {
  const transport = new FakeTransport(
    new Map<string, string | null>([
      ['/home', null],
      ['/home/a.txt', 'one'],
      ['/home/n.ipynb', '{"cells": []}']
    ])
  );
  const server = new FakeServer();
  const states = { current: 'running' };
  const sandboxes = { stateOf: () => states.current, items: [], refresh: () => Promise.resolve(), transport: () => transport, server, api: new SandboxApi(server) };
  const made = new SandboxDrive(
    sandboxes as unknown as Sandboxes,
    {} as ServerConnection.ISettings,
    path => ({ type: path.endsWith('.ipynb') ? 'notebook' : 'file', mimetype: 'text/plain' })
  );
  return { transport, drive: made, server, states };
}

/** The answer of a server that has copied. */
function copiedBy(failures: object[] = []): Response {
  const end = JSON.stringify({ copied: 1, failures, failureCount: failures.length, links: 0 });
  return new Response(`id: 0\nevent: end\ndata: ${end}\n\n`, { headers: { 'Content-Type': 'text/event-stream' } });
}

describe('the drive', () => {
  it('lists a directory with paths that lead back to it', async () => {
    const model = await drive().drive.get('id1/home');
    const paths = (model.content as Contents.IModel[]).map(entry => entry.path);
    expect(paths).toEqual(['id1/home/a.txt', 'id1/home/n.ipynb']);
    expect((model.content as Contents.IModel[])[0]?.last_modified).toBe('2026-01-02T03:04:05Z');
  });

  it('does not wake a paused sandbox for the directory that is shown, but to open another or a file', async () => {
    const { drive: made, transport, states } = drive();
    await made.get('id1/home');
    const asked = vi.spyOn(transport, 'stat');
    states.current = 'paused';
    await expect(made.get('id1/home')).rejects.toThrow('The sandbox is paused.');
    expect(asked).not.toHaveBeenCalled();

    expect((await made.get('id1/home/a.txt')).content).toBe('one');
    expect((await made.get('id1/')).content).toHaveLength(1);
  });

  it('gives a file without being told its type, as JupyterLab asks after a save', async () => {
    const model = await drive().drive.get('id1/home/a.txt', { content: false });
    expect(model).toMatchObject({ type: 'file', content: null, size: 3 });
  });

  it('saves text and notebooks as they are written on disk', async () => {
    const { drive: made, transport } = drive();
    await made.save('id1/home/a.txt', { type: 'file', format: 'text', content: 'two' });
    await made.save('id1/home/n.ipynb', { type: 'notebook', format: 'json', content: { cells: [1] } });
    expect(transport.files.get('/home/a.txt')).toBe('two');
    expect(JSON.parse(transport.files.get('/home/n.ipynb') ?? '')).toEqual({ cells: [1] });
    expect((await made.get('id1/home/n.ipynb')).content).toEqual({ cells: [1] });
  });

  it('puts a chunked upload together and writes it once', async () => {
    const { drive: made, transport } = drive();
    const chunk = (text: string, number: number) =>
      made.save('id1/home/big.bin', { type: 'file', format: 'base64', content: btoa(text), chunk: number });
    await chunk('ab', 1);
    await chunk('cd', 2);
    expect(transport.files.has('/home/big.bin')).toBe(false);
    await chunk('e', -1);
    expect(transport.files.get('/home/big.bin')).toBe('abcde');
  });

  it('renames, copies and deletes, and tells the browser', async () => {
    const { drive: made, transport, server } = drive();
    const changes: string[] = [];
    made.fileChanged.connect((_, change) => changes.push(change.type));
    await made.rename('id1/home/a.txt', 'id1/home/b.txt');
    server.answer = copiedBy();
    transport.files.set('/home/b-Copy1.txt', 'one');
    const names = transport.list.bind(transport);
    transport.list = async path => (await names(path)).filter(({ name }) => name !== 'b-Copy1.txt');
    const copy = await made.copy('id1/home/b.txt', 'id1/home');
    await made.delete('id1/home/b.txt');
    expect(copy.name).toBe('b-Copy1.txt');
    expect(JSON.parse(String(server.requests[0]?.body))).toEqual({
      sourceSandboxID: 'id1',
      targetSandboxID: 'id1',
      jobs: [{ source: '/home/b.txt', target: '/home/b-Copy1.txt' }],
      existing: 'fail'
    });
    expect([...transport.files.keys()]).toEqual(['/home', '/home/n.ipynb', '/home/b-Copy1.txt']);
    expect(changes).toEqual(['rename', 'new', 'delete']);
  });

  it('refuses to rename onto another file, with the status for which JupyterLab asks', async () => {
    const { drive: made, transport } = drive();
    const renamed = made.rename('id1/home/n.ipynb', 'id1/home/a.txt');
    await expect(renamed).rejects.toMatchObject({ code: 'already_exists', response: { status: 409 } });
    await expect(renamed).rejects.toThrow('/home/a.txt exists already.');
    expect(transport.files.get('/home/a.txt')).toBe('one');
    expect(transport.files.has('/home/n.ipynb')).toBe(true);
  });

  it('renames to other capitals, and onto itself', async () => {
    const { drive: made, transport } = drive();
    expect((await made.rename('id1/home/a.txt', 'id1/home/A.txt')).name).toBe('A.txt');
    vi.spyOn(transport, 'move').mockResolvedValue();
    expect((await made.rename('id1/home/A.txt', 'id1/home/A.txt')).name).toBe('A.txt');
  });

  it('says which file of a folder was not copied', async () => {
    const { drive: made, server } = drive();
    server.answer = copiedBy([{ name: '/home-Copy1/a.txt', message: 'The disk is full.' }]);
    await expect(made.copy('id1/home', 'id1')).rejects.toThrow('a.txt was not copied. The disk is full.');
  });

  it('offers a folder as a zip', () => {
    expect(drive().drive.getArchiveUrl('id1/home')).toBe('archive?path=/home');
  });

  it('refuses to move a file to another sandbox', async () => {
    await expect(drive().drive.rename('id1/home/a.txt', 'id2/a.txt')).rejects.toThrow('another sandbox');
  });

  it('makes an untitled file under a free name', async () => {
    const { drive: made } = drive();
    expect((await made.newUntitled({ path: 'id1/home', type: 'file', ext: '.txt' })).name).toBe('untitled.txt');
    expect((await made.newUntitled({ path: 'id1/home', type: 'file', ext: '.txt' })).name).toBe('untitled1.txt');
  });

  it('does not remove a sandbox when its directory is deleted', async () => {
    const { drive: made } = drive();
    await expect(made.delete('id1')).rejects.toThrow('Sandboxes panel');
  });

  it('numbers a taken name before its extension', () => {
    expect(freeName('a.txt', new Set(['a.txt', 'a-Copy1.txt']), '-Copy')).toBe('a-Copy2.txt');
  });
});
