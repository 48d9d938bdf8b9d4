-- Applies what a provider reports; the same as LocalCounters.apply_notices. It only ever delays requests.
-- KEYS: buckets. ARGV: now (empty: the server's), then how long each bucket is taken from now (or empty), how long
-- nothing of it starts, and its period.
local now = tonumber(ARGV[1])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end
local number = function(value) return string.format('%.0f', value) end
for i, key in ipairs(KEYS) do
  local count = redis.call('HMGET', key, 'taken', 'shut')
  local taken, shut = tonumber(count[1]), tonumber(count[2] or '0')
  local told, pause = tonumber(ARGV[3 * i - 1]), tonumber(ARGV[3 * i])
  if told then
    taken = math.max(taken or now + told, now + told)
    redis.call('HSET', key, 'taken', number(taken))
  end
  if pause > 0 then
    shut = math.max(shut, now + pause)
    redis.call('HSET', key, 'shut', number(shut))
  end
  local idle = math.max(taken or now, shut, now) - now + tonumber(ARGV[3 * i + 1])
  redis.call('PEXPIRE', key, number(math.ceil(idle / 1000)))
end
