#!lua
-- Admits a turn: its record, its place in its lane, a wake token. Once per turn id.
--
-- A follow-up may `replace` what the same user has in the lane: turns that wait, after a crash too,
-- end as cancelled, the running one is stopped. It may take in (`merge`) the turn that waits last:
-- that one ends as cancelled, and its place is the follow-up's. Both in this one step, so that
-- nothing is between.
--
-- KEYS: turn record, mark of the turn id, arq job
-- ARGV: prefix, policy, turn id, guild (fairness key), lane, provider key, out stream,
--       nonce of this call, request (JSON), route (JSON), facts (JSON), arq job (msgpack), user,
--       follow-up (queue | replace | merge), the turn that it takes in (merge only), weight of
--       the guild, '1' for a replay, provider/model, '1' if it has no fallback, ms that it waits,
--       SHA-1 of the request that it takes in, as that was read
-- Answers: accepted | duplicate | guild_full | full | moved (the last of the lane is another turn
--          now, has started, or asks something else; nothing happened)
-- Sent twice: the nonce in the mark tells a repeated call from a second admission.
--@include common
--@include lanes
--@include running
local tid, guild, lane, nonce, user = ARGV[3], ARGV[4], ARGV[5], ARGV[8], ARGV[13]
local s, wait_ms = suffix(ARGV[17]), tonumber(ARGV[20])
local mark = redis.call('GET', KEYS[2])
if mark then return mark == nonce and 'accepted' or 'duplicate' end

local taken_in = ARGV[14] == 'merge' and ARGV[15] or nil
local replaced, stopped = {}, nil
if taken_in then
  local m = redis.call('HMGET', turn_key(taken_in), 'state', 'attempt', 'request')
  local is_last = redis.call('LINDEX', lane_key(lane, s), -1) == taken_in
  if not is_last or m[1] ~= 'queued' or m[2] ~= '0' then return 'moved' end
  if redis.sha1hex(m[3]) ~= ARGV[21] then return 'moved' end
elseif ARGV[14] == 'replace' then
  for _, other in ipairs(redis.call('LRANGE', lane_key(lane, s), 0, -1)) do
    if redis.call('HGET', turn_key(other), 'user') == user then replaced[#replaced + 1] = other end
  end
  -- Whoever locks the lane runs, or waits after a crash: its worker is dead, and hears no stop.
  local locks = redis.call('HGET', RUN_LANE, lane)
  local m = locks and redis.call('HMGET', turn_key(locks), 'user', 'state')
  if m and m[1] == user and m[2] == 'queued' then
    replaced[#replaced + 1] = locks
  elseif m and m[1] == user then
    stopped = locks
  end
end
local fewer = taken_in and 1 or #replaced
if count(DEPTH, guild) - fewer >= POLICY.guild_depth then return 'guild_full' end
if count(TOTALS, 'depth') - fewer >= POLICY.global_depth then return 'full' end

local now = now_ms()
follow_clock(now)
redis.call('SET', KEYS[2], nonce, 'PX', POLICY.mark_ttl_ms)
redis.call('SET', KEYS[3], ARGV[12], 'PX', POLICY.turn_ttl_ms)
redis.call('HSET', KEYS[1], 'guild', guild, 'lane', lane, 'key', ARGV[6], 'out', ARGV[7],
  'request', ARGV[9], 'route', ARGV[10], 'facts', ARGV[11], 'user', user, 'state', 'queued',
  'attempt', '0', 'claim', '', 'seq', '0', 'shown', '0', 'tools', '0', 'crashes', '0',
  'cancel', '0', 'worker', '-', 'enqueued', now, 'deadline', now + wait_ms + POLICY.wait_ms,
  'weight', ARGV[16], 'low', ARGV[17], 'model', ARGV[18], 'pinned', ARGV[19], 'held', '')
redis.call('PEXPIRE', KEYS[1], POLICY.turn_ttl_ms)
redis.call('ZADD', WAITING, now + wait_ms + POLICY.wait_ms, tid)
redis.call('HINCRBY', DEPTH, guild, 1)
redis.call('HINCRBY', TOTALS, 'depth', 1)
note(tid, now, 'admitted', '0', '-')
if taken_in then
  -- The place in the lane stays, and with it the lane's place in the ring or in a parking.
  redis.call('LSET', lane_key(lane, s), -1, tid)
  settle(taken_in, now, 'cancelled', POLICY.merged, '')
  redis.call('HSET', turn_key(taken_in), 'into', tid)  -- who has its words now
  return 'accepted'
end
for _, other in ipairs(replaced) do withdraw(other, now, 'cancelled', POLICY.replaced) end
if stopped then stop_running(stopped, 'replaced') end
if wait_ms > 0 then
  redis.call('HSET', KEYS[1], 'held', 'later')
  redis.call('ZADD', DELAY, now + wait_ms, tid)
else
  join(tid, guild, lane, s)
  wake()
end
return 'accepted'
