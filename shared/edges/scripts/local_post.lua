-- Puts a message into a local channel, once per nonce; a person's message also goes to the gateway.
-- KEYS: messages (hash), changes (stream), clock (string), nonce (string), typing (string),
--       prompts (stream)
-- ARGV: body (JSON), is_prompt (1 or 0), ttl_ms, nonce_ttl_ms, changes_max, channel_id
-- Answers: {id, 1} posted; {id, 0} this nonce was posted before; {'0', -1} it was, and deleted since.
-- Ids are microseconds since 2015, raised where two fall together: below 2^53, so Lua counts exactly.
local known = redis.call('GET', KEYS[4])
if known then
  if redis.call('HEXISTS', KEYS[1], known) == 1 then
    return {known, 0}
  end
  return {'0', -1}
end
local now = redis.call('TIME')
local id = (tonumber(now[1]) - 1420070400) * 1000000 + tonumber(now[2])
local last = tonumber(redis.call('GET', KEYS[3]) or '0')
if id <= last then
  id = last + 1
end
local name = string.format('%.0f', id)
redis.call('SET', KEYS[3], name, 'PX', ARGV[3])
redis.call('SET', KEYS[4], name, 'PX', ARGV[4])
redis.call('HSET', KEYS[1], name, ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
redis.call('XADD', KEYS[2], 'MAXLEN', '~', ARGV[5], '*', 'kind', 'posted', 'id', name, 'body', ARGV[1])
redis.call('PEXPIRE', KEYS[2], ARGV[3])
if ARGV[2] == '1' then
  redis.call('XADD', KEYS[6], '*', 'channel', ARGV[6], 'id', name, 'body', ARGV[1])
  redis.call('PEXPIRE', KEYS[6], ARGV[3])
else
  redis.call('DEL', KEYS[5])
end
return {name, 1}
