//! What a site wrote commands no terminal, wherever it comes from.

use abide_tests::{Reply, Server, Step};

use crate::{Ran, directory, online};

/// A character of each kind that must not reach a terminal: an escape sequence, an overwritten line, C1, and what turns text around.
const HOSTILE: &str = "\x1b\r\x08\x7f\u{9b}\u{61c}\u{200b}\u{200f}\u{202e}\u{2028}\u{2066}\u{e0041}";

fn is_tame(what: &str, text: &str) {
    let wild: Vec<char> = text
        .chars()
        .filter(|letter| letter.is_control() && *letter != '\n' || HOSTILE.contains(*letter))
        .collect();
    assert!(wild.is_empty(), "{what}: {wild:?} in {text:?}");
}

fn ran_tamely(what: &str, ran: &Ran) {
    is_tame(&format!("{what} on stdout"), &ran.out);
    is_tame(&format!("{what} on stderr"), &ran.err);
}

#[tokio::test]
async fn online_calls_escape_what_a_site_wrote() {
    let server = Server::start(|seen| {
        // HTTP forbids the others in a field.
        let h = HOSTILE.replace(['\r', '\x7f', '\x1b', '\x08'], "");
        let html = HOSTILE;
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
    let directory = directory();
    let place = |name: &str| directory.place(name);
    let (report, save) = (place("report.html"), place("pages"));
    let paths = ["", "closed", "to", "to-file", "phrase", "reset"].map(str::to_owned);
    let closed = format!("closed{HOSTILE}");
    let urls: Vec<String> = paths.iter().chain([&closed]).map(|path| format!("'a.example/{path}'")).collect();
    let urls = urls.join(" ");
    for call in ["check", "fetch", "explain", "crawl"] {
        for json in ["", "--json"] {
            let ran = online(&server, format!("{call} {json} {urls}")).await;
            assert!(ran.status == 1 && !ran.out.is_empty(), "{call}: {}", ran.err);
            ran_tamely(call, &ran);
        }
    }
    online(&server, format!("crawl --report {report} --save {save} {urls}")).await.ends_with(1);
    for path in [report, format!("{save}/index.jsonl")] {
        is_tame(&path, &std::fs::read_to_string(&path).unwrap());
    }
}

#[tokio::test]
async fn a_long_location_fills_no_screen() {
    let server = Server::with_rules("User-agent: *\nDisallow: /closed\n", |seen| match seen.path.as_str() {
        path if path.starts_with("/to/") => {
            Reply::redirect(302, &format!("/{}{}", &path[4..], "x".repeat(50_000)))
        }
        path if path.starts_with("/reset") => Reply::raw(vec![Step::Reset]),
        _ => Reply::html("end"),
    })
    .await;
    let urls = ["open", "closed", "reset", "to/open"].map(|path| format!("a.example/to/{path}"));
    for call in ["fetch", "crawl"] {
        let ran = online(&server, format!("{call} {}", urls.join(" "))).await;
        assert!(ran.out.len() + ran.err.len() < 5000, "{}: {}", call, ran.out.len());
    }
    let ran = online(&server, format!("fetch --json {}", urls[0])).await;
    assert!(ran.line()["final_url"].as_str().unwrap().len() > 50_000, "a program gets all of it");
}
