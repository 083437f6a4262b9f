-- A claim that is granted while its owner does not ask lives only this long until it does: a dead waiter costs no more.
local HANDED_MS = 5000
-- But one that has asked so recently is taken for alive. It gets its full time, and is told all it needs to know.
local FRESH_MS = 1000
-- A place lives this long without being asked for.
local PLACE_MS = 120000

-- The counter's key ends in `fence`; what stands before it is ours alone.
local channelBase = string.sub(KEYS[1], 1, -6) .. 'wake:'
-- In a Cluster it ends in `shard`, and channels belong to their slot.
local PUBLISH = string.sub(KEYS[1], -1) == 'd' and 'SPUBLISH' or 'PUBLISH'
-- Channels that nobody listened to in this call, so that a dead process is asked once and not once for each of its places.
local silent = {}

local function send(channel, message)
  if silent[channel] then return false end
  if redis.call(PUBLISH, channelBase .. channel, message) > 0 then return true end
  silent[channel] = true
  return false
end

-- Sixteen digits, so that fences compare as texts and no other program's number is taken for one. The clock has had as many since 2001; a server that has forgotten
-- the time counts from here.
local FENCE_MIN = 1000000000000000

-- The counter of fences, read when first needed and written at the end of the call.
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

-- Full memory refuses this only when nothing was granted in this call, and then nothing is lost.
local function writeCounter()
  if lastFence and lastFence > fenceWritten then redis.pcall('SET', KEYS[1], digits(lastFence)) end
end

-- One lock as this call sees it. `weight` is what the holders weigh, `family` who may stand in its line.
local function lockOf(key, line, info, value)
  local lock = { key = key, line = line, info = info, weight = 0, ends = 0, exists = value and true or false }
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
  redis.call('ZREM', lock.line, id)
  redis.call('HDEL', lock.info, id)
end

-- Drops holders that have run out, and all of them when the plain key that stood for them is gone.
local function expireHolders(lock)
  if lock.weight > 0 and not lock.many then return end
  local last = lock.many and digits(nowMs - FAR) or '(0'
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', lock.line, '-inf', last)) do
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
  redis.call('ZADD', lock.line, digits(nowMs + ttl - FAR), id)
  local weight, _, family = measure(mode)
  lastFence, lock.weight, lock.family, lock.many = fence, lock.weight + weight, family, true
  lock.ends = math.max(lock.ends, nowMs + ttl)
  local covered = math.floor((nowMs + ttl + SPARE_MS) / 1000)
  redis.call('HSET', lock.info, id, holderEntry(mode, digits(fence), digits(nowUs), covered, note))
  lock.uncovered = math.max(lock.uncovered or 0, nowMs + ttl)
end

local function head(lock)
  return redis.call('ZRANGEBYSCORE', lock.line, WAITING_MIN, WAITING_MAX, 'LIMIT', 0, 1)[1]
end

-- Grants whoever fits, in order. Who does not listen any more is passed over. `asker` is asking at this moment, so it needs no
-- message and gets its full time; returns its fence when it was granted.
local function settle(lock, asker)
  local granted
  while lock.weight < EVERYTHING do
    local id = head(lock)
    if not id then break end
    local entry = redis.call('HGET', lock.info, id)
    local w = entry and waiterIn(entry)
    if w and not fits(lock, w.mode) then break end
    -- Removing comes first: it is allowed when memory is full, and after it so is the rest.
    forget(lock, id)
    if w and id == asker then
      granted = nextFence()
      grant(lock, id, w.mode, w.ttl, w.note, granted)
    elseif w and w.ends >= nowMs then
      local fence, ttl = nextFence(), w.ttl
      local message = 'g\n' .. lock.key .. '\n' .. id
      if w.ends - math.max(ttl, PLACE_MS) + FRESH_MS >= nowMs and w.channel ~= '-' then
        message = message .. '\n' .. digits(fence) .. '\n' .. digits(nowMs + ttl)
      else
        ttl = math.min(ttl, HANDED_MS)
        lock.handed = true
      end
      if w.channel == '-' or send(w.channel, message) then grant(lock, id, w.mode, ttl, w.note, fence) end
    end
  end
  return granted
end

-- What observers are told: o when somebody may go on because of it, h when not.
local changeKind = 'o'

local function tellObservers(lock)
  for _, channel in ipairs(redis.call('ZRANGEBYSCORE', lock.line, '(4503599627370496', '+inf')) do
    local score = tonumber(redis.call('ZSCORE', lock.line, channel))
    if score - FAR < nowMs or not send(channel, changeKind .. '\n' .. lock.key) then redis.call('ZREM', lock.line, channel) end
  end
end

-- Writes back what the claims of this lock have become.
local function save(lock)
  if not lock.changed then return end
  if lock.weight == 0 then
    if lock.exists then redis.call('DEL', lock.key) end
  elseif lock.many then
    -- Whoever held it for the longest may have left: the plain key must not keep others out for longer than the last of them.
    if lock.shrunk then lock.ends = lastEnd(lock.line) end
    local value = '~' .. lock.family .. ' ' .. digits(lock.weight) .. ' ' .. digits(lock.ends)
    redis.call('SET', lock.key, value, 'PX', digits(math.max(lock.ends - nowMs, 1)))
  end
  if lock.uncovered then cover(lock.uncovered, lock.line, lock.info) end
  tellObservers(lock)
end

-- Runs one item of a batch. A key of the wrong type fails its item and not the call.
local function attempt(work, ...)
  local ok, result = pcall(work, ...)
  if ok then return result end
  return '!' .. (type(result) == 'table' and result.err or tostring(result))
end
