-- What is asked in one moment, in one statement. Each character of `p_ops` is one operation: `c` claim, `w` claim and wait, `r` renew, `d` release. The answers are joined by commas, in order.
-- Arrays that nobody needs may be null.
CREATE FUNCTION holdfast.batch(
  p_ops text, p_names text[], p_ids text[], p_ttl_ms integer[], p_counts integer[], p_permits integer[],
  p_notes text[], p_fence_above bigint, p_line_max integer, p_channel text
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
    -- Making a row, or finding none, takes an advisory lock, and the server has room for 64 locks for each connection.
    IF v_new >= 50 AND v_op <> 'r' AND NOT EXISTS (SELECT FROM holdfast.locks l WHERE l.name = p_names[i]) THEN
      v_answer := 'b';
    ELSIF v_op = 'r' THEN
      v_answer := holdfast.renew_one(p_names[i], p_ids[i], p_ttl_ms[i], p_notes[i]);
    ELSIF v_op = 'd' THEN
      v_answer := holdfast.release_one(p_names[i], p_ids[i]);
      IF v_answer = '0' THEN v_new := v_new + 1; END IF;
    ELSE
      v_answer := holdfast.claim_one(p_names[i], p_ids[i], p_ttl_ms[i], v_op = 'w', coalesce(p_counts[i], 0), coalesce(p_permits[i], 0),
        coalesce(p_notes[i], ''), p_fence_above, p_line_max, p_channel);
      IF v_answer ~ '^n' THEN v_new := v_new + 1; END IF;
    END IF;
    v_answers := v_answers || CASE i WHEN 1 THEN '' ELSE ',' END || v_answer;
  END LOOP;
  RETURN v_answers;
END $$;

-- The same, on a connection that is not set up for it.
CREATE FUNCTION holdfast.batch_anywhere(
  p_ops text, p_names text[], p_ids text[], p_ttl_ms integer[], p_counts integer[], p_permits integer[],
  p_notes text[], p_fence_above bigint, p_line_max integer, p_channel text
) RETURNS text
LANGUAGE plpgsql
-- A plan that was made while a table was small must do when it is not. What must be read in sequence all the same, as a table of one row, then seems so dear that it would be compiled: for seconds.
SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan SET jit = off
AS $$
BEGIN
  -- A grant that a crash of the server can undo is none.
  IF current_setting('synchronous_commit') = 'off' THEN PERFORM set_config('synchronous_commit', 'on', true); END IF;
  RETURN holdfast.batch(p_ops, p_names, p_ids, p_ttl_ms, p_counts, p_permits, p_notes, p_fence_above, p_line_max, p_channel);
END $$;

-- For other languages, and for people: one claim. `count` and `permits`: 0, 0 exclusive; 1, 0 shared; else so many of so many permits. Who waits asks again, with the same id, after
-- `retry_after_ms` or sooner, and within five seconds of when the lock becomes free.
CREATE FUNCTION holdfast.claim(
  name text, id text, ttl_ms integer DEFAULT 30000, wait boolean DEFAULT false, count integer DEFAULT 0,
  permits integer DEFAULT 0, note text DEFAULT '', fence_above bigint DEFAULT 0,
  OUT granted boolean, OUT fence bigint, OUT retry_after_ms integer
) LANGUAGE plpgsql AS $$
DECLARE
  v_answer text;
BEGIN
  IF coalesce(name, '') = '' OR coalesce(id, '') = '' OR ttl_ms IS NULL OR ttl_ms NOT BETWEEN 1 AND 86400000 THEN
    RAISE EXCEPTION 'a claim needs a name, an id and a ttl_ms from 1 to 86400000' USING ERRCODE = '22023';
  END IF;
  IF permits < 0 OR count < 0 OR count > greatest(permits, 1) OR (permits > 0 AND count = 0) THEN
    RAISE EXCEPTION 'count, permits must be 0, 0 or 1, 0 or some of so many' USING ERRCODE = '22023';
  END IF;
  -- Fences go on above it, those of every lock once this one is pruned, and there must be some left.
  IF fence_above > 4611686018427387904 THEN
    RAISE EXCEPTION 'no fence above % can be given', fence_above USING ERRCODE = '22003';
  END IF;
  FOR i IN 1..100 LOOP
    v_answer := holdfast.batch_anywhere(CASE WHEN wait THEN 'w' ELSE 'c' END, ARRAY[name], ARRAY[id], ARRAY[ttl_ms], ARRAY[count], ARRAY[permits],
      ARRAY[note], fence_above, 10000, NULL);
    EXIT WHEN v_answer <> 'b';
    PERFORM pg_sleep(0.002 + random() * 0.008);
  END LOOP;
  IF v_answer = 'l' THEN RAISE EXCEPTION 'the line of lock % is full', name USING ERRCODE = 'HF003'; END IF;
  IF v_answer LIKE 'm%' THEN RAISE EXCEPTION 'lock % is in use with another mode', name USING ERRCODE = 'HF004'; END IF;
  granted := v_answer ~ '^[gn]';
  IF granted THEN
    fence := substr(v_answer, 2)::bigint;
  ELSE
    retry_after_ms := least(CASE v_answer WHEN 'b' THEN 10 ELSE substr(v_answer, 2)::bigint END, 2000);
  END IF;
END $$;

-- Whether it is still held; then for so long from now on. A note of null leaves the note alone.
CREATE FUNCTION holdfast.renew(name text, id text, ttl_ms integer DEFAULT 30000, note text DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
  v_answer text;
BEGIN
  FOR i IN 1..100 LOOP
    v_answer := holdfast.batch_anywhere('r', ARRAY[name], ARRAY[id], ARRAY[ttl_ms], NULL, NULL, ARRAY[note], 0, 0, NULL);
    IF v_answer <> 'b' THEN RETURN v_answer = '1'; END IF;
    PERFORM pg_sleep(0.002 + random() * 0.008);
  END LOOP;
  RAISE EXCEPTION 'lock % is busy: it is not known whether it is held', name USING ERRCODE = '55P03';
END $$;

-- Gives up a hold or a place in line. Whether there was one.
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

-- Who holds the lock, and then who waits for it, in order.
CREATE FUNCTION holdfast.read(lock_name text) RETURNS TABLE (
  id text, granted boolean, count integer, permits integer, fence bigint, held_for_ms bigint, expires_in_ms bigint, note text
) LANGUAGE sql STABLE AS $$
  WITH now AS (SELECT clock_timestamp() AS at), lock AS (SELECT l.*, now.at FROM holdfast.locks l, now WHERE l.name = lock_name)
  SELECT c.id, c.granted, c.count, c.permits, c.fence,
    CASE WHEN c.granted THEN greatest(extract(epoch FROM c.at - c.granted_at) * 1000, 0) END::bigint, (extract(epoch FROM c.expires_at - c.at) * 1000)::bigint, c.note
  FROM (
    SELECT l.holder AS id, true AS granted, 0 AS count, l.permits, l.fence, l.granted_at, least(l.expires_at, l.at + l.ttl_ms * interval '1 millisecond') AS expires_at, l.note, l.at, 0 AS part, 0::bigint AS rank
      FROM lock l WHERE l.holder IS NOT NULL
    UNION ALL
    SELECT s.id, true, s.count, l.permits, s.fence, s.granted_at, least(s.expires_at, l.at + s.ttl_ms * interval '1 millisecond'), s.note, l.at, 1, s.fence
      FROM lock l JOIN holdfast.shares s ON s.name = l.name
    UNION ALL
    SELECT p.id, false, p.count, l.permits, NULL, NULL, p.expires_at, p.note, l.at, 2, p.place
      FROM lock l JOIN holdfast.places p ON p.name = l.name
  ) c
  WHERE c.expires_at > c.at ORDER BY c.part, c.rank
$$;

-- Names of locks that somebody holds or waits for: those that begin so, in order, after that one.
CREATE FUNCTION holdfast.list(prefix text DEFAULT '', after text DEFAULT '', page integer DEFAULT 1000) RETURNS SETOF text
LANGUAGE sql STABLE AS $$
  SELECT l.name FROM holdfast.locks l
  WHERE l.name > after COLLATE "C" AND l.name >= prefix COLLATE "C" AND left(l.name, length(prefix)) = prefix
    AND ((l.holder IS NOT NULL AND l.expires_at > clock_timestamp())
      OR (l.sharing > 0 AND EXISTS (SELECT FROM holdfast.shares s WHERE s.name = l.name AND s.expires_at > clock_timestamp()))
      OR (l.waiting > 0 AND EXISTS (SELECT FROM holdfast.places p WHERE p.name = l.name AND p.expires_at > clock_timestamp())))
  ORDER BY l.name LIMIT page
$$;

-- Asks to be told, on that channel and for so long, of every change of the lock. False: busy, ask again.
CREATE FUNCTION holdfast.observe(lock_name text, on_channel text, for_ms integer) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
  v_now timestamptz := clock_timestamp();
  v_until timestamptz := v_now + for_ms * interval '1 millisecond';
BEGIN
  PERFORM 1 FROM holdfast.locks l WHERE l.name = lock_name FOR UPDATE SKIP LOCKED;
  IF NOT FOUND THEN
    IF NOT pg_try_advisory_xact_lock(hashtextextended(lock_name, 4702)) THEN RETURN false; END IF;
    PERFORM 1 FROM holdfast.locks l WHERE l.name = lock_name;
    IF FOUND THEN RETURN false; END IF;
    IF for_ms <= 0 THEN RETURN true; END IF;
    INSERT INTO holdfast.locks (name, fence) SELECT lock_name, f.fence FROM (SELECT coalesce(max(fence), 0) AS fence FROM holdfast.floor) f;
  END IF;
  DELETE FROM holdfast.observers o WHERE o.name = lock_name AND (o.until <= v_now OR o.channel = on_channel);
  IF for_ms > 0 THEN INSERT INTO holdfast.observers VALUES (lock_name, on_channel, v_until); END IF;
  UPDATE holdfast.locks l
    SET observed_until = coalesce((SELECT max(o.until) FROM holdfast.observers o WHERE o.name = lock_name), '-infinity')
    WHERE l.name = lock_name;
  RETURN true;
END $$;

-- Deletes the rows of locks that nobody has used for a while, and raises the floor above their fences in the same step. Gives how many.
CREATE FUNCTION holdfast.prune(idle_ms integer DEFAULT 250, at_most integer DEFAULT 5000) RETURNS integer
LANGUAGE plpgsql AS $$
DECLARE
  v_now timestamptz := clock_timestamp();
  v_before timestamptz := v_now - idle_ms * interval '1 millisecond';
  v_lock holdfast.locks;
  v_pruned integer;
  v_fence bigint;
BEGIN
  -- One at a time: another one's floor would have to be waited for.
  IF NOT pg_try_advisory_xact_lock(hashtextextended('prune', 4703)) THEN RETURN 0; END IF;
  FOR v_lock IN SELECT * FROM holdfast.locks l WHERE l.ends_at < v_before LIMIT 200 FOR UPDATE SKIP LOCKED LOOP
    PERFORM holdfast.sweep(v_lock, v_now);
  END LOOP;
  WITH idle AS (
    SELECT l.name FROM holdfast.locks l
      WHERE l.expires_at < v_before AND l.sharing = 0 AND l.waiting = 0 AND l.observed_until < v_now
      LIMIT at_most FOR UPDATE SKIP LOCKED
  ), gone AS (
    DELETE FROM holdfast.locks l USING idle WHERE l.name = idle.name RETURNING l.name, l.fence
  ), unobserved AS (
    -- Who observes has asked for it again in time; who died has not. They are changed only under the lock's row.
    DELETE FROM holdfast.observers o USING gone WHERE o.name = gone.name
  )
  SELECT count(*), max(gone.fence) INTO v_pruned, v_fence FROM gone;
  IF v_pruned > 0 THEN UPDATE holdfast.floor f SET fence = greatest(f.fence, v_fence); END IF;
  RETURN v_pruned;
END $$;
