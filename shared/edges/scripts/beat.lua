#!lua flags=allow-oom
-- Renews the leases of a worker's turns.
--
-- KEYS: leases
-- ARGV: prefix, policy, then per turn: id, claim
-- Answers: a flat list; per turn that needs a look: id, lost | cancelled
-- Sent twice: the same.
--@include common
--@include lanes
--@include running
local ends = now_ms() + POLICY.lease_ms
local answer = {}
for i = 3, #ARGV, 2 do
  local tid = ARGV[i]
  local word = nil
  if not is_current(tid, nil, ARGV[i + 1]) then
    word = 'lost'
  else
    redis.call('ZADD', KEYS[1], 'XX', ends, tid)
    if redis.call('HGET', turn_key(tid), 'cancel') == '1' then word = 'cancelled' end
  end
  if word then
    answer[#answer + 1] = tid
    answer[#answer + 1] = word
  end
end
return answer
