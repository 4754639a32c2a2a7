-- cleanup: parks waiters without contact for long, removes parked ones who did not return, and sets
-- the TTL of an empty line. Other old data is removed in pages too: freeing a million members at
-- once would block Redis. Nothing is moved while the line is silent or was not ticked, since that
-- is an outage of the system.
--
-- KEYS   none of its own
-- ARGV   none of its own
-- reply  { head, number parked or removed, more (1: there is more to do) }
local done, more = 0, 0

-- mayCleanUp returns false during an outage, at most for as long as parked places are kept: then
-- all visitors have left.
local function mayCleanUp()
  if line.tickAt > 0 and now - line.tickAt > C.silence then return false end
  if line.silent == 0 then return true end
  local newest = tonumber(call('ZREVRANGE', kSeen, 0, 0, 'WITHSCORES')[2] or 0)
  return now - newest > C.parked
end

if mayCleanUp() and now >= line.resumed + C.seen then
  local absent = call('ZRANGEBYSCORE', kSeen, '-inf', int(now - C.seen), 'WITHSCORES', 'LIMIT', 0, C.cleanup)
  for i = 1, #absent, 2 do
    local user = absent[i]
    local score = scoreOf(user)
    unqueue(user)
    if score then park(user, int(tonumber(score)), tonumber(absent[i + 1])) end
    done = done + 1
  end
  if #absent == 2 * C.cleanup then more = 1 end
end

if mayCleanUp() and now >= line.resumed + C.parked then
  local expired = call('ZRANGEBYSCORE', kParkedSeen, '-inf', int(now - C.parked), 'LIMIT', 0, C.cleanup)
  local turns = {}
  for _, user in ipairs(expired) do
    local score = call('ZSCORE', kParked, user)
    if score and isEarly(score) then
      turns[#turns + 1], turns[#turns + 2] = user, score
    end
    call('ZREM', kParkedSeen, user)
    call('ZREM', kParked, user)
    call('ZREM', kLate, user)
    done = done + 1
  end
  markTurns(turns)
  if #expired == C.cleanup then more = 1 end
end

if done > 0 then dirty() end

local forgotten = call('ZRANGEBYSCORE', kSpent, '-inf', int(now - C.spent), 'LIMIT', 0, C.cleanup)
if #forgotten > 0 then call('ZREM', kSpent, unpack(forgotten)) end
if #forgotten == C.cleanup then more = 1 end

-- By then tickets and tokens of the previous epoch restore nothing.
if now >= math.max(line.epoch / 1000 + C.parked, line['until']) and #call('SPOP', kRestored, C.cleanup) == C.cleanup then more = 1 end

if line.split == 1 and call('EXISTS', kEntitled) == 0 then set({ split = 0 }) end

-- An empty line with a closing time is kept until a day after it, any other for a day.
local empty = call('EXISTS', kQueue, kEntitled, kActive, kOld, kParked) == 0
local life = C.idle
if not closed and line.closes > 0 then life = line.closes - now + C.idle end
for _, key in ipairs(lasting) do
  if empty then call('PEXPIRE', key, int(life)) else call('PERSIST', key) end
end
return { head(), done, more }
