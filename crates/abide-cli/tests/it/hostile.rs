//! What a site wrote commands no terminal, wherever it comes from.

use abide_tests::{Reply, Server, Step};
use serde_json::Value;

use crate::{Ran, abide, abide_with, directory, file, online};

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

#[test]
fn offline_calls_escape_what_a_site_wrote() {
    let h = HOSTILE;
    // Lines end at CR.
    let robots = h.replace('\r', "");
    let robots = file(format!(
        "User-agent: a{robots}\nDisallow: /\nUser-agent: *\nDisallow: /{robots}\nDisallow: /x{robots}\nCrawl-delay: {robots}\n\
         {robots}: {robots}\nDisalow: {robots}\nSitemap: {robots}\nSitemap: http://a/{robots}\n\
         App-Directives: x;text=\"{robots}\";other={robots}\nContent-Usage: train-ai=n, {robots}=y\nContent-Signal: ai-train=no, {robots}=yes, use={robots}\n"
    ));
    let html = file(format!(
        "<head><meta name=robots content='noindex,{h}'><meta name='{h}' content='{h}'><meta name=tdm-policy content='{h}'>"
    ));
    let (url, header) = (format!("/{h}"), format!("Robots-Tag: *;noindex;{h}"));
    let (other, wrong) = (format!("X-Robots-Tag: {h}: noindex, {h}"), format!("http://{h}[/"));
    let usage = format!("Content-Usage: train-ai=n, {h}=y");
    for (status, args) in [
        (1, format!("match --agent a --robots {robots} '{url}' /x")),
        (0, format!("directives --agent a --app x --robots {robots} '{url}'")),
        (1, format!("lint {robots}")),
        (0, format!("tags --agent a --header '{header}' --header '{other}' --header '{usage}' {html}")),
        (2, format!("match --agent a --robots {robots} '{wrong}'")),
        (2, format!("match --agent '{h}' --robots {robots} /")),
        (2, format!("tags --agent a --header '{h}'")),
        (2, format!("lint '{h}'")),
        (2, format!("check '{wrong}'")),
        (2, format!("check --delay '{h}' http://a.example/")),
        (2, format!("check --store 'redb:/{h}/x' http://a.example/")),
        (2, format!("'{h}'")),
        (2, format!("'--{h}'")),
    ] {
        ran_tamely(&args, abide(&args).ends_with(status));
        if status < 2 {
            let (call, rest) = args.split_once(' ').unwrap();
            let json = abide(format!("{call} --json {rest}"));
            ran_tamely(&args, &json);
            assert!(json.lines().len() > if call == "lint" { 3 } else { 0 }, "{}", json.out);
        }
    }
}

#[test]
fn json_keeps_what_it_escapes() {
    let pattern = format!("/x{}", HOSTILE.replace('\r', ""));
    let robots = file(format!("User-agent: *\nDisallow: {pattern}\n"));
    let question = serde_json::json!({"agent": "a", "url": pattern, "robots": format!("User-agent: *\nDisallow: {pattern}\n")});
    for ran in [
        abide(&["match", "--json", "--agent", "a", "--robots", robots.path(), &pattern]),
        abide_with("match --batch", format!("{question}\n")),
    ] {
        ran_tamely("match", &ran);
        let line = ran.line();
        assert_eq!(line["rule"]["pattern"], Value::from(pattern.as_str()), "{line}");
        assert!(line.get("url").is_none_or(|url| *url == pattern.as_str()));
    }
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
