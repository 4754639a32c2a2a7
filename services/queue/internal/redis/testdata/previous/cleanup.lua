-- cleanup: waiters whom nobody has heard of for long are parked, parked ones who never came back are let go, and a line that is empty
-- gets an end of life. Nothing happens while the line is silent or was not ticked: that would be our fault, not theirs.
--
-- KEYS  none of its own
-- ARGV  none of its own
-- reply { head, moved or removed, more (1: there is more to do) }
local done, more = 0, 0

-- heard is false while nobody contacts us (for as long as a parked one may come back: a crowd that left for good is cleaned up then).
local function heard()
  if line.tickAt > 0 and now - line.tickAt > C.silence then return false end
  if line.silent == 0 then return true end
  local newest = tonumber(call('ZREVRANGE', kSeen, 0, 0, 'WITHSCORES')[2] or 0)
  return now - newest > C.parked
end

if heard() and now >= line.resumed + C.seen then
  local absent = call('ZRANGEBYSCORE', kSeen, '-inf', int(now - C.seen), 'WITHSCORES', 'LIMIT', 0, C.cleanup)
  for i = 1, #absent, 2 do
    local user = absent[i]
    local score = call('ZSCORE', kQueue, user)
    unqueue(user)
    if score then park(user, int(tonumber(score)), tonumber(absent[i + 1])) end
    done = done + 1
  end
  if #absent == 2 * C.cleanup then more = 1 end
end

if heard() and now >= line.resumed + C.parked then
  local lost = call('ZRANGEBYSCORE', kParkedSeen, '-inf', int(now - C.parked), 'LIMIT', 0, C.cleanup)
  for _, user in ipairs(lost) do
    call('ZREM', kParkedSeen, user)
    call('ZREM', kParked, user)
    done = done + 1
  end
  if #lost == C.cleanup then more = 1 end
end

if done > 0 then dirty() end

-- A line opened for a sale lives until its end, one that visitors began by asking for an event lives for a while after the last left.
local empty = call('EXISTS', kQueue, kActive, kOld, kParked) == 0
local life = tonumber(call('HGET', kLine, 'sale') or 0) == 0 and C.idle or (line.closes > 0 and math.max(line.closes - now, 0) + C.idle)
for _, key in ipairs(lasting) do
  if empty and life then call('PEXPIRE', key, int(life)) else call('PERSIST', key) end
end
return { head(), done, more }
