/** Raised when the tables change in a way that an older version of this library would misread. */
export const FORMAT = 1;

/**
 * `holdfast_hold` has the granted claims, `holdfast_line` the waiting ones in order of `place`. A claim's mode is two numbers: `of` is the capacity of a
 * semaphore and 0 otherwise; `count` is the permits, or 1 for a reader and 0 for a writer.
 *
 * A lease ends at `until` on the monotonic clock of the boot it was written in, and for any other boot at `wall_until` on the wall clock.
 *
 * `waited` is 1 when somebody must be told of the release. While it is 0, a release is one plain DELETE.
 *
 * The hold of the lock with no name is the store's fence counter. It is a row of that table, kept by a trigger, because then it usually shares the page
 * that the claim is written to: a counter elsewhere made an uncontended claim a fifth slower.
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
CREATE TABLE IF NOT EXISTS holdfast_line (
  name TEXT NOT NULL,
  place INTEGER NOT NULL,
  id TEXT NOT NULL,
  count INTEGER NOT NULL,
  of INTEGER NOT NULL,
  ttl INTEGER NOT NULL,
  boot INTEGER NOT NULL,
  until INTEGER NOT NULL,
  wall_until INTEGER NOT NULL,
  note TEXT NOT NULL,
  mark TEXT NOT NULL,
  turn INTEGER NOT NULL,
  PRIMARY KEY (name, place)
) WITHOUT ROWID;
CREATE UNIQUE INDEX IF NOT EXISTS holdfast_line_id ON holdfast_line (id, name);
CREATE INDEX IF NOT EXISTS holdfast_line_turn ON holdfast_line (mark) WHERE turn = 1;
CREATE TABLE IF NOT EXISTS holdfast_watch (
  name TEXT NOT NULL, mark TEXT NOT NULL, PRIMARY KEY (name, mark)
) WITHOUT ROWID;
`;

/** Does this lease still run? Takes the boot's number, the monotonic and the wall time. */
const LIVE = '(CASE WHEN boot = ? THEN until > ? ELSE wall_until > ? END)';

const HOLD = 'holdfast_hold';
const LINE = 'holdfast_line';

/** Each statement and the values it takes, in order. */
export const SQL = {
  /** name, id, fence, count, of, boot, since, until, wall_until, note: grants a lock that nobody holds, waits for or watches. */
  claimFree: `INSERT INTO ${HOLD}
    SELECT r.name, r.id, r.fence, r.count, r.of, 0, r.boot, r.since, r.until, r.wall, r.note
    FROM (SELECT ? AS name, ? AS id, ? AS fence, ? AS count, ? AS of, ? AS boot, ? AS since, ? AS until, ? AS wall, ? AS note) r
    WHERE NOT EXISTS (SELECT 1 FROM ${HOLD} WHERE name = r.name)
      AND NOT EXISTS (SELECT 1 FROM ${LINE} WHERE name = r.name)
      AND NOT EXISTS (SELECT 1 FROM holdfast_watch WHERE name = r.name)
      AND r.fence > (SELECT fence FROM ${HOLD} WHERE name = '')`,
  /** name, id, fence, count, of, waited, boot, since, until, wall_until, note */
  grant: `INSERT INTO ${HOLD} VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
  lastFence: `SELECT CAST(fence AS TEXT) AS fence FROM ${HOLD} WHERE name = ''`,
  /** name, id, boot, now, wall: gives up a hold that nobody waits for. */
  releaseUnwaited: `DELETE FROM ${HOLD} WHERE name = ? AND id = ? AND waited = 0 AND ${LIVE}`,
  /** name, id */
  removeHold: `DELETE FROM ${HOLD} WHERE name = ? AND id = ?`,
  /** name, id */
  removePlace: `DELETE FROM ${LINE} WHERE name = ? AND id = ?`,
  /** boot, until, wall_until, name, id, boot, now, wall */
  renew: `UPDATE ${HOLD} SET boot = ?, until = ?, wall_until = ? WHERE name = ? AND id = ? AND ${LIVE}`,
  /** note, name, id */
  annotate: `UPDATE ${HOLD} SET note = ? WHERE name = ? AND id = ?`,
  /** name, boot, now, wall */
  expireHolds: `DELETE FROM ${HOLD} WHERE name = ? AND NOT ${LIVE}`,
  /** boot, now, wall, name: what the holders weigh together, and in how many milliseconds the first of them ends. */
  holders: `SELECT count(*) AS holds, max(of) AS of, min(count) AS least, total(count) AS permits,
      min(CASE WHEN boot = ? THEN until - ? ELSE wall_until - ? END) AS left
    FROM ${HOLD} WHERE name = ?`,
  /** name, id */
  ownHold: `SELECT CAST(fence AS TEXT) AS fence FROM ${HOLD} WHERE name = ? AND id = ?`,
  /** id, name */
  ownPlace: `SELECT place FROM ${LINE} WHERE id = ? AND name = ?`,
  /** boot, now, wall, name, place, limit: the line from there on. */
  front: `SELECT place, id, count, of, mark, turn, ${LIVE} AS live FROM ${LINE} WHERE name = ? AND place > ? ORDER BY place LIMIT ?`,
  /** name, name: two subqueries, because SQLite looks up one end of an index at once, but not both. */
  bounds: `SELECT coalesce((SELECT min(place) FROM ${LINE} WHERE name = ?), 0) AS first,
      coalesce((SELECT max(place) FROM ${LINE} WHERE name = ?), 0) AS last`,
  /** name */
  countLine: `SELECT count(*) AS waiting FROM ${LINE} WHERE name = ?`,
  /** name, boot, now, wall */
  expirePlaces: `DELETE FROM ${LINE} WHERE name = ? AND NOT ${LIVE}`,
  /** name, place, limit: the shortest time to live among those just ahead. */
  shortestAhead: `SELECT min(ttl) AS ttl FROM (SELECT ttl FROM ${LINE} WHERE name = ? AND place < ? ORDER BY place DESC LIMIT ?)`,
  /** name, place, id, count, of, ttl, boot, until, wall_until, note, mark */
  enter: `INSERT INTO ${LINE} VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0)`,
  /** ttl, boot, until, wall_until, mark, name, place */
  keepPlace: `UPDATE ${LINE} SET ttl = ?, boot = ?, until = ?, wall_until = ?, mark = ?, turn = 0 WHERE name = ? AND place = ?`,
  /** until, boot, name, place: it is their turn, and they have until then to take it. */
  giveTurn: `UPDATE ${LINE} SET turn = 1, until = CASE WHEN boot = ? THEN min(until, ?) ELSE until END
    WHERE name = ? AND place = ?`,
  /** name, place */
  dropPlace: `DELETE FROM ${LINE} WHERE name = ? AND place = ?`,
  /** name */
  markWaited: `UPDATE ${HOLD} SET waited = 1 WHERE name = ? AND waited = 0`,
  /** mark: whose turn it is among the claims of one store. */
  turns: `SELECT id FROM ${LINE} WHERE mark = ? AND turn = 1`,
  /** mark, id, name, mark */
  moveMark: `UPDATE ${LINE} SET mark = ? WHERE id = ? AND name = ? AND mark <> ?`,
  /** name */
  watchers: 'SELECT mark FROM holdfast_watch WHERE name = ?',
  /** Everybody who has left something that only they would remove. */
  marks: `SELECT mark FROM holdfast_watch UNION SELECT mark FROM ${LINE}`,
  /** name, mark */
  addWatch: 'INSERT OR IGNORE INTO holdfast_watch VALUES (?, ?)',
  /** name, mark */
  dropWatch: 'DELETE FROM holdfast_watch WHERE name = ? AND mark = ?',
  /** mark */
  dropWatches: 'DELETE FROM holdfast_watch WHERE mark = ?',
  /** mark */
  dropPlaces: `DELETE FROM ${LINE} WHERE mark = ?`,
  /** boot, now, wall, boot, now, name, boot, now, wall, boot, now, wall, name, boot, now, wall: holders, then the line, in order. What
   * orders them stays inside: node:sqlite refuses to give a number that JavaScript cannot hold, and a fence may be one. */
  read: `SELECT granted, id, fence, count, of, note, left, held FROM (
    SELECT 1 AS granted, id, CAST(fence AS TEXT) AS fence, count, of, note,
      CASE WHEN boot = ? THEN until - ? ELSE wall_until - ? END AS left,
      CASE WHEN boot = ? THEN ? - since ELSE -1 END AS held, fence AS place
    FROM ${HOLD} WHERE name = ? AND ${LIVE}
    UNION ALL
    SELECT 0, id, '', count, of, note, CASE WHEN boot = ? THEN until - ? ELSE wall_until - ? END, -1, place
    FROM ${LINE} WHERE name = ? AND ${LIVE})
    ORDER BY granted DESC, place`,
  /** after, end, prefix, prefix, boot, now, wall, and all of it again, limit: the next names with this prefix, in order. */
  names: `SELECT name FROM ${HOLD} WHERE name > ? AND name < ? AND substr(name, 1, length(?)) = ? AND ${LIVE}
    UNION SELECT name FROM ${LINE} WHERE name > ? AND name < ? AND substr(name, 1, length(?)) = ? AND ${LIVE}
    ORDER BY name LIMIT ?`,
  /** writes: the store's counter row also counts what was written since the log was last written back. */
  countWrites: `UPDATE ${HOLD} SET count = count + ? WHERE name = '' RETURNING count`,
  resetWrites: `UPDATE ${HOLD} SET count = 0 WHERE name = ''`,
  /** boot, now, wall */
  pruneHolds: `DELETE FROM ${HOLD} WHERE name <> '' AND NOT ${LIVE}`,
  /** boot, now, wall */
  prunePlaces: `DELETE FROM ${LINE} WHERE NOT ${LIVE}`,
} as const;

export type StatementName = keyof typeof SQL;
