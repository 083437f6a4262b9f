-- @include constants.lua
-- The server's time, the same during a whole call.
local time = redis.call('TIME')
local nowUs = time[1] * SECOND_US + time[2]
local nowMs = math.floor(nowUs / 1000)

-- `..` would write a number of sixteen digits as 1.76e+15.
local function digits(number)
  return string.format('%.0f', number)
end
