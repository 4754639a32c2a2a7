-- hold: records that a slot holder holds seats until a time, or no longer. The first hold that ends
-- after the slot extends the slot, once, to the hold's end. While a hold is in force, absence does
-- not end the slot. An expired slot stays expired even if no tick has ended it yet, since another
-- visitor may have its place.
--
-- KEYS   none of its own
-- ARGV   user · slot id · end of the hold (ms), 0 when it was ended early · reservation
-- reply  { head, 1 when the slot is the user's }
local user, wanted, till, reservation = ARGV[OWN], ARGV[OWN + 1], tonumber(ARGV[OWN + 2]), ARGV[OWN + 3]
local id, score, hold, extended = slotOf(user)
if id ~= wanted then return { head(), 0 } end

-- holds returns the slot's holds in force by reservation, the end of this reservation's hold, and
-- the latest end of the others.
local function holds()
  local found, own, last = {}, 0, 0
  local slot, list = string.match(call('HGET', kHolds, user) or '', '^(%S+)(.*)$')
  for name, ends in string.gmatch(slot == id and list or '', '(%S+):(%d+)') do
    local at = tonumber(ends)
    if name == reservation then
      own = at
    elseif at > now then
      found[name], last = at, math.max(last, at)
    end
  end
  return found, own, last
end

local function extend()
  for _, key in ipairs({ kActive, kOld }) do
    local x = call('ZSCORE', key, user)
    if x and tonumber(x) > slotClock and not extended and keptEnd(till) > tonumber(x) then
      call('ZADD', key, 'XX', int(keptEnd(till)), user)
      extended = true
    end
  end
end

local live, own, last = holds()
if till > 0 then
  live[reservation] = till
  extend()
  hold = math.max(hold, till)
elseif own > 0 then
  hold = last
end
local list = id
for name, ends in pairs(live) do list = list .. ' ' .. name .. ':' .. int(ends) end
call('HSET', kHolds, user, list)
call('PEXPIRE', kHolds, C.idle)
call('HSET', kSlot, user, id .. ' ' .. score .. ' ' .. int(hold) .. ' ' .. (extended and 1 or 0))
dirty()
return { head(), 1 }
