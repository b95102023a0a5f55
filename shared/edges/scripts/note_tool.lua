#!lua flags=allow-oom
-- Remembers that a tool is about to run, until its result is kept (`keep_rounds`): should the
-- worker die before, the turn ends instead of running it once more.
--
-- KEYS: turn record
-- ARGV: prefix, policy, turn id, attempt, claim
-- Answers: 1, or 0 when the attempt is fenced
-- Sent twice: the same.
--@include common
--@include lanes
--@include running
if not is_current(ARGV[3], ARGV[4], ARGV[5]) then return 0 end
redis.call('HSET', KEYS[1], 'tools', '1')
return 1
