//! No user information of a URL is printed or saved, whatever the call, and however the URL came to it.

use std::path::Path;

use abide_tests::{Reply, Server, Step};

use crate::{Ran, Words, online, store};

/// What stands before the `@`: neither half may be seen again.
const USER: &str = "u5ern4me";
const PASSWORD: &str = "pa55w0rd";
/// What stands there in a robots.txt, which a store keeps as it was sent.
const IN_ROBOTS: &str = "51temap";

/// Everything that a call wrote, none of which may hold the marks.
fn is_silent(what: &str, written: &str) {
    for mark in [USER, PASSWORD, IN_ROBOTS] {
        let is_kept = mark == IN_ROBOTS && what.ends_with(".redb");
        assert!(is_kept || !written.contains(mark), "{what}: {written}");
    }
}

/// It ended with this status, and neither its output nor its messages show a mark.
#[track_caller]
fn ran_silently(what: &str, status: i32, ran: &Ran) {
    assert_eq!(ran.status, status, "{what}: {}{}", ran.out, ran.err);
    is_silent(&format!("{what} on stdout"), &ran.out);
    is_silent(&format!("{what} on stderr"), &ran.err);
}

/// Every file below `directory`, but for bodies, which are what the server sent.
fn files(directory: &Path) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
            continue;
        }
        let name = path.display().to_string();
        let is_body = path.file_stem().is_some_and(|stem| stem.to_string_lossy().parse::<u64>().is_ok());
        if !is_body {
            found.push((name, String::from_utf8_lossy(&std::fs::read(&path).unwrap()).into_owned()));
        }
    }
    found
}

/// A site whose links, redirects and sitemaps all carry the marks, with an answer of each kind behind them.
async fn site() -> Server {
    Server::start(|seen| {
        let port = seen.header("host").and_then(|host| host.rsplit_once(':')).map_or("80", |(_, port)| port);
        let of = |path: &str| format!("http://{USER}:{PASSWORD}@{}:{port}{path}", seen.host());
        match seen.path.as_str() {
            "/robots.txt" if seen.host() == "held.example" => Reply::retry_after(429, 3600),
            "/robots.txt" if seen.host() == "down.example" => Reply::new(503, ""),
            "/robots.txt" if seen.host() == "moved.example" => {
                Reply::redirect(301, &format!("http://{USER}:{PASSWORD}@a.example:{port}/robots.txt"))
            }
            "/robots.txt" => {
                let sitemap = format!("http://{IN_ROBOTS}:{IN_ROBOTS}@{}:{port}/map.xml", seen.host());
                let rules = format!("User-agent: *\nDisallow: /secret\nDisalow: /x\nSitemap: {sitemap}\n");
                Reply::new(200, rules)
            }
            "/map.xml" => Reply::with_headers(
                200,
                &[("content-type", "application/xml")],
                format!("<urlset><url><loc>{}</loc></url></urlset>", of("/mapped")),
            ),
            "/" => {
                let paths = "/1 /secret/x /404 /500 /busy /cut /loop /to-secret /to-file /to-down";
                let links = paths.split(' ').map(|path| format!("<a href='{}'>l</a>", of(path)));
                Reply::html(format!(
                    "<base href='{}'><a href=2>2</a>{}",
                    of("/b/"),
                    links.collect::<String>()
                ))
            }
            "/404" => Reply::new(404, "gone"),
            "/500" => Reply::new(500, "oops"),
            "/busy" => Reply::retry_after(429, 3600),
            "/cut" => Reply::raw(vec![
                Step::Send(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nx".to_vec()),
                Step::Reset,
            ]),
            "/loop" => Reply::redirect(302, &of("/loop")),
            "/to-secret" => Reply::redirect(302, &of("/secret")),
            "/to-file" => Reply::redirect(302, &format!("file://{USER}:{PASSWORD}@host/x")),
            "/to-down" => Reply::redirect(302, &format!("http://{USER}:{PASSWORD}@down.example:{port}/x")),
            "/to-closed" => Reply::redirect(302, &format!("http://{USER}:{PASSWORD}@a.example:1/x")),
            _ => Reply::html("<meta name=robots content=noindex>end"),
        }
    })
    .await
}

#[tokio::test]
async fn online_calls_show_no_user_information() {
    let server = site().await;
    let paths = " secret 404 500 cut loop to-secret to-file to-down to-closed ?a=b@c#d@e busy 1";
    let url = |path| format!("http://{USER}:{PASSWORD}@a.example:PORT/{path}");
    let mut urls: Vec<String> = paths.split(' ').map(url).collect();
    urls.push(format!("http:\\\\{USER}:{PASSWORD}@a.example:PORT/other-slashes"));
    urls.push(format!("\thttp:/{USER}@a.example:PORT/no-password"));
    for host in ["held.example", "down.example", "moved.example", "127.0.0.1"] {
        urls.push(format!("http://{USER}:{PASSWORD}@{host}:PORT/"));
    }
    let (directory, store) = store();
    let mut json_lines = 0;
    let stored = format!("fetch --store {store}");
    for call in
        ["check", "check --json", "explain", "explain --json", "fetch", "fetch --json", stored.as_str()]
    {
        let mut args = format!("{call} --max-wait 1s").words();
        args.extend(urls.iter().cloned());
        let ran = online(&server, &args).await;
        assert!(!ran.out.is_empty(), "{call}");
        ran_silently(call, 1, &ran);
        json_lines += if call.contains("--json") { ran.lines().len() } else { 0 };
    }
    assert_eq!(json_lines, 3 * urls.len());
    for (name, content) in files(directory.path()) {
        is_silent(&name, &content);
    }
    let sent = server.log().iter().filter(|seen| seen.header("authorization").is_some()).count();
    assert!(sent > 0, "what was given is sent to the server that it was given for");
}

#[tokio::test]
async fn a_crawl_neither_shows_nor_saves_user_information() {
    let server = site().await;
    let start = ["a.example", "moved.example", "down.example", "held.example"]
        .map(|host| format!("http://{USER}:{PASSWORD}@{host}:PORT/"))
        .join(" ");
    for json in ["", "--json"] {
        let (directory, store) = store();
        let (save, report) = (directory.place("pages"), directory.place("report.html"));
        let args = format!(
            "crawl --sitemaps --max-hold 1s --max-wait 1s --save {save} --report {report} --store {store} {json} {start}"
        );
        // The second run goes on where the first one has left off.
        for _ in 0..2 {
            let ran = online(&server, &args).await;
            ran_silently("crawl", 1, &ran);
        }
        let written = files(directory.path());
        for name in ["index.jsonl", "report.html", "s.redb", ".frontier"] {
            assert!(written.iter().any(|(path, text)| path.ends_with(name) && !text.is_empty()), "{name}");
        }
        for (name, content) in written {
            is_silent(&name, &content);
        }
    }
}
