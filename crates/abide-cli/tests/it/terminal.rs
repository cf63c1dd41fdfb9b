//! What a terminal shows: colours, a progress bar, lines that fit.

use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStringExt;
use std::process::Stdio;

use abide_tests::{Reply, Server};
use futures_util::future::join_all;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::{file, to};

/// Everything that a call writes to a terminal of so many columns, and its exit status.
fn shown(args: impl AsRef<str>, columns: u16, variables: &[(&str, &str)]) -> (String, i32) {
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&ours).unwrap();
    unlockpt(&ours).unwrap();
    let name = std::ffi::OsString::from_vec(ptsname(&ours, Vec::new()).unwrap().into_bytes());
    let theirs = File::options().read(true).write(true).open(name).unwrap();
    tcsetwinsize(&theirs, Winsize { ws_row: 40, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
    let mut command = crate::command(args);
    // What else says something of colours or widths is this test's to set.
    command.env_remove("COLUMNS").env_remove("CI");
    command.env("TERM", "xterm-256color").envs(variables.iter().copied());
    command.stdin(Stdio::null()).stdout(theirs.try_clone().unwrap()).stderr(theirs);
    let mut child = command.spawn().unwrap();
    // It holds the other side of the terminal.
    drop(command);
    let mut written = Vec::new();
    let mut ours = File::from(ours);
    let mut chunk = [0; 4096];
    // Linux ends it with an error when no writer is left.
    while let Ok(len @ 1..) = ours.read(&mut chunk) {
        written.extend_from_slice(&chunk[..len]);
    }
    (String::from_utf8(written).unwrap(), child.wait().unwrap().code().unwrap())
}

/// Each line as it stands on the screen, without what moves the cursor or colours it.
fn lines(text: &str) -> Vec<String> {
    let plain = anstream::adapter::strip_str(text).to_string();
    plain.split(['\r', '\n']).filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

#[test]
fn a_terminal_gets_colours_unless_it_wants_none() {
    let robots = file("User-agent: *\nDisallow: /private/\nNonsense\n");
    for args in [
        &format!("match --agent a --robots {robots} /private/ /"),
        &format!("lint {robots}"),
        "tags --agent a --header 'Robots-Tag: *;noindex'",
        "check http://127.0.0.1:9/",
        "explain http://127.0.0.1:9/",
        "fetch http://127.0.0.1:9/",
        "crawl http://127.0.0.1:9/",
        "--help",
    ] {
        assert!(shown(args, 80, &[]).0.contains("\x1b["), "{args}");
        for variable in [("NO_COLOR", "1"), ("TERM", "dumb")] {
            let text = shown(args, 80, &[variable]).0;
            assert!(!text.contains("\x1b[1m") && !text.contains("\x1b[3"), "{args:?} {variable:?}: {text:?}");
        }
    }
    for option in ["--color never", "--json"] {
        let args = format!("match {option} --agent a --robots {robots} /private/ /");
        assert!(!shown(args, 80, &[]).0.contains('\x1b'), "{option}");
    }
}

#[tokio::test]
async fn a_crawl_shows_its_progress_in_lines_that_fit() {
    let server = Server::without_rules(|seen| match seen.path.as_str() {
        "/" => Reply::html(
            (0..9).map(|page| format!("<a href=/a-page-with-a-long-name-{page}>p</a>")).collect::<String>(),
        ),
        _ => Reply::html("end").after(std::time::Duration::from_millis(300)),
    })
    .await;
    join_all([20, 80].map(async |columns| {
        let args = to(&server, "crawl a.example/");
        let (text, status) = crate::blocking(move || shown(&args, columns, &[])).await;
        assert_eq!(status, 0);
        let drawn = text.split("\x1b[").filter(|drawn| drawn.contains(" pages"));
        let drawn = drawn.map(|drawn| drawn.trim_start_matches(|letter: char| letter.is_ascii_digit()));
        // Without what says where the cursor goes.
        let drawn = drawn.map(|drawn| drawn.trim_end_matches('\r'));
        let widths: Vec<usize> = drawn.map(|drawn| drawn.chars().count() - 1).collect();
        assert_eq!(widths.iter().max(), Some(&columns.into()), "{text:?}");
        assert!(text.contains("0/1 pages") && text.contains("/10 pages"), "of what is known: {text:?}");
        let (_, report) = text.rsplit_once("\x1b[2K").unwrap();
        assert!(
            report.contains("10 URLs: 10 ok") && !report.contains('░'),
            "the bar is gone by then: {report:?}"
        );
    }))
    .await;
}

#[test]
fn help_fits_a_narrow_terminal() {
    for call in ["match", "tags", "directives", "check", "fetch", "crawl", "explain", "lint"] {
        let text = shown(format!("{call} -h"), 48, &[]).0;
        let widest = lines(&text).into_iter().max_by_key(|line| line.chars().count()).unwrap();
        assert!(widest.chars().count() <= 48, "{call}: {widest}");
    }
}

#[test]
fn excerpts_fit_the_terminal() {
    let long =
        format!("User-agent: *\nDissallow: /{}\n{} Disallow\n", "abcdefghi/".repeat(50), "word ".repeat(80));
    let robots = file(long);
    for columns in [60, 120] {
        let (text, status) = shown(format!("lint {robots}"), columns, &[]);
        let lines = lines(&text);
        let source: Vec<&String> = lines.iter().filter(|line| line.contains(" | ")).collect();
        let widest = source.iter().max_by_key(|line| line.chars().count()).unwrap();
        assert!(widest.chars().count() <= usize::from(columns), "{columns}: {widest}");
        assert!(widest.chars().count() > usize::from(columns) - 20, "{columns}: {widest}");
        assert_eq!(status, 1, "{text}");
    }
}
