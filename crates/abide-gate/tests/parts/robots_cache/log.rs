//! What is said in logs: once per outage, with origins only, nothing secret and nothing raw.

use crate::parts::support::scripted::{Scripted, ScriptedFetch};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use crate::parts::support::robots_cache::*;
use abide_gate::Failure;
use tokio::time::sleep;
use tracing::field::{Field, Visit};
use tracing::subscriber::{DefaultGuard, NoSubscriber};
use tracing::{Dispatch, Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, SubscriberExt};

/// Writes down every event as its level and its fields.
#[derive(Debug, Clone, Default)]
struct Listener(Arc<Mutex<Vec<(Level, String)>>>);

impl Listener {
    /// Listens on this thread until the guard is dropped.
    fn listen() -> (Self, DefaultGuard) {
        // With a single subscriber, tracing remembers for all threads what the first thread that meets an event wants. With a second one
        // it asks both.
        static SECOND: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(NoSubscriber::default()));
        LazyLock::force(&SECOND);
        let listener = Self::default();
        let guard = tracing::subscriber::set_default(tracing_subscriber::registry().with(listener.clone()));
        (listener, guard)
    }

    fn count(&self, level: Level) -> usize {
        self.captured().iter().filter(|(other, _)| *other == level).count()
    }

    fn captured(&self) -> Vec<(Level, String)> {
        self.0.lock().unwrap().clone()
    }
}

impl<S: Subscriber> Layer<S> for Listener {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        struct Line(String);
        impl Visit for Line {
            fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
                self.0.push_str(&format!("{field}={value:?} "));
            }
        }
        let mut line = Line(String::new());
        event.record(&mut line);
        if event.metadata().target().starts_with("abide") {
            self.0.lock().unwrap().push((*event.metadata().level(), line.0));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_outage_is_one_warning_and_its_end_one_line() {
    let (listener, _guard) = Listener::listen();
    let is_full = Arc::new(AtomicBool::new(false));
    let disk = Arc::clone(&is_full);
    // A full disk still reads.
    let store = Arc::new(Hooked::failing(move |op| op == Op::Save && disk.load(Ordering::SeqCst)));
    let fetch = ScriptedFetch::always(Scripted::text(GOOD));
    let world = World::with_store(fetch, store);
    for outage in 1..=2 {
        is_full.store(true, Ordering::SeqCst);
        for _ in 0..5 {
            world.ask().await;
            sleep(DAY).await;
        }
        is_full.store(false, Ordering::SeqCst);
        world.ask().await;
        sleep(DAY).await;
        let counts = [Level::WARN, Level::INFO].map(|level| listener.count(level));
        assert_eq!(counts, [outage, outage], "{:?}", listener.captured());
    }
}

/// The cause is one that no other test of this file has: what was logged aloud is remembered for the whole process.
#[tokio::test(start_paused = true)]
async fn an_outage_is_a_warning_once_per_cause_and_ten_minutes() {
    let (listener, _guard) = Listener::listen();
    let world = World::of(Scripted::error(Failure::HeadTooLarge));
    for round in 1..=2 {
        for number in 0..20 {
            let origin = format!("https://{round}-{number}.example").parse().unwrap();
            world.cache.get(&origin).await.unwrap();
        }
        // Each of the others says two things: how the request failed, and what it means.
        let counts = [Level::WARN, Level::DEBUG].map(|level| listener.count(level));
        assert_eq!(counts, [round, round * 40], "{:?}", listener.captured());
        sleep(Duration::from_secs(600)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn logs_have_origins_only() {
    let (listener, _guard) = Listener::listen();
    let marker = "MARKER";
    let hostile = format!("{marker}\u{1b}[31m\n");
    for answer in [
        Scripted::text(format!("User-agent: *\nDisallow: /{hostile}")).header("etag", b"\"MARKER\""),
        Scripted::status(404).body(hostile.clone()).header("set-cookie", b"MARKER=1"),
        Scripted::status(503).header("retry-after", b"MARKER"),
        Scripted::redirect("https://user:MARKER@b.example/?MARKER"),
        Scripted::redirect("ftp://MARKER/"),
        Scripted::error(Failure::Tls),
        Scripted::panic(),
    ] {
        let world = World::good_then(answer.clone());
        for _ in 0..3 {
            let _ = world.cache.get(&origin()).await;
            sleep(DAY).await;
        }
    }
    let captured = listener.captured();
    assert!(captured.len() > 10);
    for (_, line) in captured {
        assert!(!line.contains(marker) && line.chars().all(|c| !c.is_control()), "{line:?}");
        assert!(!line.contains("robots.txt?") && !line.contains("/robots.txt"), "no URL: {line:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn each_way_in_which_a_fetch_fails_is_logged() {
    for (answer, level, said) in [
        (Scripted::error(Failure::Tls), Level::DEBUG, "the robots.txt request failed"),
        (deferred(START.plus(HOUR)), Level::DEBUG, "the robots.txt request was deferred by the pacing"),
    ] {
        let (listener, _guard) = Listener::listen();
        let _ = World::of(answer).cache.get(&origin()).await;
        let captured = listener.captured();
        let lines: Vec<_> = captured.iter().filter(|(_, line)| line.contains(said)).collect();
        assert!(
            matches!(lines[..], [(found, line)] if *found == level && line.contains("https://a.example")),
            "{captured:?}"
        );
    }
}
