-- GCRA: spends one request of a key's allowance.
-- KEYS[1]  the key; holds the theoretical arrival time in µs
-- ARGV[1]  emission interval in µs (1 / rate), ARGV[2] tolerance in µs (interval × burst)
-- ARGV[3]  only of a meter, which counts every request, also those beyond the allowance: how far
--          beyond it is remembered at most, in µs
-- Reply    0 within the allowance, else µs beyond it: how long to wait, or what a meter shows
local t = redis.call('TIME')
local now = tonumber(t[1]) * 1000000 + tonumber(t[2])
local tat = tonumber(redis.call('GET', KEYS[1]) or 0)
local interval, tolerance, most = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local nxt = math.max(tat, now) + interval
local beyond = nxt - now - tolerance
if beyond > 0 and not most then
  return math.ceil(beyond)
end
if most and beyond > most then
  beyond = most
  nxt = now + tolerance + most
end
redis.call('SET', KEYS[1], string.format('%.0f', nxt), 'PX', math.ceil((nxt - now) / 1000) + 1)
return math.max(0, math.ceil(beyond))
