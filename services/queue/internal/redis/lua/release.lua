-- release: a user leaves. With a slot id that slot ends, if it is still the user's; without one the waiting place goes, and with it a
-- slot that the user has not heard of yet.
--
-- KEYS  none of its own
-- ARGV  15 user · 16 slot id ('' = the waiting place)
-- reply { head, 1 when something ended }
local user, id = ARGV[OWN], ARGV[OWN + 1]
local ended = 0
if id ~= '' then
  if slotOf(user) == id then
    drop(user)
    ended = 1
  elseif now < line['until'] then
    once('s:' .. id) -- lost with the last epoch: its token must not bring it back any more
  end
else
  ended = unqueue(user) + call('ZREM', kParked, user)
  call('ZREM', kParkedSeen, user)
  call('ZREM', kLate, user)
  if call('ZSCORE', kUnclaimed, user) then
    drop(user)
    ended = 1
  end
  if ended > 0 then spend(int(now), user) end
end
if ended > 0 then dirty() end
return { head(), ended }
