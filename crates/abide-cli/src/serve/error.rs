//! Errors of a call, as clients get them: a code for programs, and a sentence for people.
//!
//! A refusal of a URL is no error: it is an answer with status 200.

use http::{HeaderValue, StatusCode, header};
use schemars::JsonSchema;
use serde::Serialize;

use super::Reply;

/// Why a call has no answer.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct CallError {
    /// One of a fixed list, in `docs/any-language.md`.
    pub(crate) code: &'static str,
    /// One sentence.
    error: String,
    #[serde(skip)]
    status: StatusCode,
    /// A field that goes with the status.
    #[serde(skip)]
    field: Option<(header::HeaderName, HeaderValue)>,
}

impl CallError {
    fn new(status: StatusCode, code: &'static str, error: impl Into<String>) -> Self {
        Self { status, code, error: error.into(), field: None }
    }

    fn with(self, name: header::HeaderName, value: &'static str) -> Self {
        Self { field: Some((name, HeaderValue::from_static(value))), ..self }
    }

    pub(crate) fn bad_request(error: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad_request", error)
    }

    pub(crate) fn unknown_agent(error: String) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "unknown_agent", error)
    }

    pub(crate) fn unauthorized() -> Self {
        let error = "expected the server's token: Authorization: Bearer TOKEN";
        Self::new(StatusCode::UNAUTHORIZED, "unauthorized", error).with(header::WWW_AUTHENTICATE, "Bearer")
    }

    pub(crate) fn browser() -> Self {
        let error = "requests of browsers are refused: this one has an Origin field";
        Self::new(StatusCode::FORBIDDEN, "browser", error)
    }

    pub(crate) fn foreign_host(expected: &str) -> Self {
        let error = format!("expected the Host {expected}: another name may be a web page's");
        Self::new(StatusCode::FORBIDDEN, "foreign_host", error)
    }

    pub(crate) fn not_json() -> Self {
        let error = "expected Content-Type: application/json";
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "not_json", error)
    }

    pub(crate) fn not_found(path: &str) -> Self {
        let shown = crate::sanitize::cut(path);
        let error = format!("there is no {shown}; GET /v1/openapi.json lists the calls");
        Self::new(StatusCode::NOT_FOUND, "not_found", error)
    }

    pub(crate) fn method(allowed: &'static str) -> Self {
        let error = format!("expected the method {allowed}");
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "method", error).with(header::ALLOW, allowed)
    }

    pub(crate) fn unknown_permit() -> Self {
        let error = "the permit is not known: it has ended, by a finish or by its ttl";
        Self::new(StatusCode::NOT_FOUND, "unknown_permit", error)
    }

    pub(crate) fn unknown_host() -> Self {
        let error = "the host is not known: nothing was requested from it of late";
        Self::new(StatusCode::NOT_FOUND, "unknown_host", error)
    }

    pub(crate) fn too_large(max: usize) -> Self {
        let error = format!("the body of this call has at most {max} bytes");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", error)
    }

    pub(crate) fn body_timeout() -> Self {
        let error = "the body of the call did not arrive in time";
        Self::new(StatusCode::REQUEST_TIMEOUT, "timeout", error)
    }

    pub(crate) fn busy(error: String) -> Self {
        Self::new(StatusCode::TOO_MANY_REQUESTS, "busy", error).with(header::RETRY_AFTER, "1")
    }

    pub(crate) fn internal() -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "the call failed; this is a bug of abide")
    }

    pub(crate) fn reply(self) -> Reply {
        let mut reply = super::json_reply(self.status, &self);
        reply.headers_mut().extend(self.field);
        reply
    }
}
