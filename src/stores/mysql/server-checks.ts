import { fail, ok, type Verdict, warn } from '../../store/finding.ts';
import { IDLE_MS } from '../shared/connection-pool.ts';
import { isSupported, LOCK_WAIT_MS } from './connection.ts';

/** What the server reports about itself. Names are in lower case. */
export interface Facts {
  text(name: string): string;
  number(name: string): number;
  has(name: string): boolean;
  isOn(name: string): boolean;
}

/** A statement of the store takes milliseconds, and on a busy server some hundreds of them. */
const STATEMENT_MS = 2_000;

export function judgeVersion(version: string): Verdict {
  const found = `version ${version}`;
  if (isSupported(version))
    return ok(found, 'The store has what it needs for exclusion, fences and handoff.');
  return fail(
    found,
    'The store refuses every command on this version.',
    'Use MySQL 8 or newer, or MariaDB 10.6 or newer.',
  );
}

const READ_ONLY = ['read_only', 'super_read_only', 'innodb_read_only'];

export function isWritable({ isOn }: Facts): boolean {
  return !READ_ONLY.some(isOn);
}

export function judgeWritable(facts: Facts): Verdict {
  const on = READ_ONLY.filter(facts.isOn);
  if (on.length === 0) return ok('the server takes writes', 'Locks can be acquired.');
  return fail(
    `${on.join(' and ')} is on`,
    'This server is a replica, or is set to be read only: no lock can be acquired, renewed or released here.',
    'Connect to the primary, or turn the setting off.',
  );
}

export function judgeIsolation({ has, text }: Facts): Verdict {
  const level = text(has('transaction_isolation') ? 'transaction_isolation' : 'tx_isolation');
  const found = `the default isolation level is ${level}`;
  if (level !== 'READ-UNCOMMITTED')
    return ok(found, 'A transaction that begins while the lock is held sees what earlier holders committed.');
  return warn(
    found,
    'The store sets its own level, so that exclusion, fences and handoff are not affected. Your ' +
      'transactions can read what an earlier holder wrote and then rolled back.',
    'Set transaction_isolation to READ-COMMITTED or REPEATABLE-READ.',
  );
}

export function judgeDurability({ isOn, text }: Facts): Verdict {
  const flush = text('innodb_flush_log_at_trx_commit');
  const late: string[] = [];
  if (flush !== '1') late.push(`innodb_flush_log_at_trx_commit is ${flush}`);
  if (isOn('log_bin') && text('sync_binlog') !== '1') late.push(`sync_binlog is ${text('sync_binlog')}`);
  if (late.length === 0) return ok('every commit is flushed to the disk', 'A crash forgets no grant.');
  return warn(
    late.join(', '),
    'A crash of the host can forget the last grants, or keep them from the replicas: two processes then ' +
      'hold one lock until the first renews. The fence of the later holder is greater, unless the clock ' +
      'was set back.',
    'Set innodb_flush_log_at_trx_commit and sync_binlog to 1.',
  );
}

export function judgeReplication({ isOn, number, text }: Facts, replicas: number): Verdict {
  if (isOn('wsrep_on') && number('wsrep_cluster_size') > 1)
    return ok(
      `a Galera cluster of ${text('wsrep_cluster_size')} nodes`,
      'Every commit is certified by the cluster, so that a failover forgets no grant. Leases go by the ' +
        'clock of the node that a statement runs on: use one writer node, or synchronised clocks.',
    );
  if (!isOn('log_bin') || replicas === 0)
    return ok('no replica', 'Locks live and die with this server. A restart forgets no grant.');
  const count = `${replicas} ${replicas === 1 ? 'replica' : 'replicas'}`;
  const waiting = ['rpl_semi_sync_master', 'rpl_semi_sync_source'].find(
    (name) => isOn(`${name}_status`) && number(`${name}_clients`) > 0,
  );
  if (waiting !== undefined)
    return ok(
      `${count}, semi-synchronous`,
      `A grant counts when a replica has it, or after ${text(`${waiting}_timeout`)} ms without one. A ` +
        'failover to that replica forgets no grant.',
    );
  return warn(
    `${count}, asynchronous`,
    'A failover can forget the last grants: two processes then hold one lock until the first renews. The ' +
      'fence of the later holder is greater, unless the clock of the replica is behind.',
    'Use semi-synchronous replication, and check fences where you write.',
  );
}

export function judgeBinlogFormat({ isOn, text }: Facts): Verdict {
  if (!isOn('log_bin')) return ok('no binary log', 'Nothing is replicated.');
  const found = `binlog_format is ${text('binlog_format')}`;
  if (text('binlog_format') !== 'STATEMENT') return ok(found, 'Replicas get the same rows.');
  return warn(
    found,
    'The store writes with INSERT … SELECT … ON DUPLICATE KEY UPDATE, which a replica may apply ' +
      'differently. After a failover, holds and fences may differ from what was granted.',
    'Set binlog_format to ROW.',
  );
}

export function judgeTimeouts({ number }: Facts): Verdict {
  const [idleMs, statementMs] = [number('wait_timeout') * 1_000, number('max_statement_time') * 1_000];
  const short: string[] = [];
  const means: string[] = [];
  if (idleMs < IDLE_MS) {
    short.push(`wait_timeout is ${number('wait_timeout')} s`);
    means.push(
      'Idle connections of the store are ended. The next renewal then has to connect again, and a short ' +
        'lease can be lost meanwhile.',
    );
  }
  if (statementMs > 0 && statementMs < STATEMENT_MS) {
    short.push(`max_statement_time is ${number('max_statement_time')} s`);
    means.push(
      'Statements of the store are ended on a busy server, and a hold that cannot be renewed is lost.',
    );
  }
  if (short.length === 0)
    return ok('no time limit of the server is short', 'The server ends no statement of the store.');
  return warn(
    short.join(', '),
    `${means.join(' ')} Exclusion and fences are not affected.`,
    `Set wait_timeout to at least ${IDLE_MS / 1_000} s, and max_statement_time to 0 or at least ` +
      `${STATEMENT_MS / 1_000} s.`,
  );
}

export function judgeLockWait(commandMs: number): Verdict {
  const found = `a statement waits up to ${LOCK_WAIT_MS} ms for a locked row; commandMs is ${commandMs}`;
  if (commandMs > LOCK_WAIT_MS)
    return ok(found, 'A command that finds its row locked ends with a definite answer of the server.');
  return warn(
    found,
    'A command that finds its row locked by a transaction of yours is given up before the server answers. ' +
      'Its outcome is unknown, and finding it out takes another connection. Exclusion is not affected.',
    `Set commandMs to more than ${LOCK_WAIT_MS}.`,
  );
}
