//! `crawl --warc`: what the archive holds, as independent readers see it.
//!
//! warcio and fastwarc, both of Python, read every file and check every digest (`tests/judge.py`).
//! `ABIDE_WARC_PYTHON` names a Python that has them, instead of that of `target/ci-venv`.

use std::path::{Path, PathBuf};
use std::process::Command;
#[cfg(unix)]
use std::time::Duration;

use abide_tests::{Reply, Seen, Server, Step, gzip};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use crate::{Directory, directory, has, online, store};

/// A record as warcio replays it.
#[derive(Debug, Clone)]
pub(crate) struct Record(pub(crate) Value);

impl Record {
    pub(crate) fn field(&self, name: &str) -> &str {
        let fields = self.0["fields"].as_object().unwrap();
        let found = fields.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
        found.and_then(|(_, value)| value.as_str()).unwrap_or_default()
    }

    pub(crate) fn is(&self, kind: &str, path: &str) -> bool {
        let url: Option<url::Url> = self.field("WARC-Target-URI").parse().ok();
        self.field("WARC-Type") == kind && url.is_some_and(|url| url.path() == path)
    }

    /// The first line of the HTTP message, and its fields.
    fn head(&self) -> (&str, Vec<(String, String)>) {
        let fields = self.0["http"].as_array().unwrap().iter();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        (self.0["first"].as_str().unwrap(), fields.map(|field| (text(&field[0]), text(&field[1]))).collect())
    }

    fn body(&self) -> String {
        String::from_utf8(BASE64_STANDARD.decode(self.0["body"].as_str().unwrap()).unwrap()).unwrap()
    }

    pub(crate) fn decision(&self) -> Value {
        serde_json::from_str(&self.body()).unwrap()
    }
}

/// What the judges say of these files; `None` where there is no Python with them, which has been said.
pub(crate) fn judged(files: &[PathBuf]) -> Option<Vec<Record>> {
    let top = Path::new(env!("CARGO_MANIFEST_DIR"));
    let python = std::env::var_os("ABIDE_WARC_PYTHON").map(PathBuf::from);
    let python = python.unwrap_or_else(|| top.join("../../target/ci-venv/bin/python"));
    let has_judges = Command::new(&python).args(["-c", "import warcio, fastwarc"]).output();
    if !has_judges.is_ok_and(|tried| tried.status.success()) {
        assert!(
            std::env::var_os("ABIDE_REQUIRE_WARC_JUDGES").is_none(),
            "no warcio and fastwarc in {python:?}"
        );
        eprintln!("skipped: warcio and fastwarc are not installed in {}", python.display());
        return None;
    }
    let said = Command::new(python).arg(top.join("tests/judge.py")).args(files).output().unwrap();
    let (out, err) = (String::from_utf8(said.stdout).unwrap(), String::from_utf8_lossy(&said.stderr));
    assert!(said.status.success(), "{err}");
    Some(out.lines().map(|line| Record(serde_json::from_str(line).unwrap())).collect())
}

/// The files of an archive, in order.
pub(crate) fn files(directory: &Directory) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> =
        entries.filter(|path| path.to_string_lossy().ends_with(".warc.gz")).collect();
    // `a-00002` sorts before `a.warc`.
    files.sort_by_key(|path| (path.to_string_lossy().len(), path.clone()));
    files
}

/// All that is in them, decompressed.
fn text(files: &[PathBuf]) -> String {
    let text = |path: &PathBuf| {
        let (mut text, file) = (Vec::new(), std::fs::File::open(path).unwrap());
        std::io::Read::read_to_end(&mut flate2::read::MultiGzDecoder::new(file), &mut text).unwrap();
        String::from_utf8_lossy(&text).into_owned()
    };
    files.iter().map(text).collect()
}

/// Pages that differ in how they come.
fn page(seen: &Seen) -> Reply {
    match seen.path.as_str() {
        "/robots.txt" => Reply::with_headers(
            200,
            &[("content-type", "text/plain"), ("content-encoding", "gzip")],
            gzip(b"User-agent: *\nDisallow: /secret\n"),
        ),
        "/" => Reply::html(
            [
                "zip",
                "chunks",
                "away",
                "odd",
                "twin",
                "other",
                "noarchive",
                "secret/x",
                "gone",
                "broken",
                "ref",
            ]
            .map(|name| format!("<a href=/{name}>{name}</a>"))
            .concat(),
        )
        .with("Set-Cookie", "id=crumb")
        .with("Set-Cookie", "id2=crumb"),
        "/zip" => Reply::with_headers(
            200,
            &[("content-type", "text/html"), ("content-encoding", "gzip")],
            gzip(b"<p>zipped"),
        ),
        "/chunks" => Reply::raw(vec![Step::send(
            "HTTP/1.1 200 In Pieces\r\ntransfer-encoding: chunked\r\ncontent-type: text/html\r\n\r\n\
             5\r\n<p>ch\r\n4\r\nunks\r\n0\r\n\r\n",
        )]),
        "/away" => Reply::redirect(302, &format!("http://name:hush@{}/zip", seen.header("host").unwrap())),
        // Bytes that are no ASCII, in a field that has user information.
        "/odd" => Reply::redirect(302, "http://name:hush@b.example/\u{e9}"),
        "/noarchive" => Reply::html("<meta name=robots content=noarchive><p>forget me"),
        "/gone" => Reply::with_headers(
            410,
            &[("content-type", "text/html")],
            "<meta name=robots content=noarchive><p>forget me, too",
        ),
        "/broken" => Reply::raw(vec![
            Step::send("HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 99\r\n\r\n<p>half"),
            Step::Reset,
        ]),
        "/ref" => Reply::raw(vec![Step::Reset]),
        _ => Reply::html("<p>twins"),
    }
}

#[tokio::test]
async fn an_archive_has_what_was_on_the_wire_and_nothing_private() {
    let server = Server::start(page).await;
    let directory = directory();
    let warc = directory.place("a.warc.gz");
    let url = format!("http://name:hush@a.example:{}/", server.address().port());
    let call = format!("crawl --warc {warc} --header 'X-Key: sesame' --header 'Cookie: id=crumb' {url}");
    online(&server, &call).await.ends_with(1);
    let Some(records) = judged(&files(&directory)) else { return };
    let all = text(&files(&directory));
    for secret in ["hush", "sesame", "crumb", "forget me", "YTpi"] {
        assert!(!all.contains(secret), "{secret}");
    }
    assert!(!all.to_lowercase().contains("authorization:"));

    // Each request that arrived, in its order, with its fields in theirs.
    let requests: Vec<&Record> = records.iter().filter(|r| r.field("WARC-Type") == "request").collect();
    let arrived = server.log();
    assert_eq!(requests.len(), arrived.len());
    for (record, seen) in requests.iter().zip(&arrived) {
        let (first, fields) = record.head();
        assert_eq!(first, format!("GET {} HTTP/1.1", seen.path));
        let is_private = |name: &str| ["authorization", "cookie", "x-key"].contains(&name);
        let sent: Vec<_> = seen.headers.iter().filter(|(name, _)| !is_private(name)).cloned().collect();
        assert_eq!(fields, sent, "{}", seen.path);
        assert_eq!(record.field("WARC-Date").len(), "2026-11-29T03:05:06.545117Z".len());
    }

    let one = |kind: &str, path: &str| {
        let mut found = records.iter().filter(|record| record.is(kind, path));
        let record = found.next().unwrap_or_else(|| panic!("{kind} {path}"));
        (record.clone(), found.count())
    };
    let response = |path: &str| one("response", path).0;
    let zip = response("/zip");
    assert_eq!(zip.body(), "<p>zipped", "replayed");
    assert_eq!(zip.head().0, "HTTP/1.1 200 Scripted");
    assert!(zip.head().1.contains(&("content-encoding".into(), "gzip".into())));
    has(&zip.0["fields"], json!({"WARC-IP-Address": "127.0.0.1", "WARC-Protocol": "http/1.1"}));
    assert_eq!(one("request", "/zip").0.field("WARC-Concurrent-To"), zip.field("WARC-Record-ID"));
    let chunks = response("/chunks");
    assert_eq!((chunks.body().as_str(), chunks.head().0), ("<p>chunks", "HTTP/1.1 200 In Pieces"));
    assert_eq!(chunks.head().1, [("content-type".to_owned(), "text/html".to_owned())]);
    let noarchive = response("/noarchive");
    assert_eq!((noarchive.body().as_str(), noarchive.field("WARC-Truncated")), ("", "unspecified"));
    assert_eq!(response("/broken").field("WARC-Truncated"), "disconnect");
    assert_eq!(response("/broken").body(), "<p>half");
    // Of two that are the same, one refers to the other.
    let (twin, again) = (response("/twin"), one("revisit", "/other").0);
    assert_eq!(again.field("WARC-Refers-To"), twin.field("WARC-Record-ID"));
    assert_eq!(again.field("WARC-Refers-To-Date"), twin.field("WARC-Date"));
    assert_eq!(again.field("WARC-Payload-Digest"), twin.field("WARC-Payload-Digest"));

    // A decision for each URL, also for one that was not requested.
    let robots = response("/robots.txt");
    let decided = |path: &str| one("metadata", path).0;
    let denied = decided("/secret/x").decision();
    has(&denied, json!({"outcome": "denied", "answers": null, "refusal": null}));
    let names = "url time outcome verdict delay_ms waited_ms answers unknown_because preferences refusal why";
    assert_eq!(crate::keys(&denied), names);
    let names = "allowed rule line group robots_record robots_digest robots_age_s";
    assert_eq!(crate::keys(&denied["verdict"]), names);
    let rule = json!({"kind": "disallow", "pattern": "/secret", "line": 2});
    has(
        &denied["verdict"],
        json!({"allowed": false, "rule": rule, "line": 2, "group": ["*"], "robots_age_s": 0}),
    );
    for path in ["/", "/zip", "/secret/x", "/gone", "/broken", "/ref"] {
        let (record, others) = one("metadata", path);
        // What got no answer is asked for once more.
        assert_eq!(others, usize::from(path == "/ref"), "{path}");
        assert_eq!(record.field("Content-Type"), "application/vnd.abide.decision+json");
        let verdict = &record.decision()["verdict"];
        assert_eq!(verdict["robots_record"], robots.field("WARC-Record-ID"), "{path}");
        assert_eq!(verdict["robots_digest"], robots.field("WARC-Payload-Digest"), "{path}");
    }
    has(&decided("/broken").decision(), json!({"outcome": "error"}));
    assert_eq!(decided("/zip").field("WARC-Concurrent-To"), zip.field("WARC-Record-ID"));
    assert_eq!(decided("/noarchive").decision()["answers"]["archive"], "no");
}

#[tokio::test]
async fn a_page_that_forbids_it_is_archived_if_asked_for() {
    let server = Server::start(page).await;
    let directory = directory();
    let call = format!("crawl --warc {} --keep-noarchive a.example/noarchive", directory.place("a.warc.gz"));
    online(&server, &call).await.ends_with(0);
    let Some(records) = judged(&files(&directory)) else { return };
    let page = records.iter().find(|record| record.is("response", "/noarchive")).unwrap();
    assert!(page.body().ends_with("forget me"));
}

#[tokio::test]
async fn each_file_has_the_robots_txt_in_force() {
    let server = Server::start(|seen| match seen.path.as_str() {
        "/robots.txt" if seen.host() == "b.example" => Reply::new(404, ""),
        _ => page(seen),
    })
    .await;
    let (directory, store) = store();
    let sites = "a.example/ b.example/zip";
    // It comes from the store then.
    online(&server, format!("crawl --store {store} --max-pages 1 {sites}")).await;
    online(&server, format!("crawl --store {store} --max-pages 1 b.example/twin")).await;
    let fetched = server.count("a.example/robots.txt");
    let warc = directory.place("a.warc.gz");
    online(&server, format!("crawl --store {store} --restart --warc {warc} --warc-size 5KB {sites}")).await;
    assert_eq!(
        (fetched, server.count("a.example/robots.txt"), server.count("b.example/robots.txt")),
        (1, 1, 1)
    );
    let files = files(&directory);
    assert!(files.len() > 1 && files[1].ends_with("a-00002.warc.gz"), "{files:?}");
    let Some(_) = judged(&files) else { return };
    for file in &files {
        let records = judged(std::slice::from_ref(file)).unwrap();
        assert_eq!(records[0].field("WARC-Filename"), file.file_name().unwrap().to_str().unwrap());
        let ids = |record: &Record| record.field("WARC-Record-ID").to_owned();
        let robots: Vec<&Record> = records
            .iter()
            .filter(|record| record.is("resource", "/robots.txt") || record.is("metadata", "/robots.txt"))
            .collect();
        let mut targets: Vec<&str> = robots.iter().map(|record| record.field("WARC-Target-URI")).collect();
        targets.dedup();
        assert_eq!(targets.len(), robots.len(), "once");
        for record in records.iter().filter(|record| record.field("Content-Type").contains("decision")) {
            let decision = record.decision();
            let named = &decision["verdict"]["robots_record"];
            let known =
                robots.iter().find(|record| *named == ids(record)).unwrap_or_else(|| panic!("{decision}"));
            assert_eq!(decision["verdict"]["robots_digest"], known.field("WARC-Payload-Digest"));
            if decision["url"].as_str().unwrap().contains("b.example") {
                has(&known.decision(), json!({"source": "unavailable", "status": 404}));
            } else {
                assert!(known.body().contains("/secret"));
            }
        }
    }
}

#[tokio::test]
async fn an_archive_is_appended_to_by_its_own_crawl_alone() {
    let server = Server::start(page).await;
    let (directory, store) = store();
    let warc = directory.place("a.warc.gz");
    let call = format!("crawl --store {store} --max-pages 3 --warc {warc} a.example/");
    online(&server, &call).await;
    let before = std::fs::read(&warc).unwrap();
    let robots = server.count("a.example/robots.txt");
    // The beginning of a record, as a kill leaves it.
    std::fs::write(&warc, [before.as_slice(), &before[..100]].concat()).unwrap();
    online(&server, &call).await;
    let after = std::fs::read(&warc).unwrap();
    assert!(after.starts_with(&before) && after.len() > before.len());
    assert_eq!((robots, server.count("a.example/robots.txt")), (1, 1));
    if let Some(records) = judged(&files(&directory)) {
        let is_robots = |record: &&Record| record.field("WARC-Target-URI").ends_with("/robots.txt");
        let robots =
            records.iter().filter(is_robots).filter(|record| record.field("WARC-Type") != "metadata");
        assert_eq!(robots.count(), 2, "request and response, once, over both calls");
    }

    let others = ["a.example/zip", "b.example/"];
    for other in others.map(|url| format!("crawl --warc {warc} {url}")) {
        online(&server, other)
            .await
            .is_wrong_usage(&["a.warc.gz: expected an archive of a crawl of the same URLs"]);
    }
    for (name, content) in [("text.warc.gz", "no archive"), ("cut.warc.gz", "\x1f\u{8b}")] {
        std::fs::write(directory.place(name), content).unwrap();
        let call = format!("crawl --warc {} a.example/", directory.place(name));
        online(&server, call).await.is_wrong_usage(&["expected an archive of a crawl"]);
        assert_eq!(std::fs::read(directory.place(name)).unwrap(), content.as_bytes());
    }
    let call = format!("crawl --warc {} a.example/", directory.place("a.warc"));
    online(&server, call).await.is_wrong_usage(&["expected the name of a .warc.gz file"]);
    assert_eq!(std::fs::read(&warc).unwrap(), after);
}

/// A site of so many pages, each with text of its own.
#[cfg(unix)]
async fn many(pages: u32) -> Server {
    Server::with_rules("User-agent: *\nDisallow: /secret\n", move |seen| {
        let number: u32 = seen.path[1..].parse().unwrap_or(0);
        let links = (3 * number + 1..=3 * number + 3).filter(|number| *number < pages);
        let links: String = links.map(|number| format!("<a href=/{number}>n</a>")).collect();
        // Not compressible, so that a record takes a while to be written.
        let mut state = u64::from(number) + 1;
        let noise = (0..20_000).map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            char::from(b'0' + u8::try_from((state >> 33) % 64).unwrap())
        });
        Reply::html(format!(
            "{links}<a href=/secret>s</a><pre>{}",
            noise.collect::<String>().replace(['<', '&'], "_")
        ))
    })
    .await
}

#[tokio::test]
#[cfg(unix)]
async fn a_full_disk_ends_the_crawl_and_leaves_a_file_that_can_be_read() {
    let server = many(30).await;
    let directory = directory();
    let warc = directory.place("a.warc.gz");
    let call = crate::to(&server, format!("crawl --warc {warc} a.example/"));
    let words: Vec<String> = crate::words(&call);
    // A file may have 100 blocks of 512 or 1024 bytes, and what is beyond is an error, as on a full disk.
    let mut shell = Command::new("sh");
    shell.args(["-c", "trap '' XFSZ; ulimit -f 100; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_abide")]);
    let said =
        crate::blocking(move || shell.args(words).env("XDG_CONFIG_HOME", "/nonexistent").output()).await;
    let said = crate::Ran::from(said.unwrap());
    said.ends_with(1).reports(&["a.warc.gz: File too large", "it ends with the last record that is whole"]);
    assert!(crate::crawl::pages(&server).len() < 30, "it went on");
    if let Some(records) = judged(&files(&directory)) {
        let pages = records.iter().filter(|record| record.field("WARC-Type") == "response").count();
        assert!(pages >= 2, "{pages}");
    }
}

/// Killed at any moment, again and again, a crawl loses at most the record that it writes: each page is in
/// the archive once it is done. `ABIDE_WARC_KILLS` says how often.
#[tokio::test]
#[cfg(all(unix, feature = "redb"))]
async fn kills_break_no_file_and_lose_no_page() {
    let kills: usize = std::env::var("ABIDE_WARC_KILLS").map_or(10, |kills| kills.parse().unwrap());
    let pages = u32::try_from(kills).unwrap() * 3 + 10;
    let server = many(pages).await;
    let (directory, store) = store();
    let warc = directory.place("a.warc.gz");
    let call = format!("crawl --max-pages 100000 --store {store} --warc {warc} --warc-size 400KB a.example/");
    let mut broken = 0;
    for kill in 0..kills {
        let before = server.log().len();
        // At another moment each time: some requests later, and some microseconds later.
        let (requests, pause) = (before + 2 + kill % 3, Duration::from_micros(kill as u64 * 370 % 2_000));
        let is_time = || {
            let is_time = server.log().len() >= requests;
            if is_time {
                std::thread::sleep(pause);
            }
            is_time
        };
        crate::ended_by("-KILL", &server, &call, is_time).await;
        broken += files(&directory).iter().filter(|file| !is_whole(file)).count();
    }
    online(&server, &call).await.ends_with(0).reports(&["going on: "]);
    let files = files(&directory);
    assert!(files.len() > 1 && files.iter().all(|file| is_whole(file)), "{files:?}");
    eprintln!("{kills} kills, {} files; {broken} times a file ended within a record", files.len());
    let Some(records) = judged(&files) else { return };
    for number in 1..pages {
        let path = format!("/{number}");
        let responses =
            records.iter().filter(|record| record.is("response", &path) || record.is("revisit", &path));
        assert!(responses.count() >= 1, "{path} is done and not archived");
        let decisions = records.iter().filter(|record| record.is("metadata", &path));
        assert!(decisions.count() >= 1, "{path}");
    }
    let requests = records.iter().filter(|record| record.field("WARC-Type") == "request").count();
    let arrived = server.log().len();
    assert!(requests + kills >= arrived, "{requests} of {arrived} requests are archived after {kills} kills");
}

/// Whether it ends with a gzip member that is whole.
#[cfg(unix)]
fn is_whole(file: &Path) -> bool {
    let file = std::fs::File::open(file).unwrap();
    std::io::copy(&mut flate2::read::MultiGzDecoder::new(file), &mut std::io::sink()).is_ok()
}
