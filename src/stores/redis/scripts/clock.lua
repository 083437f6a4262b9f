-- The server's time, once for a whole call, and the numbers that every script shares.
local time = redis.call('TIME')
local nowUs = time[1] * 1000000 + time[2]
local nowMs = math.floor(nowUs / 1000)

-- The line of a lock is one sorted set with three ranges of scores:
--   below 0       who holds it together with others (shared, permits): the expiry in ms, less FAR
--   1 up to FAR   who waits: the order of arrival
--   above FAR     channels of processes that observe the lock: FAR plus the expiry in ms
local FAR = 4503599627370496
local WAITING_MIN, WAITING_MAX = '1', '(4503599627370496'

-- More readers than any line can hold: a reader weighs 1 and a writer everything (grant-rule.ts).
local EVERYTHING = 2147483648

-- `..` would turn sixteen digits into 1.76e+15.
local function digits(number)
  return string.format('%.0f', number)
end
