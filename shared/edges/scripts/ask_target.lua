#!lua flags=allow-oom
-- Asks whether a request may be sent to a model: its breaker, and the budget of retries.
--
-- KEYS: traffic of the target (hash: `fails` in a row, the time of the last one that counted, `open`
--       until and by which `cause`, `probe` until, `window` number, `firsts` and `retries` in it)
-- ARGV: ttl ms, '1' for a retry, probe ms, window ms, percent of firsts, retries that are always free,
--       open ms
-- Answers: go, shut or spent, and the cause that shut it, '' for none
-- What lies further ahead than it can was noted before the server's clock was set back: it is over.
-- Sent twice: the second counts once more, or finds the probe taken, which ends by itself.
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local m = redis.call('HMGET', KEYS[1], 'open', 'probe', 'window', 'firsts', 'retries', 'cause')
local open, probe = tonumber(m[1] or '0'), tonumber(m[2] or '0')
local is_open = now < open and open <= now + tonumber(ARGV[7])
local is_tried = open > 0 and now < probe and probe <= now + tonumber(ARGV[3])
if is_open or is_tried then return {'shut', m[6] or ''} end
local window = string.format('%.0f', math.floor(now / tonumber(ARGV[4])))
local firsts, retries = tonumber(m[4] or '0'), tonumber(m[5] or '0')
if m[3] ~= window then
  firsts, retries = 0, 0
  redis.call('HSET', KEYS[1], 'window', window, 'firsts', '0', 'retries', '0')
end
if ARGV[2] == '1' then
  local most = math.max(tonumber(ARGV[6]), math.floor(firsts * tonumber(ARGV[5]) / 100))
  if retries >= most then return {'spent', ''} end
  redis.call('HINCRBY', KEYS[1], 'retries', 1)
else
  redis.call('HINCRBY', KEYS[1], 'firsts', 1)
end
if open > 0 then
  redis.call('HSET', KEYS[1], 'probe', string.format('%.0f', now + tonumber(ARGV[3])))
end
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return {'go', ''}
