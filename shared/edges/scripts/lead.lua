#!lua flags=allow-oom
-- Takes, keeps or gives up the lease of a partition.
--
-- KEYS: lease, last leader
-- ARGV: owner, take | keep | leave, lease ms, ttl ms of the last leader, the run of the server that
--       refused this owner last ('' for one that was not refused, or has waited long enough)
-- Answers: a code and, for a take that got nothing, the run of the server.
--          1 it is the owner's; 0 another's, given up, or to be taken anew; -1 nobody's, but it is
--          another run of the server than the one that knew a leader, or one without any memory
-- Keeping renews what is held. After a lease that ended it is had again only if nobody else led
-- meanwhile: whoever did may be gone, and has left its work in the journal. A leader that had to
-- begin again for nothing would forget what it has shown, which a server that forgets needs; one
-- that forgot everything knows of no leader at all. For the same reason who stood by lets the leader
-- go first after the server was started anew.
-- A lease that is longer than any was taken before the server's clock was set back: it is pulled near,
-- or nobody would lead until the clock has caught up.
-- Sent twice: the second take renews, the second keep too, the second leave finds it given up.
local owner = redis.call('GET', KEYS[1])
local function refused(code)
  if ARGV[2] ~= 'take' then return { code, '' } end
  return { code, string.match(redis.call('INFO', 'server'), 'run_id:(%x+)') }
end
if owner and owner ~= ARGV[1] then
  if redis.call('PTTL', KEYS[1]) > tonumber(ARGV[3]) then redis.call('PEXPIRE', KEYS[1], ARGV[3]) end
  return refused(0)
end
if ARGV[2] == 'leave' then
  redis.call('DEL', KEYS[1])
  return { 0, '' }
end
local last = redis.call('GET', KEYS[2])
if not owner and ARGV[2] == 'keep' and last and last ~= ARGV[1] then return { 0, '' } end
if not owner and ARGV[2] == 'take' and ARGV[5] ~= '' and last ~= ARGV[1] then
  local answer = refused(-1)
  if not last or answer[2] ~= ARGV[5] then return answer end
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[3])
redis.call('SET', KEYS[2], ARGV[1], 'PX', ARGV[4])
return { 1, '' }
