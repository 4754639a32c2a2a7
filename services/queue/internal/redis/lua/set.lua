-- set: opens a line that was never opened before, caches the settings of a line, or (with no act) only reads its state.
--
-- KEYS  none of its own
-- ARGV  15 '' | 'open' | 'settings' · for 'settings': 16 when they were read (this line's time in ms, taken before the reading began) ·
--       17 threshold ('' = default) · 18 paused (0|1) · 19 slot length in ms (0 = default) · 20 closing time in ms (0 = none) ·
--       21.. blocked users
-- reply { head, 1 when something changed }
local act, changed = ARGV[OWN], 0

local function evict(user)
  drop(user)
  unqueue(user)
  call('ZREM', kParked, user)
  call('ZREM', kParkedSeen, user)
  call('ZREM', kLate, user)
end

local function block(from)
  local wanted = {}
  for i = from, #ARGV do wanted[ARGV[i]] = true end
  for _, user in ipairs(call('SMEMBERS', kBlocked)) do
    if not wanted[user] then call('SREM', kBlocked, user) end
  end
  for user in pairs(wanted) do
    if call('SADD', kBlocked, user) == 1 then evict(user) end
  end
end

-- Of two readings the one that began later knows more, whichever arrives last. One that is still to
-- come was read before the clock was set back.
local function settings(at, threshold, paused, slotMs, closes)
  if at < line.settings and line.settings <= now then return end
  if threshold == '' then call('DEL', kThreshold) else call('SET', kThreshold, threshold) end
  limit = tonumber(threshold) or C.threshold
  set({ settings = at, paused = paused, slotMs = slotMs, closes = closing(at, closes) })
  closed, selling = sale()
  block(OWN + 6)
  changed = 1
end

-- unused is true of a line in its first epoch in which nobody had a slot or a place before: nobody was admitted, and no ticket or token of
-- an earlier epoch was redeemed. Another replica may have begun it, as one that recovers, since the caller recorded that it opens it.
local function unused()
  return line.prev == 0 and (knownEpoch == 0 or knownEpoch == line.epoch) and line.admitted == 0 and call('EXISTS', kRestored) == 0
end

if act == 'open' then
  if now < line['until'] and unused() then
    set({ ['until'] = now, opened = 1 })
    changed = 1
  end
elseif act == 'settings' then
  settings(tonumber(ARGV[OWN + 1]), ARGV[OWN + 2], tonumber(ARGV[OWN + 3]), tonumber(ARGV[OWN + 4]), tonumber(ARGV[OWN + 5]))
end
if changed == 1 then dirty() end
return { head(), changed }
