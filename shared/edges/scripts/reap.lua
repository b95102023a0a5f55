#!lua flags=allow-oom
-- Takes turns from workers whose leases ended; ends turns that waited too long; ends delays.
--
-- After a time in which nobody reaped (the server or the whole fleet was away) all leases look
-- ended although their workers live: such a call only starts a time of grace of one lease, in
-- which the workers can beat.
--
-- Where the server's clock was set back, a lease may lie further ahead than any can: it is pulled near,
-- or dead workers would keep their turns until the clock has caught up.
--
-- KEYS: leases
-- ARGV: prefix, policy, how many at most
-- Answers: a flat list; per turn: id, queued | cancelled | failed | dead | gone, and expired for
--          one that nobody started in time
-- Sent twice: the second finds nothing left.
--@include common
--@include lanes
--@include running
local now = now_ms()
local last = follow_clock(now)
-- Noted now and then only: each note is an fsync, and every worker calls this twice a second.
if now - last > POLICY.reap_gap_ms / 4 then redis.call('HSET', TOTALS, 'reaped', now) end
if last > 0 and now - last > POLICY.reap_gap_ms then
  redis.call('HSET', TOTALS, 'grace', now + POLICY.lease_ms)
end
local latest, grace = now + POLICY.lease_ms, count(TOTALS, 'grace')
if promote(now) then wake() end
if now < grace and grace <= latest then return {} end
local beyond = '(' .. string.format('%.0f', latest)
for _, tid in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], beyond, '+inf', 'LIMIT', 0, ARGV[3])) do
  redis.call('ZADD', KEYS[1], latest, tid)
end
local answer = {}
for _, tid in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, ARGV[3])) do
  local state = 'gone'
  if redis.call('HEXISTS', turn_key(tid), 'state') == 0 then
    redis.call('ZREM', KEYS[1], tid)
  else
    state = hand_back(tid, now, true)
  end
  answer[#answer + 1] = tid
  answer[#answer + 1] = state
end
for _, tid in ipairs(redis.call('ZRANGEBYSCORE', WAITING, '-inf', now, 'LIMIT', 0, ARGV[3])) do
  if redis.call('HGET', turn_key(tid), 'state') == 'queued' then
    withdraw(tid, now, 'failed', POLICY.expired)
    answer[#answer + 1] = tid
    answer[#answer + 1] = 'expired'
  else
    redis.call('ZREM', WAITING, tid)
  end
end
if #answer > 0 then wake() end
return answer
