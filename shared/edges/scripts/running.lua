-- What concerns running turns and their slots. Included after `common` and `lanes`; never sent alone.

-- Is this the attempt that may write? `attempt` nil asks for the claim only.
local function is_current(tid, attempt, claim)
  local m = redis.call('HMGET', turn_key(tid), 'state', 'attempt', 'claim')
  return m[1] == 'running' and m[3] == claim and (attempt == nil or m[2] == attempt)
end

-- Has this attempt kept its tool round `number`, or a later one?
local function is_kept(key, attempt, number)
  local kept = redis.call('HGET', key, 'kept') or ''
  local whose, last = string.match(kept, '^(%d+) (%d+)$')
  return whose == attempt and tonumber(last) >= tonumber(number)
end

-- Asks the worker of a running turn to stop it. `why` is a note of its terminal event, or ''.
local function stop_running(tid, why)
  local control = PREFIX .. 'ctl:' .. redis.call('HGET', turn_key(tid), 'worker')
  redis.call('HSET', turn_key(tid), 'cancel', '1', 'why', why)
  redis.call('RPUSH', control, tid)
  redis.call('PEXPIRE', control, POLICY.control_ttl_ms)
end

-- Corrects what a guild paid at the start of a turn, which was one turn of average cost.
-- Without this, a guild of minutes-long turns has ten times the slot time of one with short ones.
-- `tokens` nil means that nobody counted them.
local function charge(guild, weight, seconds, tokens)
  local cost = seconds
  if POLICY.charge == 'tokens' then cost = tokens end
  if POLICY.charge == 'turns' or not cost then return end
  local field = 'avg.' .. POLICY.charge
  local average = tonumber(redis.call('HGET', TOTALS, field) or cost)
  redis.call('HSET', TOTALS, field, average + (cost - average) / POLICY.charge_memory)
  if average <= 0 then return end
  local time = time_of(guild)
  if time == 0 then time = clock() end
  time = time + (math.min(cost / average, POLICY.charge_max) - 1) / weight
  redis.call('ZADD', TIMES, time, guild)
  redis.call('PEXPIRE', TIMES, POLICY.turn_ttl_ms)
  for _, ring in pairs(RINGS) do
    if redis.call('ZSCORE', ring, guild) then redis.call('ZADD', ring, time, guild) end
  end
end

-- Frees the slot of a running turn. `way` is where it goes: nil it has ended, 'lane' back to the
-- head of its queue, else milliseconds that it waits with its lane locked.
local function free(tid, now, way, tokens)
  local m = redis.call('HMGET', turn_key(tid), 'guild', 'lane', 'key', 'low', 'weight', 'claimed',
    'deadline')
  local guild, lane, key, s = m[1], m[2], m[3], suffix(m[4])
  redis.call('ZREM', LEASES, tid)
  add(RUN_GUILD, guild, -1)
  add(RUN_KEY, key, -1)
  charge(guild, math.max(tonumber(m[5] or '1'), 0.01), (now - tonumber(m[6] or now)) / 1000, tokens)
  if way then
    follow_clock(now)
    -- No further ahead than it can be: it may be of a clock that was set back since.
    redis.call('ZADD', WAITING, math.min(tonumber(m[7]), now + POLICY.run_ms), tid)
  end
  if way == 'lane' then
    redis.call('HDEL', RUN_LANE, lane)
    redis.call('LPUSH', lane_key(lane, s), tid)
    offer(guild, lane, s, 'LPUSH')
    offer(guild, lane, s == '' and LOW or '')
  elseif way then
    redis.call('HSET', turn_key(tid), 'held', 'crash')
    redis.call('ZADD', DELAY, now + way, tid)
  end
  if not way then unlock(guild, lane) end
  pass_on(key)
  enter(guild, '')
  enter(guild, LOW)
end

-- The brake for a turn that takes its workers with it: none for the first crash, then longer ones.
local function delay_after(crashes)
  local delays = POLICY.crash_delays_ms
  return delays[math.min(crashes, #delays)]
end

-- A worker gives a turn up, by will or by death. Answers `queued`, `cancelled`, `failed` or `dead`.
local function hand_back(tid, now, crashed)
  local key = turn_key(tid)
  local m = redis.call('HMGET', key, 'cancel', 'seq', 'tools', 'deadline', 'attempt', 'worker')
  local crashes = redis.call('HINCRBY', key, 'crashes', crashed and 1 or 0)
  local can_supersede = POLICY.crash == 'supersede' and now < tonumber(m[4])
  local state, event
  if m[1] == '1' then
    state = 'cancelled'
    event = POLICY[redis.call('HGET', key, 'why')] or POLICY.cancelled
  elseif crashes >= POLICY.max_crashes then
    state, event = 'dead', POLICY.dead
  elseif m[3] == '1' then
    -- A tool ran, and nobody knows what it did: it is not run a second time.
    state, event = 'failed', POLICY.lost_in_tool
  elseif tonumber(m[2]) > 0 and not can_supersede then
    state, event = 'failed', POLICY.lost
  end
  note(tid, now, crashed and 'crashed' or 'released', m[5], m[6])
  if not state then
    redis.call('HSET', key, 'state', 'queued')
    redis.call('PEXPIRE', key, POLICY.turn_ttl_ms)
    redis.call('PEXPIRE', 'arq:job:' .. tid, POLICY.turn_ttl_ms)
    local wait_ms = crashed and delay_after(crashes) or 0
    free(tid, now, wait_ms > 0 and wait_ms or 'lane')
    return 'queued'
  end
  free(tid, now)
  settle(tid, now, state, event, '')
  if state == 'dead' then
    redis.call('XADD', PREFIX .. 'dead', 'MAXLEN', '~', POLICY.dead_max, '*', 'turn', tid,
      'attempt', m[5], 'worker', m[6])
  end
  return state
end
