import { expect, it } from 'vitest';
import { StoreError } from '../../src/errors.ts';
import type { ClaimRef } from '../../src/store/store.ts';
import type { NodeVote, RedlockNode, VoteRequest } from '../../src/stores/redlock/node.ts';
import { RedlockStore } from '../../src/stores/redlock/redlock-store.ts';
import { virtualClock } from '../../src/testing/index.ts';
import { request } from '../../src/testing/store-case.ts';

/** A node that can be cut off. Commands to it then wait for the connection, or until their time limit. */
class CutNode implements Partial<RedlockNode> {
  readonly label: string;
  readonly serverId: string;
  holder: string | null = null;
  fence = 0n;
  #isCut = false;
  #waiting: Array<() => void> = [];

  constructor(label: string) {
    this.label = label;
    this.serverId = label;
  }

  cut(): void {
    this.#isCut = true;
  }

  heal(): void {
    this.#isCut = false;
    for (const send of this.#waiting.splice(0)) send();
  }

  async vote({ id, proposed }: VoteRequest): Promise<NodeVote> {
    if (this.holder !== null && this.holder !== id)
      return { granted: false, endsMs: null, holder: this.holder, isForeign: false };
    const isKept = this.holder === id;
    if (!isKept) this.fence = proposed;
    this.holder = id;
    return { granted: true, fence: this.fence, isKept };
  }

  async merge(_claim: ClaimRef, fence: bigint): Promise<bigint | null> {
    this.fence = fence;
    return fence;
  }

  async withdraw({ id }: ClaimRef, signal: AbortSignal): Promise<boolean> {
    if (this.#isCut) {
      await new Promise<void>((resolve, reject) => {
        this.#waiting.push(resolve);
        const notSent = new StoreError('no connection within the time limit', { applied: 'no' });
        signal.addEventListener('abort', () => reject(notSent));
      });
    }
    const isRemoved = this.holder === id;
    if (isRemoved) this.holder = null;
    return isRemoved;
  }

  release(claim: ClaimRef, signal?: AbortSignal): Promise<boolean> {
    return this.withdraw(claim, signal ?? new AbortController().signal);
  }
}

const wanted = request('x', { id: 'ours', ttlMs: 86_400_000 });

function storeOf(nodes: readonly CutNode[]) {
  const clock = virtualClock();
  return {
    clock,
    store: new RedlockStore(nodes as unknown as readonly RedlockNode[], { clock, drift: 0.01 }),
  };
}

const five = (): CutNode[] => [0, 1, 2, 3, 4].map((n) => new CutNode(`node ${n}`));

it('a claim without a majority is taken back from a node that was cut off', async () => {
  const nodes = five();
  const [first, second, ...others] = nodes as [CutNode, CutNode, ...CutNode[]];
  for (const [n, other] of others.entries()) other.holder = `another ${n}`;
  first.cut();
  const { clock, store } = storeOf(nodes);
  const asked = store.claim(wanted);
  await clock.advance(1_000);
  expect(await asked).toMatchObject({ granted: false });
  expect([first.holder, second.holder]).toEqual(['ours', null]);
  await clock.advance(1_000);
  first.heal();
  await clock.advance(1);
  expect(first.holder).toBeNull();
});

it('a claim that is given up while the nodes agree on its fence has an unknown outcome', async () => {
  const nodes = five();
  const controller = new AbortController();
  for (const [n, node] of nodes.entries()) {
    node.vote = async ({ id }) => {
      node.holder = id;
      return { granted: true, fence: BigInt(n), isKept: false };
    };
    node.merge = async () => {
      controller.abort();
      return BigInt(n);
    };
  }
  const { store } = storeOf(nodes);
  const claim = store.claim(wanted, controller.signal);
  await expect(claim).rejects.toMatchObject({ code: 'STORE', applied: 'unknown' });
  expect(nodes.map(({ holder }) => holder)).toEqual(nodes.map(() => 'ours'));
});

it('a claim that is released before the last node has answered a renewal is not put back', async () => {
  const nodes = five();
  const [slow] = nodes as [CutNode];
  const answers: Array<() => void> = [];
  for (const node of nodes) {
    Object.assign(node, {
      renew: async (claim: ClaimRef) => {
        if (node === slow) await new Promise<void>((resolve) => answers.push(resolve));
        return { held: node.holder === claim.id, validForMs: 86_400_000 };
      },
      read: async () =>
        node.holder === null ? [] : [{ id: node.holder, granted: true, mode: wanted.mode, fence: 1n }],
    });
  }
  const { clock, store } = storeOf(nodes);
  expect(await store.claim(wanted)).toMatchObject({ granted: true });
  const forgetful = nodes[4] as CutNode;
  forgetful.holder = null;
  expect(await store.renew(wanted, { ttlMs: 86_400_000 })).toMatchObject({ held: true });
  expect(await store.release(wanted)).toBe(true);
  for (const answer of answers) answer();
  await clock.advance(1_000);
  expect(nodes.map(({ holder }) => holder)).toEqual(nodes.map(() => null));
});

it('a claim that is released while a renewal is undecided is not put back', async () => {
  const nodes = five();
  const answers: Array<() => void> = [];
  for (const [n, node] of nodes.entries()) {
    Object.assign(node, {
      renew: async (claim: ClaimRef) => {
        const held = node.holder === claim.id;
        if (n < 2) await new Promise<void>((resolve) => answers.push(resolve));
        return { held, validForMs: 86_400_000 };
      },
      read: async () =>
        node.holder === null ? [] : [{ id: node.holder, granted: true, mode: wanted.mode, fence: 1n }],
    });
  }
  const { clock, store } = storeOf(nodes);
  expect(await store.claim(wanted)).toMatchObject({ granted: true });
  const [slow, , , , forgetful] = nodes as [CutNode, CutNode, CutNode, CutNode, CutNode];
  forgetful.holder = null;
  const renewed = store.renew(wanted, { ttlMs: 86_400_000 });
  await clock.settle();
  const released = store.release(wanted);
  await clock.settle();
  // The renewal is decided now. This node shows the claim until its release arrives.
  slow.cut();
  for (const answer of answers) answer();
  await Promise.all([renewed, released]);
  await clock.settle();
  slow.heal();
  await clock.advance(1_000);
  expect(nodes.map(({ holder }) => holder)).toEqual(nodes.map(() => null));
});

it('a fence is refused if a double cannot represent the next one', async () => {
  const nodes = five();
  for (const node of nodes) {
    node.vote = async ({ id }) => {
      node.holder = id;
      return { granted: true, fence: 2n ** 53n, isKept: false };
    };
  }
  const { store } = storeOf(nodes);
  await expect(store.claim(wanted)).rejects.toMatchObject({ code: 'STORE', applied: 'no' });
  expect(nodes.map(({ holder }) => holder)).toEqual(nodes.map(() => null));
});

it('a claim that all nodes have refused is refused, also if it was given up', async () => {
  const nodes = five();
  for (const node of nodes) node.holder = 'another';
  const { store } = storeOf(nodes);
  expect(await store.claim(wanted, AbortSignal.abort())).toMatchObject({ granted: false });
});
