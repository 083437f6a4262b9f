-- Limits the end of a hold to its ttl from now. A hold with more time left than that was granted
-- before the server's clock was set back, and a dead holder would keep the lock for that long. The
-- time is read here, because the holder may have renewed after the call began. The lock's row is
-- locked.
CREATE FUNCTION holdfast.within_ttl(p_expires_at timestamptz, p_ttl_ms bigint) RETURNS timestamptz
LANGUAGE sql VOLATILE AS $$ SELECT least(p_expires_at, clock_timestamp() + holdfast.ms(p_ttl_ms)) $$;

-- Removes expired shares and waiters, and counts the others. The lock's row is locked.
CREATE FUNCTION holdfast.remove_expired(p_lock holdfast.locks, p_now timestamptz)
RETURNS holdfast.locks LANGUAGE plpgsql AS $$
DECLARE
  v_lock holdfast.locks := p_lock;
  v_shares_end timestamptz;
  v_waiters_end timestamptz;
BEGIN
  DELETE FROM holdfast.shares s WHERE s.name = v_lock.name AND s.expires_at <= p_now;
  UPDATE holdfast.shares s SET expires_at = holdfast.within_ttl(s.expires_at, s.ttl_ms)
    WHERE s.name = v_lock.name AND s.expires_at > p_now + holdfast.ms(s.ttl_ms);
  DELETE FROM holdfast.waiters w WHERE w.name = v_lock.name AND w.expires_at <= p_now;
  SELECT count(*), coalesce(sum(s.count), 0), min(s.expires_at), coalesce(max(s.ttl_ms), v_lock.ttl_ms)
    INTO v_lock.sharing, v_lock.weight, v_shares_end, v_lock.ttl_ms
    FROM holdfast.shares s WHERE s.name = v_lock.name;
  SELECT count(*), min(w.expires_at) INTO v_lock.waiting, v_waiters_end
    FROM holdfast.waiters w WHERE w.name = v_lock.name;
  v_lock.ends_at := coalesce(least(v_shares_end, v_waiters_end), 'infinity');
  UPDATE holdfast.locks l
    SET sharing = v_lock.sharing, weight = v_lock.weight, waiting = v_lock.waiting, ends_at = v_lock.ends_at,
      ttl_ms = v_lock.ttl_ms
    WHERE l.name = v_lock.name;
  RETURN v_lock;
END $$;

-- The message that tells a waiter to claim again.
CREATE FUNCTION holdfast.wake_message(p_name text, p_id text) RETURNS text
LANGUAGE sql IMMUTABLE AS $$ SELECT 'g' || p_name || E'\n' || p_id $$;

-- Wakes the waiters at the head of the queue that fit now. Removes dead waiters among
-- them: those whose process does not listen any more, those that have not claimed the lock within
-- the claim limit, and those that were woken before the clock was set back. Looks only at positions
-- before `p_until`. The lock's row is locked, and no claim holds it alone.
--
-- A process that is stopped still seems to listen. So the first waiter of every process asks again
-- within six seconds (`firstMs` of lease-server.ts), and then removes a dead waiter ahead of it.
CREATE FUNCTION holdfast.wake_next(p_lock holdfast.locks, p_now timestamptz, p_until bigint)
RETURNS holdfast.locks LANGUAGE plpgsql AS $$
DECLARE
  v_lock holdfast.locks := p_lock;
  v_waiter holdfast.waiters;
  v_weight bigint := p_lock.weight;
BEGIN
  FOR v_waiter IN SELECT * FROM holdfast.waiters w
    WHERE w.name = p_lock.name AND w.position < p_until ORDER BY w.position LIMIT 200 LOOP
    EXIT WHEN v_weight + holdfast.weight_of(v_waiter.count) > holdfast.capacity_of(p_lock.permits);
    -- A shared lock: two statements that check at once must not take each other for the listener.
    IF v_waiter.woken_at NOT BETWEEN p_now - holdfast.claim_limit() AND p_now + holdfast.claim_limit()
      OR (v_waiter.channel IS NOT NULL
        AND pg_try_advisory_xact_lock_shared(holdfast.channel_lock(v_waiter.channel))) THEN
      DELETE FROM holdfast.waiters w WHERE w.name = p_lock.name AND w.position = v_waiter.position;
      v_lock.waiting := v_lock.waiting - 1;
      CONTINUE;
    END IF;
    IF v_waiter.woken_at IS NULL THEN
      UPDATE holdfast.waiters w SET woken_at = p_now
        WHERE w.name = p_lock.name AND w.position = v_waiter.position;
      -- A waiter without a channel asks by itself.
      IF v_waiter.channel IS NOT NULL THEN
        PERFORM pg_notify(v_waiter.channel, holdfast.wake_message(v_waiter.name, v_waiter.id));
      END IF;
    END IF;
    v_weight := v_weight + holdfast.weight_of(v_waiter.count);
  END LOOP;
  IF v_lock.waiting <> p_lock.waiting THEN
    UPDATE holdfast.locks l SET waiting = v_lock.waiting WHERE l.name = p_lock.name;
  END IF;
  RETURN v_lock;
END $$;
