-- Adds an attempt to what was spent, once.
--
-- KEYS: 1 mark of the attempt, from 2 on accounts (hashes)
-- ARGV: 1 mark's life in ms, 2 accounts' life in ms, 3 field of money, 4 field of tokens,
--       5 billionths of money, 6 tokens
-- Answers: for each account: whether it was added now (0 or 1), then n, t, on, ot as they are now.
--
-- Twice: the mark is there, nothing is added, the answer says 0.

local is_new = redis.call('SET', KEYS[1], '1', 'NX', 'PX', ARGV[1]) and 1 or 0
local answer = {}
for i = 2, #KEYS do
  if is_new == 1 then
    redis.call('HINCRBY', KEYS[i], ARGV[3], ARGV[5])
    redis.call('HINCRBY', KEYS[i], ARGV[4], ARGV[6])
    redis.call('PEXPIRE', KEYS[i], ARGV[2])
  end
  answer[#answer + 1] = is_new
  for _, value in ipairs(redis.call('HMGET', KEYS[i], 'n', 't', 'on', 'ot')) do
    answer[#answer + 1] = value or '0'
  end
end
return answer
