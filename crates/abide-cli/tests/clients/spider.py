"""Crawls SITE with Scrapy by its links until SECONDS have passed, each kind once at least: a line for each URL."""
import os, time
import scrapy
from scrapy.crawler import CrawlerProcess
from scrapy.exceptions import IgnoreRequest


until = time.monotonic() + float(os.environ["SECONDS"])


class Spider(scrapy.Spider):
    name = "spider"
    start_urls = [os.environ["SITE"] + "/page/scrapy-0"]
    handle_httpstatus_list = [429]

    def parse(self, response, kind="page"):
        print(kind, response.status, flush=True)
        for link in response.css("a::attr(href)").getall():
            kind = link.split("/")[1]
            if kind == "page" and time.monotonic() > until:
                continue
            yield response.follow(link, self.parse, errback=self.failed, cb_kwargs={"kind": kind})

    def failed(self, failure):
        what = "denied" if failure.check(IgnoreRequest) and "disallowed" in str(failure.value) else failure
        print(failure.request.cb_kwargs["kind"], what, flush=True)


process = CrawlerProcess({
    "DOWNLOADER_MIDDLEWARES": {"abide_scrapy.AbideMiddleware": 990},
    "ROBOTSTXT_OBEY": False,
    "USER_AGENT": os.environ["ABIDE_USER_AGENT"],
    "CONCURRENT_REQUESTS": 4,
    "RETRY_ENABLED": False,
    "TELNETCONSOLE_ENABLED": False,
    "LOG_LEVEL": "WARNING",
})
process.crawl(Spider)
process.start()
