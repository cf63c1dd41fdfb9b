//! With reqwest-retry and http-cache in one chain: retry > gate > cache > pacing > wire.
//!
//! Each attempt is asked of robots.txt, and so is each redirect hop. What the cache answers waits for no permit, and refusals stay
//! typed, because they arise outside of the cache. 429 and 503 are not retried: abide backs the host off, and the response is yours.

use abide::{Abide, Denied, ResponseExt};
use abide_examples::{Web, plain_client};
use http_cache_reqwest::{Cache, CacheMode, HttpCache, HttpCacheOptions, MokaCache, MokaManager};
use reqwest_middleware::ClientBuilder;
use reqwest_retry::policies::ExponentialBackoff;
use reqwest_retry::{DefaultRetryableStrategy, RetryTransientMiddleware, Retryable, RetryableStrategy};

/// What reqwest-retry retries by default, but for the responses of a busy host.
struct LeaveBusyHosts;

impl RetryableStrategy for LeaveBusyHosts {
    fn handle(&self, result: &reqwest_middleware::Result<reqwest::Response>) -> Option<Retryable> {
        match result {
            Ok(response) if matches!(response.status().as_u16(), 429 | 503) => None,
            result => DefaultRetryableStrategy.handle(result),
        }
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let web = Web::start().await; // in place of the real web
    let builder = Abide::builder("ExampleBot").user_agent("ExampleBot/1.0 (+https://example.com/bot)");
    let (abide, inner) = web.stand_in(builder).build_with(plain_client())?;

    let back_off = ExponentialBackoff::builder().build_with_max_retries(3);
    let cache = HttpCache {
        mode: CacheMode::Default,
        manager: MokaManager::new(MokaCache::new(1000)),
        options: HttpCacheOptions::default(),
    };
    let client = ClientBuilder::new(inner)
        .with(RetryTransientMiddleware::new_with_policy_and_strategy(back_off, LeaveBusyHosts))
        .with(abide.gate())
        .with(Cache(cache))
        .with(abide.pacing())
        .build();

    for path in [
        "catalogue.html",
        // From the cache: no permit is waited for, and nothing reaches the server.
        "catalogue.html",
        "catalogue.html",
        // Answers 503 once with `Retry-After: 2`: the next request to the host, whatever it is for, waits until then.
        "opening-hours.html",
        "opening-hours.html",
        // Redirects into a disallowed path; a refusal is not retried.
        "my-account",
    ] {
        match client.get(format!("http://library.example/{path}")).send().await {
            Ok(page) => {
                let waited = page.fetch_info().map(|info| info.waited()).unwrap_or_default();
                println!("{path}: {} after waiting {:.1} s", page.status(), waited.as_secs_f64());
                page.bytes().await?;
            }
            Err(error) => match Denied::find(&error) {
                Some(denied) => println!("{path}: refused: {denied}"),
                None => return Err(error.into()),
            },
        }
    }
    println!("requests that reached the server:");
    for path in web.asked() {
        println!("    {path}");
    }
    Ok(())
}
