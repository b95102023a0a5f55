#!lua flags=allow-oom
-- Renews a gateway's shards, says which it has lost or has too many of, and gives it free ones.
--
-- KEYS: leases, gateways, sessions (hashes), count (string)
-- ARGV: gateway, number of shards, lease ms, ttl ms, ttl ms of the count (0: nobody need agree),
--       ttl ms of sessions; for each shard that it holds: shard, state, its session and places
--       ('' for what is as it was)
-- Answers: {taken, lost, excess}; each taken one is {shard, session or '', places or ''}
-- A lease is `until|gateway|state|since` under `shard/number`, so that two numbers of shards stand
-- side by side while a bot is given another. Each gateway that lives has its share; the oldest
-- ones have the odd ones, so that a newcomer moves as few as it can. What a gateway has too many of
-- it leaves with its session, for the next to resume.
-- A lease that ended is kept by its owner unless another took it: two owners there never are.
-- After an outage the leases of all are over, and most of their gateways live: so nothing is taken
-- for half a lease, in which they come back. `clock` is the last beat of any gateway; without one the
-- server is new, or it forgot everything, which a gateway that holds a shard shows.
-- What lies further ahead than it can was noted before the server's clock was set back: leases are
-- pulled near, or a dead gateway's shards would be nobody's until the clock has caught up.
-- Sent twice: what the first answer gave is the gateway's and is not claimed; it is given again.
local t = redis.call('TIME')
local now = tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)
local me, count, lease = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])

local clock = tonumber(redis.call('HGET', KEYS[2], 'clock') or '0')
local grace = tonumber(redis.call('HGET', KEYS[2], 'grace') or '0')
if (clock > 0 and now - clock > lease) or (clock == 0 and ARGV[7]) then
  grace = now + lease / 2
  redis.call('HSET', KEYS[2], 'grace', grace)
end
redis.call('HSET', KEYS[2], 'clock', now)
if grace > now + lease / 2 then grace = 0 end

local joined, living, counts = {[me] = now}, {me}, {[count] = true}
local rows = redis.call('HGETALL', KEYS[2])
for i = 1, #rows, 2 do
  local number, name = string.match(rows[i], '^(%d+)|(.*)$')
  local at, till = string.match(rows[i + 1], '^(%d+)|(%d+)$')
  if number and tonumber(till) > now + lease then
    till = now + lease
    redis.call('HSET', KEYS[2], rows[i], string.format('%s|%d', at, till))
  end
  if number and tonumber(till) + tonumber(ARGV[4]) < now then
    redis.call('HDEL', KEYS[2], rows[i])
    number = nil
  end
  if number and tonumber(till) >= now then counts[tonumber(number)] = true end
  if tonumber(number) == count and name == me then
    joined[me] = tonumber(at)
  elseif tonumber(number) == count and tonumber(till) >= now then
    joined[name] = tonumber(at)
    living[#living + 1] = name
  end
end
redis.call('HSET', KEYS[2], count .. '|' .. me, string.format('%d|%d', joined[me], now + lease))
table.sort(living, function(a, b)
  if joined[a] ~= joined[b] then return joined[a] < joined[b] end
  return a < b
end)
local share = math.floor(count / #living)
for rank = 1, count % #living do
  if living[rank] == me then share = share + 1 end
end

local claims, states = {}, {}
for i = 7, #ARGV, 4 do
  claims[ARGV[i]] = i
  states[ARGV[i]] = ARGV[i + 1]
end
local until_of, owner_of, since_of, state_of = {}, {}, {}, {}
rows = redis.call('HGETALL', KEYS[1])
for i = 1, #rows, 2 do
  local till, owner, state, since = string.match(rows[i + 1], '^(%d+)|([^|]*)|([^|]*)|(%d+)$')
  local shard, number = string.match(rows[i], '^(%d+)/(%d+)$')
  if tonumber(till) > now + lease then
    till = now + lease
    redis.call('HSET', KEYS[1], rows[i], string.format('%d|%s|%s|%s', till, owner, state, since))
  end
  if tonumber(number) == count and tonumber(shard) < count then
    until_of[shard], owner_of[shard] = tonumber(till), owner
    state_of[shard], since_of[shard] = state, tonumber(since)
  elseif tonumber(till) + tonumber(ARGV[4]) < now then
    redis.call('HDEL', KEYS[1], rows[i])
  end
end

local taken, lost, mine = {}, {}, {}
local function write(shard, state, since)
  redis.call('HSET', KEYS[1], shard .. '/' .. count,
    string.format('%d|%s|%s|%d', now + lease, me, state, since))
end
local function take(shard)
  write(shard, 'starting', now)
  mine[#mine + 1] = shard
  local field = shard .. '/' .. count
  local kept = redis.call('HMGET', KEYS[3], field, field .. '/places')
  taken[#taken + 1] = {shard, kept[1] or '', kept[2] or ''}
end
for n = 0, count - 1 do
  local shard = tostring(n)
  if claims[shard] then
    if owner_of[shard] and owner_of[shard] ~= me then
      lost[#lost + 1] = shard
    else
      local since = state_of[shard] == states[shard] and since_of[shard] or now
      write(shard, states[shard], since)
      local field, at = shard .. '/' .. count, claims[shard]
      if ARGV[at + 2] ~= '' then redis.call('HSET', KEYS[3], field, ARGV[at + 2]) end
      if ARGV[at + 3] ~= '' then redis.call('HSET', KEYS[3], field .. '/places', ARGV[at + 3]) end
      mine[#mine + 1] = shard
    end
  elseif owner_of[shard] == me then
    take(shard)
  end
end
for n = 0, count - 1 do
  local shard = tostring(n)
  local is_free = not owner_of[shard] or (owner_of[shard] ~= me and until_of[shard] < now)
  if now >= grace and #mine < share and is_free and not claims[shard] then take(shard) end
end
local excess = {}
for i = #mine, share + 1, -1 do
  if claims[mine[i]] then excess[#excess + 1] = mine[i] end
end

-- Beats keep the sessions from expiring: those of a number that nobody has any more go here.
for _, field in ipairs(now >= grace and redis.call('HKEYS', KEYS[3]) or {}) do
  if not counts[tonumber(string.match(field, '^%d+/(%d+)'))] then redis.call('HDEL', KEYS[3], field) end
end

redis.call('PEXPIRE', KEYS[1], ARGV[4])
redis.call('PEXPIRE', KEYS[2], ARGV[4])
redis.call('PEXPIRE', KEYS[3], ARGV[6])
if tonumber(ARGV[5]) > 0 then redis.call('SET', KEYS[4], count, 'PX', ARGV[5]) end
return {taken, lost, excess}
