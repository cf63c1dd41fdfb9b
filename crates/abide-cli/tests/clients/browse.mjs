// Visits SITE with Chromium and Playwright by abideRoute until SECONDS have passed, each kind once at least: a
// line for each URL.
import { createRequire } from "node:module";
import { abideRoute } from "../../../../examples/clients/javascript/abide-route.mjs";

// From NODE_PATH, which `import` does not know.
const { chromium } = createRequire(import.meta.url)("playwright-core");
const { SITE, SECONDS, CHROMIUM, ABIDE_USER_AGENT } = process.env;
const until = performance.now() + 1000 * SECONDS;

const browser = await chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox"] });
const context = await browser.newContext({ userAgent: ABIDE_USER_AGENT, serviceWorkers: "block" });
await context.route("**/*", abideRoute());
for (let number = 0; number === 0 || performance.now() < until; number++) {
  for (const kind of ["page", "redirect", "private", "out", "slow", "busy"]) {
    // A page that was refused shows an error of the browser, which the next visit would meet.
    const page = await context.newPage();
    try {
      const response = await page.goto(`${SITE}/${kind}/browser-${number}`);
      console.log(kind, response.status());
    } catch (error) {
      // A 429 without a body is no page to a browser.
      if (/ERR_HTTP_RESPONSE_CODE_FAILURE/.test(error.message)) console.log(kind, "failed");
      else if (/ERR_BLOCKED_BY_CLIENT/.test(error.message)) console.log(kind, "denied");
      else throw error;
    }
    await page.close();
  }
}
await browser.close();
