#!lua flags=allow-oom
-- Stops a turn: at once while it waits, through its worker's control list while it runs.
--
-- KEYS: turn record
-- ARGV: prefix, policy, turn id
-- Answers: cancelled | stopping | finished | unknown
-- Sent twice: a second stop of a running turn is one more entry of the list, which does no harm.
--@include common
--@include running
local tid = ARGV[3]
local m = redis.call('HMGET', KEYS[1], 'state', 'worker', 'guild', 'lane', 'key')
local guild, lane = m[3], m[4]
if not m[1] then return 'unknown' end
if m[1] == 'running' then
  local control = PREFIX .. 'ctl:' .. m[2]
  redis.call('HSET', KEYS[1], 'cancel', '1')
  redis.call('RPUSH', control, tid)
  redis.call('PEXPIRE', control, POLICY.control_ttl_ms)
  return 'stopping'
end
if m[1] ~= 'queued' then return 'finished' end

local was_head = redis.call('LINDEX', lane_key(lane), 0) == tid
redis.call('LREM', lane_key(lane), 1, tid)
if redis.call('LLEN', lane_key(lane)) == 0 then
  redis.call('LREM', guild_key(guild), 1, lane)
  if redis.call('LLEN', guild_key(guild)) == 0 then redis.call('ZREM', RING, guild) end
end
if was_head and redis.call('LREM', parked_key(m[5]), 1, guild .. '|' .. lane) > 0 then
  -- The lane waited for the key of the turn that is gone; its next turn may have another.
  if redis.call('LLEN', lane_key(lane)) > 0 then
    redis.call('RPUSH', guild_key(guild), lane)
    enter(guild)
  end
end
settle(tid, now_ms(), 'cancelled', POLICY.cancelled, '')
pass_on(m[5])
wake()
return 'cancelled'
