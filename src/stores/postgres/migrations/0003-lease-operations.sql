-- One claim. Answers: `g<fence>` granted, `n<fence>` granted and the lock's row is a new one, `w<ms>` refused (the hold in front ends by itself after so many ms; -1: not known), `b` busy: the row is locked by somebody else, ask again at
-- once, `l` the line is full, `m<count>/<permits>` the lock is in use with another mode.
CREATE FUNCTION holdfast.claim_one(
  p_name text, p_id text, p_ttl_ms integer, p_wait boolean, p_count integer, p_permits integer,
  p_note text, p_fence_above bigint, p_line_max integer, p_channel text
) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
  v_now timestamptz := clock_timestamp();
  v_lock holdfast.locks;
  v_fence bigint;
  v_is_there boolean;
BEGIN
  IF p_count = 0 THEN
    -- Almost always: there is nobody else.
    UPDATE holdfast.locks l
      SET fence = greatest(l.fence + 1, p_fence_above + 1, (date_part('epoch', v_now) * 1000000)::bigint), holder = p_id,
        granted_at = v_now, expires_at = v_now + p_ttl_ms * interval '1 millisecond', ttl_ms = p_ttl_ms, note = p_note, permits = 0
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
  -- Who does not want to wait, or waits already and has just said so, is refused without a write.
  IF v_is_there AND p_permits = 0 AND v_lock.holder <> p_id AND v_lock.expires_at > v_now
    AND v_lock.expires_at <= v_now + v_lock.ttl_ms * interval '1 millisecond' THEN
    IF p_wait THEN
      PERFORM 1 FROM holdfast.places p WHERE p.name = p_name AND p.id = p_id AND p.expires_at > v_now + interval '110 seconds'
        AND p.channel IS NOT DISTINCT FROM p_channel AND p.called_at IS NULL;
    END IF;
    IF NOT p_wait OR FOUND THEN
      RETURN 'w' || ceil(date_part('epoch', v_lock.expires_at - v_now) * 1000)::bigint;
    END IF;
  END IF;
  IF v_is_there THEN
    SELECT * INTO v_lock FROM holdfast.locks l WHERE l.name = p_name FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN RETURN 'b'; END IF;
  ELSE
    -- One at a time makes the row of a lock: an insert would wait for another one's, and nobody waits here.
    IF NOT pg_try_advisory_xact_lock(hashtextextended(p_name, 4702)) THEN RETURN 'b'; END IF;
    PERFORM 1 FROM holdfast.locks l WHERE l.name = p_name;
    IF FOUND THEN RETURN 'b'; END IF;
    IF p_count = 0 THEN
      INSERT INTO holdfast.locks (name, fence, holder, granted_at, expires_at, ttl_ms, note)
        SELECT p_name, greatest(f.fence + 1, p_fence_above + 1, (date_part('epoch', v_now) * 1000000)::bigint), p_id,
          v_now, v_now + p_ttl_ms * interval '1 millisecond', p_ttl_ms, p_note FROM (SELECT coalesce(max(fence), 0) AS fence FROM holdfast.floor) f
        RETURNING fence INTO v_fence;
      RETURN 'n' || v_fence;
    END IF;
    INSERT INTO holdfast.locks (name, fence) SELECT p_name, f.fence FROM (SELECT coalesce(max(fence), 0) AS fence FROM holdfast.floor) f RETURNING * INTO v_lock;
    -- Nobody else is there, so it is granted.
    RETURN 'n' || substr(holdfast.grant_in_line(v_lock, v_now, NULL, p_id, p_ttl_ms, p_count, p_permits,
      p_note, p_fence_above), 2);
  END IF;
  RETURN holdfast.claim_in_line(v_lock, v_now, p_id, p_ttl_ms, p_wait, p_count, p_permits, p_note, p_fence_above,
    p_line_max, p_channel);
END $$;

-- A claim beside others. The lock's row is there, and locked.
CREATE FUNCTION holdfast.claim_in_line(
  p_lock holdfast.locks, p_now timestamptz, p_id text, p_ttl_ms integer, p_wait boolean, p_count integer,
  p_permits integer, p_note text, p_fence_above bigint, p_line_max integer, p_channel text
) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
  v_lock holdfast.locks := p_lock;
  v_expires_at timestamptz := p_now + p_ttl_ms * interval '1 millisecond';
  v_place_ends timestamptz := p_now + greatest(p_ttl_ms, 120000) * interval '1 millisecond';
  v_is_held boolean;
  v_fits boolean;
  v_fence bigint;
  v_place bigint;
  v_ahead holdfast.places;
  v_weight bigint;
BEGIN
  IF v_lock.ends_at <= p_now OR (v_lock.sharing > 0 AND v_lock.ends_at > p_now + v_lock.ttl_ms * interval '1 millisecond') THEN
    v_lock := holdfast.sweep(v_lock, p_now);
  END IF;
  IF v_lock.holder <> p_id AND v_lock.expires_at > p_now + v_lock.ttl_ms * interval '1 millisecond' THEN
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
    UPDATE holdfast.shares s SET expires_at = v_expires_at, ttl_ms = p_ttl_ms WHERE s.name = v_lock.name AND s.id = p_id
      RETURNING s.fence INTO v_fence;
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
    SELECT p.place INTO v_place FROM holdfast.places p WHERE p.name = v_lock.name AND p.id = p_id;
  END IF;
  -- The rule: a claim is granted when it and everything ahead of it fit.
  v_weight := v_lock.weight + holdfast.weight_of(p_count);
  v_fits := NOT v_is_held AND v_weight <= holdfast.capacity_of(p_permits);
  IF v_lock.waiting > 0 AND NOT v_is_held THEN
    v_lock := holdfast.call_next(v_lock, p_now, coalesce(v_place, 9223372036854775807));
    FOR v_ahead IN SELECT * FROM holdfast.places p
      WHERE p.name = v_lock.name AND p.place < coalesce(v_place, 9223372036854775807) ORDER BY p.place LOOP
      EXIT WHEN NOT v_fits;
      v_weight := v_weight + holdfast.weight_of(v_ahead.count);
      v_fits := v_weight <= holdfast.capacity_of(p_permits);
    END LOOP;
  END IF;
  IF v_fits THEN
    RETURN holdfast.grant_in_line(v_lock, p_now, v_place, p_id, p_ttl_ms, p_count, p_permits, p_note, p_fence_above);
  END IF;
  IF v_place IS NOT NULL THEN
    UPDATE holdfast.places p SET expires_at = v_place_ends, channel = p_channel, called_at = NULL
      WHERE p.name = v_lock.name AND p.place = v_place;
    IF v_place_ends < v_lock.ends_at THEN
      UPDATE holdfast.locks l SET ends_at = v_place_ends WHERE l.name = v_lock.name;
    END IF;
  ELSIF p_wait THEN
    IF v_lock.waiting >= p_line_max THEN RETURN 'l'; END IF;
    INSERT INTO holdfast.places (name, place, id, count, expires_at, note, channel)
      VALUES (v_lock.name, v_lock.last_place + 1, p_id, p_count, v_place_ends, p_note, p_channel);
    UPDATE holdfast.locks l
      SET waiting = v_lock.waiting + 1, last_place = l.last_place + 1, ends_at = least(v_lock.ends_at, v_place_ends),
        permits = p_permits
      WHERE l.name = v_lock.name;
    IF v_lock.observed_until > p_now THEN PERFORM holdfast.tell_observers(v_lock.name, p_now); END IF;
  END IF;
  IF v_is_held THEN
    RETURN 'w' || ceil(date_part('epoch', v_lock.expires_at - p_now) * 1000)::bigint;
  ELSIF v_lock.sharing > 0 THEN
    RETURN 'w' || least(ceil(date_part('epoch', v_lock.ends_at - p_now) * 1000), 120000)::bigint;
  END IF;
  -- Somebody ahead has been called and has five seconds to come.
  RETURN 'w5000';
END $$;

-- Makes a claim a hold. It fits.
CREATE FUNCTION holdfast.grant_in_line(
  p_lock holdfast.locks, p_now timestamptz, p_place bigint, p_id text, p_ttl_ms integer, p_count integer,
  p_permits integer, p_note text, p_fence_above bigint
) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
  v_lock holdfast.locks := p_lock;
  v_expires_at timestamptz := p_now + p_ttl_ms * interval '1 millisecond';
BEGIN
  v_lock.permits := p_permits;
  IF p_place IS NOT NULL THEN
    DELETE FROM holdfast.places p WHERE p.name = v_lock.name AND p.place = p_place;
    v_lock.waiting := v_lock.waiting - 1;
  END IF;
  v_lock.fence := greatest(v_lock.fence + 1, p_fence_above + 1, (date_part('epoch', p_now) * 1000000)::bigint);
  IF p_count = 0 THEN
    UPDATE holdfast.locks l
      SET fence = v_lock.fence, holder = p_id, granted_at = p_now, expires_at = v_expires_at, ttl_ms = p_ttl_ms, note = p_note,
        permits = 0, waiting = v_lock.waiting
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
    -- There may be room for the next in line too.
    IF v_lock.waiting > 0 THEN PERFORM holdfast.call_next(v_lock, p_now, 9223372036854775807); END IF;
  END IF;
  IF v_lock.observed_until > p_now THEN PERFORM holdfast.tell_observers(v_lock.name, p_now); END IF;
  RETURN 'g' || v_lock.fence;
END $$;

-- One renewal: `1` held, `0` not held, `b` busy. A note of null leaves the note alone.
CREATE FUNCTION holdfast.renew_one(p_name text, p_id text, p_ttl_ms integer, p_note text) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
  v_now timestamptz := clock_timestamp();
  v_expires_at timestamptz := v_now + p_ttl_ms * interval '1 millisecond';
  v_lock holdfast.locks;
BEGIN
  UPDATE holdfast.locks l SET expires_at = v_expires_at, ttl_ms = p_ttl_ms, note = coalesce(p_note, l.note)
    WHERE l.ctid = (
      SELECT f.ctid FROM holdfast.locks f WHERE f.name = p_name AND f.holder = p_id AND f.expires_at > v_now FOR UPDATE SKIP LOCKED
    );
  IF FOUND THEN RETURN '1'; END IF;
  SELECT * INTO v_lock FROM holdfast.locks l WHERE l.name = p_name FOR UPDATE SKIP LOCKED;
  IF NOT FOUND THEN
    PERFORM 1 FROM holdfast.locks l WHERE l.name = p_name;
    RETURN CASE WHEN FOUND THEN 'b' ELSE '0' END;
  END IF;
  -- Somebody else had it just now.
  IF v_lock.holder = p_id AND v_lock.expires_at > v_now THEN
    UPDATE holdfast.locks l SET expires_at = v_expires_at, ttl_ms = p_ttl_ms, note = coalesce(p_note, l.note) WHERE l.name = p_name;
    RETURN '1';
  END IF;
  UPDATE holdfast.shares s SET expires_at = v_expires_at, ttl_ms = p_ttl_ms, note = coalesce(p_note, s.note)
    WHERE s.name = p_name AND s.id = p_id AND s.expires_at > v_now;
  IF NOT FOUND THEN RETURN '0'; END IF;
  IF v_expires_at < v_lock.ends_at THEN
    UPDATE holdfast.locks l SET ends_at = v_expires_at WHERE l.name = p_name;
  END IF;
  RETURN '1';
END $$;

-- One release, of a hold or of a place: `1` removed, `2` removed and somebody was called, `0` not there, `b` busy. Also calls those who fit when it finds nothing to remove.
CREATE FUNCTION holdfast.release_one(p_name text, p_id text) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
  v_now timestamptz := clock_timestamp();
  v_lock holdfast.locks;
  v_ended timestamptz;
  v_count integer;
BEGIN
  -- Almost always: nobody waits.
  UPDATE holdfast.locks l SET holder = NULL, expires_at = v_now, note = ''
    WHERE l.ctid = (
      SELECT f.ctid FROM holdfast.locks f
        WHERE f.name = p_name AND f.holder = p_id AND f.expires_at > v_now AND f.waiting = 0 AND f.observed_until < v_now
        FOR UPDATE SKIP LOCKED
    );
  IF FOUND THEN RETURN '1'; END IF;
  SELECT * INTO v_lock FROM holdfast.locks l WHERE l.name = p_name FOR UPDATE SKIP LOCKED;
  IF NOT FOUND THEN
    -- A claim that nobody waits for any more may be making the row just now, and would be granted after we had said that there is none.
    IF NOT pg_try_advisory_xact_lock_shared(hashtextextended(p_name, 4702)) THEN RETURN 'b'; END IF;
    PERFORM 1 FROM holdfast.locks l WHERE l.name = p_name;
    RETURN CASE WHEN FOUND THEN 'b' ELSE '0' END;
  END IF;
  IF v_lock.holder = p_id THEN
    v_ended := v_lock.expires_at;
    UPDATE holdfast.locks l SET holder = NULL, expires_at = least(v_ended, v_now), note = '' WHERE l.name = p_name;
    v_lock.holder := NULL;
  ELSIF v_lock.sharing > 0 THEN
    DELETE FROM holdfast.shares s WHERE s.name = p_name AND s.id = p_id RETURNING s.expires_at, s.count INTO v_ended, v_count;
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
    DELETE FROM holdfast.places p WHERE p.name = p_name AND p.id = p_id RETURNING p.expires_at INTO v_ended;
    IF FOUND THEN
      v_lock.waiting := v_lock.waiting - 1;
      UPDATE holdfast.locks l
        SET waiting = v_lock.waiting,
          ends_at = CASE WHEN v_lock.sharing = 0 AND v_lock.waiting = 0 THEN 'infinity' ELSE l.ends_at END
        WHERE l.name = p_name;
    END IF;
  END IF;
  IF v_lock.waiting > 0 AND (v_lock.holder IS NULL OR v_lock.expires_at <= v_now) THEN
    IF v_lock.ends_at <= v_now THEN v_lock := holdfast.sweep(v_lock, v_now); END IF;
    v_lock := holdfast.call_next(v_lock, v_now, 9223372036854775807);
  END IF;
  IF v_ended IS NULL OR v_ended <= v_now THEN RETURN '0'; END IF;
  IF v_lock.observed_until > v_now THEN PERFORM holdfast.tell_observers(p_name, v_now); END IF;
  RETURN CASE WHEN v_lock.waiting > 0 AND v_lock.holder IS NULL AND (v_lock.sharing = 0 OR v_lock.permits > 0) THEN '2' ELSE '1' END;
END $$;
