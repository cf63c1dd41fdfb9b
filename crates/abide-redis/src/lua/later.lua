-- Saves a record of permissions, unless the one that is there was received later: another process may be saving its own.
-- KEYS: the record. ARGV: the record, as JSON.
local function received(text)
  local is_read, record = pcall(cjson.decode, text)
  return is_read and type(record) == 'table' and tonumber(record.received_at) or -math.huge
end
local kept = redis.pcall('GET', KEYS[1])
if type(kept) ~= 'string' or received(kept) <= received(ARGV[1]) then
  redis.call('SET', KEYS[1], ARGV[1])
end
return false
