-- GCRA: spends one request of a key's allowance.
-- KEYS[1]  the key; holds the theoretical arrival time in µs
-- ARGV[1]  emission interval in µs (1 / rate), ARGV[2] tolerance in µs (interval × burst)
-- ARGV[3], ARGV[4]  only for a meter, which counts every request, even beyond the allowance: the largest
--          excess that is remembered, and its half-life, both in µs. The key then holds when the
--          excess will be forgotten (limit.meter).
-- Reply    0 within the allowance, else the excess in µs: the time to wait, or the value of the meter
local t = redis.call('TIME')
local now = tonumber(t[1]) * 1000000 + tonumber(t[2])
local interval, tolerance = tonumber(ARGV[1]), tonumber(ARGV[2])
local ahead = math.max(tonumber(redis.call('GET', KEYS[1]) or 0) - now, 0)
local excess
if ARGV[3] then
  local unit = tonumber(ARGV[4]) / math.log(2)
  excess = ahead - tolerance
  if excess > 0 then
    excess = unit * (math.exp(excess / unit) - 1)
  end
  excess = math.min(excess + interval, tonumber(ARGV[3]))
  ahead = tolerance + (excess > 0 and unit * math.log(1 + excess / unit) or excess)
else
  ahead = ahead + interval
  excess = ahead - tolerance
  if excess > 0 then
    return math.ceil(excess)
  end
end
redis.call('SET', KEYS[1], string.format('%.0f', now + ahead), 'PX', math.ceil(ahead / 1000) + 1)
return math.max(0, math.ceil(excess))
