-- GCRA: counts requests of many keys. A key holds its theoretical arrival time in µs.
-- KEYS     the keys, on a cluster all of one slot; a key that is there twice is counted twice
-- ARGV     six for each key: the emission interval (1 / rate) and the tolerance (interval × burst),
--          both in µs; how many requests were allowed already, and count in any case; 1 to ask for
--          one more, else 0; and only for a meter, which counts every request, even beyond the
--          allowance, the largest excess that is remembered, and its half-life, both in µs, else 0.
--          The key of a meter holds when the excess will be forgotten (limit.countByMeter).
-- Reply    two for each key, in µs: 0 if the request that was asked for is allowed, else the time to
--          wait, or the excess of a meter; and 0 if one more would be within the allowance, else the
--          time until then
local t = redis.call('TIME')
local now = tonumber(t[1]) * 1000000 + tonumber(t[2])
local reply = {}
for i, key in ipairs(KEYS) do
  local a = 6 * i
  local interval, tolerance = tonumber(ARGV[a - 5]), tonumber(ARGV[a - 4])
  local counted, asked, most = tonumber(ARGV[a - 3]), tonumber(ARGV[a - 2]), tonumber(ARGV[a - 1])
  local ahead = math.max(tonumber(redis.call('GET', key) or 0) - now, 0)
  local excess = 0
  if most > 0 then
    counted = counted + asked
    local unit = tonumber(ARGV[a]) / math.log(2)
    excess = ahead - tolerance
    if excess > 0 then
      excess = unit * (math.exp(excess / unit) - 1)
    end
    excess = math.min(excess + counted * interval, most)
    ahead = tolerance + (excess > 0 and unit * math.log(1 + excess / unit) or excess)
  else
    excess = ahead + (counted + asked) * interval - tolerance
    if asked == 0 or excess <= 0 then
      counted, excess = counted + asked, 0
    end
    ahead = ahead + counted * interval
  end
  if counted > 0 and ahead > 0 then
    redis.call('SET', key, string.format('%.0f', now + ahead), 'PX', math.ceil(ahead / 1000) + 1)
  end
  reply[2 * i - 1] = math.max(0, math.ceil(excess))
  reply[2 * i] = math.max(0, math.ceil(ahead + interval - tolerance))
end
return reply
