-- The constants of all scripts. scripts/embed.mjs replaces each name by its value, so that a name
-- costs no time. A value may use the names before it.

-- The queue of a lock is one sorted set with three ranges of scores:
--   below 0       holders that share the lock (readers, permits): the expiry in ms, minus FAR
--   1 up to FAR   waiters: the order of arrival
--   above FAR     channels of observers: FAR plus the expiry in ms
FAR = 4503599627370496
WAITING_MIN = '1'
WAITING_MAX = '(FAR'
OBSERVING_MIN = '(FAR'

-- The weight of a writer: more readers than a queue can hold. A reader weighs 1 (grant-rule.ts).
EVERYTHING = 2147483648

-- Fences have sixteen digits, so that they compare as texts and differ from the numbers of other
-- programs. The time in µs has had as many since 2001. A server without the right time counts from
-- FENCE_MIN.
FENCE_DIGITS = 16
FENCE_MIN = 1000000000000000
-- The position of the space after a fence without marks, in the plain key.
FENCE_END = 17
-- A fence that differs from the clock by more than this does not tell the time of its grant.
FENCE_APART_US = 1000000
SECOND_US = 1000000

-- A grant that its owner has not asked for lasts this long until it is confirmed. So a stopped
-- waiter delays the queue by no more.
UNCONFIRMED_MS = 5000
-- The process of a claim that entered so recently is taken to be running, and is sent the whole
-- grant.
FRESH_MS = 1000
-- After an unconfirmed grant, at most LOOKERS_MAX other processes are told to look: that of the last
-- waiter, and those of the next LOOKERS_AMONG waiters.
LOOKERS_MAX = 3
LOOKERS_AMONG = 6
-- A queue position expires after this time unless its claim asks again.
POSITION_MS = 120000
-- Helper keys outlive their claims by this long. So a claim that asks again seldom has to extend
-- their expiry, and keys of crashed processes expire by themselves.
SPARE_MS = 30000
-- How many positions of a full queue are looked at for one that is dead.
SEARCHED_MAX = 100
