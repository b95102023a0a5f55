-- Raises what accounts have spent to what they have at least, after the server lost some of it.
--
-- KEYS: accounts (hashes)
-- ARGV: 1 accounts' life in ms, from 2 on n, t, on, ot of each
-- Answers: how many had less.
--
-- Twice: nobody has less any more.

local raised = 0
for i = 1, #KEYS do
  local had_less = false
  for j, field in ipairs({'n', 't', 'on', 'ot'}) do
    local due = ARGV[1 + 4 * (i - 1) + j]
    if tonumber(redis.call('HGET', KEYS[i], field) or '0') < tonumber(due) then
      redis.call('HSET', KEYS[i], field, due)
      had_less = true
    end
  end
  if had_less then
    redis.call('PEXPIRE', KEYS[i], ARGV[1])
    raised = raised + 1
  end
end
return raised
