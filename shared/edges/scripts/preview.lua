#!lua
-- Appends what a reader may see of a segment that is not whole yet. It counts as no segment.
--
-- KEYS: turn record (the out stream's name stands in it)
-- ARGV: turn id, attempt, claim, segments before it, event (JSON), most entries of the stream
-- Answers: ok | fenced | gap (another number of segments was accepted) | backpressure
-- Sent twice: the second shows the same text once more. A copy that arrives after the segment finds
--             another number of them.
local m = redis.call('HMGET', KEYS[1], 'state', 'attempt', 'claim', 'seq', 'route', 'out')
if m[1] ~= 'running' or m[2] ~= ARGV[2] or m[3] ~= ARGV[3] then return 'fenced' end
if m[4] ~= ARGV[4] then return 'gap' end
if redis.call('XLEN', m[6]) >= tonumber(ARGV[6]) then return 'backpressure' end
redis.call('XADD', m[6], '*', 'turn', ARGV[1], 'attempt', ARGV[2], 'claim', ARGV[3], 'seq', m[4],
  'route', m[5], 'data', ARGV[5])
redis.call('HSET', KEYS[1], 'shown', '1')
return 'ok'
