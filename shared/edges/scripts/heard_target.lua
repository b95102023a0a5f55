#!lua flags=allow-oom
-- Notes how an attempt at a model ended: failures in a row open its breaker, an answer closes it.
--
-- KEYS: traffic of the target (see ask_target)
-- ARGV: ttl ms, '1' for an answer, failures in a row that open it, open ms
-- Answers: closed, counted, opened
-- Sent twice: a failure counts twice; an answer the same.
if ARGV[2] == '1' then
  redis.call('HDEL', KEYS[1], 'fails', 'open', 'probe')
  return 'closed'
end
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local fails = redis.call('HINCRBY', KEYS[1], 'fails', 1)
redis.call('PEXPIRE', KEYS[1], ARGV[1])
if fails < tonumber(ARGV[3]) then return 'counted' end
redis.call('HSET', KEYS[1], 'open', string.format('%.0f', now + tonumber(ARGV[4])))
redis.call('HDEL', KEYS[1], 'probe')
return 'opened'
