-- set: opens a line that was never opened, stores a line's settings, blocks users beside those
-- blocked already, or (without an action) only reads its state. Acts of operators are in force before
-- ticket has them, and are kept as pending until it does: act:<setting> in the line's hash, an order
-- and a value. Settings are `threshold`, `paused` (0|1) and `user:<id>` (1: blocked).
--
-- KEYS   none of its own
-- ARGV   '' | 'open' | 'settings' | 'block' | 'act' | 'acts', and then
--        for 'settings' when they were read (this line's time in ms, from before the read) · threshold
--          ('' = default) · paused (0|1) · slot length in ms (0 = default) · closing time in ms (0 =
--          none) · highest order of an act that ticket has · blocked users;
--        for 'block' blocked users;
--        for 'act' setting · value · an order below that of the act · how many users may be blocked;
--        for 'acts' number of acts that ticket has decided about, then setting and order of each;
--          then setting, value and order of each pending act that the line may have lost
-- reply  { head, 1 when something changed }; for 'act' { head, its order (0: too many are blocked) },
--        for 'acts' { head, { setting, value, order of each pending act } }
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
  for _, key in ipairs({ kQueue, kEntitled, kParked, kActive, kOld }) do
    local scores = call('EXISTS', key) == 1 and call('ZMSCORE', key, unpack(users)) or {}
    for i, score in ipairs(scores) do
      if score and key ~= kActive and key ~= kOld and isEarly(score) then markTurns({ users[i], score }) end
      if score then evict(users[i]) end
    end
  end
end

-- listed returns the arguments from one on.
local function listed(from)
  local out = {}
  for i = from, #ARGV do out[#out + 1] = ARGV[i] end
  return out
end

-- pendingActs returns the pending acts, each a setting, an order and a value.
local function pendingActs()
  local out = {}
  if line.pending == 0 then return out end
  local all = call('HGETALL', kLine)
  for i = 1, #all, 2 do
    local setting = string.match(all[i], '^act:(.+)$')
    if setting then
      local at, value = string.match(all[i + 1], '^(%d+) (.*)$')
      out[#out + 1] = { setting = setting, at = at, value = value }
    end
  end
  return out
end

-- block blocks users. There may be thousands, most of them blocked already, so it asks for many at
-- once.
local function block(users)
  for at = 1, #users, C.page do
    local page, new = { unpack(users, at, math.min(at + C.page - 1, #users)) }, {}
    for i, known in ipairs(call('SMISMEMBER', kBlocked, unpack(page))) do
      if known == 0 then new[#new + 1] = page[i] end
    end
    if #new > 0 then
      call('SADD', kBlocked, unpack(new))
      evictAll(new)
      changed = 1
    end
  end
end

-- withActs returns the users that are blocked by a list and by the pending acts, also as a set.
local function withActs(users)
  local wanted, list = {}, {}
  for _, user in ipairs(users) do wanted[user] = true end
  for _, act in ipairs(pendingActs()) do
    local user = string.match(act.setting, '^user:(.+)$')
    if user then wanted[user] = act.value == '1' or nil end
  end
  for user in pairs(wanted) do list[#list + 1] = user end
  return list, wanted
end

-- blockOnly blocks users, and unblocks all others.
local function blockOnly(users)
  local list, wanted = withActs(users)
  block(list)
  if call('SCARD', kBlocked) == #list then return end
  for _, user in ipairs(call('SMEMBERS', kBlocked)) do
    if not wanted[user] then call('SREM', kBlocked, user) end
  end
end

-- Of two reads the one that began later wins. A read from the future was made before the clock was
-- set back.
local function settings(at, threshold, paused, slotMs, closes, acted)
  if at < line.settings and line.settings <= now then return end
  if threshold == '' then call('DEL', kThreshold) else call('SET', kThreshold, threshold) end
  set({ settings = at, paused = paused, slotMs = slotMs, closes = closingTime(at, closes), acted = math.max(line.acted, acted) })
  applyActs()
  limit = tonumber(call('GET', kThreshold) or C.threshold)
  closed, selling = sale()
  blockOnly(listed(OWN + 7))
  changed = 1
end

-- unused reports whether the line is in its first epoch, and nobody was admitted, has left, or has
-- redeemed a ticket or token of an earlier epoch. Another replica may have created it, in recovery,
-- since the caller recorded the opening.
local function unused()
  return line.prev == 0 and (knownEpoch == 0 or knownEpoch == line.epoch) and line.admitted == 0
    and call('EXISTS', kRestored, kSpent) == 0
end

-- keepAct keeps an act as pending, and puts it in force.
local function keepAct(setting, value, at)
  local new = call('HSET', kLine, 'act:' .. setting, int(at) .. ' ' .. value)
  set({ pending = line.pending + new, acted = math.max(line.acted, at) })
  local user = string.match(setting, '^user:(.+)$')
  if not user then
    applyActs()
    limit = tonumber(call('GET', kThreshold) or C.threshold)
  elseif value == '1' then
    block({ user })
  else
    call('SREM', kBlocked, user)
  end
  changed = 1
end

-- act gives a new act an order after all acts before it, by this clock or, after that was set back,
-- by theirs. It returns 0 if too many users would be blocked.
local function act(setting, value, after, maxBlocked)
  local user = string.match(setting, '^user:(.+)$')
  if user and value == '1' and call('SISMEMBER', kBlocked, user) == 0 and call('SCARD', kBlocked) >= maxBlocked then return 0 end
  local at = math.max(us, line.acted + 1, after + 1)
  keepAct(setting, value, at)
  return at
end

-- settleActs removes pending acts that ticket has decided about, unless a later act replaced them, and
-- restores others unless the line has a later one. It returns all that are pending.
local function settleActs()
  local settled = tonumber(ARGV[OWN + 1])
  local from = OWN + 2 + 2 * settled
  for i = OWN + 2, from - 1, 2 do
    local _, at = pendingAct(ARGV[i])
    if at == tonumber(ARGV[i + 1]) then
      call('HDEL', kLine, 'act:' .. ARGV[i])
      set({ pending = line.pending - 1 })
      changed = 1
    end
  end
  for i = from, #ARGV, 3 do
    local _, at = pendingAct(ARGV[i])
    if tonumber(ARGV[i + 2]) > (at or 0) then keepAct(ARGV[i], ARGV[i + 1], tonumber(ARGV[i + 2])) end
  end
  local flat = {}
  for _, a in ipairs(pendingActs()) do
    flat[#flat + 1], flat[#flat + 2], flat[#flat + 3] = a.setting, a.value, tonumber(a.at)
  end
  return flat
end

local result
if action == 'open' then
  if now < line['until'] and unused() then
    set({ ['until'] = now, opened = 1 })
    changed = 1
  end
elseif action == 'settings' then
  settings(tonumber(ARGV[OWN + 1]), ARGV[OWN + 2], tonumber(ARGV[OWN + 3]), tonumber(ARGV[OWN + 4]), tonumber(ARGV[OWN + 5]), tonumber(ARGV[OWN + 6]))
elseif action == 'block' then
  local users = {}
  for _, user in ipairs(listed(OWN + 1)) do
    if pendingAct('user:' .. user) ~= '0' then users[#users + 1] = user end
  end
  block(users)
elseif action == 'act' then
  result = act(ARGV[OWN + 1], ARGV[OWN + 2], tonumber(ARGV[OWN + 3]), tonumber(ARGV[OWN + 4]))
elseif action == 'acts' then
  result = settleActs()
end
if changed == 1 then dirty() end
return { head(), result or changed }
