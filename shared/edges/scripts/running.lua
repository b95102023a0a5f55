-- What concerns running turns and their slots. Included after `common`; never sent alone.

-- Is this the attempt that may write? `attempt` nil asks for the claim only.
local function is_current(tid, attempt, claim)
  local m = redis.call('HMGET', turn_key(tid), 'state', 'attempt', 'claim')
  return m[1] == 'running' and m[3] == claim and (attempt == nil or m[2] == attempt)
end

-- Takes a lane that waited for this provider key back into its guild.
local function unpark(key)
  local waiting = redis.call('LPOP', parked_key(key))
  if not waiting then return end
  local bar = string.find(waiting, '|', 1, true)
  local guild, lane = string.sub(waiting, 1, bar - 1), string.sub(waiting, bar + 1)
  redis.call('RPUSH', guild_key(guild), lane)
  enter(guild)
end

-- A waiting turn ended. Its lane may have left the parking for a slot that nobody takes now.
local function pass_on(key)
  if count(RUN_KEY, key) < POLICY.key_running then unpark(key) end
end

-- Takes a waiting turn out of its lane and ends it; its lane goes on.
local function withdraw(tid, now, event)
  local m = redis.call('HMGET', turn_key(tid), 'guild', 'lane', 'key')
  local guild, lane = m[1], m[2]
  local was_head = redis.call('LINDEX', lane_key(lane), 0) == tid
  redis.call('LREM', lane_key(lane), 1, tid)
  if redis.call('LLEN', lane_key(lane)) == 0 then
    redis.call('LREM', guild_key(guild), 1, lane)
    if redis.call('LLEN', guild_key(guild)) == 0 then redis.call('ZREM', RING, guild) end
  end
  if was_head and redis.call('LREM', parked_key(m[3]), 1, guild .. '|' .. lane) > 0 then
    -- The lane waited for the key of the turn that is gone; its next turn may have another.
    if redis.call('LLEN', lane_key(lane)) > 0 then
      redis.call('RPUSH', guild_key(guild), lane)
      enter(guild)
    end
  end
  settle(tid, now, 'cancelled', event, '')
  pass_on(m[3])
end

-- Asks the worker of a running turn to stop it. `why` is a note of its terminal event, or ''.
local function stop_running(tid, why)
  local control = PREFIX .. 'ctl:' .. redis.call('HGET', turn_key(tid), 'worker')
  redis.call('HSET', turn_key(tid), 'cancel', '1', 'why', why)
  redis.call('RPUSH', control, tid)
  redis.call('PEXPIRE', control, POLICY.control_ttl_ms)
end

-- Frees the slot of a running turn. With `back` the turn returns to the head of its lane.
local function free(tid, back)
  local m = redis.call('HMGET', turn_key(tid), 'guild', 'lane', 'key')
  local guild, lane, key = m[1], m[2], m[3]
  redis.call('ZREM', LEASES, tid)
  redis.call('HDEL', RUN_LANE, lane)
  add(RUN_GUILD, guild, -1)
  add(RUN_KEY, key, -1)
  if back then
    redis.call('LPUSH', lane_key(lane), tid)
    redis.call('LPUSH', guild_key(guild), lane)
  elseif redis.call('LLEN', lane_key(lane)) > 0 then
    redis.call('RPUSH', guild_key(guild), lane)
  end
  unpark(key)
  enter(guild)
end

-- A worker gives a turn up, by will or by death. Answers `queued`, `cancelled`, `failed` or `dead`.
local function hand_back(tid, now, crashed)
  local key = turn_key(tid)
  local m = redis.call('HMGET', key, 'cancel', 'seq', 'tools', 'deadline', 'attempt', 'worker')
  local crashes = redis.call('HINCRBY', key, 'crashes', crashed and 1 or 0)
  local can_supersede = POLICY.crash == 'supersede' and m[3] == '0' and now < tonumber(m[4])
  local state, event
  if m[1] == '1' then
    state = 'cancelled'
    event = redis.call('HGET', key, 'why') == 'replaced' and POLICY.replaced or POLICY.cancelled
  elseif crashes >= POLICY.max_crashes then
    state, event = 'dead', POLICY.dead
  elseif tonumber(m[2]) > 0 and not can_supersede then
    state, event = 'failed', POLICY.lost
  end
  note(tid, now, crashed and 'crashed' or 'released', m[5], m[6])
  if not state then
    redis.call('HSET', key, 'state', 'queued')
    redis.call('PEXPIRE', key, POLICY.turn_ttl_ms)
    redis.call('PEXPIRE', 'arq:job:' .. tid, POLICY.turn_ttl_ms)
    free(tid, true)
    return 'queued'
  end
  free(tid, false)
  settle(tid, now, state, event, '')
  if state == 'dead' then
    redis.call('XADD', PREFIX .. 'dead', 'MAXLEN', '~', POLICY.dead_max, '*', 'turn', tid,
      'attempt', m[5], 'worker', m[6])
  end
  return state
end
