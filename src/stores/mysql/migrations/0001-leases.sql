-- Which of these files have been applied. Every statement can be run again: MySQL commits each
-- statement that changes a table by itself, so a migration that was interrupted is run again.
CREATE TABLE IF NOT EXISTS holdfast_migrations (
  id INT NOT NULL PRIMARY KEY,
  name VARCHAR(100) NOT NULL,
  applied_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP
) ENGINE = InnoDB;

-- One row for each lock that is in use or was so lately. Times are microseconds since 1970, by the
-- server's clock. No transaction is longer than a statement: a statement either changes a lock whose
-- condition it tests itself, or writes what was made of a row that was read before, if that row still
-- has the same version.
CREATE TABLE IF NOT EXISTS holdfast_locks (
  -- A name of the user, and what the core puts before it. Binary: spaces at the end count.
  name VARBINARY(1024) NOT NULL PRIMARY KEY,
  -- A random number, new with every change. A counter would repeat itself after a failover that has
  -- lost the last changes.
  version BIGINT NOT NULL,
  -- The greatest fence that was given for this lock.
  fence BIGINT NOT NULL,
  -- The claim that holds the lock alone, if there is one. The hold is over when its time is, even if
  -- this row still names it.
  holder VARBINARY(1024) NULL,
  granted_at BIGINT NOT NULL,
  expires_at BIGINT NOT NULL,
  ttl_ms BIGINT NOT NULL,
  note LONGBLOB NOT NULL,
  -- The other claims as JSON, as `lock-row.ts` writes it: holds beside others, and those that wait.
  -- NULL: none.
  queue LONGBLOB NULL
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

-- No fence of a row that was pruned is greater than this, so a row that is made again begins above it.
CREATE TABLE IF NOT EXISTS holdfast_floor (
  only_one TINYINT NOT NULL PRIMARY KEY,
  fence BIGINT NOT NULL
) ENGINE = InnoDB;
INSERT IGNORE INTO holdfast_floor (only_one, fence) VALUES (1, 0);

-- The greatest fence that was seen for each resource, for mysqlFenceGate. Rows stay: they must outlive
-- every earlier holder.
CREATE TABLE IF NOT EXISTS holdfast_fences (
  resource VARBINARY(1024) NOT NULL PRIMARY KEY,
  fence BIGINT NOT NULL
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;
