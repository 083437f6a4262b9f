-- Releases holds and queue positions, and grants the lock to the next claims in the queue.
-- KEYS  the counter of fences, then for each item: plain key, queue, info
-- ARGV  for one item <id>, <1 to remove a lock of another program too>; for several items, for each
--       <1 to remove a lock of another program too><id>
-- Gives for each item 1 (removed by this call), 2 (removed, and a claim was granted that has to be
--       confirmed), 0 (not there) or !<error>; without a list if there is one item only
-- The most frequent call is the release of one exclusive hold without a note, with an empty queue
-- or with an exclusive claim without a note as the next one. Both cases are handled before anything
-- else is defined, because the definitions alone take longer.
local one = not KEYS[5] and ARGV[1]
if one then
  local value = redis.call('GET', KEYS[2])
  -- A fence and a space come before the id. Any other value belongs to another program.
  if value and string.sub(value, FENCE_END, FENCE_END) == ' '
    and string.match(value, '^%d+ (.+)$') == one then
    if redis.call('EXISTS', KEYS[3]) == 0 then return redis.call('DEL', KEYS[2]) end
    local next = redis.call('ZRANGEBYSCORE', KEYS[3], WAITING_MIN, WAITING_MAX, 'LIMIT', 0, 1)[1]
    local entry = next and redis.call('HGET', KEYS[4], next)
    local ttl, ends, channel = string.match(entry or '', '^w x (%d+) (%d+) %d+ ([^- ]%S*) $')
    if ttl and redis.call('ZCOUNT', KEYS[3], OBSERVING_MIN, '+inf') == 0 then
      local time = redis.call('TIME')
      local text = time[1] .. string.sub('00000' .. time[2], -6)
      local nowMs = math.floor(text / 1000)
      -- As `grantUnasked` does for a fresh claim. The claims behind it have entered after it, so
      -- they look soon by themselves.
      if ends - math.max(ttl, POSITION_MS) + FRESH_MS >= nowMs and #text == FENCE_DIGITS
        and (redis.call('GET', KEYS[1]) or '0') < text then
        ttl = math.min(ttl, UNCONFIRMED_MS)
        local message = 'g\n' .. KEYS[2] .. '\n' .. next .. '\n' .. text .. '\n'
          .. string.format('%.0f', nowMs + ttl)
        local publish = string.sub(KEYS[1], -1) == 'd' and 'SPUBLISH' or 'PUBLISH'
        -- Removing comes first: a waiter must not be told of a grant that the server then refuses
        -- to write. With full memory, the server accepts a write after a removal.
        redis.call('ZREM', KEYS[3], next)
        redis.call('HDEL', KEYS[4], next)
        if redis.call(publish, string.sub(KEYS[1], 1, -6) .. 'wake:' .. channel, message) > 0 then
          redis.call('SET', KEYS[1], text)
          redis.call('SET', KEYS[2], text .. ' ' .. next, 'PX', ttl)
          return 2
        end
      end
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

local function releaseExclusive(key, queue, info, id, marks)
  if string.sub(marks, 1, 1) == '+' then redis.call('HDEL', info, id) end
  if redis.call('EXISTS', queue) == 0 then
    redis.call('DEL', key)
    return 1
  end
  local lock = { key = key, queue = queue, info = info, weight = 0, ends = 0, exists = true, changed = true }
  settle(lock)
  save(lock)
  return lock.handed and 2 or 1
end

-- Grants every claim that fits, even if the claim is not there: a hold may have expired without a
-- release, and waiters must not wait for it.
local function leaveQueue(lock, id)
  expireHolders(lock)
  local score = tonumber(redis.call('ZSCORE', lock.queue, id) or FAR)
  local entry = score < FAR and redis.call('HGET', lock.info, id)
  -- What is left of a claim whose queue was evicted, or deleted by hand.
  if score == FAR then redis.call('HDEL', lock.info, id) end
  if entry then
    forget(lock, id)
    lock.changed, lock.left = true, true
    if score < 0 then lock.weight, lock.shrunk = lock.weight - measure((holderIn(entry))), true end
  end
  settle(lock)
  save(lock)
  if not entry then return 0 end
  return lock.handed and 2 or 1
end

local function release(key, queue, info, id, evict)
  local value = redis.call('GET', key)
  if value then
    local holder, _, marks = exclusiveIn(value)
    if holder == id then return releaseExclusive(key, queue, info, id, marks) end
    if evict and value == id then return releaseExclusive(key, queue, info, id, '') end
  end
  if redis.call('EXISTS', queue) == 0 then
    redis.pcall('HDEL', info, id)
    return 0
  end
  return leaveQueue(lockOf(key, queue, info, value), id)
end

-- The most frequent case again, as at the top.
local function leave(k, id, evict)
  local key, queue = KEYS[k + 1], KEYS[k + 2]
  local value = redis.pcall('GET', key)
  if type(value) == 'string' and string.sub(value, FENCE_END, FENCE_END) == ' '
    and string.match(value, '^%d+ (.+)$') == id
    and redis.call('EXISTS', queue) == 0 then
    return redis.call('DEL', key)
  end
  return attempt(release, key, queue, KEYS[k + 3], id, evict == '1')
end

local reply
if one then
  reply = leave(1, one, ARGV[2])
else
  reply = {}
  for item, arg in ipairs(ARGV) do
    reply[item] = leave(item * 3 - 2, string.sub(arg, 2), string.sub(arg, 1, 1))
  end
end
writeCounter()
return reply
end
return everything()
