//! What a site wrote commands no terminal, wherever it comes from.

use abide_tests::{Reply, Server, Step};
use serde_json::Value;

use crate::{Ran, abide, abide_with, file, online};

/// A character of each kind that must not reach a terminal: an escape sequence, an overwritten line, C1, and what turns text around.
const HOSTILE: [char; 12] = [
    '\x1b',
    '\r',
    '\x08',
    '\x7f',
    '\u{9b}',
    '\u{61c}',
    '\u{200b}',
    '\u{200f}',
    '\u{202e}',
    '\u{2028}',
    '\u{2066}',
    '\u{e0041}',
];

fn hostile() -> String {
    HOSTILE.iter().collect()
}

fn is_tame(what: &str, text: &str) {
    let wild: Vec<char> = text
        .chars()
        .filter(|letter| letter.is_control() && *letter != '\n' || HOSTILE.contains(letter))
        .collect();
    assert!(wild.is_empty(), "{what}: {wild:?} in {text:?}");
}

fn ran_tamely(args: &[&str], ran: &Ran) {
    is_tame(&format!("{args:?} on stdout"), &ran.out);
    is_tame(&format!("{args:?} on stderr"), &ran.err);
}

#[test]
fn offline_calls_escape_what_a_site_wrote() {
    let h = hostile();
    // Lines end at CR.
    let robots = h.replace('\r', "");
    let robots = file(format!(
        "User-agent: a{robots}\nDisallow: /\nUser-agent: *\nDisallow: /{robots}\nDisallow: /x{robots}\nCrawl-delay: {robots}\n\
         {robots}: {robots}\nDisalow: {robots}\nSitemap: {robots}\nSitemap: http://a/{robots}\n\
         App-Directives: x;text=\"{robots}\";other={robots}\nContent-Usage: train-ai=n, {robots}=y\nContent-Signal: ai-train=no, {robots}=yes, use={robots}\n"
    ));
    let path = robots.path().to_str().unwrap();
    let html = file(format!(
        "<head><meta name=robots content='noindex,{h}'><meta name='{h}' content='{h}'><meta name=tdm-policy content='{h}'>"
    ));
    let html = html.path().to_str().unwrap();
    let (url, header) = (format!("/{h}"), format!("Robots-Tag: *;noindex;{h}"));
    let (other, wrong) = (format!("X-Robots-Tag: {h}: noindex, {h}"), format!("http://{h}[/"));
    let usage = format!("Content-Usage: train-ai=n, {h}=y");
    for (status, args) in [
        (1, &["match", "--agent", "a", "--robots", path, &url, "/x"][..]),
        (0, &["directives", "--agent", "a", "--app", "x", "--robots", path, &url]),
        (1, &["lint", path]),
        (0, &["tags", "--agent", "a", "--header", &header, "--header", &other, "--header", &usage, html]),
        (2, &["match", "--agent", "a", "--robots", path, &wrong]),
        (2, &["match", "--agent", &h, "--robots", path, "/"]),
        (2, &["tags", "--agent", "a", "--header", &h]),
        (2, &["lint", &h]),
        (2, &["check", &wrong]),
        (2, &["check", "--delay", &h, "http://a.example/"]),
        (2, &["check", "--store", &format!("redb:/{h}/x"), "http://a.example/"]),
        (2, &[&h]),
        (2, &[&format!("--{h}")]),
    ] {
        let ran = abide(args);
        assert_eq!(ran.status, status, "{args:?}: {}", ran.err);
        ran_tamely(args, &ran);
        if status < 2 && args[0] != "lint" {
            let json = abide(&[&[args[0], "--json"], &args[1..]].concat());
            ran_tamely(args, &json);
            assert!(!json.lines().is_empty());
        }
    }
    let lint = abide(&["lint", "--json", path]);
    ran_tamely(&["lint", "--json"], &lint);
    assert!(lint.lines().len() > 3, "{}", lint.out);
}

#[test]
fn json_keeps_what_it_escapes() {
    let pattern = format!("/x{}", hostile().replace('\r', ""));
    let robots = file(format!("User-agent: *\nDisallow: {pattern}\n"));
    let question = serde_json::json!({"agent": "a", "url": pattern, "robots": format!("User-agent: *\nDisallow: {pattern}\n")});
    for ran in [
        abide(&["match", "--json", "--agent", "a", "--robots", robots.path().to_str().unwrap(), &pattern]),
        abide_with(&["match", "--batch"], format!("{question}\n")),
    ] {
        ran_tamely(&["match"], &ran);
        let line = ran.line();
        assert_eq!(line["rule"]["pattern"], Value::from(pattern.as_str()), "{line}");
        assert!(line.get("url").is_none_or(|url| *url == pattern.as_str()));
    }
}

#[tokio::test]
async fn online_calls_escape_what_a_site_wrote() {
    let server = Server::start(|seen| {
        // HTTP forbids the others in a field.
        let h = hostile().replace(['\r', '\x7f', '\x1b', '\x08'], "");
        let html = hostile();
        match seen.path.as_str() {
            "/robots.txt" => Reply::new(
                200,
                format!("User-agent: *\nDisallow: /closed{h}\x1b[2J\nDisallow: /closed\nSitemap: http://{h}\x1b/\nSitemap: /{h}\x1b\n"),
            ),
            "/" => Reply::with_headers(
                200,
                &[("content-type", &format!("text/html;{h}")), ("x-robots-tag", &format!("noarchive, {h}")), ("content-usage", "train-ai=n")],
                format!(
                    "<head><meta name=robots content='{html}, nosnippet'><meta name='{html}' content='{html}'></head>\
                     <a href='/page?{html}'>1</a><a href='/closed{html}'>2</a><a href='/{html}'>3</a><a href='/reset{html}'>4</a>\
                     <a href='http://{html}/'>5</a><a href=/to>6</a><a href=/phrase>7</a><a href=/to-file>8</a>"
                ),
            ),
            "/to" => Reply::with_headers(302, &[("location", &format!("/closed{h}"))], ""),
            "/to-file" => Reply::with_headers(302, &[("location", &format!("x{h}:y{h}"))], ""),
            "/phrase" => Reply::raw(vec![Step::Send(format!("HTTP/1.1 404 {h}\x1b[2J\r\ncontent-length: 0\r\n\r\n").into_bytes())]),
            path if path.starts_with("/reset") => Reply::raw(vec![Step::Reset]),
            _ => Reply::html("end"),
        }
    })
    .await;
    let directory = tempfile::tempdir().unwrap();
    let place = |name: &str| directory.path().join(name).display().to_string();
    let (report, save) = (place("report.html"), place("pages"));
    let paths = ["", "closed", "to", "to-file", "phrase", "reset"].map(str::to_owned);
    let closed = format!("closed{}", hostile());
    let urls: Vec<String> =
        paths.iter().chain([&closed]).map(|path| format!("http://a.example:PORT/{path}")).collect();
    let urls: Vec<&str> = urls.iter().map(String::as_str).collect();
    for call in ["check", "fetch", "explain", "crawl"] {
        for json in [&[][..], &["--json"]] {
            let args = [&[call][..], json, &urls].concat();
            let ran = online(server.address(), &args).await;
            assert!(ran.status == 1 && !ran.out.is_empty(), "{call}: {}", ran.err);
            ran_tamely(&args, &ran);
        }
    }
    let args = [&["crawl", "--report", &report, "--save", &save][..], &urls].concat();
    assert_eq!(online(server.address(), &args).await.status, 1);
    for path in [report, format!("{save}/index.jsonl")] {
        is_tame(&path, &std::fs::read_to_string(&path).unwrap());
    }
}

#[tokio::test]
async fn a_long_location_fills_no_screen() {
    let server = Server::start(|seen| match seen.path.as_str() {
        "/robots.txt" => Reply::new(200, "User-agent: *\nDisallow: /closed\n"),
        path if path.starts_with("/to/") => {
            Reply::redirect(302, &format!("/{}{}", &path[4..], "x".repeat(50_000)))
        }
        path if path.starts_with("/reset") => Reply::raw(vec![Step::Reset]),
        _ => Reply::html("end"),
    })
    .await;
    let urls = ["open", "closed", "reset", "to/open"].map(|path| format!("http://a.example:PORT/to/{path}"));
    for call in ["fetch", "crawl"] {
        let args: Vec<&str> = [call].into_iter().chain(urls.iter().map(String::as_str)).collect();
        let ran = online(server.address(), &args).await;
        assert!(ran.out.len() + ran.err.len() < 5000, "{}: {}", call, ran.out.len());
    }
    let ran = online(server.address(), &["fetch", "--json", &urls[0]]).await;
    assert!(ran.line()["final_url"].as_str().unwrap().len() > 50_000, "a program gets all of it");
}
