"""The crawl of `crawl-comparison.sh` with Scrapy, robots.txt obeyed and no delay: `crawl.py PAGES HOST:PORT...`."""

import sys

import scrapy
from scrapy.crawler import CrawlerProcess

PAGES, HOSTS = int(sys.argv[1]), sys.argv[2:]


class Pages(scrapy.Spider):
    name = "pages"
    custom_settings = {
        "USER_AGENT": "ExampleBot/1.0 (+https://example.com/bot)",
        "ROBOTSTXT_OBEY": True,
        "DOWNLOAD_DELAY": 0,
        "CONCURRENT_REQUESTS": 32,
        "CONCURRENT_REQUESTS_PER_DOMAIN": 1,
        "TELNETCONSOLE_ENABLED": False,
    }

    async def start(self):
        for page in range(PAGES):
            for host in HOSTS:
                yield scrapy.Request(f"http://{host}/page/{page}")

    def parse(self, response):
        """The page is all that is wanted."""


process = CrawlerProcess({"LOG_LEVEL": "ERROR"})
crawler = process.create_crawler(Pages)
process.crawl(crawler)
process.start()
print(int(crawler.stats.get_value("response_received_count")) - len(HOSTS))
