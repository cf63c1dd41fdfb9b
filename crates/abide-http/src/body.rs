//! The body of a response on its way to the caller: what was read ahead is replayed, then the rest, byte for
//! byte.
//!
//! It holds the permit of its request until the wire is done with it, ends when the server is silent for too
//! long, and shows what passes to a lazy scan of the head. One type, so that the length, the errors and the
//! end of a body are counted in one place.

use std::collections::VecDeque;
use std::error::Error;
use std::fmt;
use std::future::poll_fn;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::Version;
use http_body::{Body, Frame, SizeHint};
use tokio::sync::watch;
use tokio::time::timeout;

use abide_gate::Failure;
use abide_gate::pacing::Permit;
use abide_permissions::Head;

use crate::failure::body_failure_of;
use crate::read_timeout::ReadTimeout;
use crate::reader::HeadReader;

/// Any error that can cross threads.
pub type BoxError = Box<dyn Error + Send + Sync>;
pub(crate) type FrameResult = Result<Frame<Bytes>, BoxError>;

/// The body of a response and its permit. It replays what was read ahead, small frames joined, byte for byte,
/// with length, trailers and errors.
///
/// The permit ends when the body has ended (trailers, the end of the stream, or known to be empty), fails or
/// is dropped: the host's delay counts from then. In HTTP/1.x a body also ends at its stated length.
///
/// ```
/// let page = http_body_util::Full::from("<title>A</title>");
/// let body = abide_http::ResponseBody::new(page, http::Version::HTTP_11, None);
/// assert_eq!(http_body::Body::size_hint(&body).exact(), Some(16));
/// ```
pub struct ResponseBody<B> {
    replay: VecDeque<FrameResult>,
    /// Dropped when it has ended, or when it has failed, which closes the connection; then how much was left
    /// of it, which its length counts.
    wire: Result<B, SizeHint>,
    permit: Option<Permit>,
    ends_with_its_length: bool,
    read_timeout: ReadTimeout,
    lazy: Option<Box<LazyScan>>,
}

impl<B: Body<Data = Bytes, Error: Into<BoxError>> + Unpin> ResponseBody<B> {
    /// A body that is still unread, of a response of this HTTP version, with the permit of its request, or
    /// `None` if another middleware has it.
    pub fn new(wire: B, version: Version, permit: Option<Permit>) -> Self {
        let mut body = Self {
            replay: VecDeque::new(),
            wire: Ok(wire),
            permit,
            // RFC 9112 §6.3: a message with a length ends there, also if the client does not say so, as
            // reqwest, which may have a decoder in between. RFC 9113 §8.1: a stream ends with END_STREAM,
            // which may come later than the last byte, and the server counts the stream until then.
            ends_with_its_length: version <= Version::HTTP_11,
            read_timeout: ReadTimeout::new(None),
            lazy: None,
        };
        body.end_permit();
        body
    }

    /// Makes the body fail, and its permit end, if the server sends nothing for `limit` while the body is
    /// read.
    #[must_use]
    pub fn with_read_timeout(self, limit: Option<Duration>) -> Self {
        Self { read_timeout: ReadTimeout::new(limit), ..self }
    }

    /// Reads until the head has ended (or a limit, the end, an error), and keeps everything for the reader.
    ///
    /// An error met here is replayed at its place. A server that drips its head is waited for no longer than
    /// [`SCAN_TIME_MAX`].
    pub(crate) async fn read_head(&mut self, mut head: HeadReader) -> Head {
        let reading = async {
            let mut is_done = false;
            while !is_done {
                let frame = poll_fn(|context| self.poll_wire(context)).await;
                is_done = head.take(frame.as_ref(), self.wire_hint().lower());
                if let Some(frame) = frame {
                    self.keep(frame);
                }
            }
        };
        _ = timeout(SCAN_TIME_MAX, reading).await;
        head.finish()
    }

    /// Takes what has arrived already, up to a limit, without waiting: a small page whose last byte is here
    /// has ended on the wire, and its host's permit with it, also if the caller reads it later.
    pub(crate) async fn take_what_is_here(&mut self) {
        let mut taken = 0_usize;
        let mut is_patient = true;
        while self.wire.is_ok() && taken < AHEAD_MAX {
            let Poll::Ready(frame) = poll_fn(|context| Poll::Ready(self.poll_wire(context))).await else {
                // Where the length says that nothing more comes, only the end is to be waited for, and that
                // is the reader's to do.
                if !is_patient || self.is_wire_over() {
                    return;
                }
                // The connection's own task hands over one frame at a time, the end too: let it run once.
                is_patient = false;
                tokio::task::yield_now().await;
                continue;
            };
            let Some(frame) = frame else { return };
            let len = frame.as_ref().ok().and_then(Frame::data_ref).map_or(0, Bytes::len);
            taken = taken.saturating_add(len);
            self.keep(frame);
        }
    }

    /// The first `len` bytes of the body, or what of them is at hand. With `reads_on` they are waited for, up
    /// to [`SCAN_TIME_MAX`]. They are replayed.
    pub(crate) async fn start(&mut self, len: usize, reads_on: bool) -> Vec<u8> {
        let mut read = self.replayed();
        let reading = async {
            while reads_on && read < len {
                let Some(frame) = poll_fn(|context| self.poll_wire(context)).await else { return };
                read =
                    read.saturating_add(frame.as_ref().ok().and_then(Frame::data_ref).map_or(0, Bytes::len));
                self.keep(frame);
            }
        };
        _ = timeout(SCAN_TIME_MAX, reading).await;
        let mut start = Vec::with_capacity(read.min(len));
        for data in self.replay.iter().filter_map(|frame| frame.as_ref().ok()?.data_ref()) {
            let room = len.saturating_sub(start.len());
            start.extend_from_slice(data.get(..room).unwrap_or(data));
        }
        start
    }

    fn replayed(&self) -> usize {
        let frames = self.replay.iter().filter_map(|frame| frame.as_ref().ok()?.data_ref());
        frames.map(Bytes::len).fold(0, usize::saturating_add)
    }

    /// For the reader. A server chooses the size of its frames, so small ones are joined: what is read ahead
    /// costs memory by its bytes alone.
    fn keep(&mut self, frame: FrameResult) {
        if !self.replay.back_mut().is_some_and(|last| has_joined(last, &frame)) {
            self.replay.push_back(frame);
        }
    }

    fn poll_wire(&mut self, context: &mut Context<'_>) -> Poll<Option<FrameResult>> {
        let Ok(wire) = &mut self.wire else { return Poll::Ready(None) };
        let mut polled = Pin::new(wire).poll_frame(context).map_err(Into::into);
        if polled.is_ready() {
            self.read_timeout.end();
        } else {
            polled = self.read_timeout.poll(context).map(|error| Some(Err(error.into())));
        }
        if let Poll::Ready(frame) = &polled {
            self.observe(frame.as_ref());
        }
        polled
    }

    /// What a frame of the wire means for the permit, and for the lazy scan if there is one.
    fn observe(&mut self, frame: Option<&FrameResult>) {
        match frame {
            Some(Ok(frame)) if frame.is_trailers() => self.permit = None,
            Some(Ok(_)) => self.end_permit(),
            ended => {
                if let (Some(Err(error)), Some(permit)) = (ended, &self.permit)
                    && body_failure_of(&**error) == Failure::EnhanceYourCalm
                {
                    // RFC 9113 §7: it backs the host off, as it does in place of a response. A shared store
                    // is not awaited here: no other process sends before it has the lease of the host, and
                    // the backoff goes along with that.
                    permit.failed(Failure::EnhanceYourCalm);
                }
                self.wire = Err(self.wire_hint());
                self.permit = None;
            }
        }
        let missing = self.wire_hint().lower();
        // Its drop sends the result.
        self.lazy.take_if(|scan| scan.head.as_mut().is_none_or(|head| head.take(frame, missing)));
    }

    fn end_permit(&mut self) {
        if self.is_wire_over() || self.ends_with_its_length && self.wire_hint().exact() == Some(0) {
            self.permit = None;
        }
    }

    fn is_wire_over(&self) -> bool {
        self.wire.as_ref().map_or(true, B::is_end_stream)
    }

    fn wire_hint(&self) -> SizeHint {
        self.wire.as_ref().map_or_else(|left| *left, B::size_hint)
    }

    /// Scans while the caller reads; the result is sent when the head has ended or the body is dropped.
    pub(crate) fn scan_lazily(&mut self, head: HeadReader) -> watch::Receiver<Option<Head>> {
        let (result, later) = watch::channel(None);
        self.lazy = Some(Box::new(LazyScan { head: Some(head), result }));
        later
    }
}

impl<B: Body<Data = Bytes, Error: Into<BoxError>> + Unpin> Body for ResponseBody<B> {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<FrameResult>> {
        if let Some(frame) = self.replay.pop_front() {
            return Poll::Ready(Some(frame));
        }
        self.poll_wire(context)
    }

    fn is_end_stream(&self) -> bool {
        self.replay.is_empty() && self.is_wire_over()
    }

    fn size_hint(&self) -> SizeHint {
        let replayed = u64::try_from(self.replayed()).unwrap_or(u64::MAX);
        let mut hint = self.wire_hint();
        if let Some(upper) = hint.upper().and_then(|upper| upper.checked_add(replayed)) {
            hint.set_upper(upper);
        }
        hint.set_lower(hint.lower().saturating_add(replayed));
        hint
    }
}

/// Nothing of it is pinned but the wire body, which does not mind.
impl<B: Unpin> Unpin for ResponseBody<B> {}

impl<B: fmt::Debug> fmt::Debug for ResponseBody<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseBody")
            .field("ahead", &self.replay.len())
            .field("wire", &self.wire)
            .finish_non_exhaustive()
    }
}

/// Whether `next` has become part of `last`: both are data, and together no more than a common frame.
fn has_joined(last: &mut FrameResult, next: &FrameResult) -> bool {
    let (Ok(last), Ok(next)) = (last, next) else { return false };
    let (Some(last), Some(next)) = (last.data_mut(), next.data_ref()) else { return false };
    if last.len().saturating_add(next.len()) > JOINED_MAX {
        return false;
    }
    // What was joined before is ours alone and grows in place; the client's own buffer is copied once.
    let mut joined = mem::take(last).try_into_mut().unwrap_or_else(|shared| {
        let mut joined = BytesMut::with_capacity(JOINED_MAX);
        joined.extend_from_slice(&shared);
        joined
    });
    joined.extend_from_slice(next);
    *last = joined.freeze();
    true
}

/// Frames read ahead are joined up to this size, so two neighbours are always more than it.
const JOINED_MAX: usize = 4 * 1024;

/// A head that comes more slowly than this is left to the reader of the body.
const SCAN_TIME_MAX: Duration = Duration::from_secs(10);

/// So much of a body is taken ahead of its reader when it is there already.
const AHEAD_MAX: usize = 16 * 1024;

/// A scan that happens while the body passes. Its end, by whatever cause, sends what was found.
#[derive(Debug)]
struct LazyScan {
    head: Option<HeadReader>,
    result: watch::Sender<Option<Head>>,
}

impl Drop for LazyScan {
    fn drop(&mut self) {
        if let Some(head) = self.head.take() {
            self.result.send_replace(Some(head.finish()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    use http_body_util::{BodyExt, StreamBody};

    use crate::reader::tests::head_reader;

    /// Reads the head of a page that comes in frames of these sizes.
    async fn read(
        page: &[u8],
        mut sizes: impl Iterator<Item = usize>,
    ) -> ResponseBody<impl Body<Data = Bytes, Error = Infallible> + Unpin> {
        let mut rest = Bytes::copy_from_slice(page);
        let mut frames = Vec::new();
        while !rest.is_empty() {
            let size = sizes.next().unwrap().min(rest.len());
            frames.push(Ok(Frame::data(rest.split_to(size))));
        }
        // Not to be polled after its end, or it panics.
        let frames = futures_util::stream::unfold(frames.into_iter(), async |mut frames| {
            Some((frames.next()?, frames))
        });
        let wire = StreamBody::new(Box::pin(frames));
        let mut body = ResponseBody::new(wire, Version::HTTP_11, None);
        drop(body.read_head(head_reader()).await);
        body.take_what_is_here().await;
        body
    }

    #[tokio::test]
    async fn a_head_in_small_frames_is_kept_in_few_unchanged() {
        let page: Vec<u8> = (0..100_000_usize).map(|at| b"<head><style>/* abcdefgh */"[at % 27]).collect();
        let sizes: [(&str, &'static [usize]); 4] = [
            ("one byte each", &[1]),
            ("none and one", &[0, 1]),
            ("small and large", &[1, JOINED_MAX, 0, JOINED_MAX - 1]),
            ("odd", &[7, 1000, 3, 4095]),
        ];
        for (what, sizes) in sizes {
            let body = read(&page, sizes.iter().copied().cycle()).await;
            assert!(body.replay.len() <= 2 * page.len() / JOINED_MAX + 2, "{what}: {}", body.replay.len());
            assert_eq!(body.size_hint().lower(), page.len() as u64, "{what}");
            assert_eq!(body.collect().await.unwrap().to_bytes(), page, "{what}");
        }
    }

    #[tokio::test]
    async fn frames_of_a_common_size_are_not_copied() {
        let page = vec![b'a'; 64 * 1024];
        let mut body = read(&page, std::iter::repeat(8 * 1024)).await;
        let frame = body.frame().await.unwrap().unwrap();
        assert_eq!(frame.into_data().unwrap().len(), 8 * 1024);
    }
}
