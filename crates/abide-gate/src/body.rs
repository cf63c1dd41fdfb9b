//! A response body that holds its host's turn until the wire is done with it.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use crate::pacing::Permit;

/// A body with the permit of its request.
///
/// The permit is given back when the body has ended (last frame, trailers or known to be empty), when it fails, and when it
/// is dropped, at whatever byte: the host's gap counts from then.
#[derive(Debug)]
pub struct PermitBody<B> {
    body: B,
    permit: Option<Permit>,
}

impl<B: Body> PermitBody<B> {
    /// Ties `permit` to `body`. A body that is known to be empty gives it back at once.
    pub fn new(body: B, permit: Permit) -> Self {
        let permit = (!has_ended(&body)).then_some(permit);
        Self { body, permit }
    }

    /// The wire body has ended, so the next request to the host may be counted from now.
    pub fn has_ended(&self) -> bool {
        self.permit.is_none()
    }
}

/// Nothing more comes. A body behind a decoder often knows its length only, and not that it is at its end.
fn has_ended(body: &impl Body) -> bool {
    body.is_end_stream() || body.size_hint().exact() == Some(0)
}

impl<B> Body for PermitBody<B>
where
    B: Body<Data = Bytes> + Unpin,
{
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        let ended = match &polled {
            Poll::Pending => false,
            Poll::Ready(Some(Ok(frame))) => frame.is_trailers() || has_ended(&self.body),
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
