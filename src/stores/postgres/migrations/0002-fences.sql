-- The greatest fence seen for each resource. Rows are never deleted: they must outlive every holder.
CREATE TABLE holdfast.fences (
  resource text PRIMARY KEY,
  fence bigint NOT NULL
);

-- Stores the fence and returns it, or returns a greater one that was seen before: then the caller is an
-- earlier holder. The row stays locked until the transaction ends, so that the writes of two holders
-- never mix. Two statements, because at READ COMMITTED the second sees what was committed during the
-- first. The same fence is written again: above READ COMMITTED, a transaction that waited for the row
-- then fails with a serialization failure instead of reading stale data.
CREATE FUNCTION holdfast.latest_fence(resource_name text, given_fence bigint) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
  latest bigint;
BEGIN
  INSERT INTO holdfast.fences AS seen (resource, fence) VALUES (resource_name, given_fence)
    ON CONFLICT (resource) DO UPDATE SET fence = excluded.fence WHERE excluded.fence >= seen.fence
    RETURNING seen.fence INTO latest;
  IF latest IS NULL THEN
    SELECT seen.fence INTO latest FROM holdfast.fences AS seen WHERE seen.resource = resource_name;
  END IF;
  RETURN latest;
END $$;

-- Until the transaction ends, tables that demand a fence accept its writes. Returns what `latest_fence`
-- returns.
CREATE FUNCTION holdfast.bind_fence(lock_name text, given_fence bigint) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
  latest bigint := holdfast.latest_fence(lock_name, given_fence);
BEGIN
  IF latest = given_fence THEN
    -- The table is stored too: a lock of the same name in another schema has fences of its own.
    PERFORM set_config('holdfast.lock', lock_name, true),
      set_config('holdfast.fence', given_fence::text, true),
      set_config('holdfast.fences', seen.tableoid::text, true)
      FROM holdfast.fences AS seen WHERE seen.resource = lock_name;
  END IF;
  RETURN latest;
END $$;

-- Refuses a statement that writes to the table, unless the transaction has bound a fence in this schema
-- and no later holder has bound a greater one.
CREATE FUNCTION holdfast.demand_fence() RETURNS trigger
LANGUAGE plpgsql AS $$
DECLARE
  lock_name text := nullif(current_setting('holdfast.lock', true), '');
  given_fence bigint := nullif(current_setting('holdfast.fence', true), '');
  bound_in text := nullif(current_setting('holdfast.fences', true), '');
  latest bigint;
BEGIN
  -- A setting that is NULL matches no row. bind_fence has locked the row already, unless the caller
  -- made the settings itself.
  SELECT seen.fence INTO latest FROM holdfast.fences AS seen
    WHERE seen.resource = lock_name AND seen.tableoid::text = bound_in FOR UPDATE;
  IF latest > given_fence THEN
    RAISE EXCEPTION 'fence % of lock % is stale: % was seen before', given_fence, lock_name, latest
      USING ERRCODE = 'HF002', HINT = 'Another holds the lock now. Roll back.';
  END IF;
  IF latest IS DISTINCT FROM given_fence OR latest IS NULL THEN
    RAISE EXCEPTION 'a write to % needs a fence', TG_RELID::regclass
      USING ERRCODE = 'HF001', HINT = 'Bind the fence of a hold in this transaction first.';
  END IF;
  RETURN NULL;
END $$;

-- Makes a table demand a fence of every INSERT, UPDATE, DELETE, MERGE, COPY and TRUNCATE. Calling it
-- again changes nothing. DROP TRIGGER holdfast_fence undoes it. Refuses a partition and an inheritance
-- child: a write through the parent fires only the parent's trigger.
CREATE FUNCTION holdfast.require_fence(target regclass) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  roots regclass[];
BEGIN
  WITH RECURSIVE ancestors (relation) AS (
    SELECT inhparent FROM pg_inherits WHERE inhrelid = target
    UNION SELECT i.inhparent FROM pg_inherits AS i JOIN ancestors AS a ON i.inhrelid = a.relation)
  SELECT array_agg(relation::regclass ORDER BY relation::regclass::text COLLATE "C") INTO roots
    FROM ancestors AS a WHERE NOT EXISTS (SELECT FROM pg_inherits AS i WHERE i.inhrelid = a.relation);
  IF roots IS NOT NULL THEN
    RAISE EXCEPTION '% is a part of %, and a write to % would need no fence', target,
        array_to_string(roots, ' and '), array_to_string(roots, ' and ')
      USING ERRCODE = 'HF005', HINT = format('Require the fence of the whole: %s',
        (SELECT string_agg(format('SELECT holdfast.require_fence(%L)', root::text), '; ')
          FROM unnest(roots) AS root));
  END IF;
  IF EXISTS (SELECT FROM pg_trigger WHERE tgrelid = target AND tgname = 'holdfast_fence') THEN
    RETURN;
  END IF;
  EXECUTE format(
    'CREATE TRIGGER holdfast_fence BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON %s '
    'FOR EACH STATEMENT EXECUTE FUNCTION holdfast.demand_fence()', target);
END $$;
