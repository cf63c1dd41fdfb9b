-- The lease of the process that fetches a robots.txt: `<holder> <end by the clocks of the processes>`. Its life by the server's clock ends
-- it too, if its holder has died.
-- KEYS: the lease. ARGV: holder, now, ttl (0: give it up). Times are milliseconds.
-- Replies nothing to the process that has it now, and the end of the lease to others.
local holder, now, ttl = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
-- `now` comes from the clocks of several machines, which may differ by so much without one having been set back.
local CLOCKS_DIFFER = 60000
-- pcall: a key of another type is no lease, and is replaced.
local held = redis.pcall('GET', KEYS[1])
local by, till = (type(held) == 'string' and held or ''):match('^(%x+) (%d+)$')
if ttl == 0 then
  -- Only its own: it may have ended meanwhile, and another process may have it.
  if by == holder then redis.call('DEL', KEYS[1]) end
  return false
end
-- One that ends much later than one begun now could was given by a clock that has been set back since.
if by and by ~= holder and tonumber(till) > now and tonumber(till) <= now + ttl + CLOCKS_DIFFER then
  return tonumber(till)
end
redis.call('SET', KEYS[1], holder .. ' ' .. string.format('%.0f', now + ttl), 'PX', ARGV[3])
return false
