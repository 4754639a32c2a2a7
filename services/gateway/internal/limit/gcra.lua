-- GCRA: spends one request of a key's allowance.
-- KEYS[1]  the key; holds the theoretical arrival time in µs
-- ARGV[1]  emission interval in µs (1 / rate), ARGV[2] tolerance in µs (interval × burst)
-- Reply    0 when allowed, else µs to wait
local t = redis.call('TIME')
local now = tonumber(t[1]) * 1000000 + tonumber(t[2])
local tat = tonumber(redis.call('GET', KEYS[1]) or 0)
local interval, tolerance = tonumber(ARGV[1]), tonumber(ARGV[2])
local nxt = math.max(tat, now) + interval
local wait = nxt - now - tolerance
if wait > 0 then
  return math.ceil(wait)
end
redis.call('SET', KEYS[1], string.format('%.0f', nxt), 'PX', math.ceil((nxt - now) / 1000) + 1)
return 0
