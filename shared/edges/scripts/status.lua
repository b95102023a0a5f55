#!lua flags=no-writes
-- What waits and runs, by guild, and what keeps it.
--
-- KEYS: depth
-- ARGV: prefix, policy, how many waiting turns are looked at for ages
-- Answers: JSON: now, waiting, oldest (ms since it was admitted), guilds (by id: depth, running,
--          parked, delayed, oldest), keys (running turns by provider key), parkings (waiting lanes
--          by what they wait for), pauses (until when by name; -1 until it is ended)
-- Sent twice: the same.
--@include common
--@include lanes
local now = now_ms()
local guilds = {}

local function of(guild)
  if not guilds[guild] then guilds[guild] = { depth = 0, running = 0, parked = 0, delayed = 0, oldest = 0 } end
  return guilds[guild]
end

local function pairs_of(key)
  local flat, found = redis.call('HGETALL', key), {}
  for i = 1, #flat, 2 do found[flat[i]] = flat[i + 1] end
  return found
end

for guild, depth in pairs(pairs_of(KEYS[1])) do of(guild).depth = tonumber(depth) end
for guild, running in pairs(pairs_of(RUN_GUILD)) do of(guild).running = tonumber(running) end
local parkings = {}
for queue, entry in pairs(pairs_of(PARKED)) do
  local guild, name = string.match(entry, '^([^|]*)|(.*)$')
  parkings[name] = (parkings[name] or 0) + 1
  of(guild).parked = of(guild).parked + redis.call('LLEN', PREFIX .. 'lane:' .. queue)
end
for _, tid in ipairs(redis.call('ZRANGE', DELAY, 0, -1)) do
  local guild = redis.call('HGET', turn_key(tid), 'guild')
  if guild then of(guild).delayed = of(guild).delayed + 1 end
end
local oldest = 0
for _, tid in ipairs(redis.call('ZRANGE', WAITING, 0, ARGV[3] - 1)) do
  local m = redis.call('HMGET', turn_key(tid), 'guild', 'enqueued')
  if m[1] then
    local age = now - tonumber(m[2])
    of(m[1]).oldest = math.max(of(m[1]).oldest, age)
    oldest = math.max(oldest, age)
  end
end
local keys, pauses = {}, {}
for key, running in pairs(pairs_of(RUN_KEY)) do keys[key] = tonumber(running) end
local flat = redis.call('ZRANGE', PAUSES, 0, -1, 'WITHSCORES')
for i = 1, #flat, 2 do pauses[flat[i]] = flat[i + 1] == 'inf' and -1 or tonumber(flat[i + 1]) end
return cjson.encode({
  now = now, waiting = redis.call('ZCARD', WAITING), oldest = oldest,
  guilds = guilds, keys = keys, parkings = parkings, pauses = pauses,
})
