// Playwright and Crawlee through `abide serve`: a route handler that every request of a page goes through.
//
//     await page.route("**/*", abideRoute());                                          // Playwright
//     preNavigationHooks: [({ page }) => page.route("**/*", abideRoute())],            // Crawlee's PlaywrightCrawler
//
// Each image of a page is a request to its host, one at a time: `skip` leaves out what is not needed.
// Redirects are followed here, so the page keeps the URL that it was asked for.
// Two kinds of requests pass no route. Those of service workers: open the context with
// `serviceWorkers: "block"`. And Chromium's for the /favicon.ico of a page that names no icon.
import { call } from "./abide-fetch.mjs";

const TTL_MS = 120_000;

export function abideRoute({ skip = ["image", "media", "font"], redirects = 10 } = {}) {
  return async (route) => {
    const request = route.request();
    if (skip.includes(request.resourceType())) return route.abort("blockedbyclient");
    if (!/^https?:/.test(request.url())) return route.continue();
    let url = request.url();
    for (let hop = 0; ; hop++) {
      const granted = await call("/v1/acquire", { url, ttl_ms: TTL_MS });
      if (granted.outcome !== "granted") {
        console.warn(`abide: ${granted.why}`);
        return route.abort("blockedbyclient");
      }
      let response, end = { failed: "other" };
      try {
        // With the body; a redirect is returned, because each hop is a URL of its own.
        response = await route.fetch({ url, maxRedirects: 0, timeout: TTL_MS - 10_000 });
        end = { status: response.status(), headers: response.headersArray().map(({ name, value }) => [name, value]) };
      } catch (error) {
        end = { failed: /Timeout/.test(error.message) ? "timeout" : /ENOTFOUND/.test(error.message) ? "dns" : "other" };
        return route.abort("failed");
      } finally {
        await call("/v1/finish", { permit: granted.permit, ...end });
      }
      const { location } = response.headers();
      if (![301, 302, 303, 307, 308].includes(response.status()) || !location) return route.fulfill({ response });
      // The browser would follow it by itself.
      if (hop === redirects) return route.abort("failed");
      url = new URL(location, url).href;
    }
  };
}
