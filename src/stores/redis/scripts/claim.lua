-- Claims, one attempt each: the holder's own claim is renewed, a waiting one is kept, a new one is granted or stands in line.
-- KEYS  the counter of fences, then for each item: plain key, line, info
-- ARGV  for one exclusive claim without a note: <fence to stay above>, <ttl, ms>, <id>, and to wait <bound of a line> <channel of the asker or ->;
--       otherwise <fence to stay above>, <bound of a line> <channel of the asker or ->, then for each item <mode> <ttl, ms> <1 to wait> <id>, then,
--       unless none of them has one, the note of each
-- Gives (without a list when it is only one) for each item one of
--       <fence>                 granted
--       w <ms> <now> <marks>    refused; the first hold ends after so many ms (-1: never by itself); the server's time in ms; marks: h
--                               first in line, f foreign holder
--       m <mode>                refused: the lock is in use in another way
--       l                       refused: the line is full
--       !<error>                failed
-- One exclusive claim without a note is what happens most: of a lock that nobody holds or waits for, or behind an exclusive hold of ours. Both
-- are done before anything else is even defined, with as few calls, strings and locals as can be, since each takes longer than what it does.
local id = not KEYS[5] and tonumber(ARGV[2]) and ARGV[3]
if id then
  if redis.call('EXISTS', KEYS[2], KEYS[3]) == 0 then
    local time = redis.call('TIME')
    local text, mark = time[1] .. string.sub('00000' .. time[2], -6), ' '
    -- Read and written in one step: almost always the clock is ahead of every fence given before. Numbers of as many digits compare as texts.
    local last = redis.call('SET', KEYS[1], text, 'GET') or '0'
    if last >= text or ARGV[1] >= text or #text < 16 then
      -- As `FENCE_MIN` says.
      local nowUs, least = tonumber(text), math.max(last + 1, ARGV[1] + 1, 1000000000000000)
      if least - nowUs > 1000000 then mark = '@' .. text .. ' ' end
      text = string.format('%.0f', math.max(least, nowUs))
      redis.call('SET', KEYS[1], text)
    end
    redis.call('SET', KEYS[2], text .. mark .. id, 'PX', ARGV[2])
    return text
  elseif ARGV[4] then
    local value = redis.pcall('GET', KEYS[2])
    local holder = type(value) == 'string' and string.sub(value, 17, 17) == ' ' and string.match(value, '^%d+ (.+)$')
    local last = holder and holder ~= id
      and redis.call('ZREVRANGEBYSCORE', KEYS[3], '+inf', '-inf', 'WITHSCORES', 'LIMIT', 0, 1)
    local place = last and tonumber(last[2] or 0) + 1
    local lineMax, channel = string.match(ARGV[4], '^(%d+) (%S+)$')
    -- Nobody observes, nothing but waiters stands in line, there is room, and the counter has not forgotten a fence.
    if place and place > 0 and place < 4503599627370496
      and redis.call('ZCOUNT', KEYS[3], '-inf', '+inf') < tonumber(lineMax)
      and tonumber(redis.call('GET', KEYS[1]) or 0) >= tonumber(ARGV[1])
      and not redis.call('HGET', KEYS[4], id) then
      local time = redis.call('TIME')
      local nowMs = math.floor((time[1] * 1000000 + time[2]) / 1000)
      local untilMs = nowMs + math.max(ARGV[2], 120000)
      redis.call('ZADD', KEYS[3], string.format('%.0f', place), id)
      redis.call('HSET', KEYS[4], id, string.format('w x %s %.0f %d %s ', ARGV[2], untilMs, (untilMs + 600000) / 1000, channel))
      -- As `cover` does: the keys of a line outlive whoever is in it.
      local wantMs = untilMs + 600000 - nowMs
      if redis.call('PTTL', KEYS[3]) < wantMs then
        redis.call('PEXPIRE', KEYS[3], wantMs)
        redis.call('PEXPIRE', KEYS[4], wantMs)
      elseif redis.call('PTTL', KEYS[4]) < wantMs then
        -- Claims of a longer time have left the line, and somebody who observed has kept it.
        redis.call('PEXPIRE', KEYS[4], wantMs)
      end
      return 'w ' .. redis.call('PTTL', KEYS[2]) .. ' ' .. string.format('%.0f', nowMs) .. ' '
    end
  end
end

-- In a function, since the locals of a script take time to make room for even where it ends before them.
local function everything()
-- @include clock.lua
-- @include value.lua
-- @include entry.lua
-- @include line.lua

local fenceAbove, lineMax, askerChannel = tonumber(ARGV[1]), string.match(ARGV[id and 4 or 2] or '0 -', '^(%d+) (%S+)$')
lineMax = tonumber(lineMax)

local function refusal(lock, id)
  local firstMs
  local first = lock.many and redis.call('ZRANGE', lock.line, 0, 0, 'WITHSCORES')[2]
  if first then
    firstMs = tonumber(first) + FAR - nowMs
  else
    -- Also when the line has gone without its plain key: evicted, or deleted by hand.
    firstMs = redis.call('PTTL', lock.key)
  end
  local marks = ''
  if lock.foreign then marks = head(lock) == id and 'hf' or 'f' end
  return 'w ' .. digits(firstMs) .. ' ' .. digits(nowMs) .. ' ' .. marks
end

-- A claim of another kind that stands in the way, as a mode.
local function disagreement(lock, family)
  if lock.weight > 0 and not lock.foreign then
    if lock.family == family then return nil end
    return lock.family == 'rw' and 'x' or 'p1/' .. string.sub(lock.family, 2)
  end
  local first = head(lock)
  local entry = first and redis.call('HGET', lock.info, first)
  local w = entry and waiterIn(entry)
  -- A place that nobody kept is on its way out.
  if not w or w.ends < nowMs then return nil end
  local _, _, present = measure(w.mode)
  if present ~= family then return w.mode end
end

local function dropDeadPlaces(lock)
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', lock.line, WAITING_MIN, WAITING_MAX)) do
    local entry = redis.call('HGET', lock.info, id)
    local w = entry and waiterIn(entry)
    if not w or w.ends < nowMs then forget(lock, id) end
  end
end

local function enter(lock, id, mode, ttl, note)
  if redis.call('ZCOUNT', lock.line, WAITING_MIN, WAITING_MAX) >= lineMax then
    dropDeadPlaces(lock)
    if redis.call('ZCOUNT', lock.line, WAITING_MIN, WAITING_MAX) >= lineMax then return 'l' end
  end
  local last = redis.call('ZREVRANGEBYSCORE', lock.line, WAITING_MAX, WAITING_MIN, 'WITHSCORES', 'LIMIT', 0, 1)
  redis.call('ZADD', lock.line, digits((tonumber(last[2]) or 0) + 1), id)
  local untilMs = nowMs + math.max(ttl, PLACE_MS)
  local covered = math.floor((untilMs + SPARE_MS) / 1000)
  redis.call('HSET', lock.info, id, waiterEntry({
    mode = mode, ttl = ttl, ends = untilMs, covered = covered, channel = askerChannel, note = note,
  }))
  cover(untilMs, lock.line, lock.info)
  tellObservers(lock)
  return refusal(lock, id)
end

local function keepPlace(lock, id, w, ttl)
  local untilMs = nowMs + math.max(ttl, PLACE_MS)
  w.ttl, w.ends, w.channel = ttl, untilMs, askerChannel
  if untilMs > w.covered * 1000 then w.covered = cover(untilMs, lock.line, lock.info) end
  redis.call('HSET', lock.info, id, waiterEntry(w))
end

local function renewMany(lock, id, entry, ttl)
  local mode, fence, granted, _, note = holderIn(entry)
  redis.call('ZADD', lock.line, digits(nowMs + ttl - FAR), id)
  local covered = math.floor((nowMs + ttl + SPARE_MS) / 1000)
  redis.call('HSET', lock.info, id, holderEntry(mode, fence, granted, covered, note))
  lock.shrunk, lock.uncovered, lock.changed = true, nowMs + ttl, true
  save(lock)
  return fence
end

local function stand(lock, id, mode, ttl, wait, note)
  expireHolders(lock)
  local entry = redis.call('HGET', lock.info, id)
  if entry then allowWrites(lock.line) end
  if entry and lock.many and string.sub(entry, 1, 1) == 'h' then return renewMany(lock, id, entry, ttl) end
  local w = entry and waiterIn(entry)
  local _, capacity, family = measure(mode)
  if w then
    keepPlace(lock, id, w, ttl)
  else
    local present = disagreement(lock, family)
    if present then return 'm ' .. present end
  end
  local fence
  if lock.weight < capacity then
    fence = settle(lock, id)
    if not fence and not w and fits(lock, mode) and not head(lock) then
      fence = nextFence()
      grant(lock, id, mode, ttl, note, fence)
    end
  end
  save(lock)
  if fence then return digits(fence) end
  if w or not wait then return refusal(lock, id) end
  return enter(lock, id, mode, ttl, note)
end

local function claim(key, line, info, id, mode, ttl, wait, note)
  local value = redis.call('GET', key)
  if not value and redis.call('EXISTS', line) == 0 then
    local fence, lock = nextFence(), { key = key, line = line, info = info, weight = 0, ends = 0 }
    grant(lock, id, mode, ttl, note, fence)
    if mode ~= 'x' then save(lock) end
    return digits(fence)
  end
  if value then
    local holder, fence = exclusiveIn(value)
    if holder == id then
      redis.call('PEXPIRE', key, digits(ttl))
      return fence
    end
  end
  return stand(lockOf(key, line, info, value), id, mode, ttl, wait, note)
end

-- The common case again, as at the top: nobody holds it or waits, so there is nothing to look at.
local function take(key, id, ttl)
  local fence = math.max(lastFence + 1, nowUs)
  local text = digits(fence)
  local mark = fence - nowUs > 1000000 and '@' .. digits(nowUs) or ''
  local set = redis.pcall('SET', key, text .. mark .. ' ' .. id, 'PX', ttl)
  if set.err then return '!' .. set.err end
  lastFence = fence
  return text
end

counter(fenceAbove)
local reply, items = {}, (#KEYS - 1) / 3
for item = 1, items do
  local k, note = item * 3 - 2, not id and ARGV[items + item + 2] or ''
  local key, line = KEYS[k + 1], KEYS[k + 2]
  local mode, ttl, wait, own = 'x', ARGV[2], ARGV[4] and '1', id
  if not id then mode, ttl, wait, own = string.match(ARGV[item + 2], '^(%S+) (%d+) (%d) (.+)$') end
  if mode == 'x' and note == '' and redis.call('EXISTS', key, line) == 0 then
    reply[item] = take(key, own, ttl)
  else
    reply[item] = attempt(claim, key, line, KEYS[k + 3], own, mode, tonumber(ttl), wait == '1', note)
  end
end
writeCounter()
return #reply == 1 and reply[1] or reply
end
return everything()
