//! What is said in logs and metrics: the names and fields of `docs/observability.md`, and nothing secret.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use abide::{Event, Options, RequestBuilderExt};
use abide_permissions::BoxFuture;
use abide_tests::{Reply, Server, Step, listen};
use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use reqwest_middleware::{ClientBuilder, Next};
use reqwest_tracing::TracingMiddleware;
use tracing::Instrument;

use crate::promises::files;
use crate::{Built, builder, retry};

const PAGE: &str = include_str!("../../docs/observability.md");

/// The rows of the table below this heading, cell by cell, without backquotes.
fn table(heading: &str) -> Vec<Vec<String>> {
    let section = PAGE.split("\n## ").find(|section| section.starts_with(heading)).unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    rows.map(|row| row.trim_matches('|').split('|').map(|cell| cell.trim().replace('`', "")).collect())
        .collect()
}

/// Name, level, target and fields of every span and event on the page.
fn documented() -> BTreeMap<String, (String, String, BTreeSet<String>)> {
    let rows = table("Spans").into_iter().chain(table("Events"));
    rows.map(|row| {
        let fields = row[3].split(", ").filter(|field| !field.is_empty()).map(str::to_owned).collect();
        (row[0].clone(), (row[1].clone(), row[2].clone(), fields))
    })
    .collect()
}

/// The text of every source file of the crates that speak.
fn sources() -> String {
    let folders =
        ["crates/abide/src", "crates/abide-gate/src", "crates/abide-tower/src", "crates/abide-http/src"];
    files(folders).iter().map(|file| std::fs::read_to_string(file).unwrap()).collect()
}

fn literals(beginning: &str) -> BTreeSet<String> {
    let text = sources();
    let opening = format!("\"{beginning}");
    let quoted = text.split(&opening).skip(1);
    quoted.map(|rest| format!("{beginning}{}", rest.split('"').next().unwrap_or_default())).collect()
}

#[test]
fn the_page_lists_every_span_and_event_of_the_code() {
    let on_the_page: BTreeSet<String> = documented().into_keys().collect();
    assert_eq!(literals("abide."), on_the_page);
    let metrics: BTreeSet<String> = table("Metrics").into_iter().map(|row| row[0].clone()).collect();
    assert_eq!(
        literals("abide_").into_iter().filter(|name| name.len() > 6).collect::<BTreeSet<_>>(),
        metrics
    );
}

/// A web with something for every event that a loopback can cause.
async fn site() -> Server {
    let asked = AtomicUsize::new(0);
    Server::start(move |seen| match (seen.host(), seen.path.split('?').next().unwrap_or_default()) {
        ("down.example", "/robots.txt") => Reply::new(503, ""),
        ("none.example", "/robots.txt") => Reply::new(404, ""),
        ("reset.example", "/robots.txt") => Reply::raw(vec![Step::Reset]),
        ("changing.example", "/robots.txt") => {
            match (asked.fetch_add(1, Ordering::SeqCst), seen.header("if-none-match")) {
                (0, None) => {
                    Reply::with_headers(200, &[("etag", "\"1\"")], "User-agent: *\nDisallow: /secret")
                }
                (1, Some("\"1\"")) => Reply::with_headers(304, &[("etag", "\"1\"")], ""),
                _ => Reply::new(500, ""),
            }
        }
        (_, "/robots.txt") => Reply::new(200, "User-agent: *\nDisallow: /secret"),
        (_, "/go") => Reply::redirect(302, "http://name:hunter2@a.example/secret?hunter2"),
        (_, "/busy") => Reply::retry_after(429, 7200),
        (_, "/reset") => Reply::raw(vec![Step::Reset]),
        _ => Reply::html("page"),
    })
    .await
}

/// Goes through it, with secrets in every place that a request has.
async fn crawl(server: &Server) {
    let (abide, inner) = builder(server)
        .delay(Duration::from_millis(1))
        .observer(Arc::new(|event: &Event<'_>| assert!(!matches!(event, Event::Refused { hop: 1, .. }))))
        .parts();
    let client = abide.wrap(inner);
    for url in [
        "http://name:hunter2@a.example/hunter2?hunter2#hunter2",
        "http://a.example/go",
        "http://a.example/secret?hunter2",
        "http://none.example/x",
        "http://down.example/hunter2",
        "http://reset.example/hunter2",
        "http://b.example/reset?hunter2",
        "http://c.example/busy?hunter2",
        "http://c.example/hunter2",
        "http://127.0.0.2/hunter2",
        "ftp://name:hunter2@a.example/hunter2",
    ] {
        let request = client.get(url).header("authorization", "Bearer hunter2").header("cookie", "hunter2");
        drop(request.send().await);
    }
    let mine =
        Options::new().danger_ignore_robots("http://a.example".parse().unwrap(), "mine\x1b[31m\r\nforged");
    drop(client.get("http://a.example/secret").abide(mine).send().await);
    let origin = abide::Origin::of(&"http://changing.example/".parse().unwrap()).unwrap();
    for _ in 0..3 {
        drop(abide.rules(&origin).await);
        abide.invalidate(&origin).await;
    }
    // A client that follows by itself.
    abide.wrap(reqwest::Client::new());
    builder(server)
        .danger_allow_all_addresses()
        .robots(abide::robots_cache::RobotsPolicy::default().danger_allow_when_unreachable())
        .build_client(reqwest::Client::builder().resolve("a.example", "127.0.0.1:1".parse().unwrap()))
        .unwrap();
}

#[tokio::test]
async fn logs_have_the_fields_of_the_page_and_nothing_secret() {
    let server = site().await;
    let (captured, _listening) = listen();
    crawl(&server).await;
    let documented = documented();
    for said in captured.ours() {
        let Some((level, target, fields)) = documented.get(&said.name) else {
            panic!("{said:?} is not on the page");
        };
        assert_eq!((&said.level, &said.target), (level, target), "{}", said.name);
        assert_eq!(&said.fields.iter().cloned().collect::<BTreeSet<_>>(), fields, "{}", said.name);
        assert!(!said.text.contains("hunter2"), "{said:?}");
        assert!(!said.text.contains(char::is_control), "raw control characters: {said:?}");
    }
    // What a loopback can cause. The others are seen in the store suites and by tests of the pacing.
    let expected = "request hop robots.fetch robots.fetched robots.confirmed robots.unavailable robots.unreachable \
        robots.last_good robots.failed robots.overridden pacing.granted pacing.deferred pacing.backed_off \
        pacing.faster_than_default request.refused request.failed danger observer_panicked";
    let names: BTreeSet<String> = captured.ours().into_iter().map(|said| said.name).collect();
    let missing: Vec<_> =
        expected.split(' ').filter(|name| !names.contains(&format!("abide.{name}"))).collect();
    assert!(missing.is_empty(), "{missing:?} of {names:?}");
    let dangers: Vec<_> = captured.named("abide.danger").into_iter().map(|said| said.text).collect();
    assert!(dangers[0].contains("danger_allow_all_addresses"), "{dangers:?}");
    assert!(dangers[1].contains("danger_allow_when_unreachable"), "{dangers:?}");
    let overridden = captured.named("abide.robots.overridden");
    assert!(overridden[0].text.contains("mine"), "with its reason: {overridden:?}");
}

#[tokio::test]
async fn a_tracing_middleware_spans_calls_above_a_retry_attempts_below() {
    let server = Server::without_rules(|_| Reply::new(500, "")).await;
    let (abide, inner) = builder(&server).parts();
    let tracing = TracingMiddleware::default;
    let outside =
        ClientBuilder::new(inner.clone()).with(tracing()).with(retry(2)).with(abide.middleware()).build();
    let between =
        ClientBuilder::new(inner.clone()).with(retry(2)).with(tracing()).with(abide.middleware()).build();
    let inside = ClientBuilder::new(inner).with(retry(2)).with(abide.middleware()).with(tracing()).build();
    for (what, client, spans, parent, parent_of_ours) in [
        ("outside", outside, 1, None, Some("HTTP request")),
        ("between", between, 3, None, Some("HTTP request")),
        ("inside", inside, 3, Some("abide.hop"), None),
    ] {
        let (captured, _listening) = listen();
        // Each has a host of its own: five errors in a row would open its breaker.
        let page = client.get(format!("http://{what}.example/x")).send().await.unwrap();
        assert_eq!(page.status(), 500);
        let theirs: Vec<_> =
            captured.all().into_iter().filter(|said| said.target.starts_with("reqwest_tracing")).collect();
        let theirs: Vec<_> = theirs.iter().filter(|said| said.name == "HTTP request").collect();
        assert_eq!(theirs.len(), spans, "{what}: {:?}", captured.all());
        assert!(theirs.iter().all(|said| said.parent.as_deref() == parent), "{what}: {theirs:?}");
        let ours = captured.named("abide.request");
        assert_eq!(ours.len(), 3, "{what}");
        assert!(ours.iter().all(|said| said.parent.as_deref() == parent_of_ours), "{what}: {ours:?}");
        assert!(
            captured.named("abide.hop").iter().all(|said| said.parent.as_deref() == Some("abide.request"))
        );
        let text = &ours[0].text;
        let origin = format!("origin=http://{what}.example:80");
        for part in ["method=GET", &origin, "hops=1", "status=500", "waited_ms="] {
            assert!(text.contains(part), "{what}: {part} in {text}");
        }
    }
}

/// Enters its span only when what is below is polled, not while its future is made.
fn instruments<'a>(
    request: reqwest::Request,
    extensions: &'a mut http::Extensions,
    next: Next<'a>,
) -> BoxFuture<'a, reqwest_middleware::Result<reqwest::Response>> {
    Box::pin(next.run(request, extensions).instrument(tracing::info_span!("theirs")))
}

#[tokio::test]
async fn a_call_is_a_child_of_the_span_of_its_future() {
    let server = site().await;
    let (abide, inner) = builder(&server).parts();
    let client = ClientBuilder::new(inner).with(instruments).with(abide.middleware()).build();
    let (captured, _listening) = listen();
    client.get("http://a.example/x").send().await.unwrap();
    let parents: Vec<_> = captured.named("abide.request").into_iter().map(|request| request.parent).collect();
    assert_eq!(parents, [Some("theirs".to_owned())]);
}

#[tokio::test]
async fn observers_get_decisions_and_refusals_with_their_hop() {
    let server = site().await;
    let values = Arc::new(Mutex::new(Vec::new()));
    let notes = Arc::clone(&values);
    let client = builder(&server)
        .observer(Arc::new(move |event: &Event<'_>| {
            notes.lock().unwrap().extend(match event {
                Event::Checked { origin, verdict } => Some(format!("{origin} {}", verdict.is_allowed())),
                Event::Refused { denied, hop } => Some(format!("{} at {hop}", denied.name())),
                Event::Overridden { reason, .. } => Some((*reason).to_owned()),
                _ => None,
            });
        }))
        .client();
    client.get("http://a.example/go").send().await.unwrap_err();
    let mine = Options::new().danger_ignore_robots("http://a.example".parse().unwrap(), "mine");
    client.get("http://a.example/secret").abide(mine).send().await.unwrap();
    let values = values.lock().unwrap().join(", ").replace("http://a.example:80", "a");
    assert_eq!(values, "a true, a false, disallowed at 1, a false, mine");
}

/// The values of counters and gauges, and how many values each histogram got.
fn values(recorder: &DebuggingRecorder) -> BTreeMap<String, f64> {
    let values = recorder.snapshotter().snapshot().into_vec().into_iter();
    let line = |key: &metrics::Key, value| {
        let labels: Vec<_> = key.labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
        let value = match value {
            DebugValue::Counter(count) => count as f64,
            DebugValue::Gauge(value) => *value,
            DebugValue::Histogram(values) => values.len() as f64,
        };
        (format!("{} {}", key.name(), labels.join(",")).trim().to_owned(), value)
    };
    values.map(|(key, _, _, value)| line(key.key(), value)).collect()
}

#[tokio::test]
async fn metrics_have_the_names_and_labels_of_the_page_and_no_host() {
    let server = site().await;
    let recorder = DebuggingRecorder::new();
    let _recording = metrics::set_default_local_recorder(&recorder);
    let (abide, inner) = builder(&server).observer(Arc::new(abide::record_metrics)).parts();
    let client = abide.wrap(inner);
    let urls =
        ["http://a.example/x", "http://a.example/go", "http://a.example/secret", "http://c.example/busy"];
    for url in urls.into_iter().chain(["http://c.example/x", "http://down.example/x"]) {
        drop(client.get(url).send().await);
    }
    let mine = Options::new().danger_ignore_robots("http://a.example".parse().unwrap(), "mine");
    drop(client.get("http://a.example/secret").abide(mine).send().await);
    abide::sample_metrics(abide.gate());
    let values = values(&recorder);
    for (key, value) in [
        ("abide_robots_total outcome=fetched", 2.0),
        ("abide_robots_total outcome=unreachable", 1.0),
        ("abide_robots_seconds", 3.0),
        ("abide_decisions_total decision=allow", 4.0),
        ("abide_decisions_total decision=disallow", 4.0),
        ("abide_decisions_total decision=override", 1.0),
        ("abide_refusals_total refusal=disallowed,at=request", 1.0),
        ("abide_refusals_total refusal=disallowed,at=redirect", 1.0),
        ("abide_refusals_total refusal=deferred,at=request", 1.0),
        ("abide_refusals_total refusal=unreachable,at=request", 1.0),
        ("abide_deferrals_total reason=backoff", 1.0),
        ("abide_backoffs_total cause=429", 1.0),
        ("abide_backoffs_total cause=503", 1.0),
        ("abide_hosts", 3.0),
        ("abide_hosts_backed_off", 2.0),
        ("abide_in_flight", 0.0),
        ("abide_waiting", 0.0),
        ("abide_robots_in_flight", 0.0),
    ] {
        assert_eq!(values.get(key), Some(&value), "{key}: {values:?}");
    }
    let documented: BTreeMap<String, String> =
        table("Metrics").into_iter().map(|row| (row[0].clone(), row[2].clone())).collect();
    for key in values.keys() {
        let (name, labels) = key.split_once(' ').unwrap_or((key, ""));
        let page = &documented[name];
        for label in labels.split(',').filter(|label| !label.is_empty()) {
            assert!(page.contains(label.split('=').next().unwrap()), "{key} is not on the page");
        }
        assert!(!key.contains("example"), "{key}");
    }
}

#[tokio::test]
async fn the_name_of_a_proxy_is_guarded_and_its_literal_address_is_not() {
    // A proxy gets whole URLs.
    let server = Server::start(|seen| match seen.path.ends_with("/robots.txt") {
        true => Reply::new(404, ""),
        false => Reply::html("page"),
    })
    .await;
    let proxy = |address: &str| reqwest::Proxy::http(address).unwrap();
    let port = server.address().port();
    for (address, goes_out) in
        [(format!("http://proxy.example:{port}"), false), (format!("http://127.0.0.1:{port}"), true)]
    {
        let closed = abide::Abide::builder("ExampleBot").resolver(server.names());
        let client = closed.build_client(reqwest::Client::builder().proxy(proxy(&address))).unwrap();
        let sent = client.get("http://a.example/x").send().await;
        assert_eq!(sent.is_ok(), goes_out, "{address}: {sent:?}");
        assert_eq!(!server.asked().is_empty(), goes_out, "{address}: {:?}", server.asked());
    }
}
