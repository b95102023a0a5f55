#!lua flags=allow-oom
-- Compares the queue's counters and lists with its turns, and puts them right on demand.
--
-- KEYS: depth
-- ARGV: prefix, policy, '1' to repair, then what a look at all keys found: L and the name of a
--       queue, G and the name of a guild's list, T and the id of a turn that has not ended
-- Answers: a flat list of findings: what, of whom, is, should be
-- Sent twice: the second repair finds nothing.
-- The truth are the records, the leases, the delays and the queues of lanes; all else follows.
--@include common
--@include lanes
local now, repairs = now_ms(), ARGV[3] == '1'
local found = {}

local function say(what, whom, is, should)
  for _, word in ipairs({ what, whom, tostring(is), tostring(should) }) do found[#found + 1] = word end
end

local function pairs_of(key)
  local flat, map = redis.call('HGETALL', key), {}
  for i = 1, #flat, 2 do map[flat[i]] = flat[i + 1] end
  return map
end

local function split(queue)
  if string.sub(queue, -1) == LOW then return string.sub(queue, 1, -2), LOW end
  return queue, ''
end

-- What there is to look at: the names that were given, and those that the lists themselves know.
local queues, lists, turns = {}, {}, {}
for i = 4, #ARGV do
  local kind, name = string.sub(ARGV[i], 1, 1), string.sub(ARGV[i], 2)
  local set = ({ L = queues, G = lists, T = turns })[kind]
  set[name] = true
end
for guild in pairs(pairs_of(DEPTH)) do lists[guild], lists[guild .. LOW] = true, true end
for list in pairs(lists) do
  local _, s = split(list)
  for _, lane in ipairs(redis.call('LRANGE', PREFIX .. 'guild:' .. list, 0, -1)) do queues[lane .. s] = true end
end
for queue in pairs(pairs_of(PARKED)) do queues[queue] = true end
for lane in pairs(pairs_of(RUN_LANE)) do queues[lane], queues[lane .. LOW] = true, true end

local depth, guilds, keys, locks, waits = {}, {}, {}, {}, {}
local function more(map, name) map[name] = (map[name] or 0) + 1 end

local function facts(tid) return redis.call('HMGET', turn_key(tid), 'state', 'guild', 'lane', 'key', 'held', 'deadline') end

local function runs(tid, m)
  more(depth, m[2]); more(guilds, m[2]); more(keys, m[4])
  locks[m[3]] = tid
end

local leased = {}
for _, tid in ipairs(redis.call('ZRANGE', LEASES, 0, -1)) do
  local m = facts(tid)
  if m[1] == 'running' then
    runs(tid, m)
    leased[tid] = true
  else
    say('lease of no running turn', tid, m[1] or 'no record', 'running')
    if repairs then redis.call('ZREM', LEASES, tid) end
  end
end
local function holds(tid, m)
  more(depth, m[2])
  waits[tid] = tonumber(m[6])
end
for _, tid in ipairs(redis.call('ZRANGE', DELAY, 0, -1)) do
  local m = facts(tid)
  if m[1] == 'queued' and m[5] ~= '' then
    holds(tid, m)
    if m[5] == 'crash' then locks[m[3]] = tid end
  else
    say('delay of no waiting turn', tid, m[1] or 'no record', 'queued')
    if repairs then redis.call('ZREM', DELAY, tid) end
  end
end
for queue in pairs(queues) do
  for _, tid in ipairs(redis.call('LRANGE', PREFIX .. 'lane:' .. queue, 0, -1)) do
    local m = facts(tid)
    if m[1] == 'queued' and not waits[tid] then
      holds(tid, m)
    else
      say('queued in ' .. queue, tid, m[1] or 'no record', 'queued once')
      if repairs then redis.call('LREM', PREFIX .. 'lane:' .. queue, -1, tid) end
    end
  end
end
for tid in pairs(turns) do
  local m = redis.call('HMGET', turn_key(tid), 'state', 'guild', 'lane', 'key', 'low', 'deadline')
  if m[1] == 'queued' and not waits[tid] then
    say('waits nowhere', tid, '', m[3])
    if repairs then
      redis.call('HSET', turn_key(tid), 'held', '')
      redis.call('RPUSH', lane_key(m[3], suffix(m[5])), tid)
      holds(tid, m)
      queues[m[3] .. suffix(m[5])], lists[m[2] .. suffix(m[5])] = true, true
    end
  elseif m[1] == 'running' and not leased[tid] then
    say('runs without a lease', tid, '', 'a lease')
    if repairs then
      redis.call('ZADD', LEASES, now, tid) -- the next reaper takes it back
      runs(tid, m)
    end
  end
end

local function compare(what, key, should)
  local is = pairs_of(key)
  for name, value in pairs(should) do
    if is[name] ~= tostring(value) then
      say(what, name, is[name] or 'nothing', value)
      if repairs then redis.call('HSET', key, name, value) end
    end
  end
  for name, value in pairs(is) do
    if not should[name] then
      say(what, name, value, 'nothing')
      if repairs then redis.call('HDEL', key, name) end
    end
  end
end
compare('turns of a guild', DEPTH, depth)
compare('running turns of a guild', RUN_GUILD, guilds)
compare('running turns of a key', RUN_KEY, keys)
compare('running turn of a lane', RUN_LANE, locks)
local all = 0
for _, n in pairs(depth) do all = all + n end
if count(TOTALS, 'depth') ~= all then
  say('turns of the cell', '', count(TOTALS, 'depth'), all)
  if repairs then redis.call('HSET', TOTALS, 'depth', all) end
end
for tid, deadline in pairs(waits) do
  if not redis.call('ZSCORE', WAITING, tid) then
    say('deadline of a waiting turn', tid, 'nothing', string.format('%.0f', deadline))
    if repairs then redis.call('ZADD', WAITING, deadline, tid) end
  end
end
for _, tid in ipairs(redis.call('ZRANGE', WAITING, 0, -1)) do
  if not waits[tid] then
    say('deadline of a turn that does not wait', tid, redis.call('ZSCORE', WAITING, tid), 'nothing')
    if repairs then redis.call('ZREM', WAITING, tid) end
  end
end

-- Each queue in one place, as `lanes` says. One walk over the lists: they may be thousands.
local listed, parked = {}, {}
for list in pairs(lists) do
  local _, s = split(list)
  for _, lane in ipairs(redis.call('LRANGE', PREFIX .. 'guild:' .. list, 0, -1)) do
    more(listed, lane .. s)
  end
end
for _, entry in pairs(pairs_of(PARKED)) do
  local name = string.match(entry, '^[^|]*|(.*)$')
  if not parked[name] then
    parked[name] = {}
    for _, one in ipairs(redis.call('LRANGE', parked_key(name), 0, -1)) do parked[name][one] = true end
  end
end
for queue in pairs(queues) do
  local lane, s = split(queue)
  local head = redis.call('LINDEX', lane_key(lane, s), 0)
  local guild = head and redis.call('HGET', turn_key(head), 'guild')
  local places, parking = listed[queue] or 0, redis.call('HGET', PARKED, queue)
  if parking then
    local owner, name = string.match(parking, '^([^|]*)|(.*)$')
    if parked[name][owner .. '|' .. queue] then places = places + 1 end
  end
  local should = head and not locks[lane] and 1 or 0
  local is_late = should == 1 and (waits[head] or 0) <= now -- the next reaper ends it
  local is_right = places == should or (is_late and places == 0)
  local is_wrong_park = parking and places > 0 and not head
  if locks[lane] and parking then is_right = places <= 1 end
  if not is_right or is_wrong_park then
    say('places of a queue', queue, places, should)
    if repairs then
      leave_parking(lane, s)
      redis.call('HDEL', PARKED, queue)
      for list in pairs(lists) do
        local owner, kind = split(list)
        if kind == s then retract(owner, lane, s) end
      end
      if guild then offer(guild, lane, s) end
    end
  end
end

-- A guild is in a ring while one of its lanes could start.
for list in pairs(lists) do
  local guild, s = split(list)
  local can = redis.call('LLEN', guild_key(guild, s)) > 0 and not is_paused('guild:' .. guild)
    and (guilds[guild] or 0) < POLICY.guild_running
  local is = redis.call('ZSCORE', RINGS[s], guild) and true or false
  if can and not is then
    say('place in the ring', list, 'nothing', 'a place')
    if repairs then enter(guild, s) end
  elseif is and redis.call('LLEN', guild_key(guild, s)) == 0 then
    say('place in the ring', list, 'a place', 'nothing')
    if repairs then redis.call('ZREM', RINGS[s], guild) end
  end
end
if repairs and #found > 0 then wake() end
return found
