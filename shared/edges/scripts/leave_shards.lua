#!lua flags=allow-oom
-- Gives up shards, with the sessions that the next gateway can resume.
--
-- KEYS: leases, gateways, sessions (hashes)
-- ARGV: gateway, number of shards, 1 it ends | 0 it stays, ttl ms of the sessions,
--       for each shard: shard, session and places ('' for none)
-- Answers: nothing
-- The last one that ends in order leaves no outage behind: the next takes at once what it
-- left.
-- A shard that another has meanwhile is left alone, with that one's session.
-- Sent twice: the second finds nothing of the gateway's.
local me, count = ARGV[1], ARGV[2]
if ARGV[3] == '1' then
  redis.call('HDEL', KEYS[2], count .. '|' .. me)
  local now, is_last = tonumber(redis.call('TIME')[1]) * 1000, true
  for _, row in ipairs(redis.call('HVALS', KEYS[2])) do
    local till = string.match(row, '|(%d+)$')
    if till and tonumber(till) >= now then is_last = false end
  end
  if is_last then redis.call('HDEL', KEYS[2], 'clock') end
end
for i = 5, #ARGV, 3 do
  local field = ARGV[i] .. '/' .. count
  local row = redis.call('HGET', KEYS[1], field)
  if row and string.match(row, '^%d+|([^|]*)|') == me then
    redis.call('HDEL', KEYS[1], field)
    redis.call('HDEL', KEYS[3], field, field .. '/places')
    if ARGV[i + 1] ~= '' then
      redis.call('HSET', KEYS[3], field, ARGV[i + 1], field .. '/places', ARGV[i + 2])
      redis.call('PEXPIRE', KEYS[3], ARGV[4])
    end
  end
end
