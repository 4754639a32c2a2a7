-- GCRA: spends one request of a key's allowance.
-- KEYS[1]  the key; holds the theoretical arrival time in µs
-- ARGV[1]  emission interval in µs (1 / rate), ARGV[2] tolerance in µs (interval × burst)
-- ARGV[3]  only for a meter, which counts every request, even beyond the allowance: the largest excess
--          that is remembered, in µs
-- Reply    0 within the allowance, else the excess in µs: the time to wait, or the value of the meter
local t = redis.call('TIME')
local now = tonumber(t[1]) * 1000000 + tonumber(t[2])
local tat = tonumber(redis.call('GET', KEYS[1]) or 0)
local interval, tolerance, maxExcess = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local nxt = math.max(tat, now) + interval
local excess = nxt - now - tolerance
if excess > 0 and not maxExcess then
  return math.ceil(excess)
end
if maxExcess and excess > maxExcess then
  excess = maxExcess
  nxt = now + tolerance + maxExcess
end
redis.call('SET', KEYS[1], string.format('%.0f', nxt), 'PX', math.ceil((nxt - now) / 1000) + 1)
return math.max(0, math.ceil(excess))
