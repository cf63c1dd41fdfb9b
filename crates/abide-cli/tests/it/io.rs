//! Where URLs, bodies and options come from, and where bodies go.

use std::sync::Arc;

use abide_tests::{Reply, Server};
use serde_json::json;

use crate::{abide, abide_with, blocking, command, file, online};

async fn site() -> Server {
    Server::start(|seen| match seen.path.as_str() {
        "/robots.txt" => Reply::new(200, "User-agent: *\nDissallow: /secret\nDisallow: /closed\n"),
        "/page" => Reply::with_headers(
            200,
            &[("x-robots-tag", "noindex"), ("content-type", "text/html")],
            "<meta name=robots content=nosnippet><p>body",
        ),
        _ => Reply::html("end"),
    })
    .await
}

/// A call with `input` on standard input, where every name leads to `server`.
async fn fed(server: &Server, args: &[&str], input: String) -> crate::Ran {
    let port = server.address().port();
    let resolve = format!("*:{port}:127.0.0.1");
    let fixed = ["--resolve", &resolve, "--allow-net", "127.0.0.1", "--delay", "0", "-q"];
    let args: Vec<String> = args.iter().chain(&fixed).map(|arg| (*arg).to_owned()).collect();
    blocking(move || abide_with(&args.iter().map(String::as_str).collect::<Vec<_>>(), input)).await
}

#[tokio::test]
async fn urls_come_from_arguments_standard_input_and_files() {
    let server = site().await;
    let port = server.address().port();
    let list = file(format!("# a list\n\nhttp://a.example:{port}/2\r\n"));
    let list = list.path().to_str().unwrap();
    let first = format!("http://a.example:{port}/1");
    for call in ["check", "fetch", "explain", "crawl"] {
        let args = [call, "--json", &first, "--files-from", list, "-"];
        let ran = fed(&server, &args, format!("  http://a.example:{port}/3\n#no\n")).await;
        let urls: Vec<String> = ran
            .lines()
            .iter()
            .filter_map(|line| line["url"].as_str().map(|url| url.rsplit('/').next().unwrap().to_owned()))
            .collect();
        assert_eq!(urls, ["1", "3", "2"], "{call}: {}{}", ran.out, ran.err);
    }
    let robots = file("User-agent: *\nDisallow: /x\n");
    let args = ["match", "--agent", "a", "--robots", robots.path().to_str().unwrap(), "-"];
    let ran = abide_with(&args, "/x/1\nhttps://h/y\n");
    assert_eq!((ran.status, ran.out.lines().count()), (1, 2), "{}{}", ran.out, ran.err);
    let bad = abide_with(&["check", "-"], "http://a.example/\nnowhere\n");
    assert_eq!(bad.status, 2);
    assert!(bad.err.starts_with("abide: standard input:2: url \"nowhere\": "), "{}", bad.err);
    assert_eq!(abide_with(&["check", "-"], "").status, 2, "nothing to ask is wrong usage");
}

#[tokio::test]
async fn a_body_goes_where_it_is_asked_to() {
    let server = site().await;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("page.html").display().to_string();
    let url = "http://a.example:PORT/page";
    let ran = online(server.address(), &["fetch", "-o", &path, url]).await;
    let body = "<meta name=robots content=nosnippet><p>body";
    assert_eq!((ran.status, std::fs::read_to_string(&path).unwrap().as_str()), (0, body));
    assert!(ran.out.starts_with("200  http://a.example"), "{}", ran.out);
    let ran = online(server.address(), &["fetch", "-o", "-", "-q", url]).await;
    assert_eq!((ran.status, ran.out.as_str(), ran.err.as_str()), (0, body, ""), "the body and nothing else");
    for more in [&["-o", "-", "--json"][..], &["-o", "x", url]] {
        let ran = online(server.address(), &[&["fetch"], more, &[url]].concat()).await;
        assert!(ran.status == 2 && ran.err.contains("--output"), "{}", ran.err);
    }
}

#[tokio::test]
async fn a_file_is_kept_where_nothing_is_fetched() {
    let server = Server::start(|_| Reply::new(200, "User-agent: *\nDisallow: /")).await;
    let directory = tempfile::tempdir().unwrap();
    for (name, content) in [("old", Some("old content")), ("new", None)] {
        let path = directory.path().join(name);
        if let Some(content) = content {
            std::fs::write(&path, content).unwrap();
        }
        let args = ["fetch", "-o", path.to_str().unwrap(), "http://a.example:PORT/page"];
        let ran = online(server.address(), &args).await;
        assert_ne!(ran.status, 0, "{}", ran.out);
        assert_eq!(std::fs::read_to_string(&path).ok().as_deref(), content);
    }
    let path = directory.path().join("none/new");
    let ran =
        online(server.address(), &["fetch", "-o", path.to_str().unwrap(), "http://a.example:PORT/"]).await;
    assert_eq!(ran.status, 2, "{}", ran.err);
}

#[tokio::test]
async fn fetch_names_the_field_and_the_meta_behind_each_rule() {
    let server = site().await;
    let ran = online(server.address(), &["fetch", "http://a.example:PORT/page"]).await;
    assert!(ran.out.contains("X-Robots-Tag, field 1"), "{}", ran.out);
    let meta = ran.out.lines().find(|line| line.contains("nosnippet")).unwrap_or_default();
    assert!(meta.contains("meta"), "{}", ran.out);
}

#[test]
fn explain_by_a_file_needs_no_network() {
    let robots = file("User-agent: *\nDisallow: /x\nAllow: /x/y\n");
    let path = robots.path().to_str().unwrap();
    let ran = abide(&["explain", "--robots", path, "https://nobody.invalid/x/z", "/x/y"]);
    assert_eq!((ran.status, ran.err.as_str()), (1, ""));
    for part in [
        "this is why /x/z is disallowed",
        "this rule decides",
        "this is why /x/y is allowed",
        "is overridden",
    ] {
        assert!(ran.out.contains(part), "{part}: {}", ran.out);
    }
    let json = abide(&["explain", "--json", "--robots", path, "/x/z"]).line();
    assert_eq!((&json["allowed"], &json["marks"][1]["line"]), (&json!(false), &json!(2)), "{json}");
}

#[tokio::test]
async fn lint_reads_the_robots_txt_of_a_site() {
    let server = site().await;
    let ran = online(server.address(), &["lint", "http://a.example:PORT/some/page"]).await;
    assert_eq!(ran.status, 1);
    assert!(ran.out.contains("misspelt-key") && ran.out.contains("/robots.txt:2:1"), "{}", ran.out);
    assert_eq!(server.asked(), ["a.example/robots.txt"]);
    let ran = online(server.address(), &["lint", "--format", "json", "http://a.example:PORT/"]).await;
    assert_eq!(ran.line()["kind"], json!("misspelt-key"));
    let none = abide(&["lint", "http://127.0.0.1:9/"]);
    assert!(none.status == 1 && none.err.contains("--allow-net 127.0.0.1"), "{}", none.err);
}

#[test]
fn bulk_match_reads_urls_and_objects() {
    let robots = file("User-agent: *\nDisallow: /x\nAllow: /x/y\nSitemap: https://h/map\n");
    let args = ["match", "--agent", "a", "--robots", robots.path().to_str().unwrap(), "--batch"];
    let ran = abide_with(&args, "https://h/x\n{\"url\": \"https://u:p@h/x/y\"}\n/z\nnowhere\n");
    let lines = ran.lines();
    assert_eq!(
        lines[0],
        json!({"url": "https://h/x", "allowed": false, "rule": {"kind": "disallow", "pattern": "/x", "line": 2}})
    );
    assert_eq!((&lines[1]["url"], &lines[1]["allowed"]), (&json!("https://h/x/y"), &json!(true)));
    assert_eq!(lines[2], json!({"url": "/z", "allowed": true, "rule": null}));
    assert!(lines[3]["error"].as_str().unwrap().contains("nowhere"));
    assert_eq!((ran.status, ran.err.lines().count()), (1, 1), "{}", ran.err);
    assert_eq!(abide_with(&["match", "--agent", "a", "--robots", "-", "--batch"], "").status, 2);
}

#[tokio::test]
async fn header_fields_of_the_caller_reach_pages_alone() {
    let server = site().await;
    let args = [
        "fetch",
        "-H",
        "X-One: 1",
        "-H",
        "Authorization: Basic c2VjcmV0",
        "-v",
        "http://a.example:PORT/page",
    ];
    let ran = online(server.address(), &args).await;
    let log = server.log();
    let field = |path: &str, name: &str| {
        log.iter().find(|seen| seen.path == path).unwrap().header(name).map(str::to_owned)
    };
    assert_eq!(field("/page", "x-one").as_deref(), Some("1"));
    assert!(field("/page", "authorization").is_some());
    assert_eq!((field("/robots.txt", "x-one"), field("/robots.txt", "authorization")), (None, None));
    for line in ["> x-one: 1", "> authorization: ...", "< x-robots-tag: noindex"] {
        assert!(ran.err.lines().any(|found| found == line), "{line}: {}", ran.err);
    }
    assert!(!ran.err.contains("c2VjcmV0"));
    for (field, said) in
        [("User-Agent: x", "--user-agent"), ("Host: x", "--resolve"), ("nonsense", "no colon")]
    {
        let ran = online(server.address(), &["fetch", "-H", field, "http://a.example:PORT/page"]).await;
        assert!(ran.status == 2 && ran.err.contains(said), "{}", ran.err);
    }
}

#[tokio::test]
async fn the_identity_comes_from_the_environment_and_is_hinted_at() {
    let server = site().await;
    let port = server.address().port();
    let agents = async |variables: Vec<(&'static str, &'static str)>, more: Vec<&'static str>| {
        let (resolve, url) = (format!("*:{port}:127.0.0.1"), format!("http://a.example:{port}/x"));
        let output = blocking(move || {
            let mut args = vec!["fetch", "--allow-net", "127.0.0.1", "--resolve", &resolve];
            args.extend(more);
            args.push(&url);
            command(&args).envs(variables).output().unwrap()
        })
        .await;
        crate::Ran::from(output)
    };
    let last = || server.log().last().unwrap().header("user-agent").unwrap().to_owned();
    let ran = agents(vec![], vec![]).await;
    assert!(ran.err.contains("without a contact") && ran.err.lines().count() == 1, "{}", ran.err);
    agents(vec![("ABIDE_AGENT", "MyBot"), ("ABIDE_USER_AGENT", "MyBot/2 (+https://my.example)")], vec![])
        .await;
    assert_eq!(last(), "MyBot/2 (+https://my.example)");
    agents(vec![("ABIDE_AGENT", "MyBot")], vec!["--agent", "Other"]).await;
    assert!(last().starts_with("Other/"), "the command line counts more");
    assert_eq!(agents(vec![], vec!["-q"]).await.err, "");
    let ran = agents(vec![], vec!["--user-agent", "MyBot/1.0 (+https://my.example)"]).await;
    assert_eq!(ran.status, 2);
    assert!(ran.err.contains("--user-agent") && ran.err.contains("--agent MyBot"), "{}", ran.err);
}

/// What a proxy was asked for.
type Log = Arc<std::sync::Mutex<Vec<String>>>;

/// A proxy that notes what `ask` reads of a connection, and answers 404 by itself.
fn proxy_that(ask: impl Fn(&std::net::TcpStream) -> String + Send + 'static) -> (std::net::SocketAddr, Log) {
    use std::io::Write;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, log) = (listener.local_addr().unwrap(), Log::default());
    let seen = Arc::clone(&log);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            seen.lock().unwrap().push(ask(&stream));
            let _ =
                stream.write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
        }
    });
    (address, log)
}

/// The URL of an HTTP request, of which all fields are read.
fn url_of_request(stream: &std::net::TcpStream) -> String {
    use std::io::{BufRead, BufReader};
    let mut lines = BufReader::new(stream).lines();
    let first = lines.next().unwrap().unwrap_or_default();
    lines.take_while(|line| line.as_ref().is_ok_and(|line| !line.is_empty())).for_each(drop);
    first.split(' ').nth(1).unwrap_or_default().to_owned()
}

/// Where a SOCKS 5 client (RFC 1928) wants to connect to. Its request is read, too.
fn socks_target(stream: &std::net::TcpStream) -> String {
    use std::io::{Read, Write};
    let take = |len: usize| {
        let mut bytes = vec![0; len];
        { stream }.read_exact(&mut bytes).unwrap();
        bytes
    };
    let methods = take(2)[1];
    take(methods.into());
    { stream }.write_all(&[5, 0]).unwrap();
    let host = match take(4)[3] {
        1 => take(4).iter().map(u8::to_string).collect::<Vec<_>>().join("."),
        _ => {
            let len = take(1)[0];
            String::from_utf8(take(len.into())).unwrap()
        }
    };
    let port = take(2);
    { stream }.write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0]).unwrap();
    url_of_request(stream);
    format!("{host}:{}", u16::from_be_bytes([port[0], port[1]]))
}

#[tokio::test]
async fn with_socks5_every_address_is_checked() {
    for (scheme, leads_to, status, seen) in [
        ("socks5", "127.0.0.1", 0, &["127.0.0.1:80"][..]),
        ("socks5", "10.1.2.3", 1, &[]),
        ("socks5h", "10.1.2.3", 0, &["site.invalid:80"]),
    ] {
        let (address, log) = proxy_that(socks_target);
        let ran = blocking(move || {
            let (proxy, resolve) = (format!("{scheme}://{address}"), format!("site.invalid:80:{leads_to}"));
            let args =
                ["fetch", "--delay", "0", "--agent", "a", "--allow-net", "127.0.0.1", "--proxy", &proxy];
            crate::abide(&[&args[..], &["--resolve", &resolve, "http://site.invalid/x"]].concat())
        })
        .await;
        assert_eq!(ran.status, status, "{scheme}: {}{}", ran.out, ran.err);
        let mut connected = log.lock().unwrap().clone();
        connected.dedup();
        assert_eq!(connected, seen, "{scheme}: {}", ran.out);
        assert_eq!(ran.out.contains("10.1.2.3 is not a public address"), status == 1, "{}", ran.out);
        assert_eq!(ran.err.contains("the proxy resolves names"), scheme == "socks5h", "{}", ran.err);
    }
}

#[tokio::test]
async fn requests_go_through_the_proxy_that_is_named() {
    let asked = async |flags: Vec<String>, variables: Vec<(&'static str, String)>| {
        let (address, log) = proxy_that(url_of_request);
        let output = blocking(move || {
            let named = |text: String| text.replace("PROXY", &address.to_string());
            let flags: Vec<String> = flags.into_iter().map(named).collect();
            let mut args = vec!["fetch", "--delay", "0", "--agent", "a"];
            args.extend(flags.iter().map(String::as_str));
            args.extend(["http://site.invalid/x", "http://10.1.2.3/x"]);
            let variables = variables.into_iter().map(|(name, value)| (name, named(value)));
            command(&args).envs(variables).output().unwrap()
        })
        .await;
        let seen = log.lock().unwrap().clone();
        (crate::Ran::from(output), seen)
    };
    let through = ["http://site.invalid/robots.txt", "http://site.invalid/x"];
    for (flags, variables) in [
        (vec!["--proxy".to_owned(), "http://PROXY".to_owned()], vec![]),
        (vec!["-x".to_owned(), "PROXY".to_owned()], vec![]),
        (vec![], vec![("HTTP_PROXY", "http://PROXY".to_owned())]),
        (vec![], vec![("http_proxy", "http://PROXY".to_owned())]),
    ] {
        let (ran, seen) = asked(flags, variables).await;
        assert_eq!(seen, through, "{}{}", ran.out, ran.err);
        assert!(
            ran.out.contains("10.1.2.3 is not a public address"),
            "literal addresses are checked: {}",
            ran.out
        );
        assert!(ran.err.contains("the proxy resolves names"), "{}", ran.err);
    }
    let variables = vec![("HTTP_PROXY", "http://PROXY".to_owned()), ("NO_PROXY", "site.invalid".to_owned())];
    assert!(asked(vec![], variables).await.1.is_empty(), "NO_PROXY is obeyed");
    let (ran, _) = asked(vec!["--proxy".to_owned(), "ftp://u:secret@x".to_owned()], vec![]).await;
    assert!(ran.status == 2 && ran.err.contains("--proxy") && !ran.err.contains("secret"), "{}", ran.err);
}
