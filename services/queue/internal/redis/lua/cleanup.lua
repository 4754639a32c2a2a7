-- cleanup: waiters whom nobody has heard of for long are parked, parked ones who never came back are let go, and a line that is empty
-- gets an end of life. What is only remembered goes in pages too: a million members freed at once would hold up everybody. Nothing is
-- moved while the line is silent or was not ticked: that would be our fault, not theirs.
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
    call('ZREM', kLate, user)
    done = done + 1
  end
  if #lost == C.cleanup then more = 1 end
end

if done > 0 then dirty() end

local forgotten = call('ZRANGEBYSCORE', kSpent, '-inf', int(now - C.spent), 'LIMIT', 0, C.cleanup)
if #forgotten > 0 then call('ZREM', kSpent, unpack(forgotten)) end
if #forgotten == C.cleanup then more = 1 end

-- By then no ticket of the last epoch gives a place back, nor does a token a slot.
if now >= math.max(line.epoch / 1000 + C.parked, line['until']) and #call('SPOP', kRestored, C.cleanup) == C.cleanup then more = 1 end

-- A sale's line is kept until a day after the sale's end, any other for a day after it became empty.
local empty = call('EXISTS', kQueue, kActive, kOld, kParked) == 0
local life = C.idle
if not closed and line.closes > 0 then life = line.closes - now + C.idle end
for _, key in ipairs(lasting) do
  if empty then call('PEXPIRE', key, int(life)) else call('PERSIST', key) end
end
return { head(), done, more }
