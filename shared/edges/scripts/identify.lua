#!lua flags=allow-oom
-- Lets the owner of a shard begin a session, one at a time for all shards of a bucket.
--
-- KEYS: leases (hash), the bucket's last start (string)
-- ARGV: gateway, shard, number of shards, ms between two starts
-- Answers: 0 it may; ms to wait; -1 the shard is not its own
-- A start that lies further back than it can wait for was noted before the server's clock was set back.
-- Sent twice: the second waits as if another had begun; a session begins later, never twice.
local row = redis.call('HGET', KEYS[1], ARGV[2] .. '/' .. ARGV[3])
if not row or string.match(row, '^%d+|([^|]*)|') ~= ARGV[1] then return -1 end
if redis.call('SET', KEYS[2], ARGV[1], 'NX', 'PX', ARGV[4]) then return 0 end
local wait = redis.call('PTTL', KEYS[2])
if wait > tonumber(ARGV[4]) then
  redis.call('SET', KEYS[2], ARGV[1], 'PX', ARGV[4])
  return 0
end
return math.max(1, wait)
