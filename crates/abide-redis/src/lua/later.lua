-- Saves a record of permissions, unless the one that is there outlives it: another process may be saving its
-- own.
-- KEYS: the record. ARGV: the record, as JSON.
local function received(text)
  return cjson.decode(text).received_at
end
local DAY = 86400000
local kept = unsealed(KEYS[1])
local later_by = kept and received(kept) - received(ARGV[1]) or 0
-- One that was received later by a day or more was dated by a clock far ahead.
if later_by <= 0 or later_by >= DAY then
  redis.call('SET', KEYS[1], sealed(KEYS[1], ARGV[1]))
end
return false
