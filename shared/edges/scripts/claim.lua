#!lua
-- Gives a worker the next turns of the rings, each with a lease and a raised attempt.
--
-- KEYS: the worker's last claim
-- ARGV: prefix, policy, worker id, how many at most, claim (8 random hex digits), its number among
--       the worker's claims, the number of the last one that brought turns (0 each: not counted)
-- Answers: a flat list; per turn: id, attempt, crashes, superseding (0 | 1), enqueued ms,
--          claimed ms, request (JSON)
-- Without memory it fails: arq's own start of a job would be refused next.
-- Sent twice: the same claim is answered with the same turns, as far as they are still its own. A
--             copy that arrives after a later claim gets none; where that one was given none, and
--             left no trace, the copy takes turns that nobody hears of: the next claim hands them
--             back.
--@include common
--@include lanes
--@include running
local worker, wanted, claim = ARGV[3], tonumber(ARGV[4]), ARGV[5]
local MAX_STEPS = 200 -- looks at lanes, so that many parked or expired ones cannot block the server
local now = now_ms()
local answer, taken = {}, {}

local function hand_out(tid)
  local key = turn_key(tid)
  local m = redis.call('HMGET', key, 'attempt', 'crashes', 'superseding', 'enqueued', 'claimed', 'request')
  for i = 1, 6 do answer[#answer + 1] = m[i] end
  table.insert(answer, #answer - 5, tid)
  taken[#taken + 1] = tid
end

-- Starts the next attempt; what an earlier one showed is superseded in the same step.
local function start(tid, guild, lane, s, provider_key)
  local key = turn_key(tid)
  local attempt = redis.call('HINCRBY', key, 'attempt', 1)
  local shown = redis.call('HGET', key, 'shown')
  if shown == '1' then
    local event = string.gsub(POLICY.superseded, '@attempt@', tostring(attempt - 1))
    emit(tid, attempt, claim, 0, (string.gsub(event, '@by@', tostring(attempt))))
  end
  if attempt == 1 then redis.call('HSET', key, 'deadline', now + POLICY.run_ms) end
  redis.call('HSET', key, 'state', 'running', 'claim', claim, 'worker', worker, 'claimed', now,
    'seq', '0', 'superseding', shown)
  redis.call('PEXPIRE', key, POLICY.turn_ttl_ms)
  redis.call('PEXPIRE', 'arq:job:' .. tid, POLICY.turn_ttl_ms)
  redis.call('ZREM', WAITING, tid)
  redis.call('ZADD', LEASES, now + POLICY.lease_ms, tid)
  redis.call('HSET', RUN_LANE, lane, tid)
  retract(guild, lane, s == '' and LOW or '')
  redis.call('HINCRBY', RUN_GUILD, guild, 1)
  redis.call('HINCRBY', RUN_KEY, provider_key, 1)
  note(tid, now, 'claimed', tostring(attempt), worker)
  hand_out(tid)
end

-- Where a turn must wait, if anywhere: for what is paused, or for a slot of its provider key.
-- A rest ends by itself, and a turn that may fall back to another provider does not wait for it.
local function parking_of(key, model, pinned)
  if redis.call('ZCARD', PAUSES) > 0 then
    local names = { 'key:' .. key, 'provider:' .. string.match(key, '^[^:]*'), 'model:' .. (model or '') }
    if pinned == '1' then names[4] = 'rest:' .. key end
    for _, name in ipairs(names) do
      if is_paused(name) then return '=' .. name end
    end
  end
  return count(RUN_KEY, key) >= POLICY.key_running and key or nil
end

-- One look at a queue of the guild whose turn it is. Answers whether a turn was started.
local function step(guild, s, score)
  local lane = redis.call('LPOP', guild_key(guild, s))
  local tid = lane and redis.call('LINDEX', lane_key(lane, s), 0)
  if not tid then return false end
  local m = redis.call('HMGET', turn_key(tid), 'key', 'deadline', 'model', 'pinned', 'weight')
  if not m[1] then -- its record is gone, and with it whoever could be told
    redis.call('LPOP', lane_key(lane, s))
    redis.call('ZREM', WAITING, tid)
    leave_depth(guild)
    offer(guild, lane, s)
    return false
  end
  if now >= tonumber(m[2]) then
    redis.call('ZADD', WAITING, m[2], tid) -- the reaper ends it, and lets the lane go on
    return false
  end
  local place = parking_of(m[1], m[3], m[4])
  if place then
    park(guild, lane, s, place)
    return false
  end
  redis.call('LPOP', lane_key(lane, s))
  start(tid, guild, lane, s, m[1])
  local time = math.max(score, time_of(guild))
  redis.call('HSET', TOTALS, 'time', math.max(clock(), time))
  local weight = math.max(tonumber(m[5] or '1'), 0.01)
  redis.call('ZADD', TIMES, time + 1 / weight, guild)
  for _, ring in pairs(RINGS) do
    if redis.call('ZSCORE', ring, guild) then redis.call('ZADD', ring, time + 1 / weight, guild) end
  end
  return true
end

-- The ring whose turn it is: replays get one start in POLICY.low_share, and what nobody else wants.
local function next_ring()
  local has_low = redis.call('ZCARD', RINGS[LOW]) > 0
  if redis.call('ZCARD', RINGS['']) == 0 then return has_low and LOW or nil end
  if not has_low then return '' end
  return count(TOTALS, 'passed') >= POLICY.low_share - 1 and LOW or ''
end

-- A guild without lanes, or at its cap, leaves the rings.
local function look_after(guild)
  local is_full = count(RUN_GUILD, guild) >= POLICY.guild_running
  for s, ring in pairs(RINGS) do
    if is_full or redis.call('LLEN', guild_key(guild, s)) == 0 then redis.call('ZREM', ring, guild) end
  end
end

local number, heard = tonumber(ARGV[6]), tonumber(ARGV[7])
local last = redis.call('HMGET', KEYS[1], 'claim', 'turns', 'number')
if last[1] == claim then
  for tid in string.gmatch(last[2], '%S+') do
    if is_current(tid, nil, claim) then hand_out(tid) end
  end
  return answer
end
if tonumber(last[3] or '0') > number then return answer end
if tonumber(last[3] or '0') > heard then
  for tid in string.gmatch(last[2], '%S+') do
    if is_current(tid, nil, last[1]) then hand_back(tid, now, false) end
  end
  redis.call('DEL', KEYS[1])
end

promote(now)
if is_paused('fleet') then return answer end
local steps = 0
while #taken < wanted and steps < MAX_STEPS do
  steps = steps + 1
  local s = next_ring()
  if not s then break end
  local guild, score = unpack(redis.call('ZRANGE', RINGS[s], 0, 0, 'WITHSCORES'))
  if is_paused('guild:' .. guild) then
    for _, ring in pairs(RINGS) do redis.call('ZREM', ring, guild) end
  else
    if step(guild, s, tonumber(score)) then
      if s == LOW then
        redis.call('HDEL', TOTALS, 'passed')
      elseif redis.call('ZCARD', RINGS[LOW]) > 0 then
        redis.call('HINCRBY', TOTALS, 'passed', 1)
      end
    end
    look_after(guild)
  end
end
if #taken > 0 then
  redis.call('HSET', KEYS[1], 'claim', claim, 'turns', table.concat(taken, ' '), 'number', number)
  redis.call('PEXPIRE', KEYS[1], POLICY.claim_ttl_ms)
  -- A guild whose time the ring has passed is as good as one that was never charged.
  redis.call('ZREMRANGEBYSCORE', TIMES, '-inf', '(' .. string.format('%.17g', clock()))
  redis.call('PEXPIRE', TIMES, POLICY.turn_ttl_ms)
end
wake()
return answer
