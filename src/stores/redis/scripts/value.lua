-- The plain key is the one that other programs use. Its value is one of
--   <fence>[+][@<granted, µs>] <id>   an exclusive holder; + if it has a note, @ if the
--                                     fence does not tell the time of the grant
--   ~<family> <weight> <until, ms>    several holders, listed in the queue; family: rw, or p<of>
--   any other value                   a lock of another program
local function exclusiveIn(value)
  local fence, marks, id = string.match(value, '^(%d+)(%+?@?%d*) (.+)$')
  -- Other programs may store a time and an owner too, in seconds or milliseconds.
  if fence and #fence == FENCE_DIGITS then return id, fence, marks end
end

local function manyIn(value)
  local family, weight, ends = string.match(value, '^~(%w+) (%d+) (%d+)$')
  return family, tonumber(weight), tonumber(ends)
end

-- A fence is the time of the grant in µs, unless an earlier fence was greater.
local function exclusiveValue(fence, id, hasNote)
  local mark = hasNote and '+' or ''
  if math.abs(fence - nowUs) > FENCE_APART_US then mark = mark .. '@' .. digits(nowUs) end
  return digits(fence) .. mark .. ' ' .. id
end

-- The weight, capacity and family of a mode: x, s or p<count>/<of>.
local function measure(mode)
  if mode == 'x' then return EVERYTHING, EVERYTHING, 'rw' end
  if mode == 's' then return 1, EVERYTHING, 'rw' end
  local count, of = string.match(mode, '^p(%d+)/(%d+)$')
  return tonumber(count), tonumber(of), 'p' .. of
end
