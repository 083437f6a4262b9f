import { expect, it } from 'vitest';
import { StoreError } from '../../src/errors.ts';
import { memoryStore } from '../../src/index.ts';
import { ReplicatedStore, type Replicating } from '../../src/stores/redis/replicated-store.ts';
import { request } from '../../src/testing/store-case.ts';

const wanted = request('a', { id: 'one', ttlMs: 10_000 });

/** A store whose replicas have received nothing. */
function unreplicated(release: Replicating['release'] | null): Replicating {
  const store = memoryStore();
  return Object.assign(Object.create(store) as Replicating, {
    traits: store.traits,
    claim: store.claim.bind(store),
    release: release ?? store.release.bind(store),
    replicasWith: async () => 0,
  });
}

it('a grant that too few replicas have is given back, and is then known to be gone', async () => {
  const store = new ReplicatedStore(unreplicated(null), 1);
  await expect(store.claim(wanted)).rejects.toMatchObject({ code: 'STORE', applied: 'no' });
});

it('if the grant could not be given back, the outcome is unknown', async () => {
  const cut = new StoreError('not sent', { applied: 'no' });
  const store = new ReplicatedStore(
    unreplicated(async () => {
      throw cut;
    }),
    1,
  );
  await expect(store.claim(wanted)).rejects.toMatchObject({ code: 'STORE', applied: 'unknown', cause: cut });
});
