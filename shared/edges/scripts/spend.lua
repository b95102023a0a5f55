#!lua flags=allow-oom
-- Spends one request of a bot's budget, if there is one.
--
-- KEYS: times of the last requests (list, the newest first), load (hash: rate, ms)
-- ARGV: limit of the window, limit for this rank, window ms, seconds that the load is smoothed over,
--       how many requests are wanted since the last call, ttl ms
-- Answers: {ms to wait, 0 when it was granted; load in thousandths of the limit}
-- The window is exact: in no span of its length are there more requests than its limit. The load is
-- what is asked for, granted or not, so that it tells when delivery falls behind.
-- Sent twice: one request more is counted, which waits a little longer and harms nobody.
local limit, allowed, window = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local t = redis.call('TIME')
local now = tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)

local span = tonumber(ARGV[4]) * 1000
local known = redis.call('HMGET', KEYS[2], 'rate', 'ms')
local rate, at = tonumber(known[1] or '0'), tonumber(known[2] or now)
rate = rate * math.exp(-math.max(0, now - at) / span)
rate = rate + tonumber(ARGV[5]) * 1000 / span
redis.call('HSET', KEYS[2], 'rate', string.format('%.4f', rate), 'ms', now)
redis.call('PEXPIRE', KEYS[2], ARGV[6])
local load = math.floor(1000 * rate / limit)

local oldest = redis.call('LINDEX', KEYS[1], allowed - 1)
if oldest then
  local wait = tonumber(oldest) + window - now
  if wait > 0 then return {wait, load} end
end
redis.call('LPUSH', KEYS[1], now)
redis.call('LTRIM', KEYS[1], 0, limit - 1)
redis.call('PEXPIRE', KEYS[1], ARGV[6])
return {0, load}
