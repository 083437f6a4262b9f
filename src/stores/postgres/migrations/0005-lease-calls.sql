-- The operations of one tick, in one statement. Each character of `p_ops` is one operation: `c`
-- claim, `w` claim and wait, `r` renew, `d` release. The answers are joined by commas, in order.
-- Arrays that are not needed may be null.
CREATE FUNCTION holdfast.batch(
  p_ops text, p_names text[], p_ids text[], p_ttl_ms bigint[], p_counts integer[], p_permits integer[],
  p_notes text[], p_fence_above bigint, p_queue_max integer, p_channel text
) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
  v_answers text := '';
  v_answer text;
  v_op text;
  v_new integer := 0;
BEGIN
  FOR i IN 1..length(p_ops) LOOP
    v_op := substr(p_ops, i, 1);
    -- Creating a row, or finding none, takes an advisory lock, and the server has room for 64 locks
    -- for each connection.
    IF v_new >= 50 AND v_op <> 'r'
      AND NOT EXISTS (SELECT FROM holdfast.locks l WHERE l.name = p_names[i]) THEN
      v_answer := 'b';
    ELSIF v_op = 'r' THEN
      v_answer := holdfast.renew_one(p_names[i], p_ids[i], p_ttl_ms[i], p_notes[i]);
    ELSIF v_op = 'd' THEN
      v_answer := holdfast.release_one(p_names[i], p_ids[i]);
      IF v_answer = '0' THEN v_new := v_new + 1; END IF;
    ELSE
      v_answer := holdfast.claim_one(p_names[i], p_ids[i], p_ttl_ms[i], v_op = 'w', coalesce(p_counts[i], 0),
        coalesce(p_permits[i], 0), coalesce(p_notes[i], ''), p_fence_above, p_queue_max, p_channel);
      IF v_answer ~ '^n' THEN v_new := v_new + 1; END IF;
    END IF;
    v_answers := v_answers || CASE i WHEN 1 THEN '' ELSE ',' END || v_answer;
  END LOOP;
  RETURN v_answers;
END $$;

-- The same, for a connection without the settings of connection-pool.ts.
CREATE FUNCTION holdfast.batch_anywhere(
  p_ops text, p_names text[], p_ids text[], p_ttl_ms bigint[], p_counts integer[], p_permits integer[],
  p_notes text[], p_fence_above bigint, p_queue_max integer, p_channel text
) RETURNS text
LANGUAGE plpgsql
-- A plan that was made while a table was small must be good when the table has grown. Without
-- sequential scans, a table of one row seems so expensive to read that the server would compile the
-- query, which takes seconds: so jit is off.
SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan SET jit = off
AS $$
BEGIN
  -- A crash of the server must not undo a grant.
  IF current_setting('synchronous_commit') = 'off' THEN
    PERFORM set_config('synchronous_commit', 'on', true);
  END IF;
  RETURN holdfast.batch(p_ops, p_names, p_ids, p_ttl_ms, p_counts, p_permits, p_notes, p_fence_above,
    p_queue_max, p_channel);
END $$;

-- 366 days.
CREATE FUNCTION holdfast.ttl_max_ms() RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$ SELECT 31622400000 $$;

-- One claim, for other languages and for psql. `count` and `permits`: 0, 0 exclusive; 1, 0 shared;
-- else `count` of `permits`. A client that waits calls again with the same id, after
-- `retry_after_ms` or sooner.
CREATE FUNCTION holdfast.claim(
  name text, id text, ttl_ms bigint DEFAULT 30000, wait boolean DEFAULT false, count integer DEFAULT 0,
  permits integer DEFAULT 0, note text DEFAULT '', fence_above bigint DEFAULT 0,
  OUT granted boolean, OUT fence bigint, OUT retry_after_ms integer
) LANGUAGE plpgsql AS $$
DECLARE
  v_answer text;
BEGIN
  IF coalesce(name, '') = '' OR coalesce(id, '') = ''
    OR ttl_ms IS NULL OR ttl_ms NOT BETWEEN 1 AND holdfast.ttl_max_ms() THEN
    RAISE EXCEPTION 'a claim needs a name, an id and a ttl_ms from 1 to %', holdfast.ttl_max_ms()
      USING ERRCODE = '22023';
  END IF;
  IF permits < 0 OR count < 0 OR count > greatest(permits, 1) OR (permits > 0 AND count = 0) THEN
    RAISE EXCEPTION 'count, permits must be 0, 0, or 1, 0, or at least 1 of so many'
      USING ERRCODE = '22023';
  END IF;
  -- 2^62. Later fences are greater, also those of other locks once the row of this lock was deleted,
  -- so some numbers must be left.
  IF fence_above > 4611686018427387904 THEN
    RAISE EXCEPTION 'no fence above % can be given', fence_above USING ERRCODE = '22003';
  END IF;
  FOR i IN 1..100 LOOP
    v_answer := holdfast.batch_anywhere(CASE WHEN wait THEN 'w' ELSE 'c' END, ARRAY[name], ARRAY[id],
      ARRAY[ttl_ms], ARRAY[count], ARRAY[permits], ARRAY[note], fence_above, 10000, NULL);
    EXIT WHEN v_answer <> 'b';
    PERFORM pg_sleep(0.002 + random() * 0.008);
  END LOOP;
  IF v_answer = 'l' THEN RAISE EXCEPTION 'the queue of lock % is full', name USING ERRCODE = 'HF003'; END IF;
  IF v_answer LIKE 'm%' THEN
    RAISE EXCEPTION 'lock % is in use with another mode', name USING ERRCODE = 'HF004';
  END IF;
  granted := v_answer ~ '^[gn]';
  IF granted THEN
    fence := substr(v_answer, 2)::bigint;
  ELSE
    retry_after_ms := least(CASE v_answer WHEN 'b' THEN 10 ELSE substr(v_answer, 2)::bigint END, 2000);
  END IF;
END $$;

-- Renews a hold for `ttl_ms` from now on. Whether it is still held. A null note leaves the note alone.
CREATE FUNCTION holdfast.renew(name text, id text, ttl_ms bigint DEFAULT 30000, note text DEFAULT NULL)
RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  v_answer text;
BEGIN
  FOR i IN 1..100 LOOP
    v_answer := holdfast.batch_anywhere('r', ARRAY[name], ARRAY[id], ARRAY[ttl_ms], NULL, NULL, ARRAY[note],
      0, 0, NULL);
    IF v_answer <> 'b' THEN RETURN v_answer = '1'; END IF;
    PERFORM pg_sleep(0.002 + random() * 0.008);
  END LOOP;
  RAISE EXCEPTION 'lock % is busy: it is not known whether it is held', name USING ERRCODE = '55P03';
END $$;

-- Releases a hold or a queue position. Whether there was one.
CREATE FUNCTION holdfast.release(name text, id text) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
  v_answer text;
BEGIN
  FOR i IN 1..100 LOOP
    v_answer := holdfast.batch_anywhere('d', ARRAY[name], ARRAY[id], ARRAY[0], NULL, NULL, NULL, 0, 0, NULL);
    IF v_answer <> 'b' THEN RETURN v_answer <> '0'; END IF;
    PERFORM pg_sleep(0.002 + random() * 0.008);
  END LOOP;
  RAISE EXCEPTION 'lock % is busy: it was not released', name USING ERRCODE = '55P03';
END $$;

-- The claims that hold the lock, and then those that wait for it, in order.
CREATE FUNCTION holdfast.read(lock_name text) RETURNS TABLE (
  id text, granted boolean, count integer, permits integer, fence bigint, held_for_ms bigint,
  expires_in_ms bigint, note text
) LANGUAGE sql STABLE AS $$
  WITH now AS (SELECT clock_timestamp() AS at),
    lock AS (SELECT l.*, now.at FROM holdfast.locks l, now WHERE l.name = lock_name)
  SELECT c.id, c.granted, c.count, c.permits, c.fence,
    CASE WHEN c.granted THEN greatest(extract(epoch FROM c.at - c.granted_at) * 1000, 0) END::bigint,
    (extract(epoch FROM c.expires_at - c.at) * 1000)::bigint, c.note
  FROM (
    SELECT l.holder AS id, true AS granted, 0 AS count, l.permits, l.fence, l.granted_at,
      least(l.expires_at, l.at + holdfast.ms(l.ttl_ms)) AS expires_at, l.note, l.at,
      0 AS part, 0::bigint AS rank
      FROM lock l WHERE l.holder IS NOT NULL
    UNION ALL
    SELECT s.id, true, s.count, l.permits, s.fence, s.granted_at,
      least(s.expires_at, l.at + holdfast.ms(s.ttl_ms)), s.note, l.at, 1, s.fence
      FROM lock l JOIN holdfast.shares s ON s.name = l.name
    UNION ALL
    SELECT w.id, false, w.count, l.permits, NULL, NULL, w.expires_at, w.note, l.at, 2, w.position
      FROM lock l JOIN holdfast.waiters w ON w.name = l.name
  ) c
  WHERE c.expires_at > c.at ORDER BY c.part, c.rank
$$;

-- The names of locks with a holder or a waiter that begin with `prefix`, in order, after `after`.
CREATE FUNCTION holdfast.list(
  prefix text DEFAULT '', after text DEFAULT '', page integer DEFAULT 1000
) RETURNS SETOF text LANGUAGE sql STABLE AS $$
  SELECT l.name FROM holdfast.locks l
  WHERE l.name > after COLLATE "C" AND l.name >= prefix COLLATE "C" AND left(l.name, length(prefix)) = prefix
    AND ((l.holder IS NOT NULL AND l.expires_at > clock_timestamp())
      OR (l.sharing > 0 AND EXISTS (
        SELECT FROM holdfast.shares s WHERE s.name = l.name AND s.expires_at > clock_timestamp()))
      OR (l.waiting > 0 AND EXISTS (
        SELECT FROM holdfast.waiters w WHERE w.name = l.name AND w.expires_at > clock_timestamp())))
  ORDER BY l.name LIMIT page
$$;

-- Notifies every change of the lock on that channel for `for_ms`; 0 ends that. False: the row is busy,
-- ask again.
CREATE FUNCTION holdfast.observe(lock_name text, on_channel text, for_ms integer) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
  v_now timestamptz := clock_timestamp();
  v_until timestamptz := v_now + holdfast.ms(for_ms);
BEGIN
  PERFORM 1 FROM holdfast.locks l WHERE l.name = lock_name FOR UPDATE SKIP LOCKED;
  IF NOT FOUND THEN
    IF NOT pg_try_advisory_xact_lock(holdfast.new_row_lock(lock_name)) THEN RETURN false; END IF;
    PERFORM 1 FROM holdfast.locks l WHERE l.name = lock_name;
    IF FOUND THEN RETURN false; END IF;
    IF for_ms <= 0 THEN RETURN true; END IF;
    INSERT INTO holdfast.locks (name, fence)
      SELECT lock_name, f.fence FROM (SELECT coalesce(max(fence), 0) AS fence FROM holdfast.floor) f;
  END IF;
  DELETE FROM holdfast.observers o WHERE o.name = lock_name AND (o.until <= v_now OR o.channel = on_channel);
  IF for_ms > 0 THEN INSERT INTO holdfast.observers VALUES (lock_name, on_channel, v_until); END IF;
  UPDATE holdfast.locks l
    SET observed_until = coalesce(
      (SELECT max(o.until) FROM holdfast.observers o WHERE o.name = lock_name), '-infinity')
    WHERE l.name = lock_name;
  RETURN true;
END $$;

-- Deletes the rows of locks that were not used for `idle_ms`, and raises the floor above their fences
-- in the same transaction. Returns how many.
CREATE FUNCTION holdfast.prune(idle_ms integer DEFAULT 250, at_most integer DEFAULT 5000)
RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
  v_now timestamptz := clock_timestamp();
  v_before timestamptz := v_now - holdfast.ms(idle_ms);
  v_lock holdfast.locks;
  v_pruned integer;
  v_fence bigint;
BEGIN
  -- One statement at a time: a second one would wait for the floor.
  IF NOT pg_try_advisory_xact_lock(holdfast.cleaning_lock()) THEN RETURN 0; END IF;
  FOR v_lock IN SELECT * FROM holdfast.locks l
    WHERE l.ends_at < v_before LIMIT 200 FOR UPDATE SKIP LOCKED LOOP
    PERFORM holdfast.remove_expired(v_lock, v_now);
  END LOOP;
  WITH idle AS (
    SELECT l.name FROM holdfast.locks l
      WHERE l.expires_at < v_before AND l.sharing = 0 AND l.waiting = 0 AND l.observed_until < v_now
      LIMIT at_most FOR UPDATE SKIP LOCKED
  ), gone AS (
    DELETE FROM holdfast.locks l USING idle WHERE l.name = idle.name RETURNING l.name, l.fence
  ), unobserved AS (
    -- An observer that is alive has registered again in time. Its row changes only while the lock's
    -- row is locked.
    DELETE FROM holdfast.observers o USING gone WHERE o.name = gone.name
  )
  SELECT count(*), max(gone.fence) INTO v_pruned, v_fence FROM gone;
  IF v_pruned > 0 THEN UPDATE holdfast.floor f SET fence = greatest(f.fence, v_fence); END IF;
  RETURN v_pruned;
END $$;

-- Removes the waiters of dead processes. A waiter whose process does not listen has the reconnect limit
-- to ask again, and the next call after that removes it. Returns how many locks have or had such
-- waiters.
CREATE FUNCTION holdfast.remove_dead_waiters() RETURNS integer
LANGUAGE plpgsql AS $$
DECLARE
  v_now timestamptz := clock_timestamp();
  v_ends timestamptz := v_now + holdfast.reconnect_limit();
  v_dead text[];
  v_lock holdfast.locks;
  v_locks integer := 0;
BEGIN
  IF NOT pg_try_advisory_xact_lock(holdfast.cleaning_lock()) THEN RETURN 0; END IF;
  -- Each advisory lock that is taken here is held until the end, and the server has room for 64 locks
  -- for each connection.
  SELECT array_agg(d.channel) INTO v_dead FROM (
    SELECT c.channel FROM (SELECT DISTINCT w.channel FROM holdfast.waiters w WHERE w.channel IS NOT NULL) c
      WHERE pg_try_advisory_xact_lock_shared(holdfast.channel_lock(c.channel)) LIMIT 50
  ) d;
  FOR v_lock IN SELECT * FROM holdfast.locks l
    WHERE l.name IN (
      SELECT w.name FROM holdfast.waiters w WHERE w.expires_at <= v_now OR w.channel = ANY (v_dead) LIMIT 200
    ) FOR UPDATE SKIP LOCKED LOOP
    UPDATE holdfast.waiters w SET expires_at = v_ends
      WHERE w.name = v_lock.name AND w.channel = ANY (v_dead) AND w.expires_at > v_ends;
    v_lock := holdfast.remove_expired(v_lock, v_now);
    IF v_lock.waiting > 0 AND (v_lock.holder IS NULL OR v_lock.expires_at <= v_now) THEN
      PERFORM holdfast.wake_next(v_lock, v_now, holdfast.end_of_queue());
    END IF;
    v_locks := v_locks + 1;
  END LOOP;
  RETURN v_locks;
END $$;
