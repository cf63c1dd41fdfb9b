//! What is said in `tracing`.

use std::sync::{Arc, LazyLock, Mutex};

use abide_tests::{Reply, Server, Step};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::NoSubscriber;
use tracing::{Dispatch, Event, Metadata, Subscriber};

use crate::{client, refused, send, status};

/// Hears the names of our spans and events, and which fields they are given later.
#[derive(Clone, Default)]
struct Heard(Arc<Mutex<Vec<String>>>);

impl Heard {
    fn note(&self, metadata: &Metadata<'_>) {
        if metadata.target() == "abide::request" {
            self.0.lock().unwrap().push(metadata.name().to_owned());
        }
    }
}

impl Subscriber for Heard {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        self.note(span.metadata());
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, values: &Record<'_>) {
        self.0.lock().unwrap().push(format!("{values:?}"));
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        self.note(event.metadata());
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[tokio::test]
async fn each_request_has_a_span_and_each_end_without_an_answer_an_event() {
    // With a second subscriber, tracing asks both whether an event is wanted, and does not remember another thread's no.
    static SECOND: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(NoSubscriber::default()));
    LazyLock::force(&SECOND);
    let heard = Heard::default();
    let _listening = tracing::subscriber::set_default(heard.clone());
    let server = Server::start(|seen| match seen.path.as_str() {
        "/robots.txt" => Reply::new(200, "User-agent: *\nDisallow: /private/"),
        "/reset" => Reply::raw(vec![Step::Reset]),
        _ => Reply::html("page"),
    })
    .await;
    let client = client(&server);
    let said = || std::mem::take(&mut *heard.0.lock().unwrap());
    let named =
        |said: &[String]| said.iter().filter(|name| name.starts_with("abide.")).cloned().collect::<Vec<_>>();

    assert_eq!(status(&client, "http://a.example/x").await, 200);
    let answered = said();
    assert_eq!(named(&answered), ["abide.request"]);
    assert!(answered.iter().any(|values| values.contains("status")), "{answered:?}");

    refused(&client, "http://a.example/private/x").await;
    assert_eq!(named(&said()), ["abide.request", "abide.request.refused"]);

    assert!(send(&client, "http://a.example/reset").await.is_err());
    assert_eq!(named(&said()), ["abide.request", "abide.request.failed"]);
}
