#!lua
-- Appends one segment of the current attempt to the turn's out stream. The hot path: no policy.
--
-- KEYS: turn record, leases (the out stream's name stands in the record)
-- ARGV: turn id, attempt, claim, seq, event (JSON), lease ms, most entries of the stream
-- Answers: ok | duplicate | fenced | gap | backpressure; renews the lease with ok and duplicate
-- Sent twice: the second finds its seq taken and answers duplicate.
local tid, seq = ARGV[1], tonumber(ARGV[4])
local m = redis.call('HMGET', KEYS[1], 'state', 'attempt', 'claim', 'seq', 'route', 'out')
if m[1] ~= 'running' or m[2] ~= ARGV[2] or m[3] ~= ARGV[3] then return 'fenced' end
local known = tonumber(m[4])
if seq > known + 1 then return 'gap' end
local t = redis.call('TIME')
redis.call('ZADD', KEYS[2], 'XX', t[1] * 1000 + math.floor(t[2] / 1000) + ARGV[6], tid)
if seq <= known then return 'duplicate' end
if redis.call('XLEN', m[6]) >= tonumber(ARGV[7]) then return 'backpressure' end
redis.call('XADD', m[6], '*', 'turn', tid, 'attempt', ARGV[2], 'claim', ARGV[3], 'seq', ARGV[4],
  'route', m[5], 'data', ARGV[5])
redis.call('HSET', KEYS[1], 'seq', ARGV[4], 'shown', '1')
return 'ok'
