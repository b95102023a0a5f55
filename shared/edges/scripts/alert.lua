#!lua flags=allow-oom
-- Raises an alert, unless the same one was raised lately.
--
-- KEYS: mark of the alert (string), alerts (stream)
-- ARGV: quiet ms, most entries, alert (JSON)
-- Answers: 1 raised, 0 not again
-- Sent twice: the second finds the mark.
if not redis.call('SET', KEYS[1], '1', 'NX', 'PX', ARGV[1]) then return 0 end
redis.call('XADD', KEYS[2], 'MAXLEN', '~', ARGV[2], '*', 'v', ARGV[3])
return 1
