#!lua flags=allow-oom
-- Stops a turn: at once while it waits, through its worker's control list while it runs.
--
-- KEYS: turn record
-- ARGV: prefix, policy, turn id, why (`withdrawn`: nothing is said of it; '' the usual)
-- Answers: cancelled | stopping | finished | unknown
-- Sent twice: a second stop of a running turn is one more entry of the list, which does no harm.
--@include common
--@include lanes
--@include running
local tid = ARGV[3]
local state = redis.call('HGET', KEYS[1], 'state')
if not state then return 'unknown' end
if state == 'running' then
  stop_running(tid, ARGV[4])
  return 'stopping'
end
if state ~= 'queued' then return 'finished' end
withdraw(tid, now_ms(), 'cancelled', ARGV[4] == '' and POLICY.cancelled or POLICY[ARGV[4]])
wake()
return 'cancelled'
