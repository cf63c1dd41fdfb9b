-- A stored value: a version, a checksum over the key and the fields, and the fields. What is damaged, or of
-- another key, has no fields. The server computes the checksum, because what scripts keep or merge must be
-- whole, too.
local VERSION = '1'

local function sealed(key, fields)
  -- 32 bits, as the checksums of the other stores.
  local checksum = redis.sha1hex(VERSION .. key .. '\n' .. fields):sub(1, 8)
  return VERSION .. ' ' .. checksum .. ' ' .. fields
end

-- The fields that are stored there, or nil; and the value, or false.
local function unsealed(key)
  -- pcall, because a key of another type is an error to GET.
  local value = redis.pcall('GET', key)
  local fields = type(value) == 'string' and value:sub(12)
  return fields and sealed(key, fields) == value and fields or nil, value
end
