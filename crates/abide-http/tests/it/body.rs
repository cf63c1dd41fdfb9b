//! When a body gives its host's permit back: with its last byte, and not before.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use abide_gate::Gate;
use abide_gate::testing::hosts;
use abide_http::ResponseBody;
use bytes::Bytes;
use http::{HeaderMap, Version};
use http_body::{Body, Frame, SizeHint};
use http_body_util::{BodyExt, StreamBody};

/// States its end as the test sets it.
#[derive(Debug, Default)]
struct Script {
    frames: VecDeque<Result<Frame<Bytes>, &'static str>>,
    knows_its_end: bool,
    knows_its_length: bool,
}

impl Script {
    fn of(frames: impl IntoIterator<Item = Result<Frame<Bytes>, &'static str>>) -> Self {
        Self { frames: frames.into_iter().collect(), ..Self::default() }
    }

    fn len(&self) -> u64 {
        let frames = self.frames.iter().flatten().filter_map(Frame::data_ref);
        frames.map(|data| data.len() as u64).sum()
    }
}

impl Body for Script {
    type Data = Bytes;
    type Error = &'static str;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, &'static str>>> {
        Poll::Ready(self.frames.pop_front())
    }

    fn is_end_stream(&self) -> bool {
        self.knows_its_end && self.frames.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        if self.knows_its_length { SizeHint::with_exact(self.len()) } else { SizeHint::default() }
    }
}

fn data() -> Result<Frame<Bytes>, &'static str> {
    Ok(Frame::data(Bytes::from_static(b"page")))
}

/// A body with the permit of its host, and how many permits are out there.
async fn with_permit(version: Version, script: Script) -> (ResponseBody<Script>, impl Fn() -> usize) {
    let pacer = hosts::gate(Gate::builder());
    let permit =
        hosts::acquire(&pacer, &"http://a.example/".parse().unwrap(), Duration::ZERO, Duration::ZERO)
            .await
            .unwrap();
    (ResponseBody::new(script, version, Some(permit)), move || pacer.stats().in_flight)
}

/// Whether a body of this version ends with its last byte, by what it knows of itself.
const ENDS: [(Version, bool, bool, bool); 8] = [
    (Version::HTTP_10, false, true, true),
    (Version::HTTP_11, false, true, true),
    (Version::HTTP_11, true, false, true),
    (Version::HTTP_11, false, false, false),
    (Version::HTTP_2, false, true, false),
    (Version::HTTP_2, true, false, true),
    (Version::HTTP_2, true, true, true),
    (Version::HTTP_3, false, true, false),
];

#[tokio::test(start_paused = true)]
async fn the_permit_ends_with_the_last_frame_if_the_stream_does() {
    for (version, knows_its_end, knows_its_length, ends) in ENDS {
        let what = format!("{version:?} {knows_its_end} {knows_its_length}");
        let script = |frames: usize| Script {
            knows_its_end,
            knows_its_length,
            ..Script::of(std::iter::repeat_with(data).take(frames))
        };
        let (_empty, taken) = with_permit(version, script(0)).await;
        assert_eq!(taken(), usize::from(!ends), "{what}: empty");
        let (mut body, taken) = with_permit(version, script(2)).await;
        body.frame().await.unwrap().unwrap();
        assert_eq!(taken(), 1, "{what}: another frame comes");
        body.frame().await.unwrap().unwrap();
        assert_eq!(taken(), usize::from(!ends), "{what}");
        assert!(body.frame().await.is_none() && taken() == 0, "{what}: the end of the stream");
    }
}

#[tokio::test(start_paused = true)]
async fn the_permit_ends_with_trailers_an_error_the_end_or_a_drop() {
    for (last, name) in [
        (Some(Ok(Frame::trailers(HeaderMap::new()))), "trailers"),
        (Some(Err("reset")), "an error"),
        (None, "the end"),
    ] {
        let (mut body, taken) =
            with_permit(Version::HTTP_2, Script::of([data()].into_iter().chain(last))).await;
        body.frame().await.unwrap().unwrap();
        assert_eq!(taken(), 1, "before {name}");
        let _ = body.frame().await;
        assert_eq!(taken(), 0, "{name}");
    }
    let (body, taken) = with_permit(Version::HTTP_2, Script::of([data()])).await;
    drop(body);
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(taken(), 0);
}

#[tokio::test(start_paused = true)]
async fn end_and_length_of_a_body_are_passed_on() {
    let script = Script { knows_its_end: true, knows_its_length: true, ..Script::of([data()]) };
    let (mut body, _) = with_permit(Version::HTTP_2, script).await;
    assert_eq!((body.is_end_stream(), body.size_hint().exact()), (false, Some(4)));
    body.frame().await.unwrap().unwrap();
    assert_eq!((body.is_end_stream(), body.size_hint().exact()), (true, Some(0)));
}

#[tokio::test(start_paused = true)]
async fn a_body_that_failed_keeps_the_length_that_was_stated() {
    let script = Script { knows_its_length: true, ..Script::of([Err("reset"), data()]) };
    let (mut body, _) = with_permit(Version::HTTP_11, script).await;
    assert!(body.frame().await.unwrap().is_err());
    assert_eq!(body.size_hint().exact(), Some(4));
    assert!(body.is_end_stream() && body.frame().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_silent_server_ends_its_body_and_its_permit() {
    let pacer = hosts::gate(Gate::builder());
    let permit =
        hosts::acquire(&pacer, &"http://a.example/".parse().unwrap(), Duration::ZERO, Duration::ZERO)
            .await
            .unwrap();
    let silent = futures_util::stream::pending::<Result<Frame<Bytes>, &str>>();
    let body = ResponseBody::new(StreamBody::new(silent), Version::HTTP_11, Some(permit));
    let mut body = body.with_read_timeout(Some(Duration::from_secs(60)));
    let error = body.frame().await.unwrap().unwrap_err();
    assert_eq!(error.downcast_ref::<std::io::Error>().unwrap().kind(), std::io::ErrorKind::TimedOut);
    assert_eq!(pacer.stats().in_flight, 0);
}
