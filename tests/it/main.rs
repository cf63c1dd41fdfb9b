//! Stories through the whole of abide, checked by the server's log. One file each.
#![allow(clippy::restriction, reason = "a test that cannot go on fails")]

mod adapters;
mod bad_input;
mod beside;
mod bodies;
mod defaults;
mod faults;
mod gatekeepers;
mod hops;
mod http2;
mod layered;
mod licensed;
mod link_checker;
mod observability;
mod pacing;
mod pages;
mod paid;
mod permissions;
mod preferences;
mod promises;
mod redirects;
mod refusals;
mod signed;
mod slow_down;
mod stacks;
mod supply;
mod verdicts;
mod wire;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use abide::pacing::PacePolicy;
use abide::{Abide, Builder, Denied};
use abide_tests::{Authority, Names, Reply, Seen, Server};
use reqwest_middleware::ClientWithMiddleware;
use reqwest_retry::RetryTransientMiddleware;
use reqwest_retry::policies::ExponentialBackoff;

/// Builds what a test has set up well.
trait Built {
    /// With so much between two requests to a host.
    fn delay(self, delay: Duration) -> Self;
    fn client(self) -> ClientWithMiddleware;
    fn parts(self) -> (Abide, reqwest::Client);
}

impl Built for Builder {
    fn delay(self, delay: Duration) -> Self {
        self.pace(PacePolicy::default().danger_min_delay(delay))
    }

    fn client(self) -> ClientWithMiddleware {
        self.build_client(reqwest::Client::builder()).expect("the settings are good")
    }

    fn parts(self) -> (Abide, reqwest::Client) {
        self.build_with(reqwest::Client::builder()).expect("the settings are good")
    }
}

/// The User-Agent of each crawler.
const AGENT: &str = "ExampleBot/1.0 (+https://example.com/bot)";

/// A crawler whose every name leads to `server`, and that asks hosts without delay.
fn builder(server: impl Into<SocketAddr>) -> Builder {
    slow_builder(server).delay(Duration::ZERO)
}

/// The same at the default pace.
fn slow_builder(server: impl Into<SocketAddr>) -> Builder {
    let address = server.into();
    let names = Arc::new(Names(address));
    Abide::builder("ExampleBot").user_agent(AGENT).resolver(names).allow_net(address.ip().into())
}

fn client(server: &Server) -> ClientWithMiddleware {
    builder(server).client()
}

/// A server over TLS with this name, and the authority that signed its certificate.
async fn secure(name: &str, answer: impl Fn(&Seen) -> Reply + Send + Sync + 'static) -> (Authority, Server) {
    let authority = Authority::new();
    let server = Server::start_tls(authority.acceptor(name), answer).await;
    (authority, server)
}

fn trusting(authority: &Authority) -> reqwest::ClientBuilder {
    let certificate = reqwest::Certificate::from_pem(authority.pem().as_bytes()).expect("it is PEM");
    reqwest::Client::builder().tls_certs_only([certificate])
}

/// The refusal of a request that must not succeed.
async fn refused(client: &ClientWithMiddleware, url: &str) -> Denied {
    let error = client.get(url).send().await.expect_err("the request is refused");
    Denied::find(&error).unwrap_or_else(|| panic!("{url} is refused by abide, not by {error:?}"))
}

fn chain<'e>(
    error: &'e (dyn std::error::Error + 'static),
) -> impl Iterator<Item = &'e (dyn std::error::Error + 'static)> {
    std::iter::successors(Some(error), |error| error.source())
}

/// Retries so often, at once.
fn retry(times: u32) -> RetryTransientMiddleware<ExponentialBackoff> {
    RetryTransientMiddleware::new_with_policy(back_off(times))
}

fn back_off(times: u32) -> ExponentialBackoff {
    let bounds =
        ExponentialBackoff::builder().retry_bounds(Duration::from_millis(1), Duration::from_millis(5));
    bounds.build_with_max_retries(times)
}

/// The status of a request that must succeed.
async fn status(client: &ClientWithMiddleware, url: &str) -> u16 {
    client.get(url).send().await.unwrap_or_else(|error| panic!("{url}: {error:?}")).status().as_u16()
}
