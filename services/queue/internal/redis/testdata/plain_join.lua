-- plain join: an ordered line and a number of slots, without recovery, parking, tier 1 or checks of
-- the order. A visitor enters if nobody waits and a slot is free, else queues by arrival.
--
-- KEYS   queue · seen · active · threshold
-- ARGV   user
-- reply  { 1 inside, 0 waiting; rank; waiting; active }
local user = ARGV[1]
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local active = redis.call('ZCARD', KEYS[3])
if redis.call('ZSCORE', KEYS[3], user) then return { 1, 0, redis.call('ZCARD', KEYS[1]), active } end
local score = redis.call('ZSCORE', KEYS[1], user)
if not score then
  if active < tonumber(redis.call('GET', KEYS[4])) and redis.call('ZCARD', KEYS[1]) == 0 then
    redis.call('ZADD', KEYS[3], string.format('%.0f', now), user)
    return { 1, 0, 0, active + 1 }
  end
  redis.call('ZADD', KEYS[1], string.format('%.0f', now), user)
end
redis.call('ZADD', KEYS[2], string.format('%.0f', now), user)
return { 0, redis.call('ZRANK', KEYS[1], user), redis.call('ZCARD', KEYS[1]), active }
