#!lua
-- Keeps the completed tool rounds of a turn: whoever takes it over goes on from there, and the
-- tools that ran are no reason any more to end it.
--
-- KEYS: turn record, rounds of the turn
-- ARGV: prefix, policy, turn id, attempt, claim, rounds (JSON)
-- Answers: 1, or 0 when the attempt is fenced
-- Sent twice: the same.
--@include common
--@include lanes
--@include running
if not is_current(ARGV[3], ARGV[4], ARGV[5]) then return 0 end
redis.call('SET', KEYS[2], ARGV[6], 'PX', POLICY.turn_ttl_ms)
redis.call('HSET', KEYS[1], 'tools', '0')
return 1
