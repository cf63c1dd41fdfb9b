//! `abide directives`: the tables of App-Directives, Content-Usage and Content-Signal, through the command.

use serde_json::{Value, json};

use crate::{abide, abide_with, file, keys};

const ANSWER: [&str; 3] = ["app_directives", "content_usage", "content_signal"];

fn ask(question: &Value) -> Value {
    abide_with(&["directives", "--batch"], format!("{question}\n")).line()
}

/// `lines`, separated by ` / `, behind `User-agent: *`.
fn about(lines: &str, path: &str, app: &str) -> Value {
    let robots = format!("User-agent: *\n{}", lines.replace(" / ", "\n"));
    let answer =
        ask(&json!({"robots": robots, "agent": "ExampleBot", "url": format!("https://h{path}"), "app": app}));
    assert_eq!(keys(&answer), ANSWER);
    answer
}

#[test]
fn app_directives_are_typed() {
    for (lines, path, app, expected) in [
        ("App-Directives: examplesearch;widgets=?0", "/", "examplesearch", json!({"widgets": false})),
        ("App-Directives: examplesearch;widgets=?0", "/", "other", json!(null)),
        ("App-Directives: a;x / App-Directives: /foo a;y", "/foo/1", "a", json!({"y": true})),
        ("App-Directives: a;x, a;x=?0", "/", "a", json!({"x": false})),
        ("App-Directives: a", "/", "a", json!({})),
        ("App-Directives: a;x,", "/", "a", json!(null)),
        ("Disallow: /* / App-Directives: a;x", "/", "a", json!({"x": true})),
        (
            "App-Directives: a;b=1;c=1.5;d=\"x\";e=tok;f=:YQ==:;g=@1735689600;h=%\"caf%c3%a9\"",
            "/",
            "a",
            json!({"b": 1, "c": 1.5, "d": "x", "e": "tok", "f": "YQ==", "g": 1735689600, "h": "café"}),
        ),
    ] {
        assert_eq!(about(lines, path, app)["app_directives"], expected, "{lines}");
    }
}

#[test]
fn content_usage_and_content_signal_have_their_own_words() {
    for (lines, usage, signal) in [
        ("Content-Usage: train-ai=n", json!({"train-ai": "disallow"}), json!({})),
        (
            "Content-Usage: /foo/ train-ai=y / Content-Usage: /foo/ search=n",
            json!({"search": "disallow", "train-ai": "allow"}),
            json!({}),
        ),
        ("Content-Usage: foo=n", json!({}), json!({})),
        (
            "Content-Signal: search=yes, ai-train=no, use=Reference",
            json!({}),
            json!({"search": "allow", "ai-train": "disallow", "use": "reference"}),
        ),
        ("Disallow: /foo / Content-Usage: train-ai=y", json!({}), json!({})),
    ] {
        let answer = about(lines, "/foo/1", "a");
        assert_eq!((&answer["content_usage"], &answer["content_signal"]), (&usage, &signal), "{lines}");
    }
}

#[test]
fn the_application_may_be_absent_and_the_agent_a_list() {
    let robots = "User-agent: b\nApp-Directives: a;x\nContent-Usage: search=y";
    let answer = ask(&json!({"robots": robots, "agent": ["a", "b"], "url": "https://h/"}));
    assert_eq!(
        answer,
        json!({"app_directives": null, "content_usage": {"search": "allow"}, "content_signal": {}})
    );
    // "User-agent: *\nApp-Directives: a;x"
    let base64 = "VXNlci1hZ2VudDogKgpBcHAtRGlyZWN0aXZlczogYTt4";
    let answer = ask(&json!({"robots_base64": base64, "agent": "b", "url": "https://h/", "app": "A"}));
    assert_eq!(answer["app_directives"], json!({"x": true}));
}

#[test]
fn bad_lines_are_answered_in_their_place() {
    let good = json!({"robots": "", "agent": "a", "url": "https://h/"});
    let ran = abide_with(
        &["directives", "--batch"],
        format!("nonsense\n{good}\n{{\"agent\": \"a\", \"url\": \"https://h/\"}}\n{good}\n"),
    );
    let lines = ran.lines();
    assert_eq!((ran.status, lines.len()), (1, 4));
    for (index, line) in lines.iter().enumerate() {
        assert_eq!(line.get("error").is_some(), index % 2 == 0, "{index}");
    }
}

#[test]
fn the_text_says_so_as_well() {
    let robots = file("User-agent: *\nApp-Directives: a;x=\"y\"\nContent-Usage: train-ai=n\n");
    let path = robots.path().to_str().unwrap();
    let args = ["directives", "--agent", "b", "--robots", path, "--app", "a", "/p"];
    let ran = abide(&args);
    let shown = "/p\n  App-Directives: x: \"y\"\n  Content-Usage: train-ai: \"disallow\"\n  Content-Signal: nothing stated\n";
    assert_eq!((ran.status, ran.out.as_str()), (0, shown));
    let line = abide(&[&args[..], &["--json"]].concat()).line();
    assert_eq!((keys(&line)[0], &keys(&line)[1..]), ("url", &ANSWER[..]));
}
