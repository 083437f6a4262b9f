-- The greatest fence that was seen for each resource. Rows stay: they must outlive every holder of the past.
CREATE TABLE holdfast.fences (
  resource text PRIMARY KEY,
  fence bigint NOT NULL
);

-- Remembers the fence and returns it, or returns the greater one that was seen before: then the caller is a holder of the past. The row stays locked until the
-- transaction ends, so that the writes of two holders never mix. Each step sees what others have committed before it, which one statement would not.
CREATE FUNCTION holdfast.latest_fence(resource_name text, given_fence bigint) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
  latest bigint;
BEGIN
  INSERT INTO holdfast.fences AS seen (resource, fence) VALUES (resource_name, given_fence)
    ON CONFLICT (resource) DO UPDATE SET fence = excluded.fence WHERE excluded.fence > seen.fence
    RETURNING seen.fence INTO latest;
  IF latest IS NULL THEN
    SELECT seen.fence INTO latest FROM holdfast.fences AS seen WHERE seen.resource = resource_name;
  END IF;
  RETURN latest;
END $$;

-- From here to the end of the transaction, tables that demand a fence take writes under this lock. Returns as latest_fence does.
CREATE FUNCTION holdfast.bind_fence(lock_name text, given_fence bigint) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
  latest bigint := holdfast.latest_fence(lock_name, given_fence);
BEGIN
  IF latest = given_fence THEN
    -- With the table that remembers it: what was bound in one schema is no fence in another, whose lock of the same name has fences of its own.
    PERFORM set_config('holdfast.lock', lock_name, true), set_config('holdfast.fence', given_fence::text, true),
      set_config('holdfast.fences', seen.tableoid::text, true) FROM holdfast.fences AS seen WHERE seen.resource = lock_name;
  END IF;
  RETURN latest;
END $$;

-- Refuses every statement that writes the table, unless the transaction has bound a fence that nobody has overtaken.
CREATE FUNCTION holdfast.demand_fence() RETURNS trigger
LANGUAGE plpgsql AS $$
DECLARE
  lock_name text := nullif(current_setting('holdfast.lock', true), '');
  given_fence text := nullif(current_setting('holdfast.fence', true), '');
  bound_in text := nullif(current_setting('holdfast.fences', true), '');
  latest bigint;
BEGIN
  IF lock_name IS NULL OR given_fence IS NULL
    OR bound_in <> coalesce((SELECT seen.tableoid::text FROM holdfast.fences AS seen WHERE seen.resource = lock_name), '') THEN
    RAISE EXCEPTION 'a write to % needs a fence', TG_RELID::regclass
      USING ERRCODE = 'HF001', HINT = 'Bind the fence of a hold in this transaction first.';
  END IF;
  latest := holdfast.latest_fence(lock_name, given_fence::bigint);
  IF latest <> given_fence::bigint THEN
    RAISE EXCEPTION 'fence % of lock % is stale: % was seen before', given_fence, lock_name, latest
      USING ERRCODE = 'HF002', HINT = 'Another holds the lock now. Roll back.';
  END IF;
  RETURN NULL;
END $$;

-- Makes a table demand a fence of every INSERT, UPDATE, DELETE, MERGE, COPY and TRUNCATE. Calling it again changes nothing. DROP TRIGGER holdfast_fence ON the table takes it back.
CREATE FUNCTION holdfast.require_fence(target regclass) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  IF EXISTS (SELECT FROM pg_trigger WHERE tgrelid = target AND tgname = 'holdfast_fence') THEN
    RETURN;
  END IF;
  EXECUTE format(
    'CREATE TRIGGER holdfast_fence BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON %s '
    'FOR EACH STATEMENT EXECUTE FUNCTION holdfast.demand_fence()', target);
END $$;
