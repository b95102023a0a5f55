-- What the scripts share. Included by a line `--@include common`; never sent alone.
--
-- ARGV[1] is the key prefix of the cell and ARGV[2] the policy (JSON of `shared.edges.queue.Policy`)
-- in every script that includes this. Ids stay strings: a snowflake does not fit a Lua number.
-- The clock is the server's own.
local PREFIX = ARGV[1]
local POLICY = cjson.decode(ARGV[2])
local DEPTH, TOTALS = PREFIX .. 'depth', PREFIX .. 'totals'
local LEASES, WAITING, DELAY = PREFIX .. 'lease', PREFIX .. 'waiting', PREFIX .. 'delay'
local RUN_GUILD, RUN_KEY, RUN_LANE = PREFIX .. 'run.guild', PREFIX .. 'run.key', PREFIX .. 'run.lane'
local MAX_TRIMMED = 10 -- failed turns dropped per ending turn: the index shrinks, the script stays short

local function now_ms()
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end

local function turn_key(tid) return PREFIX .. 't:' .. tid end

local function count(hash, field) return tonumber(redis.call('HGET', hash, field) or '0') end

local function add(hash, field, by)
  if redis.call('HINCRBY', hash, field, by) <= 0 then redis.call('HDEL', hash, field) end
end

-- One line of the turn's timeline.
local function note(tid, now, word, attempt, who)
  local key = PREFIX .. 'log:' .. tid
  redis.call('RPUSH', key, string.format('%.0f %s %s %s', now, word, attempt, who))
  redis.call('PEXPIRE', key, POLICY.turn_ttl_ms)
end

-- One turn less in the cell.
local function leave_depth(guild)
  add(DEPTH, guild, -1)
  add(TOTALS, 'depth', -1)
end

-- Appends one entry to the turn's out stream: `shared.segments.Envelope`, as text fields.
local function emit(tid, attempt, claim, seq, data)
  local m = redis.call('HMGET', turn_key(tid), 'out', 'route')
  redis.call('XADD', m[1], '*', 'turn', tid, 'attempt', attempt, 'claim', claim, 'seq', seq,
    'route', m[2], 'data', data)
end

-- Drops what is too old or too much from the index of failed turns.
local function trim_failed(now)
  local failed = PREFIX .. 'failed'
  redis.call('ZREMRANGEBYSCORE', failed, '-inf', now - POLICY.failed_ttl_ms)
  local excess = redis.call('ZCARD', failed) - POLICY.failed_max
  if excess <= 0 then return end
  for _, old in ipairs(redis.call('ZRANGE', failed, 0, math.min(excess, MAX_TRIMMED) - 1)) do
    local attempts = count(turn_key(old), 'attempt')
    for attempt = 1, attempts do redis.call('DEL', PREFIX .. 'rec:' .. old .. ':' .. attempt) end
    redis.call('DEL', turn_key(old), PREFIX .. 'log:' .. old)
    redis.call('ZREM', failed, old)
  end
end

-- Ends a turn: its one terminal event, its record's rest of life, the index of failed turns.
-- `@count@` in `event` stands for the segments that were accepted.
local function settle(tid, now, state, event, outcome)
  local key = turn_key(tid)
  local m = redis.call('HMGET', key, 'attempt', 'claim', 'seq', 'guild', 'worker')
  local seq = tonumber(m[3])
  event = string.gsub(event, '@count@', string.format('%d', seq))
  emit(tid, m[1], m[2], seq + 1, event)
  redis.call('HSET', key, 'state', state, 'event', event, 'outcome', outcome, 'finished', now)
  redis.call('ZREM', WAITING, tid)
  leave_depth(m[4])
  note(tid, now, state, m[1], m[5])
  local ttl = POLICY.done_ttl_ms
  if state == 'failed' or state == 'dead' then
    ttl = POLICY.failed_ttl_ms
    redis.call('ZADD', PREFIX .. 'failed', now, tid)
    trim_failed(now)
  else
    redis.call('HDEL', key, 'request')
  end
  redis.call('PEXPIRE', key, ttl)
  redis.call('PEXPIRE', PREFIX .. 'log:' .. tid, ttl)
  redis.call('DEL', PREFIX .. 'rounds:' .. tid)
  redis.call('DEL', 'arq:job:' .. tid, 'arq:retry:' .. tid, 'arq:in-progress:' .. tid)
end
