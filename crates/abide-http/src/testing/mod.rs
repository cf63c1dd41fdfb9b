//! For tests: the suite that every adapter passes.
//!
//! An adapter is what makes a [`Crawler`](crate::Crawler) of an HTTP client: a
//! [`Transport`](crate::Transport) that [`drive`](crate::drive) drives, or a driver of your own. The steps of
//! a call see to their order, but not to what is between them: that the client does not follow redirects by
//! itself, that failures are reported, that a permit lives as long as the body.

#![allow(clippy::disallowed_methods, reason = "a test is the world outside")]
#![allow(clippy::restriction, reason = "a suite fails by panicking")]
#![allow(clippy::arithmetic_side_effects, reason = "a suite fails by panicking")]

mod site;

use std::future::Future;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use abide_gate::pacing::{DeferReason, PacePolicy};
use abide_gate::{Denied, DeniedKind, Gate, GateBuilder};
use abide_permissions::Permissions;
use bytes::Bytes;
use http::header::{AUTHORIZATION, COOKIE};
use http::{HeaderMap, HeaderValue, Response};
use http_body::Body;
use http_body_util::BodyExt;
use url::Url;

use crate::body::BoxError;
use crate::fetch_info::FetchInfo;
use site::{HEAD, PAGE, Site};

/// A client with an adapter, as its users have it.
///
/// Redirects are followed: by the adapter, or by something above it.
pub trait Adapter: Send + Sync + 'static {
    /// The body of a response.
    type Body: Body<Data = Bytes, Error: Into<BoxError>> + Send + Unpin;

    /// Sends a GET. In an error, [`Denied::find`] finds the refusal, if it is one. A response has its
    /// [`FetchInfo`].
    fn get(
        &self,
        url: Url,
        headers: HeaderMap,
    ) -> impl Future<Output = Result<Response<Self::Body>, BoxError>> + Send;
}

/// So much is between two requests to a host.
const DELAY: Duration = Duration::from_millis(100);

/// Checks an adapter against all that its users rely on. `make` builds a client with these settings of the
/// gate and the product token `ExampleBot`, once for each promise.
///
/// It needs two ports of 127.0.0.1 and the name `localhost`, and takes some seconds of real time, in which it
/// only waits for what must come: it does not depend on how busy the machine is.
///
/// ```no_run
/// # use abide_http::{BoxError, testing::Adapter};
/// # struct Client;
/// # impl Adapter for Client {
/// #     type Body = http_body_util::Full<bytes::Bytes>;
/// #     async fn get(&self, _: url::Url, _: http::HeaderMap) -> Result<http::Response<Self::Body>, BoxError> { Err("".into()) }
/// # }
/// # fn client(_: abide_gate::GateBuilder) -> Client { Client }
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// abide_http::testing::conformance(|gate| client(gate)).await;
/// # }
/// ```
///
/// # Panics
/// At the first promise that is not kept, with its sentence.
pub async fn conformance<A: Adapter>(make: impl Fn(GateBuilder) -> A) {
    robots_txt_is_requested_first_and_by_name(&make).await;
    a_disallowed_url_is_never_requested(&make).await;
    every_redirect_is_checked(&make).await;
    credentials_stay_within_their_origin(&make).await;
    the_delay_begins_with_the_end_of_the_body(&make).await;
    a_dropped_body_ends_its_permit(&make).await;
    an_open_body_keeps_its_host(&make).await;
    a_429_is_the_callers_and_backs_its_host_off(&make).await;
    failed_requests_are_reported(&make).await;
    permissions_are_those_of_the_last_hop(&make).await;
    a_name_reaches_no_address_that_is_not_permitted(&make).await;
}

/// Requests to this address only, with the delay of the suite.
fn gate(site: &Site) -> GateBuilder {
    let pace = PacePolicy::default().danger_min_delay(DELAY);
    Gate::builder().pace(pace).allow_net(site.address().ip().into())
}

async fn get<A: Adapter>(client: &A, url: Url) -> Response<A::Body> {
    let shown = url.to_string();
    let page = client.get(url, HeaderMap::new()).await;
    page.unwrap_or_else(|error| panic!("{shown}: expected a response, found the error: {error:?}"))
}

async fn refused<A: Adapter>(client: &A, url: Url, promise: &str) -> Denied {
    match client.get(url, HeaderMap::new()).await {
        Ok(page) => panic!("{promise}: expected a refusal, found a response with status {}", page.status()),
        Err(error) => Denied::find(&*error)
            .unwrap_or_else(|| panic!("{promise}: expected a refusal, found another error: {error:?}")),
    }
}

async fn whole<B: Body<Data = Bytes, Error: Into<BoxError>>>(page: Response<B>) -> Bytes {
    page.into_body().collect().await.map_err(Into::into).expect("the body is read to its end").to_bytes()
}

async fn robots_txt_is_requested_first_and_by_name<A: Adapter>(make: &impl Fn(GateBuilder) -> A) {
    let site = Site::start().await;
    let client = make(gate(&site));
    let page = get(&client, site.url("/page")).await;
    let info = FetchInfo::of(page.extensions()).expect("a response has its FetchInfo");
    assert!(info.verdict().is_some_and(|verdict| verdict.is_allowed()), "the FetchInfo has the verdict");
    assert_eq!(whole(page).await, PAGE, "the body is whole, the head that was read for permissions included");
    assert_eq!(site.asked(), ["/robots.txt", "/page"], "robots.txt is requested before the page");
    for seen in site.log() {
        let agent = seen.header("user-agent").unwrap_or_default();
        assert!(agent.contains("ExampleBot"), "the User-Agent has the product token: {agent:?}");
    }
}

async fn a_disallowed_url_is_never_requested<A: Adapter>(make: &impl Fn(GateBuilder) -> A) {
    let site = Site::start().await;
    let denied =
        refused(&make(gate(&site)), site.url("/secret"), "what robots.txt disallows is refused").await;
    assert!(denied.is_disallowed(), "the refusal says why: {denied}");
    assert_eq!(site.asked(), ["/robots.txt"], "what robots.txt disallows is not requested");
}

async fn every_redirect_is_checked<A: Adapter>(make: &impl Fn(GateBuilder) -> A) {
    let site = Site::start().await;
    let client = make(gate(&site));
    let denied = refused(&client, site.url("/to-secret"), "a redirect to a disallowed URL is refused").await;
    assert!(denied.is_disallowed(), "the refusal says why: {denied}");
    assert_eq!(site.asked(), ["/robots.txt", "/to-secret"], "the target of the redirect is not requested");
    whole(get(&client, site.url("/to-other")).await).await;
    let (asked, other) = (site.asked(), ["other: /robots.txt", "other: /page"]);
    assert_eq!(asked[3..], other, "another origin has its own robots.txt, which is requested first");
}

async fn credentials_stay_within_their_origin<A: Adapter>(make: &impl Fn(GateBuilder) -> A) {
    let site = Site::start().await;
    let client = make(gate(&site));
    let secret = HeaderValue::from_static("s3cret");
    let headers = HeaderMap::from_iter([(AUTHORIZATION, secret.clone()), (COOKIE, secret)]);
    for path in ["/to-page", "/to-other"] {
        let page = client.get(site.url(path), headers.clone()).await;
        whole(page.unwrap_or_else(|error| panic!("{path}: {error:?}"))).await;
    }
    for seen in site.log() {
        let is_page_here = !seen.is_other && seen.path != "/robots.txt";
        let found = seen.header("authorization").or(seen.header("cookie")).is_some();
        assert_eq!(found, is_page_here, "credentials go to pages of the origin alone: {}", seen.shown());
    }
}

async fn the_delay_begins_with_the_end_of_the_body<A: Adapter>(make: &impl Fn(GateBuilder) -> A) {
    let site = Site::start().await;
    let client = make(gate(&site));
    whole(get(&client, site.url("/slow")).await).await;
    whole(get(&client, site.url("/page")).await).await;
    for pair in site.log().windows(2) {
        let [before, after] = pair else { continue };
        let gap = after.began.saturating_duration_since(before.ended.expect("its body has ended"));
        assert!(gap >= DELAY, "{gap:?} from the end of {} to {}", before.shown(), after.shown());
    }
}

async fn a_dropped_body_ends_its_permit<A: Adapter>(make: &impl Fn(GateBuilder) -> A) {
    let site = Site::start().await;
    let client = make(gate(&site));
    drop(get(&client, site.url("/endless")).await);
    whole(get(&client, site.url("/page")).await).await;
}

async fn an_open_body_keeps_its_host<A: Adapter>(make: &impl Fn(GateBuilder) -> A) {
    let site = Site::start().await;
    let client = make(gate(&site));
    let open = get(&client, site.url("/endless")).await;
    {
        let mut waiting = pin!(client.get(site.url("/dropped"), HeaderMap::new()));
        let is_waiting =
            std::future::poll_fn(|context| Poll::Ready(waiting.as_mut().poll(context).is_pending()));
        assert!(is_waiting.await, "a request waits while a body of its host is open");
        tokio::time::sleep(3 * DELAY).await;
        let is_waiting =
            std::future::poll_fn(|context| Poll::Ready(waiting.as_mut().poll(context).is_pending()));
        assert!(is_waiting.await, "a request waits while a body of its host is open");
    }
    drop(open);
    whole(get(&client, site.url("/page")).await).await;
    let asked = site.asked();
    assert_eq!(
        asked,
        ["/robots.txt", "/endless", "/page"],
        "a call that is dropped while it waits sends nothing"
    );
}

async fn a_429_is_the_callers_and_backs_its_host_off<A: Adapter>(make: &impl Fn(GateBuilder) -> A) {
    let site = Site::start().await;
    let client = make(gate(&site));
    let busy = get(&client, site.url("/busy")).await;
    assert_eq!(busy.status(), 429, "the response reaches the caller");
    drop(busy);
    let denied = refused(&client, site.url("/page"), "a 429 backs its host off").await;
    let is_backoff = matches!(denied.kind(), DeniedKind::Deferred { reason: DeferReason::Backoff { .. } });
    assert!(is_backoff, "a host is backed off by its response: {denied}");
    assert_eq!(site.asked(), ["/robots.txt", "/busy"], "nothing is sent during a backoff");
}

async fn failed_requests_are_reported<A: Adapter>(make: &impl Fn(GateBuilder) -> A) {
    let site = Site::start().await;
    let client = make(gate(&site));
    for _ in 0..FAILURES {
        let error = client.get(site.url("/cut"), HeaderMap::new()).await.map(|page| page.status());
        let error = error.expect_err("a connection that is closed without a response is an error");
        assert!(
            Denied::find(&*error).is_none(),
            "the error of a failed request is the client's own: {error:?}"
        );
    }
    let denied = refused(&client, site.url("/page"), "a host whose requests fail is left alone").await;
    let is_open = matches!(denied.kind(), DeniedKind::Deferred { reason: DeferReason::Breaker { .. } });
    assert!(is_open, "after {FAILURES} failed requests nothing is sent for a while: {denied}");
    assert_eq!(site.asked().len(), 1 + FAILURES, "each request is sent once");
}

/// So many in a row open the breaker.
const FAILURES: usize = 5;

async fn permissions_are_those_of_the_last_hop<A: Adapter>(make: &impl Fn(GateBuilder) -> A) {
    let site = Site::start().await;
    let page = get(&make(gate(&site)), site.url("/to-page")).await;
    let permissions: Permissions = FetchInfo::of(page.extensions()).expect("a FetchInfo").settled().await;
    let rules = permissions.rules();
    assert!(rules.nofollow(), "the head of the page is read for permissions: {HEAD}");
    assert!(!rules.noindex(), "what a redirect says about itself does not hold for its target");
}

async fn a_name_reaches_no_address_that_is_not_permitted<A: Adapter>(make: &impl Fn(GateBuilder) -> A) {
    let site = Site::start().await;
    let client = make(Gate::builder());
    let url = format!("http://localhost:{}/page", site.address().port()).parse().expect("it is a URL");
    refused(&client, url, "a name that leads to a private address is refused").await;
    assert_eq!(site.connections(), 0, "no connection is made to an address that is not permitted");
}
