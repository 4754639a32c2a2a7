-- check: N visitors ask for their place. Who holds a slot keeps (and claims) it, who waits is touched, who was parked or lost with an
-- earlier epoch comes back with the old score, and who is new joins, all of them entering at once when nobody is before them.
--
-- KEYS  19.. t1:<round>:<page>, one for each page of positions among the items
-- ARGV  15 seed of slot ids · then 12 per item: user · join (1: a newcomer is enqueued) · required (1: a newcomer needs a position) ·
--       index of its t1 key (0 = no position) · round (µs) · position · ticket: score ('' = none), epoch, issued at (ms) ·
--       token: slot id ('' = none), epoch, slot's end (ms)
-- reply { head, { per item } }, one of
--       { 'A', slot id, slot's end (ms), 0 | 1 the first that its holder hears of it | 2 and it was given just now }
--       { 'Q', rank from 0, score } · { 'N' } in no set · { 'P' } the position is another user's · { 'V' } a position is needed ·
--       { 'B' } blocked
local seed = ARGV[OWN]
local active, old, waiting = activeCount(), call('ZCARD', kOld), call('ZCARD', kQueue)
local anyBlocked = call('EXISTS', kBlocked) == 1
local wrote, arrived, last = false, 0, line.last
local expiring = {}

if active + old + waiting == 0 then
  set({ tickAt = now }) -- nobody ticked an empty line, and nothing went wrong by that
  for _, key in ipairs(lasting) do call('PERSIST', key) end
end

-- holding: the user has a slot.
local function holding(user)
  local x = call('ZSCORE', kActive, user)
  if not x then return nil end
  local id, till = slotOf(user), ends(tonumber(x))
  if not id or till <= now then
    drop(user)
    wrote = true
    return nil
  end
  local first = call('ZREM', kUnclaimed, user)
  if first == 1 then wrote = true end
  call('ZADD', kActiveSeen, 'GT', int(now), user)
  return { 'A', id, till, first }
end

-- adoptable: a genuine token of the last epoch whose slot did not survive. Its slot's id says when it was admitted.
local function adoptable(item)
  if item.slot == '' or now >= line['until'] then return false end
  local epoch, till = tonumber(item.slotEpoch), ends(tonumber(item.slotEnd))
  local hi, lo = string.match(item.slot, '^(%x%x%x%x%x%x%x%x)%-(%x%x%x%x)%-')
  if not hi or epoch >= line.epoch or epoch < line.prev or till <= now then return false end
  return tonumber(hi, 16) * 65536 + tonumber(lo, 16) >= line.survived
end

-- retaking: the user held a slot in the epoch that ended. It is taken over while there is room; never above the threshold.
local function retaking(user, item)
  local id, till
  local o = call('ZSCORE', kOld, user)
  if o then
    old, wrote = old - 1, true
    id, till = slotOf(user), tonumber(o)
    if not id or ends(till) <= now or active >= limit then
      drop(user)
      return nil
    end
    call('ZREM', kOld, user)
    once('s:' .. id) -- a token replayed after the slot was left must not bring it back
  elseif active < limit and adoptable(item) and once('s:' .. item.slot) then
    wrote = true
    id, till = item.slot, tonumber(item.slotEnd)
    call('HSET', kSlot, user, id .. ' ' .. int(us) .. ' 0 0')
    waiting = waiting - unqueue(user)
    call('ZREM', kParked, user)
    call('ZREM', kParkedSeen, user)
    call('ZREM', kLate, user)
  else
    return nil
  end
  call('ZADD', kActive, int(till), user)
  call('ZADD', kActiveSeen, int(now), user)
  spend(int(now), user)
  active = active + 1
  return { 'A', id, ends(till), 0 }
end

local function waitingAt(user)
  local score = call('ZSCORE', kQueue, user)
  if not score then return nil end
  local rank = call('ZRANK', kQueue, user)
  call('ZADD', kSeen, now + pollAt(rank) / 128, user)
  return { 'Q', rank, score }
end

-- endOf is when (ms) an epoch before this one ended: with the beginning of the next that the line
-- knows.
local known
local function endOf(epoch)
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

-- restorable is whether a ticket shows a place that was lost with an earlier epoch and not used
-- since. What was spent is remembered for C.spent, so that no older ticket counts. The slack is for
-- tickets by a replica that had not heard yet that the place was used.
local function restorable(user, item)
  local epoch, issued = tonumber(item.ticketEpoch), tonumber(item.issued)
  if not epoch or epoch >= line.epoch or now >= endOf(epoch) + C.parked or issued <= now - C.spent + C.slack then return false end
  if issued < tonumber(call('HGET', kLine, 'b:' .. item.ticketEpoch) or call('HGET', kLine, 'b0') or now) then return false end
  local spent = call('ZSCORE', kSpent, user)
  return not (spent and issued <= tonumber(spent) + C.slack)
end

-- comeback is the old score of who was parked (then the second is true), or whose ticket gives a
-- place back.
local function comeback(user, item)
  local score = call('ZSCORE', kParked, user)
  if score then
    call('ZREM', kParked, user)
    call('ZREM', kParkedSeen, user)
    return score, true
  end
  -- `spent` alone would do; `restored` is what the previous release looks at.
  if item.ticket == '' or not restorable(user, item) or not once(user .. ':' .. item.ticketEpoch) then return nil end
  spend(int(now), user)
  return item.ticket
end

-- arrival is the score of who comes now: behind everybody who came before, whatever the clock says.
local function arrival(n)
  line.last = math.max(us + n, line.last + 1)
  return line.last
end

-- pass is the score of a tier-1 position, which belongs to the first user that joins with it. It has one turn: who comes again when one
-- at this score or behind it has been admitted has had it, or gave it up, and queues by arrival. Else whoever was early at tier 1 would
-- be in front again after every slot, and could keep one for ever.
local function pass(user, item, n)
  local key, field = KEYS[OWN_KEYS + item.t1], int(tonumber(item.position) % C.passPage)
  local score = tonumber(item.round) + tonumber(item.position)
  if call('HSETNX', key, field, user) == 1 then
    expiring[key] = true
    if tonumber(item.round) > line.round then
      line.round, line.arrived, arrived = tonumber(item.round), 0, 0
    end
    if tonumber(item.round) == line.round then arrived = arrived + 1 end
    wrote = true
  elseif call('HGET', key, field) ~= user then
    return nil
  elseif score <= line.high then
    score = arrival(n)
  end
  return int(score)
end

local function newcomer(user, item, n)
  if item.join ~= '1' then return nil, { 'N' } end
  if item.t1 > 0 then
    local score = pass(user, item, n)
    return score, { 'P' }
  end
  if item.required == '1' then return nil, { 'V' } end
  return int(arrival(n)), nil
end

-- keptFrom is how many free slots wait for those who are late, of whom the first to come takes one.
local function keptFrom(user)
  if call('ZSCORE', kLate, user) then return 0 end
  return math.min(keptSlots())
end

-- enter lets somebody with a score in at once if nobody in the queue is before them, else into the queue.
local function enter(user, score, n)
  wrote = true
  if open and active + old < limit and active + old + keptFrom(user) < limit and (waiting == 0 or call('ZCOUNT', kQueue, '-inf', '(' .. score) == 0) then
    local id, till = slotId(seed, n), now + slotLength()
    call('ZADD', kActive, int(till), user)
    call('ZADD', kActiveSeen, int(now), user)
    call('HSET', kSlot, user, id .. ' ' .. score .. ' 0 0')
    spend(int(now), user)
    call('ZREM', kLate, user)
    active = active + 1
    record(id, user, score, since(score))
    set({ admitted = line.admitted + 1, high = math.max(line.high, tonumber(score)) })
    return { 'A', id, ends(till), 2 }
  end
  enqueue(user, score)
  waiting = waiting + 1
  return waitingAt(user)
end

local function answer(user, item, n)
  if anyBlocked and call('SISMEMBER', kBlocked, user) == 1 then return { 'B' } end
  if closed then return { 'N' } end
  local found = holding(user) or retaking(user, item) or waitingAt(user)
  if found then return found end
  local score, parked = comeback(user, item)
  local refusal
  if not score then score, refusal = newcomer(user, item, n) end
  if not score then return refusal end
  found = enter(user, int(tonumber(score)), n)
  if parked and status() ~= C.scheduled and found[1] == 'Q' then beLate(user, 0) end
  return found
end

local out = {}
for at = OWN + 1, #ARGV, 12 do
  local a = { unpack(ARGV, at, at + 11) }
  local item = { join = a[2], required = a[3], t1 = tonumber(a[4]), round = a[5], position = a[6], ticket = a[7], ticketEpoch = a[8],
    issued = a[9], slot = a[10], slotEpoch = a[11], slotEnd = a[12] }
  out[#out + 1] = answer(a[1], item, #out)
end
if arrived > 0 then set({ round = line.round, arrived = line.arrived + arrived }) end
for key in pairs(expiring) do call('PEXPIRE', key, C.pass) end
if line.last > last then set({ last = line.last }) end
if wrote then dirty() end
return { head(), out }
