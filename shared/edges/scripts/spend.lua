#!lua flags=allow-oom
-- Spends requests of a bot's budget, as many as there are, in the order in which they are asked for.
--
-- KEYS: times of the last requests (list, the newest first), load (hash: rate, ms)
-- ARGV: limit of the window, window ms, seconds that the load is smoothed over, how many requests
--       are wanted since the last call, ttl ms, how many were refused since then and are made
--       again without being asked for, then for each request the limit for its rank, the best rank
--       first
-- Answers: {how many of them were granted, from the first on; ms that the next one waits, 0 for
--          none; load in thousandths of the limit}
-- The window is exact: in no span of its length are there more requests than its limit. The load is
-- what is asked for, granted or not, so that it tells when delivery falls behind.
-- Requests further ahead than a window were noted before the server's clock was set back: they go.
-- Sent twice: some requests more are counted, which waits a little longer and harms nobody.
local limit, window, ttl = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[5]
local t = redis.call('TIME')
local now = tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)

local span = tonumber(ARGV[3]) * 1000
local known = redis.call('HMGET', KEYS[2], 'rate', 'ms')
local rate, at = tonumber(known[1] or '0'), tonumber(known[2] or now)
rate = rate * math.exp(-math.max(0, now - at) / span)
rate = rate + tonumber(ARGV[4]) * 1000 / span
redis.call('HSET', KEYS[2], 'rate', string.format('%.4f', rate), 'ms', now)
redis.call('PEXPIRE', KEYS[2], ttl)
local load = math.floor(1000 * rate / limit)

local latest = redis.call('LINDEX', KEYS[1], 0)
while latest and tonumber(latest) > now + window do
  redis.call('LPOP', KEYS[1])
  latest = redis.call('LINDEX', KEYS[1], 0)
end

local repeated = math.min(limit, tonumber(ARGV[6]))
for _ = 1, repeated do redis.call('LPUSH', KEYS[1], now) end

local granted, wait = 0, 0
for i = 7, #ARGV do
  local oldest = redis.call('LINDEX', KEYS[1], tonumber(ARGV[i]) - 1)
  wait = oldest and math.max(0, tonumber(oldest) + window - now) or 0
  if wait > 0 then break end
  redis.call('LPUSH', KEYS[1], now)
  granted = granted + 1
end
if granted + repeated > 0 then
  redis.call('LTRIM', KEYS[1], 0, limit - 1)
  redis.call('PEXPIRE', KEYS[1], ttl)
end
return {granted, wait, load}
