#!lua flags=allow-oom
-- Replaces the request of a turn that waits, or runs.
--
-- KEYS: turn record
-- ARGV: the request as it was read, the new one, '1' if it may run: who asks once more asks so
-- Answers: 1 it is replaced; 0 it is running or gone, or another request stands there
-- Sent twice: the second finds the new one and answers 0.
local m = redis.call('HMGET', KEYS[1], 'state', 'request')
local may = m[1] == 'queued' or (ARGV[3] == '1' and m[1] == 'running')
if not may or m[2] ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], 'request', ARGV[2])
return 1
