#!lua flags=allow-oom
-- Takes, renews or gives up the lease of a partition.
--
-- KEYS: lease
-- ARGV: owner, lease ms (0 gives it up)
-- Answers: 1 it is the owner's; 0 another's, or given up
-- Sent twice: the second renews, or finds it given up.
local owner = redis.call('GET', KEYS[1])
if ARGV[2] == '0' then
  if owner == ARGV[1] then redis.call('DEL', KEYS[1]) end
  return 0
end
if owner and owner ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
