#!lua flags=allow-oom
-- Writes a patch into the journal of a turn, for the gateway that leads its partition.
--
-- KEYS: journal, lease of the partition
-- ARGV: owner, ttl ms, head (JSON), number of slots to put, then slot and JSON of each,
--       then slots to drop
-- Answers: 1 written; 0 the lease is another's
-- Sent twice: the second writes the same.
if redis.call('GET', KEYS[2]) ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], 'head', ARGV[3])
local last = 4 + 2 * tonumber(ARGV[4])
for i = 5, last, 2 do redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1]) end
for i = last + 1, #ARGV do redis.call('HDEL', KEYS[1], ARGV[i]) end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1
