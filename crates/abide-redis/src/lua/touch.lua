-- KEYS: markers of buckets.
for _, marker in ipairs(KEYS) do
  born(marker)
  -- Also where it was there: its life begins again with each connection, without being written.
  redis.call('PEXPIRE', marker, MARKER_LIFE)
end
return #KEYS
