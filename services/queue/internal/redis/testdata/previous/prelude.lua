-- What every script begins with: the line's state, the loss of Redis, and the helpers that all share. The loader puts the table C
-- (the rules: durations in ms, counts, the poll table) before it and one script behind it; prelude and script are one chunk.
--
-- KEYS  1 line · 2 queue · 3 seen · 4 parked · 5 parked-seen · 6 active · 7 active-seen · 8 unclaimed · 9 slot · 10 old ·
--       11 restored · 12 blocked · 13 threshold · 14 admitted · 15 since; the script's own follow.
-- ARGV  1 the time in µs ('' = Redis TIME; tests set it) · 2..9 what the caller remembers of the line: epoch, rev, its last answer
--       (ms, 0 = none), when its settings were read (ms, 0 = never), threshold, paused (0|1), slot length (ms), closing time (ms, 0 =
--       none) · 10 whether this call may begin a line that nobody remembers ('1'); without it the reply is then {}.
--       The script's own follow from 11.
-- reply { head, … }, head = { epoch, rev, now (ms), pause until (ms), fresh (0|1), waiting, active, old, parked, threshold,
--       paused (0|1), settings read at (ms, 0 = not yet), slot length (ms), closing time (ms, 0 = none), admitted in all,
--       newcomers with a position of the latest tier-1 round }
--
-- Numbers cross as numbers (the conversion to an integer reply is exact below 2^53) or by int(): tostring loses digits of µs.
local call = redis.call
local kLine, kQueue, kSeen, kParked, kParkedSeen, kActive, kActiveSeen, kUnclaimed, kSlot, kOld, kRestored, kBlocked, kThreshold,
  kAdmitted, kSince = unpack(KEYS, 1, 15)
local OWN = 11
local lasting = { kLine, kThreshold, kBlocked, kAdmitted } -- what is left of a line that is empty

local function int(x) return string.format('%.0f', x) end

local us = tonumber(ARGV[1])
if not us then
  local t = call('TIME')
  us = t[1] * 1000000 + t[2]
end
local now = math.floor(us / 1000)

local knownEpoch, knownRev, alive = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local recalled = { at = tonumber(ARGV[5]), threshold = ARGV[6], paused = ARGV[7], slot = ARGV[8], closes = ARGV[9] }

local FIELDS = { 'epoch', 'rev', 'until', 'paused', 'tick', 'used', 'lostAt', 'resumed', 'tickAt', 'silent', 'silentAt', 'at',
  'survived', 'settings', 'slotMs', 'closes', 'admitted', 'high', 'opened', 'prev', 'round', 'arrived' }
local line = {}
do
  local v = call('HMGET', kLine, 'run', unpack(FIELDS))
  line.run = v[1]
  for i, name in ipairs(FIELDS) do line[name] = tonumber(v[i + 1] or 0) end
end
local run = string.match(call('INFO', 'server'), 'run_id:(%x+)')

if line.epoch == 0 and knownEpoch == 0 and ARGV[10] ~= '1' then return {} end

-- set changes fields of the line, here and in Redis.
local function set(fields)
  local flat = {}
  for name, v in pairs(fields) do
    line[name] = v
    flat[#flat + 1] = name
    flat[#flat + 1] = type(v) == 'number' and int(v) or v
  end
  call('HSET', kLine, unpack(flat))
end

-- since is from when on somebody counts as present who comes into the line now. It is kept only where it matters: when somebody behind
-- may have been admitted already (the score is not above the highest admitted). The next millisecond, since that may be in this one.
local function since(score)
  return tonumber(score) <= line.high and int(now + 1) or nil
end

local function enqueue(user, score)
  call('ZADD', kQueue, score, user)
  call('ZADD', kSeen, int(now), user)
  local from = since(score)
  if from then call('HSET', kSince, user, from) end
end

-- The value of `slot`: id, original score, end of the hold made in it (ms, 0 = none), whether that hold extended it.
local function slotOf(user)
  local v = call('HGET', kSlot, user)
  if not v then return nil end
  local id, score, hold, extended = string.match(v, '^(%S+) (%d+) (%d+) (%d)$')
  return id, score, tonumber(hold), extended == '1'
end

-- bound sets from when on tickets of ended epochs count: issued at most C.memory before the last answer that any replica had. Those
-- of the epoch whose data survived count only from the last surviving decision on: before it the data itself knows who has a place.
local function bound(stored)
  set({ b0 = line.lostAt - C.memory })
  if stored > 0 then set({ ['b:' .. int(stored)] = math.max(line.survived, line.lostAt - C.memory) }) end
end

local function forgetOldBounds()
  for _, field in ipairs(call('HKEYS', kLine)) do
    local ended = string.match(field, '^b:(%d+)$')
    if ended and tonumber(ended) / 1000 < now - 48 * C.parked then call('HDEL', kLine, field) end
  end
end

local function recall()
  call('SET', kThreshold, recalled.threshold)
  set({ settings = math.min(recalled.at, now), paused = tonumber(recalled.paused), slotMs = tonumber(recalled.slot),
    closes = tonumber(recalled.closes) })
end

-- Who was admitted but had not fetched a token yet waits again, with the old score.
local function unadmit()
  for _, user in ipairs(call('ZRANGE', kUnclaimed, 0, -1)) do
    local _, score = slotOf(user)
    call('ZREM', kActive, user)
    call('ZREM', kActiveSeen, user)
    call('HDEL', kSlot, user)
    if score then enqueue(user, score) end
  end
  call('DEL', kUnclaimed)
end

-- renew begins an epoch: Redis lost data (another server, a missing line, or less than a caller remembers), or the line is new.
local function renew()
  local stored = line.epoch
  if stored > 0 then forgetOldBounds() end
  set({
    epoch = math.max(us, knownEpoch + 1, stored + 1), rev = 0, run = run, ['until'] = now + C.pause, silent = 0, settings = 0,
    lostAt = alive > 0 and alive or now - C.parked + C.memory, survived = line.at - C.slack, opened = 0,
    prev = stored > 0 and stored or knownEpoch,
    resumed = (stored > 0 or knownEpoch > 0) and now or 0,
  })
  bound(stored)
  unadmit()
  if call('EXISTS', kActive) == 1 then
    call('ZUNIONSTORE', kOld, 2, kOld, kActive, 'AGGREGATE', 'MAX')
    call('DEL', kActive)
  end
end

local fresh = 0
if line.epoch == 0 or line.epoch < knownEpoch or (line.epoch == knownEpoch and line.rev < knownRev) or run ~= line.run then
  fresh = 1
  renew()
elseif knownEpoch > 0 and knownEpoch < line.epoch then
  -- A caller that has not heard of this epoch yet may remember more than the one that began it.
  if line.opened == 1 then
    set({ ['until'] = now + C.pause, opened = 0, prev = knownEpoch, resumed = now })
  end
  if alive > line.lostAt and alive * 1000 <= line.epoch then
    set({ lostAt = alive })
    bound(call('HEXISTS', kLine, 'b:' .. int(line.prev)) == 1 and line.prev or 0)
  end
end
if line.settings == 0 and recalled.at > 0 then recall() end

local limit = tonumber(call('GET', kThreshold) or C.threshold)
local closed = line.closes > 0 and now >= line.closes
local open = line.paused == 0 and line.settings > 0 and now >= line['until'] and not closed

local function slotLength() return line.slotMs > 0 and line.slotMs or C.slot end

-- ends is when a slot really ends: with the sale, if that is sooner. Its own end is what is kept, since the sale may be made longer.
local function ends(at)
  if line.closes > 0 then return math.min(at, line.closes) end
  return at
end

local function activeCount()
  if closed then return 0 end
  return call('ZCOUNT', kActive, '(' .. int(now), '+inf')
end

-- dirty marks a decision: a Redis that comes back with a lower rev has lost it.
local function dirty()
  set({ rev = line.rev + 1, at = now })
end

-- drop ends a user's slot.
local function drop(user)
  call('ZREM', kActive, user)
  call('ZREM', kOld, user)
  call('ZREM', kActiveSeen, user)
  call('ZREM', kUnclaimed, user)
  call('HDEL', kSlot, user)
end

-- once is true the first time in an hour or more that something is given back.
local function once(what)
  if call('SADD', kRestored, what) == 0 then return false end
  call('PEXPIRE', kRestored, 2 * C.parked)
  return true
end

-- unqueue takes a user out of the queue.
local function unqueue(user)
  call('ZREM', kSeen, user)
  call('HDEL', kSince, user)
  return call('ZREM', kQueue, user)
end

local function park(user, score, lastSeen)
  call('ZADD', kParked, score, user)
  call('ZADD', kParkedSeen, int(lastSeen), user)
end

-- pollAt is the advised poll in seconds of who has `rank` people before them.
local function pollAt(rank)
  for i = 1, #C.polls, 2 do
    if rank < C.polls[i] then return C.polls[i + 1] end
  end
  return C.longestPoll
end

-- pollIn reads the advised poll out of a score of `seen` or `unclaimed`: its fraction, in 1/128.
local function pollIn(score) return math.floor((score - math.floor(score)) * 128 + 0.5) end

-- patience is how long one whose advised poll is p may be silent before counting as absent.
local function patience(p) return math.max(C.absent, 2000 * p + 5000) end

-- slotId is a UUIDv7 (RFC 9562) of this instant: its time is Redis's, its random bits come from the caller's seed.
local function slotId(seed, n)
  local h = redis.sha1hex(seed .. ':' .. n)
  local v = tonumber(string.sub(h, 4, 4), 16) % 4 + 1
  return string.format('%08x-%04x-7%s-%s%s-%s', math.floor(now / 65536), now % 65536, string.sub(h, 1, 3), string.sub('89ab', v, v),
    string.sub(h, 5, 7), string.sub(h, 8, 19))
end

-- record writes an admission down: what the order is checked by. `from` is the user's entry in `since`; without one nobody behind had
-- been admitted when this one came, and the score's own time stands for it.
local function record(id, user, score, from)
  call('XADD', kAdmitted, 'MAXLEN', '~', C.stream, '*', 'slot', id, 'user', user, 'score', score, 'tick', int(math.floor(now / 1000)),
    'since', from or int(math.floor(tonumber(score) / 1000)), 'at', int(now))
end

local function head()
  return { line.epoch, line.rev, now, line['until'], fresh, call('ZCARD', kQueue), activeCount(), call('ZCARD', kOld),
    call('ZCARD', kParked), limit, line.paused, line.settings, slotLength(), line.closes, line.admitted, line.arrived }
end
