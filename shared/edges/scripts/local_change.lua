-- Edits or deletes a message of a local channel.
-- KEYS: messages (hash), changes (stream)
-- ARGV: kind ('edited' or 'deleted'), id, body (JSON, empty for a deletion), ttl_ms, changes_max
-- Answers: 1 done; 0 there is no such message.
if redis.call('HEXISTS', KEYS[1], ARGV[2]) == 0 then
  return 0
end
if ARGV[1] == 'edited' then
  redis.call('HSET', KEYS[1], ARGV[2], ARGV[3])
else
  redis.call('HDEL', KEYS[1], ARGV[2])
end
redis.call('XADD', KEYS[2], 'MAXLEN', '~', ARGV[5], '*', 'kind', ARGV[1], 'id', ARGV[2], 'body', ARGV[3])
redis.call('PEXPIRE', KEYS[2], ARGV[4])
return 1
