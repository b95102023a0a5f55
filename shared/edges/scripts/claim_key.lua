#!lua flags=allow-oom
-- Chooses a key of a pool: the one that was used longest ago, of those that do not rest.
--
-- KEYS: pool (hash: `u:<id>` number of its last use, `r:<id>` until when it rests, `n` last number)
-- ARGV: ttl ms, number of ids that are to be passed over, those ids, then the ids of the pool
-- Answers: the id, and how many further ones do not rest; '' where every id is passed over. Where
--          all rest, the one whose rest ends first, and 0: its provider says best what is wrong
-- Sent twice: the second counts one more use.
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local first = 3 + tonumber(ARGV[2])
local over = {}
for i = 3, first - 1 do over[ARGV[i]] = true end
local best, oldest, free, waking, soonest = '', nil, 0, '', nil
for i = first, #ARGV do
  local id = ARGV[i]
  if not over[id] then
    local m = redis.call('HMGET', KEYS[1], 'u:' .. id, 'r:' .. id)
    local used, rests = tonumber(m[1] or '0'), tonumber(m[2] or '0')
    if rests <= now then
      free = free + 1
      if oldest == nil or used < oldest then best, oldest = id, used end
    elseif soonest == nil or rests < soonest then
      waking, soonest = id, rests
    end
  end
end
if best == '' then best, free = waking, 1 end
if best == '' then return {'', 0} end
redis.call('HSET', KEYS[1], 'u:' .. best, redis.call('HINCRBY', KEYS[1], 'n', 1))
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return {best, free - 1}
