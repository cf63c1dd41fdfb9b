"""Acquires a permit for URL with a ttl of TTL ms, says so, and does nothing until it is killed."""
import os, time
import abide_urllib

print(abide_urllib.call("/v1/acquire", url=os.environ["URL"], ttl_ms=int(os.environ["TTL"]))["outcome"], flush=True)
time.sleep(3600)
