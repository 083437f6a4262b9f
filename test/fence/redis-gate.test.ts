import type { EventEmitter } from 'node:events';
import { describe, expect, it } from 'vitest';
import { redisFenceGate } from '../../src/fence/index.ts';
import { startStage } from '../redis/support/stage.ts';
import { LIBRARIES, openClient } from '../support/clients/redis-clients.ts';
import { useStage } from '../support/hooks/use-stage.ts';

const stage = await useStage(startStage());

describe.each(LIBRARIES)('a gate for data in Redis, under %s', (library) => {
  it('refuses an earlier holder once a later one has read through it', async () => {
    const { client, close } = await openClient(library, stage.server.url);
    const gate = redisFenceGate(client);
    const [resource, key] = [`account-${library}`, `balance-${library}`];
    expect(await gate.read(resource, 1n, key)).toBeNull();
    await gate.write(resource, 1n, { set: [key, '100'] });
    // The first holder is paused here, with a write in mind. The second one reads.
    expect(await gate.read(resource, 2n, key)).toBe('100');
    const late = gate.write(resource, 1n, { set: [key, '90'] });
    await expect(late).rejects.toMatchObject({ code: 'STALE_FENCE', fence: 1n, latest: 2n });
    await gate.write(resource, 2n, { set: [key, '80'] });
    expect(await stage.admin.get(key)).toBe('80');
    await expect(gate.read(resource, 1n, key)).rejects.toMatchObject({ code: 'STALE_FENCE' });
    close();
  });

  it('may be made for each request: all gates of a client share its listeners', async () => {
    const { client, close } = await openClient(library, stage.server.url);
    const emitter = client as unknown as EventEmitter;
    const listeners = (): number =>
      emitter.eventNames().reduce((sum, event) => sum + emitter.listenerCount(event), 0);
    redisFenceGate(client);
    const before = listeners();
    for (let n = 0; n < 20; n += 1) await redisFenceGate(client).read('made often', 1n, 'key');
    expect(listeners()).toBe(before);
    close();
  });
});
