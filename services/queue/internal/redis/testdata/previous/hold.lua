-- hold: seats are held in a slot until some time. The first hold that outlives the slot extends it, once, to the hold's end; while a
-- hold lives, its owner's absence does not end the slot. One that is over stays over, though no tick has ended it yet: its place may be
-- the next one's already.
--
-- KEYS  none of its own
-- ARGV  11 user · 12 slot id · 13 end of the hold (ms)
-- reply { head, 1 when the slot is the user's }
local user, wanted, till = ARGV[OWN], ARGV[OWN + 1], tonumber(ARGV[OWN + 2])
local id, score, hold, extended = slotOf(user)
if id ~= wanted then return { head(), 0 } end
for _, key in ipairs({ kActive, kOld }) do
  local x = call('ZSCORE', key, user)
  if x and tonumber(x) > now and not extended and till > tonumber(x) then
    call('ZADD', key, 'XX', int(till), user)
    extended = true
  end
end
call('HSET', kSlot, user, id .. ' ' .. score .. ' ' .. int(math.max(hold, till)) .. ' ' .. (extended and 1 or 0))
dirty()
return { head(), 1 }
