-- set: opens a line that was never opened, stores a line's settings, blocks users beside those
-- blocked already, or (without an action) only reads its state.
--
-- KEYS   none of its own
-- ARGV   15 '' | 'open' | 'settings' | 'block'; for 'settings' also
--          16 when they were read (this line's time in ms, from before the read) ·
--          17 threshold ('' = default) · 18 paused (0|1) · 19 slot length in ms (0 = default) ·
--          20 closing time in ms (0 = none) · 21.. blocked users;
--        for 'block' 16.. blocked users
-- reply  { head, 1 when something changed }
local action, changed = ARGV[OWN], 0

local function evict(user)
  endSlot(user)
  markSpent(int(now), user) -- also the place of a waiter
  unqueue(user)
  call('ZREM', kParked, user)
  call('ZREM', kParkedSeen, user)
  call('ZREM', kLate, user)
end

-- evictAll evicts those of the users who are in the line.
local function evictAll(users)
  for _, key in ipairs({ kQueue, kParked, kActive, kOld }) do
    local scores = call('EXISTS', key) == 1 and call('ZMSCORE', key, unpack(users)) or {}
    for i, score in ipairs(scores) do
      if score and (key == kQueue or key == kParked) and isEarly(score) then markTurns({ users[i], score }) end
      if score then evict(users[i]) end
    end
  end
end

-- block blocks the users listed from an argument on. There may be thousands, most of them blocked
-- already, so it asks for many at once.
local function block(from)
  for at = from, #ARGV, C.page do
    local users, new = { unpack(ARGV, at, math.min(at + C.page - 1, #ARGV)) }, {}
    for i, known in ipairs(call('SMISMEMBER', kBlocked, unpack(users))) do
      if known == 0 then new[#new + 1] = users[i] end
    end
    if #new > 0 then
      call('SADD', kBlocked, unpack(new))
      evictAll(new)
      changed = 1
    end
  end
end

-- blockOnly blocks the users listed from an argument on, and unblocks all others.
local function blockOnly(from)
  block(from)
  local wanted, n = {}, 0
  for i = from, #ARGV do
    if not wanted[ARGV[i]] then wanted[ARGV[i]], n = true, n + 1 end
  end
  if call('SCARD', kBlocked) == n then return end
  for _, user in ipairs(call('SMEMBERS', kBlocked)) do
    if not wanted[user] then call('SREM', kBlocked, user) end
  end
end

-- Of two reads the one that began later wins. A read from the future was made before the clock was
-- set back.
local function settings(at, threshold, paused, slotMs, closes)
  if at < line.settings and line.settings <= now then return end
  if threshold == '' then call('DEL', kThreshold) else call('SET', kThreshold, threshold) end
  limit = tonumber(threshold) or C.threshold
  set({ settings = at, paused = paused, slotMs = slotMs, closes = closingTime(at, closes) })
  closed, selling = sale()
  blockOnly(OWN + 6)
  changed = 1
end

-- unused reports whether the line is in its first epoch, and nobody was admitted, has left, or has
-- redeemed a ticket or token of an earlier epoch. Another replica may have created it, in recovery,
-- since the caller recorded the opening.
local function unused()
  return line.prev == 0 and (knownEpoch == 0 or knownEpoch == line.epoch) and line.admitted == 0
    and call('EXISTS', kRestored, kSpent) == 0
end

if action == 'open' then
  if now < line['until'] and unused() then
    set({ ['until'] = now, opened = 1 })
    changed = 1
  end
elseif action == 'settings' then
  settings(tonumber(ARGV[OWN + 1]), ARGV[OWN + 2], tonumber(ARGV[OWN + 3]), tonumber(ARGV[OWN + 4]), tonumber(ARGV[OWN + 5]))
elseif action == 'block' then
  block(OWN + 1)
end
if changed == 1 then dirty() end
return { head(), changed }
