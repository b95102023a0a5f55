-- Where waiting turns stand: queues of lanes, guilds, the two rings, parkings, delays, pauses.
-- Included after `common`; never sent alone.
--
-- A lane has two queues: what people ask, and replays, whose names end in LOW. `s`, the suffix of a
-- queue, is '' or LOW everywhere below. One turn of a lane runs at a time, whichever queue it is of.
-- A queue that is not empty stands in exactly one place:
--   its guild's list   it could start now; the guild is in the ring of the same suffix, unless it
--                      is at its cap or paused
--   a parking          its first turn waits for a provider key, or for what is paused
--   nowhere            a turn of its lane runs, or waits with the lane locked (run.lane names it),
--                      or its first turn is past its deadline, and the next reaper ends it
local LOW = '~'
local WAKE, PARKED = PREFIX .. 'wake', PREFIX .. 'parked'
local PAUSES, TIMES = PREFIX .. 'pause', PREFIX .. 'vtime'
local RINGS = { [''] = PREFIX .. 'ring', [LOW] = PREFIX .. 'ring.low' }
local MAX_WAKE_TOKENS = 64 -- more than a burst can use before workers look by themselves
local MAX_DUE = 100 -- delays that end in one call; the next call is half a second later

local function lane_key(lane, s) return PREFIX .. 'lane:' .. lane .. s end
local function guild_key(guild, s) return PREFIX .. 'guild:' .. guild .. s end
local function parked_key(name) return PREFIX .. 'parked:' .. name end
local function suffix(low) return low == '1' and LOW or '' end
local function is_paused(name) return redis.call('ZSCORE', PAUSES, name) end
local function is_running(lane) return redis.call('HEXISTS', RUN_LANE, lane) == 1 end

-- Virtual times have fractions.
local function clock() return tonumber(redis.call('HGET', TOTALS, 'time') or '0') end
local function time_of(guild) return tonumber(redis.call('ZSCORE', TIMES, guild) or '0') end

-- Puts a guild into a ring if one of its lanes could start now.
local function enter(guild, s)
  if redis.call('ZSCORE', RINGS[s], guild) then return end
  if redis.call('LLEN', guild_key(guild, s)) == 0 or is_paused('guild:' .. guild) then return end
  if count(RUN_GUILD, guild) >= POLICY.guild_running then return end
  redis.call('ZADD', RINGS[s], math.max(clock(), time_of(guild)), guild)
end

local function wake()
  if redis.call('ZCARD', RINGS['']) + redis.call('ZCARD', RINGS[LOW]) == 0 then return end
  redis.call('LPUSH', WAKE, '1')
  redis.call('LTRIM', WAKE, 0, MAX_WAKE_TOKENS - 1)
end

-- Lets a queue start: `how` is RPUSH, or LPUSH for a turn that comes back.
local function offer(guild, lane, s, how)
  if is_running(lane) or redis.call('LLEN', lane_key(lane, s)) == 0 then return false end
  if redis.call('HEXISTS', PARKED, lane .. s) == 1 then return false end
  redis.call(how or 'RPUSH', guild_key(guild, s), lane)
  enter(guild, s)
  return true
end

-- Takes a queue out of its guild's list; a guild without any leaves the ring.
local function retract(guild, lane, s)
  if redis.call('LREM', guild_key(guild, s), 0, lane) > 0
    and redis.call('LLEN', guild_key(guild, s)) == 0 then
    redis.call('ZREM', RINGS[s], guild)
  end
end

-- A turn goes to the end of its queue.
local function join(tid, guild, lane, s)
  if redis.call('RPUSH', lane_key(lane, s), tid) == 1 then offer(guild, lane, s) end
end

-- A lane is free again: both of its queues may start.
local function unlock(guild, lane)
  redis.call('HDEL', RUN_LANE, lane)
  offer(guild, lane, '')
  offer(guild, lane, LOW)
end

-- A queue waits for `name`: a provider key at its cap, or `=` and the name of a pause.
local function park(guild, lane, s, name)
  redis.call('RPUSH', parked_key(name), guild .. '|' .. lane .. s)
  redis.call('HSET', PARKED, lane .. s, guild .. '|' .. name)
end

-- Takes one queue out of a parking, which may then start. False where none waits there.
local function unpark(name)
  while true do
    local entry = redis.call('LPOP', parked_key(name))
    if not entry then return false end
    local guild, queue = string.match(entry, '^([^|]*)|(.*)$')
    local lane, s = queue, ''
    if string.sub(queue, -1) == LOW then lane, s = string.sub(queue, 1, -2), LOW end
    redis.call('HDEL', PARKED, queue)
    if offer(guild, lane, s) then return true end
  end
end

-- A slot of a provider key is free, as far as this call knows.
local function pass_on(key)
  if count(RUN_KEY, key) < POLICY.key_running then unpark(key) end
end

-- Takes a queue out of a parking, wherever it stands there.
local function leave_parking(lane, s)
  local entry = redis.call('HGET', PARKED, lane .. s)
  if not entry then return end
  local guild, name = string.match(entry, '^([^|]*)|(.*)$')
  redis.call('LREM', parked_key(name), 1, guild .. '|' .. lane .. s)
  redis.call('HDEL', PARKED, lane .. s)
end

-- Takes a waiting turn out, wherever it waits, and ends it; its lane goes on.
local function withdraw(tid, now, state, event)
  local m = redis.call('HMGET', turn_key(tid), 'guild', 'lane', 'key', 'low', 'held')
  local guild, lane, s, held = m[1], m[2], suffix(m[4]), m[5]
  if held == 'later' or held == 'crash' then
    redis.call('ZREM', DELAY, tid)
    redis.call('HSET', turn_key(tid), 'held', '')
    settle(tid, now, state, event, '')
    if held == 'crash' then unlock(guild, lane) end
    return
  end
  local was_head = redis.call('LINDEX', lane_key(lane, s), 0) == tid
  redis.call('LREM', lane_key(lane, s), 1, tid)
  settle(tid, now, state, event, '')
  if was_head then
    -- The next turn of the lane may wait for something else, or for nothing.
    leave_parking(lane, s)
    retract(guild, lane, s)
    offer(guild, lane, s)
  end
  pass_on(m[3])
end

-- Ends a pause: what waited for it may start.
local function resume(name)
  redis.call('ZREM', PAUSES, name)
  local guild = string.match(name, '^guild:(.*)$')
  if guild then
    enter(guild, '')
    enter(guild, LOW)
  elseif name ~= 'fleet' then
    while unpark('=' .. name) do end
  end
end

-- The server's clock may be set back, by whoever corrects it, or by a fail-over to a host that is
-- behind. What waits for a time then moves back as far as the clock did. Whoever writes such a time
-- asks first: what is written by the new clock is right, and must not move. Answers when somebody
-- last reaped, by the clock of then.
local function follow_clock(now)
  local last = count(TOTALS, 'reaped')
  if last <= now then return last end
  for _, key in ipairs({ DELAY, PAUSES, WAITING }) do
    for _, name in ipairs(redis.call('ZRANGE', key, 0, -1)) do
      redis.call('ZINCRBY', key, now - last, name)
    end
  end
  redis.call('HSET', TOTALS, 'reaped', now)
  return last
end

-- Ends the delays and pauses whose time has come. Answers whether there were any.
local function promote(now)
  local names = redis.call('ZRANGEBYSCORE', PAUSES, '-inf', now)
  for _, name in ipairs(names) do resume(name) end
  local due = redis.call('ZRANGEBYSCORE', DELAY, '-inf', now, 'LIMIT', 0, MAX_DUE)
  for _, tid in ipairs(due) do
    redis.call('ZREM', DELAY, tid)
    local m = redis.call('HMGET', turn_key(tid), 'guild', 'lane', 'low', 'held', 'state')
    if m[5] == 'queued' then
      redis.call('HSET', turn_key(tid), 'held', '')
      if m[4] == 'crash' then
        redis.call('LPUSH', lane_key(m[2], suffix(m[3])), tid)
        unlock(m[1], m[2])
      else
        join(tid, m[1], m[2], suffix(m[3]))
      end
    end
  end
  return #names + #due > 0
end
