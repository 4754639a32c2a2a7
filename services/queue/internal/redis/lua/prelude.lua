-- The common start of every script: the line's state, the detection of lost data, and helpers. Before
-- it, the loader (contract.go) puts the table C (the rules: durations in ms, counts, the poll table), the
-- keys of the line (kLine, kQueue …), and `given`: the arguments of every script, with the time ('' =
-- Redis TIME; tests set it), what the caller knows of the line, and the latest sale report. A script's
-- own arguments begin at OWN, its own keys after OWN_KEYS. Then follow waiters.lua, head(), which makes
-- the line's state of the reply, and the script, all as one chunk.
--
-- reply  { head(), … }; {} if the line is missing, and unknown to a caller that may not create it
--
-- Numbers are passed as numbers (integer replies are exact below 2^53) or through int(), since
-- tostring loses digits of µs. Scores as Redis returns them are passed on as they are.
local call = redis.call
local lasting = { kLine, kThreshold, kBlocked, kAdmitted } -- the keys that remain of an empty line

local function int(x) return string.format('%d', x) end

local us = tonumber(given.time)
if not us then
  local t = call('TIME')
  us = t[1] * 1000000 + t[2]
end
local now = math.floor(us / 1000)

local knownEpoch, knownRev, answeredAt = tonumber(given.epoch), tonumber(given.rev), tonumber(given.answeredAt)
local settingsAt, saleAt, saleStatus = tonumber(given.settingsAt), tonumber(given.saleAt), tonumber(given.saleStatus)

local FIELDS = { 'epoch', 'rev', 'until', 'paused', 'tick', 'used', 'lostAt', 'resumed', 'tickAt', 'silent', 'silentAt', 'at',
  'survived', 'settings', 'slotMs', 'closes', 'admitted', 'high', 'opened', 'prev', 'round', 'arrived', 'last', 'status', 'opens', 'statusAt', 'endedAt',
  'trimTo', 'trimmed', 'lost', 'backAt', 'acted', 'pending', 'reach', 'turnsAt', 'presale', 'split', 'highAll' }
local line = {}
do
  local v = call('HMGET', kLine, 'run', unpack(FIELDS))
  line.run = v[1]
  for i, name in ipairs(FIELDS) do line[name] = tonumber(v[i + 1] or 0) end
end
local run = string.match(call('INFO', 'server'), 'run_id:(%x+)')

if line.epoch == 0 and knownEpoch == 0 and given.begin ~= '1' then return {} end

-- set updates fields of the line, locally and in Redis.
local function set(fields)
  local flat = {}
  for name, v in pairs(fields) do
    line[name] = v
    flat[#flat + 1] = name
    flat[#flat + 1] = type(v) == 'number' and int(v) or v
  end
  call('HSET', kLine, unpack(flat))
end

-- since returns the time (ms) from which a user who enters the line now counts as present, for the
-- check of the admissions' order. It returns nil if the score is above the highest one admitted: then
-- nobody behind was admitted yet. The time is the next millisecond, since such an admission may be in
-- this one.
local function since(score)
  return tonumber(score) <= line.high and int(now + 1) or nil
end

-- Waiters are in two sets. Until a sale with a presale opens, users with a known entitlement wait in
-- `entitled`, all others in `queue`, and only the former may enter. From the opening on both sets are one
-- line, in the order of the scores; they are not merged, since that would block Redis. A line without a
-- presale has only `queue`; `split` is 1 while `entitled` may have members.
--
-- isForAll reports whether everybody may enter once the sale is on.
local function isForAll() return line.presale == 0 or now >= line.opens end

-- isEntitled reports whether ticket is known to hold the user entitled, before the sale opens.
local function isEntitled(user) return not isForAll() and call('SISMEMBER', kGranted, user) == 1 end

local function enqueue(user, score)
  if isEntitled(user) then
    if line.split == 0 then set({ split = 1 }) end
    call('ZADD', kEntitled, score, user)
  else
    call('ZADD', kQueue, score, user)
  end
  call('ZADD', kSeen, int(now), user)
  local from = since(score)
  if from then call('HSET', kSince, user, from) end
end

-- slotOf parses the value in `slot`: id, original score, end of the hold (ms, 0 = none), whether a
-- hold extended the slot.
local function slotOf(user)
  local v = call('HGET', kSlot, user)
  if not v then return nil end
  local id, score, hold, extended = string.match(v, '^(%S+) (%d+) (%d+) (%d)$')
  return id, score, tonumber(hold), extended == '1'
end

-- setTicketBound sets the earliest issue time of valid tickets of ended epochs: C.ticketWindow before the
-- last answer that any replica got. For the epoch whose data survived it is the last surviving
-- decision: the data has all earlier places.
local function setTicketBound(stored)
  set({ b0 = line.lostAt - C.ticketWindow })
  if stored > 0 then set({ ['b:' .. int(stored)] = math.max(line.survived, line.lostAt - C.ticketWindow) }) end
end

local function removeOldBounds()
  for _, field in ipairs(call('HKEYS', kLine)) do
    local ended = string.match(field, '^b:(%d+)$')
    if ended and tonumber(ended) / 1000 < now - 48 * C.parked then call('HDEL', kLine, field) end
  end
end

-- closingTime returns the sale's closing time if its report is not older than the settings read at
-- `at`, else the settings' closing time.
local function closingTime(at, closes)
  if line.status ~= C.noSale and line.statusAt >= at then return line.closes end
  return closes
end

-- pendingAct returns the value of an act on a setting that ticket does not have yet, and its order.
local function pendingAct(setting)
  if line.pending == 0 then return nil end
  local at, value = string.match(call('HGET', kLine, 'act:' .. setting) or '', '^(%d+) (.*)$')
  return value, tonumber(at or 0)
end

-- applyActs puts pending acts of operators in place of ticket's settings.
local function applyActs()
  local threshold, paused = pendingAct('threshold'), pendingAct('paused')
  if threshold then call('SET', kThreshold, threshold) end
  if paused then set({ paused = tonumber(paused) }) end
end

local function restoreSettings()
  call('SET', kThreshold, given.threshold)
  set({ settings = math.min(settingsAt, now), paused = tonumber(given.paused), slotMs = tonumber(given.slot),
    closes = closingTime(settingsAt, tonumber(given.closes)) })
  applyActs()
end

-- requeueUnclaimed returns admitted visitors without a token to the queue, with the old score.
local function requeueUnclaimed()
  for _, user in ipairs(call('ZRANGE', kUnclaimed, 0, -1)) do
    local _, score = slotOf(user)
    call('ZREM', kActive, user)
    call('ZREM', kActiveSeen, user)
    call('HDEL', kSlot, user)
    if score then enqueue(user, score) end
  end
  call('DEL', kUnclaimed)
end

-- beginEpoch begins an epoch: Redis lost data (another server, a missing line, or a state older
-- than a caller knows), or the line is new.
local function beginEpoch()
  local stored = line.epoch
  if stored > 0 then removeOldBounds() end
  set({
    epoch = math.max(us, knownEpoch + 1, stored + 1), rev = 0, run = run, ['until'] = now + C.pause, silent = 0, settings = 0,
    lostAt = answeredAt > 0 and answeredAt or now - C.parked + C.ticketWindow, survived = line.at - C.writeSlack, opened = 0,
    prev = stored > 0 and stored or knownEpoch,
    resumed = (stored > 0 or knownEpoch > 0) and now or 0,
  })
  setTicketBound(stored)
  requeueUnclaimed()
  if call('EXISTS', kActive) == 1 then
    call('ZUNIONSTORE', kOld, 2, kOld, kActive, 'AGGREGATE', 'MAX')
    call('DEL', kActive)
  end
end

local fresh = 0
if line.epoch == 0 or line.epoch < knownEpoch or (line.epoch == knownEpoch and line.rev < knownRev) or run ~= line.run then
  fresh = 1
  beginEpoch()
elseif knownEpoch > 0 and knownEpoch < line.epoch then
  -- A caller with an earlier epoch may know more than the one that began this epoch.
  if line.opened == 1 then
    set({ ['until'] = now + C.pause, opened = 0, prev = knownEpoch, resumed = now })
  end
  if answeredAt > line.lostAt and answeredAt * 1000 <= line.epoch then
    set({ lostAt = answeredAt })
    setTicketBound(call('HEXISTS', kLine, 'b:' .. int(line.prev)) == 1 and line.prev or 0)
  end
end

-- Of the settings that callers remember the latest count. Those from the future were read before the
-- clock was set back, and restore only lost ones.
if settingsAt > line.settings and (line.settings == 0 or settingsAt <= now) then restoreSettings() end

-- Of two sale reports the later measurement counts, whichever replica passes it, so that all
-- replicas decide alike. A report from the future was measured before the clock was set back.
--
-- A report that ends an outage of ticket extends the slots by it, hence to what they had left at the
-- report before. A loss of data may have lost that report, but not one after the loss.
if saleAt > 0 and (saleAt > line.statusAt or line.statusAt > now) then
  local at = math.min(saleAt, now)
  local gap = at - (fresh == 1 and math.max(line.statusAt, line.lostAt) or line.statusAt)
  if line.status ~= C.noSale and gap > C.away and call('EXISTS', kActive, kOld) > 0 then
    set({ lost = line.lost + gap, backAt = now })
  end
  set({ statusAt = at, status = saleStatus, opens = tonumber(given.saleOpens), presale = tonumber(given.presaleOpens),
    closes = saleStatus == C.noSale and line.closes or tonumber(given.saleCloses) })
end

-- A clock that was set back must not prolong the recovery, nor periods that start at a future time.
if line['until'] > now + C.pause then set({ ['until'] = now + C.pause }) end
line.resumed, line.silentAt, line.backAt = math.min(line.resumed, now), math.min(line.silentAt, now), math.min(line.backAt, now)

local limit = tonumber(call('GET', kThreshold) or C.threshold)

-- openStatus returns the status of a sale by its opening times alone.
local function openStatus()
  if now >= line.opens then return C.onSale end
  return line.presale > 0 and now >= line.presale and C.presale or C.scheduled
end

-- status returns the sale's current status. The presale and the sale open, and the sale closes, by this
-- clock, without a new report of ticket. line.Sale.StatusAt in Go has the same rule.
local function status()
  local s = line.status
  if s == C.cancelled then return s end
  if line.closes > 0 and now >= line.closes then return C.saleClosed end
  if s == C.scheduled or s == C.presale or s == C.onSale then return openStatus() end
  if s == C.soldOut and openStatus() == C.scheduled then return C.scheduled end
  return s
end

-- sale returns whether the line has ended, and whether the sale allows admission (also without a
-- report); in a presale that of users with an entitlement.
local function sale()
  local s = status()
  return s == C.saleClosed or s == C.cancelled, s == C.noSale or s == C.onSale or s == C.presale
end
local closed, selling = sale()

-- The end of a sale may be a mistake: an operator reverts it, or ticket's report was outdated. So
-- `endedAt` is the start of the uninterrupted end. When the sale goes on, all ages restart now, so
-- that nobody counts as absent.
if closed and (line.endedAt == 0 or line.endedAt > now) then
  set({ endedAt = now })
elseif not closed and line.endedAt > 0 then
  set({ endedAt = 0, resumed = now, tickAt = now })
end

-- A line with a sale leads to ticket's shop. While ticket is away nobody is admitted, and slots do not
-- end. Their ends are kept in a time of their own (slotClock), which is `lost` behind this clock and
-- stands at ticket's latest report. So no outage ends a slot, not even one that began a moment ago.
-- line.State in Go has the same rules.
local away = line.status ~= C.noSale and now - line.statusAt > C.away
local slotClock = (line.status ~= C.noSale and math.min(now, line.statusAt) or now) - line.lost

local open = line.paused == 0 and line.settings > 0 and now >= line['until'] and selling and not away

local function slotLength() return line.slotMs > 0 and line.slotMs or C.slot end

-- newSlotEnd returns the end, in slotClock, of a slot that begins now.
local function newSlotEnd() return now + slotLength() - line.lost end

-- slotEnd returns the effective end of a slot by this clock, from its end in slotClock: the sale's end,
-- if that is earlier. Its own end is what is kept, since the sale may be made longer.
local function slotEnd(kept)
  local at = kept + line.lost
  if kept > slotClock and (away or at <= now) then at = now + kept - slotClock end
  if closed then return math.min(at, now) end
  if line.closes > 0 then return math.min(at, line.closes) end
  return at
end

-- keptEnd is the inverse of slotEnd: an end by this clock, in slotClock.
local function keptEnd(at) return away and slotClock + at - now or at - line.lost end

local function activeCount()
  if closed then return 0 end
  return call('ZCOUNT', kActive, '(' .. int(slotClock), '+inf')
end

-- markSpent records that a user's place was used, given up or restored, so that earlier tickets
-- restore nothing. The record lives as long as tickets may be valid. Callers must also call dirty.
local spentChanged = false
local function markSpent(...)
  call('ZADD', kSpent, ...)
  spentChanged = true
end

-- markTurns records early places that were used or given up, and admissions in a presale: users and
-- their scores in turn (turnMark). A user is early once per round. The record is complete for a day, as
-- long as a pass can be used: ticks move `turns` to `turns-before` a day after `turnsAt` (forgetTurns);
-- the TTL is for lines without.
local function markTurns(scores)
  if #scores == 0 then return end
  if line.turnsAt == 0 then set({ turnsAt = now }) end
  call('HSET', kTurns, unpack(scores))
  call('PEXPIRE', kTurns, 3 * C.pass)
end

-- isEarly reports whether a place has the score of a tier-1 position. Scores by arrival are later.
local function isEarly(score) return tonumber(score) <= line.reach end

-- dirty counts a decision in rev: a Redis that returns with a lower rev has lost it.
local function dirty()
  set({ rev = line.rev + 1, at = now })
  if spentChanged then call('PEXPIRE', kSpent, C.spent) end
end

-- endSlot ends a user's slot. The admission has marked the place as spent.
local function endSlot(user)
  call('ZREM', kActive, user)
  call('ZREM', kOld, user)
  call('ZREM', kActiveSeen, user)
  call('ZREM', kUnclaimed, user)
  call('HDEL', kSlot, user)
  call('HDEL', kHolds, user)
end

-- markLate marks a user as late: one who returned from `parked` and found no free slot, and polls
-- too rarely to claim one in time. A slot is kept until `till` (ms), 0 for none yet.
local function markLate(user, till)
  call('ZADD', kLate, 'GT', int(till), user)
  call('PEXPIRE', kLate, C.parked)
end

-- keptSlots returns how many slots are kept for late users, and the maximum.
local function keptSlots()
  return call('ZCOUNT', kLate, '(' .. int(now), '+inf'), math.ceil(limit / C.lateShare)
end

local function park(user, score, lastSeen)
  call('ZADD', kParked, score, user)
  call('ZADD', kParkedSeen, int(lastSeen), user)
end

-- pollAt returns the advised poll interval in seconds with `rank` people ahead.
local function pollAt(rank)
  for i = 1, #C.polls, 2 do
    if rank < C.polls[i] then return C.polls[i + 1] end
  end
  return C.longestPoll
end

-- pollIn returns the poll interval encoded in a score of `seen` or `unclaimed`: its fraction, in
-- 1/128.
local function pollIn(score) return math.floor(score % 1 * 128 + 0.5) end

-- maxSilence returns how long (ms) a user with poll interval p may be without contact before
-- counting as absent.
local function maxSilence(p) return math.max(C.absent, 2000 * p + 5000) end

-- slotId returns a UUIDv7 (RFC 9562) with Redis's time and random bits from the caller's seed. A hash
-- gives the bits of two ids in a row, n from 0.
local slotTime, slotHash, slotHashOf
local VARIANT = { '-8', '-9', '-a', '-b' }
local function slotId(seed, n)
  slotTime = slotTime or string.format('%08x-%04x-7', math.floor(now / 65536), now % 65536)
  local at, of = n % 2 * 19, n - n % 2
  if slotHashOf ~= of then slotHash, slotHashOf = redis.sha1hex(seed .. ':' .. of), of end
  local h, digit = slotHash, string.byte(slotHash, at + 4)
  local variant = VARIANT[(digit > 57 and digit + 1 or digit) % 4 + 1] -- '0' is 48, '9' 57, 'a' 97
  return slotTime .. string.sub(h, at + 1, at + 3) .. variant .. string.sub(h, at + 5, at + 7) .. '-' .. string.sub(h, at + 8, at + 19)
end

-- record adds one or more admissions to the stream, by which tests check the order. `slots` is what
-- HSET of kSlot gets: users and values in turn. `present` has users and their entries in `since`,
-- of those who have one. For others the score's time counts, since nobody behind was admitted before
-- they came.
local recorded
local function record(slots, present)
  recorded = call('XADD', kAdmitted, '*', 'tick', int(now / 1000), 'at', int(now), 'slots', table.concat(slots, '\n'), 'since', table.concat(present, '\n'))
end

-- trimRecord drops old records after each C.stream admissions, so that as many always remain, and
-- hardly more than twice as many. The caller has counted its admissions.
local function trimRecord()
  if line.admitted < line.trimmed + C.stream then return end
  if line.trimTo > 0 then call('XTRIM', kAdmitted, 'MINID', int(line.trimTo)) end
  set({ trimTo = tonumber(string.match(recorded, '^%d+')), trimmed = line.admitted })
end
