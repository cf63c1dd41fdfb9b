//! `abide lint`: remarks with their places.

use serde_json::json;

use crate::{abide, abide_with, file, keys};

const BAD: &[u8] = b"User-agent: *\r\nDissallow: /a\rDisallow /b\nDisallow: /\x1b[31m\xff\n";

#[test]
fn remarks_are_shown_as_compilers_show_them() {
    let robots = file(BAD);
    let path = robots.path().to_str().unwrap();
    let ran = abide(&["lint", path]);
    assert_eq!((ran.status, ran.err.as_str()), (1, ""));
    let first = format!(
        "\
warning[misspelt-key]: \"Dissallow\" is read as \"Disallow\"
 --> {path}:2:1
  |
2 | Dissallow: /a
  | ^^^^^^^^^

"
    );
    assert!(ran.out.starts_with(&first), "{}", ran.out);
    assert!(ran.out.ends_with(&format!("\n{path}: 3 remarks\n")), "{}", ran.out);
    assert!(!ran.out.contains('\x1b'), "what a file contains cannot command the terminal");
}

#[test]
fn remarks_as_json_have_line_and_columns() {
    let robots = file(BAD);
    let path = robots.path().to_str().unwrap();
    let ran = abide(&["lint", "--json", path]);
    let lines = ran.lines();
    assert_eq!((ran.status, lines.len()), (1, 3));
    assert_eq!(keys(&lines[0]), ["file", "line", "column", "column_end", "kind", "message"]);
    assert_eq!(
        lines[0],
        json!({
            "file": path, "line": 2, "column": 1, "column_end": 10, "kind": "misspelt-key",
            "message": "\"Dissallow\" is read as \"Disallow\"",
        })
    );
    assert_eq!((&lines[1]["line"], &lines[1]["kind"]), (&json!(3), &json!("missing-colon")));
    assert_eq!((&lines[2]["line"], &lines[2]["kind"]), (&json!(4), &json!("invalid-octets")));
}

#[test]
fn a_good_file_has_no_remarks() {
    let ran = abide_with(&["lint", "-"], "User-agent: *\nDisallow: /a\n");
    assert_eq!((ran.status, ran.out.as_str()), (0, "standard input: no remarks\n"));
    let ran = abide_with(&["lint", "--json", "-"], "");
    assert_eq!((ran.status, ran.out.as_str()), (0, ""));
    assert_eq!(abide(&["lint", "/nonexistent"]).status, 2);
}

#[test]
fn a_file_full_of_remarks_is_cut_for_people_only() {
    let robots = file("nonsense\n".repeat(1000));
    let path = robots.path().to_str().unwrap();
    let ran = abide(&["lint", path]);
    assert!(ran.out.ends_with(": 1000 remarks, of which 200 are shown\n"), "{}", ran.out.len());
    assert_eq!(ran.out.matches("warning[").count(), 200);
    assert_eq!(abide(&["lint", "--json", path]).lines().len(), 1000);
}
