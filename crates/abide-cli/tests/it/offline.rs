//! `abide match` and `abide tags`, for people and with `--json`.

use serde_json::json;

use crate::{Words, abide, abide_with, file, keys, to};

const ROBOTS: &str = "\
User-agent: ExampleBot
User-agent: OtherBot
Disallow: /private/
Allow: /private/open
Crawl-delay: 1.5

User-agent: *
Disallow: /

Sitemap: https://example.org/sitemap.xml
";

pub(crate) const MATCH: &str = "allowed rule group crawl_delay sitemaps";
pub(crate) const RULES: &str = "\
    noindex nosnippet nofollow noarchive noimageindex notranslate nocache indexifembedded noai noimageai \
    max_snippet max_image_preview max_video_preview unavailable_after";
pub(crate) const DIRECTIVES: &str = "app_directives content_usage content_signal";
pub(crate) const TAGS: &str = "rules unknown metas head truncated preferences";

#[test]
fn match_prints_the_rule_and_its_line() {
    let robots = file(ROBOTS);
    let ran = abide(format!(
        "match --agent ExampleBot --robots {robots} https://example.org/private/x /private/open /"
    ));
    let expected = "\
deny   https://example.org/private/x  disallowed by \"Disallow: /private/\" on line 3
allow  /private/open  allowed by \"Allow: /private/open\" on line 4
allow  /  allowed, because no rule matches
";
    assert_eq!((ran.status, &*ran.out, &*ran.err), (1, expected, ""));
}

#[test]
fn match_as_json_has_the_fields_of_the_contract() {
    let robots = file(ROBOTS);
    let ran =
        abide(&["match", "--json", "--agent", "ExampleBot", "--robots", robots.path(), "/private/x", "/"]);
    let lines = ran.lines();
    assert_eq!(keys(&lines[0]), format!("url {MATCH}"));
    assert_eq!(
        lines[0],
        json!({
            "url": "/private/x",
            "allowed": false,
            "rule": {"kind": "disallow", "pattern": "/private/", "line": 3},
            "group": ["examplebot", "otherbot"],
            "crawl_delay": 1.5,
            "sitemaps": ["https://example.org/sitemap.xml"],
        })
    );
    assert_eq!(lines[1]["rule"], json!(null));
}

#[test]
fn match_exits_with_0_when_all_is_allowed() {
    let robots = file(ROBOTS);
    for (agent, status) in [("ExampleBot", 0), ("StrangeBot", 1)] {
        abide(format!("match --agent {agent} --robots {robots} / /a")).ends_with(status);
    }
}

#[test]
fn match_reads_robots_from_standard_input() {
    abide_with("match --agent StrangeBot --robots - /", ROBOTS).ends_with(1).shows(&["on line 8"]);
}

#[test]
fn match_takes_a_chain_of_agents() {
    let robots = file(ROBOTS);
    let line = abide(format!("match --json --agent StrangeBot --agent OtherBot --robots {robots} /")).line();
    assert_eq!(line["group"], json!(["examplebot", "otherbot"]));
}

#[test]
fn directives_are_printed_for_people_and_as_json() {
    let robots = file("User-agent: *\nApp-Directives: a;x=\"y\"\nContent-Usage: train-ai=n\n");
    let args = format!("directives --agent b --robots {robots} --app a /p");
    let shown = "\
/p
  App-Directives: x: \"y\"
  Content-Usage: train-ai: \"disallow\"
  Content-Signal: nothing stated
";
    let ran = abide(&args);
    assert_eq!((ran.status, &*ran.out), (0, shown));
    assert_eq!(keys(&abide(args + " --json").line()), format!("url {DIRECTIVES}"));
}

#[test]
fn tags_print_the_rules_and_their_sources() {
    let page = file("<title>x</title><meta name=robots content='noindex, max-snippet:20'><p>");
    let ran = abide(&["tags", "--agent", "ExampleBot", "--header", "Robots-Tag: *;nosnippet", page.path()]);
    assert_eq!((ran.status, ran.err.as_str()), (0, ""));
    ran.shows(&["noindex", "nosnippet", "max-snippet", "meta", "Robots-Tag"]);
    let none = abide(&["tags", "--agent", "ExampleBot", "--header", "X-Robots-Tag: otherbot: noindex"]);
    assert!(none.out.starts_with("no restrictions stated"), "{}", none.out);
    let long = format!("X-Robots-Tag: {}", "otherbot: noindex, ".repeat(1000));
    let cut = abide(&["tags", "--agent", "ExampleBot", "--header", &long]);
    assert!(cut.out.starts_with("no restrictions found\n  what else is stated is unknown: "), "{}", cut.out);
}

#[test]
fn tags_read_a_page_by_all_its_content_types() {
    let page = file("<meta name=robots content=noindex>");
    let xhtml = file(
        "<html xmlns='http://www.w3.org/1999/xhtml'><head><title/><meta name='robots' content='noindex'/></head></html>",
    );
    for (page, types, noindex) in [
        (&page, &["text/html charset=utf-8"][..], true),
        (&page, &["text/plain", "text/html"], true),
        (&page, &["text/html", "text/plain"], true),
        (&page, &["*/*"], true),
        (&page, &["text/plain", "image/png"], false),
        (&page, &["application/pdf"], false),
        (&xhtml, &["application/xhtml+xml"], true),
    ] {
        let mut args = format!("tags --json --agent ExampleBot {page}").words();
        for kind in types {
            args.extend(["--header".to_owned(), format!("Content-Type: {kind}")]);
        }
        let line = abide(&args).line();
        let is_read = line["head"] != "none";
        assert_eq!((&line["rules"]["noindex"], is_read), (&json!(noindex), noindex), "{types:?}");
    }
    // The option stands above a field.
    let types = "-H 'content-TYPE: text/html' --content-type application/pdf";
    assert_eq!(abide(format!("tags --json --agent a {page} {types}")).line()["head"], json!("none"));
}

#[test]
fn tags_print_the_preferences() {
    let page = file("<head><meta name=tdm-reservation content=1></head>");
    let fields = "--header 'Content-Usage: train-ai=n, search=y' --header 'Content-Signal: ai-input=no'";
    let ran = abide(format!("tags --agent ExampleBot {fields} {page}"));
    let preferences = ["train-ai disallow", "search allow", "ai-input disallow", "tdm disallow"];
    for preference in preferences {
        ran.shows(&[&format!("preference: {preference}")]);
    }
}

#[test]
fn tags_as_json_have_the_fields_of_the_contract() {
    let page = file("<meta name=Robots content=' NoIndex, foo'><meta name=x><meta charset=utf-8></head><p>");
    let fields = "--header 'X-Robots-Tag: max-image-preview: large' \
                  --header 'Robots-Tag: *;max-snippet=20;unavailable_after=@1735689600'";
    let line = abide(format!("tags --json --agent ExampleBot {fields} {page}")).line();
    assert_eq!(keys(&line), TAGS);
    assert_eq!(keys(&line["rules"]), RULES);
    assert_eq!(
        line,
        json!({
            "rules": {
                "noindex": true, "nosnippet": false, "nofollow": false, "noarchive": false, "noimageindex": false,
                "notranslate": false, "nocache": false, "indexifembedded": false, "noai": false, "noimageai": false,
                "max_snippet": 20, "max_image_preview": "large", "max_video_preview": null,
                "unavailable_after": "2025-01-01T00:00:00Z",
            },
            "unknown": ["foo"],
            "metas": [{"name": "Robots", "content": " NoIndex, foo"}, {"name": "x", "content": ""}],
            "head": "ended",
            "truncated": false,
            "preferences": [],
        })
    );
}

#[test]
fn tags_read_a_page_from_standard_input() {
    let line = abide_with("tags --json --agent ExampleBot -", "<meta name=robots content=none>").line();
    assert_eq!((&line["rules"]["noindex"], &line["head"]), (&json!(true), &json!("eof")));
    let line = abide("tags --json --agent ExampleBot --header 'Robots-Tag: *;noindex'").line();
    assert_eq!((&line["head"], &line["metas"]), (&json!("none"), &json!([])), "where there is one");
}

#[test]
fn with_colours_what_a_file_contains_commands_no_terminal() {
    let robots = file("User-agent: *\nDisallow: /\x1b]0;owned\x07\n");
    let ran =
        abide(&["match", "--color", "always", "--agent", "a", "--robots", robots.path(), "/\x1b]0;mine\x07"]);
    assert!(
        ran.out.contains("mine") && !ran.out.contains("\x1b]"),
        "nor what a list of URLs contains: {:?}",
        ran.out
    );
}

#[test]
fn pipes_and_no_color_see_no_escapes() {
    let robots = file(ROBOTS);
    let args = format!("match --agent ExampleBot --robots {robots} /private/ /");
    assert!(!abide(&args).out.contains('\x1b'), "a pipe is no terminal");
    abide(format!("{args} --color always")).shows(&["\x1b["]);
    let output = crate::command(&args).env("NO_COLOR", "1").env("CLICOLOR", "1").output().unwrap();
    assert!(!output.stdout.contains(&0x1b), "{output:?}");
    let json = abide(args + " --color always --json");
    assert!(!json.out.contains('\x1b'), "JSON has no colours");
}

#[test]
#[cfg(target_os = "linux")]
fn a_file_without_end_is_read_as_far_as_it_matters() {
    let ran = abide("match --agent a --robots /dev/zero /");
    assert_eq!((ran.status, ran.err.as_str()), (0, ""));
    assert_eq!(abide("tags --agent a /dev/zero").status, 0);
}

#[test]
#[cfg(target_os = "linux")]
fn output_that_cannot_be_written_is_a_failure() {
    let question = r#"{"robots": "", "agent": "a", "url": "https://h/"}"#;
    let batch = file(question);
    for args in [format!("match --batch {batch}"), format!("match --agent a --robots {batch} /")] {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let output = crate::command(&args).stdout(full).output().unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), err.lines().count()), (Some(1), 1), "{err}");
    }
}

#[tokio::test]
#[cfg(unix)]
async fn a_reader_that_goes_away_is_no_failure() {
    let server = abide_tests::Server::start(|_| abide_tests::Reply::html("x")).await;
    let robots = file("User-agent: *\nDissallow: /\n".repeat(2000));
    let online = ["check", "explain", "fetch --json", "crawl", "crawl --json"];
    let offline = [
        &format!("lint --json {robots}"),
        &format!("lint {robots}"),
        &format!("match --agent a --robots {robots} /"),
        "tags --agent a --header 'Robots-Tag: *;noindex'",
        "man",
        "completions bash",
        "--help",
    ];
    let online = online.map(|call| to(&server, format!("{call} a.example/")));
    for args in offline.into_iter().map(Words::words).chain(online) {
        let mut child = crate::command(&args).spawn().unwrap();
        drop(child.stdout.take());
        let output = crate::blocking(move || child.wait_with_output().unwrap()).await;
        let said = String::from_utf8(output.stderr).unwrap();
        // What was written before the reader went may have been all.
        assert!(matches!(output.status.code(), Some(0 | 1)), "{args:?}: {said}");
        assert!(!said.contains("panicked") && !said.contains("roken pipe"), "{args:?}: {said}");
    }
}
