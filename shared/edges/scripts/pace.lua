-- Whether a person may have one more turn.
--
-- KEYS: 1 the person's turns (hash of turn id to ms; `last` is when the latest one came)
-- ARGV: 1 prefix, 2 turn id, 3 turns at once (0: any number), 4 ms between two (0: none),
--       5 life of the hash in ms
-- Answers: taken, too_soon, too_many
--
-- Twice: a turn that is in the hash is taken. Turns that are over are found by their records, so
-- that nobody must count down: a crash leaves no one locked out. Nor does a server whose clock is set
-- back: times that lie ahead of it say nothing.

if redis.call('HEXISTS', KEYS[1], ARGV[2]) == 1 then return 'taken' end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local last = tonumber(redis.call('HGET', KEYS[1], 'last') or '0')
if last <= now and now - last < tonumber(ARGV[4]) then return 'too_soon' end

local alive = 0
local all = redis.call('HGETALL', KEYS[1])
for i = 1, #all, 2 do
  if all[i] ~= 'last' then
    local state = redis.call('HGET', ARGV[1] .. 't:' .. all[i], 'state')
    -- The record of a turn that was taken a moment ago may not be written yet.
    local is_new = not state and math.abs(now - tonumber(all[i + 1])) < 5000
    if state == 'queued' or state == 'running' or is_new then
      alive = alive + 1
    else
      redis.call('HDEL', KEYS[1], all[i])
    end
  end
end
if tonumber(ARGV[3]) > 0 and alive >= tonumber(ARGV[3]) then return 'too_many' end
redis.call('HSET', KEYS[1], ARGV[2], now, 'last', now)
redis.call('PEXPIRE', KEYS[1], ARGV[5])
return 'taken'
