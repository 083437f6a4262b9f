import { fail, ok, unknown, type Verdict, warn } from '../../store/finding.ts';
import { IDLE_MS } from '../shared/connection-pool.ts';
import { roomFor } from './advisory/session.ts';
import { VERSION_MIN } from './connection.ts';

/** What the server reports about itself. Settings are those of this role. Times are milliseconds. */
export interface Facts {
  /** The locks are leases in a table, not advisory locks. */
  readonly isLease: boolean;
  /** There is no pooler. */
  readonly isDirect: boolean;
  readonly isStandby: boolean;
  readonly isSuperuser: boolean;
  text(setting: string): string;
  number(setting: string): number;
}

export type PoolerMode = 'none' | 'session' | 'transaction';

export interface Standby {
  /** The role may see what kind of standby it is. */
  readonly isVisible: boolean;
  readonly isSynchronous: boolean;
}

/** A statement of the store takes milliseconds, and on a busy server some hundreds of them. */
const STATEMENT_MS = 2_000;

export function judgeVersion({ text, number }: Pick<Facts, 'text' | 'number'>): Verdict {
  const found = `PostgreSQL ${text('server_version')}`;
  if (number('server_version_num') >= VERSION_MIN * 10_000)
    return ok(found, 'The store has what it needs for exclusion, fences and handoff.');
  return fail(
    found,
    'The store refuses every command on this version.',
    `Use PostgreSQL ${VERSION_MIN} or newer.`,
  );
}

export function judgeWritable({ isStandby, text }: Facts): Verdict {
  const means = 'Nothing can be written, so no lock can be acquired, renewed or released here.';
  if (isStandby)
    return fail('this server is a standby', means, 'Connect to the primary: name its host in the URL.');
  if (text('default_transaction_read_only') === 'on')
    return fail(
      'default_transaction_read_only is on',
      means,
      'Set default_transaction_read_only to off for the role that locks.',
    );
  return ok('the server takes writes', 'Locks can be acquired.');
}

export function judgePooler(mode: PoolerMode, isLease: boolean): Verdict {
  if (mode === 'none')
    return ok('no pooler', 'The store is notified of every release, so a handoff takes one round trip.');
  if (!isLease)
    return fail(
      `a pooler in ${mode} mode`,
      'A session lock behind a pooler belongs to the next client of that connection, so two processes ' +
        'could hold one lock. The store refuses to use it.',
      'Connect to the server directly, or use postgresLeaseStore (mode=lease in the URL).',
    );
  if (mode === 'session')
    return ok(
      'a pooler, apparently in session mode',
      'Exclusion and fences are not affected. The first waiter of each process also polls, once or twice ' +
        'a second, because a busy pooler in transaction mode looks the same.',
    );
  return warn(
    'a pooler in transaction mode',
    'Exclusion and fences are not affected. LISTEN does not work, so a handoff to another process takes ' +
      'up to half a second: waiters poll.',
    'Connect to the server directly or to a pool in session mode, or accept the slower handoff.',
  );
}

export function judgeIsolation({ isLease, isDirect, text }: Facts): Verdict {
  const level = text('default_transaction_isolation');
  const found = `default_transaction_isolation is ${level}`;
  if (level === 'read committed' || level === 'read uncommitted')
    return ok(found, 'A transaction that begins while the lock is held sees what earlier holders committed.');
  const yours =
    'A transaction that began before the lock was acquired goes on seeing the data of that moment, and ' +
    'bindFence or a fence gate can fail with SQLSTATE 40001.';
  const pooled =
    'Behind a pooler, a claim whose answer was lost may block its lock until the TTL has passed.';
  return warn(
    found,
    isLease && !isDirect ? `${pooled} ${yours}` : yours,
    'Set default_transaction_isolation to read committed for the role that locks.',
  );
}

export function judgeReplication(facts: Facts, standbys: readonly Standby[]): Verdict {
  const count = `${standbys.length} ${standbys.length === 1 ? 'standby' : 'standbys'}`;
  if (!facts.isLease) return advisoryReplication(count, standbys.length);
  // The store raises `off` to `on` for its own transactions.
  const waits = facts.text('synchronous_commit') !== 'local';
  const synchronous = standbys.filter(({ isSynchronous }) => isSynchronous).length;
  if (facts.text('synchronous_standby_names') !== '' && waits && standbys.every(isAsynchronous))
    return fail(
      `${count}, none of them synchronous; synchronous_standby_names is set`,
      'Every grant waits for a synchronous standby, so no lock can be acquired or renewed.',
      'Start the synchronous standby, or reset synchronous_standby_names.',
    );
  if (standbys.length === 0)
    return ok('no standby', 'Locks live and die with this server. A restart forgets no grant.');
  if (standbys.some(({ isVisible }) => !isVisible))
    return unknown(
      `${count}; this role may not see whether they are synchronous`,
      'A failover to an asynchronous standby can forget the last grants: two processes then hold one lock.',
      'GRANT pg_read_all_stats to the role, and run the diagnosis again.',
    );
  if (synchronous > 0 && waits)
    return ok(
      `${count}, ${synchronous} of them synchronous`,
      'A grant counts when a synchronous standby has it. A failover to that standby forgets no grant.',
    );
  return warn(
    synchronous > 0 ? `${count}; synchronous_commit is local` : `${count}, none of them synchronous`,
    'A failover can forget the last grants: two processes then hold one lock until the first renews. The ' +
      'fence of the later holder is greater, unless the clock of the standby is behind.',
    'Name the standby in synchronous_standby_names with synchronous_commit on, and check fences where you ' +
      'write.',
  );
}

function isAsynchronous({ isVisible, isSynchronous }: Standby): boolean {
  return isVisible && !isSynchronous;
}

function advisoryReplication(count: string, standbys: number): Verdict {
  if (standbys === 0) return ok('no standby', 'Advisory locks live and die with this server.');
  return warn(
    count,
    'Advisory locks are not replicated. A failover forgets every lock at once: another process can hold a ' +
      'lock for up to 8 s before the first holder is told.',
    'Check fences where you write, or use postgresLeaseStore with a synchronous standby.',
  );
}

export function judgeLockTable({ number }: Pick<Facts, 'number'>, used: number): Verdict {
  const capacity =
    number('max_locks_per_transaction') * (number('max_connections') + number('max_prepared_transactions'));
  const room = roomFor(capacity);
  const table = `the lock table has ${capacity} entries, and the store uses up to ${room.max}`;
  const found = `${used} advisory locks; ${table}`;
  if (used + room.step <= room.max) return ok(found, 'There is room for more locks.');
  return warn(
    found,
    'The store refuses more locks, because a server with a full lock table refuses every connection. Locks ' +
      'that are held stay held.',
    'Raise max_locks_per_transaction and restart the server, hold fewer locks, or use postgresLeaseStore.',
  );
}

export function judgeDurability({ text }: Facts): Verdict {
  if (text('fsync') === 'off')
    return fail(
      'fsync is off',
      'A crash of the host can destroy the tables or forget grants and fences: two processes then hold one ' +
        'lock, and fences can repeat.',
      'Set fsync to on.',
    );
  if (text('full_page_writes') === 'off')
    return warn(
      'full_page_writes is off',
      'A crash of the host can leave torn pages: grants and fences can be wrong after it.',
      'Set full_page_writes to on, unless the file system cannot tear pages.',
    );
  return ok('fsync and full_page_writes are on', 'A crash forgets no grant and no fence.');
}

export function judgeSynchronousCommit({ text }: Facts): Verdict {
  const found = `synchronous_commit is ${text('synchronous_commit')}`;
  if (text('synchronous_commit') !== 'off')
    return ok(found, 'A commit that was answered is on the disk, and a crash does not undo it.');
  return warn(
    found,
    'The store turns it on for grants and renewals. A crash can undo your last transactions, and with them ' +
      'the fence that a fence gate or bindFence has recorded.',
    'Set synchronous_commit to on for the transactions that check a fence.',
  );
}

export function judgeTimeouts({ number }: Facts): Verdict {
  const limits: readonly [setting: string, minMs: number][] = [
    ['idle_session_timeout', IDLE_MS],
    ['statement_timeout', STATEMENT_MS],
    ['transaction_timeout', STATEMENT_MS],
  ];
  const short = limits.filter(([setting, minMs]) => number(setting) > 0 && number(setting) < minMs);
  if (short.length === 0)
    return ok('no time limit of the server is short', 'The server ends no statement of the store.');
  const ends = short.some(([setting]) => setting === 'idle_session_timeout')
    ? 'Idle connections of the store are ended, so handoff messages can be missed, and then waiters poll. '
    : '';
  const cancels = short.some(([setting]) => setting !== 'idle_session_timeout')
    ? 'Statements of the store are cancelled on a busy server, and a hold that cannot be renewed is lost. '
    : '';
  const wanted = short.map(([setting, minMs]) => `${setting} to 0 or at least ${minMs} ms`);
  return warn(
    short.map(([setting]) => `${setting} is ${number(setting)} ms`).join(', '),
    `${ends}${cancels}Exclusion and fences are not affected.`,
    `For the role that locks, set ${wanted.join(', ')}.`,
  );
}

export function judgeEncoding({ text }: Facts): Verdict {
  const found = `the encoding of the database is ${text('server_encoding')}`;
  if (text('server_encoding') === 'UTF8') return ok(found, 'Every name of a lock can be stored.');
  return warn(
    found,
    'Names, owners and notes with other characters are refused with a StoreError. Exclusion, fences and ' +
      'handoff of other locks are not affected.',
    'Put the locks into a database with the encoding UTF8, or use names in ASCII.',
  );
}
