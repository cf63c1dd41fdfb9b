//! robots.txt through reqwest: a clone of the inner client, so the same proxy, TLS and resolver, and never the middleware
//! chain, which would wait for itself.

use std::error::Error as _;
use std::sync::Arc;

use http::header::{self, HeaderMap, HeaderValue};
use http_body_util::BodyExt;

use abide_gate::robots_cache::{Fetch, FetchError, RobotsRequest, RobotsResponse, on_the_wire};
use abide_gate::{AddressGuard, BoxFuture, Clock, Failure, SystemClock};

use crate::failure;
use abide_http::same_resource;

/// One robots.txt request a call, through a reqwest client that neither follows redirects nor decodes bodies.
#[derive(Debug)]
pub(crate) struct ReqwestFetch {
    client: reqwest::Client,
    own_headers: HeaderMap,
    addresses: Arc<AddressGuard>,
}

impl ReqwestFetch {
    pub(crate) fn new(
        client: reqwest::Client,
        user_agent: HeaderValue,
        addresses: Arc<AddressGuard>,
    ) -> Self {
        let mut own_headers = silencing_headers(&client);
        own_headers.insert(header::USER_AGENT, user_agent);
        Self { client, own_headers, addresses }
    }

    async fn send(&self, request: &RobotsRequest) -> Result<RobotsResponse, FetchError> {
        let started = SystemClock.now();
        let mut headers = self.own_headers.clone();
        headers.extend(request.headers());
        let sent = self.client.get(request.url().clone()).headers(headers).timeout(request.budget());
        let response = sent.send().await.map_err(classify)?;
        if !same_resource(response.url(), request.url()) {
            let text = "the inner client follows redirects by itself; build it with redirect::Policy::none()";
            return Err(FetchError::new(Failure::Other, text));
        }
        let response = http::Response::<reqwest::Body>::from(response);
        let (parts, body) = response.into_parts();
        let body = body.map_err(classify).boxed_unsync();
        Ok(RobotsResponse::new(parts.status, parts.headers, body, started))
    }
}

impl Fetch for ReqwestFetch {
    fn fetch(&self, request: RobotsRequest) -> BoxFuture<'_, Result<RobotsResponse, FetchError>> {
        Box::pin(async move {
            if let Err(refused) = self.addresses.check_url(request.url()) {
                return Err(FetchError::new(refused, refused.to_string()));
            }
            on_the_wire(request.budget(), self.send(&request)).await
        })
    }
}

/// Fields that keep the client's own cookies and credentials off robots.txt (RFC 9309 says nothing of them, and the rules
/// must be those that every crawler sees).
///
/// In reqwest an own field wins over a default one and over the cookie jar, and nothing can be removed, so the value is
/// empty. It is sent only when the client's `Debug` text names what must be silenced; a test pins that text.
fn silencing_headers(client: &reqwest::Client) -> HeaderMap {
    let text = format!("{client:?}").to_ascii_lowercase();
    let unknown = !text.contains("default_headers");
    let mut headers = HeaderMap::new();
    for (name, marks) in [
        (header::COOKIE, &["cookie_store", "\"cookie\""][..]),
        (header::AUTHORIZATION, &["\"authorization\""]),
        (header::PROXY_AUTHORIZATION, &["\"proxy-authorization\""]),
    ] {
        if unknown || marks.iter().any(|mark| text.contains(mark)) {
            headers.insert(name, HeaderValue::from_static(""));
        }
    }
    headers
}

/// What a reqwest error was. Its text loses the URL, which may hold secrets.
fn classify(error: reqwest::Error) -> FetchError {
    let failure = failure::of_reqwest(&error).unwrap_or(Failure::Other);
    let error = error.without_url();
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = cause.to_string();
        source = cause.source();
    }
    FetchError::new(failure, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_client_needs_no_silencing() {
        assert!(silencing_headers(&reqwest::Client::new()).is_empty());
    }

    #[test]
    fn default_credentials_are_overridden_by_empty_fields() {
        let mut defaults = HeaderMap::new();
        defaults.insert(header::AUTHORIZATION, HeaderValue::from_static("Bearer secret"));
        defaults.insert(header::COOKIE, HeaderValue::from_static("session=secret"));
        let client = reqwest::Client::builder().default_headers(defaults).build().unwrap();
        let headers = silencing_headers(&client);
        assert_eq!(headers.get(header::AUTHORIZATION).unwrap(), "");
        assert_eq!(headers.get(header::COOKIE).unwrap(), "");
    }
}
