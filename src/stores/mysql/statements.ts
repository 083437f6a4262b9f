/**
 * When the statement began, in microseconds, whatever time zone the session has: by the clock of the
 * server that answers. For `READ` behind a proxy that may be a replica.
 */
const NOW = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))";

/**
 * Numbers come as text: the library would send them as floating point, and fences may be longer
 * than that.
 */
const NUMBER = 'CAST(? AS SIGNED)';

/** An exclusive claim of a lock without other claims. `LAST_INSERT_ID` carries the fence back. */
export const CLAIM = `UPDATE holdfast_locks
  SET version = ${NUMBER}, fence = LAST_INSERT_ID(GREATEST(fence + 1, ${NUMBER} + 1, ${NOW})), holder = ?,
    granted_at = ${NOW}, expires_at = ${NOW} + ${NUMBER} * 1000, ttl_ms = ${NUMBER}, note = ?, queue = NULL
  WHERE name = ? AND expires_at <= ${NOW}`;

/** For the only claim of a lock, which holds it alone. */
export const RELEASE = `UPDATE holdfast_locks
  SET version = ${NUMBER}, holder = NULL, expires_at = ${NOW}, note = ''
  WHERE name = ? AND holder = ? AND expires_at > ${NOW}`;

/** A JSON array of `[name, version]`. */
const NAMED = `JSON_TABLE(?, '$[*]' COLUMNS (
    name VARCHAR(1024) CHARACTER SET utf8mb4 PATH '$[0]' ERROR ON ERROR,
    version BIGINT PATH '$[1]' ERROR ON ERROR
  )) n`;

/** One row for each name. The queue is left out where the version is the one that is known. */
export const READ = `SELECT ${NOW}, f.fence, n.name, l.version, l.fence, l.holder, l.granted_at, l.expires_at,
    l.ttl_ms, l.note, IF(l.version <=> n.version, NULL, l.queue)
  FROM holdfast_floor f
  STRAIGHT_JOIN ${NAMED}
  LEFT JOIN holdfast_locks l ON l.name = n.name`;

/**
 * Fails with error 1690, whatever the `sql_mode` of the session. A proxy may have changed that: without
 * its strict mode, NULL for a column that takes none would be stored as 0.
 */
const FAIL = '9223372036854775807 + n.version + 1';

/**
 * Takes a JSON array of rows, as `encodeRow` of `lock-row.ts` makes them. Writes all of them, or
 * fails with error 1690 and writes none: when one of them has another version by now, or when the floor
 * has risen, which a fence for a pruned row must not be below. The rows are locked in the order in
 * which they are given, which is that of their names, so that two such statements do not wait for each other.
 */
export const WRITE = `INSERT INTO holdfast_locks
    (name, version, fence, holder, granted_at, expires_at, ttl_ms, note, queue)
  SELECT n.name, IF(f.fence = n.floor, n.version, ${FAIL}), n.fence, n.holder, n.granted_at, n.expires_at,
    n.ttl_ms, n.note, n.queue
  FROM holdfast_floor f
  STRAIGHT_JOIN JSON_TABLE(?, '$[*]' COLUMNS (
    name VARCHAR(1024) CHARACTER SET utf8mb4 PATH '$[0]' ERROR ON ERROR,
    was BIGINT PATH '$[1]',
    version BIGINT PATH '$[2]' ERROR ON ERROR,
    floor BIGINT PATH '$[3]' ERROR ON ERROR,
    fence BIGINT PATH '$[4]' ERROR ON ERROR,
    holder VARCHAR(1024) CHARACTER SET utf8mb4 PATH '$[5]' ERROR ON ERROR,
    granted_at BIGINT PATH '$[6]' ERROR ON ERROR,
    expires_at BIGINT PATH '$[7]' ERROR ON ERROR,
    ttl_ms BIGINT PATH '$[8]' ERROR ON ERROR,
    note LONGTEXT CHARACTER SET utf8mb4 PATH '$[9]' ERROR ON ERROR,
    queue LONGTEXT CHARACTER SET utf8mb4 PATH '$[10]' ERROR ON ERROR
  )) n
  WHERE TRUE
  LOCK IN SHARE MODE
  ON DUPLICATE KEY UPDATE version = IF(holdfast_locks.version = n.was, n.version, ${FAIL}),
    fence = n.fence, holder = n.holder, granted_at = n.granted_at, expires_at = n.expires_at,
    ttl_ms = n.ttl_ms, note = n.note, queue = n.queue`;

/** As many rows as `LIST` gives. */
export const LIST_ROWS = 4_000;

/** The rows after a name, of names that begin so, with the time that their last claim has left. */
export const LIST = `SELECT name, version, fence, expires_at - ${NOW} FROM holdfast_locks
  WHERE name > ? AND name >= ? AND LEFT(name, ${NUMBER}) = ?
  ORDER BY name LIMIT ${LIST_ROWS}`;

/**
 * Sent before `PRUNE`, which is not sent if this fails. The floor always rises, so that no `WRITE` of a
 * row that was read before can bring back what is pruned now.
 */
export const RAISE_FLOOR = `UPDATE holdfast_floor SET fence = GREATEST(fence + 1, ${NUMBER})`;

export const PRUNE = `DELETE l FROM ${NAMED}
  STRAIGHT_JOIN holdfast_locks l ON l.name = n.name AND l.version = n.version`;
