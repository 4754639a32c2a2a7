-- admit: one tick. Ends what has expired or is absent, then gives free slots to the next present waiters, in order. Any replica may
-- call it at any time: the number admitted per second is counted in the line, so the rate does not depend on how many replicas tick.
--
-- KEYS  none of its own
-- ARGV  11 seed of slot ids
-- reply { head, admitted, parked, more (1: there is more to do at once), silent (1: nobody is heard of, so nothing was decided) }
local seed = ARGV[OWN]
local wrote, more, parked = false, 0, 0

-- dropAll ends the slots of one page of users and remembers whether there may be more.
local function dropAll(users)
  for _, user in ipairs(users) do
    drop(user)
    wrote = true
  end
  if #users == C.page then more = 1 end
end

local function expire()
  local upTo = closed and '+inf' or int(now)
  dropAll(call('ZRANGEBYSCORE', kActive, '-inf', upTo, 'LIMIT', 0, C.page))
  if call('EXISTS', kOld) == 1 then
    local over = now > line.epoch / 1000 + C.activeSeen
    dropAll(call('ZRANGEBYSCORE', kOld, '-inf', (over or closed) and '+inf' or int(now), 'LIMIT', 0, C.page))
  end
end

-- lastContact is when anybody was last heard of, and the shortest poll among the ten newest contacts of waiters, if there are ten.
local function lastContact()
  local newest = call('ZREVRANGE', kSeen, 0, C.crowd - 1, 'WITHSCORES')
  local latest = tonumber(call('ZREVRANGE', kActiveSeen, 0, 0, 'WITHSCORES')[2] or 0)
  local shortest = C.longestPoll
  for i = 2, #newest, 2 do
    local score = tonumber(newest[i])
    latest = math.max(latest, score)
    local p = pollIn(score)
    if p > 0 then shortest = math.min(shortest, p) end
  end
  return latest, shortest, #newest == 2 * C.crowd
end

-- listen decides whether our own outage keeps everybody silent: then nothing is parked, taken back or admitted, and from the next
-- contact on every age counts anew (`resumed`). A crowd that really left could do the same, so it counts once per C.silenceCap.
local function listen()
  local latest, shortest, crowd = lastContact()
  local grace = math.max(C.silence, 2000 * shortest + 5000)
  local capped = now - line.silentAt <= C.silenceCap
  local silent = line.silent
  if line.tickAt > 0 and now - line.tickAt > C.silence and not capped then
    set({ resumed = now, silentAt = now })
    silent = 0
  elseif silent == 1 and now - latest <= grace then
    set({ resumed = now, silentAt = now })
    silent = 0
  elseif silent == 0 and crowd and now - latest > grace and not capped then
    silent = 1
  end
  set({ tickAt = now, silent = silent })
  return silent == 1
end

-- unclaim parks who was admitted and did not fetch the token in time: the slot goes to the next.
local function unclaim()
  local due = call('ZRANGEBYSCORE', kUnclaimed, '-inf', int(now), 'WITHSCORES', 'LIMIT', 0, C.park)
  for i = 1, #due, 2 do
    local user = due[i]
    if line.resumed + patience(pollIn(tonumber(due[i + 1]))) <= now then
      local _, score = slotOf(user)
      drop(user)
      if score then park(user, score, now) end
      wrote, parked = true, parked + 1
    end
  end
end

-- abandon ends slots without contact, but not while a hold made in them lives: its owner may be at the payment provider.
local function abandon()
  if now < line.resumed + C.activeSeen then return end
  local from = 0
  repeat
    local page = call('ZRANGEBYSCORE', kActiveSeen, '-inf', int(now - C.activeSeen), 'LIMIT', from, C.page)
    local kept = 0
    for _, user in ipairs(page) do
      local _, _, hold = slotOf(user)
      if hold and hold > now then
        kept = kept + 1
      else
        drop(user)
        wrote = true
      end
    end
    from = from + kept
  until #page < C.page or kept < #page
end

-- takeFrom goes through the first of the queue: the present get slots, the absent are parked. It returns how many were admitted, and
-- whether parking came to its limit. Writes are collected, since each call costs more than what it does.
local function takeFrom(heads, admitted)
  local users = {}
  for i = 1, #heads, 2 do users[#users + 1] = heads[i] end
  local touched, from = call('ZMSCORE', kSeen, unpack(users)), call('HMGET', kSince, unpack(users))
  local till = int(now + slotLength())
  local slots, deadlines, values, gone, full = {}, {}, {}, {}, false
  for i, user in ipairs(users) do
    local score, seen = int(tonumber(heads[2 * i])), tonumber(touched[i] or 0)
    local p = pollIn(seen)
    if math.max(seen, line.resumed) + patience(p) < now then
      if parked >= C.park then
        full = true
        break
      end
      park(user, score, seen > 0 and seen or now)
      parked = parked + 1
    else
      local n = #slots / 2
      local id = slotId(seed, admitted + n)
      slots[2 * n + 1], slots[2 * n + 2] = till, user
      deadlines[2 * n + 1], deadlines[2 * n + 2] = now + patience(p) + p / 128, user
      values[2 * n + 1], values[2 * n + 2] = user, id .. ' ' .. score .. ' 0 0'
      record(id, user, score, from[i] or nil)
      line.high = math.max(line.high, tonumber(score))
    end
    gone[#gone + 1] = user
  end
  if #slots > 0 then
    call('ZADD', kActive, unpack(slots))
    call('ZADD', kUnclaimed, unpack(deadlines))
    call('HSET', kSlot, unpack(values))
  end
  if #gone > 0 then
    call('ZREM', kQueue, unpack(gone))
    call('ZREM', kSeen, unpack(gone))
    call('HDEL', kSince, unpack(gone))
  end
  return #slots / 2, full
end

local function admit()
  local tick = math.floor(now / 1000)
  local used = tick == line.tick and line.used or 0
  local free = math.min(limit - activeCount() - call('ZCARD', kOld), C.batch - used)
  local admitted, full = 0, false
  while admitted < free and not full do
    local heads = call('ZRANGE', kQueue, 0, math.min(free - admitted, 100) - 1, 'WITHSCORES')
    if #heads == 0 then break end
    local n
    n, full = takeFrom(heads, admitted)
    admitted = admitted + n
  end
  if full then more = 1 end
  if admitted > 0 then
    set({ tick = tick, used = used + admitted, admitted = line.admitted + admitted, high = line.high })
  end
  return admitted
end

expire()
local silent, admitted = listen(), 0
if not silent then
  unclaim()
  abandon()
  if open then admitted = admit() end
end
if wrote or admitted > 0 or parked > 0 then dirty() end
return { head(), admitted, parked, more, silent and 1 or 0 }
