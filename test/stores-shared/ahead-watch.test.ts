import { describe, expect, it } from 'vitest';
import type { Waiter } from '../../src/store/store.ts';
import { AheadWatch, type QueueWatches, type Watching } from '../../src/stores/shared/ahead-watch.ts';

class Claim {
  readonly at: number;
  readonly lock: string;
  waiter: Waiter | null;
  wakes = 0;

  constructor(at: number, lock = 'jobs') {
    this.at = at;
    this.lock = lock;
    this.waiter = {
      wake: () => {
        this.wakes += 1;
      },
    };
  }
}

/** One watch that the server was asked for. */
interface Asked {
  readonly what: string;
  readonly since: bigint;
  isCancelled: boolean;
  fire(): void;
  arm(): void;
  refuse(): void;
}

/** A server whose watches are armed, refused and fired by the test. */
class Server implements QueueWatches<Claim> {
  readonly asked: Asked[] = [];
  watchesOwn = false;

  own(claim: Claim, fire: () => void): Watching | null {
    return this.watchesOwn ? this.#watch(`own ${claim.at}`, 0n, fire) : null;
  }
  ahead(_claim: Claim, behind: string, since: bigint, fire: () => void): Watching {
    return this.#watch(behind, since, fire);
  }
  queue(claim: Claim, since: bigint, fire: () => void): Watching {
    return this.#watch(`queue of ${claim.lock}`, since, fire);
  }
  queueOf(claim: Claim): string {
    return claim.lock;
  }
  isAhead(a: Claim, b: Claim): boolean {
    return a.at < b.at;
  }

  /** The last watch of this kind that was requested. */
  last(what: string): Asked {
    const found = this.asked.findLast((each) => each.what === what);
    if (found === undefined) throw new Error(`${what} is not watched`);
    return found;
  }
  get active(): string[] {
    return this.asked.filter((each) => !each.isCancelled).map((each) => each.what);
  }

  #watch(what: string, since: bigint, fire: () => void): Watching {
    let resolve: () => void = () => {};
    let reject: (error: Error) => void = () => {};
    const armed = new Promise<void>((onArmed, onRefused) => {
      resolve = onArmed;
      reject = onRefused;
    });
    armed.catch(() => {});
    const asked: Asked = {
      what,
      since,
      isCancelled: false,
      fire: () => {
        if (!asked.isCancelled) fire();
      },
      arm: resolve,
      refuse: () => reject(new Error('no right to watch')),
    };
    this.asked.push(asked);
    const cancel = (): void => {
      asked.isCancelled = true;
      resolve();
    };
    return { armed, cancel };
  }
}

function setUp(): { server: Server; watch: AheadWatch<Claim> } {
  const server = new Server();
  return { server, watch: new AheadWatch(server) };
}

const isSettled = async (promise: Promise<unknown>): Promise<boolean> =>
  await Promise.race([promise.then(() => true), new Promise((resolve) => setImmediate(resolve, false))]).then(
    (value) => value === true,
  );
const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

describe('a claim behind one other', () => {
  it('watches that one since the refusal, and is armed when the server watches', async () => {
    const { server, watch } = setUp();
    const claim = new Claim(2);
    const armed = watch.arm(claim, 'a', 17n);
    expect(server.last('a').since).toBe(17n);
    expect(await isSettled(armed)).toBe(false);
    server.last('a').arm();
    expect(await isSettled(armed)).toBe(true);
    expect(watch.isWatched(claim)).toBe(true);
    expect(claim.wakes).toBe(0);
  });

  it('is woken once when that one is gone, also before the watch is known to be armed', async () => {
    const { server, watch } = setUp();
    const claim = new Claim(2);
    void watch.arm(claim, 'a', 1n);
    server.last('a').fire();
    expect(claim.wakes).toBe(1);
    expect(server.active).toEqual([]);
  });

  it('watches again what a stale read still shows after it has gone', async () => {
    const { server, watch } = setUp();
    const claim = new Claim(2);
    void watch.arm(claim, 'a', 1n);
    server.last('a').fire();
    void watch.arm(claim, 'a', 1n);
    server.last('a').fire();
    expect(claim.wakes).toBe(2);
    expect(server.asked).toHaveLength(2);
  });

  it('asks the server once while it is behind the same claim, and again for the next one', async () => {
    const { server, watch } = setUp();
    const claim = new Claim(3);
    void watch.arm(claim, 'b', 1n);
    void watch.arm(claim, 'b', 2n);
    expect(server.asked).toHaveLength(1);
    void watch.arm(claim, 'a', 3n);
    expect(server.active).toEqual(['a']);
    server.last('b').fire();
    expect(claim.wakes).toBe(0);
  });

  it('wakes the waiter that was given last', async () => {
    const { server, watch } = setUp();
    const claim = new Claim(2);
    void watch.arm(claim, 'a', 1n);
    let later = 0;
    claim.waiter = {
      wake: () => {
        later += 1;
      },
    };
    server.last('a').fire();
    expect([claim.wakes, later]).toEqual([0, 1]);
  });

  it('is not woken after its end, and nothing stays watched', async () => {
    const { server, watch } = setUp();
    server.watchesOwn = true;
    const claim = new Claim(2);
    const armed = watch.arm(claim, 'a', 1n);
    watch.end(claim);
    expect(server.active).toEqual([]);
    expect(await isSettled(armed)).toBe(true);
    server.last('a').fire();
    expect(claim.wakes).toBe(0);
    expect(watch.isWatched(claim)).toBe(false);
  });

  it('is woken when its own entry is gone', async () => {
    const { server, watch } = setUp();
    server.watchesOwn = true;
    const claim = new Claim(2);
    void watch.arm(claim, 'a', 1n);
    void watch.arm(claim, 'b', 1n);
    expect(server.active).toEqual(['own 2', 'b']);
    server.last('own 2').fire();
    expect(claim.wakes).toBe(1);
  });

  it('is not watched without a waiter', async () => {
    const { server, watch } = setUp();
    const claim = new Claim(2);
    claim.waiter = null;
    await watch.arm(claim, 'a', 1n);
    expect(server.asked).toEqual([]);
    expect(watch.isWatched(claim)).toBe(false);
  });
});

describe('a server that cannot watch', () => {
  it('wakes the claim once, which then polls, and is asked again at each refusal', async () => {
    const { server, watch } = setUp();
    const claim = new Claim(2);
    for (let n = 1; n <= 3; n += 1) {
      const armed = watch.arm(claim, 'a', 1n);
      server.last('a').refuse();
      await armed;
      expect(server.asked).toHaveLength(n);
      expect([claim.wakes, watch.isWatched(claim)]).toEqual([1, false]);
    }
    const armed = watch.arm(claim, 'a', 1n);
    server.last('a').arm();
    await armed;
    expect([claim.wakes, watch.isWatched(claim)]).toEqual([1, true]);
  });

  it('does not wake a claim that is behind another by now', async () => {
    const { server, watch } = setUp();
    const claim = new Claim(3);
    void watch.arm(claim, 'b', 1n);
    void watch.arm(claim, 'a', 2n);
    server.last('b').refuse();
    await turn();
    expect([claim.wakes, watch.isWatched(claim)]).toEqual([0, true]);
  });
});

describe('claims for permits', () => {
  it('share one watch for each lock, and the first of them is woken', async () => {
    const { server, watch } = setUp();
    const [third, second, other] = [new Claim(3), new Claim(2), new Claim(1, 'mail')];
    for (const claim of [second, third, other]) void watch.arm(claim, null, 5n);
    expect(server.active).toEqual(['queue of jobs', 'queue of mail']);
    server.last('queue of jobs').fire();
    expect([second.wakes, third.wakes, other.wakes]).toEqual([1, 0, 0]);
  });

  it('wake the next when the first is granted: there may be room for one more', async () => {
    const { server, watch } = setUp();
    const [second, third] = [new Claim(2), new Claim(3)];
    void watch.arm(second, null, 5n);
    void watch.arm(third, null, 6n);
    watch.end(second);
    expect(third.wakes).toBe(1);
    watch.end(third);
    expect(server.active).toEqual([]);
  });

  it('miss no change between a refusal and joining: one that joins ahead is woken', async () => {
    const { server, watch } = setUp();
    const [second, third] = [new Claim(2), new Claim(3)];
    void watch.arm(third, null, 6n);
    // The release makes room for the second claim, whose refusal was read before the release.
    server.last('queue of jobs').fire();
    void watch.arm(second, null, 5n);
    expect(second.wakes).toBe(1);
  });

  it('of a refused watch are each woken once', async () => {
    const { server, watch } = setUp();
    const claims = [new Claim(2), new Claim(3), new Claim(4)];
    for (const claim of claims) void watch.arm(claim, null, 5n);
    server.last('queue of jobs').refuse();
    await turn();
    for (const claim of claims) expect(watch.isWatched(claim)).toBe(false);
    for (const claim of claims) expect(claim.wakes).toBeGreaterThan(0);
    expect(server.active).toEqual([]);
  });
});

describe('a connection that is over', () => {
  it('ends every watch, and the next refusal of a claim watches over the next connection', async () => {
    const { server, watch } = setUp();
    const [behind, permits, other] = [new Claim(2), new Claim(3, 'pool'), new Claim(4, 'pool')];
    const armAll = (): void => {
      void watch.arm(behind, 'a', 7n);
      void watch.arm(permits, null, 8n);
      void watch.arm(other, null, 9n);
    };
    armAll();
    watch.unwatch();
    expect(server.active).toEqual([]);
    expect([behind.wakes, permits.wakes, other.wakes]).toEqual([0, 0, 0]);
    armAll();
    expect(server.active).toEqual(['a', 'queue of pool']);
    expect([server.last('a').since, server.last('queue of pool').since]).toEqual([7n, 8n]);
    server.last('a').fire();
    expect(behind.wakes).toBe(1);
  });

  it('lets a claim end meanwhile', async () => {
    const { server, watch } = setUp();
    const [ended, other] = [new Claim(2), new Claim(3)];
    void watch.arm(ended, 'a', 7n);
    watch.unwatch();
    watch.end(ended);
    expect(watch.isWatched(ended)).toBe(false);
    void watch.arm(other, 'b', 8n);
    expect(server.active).toEqual(['b']);
  });
});
