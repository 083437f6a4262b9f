-- One claim. Answers:
--   `g<fence>`            granted
--   `n<fence>`            granted, and the lock's row was created
--   `w<ms>`               refused; the lock may be free after this many ms
--   `b`                   busy: another statement has the row locked; ask again at once
--   `l`                   the queue is full
--   `m<count>/<permits>`  the lock is in use with another mode
CREATE FUNCTION holdfast.claim_one(
  p_name text, p_id text, p_ttl_ms bigint, p_wait boolean, p_count integer, p_permits integer,
  p_note text, p_fence_above bigint, p_queue_max integer, p_channel text
) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
  v_now timestamptz := clock_timestamp();
  v_lock holdfast.locks;
  v_fence bigint;
  v_is_there boolean;
BEGIN
  IF p_count = 0 THEN
    -- The usual case: no other claim.
    UPDATE holdfast.locks l
      SET fence = holdfast.next_fence(l.fence, p_fence_above, v_now), holder = p_id, granted_at = v_now,
        expires_at = v_now + holdfast.ms(p_ttl_ms), ttl_ms = p_ttl_ms, note = p_note, permits = 0
      WHERE l.ctid = (
        SELECT f.ctid FROM holdfast.locks f
          WHERE f.name = p_name AND f.waiting = 0 AND f.sharing = 0 AND f.observed_until < v_now
            AND (f.holder IS NULL OR f.expires_at <= v_now)
          FOR UPDATE SKIP LOCKED
      )
      RETURNING l.fence INTO v_fence;
    IF FOUND THEN RETURN 'g' || v_fence; END IF;
  END IF;
  SELECT * INTO v_lock FROM holdfast.locks l WHERE l.name = p_name;
  v_is_there := FOUND;
  -- A claim that does not wait, or that has asked recently, is refused without a write.
  IF v_is_there AND p_permits = 0 AND v_lock.holder <> p_id AND v_lock.expires_at > v_now
    AND v_lock.expires_at <= v_now + holdfast.ms(v_lock.ttl_ms) THEN
    IF p_wait THEN
      PERFORM 1 FROM holdfast.waiters w WHERE w.name = p_name AND w.id = p_id
        AND w.expires_at > v_now + holdfast.waiter_life(p_channel) - interval '10 seconds'
        AND w.channel IS NOT DISTINCT FROM p_channel AND w.woken_at IS NULL;
    END IF;
    IF NOT p_wait OR FOUND THEN RETURN 'w' || holdfast.ms_until(v_lock.expires_at, v_now); END IF;
  END IF;
  IF v_is_there THEN
    SELECT * INTO v_lock FROM holdfast.locks l WHERE l.name = p_name FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN RETURN 'b'; END IF;
    RETURN holdfast.claim_in_queue(v_lock, v_now, p_id, p_ttl_ms, p_wait, p_count, p_permits, p_note,
      p_fence_above, p_queue_max, p_channel);
  END IF;
  -- Only one statement at a time creates the row of a lock: an insert would wait for another insert of
  -- the same name.
  IF NOT pg_try_advisory_xact_lock(holdfast.new_row_lock(p_name)) THEN RETURN 'b'; END IF;
  PERFORM 1 FROM holdfast.locks l WHERE l.name = p_name;
  IF FOUND THEN RETURN 'b'; END IF;
  IF p_count = 0 THEN
    INSERT INTO holdfast.locks (name, fence, holder, granted_at, expires_at, ttl_ms, note)
      SELECT p_name, holdfast.next_fence(f.fence, p_fence_above, v_now), p_id, v_now,
        v_now + holdfast.ms(p_ttl_ms), p_ttl_ms, p_note
      FROM (SELECT coalesce(max(fence), 0) AS fence FROM holdfast.floor) f
      RETURNING fence INTO v_fence;
    RETURN 'n' || v_fence;
  END IF;
  INSERT INTO holdfast.locks (name, fence)
    SELECT p_name, f.fence FROM (SELECT coalesce(max(fence), 0) AS fence FROM holdfast.floor) f
    RETURNING * INTO v_lock;
  -- The row is new, so there is no other claim.
  RETURN 'n' || substr(holdfast.grant_in_queue(v_lock, v_now, NULL, p_id, p_ttl_ms, p_count, p_permits,
    p_note, p_fence_above), 2);
END $$;

-- One claim, when there may be others. The lock's row exists and is locked.
CREATE FUNCTION holdfast.claim_in_queue(
  p_lock holdfast.locks, p_now timestamptz, p_id text, p_ttl_ms bigint, p_wait boolean, p_count integer,
  p_permits integer, p_note text, p_fence_above bigint, p_queue_max integer, p_channel text
) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
  v_lock holdfast.locks := p_lock;
  v_expires_at timestamptz := p_now + holdfast.ms(p_ttl_ms);
  v_waits_until timestamptz := p_now + holdfast.waiter_life(p_channel);
  v_is_held boolean;
  v_fits boolean;
  v_fence bigint;
  v_position bigint;
  v_ahead holdfast.waiters;
  v_weight bigint;
  -- When the first waiter ahead that was woken has to have claimed the lock.
  v_turn_ends_at timestamptz;
  v_ends_at timestamptz;
BEGIN
  IF v_lock.ends_at <= p_now
    OR (v_lock.sharing > 0 AND v_lock.ends_at > p_now + holdfast.ms(v_lock.ttl_ms)) THEN
    v_lock := holdfast.remove_expired(v_lock, p_now);
  END IF;
  IF v_lock.holder <> p_id AND v_lock.expires_at > p_now + holdfast.ms(v_lock.ttl_ms) THEN
    v_lock.expires_at := holdfast.within_ttl(v_lock.expires_at, v_lock.ttl_ms);
    UPDATE holdfast.locks l SET expires_at = v_lock.expires_at WHERE l.name = v_lock.name;
  END IF;
  v_is_held := v_lock.holder IS NOT NULL AND v_lock.expires_at > p_now;
  -- The holder asks again.
  IF v_is_held AND v_lock.holder = p_id THEN
    UPDATE holdfast.locks l SET expires_at = v_expires_at, ttl_ms = p_ttl_ms WHERE l.name = v_lock.name;
    RETURN 'g' || v_lock.fence;
  END IF;
  IF v_lock.sharing > 0 THEN
    UPDATE holdfast.shares s SET expires_at = v_expires_at, ttl_ms = p_ttl_ms
      WHERE s.name = v_lock.name AND s.id = p_id RETURNING s.fence INTO v_fence;
    IF FOUND THEN
      IF v_expires_at < v_lock.ends_at THEN
        UPDATE holdfast.locks l SET ends_at = v_expires_at WHERE l.name = v_lock.name;
      END IF;
      RETURN 'g' || v_fence;
    END IF;
  END IF;
  IF v_lock.permits <> p_permits AND (v_is_held OR v_lock.sharing > 0 OR v_lock.waiting > 0) THEN
    RETURN 'm' || CASE WHEN v_is_held THEN 0 ELSE 1 END || '/' || v_lock.permits;
  END IF;
  v_lock.permits := p_permits;
  IF v_lock.waiting > 0 THEN
    SELECT w.position INTO v_position FROM holdfast.waiters w WHERE w.name = v_lock.name AND w.id = p_id;
  END IF;
  -- The grant rule: a claim is granted when it and everything ahead of it fit.
  v_weight := v_lock.weight + holdfast.weight_of(p_count);
  v_fits := NOT v_is_held AND v_weight <= holdfast.capacity_of(p_permits);
  IF v_lock.waiting > 0 AND NOT v_is_held THEN
    v_lock := holdfast.wake_next(v_lock, p_now, coalesce(v_position, holdfast.end_of_queue()));
    FOR v_ahead IN SELECT * FROM holdfast.waiters w
      WHERE w.name = v_lock.name AND w.position < coalesce(v_position, holdfast.end_of_queue())
      ORDER BY w.position LOOP
      v_turn_ends_at := least(v_turn_ends_at, v_ahead.woken_at + holdfast.claim_limit());
      EXIT WHEN NOT v_fits;
      v_weight := v_weight + holdfast.weight_of(v_ahead.count);
      v_fits := v_weight <= holdfast.capacity_of(p_permits);
    END LOOP;
  END IF;
  IF v_fits THEN
    RETURN holdfast.grant_in_queue(v_lock, p_now, v_position, p_id, p_ttl_ms, p_count, p_permits, p_note,
      p_fence_above);
  END IF;
  IF v_position IS NOT NULL THEN
    UPDATE holdfast.waiters w SET expires_at = v_waits_until, channel = p_channel, woken_at = NULL
      WHERE w.name = v_lock.name AND w.position = v_position;
    IF v_waits_until < v_lock.ends_at THEN
      UPDATE holdfast.locks l SET ends_at = v_waits_until WHERE l.name = v_lock.name;
    END IF;
  ELSIF p_wait THEN
    IF v_lock.waiting >= p_queue_max THEN RETURN 'l'; END IF;
    INSERT INTO holdfast.waiters (name, position, id, count, expires_at, note, channel)
      VALUES (v_lock.name, v_lock.last_position + 1, p_id, p_count, v_waits_until, p_note, p_channel);
    UPDATE holdfast.locks l
      SET waiting = v_lock.waiting + 1, last_position = l.last_position + 1,
        ends_at = least(v_lock.ends_at, v_waits_until), permits = p_permits
      WHERE l.name = v_lock.name;
    IF v_lock.observed_until > p_now THEN PERFORM holdfast.notify_observers(v_lock.name, p_now); END IF;
  END IF;
  IF v_is_held THEN v_ends_at := v_lock.expires_at;
  ELSIF v_lock.sharing > 0 THEN v_ends_at := least(v_lock.ends_at, p_now + interval '120 seconds');
  END IF;
  v_ends_at := coalesce(least(v_ends_at, v_turn_ends_at), p_now + holdfast.claim_limit());
  RETURN 'w' || greatest(holdfast.ms_until(v_ends_at, p_now), 0);
END $$;

-- Grants a claim that fits.
CREATE FUNCTION holdfast.grant_in_queue(
  p_lock holdfast.locks, p_now timestamptz, p_position bigint, p_id text, p_ttl_ms bigint, p_count integer,
  p_permits integer, p_note text, p_fence_above bigint
) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
  v_lock holdfast.locks := p_lock;
  v_expires_at timestamptz := p_now + holdfast.ms(p_ttl_ms);
BEGIN
  v_lock.permits := p_permits;
  IF p_position IS NOT NULL THEN
    DELETE FROM holdfast.waiters w WHERE w.name = v_lock.name AND w.position = p_position;
    v_lock.waiting := v_lock.waiting - 1;
  END IF;
  v_lock.fence := holdfast.next_fence(v_lock.fence, p_fence_above, p_now);
  IF p_count = 0 THEN
    UPDATE holdfast.locks l
      SET fence = v_lock.fence, holder = p_id, granted_at = p_now, expires_at = v_expires_at,
        ttl_ms = p_ttl_ms, note = p_note, permits = 0, waiting = v_lock.waiting
      WHERE l.name = v_lock.name;
  ELSE
    INSERT INTO holdfast.shares (name, id, fence, count, ttl_ms, granted_at, expires_at, note)
      VALUES (v_lock.name, p_id, v_lock.fence, p_count, p_ttl_ms, p_now, v_expires_at, p_note);
    v_lock.ttl_ms := CASE v_lock.sharing WHEN 0 THEN p_ttl_ms ELSE greatest(v_lock.ttl_ms, p_ttl_ms) END;
    v_lock.sharing := v_lock.sharing + 1;
    v_lock.weight := v_lock.weight + p_count;
    v_lock.ends_at := least(v_lock.ends_at, v_expires_at);
    UPDATE holdfast.locks l
      SET fence = v_lock.fence, holder = NULL, permits = v_lock.permits, sharing = v_lock.sharing,
        weight = v_lock.weight, ends_at = v_lock.ends_at, waiting = v_lock.waiting, ttl_ms = v_lock.ttl_ms
      WHERE l.name = v_lock.name;
    -- The next waiter may fit too.
    IF v_lock.waiting > 0 THEN PERFORM holdfast.wake_next(v_lock, p_now, holdfast.end_of_queue()); END IF;
  END IF;
  IF v_lock.observed_until > p_now THEN PERFORM holdfast.notify_observers(v_lock.name, p_now); END IF;
  RETURN 'g' || v_lock.fence;
END $$;

-- One renewal: `1` held, `0` not held, `b` busy. A note of null leaves the note alone. A note that
-- differs wakes all waiters of the lock, because it may say that their wait is pointless.
CREATE FUNCTION holdfast.renew_one(p_name text, p_id text, p_ttl_ms bigint, p_note text) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
  v_now timestamptz := clock_timestamp();
  v_expires_at timestamptz := v_now + holdfast.ms(p_ttl_ms);
  v_lock holdfast.locks;
  v_old_note text;
BEGIN
  IF p_note IS NULL THEN
    -- The usual case: the claim holds the lock alone.
    UPDATE holdfast.locks l SET expires_at = v_expires_at, ttl_ms = p_ttl_ms
      WHERE l.ctid = (
        SELECT f.ctid FROM holdfast.locks f
          WHERE f.name = p_name AND f.holder = p_id AND f.expires_at > v_now FOR UPDATE SKIP LOCKED
      );
    IF FOUND THEN RETURN '1'; END IF;
  END IF;
  SELECT * INTO v_lock FROM holdfast.locks l WHERE l.name = p_name FOR UPDATE SKIP LOCKED;
  IF NOT FOUND THEN
    PERFORM 1 FROM holdfast.locks l WHERE l.name = p_name;
    RETURN CASE WHEN FOUND THEN 'b' ELSE '0' END;
  END IF;
  IF v_lock.holder = p_id AND v_lock.expires_at > v_now THEN
    v_old_note := v_lock.note;
    UPDATE holdfast.locks l SET expires_at = v_expires_at, ttl_ms = p_ttl_ms, note = coalesce(p_note, l.note)
      WHERE l.name = p_name;
  ELSE
    SELECT s.note INTO v_old_note FROM holdfast.shares s
      WHERE s.name = p_name AND s.id = p_id AND s.expires_at > v_now;
    IF NOT FOUND THEN RETURN '0'; END IF;
    UPDATE holdfast.shares s SET expires_at = v_expires_at, ttl_ms = p_ttl_ms, note = coalesce(p_note, s.note)
      WHERE s.name = p_name AND s.id = p_id;
    IF v_expires_at < v_lock.ends_at THEN
      UPDATE holdfast.locks l SET ends_at = v_expires_at WHERE l.name = p_name;
    END IF;
  END IF;
  IF p_note <> v_old_note THEN
    PERFORM pg_notify(w.channel, holdfast.wake_message(w.name, w.id)) FROM holdfast.waiters w
      WHERE w.name = p_name AND w.channel IS NOT NULL;
    IF v_lock.observed_until > v_now THEN PERFORM holdfast.notify_observers(p_name, v_now); END IF;
  END IF;
  RETURN '1';
END $$;

-- One release of a hold or of a queue position: `1` removed, `2` removed and a waiter was woken, `0`
-- nothing to remove, `b` busy. Waiters that fit are woken in each case but the last.
CREATE FUNCTION holdfast.release_one(p_name text, p_id text) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
  v_now timestamptz := clock_timestamp();
  v_lock holdfast.locks;
  v_ended timestamptz;
  v_count integer;
BEGIN
  -- The usual case: an exclusive hold, and no claim waits.
  UPDATE holdfast.locks l SET holder = NULL, expires_at = v_now, note = ''
    WHERE l.ctid = (
      SELECT f.ctid FROM holdfast.locks f
        WHERE f.name = p_name AND f.holder = p_id AND f.expires_at > v_now AND f.waiting = 0
          AND f.observed_until < v_now
        FOR UPDATE SKIP LOCKED
    );
  IF FOUND THEN RETURN '1'; END IF;
  SELECT * INTO v_lock FROM holdfast.locks l WHERE l.name = p_name FOR UPDATE SKIP LOCKED;
  IF NOT FOUND THEN
    -- An abandoned claim may be creating the row now, and would be granted after this answer.
    IF NOT pg_try_advisory_xact_lock_shared(holdfast.new_row_lock(p_name)) THEN RETURN 'b'; END IF;
    PERFORM 1 FROM holdfast.locks l WHERE l.name = p_name;
    RETURN CASE WHEN FOUND THEN 'b' ELSE '0' END;
  END IF;
  IF v_lock.holder = p_id THEN
    v_ended := v_lock.expires_at;
    UPDATE holdfast.locks l SET holder = NULL, expires_at = least(v_ended, v_now), note = ''
      WHERE l.name = p_name;
    v_lock.holder := NULL;
  ELSIF v_lock.sharing > 0 THEN
    DELETE FROM holdfast.shares s WHERE s.name = p_name AND s.id = p_id
      RETURNING s.expires_at, s.count INTO v_ended, v_count;
    IF FOUND THEN
      v_lock.sharing := v_lock.sharing - 1;
      v_lock.weight := v_lock.weight - v_count;
      UPDATE holdfast.locks l
        SET sharing = v_lock.sharing, weight = v_lock.weight, expires_at = v_now,
          ends_at = CASE WHEN v_lock.sharing = 0 AND v_lock.waiting = 0 THEN 'infinity' ELSE l.ends_at END
        WHERE l.name = p_name;
    END IF;
  END IF;
  IF v_ended IS NULL AND v_lock.waiting > 0 THEN
    DELETE FROM holdfast.waiters w WHERE w.name = p_name AND w.id = p_id RETURNING w.expires_at INTO v_ended;
    IF FOUND THEN
      v_lock.waiting := v_lock.waiting - 1;
      UPDATE holdfast.locks l
        SET waiting = v_lock.waiting,
          ends_at = CASE WHEN v_lock.sharing = 0 AND v_lock.waiting = 0 THEN 'infinity' ELSE l.ends_at END
        WHERE l.name = p_name;
    END IF;
  END IF;
  IF v_lock.waiting > 0 AND (v_lock.holder IS NULL OR v_lock.expires_at <= v_now) THEN
    IF v_lock.ends_at <= v_now THEN v_lock := holdfast.remove_expired(v_lock, v_now); END IF;
    v_lock := holdfast.wake_next(v_lock, v_now, holdfast.end_of_queue());
  END IF;
  IF v_ended IS NULL OR v_ended <= v_now THEN RETURN '0'; END IF;
  IF v_lock.observed_until > v_now THEN PERFORM holdfast.notify_observers(p_name, v_now); END IF;
  RETURN CASE
    WHEN v_lock.waiting > 0 AND v_lock.holder IS NULL AND (v_lock.sharing = 0 OR v_lock.permits > 0) THEN '2'
    ELSE '1'
  END;
END $$;
