-- Keeps a message of a channel, and no more than so many.
--
-- KEYS: 1 the channel's messages (hash by id)
-- ARGV: 1 id, 2 message, 3 most messages, 4 life in ms
-- Answers: nothing
--
-- Twice: the message is there once. Ids are compared as texts: Lua's numbers are too small for them.

redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
redis.call('PEXPIRE', KEYS[1], ARGV[4])
local over = redis.call('HLEN', KEYS[1]) - tonumber(ARGV[3])
if over > 0 then
  local ids = redis.call('HKEYS', KEYS[1])
  table.sort(ids, function(a, b)
    if #a ~= #b then return #a < #b end
    return a < b
  end)
  for i = 1, over do redis.call('HDEL', KEYS[1], ids[i]) end
end
return 1
