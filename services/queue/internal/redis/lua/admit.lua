-- admit: one tick. Ends what has expired or is absent, then gives free slots to the next present
-- waiters, in order; a minute after the sale is over, it frees the line. Any replica may
-- call it at any time: the number admitted per second is counted in the line, so the rate does not depend on how many replicas tick.
--
-- KEYS  none of its own
-- ARGV  15 seed of slot ids
-- reply { head, admitted, parked, more (1: there is more to do at once), silent (1: nobody is heard of, so nothing was decided) }
--       and, behind these, how many slots are kept for those who are late
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
  dropAll(call('ZRANGEBYSCORE', kActive, '-inf', int(now), 'LIMIT', 0, C.page))
  if call('EXISTS', kOld) == 1 then
    local over = now > line.epoch / 1000 + C.activeSeen
    dropAll(call('ZRANGEBYSCORE', kOld, '-inf', over and '+inf' or int(now), 'LIMIT', 0, C.page))
  end
end

-- finish frees the line of a sale that is over, of who waited and who was inside: once ticket has
-- said so a minute after the line ended, and not before, since a sale may be opened again, by an
-- operator or because the word that ended it was an old one. Until then nobody is let in or told of
-- a place, and all of it stays as it is. The settings alone end a line that has no sale.
--
-- A million members are freed by another thread of the server.
local function finish()
  local told = line.status == C.noSale and now or line.statusAt
  if told < line.endedAt + C.reopen then return end
  local ended = call('UNLINK', kQueue, kSeen, kSince, kParked, kParkedSeen, kLate, kActive, kActiveSeen, kUnclaimed, kSlot, kHolds, kOld)
  if ended > 0 then wrote = true end
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
  if #due == 0 then -- a deadline that is farther away than any was set before the clock went back
    due = call('ZRANGEBYSCORE', kUnclaimed, int(now + patience(C.longestPoll) + 1000), '+inf', 'WITHSCORES', 'LIMIT', 0, C.park)
  end
  for i = 1, #due, 2 do
    local user = due[i]
    if line.resumed + patience(pollIn(tonumber(due[i + 1]))) <= now or tonumber(due[i + 1]) > now then
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

-- Slots kept free for those who are late. Browsers let a hidden tab ask once a minute: admitted by
-- a tick, it would lose the slot before it hears of it, each time anew, and whoever never claims
-- would keep slots idle with that. So a tick admits nobody who is late. It parks them and keeps a
-- slot free until C.late after their last contact, at most one in C.lateShare of all; with the next
-- contact they come back, and enter at once.
local kept, keepable = keptSlots()
local passed = 0

-- passOver parks somebody who is late, and keeps a slot for them if one may be kept. It returns how
-- many it kept.
local function passOver(user, score, seen)
  local till = math.floor(math.max(seen, line.resumed)) + C.late
  park(user, score, seen > 0 and seen or now)
  passed = passed + 1
  if kept >= keepable or till <= now then return 0 end
  beLate(user, till)
  kept = kept + 1
  return 1
end

-- take admits the present among the first of the queue while there is room, and parks the absent
-- and the late among them.
local function take(heads, admitted, room)
  local users = {}
  for i = 1, #heads, 2 do users[#users + 1] = heads[i] end
  local touched, from = call('ZMSCORE', kSeen, unpack(users)), call('HMGET', kSince, unpack(users))
  local late = call('ZMSCORE', kLate, unpack(users))
  local till = int(now + slotLength())
  local t = { slots = {}, deadlines = {}, values = {}, spent = {}, gone = {}, kept = 0, full = false, over = false }
  for i, user in ipairs(users) do
    local score, seen = int(tonumber(heads[2 * i])), tonumber(touched[i] or 0)
    local p, n = pollIn(seen), #t.slots / 2
    local skip = late[i] and passed < C.latePassed
    if not skip and n + t.kept >= room then
      t.over = true
      break
    elseif parked >= C.park then
      t.full = true
      break
    elseif skip then
      t.kept = t.kept + passOver(user, score, seen)
      parked = parked + 1
    elseif math.max(seen, line.resumed) + patience(p) < now then
      park(user, score, seen > 0 and seen or now)
      parked = parked + 1
    else
      local id, at = slotId(seed, admitted + n), 2 * n
      t.slots[at + 1], t.slots[at + 2] = till, user
      t.deadlines[at + 1], t.deadlines[at + 2] = now + patience(p) + p / 128, user
      t.values[at + 1], t.values[at + 2] = user, id .. ' ' .. score .. ' 0 0'
      t.spent[at + 1], t.spent[at + 2] = int(now), user
      record(id, user, score, from[i] or nil)
      line.high = math.max(line.high, tonumber(score))
      if late[i] then call('ZREM', kLate, user) end
    end
    t.gone[#t.gone + 1] = user
  end
  return t
end

-- takeFrom does what take decided. Writes are collected, since each call costs more than what it
-- does.
local function takeFrom(heads, admitted, room)
  local t = take(heads, admitted, room)
  if #t.slots > 0 then
    call('ZADD', kActive, unpack(t.slots))
    call('ZADD', kUnclaimed, unpack(t.deadlines))
    call('HSET', kSlot, unpack(t.values))
    spend(unpack(t.spent))
  end
  if #t.gone > 0 then
    call('ZREM', kQueue, unpack(t.gone))
    call('ZREM', kSeen, unpack(t.gone))
    call('HDEL', kSince, unpack(t.gone))
  end
  return t
end

local function admit()
  local tick = math.floor(now / 1000)
  local used = tick == line.tick and line.used or 0
  local vacant = limit - activeCount() - call('ZCARD', kOld)
  local room = math.min(vacant - math.min(kept, keepable), C.batch - used)
  local admitted, full, over = 0, false, vacant <= 0
  while not full and not over do
    local heads = call('ZRANGE', kQueue, 0, math.max(math.min(room, 100), 10) - 1, 'WITHSCORES')
    if #heads == 0 then break end
    local t = takeFrom(heads, admitted, room)
    local n = #t.slots / 2
    admitted, room, full, over = admitted + n, room - n - t.kept, t.full, t.over
  end
  if full then more = 1 end
  if admitted > 0 then
    set({ tick = tick, used = used + admitted, admitted = line.admitted + admitted, high = line.high })
  end
  return admitted
end

local silent, admitted = false, 0
if closed then
  finish()
else
  expire()
  silent = listen()
end
if not closed and not silent then
  unclaim()
  abandon()
  if open then admitted = admit() end
end
if wrote or admitted > 0 or parked > 0 then dirty() end
return { head(), admitted, parked, more, silent and 1 or 0, math.min(kept, keepable) }
