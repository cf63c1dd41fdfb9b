-- Exchanges about hosts, at most once each: `HostEntry::exchange` of abide-gate, on the server's clock.
-- KEYS: of each host its key, and the marker of its bucket.
-- ARGV: of each host eleven: holder, number of the command, want (lease, held, release), ttl, again_in; what
-- is reported: quiet, delay, left, over, throttles, cause.
-- Replies, one for each host: verdict, wait, quiet, delay, left, over, throttles, cause. A quiet or a left of
-- -1: there is none.
-- CREDIBLE, 27 hours: the longest backoff is 24 hours and its jitter, so one that ends later was dated by a
-- wrong clock.
-- KEPT: throttle counts are forgiven 30 quiet minutes after the backoff. WAITING_MAX bounds the row of a host.
local MINUTE, HOUR, DAY, CREDIBLE, KEPT = 60e6, 3600e6, 86400e6, 97200e6, 1800e6
local NONE, WAITING_MAX = '0', 64

local function exchange(key, marker, asked)
  local holder, number, want, ttl, again_in = asked[1], tonumber(asked[2]), asked[3], tonumber(asked[4]), tonumber(asked[5])
  local quiet, reported_delay, left, over = tonumber(asked[6]), tonumber(asked[7]), tonumber(asked[8]), tonumber(asked[9])
  local reported_throttles, reported_cause = tonumber(asked[10]), asked[11]
  local since = born(marker)

  -- What is stored is the text of `HostEntry::encode`, and under which marker it was written: when a request
  -- was last on its way, the delay, the backoff and its throttle count and cause; who has the lease until
  -- when (0: it was given up), by which call; who waits for it, in line, each until when; and the time of the
  -- last exchange.
  local last, delay, backoff, throttles, cause = 0, 0, 0, 0, 'none'
  local has, till, by, waiting, of = NONE, 0, 0, {}, text(since)
  local row, stored = unsealed(key)
  local body
  if stored then
    local fields = '^((%d+) (%d+) (%d+) (%d+) ([%w:]+) (%w+) (%d+) (%d+) ([%w:,]+)) (%d+) (%d+)$'
    local found = {(row or ''):match(fields)}
    if found[1] then
      body, cause, has, of = found[1], found[6], found[7], found[12]
      -- The clock was set back by so much: no time has passed since.
      local ahead = math.max(tonumber(found[11]) - now, 0)
      local function past(time) return math.max(tonumber(time) - ahead, 0) end
      -- Each within what a process can have written, or a row made by hand could keep a host for years.
      last, delay, backoff = math.min(past(found[2]), now), math.min(tonumber(found[3]), DAY), past(found[4])
      throttles, till, by = math.min(tonumber(found[5]), 255), math.min(past(found[8]), now + HOUR), tonumber(found[9])
      for one, ends in found[10]:gmatch('(%w+):(%d+)') do
        table.insert(waiting, {one, math.min(past(ends), now + HOUR)})
      end
    else
      -- Damaged, or not ours: as if a request were on its way, of a process that has a lease.
      last, has, till = now, 'unknown', now + math.max(ttl, 10e6)
    end
  end

  -- What is reported. The later time, the longer delay and the higher count win.
  local function counts(ends, times)
    return now < ends + (times > 0 and KEPT or 0)
  end
  -- At least 1, because 0 stands for a host that had no request.
  if quiet >= 0 then
    last = math.max(last, now - quiet, 1)
  end
  delay = math.max(delay, reported_delay)
  -- Before the report is merged: a stored end that is not credible must not win over a reported one that is.
  if backoff > now + CREDIBLE then backoff = now + DAY end
  if not counts(backoff, throttles) then
    backoff, throttles, cause = 0, 0, 'none'
  end
  local reported = now - over + (left > CREDIBLE and DAY or left)
  if left >= 0 and counts(reported, reported_throttles) then
    -- Backoffs are only extended, by whichever process.
    if reported > backoff then backoff, cause = reported, reported_cause end
    throttles = math.max(throttles, reported_throttles)
  end

  -- The lease. One of before a loss is not believed; its holder asks again, and says that it has it.
  if of ~= text(since) then
    has, waiting = NONE, {}
  end
  local function keep(is_kept)
    local kept = {}
    for _, place in ipairs(waiting) do
      if is_kept(place[1], place[2]) then table.insert(kept, place) end
    end
    waiting = kept
  end
  local function is_another(one) return one ~= holder end
  local verdict, wait = 'released', 0
  if want == 'release' then
    -- Unless it was taken again while this command was on its way. The number stays, for those that come
    -- later than this one.
    if has == holder and by <= number then till, by = 0, number end
    keep(is_another)
  -- Unless the same process has given up the lease while this command was on its way.
  elseif has ~= holder or till > 0 or by <= number then
    local grace = since + ttl
    -- A lease that has ended by itself was never given up: its holder may have sent a request until then.
    if has ~= NONE and till <= now then
      -- The holder itself has just reported when it last sent.
      if has ~= holder then last = math.max(last, till) end
      has = NONE
    end
    -- A process that did not ask again in time has gone, and must not hold up those behind it.
    keep(function(_, ends) return now < ends end)
    local first, blocked = waiting[1], 0
    if has ~= NONE then
      -- The holder gets it whenever it asks: its last reply may have been lost.
      blocked = has == holder and 0 or till
    -- Within the grace only a process that says that it has the lease gets it.
    elseif want == 'lease' and now < grace then
      blocked = grace
    elseif want == 'lease' and first and first[1] ~= holder then
      -- Free, but kept for the first in line until its place ends, or the fastest process would get it each
      -- time.
      blocked = first[2]
    end
    if blocked <= now then
      -- Until the grace was over, a process may have sent a request under a lease that was lost.
      if want == 'lease' then last = math.max(last, math.min(grace, now)) end
      by = has == holder and math.max(by, number) or number
      has, till = holder, now + ttl
      keep(is_another)
      verdict = waiting[1] and 'wanted' or 'leased'
    else
      local place = #waiting + 1
      for n, one in ipairs(waiting) do
        if one[1] == holder then place = n end
      end
      -- A process beyond the bound is not in line; it asks again all the same.
      if place <= WAITING_MAX then waiting[place] = {holder, now + again_in} end
      verdict, wait = waiting[1][1] == holder and 'next' or 'busy', blocked - now
    end
  end
  if has == NONE then till, by = 0, 0 end

  -- It is kept for a minute longer than the host is in use, and written if it has changed. A holder that dies
  -- may have sent until its lease ended.
  local kept_until, line = math.max(last + delay, backoff + (throttles > 0 and KEPT or 0), has ~= NONE and till + delay or 0), {}
  for _, place in ipairs(waiting) do
    kept_until = math.max(kept_until, place[2])
    table.insert(line, place[1] .. ':' .. text(place[2]))
  end
  kept_until, line = kept_until + MINUTE, waiting[1] and table.concat(line, ',') or NONE
  local new = {text(last), text(delay), text(backoff), text(throttles), cause, has, text(till), text(by), line}
  new = table.concat(new, ' ')
  -- A key of a host that is not in use is removed, so the store holds only hosts of the last minutes and
  -- backoffs.
  if kept_until <= now then
    if stored then redis.call('DEL', key) end
  -- Each write goes to replicas and to the append-only file, so one that would change nothing is left out.
  elseif new ~= body or of ~= text(since) then
    redis.call('SET', key, sealed(key, new .. ' ' .. text(now) .. ' ' .. text(since)), 'PX', text(math.ceil((kept_until - now) / 1000)))
  end

  -- A server that takes no writes is away, and must say so to a process that only asks whether it is back.
  if want == 'release' and (kept_until <= now or (new == body and of == text(since))) then mark(marker, since) end

  quiet = last > 0 and now - last or -1
  if backoff == 0 then return {verdict, wait, quiet, delay, -1, 0, 0, ''} end
  -- Redis cuts numbers in replies to integers, so times are whole microseconds.
  return {verdict, wait, quiet, delay, math.max(backoff - now, 0), math.max(now - backoff, 0), throttles, cause}
end

local replies = {}
for n = 1, #KEYS / 2 do
  replies[n] = exchange(KEYS[2 * n - 1], KEYS[2 * n], {unpack(ARGV, 11 * n - 10, 11 * n)})
end
return replies
