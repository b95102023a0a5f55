#!lua flags=allow-oom
-- The same worker starts over after a provider's failure; what it showed is superseded.
--
-- KEYS: turn record
-- ARGV: prefix, policy, turn id, attempt, claim
-- Answers: the new attempt's number, or 0 when the attempt is fenced
-- Sent twice: the second finds the number raised by its own claim and answers it again.
--@include common
--@include lanes
--@include running
local tid, old, claim = ARGV[3], tonumber(ARGV[4]), ARGV[5]
local new = tostring(old + 1)
if is_current(tid, new, claim) then return old + 1 end
if not is_current(tid, ARGV[4], claim) then return 0 end
local now = now_ms()
redis.call('HSET', KEYS[1], 'attempt', new, 'seq', '0')
redis.call('ZADD', LEASES, 'XX', now + POLICY.lease_ms, tid)
if redis.call('HGET', KEYS[1], 'shown') == '1' then
  local event = string.gsub(POLICY.superseded, '@attempt@', ARGV[4])
  emit(tid, new, claim, 0, (string.gsub(event, '@by@', new)))
end
note(tid, now, 'next', new, redis.call('HGET', KEYS[1], 'worker'))
return old + 1
