"""Fetches pages through `abide serve`: robots.txt, delays and backoffs, shared with every other crawler."""
import json, os, socket, ssl, time
from urllib import parse, request

SERVER, TOKEN = os.environ.get("ABIDE_SERVER", "http://127.0.0.1:8410"), os.environ.get("ABIDE_TOKEN")
USER_AGENT = os.environ.get("ABIDE_USER_AGENT", "ExampleBot/1.0 (+https://example.com/bot)")
TIMEOUT = 20  # seconds in which a site may send nothing


class NotGranted(Exception):
    """`outcome`: denied or refused: skip the URL; deferred: keep it, and ask again at `retry_at`."""
    def __init__(self, answer):
        super().__init__(answer["why"])
        self.outcome, self.retry_at = answer["outcome"], answer.get("retry_at")


class EveryStatus(request.HTTPErrorProcessor):
    def http_response(self, _, response):
        return response  # also a redirect: each hop is a URL of its own, which abide checks
    https_response = http_response


pages, local = request.build_opener(EveryStatus), request.build_opener(request.ProxyHandler({}))


def call(path, **fields):
    headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {TOKEN}"} if TOKEN else {})}
    with local.open(request.Request(SERVER + path, json.dumps(fields).encode(), headers)) as answer:
        return json.load(answer)


def fault(failure):
    reason = getattr(failure, "reason", failure)
    kinds = {socket.gaierror: "dns", ssl.SSLError: "tls", TimeoutError: "timeout", ConnectionResetError: "reset", OSError: "connect"}
    return next((name for kind, name in kinds.items() if isinstance(reason, kind)), "other")


def fetch(url, redirects=10):
    """Returns (url, status, headers, body) when the page has come, however long its host has to wait."""
    granted = call("/v1/acquire", url=url)
    if granted["outcome"] != "granted":
        raise NotGranted(granted)
    permit, end, renew, body = granted["permit"], {"failed": "other"}, time.monotonic() + 20, b""
    try:
        with pages.open(request.Request(url, headers={"User-Agent": USER_AGENT}), timeout=TIMEOUT) as response:
            while chunk := response.read1(1 << 16):
                body += chunk
                if time.monotonic() > renew:  # a long body: the permit's ttl is 60 s
                    renew += 20
                    call("/v1/extend", permit=permit, ttl_ms=60_000)
        end = {"status": response.status, "headers": response.headers.items()}
    except Exception as failure:
        end["failed"] = fault(failure)
        raise
    finally:
        call("/v1/finish", permit=permit, **end)  # the delay counts from here
    if response.status in (301, 302, 303, 307, 308) and "location" in response.headers and redirects:
        return fetch(parse.urljoin(url, response.headers["location"]), redirects - 1)
    return url, response.status, response.headers, body
