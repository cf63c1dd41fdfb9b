-- KEYS: markers of buckets.
for _, marker in ipairs(KEYS) do
  born(marker)
  redis.call('PEXPIRE', marker, MARKER_LIFE)
end
return #KEYS
