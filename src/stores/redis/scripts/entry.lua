-- What is known of a claim besides its place is one field of the info hash:
--   w <mode> <ttl, ms> <place until, ms> <keys live until, s> <channel or -> <note>     it waits
--   h <mode> <fence> <granted, us> <keys live until, s> <note>                         it holds
local function waiterIn(entry)
  local mode, ttl, ends, covered, channel, note =
    string.match(entry, '^w (%S+) (%d+) (%d+) (%d+) (%S+) (.*)$')
  if not mode then return nil end
  return { mode = mode, ttl = tonumber(ttl), ends = tonumber(ends), covered = tonumber(covered), channel = channel, note = note }
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

-- When memory is full, a script may not begin with a write that could take more of it, but after one that cannot it may: what is there goes on.
local function allowWrites(line)
  redis.call('ZREM', line, '')
end

-- When the last of several holders runs out, ms.
local function lastEnd(line)
  return tonumber(redis.call('ZREVRANGEBYSCORE', line, '(0', '-inf', 'WITHSCORES', 'LIMIT', 0, 1)[2] or -FAR) + FAR
end

-- Helper keys outlive every claim in them by this long, so that what a crash leaves behind goes away by itself and a claim
-- that is kept alive touches their expiry only every few minutes.
local SPARE_MS = 600000

local function cover(untilMs, ...)
  local wantMs = untilMs + SPARE_MS - nowMs
  for _, key in ipairs({...}) do
    -- Never shorter than what another claim needs.
    if redis.call('PTTL', key) < wantMs then redis.call('PEXPIRE', key, digits(wantMs)) end
  end
  return math.floor((untilMs + SPARE_MS) / 1000)
end
