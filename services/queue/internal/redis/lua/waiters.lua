-- The end of the common start of every script, after prelude.lua: marks, the two sets of waiters, and the
-- reply's head.

-- addMark adds a member to `restored`, for at least 2 * C.parked, and reports whether it is new.
local function addMark(mark)
  if call('SADD', kRestored, mark) == 0 then return false end
  call('PEXPIRE', kRestored, 2 * C.parked)
  return true
end

-- revokedMark returns the member of `restored` for a revoked user without a slot: a token of the
-- previous epoch must not restore a slot in this epoch.
local function revokedMark(user) return 'r:' .. int(line.epoch) .. ':' .. user end

-- unqueue removes a user from the sets of waiters, and returns 1 if the user was in one.
local function unqueue(user)
  call('ZREM', kSeen, user)
  call('HDEL', kSince, user)
  local entitled = line.split == 1 and call('ZREM', kEntitled, user) or 0
  return math.max(entitled, call('ZREM', kQueue, user))
end

-- moveWaiter moves a user to the other set of waiters, with the same score, or the one there if that is
-- lower. For the check of the admissions' order the user counts as present there from now on.
local function moveWaiter(user, from, to)
  local score = call('ZSCORE', from, user)
  if not score then return 0 end
  call('ZREM', from, user)
  call('ZADD', to, 'LT', score, user)
  local at = since(score)
  if at then call('HSET', kSince, user, at) end
  if to == kEntitled and line.split == 0 then set({ split = 1 }) end
  return 1
end

-- scoreOf returns a waiter's score and set; false without a place. An older replica, which knows no second
-- set, may have enqueued a user who is in `entitled`: that user stays there.
local function scoreOf(user)
  if line.split == 0 then return call('ZSCORE', kQueue, user), kQueue end
  local entitled = call('ZSCORE', kEntitled, user)
  if not entitled then return call('ZSCORE', kQueue, user), kQueue end
  if moveWaiter(user, kQueue, kEntitled) == 1 then entitled = call('ZSCORE', kEntitled, user) end
  return entitled, kEntitled
end

-- rankOf returns how many waiters enter before one with this score in this set. Users without an
-- entitlement have the place that they will have when the sale opens.
local function rankOf(user, score, key)
  local rank = call('ZRANK', key, user)
  if line.split == 0 or (key == kEntitled and not isForAll()) then return rank end
  return rank + call('ZCOUNT', key == kQueue and kEntitled or kQueue, '-inf', '(' .. score)
end

local function entitledCount() return line.split == 1 and call('ZCARD', kEntitled) or 0 end

local function waitingCount() return call('ZCARD', kQueue) + entitledCount() end

-- setEntitlement keeps an answer of ticket on a user, '1' or '0'. It returns 1 if that has
-- changed anything. Once the sale is open nobody needs an entitlement.
local function setEntitlement(user, answer)
  if isForAll() then return 0 end
  if answer == '0' then
    if call('SREM', kGranted, user) == 0 then return 0 end
    moveWaiter(user, kEntitled, kQueue)
    return 1
  end
  local new = call('SADD', kGranted, user)
  if new == 1 then call('PEXPIRE', kGranted, int(line.opens - now + C.idle)) end
  return math.max(new, moveWaiter(user, kQueue, kEntitled))
end

-- raiseHigh notes that a waiter with this score was admitted. An admission in a presale passes over
-- nobody who waits for the sale, so `highAll` is without those.
local function raiseHigh(score)
  line.high = math.max(line.high, score)
  if isForAll() then line.highAll = math.max(line.highAll, score) end
end

-- turnMark is the record in `turns` of an admission of an early place, or of any in a presale: an entitled
-- user who had a turn by arrival must not be early too. In a presale it is no tier-1 score: else a user
-- without the entitlement any more, to whom `high` does not apply, would be early again.
local function turnMark(score)
  if isForAll() then return score end
  return isEarly(score) and score .. '.5' or int(us) -- later than every position of this round
end
