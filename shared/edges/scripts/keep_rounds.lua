#!lua
-- Keeps the completed tool rounds of a turn: whoever takes it over goes on from there, and the
-- tools that ran are no reason any more to end it.
--
-- KEYS: turn record, rounds of the turn
-- ARGV: prefix, policy, turn id, attempt, claim, number of the last round among those of the attempt,
--       rounds (JSON)
-- Answers: 1, or 0 when the attempt is fenced
-- Sent twice: the second finds the round kept, and so does a copy that arrives after a later one.
--@include common
--@include lanes
--@include running
if not is_current(ARGV[3], ARGV[4], ARGV[5]) then return 0 end
if is_kept(KEYS[1], ARGV[4], ARGV[6]) then return 1 end
redis.call('SET', KEYS[2], ARGV[7], 'PX', POLICY.turn_ttl_ms)
redis.call('HSET', KEYS[1], 'tools', '0', 'kept', ARGV[4] .. ' ' .. ARGV[6])
return 1
