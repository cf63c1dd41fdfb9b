//! `abide crawl`: what reaches the servers, and what is reported.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use abide_tests::{Reply, Server, Step};
use serde_json::{Value, json};

use crate::{Ran, keys, online};

const HOST: [&str; 30] = [
    "host",
    "requests",
    "fetched",
    "denied",
    "deferred",
    "refused",
    "errors",
    "left",
    "noindex",
    "bytes",
    "holds",
    "waited_ms",
    "gap_min_ms",
    "crawl_delay",
    "robots",
    "robots_status",
    "robots_age_s",
    "longest_wait_ms",
    "requeued",
    "denied_by",
    "permissions",
    "failed_by",
    "sitemaps",
    "robots_requests",
    "sitemap_requests",
    "ok",
    "redirected",
    "client_errors",
    "server_errors",
    "unreachable",
];

/// Two sites: a tree of pages, a forbidden one, a page without links to follow, a sitemap.
async fn sites() -> Server {
    let is_busy = AtomicBool::new(true);
    Server::start(move |seen| {
        let port = seen.header("host").and_then(|host| host.rsplit_once(':')).map_or("80", |(_, port)| port);
        match seen.path.as_str() {
            "/robots.txt" if seen.host() == "busy.example" && is_busy.swap(false, Relaxed) => {
                Reply::with_headers(429, &[("retry-after", "2")], "")
            }
            "/robots.txt" if seen.host() == "held.example" => {
                Reply::with_headers(429, &[("retry-after", "3600")], "")
            }
            "/robots.txt" => Reply::new(
                200,
                format!("User-agent: *\nDisallow: /secret\nSitemap: http://{}:{port}/map.xml", seen.host()),
            ),
            "/map.xml" => Reply::with_headers(
                200,
                &[("content-type", "application/xml")],
                format!("<urlset><url><loc>http://{}:{port}/mapped</loc></url></urlset>", seen.host()),
            ),
            "/" => Reply::html(format!(
                "<a href=/1>1</a><a href='/2#x'>2</a><a href=/2>2</a><a href=/secret/x>s</a><a href=/hidden rel=nofollow>h</a>\
                 <a href='http://c.example:{port}/'>elsewhere</a><a href=mailto:x@y>m</a>"
            )),
            "/1" => Reply::html("<meta name=robots content='noindex,nofollow'><a href=/beyond>b</a>"),
            "/2" => Reply::html("<a href=/deep>d</a><a href=/>home</a>"),
            "/moved" => Reply::redirect(301, &format!("http://www.example:{port}/2")),
            "/to-busy" => Reply::redirect(302, &format!("http://busy.example:{port}/2")),
            "/to-held" => Reply::redirect(302, &format!("http://held.example:{port}/deep")),
            "/held-long" => Reply::with_headers(429, &[("retry-after", "3600")], ""),
            "/held" => Reply::with_headers(429, &[("retry-after", "2")], "<a href=/1>1</a>"),
            _ => Reply::html("end"),
        }
    })
    .await
}

/// Host and path of everything that was asked for, without robots.txt, sorted.
pub(crate) fn pages(server: &Server) -> Vec<String> {
    let mut pages = server.asked();
    pages.retain(|what| !what.ends_with("/robots.txt"));
    pages.sort();
    pages
}

fn host<'a>(lines: &'a [Value], name: &str) -> &'a Value {
    let found = lines.iter().find(|line| line["host"].as_str().is_some_and(|host| host.starts_with(name)));
    found.unwrap_or_else(|| panic!("{name} is in {lines:?}"))
}

/// The only host of a crawl.
pub(crate) fn only_host(ran: &Ran) -> Value {
    let mut hosts: Vec<Value> = ran.lines().into_iter().filter(|line| !line["host"].is_null()).collect();
    assert_eq!(hosts.len(), 1, "{}{}", ran.out, ran.err);
    hosts.remove(0)
}

/// The pages of a crawl, in the order in which they came.
pub(crate) fn page_lines(ran: &Ran) -> Vec<Value> {
    ran.lines().into_iter().filter(|line| !line["url"].is_null()).collect()
}

/// The last line, which is of the whole crawl.
pub(crate) fn summary(ran: &Ran) -> Value {
    let last = ran.lines().pop().unwrap();
    assert!(last["interrupted"].is_boolean(), "{last}");
    last
}

#[tokio::test]
async fn the_sites_given_are_crawled_and_no_others() {
    let server = sites().await;
    let args = ["crawl", "--json", "http://a.example:PORT/", "http://b.example:PORT/"];
    let ran = online(server.address(), &args).await;
    assert_eq!(ran.status, 0, "it did what the site allows: {}", ran.err);
    let tree = ["/", "/1", "/2", "/deep"];
    let expected: Vec<String> = ["a", "b"]
        .iter()
        .flat_map(|site| tree.iter().map(move |path| format!("{site}.example{path}")))
        .collect();
    assert_eq!(pages(&server), expected);
    let lines = ran.lines();
    assert_eq!(lines.len(), 10 + 2 + 1, "pages, hosts, and the whole");
    let a = host(&lines, "a.example");
    assert_eq!(keys(a), HOST);
    for (name, value) in [("requests", 5), ("fetched", 4), ("denied", 1), ("noindex", 1), ("left", 0)] {
        assert_eq!(a[name], json!(value), "{name}: {a}");
    }
    assert_eq!(a["robots"], json!("fresh"));
    assert!(a["gap_min_ms"].is_u64());
}

#[tokio::test]
async fn pages_come_breadth_first_and_not_deeper_than_asked() {
    let server = sites().await;
    online(server.address(), &["crawl", "http://a.example:PORT/"]).await;
    assert_eq!(
        server.asked(),
        ["a.example/robots.txt", "a.example/", "a.example/1", "a.example/2", "a.example/deep"]
    );
    let server = sites().await;
    online(server.address(), &["crawl", "--max-depth", "0", "http://a.example:PORT/"]).await;
    assert_eq!(pages(&server), ["a.example/"]);
}

#[tokio::test]
async fn no_more_pages_than_asked() {
    let server = sites().await;
    let args = ["crawl", "--json", "--max-pages", "2", "http://a.example:PORT/", "http://b.example:PORT/"];
    let ran = online(server.address(), &args).await;
    assert_eq!(pages(&server).len(), 2);
    let left: u64 = ran.lines().iter().filter_map(|line| line["left"].as_u64()).sum();
    assert!(left > 0, "{}", ran.out);
}

#[tokio::test]
async fn nofollow_and_sitemaps_are_as_asked() {
    let server = sites().await;
    online(server.address(), &["crawl", "--ignore-nofollow", "http://a.example:PORT/"]).await;
    let asked = pages(&server);
    assert!(asked.contains(&"a.example/hidden".to_owned()) && asked.contains(&"a.example/beyond".to_owned()));
    assert!(!asked.contains(&"a.example/secret/x".to_owned()), "robots.txt is another matter");
    let server = sites().await;
    online(server.address(), &["crawl", "--sitemaps", "http://a.example:PORT/deep"]).await;
    assert_eq!(pages(&server), ["a.example/deep", "a.example/map.xml", "a.example/mapped"]);
}

#[tokio::test]
async fn a_start_page_that_moved_takes_its_site_along() {
    let server = sites().await;
    online(server.address(), &["crawl", "http://a.example:PORT/moved"]).await;
    let asked = pages(&server);
    assert!(asked.contains(&"www.example/deep".to_owned()), "{asked:?}");
}

#[tokio::test]
async fn a_host_is_asked_one_request_at_a_time_with_the_delay_between() {
    let server = sites().await;
    let args = ["crawl", "--json", "--delay", "300ms", "http://a.example:PORT/", "http://b.example:PORT/"];
    let ran = online(server.address(), &args).await;
    let log = server.log();
    for site in ["a.example", "b.example"] {
        let times: Vec<_> = log.iter().filter(|seen| seen.host() == site).map(|seen| seen.at).collect();
        for pair in times.windows(2) {
            assert!(pair[1] - pair[0] >= Duration::from_millis(300), "{site}: {:?}", pair[1] - pair[0]);
        }
    }
    let gap = host(&ran.lines(), "a.example")["gap_min_ms"].as_u64().unwrap();
    assert!(gap >= 250, "reported as well: {gap} ms");
}

#[tokio::test]
async fn a_backed_off_host_is_waited_for_or_given_up() {
    let server = sites().await;
    let urls = ["http://a.example:PORT/held", "http://a.example:PORT/deep", "http://b.example:PORT/deep"];
    let args = [&["crawl", "--json", "--max-wait", "0"], &urls[..]].concat();
    let ran = online(server.address(), &args).await;
    let lines = ran.lines();
    let a = host(&lines, "a.example");
    assert_eq!((&a["fetched"], &a["deferred"]), (&json!(2), &json!(0)), "{a}");
    assert!(a["holds"].as_u64().unwrap() >= 1);
    let at = |what: &str| server.log().iter().find(|seen| seen.what() == what).unwrap().at;
    assert!(at("a.example/deep") - at("a.example/held") >= Duration::from_secs(2));

    let server = sites().await;
    let urls = ["http://a.example:PORT/held-long", urls[1], urls[2]];
    let ran = online(server.address(), &[&["crawl", "--json", "--max-wait", "0"], &urls[..]].concat()).await;
    assert_eq!(ran.status, 1);
    let lines = ran.lines();
    assert_eq!(host(&lines, "a.example")["deferred"], json!(1));
    assert_eq!(host(&lines, "b.example")["fetched"], json!(1));
    assert_eq!(server.count("a.example/deep"), 0);
}

#[tokio::test]
async fn saved_pages_are_whole_and_indexed() {
    let server = sites().await;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pages");
    std::fs::create_dir(&path).unwrap();
    std::fs::write(path.join("000001.html"), "somebody's").unwrap();
    let args = ["crawl", "--save", path.to_str().unwrap(), "http://a.example:PORT/"];
    online(server.address(), &args).await;
    assert_eq!(std::fs::read_to_string(path.join("000001.html")).unwrap(), "somebody's");
    let index = std::fs::read_to_string(path.join("index.jsonl")).unwrap();
    let entries: Vec<Value> = index.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let deep = entries.iter().find(|entry| entry["url"].as_str().unwrap().ends_with("/deep")).unwrap();
    let saved = std::fs::read_to_string(path.join(deep["file"].as_str().unwrap())).unwrap();
    assert_eq!((saved.as_str(), &deep["saved"], &deep["status"]), ("end", &json!(3), &json!(200)));
    let denied = entries.iter().find(|entry| entry["outcome"] == json!("denied")).unwrap();
    assert_eq!(denied["file"], json!(null));
    let again = online(server.address(), &args).await;
    assert_eq!(again.status, 2, "what is there is not written over: {}", again.err);
}

#[tokio::test]
async fn the_report_is_one_page_with_every_request() {
    let server = sites().await;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("report.html");
    let args = ["crawl", "--report", path.to_str().unwrap(), "http://a.example:PORT/"];
    let ran = online(server.address(), &args).await;
    assert!(ran.out.starts_with("a.example\n"), "{}", ran.out);
    assert_eq!((ran.err.lines().count(), ran.out.contains('\x1b')), (1, false), "no bar: {}", ran.err);
    let page = std::fs::read_to_string(&path).unwrap();
    /// Marks that explain the others.
    const LEGEND: usize = 5;
    assert_eq!(page.matches("<i class='m ").count() - LEGEND, server.log().len());
    assert!(!page.contains("src=") && !page.contains("href=") && !page.contains("url("), "it stands alone");
    assert!(page.contains("type=search") && page.contains("<tr><td class='denied'>denied<td>http"), "{page}");
}

#[tokio::test]
async fn a_time_out_is_drawn_as_long_as_it_took() {
    let server = Server::start(|seen| match seen.path.as_str() {
        "/robots.txt" => Reply::new(404, ""),
        _ => Reply::html("late").after(Duration::from_secs(600)),
    })
    .await;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("report.html");
    let report = path.to_str().unwrap();
    let args = ["crawl", "--page-timeout", "500ms", "--report", report, "http://a.example:PORT/"];
    let ran = online(server.address(), &args).await;
    assert!(ran.out.contains("1 failed"), "{}", ran.out);
    let page = std::fs::read_to_string(&path).unwrap();
    let (_, mark) = page.split_once("<i class='m lost' style='left:").unwrap();
    let (_, width) = mark.split_once("%;width:").unwrap();
    let percent: f64 = width.split_once('%').unwrap().0.parse().unwrap();
    // Of a chart that ends with it, and is a second long at least.
    assert!((45.0..=100.0).contains(&percent), "{percent}");
}

#[tokio::test]
#[cfg(unix)]
async fn ctrl_c_ends_it_with_its_report() {
    let server = Server::start(|seen| match seen.path.as_str() {
        "/robots.txt" => Reply::new(404, ""),
        "/slow" => Reply::html("").after(Duration::from_secs(600)),
        _ => Reply::html("<a href=/slow>s</a>"),
    })
    .await;
    let args = ["crawl", "--json", "http://a.example:PORT/"];
    let ran = crate::ended_by("-INT", &server, &args, || server.count("a.example/slow") > 0).await;
    assert_eq!((ran.status, &only_host(&ran)["fetched"]), (130, &json!(1)), "{}", ran.err);
    assert_eq!(summary(&ran)["interrupted"], json!(true));
    assert!(ran.err.ends_with("abide: interrupted\n"), "{}", ran.err);
}

#[tokio::test]
async fn a_save_directory_that_cannot_be_made_is_wrong_usage() {
    let server = sites().await;
    let args = ["crawl", "--save", "/dev/null/x", "http://a.example:PORT/"];
    let ran = online(server.address(), &args).await;
    assert_eq!((ran.status, server.log().len()), (2, 0), "{}", ran.err);
}

#[tokio::test]
async fn a_redirect_to_a_backed_off_host_delays_no_other_page() {
    let server = sites().await;
    let urls = ["a.example:PORT/deep", "a.example:PORT/to-held", "a.example:PORT/2"];
    let urls: Vec<String> = urls.iter().map(|url| format!("http://{url}")).collect();
    let mut args = vec!["crawl", "--json", "--max-wait", "0", "--max-hold", "100ms", "--max-depth", "0"];
    args.extend(urls.iter().map(String::as_str));
    let lines = online(server.address(), &args).await.lines();
    let a = host(&lines, "a.example");
    assert_eq!((&a["fetched"], &a["deferred"], &a["left"]), (&json!(2), &json!(1), &json!(0)), "{a}");
    assert_eq!(server.count("held.example/deep"), 0);
}

#[tokio::test]
async fn what_another_host_defers_is_fetched_later() {
    let server = sites().await;
    let urls = ["a.example:PORT/to-busy", "a.example:PORT/2"].map(|url| format!("http://{url}"));
    let mut args = vec!["crawl", "--json", "--max-wait", "0", "--max-depth", "0"];
    args.extend(urls.iter().map(String::as_str));
    let ran = online(server.address(), &args).await;
    let lines = ran.lines();
    let a = host(&lines, "a.example");
    assert_eq!((ran.status, &a["fetched"], &a["deferred"]), (0, &json!(2), &json!(0)), "{a}");
    assert!(a["requeued"].as_u64().unwrap() >= 1, "{a}");
    let at = |what: &str| server.log().iter().find(|seen| seen.what() == what).unwrap().at;
    assert!(at("a.example/2") < at("busy.example/2"), "its own host goes on meanwhile");
    assert!(at("busy.example/2") - at("busy.example/robots.txt") >= Duration::from_secs(2));
}

#[tokio::test]
async fn the_report_has_denials_permissions_and_ages() {
    let server = sites().await;
    let args = ["crawl", "--json", "--delay", "200ms", "http://a.example:PORT/", "http://held.example:PORT/"];
    let lines = online(server.address(), &args).await.lines();
    let a = host(&lines, "a.example");
    assert_eq!(
        a["denied_by"],
        json!([{"rule": "Disallow: /secret", "line": 2, "host": "a.example", "urls": 1}])
    );
    assert_eq!(a["permissions"], json!({"nofollow": 1, "noindex": 1}));
    assert_eq!((&a["robots_status"], &a["requests"]), (&json!(200), &json!(5)));
    assert!(a["robots_age_s"].as_u64().unwrap() < 60, "{a}");
    assert!(
        a["waited_ms"].as_u64() >= a["longest_wait_ms"].as_u64() && a["longest_wait_ms"] != json!(0),
        "{a}"
    );
    let held = host(&lines, "held.example");
    assert_eq!(
        (&held["holds"], &held["requests"], &held["deferred"]),
        (&json!(1), &json!(1), &json!(1)),
        "{held}"
    );
    let text = online(server.address(), &[&args[..1], &args[2..]].concat()).await.out;
    for line in ["a.example", "  5 URLs: 4 ok, 1 denied", "  denied: 1 by \"Disallow: /secret\" on line 2"] {
        assert!(text.lines().any(|found| found == line), "{line}: {text}");
    }
    assert!(text.contains("\n  5 requests (1 for robots.txt), at least "), "{text}");
    assert!(text.contains("\n  permissions: nofollow on 1 page, noindex on 1 page\n"), "{text}");
    assert!(text.contains("backed off for 6") && text.contains(" min (429, Retry-After 3600 s)"), "{text}");
    assert!(text.lines().last().unwrap().starts_with("6 requests to 2 hosts in "), "{text}");
}

#[tokio::test]
async fn a_report_that_cannot_be_written_is_wrong_usage() {
    let server = sites().await;
    let args = ["crawl", "--report", "/nonexistent/r.html", "http://a.example:PORT/"];
    let ran = online(server.address(), &args).await;
    assert_eq!((ran.status, server.log().len()), (2, 0), "{}", ran.err);
    assert!(
        ran.err.starts_with("abide: /nonexistent/r.html: ") && ran.err.lines().count() == 1,
        "{}",
        ran.err
    );
}

#[tokio::test]
async fn credentials_in_links_are_not_sent() {
    let server = Server::start(|seen| match (seen.path.as_str(), seen.header("host")) {
        ("/", Some(host)) => Reply::html(format!("<a href='http://u:secret@{host}/x'>x</a>")),
        _ => Reply::new(404, ""),
    })
    .await;
    online(server.address(), &["crawl", "http://u:own@a.example:PORT/"]).await;
    let sent = |path: &str| {
        let log = server.log();
        let seen = log.iter().find(|seen| seen.path == path).unwrap();
        seen.header("authorization").map(str::to_owned)
    };
    assert!(sent("/").is_some(), "what the caller gives is his own");
    assert_eq!((sent("/x"), sent("/robots.txt")), (None, None));
}

#[tokio::test]
async fn a_host_that_never_stops_deferring_is_given_up() {
    let server = Server::start(|_| Reply::with_headers(429, &[("retry-after", "1")], "")).await;
    let urls = ["http://a.example:PORT/1", "http://a.example:PORT/2"];
    let args = [&["crawl", "--json", "--max-wait", "0", "--max-hold", "10s"], &urls[..]].concat();
    let ran = online(server.address(), &args).await;
    let line = only_host(&ran);
    // Whether a page gets through between two holds, to a 429 of its own, is a matter of milliseconds.
    let sum: u64 = ["fetched", "deferred", "left"].iter().map(|key| line[*key].as_u64().unwrap()).sum();
    assert_eq!(sum, 2, "every URL is accounted for: {line}");
    assert!((2..40).contains(&server.log().len()), "{}", server.log().len());
}

/// Pages without an end: one that sends as fast as it can, one whose head and one whose body trickles.
async fn endless() -> Server {
    const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\n\r\n";
    Server::start(|seen| match seen.path.as_str() {
        "/robots.txt" => Reply::new(404, ""),
        "/flood" => Reply::raw(vec![
            Step::Send(HEAD.to_vec()),
            Step::Send(b"<body>".to_vec()),
            Step::Repeat(vec![b'x'; 64 * 1024], usize::MAX),
        ]),
        "/head" | "/body" => {
            let first = if seen.path == "/body" { &b"<body><p>"[..] } else { b"<head>" };
            let mut steps = vec![Step::Send([HEAD, first].concat())];
            for _ in 0..3000 {
                steps.extend([Step::Sleep(Duration::from_millis(100)), Step::Send(b" ".to_vec())]);
            }
            Reply::raw(steps)
        }
        _ => Reply::html("<a href=/flood>f</a><a href=/head>h</a><a href=/body>b</a><a href=/last>l</a>"),
    })
    .await
}

#[tokio::test]
async fn a_page_that_never_ends_stalls_nothing() {
    let server = endless().await;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pages");
    let args = [
        "crawl",
        "--json",
        "--page-timeout",
        "5s",
        "--save",
        path.to_str().unwrap(),
        "http://a.example:PORT/",
    ];
    let ran = online(server.address(), &args).await;
    let line = only_host(&ran);
    assert_eq!((&line["fetched"], &line["errors"]), (&json!(3), &json!(2)), "{line} {}", ran.err);
    assert_eq!(server.count("a.example/last"), 1);
    let index = std::fs::read_to_string(path.join("index.jsonl")).unwrap();
    for name in ["head", "body"] {
        let entry = index.lines().find(|line| line.contains(&format!("/{name}\",\"outcome"))).unwrap();
        assert!(entry.contains("the page had not ended after 5 s (--page-timeout)"), "{entry}");
    }
}

#[tokio::test]
async fn a_call_that_is_refused_leaves_the_report_that_is_there() {
    let server = sites().await;
    let directory = tempfile::tempdir().unwrap();
    let (old, new) = (directory.path().join("old.html"), directory.path().join("new.html"));
    std::fs::write(&old, "precious").unwrap();
    for report in [&old, &new] {
        let args = [
            "crawl",
            "--report",
            report.to_str().unwrap(),
            "--save",
            "/dev/null/x",
            "http://a.example:PORT/",
        ];
        assert_eq!(online(server.address(), &args).await.status, 2);
    }
    assert_eq!(std::fs::read_to_string(&old).unwrap(), "precious");
    assert!(!new.exists());
}

#[tokio::test]
async fn the_report_says_why_something_was_refused_or_failed() {
    let server = Server::start(|seen| match seen.path.as_str() {
        "/robots.txt" => Reply::new(404, ""),
        "/in" => Reply::redirect(302, "http://10.1.2.3/"),
        "/in2" => Reply::redirect(302, "http://10.1.2.3/another"),
        "/cut" => Reply::raw(vec![Step::Send(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nx".to_vec())]),
        "/odd" | "/odd2" | "/odd3" => Reply::raw(vec![Step::Send(b"no HTTP\r\n\r\n".to_vec())]),
        _ => Reply::html(
            "<a href=/in>1</a><a href=/in2>2</a><a href=/cut>3</a><a href=/odd>4</a><a href=/odd2>5</a><a href=/odd3>6</a>",
        ),
    })
    .await;
    let ran = online(server.address(), &["crawl", "--json", "http://a.example:PORT/"]).await;
    let line = only_host(&ran);
    let by = line["failed_by"].as_array().unwrap();
    assert_eq!(by.len(), 3, "those that failed alike are counted together: {line}");
    let odd = &by[0];
    assert_eq!((&odd["outcome"], &odd["urls"]), (&json!("error"), &json!(3)), "{line}");
    assert!(!odd["why"].as_str().unwrap().contains("http://"), "{line}");
    let refused = &by[1];
    assert_eq!(keys(refused), ["outcome", "why", "host", "urls", "example"]);
    assert_eq!((&refused["host"], &refused["urls"]), (&json!("10.1.2.3"), &json!(2)), "{line}");
    assert_eq!(refused["why"], "10.1.2.3 is not a public address (--allow-net 10.1.2.3 permits it)");
    assert!(refused["example"].as_str().unwrap().ends_with("/in"), "{line}");
    assert_eq!((&by[2]["outcome"], &by[2]["urls"]), (&json!("error"), &json!(1)), "{line}");
    let text = online(server.address(), &["crawl", "http://a.example:PORT/"]).await.out;
    assert!(text.contains("\n  refused: 2 because ") && text.contains("\n  failed: 3 because "), "{text}");
}

#[tokio::test]
async fn sitemaps_may_be_gzip_files_and_are_counted_apart() {
    let server = Server::start(|seen| {
        let (host, port) =
            (seen.host(), seen.header("host").and_then(|host| host.split(':').nth(1)).unwrap());
        let site = format!("http://{host}:{port}");
        let gzip = [("content-type", "application/octet-stream")];
        match seen.path.as_str() {
            "/robots.txt" => {
                Reply::new(200, format!("Sitemap: {site}/index.xml.gz\nUser-agent: *\nDisallow: /secret"))
            }
            "/index.xml.gz" => Reply::redirect(301, "/moved.gz"),
            "/moved.gz" => {
                let of = |name: &str| format!("<sitemap><loc>{site}/{name}</loc></sitemap>");
                let index = format!("<sitemapindex>{}{}</sitemapindex>", of("map.xml.gz"), of("secret.xml"));
                Reply::with_headers(200, &gzip, packed(&index))
            }
            "/map.xml.gz" => {
                Reply::with_headers(200, &gzip, packed(&format!("{site}/mapped\n{site}/secret/x\n")))
            }
            _ => Reply::html("<meta name=robots content=noindex>end"),
        }
    })
    .await;
    let args = ["crawl", "--sitemaps", "http://a.example:PORT/"];
    let ran = online(server.address(), &args).await;
    assert_eq!(
        pages(&server),
        ["/", "/index.xml.gz", "/map.xml.gz", "/mapped", "/moved.gz"].map(|path| format!("a.example{path}"))
    );
    for text in [
        "\n  6 URLs: 2 ok, 2 sitemaps, 2 denied\n",
        "\n  6 requests (1 for robots.txt, 3 for sitemaps)",
        "\n  permissions: noindex on 2 pages\n",
    ] {
        assert!(ran.out.contains(text), "{text}: {}", ran.out);
    }
    let line = only_host(&online(server.address(), &[&["crawl", "--json"], &args[1..]].concat()).await);
    for (key, value) in [
        ("fetched", 2),
        ("sitemaps", 2),
        ("robots_requests", 1),
        ("sitemap_requests", 3),
        ("requests", 6),
        ("noindex", 2),
    ] {
        assert_eq!(line[key], json!(value), "{key}: {line}");
    }
}

fn packed(text: &str) -> Vec<u8> {
    use std::io::Write;
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    packer.write_all(text.as_bytes()).unwrap();
    packer.finish().unwrap()
}

/// What `docs/crawl.sh` draws.
#[tokio::test]
async fn the_report_of_the_houses_has_a_mark_of_every_kind() {
    let web = abide_examples::Web::start().await.unwrap();
    let directory = tempfile::tempdir().unwrap();
    let report = directory.path().join("report.html");
    let resolve = format!("*:80:{}", web.address());
    let urls = abide_examples::houses().map(|house| format!("http://{house}/"));
    let more =
        ["--allow-net", "127.0.0.1", "--resolve", &resolve, "--delay", "0", "--max-hold", "1s", "--report"];
    let mut args = vec!["crawl", "--max-pages", "90"];
    args.extend(more);
    args.push(report.to_str().unwrap());
    args.extend(urls.iter().map(String::as_str));
    let args: Vec<String> = args.into_iter().map(str::to_owned).collect();
    let ran =
        crate::blocking(move || crate::abide(&args.iter().map(String::as_str).collect::<Vec<_>>())).await;
    assert!(
        ran.out.contains("Crawl-delay 1 s") && ran.out.contains("backed off for 7 s (503, "),
        "{}",
        ran.out
    );
    assert!(ran.out.contains("denied: ") && !ran.out.contains(" failed"), "{}", ran.out);
    let page = std::fs::read_to_string(&report).unwrap();
    for mark in ["m robots", "m good", "m moved", "m bad", "owed", "backoff"] {
        assert!(page.contains(&format!("<i class='{mark}' style=")), "{mark}");
    }
}

#[tokio::test]
async fn sitemaps_that_name_others_without_end_come_to_one() {
    let server = Server::start(|seen| {
        let site = format!("http://{}", seen.header("host").unwrap());
        match seen.path.strip_prefix("/map?").map(|number| number.parse::<u32>().unwrap()) {
            Some(number) => {
                Reply::new(200, format!("<sitemapindex><loc>{site}/map?{}</loc></sitemapindex>", number + 1))
            }
            None if seen.path == "/robots.txt" => Reply::new(200, format!("Sitemap: {site}/map?0")),
            None => Reply::html("end"),
        }
    })
    .await;
    let args = ["crawl", "--json", "--sitemaps", "--max-pages", "5", "http://a.example:PORT/"];
    let line = only_host(&online(server.address(), &args).await);
    assert_eq!(
        (&line["sitemaps"], &line["fetched"], &line["left"]),
        (&json!(5), &json!(1), &json!(0)),
        "{line}"
    );
}

#[tokio::test]
#[cfg(target_os = "linux")]
async fn a_report_that_cannot_be_drawn_loses_nothing_else() {
    let server = sites().await;
    let directory = tempfile::tempdir().unwrap();
    let store = format!("redb:{}", directory.path().join("s.redb").display());
    let args =
        ["crawl", "--max-pages", "1", "--report", "/dev/full", "--store", &store, "http://a.example:PORT/"];
    let ran = online(server.address(), &args).await;
    assert_eq!(ran.status, 1);
    assert!(ran.out.contains("1 ok"), "{}", ran.out);
    assert!(ran.err.contains("the same call goes on with it"), "{}", ran.err);
    assert!(ran.err.lines().last().unwrap().starts_with("abide: /dev/full: "), "{}", ran.err);
}
