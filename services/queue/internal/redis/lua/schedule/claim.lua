-- claim: marks lines as busy, and claims the ticks that are due, so that one replica runs each. The
-- schedule has another hash slot than the lines, so it is only a hint: an extra tick does no harm, and
-- a tick that was claimed and not run is due again when the claim expires.
--
-- KEYS   1 registry (SET of events) · 2 due (ZSET, when the next tick is due) · 3 busy (ZSET, until
--        when a line counts as busy) · 4 reports (HASH) · 5 reported (ZSET, when) · 6 run (the
--        server's run id at the last claim); times in ms
-- ARGV   1 the time in µs ('' = Redis TIME; tests set it) · 2 how long a claim lasts (ms; 0: claim
--        nothing, only mark) · 3 how long lines stay busy (ms) · 4 reports since (ms; 0 = all) ·
--        5 number of lines to mark, then these · lines not to claim
-- reply  { now (ms), { claimed }, { busy }, { event, report, reported at (ms), … } }
local call = redis.call
local kRegistry, kDue, kBusy, kReports, kReported, kRun = unpack(KEYS)
local us = tonumber(ARGV[1])
if not us then
  local t = call('TIME')
  us = t[1] * 1000000 + t[2]
end
local now = math.floor(us / 1000)
local lease, stay, since, marks = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local LIFE = 3600000 -- of all keys without use
local SPREAD = 5000 -- within which all lines are ticked after the server has changed
-- A tick that is due later was scheduled before the clock was set back: of a busy line, of any other.
local FAR_BUSY, FAR = math.max(lease, 1000), 120000

-- mark makes a line busy. The tick of one that was idle is due immediately.
local function mark(event)
  local till = tonumber(call('ZSCORE', kBusy, event) or 0)
  call('ZADD', kBusy, now + stay, event)
  if till <= now then call('ZADD', kDue, now, event) end
end

-- reconcile adds the lines of the registry, and removes those that it no longer has, except busy
-- ones, which are about to be added to it.
local function reconcile()
  for _, event in ipairs(call('ZDIFF', 2, kRegistry, kDue)) do call('ZADD', kDue, 'NX', 0, event) end
  for _, event in ipairs(call('ZDIFF', 3, kDue, kRegistry, kBusy)) do
    call('ZREM', kDue, event)
    call('HDEL', kReports, event)
    call('ZREM', kReported, event)
  end
  for _, key in ipairs({ kDue, kBusy, kReports, kReported, kRun }) do call('PEXPIRE', key, LIFE) end
end

-- checkServer makes all ticks due soon if another server has taken over, which may have lost data of
-- the lines: their recoveries begin by a tick.
local function checkServer()
  local run = string.match(call('INFO', 'server'), 'run_id:(%x+)')
  local before = call('SET', kRun, run, 'PX', LIFE, 'GET')
  if not before or before == run then return end
  local events = call('ZRANGE', kDue, 0, -1)
  for i, event in ipairs(events) do call('ZADD', kDue, 'LT', now + math.floor(SPREAD * i / #events), event) end
end

local function claim(skip, busy)
  local claimed = {}
  for _, event in ipairs(busy) do
    if tonumber(call('ZSCORE', kDue, event) or now) > now + FAR_BUSY then call('ZADD', kDue, now, event) end
  end
  local function take(from, to)
    for _, event in ipairs(call('ZRANGEBYSCORE', kDue, from, to)) do
      if not skip[event] then
        claimed[#claimed + 1] = event
        call('ZADD', kDue, now + lease, event)
      end
    end
  end
  take('-inf', now)
  take(now + FAR, '+inf')
  return claimed
end

local function reports()
  local found = {}
  local recent = call('ZRANGEBYSCORE', kReported, since > 0 and since or '-inf', '+inf', 'WITHSCORES')
  for i = 1, #recent, 2 do
    local report = call('HGET', kReports, recent[i])
    if report then
      found[#found + 1] = recent[i]
      found[#found + 1] = report
      found[#found + 1] = tonumber(recent[i + 1])
    end
  end
  return found
end

for i = 6, 5 + marks do mark(ARGV[i]) end
if lease == 0 then return { now, {}, {}, {} } end
call('ZREMRANGEBYSCORE', kBusy, '-inf', now)
-- Sizes that differ show most changes of the registry. Each replica looks for others every 10 s.
if call('SCARD', kRegistry) ~= call('ZCARD', kDue) or math.floor(now / 10000) ~= math.floor(since / 10000) then reconcile() end
checkServer()
local skip = {}
for i = 6 + marks, #ARGV do skip[ARGV[i]] = true end
local busy = call('ZRANGE', kBusy, 0, -1)
return { now, claim(skip, busy), busy, reports() }
