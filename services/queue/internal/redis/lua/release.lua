-- release: a user leaves. With a slot id that slot ends, if it is still the user's. Without one the
-- waiting place is removed, and an unclaimed slot too.
--
-- KEYS   none of its own
-- ARGV   15 user · 16 slot id ('' = the waiting place)
-- reply  { head, 1 when something ended }
local user, id = ARGV[OWN], ARGV[OWN + 1]
local ended = 0
if id ~= '' then
  if slotOf(user) == id then
    endSlot(user)
    ended = 1
  elseif now < line['until'] then
    firstTime('s:' .. id) -- the slot was lost with the previous epoch; its token must not restore it
  end
else
  ended = unqueue(user) + call('ZREM', kParked, user)
  call('ZREM', kParkedSeen, user)
  call('ZREM', kLate, user)
  if call('ZSCORE', kUnclaimed, user) then
    endSlot(user)
    ended = 1
  end
  if ended > 0 then markSpent(int(now), user) end
end
if ended > 0 then dirty() end
return { head(), ended }
