//! A client of your own, blocking or not: ask, send, report.
//!
//! `acquire` asks robots.txt and waits for the host; the permit is for one request. Keep it until the
//! response has ended, and say what came back: that is how 429, 503 and Retry-After come to count. Here the
//! client is ureq, on a thread for blocking work.

use abide::pacing::Permit;
use abide::{Abide, Denied, Failure};
use abide_examples::{Web, plain_client};
use url::Url;

const USER_AGENT: &str = "ExampleBot/1.0 (+https://example.com/bot)";
const HOPS_MAX: usize = 10;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    // In place of the real web. Its first site answers to the address, too, since ureq resolves no names
    // here.
    let web = Web::start().await;
    let builder = web.stand_in(Abide::builder("ExampleBot").user_agent(USER_AGENT));
    // robots.txt is fetched by a client that is built for it; `Builder::fetch` takes a transport of yours.
    let (abide, _) = builder.build_with(plain_client())?;
    // One permit is one request: no redirects and no retries behind our back.
    let config =
        ureq::Agent::config_builder().max_redirects(0).http_status_as_error(false).user_agent(USER_AGENT);
    let agent = ureq::Agent::new_with_config(config.build());

    for path in ["bread.html", "private/recipes.html", "old-recipes", "inside"] {
        let url = format!("http://{}/{path}", web.address()).parse()?;
        match fetch(&abide, &agent, url).await {
            Ok((status, body)) => println!("{path}: {status}, {} bytes", body.len()),
            Err(error) => match Denied::find(error.as_ref()) {
                Some(denied) if denied.is_disallowed() => println!("{path}: skip: {denied}"),
                Some(denied) => println!("{path}: refused: {denied}"),
                None => println!("{path}: failed: {error:#}"),
            },
        }
    }
    Ok(())
}

/// One page, hop after hop; each of them is asked and paced.
async fn fetch(abide: &Abide, agent: &ureq::Agent, mut url: Url) -> anyhow::Result<(u16, Vec<u8>)> {
    for _ in 0..=HOPS_MAX {
        let permit = abide.acquire(&url).await?;
        let (agent, asked) = (agent.clone(), url.clone());
        let (status, location, body) =
            tokio::task::spawn_blocking(move || send(&agent, &asked, permit)).await??;
        match location {
            Some(location) if (300..400).contains(&status) => url = url.join(&location)?,
            _ => return Ok((status, body)),
        }
    }
    anyhow::bail!("too many redirects")
}

/// One request, with its permit. The permit ends with this function, whichever way it returns.
fn send(agent: &ureq::Agent, url: &Url, permit: Permit) -> anyhow::Result<(u16, Option<String>, Vec<u8>)> {
    let mut response = match agent.get(url.as_str()).call() {
        Ok(response) => response,
        Err(error) => {
            permit.failed(fault(&error));
            return Err(error.into());
        }
    };
    permit.observe(response.status(), response.headers());
    let location =
        response.headers().get("location").and_then(|value| value.to_str().ok()).map(str::to_owned);
    let body = response.body_mut().read_to_vec()?;
    permit.finish();
    Ok((response.status().as_u16(), location, body))
}

/// What the breaker should know: a host that cannot be reached is left alone for a while.
fn fault(error: &ureq::Error) -> Failure {
    match error {
        ureq::Error::HostNotFound => Failure::Dns,
        ureq::Error::Timeout(_) => Failure::Timeout,
        ureq::Error::ConnectionFailed => Failure::Refused,
        _ => Failure::Other,
    }
}
