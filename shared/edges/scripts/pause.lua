#!lua flags=allow-oom
-- Pauses the fleet, a guild, a key, a provider or a model, or ends its pause.
--
-- What runs goes on; what waits stays where it is and keeps its place.
--
-- KEYS: pauses
-- ARGV: prefix, policy, name (`fleet`, `guild:..`, `key:..`, `provider:..`, `model:..`, `rest:..`),
--       ms ('' until it is ended, '0' ends it now)
-- Answers: until when it is paused, in milliseconds of the server's clock, 'inf', or '' if it is not
-- Sent twice: the second pauses as long, counted from later; a pause is never made shorter but to
--             be ended.
--@include common
--@include lanes
local name = ARGV[3]
if ARGV[4] == '0' then
  resume(name)
  wake()
  return ''
end
local now = now_ms()
follow_clock(now)
local till = ARGV[4] == '' and 'inf' or string.format('%.0f', now + tonumber(ARGV[4]))
redis.call('ZADD', KEYS[1], 'GT', till, name)
local guild = string.match(name, '^guild:(.*)$')
if guild then
  for _, ring in pairs(RINGS) do redis.call('ZREM', ring, guild) end
end
return redis.call('ZSCORE', KEYS[1], name)
