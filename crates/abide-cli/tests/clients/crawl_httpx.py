"""Crawls SITE by the transport for httpx until SECONDS have passed, each kind once at least: a line for each URL."""
import itertools, os, time
import httpx
from abide_httpx import AbideTransport, NotGranted

until = time.monotonic() + float(os.environ["SECONDS"])
agent = {"User-Agent": os.environ["ABIDE_USER_AGENT"]}
with httpx.Client(transport=AbideTransport(), headers=agent, follow_redirects=True) as client:
    for number in itertools.count():
        for kind in ["page", "redirect", "private", "out", "slow", "busy"]:
            if number and time.monotonic() > until:
                raise SystemExit
            try:
                print(kind, client.get(f"{os.environ['SITE']}/{kind}/httpx-{number}").status_code, flush=True)
            except NotGranted as answer:
                print(kind, answer.outcome, flush=True)
