// Crawls SITE by abideFetch, two URLs at a time, until SECONDS have passed, each kind once at least: a line
// for each URL.
import { abideFetch, NotGranted } from "../../../../examples/clients/javascript/abide-fetch.mjs";

const { SITE, SECONDS } = process.env;
const until = performance.now() + 1000 * SECONDS;

async function crawl(name) {
  for (let number = 0; ; number++) {
    for (const kind of ["page", "redirect", "private", "out", "slow", "busy"]) {
      if (number > 0 && performance.now() > until) return;
      try {
        const page = await abideFetch(`${SITE}/${kind}/${name}-${number}`);
        await page.text();
        console.log(kind, page.status);
      } catch (error) {
        if (!(error instanceof NotGranted)) throw error;
        console.log(kind, error.outcome);
      }
    }
  }
}

await Promise.all([crawl("node-a"), crawl("node-b")]);
