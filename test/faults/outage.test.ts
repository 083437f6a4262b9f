import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { BACKENDS, type BackendKind } from '../../src/torture/backends/backend.ts';
import { modesOf, type OutageMode, outage, textOf } from '../support/outage/outage.ts';
import { LIBRARIES } from '../support/outage/stores.ts';
import { compiled } from '../support/process/compiled.ts';

const PROGRAM = fileURLToPath(new URL('../support/outage/program.ts', import.meta.url));
/** `npm run campaign -- outage` runs it for five minutes. */
const FOR_MS = 2_000;
const CALLERS = 60;
const HEAP_MAX_MB = 8;

/**
 * The campaign has all kinds of outages. These two clients each handle a connection in a way of
 * their own.
 */
function shortModesOf(kind: BackendKind): readonly OutageMode[] {
  if (kind === 'etcd' || kind === 'zookeeper') return modesOf(kind);
  return modesOf(kind).filter((mode) => mode !== 'mute' && mode !== 'no replies');
}

const cases = BACKENDS.flatMap((kind) => LIBRARIES[kind].map((library) => [kind, library] as const));

describe.concurrent('an outage costs neither memory nor processor time, and leaves no claim', () => {
  it.each(cases)(
    '%s, %s',
    async (kind, library) => {
      const script = compiled(PROGRAM);
      const modes = shortModesOf(kind);
      const terms = { modes, forMs: FOR_MS, callers: CALLERS, heapMaxMb: HEAP_MAX_MB };
      const rows = await outage({ kind, library, script, ...terms });
      const bad = rows.filter(({ problems }) => problems.length > 0);
      expect(bad.map(textOf)).toEqual([]);
      expect(rows).toHaveLength(modes.length);
    },
    240_000,
  );
});
