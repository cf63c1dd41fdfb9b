//! What goes wrong between a crawler and the web, one row each, played by one server over real sockets and
//! checked by its log: no forbidden request, one fetch of a robots.txt for many callers, no credential where
//! it does not belong, bytes bounded, every decision in time, and nothing blocked that is allowed.
//!
//! TLS and HTTP/2 need servers of their own: `wire.rs` has their rows.

mod pages;
mod robots;
mod tdmrep;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use abide::robots_cache::{RobotsPolicy, Source};
use abide::{Abide, Denied, DeniedKind, Failure, ResponseExt, WallMillis};
use abide_tests::{Reply, Seen, Server, Silent, Step};
use anyhow::{Context, ensure};
use reqwest_middleware::ClientWithMiddleware;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// What the server does, by the request.
type Script = Arc<dyn Fn(&Seen) -> Reply + Send + Sync>;

/// What must follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expect {
    /// The rules count: `/open` is fetched, `/closed` is not.
    Rules,
    /// Everything is allowed.
    AllowAll,
    /// Nothing is fetched; and where there is a last good copy, it counts.
    Unreachable,
    /// The host is backed off: come back later.
    Deferred,
    /// It asks for more than a day between requests.
    TooSlow,
}

/// What must be known of it besides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Also {
    Nothing,
    /// The host is backed off for so many seconds, and a tenth more at most.
    BackedOff(u64),
    /// It counts for so many seconds.
    Lasts(u64),
    /// No address was asked that must not be.
    AddressRefused,
    /// The redirect was refused for what it is.
    RedirectRefused,
    /// It failed for this reason.
    Cause(Failure),
}

/// A fault of `/robots.txt`, by the number of its requirement.
struct Fault {
    id: &'static str,
    name: String,
    expect: Expect,
    script: Script,
    /// Ends by the deadline and by nothing else.
    is_slow: bool,
    /// How often `/robots.txt` itself is asked for.
    asked: usize,
    also: Also,
}

/// So that nothing else ends by it on a machine that does other things as well.
const DEADLINE: Duration = Duration::from_secs(600);
/// For what can only end by its deadline.
const SHORT_DEADLINE: Duration = Duration::from_secs(5);
/// Longer than any deadline, on a machine that does other things as well.
const PATIENCE: Duration = Duration::from_secs(1_200);
/// So many sites at once.
const AT_ONCE: usize = 48;
/// A gibibyte is on offer; what is taken are 512,000 bytes, and what the sockets of both sides hold (G6): on
/// a busy machine Linux lets that of the client grow to some MiB (`tcp_rmem`; 6 by default). What the process
/// itself keeps of it is measured in `tests/memory`.
const SENT_MAX: usize = 512_000 + 7 * 1024 * 1024;
/// Planted where only the pages' own origin may see it.
const MARKER: &str = "s3cret-marker";
const GOOD: &str = "User-agent: *\nDisallow: /closed\n";

fn site(seen: &Seen, script: &Script) -> Reply {
    match seen.path.as_str() {
        // For the pages alone: the robots.txt that is fetched next carries no cookie.
        "/open" | "/closed" => Reply::html("<title>page</title>").with("set-cookie", "page=1; Path=/"),
        _ => script(seen),
    }
}

fn builder(server: &Server, deadline: Duration) -> abide::Builder {
    crate::builder(server).robots(RobotsPolicy::default().with_deadline(deadline).with_fetches_max(1_000))
}

fn crawler(server: &Server, deadline: Duration) -> (Abide, ClientWithMiddleware) {
    // A request on a kept connection that the server closes just then would be sent once more (`wire.rs`).
    // Every coding that reqwest knows is asked for.
    let jar = reqwest::Client::builder().cookie_store(true).pool_max_idle_per_host(0);
    let (abide, inner) = builder(server, deadline).build_with(jar).unwrap();
    let client = abide.clone().wrap(inner);
    (abide, client)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_fault_of_robots_txt_is_met_as_required() {
    let silent = Silent::start().await;
    let faults: Vec<Arc<Fault>> = robots::faults(silent.port()).into_iter().map(Arc::new).collect();
    let scripts: HashMap<String, Arc<Fault>> =
        faults.iter().enumerate().map(|(n, fault)| (format!("f{n}.example"), Arc::clone(fault))).collect();
    let were_well = Mutex::new(HashSet::new());
    let server = Arc::new(
        Server::start(move |seen| match scripts.get(seen.host().trim_start_matches("copy-")) {
            // The site was well once.
            Some(_)
                if seen.host().starts_with("copy-")
                    && seen.path == "/robots.txt"
                    && were_well.lock().unwrap().insert(seen.host().to_owned()) =>
            {
                Reply::new(200, GOOD)
            }
            Some(fault) => site(seen, &fault.script),
            // The site that others redirect to.
            None => Reply::new(200, GOOD),
        })
        .await,
    );
    let (patient, hasty) = (crawler(&server, DEADLINE), crawler(&server, SHORT_DEADLINE));
    let places = Arc::new(tokio::sync::Semaphore::new(AT_ONCE));
    let mut checked = JoinSet::new();
    for (n, fault) in faults.iter().enumerate() {
        let ((abide, client), fault) =
            (if fault.is_slow { hasty.clone() } else { patient.clone() }, Arc::clone(fault));
        let (server, places) = (Arc::clone(&server), Arc::clone(&places));
        checked.spawn(async move {
            let _place = places.acquire_owned().await;
            let host = format!("f{n}.example");
            let result = cold(&fault, &host, &abide, &client, &server).await;
            let result = match (result, fault.expect) {
                (Ok(()), Expect::Unreachable) => with_copy(&fault, &host, &abide, &client, &server).await,
                (result, _) => result,
            };
            result.map_err(|why| format!("{} {} ({host}): {why:#}", fault.id, fault.name))
        });
    }
    none_failed(checked).await;
    assert_eq!(silent.connections(), 0, "no packet to a refused address");
    judge_the_log(&server, &faults);
    assert!(faults.len() + pages::faults().len() >= 400, "{} and {}", faults.len(), pages::faults().len());
    println!("{} faults of robots.txt, {} of pages", faults.len(), pages::faults().len());
}

async fn none_failed(checked: JoinSet<Result<(), String>>) {
    let results = checked.join_all().await;
    let all = results.len();
    let failed: Vec<_> = results.into_iter().filter_map(Result::err).collect();
    assert!(failed.is_empty(), "{} of {all}:\n{}", failed.len(), failed.join("\n"));
}

/// Eight callers at once on a host that nothing is known of.
async fn cold(
    fault: &Fault,
    host: &str,
    abide: &Abide,
    client: &ClientWithMiddleware,
    server: &Server,
) -> anyhow::Result<()> {
    let wall = abide.gate().wall();
    let url: url::Url = format!("http://user:{MARKER}@{host}/open").parse().unwrap();
    let mut callers = JoinSet::new();
    for _ in 0..8 {
        let (abide, url) = (abide.clone(), url.clone());
        callers.spawn(async move { abide.check(&url).await.map(|verdict| verdict.is_allowed()) });
    }
    while let Some(answer) = timeout(PATIENCE, callers.join_next()).await.context("it takes too long")? {
        let shown = format!("{answer:?}");
        ensure!(!shown.contains(MARKER), "a secret in an error");
    }
    let asked = server.count(&format!("{host}/robots.txt"));
    ensure!(asked == fault.asked, "{asked} requests for robots.txt");
    if fault.also != Also::Nothing {
        is_known(fault.also, host, abide, wall).await?;
    }
    let open = fetch_page(client, host, "/open").await?;
    let closed = fetch_page(client, host, "/closed").await?;
    let pages = ["/open", "/closed"].map(|path| server.count(&format!("{host}{path}")));
    let is_right = match fault.expect {
        Expect::Rules => open == "200" && closed == "disallowed" && pages == [1, 0],
        Expect::AllowAll => open == "200" && closed == "200" && pages == [1, 1],
        Expect::Unreachable => open == "unreachable" && closed == "unreachable" && pages == [0, 0],
        Expect::Deferred => open == "deferred" && closed == "deferred" && pages == [0, 0],
        Expect::TooSlow => open == "too slow" && closed == "disallowed" && pages == [0, 0],
    };
    ensure!(is_right, "open {open}, closed {closed}, pages {pages:?}");
    Ok(())
}

/// What the crawler knows after it has asked, for the first time since `before`.
async fn is_known(also: Also, host: &str, abide: &Abide, before: WallMillis) -> anyhow::Result<()> {
    let origin = format!("http://{host}").parse().unwrap();
    let answer = abide.rules(&origin).await?;
    let shown = format!("{answer:?}");
    ensure!(!shown.contains(MARKER), "a secret in an answer: {shown}");
    let seconds = |from: WallMillis, to: WallMillis| to.since(from).as_secs();
    let is_right = match also {
        Also::Nothing => true,
        Also::BackedOff(asked) => {
            let host = abide::Host::of(&format!("http://{host}/").parse().unwrap()).unwrap();
            let until = abide.gate().report(&host).and_then(|report| report.backed_off_until.map(Into::into));
            let now = abide.gate().wall();
            // It began at some time between then and now.
            until.is_some_and(|until| {
                seconds(before, until) >= asked && seconds(now, until) <= asked + asked / 10
            })
        }
        Also::Lasts(lifetime) => seconds(answer.asked_at(), answer.fresh_until()) == lifetime,
        Also::AddressRefused => matches!(answer.failure(), Some(Failure::AddressRefused(_))),
        Also::RedirectRefused => answer.failure().is_some_and(|failure| failure.is_redirect()),
        Also::Cause(failure) => answer.failure() == Some(failure),
    };
    ensure!(is_right, "not {also:?}: {answer:?}");
    Ok(())
}

/// Where the site was well before, its last good copy stands in: nothing is blocked that it allows.
async fn with_copy(
    fault: &Fault,
    host: &str,
    abide: &Abide,
    client: &ClientWithMiddleware,
    server: &Server,
) -> anyhow::Result<()> {
    let host = format!("copy-{host}");
    let before = fetch_page(client, &host, "/open").await?;
    ensure!(before == "200", "while all was well: {before}");
    let origin = format!("http://{host}").parse().unwrap();
    abide.invalidate(&origin).await;
    let open = fetch_page(client, &host, "/open").await?;
    let closed = fetch_page(client, &host, "/closed").await?;
    // These besides back the host off, and the page waits.
    let waits =
        ["503", "509", "529"].iter().any(|status| fault.name.starts_with(status)) && open == "deferred";
    let is_right = (open == "200" || waits) && closed == "disallowed";
    ensure!(is_right, "with a copy: open {open}, closed {closed}");
    // The fault was met: asked once while all was well, and again as often as on a cold host.
    let asked = server.count(&format!("{host}/robots.txt"));
    ensure!(asked == 1 + fault.asked, "with a copy: {asked} requests for robots.txt");
    let source = abide.rules(&origin).await?.source();
    ensure!(source == Source::LastGood, "with a copy: by {source:?}");
    Ok(())
}

/// The status of a page, or why there is none.
async fn fetch_page(client: &ClientWithMiddleware, host: &str, path: &str) -> anyhow::Result<String> {
    let url = format!("http://user:{MARKER}@{host}{path}");
    let error = match client.get(&url).header("x-own", MARKER).send().await {
        Ok(page) => return Ok(page.status().as_u16().to_string()),
        Err(error) => error,
    };
    let denied = Denied::find(&error);
    let sentence = denied.as_ref().map(Denied::to_string).unwrap_or_default();
    let shown = format!("{error} {error:?} {sentence}");
    ensure!(!shown.contains(MARKER), "a secret in an error: {shown}");
    ensure!(!sentence.contains(char::is_control), "a control byte in an error: {sentence:?}");
    Ok(match denied.as_ref().map(Denied::kind) {
        Some(DeniedKind::Disallowed { .. }) => "disallowed".into(),
        Some(DeniedKind::Unreachable { .. }) => "unreachable".into(),
        Some(DeniedKind::Deferred { .. }) => "deferred".into(),
        Some(DeniedKind::CrawlDelayTooLong { .. }) => "too slow".into(),
        _ => shown,
    })
}

fn judge_the_log(server: &Server, faults: &[Arc<Fault>]) {
    for seen in server.log() {
        let name =
            seen.host().trim_start_matches("copy-").trim_start_matches('f').trim_end_matches(".example");
        let fault = name.parse::<usize>().ok().map(|n| format!("{} {}", faults[n].id, faults[n].name));
        let what = format!("{} of {:?}", seen.what(), fault);
        if matches!(seen.path.as_str(), "/open" | "/closed") {
            continue;
        }
        assert!(seen.sent <= SENT_MAX, "{what}: {} bytes sent", seen.sent);
        for (name, value) in &seen.headers {
            assert!(!value.contains(MARKER), "{what}: a secret in {name}");
        }
        for name in ["cookie", "authorization", "referer", "range"] {
            assert_eq!(seen.header(name).unwrap_or_default(), "", "{what}: {name}");
        }
        assert_eq!(seen.method, "GET", "{what}");
    }
}

/// Bytes as they are, and then the end of the connection.
fn raw(bytes: impl Into<Vec<u8>>) -> Reply {
    Reply::raw(vec![Step::send(bytes)])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_fault_of_a_page_is_met_as_required() {
    let faults: Arc<Vec<pages::Fault>> = Arc::new(pages::faults());
    let played = Arc::clone(&faults);
    let server = Server::without_rules(move |seen| {
        let n: usize = seen.host().trim_start_matches('p').trim_end_matches(".example").parse().unwrap();
        played[n].reply.clone()
    })
    .await;
    let (_, client) = crawler(&server, DEADLINE);
    let mut checked = JoinSet::new();
    for n in 0..faults.len() {
        let (faults, client) = (Arc::clone(&faults), client.clone());
        checked.spawn(async move {
            let fault = &faults[n];
            let checked = page(fault, &client, &format!("http://p{n}.example/x")).await;
            checked.map_err(|why| format!("{} {} (p{n}.example): {why:#}", fault.id, fault.name))
        });
    }
    none_failed(checked).await;
    for n in 0..faults.len() {
        assert_eq!(server.count(&format!("p{n}.example/x")), 1, "{} was asked for once", faults[n].name);
    }
}

/// The permissions of a page are as expected, soon, and its body is what was sent.
async fn page(fault: &pages::Fault, client: &ClientWithMiddleware, url: &str) -> anyhow::Result<()> {
    let page = timeout(PATIENCE, client.get(url).send()).await.context("it takes too long")?;
    let page = page?;
    let permissions = page.permissions();
    let found = [permissions.rules().noindex(), permissions.rules().nosnippet()];
    ensure!(found == fault.rules, "noindex and nosnippet are {found:?}");
    for (_, text) in permissions.warnings() {
        ensure!(!text.contains(|c: char| c.is_control()), "control bytes in {text:?}");
    }
    let Some(body) = &fault.body else { return Ok(()) };
    let read = page.bytes().await?;
    ensure!(read == body[..], "the body: {} bytes of {}", read.len(), body.len());
    Ok(())
}
