-- The key of the counter is a prefix that only we use, and `fence`.
local channelBase = string.sub(KEYS[1], 1, -6) .. 'wake:'
-- In a Cluster it ends in `shard`, and channels are sharded.
local PUBLISH = string.sub(KEYS[1], -1) == 'd' and 'SPUBLISH' or 'PUBLISH'
-- Channels without a subscriber, so that a dead process is tried once in a call, and not once for
-- each of its claims.
local silent = {}

local function send(channel, message)
  if silent[channel] then return false end
  if redis.call(PUBLISH, channelBase .. channel, message) > 0 then return true end
  silent[channel] = true
  return false
end

-- The counter of fences. It is read when first needed, and written at the end of the call.
local lastFence, fenceWritten
local function counter(floor)
  if not lastFence then
    lastFence = math.max(tonumber(redis.call('GET', KEYS[1]) or 0), FENCE_MIN - 1)
    fenceWritten = lastFence
  end
  if floor > lastFence then lastFence = floor end
end

local function nextFence()
  counter(0)
  return math.max(lastFence + 1, nowUs)
end

-- With full memory this fails only if nothing was granted in this call, and then no fence is lost.
local function writeCounter()
  if lastFence and lastFence > fenceWritten then redis.pcall('SET', KEYS[1], digits(lastFence)) end
end

-- One lock during this call. `weight`: the weight of its holders; `family`: which claims can share
-- its queue.
local function lockOf(key, queue, info, value)
  local exists = value and true or false
  local lock = { key = key, queue = queue, info = info, weight = 0, ends = 0, exists = exists }
  if not value then return lock end
  local family, weight, ends = manyIn(value)
  if family then
    lock.family, lock.weight, lock.ends, lock.many = family, weight, ends, true
  else
    lock.weight, lock.foreign = EVERYTHING, true
    if exclusiveIn(value) then lock.family, lock.foreign = 'rw', false end
  end
  return lock
end

local function forget(lock, id)
  redis.call('ZREM', lock.queue, id)
  redis.call('HDEL', lock.info, id)
end

-- Removes expired holders, and all of them if the plain key that they share is gone.
local function expireHolders(lock)
  if lock.weight > 0 and not lock.many then return end
  local last = lock.many and digits(nowMs - FAR) or '(0'
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', lock.queue, '-inf', last)) do
    local entry = redis.call('HGET', lock.info, id)
    forget(lock, id)
    if lock.many and entry then
      lock.weight = lock.weight - measure((holderIn(entry)))
      lock.changed, lock.shrunk = true, true
    end
  end
end

local function fits(lock, mode)
  local weight, capacity = measure(mode)
  return lock.weight + weight <= capacity
end

local function grant(lock, id, mode, ttl, note, fence)
  lock.changed = true
  if mode == 'x' then
    redis.call('SET', lock.key, exclusiveValue(fence, id, note ~= ''), 'PX', digits(ttl))
    lastFence, lock.weight, lock.many = fence, EVERYTHING, false
    if note ~= '' then
      redis.call('HSET', lock.info, id, holderEntry('x', digits(fence), digits(nowUs), 0, note))
      cover(nowMs + ttl, lock.info)
    end
    return
  end
  redis.call('ZADD', lock.queue, digits(nowMs + ttl - FAR), id)
  local weight, _, family = measure(mode)
  lastFence, lock.weight, lock.family, lock.many = fence, lock.weight + weight, family, true
  lock.ends = math.max(lock.ends, nowMs + ttl)
  local covered = math.floor((nowMs + ttl + SPARE_MS) / 1000)
  redis.call('HSET', lock.info, id, holderEntry(mode, digits(fence), digits(nowUs), covered, note))
  lock.uncovered = math.max(lock.uncovered or 0, nowMs + ttl)
end

local function head(lock)
  return redis.call('ZRANGEBYSCORE', lock.queue, WAITING_MIN, WAITING_MAX, 'LIMIT', 0, 1)[1]
end

-- The claim entered a moment ago.
local function isFresh(w)
  return w.ends - math.max(w.ttl, POSITION_MS) + FRESH_MS >= nowMs
end

-- Grants a claim whose owner has not asked in this call. The process of the owner may be stopped,
-- so the grant is short until it is confirmed. A fresh claim is sent its fence and its time, and
-- any other claim has to ask. A claim whose process is not subscribed any more is dropped.
local function grantUnasked(lock, id, w)
  local fence, ttl = nextFence(), math.min(w.ttl, UNCONFIRMED_MS)
  local message = 'g\n' .. lock.key .. '\n' .. id
  if isFresh(w) then
    message = message .. '\n' .. digits(fence) .. '\n' .. digits(nowMs + ttl)
  end
  if w.channel ~= '-' and not send(w.channel, message) then return end
  grant(lock, id, w.mode, ttl, w.note, fence)
  lock.handed = lock.handed or {}
  lock.handed[w.channel] = true
end

-- Tells other processes in the queue to look when the unconfirmed grant ends, because the releasing
-- process may be gone by then. The last waiter comes first: the next ones may all be stopped, and the
-- process that entered last is the likeliest to run.
local function tellLookers(lock)
  local told, first, last = 0, WAITING_MIN, WAITING_MAX
  local lookers = redis.call('ZREVRANGEBYSCORE', lock.queue, last, first, 'LIMIT', 0, 1)
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', lock.queue, first, last, 'LIMIT', 0, LOOKERS_AMONG)) do
    lookers[#lookers + 1] = id
  end
  for _, id in ipairs(lookers) do
    local entry = redis.call('HGET', lock.info, id)
    local w = entry and waiterIn(entry)
    if w and w.channel ~= '-' and not lock.handed[w.channel] then
      lock.handed[w.channel] = true
      if send(w.channel, 'l\n' .. lock.key) then told = told + 1 end
      if told == LOOKERS_MAX then return end
    end
  end
end

-- Grants every claim that fits, in order. `asker`: the claim of this call. It needs no message and
-- gets its full time. Returns its fence if it was granted.
local function settle(lock, asker)
  local granted
  while lock.weight < EVERYTHING do
    local id = head(lock)
    if not id then break end
    local entry = redis.call('HGET', lock.info, id)
    local w = entry and waiterIn(entry)
    if w and not fits(lock, w.mode) then break end
    -- Removing comes first: the server accepts it when its memory is full, and the other writes
    -- after it.
    forget(lock, id)
    lock.left = true
    if w and id == asker then
      granted = nextFence()
      grant(lock, id, w.mode, w.ttl, w.note, granted)
    elseif w and w.ends >= nowMs then
      grantUnasked(lock, id, w)
    end
  end
  if lock.handed then tellLookers(lock) end
  return granted
end

-- The message to observers: o if a claim may be granted because of the change, otherwise h.
local changeKind = 'o'

local function tellObservers(lock)
  for _, channel in ipairs(redis.call('ZRANGEBYSCORE', lock.queue, OBSERVING_MIN, '+inf')) do
    local score = tonumber(redis.call('ZSCORE', lock.queue, channel))
    if score - FAR < nowMs or not send(channel, changeKind .. '\n' .. lock.key) then
      redis.call('ZREM', lock.queue, channel)
    end
  end
end

-- After the last waiter has left, the helper keys need not live longer than the holders.
local function shortenKeys(lock)
  if head(lock) then return end
  local endsMs = redis.call('PTTL', lock.key)
  if endsMs < 0 then return end
  local mostMs = endsMs + SPARE_MS
  if redis.call('PTTL', lock.info) > mostMs then redis.call('PEXPIRE', lock.info, digits(mostMs)) end
  -- The queue also has observers, which have asked for a time of their own.
  if redis.call('ZCOUNT', lock.queue, OBSERVING_MIN, '+inf') > 0 then return end
  if redis.call('PTTL', lock.queue) > mostMs then redis.call('PEXPIRE', lock.queue, digits(mostMs)) end
end

-- Writes the state of the lock.
local function save(lock)
  if lock.changed then
    if lock.weight == 0 then
      if lock.exists then redis.call('DEL', lock.key) end
    elseif lock.many then
      -- The holder with the latest expiry may have left. The plain key must not outlive the last
      -- holder.
      if lock.shrunk then lock.ends = lastEnd(lock.queue) end
      local value = '~' .. lock.family .. ' ' .. digits(lock.weight) .. ' ' .. digits(lock.ends)
      redis.call('SET', lock.key, value, 'PX', digits(math.max(lock.ends - nowMs, 1)))
    end
    if lock.uncovered then cover(lock.uncovered, lock.queue, lock.info) end
    tellObservers(lock)
  end
  if lock.left then shortenKeys(lock) end
end

-- One of several holders claims again: it is renewed. Returns its fence.
local function renewHolder(lock, id, entry, ttl)
  local mode, fence, granted, _, note = holderIn(entry)
  allowWrites(lock.queue)
  redis.call('ZADD', lock.queue, digits(nowMs + ttl - FAR), id)
  local covered = math.floor((nowMs + ttl + SPARE_MS) / 1000)
  redis.call('HSET', lock.info, id, holderEntry(mode, fence, granted, covered, note))
  lock.shrunk, lock.uncovered, lock.changed = true, nowMs + ttl, true
  save(lock)
  return fence
end

-- Runs one item of a batch. A key of the wrong type fails its item, and not the whole call.
local function attempt(work, ...)
  local ok, result = pcall(work, ...)
  if ok then return result end
  return '!' .. (type(result) == 'table' and result.err or tostring(result))
end
