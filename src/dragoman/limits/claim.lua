-- Books all buckets or none; the same as LocalCounters.claim.
-- KEYS: buckets. ARGV: now (empty: the server's), the longest wait, then cost, gap and period of each bucket.
-- Returns: granted, at, wait, the blocking bucket. All times are whole microseconds.
local now = tonumber(ARGV[1])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end
local at, decisive, taken, last, shut = now, 0, {}, {}, {}
for i, key in ipairs(KEYS) do
  local count = redis.call('HMGET', key, 'taken', 'last', 'shut')
  taken[i], last[i], shut[i] = tonumber(count[1]), tonumber(count[2] or '0'), tonumber(count[3] or '0')
  local due = shut[i]
  if taken[i] then due = math.max(due, taken[i] + tonumber(ARGV[3 * i + 1])) end
  if due > at then at, decisive = due, i - 1 end
end
local number = function(value) return string.format('%.0f', value) end
if at - now > tonumber(ARGV[2]) then
  return {0, number(at), number(at - now), decisive}
end
for i, key in ipairs(KEYS) do
  taken[i] = math.max(at, taken[i] or at) + tonumber(ARGV[3 * i])
  redis.call('HSET', key, 'taken', number(taken[i]), 'last', number(math.max(last[i], at)))
  local idle = math.max(taken[i], shut[i], now) - now + tonumber(ARGV[3 * i + 2])
  redis.call('PEXPIRE', key, number(math.ceil(idle / 1000)))
end
return {1, number(at), number(at - now), decisive}
