#!lua flags=allow-oom
-- Writes a patch into the journal of a turn, for the gateway that leads its partition.
--
-- KEYS: journal, lease of the partition, its last leader, its ended replies that still have
--       buttons, its out stream
-- ARGV: owner, ttl ms, the head that was written last (JSON, '' for none, '*' replaces everything,
--       '*' and the bytes of a head that nobody can read replaces it with all that is there),
--       head (JSON), turn id, what it ends with of buttons (JSON, '' for none), number of slots to
--       put, number of slots to drop, then slot and JSON of each to put, slots to drop, and entries
--       of the stream that this acknowledges: they are shown, and the journal says so
-- Answers: done; fenced: the lease is another's; forgotten: another head was written last, because
--          the server lost its last moments, and slots with them
-- Sent twice: the second finds its own head and writes the same. A copy that arrives after a later
--             patch finds another head, or where it replaces everything a later number of its writes.
-- A lease that ended and that nobody else took since is as good as held.
local owner = redis.call('GET', KEYS[2]) or redis.call('GET', KEYS[3])
if owner ~= ARGV[1] then return 'fenced' end
local known = redis.call('HGET', KEYS[1], 'head') or ''
local function writes(head)
  local is_json, value = pcall(cjson.decode, head)
  return is_json and type(value) == 'table' and tonumber(value.writes) or 0
end
if ARGV[3]:sub(1, 1) == '*' then
  local unreadable = ARGV[3]:sub(2)
  if unreadable == '' then
    if writes(known) > writes(ARGV[4]) then return 'forgotten' end
  elseif known ~= unreadable and known ~= ARGV[4] then return 'forgotten' end
  redis.call('DEL', KEYS[1])
else
  if known ~= ARGV[3] and known ~= ARGV[4] then return 'forgotten' end
end
redis.call('HSET', KEYS[1], 'head', ARGV[4])
if ARGV[6] ~= '' then
  redis.call('HSET', KEYS[4], ARGV[5], ARGV[6])
  redis.call('PEXPIRE', KEYS[4], ARGV[2])
end
local last = 8 + 2 * tonumber(ARGV[7])
for i = 9, last, 2 do redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1]) end
local dropped = last + tonumber(ARGV[8])
for i = last + 1, dropped do redis.call('HDEL', KEYS[1], ARGV[i]) end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
for i = dropped + 1, #ARGV do redis.call('XDEL', KEYS[5], ARGV[i]) end
return 'done'
