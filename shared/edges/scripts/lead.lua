#!lua flags=allow-oom
-- Takes, keeps or gives up the lease of a partition.
--
-- KEYS: lease
-- ARGV: owner, take | keep | leave, lease ms
-- Answers: 1 it is the owner's; 0 another's, given up, or to be taken anew
-- Keeping renews what is held and never takes: after a lease that ended, somebody else may have led
-- and gone meanwhile, so whoever had it must begin again.
-- Sent twice: the second take renews, the second keep too, the second leave finds it given up.
local owner = redis.call('GET', KEYS[1])
if owner and owner ~= ARGV[1] then return 0 end
if ARGV[2] == 'leave' then
  redis.call('DEL', KEYS[1])
  return 0
end
if not owner and ARGV[2] == 'keep' then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[3])
return 1
