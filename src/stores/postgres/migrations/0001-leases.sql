-- Which of these files have been applied. Each of them is run once, in order, in one transaction.
CREATE TABLE holdfast.migrations (
  id integer PRIMARY KEY,
  name text NOT NULL,
  applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- One row for each lock that is in use or was so lately. Whoever changes anything of a lock has this row locked, and nobody waits for
-- a row: who finds it locked is told so and asks again. Only the name is indexed and pages keep room, so that every change of a row stays within its page and
-- leaves nothing for VACUUM.
CREATE TABLE holdfast.locks (
  -- None of its rows in `shares` and `places` ends before this; how many there are of each, and what the shares weigh together.
  ends_at timestamptz NOT NULL DEFAULT 'infinity',
  weight bigint NOT NULL DEFAULT 0,
  last_place bigint NOT NULL DEFAULT 0,
  -- Until when somebody wants to be told of every change.
  observed_until timestamptz NOT NULL DEFAULT '-infinity',
  sharing integer NOT NULL DEFAULT 0,
  waiting integer NOT NULL DEFAULT 0,
  -- How many permits there are; 0 for a mutex or a read-write lock.
  permits integer NOT NULL DEFAULT 0,
  -- For how long the last hold was asked for. Who has more than that left was given it before the server's clock was set back.
  ttl_ms integer NOT NULL DEFAULT 0,
  -- The greatest fence that was given for it.
  fence bigint NOT NULL,
  -- When a hold was granted and when it ends; it is over when its time is, whether or not anybody has said so.
  granted_at timestamptz,
  expires_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  name text COLLATE "C" PRIMARY KEY,
  -- Who holds it alone.
  holder text,
  note text NOT NULL DEFAULT ''
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

-- Claims that hold beside others: readers, and users of permits.
CREATE TABLE holdfast.shares (
  name text COLLATE "C" NOT NULL,
  id text COLLATE "C" NOT NULL,
  fence bigint NOT NULL,
  -- 1 for a reader, else the number of permits.
  count integer NOT NULL,
  ttl_ms integer NOT NULL,
  granted_at timestamptz NOT NULL,
  expires_at timestamptz NOT NULL,
  note text NOT NULL,
  PRIMARY KEY (name, id)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

-- Claims that wait, in the order of their places.
CREATE TABLE holdfast.places (
  name text COLLATE "C" NOT NULL,
  place bigint NOT NULL,
  id text COLLATE "C" NOT NULL,
  -- 0 for a writer, 1 for a reader, else the number of permits.
  count integer NOT NULL,
  expires_at timestamptz NOT NULL,
  note text NOT NULL,
  -- Where its process listens; null: nowhere, it asks by itself.
  channel text,
  -- When it was told that it fits.
  called_at timestamptz,
  PRIMARY KEY (name, place),
  UNIQUE (name, id)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

-- Who wants to hear of every change of a lock.
CREATE TABLE holdfast.observers (
  name text COLLATE "C" NOT NULL,
  channel text NOT NULL,
  until timestamptz NOT NULL,
  PRIMARY KEY (name, channel)
);

-- No fence of a row that was pruned is greater than this, so a row that is made again begins above it. Without its row, where somebody has emptied all tables, nothing of
-- the past is known, and the clock alone goes on.
CREATE TABLE holdfast.floor (
  fence bigint NOT NULL,
  only_one boolean PRIMARY KEY DEFAULT true CHECK (only_one)
);
INSERT INTO holdfast.floor (fence) VALUES (0);

-- What a claim weighs, and how much fits: a writer weighs everything, a reader one.
CREATE FUNCTION holdfast.weight_of(p_count integer) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$ SELECT CASE p_count WHEN 0 THEN 2147483648 ELSE p_count::bigint END $$;

CREATE FUNCTION holdfast.capacity_of(p_permits integer) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$ SELECT CASE p_permits WHEN 0 THEN 2147483648 ELSE p_permits::bigint END $$;

-- Tells everybody who observes the lock.
CREATE FUNCTION holdfast.tell_observers(p_name text, p_now timestamptz) RETURNS void
LANGUAGE sql AS $$
  SELECT pg_notify(o.channel, 'o' || p_name) FROM holdfast.observers o WHERE o.name = p_name AND o.until > p_now
$$;

-- When a hold ends that has more time left than it asked for: the server's clock was set back, and if its holder is dead, nobody would get the lock for as long. Counted from now, not from when the call
-- began, for its holder may have renewed it since then. The lock's row is locked.
CREATE FUNCTION holdfast.within_ttl(p_expires_at timestamptz, p_ttl_ms integer) RETURNS timestamptz
LANGUAGE sql VOLATILE AS $$ SELECT least(p_expires_at, clock_timestamp() + p_ttl_ms * interval '1 millisecond') $$;

-- Takes away what has run out, and counts again. The lock's row is locked.
CREATE FUNCTION holdfast.sweep(p_lock holdfast.locks, p_now timestamptz) RETURNS holdfast.locks
LANGUAGE plpgsql AS $$
DECLARE
  v_lock holdfast.locks := p_lock;
  v_shares_end timestamptz;
  v_places_end timestamptz;
BEGIN
  DELETE FROM holdfast.shares s WHERE s.name = v_lock.name AND s.expires_at <= p_now;
  UPDATE holdfast.shares s SET expires_at = holdfast.within_ttl(s.expires_at, s.ttl_ms)
    WHERE s.name = v_lock.name AND s.expires_at > p_now + s.ttl_ms * interval '1 millisecond';
  DELETE FROM holdfast.places p WHERE p.name = v_lock.name AND p.expires_at <= p_now;
  SELECT count(*), coalesce(sum(s.count), 0), min(s.expires_at), coalesce(max(s.ttl_ms), v_lock.ttl_ms)
    INTO v_lock.sharing, v_lock.weight, v_shares_end, v_lock.ttl_ms
    FROM holdfast.shares s WHERE s.name = v_lock.name;
  SELECT count(*), min(p.expires_at) INTO v_lock.waiting, v_places_end
    FROM holdfast.places p WHERE p.name = v_lock.name;
  v_lock.ends_at := coalesce(least(v_shares_end, v_places_end), 'infinity');
  UPDATE holdfast.locks l
    SET sharing = v_lock.sharing, weight = v_lock.weight, waiting = v_lock.waiting, ends_at = v_lock.ends_at, ttl_ms = v_lock.ttl_ms
    WHERE l.name = v_lock.name;
  RETURN v_lock;
END $$;

-- Calls those at the front of the line who fit now, and passes over who is dead: whose process does not listen any more, or who has not come within five
-- seconds of being called, or was called before the clock was set back. Looks only at places before `p_until`. The lock's row is locked; nobody holds it alone.
CREATE FUNCTION holdfast.call_next(p_lock holdfast.locks, p_now timestamptz, p_until bigint) RETURNS holdfast.locks
LANGUAGE plpgsql AS $$
DECLARE
  v_lock holdfast.locks := p_lock;
  v_place holdfast.places;
  v_weight bigint := p_lock.weight;
  v_waiting integer := p_lock.waiting;
BEGIN
  FOR v_place IN SELECT * FROM holdfast.places p
    WHERE p.name = p_lock.name AND p.place < p_until ORDER BY p.place LIMIT 200 LOOP
    EXIT WHEN v_weight + holdfast.weight_of(v_place.count) > holdfast.capacity_of(p_lock.permits);
    -- A process that listens holds this lock for as long as its connection lasts. Shared: two who look at once must not take each other for it.
    IF v_place.called_at NOT BETWEEN p_now - interval '5 seconds' AND p_now + interval '5 seconds'
      OR (v_place.channel IS NOT NULL AND pg_try_advisory_xact_lock_shared(hashtextextended(v_place.channel, 4701))) THEN
      DELETE FROM holdfast.places p WHERE p.name = p_lock.name AND p.place = v_place.place;
      v_lock.waiting := v_lock.waiting - 1;
      CONTINUE;
    END IF;
    IF v_place.called_at IS NULL THEN
      UPDATE holdfast.places p SET called_at = p_now WHERE p.name = p_lock.name AND p.place = v_place.place;
      IF v_place.channel IS NOT NULL THEN
        PERFORM pg_notify(v_place.channel, 'g' || p_lock.name || E'\n' || v_place.id);
      END IF;
    END IF;
    v_weight := v_weight + holdfast.weight_of(v_place.count);
  END LOOP;
  IF v_lock.waiting <> v_waiting THEN
    UPDATE holdfast.locks l SET waiting = v_lock.waiting WHERE l.name = p_lock.name;
  END IF;
  RETURN v_lock;
END $$;
