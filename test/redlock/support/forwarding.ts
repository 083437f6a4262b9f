import type { QuorumNode } from '../../../src/stores/quorum/node.ts';

/** The same node with some of its calls replaced, for planting a mistake. */
export function changed(node: QuorumNode, calls: Partial<QuorumNode>): QuorumNode {
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
    list: (prefix, signal) => node.list(prefix, signal),
    close: () => node.close(),
    ...calls,
  };
}

/** The shortcut: the greatest of the votes, and one more, is taken for the fence, without the nodes being told. */
export const maxOfTheVotes = (node: QuorumNode): QuorumNode =>
  changed(node, { merge: async (_claim, fence) => fence });
