//! The content codings that reqwest would take off, asked for and taken off here.
//!
//! reqwest 0.13 takes them off whatever header fields a request has, and drops what follows the first gzip member. For robots.txt that
//! would hide rules, and both kinds of requests go through one client. So its decoding is switched off, and pages are decoded here, with
//! the same fields for those above.

use http::HeaderValue;
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH};
use reqwest::{ClientBuilder, Request, Response};

use abide_gate::Coding;

use crate::send::rebuilt;

/// The codings of one client.
#[derive(Clone, Debug, Default)]
pub(crate) struct Codings {
    on: Vec<Coding>,
    /// What asks for them. Nothing if the client's `default_headers` do.
    asks: Option<HeaderValue>,
}

/// By their names in reqwest and in HTTP, as reqwest asks for them.
const KNOWN: [(&str, &str, Coding); 4] = [
    ("zstd: true", "zstd", Coding::Zstd),
    ("gzip: true", "gzip", Coding::Gzip),
    ("deflate: true", "deflate", Coding::Deflate),
    ("brotli: true", "br", Coding::Brotli),
];

impl Codings {
    /// Switches the decoding of `inner` off, to do it here.
    ///
    /// Only the `Debug` text of the builder says what was on: reqwest's builder has no getters. A test pins it.
    pub(crate) fn taken_over(inner: ClientBuilder) -> (Self, ClientBuilder) {
        let text = format!("{inner:?}");
        let accepts = text.split_once("accepts: Accepts").and_then(|(_, rest)| rest.strip_prefix(" {"));
        let accepts = accepts.and_then(|fields| fields.split('}').next());
        let on = KNOWN.into_iter().filter(|(debug, ..)| accepts.is_some_and(|text| text.contains(debug)));
        let (names, on): (Vec<_>, Vec<_>) = on.map(|(_, name, coding)| (name, coding)).unzip();
        let asked_by_default = text.contains("\"accept-encoding\": ");
        let asks = (!on.is_empty() && !asked_by_default).then(|| HeaderValue::from_str(&names.join(",")));
        let codings = Self { on, asks: asks.and_then(Result::ok) };
        (codings, inner.no_gzip().no_deflate().no_brotli().no_zstd())
    }

    /// Asks for them, unless the request says what it wants.
    pub(crate) fn ask(&self, request: &mut Request) {
        if let Some(asks) = &self.asks {
            request.headers_mut().entry(ACCEPT_ENCODING).or_insert_with(|| asks.clone());
        }
    }

    /// The response with its coding taken off, and without the fields that were about the coded body.
    pub(crate) fn taken_off(&self, response: Response) -> Response {
        let coding = match Coding::of(response.headers()) {
            Ok(Some(coding)) if self.on.contains(&coding) => coding,
            _ => return response,
        };
        let url = response.url().clone();
        let (mut parts, body) = http::Response::<reqwest::Body>::from(response).into_parts();
        parts.headers.remove(CONTENT_ENCODING);
        parts.headers.remove(CONTENT_LENGTH);
        Response::from(rebuilt(url, parts, reqwest::Body::wrap(coding.taken_off(body))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_builder_without_codings_asks_for_none() {
        // With all of them off, or without the features: in each the text is another one. `tests/it/pages.rs` has those that are on.
        let inner = reqwest::Client::builder().no_gzip().no_deflate().no_brotli().no_zstd();
        let (codings, _) = Codings::taken_over(inner.user_agent("accepts: Accepts { gzip: true }"));
        assert!(codings.on.is_empty() && codings.asks.is_none(), "{codings:?}");
    }
}
