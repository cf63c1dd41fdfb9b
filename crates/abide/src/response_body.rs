//! The body of the wire, with its host's permit.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::Version;
use http_body::{Body, Frame, SizeHint};

use abide_gate::Failure;
use abide_gate::pacing::Permit;
use abide_http::{PermitBody, body_failure_of};

use crate::read_timeout::ReadTimeout;

/// What has been taken of a body already, or the error that was there instead.
pub(crate) type Ahead = reqwest::Result<Bytes>;

/// A body, with what has been taken of it in front.
#[derive(Debug)]
pub(crate) struct ResponseBody {
    ahead: Option<Ahead>,
    /// Or how much was left of it when it failed, which its length counts.
    rest: Result<PermitBody<reqwest::Body>, SizeHint>,
    silence: ReadTimeout,
}

/// reqwest's own, or the silence of the server.
type BoxError = Box<dyn std::error::Error + Send + Sync>;

impl ResponseBody {
    pub(crate) fn new(
        ahead: Option<Ahead>,
        body: reqwest::Body,
        version: Version,
        permit: Option<Permit>,
    ) -> Self {
        // A body that has failed has ended, and its permit with it.
        let permit = permit.filter(|permit| match &ahead {
            Some(Err(error)) if body_failure_of(error) == Failure::EnhanceYourCalm => {
                permit.failed(Failure::EnhanceYourCalm);
                false
            }
            Some(Err(_)) => false,
            Some(Ok(_)) | None => true,
        });
        let rest = PermitBody::new(body, permit).with_version(version);
        Self { ahead, rest: Ok(rest), silence: ReadTimeout::within(None) }
    }

    /// Fails, and gives the permit back, when the server sends nothing for so long while the next byte is awaited.
    pub(crate) fn with_read_timeout(mut self, limit: Option<Duration>) -> Self {
        self.silence = ReadTimeout::within(limit);
        self
    }

    fn ahead_len(&self) -> u64 {
        match &self.ahead {
            Some(Ok(data)) => u64::try_from(data.len()).unwrap_or(u64::MAX),
            Some(Err(_)) | None => 0,
        }
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Some(ahead) = self.ahead.take() {
            return Poll::Ready(Some(ahead.map(Frame::data).map_err(BoxError::from)));
        }
        let Self { rest, silence, .. } = &mut *self;
        let Ok(body) = rest else { return Poll::Ready(None) };
        let polled = Pin::new(&mut *body).poll_frame(context);
        let is_pending = polled.is_pending();
        let frame = silence.check_frame(polled, context);
        if (is_pending && frame.is_ready()) || matches!(frame, Poll::Ready(Some(Err(_)))) {
            // Nothing more is awaited of this server: the connection is closed, and its permit is over.
            *rest = Err(body.size_hint());
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.ahead.is_none() && self.rest.as_ref().map_or(true, PermitBody::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        let mut hint = self.rest.as_ref().map_or_else(|left| *left, PermitBody::size_hint);
        let ahead = self.ahead_len();
        if let Some(upper) = hint.upper().and_then(|upper| upper.checked_add(ahead)) {
            hint.set_upper(upper);
        }
        hint.set_lower(hint.lower().saturating_add(ahead));
        hint
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use abide_gate::pacing::PacePolicy;
    use abide_gate::testing::{Ask, Pacer};
    use http_body_util::BodyExt;

    /// Breaks off before its first byte.
    struct Cut;

    impl Body for Cut {
        type Data = Bytes;
        type Error = std::io::Error;

        fn poll_frame(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
            Poll::Ready(Some(Err(std::io::ErrorKind::UnexpectedEof.into())))
        }

        fn size_hint(&self) -> SizeHint {
            SizeHint::with_exact(500)
        }
    }

    #[tokio::test]
    async fn a_body_that_failed_keeps_the_length_that_was_stated() {
        let mut body = ResponseBody::new(None, reqwest::Body::wrap(Cut), Version::HTTP_11, None);
        assert!(body.frame().await.unwrap().is_err());
        assert_eq!(body.size_hint().exact(), Some(500));
        assert!(body.is_end_stream() && body.frame().await.is_none());
    }

    #[tokio::test]
    async fn a_body_that_failed_before_anybody_read_it_gives_its_permit_back() {
        let policy = PacePolicy::default().danger_min_delay(std::time::Duration::ZERO);
        let pacer = Pacer::new(policy);
        let url = "http://a.example/".parse().unwrap();
        let permit = pacer.acquire(&url, Ask::new()).await.unwrap();
        let error = reqwest::Client::new().get("no URL").build().unwrap_err();
        let kept =
            ResponseBody::new(Some(Err(error)), reqwest::Body::from("rest"), Version::HTTP_11, Some(permit));
        let at_once = Ask::new().with_budget(std::time::Duration::ZERO);
        let next = pacer.acquire(&url, at_once).await;
        assert!(next.is_ok(), "the permit is free while the response is kept: {next:?}");
        drop(kept);
    }
}
