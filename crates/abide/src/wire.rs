//! The body of the wire, with its host's turn.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use abide_gate::PermitBody;
use abide_gate::pacing::Permit;

/// With a permit where this middleware paces, without one where another below it does.
#[derive(Debug)]
pub(crate) enum Wire {
    Paced(PermitBody<reqwest::Body>),
    Plain(reqwest::Body),
}

impl Wire {
    pub(crate) fn new(body: reqwest::Body, permit: Option<Permit>) -> Self {
        match permit {
            Some(permit) => Self::Paced(PermitBody::new(body, permit)),
            None => Self::Plain(body),
        }
    }
}

impl Body for Wire {
    type Data = Bytes;
    type Error = reqwest::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, reqwest::Error>>> {
        match &mut *self {
            Self::Paced(body) => Pin::new(body).poll_frame(context),
            Self::Plain(body) => Pin::new(body).poll_frame(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Paced(body) => body.is_end_stream(),
            Self::Plain(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Paced(body) => body.size_hint(),
            Self::Plain(body) => body.size_hint(),
        }
    }
}
