#!lua flags=allow-oom
-- Ends a running turn with its one terminal event.
--
-- KEYS: turn record
-- ARGV: prefix, policy, turn id, attempt, claim, state, event (JSON), outcome (JSON),
--       segments the event counts ('' takes what the server accepted), tokens ('' if unknown)
-- Answers: ok | fenced | gap (the server knows another number of segments)
-- Sent twice: the second finds the turn ended by its own attempt and answers ok.
--@include common
--@include lanes
--@include running
local tid, attempt, claim, state = ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local m = redis.call('HMGET', KEYS[1], 'state', 'attempt', 'claim', 'seq')
if m[1] == state and m[2] == attempt and m[3] == claim then return 'ok' end
if m[1] ~= 'running' or m[2] ~= attempt or m[3] ~= claim then return 'fenced' end
if ARGV[9] ~= '' and ARGV[9] ~= m[4] then return 'gap' end
local now = now_ms()
free(tid, now, nil, tonumber(ARGV[10]))
settle(tid, now, state, ARGV[7], ARGV[8])
wake()
return 'ok'
