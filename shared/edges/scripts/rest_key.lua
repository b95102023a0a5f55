#!lua flags=allow-oom
-- Leaves a key of a pool alone for a while. A rest is never made shorter.
--
-- KEYS: pool (see claim_key)
-- ARGV: ttl ms, id, rest ms
-- Answers: until when it rests, in milliseconds of the server's clock
-- Sent twice: the second rests as long, counted from later.
local t = redis.call('TIME')
local till = t[1] * 1000 + math.floor(t[2] / 1000) + tonumber(ARGV[3])
local known = tonumber(redis.call('HGET', KEYS[1], 'r:' .. ARGV[2]) or '0')
if known < till then redis.call('HSET', KEYS[1], 'r:' .. ARGV[2], string.format('%.0f', till)) end
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return string.format('%.0f', math.max(known, till))
