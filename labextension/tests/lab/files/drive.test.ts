import type { Contents, ServerConnection } from '@jupyterlab/services';
import { describe, expect, it } from 'vitest';

import { freeName, SandboxDrive } from '../../../src/lab/files/drive';
import type { Sandboxes } from '../../../src/lab/sandboxes';
import { FakeTransport } from '../../fakeTransport';

function drive() {
  const transport = new FakeTransport(
    new Map<string, string | null>([
      ['/home', null],
      ['/home/a.txt', 'one'],
      ['/home/n.ipynb', '{"cells": []}']
    ])
  );
  const sandboxes = { items: [], refresh: () => Promise.resolve(), transport: () => transport };
  const made = new SandboxDrive(
    sandboxes as unknown as Sandboxes,
    {} as ServerConnection.ISettings,
    path => ({ type: path.endsWith('.ipynb') ? 'notebook' : 'file', mimetype: 'text/plain' })
  );
  return { transport, drive: made };
}

describe('the drive', () => {
  it('lists a directory with paths that lead back to it', async () => {
    const model = await drive().drive.get('id1/home');
    const paths = (model.content as Contents.IModel[]).map(entry => entry.path);
    expect(paths).toEqual(['id1/home/a.txt', 'id1/home/n.ipynb']);
    expect((model.content as Contents.IModel[])[0]?.last_modified).toBe('2026-01-02T03:04:05Z');
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
    const { drive: made, transport } = drive();
    const changes: string[] = [];
    made.fileChanged.connect((_, change) => changes.push(change.type));
    await made.rename('id1/home/a.txt', 'id1/home/b.txt');
    const copy = await made.copy('id1/home/b.txt', 'id1/home');
    await made.delete('id1/home/b.txt');
    expect(copy.name).toBe('b-Copy1.txt');
    expect([...transport.files.keys()]).toEqual(['/home', '/home/n.ipynb', '/home/b-Copy1.txt']);
    expect(changes).toEqual(['rename', 'new', 'delete']);
  });

  it('copies a folder with what is in it', async () => {
    const { drive: made, transport } = drive();
    const copy = await made.copy('id1/home', 'id1');
    expect(copy.name).toBe('home-Copy1');
    expect(transport.files.get('/home-Copy1/a.txt')).toBe('one');
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
