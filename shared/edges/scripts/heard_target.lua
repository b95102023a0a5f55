#!lua flags=allow-oom
-- Notes how an attempt at a model ended: failures in a row open its breaker, an answer closes it.
--
-- KEYS: traffic of the target (see ask_target)
-- ARGV: ttl ms, the failure's cause ('' for an answer), failures in a row that open it, open ms,
--       ms between failures that count
-- Answers: closed, counted, opened
-- Sent twice: a failure counts twice; an answer the same.
if ARGV[2] == '' then
  redis.call('HDEL', KEYS[1], 'fails', 'counted', 'open', 'probe', 'cause')
  return 'closed'
end
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local m = redis.call('HMGET', KEYS[1], 'counted', 'open')
-- A breaker that is open for a probe is shut by the probe's failure, however soon it fails.
if not m[2] and math.abs(now - tonumber(m[1] or '0')) < tonumber(ARGV[5]) then return 'counted' end
local fails = redis.call('HINCRBY', KEYS[1], 'fails', 1)
redis.call('HSET', KEYS[1], 'counted', string.format('%.0f', now))
redis.call('PEXPIRE', KEYS[1], ARGV[1])
if fails < tonumber(ARGV[3]) then return 'counted' end
redis.call('HSET', KEYS[1], 'cause', ARGV[2], 'open', string.format('%.0f', now + tonumber(ARGV[4])))
redis.call('HDEL', KEYS[1], 'probe')
return 'opened'
