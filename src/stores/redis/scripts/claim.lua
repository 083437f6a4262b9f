-- Claims locks, one attempt for each item. A holder that claims again is renewed, a waiting claim
-- keeps its queue position, and a new claim is granted or enqueued.
-- KEYS  the counter of fences, then for each item: plain key, queue, info
-- ARGV  for one exclusive claim without a note: <fence to stay above>, <ttl, ms>, <id>, and if it
--       waits <bound of the queue> <channel of the process, or ->;
--       otherwise <fence to stay above>, <bound of the queue> <channel of the process, or ->, then
--       for each item <mode> <ttl, ms> <1 to wait> <id>, then, if any item has a note, the note of
--       each
-- Gives for each item one of these, without a list if there is one item only
--       <fence>                 granted
--       w <ms> <now> <marks>    refused; ms until the first hold ends, or -1 if it does not expire;
--                               the server's time in ms; marks: h the claim is the head of the
--                               queue, f another program holds the lock
--       m <mode>                refused: the lock is in use in another mode
--       l                       refused: the queue is full
--       !<error>                failed
-- The most frequent call is one exclusive claim without a note, on a free lock or behind an
-- exclusive hold. Both cases are handled before anything else is defined, and with few calls,
-- strings and locals, since each of those takes longer than the work itself.
local id = not KEYS[5] and tonumber(ARGV[2]) and ARGV[3]
if id then
  if redis.call('EXISTS', KEYS[2], KEYS[3]) == 0 then
    local time = redis.call('TIME')
    local text, mark = time[1] .. string.sub('00000' .. time[2], -6), ' '
    -- Read and written in one step, because the clock is almost always ahead of the last fence.
    -- Numbers with the same number of digits compare as texts.
    local last = redis.call('SET', KEYS[1], text, 'GET') or '0'
    if last >= text or ARGV[1] >= text or #text < FENCE_DIGITS then
      local nowUs, least = tonumber(text), math.max(last + 1, ARGV[1] + 1, FENCE_MIN)
      if least - nowUs > FENCE_APART_US then mark = '@' .. text .. ' ' end
      text = string.format('%.0f', math.max(least, nowUs))
      redis.call('SET', KEYS[1], text)
    end
    redis.call('SET', KEYS[2], text .. mark .. id, 'PX', ARGV[2])
    return text
  elseif ARGV[4] then
    local value = redis.pcall('GET', KEYS[2])
    local holder = type(value) == 'string' and string.sub(value, FENCE_END, FENCE_END) == ' '
      and string.match(value, '^%d+ (.+)$')
    local last = holder and holder ~= id
      and redis.call('ZREVRANGEBYSCORE', KEYS[3], '+inf', '-inf', 'WITHSCORES', 'LIMIT', 0, 1)
    local position = last and tonumber(last[2] or 0) + 1
    local queueMax, channel = string.match(ARGV[4], '^(%d+) (%S+)$')
    -- Only if there are no observers, the queue has only waiters and room for one more, and the
    -- counter has not lost a fence.
    if position and position > 0 and position < FAR
      and redis.call('ZCOUNT', KEYS[3], '-inf', '+inf') < tonumber(queueMax)
      and tonumber(redis.call('GET', KEYS[1]) or 0) >= tonumber(ARGV[1])
      and not redis.call('HGET', KEYS[4], id) then
      local time = redis.call('TIME')
      local nowMs = math.floor((time[1] * SECOND_US + time[2]) / 1000)
      local untilMs = nowMs + math.max(ARGV[2], POSITION_MS)
      redis.call('ZADD', KEYS[3], string.format('%.0f', position), id)
      redis.call('HSET', KEYS[4], id,
        string.format('w x %s %.0f %d %s ', ARGV[2], untilMs, (untilMs + SPARE_MS) / 1000, channel))
      -- As `cover` does: the keys of a queue outlive its claims.
      local keyTtlMs = untilMs + SPARE_MS - nowMs
      if redis.call('PTTL', KEYS[3]) < keyTtlMs then
        redis.call('PEXPIRE', KEYS[3], keyTtlMs)
        redis.call('PEXPIRE', KEYS[4], keyTtlMs)
      elseif redis.call('PTTL', KEYS[4]) < keyTtlMs then
        -- A claim with a longer TTL has left the queue, and an observer has kept the key.
        redis.call('PEXPIRE', KEYS[4], keyTtlMs)
      end
      return 'w ' .. redis.call('PTTL', KEYS[2]) .. ' ' .. string.format('%.0f', nowMs) .. ' '
    end
  end
end

-- In a function, because making room for the locals of a script takes time even if it returns
-- before them.
local function everything()
-- @include clock.lua
-- @include value.lua
-- @include entry.lua
-- @include queue.lua

local fenceAbove = tonumber(ARGV[1])
local queueMax, askerChannel = string.match(ARGV[id and 4 or 2] or '0 -', '^(%d+) (%S+)$')
queueMax = tonumber(queueMax)

local function refusal(lock, id)
  local firstMs
  local first = lock.many and redis.call('ZRANGE', lock.queue, 0, 0, 'WITHSCORES')[2]
  if first then
    firstMs = tonumber(first) + FAR - nowMs
  else
    -- Also if the queue is gone and its plain key is not: evicted, or deleted by hand.
    firstMs = redis.call('PTTL', lock.key)
  end
  local marks = ''
  if lock.foreign then marks = head(lock) == id and 'hf' or 'f' end
  return 'w ' .. digits(firstMs) .. ' ' .. digits(nowMs) .. ' ' .. marks
end

-- The mode of a claim that is there already, if the new claim cannot share a lock with it.
local function disagreement(lock, family)
  if lock.weight > 0 and not lock.foreign then
    if lock.family == family then return nil end
    return lock.family == 'rw' and 'x' or 'p1/' .. string.sub(lock.family, 2)
  end
  local first = head(lock)
  local entry = first and redis.call('HGET', lock.info, first)
  local w = entry and waiterIn(entry)
  -- An expired queue position is removed soon.
  if not w or w.ends < nowMs then return nil end
  local _, _, present = measure(w.mode)
  if present ~= family then return w.mode end
end

-- The queues in which dead positions were looked for in this call.
local searched = {}

-- Whether the queue has room, also after dead positions were dropped from it. Claims that are refused
-- may be many, and the queue may be long: so only a part of it is looked at, once in a call, and
-- another part at another time.
local function makeRoom(lock)
  local count = redis.call('ZCOUNT', lock.queue, WAITING_MIN, WAITING_MAX)
  if count < queueMax then return true end
  if searched[lock.queue] then return false end
  searched[lock.queue] = true
  local from = nowMs % math.max(count - SEARCHED_MAX + 1, 1)
  local part = redis.call(
    'ZRANGEBYSCORE', lock.queue, WAITING_MIN, WAITING_MAX, 'LIMIT', from, SEARCHED_MAX
  )
  for _, id in ipairs(part) do
    local entry = redis.call('HGET', lock.info, id)
    local w = entry and waiterIn(entry)
    if not w or w.ends < nowMs then
      forget(lock, id)
      count = count - 1
    end
  end
  return count < queueMax
end

local function enqueue(lock, id, mode, ttl, note)
  if not makeRoom(lock) then return 'l' end
  local last = redis.call(
    'ZREVRANGEBYSCORE', lock.queue, WAITING_MAX, WAITING_MIN, 'WITHSCORES', 'LIMIT', 0, 1
  )
  redis.call('ZADD', lock.queue, digits((tonumber(last[2]) or 0) + 1), id)
  local untilMs = nowMs + math.max(ttl, POSITION_MS)
  local covered = math.floor((untilMs + SPARE_MS) / 1000)
  redis.call('HSET', lock.info, id, waiterEntry({
    mode = mode, ttl = ttl, ends = untilMs, covered = covered, channel = askerChannel, note = note,
  }))
  cover(untilMs, lock.queue, lock.info)
  tellObservers(lock)
  return refusal(lock, id)
end

-- A claim that is not fresh any more does not become so by asking again: the claims behind it may
-- have entered long before, and none of them would look soon if the process of this claim were
-- stopped.
local function keepPosition(lock, id, w, ttl)
  local untilMs = nowMs + math.max(ttl, POSITION_MS)
  if not isFresh(w) then untilMs = untilMs - FRESH_MS - 1 end
  w.ttl, w.ends, w.channel = ttl, untilMs, askerChannel
  if untilMs > w.covered * 1000 then w.covered = cover(untilMs, lock.queue, lock.info) end
  redis.call('HSET', lock.info, id, waiterEntry(w))
end

local function enqueueOrGrant(lock, id, mode, ttl, wait, note)
  expireHolders(lock)
  local entry = redis.call('HGET', lock.info, id)
  if entry and lock.many and string.sub(entry, 1, 1) == 'h' then return renewHolder(lock, id, entry, ttl) end
  if entry then allowWrites(lock.queue) end
  local w = entry and waiterIn(entry)
  -- The queue was evicted, or deleted by hand: the claim enters it again.
  if w and not redis.call('ZSCORE', lock.queue, id) then
    redis.call('HDEL', lock.info, id)
    w = nil
  end
  local _, capacity, family = measure(mode)
  if w then
    keepPosition(lock, id, w, ttl)
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
  return enqueue(lock, id, mode, ttl, note)
end

local function claim(key, queue, info, id, mode, ttl, wait, note)
  local value = redis.call('GET', key)
  if not value and redis.call('EXISTS', queue) == 0 then
    local fence, lock = nextFence(), { key = key, queue = queue, info = info, weight = 0, ends = 0 }
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
  return enqueueOrGrant(lockOf(key, queue, info, value), id, mode, ttl, wait, note)
end

-- The most frequent case again, as at the top: the lock is free.
local function take(key, id, ttl)
  local fence = math.max(lastFence + 1, nowUs)
  local text = digits(fence)
  local mark = fence - nowUs > FENCE_APART_US and '@' .. digits(nowUs) or ''
  local set = redis.pcall('SET', key, text .. mark .. ' ' .. id, 'PX', ttl)
  if set.err then return '!' .. set.err end
  lastFence = fence
  return text
end

counter(fenceAbove)
local reply, items = {}, (#KEYS - 1) / 3
for item = 1, items do
  local k, note = item * 3 - 2, not id and ARGV[items + item + 2] or ''
  local key, queue = KEYS[k + 1], KEYS[k + 2]
  local mode, ttl, wait, own = 'x', ARGV[2], ARGV[4] and '1', id
  if not id then mode, ttl, wait, own = string.match(ARGV[item + 2], '^(%S+) (%d+) (%d) (.+)$') end
  if mode == 'x' and note == '' and redis.call('EXISTS', key, queue) == 0 then
    reply[item] = take(key, own, ttl)
  else
    reply[item] = attempt(claim, key, queue, KEYS[k + 3], own, mode, tonumber(ttl), wait == '1', note)
  end
end
writeCounter()
return #reply == 1 and reply[1] or reply
end
return everything()
