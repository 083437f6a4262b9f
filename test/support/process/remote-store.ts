import type { ChildProcess } from 'node:child_process';
import { StoreError } from '../../../src/errors.ts';
import type { Store, Traits } from '../../../src/store/store.ts';

/**
 * A memory store in one process, used from others over Node's own channel between parent and child:
 * enough to put a real process on each side of a lock, to stop it, and to kill it.
 */
interface Call {
  readonly kind: 'call';
  readonly n: number;
  readonly verb: 'claim' | 'renew' | 'release' | 'evict' | 'read' | 'watch' | 'unwatch';
  readonly args: readonly unknown[];
}
type Reply =
  | { readonly kind: 'reply'; readonly n: number; readonly value: unknown }
  | { readonly kind: 'failure'; readonly n: number; readonly message: string }
  | { readonly kind: 'wake'; readonly n: number };

/** Called in the parent when a call arrives; the reply waits for it. */
export type Interference = (verb: Call['verb']) => Promise<void> | void;

const isCall = (message: unknown): message is Call => (message as Call | null)?.kind === 'call';

/** The parent's side. */
export function serveStore(child: ChildProcess, store: Store, beforeReply: Interference = () => {}): void {
  const watches = new Map<number, AsyncDisposable>();
  const send = (reply: Reply): void => {
    if (child.connected) child.send(reply, () => {});
  };
  const run = async (call: Call): Promise<unknown> => {
    const [first, second] = call.args as [never, never];
    if (call.verb === 'watch') {
      watches.set(call.n, await store.watch(first, () => send({ kind: 'wake', n: call.n })));
      return null;
    }
    if (call.verb === 'claim')
      return await store.claim(first, undefined, { wake: () => send({ kind: 'wake', n: call.n }) });
    if (call.verb === 'unwatch') return await watches.get(first)?.[Symbol.asyncDispose]();
    return await store[call.verb](first, second);
  };
  child.on('message', (message) => {
    if (!isCall(message)) return;
    run(message)
      .then(async (value) => {
        await beforeReply(message.verb);
        send({ kind: 'reply', n: message.n, value });
      })
      .catch((error: unknown) => send({ kind: 'failure', n: message.n, message: String(error) }));
  });
}

/** The child's side. */
export function remoteStore(): Store {
  const traits: Traits = { lifetime: 'lease', ordered: true, counting: true, remembers: true };
  const waiting = new Map<number, { resolve(value: unknown): void; reject(error: unknown): void }>();
  const wakes = new Map<number, () => void>();
  let count = 0;
  const call = (verb: Call['verb'], ...args: unknown[]): { n: number; reply: Promise<never> } => {
    count += 1;
    const n = count;
    const reply = new Promise<never>((resolve, reject) =>
      waiting.set(n, { resolve: resolve as () => void, reject }),
    );
    process.send?.({ kind: 'call', n, verb, args } satisfies Call);
    return { n, reply };
  };
  process.on('message', (message: Reply) => {
    if (message.kind === 'wake') wakes.get(message.n)?.();
    else if (message.kind === 'reply') waiting.get(message.n)?.resolve(message.value);
    else if (message.kind === 'failure') {
      waiting.get(message.n)?.reject(new StoreError(message.message, { applied: 'unknown' }));
    }
  });
  return {
    traits,
    claim: (request, _signal, waiter) => {
      const { n, reply } = call('claim', request);
      if (waiter !== undefined) wakes.set(n, () => waiter.wake());
      return reply;
    },
    renew: (ref, change) => call('renew', ref, change).reply,
    release: (ref) => call('release', ref).reply,
    evict: (ref) => call('evict', ref).reply,
    read: (name) => call('read', name).reply,
    async *list() {},
    async watch(target, wake) {
      const { n, reply } = call('watch', target);
      wakes.set(n, wake);
      await reply;
      return { [Symbol.asyncDispose]: async () => void (await call('unwatch', n).reply) };
    },
    close: async () => {},
  };
}
