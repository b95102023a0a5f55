#!lua flags=allow-oom
-- Hands a running turn back to the head of its lane: a drain, no crash.
--
-- KEYS: turn record
-- ARGV: prefix, policy, turn id, claim
-- Answers: queued | cancelled | failed | dead (see `hand_back`) | fenced
-- Sent twice: the second is fenced, the turn is where it should be.
--@include common
--@include lanes
--@include running
if not is_current(ARGV[3], nil, ARGV[4]) then return 'fenced' end
local state = hand_back(ARGV[3], now_ms(), false)
wake()
return state
