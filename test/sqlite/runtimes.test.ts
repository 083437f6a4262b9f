import { afterAll, afterEach, describe, expect, it } from 'vitest';
import { sqliteStore } from '../../src/stores/sqlite/index.ts';
import { request } from '../../src/testing/store-case.ts';
import { temporaryFolder } from './support/folder.ts';
import { runtimes } from './support/runtimes.ts';
import { startWorker, stopWorkers } from './support/workers.ts';

const folder = temporaryFolder();
afterEach(stopWorkers);
afterAll(() => folder.remove());

const wanted = request('x', { ttlMs: 30_000 });

// Their monotonic clocks start with each process, so no two processes agree on when a lease ends.
describe.each(runtimes())('$name', ({ name, binary, args }) => {
  const options = { node: binary, nodeArgs: args };

  it('never holds a lock together with a process of Node.js', async () => {
    const path = folder.file(`${name}.db`);
    const worker = await startWorker(path, ['hold', 'x', 30_000], options);
    const there = await worker.said('held').then(
      () => true,
      () => false,
    );
    const store = sqliteStore(path);
    const { granted: here } = await store.claim({ ...wanted, id: 'a' });
    await store.close();
    expect({ there, here }).not.toEqual({ there: true, here: true });
  });

  it('is refused by name', async () => {
    const worker = await startWorker(folder.file(`${name}-refused.db`), ['try', 'x'], options);
    expect(await worker.said('error')).toMatchObject({
      error: 'UNSUPPORTED',
      message: expect.stringContaining(name),
    });
  });

  it('may use a database in memory, which no other process sees', async () => {
    const worker = await startWorker(':memory:', ['try', 'x'], options);
    expect(await worker.said('granted')).toEqual({ granted: expect.any(String) });
  });
});
