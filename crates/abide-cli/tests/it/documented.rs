//! Every command of the documentation is run as it stands there, by a shell, and what it is said to print is
//! compared.
//!
//! In a block of kind `console`, lines that begin with `$ ` are typed, and those that follow are what is
//! printed then; a line `...` stands for any lines. In a block of kind `sh` every line is typed. Times and
//! addresses may differ. `ABIDE_BLESS=1 cargo test -p abide-cli documented` writes what is printed now into
//! the pages.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use abide_examples::Web;

use crate::is_rfc3339;

/// The pages, from the top of the repository.
fn pages() -> Vec<PathBuf> {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut pages = vec![top.join("README.md"), top.join("crates/abide-cli/README.md")];
    let docs = std::fs::read_dir(top.join("docs")).unwrap().map(|entry| entry.unwrap().path());
    pages.extend(docs.filter(|path| path.extension().is_some_and(|name| name == "md")));
    pages.sort();
    pages
}

/// What is typed, and what is said to be printed then.
#[derive(Debug, PartialEq, Eq)]
struct Typed {
    command: String,
    /// `None` in a block that shows no output.
    shown: Option<Vec<String>>,
}

/// The blocks that shall be run, each with the number of its first line.
fn blocks(page: &str) -> Vec<(usize, Vec<Typed>)> {
    let mut blocks = Vec::new();
    let mut lines = page.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        let kind = line.strip_prefix("```").unwrap_or_default();
        if kind.is_empty() {
            continue;
        }
        let body: Vec<&str> =
            lines.by_ref().map(|(_, line)| line).take_while(|line| *line != "```").collect();
        match kind {
            "console" => blocks.push((number + 2, console(&body))),
            "sh" => blocks.push((number + 2, script(&body))),
            _ => {}
        }
    }
    blocks
}

fn console(body: &[&str]) -> Vec<Typed> {
    let mut typed: Vec<Typed> = Vec::new();
    for line in body {
        match (line.strip_prefix("$ "), line.strip_prefix("> "), typed.last_mut()) {
            (Some(command), ..) => {
                typed.push(Typed { command: command.to_owned(), shown: Some(Vec::new()) });
            }
            // What the shell asks for until a command is whole.
            (None, Some(more), Some(last)) => {
                last.command.push('\n');
                last.command.push_str(more);
            }
            (None, _, Some(last)) => last.shown.as_mut().unwrap().push((*line).to_owned()),
            (None, _, None) => panic!("the block begins with what is printed: {line}"),
        }
    }
    typed
}

fn script(body: &[&str]) -> Vec<Typed> {
    let is_command = |line: &&&str| !line.is_empty() && !line.starts_with('#');
    body.iter().filter(is_command).map(|line| Typed { command: (*line).to_owned(), shown: None }).collect()
}

/// What is run of a block: all of a `console` block with a call of ours, since one prepares the other, and
/// our calls of a script. What needs a Redis is left to those tests that start one.
fn ours(typed: Vec<Typed>) -> Vec<Typed> {
    let is_call = |typed: &Typed| typed.command.starts_with("abide ") || typed.command.contains("| abide ");
    if typed.iter().any(|typed| typed.command.contains("redis")) || !typed.iter().any(is_call) {
        return Vec::new();
    }
    let is_script = typed.iter().all(|typed| typed.shown.is_none());
    typed.into_iter().filter(|typed| !is_script || is_call(typed)).collect()
}

/// Runs the commands of one block in one shell; for each what it printed and its exit status.
fn run(typed: &[Typed], wrapper: &str, directory: &Path) -> Vec<(Vec<String>, i32)> {
    let mut script = format!("{wrapper}\nexec 2>&1\n");
    for Typed { command, .. } in typed {
        script.push_str(&format!(
            "{command}\nabide_status=$?; printf '\\n{MARK}%s\\n' $abide_status; (exit $abide_status)\n"
        ));
    }
    let binary = Path::new(env!("CARGO_BIN_EXE_abide")).parent().unwrap();
    let path = format!("{}:{}", binary.display(), std::env::var("PATH").unwrap_or_default());
    let mut command = Command::new("sh");
    command.arg("-c").arg(&script).current_dir(directory).env("PATH", path).stdin(Stdio::null());
    command.env_remove("NO_COLOR").env_remove("CLICOLOR_FORCE").env("COLUMNS", "100");
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let mut results = Vec::new();
    let mut printed: Vec<String> = Vec::new();
    for line in text.lines() {
        match line.strip_prefix(MARK) {
            Some(status) => {
                // The mark begins on a line of its own.
                if printed.last().is_some_and(String::is_empty) {
                    printed.pop();
                }
                results.push((std::mem::take(&mut printed), status.parse().unwrap()));
            }
            None => printed.push(line.to_owned()),
        }
    }
    results
}

/// Without what differs from run to run: times, ports, and the spaces at line ends.
fn normal(line: &str) -> String {
    let mut out = String::new();
    let mut rest = line;
    while let Some(start) = rest.find(|letter: char| letter.is_ascii_digit()) {
        let (before, after) = rest.split_at(start);
        let len = after
            .find(|letter: char| !letter.is_ascii_digit() && !".:".contains(letter))
            .unwrap_or(after.len());
        let (number, behind) = after.split_at(len);
        let is_time =
            UNITS.iter().any(|unit| behind.starts_with(unit)) || KEYS.iter().any(|key| before.ends_with(key));
        out.push_str(before);
        out.push_str(if is_time { "N" } else { number });
        rest = behind;
    }
    out.push_str(rest);
    dates(out.trim_end())
}

/// `Sat, 21 Nov 2026 00:31:50 GMT` and `2026-11-21T00:31:50Z` are some time.
fn dates(line: &str) -> String {
    let mut out = line.to_owned();
    while let Some(at) = out.as_bytes().windows(20).position(is_rfc3339) {
        out.replace_range(at..at + 20, "TIME");
    }
    let mut words: Vec<&str> = out.split(' ').collect();
    while let Some(end) = words.iter().position(|word| word.starts_with("GMT")) {
        words.splice(end.saturating_sub(5)..=end, ["TIME"]);
    }
    words.join(" ")
}

/// Without the line of a host that had to wait once: on a slow machine its time has come meanwhile.
fn with_sure_lines(mut lines: Vec<String>) -> Vec<String> {
    lines.retain(|line| normal(line) != "  waited N s for permits");
    lines
}

/// Whether `printed` is what is shown, where `...` is any lines.
fn is_shown(shown: &[String], printed: &[String]) -> bool {
    match shown.split_first() {
        None => printed.is_empty(),
        Some((line, rest)) if line == "..." => {
            (0..=printed.len()).any(|skip| is_shown(rest, &printed[skip..]))
        }
        Some((line, rest)) => printed
            .split_first()
            .is_some_and(|(first, others)| normal(line) == normal(first) && is_shown(rest, others)),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_command_of_the_documentation_does_what_it_says() {
    let is_blessed = std::env::var_os("ABIDE_BLESS").is_some();
    let mut count = 0;
    for path in pages() {
        let page = std::fs::read_to_string(&path).unwrap();
        // A new web for each page: some of its sites are busy at first.
        let web = Web::start().await;
        let directory = tempfile::tempdir().unwrap();
        let (mut blessed, mut cursor) = (page.clone(), 0);
        for (line, typed) in blocks(&page) {
            let typed = ours(typed);
            // What the example `web` prints to be pasted.
            let (wrapper, place) = (web.shell_function(), directory.path().to_owned());
            let (typed, results) = crate::blocking(move || {
                let results = run(&typed, &wrapper, &place);
                (typed, results)
            })
            .await;
            assert_eq!(
                typed.len(),
                results.len(),
                "{}:{line}: the shell went through the block",
                path.display()
            );
            for (Typed { command, shown }, (printed, status)) in typed.into_iter().zip(results) {
                count += usize::from(command.contains("abide "));
                let place = format!("{}:{line}: {command}", path.display());
                assert!(
                    (0..=1).contains(&status) || shown.is_some(),
                    "{place}: exit status {status}: {printed:?}"
                );
                let Some(shown) = shown else { continue };
                if is_blessed && !shown.contains(&"...".to_owned()) {
                    let block =
                        |lines: &[String]| lines.iter().map(|line| format!("{line}\n")).collect::<String>();
                    let typed = format!("$ {}\n", command.replace('\n', "\n> "));
                    let (old, new) = (typed.clone() + &block(&shown), typed + &block(&printed));
                    let at = cursor + blessed[cursor..].find(&old).unwrap();
                    blessed.replace_range(at..at + old.len(), &new);
                    cursor = at + new.len();
                } else {
                    let (shown, printed) = (with_sure_lines(shown), with_sure_lines(printed));
                    assert!(is_shown(&shown, &printed), "{place} prints:\n{}", printed.join("\n"));
                }
            }
        }
        if blessed != page {
            std::fs::write(&path, blessed).unwrap();
        }
    }
    assert!(count > 5, "the pages show {count} commands");
}

#[test]
fn what_differs_from_run_to_run_is_no_difference() {
    for (one, other) in [
        ("waited 6.0 s for permits", "waited 11.2 s for permits"),
        ("\"waited_ms\":12,\"bytes\":80", "\"waited_ms\":1034,\"bytes\":80"),
        (
            "since Sat, 21 Nov 2026 00:31:50 GMT: 500; again from Sat, 21 Nov 2026 00:32:50 GMT on",
            "since Sun, 1 Feb 2027 10:31:50 GMT: 500; again from Sun, 1 Feb 2027 11:32:50 GMT on",
        ),
        ("\"retry_at\":\"2026-11-21T00:31:50Z\"", "\"retry_at\":\"2027-01-01T10:00:00Z\""),
    ] {
        assert_eq!(normal(one), normal(other));
    }
    assert_ne!(normal("4 fetched"), normal("5 fetched"));
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    assert!(is_shown(&lines("a\n...\nd"), &lines("a\nb\nc\nd")) && !is_shown(&lines("a\n..."), &lines("b")));
}

const MARK: &str = "@@abide-documented@@ ";
/// What stands behind a number that is a time, and before one.
const UNITS: [&str; 4] = [" s", " ms", " min", " h "];
const KEYS: [&str; 2] = ["_ms\":", "_s\":"];
