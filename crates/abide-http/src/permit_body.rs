//! A response body that holds its host's permit until the wire is done with it.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::Version;
use http_body::{Body, Frame, SizeHint};

use abide_gate::Failure;
use abide_gate::pacing::Permit;

use crate::failure::body_failure_of;

/// An error of a body, of whatever type.
type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A body with the permit of its request.
///
/// The permit is given back when the body has ended (trailers, the end of the stream, or known to be empty), when it fails, and when it
/// is dropped, at whatever byte: the host's gap counts from then. In HTTP/1.x a body also ends when the stated length has come; tell
/// it with [`with_version`](Self::with_version).
#[derive(Debug)]
pub struct PermitBody<B: Body> {
    body: B,
    permit: Option<Permit>,
    ends_with_its_length: bool,
}

impl<B: Body> PermitBody<B> {
    /// Ties `permit` to `body`: `None` where another middleware has it. A body that says that it is at its end gives it back at once.
    pub fn new(body: B, permit: Option<Permit>) -> Self {
        Self { body, permit, ends_with_its_length: false }.settled()
    }

    /// The version of the response. A body of HTTP/1.x whose length is known ends with its last byte, which some clients know although
    /// they do not know that it has ended: reqwest, which may have a decoder in between.
    #[must_use]
    pub fn with_version(mut self, version: Version) -> Self {
        // RFC 9112 §6.3: a message with a length ends there. RFC 9113 §8.1: a stream ends with END_STREAM, which may come later than
        // the last byte, and the server counts the stream until then.
        self.ends_with_its_length = version <= Version::HTTP_11;
        self.settled()
    }

    /// The wire body has ended, so the next request to the host may be counted from now.
    pub fn has_ended(&self) -> bool {
        self.permit.is_none()
    }

    /// Without the permit, if the body is at its end.
    fn settled(mut self) -> Self {
        self.permit = self.permit.take().filter(|_| !self.is_at_its_end());
        self
    }

    fn is_at_its_end(&self) -> bool {
        let has_its_length = || self.body.size_hint().exact() == Some(0);
        self.body.is_end_stream() || (self.ends_with_its_length && has_its_length())
    }
}

impl<B> Body for PermitBody<B>
where
    B: Body<Data = Bytes, Error: Into<BoxError>> + Unpin,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context).map_err(Into::into);
        if let (Poll::Ready(Some(Err(error))), Some(permit)) = (&polled, &self.permit)
            && body_failure_of(&**error) == Failure::EnhanceYourCalm
        {
            // RFC 9113 §7: it backs the host off, as it does in place of a response.
            permit.failed(Failure::EnhanceYourCalm);
        }
        let ended = match &polled {
            Poll::Pending => false,
            Poll::Ready(Some(Ok(frame))) => frame.is_trailers() || self.is_at_its_end(),
            Poll::Ready(None | Some(Err(_))) => true,
        };
        if ended {
            self.permit = None;
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
