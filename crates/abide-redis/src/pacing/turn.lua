-- Turns of one scope, on the server's clock. The same in Rust, for servers without EVAL: decide.rs.
-- KEYS: slot (hash: start, end, hold, cause, gap, strikes), flight (sorted set: lease -> end of its life). Times are
-- microseconds, which a double holds exactly until the year 2255. Answers: verdict, a time, a text, strikes.
local slot, flight, op = KEYS[1], KEYS[2], ARGV[1]
local DAY, CREDIBLE, KEPT, ON_ITS_WAY, LEASE, STRIKES_KEPT = 86400e6, 97200e6, 3600e6, 1e5, 3600e6, 1800e6
-- No promise is for longer: a start, and its gap or its lease.
local OWED = 2 * CREDIBLE

local time = redis.call('TIME')
local now = time[1] * 1e6 + time[2]

local was = redis.call('HMGET', slot, 'start', 'end', 'hold', 'cause', 'gap', 'strikes')

-- What is not a number that we write is the largest: it is taken for a time that is far ahead, and nothing is let out for it.
local function number(text, most)
  if not text then return 0 end
  return text:match('^%d+$') and math.min(tonumber(text), most) or most
end

local start, ended, hold = number(was[1], 2^53), number(was[2], 2^53), number(was[3], 2^53)
local cause, gap, strikes = was[4] or '', number(was[5], 2^53), number(was[6], 255)
-- A hold says nothing of when the host was asked last.
local known = start > 0 or ended > 0

local function text(number)
  return string.format('%.0f', number)
end

-- Every write names an expiry, in milliseconds, that no promise outlives.
local function keep(key, span)
  redis.call('PEXPIRE', key, text(math.ceil((math.min(span, OWED) + KEPT) / 1000)))
end

local function put()
  redis.call('HSET', slot, 'start', text(start), 'end', text(ended), 'hold', text(hold), 'cause', cause, 'gap', text(gap),
    'strikes', text(strikes))
  keep(slot, math.max(start, ended, hold, now) - now + gap)
end

local function put_lease(lease, expiry)
  redis.call('ZADD', flight, text(expiry), lease)
  local last = redis.call('ZRANGE', flight, -1, -1, 'WITHSCORES')
  keep(flight, last[2] - now)
end

-- The epoch was born after this moment: the clock was set back since the connection was greeted.
if op == 'reserve' and tonumber(ARGV[8]) > now + ON_ITS_WAY then
  return {'stale', 0, '', 0}
end

-- What lies in the future because the clock was set back, or since somebody else has written it: nobody waits for years.
if start > now + CREDIBLE or ended > now or hold > now + CREDIBLE or gap > CREDIBLE then
  -- No response has ended in the future: by so much at least was the clock set back, and the last start is older by that.
  if ended > now then start = math.max(start - (ended - now), math.min(start, now)) end
  if start > now + CREDIBLE then start = now end
  if ended > now then ended = now end
  if hold > now + CREDIBLE then hold = now + DAY end
  gap = math.min(gap, CREDIBLE)
  put()
end

-- After so long without a complaint they are forgiven.
local function forgiven(till)
  return till + STRIKES_KEPT <= now
end

if forgiven(hold) then strikes = 0 end

if op == 'reserve' then
  local lease, asked, limit, max_wait = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
  local ttl, delay, born = tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])
  local is_evicting, is_question = ARGV[9] == '1', ARGV[10] == '1'
  -- A lease that ends later than any that is given now is of a time before the clock was set back.
  redis.call('ZREMRANGEBYSCORE', flight, '(' .. text(math.max(start, now) + math.max(ttl, LEASE)), '+inf')
  -- Who asks again for a lease that it has, since its answer was lost, does not wait for itself.
  local others = redis.call('ZCOUNT', flight, '(' .. text(now), '+inf')
  if others >= limit and (tonumber(redis.call('ZSCORE', flight, lease)) or 0) > now then
    others = others - 1
  end
  if others >= limit then
    -- With one in flight the last start is its own.
    return {'busy', limit == 1 and math.max(start - now, 0) or 0, '', 0}
  end
  local ready, why = math.max(start, ended, born) + asked, 'gap'
  if is_evicting and not known then
    ready = math.max(ready, now + asked)
  end
  if hold > ready then
    ready, why = hold, 'hold'
  end
  local wait = math.max(ready - now, 0)
  if wait > max_wait then
    if is_evicting and not known then
      -- The one write of a refusal: the next ask counts from here, or it would be refused for ever.
      start, gap = now, asked
      put()
    end
    -- Who asks again and is refused has had a grant whose answer was lost: it would stand in the way of all.
    redis.call('ZREM', flight, lease)
    return {why, wait, cause, strikes}
  end
  wait = math.max(wait, delay)
  if not is_question then
    local before = start
    start, gap = math.max(start, now + wait), math.max(gap, asked)
    put()
    redis.call('ZREMRANGEBYSCORE', flight, '-inf', text(now))
    put_lease(lease, now + wait + ttl)
    return {'granted', wait, text(before) .. ' ' .. text(start), strikes}
  end
  return {'granted', wait, '', strikes}
end

if op == 'release' then
  local lease, how, asked = ARGV[2], ARGV[3], tonumber(ARGV[4])
  -- First the end, then the lease: if there is no memory for the one, the other stays until it expires.
  if how == 'response' then
    ended, gap = math.max(ended, now), math.max(gap, asked)
    put()
  elseif how == 'undo' and start == tonumber(ARGV[6]) then
    start = tonumber(ARGV[5])
    put()
  end
  redis.call('ZREM', flight, lease)
  return {'done', 0, '', 0}
end

if op == 'renew' then
  local expiry = redis.call('ZSCORE', flight, ARGV[2])
  if expiry and tonumber(expiry) > now then
    put_lease(ARGV[2], now + tonumber(ARGV[3]))
  end
  return {'done', 0, '', 0}
end

if op == 'hold' then
  local till, told = now + tonumber(ARGV[2]), tonumber(ARGV[4])
  if forgiven(till) then told = 0 end
  if till > hold or told > strikes then
    if till > hold then hold, cause = till, ARGV[3] end
    strikes = math.max(strikes, told)
    put()
  end
  return {'held', math.max(hold - now, 0), '', strikes}
end

return redis.error_reply('ERR unknown operation')
