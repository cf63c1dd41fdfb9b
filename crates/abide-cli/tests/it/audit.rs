//! `abide audit`: seeded faults are found, and an archive of abide's own shows none.

use std::io::Write;

use abide_tests::{Reply, Server, gzip};
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use sha2::Digest as _;

use crate::warc::files;
use crate::{Directory, Ran, abide, directory, file, has, online, store};

/// An archive of some crawler, which is not ours: requests and responses, without digests or decisions.
#[derive(Default)]
struct Foreign {
    records: Vec<Vec<u8>>,
    agent: Option<&'static str>,
}

impl Foreign {
    fn new() -> Self {
        Self { agent: Some("OtherBot/2.0 (+http://other.example/)"), ..Self::default() }
    }

    fn record(mut self, kind: &str, url: &str, at: &str, fields: &str, block: impl AsRef<[u8]>) -> Self {
        let block = block.as_ref();
        let id = self.records.len();
        let head = format!(
            "WARC/1.0\r\nWARC-Type: {kind}\r\nWARC-Record-ID: <urn:uuid:00000000-0000-4000-8000-{id:012}>\r\n\
             WARC-Target-URI: {url}\r\nWARC-Date: 2026-11-21T00:{at}Z\r\n\
             Content-Type: application/http; msgtype={kind}\r\n{fields}Content-Length: {}\r\n\r\n",
            block.len()
        );
        self.records.push([head.as_bytes(), block, b"\r\n\r\n"].concat());
        self
    }

    /// The last record as another writer would have it.
    fn written(mut self, from: &str, to: &str) -> Self {
        let record = self.records.pop().unwrap();
        let text = String::from_utf8(record).unwrap();
        assert!(text.contains(from), "{text}");
        self.records.push(text.replacen(from, to, 1).into_bytes());
        self
    }

    /// A request at so many minutes and seconds, and what came back.
    fn exchange(self, url: &str, at: &str, response: impl AsRef<[u8]>) -> Self {
        let request = self.request(url, at);
        request.record("response", url, at, "", [b"HTTP/1.1 ", response.as_ref()].concat())
    }

    fn request(self, url: &str, at: &str) -> Self {
        let agent = self.agent.map(|agent| format!("User-Agent: {agent}\r\n")).unwrap_or_default();
        self.record("request", url, at, "", format!("GET / HTTP/1.1\r\n{agent}Host: x\r\n\r\n"))
    }

    fn page(self, url: &str, at: &str) -> Self {
        self.exchange(url, at, "200 OK\r\nContent-Type: text/html\r\n\r\n<title>a</title>")
    }

    fn robots(self, host: &str, at: &str, text: &str) -> Self {
        let response = format!("200 OK\r\nContent-Type: text/plain\r\n\r\n{text}");
        self.exchange(&format!("http://{host}/robots.txt"), at, response)
    }

    /// With a gzip member for each record, in one for all, and without.
    fn texts(&self) -> [Vec<u8>; 3] {
        let all = self.records.concat();
        [self.records.iter().flat_map(|record| gzip(record)).collect(), gzip(&all), all]
    }

    /// What is found, the same in each form: its kind, and the path of its URL.
    #[track_caller]
    fn finds(&self, args: &str, expected: &[&str]) {
        for text in self.texts() {
            let path = file(text);
            let ran = abide(format!("audit --json {args} {path}"));
            let found: Vec<String> = ran.lines().iter().map(short).collect();
            assert_eq!(found, expected, "{}{}", ran.out, ran.err);
            ran.ends_with(i32::from(expected.iter().any(|found| !found.starts_with("note"))));
        }
    }
}

/// `disallowed /secret`.
fn short(finding: &Value) -> String {
    let url: Option<url::Url> = finding["url"].as_str().and_then(|url| url.parse().ok());
    let mark = if finding["level"] == "note" { "note " } else { "" };
    let path = url.map(|url| url.path().to_owned()).unwrap_or_default();
    format!("{mark}{} {path}", finding["kind"].as_str().unwrap())
}

#[test]
fn each_request_is_judged_by_the_robots_txt_before_it() {
    let rules = "User-agent: *\nDisallow: /\n\nUser-agent: OtherBot\nDisallow: /secret\n";
    let crawl = Foreign::new()
        .page("http://a.example/first", "10:00")
        .page("http://a.example/second", "10:02")
        .robots("a.example", "10:04", rules)
        .page("http://a.example/page", "10:06")
        .page("http://a.example/secret", "10:08")
        // Another origin, and one that redirects.
        .exchange("http://b.example/robots.txt", "10:10", "301 M\r\nLocation: http://c.example/r.txt\r\n\r\n")
        .exchange("http://c.example/r.txt", "10:12", "200 OK\r\n\r\nUser-agent: *\nDisallow: /b")
        .page("http://b.example/b", "10:14")
        .exchange("http://d.example/robots.txt", "10:16", "503 Busy\r\n\r\n")
        .page("http://d.example/x", "10:40")
        .exchange("http://e.example/robots.txt", "10:42", "404 None\r\n\r\n")
        .page("http://e.example/x", "10:44");
    crawl.finds("", &["no-robots /first", "disallowed /secret", "disallowed /b", "disallowed /x"]);
    crawl.finds(
        "--agent FooBot",
        &["no-robots /first", "disallowed /page", "disallowed /secret", "disallowed /b", "disallowed /x"],
    );
    let path = file(crawl.texts()[0].clone());
    let ran = abide(format!("audit {path}"));
    ran.ends_with(1)
        .shows(&[": disallowed: http://a.example/secret: disallowed by \"Disallow: /secret\" on line 5"]);
    ran.reports(&["24 records: 12 requests to 5 hosts; 4 findings, 0 notes"]);
    // In pieces, as it was on the wire, and coded.
    let text = gzip(b"User-agent: *\nDisallow: /z");
    let mut chunks =
        format!("200 OK\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n", text.len());
    let chunked = [std::mem::take(&mut chunks).as_bytes(), &text, b"\r\n0\r\n\r\n"].concat();
    let crawl = Foreign::new().exchange("http://f.example/robots.txt", "10:00", chunked);
    crawl.page("http://f.example/z", "10:02").finds("", &["disallowed /z"]);
}

/// Whose requests they are says each of them, also where it comes behind its response.
#[test]
fn each_request_is_judged_by_its_own_user_agent() {
    let rules = "User-agent: OneBot\nDisallow: /\n\nUser-agent: TwoBot\nAllow: /\n";
    let page = "HTTP/1.1 200 OK\r\n\r\nx";
    let by = |agent: &'static str, crawl: Foreign, path: &str, at: &str| {
        let url = format!("http://a.example{path}");
        let crawl = crawl.record("response", &url, at, "", page);
        Foreign { agent: Some(agent), ..crawl }.request(&url, at)
    };
    let crawl = Foreign::new().robots("a.example", "10:00", rules);
    let crawl = by("TwoBot/1.0", crawl, "/allowed", "10:02");
    let crawl = by("OneBot/1.0", crawl, "/denied", "10:04");
    by("TwoBot/1.0", crawl, "/too", "10:06").finds("", &["disallowed /denied"]);
    // Of a response alone, by the last request.
    let crawl =
        Foreign { agent: Some("OneBot/1.0"), ..Foreign::default() }.robots("a.example", "10:00", rules);
    crawl.record("response", "http://a.example/alone", "10:02", "", page).finds("", &["disallowed /alone"]);
    // What a file says of its crawler is borne out by its requests.
    let crawl = Foreign { agent: Some("OneBot/1.0"), ..Foreign::default() };
    let crawl = crawl.record("warcinfo", "http://a.example/", "10:00", "", "abide-agent: TwoBot\r\n");
    crawl
        .robots("a.example", "10:00", rules)
        .page("http://a.example/x", "10:02")
        .finds("", &["disallowed /x"]);
}

#[test]
fn a_revisit_says_what_the_record_said_that_it_names() {
    let (deny, allow) = ("User-agent: *\nDisallow: /x\n", "User-agent: *\nAllow: /\n");
    let robots = "http://a.example/robots.txt";
    let again = |crawl: Foreign, field: &str, status: &str| {
        crawl.record("revisit", robots, "10:06", field, format!("HTTP/1.1 {status}\r\n\r\n"))
    };
    let versions = |first: &str, second: &str| {
        Foreign::new().robots("a.example", "10:02", first).robots("a.example", "10:04", second)
    };
    let digest = format!("WARC-Payload-Digest: sha256:{}\r\n", digest_of(deny));
    let refers = "WARC-Refers-To: <urn:uuid:00000000-0000-4000-8000-000000000001>\r\n";
    for field in [digest.as_str(), refers] {
        let crawl = again(versions(deny, allow), field, "200 OK");
        crawl.page("http://a.example/x", "10:08").finds("", &["disallowed /x"]);
    }
    let crawl = again(versions(allow, deny), refers, "200 OK");
    crawl.page("http://a.example/x", "10:08").finds("", &[]);
    // A 304 confirms the last text; some write it as a response.
    let crawl = again(versions(deny, deny), "", "304 Same").written("Type: revisit", "Type: response");
    crawl.page("http://a.example/x", "10:08").finds("", &["disallowed /x"]);
}

#[test]
fn a_redirect_of_robots_txt_excuses_no_page() {
    let crawl = Foreign::new().robots("a.example", "10:00", "User-agent: *\nDisallow: /x").exchange(
        "http://b.example/robots.txt",
        "10:02",
        "301 M\r\nLocation: http://a.example/x\r\n\r\n",
    );
    let crawl = (0..4).fold(crawl, |crawl, time| crawl.request("http://a.example/x", &format!("1{time}:30")));
    crawl.finds("", &["disallowed /x", "disallowed /x"]);
}

/// What is read of the records of other writers, whatever their habits.
#[test]
fn other_spellings_of_a_record_hide_nothing() {
    let crawl = || Foreign::new().robots("a.example", "10:00", "User-agent: *\nDisallow: /x");
    let typed =
        crawl().request("http://a.example/x", "10:05").written("application/http;", "Application/HTTP;");
    typed.finds("", &["disallowed /x"]);
    crawl().page("http://a.example/x", "10").finds("", &["disallowed /x"]);
    let busy = crawl().record(
        "response",
        "http://a.example/1",
        "10:05",
        "",
        b"HTTP/1.1 429 Demasi\xe1das\r\nRetry-After: 100\r\n\r\n",
    );
    busy.page("http://a.example/2", "10:10").finds("", &["ignored-wait /2"]);
    let many: String = (0..30_000).map(|n| format!("f{n}: x\r\n")).collect();
    crawl()
        .exchange("http://a.example/x", "10:05", format!("200 OK\r\n{many}\r\nx"))
        .finds("", &["disallowed /x"]);
    // Digests of payloads: behind bare line ends, and of chunks or of what is in them.
    let payload = |text: &str| format!("WARC-Payload-Digest: sha256:{}\r\n", digest_of(text));
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
    for (stated, block, found) in [
        ("one\r\n\r\ntwo", "HTTP/1.1 200 OK\nServer: x\n\none\r\n\r\ntwo", vec![]),
        ("abc", chunked, vec![]),
        ("3\r\nabc\r\n0\r\n\r\n", chunked, vec![]),
        ("abd", chunked, vec!["broken-record /1"]),
    ] {
        crawl().record("response", "http://a.example/1", "10:05", &payload(stated), block).finds("", &found);
    }
    // Two halves for one URL are not always of one exchange: no request comes behind its response.
    let halves = crawl().record("response", "http://a.example/1", "10:05", "", "HTTP/1.1 429 Slow\r\n\r\n");
    halves.request("http://a.example/1", "10:09").finds("", &["ignored-wait /1"]);
}

#[test]
fn requests_too_close_are_found() {
    let crawl = |times: [&str; 4]| {
        let [robots, rest @ ..] = times;
        let crawl = Foreign::new().robots("a.example", robots, "User-agent: *\nCrawl-delay: 3\n");
        rest.iter()
            .zip(["/1", "/2", "/3"])
            .fold(crawl, |crawl, (at, path)| crawl.page(&format!("http://a.example{path}"), at))
    };
    crawl(["10:00.000", "10:03.000", "10:06.000", "10:09.000"]).finds("", &[]);
    crawl(["10:00.000", "10:03.000", "10:05.999999", "10:09.000"]).finds("", &["short-delay /2"]);
    crawl(["10:00.000", "10:03.000", "10:07.500", "10:11.000"])
        .finds("--delay 4", &["short-delay /1", "short-delay /3"]);
    // Of whole seconds one may be nearly a second more.
    crawl(["10:00", "10:03", "10:05", "10:09"]).finds("", &["short-delay /2"]);
    let seconds = |delay: &str, found: &[&str]| {
        let crawl = Foreign::new().robots("b.example", "10:00", "");
        let crawl = crawl.page("http://b.example/1", "10:01").page("http://b.example/2", "10:01");
        crawl.page("http://c.example/3", "10:01").finds(delay, found);
    };
    seconds("", &["short-delay /2", "no-robots /3"]);
    seconds("--delay 500ms", &["no-robots /3"]);
    // A connection that is closed before there is a response may be used for the same request once more.
    let again = |times: usize| {
        let crawl = Foreign::new().robots("a.example", "10:00.0", "");
        let crawl = (0..times)
            .fold(crawl, |crawl, time| crawl.request("http://a.example/1", &format!("10:05.00{time}")));
        crawl.page("http://a.example/1", "10:05.100")
    };
    again(1).finds("", &[]);
    again(2).finds("", &["short-delay /1"]);
}

#[test]
fn a_request_to_wait_that_is_not_heard_is_found() {
    let asked = |answer: &str, next: &str| {
        let crawl = Foreign::new().robots("a.example", "10:00", "");
        let crawl = crawl.exchange("http://a.example/1", "10:02", format!("{answer}\r\n\r\n"));
        crawl.page("http://a.example/2", next)
    };
    for (answer, heard, ignored) in [
        ("429 Slow\r\nRetry-After: 120", "12:02", "12:00"),
        ("503 Busy\r\nRetry-After: 30", "10:32", "10:30"),
        ("404 None\r\nRetry-After: 30", "10:32", "10:30"),
        (
            "429 Slow\r\nDate: Sat, 21 Nov 2026 00:10:02 GMT\r\nRetry-After: Sat, 21 Nov 2026 00:11:02 GMT",
            "11:02",
            "11:00",
        ),
        ("429 Slow", "10:12", "10:10"),
    ] {
        asked(answer, heard).finds("", &[]);
        asked(answer, ignored).finds("", &["ignored-wait /2"]);
    }
    asked("500 Broken", "10:04").finds("", &[]);
    asked("302 Away\r\nLocation: /2\r\nRetry-After: 30", "10:20").finds("", &["ignored-wait /2"]);
    asked("302 Away\r\nLocation: /3\r\nRetry-After: 30", "10:20").finds("", &[]);
}

#[test]
fn what_is_stated_on_what_was_kept_is_found() {
    let html = |head: &str| format!("200 OK\r\nContent-Type: text/html\r\n\r\n<head>{head}</head><p>x");
    let crawl = Foreign::new()
        .robots("a.example", "10:00", "User-agent: *\nContent-Signal: ai-train=no\nAllow: /")
        .exchange("http://a.example/robots-txt", "10:02", html(""))
        .robots("b.example", "10:00", "")
        .exchange("http://b.example/noai", "10:04", html("<meta name=robots content=noai>"))
        .exchange("http://b.example/noindex", "10:06", html("<meta name=OtherBot content=noindex>"))
        .exchange("http://b.example/others", "10:08", html("<meta name=FooBot content=noindex>"))
        .exchange("http://b.example/header", "10:10", "200 OK\r\nX-Robots-Tag: noarchive\r\n\r\n%PDF")
        .exchange("http://b.example/usage", "10:12", "200 OK\r\nContent-Usage: train-ai=n\r\n\r\n%PDF")
        .exchange("http://b.example/tdm", "10:14", html("<meta name=tdm-reservation content=1>"))
        .record(
            "revisit",
            "http://b.example/again",
            "10:15",
            "",
            "HTTP/1.1 200 OK\r\nX-Robots-Tag: noai\r\n\r\n",
        )
        // Nothing was kept of these.
        .exchange("http://b.example/empty", "10:16", "200 OK\r\nX-Robots-Tag: noarchive\r\n\r\n")
        .exchange("http://b.example/gone", "10:18", "410 Gone\r\nX-Robots-Tag: noarchive\r\n\r\ngone")
        .robots("c.example", "10:20", "")
        .exchange(
            "http://c.example/.well-known/tdmrep.json",
            "10:22",
            "200 OK\r\n\r\n[{\"location\": \"/held\", \"tdm-reservation\": 1}]",
        )
        .exchange("http://c.example/held", "10:24", html(""))
        .exchange("http://c.example/free", "10:26", html(""));
    let pages = ["/robots-txt", "/noai", "/noindex", "/header", "/usage", "/tdm", "/again", "/held"];
    let expected: Vec<String> = pages.iter().map(|page| format!("stated {page}")).collect();
    let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
    crawl.finds("", &expected);
}

#[test]
fn a_broken_record_is_found_and_a_broken_file_ends_the_audit() {
    let digest = |stated: &str| format!("WARC-Block-Digest: {stated}\r\n");
    let page = "HTTP/1.1 200 OK\r\n\r\nhello";
    let good = ["sha1:IORUMWLIBUO53GZZJS7FEOU3IDD3AFBH", "sha1:43a34659680d1ddd9b394cbe523a9b40c7b01427"];
    for (stated, kinds) in [
        (good[0], vec![]),
        (good[1], vec![]),
        ("md5:unknown", vec![]),
        ("sha1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", vec!["broken-record /1"]),
    ] {
        let crawl = Foreign::new().robots("a.example", "10:00", "");
        crawl.record("response", "http://a.example/1", "10:02", &digest(stated), page).finds("", &kinds);
    }
    let crawl = Foreign::new().robots("a.example", "10:00", "").record(
        "response",
        "http://a.example/1",
        "10:02",
        "",
        "no HTTP",
    );
    crawl
        .record("response", "http://a.example/2", "soon", "", page)
        .finds("", &["broken-record /1", "broken-record /2"]);

    // What was found before is said, and the place where it ends.
    let crawl = Foreign::new().page("http://a.example/1", "10:02").page("http://a.example/2", "10:09");
    let whole = crawl.texts();
    for text in [&whole[0], &whole[2]] {
        let cut = file(&text[..text.len() - 30]);
        let ran = abide(format!("audit --json {cut}"));
        ran.ends_with(2).shows(&["no-robots"]).reports(&["it cannot be read on"]);
    }
    let mut flipped = whole[0].clone();
    let middle = flipped.len() - 40;
    flipped[middle] ^= 1;
    let flipped = file(flipped);
    abide(format!("audit {flipped}")).ends_with(2).shows(&["no-robots"]).reports(&["it cannot be read on"]);
    let text = file("no archive");
    abide(format!("audit {text}"))
        .ends_with(2)
        .reports(&["byte 0: expected a record that begins with WARC/"]);
    abide("audit /nonexistent/a.warc.gz").is_wrong_usage(&["/nonexistent/a.warc.gz: "]);
    abide_with_stdin(&whole[0]).ends_with(1).shows(&["standard input:"]);
}

fn abide_with_stdin(text: &[u8]) -> Ran {
    crate::abide_with("audit -", text)
}

#[test]
fn files_of_one_crawl_are_read_as_one() {
    let robots = Foreign::new().robots("a.example", "10:00", "User-agent: *\nDisallow: /2");
    let robots = robots.page("http://a.example/3", "10:08");
    let pages = Foreign::new().page("http://a.example/1", "10:04").page("http://a.example/2", "10:06");
    let (one, other) = (file(robots.texts()[0].clone()), file(pages.texts()[0].clone()));
    for files in [format!("{one} {other}"), format!("{other} {one}")] {
        let ran = abide(format!("audit --json {files}"));
        let found: Vec<String> = ran.lines().iter().map(short).collect();
        assert_eq!(found, ["disallowed /2"], "{}", ran.out);
    }
}

/// Pages with all that a site may say.
async fn site() -> Server {
    Server::start(|seen| match seen.path.as_str() {
        "/robots.txt" if seen.host() == "c.example" => Reply::new(503, "down"),
        "/robots.txt" if seen.host() == "b.example" => Reply::redirect(302, "/rules"),
        "/rules" => Reply::new(200, "User-agent: *\nCrawl-delay: 2\nAllow: /\nContent-Signal: ai-train=no"),
        "/robots.txt" => Reply::with_headers(
            200,
            &[("content-type", "text/plain"), ("content-encoding", "gzip")],
            gzip(b"User-agent: OtherBot\nDisallow: /\n\nUser-agent: ExampleBot\nDisallow: /secret\nAllow: /secret/not\n"),
        ),
        "/" => Reply::html("<a href=/1>1</a><a href=/secret>s</a><a href=/secret/not>n</a><a href=/busy>b</a>"),
        "/1" => Reply::html("<meta name=robots content='noai, noindex, noarchive'><meta name=tdm-reservation content=1>"),
        "/busy" => Reply::retry_after(503, 1),
        _ => Reply::with_headers(200, &[("content-usage", "train-ai=n"), ("x-robots-tag", "noindex")], "text"),
    })
    .await
}

/// An archive of abide's own.
async fn own(directory: &Directory, args: &str) -> String {
    let server = site().await;
    let warc = directory.place("own.warc.gz");
    let call =
        format!("crawl {args} --delay 1 --warc {warc} --keep-noarchive a.example/ b.example/x c.example/");
    online(&server, &call).await;
    warc
}

#[tokio::test]
async fn an_archive_of_abide_shows_nothing_impolite() {
    let (directory, store) = store();
    let warc = own(&directory, &format!("--store {store}")).await;
    let ran = abide(format!("audit --json {warc}"));
    let lines = ran.ends_with(0).lines();
    assert!(lines.iter().all(|line| line["level"] == "note" && line["kind"] == "stated"), "{}", ran.out);
    let notes: Vec<String> = lines.iter().map(short).collect();
    assert!(notes.len() > 5 && notes.contains(&"note stated /1".to_owned()), "{notes:?}");
    let stated: Vec<&str> = lines.iter().filter_map(|line| line["why"].as_str()?.split(' ').next()).collect();
    for name in ["noai", "noindex", "noarchive", "tdm", "train-ai"] {
        assert!(stated.contains(&name), "{name}: {stated:?}");
    }
    // Of a second call, whose robots.txt files are in the store, with an archive of its own.
    let second = directory.place("second.warc.gz");
    let server = site().await;
    let call = format!("crawl --store {store} --delay 1 --restart --warc {second} a.example/1");
    online(&server, &call).await;
    abide(format!("audit --json {second}")).ends_with(0);
    abide(format!("audit --quiet {warc}")).ends_with(0).is_silent();
}

impl Ran {
    fn is_silent(&self) {
        assert_eq!((self.out.as_str(), self.err.as_str()), ("", ""));
    }
}

/// The records of an archive, each as text, with digests that are computed anew when it is written again.
fn records(path: &str) -> Vec<String> {
    let mut text = Vec::new();
    let file = std::fs::File::open(path).unwrap();
    std::io::Read::read_to_end(&mut flate2::read::MultiGzDecoder::new(file), &mut text).unwrap();
    let text: String = text.iter().map(|byte| char::from(*byte)).collect();
    text.split("WARC/1.1\r\n").skip(1).map(|record| format!("WARC/1.1\r\n{record}")).collect()
}

/// Writes records again, without their digests, so that only what they say is judged.
fn rewritten(records: &[String]) -> crate::Temporary {
    let mut out = Vec::new();
    for record in records {
        let (head, block) = record.split_once("\r\n\r\n").unwrap();
        let block = block.strip_suffix("\r\n\r\n").unwrap();
        let keeps = |line: &&str| !line.starts_with("Content-Length") && !line.contains("-Digest: ");
        let head: Vec<&str> = head.split("\r\n").filter(keeps).collect();
        let record = format!(
            "{}\r\nContent-Length: {}\r\n\r\n{block}\r\n\r\n",
            head.join("\r\n"),
            block.chars().count()
        );
        let bytes: Vec<u8> = record.chars().map(|letter| letter as u8).collect();
        let mut member = GzEncoder::new(Vec::new(), Compression::fast());
        member.write_all(&bytes).unwrap();
        out.extend(member.finish().unwrap());
    }
    file(out)
}

/// Each is seeded into an archive that shows nothing, and is found.
#[tokio::test]
async fn seeded_faults_are_found() {
    let server = Server::start(|seen| match seen.path.as_str() {
        "/robots.txt" => Reply::new(200, "User-agent: *\nDisallow: /secret\n"),
        "/" => Reply::html("<a href=/1>1</a><a href=/2>2</a><a href=/secret>s</a>"),
        "/2" => Reply::html("<meta name=robots content=noai>keep me not"),
        _ => Reply::html("one"),
    })
    .await;
    let directory = directory();
    let warc = directory.place("a.warc.gz");
    online(&server, format!("crawl --delay 1 --warc {warc} a.example/")).await.ends_with(0);
    let good = records(&warc);
    let found = |records: &[String]| {
        let path = rewritten(records);
        let ran = abide(format!("audit --json {path}"));
        let lines = ran.lines().into_iter().filter(|line| line["level"] == "finding");
        let found: Vec<String> = lines.map(|line| short(&line)).collect();
        assert_eq!(ran.status, i32::from(!found.is_empty()), "{}{}", ran.out, ran.err);
        found
    };
    let none: [&str; 0] = [];
    assert_eq!(found(&good), none);
    let change =
        |what: &dyn Fn(&str) -> String| found(&good.iter().map(|record| what(record)).collect::<Vec<_>>());
    let is = |record: &str, kind: &str, path: &str| {
        let url = format!("/{path}\r\n");
        record.contains(&format!("WARC-Type: {kind}\r\n"))
            && record
                .lines()
                .any(|line| line.starts_with("WARC-Target-URI") && format!("{line}\r\n").ends_with(&url))
    };

    // The request for a page that is disallowed.
    let seeded = change(&|record| match is(record, "request", "1") || is(record, "response", "1") {
        true => record.replace("/1\r\n", "/secret\r\n"),
        false => record.to_owned(),
    });
    assert_eq!(seeded, ["disallowed /secret"]);
    // A request half a second after the one before.
    let early = |record: &str| {
        let date = record.lines().find(|line| line.starts_with("WARC-Date")).unwrap();
        let first = good.iter().find(|record| is(record, "request", "")).unwrap();
        let first = first.lines().find(|line| line.starts_with("WARC-Date")).unwrap();
        let (second, micros) = first.trim_end_matches('Z').rsplit_once('.').unwrap();
        let micros = (micros.parse::<u32>().unwrap() + 1_000).min(999_999);
        record.replace(date, &format!("{second}.{micros:06}Z"))
    };
    let seeded = change(&|record| match is(record, "request", "1") || is(record, "response", "1") {
        true => early(record),
        false => record.to_owned(),
    });
    assert_eq!(seeded, ["short-delay /1"]);
    // A 429 after which the crawl went on.
    let seeded = change(&|record| match is(record, "response", "") {
        true => record.replace("HTTP/1.1 200 Scripted\r\n", "HTTP/1.1 429 Slow\r\nretry-after: 60\r\n"),
        false => record.to_owned(),
    });
    assert_eq!(seeded, ["ignored-wait /1", "ignored-wait /2"]);
    // A page that was kept, with noai, by who did not read it.
    let seeded = change(&|record| match is(record, "metadata", "2") {
        true => record.replace("\"usage\":\"noai\"", "\"usage\":\"search\""),
        false => record.to_owned(),
    });
    assert_eq!(seeded, ["stated /2"]);
    // One byte of a robots.txt: the decisions name other bytes.
    let seeded = change(&|record| match is(record, "response", "robots.txt") {
        true => record.replace("/secret", "/secres"),
        false => record.to_owned(),
    });
    assert_eq!(seeded, ["decision /", "decision /1", "decision /2", "decision /secret"]);
    // The same where its digest was made to fit, too.
    let stated = good.iter().find(|record| is(record, "metadata", "1")).unwrap();
    let stated = stated.split("\"robots_digest\":\"").nth(1).unwrap().split('"').next().unwrap();
    let fits = "sha256:".to_owned() + &digest_of("User-agent: *\nDisallow: /secres\n");
    let seeded =
        change(&|record| record.replace(stated, &fits).replace("Disallow: /secret\n", "Disallow: /secres\n"));
    assert_eq!(seeded, ["decision /secret"], "it says disallowed, and the bytes do not");
    // A byte that is flipped without more is a digest that is wrong.
    let bytes = good.iter().flat_map(|record| {
        let record = if is(record, "response", "robots.txt") {
            record.replace("/secret", "/secres")
        } else {
            record.clone()
        };
        gzip(&record.chars().map(|letter| letter as u8).collect::<Vec<u8>>())
    });
    let path = file(bytes.collect::<Vec<u8>>());
    let ran = abide(format!("audit --json {path}"));
    let first = &ran.ends_with(1).lines()[0];
    has(
        first,
        json!({"level": "finding", "kind": "broken-record", "why": "WARC-Block-Digest is not that of the bytes; WARC-Payload-Digest is not that of the bytes"}),
    );
    assert_eq!(crate::keys(first), "level kind file offset record url time why");
    assert!(files(&directory).len() == 1 && first["offset"].as_u64() > Some(0));
}

fn digest_of(text: &str) -> String {
    data_encoding::BASE32.encode(&sha2::Sha256::digest(text))
}
