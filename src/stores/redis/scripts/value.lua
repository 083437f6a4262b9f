-- The plain key is what every other program looks at. It holds one of
--   <fence>[+][@<granted, us>] <id>     an exclusive claim of ours; + when it has a note, @ when the fence does not tell the time; sixteen digits
--   ~<family> <weight> <until, ms>      several claims of ours, listed in the line; family: rw, or p<of>
--   anything else                       another program's lock
local function exclusiveIn(value)
  local fence, marks, id = string.match(value, '^(%d+)(%+?@?%d*) (.+)$')
  -- Others write the time too, in seconds or milliseconds, and who they are.
  if fence and #fence == 16 then return id, fence, marks end
end

local function manyIn(value)
  local family, weight, ends = string.match(value, '^~(%w+) (%d+) (%d+)$')
  return family, tonumber(weight), tonumber(ends)
end

-- A fence is the time of the grant in us unless something pushed it ahead by more than a second.
local function exclusiveValue(fence, id, hasNote)
  local mark = hasNote and '+' or ''
  if math.abs(fence - nowUs) > 1000000 then mark = mark .. '@' .. digits(nowUs) end
  return digits(fence) .. mark .. ' ' .. id
end

-- x, s or p<count>/<of>: weight, capacity and family.
local function measure(mode)
  if mode == 'x' then return EVERYTHING, EVERYTHING, 'rw' end
  if mode == 's' then return 1, EVERYTHING, 'rw' end
  local count, of = string.match(mode, '^p(%d+)/(%d+)$')
  return tonumber(count), tonumber(of), 'p' .. of
end
