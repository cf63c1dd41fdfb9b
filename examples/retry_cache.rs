//! With reqwest-retry and http-cache in one chain: retry > cache > abide > wire.
//!
//! What the cache answers sends nothing, so it waits for no permit. Everything else passes abide: each
//! attempt is checked against robots.txt and rate-limited, and so is each redirect hop. 429 and 503 are not
//! retried: abide backs the host off, and the response is yours.
//!
//! http-cache keeps neither the types of errors nor the extensions of responses. So the example checks a URL
//! first, where it wants to know why it is refused, and reads the permissions of what it gets anew.

use abide::{Abide, ResponseExt};
use abide_examples::{Web, plain_client};
use http_cache_reqwest::{Cache, CacheMode, HttpCache, HttpCacheOptions, MokaCache, MokaManager};
use reqwest::Url;
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
        .with(Cache(cache))
        .with(abide.middleware())
        .build();

    for path in [
        "catalogue.html",
        // From the cache: no permit is waited for, and nothing reaches the server.
        "catalogue.html",
        "catalogue.html",
        // Answers 503 once with `Retry-After: 2`: the next request to the host, whatever it is for, waits
        // until then.
        "opening-hours.html",
        "opening-hours.html",
        // Disallowed, which the check says in full.
        "loans/7.html",
        // Redirects there, which only abide sees, below the cache; a refusal is not retried.
        "my-account",
    ] {
        let url: Url = format!("http://library.example/{path}").parse()?;
        let verdict = abide.check(&url).await?;
        if !verdict.is_allowed() {
            println!("{path}: refused: {verdict}");
            continue;
        }
        match client.get(url).send().await {
            Ok(page) => {
                let page = abide.read(page).await;
                println!("{path}: {}, may be indexed: {}", page.status(), page.permissions().may_index());
                page.bytes().await?;
            }
            // A refused hop is text here.
            Err(error) => println!("{path}: {:#}", anyhow::Error::from(error)),
        }
    }
    println!("requests that reached the server:");
    for path in web.asked() {
        println!("    {path}");
    }
    Ok(())
}
