-- admit: one tick. Ends expired and absent holders' slots, then assigns free slots to the next
-- present waiters, in order. A minute after the sale's end it frees the line. Any replica may call
-- it at any time: the line counts the admissions per second, so the rate does not depend on the
-- number of replicas.
--
-- KEYS   none of its own
-- ARGV   seed of slot ids
-- reply  { head, admitted, parked, more (1: there is more to do immediately),
--          silent (1: nobody has contact, so nothing was decided), slots kept for late visitors }
local seed = ARGV[OWN]
local wrote, more, parked = false, 0, 0

-- dropAll ends the slots of one page of users, and sets `more` if there may be others.
local function dropAll(users)
  for _, user in ipairs(users) do
    endSlot(user)
    wrote = true
  end
  if #users == C.page then more = 1 end
end

local function expire()
  dropAll(call('ZRANGEBYSCORE', kActive, '-inf', int(slotClock), 'LIMIT', 0, C.page))
  if call('EXISTS', kOld) == 1 then
    local over = not away and now > math.max(line.epoch / 1000, line.backAt) + C.activeSeen
    dropAll(call('ZRANGEBYSCORE', kOld, '-inf', over and '+inf' or int(slotClock), 'LIMIT', 0, C.page))
  end
end

-- freeLine deletes the waiters and holders of a sale that has ended. It waits for a report that
-- ticket measured a minute or more after the end, because a sale may be reopened by an operator, or
-- have ended by an outdated report. Until then nobody is admitted and all data stays. A line
-- without a sale ends by its settings alone.
--
-- UNLINK frees large keys in another thread of the server.
local function freeLine()
  local endKnownAt = line.status == C.noSale and now or line.statusAt
  if endKnownAt < line.endedAt + C.reopen then return end
  local ended = call('UNLINK', kQueue, kEntitled, kGranted, kSeen, kSince, kParked, kParkedSeen, kLate, kActive, kActiveSeen, kUnclaimed, kSlot, kHolds, kOld)
  if ended == 0 then return end
  wrote = true
  for _, key in ipairs(lasting) do call('PEXPIRE', key, C.idle) end -- perhaps no cleanup follows
end

-- forgetTurns forgets turns after a day or two, and all of a line without decisions for a day.
local function forgetTurns()
  if line.turnsAt == 0 or now < line.turnsAt + C.pass then return end
  call('UNLINK', kTurnsBefore)
  local over = now >= (closed and line.endedAt or line.at) + C.pass
  if over then
    call('UNLINK', kTurns)
  elseif call('EXISTS', kTurns) == 1 then
    call('RENAME', kTurns, kTurnsBefore)
  end
  set({ turnsAt = over and 0 or now })
end

-- lastContact returns the time of the last contact, the shortest poll interval among the ten newest
-- contacts of waiters, and whether there are ten.
local function lastContact()
  local newest = call('ZREVRANGE', kSeen, 0, C.minSilent - 1, 'WITHSCORES')
  local latest = tonumber(call('ZREVRANGE', kActiveSeen, 0, 0, 'WITHSCORES')[2] or 0)
  local shortest = C.longestPoll
  for i = 2, #newest, 2 do
    local score = tonumber(newest[i])
    latest = math.max(latest, score)
    local p = pollIn(score)
    if p > 0 then shortest = math.min(shortest, p) end
  end
  return latest, shortest, #newest == 2 * C.minSilent
end

-- detectOutage reports whether an outage of the system keeps everybody from making contact. Then
-- nobody is parked, admitted or loses a slot, and after the next contact all ages restart
-- (`resumed`). Visitors who left together look the same, so it counts once per C.silenceCap. An
-- empty line is hardly ever ticked, which is no outage.
local function detectOutage()
  local latest, shortest, crowd = lastContact()
  local grace = math.max(C.silence, 2000 * shortest + 5000)
  local capped = now - line.silentAt <= C.silenceCap
  local silent = line.silent
  local unticked = line.tickAt > 0 and now - line.tickAt > C.silence and call('EXISTS', kQueue, kEntitled, kActive, kOld, kParked) > 0
  if unticked and not capped then
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

-- holdersFrom is the time from which ages of holders and of unclaimed slots count.
local holdersFrom

-- parkUnclaimed parks admitted visitors who did not fetch the token in time; their slots become
-- free.
local function parkUnclaimed()
  local due = call('ZRANGEBYSCORE', kUnclaimed, '-inf', int(now), 'WITHSCORES', 'LIMIT', 0, C.park)
  if #due == 0 then -- a deadline beyond the maximum was set before the clock was set back
    due = call('ZRANGEBYSCORE', kUnclaimed, int(now + maxSilence(C.longestPoll) + 1000), '+inf', 'WITHSCORES', 'LIMIT', 0, C.park)
  end
  for i = 1, #due, 2 do
    local user = due[i]
    if holdersFrom + maxSilence(pollIn(tonumber(due[i + 1]))) <= now or tonumber(due[i + 1]) > now then
      local _, score = slotOf(user)
      endSlot(user)
      if score then park(user, score, now) end
      wrote, parked = true, parked + 1
    end
  end
end

-- endAbsentHolders ends slots without contact, except while a hold is in force: the holder may be
-- at the payment provider.
local function endAbsentHolders()
  if now < holdersFrom + C.activeSeen then return end
  local from = 0
  repeat
    local page = call('ZRANGEBYSCORE', kActiveSeen, '-inf', int(now - C.activeSeen), 'LIMIT', from, C.page)
    local kept = 0
    for _, user in ipairs(page) do
      local _, _, hold = slotOf(user)
      if hold and hold > now then
        kept = kept + 1
      else
        endSlot(user)
        wrote = true
      end
    end
    from = from + kept
  until #page < C.page or kept < #page
end

-- Slots kept for late visitors. Browsers limit a hidden tab to one poll per minute. Admitted by a
-- tick, such a tab would lose the slot before its next poll, repeatedly, and slots would be idle.
-- So a tick parks late visitors instead of admitting them, and keeps a slot free until C.late after
-- their last contact, for at most one in C.lateShare of all slots. Their next contact enters at
-- once.
local kept, keepable = keptSlots()
local passed = 0
local hasLate, hasSince = call('EXISTS', kLate) == 1, call('EXISTS', kSince) == 1

-- passLate keeps a slot for a late visitor who is parked, if allowed. It returns the number of slots
-- kept.
local function passLate(user, seen)
  local till = math.floor(math.max(seen, line.resumed)) + C.late
  passed = passed + 1
  if kept >= keepable or till <= now then return 0 end
  markLate(user, till)
  kept = kept + 1
  return 1
end

-- presence returns from when on (ms) a user who waited in `queue` counts as present, for the check of the
-- admissions' order: if the sale had a presale, from the sale's opening.
local function presence(score, from)
  if line.presale == 0 then return from end
  return int(math.max(tonumber(from or 0), math.floor(tonumber(score) / 1000), line.opens))
end

-- newBatch collects what is to be written of a page of the queue, as arguments of a call per key.
local function newBatch()
  return { slots = {}, deadlines = {}, values = {}, spent = {}, turns = {}, present = {}, parked = {}, parkedSeen = {}, gone = 0, admitted = 0, kept = 0,
    full = false, over = false }
end

-- silences are maxSilence, and deadlines the scores of `unclaimed` until which a visitor has to claim
-- the slot, by poll interval. There are few intervals.
local silences, deadlines = {}, {}

local function silenceOf(p)
  local s = maxSilence(p)
  silences[p], deadlines[p] = s, string.format('%.17g', now + s + p / 128)
  return s
end

-- selectWaiters selects present waiters from the head of the queue while there is room, and parks
-- absent and late ones. This loop is most of a tick: scores stay strings where possible, and it calls
-- few functions.
local function selectWaiters(heads, users, entitled, admitted, room)
  local touched = call('ZMSCORE', kSeen, unpack(users))
  local from = hasSince and call('HMGET', kSince, unpack(users)) or {}
  local late = hasLate and call('ZMSCORE', kLate, unpack(users)) or {}
  local till, spentAt, resumed, floor, high = int(newSlotEnd()), int(now), line.resumed, math.floor, nil
  local batch = newBatch()
  local slots, due, values, spent, away, awaySeen = batch.slots, batch.deadlines, batch.values, batch.spent, batch.parked, batch.parkedSeen
  local turns, reach, forAll, present, n, out = batch.turns, line.reach, isForAll(), batch.present, 0, 0
  for i, user in ipairs(users) do
    local score, contact = heads[2 * i], touched[i]
    local seen = tonumber(contact or 0)
    local p = floor(seen % 1 * 128 + 0.5) -- pollIn
    local silence = silences[p] or silenceOf(p)
    local skip = late[i] and passed < C.latePassed
    if not skip and n + batch.kept >= room then
      batch.over = true
      break
    elseif parked >= C.park then
      batch.full = true
      break
    elseif skip or (seen > resumed and seen or resumed) + silence < now then
      if skip then batch.kept = batch.kept + passLate(user, seen) end
      away[out + 1], away[out + 2] = score, user
      awaySeen[out + 1], awaySeen[out + 2] = contact or spentAt, user
      out, parked = out + 2, parked + 1
    else
      local id, at = slotId(seed, admitted + n), 2 * n
      slots[at + 1], slots[at + 2] = till, user
      due[at + 1], due[at + 2] = deadlines[p], user
      values[at + 1], values[at + 2] = user, id .. ' ' .. score .. ' 0 0'
      spent[at + 1], spent[at + 2] = spentAt, user
      if not forAll or tonumber(score) <= reach then -- isEarly
        turns[at + 1], turns[at + 2] = user, forAll and score or turnMark(score) -- early places are before all others
      end
      local since = entitled[i] and from[i] or not entitled[i] and presence(score, from[i])
      if since then
        present[#present + 1], present[#present + 2] = user, since
      end
      n, high = n + 1, score
      if late[i] then call('ZREM', kLate, user) end
    end
    batch.gone = i
  end
  batch.admitted = n
  if high then raiseHigh(tonumber(high)) end
  return batch
end

-- admitFrom writes the result of selectWaiters in few calls, since the fixed cost of a call
-- dominates.
local function admitFrom(heads, entitled, admitted, room)
  local users = {}
  for i = 1, #heads / 2 do users[i] = heads[2 * i - 1] end
  local batch = selectWaiters(heads, users, entitled, admitted, room)
  if batch.admitted > 0 then
    call('ZADD', kActive, unpack(batch.slots))
    call('ZADD', kUnclaimed, unpack(batch.deadlines))
    call('HSET', kSlot, unpack(batch.values))
    markSpent(unpack(batch.spent))
    markTurns(batch.turns)
    record(batch.values, batch.present)
  end
  if #batch.parked > 0 then
    call('ZADD', kParked, unpack(batch.parked))
    call('ZADD', kParkedSeen, unpack(batch.parkedSeen))
  end
  if batch.gone > 0 then -- they are the first of their sets
    local fromEntitled = 0
    for i = 1, batch.gone do
      if entitled[i] then fromEntitled = fromEntitled + 1 end
    end
    if fromEntitled > 0 then call('ZREMRANGEBYRANK', kEntitled, 0, fromEntitled - 1) end
    if batch.gone > fromEntitled then call('ZREMRANGEBYRANK', kQueue, 0, batch.gone - fromEntitled - 1) end
    call('ZREM', kSeen, unpack(users, 1, batch.gone))
    if hasSince then call('HDEL', kSince, unpack(users, 1, batch.gone)) end
  end
  return batch
end

-- A page of the queue is as long as the room, within these bounds. After a page of absent visitors
-- only, the next one is twice as long.
local shortestPage, longestPage = 10, 200

-- nextWaiters returns the first n of those who may enter, each with the score, and a table of which of
-- them are in `entitled`, by index.
local function nextWaiters(n)
  local queue = isForAll() and call('ZRANGE', kQueue, 0, n - 1, 'WITHSCORES') or {}
  local few = line.split == 1 and call('ZRANGE', kEntitled, 0, n - 1, 'WITHSCORES') or {}
  if #few == 0 then return queue, {} end
  local heads, entitled, q, e = {}, {}, 1, 1
  for i = 1, math.min(n, (#queue + #few) / 2) do
    local first = not queue[q] or (few[e] and tonumber(few[e + 1]) < tonumber(queue[q + 1]))
    if first then
      heads[2 * i - 1], heads[2 * i], entitled[i], e = few[e], few[e + 1], true, e + 2
    else
      heads[2 * i - 1], heads[2 * i], q = queue[q], queue[q + 1], q + 2
    end
  end
  return heads, entitled
end

local function admit()
  local tick = math.floor(now / 1000)
  local used = tick == line.tick and line.used or 0
  local vacant = limit - activeCount() - call('ZCARD', kOld)
  local room = math.min(vacant - math.min(kept, keepable), C.batch - used)
  local admitted, full, over, absent = 0, false, vacant <= 0, 0
  while not full and not over and (room > 0 or hasLate) do
    local page = math.max(math.min(room, 100), shortestPage, math.min(2 * absent, longestPage))
    local heads, entitled = nextWaiters(page)
    if #heads == 0 then break end
    local batch = admitFrom(heads, entitled, admitted, room)
    local n = batch.admitted
    absent = n == 0 and batch.gone or 0
    admitted, room, full, over = admitted + n, room - n - batch.kept, batch.full, batch.over
  end
  if full then more = 1 end
  if admitted > 0 then
    set({ tick = tick, used = used + admitted, admitted = line.admitted + admitted, high = line.high, highAll = line.highAll })
    trimRecord()
  end
  return admitted
end

local silent, admitted = false, 0
if closed then
  forgetTurns()
  freeLine()
else
  -- At its limit of memory Redis refuses a script's first write if it may need memory, but none after
  -- another one. So this write is the first: then nothing is decided, as during an outage, and no slot
  -- ends because its holder's contacts cannot be written.
  call('HSET', kLine, 'tickAt', int(now))
  forgetTurns()
  expire()
  silent = detectOutage()
  holdersFrom = math.max(line.resumed, line.backAt)
end
if not closed and not silent then
  if not away then
    parkUnclaimed()
    endAbsentHolders()
  end
  if open then admitted = admit() end
end
if wrote or admitted > 0 or parked > 0 then dirty() end
return { head(), admitted, parked, more, silent and 1 or 0, math.min(kept, keepable) }
