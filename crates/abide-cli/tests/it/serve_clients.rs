//! `serve` and its clients in `examples/clients`: real programs in several languages crawl one host.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use abide_tests::{Reply, Seen, Server, Step, delays};
use serde_json::json;

use crate::serve::{RULES, Serving, kill, site, url};

/// Between two requests to the host.
const DELAY: Duration = Duration::from_millis(150);

/// A language, and the program that crawls with its client.
struct Language {
    name: &'static str,
    /// Where it is required.
    is_required: bool,
    command: Option<Command>,
}

fn clients() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/clients")
}

fn drivers() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients")
}

/// The Python with Scrapy and httpx that `.ci/run` sets up, or that of the system.
fn python() -> String {
    std::env::var("ABIDE_CLIENTS_PYTHON").unwrap_or_else(|_| "python3".to_owned())
}

fn runs(program: &str, args: &[&str]) -> bool {
    let ran = Command::new(program).args(args).stdin(Stdio::null()).output();
    ran.is_ok_and(|ran| ran.status.success())
}

/// Whether CI has installed what the clients need, so that none may be left out.
fn are_required() -> bool {
    std::env::var_os("ABIDE_REQUIRE_CLIENTS").is_some_and(|value| !value.is_empty())
}

/// Said where the test harness does not swallow it.
fn skip(what: &str) {
    assert!(!are_required(), "{what} is required here");
    let line = format!("\n*** {what} is not installed: its client is NOT TESTED ***\n\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
}

fn languages(directory: &Path) -> Vec<Language> {
    let python_with = |module: &str, script: &str, client: &str| {
        runs(&python(), &["-c", &format!("import {module}")]).then(|| {
            let mut command = Command::new(python());
            command.arg(drivers().join(script)).env("PYTHONPATH", clients().join(client));
            command.env("PYTHONDONTWRITEBYTECODE", "1");
            command
        })
    };
    let node = runs("node", &["--version"]).then(|| {
        let mut command = Command::new("node");
        command.arg(drivers().join("crawl.mjs"));
        command
    });
    let shell = runs("curl", &["--version"]).then(|| {
        let mut command = Command::new("sh");
        command.arg(drivers().join("crawl.sh")).env("CLIENTS", clients());
        command
    });
    // Built beforehand: that takes longer than the crawl.
    let program = directory.join("crawl-go");
    let go = runs("go", &["version"]).then(|| {
        let mut build = Command::new("go");
        build.args(["build", "-o"]).arg(&program).arg(".").current_dir(drivers().join("go"));
        let built = build.env("GOFLAGS", "-mod=mod").env("GOPROXY", "off").output().expect("go runs");
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        Command::new(&program)
    });
    let of = |name, is_required, command| Language { name, is_required, command };
    vec![
        of("scrapy", true, python_with("scrapy", "spider.py", "scrapy")),
        of("urllib", true, python_with("urllib.request", "crawl_urllib.py", "python")),
        of("httpx", true, python_with("httpx", "crawl_httpx.py", "python")),
        of("node", true, node),
        of("shell", true, shell),
        of("go", false, go),
    ]
}

/// A site with every kind of page: links, redirects, some to what is denied, slow bodies, and 429.
fn page(seen: &Seen) -> Reply {
    let (_, path) = seen.path.split_at(1);
    let (kind, name) = path.split_once('/').unwrap_or_default();
    let (client, number) = name.rsplit_once('-').unwrap_or_default();
    let number: u64 = number.parse().unwrap_or_default();
    match kind {
        "page" => {
            let next = number + 1;
            let mut links = format!("<a href=/page/{client}-{next}>next</a>");
            for kind in ["redirect", "private", "out", "slow", "busy"] {
                links.push_str(&format!("<a href=/{kind}/{client}-{number}>{kind}</a>"));
            }
            Reply::html(links)
        }
        "redirect" => Reply::redirect(302, &format!("/page/{client}-r{number}")),
        // Not the URL of the link beside it: Scrapy asks for each URL once.
        "out" => Reply::redirect(301, &format!("/private/{client}-o{number}")),
        "slow" => {
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 4\r\n\r\nsl";
            Reply::raw(vec![Step::send(head), Step::Sleep(Duration::from_millis(300)), Step::send("ow")])
        }
        // The first of each client: every one of them keeps all others waiting.
        "busy" if number == 0 => Reply::retry_after(429, 1),
        _ => Reply::html("<p>x"),
    }
}

/// How long the languages crawl: `ABIDE_CLIENTS_SECONDS`, by default 15.
fn seconds() -> u64 {
    std::env::var("ABIDE_CLIENTS_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(15)
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_of_several_languages_share_a_host() {
    let directory = crate::directory();
    let (ready, missing): (Vec<_>, Vec<_>) =
        languages(directory.path()).into_iter().partition(|language| language.command.is_some());
    for language in missing {
        if language.is_required {
            skip(language.name);
        }
    }
    if ready.len() < 2 {
        return;
    }
    let site = Server::with_rules(RULES, page).await;
    let serve = Serving::start(&site, &format!("--delay {}ms", DELAY.as_millis()));
    let origin = format!("http://{}", site.address());
    let crawls: Vec<(&str, Child)> = ready
        .into_iter()
        .filter_map(|Language { name, command, .. }| {
            let mut command = command?;
            command
                .env("SITE", &origin)
                .env("ABIDE_SERVER", &serve.base)
                .env("SECONDS", seconds().to_string());
            command.env("SECONDS_LONG", seconds().to_string());
            command.env("ABIDE_USER_AGENT", format!("ExampleBot-{name}/1.0")).env_remove("ABIDE_TOKEN");
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
            Some((name, command.spawn().expect("the client runs")))
        })
        .collect();
    let mut figures = Vec::new();
    for (name, child) in crawls {
        let ended = crate::blocking(move || child.wait_with_output().expect("the client ends")).await;
        let [out, err] =
            [&ended.stdout, &ended.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
        assert!(ended.status.success() && !err.contains("Traceback"), "{name}: {out}{err}");
        let has = |line: &str| out.lines().any(|found| found == line);
        for line in ["page 200", "redirect 200", "private denied", "out denied", "slow 200"] {
            assert!(has(line), "{name}: {line} is not in {out}{err}");
        }
        // Each denial is one before the request.
        assert!(!out.lines().any(|line| line == "private 200" || line == "out 200"), "{name}: {out}");
        figures.push((name, out.lines().count()));
    }
    let log = site.log();
    let brackets: Vec<&str> =
        log.iter().map(|seen| seen.path.as_str()).filter(|path| path.contains("brackets")).collect();
    let has_shell = figures.iter().any(|(name, _)| *name == "shell");
    assert_eq!(brackets, vec!["/{page,private}/brackets-1"; usize::from(has_shell)], "a permit, a request");
    let denied: Vec<&Seen> = log.iter().filter(|seen| seen.path.starts_with("/private/")).collect();
    assert!(denied.is_empty(), "{denied:?}");
    let pairs = log.windows(2).zip(delays(&log));
    let short: Vec<_> = pairs.filter(|(_, delay)| *delay < DELAY).collect();
    assert!(short.is_empty(), "{short:#?}");
    let backed_off =
        log.windows(2).filter(|pair| pair[0].path.starts_with("/busy/") && pair[0].path.ends_with("-0"));
    let mut backoffs = 0;
    for pair in backed_off {
        let delay = pair[1].at.saturating_duration_since(pair[0].answered);
        assert!(delay >= Duration::from_secs(1), "{delay:?} after {}", pair[0].path);
        backoffs += 1;
    }
    assert!(backoffs > 0, "a 429 was among them");
    for (name, _) in &figures {
        let agent = format!("ExampleBot-{name}/1.0");
        assert!(
            log.iter().any(|seen| seen.header("user-agent") == Some(&agent)),
            "{name} has requested pages"
        );
    }
    let shortest = delays(&log).min().unwrap_or_default();
    println!(
        "{} s, {figures:?}: {} requests, shortest delay {shortest:?} of {DELAY:?}, {backoffs} backoffs, 0 denied",
        seconds(),
        log.len()
    );
}

/// A client that holds a permit or waits for one, as a process of its own.
fn hold(serve: &Serving, url: &str, ttl_ms: u64) -> Child {
    let mut command = Command::new(python());
    command.arg(drivers().join("hold.py")).env("PYTHONPATH", clients().join("python"));
    command.env("PYTHONDONTWRITEBYTECODE", "1").env("ABIDE_SERVER", &serve.base).env_remove("ABIDE_TOKEN");
    command.env("URL", url).env("TTL", ttl_ms.to_string());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("python runs")
}

#[tokio::test]
async fn killed_clients_free_their_hosts() {
    if !runs(&python(), &["--version"]) {
        return skip("Python");
    }
    let site = site().await;
    let serve = Serving::start(&site, "");
    let url = url(&site, "a.example/x");
    // With a permit: the host goes on after the ttl.
    let asked = Instant::now();
    let mut holder = hold(&serve, &url, 1_500);
    let said = BufReader::new(holder.stdout.take().expect("it is piped"));
    // The site lives on this runtime, and must go on meanwhile.
    let line = crate::blocking(|| said.lines().next().expect("it says so").expect("it is UTF-8")).await;
    assert_eq!(line, "granted");
    kill(&mut holder);
    let permit = serve.permit(&url).await;
    assert!(asked.elapsed() >= Duration::from_millis(1_500), "{:?}", asked.elapsed());
    // While it waits: at once, though the permit before it is still open.
    let mut waiting = hold(&serve, &url, 60_000);
    serve.until("a.example", "waiting", json!(1)).await;
    kill(&mut waiting);
    serve.until("a.example", "waiting", json!(0)).await;
    assert_eq!(serve.get("/v1/hosts/a.example").await["in_flight"], 1);
    serve.post("/v1/finish", json!({ "permit": permit, "status": 200 })).await;
}

#[test]
fn clients_are_short_and_say_how_to_use_them() {
    let mut files = 0;
    for language in
        std::fs::read_dir(clients()).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir())
    {
        for file in std::fs::read_dir(&language).unwrap().map(|entry| entry.unwrap().path()) {
            let Ok(text) = std::fs::read_to_string(&file) else { continue };
            let lines_max = if file.ends_with("README.md") { 5 } else { 60 };
            assert!(text.lines().count() <= lines_max, "{}", file.display());
            files += 1;
        }
    }
    assert!(files >= 13, "{files}");
}
