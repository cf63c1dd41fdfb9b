"""A Scrapy downloader middleware: every request, redirects and retries included, asks `abide serve` first.

    DOWNLOADER_MIDDLEWARES = {"abide_scrapy.AbideMiddleware": 990}
    ROBOTSTXT_OBEY = False  # abide does it, for the product token that USER_AGENT must contain
"""
import asyncio, contextlib, json, logging, os
from datetime import datetime, timezone
from urllib.parse import urlsplit
from scrapy.exceptions import IgnoreRequest
FAULTS = {"Resolve": "dns", "DNS": "dns", "Timeout": "timeout", "Refused": "connect", "SSL": "tls", "Failed": "reset"}

class AbideMiddleware:
    def __init__(self, settings):
        self.server = urlsplit(settings.get("ABIDE_SERVER", os.environ.get("ABIDE_SERVER", "http://127.0.0.1:8410")))
        self.token = settings.get("ABIDE_TOKEN", os.environ.get("ABIDE_TOKEN"))
        self.timeout, self.defer_max = settings.getint("DOWNLOAD_TIMEOUT"), settings.getint("ABIDE_DEFER_MAX", 600)
        self.tasks = set()  # asyncio and Scrapy keep none that waits for a stream

    from_crawler = classmethod(lambda cls, crawler: cls(crawler.settings))

    async def call(self, path, **fields):
        self.tasks.add(task := asyncio.current_task())
        task.add_done_callback(self.tasks.discard)
        body = json.dumps(fields)
        reader, writer = await asyncio.open_connection(self.server.hostname, self.server.port or 80)
        with contextlib.closing(writer):
            head = [f"POST {path} HTTP/1.1", f"Host: {self.server.netloc}", f"Content-Length: {len(body)}"]
            head += ["Connection: close", "Content-Type: application/json", f"Authorization: Bearer {self.token}", "", body]
            writer.write("\r\n".join(head).encode("ascii"))
            head, _, answer = (await reader.read()).partition(b"\r\n\r\n")
        if b" 200 " not in head.split(b"\r\n")[0]:
            raise RuntimeError(f"abide serve: {answer.decode()}")
        return json.loads(answer)

    async def process_request(self, request):
        ttl = int(1000 * (request.meta.get("download_timeout", self.timeout) + 10))
        while (granted := await self.call("/v1/acquire", url=request.url, ttl_ms=ttl))["outcome"] == "deferred":
            wait = (datetime.fromisoformat(granted["retry_at"].replace("Z", "+00:00")) - datetime.now(timezone.utc)).total_seconds()
            if wait > self.defer_max:
                break
            await asyncio.sleep(max(wait, 0.1))
        if granted["outcome"] != "granted":
            raise IgnoreRequest(granted["why"])
        request.meta["abide_permit"] = granted["permit"]

    async def process_response(self, request, response):
        headers = [(name.decode("latin1"), value.decode("latin1")) for name, all in response.headers.items() for value in all]
        await self.finish(request, status=response.status, headers=headers)
        return response

    async def process_exception(self, request, exception):
        fault = next((fault for part, fault in FAULTS.items() if part in type(exception).__name__), "other")
        await self.finish(request, failed=fault)

    async def finish(self, request, **end):
        if permit := request.meta.pop("abide_permit", None):  # what comes from a cache has none
            try:
                await self.call("/v1/finish", permit=permit, **end)
            except (OSError, RuntimeError) as error:  # the page is here; its permit ends by its ttl
                logging.getLogger(__name__).warning("%s", error)
