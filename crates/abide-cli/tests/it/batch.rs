//! JSON Lines: one answer per question, in order, as they come.

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use serde_json::{Value, json};

use crate::offline::{MATCH, RULES, TAGS};
use crate::{abide, abide_with, command, file, keys};

/// One question to `abide CALL --batch`, one answer.
fn ask(call: &str, question: &Value) -> Value {
    abide_with(&[call, "--batch"], format!("{question}\n")).line()
}

#[test]
fn match_answers_with_every_field_in_order() {
    let robots =
        "User-agent: FooBot\nDisallow: /x\nCrawl-delay: 2\nSitemap: https://h/s1\nSitemap: https://h/s2";
    let line = ask("match", &json!({"robots": robots, "agent": "FooBot", "url": "https://h/x?y"}));
    assert_eq!(keys(&line), MATCH);
    assert_eq!(keys(&line["rule"]), ["kind", "pattern", "line"]);
    assert_eq!(
        line,
        json!({
            "allowed": false,
            "rule": {"kind": "disallow", "pattern": "/x", "line": 2},
            "group": ["foobot"],
            "crawl_delay": 2.0,
            "sitemaps": ["https://h/s1", "https://h/s2"],
        })
    );
}

#[test]
fn what_is_not_there_is_null() {
    let line = ask("match", &json!({"robots": "", "agent": "FooBot", "url": "https://h/x"}));
    assert_eq!(
        line,
        json!({"allowed": true, "rule": null, "group": null, "crawl_delay": null, "sitemaps": []})
    );
    let line =
        ask("match", &json!({"robots": "User-agent: *\nAllow: /", "agent": "FooBot", "url": "https://h/x"}));
    assert_eq!(line["group"], json!(["*"]));
    assert_eq!(line["rule"], json!({"kind": "allow", "pattern": "/", "line": 2}));
}

#[test]
fn the_agent_may_be_a_chain() {
    let robots = "User-agent: FooBot\nDisallow: /x\nUser-agent: *\nDisallow: /";
    for (agent, group) in [
        (json!("FooBot"), json!(["foobot"])),
        (json!(["FooBot-News", "FooBot"]), json!(["foobot"])),
        (json!(["FooBot-News"]), json!(["*"])),
        // Offline, tokens that exist though RFC 9309 has no such letters.
        (json!("MJ12bot"), json!(["*"])),
    ] {
        let line = ask("match", &json!({"robots": robots, "agent": agent, "url": "https://h/"}));
        assert_eq!(line["group"], group, "{agent}");
    }
}

#[test]
fn robots_may_be_base64_of_any_bytes() {
    // "User-agent: *\nDisallow: /\xff\n"
    let base64 = "VXNlci1hZ2VudDogKgpEaXNhbGxvdzogL/8K";
    let line = ask("match", &json!({"robots_base64": base64, "agent": "FooBot", "url": "https://h/%FF"}));
    assert_eq!(line["allowed"], json!(false));
    assert_eq!(line["rule"]["line"], json!(2));
}

#[test]
fn bad_lines_are_answered_in_their_place() {
    let good = json!({"robots": "User-agent: *\nDisallow: /x", "agent": "FooBot", "url": "https://h/x"});
    let mut input = Vec::new();
    let bad: &[&[u8]] = &[
        b"not json",
        b"",
        b"[\"\", null, \"FooBot\", \"https://h/\"]",
        b"{\"robots\": \"\", \"agent\": \"FooBot\"}",
        b"{\"robots\": \"\", \"agent\": \"Foo Bot\", \"url\": \"https://h/\"}",
        b"{\"robots\": \"\", \"agent\": [], \"url\": \"https://h/\"}",
        b"{\"robots\": \"\", \"agent\": 5, \"url\": \"https://h/\"}",
        b"{\"robots\": \"\", \"agent\": \"FooBot\", \"url\": \"ftp://h/\"}",
        b"{\"robots\": \"\", \"agent\": \"FooBot\", \"url\": \"nowhere\"}",
        b"{\"robots\": \"\", \"robots_base64\": \"\", \"agent\": \"FooBot\", \"url\": \"https://h/\"}",
        b"{\"robots_base64\": \"%%\", \"agent\": \"FooBot\", \"url\": \"https://h/\"}",
        b"{\"agent\": \"FooBot\", \"url\": \"https://h/\"}",
        b"{\"robots\": \"\xff\", \"agent\": \"FooBot\", \"url\": \"https://h/\"}",
        b"{\"robots\": \"\", \"agent\": \"FooBot\", \"url\": \"https://h/\"} {}",
    ];
    for line in bad {
        input.extend_from_slice(line);
        input.extend_from_slice(format!("\n{good}\n").as_bytes());
    }
    let ran = abide_with(&["match", "--batch"], input);
    assert_eq!(ran.status, 1);
    let lines = ran.lines();
    assert_eq!(lines.len(), 2 * bad.len());
    for (number, pair) in lines.chunks(2).enumerate() {
        assert_eq!(keys(&pair[0]), ["error"], "{number}");
        assert_eq!(pair[1]["allowed"], json!(false), "{number}");
        let place = format!("abide: standard input:{}: ", 2 * number + 1);
        let error = pair[0]["error"].as_str().unwrap();
        assert!(ran.err.lines().any(|line| line == format!("{place}{error}")), "{place}{error}");
    }
    assert_eq!(ran.err.lines().count(), bad.len(), "one line each: {}", ran.err);
}

#[test]
fn a_good_batch_exits_with_0_though_urls_are_disallowed() {
    let question = json!({"robots": "User-agent: *\nDisallow: /", "agent": "FooBot", "url": "https://h/x"});
    let ran = abide_with(&["match", "--batch"], format!("{question}\n{question}"));
    assert_eq!((ran.status, ran.err.as_str(), ran.lines().len()), (0, "", 2));
    assert_eq!(abide_with(&["match", "--batch"], "").status, 0);
}

#[test]
fn a_batch_may_be_a_file_and_have_windows_line_ends() {
    let question = json!({"robots": "", "agent": "FooBot", "url": "https://h/x"});
    let batch = file(format!("{question}\r\n{question}\r\n"));
    let path = batch.path().to_str().unwrap();
    assert_eq!(abide(&["match", "--batch", path]).lines().len(), 2);
    let bad = file("{");
    let path = bad.path().to_str().unwrap();
    let ran = abide(&["match", "--batch", path]);
    assert!(ran.err.starts_with(&format!("abide: {path}:1: ")), "{}", ran.err);
}

#[test]
fn an_unreadable_batch_is_wrong_usage() {
    for path in ["/nonexistent/file", "/"] {
        let ran = abide(&["match", "--batch", path]);
        assert_eq!((ran.status, ran.out.as_str()), (2, ""), "{path}");
        assert_eq!(ran.err.lines().count(), 1, "{}", ran.err);
        assert!(ran.err.contains(path), "{}", ran.err);
    }
}

#[test]
fn each_answer_comes_before_the_next_question() {
    let mut child = command(&["match", "--batch"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let mut stdin = child.stdin.take().unwrap();
    let mut answers = BufReader::new(child.stdout.take().unwrap()).lines();
    let question = json!({"robots": "", "agent": "FooBot", "url": "https://h/x"}).to_string();
    let (begin, end) = question.split_at(10);
    stdin.write_all(begin.as_bytes()).unwrap();
    for _ in 0..3 {
        // The end of one question and the beginning of the next, as a buffering writer may send them.
        stdin.write_all(format!("{end}\n{begin}").as_bytes()).unwrap();
        stdin.flush().unwrap();
        assert!(answers.next().unwrap().unwrap().starts_with("{\"allowed\":true"));
    }
    // The last one needs no line end.
    stdin.write_all(end.as_bytes()).unwrap();
    drop(stdin);
    assert_eq!(answers.count(), 1);
    child.wait().unwrap();
}

#[test]
fn a_closed_reader_ends_the_batch_quietly() {
    let question = json!({"robots": "", "agent": "FooBot", "url": "https://h/x"}).to_string();
    let input = file(format!("{question}\n").repeat(50_000));
    let mut child = command(&["match", "--batch", input.path().to_str().unwrap()])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let mut first = String::new();
    // Dropped afterwards: this is `| head -1`.
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(first.starts_with("{\"allowed\":true"), "{first}");
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]));
}

#[test]
fn many_bad_lines_do_not_block_on_unread_stderr() {
    let input = file("{\"url\": 5}\n".repeat(20_000));
    let mut child = command(&["match", "--batch", input.path().to_str().unwrap()])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let stdout = BufReader::new(child.stdout.take().unwrap());
    assert_eq!(stdout.lines().count(), 20_000);
    let output = child.wait_with_output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!(err.lines().count(), 51);
    assert!(err.ends_with(": 19950 more bad lines\n"), "{err}");
}

/// Its largest resident set while it ran, in KiB.
#[cfg(target_os = "linux")]
fn peak_kib(child: &std::process::Child) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).expect("Linux reports it");
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
#[cfg(target_os = "linux")]
fn a_long_batch_needs_no_more_memory_than_a_short_one() {
    let robots = "User-agent: *\nDisallow: /x\n".repeat(40);
    let (head, headers) =
        ("<meta name=robots content=noindex>".repeat(40), json!([["X-Robots-Tag", "noindex"]]));
    let question = json!({"robots": robots, "agent": "FooBot", "url": "https://h/x", "app": "a", "html": head, "headers": headers});
    for call in ["match", "directives", "tags"] {
        let mut child = command(&[call, "--batch"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the binary runs");
        let mut stdin = child.stdin.take().unwrap();
        let mut answers = BufReader::new(child.stdout.take().unwrap()).lines();
        let lines = format!("{question}\n").repeat(20);
        let mut peaks = Vec::new();
        for _ in 0..2 {
            for _ in 0..100 {
                // 20 questions, 50 KB, and their answers: what the pipes and buffers hold while nothing reads.
                stdin.write_all(lines.as_bytes()).unwrap();
                stdin.flush().unwrap();
                assert_eq!(answers.by_ref().take(20).filter(|answer| answer.is_ok()).count(), 20);
            }
            peaks.push(peak_kib(&child));
        }
        drop(stdin);
        child.wait().unwrap();
        assert!(peaks[1] < peaks[0] + 1024, "{call} grew with 5 MB of questions: {peaks:?} KiB");
    }
}

#[test]
fn a_line_that_is_too_long_is_an_error_and_is_passed_over() {
    let mut input = Vec::with_capacity(66 * 1024 * 1024);
    input.extend_from_slice(b"{\"robots\": \"");
    input.resize(65 * 1024 * 1024, b'x');
    input.extend_from_slice(b"\"}\n{\"robots\": \"\", \"agent\": \"a\", \"url\": \"https://h/\"}\n");
    let lines = abide_with(&["match", "--batch"], input).lines();
    assert_eq!(lines[0], json!({"error": "the line is longer than 67108864 bytes"}));
    assert_eq!(lines[1]["allowed"], json!(true));
    assert_eq!(lines.len(), 2);
}

#[test]
fn a_long_quotation_is_cut() {
    let line = ask("match", &json!({"robots": "", "agent": "FooBot", "url": "x".repeat(100_000)}));
    assert!(line["error"].as_str().unwrap().len() < 400, "{line}");
    let line = ask("match", &json!({"robots": "", "agent": {}, "url": {"é".repeat(100_000): 1}}));
    assert!(line["error"].as_str().unwrap().len() < 2000);
}

#[test]
fn tags_answer_with_every_field_in_order() {
    let line = ask("tags", &json!({"agent": "ExampleBot"}));
    assert_eq!(keys(&line), TAGS);
    assert_eq!(keys(&line["rules"]), RULES);
    for (name, value) in line["rules"].as_object().unwrap() {
        let expected =
            if name.starts_with("max") || name == "unavailable_after" { json!(null) } else { json!(false) };
        assert_eq!(value, &expected, "{name}");
    }
    assert_eq!((&line["unknown"], &line["metas"]), (&json!([]), &json!([])));
    assert_eq!((&line["head"], &line["truncated"]), (&json!("none"), &json!(false)));
}

#[test]
fn each_rule_has_its_key() {
    let flags = &RULES[..10];
    for flag in flags {
        let line = ask("tags", &json!({"agent": "ExampleBot", "headers": [["X-Robots-Tag", flag]]}));
        let stated: Vec<_> = line["rules"].as_object().unwrap().iter().filter(|(_, v)| **v == true).collect();
        assert_eq!(stated, [(&(*flag).to_owned(), &json!(true))], "{flag}");
    }
    let headers = json!([
        ["x-robots-tag", "max-snippet: -1, max-video-preview: 7, max-image-preview: standard"],
        ["X-ROBOTS-TAG", "unavailable_after: 25 Jun 2010 15:00:00 PST"],
        ["Robots-Tag", "*;foo;NoML, otherbot;bar"],
        ["Server", "noindex"],
    ]);
    let line = ask("tags", &json!({"agent": "ExampleBot", "headers": headers}));
    let rules = &line["rules"];
    assert_eq!(rules["max_snippet"], json!(-1));
    assert_eq!(rules["max_video_preview"], json!(7));
    assert_eq!(rules["max_image_preview"], json!("standard"));
    assert_eq!(rules["unavailable_after"], json!("2010-06-25T23:00:00Z"));
    assert_eq!(rules["noindex"], json!(false));
    assert_eq!(line["unknown"], json!(["foo", "noml"]));
}

#[test]
fn every_agent_of_a_list_counts_for_tags() {
    let headers = json!([["Robots-Tag", "ExampleBot;noindex, ExampleBot-News;nosnippet, OtherBot;noai"]]);
    let line = ask("tags", &json!({"agent": ["ExampleBot-News", "ExampleBot"], "headers": headers}));
    let rules = &line["rules"];
    assert_eq!([&rules["noindex"], &rules["nosnippet"], &rules["noai"]], [true, true, false]);
}

#[test]
fn html_is_text_or_base64_in_its_own_charset() {
    let html = "<meta name=robots content='noindex'><meta name=author content='&lt;é&gt;'><body>";
    let line = ask("tags", &json!({"agent": "ExampleBot", "html": html}));
    assert_eq!(
        line["metas"],
        json!([{"name": "robots", "content": "noindex"}, {"name": "author", "content": "<é>"}])
    );
    assert_eq!(line["head"], json!("ended"));
    // "<meta name=robots content=noindex><meta name=a content=\xe9>" in Latin-1.
    let base64 = "PG1ldGEgbmFtZT1yb2JvdHMgY29udGVudD1ub2luZGV4PjxtZXRhIG5hbWU9YSBjb250ZW50Pek+";
    let question = json!({"agent": "ExampleBot", "html_base64": base64, "content_type": "text/html; charset=iso-8859-1"});
    let line = ask("tags", &question);
    assert_eq!(line["rules"]["noindex"], json!(true));
    assert_eq!(line["metas"][1], json!({"name": "a", "content": "é"}));
    assert_eq!(line["head"], json!("eof"));
}

#[test]
fn the_content_type_decides_about_the_head() {
    let html = "<meta name=robots content=noindex>";
    for (content_type, headers, noindex) in [
        (json!(null), json!([]), true),
        (json!("text/html; charset=utf-8"), json!([]), true),
        (json!("application/xhtml+xml"), json!([]), true),
        (json!("text/plain"), json!([]), false),
        (json!(null), json!([["content-type", "text/plain"]]), false),
        (json!("text/html"), json!([["Content-Type", "text/plain"]]), true),
    ] {
        let question =
            json!({"agent": "ExampleBot", "html": html, "content_type": content_type, "headers": headers});
        let line = ask("tags", &question);
        assert_eq!(line["rules"]["noindex"], json!(noindex), "{question}");
        assert_eq!(line["head"] == json!("none"), !noindex, "{question}");
    }
}

#[test]
fn a_cut_is_reported() {
    let field = format!("*;noindex, {}ExampleBot;noai", "OtherBot;nosnippet, ".repeat(1000));
    let line = ask("tags", &json!({"agent": "ExampleBot", "headers": [["Robots-Tag", field]]}));
    assert_eq!(line["truncated"], json!(true));
    assert_eq!([&line["rules"]["noindex"], &line["rules"]["noai"]], [true, false]);
    let html = format!("<meta name=robots content=noindex><script>{}</script>", "x".repeat(600 * 1024));
    let line = ask("tags", &json!({"agent": "ExampleBot", "html": html}));
    assert_eq!((&line["head"], &line["truncated"]), (&json!("byte_limit"), &json!(true)));
    assert_eq!(line["rules"]["noindex"], json!(true));
}

#[test]
fn bad_questions_about_tags_are_errors() {
    for question in [
        json!({"headers": []}),
        json!({"agent": ""}),
        json!({"agent": "ExampleBot", "headers": [["Robots-Tag"]]}),
        json!({"agent": "ExampleBot", "headers": {"Robots-Tag": "*;noindex"}}),
        json!({"agent": "ExampleBot", "html": "", "html_base64": ""}),
        json!({"agent": "ExampleBot", "html_base64": "a"}),
    ] {
        assert_eq!(keys(&ask("tags", &question)), ["error"], "{question}");
    }
}

#[test]
fn base64_may_be_url_safe_unpadded_and_in_lines() {
    // "User-agent: *\nDisallow: /\xff\xfb?>\n", whose base64 has both letters in which the alphabets differ.
    let url = "https://h/%FF%FB?>";
    for base64 in [
        "VXNlci1hZ2VudDogKgpEaXNhbGxvdzogL//7Pz4K",
        "VXNlci1hZ2VudDogKgpEaXNhbGxvdzogL__7Pz4K",
        " VXNlci1hZ2VudDogKgpE\naXNhbGxvdzogL//7Pz4K\r\n",
        "VXNlci1hZ2VudDogKgpEaXNhbGxvdzogL__7Pz4KCg",
        "VXNlci1hZ2VudDogKgpEaXNhbGxvdzogL__7Pz4KCg==",
        "VXNlci1hZ2VudDogKgpEaXNhbGxvdzogL//7Pz4KCgo=",
    ] {
        let line = ask("match", &json!({"robots_base64": base64, "agent": "a", "url": url}));
        assert_eq!(line["rule"]["line"], json!(2), "{base64}: {line}");
    }
    let line =
        ask("tags", &json!({"agent": "a", "html_base64": "PG1ldGEgbmFtZT1yb2JvdHMgY29udGVudD1ub25lPg"}));
    assert_eq!(line["rules"]["noindex"], json!(true), "{line}");
    for (base64, said) in [
        ("L//7-_", "\"robots_base64\": expected base64, found '/' as character 2"),
        ("L/*7", "\"robots_base64\": expected base64, found '*' as character 3"),
        ("abcde", "\"robots_base64\": expected base64, found 5 characters, which is no valid length"),
        ("a=bc", "\"robots_base64\": expected base64, found '=' as character 2"),
        ("ab", "\"robots_base64\": expected base64, found 'b' at its end, which is cut off or damaged"),
        ("é", "\"robots_base64\": expected base64, found '\\xc3' as character 1"),
    ] {
        let line = ask("match", &json!({"robots_base64": base64, "agent": "a", "url": "/"}));
        assert_eq!(line, json!({"error": said}));
    }
}

#[test]
fn a_byte_order_mark_begins_no_line_but_the_first() {
    let good = json!({"robots": "", "agent": "a", "url": "/"}).to_string();
    let ran = abide_with(&["match", "--batch"], format!("\u{feff}{good}\n\u{feff}{good}\n"));
    let lines = ran.lines();
    assert_eq!((&lines[0]["allowed"], keys(&lines[1])), (&json!(true), vec!["error"]));
    let utf16: Vec<u8> = [0xfeff].into_iter().chain(good.encode_utf16()).flat_map(u16::to_le_bytes).collect();
    assert_eq!(
        abide_with(&["match", "--batch"], utf16).line(),
        json!({"error": "expected UTF-8, found UTF-16"})
    );
}

#[test]
fn what_may_be_absent_may_be_null() {
    let question =
        json!({"agent": "a", "headers": null, "html": null, "html_base64": null, "content_type": null});
    assert_eq!(keys(&ask("tags", &question)), TAGS);
    let question = json!({"robots": "", "robots_base64": null, "agent": "a", "url": "/", "app": null});
    assert_eq!(keys(&ask("match", &question)), MATCH);
    assert_eq!(ask("directives", &question)["app_directives"], json!(null));
}

#[test]
fn bad_lines_are_named_by_line_and_key_in_words_of_our_own() {
    for (call, question, said) in [
        ("match", r#"{"robots": "", "agent": "a"}"#, r#"expected "url", found no such key"#),
        ("match", r#"{"robots": 5, "agent": "a", "url": "/"}"#, r#""robots": expected a string, found 5"#),
        (
            "match",
            r#"{"robots": "", "agent": {}, "url": "/"}"#,
            r#""agent": expected a string or a list of strings, found an object"#,
        ),
        (
            "match",
            r#"{"robots": "", "agent": ["a", true], "url": "/"}"#,
            r#""agent"[1]: expected a string, found true"#,
        ),
        (
            "match",
            r#"{"robots": "", "agent": null, "url": "/"}"#,
            r#""agent": expected a string or a list of strings, found null"#,
        ),
        (
            "match",
            r#"{"robots": "", "agent": "a", "url": ["/"]}"#,
            r#""url": expected a string, found a list of 1"#,
        ),
        ("match", r#"{"url": "/", "robots": "", "agent": "a", "url": "/"}"#, r#""url" is given twice"#),
        (
            "match",
            r#"{"robots": "", "agent": "a", "url": "/""#,
            "expected a whole JSON object, found the end of the line at column 39",
        ),
        (
            "match",
            r#"{"robots": "", agent: "a", "url": "/"}"#,
            r#"expected JSON, found "agent: \"a\", " at column 16"#,
        ),
        (
            "match",
            r#"{"robots": "", "agent": "a", "url": "/"} {}"#,
            r#"expected JSON, found "{}" at column 42"#,
        ),
        (
            "match",
            r#"{'robots': '', 'agent': 'a', 'url': '/'}"#,
            r#"expected JSON, found "'robots': ''" at column 2"#,
        ),
        (
            "directives",
            r#"{"robots": "", "agent": "a", "url": "/", "app": 1}"#,
            r#""app": expected a string, found 1"#,
        ),
        (
            "tags",
            r#"{"agent": "a", "headers": {"x": "y"}}"#,
            r#""headers": expected a list of [name, value] pairs, found an object"#,
        ),
        (
            "tags",
            r#"{"agent": "a", "headers": [["x", "y"], ["x"]]}"#,
            r#""headers"[1]: expected a pair of strings, [name, value], found a list of 1"#,
        ),
        (
            "tags",
            r#"{"agent": "a", "headers": [["x", null]]}"#,
            r#""headers"[0]: expected a pair of strings, [name, value], found a list of 2"#,
        ),
        ("tags", r#"{"agent": "a", "html": false}"#, r#""html": expected a string, found false"#),
    ] {
        let ran = abide_with(&[call, "--batch"], format!("{question}\n"));
        assert_eq!(ran.line(), json!({"error": said}), "{question}");
        assert_eq!(ran.err, format!("abide: standard input:1: {said}\n"));
    }
    let deep = format!("{{\"agent\": {}1{}}}", "[".repeat(200), "]".repeat(200));
    let line = abide_with(&["match", "--batch"], deep).line();
    assert!(line["error"].as_str().unwrap().contains("nested too deeply"), "{line}");
    let line = abide_with(&["match", "--batch"], *b"{\"robots\": \"\xff\"}").line();
    assert_eq!(line, json!({"error": "expected UTF-8, found the byte 0xff at column 13"}));
}
