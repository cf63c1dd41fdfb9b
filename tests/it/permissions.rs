//! What a response permits, attached to it when `send()` returns.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use abide::{
    HeadEnd, MemoryPermissionStore, Options, PermissionRecord, PermissionStore, ReadOptions,
    RequestBuilderExt, ResponseExt, Scan,
};
use abide_permissions::testing::strays;
use abide_permissions::{BoxFuture, PermissionError};
use abide_tests::{Reply, Server, Step, StoppedClock, gzip, listen};
use reqwest_middleware::ClientWithMiddleware;
use tokio::sync::Notify;

use crate::{Built, builder, client};

fn page(head: &str) -> Reply {
    Reply::html(format!(
        "<!doctype html><html><head><title>x</title>{head}</head><body><p>text</body></html>"
    ))
}

async fn site() -> Server {
    Server::without_rules(|seen| match seen.path.as_str() {
        "/header" => Reply::html("page")
            .with("robots-tag", "*;nosnippet")
            .with("robots-tag", "ExampleBot;noindex, Other;nofollow"),
        "/meta" => page("<meta name=robots content='noindex'><meta name=EXAMPLEBOT content=nosnippet>"),
        "/redirect" => Reply::with_headers(302, &[("location", "/plain"), ("robots-tag", "*;noindex")], ""),
        "/error" => {
            Reply::with_headers(500, &[("content-type", "text/html")], "<meta name=robots content=noindex>")
        }
        "/gone-coding" => Reply::html("<meta name=robots content=noindex>").with("content-encoding", "x-own"),
        "/late-meta" => Reply::raw(vec![
            Step::send(b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\nconnection: close\r\n\r\n<head>"),
            Step::Sleep(Duration::from_millis(300)),
            Step::send(b"<meta name=robots content=noindex></head>"),
        ]),
        _ => page(""),
    })
    .await
}

fn with_store(server: &Server) -> ClientWithMiddleware {
    let store = MemoryPermissionStore::new(NonZeroUsize::new(100).unwrap());
    builder(server).permission_store(Arc::new(store)).client()
}

#[tokio::test]
async fn the_answer_is_there_before_the_page_is() {
    let end = Arc::new(Notify::new());
    let then = Arc::clone(&end);
    let server = Server::without_rules(move |_| {
        Reply::raw(vec![
            Step::send(b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\nconnection: close\r\n\r\n"),
            Step::send(b"<head><meta name=robots content=noindex></head><body>"),
            Step::Wait(then.clone()),
            Step::send(b"the end"),
        ])
    })
    .await;
    let page = client(&server).get("http://a.example/slow-tail").send().await.unwrap();
    assert!(!page.permissions().may_index());
    end.notify_one();
    let text = page.text().await.unwrap();
    assert_eq!(text, "<head><meta name=robots content=noindex></head><body>the end");
}

/// A head, then a robots meta behind it, which comes when `then` says so.
async fn page_with_a_late_meta(then: Arc<Notify>, end: &'static [u8]) -> Server {
    Server::without_rules(move |_| {
        Reply::raw(vec![
            Step::send(b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\nconnection: close\r\n\r\n"),
            Step::send(b"<head><title>x</title></head><body><p>"),
            Step::Wait(then.clone()),
            Step::send(b"<meta name=robots content=noindex>"),
            Step::send(end),
        ])
    })
    .await
}

#[tokio::test]
async fn the_whole_document_is_read_where_that_is_asked_for() {
    let then = Arc::new(Notify::new());
    let long: &'static [u8] = vec![b'x'; 600 * 1024].leak();
    for (end, is_awaited) in [(&b"the end"[..], true), (long, true), (b"the end", false)] {
        let server = page_with_a_late_meta(then.clone(), end).await;
        let read = ReadOptions::for_tokens([]).with_whole_document(is_awaited);
        let client = builder(&server).read_options(read).client();
        if is_awaited {
            then.notify_one();
        }
        let page = client.get("http://a.example/x").send().await.unwrap();
        if !is_awaited {
            then.notify_one();
        }
        let permissions = page.permissions();
        assert_eq!(permissions.head_end(), HeadEnd::Ended, "a limit behind the head leaves it known");
        assert_eq!(strays(permissions.head()).count(), usize::from(is_awaited));
        let body = page.bytes().await.unwrap();
        assert!(body.starts_with(b"<head>") && body.ends_with(end), "the body is whole");
    }
}

#[tokio::test]
async fn the_whole_document_is_read_while_its_reader_reads() {
    let then = Arc::new(Notify::new());
    let server = page_with_a_late_meta(then.clone(), b"the end").await;
    let read = ReadOptions::for_tokens([]).with_whole_document(true);
    let client = builder(&server).read_options(read).scan(Scan::Lazy).client();
    let page = client.get("http://a.example/x").send().await.unwrap();
    let settled = page.fetch_info().unwrap().settled();
    then.notify_one();
    page.bytes().await.unwrap();
    assert_eq!(strays(settled.await.head()).count(), 1);
}

#[tokio::test]
async fn a_304_keeps_what_was_found_behind_the_head() {
    let server = Server::without_rules(|seen| match seen.header("if-none-match") {
        Some(_) => Reply::with_headers(304, &[("etag", "\"1\"")], ""),
        _ => Reply::html("<head></head><body><meta name=robots content=noindex>").with("etag", "\"1\""),
    })
    .await;
    let client = with_store(&server);
    let first = client.get("http://a.example/x").send().await.unwrap().permissions();
    let again = client.get("http://a.example/x").header("if-none-match", "\"1\"").send().await.unwrap();
    assert_eq!(again.status(), 304);
    let again = again.permissions();
    assert_eq!(strays(again.head()).map(|meta| meta.name()).collect::<Vec<_>>(), ["robots"]);
    assert_eq!(again.noindex_known(), first.noindex_known());
}

#[tokio::test]
async fn xml_is_read_as_far_as_its_root() {
    let end = Arc::new(Notify::new());
    let then = Arc::clone(&end);
    let server = Server::without_rules(move |seen| match seen.path.as_str() {
        "/feed" => Reply::raw(vec![
            Step::send(b"HTTP/1.1 200 OK\r\ncontent-type: application/xml\r\nconnection: close\r\n\r\n"),
            Step::send(b"<?xml version='1.0'?><feed>"),
            Step::Wait(then.clone()),
            Step::send(b"</feed>"),
        ]),
        _ => Reply::html(
            "<html xmlns='http://www.w3.org/1999/xhtml'><head><meta name='robots' content='noindex'/></head></html>",
        )
        .with("content-type", "text/xml"),
    })
    .await;
    let feed = client(&server).get("http://a.example/feed").send().await.unwrap();
    assert_eq!(feed.permissions().noindex_known(), Some(false));
    end.notify_one();
    assert!(feed.text().await.unwrap().ends_with("</feed>"));
    assert!(!client(&server).get("http://a.example/page").send().await.unwrap().permissions().may_index());
}

#[tokio::test]
async fn a_lazy_scan_settles_with_the_body_or_its_drop() {
    let server = site().await;
    let lazy = builder(&server).scan(Scan::Lazy).client();
    let page = lazy.get("http://a.example/late-meta").send().await.unwrap();
    let settled = page.fetch_info().unwrap().settled();
    assert_eq!(page.permissions().noindex_known(), None, "not yet known");
    page.bytes().await.unwrap();
    assert_eq!(settled.await.noindex_known(), Some(true));

    let page = lazy.get("http://a.example/late-meta").send().await.unwrap();
    let settled = page.fetch_info().unwrap().settled();
    drop(page);
    let permissions = settled.await;
    assert_eq!(permissions.head_end(), HeadEnd::Interrupted);
}

#[tokio::test]
async fn scanning_can_be_left_out() {
    let server = site().await;
    let client = client(&server);
    for (scan, header, meta) in [(Scan::Off, None, None), (Scan::Headers, Some(true), None)] {
        let options = Options::new().with_scan(scan);
        let page = client.get("http://a.example/header").abide(options.clone()).send().await.unwrap();
        assert_eq!(page.permissions().noindex_known(), header, "{scan:?}");
        let page = client.get("http://a.example/meta").abide(options).send().await.unwrap();
        assert_eq!(page.permissions().noindex_known(), meta, "{scan:?}");
    }
}

#[tokio::test]
async fn rules_of_a_redirect_stay_with_its_own_url() {
    let server = site().await;
    let page = client(&server).get("http://a.example/redirect").send().await.unwrap();
    assert!(page.permissions().may_index());
    let hops = page.fetch_info().unwrap().hops();
    assert!(!hops[0].permissions().unwrap().may_index());
    assert!(hops[1].permissions().is_none());
}

#[tokio::test]
async fn what_was_not_looked_at_is_unknown_and_never_permitted_for_sure() {
    let server = site().await;
    let client = client(&server);
    for (path, end) in [("/gone-coding", HeadEnd::Undecoded), ("/error", HeadEnd::NotScanned)] {
        let permissions = client.get(format!("http://a.example{path}")).send().await.unwrap().permissions();
        assert_eq!(permissions.head_end(), end, "{path}");
        assert_eq!(permissions.noindex_known(), None, "{path}");
    }
    let head = client.head("http://a.example/meta").send().await.unwrap();
    assert_eq!(head.permissions().head_end(), HeadEnd::NotScanned);
}

#[tokio::test]
async fn a_304_comes_with_the_last_known_rules() {
    let server = Server::without_rules(|seen| match seen.header("if-none-match") {
        Some("\"1\"") => Reply::with_headers(304, &[("etag", "\"1\""), ("robots-tag", "*;noarchive")], ""),
        _ => Reply::html("<head><meta name=robots content=noindex></head>")
            .with("etag", "\"1\"")
            .with("robots-tag", "*;nosnippet")
            .with("x-robots-tag", "nofollow"),
    })
    .await;
    let client = with_store(&server);
    let first = client.get("http://a.example/x#part").send().await.unwrap().permissions();
    assert_eq!(first.rules().to_string(), "noindex, nofollow, nosnippet");
    let again = client.get("http://a.example/x").header("if-none-match", "\"1\"").send().await.unwrap();
    assert_eq!(again.status(), 304);
    // Of the 304 a field that is there replaces its lines, one that is not keeps them; so do the metas.
    assert_eq!(again.permissions().rules().to_string(), "noindex, nofollow, noarchive");
    let head = client.head("http://a.example/x").send().await.unwrap().permissions();
    assert!(head.rules().noindex() && head.rules().nosnippet(), "{}", head.rules());
}

#[tokio::test]
async fn a_dripping_head_is_given_up_and_the_body_goes_on() {
    let mut steps =
        vec![Step::send(b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\nconnection: close\r\n\r\n<head>")];
    for _ in 0..12 {
        steps.push(Step::Sleep(Duration::from_secs(1)));
        steps.push(Step::send(b"<link>"));
    }
    let clock = StoppedClock::stop();
    let server = Server::without_rules(move |_| Reply::raw(steps.clone())).await;
    let page = clock.pass_until(client(&server).get("http://a.example/x").send()).await.unwrap();
    assert!(clock.moved() < Duration::from_millis(11_500), "{:?}", clock.moved());
    assert_eq!(page.permissions().head_end(), HeadEnd::Interrupted);
    assert_eq!(page.permissions().noindex_known(), None);
    assert_eq!(clock.pass_until(page.bytes()).await.unwrap().len(), 6 + 12 * 6);
}

#[tokio::test]
async fn what_was_not_looked_at_this_time_is_not_known_from_last_time() {
    let server = Server::without_rules(|seen| match seen.method.as_str() {
        "POST" => Reply::html("<head></head><body>posted"),
        _ => Reply::html("<head><meta name=robots content=nosnippet></head>"),
    })
    .await;
    let client = with_store(&server);
    let url = "http://a.example/x";
    assert_eq!(client.get(url).send().await.unwrap().permissions().noindex_known(), Some(false));
    for again in [client.head(url), client.get(url).abide(Options::new().with_scan(Scan::Headers))] {
        let permissions = again.send().await.unwrap().permissions();
        assert_eq!(permissions.noindex_known(), None);
        assert!(permissions.rules().nosnippet(), "what was stated stays");
    }
    // A POST is about something else.
    client.post(url).send().await.unwrap();
    assert!(client.head(url).send().await.unwrap().permissions().rules().nosnippet());
}

/// A page in the head of which `noindex` stands late.
const LATE: &str =
    "<!doctype html><html><head><title>x</title><meta name=robots content=noindex></head><body>";

/// The permissions of the one page that a server has, eagerly and lazily read.
async fn read_both_ways(reply: Reply) -> [abide::Permissions; 2] {
    read_both_ways_with("accept", reply).await
}

async fn read_both_ways_with(field: &str, reply: Reply) -> [abide::Permissions; 2] {
    let server = Server::without_rules(move |_| reply.clone()).await;
    let client = client(&server);
    let mut read = Vec::new();
    for scan in [Scan::Eager, Scan::Lazy] {
        let request = client.get("http://a.example/x").header(field, "\"1\"");
        let request = request.abide(Options::new().with_scan(scan));
        let page = request.send().await.unwrap();
        let settled = page.fetch_info().unwrap().settled();
        drop(page.bytes().await);
        read.push(settled.await);
    }
    read.try_into().unwrap()
}

#[tokio::test]
async fn pages_with_strange_types_and_empty_codings_are_read() {
    let html: &[&[(&str, &str)]] = &[
        &[("content-type", "text/html charset=utf-8")],
        &[("content-type", "text/html, text/html")],
        &[("content-type", "text/plain"), ("content-type", "text/html")],
        &[("content-type", "text/html"), ("content-type", "text/plain")],
        &[("content-type", "*/*")],
        &[("content-type", "")],
        &[("content-type", "unknown/unknown")],
        &[("content-type", "text")],
        &[],
        &[("content-type", "text/html"), ("content-encoding", "")],
        &[("content-type", "text/html"), ("content-encoding", "identity, ,")],
    ];
    for fields in html {
        for permissions in read_both_ways(Reply::with_headers(200, fields, LATE)).await {
            assert_eq!(permissions.noindex_known(), Some(true), "{fields:?}: {}", permissions.head_end());
        }
    }
    let xhtml = "<html xmlns='http://www.w3.org/1999/xhtml'><head><script src='a.js'/><title/>\
                 <meta name='robots' content='noindex'/></head><body/></html>";
    let fields = [("content-type", "application/xhtml+xml")];
    for permissions in read_both_ways(Reply::with_headers(200, &fields, xhtml)).await {
        assert_eq!(permissions.noindex_known(), Some(true), "{}", permissions.head_end());
    }
}

#[tokio::test]
async fn parts_and_changes_of_a_page_are_unknown() {
    let range = |text: &'static str| ("content-range", text);
    let (html, several) =
        (("content-type", "text/html"), ("content-type", "multipart/byteranges; boundary=x"));
    for (status, fields, body) in [
        (206, vec![html, range("bytes 0-20/100")], &LATE[..21]),
        (206, vec![html, range("bytes 0-20/*")], &LATE[..21]),
        (206, vec![html, range("bytes 0-99/200")], "<title>x</title><body>"),
        (206, vec![("content-type", "application/pdf"), range("bytes 0-3/10")], "%PDF"),
        (206, vec![html, range("bytes 50-99/100")], "<body>"),
        (206, vec![html], "<body>"),
        (206, vec![several], "--x"),
        (226, vec![html, ("im", "diffe")], "1c\n."),
    ] {
        for permissions in read_both_ways(Reply::with_headers(status, &fields, body)).await {
            assert_eq!(permissions.noindex_known(), None, "{status} {fields:?}");
            assert!(!permissions.may_index(), "{status} {fields:?}");
        }
    }
    let whole = [html, range("bytes 0-21/22")];
    // RFC 9110 §15.3.7: with `If-Range`, a server should leave out the fields that the client has from
    // before.
    for (field, known) in [("accept", Some(false)), ("if-range", None)] {
        let reply = Reply::with_headers(206, &whole, "<title>x</title><body>");
        for permissions in read_both_ways_with(field, reply).await {
            assert_eq!(permissions.noindex_known(), known, "{field}");
        }
    }
}

#[tokio::test]
async fn all_gzip_members_of_a_head_are_read() {
    let fields = [("content-type", "text/html"), ("content-encoding", "gzip")];
    for (first, second) in [(&LATE[..40], &LATE[40..]), ("", LATE), ("<!doctype html>\n", &LATE[15..])] {
        let body = [gzip(first.as_bytes()), gzip(second.as_bytes())].concat();
        for permissions in read_both_ways(Reply::with_headers(200, &fields, body)).await {
            assert_ne!(permissions.noindex_known(), Some(false), "{first}: {}", permissions.head_end());
        }
    }
    let nested = Reply::html(gzip(&gzip(LATE.as_bytes()))).with("content-encoding", "gzip");
    for permissions in read_both_ways(nested.with("content-encoding", "gzip")).await {
        assert_eq!((permissions.noindex_known(), permissions.head_end()), (None, HeadEnd::Undecoded));
    }
    for permissions in read_both_ways(Reply::with_headers(200, &fields, gzip(b"<title>x</title><p>"))).await {
        assert_eq!(permissions.noindex_known(), Some(false), "one member is read as ever");
    }
}

#[tokio::test]
async fn a_client_of_ones_own_that_drops_members_permits_nothing_more() {
    let body = [gzip(&LATE.as_bytes()[..40]), gzip(&LATE.as_bytes()[40..])].concat();
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-encoding: gzip\r\ntransfer-encoding: chunked\r\n\r\n";
    let reply = [format!("{head}{:x}\r\n", body.len()).as_bytes(), &body, b"\r\n0\r\n\r\n"].concat();
    let server = Server::without_rules(move |_| Reply::raw(vec![Step::send(reply.clone())])).await;
    let (abide, own) = builder(&server).parts();
    let other = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none());
    let other = other.dns_resolver(abide.resolver()).build().unwrap();
    for (inner, noindex) in [(own, Some(true)), (other, None)] {
        let page = abide.wrap(inner).get("http://a.example/x").send().await.unwrap();
        assert_eq!(page.permissions().noindex_known(), noindex, "{}", page.permissions().head_end());
    }
}

/// HTML §13.2.6.4.4: the end of the document ends its head. RFC 9112 §6.3: only a length or the last chunk
/// shows that it is the end.
#[tokio::test]
async fn a_page_that_is_only_a_head_is_known_if_its_end_is() {
    let page = "<!doctype html><title>x</title><meta http-equiv=refresh content='0;url=/b'>";
    let reply = |fields: &str, body: &str| {
        let head = format!("HTTP/1.1 200 OK\r\ncontent-type: text/html\r\n{fields}\r\n\r\n");
        Reply::raw(vec![Step::send(head + body)])
    };
    let chunked = format!("{:x}\r\n{page}\r\n0\r\n\r\n", page.len());
    for (reply, is_known) in [
        (Reply::html(page), true),
        (Reply::html(gzip(page.as_bytes())).with("content-encoding", "gzip"), true),
        (reply("transfer-encoding: chunked", &chunked), true),
        (reply("connection: close", page), false),
    ] {
        for permissions in read_both_ways(reply).await {
            assert_eq!(permissions.noindex_known(), is_known.then_some(false), "{permissions:?}");
        }
    }
}

#[tokio::test]
async fn a_304_of_another_version_than_the_record_is_unknown() {
    fn fields(text: &'static str) -> Vec<(&'static str, &'static str)> {
        text.split("; ").filter_map(|field| field.split_once(": ")).collect()
    }
    const DATE: &str = "last-modified: Fri, 01 Jan 2027 00:00:00 GMT";
    const SINCE: &str = "if-modified-since: Fri, 01 Jan 2027 00:00:00 GMT";
    const LATER: &str = "if-modified-since: Sat, 02 Jan 2027 00:00:00 GMT";
    let variant = "vary: accept-language; last-modified: Fri, 01 Jan 2027 00:00:00 GMT";
    for (what, kept, asked, sent, expected) in [
        ("the same", "etag: \"1\"", "if-none-match: \"1\"", "etag: \"1\"", Some(false)),
        ("the request names it", "etag: \"1\"", "if-none-match: \"1\"", "", Some(false)),
        ("the date", DATE, SINCE, "", Some(false)),
        ("rolled back", "etag: \"2\"", "if-none-match: \"1\", \"2\"", "etag: \"1\"", None),
        ("one of several", "etag: \"2\"", "if-none-match: \"1\", \"2\"", "", None),
        ("seen elsewhere", "etag: \"1\"", "if-none-match: \"2\"", "", None),
        ("another date", DATE, LATER, "last-modified: Sat, 02 Jan 2027 00:00:00 GMT", None),
        ("a variant", variant, SINCE, "", None),
        ("no validators", "", "if-none-match: \"1\"", "etag: \"1\"", None),
    ] {
        let asked = fields(asked)[0];
        let server = Server::without_rules(move |seen| {
            match seen.header("if-none-match").or(seen.header("if-modified-since")) {
                Some(_) => Reply::with_headers(304, &fields(sent), ""),
                None => fields(kept)
                    .iter()
                    .fold(Reply::new(200, "x"), |reply, (name, value)| reply.with(name, value)),
            }
        })
        .await;
        let client = with_store(&server);
        let url = "http://a.example/x";
        let first = client.get(url).send().await.unwrap().permissions();
        assert_eq!(first.noindex_known(), Some(false), "{what}");
        let again = client.get(url).header(asked.0, asked.1).send().await.unwrap();
        assert_eq!(again.status().as_u16(), 304, "{what}");
        let permissions = again.permissions();
        assert_eq!(permissions.noindex_known(), expected, "{what}");
        assert_eq!(permissions.may_index(), expected == Some(false), "{what}");
    }
}

/// Keeps what it is given, and fails where the test says so.
#[derive(Debug)]
struct Failing {
    kept: MemoryPermissionStore,
    fault: Fault,
    /// It fails when it is asked for a record.
    at_load: bool,
    /// It fails when it is given one, but for the first so many.
    saves: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Error,
    Hang,
    Panic,
    PanicAtOnce,
    /// It has the record all the same, and will write it later.
    Late,
}

impl Failing {
    fn new(fault: Fault, at_load: bool, saves: Option<usize>) -> Arc<Self> {
        let kept = MemoryPermissionStore::new(NonZeroUsize::new(100).unwrap());
        Arc::new(Self { kept, fault, at_load, saves })
    }

    fn fail<'a, T: Send + 'a>(&self) -> BoxFuture<'a, Result<T, PermissionError>> {
        let fault = self.fault;
        assert!(fault != Fault::PanicAtOnce, "the store's own mistake");
        Box::pin(async move {
            match fault {
                Fault::Hang => std::future::pending().await,
                Fault::Panic => panic!("the store's own mistake"),
                _ => Err(PermissionError::new("disk full")),
            }
        })
    }
}

impl PermissionStore for Failing {
    fn load<'a>(&'a self, url: &'a str) -> BoxFuture<'a, Result<Option<PermissionRecord>, PermissionError>> {
        if self.at_load { self.fail() } else { self.kept.load(url) }
    }

    fn save<'a>(&'a self, record: &'a PermissionRecord) -> BoxFuture<'a, Result<(), PermissionError>> {
        if self.saves.is_none_or(|saves| self.kept.len() < saves) {
            return self.kept.save(record);
        }
        if self.fault != Fault::Late {
            return self.fail();
        }
        Box::pin(async move {
            self.kept.save(record).await?;
            Err(PermissionError::new("full"))
        })
    }

    fn remove<'a>(&'a self, url: &'a str) -> BoxFuture<'a, Result<(), PermissionError>> {
        if self.saves == Some(0) { self.fail() } else { self.kept.remove(url) }
    }
}

/// The page comes to forbid more, or to forbid as much, and a 304 of that version follows. The version before
/// must not answer it where it forbade less.
#[tokio::test]
async fn an_unsaved_record_permits_nothing_more() {
    let (free, noindex) = ("*;noarchive", "*;noindex");
    for (fault, at_load, first, then, expected) in [
        (Fault::Error, false, free, noindex, None),
        (Fault::PanicAtOnce, false, free, noindex, None),
        (Fault::Error, false, noindex, noindex, Some(true)),
        (Fault::PanicAtOnce, false, noindex, noindex, Some(true)),
        (Fault::Late, false, free, noindex, Some(true)),
        (Fault::Hang, false, noindex, noindex, Some(true)),
        (Fault::Error, true, noindex, noindex, None),
    ] {
        let fetches = AtomicUsize::new(0);
        let server = Server::without_rules(move |_| {
            let page = |rules| {
                let fields = [("content-type", "text/html"), ("robots-tag", rules), ("etag", "\"1\"")];
                Reply::with_headers(200, &fields, "<title>x</title>")
            };
            match fetches.fetch_add(1, Ordering::Relaxed) {
                0 => page(first),
                1 => page(then),
                _ => Reply::with_headers(304, &[("etag", "\"1\"")], ""),
            }
        })
        .await;
        let store = Failing::new(fault, at_load, (!at_load).then_some(1));
        let client = builder(&server).permission_store(store).client();
        for expected in [Some(first == noindex), Some(true), expected] {
            let response = client.get("http://a.example/x").send().await.unwrap();
            assert_eq!(response.permissions().noindex_known(), expected, "{fault:?}, {first} and {then}");
        }
    }
}

/// The unread response waits for the store, and the next request to its host for the response.
#[tokio::test]
async fn a_failing_permission_store_costs_only_the_record() {
    let (server, (captured, _listening)) = (Arc::new(site().await), listen());
    let mut crawls = tokio::task::JoinSet::new();
    let faults = [Fault::Error, Fault::Hang, Fault::Panic, Fault::PanicAtOnce];
    for (fault, at_load) in faults.into_iter().flat_map(|fault| [(fault, true), (fault, false)]) {
        let server = Arc::clone(&server);
        crawls.spawn(async move {
            let client = builder(&*server).permission_store(Failing::new(fault, at_load, Some(0))).client();
            // Two requests, and one that was redirected.
            for path in ["header", "redirect"] {
                let page = client.get(format!("http://a.example/{path}")).send();
                let page = tokio::time::timeout(Duration::from_secs(120), page).await;
                let page = page.unwrap_or_else(|_| panic!("{fault:?}: the response comes")).unwrap();
                assert_eq!(page.permissions().may_index(), path != "header", "{fault:?}");
                assert!(!page.text().await.unwrap().is_empty(), "{fault:?}");
            }
        });
    }
    while let Some(crawl) = crawls.join_next().await {
        crawl.unwrap();
    }
    let (said, expected) = (captured.named("abide.permissions.not_persisted"), 8 * 3);
    assert_eq!(said.len(), expected);
    for sentence in ["disk full", "no answer within 2s", "a panic"] {
        assert!(said.iter().any(|said| said.text.contains(sentence)), "{sentence}: {said:?}");
    }
}
