#!lua flags=allow-oom
-- Acknowledges entries of a stream and removes them.
--
-- KEYS: stream
-- ARGV: group, then entry ids
-- Answers: how many were removed
-- Sent twice: the second removes none.
redis.call('XACK', KEYS[1], ARGV[1], unpack(ARGV, 2))
return redis.call('XDEL', KEYS[1], unpack(ARGV, 2))
