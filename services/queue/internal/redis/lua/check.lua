-- check: N visitors ask for their places. A holder keeps (and claims) the slot. A waiter's contact
-- is recorded. A visitor who was parked, or lost with an earlier epoch, returns with the old score.
-- A newcomer joins. Anybody with nobody before them enters at once.
--
-- KEYS   t1:<round>:<page>, one for each page of positions among the items
-- ARGV   seed of slot ids, then each item (claimAt): whether a newcomer is enqueued (join), and needs a
--          position unless entitled (required), the index of the key of its position (t1, 0 = none),
--          its ticket, the slot of its entry token, and whether ticket holds the user entitled to the
--          presale ('' = not known, 0, 1; 'no' = it did not when it was asked before, so what the line
--          knows counts)
-- reply  { head, { per item } }, each item one of
--          { 'A', slot id, slot's end (ms), n }: slot holder; n = 1 if this call claims the slot,
--            2 if it also assigned it, else 0
--          { 'Q', rank from 0, score }: waiter; with a fourth element 1 in `entitled`
--          { 'N' }: in no set
--          { 'P' }: the position is another user's, and one is required
--          { 'V' }: a position is required
--          { 'U' }: a position is required of users without an entitlement, and whether this user has
--            one is not known
--          { 'B' }: blocked
local seed = ARGV[OWN]
local active, old, waiting = activeCount(), call('ZCARD', kOld), waitingCount()
local anyBlocked = call('EXISTS', kBlocked) == 1
local wrote, arrived, last, reach = false, 0, line.last, line.reach
local expiring = {}

if active + old + waiting == 0 then
  set({ tickAt = now }) -- an empty line is not ticked, which is no outage
  for _, key in ipairs(lasting) do call('PERSIST', key) end
end

-- heldSlot returns the user's slot and claims it; nil without one.
local function heldSlot(user)
  local x = call('ZSCORE', kActive, user)
  if not x then return nil end
  local id, till = slotOf(user), slotEnd(tonumber(x))
  if not id or till <= now then
    endSlot(user)
    wrote = true
    return nil
  end
  local first = call('ZREM', kUnclaimed, user)
  if first == 1 then wrote = true end
  call('ZADD', kActiveSeen, 'GT', int(now), user)
  return { 'A', id, till, first }
end

-- isAdoptable reports whether the item has a valid token of the previous epoch whose slot was lost,
-- and not revoked since. The slot id has the time of the admission.
local function isAdoptable(user, item)
  if item.slot == '' or now >= line['until'] then return false end
  local epoch, till = tonumber(item.slotEpoch), slotEnd(keptEnd(tonumber(item.slotEnd)))
  local hi, lo = string.match(item.slot, '^(%x%x%x%x%x%x%x%x)%-(%x%x%x%x)%-')
  if not hi or epoch >= line.epoch or epoch < line.prev or till <= now then return false end
  return tonumber(hi, 16) * 65536 + tonumber(lo, 16) >= line.survived and call('SISMEMBER', kRestored, revokedMark(user)) == 0
end

-- takeOver takes over a slot of the ended epoch while there is room, never above the threshold.
local function takeOver(user, item)
  local id, till
  local o = call('ZSCORE', kOld, user)
  if o then
    old, wrote = old - 1, true
    id, till = slotOf(user), tonumber(o)
    if not id or slotEnd(till) <= now or active >= limit then
      endSlot(user)
      return nil
    end
    call('ZREM', kOld, user)
    addMark('s:' .. id) -- a token replayed after leaving must not restore the slot
  elseif active < limit and isAdoptable(user, item) and addMark('s:' .. item.slot) then
    wrote = true
    id, till = item.slot, keptEnd(tonumber(item.slotEnd))
    call('HSET', kSlot, user, id .. ' ' .. int(us) .. ' 0 0')
    waiting = waiting - unqueue(user)
    call('ZREM', kParked, user)
    call('ZREM', kParkedSeen, user)
    call('ZREM', kLate, user)
    markTurns({ user, int(us) }) -- its score is lost: later than every position of this round
  else
    return nil
  end
  call('ZADD', kActive, int(till), user)
  call('ZADD', kActiveSeen, int(now), user)
  markSpent(int(now), user)
  active = active + 1
  return { 'A', id, slotEnd(till), 0 }
end

local function waitingAt(user)
  local score, key = scoreOf(user)
  if not score then return nil end
  local rank = rankOf(user, score, key)
  call('ZADD', kSeen, now + pollAt(rank) / 128, user)
  if key == kEntitled then return { 'Q', rank, score, 1 } end
  return { 'Q', rank, score }
end

-- epochEnd returns when (ms) an earlier epoch ended: at the start of the next known one.
local known
local function epochEnd(epoch)
  if not known then
    known = { line.epoch, line.prev }
    for _, field in ipairs(call('HKEYS', kLine)) do known[#known + 1] = tonumber(string.match(field, '^b:(%d+)$')) end
  end
  local next = line.epoch
  for _, e in ipairs(known) do
    if e > epoch and e < next then next = e end
  end
  return next / 1000
end

-- isRestorable reports whether a ticket has a place that was lost with an earlier epoch and not
-- used since. Used places are kept in `spent` for C.spent, so older tickets are rejected. C.writeSlack
-- covers tickets issued by a replica that did not know yet that the place was used.
local function isRestorable(user, item)
  local epoch, issued = tonumber(item.ticketEpoch), tonumber(item.issued)
  if not epoch or epoch >= line.epoch or now >= epochEnd(epoch) + C.parked or issued <= now - C.spent + C.writeSlack then return false end
  if issued < tonumber(call('HGET', kLine, 'b:' .. item.ticketEpoch) or call('HGET', kLine, 'b0') or now) then return false end
  local spent = call('ZSCORE', kSpent, user)
  return not (spent and issued <= tonumber(spent) + C.writeSlack)
end

-- restoredScore returns the score with which a returning visitor gets the earlier place back, or
-- nil. A parked visitor is removed from kParked, and the second result is true. Otherwise the score
-- comes from the visitor's ticket if it is restorable; a ticket restores a place only once.
local function restoredScore(user, item)
  local score = call('ZSCORE', kParked, user)
  if score then
    call('ZREM', kParked, user)
    call('ZREM', kParkedSeen, user)
    return score, true
  end
  if item.ticket == '' or not isRestorable(user, item) then return nil end
  markSpent(int(now), user)
  line.reach = math.max(line.reach, tonumber(item.ticket)) -- may have been lost
  return item.ticket
end

-- arrivalScore returns the score of a new arrival, behind all earlier ones even if the clock was
-- set back, and behind the positions that have joined even if tier 1's clock is ahead.
local function arrivalScore(n)
  line.last = math.max(us + n, line.last + 1, line.reach + 1)
  return line.last
end

-- lastTurn returns the score of the latest early place that the user has used or given up, 0 for none.
local function lastTurn(user)
  if line.turnsAt == 0 then return 0 end
  return tonumber(call('HGET', kTurns, user) or call('HGET', kTurnsBefore, user) or 0)
end

-- highFor returns the highest score admitted from among those with whom the user would have waited.
local function highFor(user)
  if line.presale > 0 and call('SISMEMBER', kGranted, user) == 0 then return line.highAll end
  return line.high
end

-- positionScore returns the score of a tier-1 position, which belongs to the first user who joins
-- with it. A user is early once per round, else one who holds several positions would be in front
-- again after every slot:
-- - The first position gives one turn: if a waiter with this score or a higher one was admitted, the
--   returning user queues by arrival. Admissions in a presale count only for users with an entitlement.
-- - With other positions of the round the user queues by arrival.
local function positionScore(user, item, n)
  local key, field = KEYS[OWN_KEYS + item.t1], int(tonumber(item.position) % C.passPage)
  local round, new = tonumber(item.round), call('HSETNX', key, field, user) == 1
  local score = round + tonumber(item.position)
  if new then
    expiring[key] = true
    if round > line.round then
      line.round, line.arrived, arrived = round, 0, 0
    end
    if round == line.round then arrived = arrived + 1 end
    wrote = true
  elseif call('HGET', key, field) ~= user then
    return nil
  end
  local turn = lastTurn(user)
  if (turn > round and turn ~= score) or ((turn == score or not new) and score <= highFor(user)) then return int(arrivalScore(n)) end
  line.reach = math.max(line.reach, score)
  return int(score)
end

local function newcomerScore(user, item, n)
  if item.join ~= '1' then return nil, { 'N' } end
  local required = item.required ~= '0' and not isEntitled(user)
  if item.t1 > 0 then
    local score = positionScore(user, item, n)
    if score or required then return score, { 'P' } end
  end
  if required then
    local unknown = item.entitled == '' and not isForAll()
    return nil, { unknown and 'U' or 'V' }
  end
  return int(arrivalScore(n)), nil
end

-- mayAdvance reports whether the user has a position and may have joined without it: as entitled to the
-- presale, also after the general sale has opened.
local function mayAdvance(user, item)
  return item.join == '1' and item.t1 > 0 and line.presale > 0 and call('SISMEMBER', kGranted, user) == 1
end

-- betterScore returns the lower of the score of a user's place and that of the item's position.
local function betterScore(user, item, score, n)
  local position = positionScore(user, item, n)
  return position and tonumber(position) < tonumber(score) and position or score
end

-- advance moves a waiter forward to the place of the item's position.
local function advance(user, item, n)
  local old, key = scoreOf(user)
  local score = old and betterScore(user, item, old, n)
  if score == old then return end
  call('ZADD', key, score, user)
  local from = since(score)
  if from then call('HSET', kSince, user, from) end
  wrote = true
end

-- slotsKeptFrom returns how many free slots are kept for other, late visitors; a late user may take
-- one.
local function slotsKeptFrom(user)
  if call('ZSCORE', kLate, user) then return 0 end
  return math.min(keptSlots())
end

-- isNext reports whether the user may enter, and nobody who may waits before the score.
local function isNext(user, score)
  local function someBefore(key) return call('ZCOUNT', key, '-inf', '(' .. score) > 0 end
  if not isForAll() then return isEntitled(user) and not someBefore(kEntitled) end
  return waiting == 0 or not (someBefore(kQueue) or (line.split == 1 and someBefore(kEntitled)))
end

-- enter assigns a slot if nobody in the line is before the score, else enqueues the user.
local function enter(user, score, n)
  wrote = true
  if open and active + old < limit and active + old + slotsKeptFrom(user) < limit and isNext(user, score) then
    local id, till = slotId(seed, n), newSlotEnd()
    call('ZADD', kActive, int(till), user)
    call('ZADD', kActiveSeen, int(now), user)
    local slot, from = { user, id .. ' ' .. score .. ' 0 0' }, since(score)
    call('HSET', kSlot, unpack(slot))
    markSpent(int(now), user)
    if isEarly(score) or not isForAll() then markTurns({ user, turnMark(score) }) end
    call('ZREM', kLate, user)
    active = active + 1
    record(slot, from and { user, from } or {})
    raiseHigh(tonumber(score))
    set({ admitted = line.admitted + 1, high = line.high, highAll = line.highAll })
    trimRecord()
    return { 'A', id, slotEnd(till), 2 }
  end
  enqueue(user, score)
  waiting = waiting + 1
  return waitingAt(user)
end

local function answer(user, item, n)
  if anyBlocked and call('SISMEMBER', kBlocked, user) == 1 then return { 'B' } end
  if closed then return { 'N' } end
  if (item.entitled == '0' or item.entitled == '1') and setEntitlement(user, item.entitled) == 1 then wrote = true end
  local found = heldSlot(user) or takeOver(user, item)
  if not found then
    if mayAdvance(user, item) then advance(user, item, n) end
    found = waitingAt(user)
  end
  if found then return found end
  local score, parked = restoredScore(user, item)
  local refusal
  if not score then
    score, refusal = newcomerScore(user, item, n)
  elseif mayAdvance(user, item) then
    score = betterScore(user, item, score, n)
  end
  if not score then return refusal end
  found = enter(user, int(tonumber(score)), n)
  if parked and status() ~= C.scheduled and found[1] == 'Q' and (isForAll() or found[4]) then markLate(user, 0) end
  return found
end

local out = {}
for at = OWN + 1, #ARGV, CLAIM do
  local item = claimAt(at)
  item.t1 = tonumber(item.t1)
  out[#out + 1] = answer(item.user, item, #out)
end
if arrived > 0 then set({ round = line.round, arrived = line.arrived + arrived }) end
for key in pairs(expiring) do call('PEXPIRE', key, C.pass) end
if line.last > last then set({ last = line.last }) end
if line.reach > reach then set({ reach = line.reach }) end
if wrote then dirty() end
return { head(), out }
