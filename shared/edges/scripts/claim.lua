#!lua
-- Gives a worker the next turns of the ring, each with a lease and a raised attempt.
--
-- KEYS: the worker's last claim
-- ARGV: prefix, policy, worker id, how many at most, claim (8 random hex digits)
-- Answers: a flat list; per turn: id, attempt, crashes, superseding (0 | 1), enqueued ms,
--          claimed ms, request (JSON)
-- Without memory it fails: arq's own start of a job would be refused next.
-- Sent twice: the same claim is answered with the same turns, as far as they are still its own.
--@include common
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
local function start(tid, guild, lane, provider_key)
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
  redis.call('ZADD', LEASES, now + POLICY.lease_ms, tid)
  redis.call('HSET', RUN_LANE, lane, tid)
  redis.call('HINCRBY', RUN_GUILD, guild, 1)
  redis.call('HINCRBY', RUN_KEY, provider_key, 1)
  note(tid, now, 'claimed', tostring(attempt), worker)
  hand_out(tid)
end

-- Takes a turn that nobody may start any more out of its lane; the lane goes on.
-- `key` is nil where the turn's record is gone.
local function drop_head(tid, guild, lane, key)
  redis.call('LPOP', lane_key(lane))
  if key then
    settle(tid, now, 'failed', POLICY.expired, '')
    pass_on(key)
  else
    leave_depth(guild)
  end
  if redis.call('LLEN', lane_key(lane)) > 0 then redis.call('RPUSH', guild_key(guild), lane) end
end

-- One look at a lane of the guild whose turn it is. Answers whether a turn was started.
local function step(guild, time)
  local lane = redis.call('LPOP', guild_key(guild))
  local tid = lane and redis.call('LINDEX', lane_key(lane), 0)
  if not tid then return false end
  local m = redis.call('HMGET', turn_key(tid), 'key', 'deadline')
  if not m[1] or now >= tonumber(m[2]) then
    drop_head(tid, guild, lane, m[1])
    return false
  end
  if count(RUN_KEY, m[1]) >= POLICY.key_running then
    redis.call('RPUSH', parked_key(m[1]), guild .. '|' .. lane)
    return false
  end
  redis.call('LPOP', lane_key(lane))
  start(tid, guild, lane, m[1])
  redis.call('HSET', TIMES, guild, time + 1)
  redis.call('ZADD', RING, time + 1, guild)
  return true
end

if redis.call('HGET', KEYS[1], 'claim') == claim then
  for tid in string.gmatch(redis.call('HGET', KEYS[1], 'turns'), '%S+') do
    if is_current(tid, nil, claim) then hand_out(tid) end
  end
  return answer
end

local steps = 0
while #taken < wanted and steps < MAX_STEPS do
  steps = steps + 1
  local first = redis.call('ZRANGE', RING, 0, 0, 'WITHSCORES')
  if #first == 0 then break end
  local guild, time = first[1], tonumber(first[2])
  redis.call('HSET', TOTALS, 'time', time)
  step(guild, time)
  if redis.call('LLEN', guild_key(guild)) == 0
    or count(RUN_GUILD, guild) >= POLICY.guild_running then
    redis.call('ZREM', RING, guild)
  end
end
if #taken > 0 then
  redis.call('HSET', KEYS[1], 'claim', claim, 'turns', table.concat(taken, ' '))
  redis.call('PEXPIRE', KEYS[1], POLICY.claim_ttl_ms)
end
wake()
return answer
