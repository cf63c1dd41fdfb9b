"""Crawls SITE by abide_urllib until SECONDS have passed, each kind once at least: a line for each URL."""
import itertools, os, time
import abide_urllib

until = time.monotonic() + float(os.environ["SECONDS"])
for number in itertools.count():
    for kind in ["page", "redirect", "private", "out", "slow", "busy"]:
        if number and time.monotonic() > until:
            raise SystemExit
        try:
            _, status, headers, body = abide_urllib.fetch(f"{os.environ['SITE']}/{kind}/urllib-{number}")
            assert len(body) == int(headers["content-length"])
            print(kind, status, flush=True)
        except abide_urllib.NotGranted as answer:
            print(kind, answer.outcome, flush=True)
