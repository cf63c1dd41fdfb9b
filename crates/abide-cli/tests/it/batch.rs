//! JSON Lines: one answer per question, in order, as they come.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};

use serde_json::{Value, json};

use crate::{abide_with, command, file};

/// A question, or a line that is none, and what its answer has.
#[derive(serde::Deserialize)]
struct Case {
    about: String,
    call: String,
    line: String,
    answer: String,
}

#[test]
fn each_question_has_its_answer() {
    let all: HashMap<String, Vec<Case>> = toml::from_str(include_str!("../vectors/batch.toml")).unwrap();
    for call in ["match", "directives", "tags"] {
        let cases: Vec<&Case> = all["case"].iter().filter(|case| case.call == call).collect();
        let lines: String = cases.iter().map(|case| format!("{}\n", case.line)).collect();
        let ran = abide_with(format!("{call} --batch"), lines);
        let (found, mut said) = (ran.lines(), String::new());
        assert_eq!(found.len(), cases.len());
        for ((number, Case { about, line, answer, .. }), found) in (1..).zip(cases).zip(found) {
            let expected = answer.parse::<Value>().unwrap();
            for (place, expected) in expected.as_object().unwrap() {
                assert_eq!(found.pointer(place), Some(expected), "{about}: {place} of {found} to {line}");
            }
            if let Some(error) = expected["/error"].as_str() {
                said += &format!("abide: standard input:{number}: {error}\n");
            }
        }
        assert_eq!((ran.status, ran.err), ((!said.is_empty()).into(), said), "{call}");
    }
}

#[test]
fn each_answer_comes_before_the_next_question() {
    let mut child = command("match --batch").spawn().unwrap();
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
fn many_bad_lines_do_not_block_on_unread_stderr() {
    let input = file("{\"url\": 5}\n".repeat(20_000));
    let mut child = command(format!("match --batch {input}")).spawn().unwrap();
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
        let mut child = command(format!("{call} --batch")).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let mut answers = BufReader::new(child.stdout.take().unwrap()).lines();
        let lines = format!("{question}\n").repeat(20);
        let mut peaks = Vec::new();
        for _ in 0..2 {
            for _ in 0..40 {
                // 20 questions, 50 KB, and their answers: what the pipes and buffers hold while nothing
                // reads.
                stdin.write_all(lines.as_bytes()).unwrap();
                stdin.flush().unwrap();
                assert_eq!(answers.by_ref().take(20).filter(|answer| answer.is_ok()).count(), 20);
            }
            peaks.push(peak_kib(&child));
        }
        drop(stdin);
        child.wait().unwrap();
        assert!(peaks[1] < peaks[0] + 1024, "{call} grew with 2 MB of questions: {peaks:?} KiB");
    }
}

#[test]
fn a_line_that_is_too_long_is_an_error_and_is_passed_over() {
    let mut input = Vec::with_capacity(66 * 1024 * 1024);
    input.extend_from_slice(b"{\"robots\": \"");
    input.resize(65 * 1024 * 1024, b'x');
    input.extend_from_slice(b"\"}\n{\"robots\": \"\", \"agent\": \"a\", \"url\": \"https://h/\"}\n");
    let lines = abide_with("match --batch", input).lines();
    assert_eq!(lines[0], json!({"error": "the line is longer than 67108864 bytes"}));
    assert_eq!(lines[1]["allowed"], json!(true));
    assert_eq!(lines.len(), 2);
}

#[test]
fn lines_that_are_not_utf_8_are_named() {
    let good = r#"{"robots": "", "agent": "a", "url": "/"}"#;
    let utf16: Vec<u8> = [0xfeff].into_iter().chain(good.encode_utf16()).flat_map(u16::to_le_bytes).collect();
    assert_eq!(
        abide_with("match --batch", utf16).line(),
        json!({"error": "expected UTF-8: invalid utf-8 sequence of 1 bytes from index 0"})
    );
    let line = abide_with("match --batch", *b"{\"robots\": \"\xff\"}").line();
    assert_eq!(line, json!({"error": "expected UTF-8: invalid utf-8 sequence of 1 bytes from index 12"}));
    let listed = abide_with("match --agent a --robots /dev/null -", *b"http://h/\r\nhttp://h/caf\xe9\n");
    assert_eq!((listed.status, listed.out.lines().count()), (1, 1));
    assert!(listed.err.contains("standard input:2: expected UTF-8"), "{}", listed.err);
}
