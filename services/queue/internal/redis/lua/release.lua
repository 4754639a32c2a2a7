-- release: a user leaves, or an operator revokes the user's slot. With a slot id that slot ends, if
-- it is still the user's; with '*' any. Without one the waiting place is removed, and an unclaimed
-- slot too.
--
-- KEYS   none of its own
-- ARGV   user · slot id ('' = the waiting place, '*' = any slot)
-- reply  { head, 1 when something ended }
local user, id = ARGV[OWN], ARGV[OWN + 1]
local ended, wrote = 0, false

-- hasSlot reports whether the user has a slot, also one of the ended epoch, whose time is not over.
local function hasSlot()
  for _, key in ipairs({ kActive, kOld }) do
    local x = call('ZSCORE', key, user)
    if x and slotEnd(tonumber(x)) > now then return true end
  end
  return false
end

if id == '*' then
  local slot = slotOf(user)
  if slot then
    addMark('s:' .. slot) -- its token must not restore it after a loss
  elseif now < line['until'] then
    -- The slot may be lost with the previous epoch. Neither its token nor an earlier ticket of the
    -- user, who is in no set, may restore anything.
    addMark(revokedMark(user))
    if not scoreOf(user) and not call('ZSCORE', kParked, user) then
      markSpent(int(now), user)
      markTurns({ user, int(us) })
      wrote = true
    end
  end
  if hasSlot() then
    endSlot(user)
    ended = 1
  end
elseif id ~= '' then
  if slotOf(user) == id then
    endSlot(user)
    ended = 1
  elseif now < line['until'] then
    addMark('s:' .. id) -- the slot was lost with the previous epoch; its token must not restore it
  end
else
  local score = scoreOf(user) or call('ZSCORE', kParked, user)
  if score and isEarly(score) then markTurns({ user, score }) end
  ended = unqueue(user) + call('ZREM', kParked, user)
  call('ZREM', kParkedSeen, user)
  call('ZREM', kLate, user)
  if call('ZSCORE', kUnclaimed, user) then
    endSlot(user)
    ended = 1
  end
  if ended > 0 then markSpent(int(now), user) end
end
if ended > 0 or wrote then dirty() end
return { head(), ended }
