//! What is said in `tracing`.

use std::sync::{Arc, LazyLock, Mutex, MutexGuard};

use abide_tests::{Reply, Server, Step};
use tower::ServiceExt;
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::{DefaultGuard, NoSubscriber};
use tracing::{Dispatch, Event, Instrument, Metadata, Subscriber};

use crate::{client, get, refused, send, status};

/// Hears the names of our spans and events, which fields they are given later, and the parents of all spans.
#[derive(Clone, Default)]
struct Heard(Arc<Mutex<Told>>);

#[derive(Default)]
struct Told {
    said: Vec<String>,
    /// Name and parent, by number from 1.
    spans: Vec<(&'static str, Option<&'static str>)>,
    entered: Vec<Id>,
}

impl Heard {
    fn told(&self) -> MutexGuard<'_, Told> {
        self.0.lock().unwrap()
    }

    fn note(&self, metadata: &Metadata<'_>) {
        if metadata.target() == "abide::request" {
            self.told().said.push(metadata.name().to_owned());
        }
    }
}

/// Listens on this thread until the guard is dropped.
fn listen() -> (Heard, DefaultGuard) {
    // With a second subscriber, tracing asks both whether an event is wanted, and does not remember another thread's no.
    static SECOND: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(NoSubscriber::default()));
    LazyLock::force(&SECOND);
    let heard = Heard::default();
    let guard = tracing::subscriber::set_default(heard.clone());
    (heard, guard)
}

impl Subscriber for Heard {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        self.note(span.metadata());
        let mut told = self.told();
        let parent = told.entered.last().map(|id| told.spans[id.into_u64() as usize - 1].0);
        told.spans.push((span.metadata().name(), parent));
        Id::from_u64(told.spans.len() as u64)
    }

    fn record(&self, _: &Id, values: &Record<'_>) {
        self.told().said.push(format!("{values:?}"));
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        self.note(event.metadata());
    }

    fn enter(&self, id: &Id) {
        self.told().entered.push(id.clone());
    }

    fn exit(&self, _: &Id) {
        self.told().entered.pop();
    }
}

#[tokio::test]
async fn each_request_has_a_span_and_each_failure_an_event() {
    let (heard, _listening) = listen();
    let server = Server::start(|seen| match seen.path.as_str() {
        "/robots.txt" => Reply::new(200, "User-agent: *\nDisallow: /private/"),
        "/reset" => Reply::raw(vec![Step::Reset]),
        _ => Reply::html("page"),
    })
    .await;
    let client = client(&server);
    let said = || std::mem::take(&mut heard.told().said);
    let named =
        |said: &[String]| said.iter().filter(|name| name.starts_with("abide.")).cloned().collect::<Vec<_>>();

    assert_eq!(status(&client, "http://a.example/x").await, 200);
    let answered = said();
    assert_eq!(named(&answered), ["abide.request", "abide.hop"]);
    assert!(answered.iter().any(|values| values.contains("status")), "{answered:?}");

    refused(&client, "http://a.example/private/x").await;
    assert_eq!(named(&said()), ["abide.request", "abide.request.refused"]);

    assert!(send(&client, "http://a.example/reset").await.is_err());
    assert_eq!(named(&said()), ["abide.request", "abide.hop", "abide.request.failed"]);
}

#[tokio::test]
async fn a_call_is_a_child_of_the_span_of_its_future() {
    let server = Server::start(|_| Reply::html("page")).await;
    let (heard, _listening) = listen();
    // The span is entered when the call is polled, not while its future is made.
    let instrumented = client(&server).map_future(|call| call.instrument(tracing::info_span!("theirs")));
    instrumented.oneshot(get("http://a.example/x")).await.unwrap();
    let told = heard.told();
    let parents: Vec<_> = told.spans.iter().filter(|(name, _)| *name == "abide.request").collect();
    assert_eq!(parents, [&("abide.request", Some("theirs"))]);
}
