#!lua flags=no-writes
-- Where a turn stands in the queue, as far as a person wants to know.
--
-- KEYS: turn record
-- ARGV: prefix, policy, turn id
-- Answers: state ('' unknown), turns ahead, why it waits: lane | key | paused | guild | fleet |
--          later | crash
-- Sent twice: the same.
-- In its lane the number is exact. Among guilds it is what a round robin would do: each guild of
-- the ring starts one before the next of this guild.
--@include common
--@include lanes
local tid = ARGV[3]
local m = redis.call('HMGET', KEYS[1], 'state', 'guild', 'lane', 'low', 'held')
if m[1] ~= 'queued' then return { m[1] or '', 0, '' } end
local guild, lane, s = m[2], m[3], suffix(m[4])
if m[5] and m[5] ~= '' then return { 'queued', 0, m[5] } end
local ahead = redis.call('LPOS', lane_key(lane, s), tid) or 0
if is_running(lane) then ahead = ahead + 1 end
if ahead > 0 then return { 'queued', ahead, 'lane' } end
if is_paused('fleet') or is_paused('guild:' .. guild) then return { 'queued', 0, 'paused' } end
local parking = redis.call('HGET', PARKED, lane .. s)
if parking then
  local name = string.match(parking, '^[^|]*|(.*)$')
  local is_rest = string.sub(name, 1, 1) ~= '=' or string.sub(name, 1, 6) == '=rest:'
  return { 'queued', 0, is_rest and 'key' or 'paused' }
end
local nth = redis.call('LPOS', guild_key(guild, s), lane) or 0
if count(RUN_GUILD, guild) >= POLICY.guild_running then return { 'queued', nth, 'guild' } end
local rank = redis.call('ZRANK', RINGS[s], guild) or 0
ahead = nth * math.max(1, redis.call('ZCARD', RINGS[s])) + rank
return { 'queued', math.min(ahead, math.max(0, redis.call('ZCARD', WAITING) - 1)), 'fleet' }
