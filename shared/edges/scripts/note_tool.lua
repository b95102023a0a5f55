#!lua flags=allow-oom
-- Remembers that a tool is about to run, until its result is kept (`keep_rounds`): should the
-- worker die before, the turn ends instead of running it once more.
--
-- KEYS: turn record
-- ARGV: prefix, policy, turn id, attempt, claim, number of the round among those of the attempt
-- Answers: 1, or 0 when the attempt is fenced
-- Sent twice: the same. A copy that arrives after the round was kept changes nothing.
--@include common
--@include lanes
--@include running
if not is_current(ARGV[3], ARGV[4], ARGV[5]) then return 0 end
if is_kept(KEYS[1], ARGV[4], ARGV[6]) then return 1 end
redis.call('HSET', KEYS[1], 'tools', '1')
return 1
