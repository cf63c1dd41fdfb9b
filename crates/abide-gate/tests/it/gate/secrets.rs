//! G7: no credential, no cookie and no raw control byte in anything that the gate shows or stores. Marked
//! strings go in everywhere, and everything that comes out is searched.

use std::fmt::{Debug, Display};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::scripted::{Scripted, ScriptedFetch};
use crate::support::{built, clock, url};
use abide_gate::robots_cache::RobotsStore;
use abide_gate::testing::MemoryStore;
use abide_gate::{Event, Failure, Gate, GateBuilder, Origin};

const SECRET: &str = "s3cret-marker";
/// As a server writes it into a text: a terminal would obey it.
const ESCAPE: &str = "\u{1b}[31m";

/// Everything that was shown, with where.
#[derive(Clone, Default)]
struct Shown(Arc<Mutex<Vec<(String, String)>>>);

impl Shown {
    fn debug(&self, what: &str, value: &impl Debug) {
        self.0.lock().unwrap().push((what.to_owned(), format!("{value:?} {value:#?}")));
    }

    fn both(&self, what: &str, value: &(impl Debug + Display)) {
        self.debug(what, value);
        self.0.lock().unwrap().push((what.to_owned(), value.to_string()));
    }

    fn error(&self, what: &str, error: &abide_gate::Denied) {
        self.both(what, error);
        let mut next = std::error::Error::source(error);
        while let Some(source) = next {
            self.0.lock().unwrap().push((what.to_owned(), format!("{source} {source:?}")));
            next = source.source();
        }
    }

    fn check(&self) {
        let shown = self.0.lock().unwrap();
        assert!(shown.len() > 60, "{} texts were looked at", shown.len());
        for (what, text) in shown.iter() {
            assert!(!text.contains(SECRET), "{what}: {text}");
            let control = |c: char| c.is_control() && !(c == '\n' && what != "sentence");
            assert!(!text.contains(control), "{what}: {text:?}");
        }
    }
}

/// What a server can put a secret or an escape into.
fn answers() -> Vec<Scripted> {
    let rules =
        format!("User-agent: *\nDisallow: /closed{ESCAPE}\nCrawl-delay: 1{ESCAPE}\nSitemap: {ESCAPE}\n");
    let cookie = format!("session={SECRET}");
    let with = |answer: Scripted| {
        answer.header("set-cookie", cookie.as_bytes()).header("www-authenticate", cookie.as_bytes())
    };
    let location = format!("https://user:{SECRET}@b.example/rules#{SECRET}");
    vec![
        with(
            Scripted::text(rules.clone())
                .header("etag", b"\"\xff\xfe\"")
                .header("content-type", b"text/\xe9"),
        ),
        with(Scripted::redirect(&location)),
        with(Scripted::redirect(&format!("ftp://user:{SECRET}@b.example/"))),
        with(Scripted::redirect(&format!("https://user:{SECRET}@10.0.0.1/"))),
        with(Scripted::status(503).header("retry-after", b"20")),
        with(Scripted::status(429)),
        with(Scripted::status(404)),
        with(Scripted::text(rules).breaks()),
        Scripted::error(Failure::Reset),
        Scripted::error(Failure::Dns),
    ]
}

async fn use_it(gate: &Gate, shown: &Shown, n: usize) {
    let patience = Duration::from_secs(30);
    for path in ["open", "closed\u{1b}[31m", "robots.txt"] {
        let url = url(&format!("https://user:{SECRET}@a{n}.example/{path}"));
        match gate.check(&url, &mut { patience }).await {
            Ok(verdict) => {
                shown.both("verdict", &verdict);
                if let Some(answer) = verdict.entry() {
                    shown.debug("answer", &**answer);
                    shown.debug("source", &answer.source());
                }
                if let Some(denied) = gate.denial(&verdict, &url) {
                    shown.both("refusal", &denied);
                }
            }
            Err(error) => shown.error("check", &error),
        }
        match gate.admit(&url, patience).await {
            Ok((verdict, permit)) => {
                shown.both("admitted", &verdict);
                shown.debug("permit", &permit);
                permit.failed(abide_gate::Failure::Refused);
            }
            Err(error) => shown.error("admit", &error),
        }
        match gate.next_slot(&url) {
            Ok(slot) => shown.debug("slot", &slot),
            Err(error) => shown.error("slot", &error),
        }
    }
    for odd in
        ["ftp://user:s3cret-marker@a.example/", "https://user:s3cret-marker@10.0.0.1/", "data:,s3cret-marker"]
    {
        // A URL without a host has no place for a user; what is opaque is shown as it is.
        let refused = gate.check(&url(odd), &mut { patience }).await.unwrap_err();
        if !odd.starts_with("data") {
            shown.error("odd", &refused);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_secret_is_shown_or_stored() {
    let shown = Shown::default();
    for (n, answer) in answers().into_iter().enumerate() {
        let fetch = ScriptedFetch::new(move |request, _| match request.url().host_str() {
            Some("b.example") => Scripted::text("User-agent: *\nDisallow: /closed\n"),
            _ => answer.clone(),
        });
        let (events, store) = (shown.clone(), Arc::new(MemoryStore::new()));
        let builder = GateBuilder::new()
            .robots_store(store.clone())
            .clock(clock())
            .observer(Arc::new(move |event: &Event<'_>| events.debug("event", event)));
        shown.debug("builder", &builder);
        let gate = built(builder, &fetch);
        use_it(&gate, &shown, n).await;
        shown.debug("gate", &gate);
        shown.debug("reports", &gate.reports());
        let origin: Origin = format!("https://a{n}.example").parse().unwrap();
        if let Some(record) = store.load(&origin).await.unwrap() {
            shown.debug("record", &record);
            let bytes = record.encode();
            let stored = String::from_utf8_lossy(&bytes);
            assert!(!stored.contains(SECRET), "answer {n}: {stored:?}");
        }
        for asked in fetch.asked() {
            assert!(!format!("{asked:?}").contains(SECRET), "{asked:?}");
        }
    }
    shown.check();
}
