//! How the blocks of the pages are run. No block sees anything of this: each compiles by itself.

#![allow(clippy::unwrap_used, reason = "a page that fails is a test that fails")]

use abide_tests::{Reply, Seen, Server};
use reqwest::Url;

/// Runs what a page shows.
pub(crate) fn run<F: Future<Output = Result<(), Box<dyn std::error::Error>>>>(shown: impl FnOnce() -> F) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    runtime.block_on(shown()).unwrap();
}

/// What a program shows has run to its end.
pub(crate) fn succeeds(outcome: impl std::process::Termination) {
    assert_eq!(outcome.report(), std::process::ExitCode::SUCCESS);
}

/// Serves the site that the tutorial makes, runs one of its crawlers there, and checks what the site saw.
pub(crate) fn crawls<F: Future<Output = Result<(), Box<dyn std::error::Error>>>>(
    line: usize,
    crawl: impl FnOnce(Url) -> F,
) {
    let page = include_str!("../../docs/tutorial.md");
    let script = page.split("```sh\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let files: Vec<_> = script.lines().filter(|line| !line.starts_with("python3")).collect();
    let directory = tempfile::TempDir::new().unwrap();
    let mut shell = std::process::Command::new("sh");
    assert!(shell.arg("-ec").arg(files.join("\n")).current_dir(&directory).status().unwrap().success());
    let site = directory.path().join("site");
    let answer = move |seen: &Seen| {
        let path = if seen.path == "/" { "/index.html" } else { &seen.path };
        match std::fs::read(site.join(path.trim_start_matches('/'))) {
            Ok(body) if path.ends_with(".html") => Reply::html(body),
            Ok(body) => Reply::new(200, body),
            Err(_) => Reply::new(404, ""),
        }
    };
    let asked = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
        let server = Server::start(answer).await;
        crawl(format!("http://{}/", server.address()).parse().unwrap()).await.unwrap();
        server.asked()
    });
    let paths: Vec<_> = asked.iter().map(|what| what.rsplit_once('/').unwrap().1).collect();
    let has_links =
        page.lines().skip(line).take_while(|line| *line != "```").any(|line| line.contains("fn links"));
    let expected: &[&str] = if has_links { &["robots.txt", "", "bread.html"] } else { &["robots.txt", ""] };
    assert_eq!(paths, expected, "{asked:?}");
}
