-- Keeps a message of a channel, and no more than so many.
--
-- KEYS: 1 the channel's messages (hash by id; `with_bot` is there where the bot is spoken with)
-- ARGV: 1 id, 2 message, 3 most messages, 4 life in ms, 5 most messages where the bot is not spoken
--       with, 6 life in ms there, 7 whether this message is to the bot or its own (1 or 0)
-- Answers: nothing
--
-- Twice: the message is there once. Ids are compared as texts: Lua's numbers are too small for them.

if ARGV[7] == '1' then redis.call('HSET', KEYS[1], 'with_bot', '1') end
local is_ours = redis.call('HEXISTS', KEYS[1], 'with_bot') == 1
local most = tonumber(is_ours and ARGV[3] or ARGV[5])
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
redis.call('PEXPIRE', KEYS[1], is_ours and ARGV[4] or ARGV[6])
local over = redis.call('HLEN', KEYS[1]) - (is_ours and 1 or 0) - most
if over > 0 then
  local ids = {}
  for _, id in ipairs(redis.call('HKEYS', KEYS[1])) do
    if id ~= 'with_bot' then ids[#ids + 1] = id end
  end
  table.sort(ids, function(a, b)
    if #a ~= #b then return #a < #b end
    return a < b
  end)
  for i = 1, over do redis.call('HDEL', KEYS[1], ids[i]) end
end
return 1
