-- The marker of a bucket: since when a server has known all that was written about its hosts, and which
-- server that is. A flush or a slot that was moved without its keys has taken it away, and after a restart or
-- a failover, which may have lost the last writes, the server has another name. Times are microseconds, which
-- a double holds exactly until the year 2255.
local time = redis.call('TIME')
local now = time[1] * 1e6 + time[2]

-- From the last connection of any process on: one that runs for longer pays one grace.
local MARKER_LIFE = 30 * 86400 * 1000

-- Drawn again by each start of a server and by each time that it becomes a primary. A user that may not ask
-- believes the marker.
local info = redis.pcall('INFO', 'replication')
info = type(info) == 'string' and info or ''
-- A replica runs a script that writes nothing, and would tell of leases that its primary no longer knows.
if info:find('role:slave', 1, true) then
  return redis.error_reply('READONLY it is a replica')
end
local server = info:match('master_replid:(%x+)')

local function text(number)
  -- Lua itself writes 1.8e+15, which loses digits and which the patterns do not match.
  return string.format('%.0f', number)
end

local function mark(marker, since)
  redis.call('SET', marker, sealed(marker, text(since) .. ' ' .. (server or 'unnamed')), 'PX', MARKER_LIFE)
end

local function born(marker)
  -- A damaged one says nothing, so the bucket begins anew.
  local since, name = (unsealed(marker) or ''):match('^(%d+) (%w+)$')
  since = since and tonumber(since)
  -- One that was born in the future is of a time before the clock was set back.
  if not since or since > now or (server and name ~= server) then
    since = now
    mark(marker, since)
  end
  return since
end

