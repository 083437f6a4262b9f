import { weightOf } from '../../store/grant-rule.ts';

/** Raised when the tables change in a way that an older version of this library would misread. */
export const FORMAT = 2;

/**
 * `holdfast_hold` has the granted claims, `holdfast_queue` the waiting ones, ordered by `position`. `tag`
 * identifies the process that waits (`process-tag.ts`). `turn` is 1 when the claim can be granted, and
 * 2 when its waiter is only to ask again. `count` and `of` are the mode (`mode-columns.ts`).
 *
 * A lease ends at `until` on the monotonic clock of the boot it was written in, and for any other boot
 * at `wall_until` on the wall clock.
 *
 * `waited` is 1 when a release must notify a waiter or an observer. While it is 0, a release is one
 * plain DELETE.
 *
 * The hold of the lock with no name is the store's fence counter. It is a row of that table, kept by a
 * trigger, because then it usually shares the page that the claim is written to: a counter elsewhere
 * made an uncontended claim a fifth slower.
 */
export const SCHEMA = `
CREATE TABLE IF NOT EXISTS holdfast_meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
INSERT OR IGNORE INTO holdfast_meta VALUES ('format', '${FORMAT}');
CREATE TABLE IF NOT EXISTS holdfast_boot (number INTEGER PRIMARY KEY, boot TEXT NOT NULL UNIQUE);
CREATE TABLE IF NOT EXISTS holdfast_hold (
  name TEXT NOT NULL,
  id TEXT NOT NULL,
  fence INTEGER NOT NULL,
  count INTEGER NOT NULL,
  of INTEGER NOT NULL,
  waited INTEGER NOT NULL,
  boot INTEGER NOT NULL,
  since INTEGER NOT NULL,
  until INTEGER NOT NULL,
  wall_until INTEGER NOT NULL,
  note TEXT NOT NULL,
  PRIMARY KEY (name, id)
) WITHOUT ROWID;
INSERT OR IGNORE INTO holdfast_hold VALUES ('', '', 0, 0, 0, 0, 0, 0, 0, 0, '');
CREATE TRIGGER IF NOT EXISTS holdfast_fence AFTER INSERT ON holdfast_hold
BEGIN UPDATE holdfast_hold SET fence = NEW.fence WHERE name = ''; END;
CREATE TABLE IF NOT EXISTS holdfast_queue (
  name TEXT NOT NULL,
  position INTEGER NOT NULL,
  id TEXT NOT NULL,
  count INTEGER NOT NULL,
  of INTEGER NOT NULL,
  ttl INTEGER NOT NULL,
  boot INTEGER NOT NULL,
  until INTEGER NOT NULL,
  wall_until INTEGER NOT NULL,
  note TEXT NOT NULL,
  tag TEXT NOT NULL,
  turn INTEGER NOT NULL,
  PRIMARY KEY (name, position)
) WITHOUT ROWID;
CREATE UNIQUE INDEX IF NOT EXISTS holdfast_queue_id ON holdfast_queue (id, name);
CREATE INDEX IF NOT EXISTS holdfast_queue_turn ON holdfast_queue (tag) WHERE turn > 0;
CREATE TABLE IF NOT EXISTS holdfast_watch (
  name TEXT NOT NULL, tag TEXT NOT NULL, PRIMARY KEY (name, tag)
) WITHOUT ROWID;
`;

/** Whether a lease still runs, and how many milliseconds it has left. Both take boot, now, wall. */
const LIVE = '(CASE WHEN boot = ? THEN until > ? ELSE wall_until > ? END)';
const LEFT = '(CASE WHEN boot = ? THEN until - ? ELSE wall_until - ? END)';

const HOLD = 'holdfast_hold';
const QUEUE = 'holdfast_queue';
const WATCH = 'holdfast_watch';

/**
 * The comment of a statement lists its values in order where the text does not show it. `now` and
 * `wall` are the time by the monotonic and the wall clock.
 */
export const SQL = {
  /** name, id, fence, count, of, now, boot, until, wall_until, note: without holders, waiters, observers */
  claimFree: `INSERT INTO ${HOLD}
    SELECT r.name, r.id, r.fence, r.count, r.of, 0, r.boot, r.since, r.until, r.wall, r.note
    FROM (SELECT ? AS name, ? AS id, ? AS fence, ? AS count, ? AS of, ? AS since, ? AS boot, ? AS until,
      ? AS wall, ? AS note) r
    WHERE NOT EXISTS (SELECT 1 FROM ${HOLD} WHERE name = r.name)
      AND NOT EXISTS (SELECT 1 FROM ${QUEUE} WHERE name = r.name)
      AND NOT EXISTS (SELECT 1 FROM ${WATCH} WHERE name = r.name)
      AND r.fence > (SELECT fence FROM ${HOLD} WHERE name = '')`,
  /** name, id, fence, count, of, name, name, now, boot, until, wall_until, note */
  grant: `INSERT INTO ${HOLD} (name, id, fence, count, of, waited, since, boot, until, wall_until, note)
    VALUES (?, ?, ?, ?, ?,
      EXISTS (SELECT 1 FROM ${QUEUE} WHERE name = ?) OR EXISTS (SELECT 1 FROM ${WATCH} WHERE name = ?),
      ?, ?, ?, ?, ?)`,
  lastFence: `SELECT CAST(fence AS TEXT) AS fence FROM ${HOLD} WHERE name = ''`,
  releaseUnwaited: `DELETE FROM ${HOLD} WHERE name = ? AND id = ? AND waited = 0 AND ${LIVE}`,
  removeHold: `DELETE FROM ${HOLD} WHERE name = ? AND id = ?`,
  removeWaiting: `DELETE FROM ${QUEUE} WHERE name = ? AND id = ?`,
  renew: `UPDATE ${HOLD} SET boot = ?, until = ?, wall_until = ? WHERE name = ? AND id = ? AND ${LIVE}`,
  annotate: `UPDATE ${HOLD} SET note = ? WHERE name = ? AND id = ? AND note <> ?`,
  expireHolds: `DELETE FROM ${HOLD} WHERE name = ? AND NOT ${LIVE}`,
  /** boot, now, wall, name: what the holders weigh together, and when the first of them ends. */
  holders: `SELECT min(count) AS count, max(of) AS of, min(${LEFT}) AS left,
      total(CASE WHEN count = 0 THEN ${weightOf({ kind: 'exclusive' })} ELSE count END) AS weight
    FROM ${HOLD} WHERE name = ?`,
  ownHold: `SELECT CAST(fence AS TEXT) AS fence FROM ${HOLD} WHERE name = ? AND id = ?`,
  /** boot, now, wall, name, position, limit: the queue behind that position. */
  queueAfter: `SELECT position, id, count, of, tag, turn, ${LEFT} AS left FROM ${QUEUE}
    WHERE name = ? AND position > ? ORDER BY position LIMIT ?`,
  /**
   * name, name, limit, name, boot, now, wall: how many wait, or 0 while the positions show that it is
   * fewer than the limit. Two subqueries, because SQLite looks up one end of an index, but not both.
   */
  waiting: `SELECT CASE
      WHEN (SELECT max(position) FROM ${QUEUE} WHERE name = ?) -
        (SELECT min(position) FROM ${QUEUE} WHERE name = ?) + 1 < ? THEN 0
      ELSE (SELECT count(*) FROM ${QUEUE} WHERE name = ? AND ${LIVE}) END AS waiting`,
  /** tag, name, id, name, limit: of those just ahead, the shortest ttl, and whether one has this tag. */
  ahead: `SELECT min(ttl) AS ttl, max(tag = ?) AS own FROM (SELECT ttl, tag FROM ${QUEUE}
    WHERE name = ? AND position < (SELECT position FROM ${QUEUE} WHERE id = ? AND name = ?)
    ORDER BY position DESC LIMIT ?)`,
  /** name, name, id, count, of, ttl, boot, until, wall_until, note, tag */
  enqueue: `INSERT INTO ${QUEUE} VALUES (?,
    1 + coalesce((SELECT max(position) FROM ${QUEUE} WHERE name = ?), 0), ?, ?, ?, ?, ?, ?, ?, ?, ?, 0)`,
  keepPosition: `UPDATE ${QUEUE}
    SET ttl = ?, boot = ?, until = ?, wall_until = ?, tag = ?, turn = 0 WHERE id = ? AND name = ?`,
  /** The claim can be granted, and has until then to ask. */
  giveTurn: `UPDATE ${QUEUE}
    SET turn = 1, until = CASE WHEN boot = ? THEN min(until, ?) ELSE until END,
      wall_until = min(wall_until, ?)
    WHERE name = ? AND position = ?`,
  removeProcess: `DELETE FROM ${QUEUE} WHERE name = ? AND tag = ?`,
  markWaited: `UPDATE ${HOLD} SET waited = 1 WHERE name = ? AND waited = 0`,
  /** Every waiter is to ask again. */
  wakeAll: `UPDATE ${QUEUE} SET turn = iif(turn = 0, 2, turn) WHERE name = ? RETURNING id, tag`,
  /** The claims of this process that were woken. */
  woken: `SELECT id FROM ${QUEUE} WHERE tag = ? AND turn > 0`,
  watchers: `SELECT tag FROM ${WATCH} WHERE name = ?`,
  addWatch: `INSERT OR IGNORE INTO ${WATCH} VALUES (?, ?)`,
  dropWatch: `DELETE FROM ${WATCH} WHERE name = ? AND tag = ?`,
  tags: `SELECT tag FROM ${WATCH} UNION SELECT tag FROM ${QUEUE}`,
  pruneWatches: `DELETE FROM ${WATCH} WHERE tag = ?`,
  pruneProcess: `DELETE FROM ${QUEUE} WHERE tag = ?`,
  pruneHolds: `DELETE FROM ${HOLD} WHERE name <> '' AND NOT ${LIVE}`,
  pruneWaiting: `DELETE FROM ${QUEUE} WHERE NOT ${LIVE}`,
  /**
   * boot, now, wall, boot, now, name, boot, now, wall, boot, now, wall, name, boot, now, wall: holders,
   * then the queue, in order. What orders them stays inside: node:sqlite refuses to return a number that
   * JavaScript cannot represent, and a fence may be one.
   */
  read: `SELECT granted, id, fence, count, of, note, left, held FROM (
    SELECT 1 AS granted, id, CAST(fence AS TEXT) AS fence, count, of, note, ${LEFT} AS left,
      CASE WHEN boot = ? THEN ? - since ELSE -1 END AS held, fence AS position
    FROM ${HOLD} WHERE name = ? AND ${LIVE}
    UNION ALL
    SELECT 0, id, '', count, of, note, ${LEFT}, -1, position
    FROM ${QUEUE} WHERE name = ? AND ${LIVE})
    ORDER BY granted DESC, position`,
  /** after, end, prefix, prefix, boot, now, wall, all of them again, limit */
  names: `SELECT name FROM ${HOLD} WHERE name > ? AND name < ? AND substr(name, 1, length(?)) = ? AND ${LIVE}
    UNION SELECT name FROM ${QUEUE} WHERE name > ? AND name < ? AND substr(name, 1, length(?)) = ? AND ${LIVE}
    ORDER BY name LIMIT ?`,
} as const;

export type StatementName = keyof typeof SQL;
