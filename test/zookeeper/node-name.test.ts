import { describe, expect, it } from 'vitest';
import { decodeName, encodeName, nodePrefix, parseNode } from '../../src/stores/zookeeper/node-name.ts';

describe('the names of nodes', () => {
  it('carry the claim, and can be parsed', () => {
    const modes = [{ kind: 'exclusive' }, { kind: 'shared' }, { kind: 'permits', count: 2, of: 5 }] as const;
    for (const mode of modes) {
      for (const id of ['web-1:4711:k3j9#0f1e2d3c4b5a.2s', 'a~b/c%__lock__0000000001#x', '🔒']) {
        const node = `${nodePrefix(id, '1000a', mode)}0000000042`;
        expect(parseNode(node)).toEqual({ node, id, session: '1000a', mode, position: 42 });
      }
    }
  });

  it('of other programs are claims without a session, and other nodes are no claims', () => {
    const [lock, reader] = [`${'0f'.repeat(16)}__lock__0000000007`, `${'0f'.repeat(16)}__rlock__0000000008`];
    expect(parseNode(lock)).toMatchObject({
      id: lock,
      session: null,
      mode: { kind: 'exclusive' },
      position: 7,
    });
    expect(parseNode(reader)).toMatchObject({ mode: { kind: 'shared' }, position: 8 });
    expect(parseNode('lock-0000000001')).toBeNull();
    expect(parseNode('__lock__1')).toBeNull();
  });

  it('are escaped only where ZooKeeper refuses a character, and can be decoded', () => {
    for (const name of ['x y', 'é', '*?#~', '...', '.a'] as const) expect(encodeName(name)).toBe(name);
    for (const name of ['.', '..', 'a/b', '%', '%2F', '🔒', '\ufff9', '\ue000', '\u0085']) {
      expect(encodeName(name)).not.toBe(name);
      expect(decodeName(encodeName(name))).toBe(name);
    }
  });
});
