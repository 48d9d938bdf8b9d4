-- Replaces what a request claimed by what it used; the same as LocalCounters.settle.
-- KEYS: buckets. ARGV: now (empty: the server's), when the request started, then cost, more and period of each bucket.
local now = tonumber(ARGV[1])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end
local at = tonumber(ARGV[2])
local number = function(value) return string.format('%.0f', value) end
for i, key in ipairs(KEYS) do
  local count = redis.call('HMGET', key, 'taken', 'last', 'shut')
  local taken = tonumber(count[1]) or at + tonumber(ARGV[3 * i])
  local more = tonumber(ARGV[3 * i + 1])
  if more > 0 then
    taken = taken + more
  else
    taken = taken - math.max(0, -more - math.max(0, tonumber(count[2] or '0') - at))
  end
  redis.call('HSET', key, 'taken', number(taken))
  local idle = math.max(taken, tonumber(count[3] or '0'), now) - now + tonumber(ARGV[3 * i + 2])
  redis.call('PEXPIRE', key, number(math.ceil(idle / 1000)))
end
