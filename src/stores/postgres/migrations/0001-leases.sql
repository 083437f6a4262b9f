-- One row for each lock that is in use or was so recently. Every change of a lock is made with this
-- row locked. No statement waits for a row: an operation that finds the row locked answers "busy" and
-- is sent again. Only the name is indexed, and pages keep free space, so that an update stays within
-- its page (HOT) and leaves nothing for VACUUM.
CREATE TABLE holdfast.locks (
  -- No row of this lock in `shares` or `waiters` expires before this.
  ends_at timestamptz NOT NULL DEFAULT 'infinity',
  -- The total weight of the shares.
  weight bigint NOT NULL DEFAULT 0,
  last_position bigint NOT NULL DEFAULT 0,
  -- Observers are notified of every change until then.
  observed_until timestamptz NOT NULL DEFAULT '-infinity',
  -- How many rows there are in `shares` and in `waiters`.
  sharing integer NOT NULL DEFAULT 0,
  waiting integer NOT NULL DEFAULT 0,
  -- How many permits there are; 0 for a mutex or a read-write lock.
  permits integer NOT NULL DEFAULT 0,
  -- The ttl of the last hold. A hold with more time left than this was granted before the server's
  -- clock was set back. A finished `once` is remembered for up to 366 days, which 32 bits of
  -- milliseconds cannot count.
  ttl_ms bigint NOT NULL DEFAULT 0,
  -- The greatest fence that was given for this lock.
  fence bigint NOT NULL,
  -- When the exclusive hold was granted and when it expires. After that the lock is free, even if
  -- this row still names the holder.
  granted_at timestamptz,
  expires_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  name text COLLATE "C" PRIMARY KEY,
  -- The claim that holds the lock exclusively.
  holder text,
  note text NOT NULL DEFAULT ''
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

-- Granted claims that are not exclusive: readers, and users of permits.
CREATE TABLE holdfast.shares (
  name text COLLATE "C" NOT NULL,
  id text COLLATE "C" NOT NULL,
  fence bigint NOT NULL,
  -- 1 for a reader, else the number of permits.
  count integer NOT NULL,
  ttl_ms bigint NOT NULL,
  granted_at timestamptz NOT NULL,
  expires_at timestamptz NOT NULL,
  note text NOT NULL,
  PRIMARY KEY (name, id)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

-- The queue: claims that wait, in the order of their positions.
CREATE TABLE holdfast.waiters (
  name text COLLATE "C" NOT NULL,
  position bigint NOT NULL,
  id text COLLATE "C" NOT NULL,
  -- 0 for a writer, 1 for a reader, else the number of permits.
  count integer NOT NULL,
  expires_at timestamptz NOT NULL,
  note text NOT NULL,
  -- The channel that its process listens to. Null: the waiter asks again by itself.
  channel text,
  -- When it was woken because it can be granted.
  woken_at timestamptz,
  PRIMARY KEY (name, position),
  UNIQUE (name, id)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

-- Channels that are notified of every change of a lock.
CREATE TABLE holdfast.observers (
  name text COLLATE "C" NOT NULL,
  channel text NOT NULL,
  until timestamptz NOT NULL,
  PRIMARY KEY (name, channel)
);

-- No deleted row of `locks` had a greater fence than this, so new rows start above it. When the
-- tables were emptied and this row is missing, the fences of new rows start at the time.
CREATE TABLE holdfast.floor (
  fence bigint NOT NULL,
  only_one boolean PRIMARY KEY DEFAULT true CHECK (only_one)
);
INSERT INTO holdfast.floor (fence) VALUES (0);

-- Constants, as functions that the planner inlines.

-- How long a woken waiter has to claim the lock before the next one is woken.
CREATE FUNCTION holdfast.claim_limit() RETURNS interval
LANGUAGE sql IMMUTABLE AS $$ SELECT interval '5 seconds' $$;

-- How long a waiter keeps its queue position without asking again. The server cannot tell whether a
-- waiter without a channel is alive, so such a waiter has to ask more often.
CREATE FUNCTION holdfast.waiter_life(p_channel text) RETURNS interval
LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN p_channel IS NULL THEN interval '40 seconds' ELSE interval '120 seconds' END
$$;

-- A waiter whose process does not listen is removed unless it asks again within this time. Its
-- process may be reconnecting.
CREATE FUNCTION holdfast.reconnect_limit() RETURNS interval
LANGUAGE sql IMMUTABLE AS $$ SELECT interval '10 seconds' $$;

-- Behind the last position of every queue.
CREATE FUNCTION holdfast.end_of_queue() RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$ SELECT 9223372036854775807 $$;

-- The keys of three advisory locks, which no statement waits for. A process holds the lock of its
-- channel while it listens (`CHANNEL_SALT` of listening-connection.ts).
CREATE FUNCTION holdfast.channel_lock(p_channel text) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$ SELECT hashtextextended(p_channel, 4701) $$;
-- A statement holds this one while it creates the row of a lock.
CREATE FUNCTION holdfast.new_row_lock(p_name text) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$ SELECT hashtextextended(p_name, 4702) $$;
-- A statement holds this one while it deletes unused rows or dead waiters.
CREATE FUNCTION holdfast.cleaning_lock() RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$ SELECT hashtextextended('prune', 4703) $$;

-- The weight of a claim, and the capacity of a lock. A writer weighs everything, a reader one.
CREATE FUNCTION holdfast.weight_of(p_count integer) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$ SELECT CASE p_count WHEN 0 THEN 2147483648 ELSE p_count::bigint END $$;

CREATE FUNCTION holdfast.capacity_of(p_permits integer) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$ SELECT CASE p_permits WHEN 0 THEN 2147483648 ELSE p_permits::bigint END $$;

CREATE FUNCTION holdfast.ms(p_ms bigint) RETURNS interval
LANGUAGE sql IMMUTABLE AS $$ SELECT p_ms * interval '1 millisecond' $$;

CREATE FUNCTION holdfast.ms_until(p_at timestamptz, p_now timestamptz) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$ SELECT ceil(date_part('epoch', p_at - p_now) * 1000)::bigint $$;

-- A hybrid logical clock: greater than the last fence and than all fences that the process has seen,
-- and at least the server's time in µs.
CREATE FUNCTION holdfast.next_fence(p_last bigint, p_above bigint, p_now timestamptz) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$
  SELECT greatest(p_last + 1, p_above + 1, (date_part('epoch', p_now) * 1000000)::bigint)
$$;

CREATE FUNCTION holdfast.notify_observers(p_name text, p_now timestamptz) RETURNS void
LANGUAGE sql AS $$
  SELECT pg_notify(o.channel, 'o' || p_name) FROM holdfast.observers o
    WHERE o.name = p_name AND o.until > p_now
$$;
