#!lua
-- Admits a turn: its record, its place in its lane, a wake token. Once per turn id.
--
-- KEYS: turn record, mark of the turn id, arq job
-- ARGV: prefix, policy, turn id, guild (fairness key), lane, provider key, out stream,
--       nonce of this call, request (JSON), route (JSON), facts (JSON), arq job (msgpack)
-- Answers: accepted | duplicate | guild_full | full
-- Sent twice: the nonce in the mark tells a repeated call from a second admission.
--@include common
local tid, guild, lane, nonce = ARGV[3], ARGV[4], ARGV[5], ARGV[8]
local mark = redis.call('GET', KEYS[2])
if mark then return mark == nonce and 'accepted' or 'duplicate' end
if count(DEPTH, guild) >= POLICY.guild_depth then return 'guild_full' end
if count(TOTALS, 'depth') >= POLICY.global_depth then return 'full' end

local now = now_ms()
redis.call('SET', KEYS[2], nonce, 'PX', POLICY.mark_ttl_ms)
redis.call('SET', KEYS[3], ARGV[12], 'PX', POLICY.turn_ttl_ms)
redis.call('HSET', KEYS[1], 'guild', guild, 'lane', lane, 'key', ARGV[6], 'out', ARGV[7],
  'request', ARGV[9], 'route', ARGV[10], 'facts', ARGV[11], 'state', 'queued', 'attempt', '0',
  'claim', '', 'seq', '0', 'shown', '0', 'tools', '0', 'crashes', '0', 'cancel', '0', 'worker', '-',
  'enqueued', now, 'deadline', now + POLICY.wait_ms)
redis.call('PEXPIRE', KEYS[1], POLICY.turn_ttl_ms)
redis.call('HINCRBY', DEPTH, guild, 1)
redis.call('HINCRBY', TOTALS, 'depth', 1)
note(tid, now, 'admitted', '0', '-')
if redis.call('RPUSH', lane_key(lane), tid) == 1 and redis.call('HEXISTS', RUN_LANE, lane) == 0 then
  redis.call('RPUSH', guild_key(guild), lane)
  enter(guild)
  wake()
end
return 'accepted'
