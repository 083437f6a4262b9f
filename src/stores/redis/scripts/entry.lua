-- Each claim has one field in the info hash, besides its queue position:
--   w <mode> <ttl, ms> <position expires, ms> <keys expire, s> <channel or -> <note>    a waiter
--   h <mode> <fence> <granted, µs> <keys expire, s> <note>                              a holder
local function waiterIn(entry)
  local mode, ttl, ends, covered, channel, note =
    string.match(entry, '^w (%S+) (%d+) (%d+) (%d+) (%S+) (.*)$')
  if not mode then return nil end
  return {
    mode = mode, ttl = tonumber(ttl), ends = tonumber(ends), covered = tonumber(covered),
    channel = channel, note = note,
  }
end

local function waiterEntry(w)
  return string.format('w %s %.0f %.0f %.0f %s %s', w.mode, w.ttl, w.ends, w.covered, w.channel, w.note)
end

local function holderIn(entry)
  local mode, fence, granted, covered, note = string.match(entry, '^h (%S+) (%d+) (%d+) (%d+) (.*)$')
  return mode, fence, granted, tonumber(covered), note
end

local function holderEntry(mode, fence, granted, covered, note)
  return 'h ' .. mode .. ' ' .. fence .. ' ' .. granted .. ' ' .. digits(covered) .. ' ' .. note
end

-- With full memory, a server accepts writes of a script only after a write that takes no memory. So
-- holders and waiters can go on.
local function allowWrites(queue)
  redis.call('ZREM', queue, '')
end

-- When the last of several holders expires, ms.
local function lastEnd(queue)
  local last = redis.call('ZREVRANGEBYSCORE', queue, '(0', '-inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
  return tonumber(last or -FAR) + FAR
end

local function cover(untilMs, ...)
  local keyTtlMs = untilMs + SPARE_MS - nowMs
  for _, key in ipairs({...}) do
    -- Never shortens what another claim needs.
    if redis.call('PTTL', key) < keyTtlMs then redis.call('PEXPIRE', key, digits(keyTtlMs)) end
  end
  return math.floor((untilMs + SPARE_MS) / 1000)
end
