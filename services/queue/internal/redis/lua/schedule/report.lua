-- report: shares the results of ticks with the other replicas, and schedules the next ticks.
--
-- KEYS   as those of claim
-- ARGV   1 the time in µs ('' = Redis TIME; tests set it) · 2 how long lines stay busy (ms), then 3
--        per tick: event · report · when the next is due if the line is idle (ms from now; 0: the
--        line has visitors, hence is busy)
-- reply  nothing
local call = redis.call
local _, kDue, kBusy, kReports, kReported = unpack(KEYS)
local us = tonumber(ARGV[1])
if not us then
  local t = call('TIME')
  us = t[1] * 1000000 + t[2]
end
local now = math.floor(us / 1000)
local stay = tonumber(ARGV[2])
for i = 3, #ARGV, 3 do
  local event, report, wait = ARGV[i], ARGV[i + 1], tonumber(ARGV[i + 2])
  call('HSET', kReports, event, report)
  call('ZADD', kReported, now, event)
  if wait == 0 then
    call('ZADD', kBusy, now + stay, event)
  elseif tonumber(call('ZSCORE', kBusy, event) or 0) <= now then
    -- A visitor who came to another replica meanwhile has made the line busy.
    call('ZADD', kDue, now + wait, event)
  end
end
return redis.status_reply('OK')
