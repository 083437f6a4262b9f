-- A finished `once` is remembered for up to 366 days. An integer's 32 bits of milliseconds are too few.
ALTER TABLE holdfast.locks ALTER COLUMN ttl_ms TYPE bigint;
ALTER TABLE holdfast.shares ALTER COLUMN ttl_ms TYPE bigint;

-- Migrations 3 and 4 made these with 32 bits. The migrations after this one have them with 64.
DROP FUNCTION IF EXISTS holdfast.within_ttl(timestamptz, integer);
DROP FUNCTION IF EXISTS
  holdfast.claim_one(text, text, integer, boolean, integer, integer, text, bigint, integer, text);
DROP FUNCTION IF EXISTS holdfast.claim_in_queue(
  holdfast.locks, timestamptz, text, integer, boolean, integer, integer, text, bigint, integer, text);
DROP FUNCTION IF EXISTS holdfast.grant_in_queue(
  holdfast.locks, timestamptz, bigint, text, integer, integer, integer, text, bigint);
DROP FUNCTION IF EXISTS holdfast.renew_one(text, text, integer, text);
DROP FUNCTION IF EXISTS
  holdfast.batch(text, text[], text[], integer[], integer[], integer[], text[], bigint, integer, text);
DROP FUNCTION IF EXISTS holdfast.batch_anywhere(
  text, text[], text[], integer[], integer[], integer[], text[], bigint, integer, text);
DROP FUNCTION IF EXISTS
  holdfast.claim(text, text, integer, boolean, integer, integer, text, bigint);
DROP FUNCTION IF EXISTS holdfast.renew(text, text, integer, text);
