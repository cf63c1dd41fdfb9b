//! No user information of a URL is printed or saved, whatever the call, and however the URL came to it.

use std::path::Path;

use abide_tests::{Reply, Server, Step};

use crate::{Ran, abide, abide_with, file, online};

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

fn ran_silently(args: &[&str], ran: &Ran) {
    is_silent(&format!("{args:?} on stdout"), &ran.out);
    is_silent(&format!("{args:?} on stderr"), &ran.err);
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
            "/robots.txt" if seen.host() == "held.example" => {
                Reply::with_headers(429, &[("retry-after", "3600")], "")
            }
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
                let links = [
                    "/1",
                    "/secret/x",
                    "/404",
                    "/500",
                    "/busy",
                    "/cut",
                    "/loop",
                    "/to-secret",
                    "/to-file",
                    "/to-down",
                ];
                let links = links.map(|path| format!("<a href='{}'>l</a>", of(path)));
                Reply::html(format!("<base href='{}'><a href=2>2</a>{}", of("/b/"), links.concat()))
            }
            "/404" => Reply::new(404, "gone"),
            "/500" => Reply::new(500, "oops"),
            "/busy" => Reply::with_headers(429, &[("retry-after", "3600")], ""),
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
    let paths = [
        "",
        "secret",
        "404",
        "500",
        "cut",
        "loop",
        "to-secret",
        "to-file",
        "to-down",
        "to-closed",
        "?a=b@c#d@e",
        "busy",
        "1",
    ];
    let mut urls: Vec<String> =
        paths.iter().map(|path| format!("http://{USER}:{PASSWORD}@a.example:PORT/{path}")).collect();
    urls.push(format!("http:\\\\{USER}:{PASSWORD}@a.example:PORT/other-slashes"));
    urls.push(format!("\thttp:/{USER}@a.example:PORT/no-password"));
    for host in ["held.example", "down.example", "moved.example", "127.0.0.1"] {
        urls.push(format!("http://{USER}:{PASSWORD}@{host}:PORT/"));
    }
    let directory = tempfile::tempdir().unwrap();
    let store = format!("redb:{}", directory.path().join("s.redb").display());
    let mut json_lines = 0;
    for call in [
        &["check"][..],
        &["check", "--json"],
        &["explain"],
        &["explain", "--json"],
        &["fetch"],
        &["fetch", "--json"],
        &["fetch", "--store", &store],
    ] {
        let mut args = call.to_vec();
        args.extend(["--max-wait", "1s"]);
        args.extend(urls.iter().map(String::as_str));
        let ran = online(server.address(), &args).await;
        assert!(!ran.out.is_empty() && ran.status == 1, "{call:?} {}", ran.err);
        ran_silently(call, &ran);
        json_lines += if call.contains(&"--json") { ran.lines().len() } else { 0 };
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
        .map(|host| format!("http://{USER}:{PASSWORD}@{host}:PORT/"));
    for json in [&[][..], &["--json"]] {
        let directory = tempfile::tempdir().unwrap();
        let place = |name: &str| directory.path().join(name).display().to_string();
        let (save, report, store) =
            (place("pages"), place("report.html"), format!("redb:{}", place("s.redb")));
        let mut args = vec![
            "crawl",
            "--sitemaps",
            "--max-hold",
            "1s",
            "--max-wait",
            "1s",
            "--save",
            &save,
            "--report",
            &report,
            "--store",
            &store,
        ];
        args.extend(json);
        args.extend(start.iter().map(String::as_str));
        // The second run goes on where the first one has left off.
        for _ in 0..2 {
            let ran = online(server.address(), &args).await;
            assert_eq!(ran.status, 1, "{}", ran.err);
            ran_silently(&args, &ran);
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

#[test]
fn offline_calls_show_no_user_information() {
    let url = format!("http://{USER}:{PASSWORD}@a.example/secret");
    let sitemap = format!("http://{USER}:{PASSWORD}@a.example/map.xml");
    let robots =
        file(format!("User-agent: *\nDisallow: /secret\nContent-Usage: train-ai=n\nSitemap: {sitemap}\n"));
    let path = robots.path().to_str().unwrap();
    for call in [
        &["match", "--agent", "a", "--robots", path][..],
        &["match", "--json", "--agent", "a", "--robots", path],
        &["directives", "--app", "x", "--agent", "a", "--robots", path],
        &["directives", "--json", "--agent", "a", "--robots", path],
    ] {
        let args = [call, &[&url]].concat();
        let ran = abide(&args);
        assert!(ran.out.contains("a.example/secret"), "{}", ran.out);
        ran_silently(&args, &ran);
    }
    let site = format!("http://{USER}:{PASSWORD}@a.example");
    let remarked =
        file(format!("Sitemap: //{USER}:{PASSWORD}@a.example/\nUser-agent: *\nDisallow: {site}/x\n"));
    for call in [&["lint"][..], &["lint", "--json"]] {
        let args = [call, &[remarked.path().to_str().unwrap()]].concat();
        let ran = abide(&args);
        assert!(ran.out.contains("never-matches") && ran.out.contains("relative-url"), "{}", ran.out);
        ran_silently(&args, &ran);
    }
    for call in ["match", "directives"] {
        let question = serde_json::json!({"agent": "a", "url": url, "robots": format!("Sitemap: {sitemap}")});
        let ran = abide_with(&[call, "--batch"], format!("{question}\n"));
        assert_eq!(ran.status, 0, "{}", ran.err);
        ran_silently(&[call, "--batch"], &ran);
    }
}

#[test]
fn refusals_of_a_call_show_no_user_information() {
    let given = format!("{USER}:{PASSWORD}@");
    let robots = file("User-agent: *\n");
    let path = robots.path().to_str().unwrap();
    let wrong = [
        format!("http://{given}a.example:port/"),
        format!("http://{given}[a.example/"),
        format!("http://{USER}:{PASSWORD}/1@a.example:port/"),
        format!("http://{USER}:{PASSWORD} 1@a.example:port/"),
        format!("ftp://{given}a.example/"),
        format!("ht tp://{given}a.example/"),
        format!("//{given}a.example/"),
        format!("{given}a.example/"),
        format!("{given}a.example"),
        format!("{given}a.example/a@b"),
    ];
    for url in &wrong {
        for call in ["check", "fetch", "crawl", "explain"] {
            let ran = abide(&[call, url]);
            assert_eq!(ran.status, 2, "{call} {url}: {}", ran.err);
            ran_silently(&[call, url], &ran);
        }
        for call in ["match", "directives"] {
            let args = [call, "--agent", "a", "--robots", path, url];
            let ran = abide(&args);
            assert_eq!(ran.status, 2, "{call} {url}: {}", ran.err);
            ran_silently(&args, &ran);
            let question = serde_json::json!({"agent": "a", "url": url, "robots": ""}).to_string();
            let not_json = question.replace(PASSWORD, &format!("\u{1}{PASSWORD}"));
            for line in [&question, &not_json, &question[..question.len() - 2]] {
                let ran = abide_with(&[call, "--batch"], format!("{line}\n"));
                assert_eq!(ran.status, 1, "{call} {line}: {}", ran.out);
                ran_silently(&[call, "--batch", line], &ran);
            }
        }
    }
    // Where no URL belongs.
    let url = format!("https://{given}a.example/robots.txt");
    for args in [
        &[url.as_str()][..],
        &[&wrong[8]],
        &["check", "--delay", &url, "http://a.example/"],
        &["check", &format!("--delay={}", wrong[8]), "http://a.example/"],
        &["check", "--resolve", &wrong[8], "http://a.example/"],
        &["check", "--resolve", &format!("{url}:80:127.0.0.1"), "http://a.example/"],
        &["check", "--resolve", &format!("a:80:{}", wrong[8]), "http://a.example/"],
        &["check", "--delay", &format!("5{}", wrong[8]), "http://a.example/"],
        &["check", "--delay", &url.replace(':', "\":"), "http://a.example/"],
        &["check", "--store", &url, "http://a.example/"],
        &["check", "--store", &format!("redb:{url}/x"), "http://a.example/"],
        &["check", "--allow-net", &url, "http://a.example/"],
        &["check", "--cacert", &url, "http://a.example/"],
        &["check", "--agent", &url, "http://a.example/"],
        &["crawl", "--report", &format!("{url}/x"), "http://a.example/"],
        &["crawl", "--save", "/dev/null", &url],
        &["match", "--agent", "a", "--robots", &url, "/"],
        &["match", "--batch", &url],
        &["match", "--agent", &url, "--robots", path, "/"],
        &["directives", "--agent", "a", "--robots", &url, "/"],
        &["tags", "--agent", "a", &url],
        &["tags", "--agent", "a", "--header", &url[5..]],
        &["lint", &format!("x{url}")],
        &["completions", &url],
    ] {
        let ran = abide(args);
        assert_eq!(ran.status, 2, "{args:?}: {}{}", ran.out, ran.err);
        ran_silently(args, &ran);
    }
    for line in [
        format!("{{\"agent\": \"a\", \"robots\": \"\", \"url\": [\"{url}\"]}}"),
        format!("{{\"agent\": \"{url}\", \"robots\": \"\", \"url\": \"/\"}}"),
        format!("{{\"agent\": \"a\", \"robots_base64\": \"{url}\", \"url\": \"/\"}}"),
        format!("{{\"agent\": {{\"{url}\": 1}}, \"robots\": \"\", \"url\": \"/\"}}"),
        format!("{{\"url\": {url}}}"),
        url.clone(),
    ] {
        let ran = abide_with(&["match", "--batch"], format!("{line}\n"));
        assert_eq!(ran.status, 1, "{line}: {}", ran.out);
        ran_silently(&["match", "--batch", &line], &ran);
    }
}
