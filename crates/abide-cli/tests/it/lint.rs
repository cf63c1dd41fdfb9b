//! `abide lint`: remarks with their places.

use serde_json::json;

use crate::{abide, abide_with, file, keys};

const BAD: &[u8] = b"User-agent: *\r\nDissallow: /a\rDisallow /b\nDisallow: /\x1b[31m\xff\n";

#[test]
fn remarks_are_shown_as_compilers_show_them() {
    let robots = file(BAD);
    let ran = abide(&["lint", robots.path()]);
    assert_eq!((ran.status, ran.err.as_str()), (1, ""));
    let first = format!(
        "\
warning[misspelt-key]: \"Dissallow\" is read as \"Disallow\"
 --> {robots}:2:1
  |
2 | Dissallow: /a
  | ^^^^^^^^^ write Disallow

"
    );
    assert!(ran.out.starts_with(&first), "{}", ran.out);
    assert!(ran.out.contains(&format!("\n{robots}: 3 warnings")), "{}", ran.out);
    assert!(!ran.out.contains('\x1b'), "what a file contains cannot command the terminal");
}

#[test]
fn remarks_as_json_have_line_and_columns() {
    let robots = file(BAD);
    let ran = abide(&["lint", "--json", robots.path()]);
    let lines = ran.lines();
    assert_eq!((ran.status, lines.len()), (1, 3));
    assert_eq!(keys(&lines[0]), "file line column column_end kind message severity help");
    assert_eq!(
        lines[0],
        json!({
            "file": robots.path(), "line": 2, "column": 1, "column_end": 10, "kind": "misspelt-key",
            "message": "\"Dissallow\" is read as \"Disallow\"", "severity": "warning", "help": "write Disallow",
        })
    );
    assert_eq!((&lines[1]["line"], &lines[1]["kind"]), (&json!(3), &json!("missing-colon")));
    assert_eq!((&lines[2]["line"], &lines[2]["kind"]), (&json!(4), &json!("invalid-bytes")));
}

#[test]
fn a_good_file_has_no_remarks() {
    let ran = abide_with("lint -", "User-agent: *\nDisallow: /a\n");
    assert_eq!((ran.status, ran.out.as_str()), (0, "standard input: no remarks\n"));
    let ran = abide_with("lint --json -", "");
    assert_eq!((ran.status, ran.out.as_str()), (0, ""));
    assert_eq!(abide("lint /nonexistent").status, 2);
}

#[test]
fn a_file_full_of_remarks_is_cut_for_people_only() {
    let robots = file("nonsense\n".repeat(1000));
    let ran = abide(&["lint", robots.path()]);
    assert!(ran.out.contains(": 1000 errors, of which 200 are shown"), "{}", ran.out.len());
    assert_eq!(ran.out.matches("error[").count(), 200);
    assert_eq!(abide(&["lint", "--json", robots.path()]).lines().len(), 1000);
}

#[test]
fn every_mistake_has_a_severity_a_code_and_a_way_out() {
    for (line, code, severity, help) in [
        ("Disallow: /(a|b)/", "regex-in-path", "warning", "write one rule for each: /a/, /b/"),
        ("Disallow: /x.*", "regex-in-path", "warning", "write /x*"),
        ("Disallow: /[0-9]+", "regex-in-path", "warning", "write * for any characters"),
        ("Disallow: /a b", "raw-space", "warning", "write %20"),
        ("Disallow: /a /b", "raw-space", "warning", "write one rule per line"),
        ("Disallow: /a,/b", "comma-in-path", "warning", "write one rule per line"),
        ("Disallow: /50%off", "bad-percent-escape", "warning", "write %25 for a percent sign"),
        ("Disalow2: /x", "unknown-record", "warning", "did you mean Disallow?"),
        ("Disallow: private/", "never-matches", "error", "did you mean /private/?"),
        ("Sitemap: https://h/a https://h/b", "two-sitemaps", "error", "write one Sitemap line for each"),
    ] {
        let ran = crate::abide_with("lint --format json -", format!("User-agent: *\n{line}\n"));
        let lines = ran.lines();
        let found =
            lines.iter().find(|found| found["kind"] == code).unwrap_or_else(|| panic!("{line}: {}", ran.out));
        assert_eq!(
            (found["severity"].as_str(), found["help"].as_str()),
            (Some(severity), Some(help)),
            "{line}"
        );
        assert_eq!(found["line"], 2, "{line}");
    }
    for (text, code, said) in [
        ("User-agent: *\nNoindex: /x\n", "non-standard-record", "Google stopped in 2019"),
        (
            "User-agent: a\nDisallow: /\nUser-agent: b\nAllow: /\nUser-agent: A\nAllow: /x\n",
            "repeated-group",
            "on line 1 already",
        ),
    ] {
        let ran = crate::abide_with("lint -", text);
        assert_eq!(ran.status, 0, "notes are no faults: {}", ran.out);
        assert!(ran.out.contains(&format!("note[{code}]")) && ran.out.contains(said), "{}", ran.out);
    }
    let dropped = "User-agent: *\nContent-Usage: train-ai=n, ???\nAllow: /\n";
    let ran = crate::abide_with("lint --json -", dropped);
    assert_eq!(ran.lines()[0]["kind"], "dropped-preference", "{}", ran.out);
}

#[test]
fn codes_are_explained() {
    let ran = abide("lint --explain regex-in-path");
    assert!(ran.status == 0 && ran.out.contains("not regular expressions"), "{}", ran.out);
    let ran = abide("lint --explain regex-in-pth");
    assert!(ran.status == 2 && ran.err.contains("did you mean regex-in-path?"), "{}", ran.err);
}

#[test]
fn tags_suggest_the_rule_and_do_not_apply_it() {
    let page = file(
        "<head><meta name=robots content=nofolow></head><body><meta name=robots content=noindex></body>",
    );
    let ran = abide(&["tags", "--agent", "a", "-H", "X-Robots-Tag: noindx", page.path()]);
    assert!(ran.out.starts_with("no restrictions"), "{}", ran.out);
    for said in [
        "unknown: \"noindx\"; did you mean noindex?",
        "unknown: nofolow; did you mean nofollow?",
        "after the head",
    ] {
        assert!(ran.out.contains(said), "{said}: {}", ran.out);
    }
    let ran = abide("tags --agent a");
    assert!(ran.status == 2 && ran.err.contains("found neither"), "{}", ran.err);
}
