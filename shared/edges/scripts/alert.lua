#!lua flags=allow-oom
-- Raises an alert, unless the same one was raised lately.
--
-- KEYS: mark of the alert (string), alerts (stream)
-- ARGV: quiet ms, most entries, alert (JSON)
-- Answers: 1 raised, 0 not again
-- A mark that lives longer than it may was set before the server's clock was set back.
-- Sent twice: the second finds the mark.
local left = redis.call('PTTL', KEYS[1])
if left > 0 and left <= tonumber(ARGV[1]) then return 0 end
redis.call('SET', KEYS[1], '1', 'PX', ARGV[1])
redis.call('XADD', KEYS[2], 'MAXLEN', '~', ARGV[2], '*', 'v', ARGV[3])
return 1
