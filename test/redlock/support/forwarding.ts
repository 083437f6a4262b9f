import type { RedlockNode } from '../../../src/stores/redlock/node.ts';

/** The same node with some calls replaced, to plant a defect. */
export function changed(node: RedlockNode, calls: Partial<RedlockNode>): RedlockNode {
  return {
    label: node.label,
    get serverId() {
      return node.serverId;
    },
    vote: (request, signal) => node.vote(request, signal),
    merge: (claim, fence, signal) => node.merge(claim, fence, signal),
    withdraw: (claim, signal) => node.withdraw(claim, signal),
    renew: (claim, change, signal) => node.renew(claim, change, signal),
    release: (claim, signal) => node.release(claim, signal),
    evict: (claim, signal) => node.evict(claim, signal),
    watch: (target, wake) => node.watch(target, wake),
    read: (name, signal) => node.read(name, signal),
    reach: (signal) => node.reach(signal),
    list: (prefix, signal) => node.list(prefix, signal),
    close: () => node.close(),
    ...calls,
  };
}

/** The shortcut: the fence is one more than the greatest vote, and the nodes do not store it. */
export const maxOfTheVotes = (node: RedlockNode): RedlockNode =>
  changed(node, { merge: async (_claim, fence) => fence });
